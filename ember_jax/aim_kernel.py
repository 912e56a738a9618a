"""Where policies send people, in a tile of lanes: the fast form of `ember_jax.policies` (contract section 13).

A policy here answers with a code of directions for every person, a bit each for north, south, east and west,
and the first or a drawn one of them is taken. The policies that look for ways around the fire have modules of
their own: `ember_jax.fire_aware_kernel` and `ember_jax.congestion_kernel`.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from ember_jax.board_kernel import bits_at
from ember_jax.fire_kernel import FireSize
from ember_jax.movement_kernel import People, bit_of, each, row_of, with_row
from ember_jax.route_kernel import DIRECTIONS, offsets
from ember_jax.stream import GOLDEN_GAMMA, MIX_STEPS


def first_target(ground: Any, code: Array, cell: Array) -> Array:
    """Return the neighbour in the first direction of a code, the cell itself for none: uint32[L]."""
    target = cell
    for direction in reversed(range(DIRECTIONS)):
        there = (code >> jnp.uint32(direction)) & jnp.uint32(1) != jnp.uint32(0)
        target = jnp.where(there, cell + offsets(ground)[direction], target)
    return target


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
