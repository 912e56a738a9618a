"""The fire: one step, and the fire world of a whole horizon (contract section 4).

The plain form: dense over cells, every draw addressed by its position in the stream. It composes with
`jit` and `vmap`; `fire_worlds` is the entry point for a batch of seeds.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from ember_jax.grid import EAST, NORTH, SOUTH, WEST, shifted
from ember_jax.stream import FIRE, Uint64, advance, join, split, stream_seed, succeeds, word
from ember_jax.world import World, WorldSize, world_from_scenario
from ember_ref.fire import NEVER
from ember_ref.fire import FireWorld as FireWorldData
from ember_ref.scenario import Scenario


class FireWorld(NamedTuple):
    """The whole fire of one `(scenario, seed)`."""

    ignition_step: Array
    """uint32[R, C]: 0 for the ignitions, `NEVER` where nothing burns by `max_steps`."""
    stream_position: Uint64
    """Words consumed after step `max_steps`."""


def candidates(world: World, burning: Array) -> Array:
    """Return the cells that can ignite next to `burning`: bool[R, C]."""
    near = functools.reduce(jnp.logical_or, _burning_neighbours(burning))
    flammable = world.floor & (~jnp.asarray(world.exit_cells) | world.exits_flammable)
    return near & flammable & ~burning


def ignitions(world: World, burning: Array, step: ArrayLike, seed: Uint64, position: Uint64) -> tuple[Array, Uint64]:
    """Return the cells that ignite in a step, and the position of the stream after it.

    Args:
        world: the scenario.
        burning: bool[R, C], the burning set of snapshot `step - 1`.
        step: int32[], the number of the step, from 1.
        seed: the seed of the fire's stream (not the evaluator seed).
        position: words consumed before the step.

    Returns:
        bool[R, C], and the next position.
    """
    spreads = jnp.asarray(step, dtype=jnp.int32) % world.spread_interval == 0
    open_to_fire = candidates(world, burning) & spreads
    # The draws of a cell lie after those of all cells before it in row-major order, one a burning neighbour.
    neighbours = [near & open_to_fire for near in _burning_neighbours(burning)]
    counts = [near.astype(jnp.uint32) for near in neighbours]
    of_cell = functools.reduce(jnp.add, counts)
    before = jnp.cumsum(of_cell.reshape(-1), dtype=jnp.uint32).reshape(of_cell.shape) - of_cell
    success = jnp.zeros_like(burning)
    for near, count in zip(neighbours, counts, strict=True):
        success |= near & succeeds(word(seed, advance(position, before)), world.threshold)
        before = before + count
    drawn = jnp.where(world.stochastic, jnp.sum(of_cell, dtype=jnp.uint32), jnp.uint32(0))
    return jnp.where(world.stochastic, success, open_to_fire), advance(position, drawn)


def fire_world(world: World, seed: Uint64) -> FireWorld:
    """Run the fire for the whole horizon, under a seed of the fire's stream."""
    start = jnp.where(world.ignitions, jnp.uint32(0), jnp.uint32(NEVER))
    last = world.max_steps // world.spread_interval

    def spreads(carry: tuple[Array, Array, Uint64]) -> Array:
        trip, step_of, _ = carry
        return (trip <= last) & jnp.any(candidates(world, step_of != jnp.uint32(NEVER)))

    def spread(carry: tuple[Array, Array, Uint64]) -> tuple[Array, Array, Uint64]:
        trip, step_of, position = carry
        step = trip * world.spread_interval
        ignited, position = ignitions(world, step_of != jnp.uint32(NEVER), step, seed, position)
        return trip + jnp.int32(1), jnp.where(ignited, step.astype(jnp.uint32), step_of), position

    zero = Uint64(jnp.uint32(0), jnp.uint32(0))
    _, ignition_step, position = jax.lax.while_loop(spreads, spread, (jnp.int32(1), start, zero))
    return FireWorld(ignition_step=ignition_step, stream_position=position)


class FireWorlds(NamedTuple):
    """The fires of one scenario under many seeds, on the host."""

    ignition_step: np.ndarray
    """uint32[N, height, width]."""
    stream_position: np.ndarray
    """uint64[N]."""

    @property
    def burned(self) -> np.ndarray:
        """int64[N]: cells with an ignition step, the ignitions included."""
        counts: np.ndarray = np.count_nonzero(self.ignition_step != NEVER, axis=(1, 2))
        return counts


def fire_worlds(
    scenario: Scenario, seeds: ArrayLike, *, size: WorldSize | None = None, tile: int | None = None
) -> FireWorlds:
    """Run the fire of a scenario under each of many 64-bit seeds.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host.
        size: the padded size; the scenario's own without it.
        tile: seeds that are computed at once; chosen from N and the size without it.
    """
    world = world_from_scenario(scenario, size=size)
    seeds = np.asarray(seeds, dtype=np.uint64)
    tile = batch_tile(world.size, len(seeds)) if tile is None else tile
    height, width = scenario.grid.height, scenario.grid.width
    steps = np.empty((len(seeds), height, width), dtype=np.uint32)
    positions = np.empty(len(seeds), dtype=np.uint64)
    for at, batch in tiles(seeds, tile):
        fires = _fire_worlds(world, *split(batch))
        count = min(tile, len(seeds) - at)
        steps[at : at + count] = np.asarray(fires.ignition_step)[:count, :height, :width]
        positions[at : at + count] = join(*fires.stream_position)[:count]
    return FireWorlds(ignition_step=steps, stream_position=positions)


def tiles(seeds: np.ndarray, tile: int) -> list[tuple[int, np.ndarray]]:
    """Cut seeds into batches of one size, the last one filled up by repeating its last seed."""
    starts = range(0, len(seeds), tile)
    batches = [seeds[at : at + tile] for at in starts]
    return [
        (at, np.concatenate([batch, np.repeat(batch[-1:], tile - len(batch))]))
        for at, batch in zip(starts, batches, strict=True)
    ]


def batch_tile(size: WorldSize, count: int) -> int:
    """Return how many seeds to compute at once: few sizes, at most about 64 MiB for one array of a step."""
    most = max(1, (1 << 24) // (size.rows * size.cols + size.people * size.people))
    return next(tile for tile in (256, 16, 1) if tile == 1 or (tile <= most and count > tile // 16))


@jax.jit
def _fire_worlds(world: World, seed_hi: Array, seed_lo: Array) -> FireWorld:
    seeds = stream_seed(FIRE, seed_hi, seed_lo)
    return jax.vmap(fire_world, in_axes=(None, 0))(world, seeds)


def _burning_neighbours(burning: Array) -> list[Array]:
    return [shifted(burning, direction, outside=False) for direction in (NORTH, SOUTH, EAST, WEST)]


def padded_steps(fires: FireWorlds, size: WorldSize) -> np.ndarray:
    """Return ignition steps in a padded size: uint32[N, R, C], `NEVER` in the padding."""
    steps = fires.ignition_step
    padded = np.full((len(steps), size.rows, size.cols), NEVER, dtype=np.uint32)
    padded[:, : steps.shape[1], : steps.shape[2]] = steps
    return padded


def world_of(scenario: Scenario, seed: int, fires: FireWorlds, place: int) -> FireWorldData:
    """Return one fire of a batch as the oracle's data, which knows its digest."""
    return FireWorldData(
        content_hash=scenario.content_hash,
        seed=seed,
        max_steps=scenario.termination.max_steps,
        height=scenario.grid.height,
        width=scenario.grid.width,
        ignition_step=tuple(fires.ignition_step[place].reshape(-1).tolist()),
        stream_position=int(fires.stream_position[place]),
    )
