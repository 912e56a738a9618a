"""Privileged references by backward induction over whole layers of cells (contract section 8, scoring section 3).

The plain twin: one layer of L, M and D from the next, dense over cells, batched over seeds with `jax.vmap`; the
horizon is data. `references` digests the tables block by block as they are made and keeps none; `tables` keeps
them; `first_layers` keeps snapshot 0 only. `ember_jax.references_kernel` is the fast form for people's values.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from ember_jax.fire import FireWorlds, batch_tile, padded_steps, tiles
from ember_jax.fire_kernel import fire_summaries, fire_worlds
from ember_jax.grid import EAST, NORTH, SOUTH, WEST, shifted
from ember_jax.table_digest import finished, start_digests, take_layers
from ember_jax.world import World, WorldSize, padded_size, world_from_scenario
from ember_ref.fire import NEVER
from ember_ref.memory import require_memory
from ember_ref.references import HAZARD_RADIUS, TABLES, PersonReference, References
from ember_ref.scenario import Scenario

BLOCK: Final = 32
"""Layers that a call hands out at a time."""
_MOST_BLOCK_BYTES: Final = 1 << 27


class Layer(NamedTuple):
    """The three tables at one snapshot; `NEVER` where no escape exists."""

    earliest: Array
    """uint32[R, C]: L, the earliest evacuation step."""
    moves: Array
    """uint32[R, C]: M, the fewest moves of an escape."""
    danger: Array
    """uint32[R, C]: D, the fewest danger states of an escape."""


class Hazard(NamedTuple):
    """The fire world, as far as a person alone meets it."""

    ignition_step: Array
    """uint32[R, C]."""
    danger_from: Array
    """uint32[R, C]: the least ignition step within the hazard radius, walls ignored."""


class Tables(NamedTuple):
    """The tables of every snapshot, kept: uint32[N, H + 1, height, width] each."""

    earliest: np.ndarray
    moves: np.ndarray
    danger: np.ndarray


def hazard(ignition_step: Array) -> Hazard:
    """Return the fire world of one seed with the first step of danger of every cell."""
    nearest = ignition_step
    for _ in range(HAZARD_RADIUS):
        nearest = functools.reduce(jnp.minimum, _around(nearest), nearest)
    return Hazard(ignition_step=ignition_step, danger_from=nearest)


def last_layer(world: World) -> Layer:
    """Return the layer at the horizon, where nothing has a successor."""
    return Layer(*(jnp.full(world.floor.shape, NEVER, dtype=jnp.uint32) for _ in TABLES))


def layer_before(world: World, fire: Hazard, step: Array, after: Layer) -> Layer:
    """Return the layer at `step` from the one at `step + 1`.

    Args:
        world: the scenario.
        fire: the fire world.
        step: int32[], below the horizon.
        after: the layer at `step + 1`.
    """
    now = step.astype(jnp.uint32)
    exits, alive = _open_exits(world, fire.ignition_step, now), _alive(world, fire.ignition_step, now)
    moves = functools.reduce(jnp.minimum, _around(jnp.where(exits, jnp.uint32(0), after.moves)))
    danger = functools.reduce(jnp.minimum, _around(jnp.where(exits, jnp.uint32(0), after.danger)))
    here = (fire.danger_from <= now).astype(jnp.uint32)
    best_moves = jnp.minimum(after.moves, _plus(moves, jnp.uint32(1)))
    best_danger = _plus(jnp.minimum(after.danger, danger), here)
    return Layer(
        earliest=earliest_before(world, fire.ignition_step, step, after.earliest),
        moves=jnp.where(alive, best_moves, jnp.uint32(NEVER)),
        danger=jnp.where(alive, best_danger, jnp.uint32(NEVER)),
    )


def earliest_before(world: World, ignition_step: Array, step: Array, after: Array) -> Array:
    """Return L at `step`, uint32[R, C], from L at `step + 1` (see `layer_before`)."""
    now = step.astype(jnp.uint32)
    # What a move to a cell leads to: at an exit the end; elsewhere the state there, which has a value only
    # where the cell outlives the step.
    entered = jnp.where(_open_exits(world, ignition_step, now), now + jnp.uint32(1), after)
    best = functools.reduce(jnp.minimum, _around(entered), after)
    return jnp.where(_alive(world, ignition_step, now), best, jnp.uint32(NEVER))


def block_before(world: World, fire: Hazard, top: Array, after: Layer, *, length: int) -> tuple[Layer, Layer]:
    """Return some layers below one, the lowest alone and all stacked.

    Args:
        world: the scenario.
        fire: the fire world.
        top: int32[], the snapshot of `after`.
        after: the layer at `top`.
        length: how many layers (static).

    Returns:
        The lowest layer, and the layers at `top - 1`, `top - 2`, …, stacked; below snapshot 0 they are repeated.
    """

    def one(layer: Layer, down: Array) -> tuple[Layer, Layer]:
        step = top - down
        new = layer_before(world, fire, step, layer)
        kept = Layer(*(jnp.where(step >= 0, a, b) for a, b in zip(new, layer, strict=True)))
        return kept, kept

    lowest, layers = jax.lax.scan(one, after, jnp.arange(1, length + 1, dtype=jnp.int32))
    return lowest, layers


def first_layer(world: World, fire: Hazard) -> Layer:
    """Return the layer at snapshot 0, keeping no other."""

    def one(down: Array, layer: Layer) -> Layer:
        return layer_before(world, fire, world.max_steps - down, layer)

    layer: Layer = jax.lax.fori_loop(jnp.int32(1), world.max_steps + jnp.int32(1), one, last_layer(world))
    return layer


def first_layers(
    scenario: Scenario, seeds: ArrayLike, *, size: WorldSize | None = None, tile: int | None = None
) -> Iterator[tuple[FireWorlds, Layer]]:
    """Yield the fires and the layers at snapshot 0 of many seeds, a batch at a time, in order.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host.
        size: the padded size; the scenario's own without it.
        tile: seeds that are computed at once; chosen from N and the size without it.

    Yields:
        The fires, and host arrays uint32[n, height, width].
    """
    size = padded_size(scenario) if size is None else size
    world = world_from_scenario(scenario, size=size)
    seeds = np.asarray(seeds, dtype=np.uint64)
    tile = batch_tile(size, len(seeds)) if tile is None else tile
    height, width = scenario.grid.height, scenario.grid.width
    for at, batch in tiles(seeds, tile):
        count = min(tile, len(seeds) - at)
        fires = fire_worlds(scenario, batch)
        layer = _first_layers(world, padded_steps(fires, size))
        cut = _cut(layer, (slice(count), slice(height), slice(width)))
        yield FireWorlds(fires.ignition_step[:count], fires.stream_position[:count]), cut


def layers(scenario: Scenario, seeds: ArrayLike, *, size: WorldSize | None = None) -> Iterator[tuple[int, Layer]]:
    """Yield the tables of a batch of seeds from the horizon down, the order of the induction.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host; all are computed at once.
        size: the padded size; the scenario's own without it.

    Yields:
        The snapshot, and host arrays uint32[N, height, width].
    """
    seeds = np.asarray(seeds, dtype=np.uint64)
    yield from _layers(scenario, fire_worlds(scenario, seeds), size)


def tables(scenario: Scenario, seeds: ArrayLike, *, size: WorldSize | None = None) -> Tables:
    """Return the tables of every snapshot, kept whole.

    Raises:
        MemoryLimitError: before anything is computed, when they do not fit in memory.
    """
    seeds = np.asarray(seeds, dtype=np.uint64)
    height, width, horizon = scenario.grid.height, scenario.grid.width, scenario.termination.max_steps
    shape = (len(seeds), horizon + 1, height, width)
    require_memory(
        4 * len(TABLES) * int(np.prod(shape, dtype=object)),
        what=f"tables of {scenario.id} ({height} x {width} cells, {horizon} steps) of {len(seeds)} seeds, kept,",
        instead="take fewer seeds, or `references`, `first_layers` or `layers`, which keep no table",
    )
    kept = Tables(*(np.empty(shape, dtype=np.uint32) for _ in TABLES))
    for step, layer in layers(scenario, seeds, size=size):
        for whole, table in zip(kept, layer, strict=True):
            whole[:, step] = table
    return kept


def references(scenario: Scenario, seeds: ArrayLike, *, size: WorldSize | None = None) -> Iterator[References]:
    """Yield the references of many seeds, in order; all digests are taken on the device, and no table is kept."""
    seeds = np.asarray(seeds, dtype=np.uint64)
    padded = padded_size(scenario) if size is None else size
    layer_bytes = 4 * len(TABLES) * BLOCK * padded.rows * padded.cols
    batch = max(1, min(64, _MOST_BLOCK_BYTES // layer_bytes))
    for at in range(0, len(seeds), batch):
        part = seeds[at : at + batch]
        yield from _references(scenario, part, padded)


def _references(scenario: Scenario, seeds: np.ndarray, size: WorldSize) -> Iterator[References]:
    """Yield the references of seeds that are computed at once."""
    worlds = fire_summaries(scenario, seeds, digests=True)
    windows = _windows(scenario, fire_worlds(scenario, seeds), size)
    _, layer, stacked = next(windows)
    lanes = stacked.earliest.shape[0]
    filled = [*seeds.tolist(), *[0] * (lanes - len(seeds))]
    digests = start_digests(scenario, [name for name in TABLES for _ in filled], filled * len(TABLES))
    top, count = scenario.termination.max_steps, 1
    while True:
        digests = take_layers(digests, jnp.concatenate(stacked), count, scenario, last=top == 0)
        if top == 0:
            break
        count = min(BLOCK, top)
        top, layer, stacked = next(windows)
    of_table = np.array(finished(digests)).reshape(len(TABLES), lanes)
    people = _cut(layer, (slice(len(seeds)), slice(scenario.grid.height), slice(scenario.grid.width)))
    for place, seed in enumerate(seeds.tolist()):
        yield References(
            scenario_hash=scenario.content_hash,
            seed=seed,
            horizon=scenario.termination.max_steps,
            fire_world_digest=bytes(np.asarray(worlds.digest)[place]).hex(),
            table_digests=dict(zip(TABLES, of_table[:, place].tolist(), strict=True)),
            people=_people(scenario, people, place),
        )


def _windows(scenario: Scenario, fires: FireWorlds, size: WorldSize) -> Iterator[tuple[int, Any, Any]]:
    """Yield the lowest snapshot of a window of layers, that layer, and all of them stacked downward.

    Arrays are padded in number to a power of two, so that few batch sizes are compiled. The first window is the
    horizon alone, the last one goes on below snapshot 0.
    """
    world = world_from_scenario(scenario, size=size)
    count = len(fires.ignition_step)
    lanes = 1 << max(0, count - 1).bit_length()
    steps = np.full((lanes, size.rows, size.cols), NEVER, dtype=np.uint32)
    steps[:count] = padded_steps(fires, size)
    fire = _hazards(steps)
    top = scenario.termination.max_steps
    layer: Any = Layer(*[cast("Any", np.full(steps.shape, NEVER, dtype=np.uint32)) for _ in TABLES])
    yield top, layer, Layer(*(table[:, None] for table in layer))
    while top > 0:
        layer, stacked = _blocks(world, fire, np.asarray(top, dtype=np.int32), layer)
        top = max(0, top - BLOCK)
        yield top, layer, stacked


def _layers(scenario: Scenario, fires: FireWorlds, size: WorldSize | None) -> Iterator[tuple[int, Any]]:
    count, height, width = len(fires.ignition_step), scenario.grid.height, scenario.grid.width
    above = scenario.termination.max_steps + 1
    for lowest, _, stacked in _windows(scenario, fires, padded_size(scenario) if size is None else size):
        host = _cut(stacked, (slice(count), slice(None), slice(height), slice(width)))
        for down in range(above - lowest):
            yield above - 1 - down, _cut(host, (slice(None), down))
        above = lowest


def _cut(layer: Layer, place: tuple[Any, ...]) -> Any:
    """Return a part of the tables as host arrays."""
    tables: list[Any] = [np.asarray(table)[place] for table in layer]
    return Layer(*tables)


def _people(scenario: Scenario, layer: Any, place: int) -> tuple[PersonReference, ...]:
    def value(table: np.ndarray, cell: tuple[int, int]) -> int | None:
        found = int(table[place][cell])
        return None if found == NEVER else found

    return tuple(
        PersonReference(
            id=person.id,
            earliest_evacuation=value(layer.earliest, person.position),
            fewest_moves=value(layer.moves, person.position),
            fewest_danger_states=value(layer.danger, person.position),
        )
        for person in scenario.people
    )


def _open_exits(world: World, ignition_step: Array, now: Array) -> Array:
    return jnp.asarray(world.exit_cells) & (ignition_step > now)


def _alive(world: World, ignition_step: Array, now: Array) -> Array:
    return jnp.asarray(world.floor) & ~jnp.asarray(world.exit_cells) & (ignition_step > now)


def _around(cells: Array) -> list[Array]:
    return [shifted(cells, direction, outside=np.uint32(NEVER)) for direction in (NORTH, SOUTH, EAST, WEST)]


def _plus(values: Array, more: Array) -> Array:
    return jnp.where(values == jnp.uint32(NEVER), jnp.uint32(NEVER), values + more)


@jax.jit
def _hazards(ignition_step: Array) -> Hazard:
    return jax.vmap(hazard)(ignition_step)


@jax.jit
def _blocks(world: World, fire: Hazard, top: Array, after: Layer) -> tuple[Layer, Layer]:
    def one(fire: Hazard, layer: Layer) -> tuple[Layer, Layer]:
        return block_before(world, fire, top, layer, length=BLOCK)

    return jax.vmap(one)(fire, after)


@jax.jit
def _first_layers(world: World, ignition_step: Array) -> Layer:
    return jax.vmap(lambda steps: first_layer(world, hazard(steps)))(ignition_step)
