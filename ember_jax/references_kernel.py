"""Privileged references of many seeds, batch-explicit: what people could have done (contract section 8).

For every person the earliest evacuation step, the fewest moves and the fewest danger states from the start,
by backward induction over whole layers of cells, without keeping the tables. Cells lie row-major with one
column of padding a row, in the smallest integers that hold the horizon; the last axis is a part of a tile of
seeds. Three observations make a layer cheap: L relative to t stands still where the fire does; one array of
ignition steps answers "alive" for cells and exits alike; one of the least ignition step within Manhattan
distance 2 answers "in danger". Exits hold 0, so a move to one needs no case.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from ember_jax.fire_kernel import (
    Fire,
    FireSize,
    Terrain,
    bounded,
    digest,
    fire_size,
    fold,
    fold_max,
    padded_seeds,
    repeat_if,
    run_fire,
    spread_numbers,
    terrain,
)
from ember_jax.kernel import LANES, Kernel, run_batches, seeds_of_a_call
from ember_ref.fire import NEVER
from ember_ref.scenario import Scenario

CHUNK: Final = 16  # cells that a trip takes at a time
_CACHE: Final = 1 << 20  # bytes that all arrays of a part should not exceed by much
WALL, OPEN, EXIT, MARGIN = 0, 1, 2, 3

Tables = tuple[Array, Array, Array]
"""A layer of L relative to t, M and D: integers [margin + N + margin, lanes], all ones where no escape exists."""


class ReferenceSize(NamedTuple):
    """What sets the shapes of the kernel, and so the compilation."""

    fire: FireSize
    cells: int
    """Padded cells N, a column of padding a row included."""
    margin: int
    """Cells of padding on both sides."""
    people: int
    """Padded people P."""
    bits: int
    """Bits of a value."""
    lanes: int
    """Seeds of a part."""


class Ground(NamedTuple):
    """The terrain and people of one scenario; host arrays."""

    fire: Terrain
    kind: np.ndarray
    """uint8[N]: wall, open, exit, or the padding after a row."""
    source: np.ndarray
    """int32[N]: the index of the cell in the grid, 0 for padding."""
    stride: np.ndarray
    """int32[]: cells from one row to the next."""
    chunks: np.ndarray
    """int32[]: chunks that hold cells."""
    horizon: np.ndarray
    """int32[]: `max_steps`."""
    person: np.ndarray
    """int32[P]: where each person starts among the N cells."""


class ReferenceSummaries(NamedTuple):
    """References of the people of one scenario under many seeds, on the host; `NEVER` where infinite."""

    earliest_evacuation: np.ndarray
    """uint32[N, P]: `L_i`."""
    fewest_moves: np.ndarray
    """uint32[N, P]: `m*_i`."""
    fewest_danger_states: np.ndarray
    """uint32[N, P]: `D*_i`."""
    burned: np.ndarray
    """uint32[N]: cells with an ignition step."""
    stream_position: np.ndarray
    """uint64[N]: of the fire's stream at the end."""
    digest: np.ndarray | None
    """uint8[N, 32]: fire-world digests; `None` when they were not asked for."""

    @property
    def max_evacuated(self) -> np.ndarray:
        """int64[N]: `M*`, people with an escape."""
        counts: np.ndarray = np.count_nonzero(self.earliest_evacuation != NEVER, axis=1)
        return counts


def reference_summaries(
    scenario: Scenario, seeds: ArrayLike, *, digests: bool = False, threads: int | None = None
) -> ReferenceSummaries:
    """Return the references of everyone under each of many 64-bit seeds, without keeping the tables.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host.
        digests: whether to hash every fire world (on the device).
        threads: calls at a time; all cores without it.
    """
    count, people = len(np.asarray(seeds)), len(scenario.people)
    values = np.empty((3, count, people), dtype=np.uint32)
    burned = np.empty(count, dtype=np.uint32)
    positions = np.empty(count, dtype=np.uint64)
    hashes = np.empty((count, 8), dtype=">u4") if digests else None
    for at, part in _run(scenario, seeds, digests, threads):
        end = at + len(part["burned"])
        values[:, at:end] = part["values"][:, :, :people].swapaxes(0, 1)
        burned[at:end], positions[at:end] = part["burned"], part["stream_position"]
        if hashes is not None:
            hashes[at:end] = part["digest"]
    return ReferenceSummaries(
        earliest_evacuation=values[0],
        fewest_moves=values[1],
        fewest_danger_states=values[2],
        burned=burned,
        stream_position=positions,
        digest=None if hashes is None else hashes.view(np.uint8),
    )


def reference_size(scenario: Scenario) -> ReferenceSize:
    """Return the padded size of a scenario's references; few sizes, so that scenarios share compilations."""
    height, width = scenario.grid.height, scenario.grid.width
    cells = 512
    while cells < height * (width + 1) + CHUNK:
        cells *= 2
    margin = next(margin for margin in (32, 64, 128, 528) if margin > width + 1)
    horizon = scenario.termination.max_steps
    bits = 8 if horizon < 2**8 - 1 else 16 if horizon < 2**16 - 1 else 32
    lanes = LANES
    while lanes > 32 and 8 * height * (width + 1) * lanes * bits // 8 > 2 * _CACHE:
        lanes //= 2
    return ReferenceSize(
        fire=fire_size(scenario),
        cells=cells,
        margin=margin,
        people=max(4, 1 << (len(scenario.people) - 1).bit_length()),
        bits=bits,
        lanes=lanes,
    )


def reference_ground(scenario: Scenario, size: ReferenceSize) -> Ground:
    """Lay a scenario's cells and people out for the kernel."""
    height, width = scenario.grid.height, scenario.grid.width
    stride = width + 1
    kind = np.full((height, stride), MARGIN, dtype=np.uint8)
    kind[:, :width] = OPEN
    for cell in scenario.grid.obstacles:
        kind[cell] = WALL
    for exit in scenario.exits:
        kind[exit.position] = EXIT
    source = np.zeros((height, stride), dtype=np.int32)
    source[:, :width] = np.arange(height * width, dtype=np.int32).reshape(height, width)
    used = height * stride
    starts = [row * stride + col for row, col in (person.position for person in scenario.people)]
    person = np.zeros(size.people, dtype=np.int32)
    person[: len(starts)] = starts
    return Ground(
        fire=terrain(scenario, size.fire),
        kind=np.pad(kind.reshape(-1), (0, size.cells - used), constant_values=MARGIN),
        source=np.pad(source.reshape(-1), (0, size.cells - used)),
        stride=np.asarray(stride, dtype=np.int32),
        chunks=np.asarray(-(-used // CHUNK), dtype=np.int32),
        horizon=np.asarray(scenario.termination.max_steps, dtype=np.int32),
        person=person,
    )


class Burning(NamedTuple):
    """When cells stop to be of use, of a part of a tile."""

    alive_until: Array
    """[margin + N + margin, lanes]: a cell is alive at t when this is greater: the ignition step; one more
    for exits, which count one step longer; 0 for walls and padding; all ones for never."""
    danger_from: Array
    """[margin + N + margin, lanes]: the least ignition step within Manhattan distance 2."""
    last: Array
    """int32[]: the last step in which anything ignites."""


def run_references(ground: Any, size: ReferenceSize, fire: Fire) -> Array:
    """Return L, M and D of every person at step 0: uint32[3, P, L]."""

    def part(at: Array) -> Array:
        lanes = at * jnp.int32(size.lanes)
        mine = Fire(
            burned=lax.dynamic_slice_in_dim(fire.burned, lanes, size.lanes, axis=1),
            planes=lax.dynamic_slice_in_dim(fire.planes, lanes, size.lanes, axis=2),
            stream_position=fire.stream_position,
        )
        burning = burning_of(ground, size, mine)
        return _starts(ground, size, _induce(ground, size, burning))

    parts = lax.map(part, lax.iota(jnp.int32, LANES // size.lanes))
    return jnp.moveaxis(parts, 0, 2).reshape(3, size.people, LANES)


def _starts(ground: Any, size: ReferenceSize, tables: Tables) -> Array:
    def one(person: Array) -> Array:
        at = ground.person[person] + jnp.int32(size.margin)
        return jnp.stack([lax.dynamic_index_in_dim(table, at, keepdims=False) for table in tables])

    values = lax.map(one, lax.iota(jnp.int32, size.people)).swapaxes(0, 1)
    never = values == jnp.asarray(infinite_value(size), dtype=values.dtype)
    return jnp.where(never, jnp.uint32(NEVER), values.astype(jnp.uint32))


# The fire as times


def burning_of(ground: Any, size: ReferenceSize, fire: Fire) -> Burning:
    """Write out when cells stop to be of use."""
    dtype, most = value_type(size), infinite_value(size)
    shape = (size.cells + 2 * size.margin, size.lanes)
    planes = spread_numbers(fire)

    def cell(at: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        ignition, alive, latest = carry
        kind, source = ground.kind[at], ground.source[at]
        word, bit = source >> jnp.int32(5), bounded(source.astype(jnp.uint32))
        number = jnp.zeros(size.lanes, dtype=jnp.uint32)
        for index in range(planes.shape[0]):
            plane = lax.dynamic_index_in_dim(planes[index], word, keepdims=False)
            number = number | (((plane >> bit) & jnp.uint32(1)) << jnp.uint32(index))
        burned = (lax.dynamic_index_in_dim(fire.burned, word, keepdims=False) >> bit) & jnp.uint32(1)
        burns = (burned != jnp.uint32(0)) & (kind != jnp.uint8(MARGIN))
        never = jnp.uint32(most)
        step = jnp.where(burns, number * ground.fire.interval, never)
        until = jnp.where(kind == jnp.uint8(EXIT), jnp.minimum(step, never - jnp.uint32(1)) + jnp.uint32(1), step)
        closed = (kind == jnp.uint8(WALL)) | (kind == jnp.uint8(MARGIN))
        until = jnp.where(closed, jnp.uint32(0), until)
        place = (at + jnp.int32(size.margin), jnp.int32(0))
        return (
            lax.dynamic_update_slice(ignition, step.astype(dtype)[None], place),
            lax.dynamic_update_slice(alive, until.astype(dtype)[None], place),
            jnp.maximum(latest, jnp.where(burns, step, jnp.uint32(0))),
        )

    nowhere = jnp.full(shape, most, dtype=dtype)
    start = (nowhere, jnp.zeros(shape, dtype=dtype), jnp.zeros(size.lanes, dtype=jnp.uint32))
    cells = ground.chunks * jnp.int32(CHUNK)
    ignition, alive, latest = lax.fori_loop(jnp.int32(0), cells, cell, start)

    def least(inside_only: bool, times: Array) -> Array:
        """Return the least time of every cell and its neighbours."""

        def chunk(index: Array, result: Array) -> Array:
            at = index * jnp.int32(CHUNK)
            value = least_around(ground, size, times, at, cells_at(size, times, at))
            if inside_only:
                margin = of_chunk(ground.kind, at) == jnp.uint8(MARGIN)
                value = jnp.where(margin, jnp.asarray(most, dtype=dtype), value)
            return put_cells(size, result, value, at)

        result: Array = lax.fori_loop(jnp.int32(0), ground.chunks, chunk, nowhere)
        return result

    # Twice a distance of 1: some way of two steps between two cells lies inside the grid.
    near = least(False, least(True, ignition))
    return Burning(alive_until=alive, danger_from=near, last=fold_max(latest).astype(jnp.int32))


def value_type(size: ReferenceSize) -> Any:
    """Return the dtype of values."""
    return {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[size.bits]


def infinite_value(size: ReferenceSize) -> int:
    """Return the value that stands for never: all ones."""
    return (1 << size.bits) - 1


# Cells in chunks


def cells_at(size: ReferenceSize, cells: Array, at: Array) -> Array:
    """Return a chunk of cells: [16, lanes]."""
    return lax.dynamic_slice(cells, (at + jnp.int32(size.margin), jnp.int32(0)), (CHUNK, size.lanes))


def put_cells(size: ReferenceSize, cells: Array, chunk: Array, at: Array) -> Array:
    """Write a chunk of cells."""
    return lax.dynamic_update_slice(cells, chunk, (at + jnp.int32(size.margin), jnp.int32(0)))


def of_chunk(per_cell: Array, at: Array) -> Array:
    """Return what a chunk's cells have in common to all lanes: [16, 1]."""
    return lax.dynamic_slice(per_cell, (at,), (CHUNK,))[:, None]


def least_around(ground: Any, size: ReferenceSize, cells: Array, at: Array, least: Array) -> Array:
    """Return the minimum of `least` and the four neighbours of a chunk's cells."""
    one = jnp.int32(1)
    for place in (at - ground.stride, at + ground.stride, at + one, at - one):
        least = jnp.minimum(least, cells_at(size, cells, place))
    return least


# The induction


def _induce(ground: Any, size: ReferenceSize, burning: Burning) -> Tables:
    """Return the tables at t = 0."""
    dtype, most = value_type(size), infinite_value(size)
    shape = (size.cells + 2 * size.margin, size.lanes)
    horizon = ground.horizon
    none = jnp.full(shape, most, dtype=dtype)

    # Layers are made two at a time and the last one is t = 0. The first pair starts from layer H, where only
    # exits have a value, when H is even, and from nothing, one layer above, when it is odd.
    def top(index: Array, cells: Array) -> Array:
        at = index * jnp.int32(CHUNK)
        exit = (of_chunk(ground.kind, at) == jnp.uint8(EXIT)) & (horizon % jnp.int32(2) == jnp.int32(0))
        alive = cells_at(size, burning.alive_until, at) > horizon.astype(dtype)
        return put_cells(size, cells, jnp.where(exit & alive, jnp.asarray(0, dtype), jnp.asarray(most, dtype)), at)

    first = lax.fori_loop(jnp.int32(0), ground.chunks, top, none)
    start = (horizon - jnp.int32(1) + horizon % jnp.int32(2), (first, first, first), (none, none, none))

    def two_layers(carry: tuple[Array, Tables, Tables]) -> tuple[Array, Tables, Tables]:
        t, even, odd = carry
        odd = _layer(ground, size, burning, t, even, odd)
        even = _layer(ground, size, burning, t - jnp.int32(1), odd, even)
        # Above the last ignition all layers follow from the next by one rule: equal ones stay equal.
        after = t - jnp.int32(2)
        still = (t - jnp.int32(2) > burning.last) & ((t & jnp.int32(7)) == jnp.int32(1))
        unlike = repeat_if(still, lambda _: differs(ground, size, even, odd), jnp.int32(1))
        settled = burning.last + jnp.int32(1) - (burning.last & jnp.int32(1))
        return jnp.where(unlike == jnp.int32(0), jnp.minimum(after, settled), after), even, odd

    _, even, _ = lax.while_loop(lambda carry: carry[0] >= jnp.int32(0), two_layers, start)
    return even


def _layer(ground: Any, size: ReferenceSize, burning: Burning, t: Array, after: Tables, into: Tables) -> Tables:
    """Return the layer at t from the one at t + 1, written over `into`."""
    dtype, most = value_type(size), infinite_value(size)
    one, infinite = jnp.asarray(1, dtype), jnp.asarray(most, dtype)
    now = t.astype(dtype)

    def more(value: Array, by: Array) -> Array:
        return jnp.minimum(value, infinite - by) + by

    def chunk(index: Array, into: Tables) -> Tables:
        at = index * jnp.int32(CHUNK)
        alive = cells_at(size, burning.alive_until, at) > now
        exits = jnp.where(of_chunk(ground.kind, at) == jnp.uint8(EXIT), jnp.asarray(0, dtype), infinite)
        danger = (cells_at(size, burning.danger_from, at) <= now).astype(dtype)

        def settle(value: Array) -> Array:
            return jnp.where(alive, value & exits, infinite)

        stays = [cells_at(size, table, at) for table in after]
        earliest = more(least_around(ground, size, after[0], at, stays[0]), one)
        moved = more(least_around(ground, size, after[1], at, infinite), one)
        least = more(least_around(ground, size, after[2], at, stays[2]), danger)
        values = (earliest, jnp.minimum(moved, stays[1]), least)
        lasting = [put_cells(size, table, settle(value), at) for table, value in zip(into, values, strict=True)]
        return lasting[0], lasting[1], lasting[2]

    result: Tables = lax.fori_loop(jnp.int32(0), ground.chunks, chunk, into)
    return result


def differs(ground: Any, size: ReferenceSize, left: Any, right: Any) -> Array:
    """Return 0 when two arrays of cells, or all of two tuples of them, are equal: int32[]."""
    pairs = list(zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True))

    def chunk(index: Array, bits: Array) -> Array:
        at = index * jnp.int32(CHUNK)
        unlike = [cells_at(size, one, at) ^ cells_at(size, other, at) for one, other in pairs]
        return bits | fold(jnp.bitwise_or, functools.reduce(jnp.bitwise_or, unlike))

    none = jnp.zeros(size.lanes, dtype=pairs[0][0].dtype)
    found = fold_max(lax.fori_loop(jnp.int32(0), ground.chunks, chunk, none))
    return (found != jnp.zeros_like(found)).astype(jnp.int32)


# Calls


class _Static(NamedTuple):
    size: ReferenceSize
    digests: bool


def _call(static: _Static, ground: Any, count: Array, seed_hi: Array, seed_lo: Array) -> dict[str, Array]:
    size = static.size

    def tile(arguments: tuple[Array, Array, Array]) -> dict[str, Array]:
        index, hi, lo = arguments
        # Tiles beyond the seeds of the call have no steps.
        steps = jnp.where(index < count, ground.horizon, jnp.int32(0))
        spreads = jnp.where(index < count, ground.fire.spreads, jnp.int32(0))
        fire_ground = ground.fire._replace(spreads=spreads)
        mine = ground._replace(fire=fire_ground, horizon=steps)
        fire = run_fire(fire_ground, size.fire, hi, lo)
        result = {
            "values": run_references(mine, size, fire).transpose(2, 0, 1),
            "burned": jnp.sum(lax.population_count(fire.burned), axis=0, dtype=jnp.uint32),
            "stream_position": fire.stream_position,
        }
        return result | ({"digest": digest(fire_ground, fire, hi, lo).T} if static.digests else {})

    index = lax.iota(jnp.int32, size.fire.tiles)
    results: dict[str, Array] = lax.map(tile, (index, seed_hi, seed_lo))
    return results


_REFERENCES: Final = Kernel(_call)


def _run(
    scenario: Scenario, seeds: ArrayLike, digests: bool, threads: int | None
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    size = reference_size(scenario)
    static = _Static(size, digests)
    ground = reference_ground(scenario, size)
    seeds = np.asarray(seeds, dtype=np.uint64)
    tiles = size.fire.tiles
    per_call = seeds_of_a_call(len(seeds), tiles * LANES, threads)

    def call(at: int) -> tuple[int, dict[str, np.ndarray]]:
        hi, lo = padded_seeds(seeds[at : at + per_call], tiles)
        number = min(per_call, len(seeds) - at)
        parts = _REFERENCES(static, ground, np.asarray(-(-number // LANES), dtype=np.int32), hi, lo)
        return at, {name: part.reshape(-1, *part.shape[2:])[:number] for name, part in parts.items()}

    _REFERENCES.compile(static, ground, np.int32(0), *padded_seeds(seeds[:0], tiles))
    yield from run_batches(call, range(0, len(seeds), per_call), threads=threads)
