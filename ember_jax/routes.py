"""Route invalidations of a whole window of snapshots at once (contract section 10, scoring section 4.2).

A bit of a word is a snapshot: one flood through the grid, word by word, walks back from the exits in 32
snapshots at a time, since a cell is passable in a first run of them and burning from then on. A way grew
from one snapshot to the next where, at some number of moves, the flood of the first has come and that of
the second has not.
"""

import functools
from typing import Final

import jax
import jax.numpy as jnp
from jax import Array

from ember_jax.grid import EAST, NORTH, SOUTH, WEST, shifted
from ember_jax.world import World

WINDOW: Final = 31
"""Snapshots of a word; one more bit holds the snapshot before them."""


def longer_ways(world: World, ignition_step: Array, first: Array) -> Array:
    """Return where the way to an exit grew or vanished: uint32[R, C].

    Args:
        world: the scenario.
        ignition_step: uint32[R, C], the fire world.
        first: int32[], the first snapshot of the window.

    Returns:
        Bit k of a cell tells of snapshot `first + k`, k from 0 to 30, against the one before it. A bit at a
        burning cell, at snapshot 0 or beyond the horizon means nothing.
    """
    passable = jnp.where(world.floor, _until(ignition_step, first), jnp.uint32(0))
    start = jnp.where(world.exit_cells, passable, jnp.uint32(0))

    def longer(reached: Array) -> Array:
        bits: Array = (reached << jnp.uint32(1)) & ~reached
        return bits

    def widen(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        reached, grew, _ = carry
        around = [shifted(reached, direction, outside=jnp.uint32(0)) for direction in (NORTH, SOUTH, EAST, WEST)]
        wider = functools.reduce(jnp.bitwise_or, around, reached) & passable
        return wider, grew | longer(wider), jnp.any(wider != reached)

    carry = (start, longer(start), jnp.bool_(True))
    grew: Array
    _, grew, _ = jax.lax.while_loop(lambda carry: carry[2], widen, carry)
    # Bit 0 is the snapshot before the window.
    events: Array = grew >> jnp.uint32(1)
    return events


def _until(ignition_step: Array, first: Array) -> Array:
    """Return the word of a cell that is passable from the snapshot before `first` until it ignites."""
    before = first - jnp.int32(1)
    latest = jnp.minimum(ignition_step, jnp.uint32(2**30)).astype(jnp.int32)
    snapshots = jnp.clip(latest - before, jnp.int32(0), jnp.int32(32)).astype(jnp.uint32)
    low = (jnp.uint32(1) << jnp.minimum(snapshots, jnp.uint32(31))) - jnp.uint32(1)
    return jnp.where(snapshots == jnp.uint32(32), jnp.uint32(0xFFFFFFFF), low)
