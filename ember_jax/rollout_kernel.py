"""Rollouts of the static and the fire-aware policies, batch-explicit: the fast form of `ember_jax.rollout`.

Fire and people of a tile of 128 seeds step together, and a tile ends when nobody is active in any lane; on
request its fires then run on to the horizon. People lie in ID order, [people, lanes]. Claimed and occupied
cells are found by comparing everybody with everybody into bit masks over people, one integer a lane; who
moves is the least fixpoint of "moves when nobody unmoved holds my target and no lower ID claims it", swept in
ID order until no lane changes, so a closed chain never moves (contract section 5, R1 to R3).

Ways around the fire come from floods over boards of cells: three sets by distance modulo 3, each updated in
place from the one before it. A flood stops when everybody who is not trapped is reached or it stands still.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from ember_jax.fire_kernel import (
    FireSize,
    FireState,
    Terrain,
    bounded,
    finish_fire,
    fire_size,
    fold_max,
    pack,
    padded_seeds,
    put_rows,
    repeat_if,
    rows_at,
    spread,
    spreads_on,
    start_fire,
    terrain,
)
from ember_jax.kernel import LANES, Kernel, run_batches
from ember_jax.simulator import ACTIVE, ALL_RESOLVED, CASUALTY, ENTERED_FIRE, EVACUATED, FIRE_SPREAD, MAX_STEPS
from ember_ref.scenario import EnterFire, Scenario

STATIC_POLICIES: Final = ("always-stay-v1", "static-shortest-path-v1")
"""The policies whose actions depend on nothing but the map."""
FIRE_AWARE: Final = "fire-aware-shortest-path-v1"
POLICIES: Final = (*STATIC_POLICIES, FIRE_AWARE)
"""The policies that have a form here."""
MOST_PEOPLE: Final = 64
"""People that a mask holds; more need the plain form."""

_ON_EXIT: Final = 1 << 31
_SELECTED_WORDS: Final = 32  # up to so many words a look-up by selection beats one by address

_Carry = TypeVar("_Carry")


class RolloutSize(NamedTuple):
    """What sets the shapes of the kernel, and so the compilation."""

    fire: FireSize
    people: int
    """Padded people P."""
    whole_fire: bool
    """Whether fires run on to the horizon after the people."""
    fire_aware: bool
    """Whether ways are found anew in every step, around the fire, or given by the map."""


class Ground(NamedTuple):
    """The terrain, people and way of one scenario; host arrays. N = 32 W cells, row-major."""

    fire: Terrain
    floor: np.ndarray
    """uint32[W]: open cells, exits included."""
    exits: np.ndarray
    """uint32[W]: exits."""
    width: np.ndarray
    """uint32[]: cells from one row to the next."""
    way: np.ndarray
    """uint32[N]: where the policy sends a person from each cell, the cell itself for `stay`; plus `_ON_EXIT`
    on exits."""
    person: np.ndarray
    """uint32[P]: where each person starts."""
    people: np.ndarray
    """uint64[]: a bit for every real person."""
    horizon: np.ndarray
    """int32[]: `max_steps`."""
    fire_blocks: np.ndarray
    """uint32[]: all ones when a move into fire is refused."""


class RolloutSummaries(NamedTuple):
    """What became of everybody under each of many seeds, on the host; P people in ID order."""

    steps: np.ndarray
    """int32[N]: steps of the episode."""
    termination: np.ndarray
    """int32[N]: `ALL_RESOLVED` or `MAX_STEPS` of `ember_jax.simulator`."""
    status: np.ndarray
    """int32[N, P]: `ACTIVE` (stranded), `EVACUATED` or `CASUALTY`."""
    resolution_step: np.ndarray
    """int32[N, P]: the step in which a person left or was lost; 0 when stranded."""
    exit_index: np.ndarray
    """int32[N, P]: the exit used, -1 for none."""
    cause: np.ndarray
    """int32[N, P]: the casualty cause."""
    cells_moved: np.ndarray
    """int32[N, P]: outcomes `moved`."""
    burned: np.ndarray | None
    """uint32[N]: cells that burn by the horizon; `None` when fires end with the people."""
    stream_position: np.ndarray | None
    """uint64[N]: of the fire's stream after the horizon; `None` when fires end with the people."""


def supports(scenario: Scenario, policy: str) -> bool:
    """Tell whether the kernel has a form for a scenario and a policy."""
    return policy in POLICIES and len(scenario.people) <= MOST_PEOPLE


def rollout_summaries(
    scenario: Scenario,
    seeds: ArrayLike,
    policy: str,
    *,
    whole_fire: bool = False,
    threads: int | None = None,
) -> RolloutSummaries:
    """Run a policy under each of many 64-bit seeds.

    Args:
        scenario: the scenario, with at most `MOST_PEOPLE` people.
        seeds: uint64[N] on the host.
        policy: one of `POLICIES`.
        whole_fire: whether to run every fire to the horizon, for the columns of its world.
        threads: calls at a time; all cores without it.
    """
    people = len(scenario.people)
    parts = [part for _, part in _run(scenario, seeds, policy, whole_fire, threads)]

    def all_of(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.concatenate([np.empty((0, *shape), dtype), *(part[name] for part in parts)]).astype(dtype)

    cell, step, status, moved = (
        all_of(name, (people,), np.int32) for name in ("cell", "resolution_step", "status", "cells_moved")
    )
    exit_of = np.full(32 * fire_size(scenario).words, -1, dtype=np.int32)
    for index, exit in enumerate(scenario.exits):
        exit_of[exit.position[0] * scenario.grid.width + exit.position[1]] = index
    active = np.any(status == ACTIVE, axis=1)
    horizon = scenario.termination.max_steps
    lost = status > EVACUATED
    return RolloutSummaries(
        steps=np.where(active, horizon, step.max(axis=1)).astype(np.int32),
        termination=np.where(active, MAX_STEPS, ALL_RESOLVED).astype(np.int32),
        status=np.where(lost, CASUALTY, status).astype(np.int32),
        resolution_step=step,
        exit_index=np.where(status == EVACUATED, exit_of[cell], -1).astype(np.int32),
        cause=np.where(lost, status - _CAUSE, 0).astype(np.int32),
        cells_moved=moved,
        burned=all_of("burned", (), np.uint32) if whole_fire else None,
        stream_position=all_of("stream_position", (), np.uint64) if whole_fire else None,
    )


_CAUSE: Final = 8
"""In the kernel the status of a casualty is its cause plus this."""


def rollout_size(scenario: Scenario, policy: str, *, whole_fire: bool) -> RolloutSize:
    """Return the padded size of a scenario's rollouts; few sizes, so that scenarios share compilations."""
    people = next(most for most in (8, 20, 32, MOST_PEOPLE) if most >= len(scenario.people))
    return RolloutSize(
        fire=fire_size(scenario), people=people, whole_fire=whole_fire, fire_aware=policy == FIRE_AWARE
    )


def rollout_ground(scenario: Scenario, size: RolloutSize, policy: str) -> Ground:
    """Lay a scenario and a policy's way out for the kernel."""
    width, cells = scenario.grid.width, 32 * size.fire.words
    next_cell = np.arange(cells, dtype=np.uint32)
    if policy == "static-shortest-path-v1":
        for cell, target in _static_way(scenario).items():
            next_cell[cell[0] * width + cell[1]] = target[0] * width + target[1]
    for row, col in (exit.position for exit in scenario.exits):
        next_cell[row * width + col] |= _ON_EXIT
    person = np.zeros(size.people, dtype=np.uint32)
    person[: len(scenario.people)] = [
        row * width + col for row, col in (person.position for person in scenario.people)
    ]
    floor = np.ones((scenario.grid.height, width), dtype=np.bool_)
    for obstacle in scenario.grid.obstacles:
        floor[obstacle] = False
    exits = np.zeros_like(floor)
    for exit in scenario.exits:
        exits[exit.position] = True
    blocks = scenario.movement.enter_fire is EnterFire.BLOCKED
    return Ground(
        fire=terrain(scenario, size.fire),
        floor=pack(floor, size.fire.words),
        exits=pack(exits, size.fire.words),
        width=np.asarray(width, dtype=np.uint32),
        way=next_cell,
        person=person,
        people=np.asarray((1 << len(scenario.people)) - 1, dtype=np.uint64),
        horizon=np.asarray(scenario.termination.max_steps, dtype=np.int32),
        fire_blocks=np.asarray(-blocks & 0xFFFFFFFF, dtype=np.uint32),
    )


def _static_way(scenario: Scenario) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the first neighbour nearer to the nearest exit, of every cell that has one (section 13)."""
    grid = scenario.grid
    distance = {exit.position: 0 for exit in scenario.exits}
    queue = deque(distance)
    while queue:
        cell = queue.popleft()
        for row, col in _around(cell):
            inside = 0 <= row < grid.height and 0 <= col < grid.width
            if inside and (row, col) not in distance and (row, col) not in grid.obstacles:
                distance[row, col] = distance[cell] + 1
                queue.append((row, col))
    return {
        cell: next(near for near in _around(cell) if distance.get(near) == steps - 1)
        for cell, steps in distance.items()
        if steps
    }


def _around(cell: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    row, col = cell
    return ((row - 1, col), (row + 1, col), (row, col + 1), (row, col - 1))


# A tile of episodes


class _People(NamedTuple):
    """Everybody of a tile; M is the unsigned integer that holds a bit for each of P people."""

    cell: Array
    """uint32[P, L]: where a person is, or was resolved."""
    way: Array
    """uint32[P, L]: `Ground.way` there."""
    active: Array
    """M[L]."""
    trapped: Array
    """M[L]: people that a fire-aware policy found without a way; fire never gives one back."""
    evacuated: Array
    """M[L]."""
    entered_fire: Array
    """M[L]: casualties of this cause; the others are `FIRE_SPREAD`."""
    resolution_step: Array
    """int32[P, L]."""
    cells_moved: Array
    """int32[P, L]."""


class Flood(NamedTuple):
    """Distances to the nearest exit that does not burn, as sets of cells; boards are padded as the fire's."""

    levels: tuple[Array, Array, Array]
    """uint32[margin + W + margin, L], each: cells at a distance of 0, 1, 2 modulo 3."""
    ways: tuple[Array, Array, Array]
    """uint32[margin + W + margin, L], each: cells with a way, and two bits of its direction: north 0, south 1,
    east 2, west 3."""
    people: Array
    """uint32[W, L]: cells of people who may have a way."""
    trips: Array
    """int32[]: trips of three levels that the last flood took."""


class _Scratch(NamedTuple):
    """What one step writes before it reads it; carried, so that it is written once."""

    held_by: Array
    """M[P, L]: the active person on everybody's target."""
    flood: Flood


def _mask_type(size: RolloutSize) -> Any:
    return jnp.uint32 if size.people <= 32 else jnp.uint64


def _any_lane(mask: Array) -> Array:
    """Return the people in the mask of any lane: M[]."""
    while mask.shape[-1] > 1:
        half = mask.shape[-1] // 2
        mask = mask[..., :half] | mask[..., half:]
    only: Array = mask[..., 0]
    return only


def _each(people: Array, function: Callable[[Array, _Carry], _Carry], carry: _Carry) -> _Carry:
    """Apply `function(person, carry)` for every person of a mask that all lanes share, in ID order."""
    one = jnp.asarray(1, people.dtype)

    def step(state: tuple[Array, _Carry]) -> tuple[Array, _Carry]:
        rest, carry = state
        after = rest & (rest - one)
        return after, function(lax.population_count((rest ^ after) - one).astype(jnp.int32), carry)

    result: tuple[Array, _Carry] = lax.while_loop(
        lambda state: state[0] != jnp.asarray(0, people.dtype), step, (people, carry)
    )
    return result[1]


def _row(rows: Array, person: Array) -> Array:
    row: Array = lax.dynamic_index_in_dim(rows, person, keepdims=False)
    return row


def _with_row(rows: Array, row: Array, person: Array) -> Array:
    return lax.dynamic_update_slice(rows, row[None], (person, jnp.int32(0)))


def _bit(mask: Array, person: Array) -> Array:
    """Return a person's bit of a mask in every lane: M[L], 0 or 1."""
    return jnp.bitwise_and(mask >> person.astype(mask.dtype), jnp.asarray(1, mask.dtype))


def _target(way: Array) -> Array:
    return jnp.bitwise_and(way, jnp.uint32(_ON_EXIT - 1))


def _at_cell(size: RolloutSize, board: Array, cell: Array) -> Array:
    """Return the bit of a padded board at every lane's cell, 0 or 1: uint32[L]."""
    word = cell >> jnp.uint32(5)
    if size.fire.words <= _SELECTED_WORDS:
        margin = size.fire.margin
        rows = [board[margin + index] for index in range(size.fire.words)]
        bit = 0
        while len(rows) > 1:
            odd = (word >> jnp.uint32(bit)) & jnp.uint32(1) != jnp.uint32(0)
            rows = [jnp.where(odd, high, low) for low, high in zip(rows[::2], rows[1::2], strict=True)]
            bit += 1
        found = rows[0]
    else:
        row = word.astype(jnp.int32) + jnp.int32(size.fire.margin)
        index = row * jnp.int32(LANES) + lax.iota(jnp.int32, LANES)
        found = board.reshape(-1).at[index].get(mode="promise_in_bounds")
    bit_there: Array = (found >> (cell & jnp.uint32(31))) & jnp.uint32(1)
    return bit_there


def _on_fire(size: RolloutSize, fire: FireState, present: Array, cell: Array, active: Array) -> Array:
    """Return who is on a burning cell, among those active: M[L]. `cell` is uint32[P, L]."""

    def look(person: Array, mask: Array) -> Array:
        burns = _at_cell(size, fire.burning, _row(cell, person)).astype(mask.dtype)
        return mask | (burns << person.astype(mask.dtype))

    return active & _each(present, look, jnp.zeros_like(active))


def _movers(ground: Any, size: RolloutSize, fire: FireState, present: Array, people: _People) -> Array:
    """Return who is left after the static refusals: M[L]. A way leads to open cells only."""

    def look(person: Array, mask: Array) -> Array:
        goes = (_target(_row(people.way, person)) != _row(people.cell, person)).astype(mask.dtype)
        return mask | (goes << person.astype(mask.dtype))

    movers = people.active & _each(present, look, jnp.zeros_like(people.active))

    def refuse(movers: Array) -> Array:
        return movers & ~_on_fire(size, fire, present, _target(people.way), people.active)

    return repeat_if(ground.fire_blocks != jnp.uint32(0), refuse, movers)


def _moves(
    size: RolloutSize, present: Array, people: _People, movers: Array, scratch: _Scratch
) -> tuple[Array, _Scratch]:
    """Decide who moves (R1 to R3): M[L]."""
    kind = _mask_type(size)
    one, none = jnp.asarray(1, kind), jnp.asarray(0, kind)

    def claims(person: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        held_by, goes = carry
        mine = _target(_row(people.way, person))
        lower = (one << person.astype(kind)) - one
        holders, rivals = none, none
        for other in range(size.people):
            bit = jnp.asarray(1 << other, kind)
            holders = holders | jnp.where(people.cell[other] == mine, bit, none)
            rivals = rivals | jnp.where(_target(people.way[other]) == mine, bit, none)
        # A loser of a conflict stays, even when the winner does not move.
        wins = (rivals & movers & lower) == none
        mine_goes = jnp.where(wins, _bit(movers, person), none) << person.astype(kind)
        return _with_row(held_by, holders & people.active, person), goes | mine_goes

    held_by, goes = _each(present, claims, (scratch.held_by, jnp.zeros_like(movers)))

    def sweep(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        moved, _ = carry

        def try_one(person: Array, moved: Array) -> Array:
            free = (_row(held_by, person) & ~moved) == none
            return moved | jnp.where(free, _bit(goes, person) << person.astype(kind), none)

        more = _each(present, try_one, moved)
        return more, fold_max(more ^ moved)

    start = (jnp.zeros_like(movers), one)
    moved: Array = lax.while_loop(lambda carry: carry[1] != none, sweep, start)[0]
    return moved, scratch._replace(held_by=held_by)


# Ways around the fire


def empty_flood(size: FireSize) -> Flood:
    """Return boards to write to."""
    board = jnp.zeros((size.words + 2 * size.margin, LANES), dtype=jnp.uint32)
    return Flood(
        levels=(board, board, board),
        ways=(board, board, board),
        people=jnp.zeros((size.words, LANES), dtype=jnp.uint32),
        trips=jnp.int32(0),
    )


def aim(
    ground: Any, size: RolloutSize, fire: FireState, present: Array, people: _People, flood: Flood
) -> tuple[_People, Flood]:
    """Point everybody along the first direction of a shortest way around the fire (sections 10 and 13)."""
    flood = _flood(ground, size, fire, flood._replace(people=_occupied(size, present, people, flood.people)))
    ways = _directions(ground, size, flood)

    def point(person: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        way, trapped = carry
        cell = _row(people.cell, person)
        some, low, high = (_at_cell(size, board, cell) != jnp.uint32(0) for board in ways)
        sideways = jnp.where(low, jnp.uint32(0xFFFFFFFF), jnp.uint32(1))
        along = jnp.where(low, ground.width, jnp.uint32(0) - ground.width)
        step = jnp.where(some, jnp.where(high, sideways, along), jnp.uint32(0))
        none = (~some).astype(trapped.dtype) << person.astype(trapped.dtype)
        return _with_row(way, cell + step, person), trapped | none

    way, trapped = _each(present, point, (people.way, people.trapped))
    return people._replace(way=way, trapped=trapped), flood._replace(ways=ways)


def _occupied(size: RolloutSize, present: Array, people: _People, board: Array) -> Array:
    """Return the cells of active people who are not trapped: uint32[W, L]."""
    word = lax.iota(jnp.uint32, size.fire.words)[:, None]

    def place(person: Array, board: Array) -> Array:
        cell = _row(people.cell, person)
        there = _bit(people.active & ~people.trapped, person).astype(jnp.uint32) << (cell & jnp.uint32(31))
        return board | jnp.where((cell >> jnp.uint32(5))[None] == word, there[None], jnp.uint32(0))

    return _each(present, place, jnp.zeros_like(board))


def _spread_to(ground: Any, size: FireSize, board: Array) -> tuple[Array, Array, Array, Array]:
    """Return the cells whose northern, southern, eastern, western neighbour is on a board: uint32[W, L] each."""
    margin, count, one = jnp.int32(size.margin), size.words, jnp.int32(1)
    bits, rest = bounded(ground.fire.row_bits), bounded(jnp.uint32(31) - ground.fire.row_bits)
    above, below = margin - ground.fire.row_words, margin + ground.fire.row_words

    def at(first: Array) -> Array:
        return rows_at(board, first, count)

    here = at(margin)
    north = (at(above) << bits) | ((at(above - one) >> jnp.uint32(1)) >> rest)
    south = (at(below) >> bits) | ((at(below + one) << jnp.uint32(1)) << rest)
    east = ((here >> jnp.uint32(1)) | (at(margin + one) << jnp.uint32(31))) & ground.fire.has_east[:, None]
    west = ((here << jnp.uint32(1)) | (at(margin - one) >> jnp.uint32(31))) & ground.fire.has_west[:, None]
    return north, south, east, west


def _inside(size: FireSize, board: Array) -> Array:
    return board[size.margin : size.margin + size.words]


def _flood(ground: Any, size: RolloutSize, fire: FireState, flood: Flood) -> Flood:
    """Find the distance of every cell, at least as far as the farthest of the people who have a way.

    Each level is the neighbours of the one before that are in neither of the two sets before it: the
    distances of neighbours differ by at most one, so older members of the sets do no harm.
    """
    margin = jnp.int32(size.fire.margin)
    burning = _inside(size.fire, fire.burning)
    passable = ground.floor[:, None] & ~burning
    sources = ground.exits[:, None] & passable
    start = tuple(
        put_rows(board, first, margin)
        for board, first in zip(
            flood.levels, (sources, jnp.zeros_like(sources), jnp.zeros_like(sources)), strict=True
        )
    )

    def three(levels: tuple[Array, ...]) -> tuple[Array, ...]:
        boards = list(levels)
        for level in (1, 2, 0):
            before, earlier = boards[(level - 1) % 3], boards[(level - 2) % 3]
            north, south, east, west = _spread_to(ground, size.fire, before)
            new = (north | south | east | west) & ground.floor[:, None] & ~burning
            new = new & ~_inside(size.fire, before) & ~_inside(size.fire, earlier)
            boards[level] = put_rows(boards[level], _inside(size.fire, boards[level]) | new, margin)
        return tuple(boards)

    def trip(carry: _Trip) -> _Trip:
        number, levels, _, before = carry
        levels = three(levels)

        def check(_old: tuple[Array, Array]) -> tuple[Array, Array]:
            reached = _inside(size.fire, levels[0] | levels[1] | levels[2])
            cells = jnp.sum(lax.population_count(reached), axis=0, dtype=jnp.uint32)
            missing = fold_max(_over_words(flood.people & ~reached))
            return jnp.minimum(missing, fold_max(cells ^ before)), cells

        # Floods of one step and the next are about equally deep.
        more, cells = repeat_if(number >= flood.trips - jnp.int32(3), check, (jnp.uint32(1), before))
        return number + jnp.int32(1), levels, more, cells

    some = fold_max(_over_words(flood.people))
    trips, levels, _, _ = lax.while_loop(
        lambda carry: carry[2] != jnp.uint32(0),
        trip,
        (jnp.int32(0), start, some, jnp.zeros(LANES, dtype=jnp.uint32)),
    )
    return flood._replace(levels=(levels[0], levels[1], levels[2]), trips=trips)


_Trip = tuple[Array, tuple[Array, ...], Array, Array]


def _over_words(board: Array) -> Array:
    """Return the union over words: uint32[L]."""
    while board.shape[0] > 1:
        half = board.shape[0] // 2
        board = board[:half] | board[half:]
    return board[0]


def _directions(ground: Any, size: RolloutSize, flood: Flood) -> tuple[Array, Array, Array]:
    """Return the ways of all cells (see `Flood.ways`): the first neighbour that is one nearer."""
    near = [jnp.zeros((size.fire.words, LANES), dtype=jnp.uint32)] * 4
    for level in range(3):
        here = _inside(size.fire, flood.levels[level])
        nearer = _spread_to(ground, size.fire, flood.levels[(level - 1) % 3])
        near = [old | (here & there) for old, there in zip(near, nearer, strict=True)]
    north, south, east, west = near
    some = north | south | east | west
    low = ~north & (south | ~east)
    high = ~north & ~south
    margin = jnp.int32(size.fire.margin)
    boards = [put_rows(board, plane, margin) for board, plane in zip(flood.ways, (some, low, high), strict=True)]
    return boards[0], boards[1], boards[2]


_State = tuple[Array, FireState, _People, _Scratch]


def _step(ground: Any, size: RolloutSize, state: _State) -> _State:
    number, fire, people, scratch = state
    present = _any_lane(people.active)
    if size.fire_aware:
        people, flood = aim(ground, size, fire, present, people, scratch.flood)
        scratch = scratch._replace(flood=flood)
    movers = _movers(ground, size, fire, present, people)
    moved, scratch = _moves(size, present, people, movers, scratch)

    def move(person: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        cell, way, count = carry
        goes = _bit(moved, person).astype(jnp.uint32)
        here = jnp.where(goes != jnp.uint32(0), _target(_row(way, person)), _row(cell, person))
        return (
            _with_row(cell, here, person),
            _with_row(way, ground.way.at[here].get(mode="promise_in_bounds"), person),
            _with_row(count, _row(count, person) + goes.astype(jnp.int32), person),
        )

    cell, way, cells_moved = _each(present, move, (people.cell, people.way, people.cells_moved))

    def on_exit(person: Array, mask: Array) -> Array:
        exit = (_row(way, person) & jnp.uint32(_ON_EXIT)) != jnp.uint32(0)
        return jnp.bitwise_or(mask, exit.astype(mask.dtype) << person.astype(mask.dtype))

    before = _on_fire(size, fire, present, cell, people.active)
    evacuated = people.active & _each(present, on_exit, jnp.zeros_like(moved)) & ~before
    due = number.astype(jnp.uint32) % ground.fire.interval == jnp.uint32(0)
    fire = repeat_if(due & spreads_on(ground.fire, fire), lambda fire: spread(ground.fire, size.fire, fire), fire)
    lost = _on_fire(size, fire, present, cell, people.active) & ~evacuated
    resolved = evacuated | lost

    def resolve(person: Array, steps: Array) -> Array:
        mine = _bit(resolved, person) != jnp.asarray(0, resolved.dtype)
        return _with_row(steps, jnp.where(mine, number, _row(steps, person)), person)

    people = _People(
        cell=cell,
        way=way,
        active=people.active & ~resolved,
        trapped=people.trapped,
        evacuated=people.evacuated | evacuated,
        entered_fire=people.entered_fire | (lost & before),
        resolution_step=_each(_any_lane(resolved), resolve, people.resolution_step),
        cells_moved=cells_moved,
    )
    return number + jnp.int32(1), fire, people, scratch


def _episodes(ground: Any, size: RolloutSize, hi: Array, lo: Array) -> tuple[FireState, _People]:
    """Run the episodes of a tile to their ends."""
    kind = _mask_type(size)
    zero = jnp.zeros((size.people, LANES), dtype=jnp.int32)
    nobody = jnp.zeros(LANES, dtype=kind)
    people = _People(
        cell=jnp.broadcast_to(ground.person[:, None], zero.shape),
        way=jnp.broadcast_to(ground.way[ground.person][:, None], zero.shape),
        active=jnp.broadcast_to(ground.people.astype(kind), (LANES,)),
        trapped=nobody,
        evacuated=nobody,
        entered_fire=nobody,
        resolution_step=zero,
        cells_moved=zero,
    )
    scratch = _Scratch(held_by=jnp.zeros((size.people, LANES), dtype=kind), flood=empty_flood(size.fire))
    start = (jnp.int32(1), start_fire(ground.fire, size.fire, hi, lo), people, scratch)
    _, fire, people, _ = lax.while_loop(
        lambda state: (state[0] <= ground.horizon) & (fold_max(state[2].active) != jnp.asarray(0, kind)),
        lambda state: _step(ground, size, state),
        start,
    )
    return fire, people


def _status(size: RolloutSize, people: _People) -> Array:
    """Return `ACTIVE`, `EVACUATED`, or `_CAUSE` plus the cause of a casualty: int32[P, L]."""
    kind = _mask_type(size)
    person = jnp.arange(size.people, dtype=kind)[:, None]
    active, evacuated, entered = (
        ((mask[None] >> person) & jnp.asarray(1, kind)) != jnp.asarray(0, kind)
        for mask in (people.active, people.evacuated, people.entered_fire)
    )
    cause = jnp.where(entered, jnp.int32(ENTERED_FIRE), jnp.int32(FIRE_SPREAD)) + jnp.int32(_CAUSE)
    return jnp.where(active, jnp.int32(ACTIVE), jnp.where(evacuated, jnp.int32(EVACUATED), cause))


# Calls


def _call(size: RolloutSize, ground: Any, count: Array, seed_hi: Array, seed_lo: Array) -> dict[str, Array]:
    def tile(arguments: tuple[Array, Array, Array]) -> dict[str, Array]:
        index, hi, lo = arguments
        # Tiles beyond the seeds of the call have no steps.
        spreads = jnp.where(index < count, ground.fire.spreads, jnp.int32(0))
        horizon = jnp.where(index < count, ground.horizon, jnp.int32(0))
        mine = ground._replace(fire=ground.fire._replace(spreads=spreads), horizon=horizon)
        fire, people = _episodes(mine, size, hi, lo)
        result = {
            "cell": people.cell.T.astype(jnp.int32),
            "status": _status(size, people).T,
            "resolution_step": people.resolution_step.T,
            "cells_moved": people.cells_moved.T,
        }
        if size.whole_fire:
            end = finish_fire(mine.fire, size.fire, fire)
            result["burned"] = jnp.sum(lax.population_count(end.burned), axis=0, dtype=jnp.uint32)
            result["stream_position"] = end.stream_position
        return result

    results: dict[str, Array] = lax.map(tile, (lax.iota(jnp.int32, size.fire.tiles), seed_hi, seed_lo))
    return results


_ROLLOUTS: Final = Kernel(_call)


def _run(
    scenario: Scenario, seeds: ArrayLike, policy: str, whole_fire: bool, threads: int | None
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    size = rollout_size(scenario, policy, whole_fire=whole_fire)
    ground = rollout_ground(scenario, size, policy)
    seeds = np.asarray(seeds, dtype=np.uint64)
    tiles = size.fire.tiles
    per_call = tiles * LANES
    people = len(scenario.people)

    def call(at: int) -> tuple[int, dict[str, np.ndarray]]:
        hi, lo = padded_seeds(seeds[at : at + per_call], tiles)
        number = min(per_call, len(seeds) - at)
        parts = _ROLLOUTS(size, ground, np.asarray(-(-number // LANES), dtype=np.int32), hi, lo)
        flat = {name: part.reshape(per_call, *part.shape[2:])[:number] for name, part in parts.items()}
        return at, {name: part[:, :people] if part.ndim == 2 else part for name, part in flat.items()}

    _ROLLOUTS.compile(size, ground, np.int32(0), *padded_seeds(seeds[:0], tiles))
    yield from run_batches(call, range(0, len(seeds), per_call), threads=threads)
