"""Where policies send people, in a tile of lanes: the fast form of `ember_jax.policies` (contract section 13).

A policy here answers with a code of directions for every person, a bit each for north, south, east and west,
and the first or a drawn one of them is taken. `ember_jax.congestion_kernel` has the one policy in which
people depend on each other.
"""

from typing import Any, Final, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from ember_jax.board_kernel import bits_at, written
from ember_jax.fire_kernel import FireSize
from ember_jax.kernel import LANES
from ember_jax.movement_kernel import People, as_bit, bit_of, each, row_of, with_row
from ember_jax.route_kernel import (
    DIRECTIONS,
    Routes,
    burns_by_lane,
    codes,
    each_group,
    flood,
    group_lanes,
    lazy,
    marked,
    prune,
    restart_routes,
    start_routes,
    touched,
    with_flood,
)
from ember_jax.stream import GOLDEN_GAMMA, MIX_STEPS

_GOAL: Final = 0  # any exit


class Guided(NamedTuple):
    """What the fire-aware policy keeps between steps."""

    routes: Routes
    """Ways to the nearest exit."""
    trapped: Array
    """M[L]: people without a way; fire never gives one back."""


def offsets(ground: Any) -> tuple[Array, Array, Array, Array]:
    """Return what each direction adds to the number of a cell."""
    return jnp.uint32(0) - ground.width, jnp.uint32(ground.width), jnp.uint32(1), jnp.uint32(0xFFFFFFFF)


def first_target(ground: Any, code: Array, cell: Array) -> Array:
    """Return the neighbour in the first direction of a code, the cell itself for none: uint32[L]."""
    target = cell
    for direction in reversed(range(DIRECTIONS)):
        there = (code >> jnp.uint32(direction)) & jnp.uint32(1) != jnp.uint32(0)
        target = jnp.where(there, cell + offsets(ground)[direction], target)
    return target


def start_guided(ground: Any, size: FireSize, people: People) -> Guided:
    """Return what is known at step 0."""
    return Guided(routes=start_routes(ground, size), trapped=jnp.zeros_like(people.active))


def restart_guided(ground: Any, size: FireSize, again: Array, guided: Guided) -> Guided:
    """Return what is known at step 0 in the lanes of `again`, bool[L]."""
    nobody = jnp.zeros_like(guided.trapped)
    return Guided(
        routes=restart_routes(ground, size, again, guided.routes),
        trapped=jnp.where(again, nobody, guided.trapped),
    )


def fire_aware(
    ground: Any, size: FireSize, burning: Array, present: Array, people: People, guided: Guided
) -> tuple[People, Guided]:
    """Point everybody along the first direction of a shortest way around the fire."""
    goal = jnp.int32(_GOAL)
    seeking = people.active & ~guided.trapped
    burns = burns_by_lane(ground, size, burning)
    lanes = group_lanes(size)

    def renew(group: Array, routes: Routes) -> Routes:
        first = group * jnp.int32(lanes)
        cells = lax.dynamic_slice(people.cell, (jnp.int32(0), first), (people.cell.shape[0], lanes))
        mine = lax.dynamic_slice_in_dim(seeking, first, lanes)
        found = flood(ground, size, burns, goal, group, people=_occupied(size, present, cells, mine), planes=0)
        return with_flood(ground, size, found, goal, group, routes)

    routes = guided.routes
    if lazy(size):
        routes = prune(ground, size, burns, goal, routes)
        need = written(
            ground.route.once,
            lambda: _lost(size, present, people.cell, seeking, routes),
            jnp.zeros(LANES, dtype=jnp.uint32),
        )
        routes = each_group(size, marked(size, need), renew, routes)
    else:
        routes = each_group(size, touched(size, routes, burns, goal), renew, routes)

    def point(person: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        target, trapped = carry
        cell = row_of(people.cell, person)
        code = codes(size, routes, goal, cell)
        none = as_bit(code == jnp.uint32(0), person, trapped)
        return with_row(target, first_target(ground, code, cell), person), trapped | none

    target, trapped = each(present, point, (people.target, guided.trapped))
    return people._replace(target=target), Guided(routes=routes, trapped=trapped)


def _lost(size: FireSize, present: Array, cell: Array, seeking: Array, routes: Routes) -> Array:
    """Return 1 in the lanes where somebody's distance has grown: uint32[L]."""

    def look(person: Array, mask: Array) -> Array:
        code = codes(size, routes, jnp.int32(_GOAL), row_of(cell, person))
        return mask | as_bit(code == jnp.uint32(0), person, mask)

    lost = seeking & each(present, look, jnp.zeros_like(seeking))
    return (lost != jnp.asarray(0, lost.dtype)).astype(jnp.uint32)


def _occupied(size: FireSize, present: Array, cells: Array, seeking: Array) -> Array:
    """Return the cells of people who may have a way, in a group of lanes: uint32[W, G]."""
    word = lax.iota(jnp.uint32, size.words)[:, None]

    def place(person: Array, board: Array) -> Array:
        cell = row_of(cells, person)
        there = bit_of(seeking, person).astype(jnp.uint32) << (cell & jnp.uint32(31))
        return board | jnp.where((cell >> jnp.uint32(5))[None] == word, there[None], jnp.uint32(0))

    return each(present, place, jnp.zeros((size.words, cells.shape[1]), dtype=jnp.uint32))


def _open_code(ground: Any, size: FireSize, burning: Array, cell: Array) -> Array:
    """Return the directions of `Ground.choices` whose cell does not burn: uint32[L]."""
    boards = [ground.choices[direction] for direction in range(DIRECTIONS)]
    code = bits_at(size.words, boards, cell)
    for direction, offset in enumerate(offsets(ground)):
        bit = jnp.uint32(1 << direction)
        there = jnp.where(code & bit != jnp.uint32(0), cell + offset, cell)
        burns = bits_at(size.words, [burning], there, margin=size.margin)
        code = code & ~(burns << jnp.uint32(direction))
    return code


def greedy(ground: Any, size: FireSize, burning: Array, present: Array, people: People) -> People:
    """Point everybody nearer to the exit nearest by Manhattan distance."""

    def point(person: Array, target: Array) -> Array:
        cell = row_of(people.cell, person)
        code = _open_code(ground, size, burning, cell)
        return with_row(target, first_target(ground, code, cell), person)

    return people._replace(target=each(present, point, people.target))


def random_legal(
    ground: Any, size: FireSize, burning: Array, present: Array, people: People, stream: Array
) -> tuple[People, Array]:
    """Point everybody in a drawn direction, or nowhere.

    Args:
        ground: the scenario.
        size: the padded size of its fire.
        burning: uint32[margin + W + margin, L].
        present: M[], who is active in any lane.
        people: everybody.
        stream: uint64[L], the state of the policy's SplitMix64 that gives the next word.
    """

    def point(person: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        target, stream = carry
        cell = row_of(people.cell, person)
        code = _open_code(ground, size, burning, cell)
        number = (lax.population_count(code) + jnp.uint32(1)).astype(jnp.uint64)
        choice = (((_mixed(stream) >> jnp.uint64(32)) * number) >> jnp.uint64(32)).astype(jnp.uint32)
        # The choices after `stay` are the bits of the code: drop those before the chosen one.
        for taken in range(1, DIRECTIONS):
            code = jnp.where(choice > jnp.uint32(taken), code & (code - jnp.uint32(1)), code)
        code = jnp.where(choice == jnp.uint32(0), jnp.uint32(0), code)
        drawn = bit_of(people.active, person).astype(jnp.uint64)
        stream = stream + drawn * jnp.asarray(GOLDEN_GAMMA, dtype=jnp.uint64)
        return with_row(target, first_target(ground, code, cell), person), stream

    target, stream = each(present, point, (people.target, stream))
    return people._replace(target=target), stream


def _mixed(state: Array) -> Array:
    for shift, factor in MIX_STEPS:
        state = (state ^ (state >> jnp.uint64(shift))) * jnp.asarray(factor, dtype=jnp.uint64)
    mixed: Array = state ^ (state >> jnp.uint64(31))
    return mixed
