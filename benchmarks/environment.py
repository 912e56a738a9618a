"""The whole step: many environments, every one with its own seed, started again when its episode ends.

Lane n starts with seed first + n; an episode that has ended is replaced by one N seeds later, N the number of
lanes. The actions are drawn once, uniform over all five, so every program makes the same steps.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ember_jax.fire_kernel import fold_max, padded_seeds, repeat_if
from ember_jax.kernel import LANES, Kernel, run_batches
from ember_jax.simulator import ACTIVE, CASUALTY, EVACUATED
from ember_jax.simulator_kernel import EnvironmentSize, environment_ground, environment_size, reset, step
from ember_jax.stream import join
from ember_ref.scenario import Scenario

TILES = 8
"""Tiles of a call."""
STEPS = 32
"""Steps of a call."""
COLUMNS = (
    *("episodes", "evacuated", "casualties", "cells_moved"),  # of ended episodes
    *("steps", "active", "cells", "burning", "stream_position"),  # of the state at the end
)
"""The columns of a lane's result."""


@functools.lru_cache(maxsize=4)
def actions_of(people: int, lanes: int) -> np.ndarray:
    """Return the actions of everybody: int8[STEPS, lanes, people]."""
    generator = np.random.Generator(np.random.PCG64(7))
    return generator.integers(0, 5, size=(STEPS, lanes, people), dtype=np.int8)


def environment_steps(
    scenario: Scenario, first: int, actions: np.ndarray, stride: int, *, threads: int = 1
) -> np.ndarray:
    """Make steps of every lane: uint64[lanes, 9], see `COLUMNS`.

    Args:
        scenario: the scenario.
        first: the seed of lane 0.
        actions: int8[STEPS, lanes, people].
        stride: what an environment's next seed is later.
        threads: calls at a time.
    """
    size = environment_size(scenario)
    ground = environment_ground(scenario, size, wide=True)
    steps, lanes, people = actions.shape
    per_call = TILES * LANES

    def call(at: int) -> np.ndarray:
        number = min(per_call, lanes - at)
        mine = np.zeros((steps, TILES, size.people, LANES), dtype=np.int8)
        part = np.zeros((steps, per_call, people), dtype=np.int8)
        part[:, :number] = actions[:, at : at + number]
        mine[:, :, :people] = part.reshape(steps, TILES, LANES, people).swapaxes(2, 3)
        hi, lo = padded_seeds(np.arange(number, dtype=np.uint64) + np.uint64(first + at), TILES)
        tiles = np.asarray(-(-number // LANES), dtype=np.int32)
        totals, position_hi, position_lo = _STEPS(size, ground, tiles, hi, lo, mine, np.uint32(stride))
        columns = totals.astype(np.uint64).swapaxes(1, 2).reshape(per_call, -1)
        position = join(position_hi, position_lo).reshape(per_call, 1)
        return np.concatenate([columns, position], axis=1)[:number]

    return np.concatenate(list(run_batches(call, range(0, lanes, per_call), threads=threads)))


def _call(
    size: EnvironmentSize, ground: Any, tiles: Array, hi: Array, lo: Array, actions: Array, stride: Array
) -> tuple[Array, Array, Array]:
    def tile(arguments: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array]:
        index, hi, lo, actions = arguments
        return _tile(size, ground, hi, lo, actions, jnp.where(index < tiles, jnp.int32(STEPS), jnp.int32(0)), stride)

    result: tuple[Array, Array, Array] = lax.map(tile, (lax.iota(jnp.int32, TILES), hi, lo, actions.swapaxes(0, 1)))
    return result


_STEPS = Kernel(_call)


def _tile(
    size: EnvironmentSize, ground: Any, hi: Array, lo: Array, actions: Array, steps: Array, stride: Array
) -> tuple[Array, Array, Array]:
    """Make the steps of a tile; return uint32[8, L] and the positions of the streams."""
    none = jnp.zeros(LANES, dtype=jnp.uint32)

    def one(number: Array, carry: Any) -> Any:
        state, moved, hi, lo, ended = carry
        state, events = step(ground, size, state, actions[number])
        moved = moved + jnp.sum(events.moved, axis=0, dtype=jnp.uint32)
        done = state.done

        def start_again(carry: Any) -> Any:
            state, moved, hi, lo, ended = carry
            real = ground.real[:, None]
            counts = [
                jnp.sum(real & (state.status == jnp.int8(code)), axis=0, dtype=jnp.uint32)
                for code in (EVACUATED, CASUALTY)
            ]
            now = jnp.stack([jnp.ones_like(moved), *counts, moved])
            ended = ended + jnp.where(done, now, jnp.uint32(0))
            onward = lo + stride
            hi = jnp.where(done & (onward < lo), hi + jnp.uint32(1), hi)
            lo = jnp.where(done, onward, lo)
            fresh = reset(ground, size, hi, lo)
            state = jax.tree.map(lambda old, new: jnp.where(done, new, old), state, fresh)
            return state, jnp.where(done, jnp.uint32(0), moved), hi, lo, ended

        return repeat_if(fold_max(done.astype(jnp.uint32)) > 0, start_again, (state, moved, hi, lo, ended))

    start = (reset(ground, size, hi, lo), none, hi, lo, jnp.zeros((4, LANES), dtype=jnp.uint32))
    state, _, _, _, ended = lax.fori_loop(jnp.int32(0), steps, one, start)
    active = state.status == jnp.int8(ACTIVE)
    margin = size.fire.margin
    burning = state.burning[margin : margin + size.fire.words]
    end = [
        state.step.astype(jnp.uint32),
        jnp.sum(active, axis=0, dtype=jnp.uint32),
        jnp.sum(jnp.where(active, state.cell, jnp.uint32(0)), axis=0, dtype=jnp.uint32),
        jnp.sum(lax.population_count(burning), axis=0, dtype=jnp.uint32),
    ]
    return jnp.concatenate([ended, jnp.stack(end)]), *state.fire_position
