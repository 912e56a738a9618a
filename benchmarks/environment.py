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

from ember_jax.simulator import CASUALTY, EVACUATED, reset, select, step
from ember_jax.stream import Uint64, join, split
from ember_jax.world import World, WorldSize, world_from_scenario
from ember_ref.scenario import Scenario

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


def environment_steps(scenario: Scenario, first: int, lanes: int, actions: np.ndarray, stride: int) -> np.ndarray:
    """Make `STEPS` steps of every lane: uint64[lanes, 9], see `COLUMNS`; `stride` is the N of this module."""
    size = WorldSize(
        rows=scenario.grid.height, cols=scenario.grid.width, people=len(scenario.people), exits=len(scenario.exits)
    )
    world = world_from_scenario(scenario, size=size)
    hi, lo = split(np.arange(lanes, dtype=np.uint64) + np.uint64(first))
    totals, position = jax.device_get(_run(world, hi, lo, actions, np.uint32(stride)))
    return np.concatenate([totals.astype(np.uint64), join(*position)[:, None]], axis=1)


@jax.jit
def _run(world: World, hi: Array, lo: Array, actions: Array, stride: Array) -> tuple[Array, Uint64]:
    begin = jax.vmap(reset, in_axes=(None, 0, 0))
    zero = jnp.zeros(hi.shape, dtype=jnp.uint32)

    def one(carry: Any, action: Array) -> tuple[Any, None]:
        state, moved, hi, lo, ended = carry
        state, events = jax.vmap(step, in_axes=(None, 0, 0))(world, state, action.astype(jnp.int32))
        status = state.people.status
        moved = moved + jnp.sum(events.movements.outcome == jnp.int32(1), axis=1, dtype=jnp.uint32)
        counts = [jnp.sum(status == jnp.int32(code), axis=1, dtype=jnp.uint32) for code in (EVACUATED, CASUALTY)]
        now = jnp.stack([jnp.ones_like(moved), *counts, moved], axis=1)
        done = state.done
        ended = ended + jnp.where(done[:, None], now, jnp.uint32(0))
        onward = lo + stride
        hi = jnp.where(done & (onward < lo), hi + jnp.uint32(1), hi)
        lo = jnp.where(done, onward, lo)
        state = jax.vmap(select)(done, begin(world, hi, lo), state)
        return (state, jnp.where(done, jnp.uint32(0), moved), hi, lo, ended), None

    start = (begin(world, hi, lo), zero, hi, lo, jnp.zeros((hi.shape[0], 4), dtype=jnp.uint32))
    (state, _, _, _, ended), _ = lax.scan(one, start, actions)
    active = state.people.active
    cells = (state.people.row * world.width + state.people.col).astype(jnp.uint32)
    end = [
        state.step.astype(jnp.uint32),
        jnp.sum(active, axis=1, dtype=jnp.uint32),
        jnp.sum(jnp.where(active, cells, jnp.uint32(0)), axis=1, dtype=jnp.uint32),
        jnp.sum(state.burning, axis=(1, 2), dtype=jnp.uint32),
    ]
    return jnp.concatenate([ended, jnp.stack(end, axis=1)], axis=1), state.fire_position
