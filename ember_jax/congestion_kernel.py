"""The congestion-aware policy in a tile of lanes (contract section 13): exits shared out by distance and load.

Everybody's distance to every exit is kept and moves with the person by one a step, up or down as the ways to
the exit say; `ember_jax.route_kernel` tells when a fire has made it longer. From then on the old distance is
a bound from below. It needs a flood only if the exit could be the nearest one or the one chosen: the load of
an exit is less than the number of people, so an exit that is farther than the nearest one by that many can be
neither. Exits are therefore assigned from exact distances alone.

People are put in order of (least distance, ID) by counting who comes before each. Then they choose one after
another; a choice writes the target of the one before it, because what a trip reads and writes is computed
again wherever it is used.
"""

from typing import Any, Final, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from ember_jax.board_kernel import written
from ember_jax.fire_kernel import FireSize, fold_max
from ember_jax.kernel import LANES
from ember_jax.movement_kernel import People, bit_of, each, row_of, with_row
from ember_jax.route_kernel import (
    DIRECTIONS,
    FAR,
    Routes,
    by_lane,
    codes,
    codes_of_lane,
    distance_at,
    distance_planes,
    each_lane,
    flood,
    marked,
    of_lane,
    offsets,
    prune,
    restart_routes,
    start_routes,
    with_flood,
)

MOST_EXITS: Final = 256
"""Exits that a cost has room for."""

_EXIT_BITS: Final = 4
_STALE: Final = 1 << 12
_DISTANCE_BITS: Final = 13
_CODE: Final = 15
_ID_BITS: Final = 6
_NOBODY: Final = 0xFFFFFFFF
_NOWHERE: Final = 0xFFFFFFFF


class Crowd(NamedTuple):
    """What the policy keeps between steps."""

    routes: Routes
    reach: Array
    """uint32[E, P, L]: the distance to every exit, or a bound from below with `_STALE`, above `_DISTANCE_BITS`;
    in the lowest bits the directions one nearer."""
    cell: Array
    """uint32[P, L]: where people were when `reach` was written."""
    nearest: Array
    """uint32[P, L]: the least exact distance."""
    rank: Array
    """uint32[P, L]: how many people come before a person; `_NOBODY` for who does not choose."""
    load: Array
    """uint32[E, L]: people who chose an exit."""


def start_crowd(ground: Any, size: FireSize) -> Crowd:
    """Return what is known at step 0."""
    distance = jnp.asarray(ground.route.distance)
    goals, people = distance.shape
    cell = jnp.broadcast_to(ground.person[:, None], (people, LANES))
    return Crowd(
        routes=start_routes(ground, size),
        reach=jnp.broadcast_to((distance << jnp.uint32(_DISTANCE_BITS))[:, :, None], (goals, people, LANES)),
        cell=cell,
        nearest=jnp.zeros_like(cell),
        rank=jnp.zeros_like(cell),
        load=jnp.zeros((goals, LANES), dtype=jnp.uint32),
    )


def restart_crowd(ground: Any, size: FireSize, again: Array, crowd: Crowd) -> Crowd:
    """Return what is known at step 0 in the lanes of `again`, bool[L]."""
    distance = jnp.asarray(ground.route.distance)
    return crowd._replace(
        routes=restart_routes(ground, size, again, crowd.routes),
        reach=jnp.where(again, (distance << jnp.uint32(_DISTANCE_BITS))[:, :, None], crowd.reach),
        cell=jnp.where(again, ground.person[:, None], crowd.cell),
    )


def aim(
    ground: Any, size: FireSize, burning: Array, present: Array, people: People, crowd: Crowd
) -> tuple[People, Crowd]:
    """Point everybody to where the policy sends them.

    Args:
        ground: the scenario, with `route` and `fire`.
        size: the padded size of the fire.
        burning: uint32[margin + W + margin, L], before the step.
        present: M[], who is active in any lane.
        people: everybody.
        crowd: what was kept.
    """
    crowd = crowd._replace(nearest=jnp.full_like(crowd.nearest, FAR))
    burns = by_lane(ground, burning)

    def renew(goal: Array) -> Any:
        return lambda lane, crowd: _renew(ground, size, of_lane(burns, lane), goal, lane, present, people, crowd)

    def follow(goal: Array, crowd: Crowd) -> Crowd:
        crowd = crowd._replace(routes=prune(ground, size, burns, goal, crowd.routes))
        crowd = _follow(ground, size, goal, present, people, crowd)
        return crowd._replace(nearest=_nearest(goal, present, crowd))

    def refresh(goal: Array, crowd: Crowd) -> Crowd:
        need = written(
            ground.route.once,
            lambda: _in_doubt(goal, present, people, crowd),
            jnp.zeros(LANES, dtype=jnp.uint32),
        )
        crowd = each_lane(marked(need), renew(goal), crowd)
        return crowd._replace(nearest=_nearest(goal, present, crowd))

    crowd = lax.fori_loop(jnp.int32(0), ground.route.goals, follow, crowd)
    crowd = lax.fori_loop(jnp.int32(0), ground.route.goals, refresh, crowd)
    return _assign(ground, present, people, crowd._replace(cell=people.cell))


def _reach(reach: Array, goal: Array, person: Array) -> Array:
    return lax.dynamic_slice(reach, (goal, person, jnp.int32(0)), (1, 1, LANES))[0, 0]


def _with_reach(reach: Array, row: Array, goal: Array, person: Array) -> Array:
    return lax.dynamic_update_slice(reach, row[None, None], (goal, person, jnp.int32(0)))


def _follow(ground: Any, size: FireSize, goal: Array, present: Array, people: People, crowd: Crowd) -> Crowd:
    """Bring everybody's distance to an exit to where they are now."""

    def one(person: Array, reach: Array) -> Array:
        old = _reach(reach, goal, person)
        here = row_of(people.cell, person)
        stale = old & jnp.uint32(_STALE)
        distance = old >> jnp.uint32(_DISTANCE_BITS)
        gone = here - row_of(crowd.cell, person)
        nearer = ((old >> _direction(ground, gone)) & jnp.uint32(1) != jnp.uint32(0)) | (stale != jnp.uint32(0))
        moved = jnp.where(nearer, distance - jnp.uint32(1), distance + jnp.uint32(1))
        distance = jnp.where((gone == jnp.uint32(0)) | (distance == jnp.uint32(FAR)), distance, moved)
        code = codes(size, crowd.routes, goal, here)
        lost = (code == jnp.uint32(0)) & (distance != jnp.uint32(FAR))
        stale = stale | jnp.where(lost, jnp.uint32(_STALE), jnp.uint32(0))
        return _with_reach(reach, (distance << jnp.uint32(_DISTANCE_BITS)) | stale | code, goal, person)

    return crowd._replace(reach=each(present, one, crowd.reach))


def _nearest(goal: Array, present: Array, crowd: Crowd) -> Array:
    """Return the least exact distances with those to one more exit."""

    def one(person: Array, nearest: Array) -> Array:
        reach = _reach(crowd.reach, goal, person)
        stale = reach & jnp.uint32(_STALE) != jnp.uint32(0)
        exact = jnp.where(stale, jnp.uint32(FAR), reach >> jnp.uint32(_DISTANCE_BITS))
        return with_row(nearest, jnp.minimum(row_of(nearest, person), exact), person)

    return each(present, one, crowd.nearest)


def _direction(ground: Any, gone: Array) -> Array:
    """Return the direction of a step from the difference of its cells: uint32[L]."""
    sideways = jnp.where(gone == jnp.uint32(1), jnp.uint32(2), jnp.uint32(3))
    # On a grid of one column the neighbours north and south are those one cell away.
    north = gone + ground.width == jnp.uint32(0)
    return jnp.where(gone == ground.width, jnp.uint32(1), jnp.where(north, jnp.uint32(0), sideways))


def _in_doubt(goal: Array, present: Array, people: People, crowd: Crowd) -> Array:
    """Return 1 in the lanes where a bound is not enough for somebody: uint32[L]."""
    others = lax.population_count(people.active).astype(jnp.uint32)

    def one(person: Array, need: Array) -> Array:
        reach = _reach(crowd.reach, goal, person)
        matters = reach >> jnp.uint32(_DISTANCE_BITS) < row_of(crowd.nearest, person) + others
        stale = (reach >> jnp.uint32(12)) & bit_of(people.active, person).astype(jnp.uint32)
        return need | jnp.where(matters, stale & jnp.uint32(1), jnp.uint32(0))

    return each(present, one, jnp.zeros(LANES, dtype=jnp.uint32))


def _renew(
    ground: Any,
    size: FireSize,
    burning: Array,
    goal: Array,
    lane: Array,
    present: Array,
    people: People,
    crowd: Crowd,
) -> Crowd:
    """Flood from an exit in one lane."""
    found = flood(ground, size, burning, goal, people=None, planes=distance_planes(size))
    crowd = crowd._replace(routes=with_flood(ground, size, found, goal, lane, crowd.routes))
    cells = lax.dynamic_slice_in_dim(people.cell, lane, 1, axis=1)

    def one(person: Array, reach: Array) -> Array:
        here = row_of(cells, person)
        code = codes_of_lane(size, crowd.routes, goal, lane, here)
        new = (distance_at(size, found, here) << jnp.uint32(_DISTANCE_BITS)) | code
        return lax.dynamic_update_slice(reach, new[None, None], (goal, person, lane))

    return crowd._replace(reach=each(present, one, crowd.reach))


# Who goes where


def _assign(ground: Any, present: Array, people: People, crowd: Crowd) -> tuple[People, Crowd]:
    crowd = crowd._replace(rank=_ranks(present, people, crowd), load=jnp.zeros_like(crowd.load))
    number = people.cell.shape[0]
    nobody = jnp.full(LANES, _NOBODY, dtype=jnp.uint32)

    def of_chooser(rank: Array, row: Any) -> Array:
        """Return a value of the person whose turn it is: uint32[L]; 0 when nobody is left."""
        found = jnp.zeros(LANES, dtype=jnp.uint32)
        for person in range(number):
            found = found | jnp.where(crowd.rank[person] == rank, row(person), jnp.uint32(0))
        return found

    def turn(rank: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        load, taken, before = carry
        # `taken` has everybody's target but the last one's.
        taken = jnp.where(crowd.rank == rank - jnp.uint32(1), before[None], taken)

        def choose(goal: Array, best: Array) -> Array:
            mine = of_chooser(rank, lambda person: _reach(crowd.reach, goal, jnp.int32(person)))
            cost = (mine & ~jnp.uint32(_STALE)) + (row_of(load, goal) << jnp.uint32(_DISTANCE_BITS))
            return jnp.minimum(best, cost | (goal.astype(jnp.uint32) << jnp.uint32(_EXIT_BITS)))

        best = lax.fori_loop(jnp.int32(0), ground.route.goals, choose, nobody)
        goal = (best >> jnp.uint32(_EXIT_BITS)) & jnp.uint32(MOST_EXITS - 1)
        every = lax.iota(jnp.uint32, load.shape[0])[:, None]
        load = load + (every == goal[None]).astype(jnp.uint32)
        cell = written(
            ground.route.once,
            lambda: of_chooser(rank, lambda person: people.cell[person]),
            jnp.zeros(LANES, dtype=jnp.uint32),
        )
        return load, taken, _first_free(ground, best, cell, taken)

    turns = fold_max(
        jnp.max(jnp.where(crowd.rank == jnp.uint32(_NOBODY), jnp.uint32(0), crowd.rank + jnp.uint32(1)), axis=0)
    )
    taken = jnp.full_like(people.cell, _NOWHERE)
    load, taken, last = lax.fori_loop(jnp.uint32(0), turns, turn, (crowd.load, taken, nobody))
    taken = jnp.where(crowd.rank + jnp.uint32(1) == turns, last[None], taken)
    target = jnp.where(taken == jnp.uint32(_NOWHERE), people.cell, taken)
    return people._replace(target=target), crowd._replace(load=load)


def _ranks(present: Array, people: People, crowd: Crowd) -> Array:
    """Return how many choose before each person: uint32[P, L]; `_NOBODY` for who does not choose."""
    number = people.cell.shape[0]

    def key(person: Any) -> Array:
        nearest = row_of(crowd.nearest, person)
        active = bit_of(people.active, person) != jnp.asarray(0, people.active.dtype)
        mine = (nearest << jnp.uint32(_ID_BITS)) | person.astype(jnp.uint32)
        return jnp.where(active & (nearest != jnp.uint32(FAR)), mine, jnp.uint32(_NOBODY))

    def write(person: Array, keys: Array) -> Array:
        return with_row(keys, key(person), person)

    keys = each(present, write, jnp.full_like(crowd.rank, _NOBODY))

    def count(person: Array, ranks: Array) -> Array:
        mine = row_of(keys, person)
        rank = jnp.zeros(LANES, dtype=jnp.uint32)
        for other in range(number):
            rank = rank + (keys[other] < mine).astype(jnp.uint32)
        return with_row(ranks, jnp.where(mine == jnp.uint32(_NOBODY), mine, rank), person)

    return each(present, count, jnp.full_like(crowd.rank, _NOBODY))


def _first_free(ground: Any, choice: Array, cell: Array, taken: Array) -> Array:
    """Return the target in the first direction of a code that nobody has taken: uint32[L], or `_NOWHERE`."""
    target = jnp.full_like(cell, _NOWHERE)
    for direction in reversed(range(DIRECTIONS)):
        there = cell + offsets(ground)[direction]
        free = (choice >> jnp.uint32(direction)) & jnp.uint32(1) != jnp.uint32(0)
        for other in range(taken.shape[0]):
            free = free & (taken[other] != there)
        target = jnp.where(free, there, target)
    return target
