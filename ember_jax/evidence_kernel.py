"""The evidence of many episodes, batch-explicit: the fast form of `ember_jax.evidence` (contract sections 8 to 10).

Cells lie as in `ember_jax.references_kernel`, and the last axis is a part of a tile of seeds. The snapshots of an
episode are walked from the last that matters down to 0, in windows:

- L relative to t is induced layer by layer. It needs no horizon: an escape is one that ends by it.
- Where the way to an exit grows (`ember_jax.routes`) is one flood a window, a bit a snapshot.
- People's first arrivals (`ember_jax.capacity`) are one flood with a bit a person, kept as bit planes of the
  step in Gray code. Where somebody first arrives in the snapshot at hand, L is kept likewise.

A cut then is bit planes all over: the release of everybody at once is the minimum of its cells' planes, those
released in a step are a comparison with it, and sums are counts of bits; nobody is sorted, nothing is looked up.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from ember_jax import evidence as plain
from ember_jax.capacity import CutGroups, cut_groups, padded
from ember_jax.capacity_kernel import (
    TRIPS,
    Arrivals,
    CapacitySize,
    any_around,
    bounds,
    capacity_size,
    first_arrivals,
    lay_out_cuts,
    note_left,
    padded_people,
    soonest,
)
from ember_jax.evidence import Evidence, Ways, joined, policy_ways, record_ways, stack_ways
from ember_jax.fire import padded_steps
from ember_jax.fire_kernel import bounded, fire_size, fire_worlds, padded_seeds, repeat_if, run_fire
from ember_jax.kernel import LANES, Kernel, beside, run_batches, seeds_of_a_call
from ember_jax.references_kernel import (
    CHUNK,
    EXIT,
    MARGIN,
    WALL,
    Burning,
    ReferenceSize,
    burning_of,
    cells_at,
    differs,
    infinite_value,
    least_around,
    of_chunk,
    put_cells,
    reference_ground,
    reference_size,
    run_references,
    value_type,
)
from ember_jax.rollout import prepared
from ember_jax.rollout_kernel import supports
from ember_jax.trail_kernel import Trails, policy_trails
from ember_jax.world import WorldSize, padded_size, world_from_scenario
from ember_ref.errors import VerificationError
from ember_ref.fire import NEVER
from ember_ref.record import RunRecord
from ember_ref.scenario import Scenario

Boards = tuple[Array, Array, Array, Array]

WINDOW: Final = 30
"""Snapshots of a window, an even number; one more bit holds the snapshot before them."""
_COUNTS: Final = (
    "danger_states",
    "route_invalidations",
    "recoverable_route_invalidations",
    "recovery_bound_steps",
    "recovery_steps",
)
_MOST_VALUES: Final = 1 << 20  # people times cells, or steps, of a lane
_TRAILS: Final = 1 << 26  # bytes of the trails of a call
_BOARD: Final = 1 << 22  # bytes of an array of words a cell, of which a flood has four


class EvidenceSize(NamedTuple):
    """What sets the shapes of the kernel, and so the compilation."""

    references: ReferenceSize
    capacity: CapacitySize
    snapshots: int
    """Padded snapshots T of an episode."""
    events: bool
    """Whether events are listed one by one."""

    @property
    def part(self) -> ReferenceSize:
        """The size of the arrays of a part."""
        return self.capacity.references

    @property
    def lanes(self) -> int:
        """Seeds of a part."""
        return self.part.lanes

    @property
    def tiles(self) -> int:
        """Tiles of a call."""
        return self.references.fire.tiles

    @property
    def people(self) -> int:
        """Padded people P."""
        return self.capacity.people


class Episodes(NamedTuple):
    """What people did in the episodes of a tile."""

    cell: Array
    """uint16 or uint32[T, P, L]: the number of the cell, row-major, of each active person, C for nobody."""
    evacuated: Array
    """bool[P, L]."""
    resolution: Array
    """int32[P, L]: the evacuation step, or the horizon."""
    last: Array
    """int32[]: the last snapshot with an active person."""
    place: Array
    """int32[N]: where the cells of the grid are, the padding in front of them included, then 0."""


def evidence_size(scenario: Scenario, groups: CutGroups, *, tiles: int, events: bool) -> EvidenceSize:
    """Return the padded size of a scenario's evidence; few sizes, so that scenarios share compilations."""
    references = reference_size(scenario)
    references = references._replace(
        fire=references.fire._replace(tiles=tiles), people=padded_people(len(scenario.people))
    )
    lanes = LANES
    while lanes > 16 and 4 * scenario.grid.height * (scenario.grid.width + 1) * lanes > _BOARD:
        lanes //= 2
    return EvidenceSize(
        references=references,
        capacity=capacity_size(scenario, groups, references._replace(lanes=lanes)),
        snapshots=_snapshots(scenario),
        events=events,
    )


# Ways that grow, a bit a snapshot


def _longer_ways(ground: Any, part: ReferenceSize, burning: Burning, first: Array, boards: Boards) -> Boards:
    """Return where the way to an exit grew or vanished in a window.

    Args:
        ground: the terrain.
        part: the size.
        burning: the fires.
        first: int32[], the first snapshot of the window; bit 0 is the one before it.
        boards: four uint32[margin + N + margin, lanes] to write over; the last gets the result.
    """
    open, even, odd, grew = boards
    before = first - jnp.int32(1)

    def lay_out(index: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        open, reached, grew = carry
        at = index * jnp.int32(CHUNK)
        exits = of_chunk(ground.kind, at) == jnp.uint8(EXIT)
        until = cells_at(part, burning.alive_until, at)
        never = until == jnp.asarray(infinite_value(part), value_type(part))
        # Exits count one step longer there; here everything counts as the cell that it is.
        steps = until.astype(jnp.int32) - exits.astype(jnp.int32) - before
        bits = jnp.where(never, jnp.int32(32), jnp.clip(steps, jnp.int32(0), jnp.int32(32))).astype(jnp.uint32)
        low = (jnp.uint32(1) << bounded(bits)) - jnp.uint32(1)
        word = jnp.where(bits == jnp.uint32(32), jnp.uint32(0xFFFFFFFF), low)
        closed = of_chunk(ground.kind, at)
        word = jnp.where((closed == jnp.uint8(WALL)) | (closed == jnp.uint8(MARGIN)), jnp.uint32(0), word)
        return (
            put_cells(part, open, word, at),
            put_cells(part, reached, jnp.where(exits, word, jnp.uint32(0)), at),
            put_cells(part, grew, jnp.zeros_like(word), at),
        )

    open, even, grew = lax.fori_loop(jnp.int32(0), ground.chunks, lay_out, (open, even, grew))

    def widen(old: Array, into: Array, grew: Array) -> tuple[Array, Array]:
        def chunk(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            into, grew = carry
            at = index * jnp.int32(CHUNK)
            wider = cells_at(part, old, at) | (any_around(ground, part, old, at) & cells_at(part, open, at))
            longer = cells_at(part, grew, at) | ((wider << jnp.uint32(1)) & ~wider)
            return put_cells(part, into, wider, at), put_cells(part, grew, longer, at)

        result: tuple[Array, Array] = lax.fori_loop(jnp.int32(0), ground.chunks, chunk, (into, grew))
        return result

    def some(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        def two(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            even, odd, grew = carry
            odd, grew = widen(even, odd, grew)
            even, grew = widen(odd, even, grew)
            return even, odd, grew

        even, odd, grew = lax.fori_loop(jnp.int32(0), jnp.int32(TRIPS), two, carry[:3])
        return even, odd, grew, differs(ground, part, even, odd)

    even, odd, grew, _ = lax.while_loop(lambda carry: carry[3] != jnp.int32(0), some, (even, odd, grew, jnp.int32(1)))
    return open, even, odd, grew


# The snapshots, from the last down to 0


class _Walk(NamedTuple):
    even: Array  # L relative to t at the snapshot above, [margin + N + margin, lanes]
    odd: Array
    left: Array  # [E, P, lanes], as `Arrivals.left`
    sums: Array  # uint32[5, lanes]
    events: Array  # [T, P, lanes]: L relative to t at an event, 0 elsewhere; of one snapshot when they are not kept


def _layer(ground: Any, part: ReferenceSize, burning: Burning, t: Array, after: Array, into: Array) -> Array:
    """Return L relative to t from the layer at t + 1, written over `into`."""
    infinite = jnp.asarray(infinite_value(part), value_type(part))
    one = jnp.asarray(1, value_type(part))
    now = jnp.minimum(t, jnp.int32(min(infinite_value(part) - 1, 2**31 - 1))).astype(value_type(part))

    def chunk(index: Array, into: Array) -> Array:
        at = index * jnp.int32(CHUNK)
        alive = cells_at(part, burning.alive_until, at) > now
        exits = jnp.where(of_chunk(ground.kind, at) == jnp.uint8(EXIT), jnp.asarray(0, value_type(part)), infinite)
        least = least_around(ground, part, after, at, cells_at(part, after, at))
        later = jnp.minimum(least, infinite - one) + one
        return put_cells(part, into, jnp.where(alive, later & exits, infinite), at)

    layer: Array = lax.fori_loop(jnp.int32(0), ground.chunks, chunk, into)
    return layer


def _settled(ground: Any, part: ReferenceSize, burning: Burning, t: Array) -> tuple[Array, Array]:
    """Return two equal layers at a snapshot from which on nothing burns that did not burn before."""
    none = jnp.full((part.cells + 2 * part.margin, part.lanes), infinite_value(part), dtype=value_type(part))

    def some(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        def two(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            odd = _layer(ground, part, burning, t, *carry)
            return _layer(ground, part, burning, t, odd, carry[0]), odd

        even, odd = lax.fori_loop(jnp.int32(0), jnp.int32(TRIPS), two, carry[:2])
        return even, odd, differs(ground, part, even, odd)

    # Exits hold 0 from the first layer on, everything else counts up from there.
    even, odd, _ = lax.while_loop(lambda carry: carry[2] != jnp.int32(0), some, (none, none, jnp.int32(1)))
    return even, odd


def _walk(
    ground: Any, cuts: Any, size: EvidenceSize, burning: Burning, episodes: Episodes, arrivals: Arrivals
) -> _Walk:
    """Walk from the last snapshot that matters down to 0; L at 0 is in `even`."""
    part, latest = size.part, arrivals.latest
    shape = (part.cells + 2 * part.margin, part.lanes)
    top = jnp.maximum(jnp.maximum(burning.last, latest), episodes.last) // jnp.int32(WINDOW)
    even, odd = _settled(ground, part, burning, (top + jnp.int32(1)) * jnp.int32(WINDOW))
    none = jnp.zeros(shape, dtype=jnp.uint32)
    kept = (size.snapshots if size.events else 1, size.people, part.lanes)
    walk = _Walk(
        even=even,
        odd=odd,
        left=arrivals.left,
        sums=jnp.zeros((len(_COUNTS), part.lanes), dtype=jnp.uint32),
        events=jnp.zeros(kept, dtype=value_type(part)),
    )

    def snapshot(t: Array, layer: Array, grew: Array, first: Array, walk: _Walk) -> _Walk:
        left = repeat_if(
            t <= latest,
            lambda left: note_left(ground, cuts, size.capacity, t, layer, arrivals._replace(left=left)),
            walk.left,
        )
        sums, events = repeat_if(
            t <= episodes.last,
            lambda carry: _look(ground, size, burning, episodes, t, layer, (grew, first), carry),
            (walk.sums, walk.events),
        )
        return walk._replace(left=left, sums=sums, events=events)

    def window(carry: tuple[Array, Boards, _Walk]) -> tuple[Array, Boards, _Walk]:
        number, boards, walk = carry
        first = number * jnp.int32(WINDOW)
        boards = repeat_if(
            first <= jnp.minimum(burning.last, episodes.last),
            lambda boards: _longer_ways(ground, part, burning, first, boards),
            boards,
        )

        def pair(index: Array, walk: _Walk) -> _Walk:
            t = first + jnp.int32(WINDOW - 1) - jnp.int32(2) * index
            odd = _layer(ground, part, burning, t, walk.even, walk.odd)
            walk = snapshot(t, odd, boards[3], first, walk)
            even = _layer(ground, part, burning, t - jnp.int32(1), odd, walk.even)
            walk = snapshot(t - jnp.int32(1), even, boards[3], first, walk)
            return walk._replace(even=even, odd=odd)

        return number - jnp.int32(1), boards, lax.fori_loop(jnp.int32(0), jnp.int32(WINDOW // 2), pair, walk)

    _, _, walk = lax.while_loop(lambda carry: carry[0] >= jnp.int32(0), window, (top, (none, none, none, none), walk))
    result: _Walk = walk
    return result


def _look(
    ground: Any,
    size: EvidenceSize,
    burning: Burning,
    episodes: Episodes,
    t: Array,
    layer: Array,
    window: tuple[Array, Array],
    carry: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Add what people met at snapshot t to the sums, and to the events."""
    part = size.part
    grew, first = window
    lane = lax.iota(jnp.int32, part.lanes)
    bit = bounded((t - first + jnp.int32(1)).astype(jnp.uint32))
    now, limit = t.astype(jnp.uint32), (ground.horizon - t).astype(jnp.uint32)

    def person(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        sums, events = carry
        cell = lax.dynamic_slice(episodes.cell, (t, index, jnp.int32(0)), (1, 1, part.lanes))[0, 0]
        place = episodes.place.at[cell.astype(jnp.int32)].get(mode="promise_in_bounds") * jnp.int32(part.lanes) + lane

        def here(board: Array) -> Array:
            value: Array = board.reshape(-1).at[place].get(mode="promise_in_bounds").astype(jnp.uint32)
            return value

        evacuated = episodes.evacuated[index].astype(jnp.uint32)
        event = (here(grew) >> bit) & jnp.uint32(1) & (t > jnp.int32(0)).astype(jnp.uint32)
        steps = here(layer)
        recoverable = jnp.where(steps <= limit, event, jnp.uint32(0))
        danger = jnp.where(here(burning.danger_from) <= now, evacuated, jnp.uint32(0))
        recovery = episodes.resolution[index].astype(jnp.uint32) - now
        more = jnp.stack([danger, event, recoverable, recoverable * steps, recoverable * recovery])
        if size.events:
            most = jnp.uint32(infinite_value(part))
            kept = jnp.where(
                event == jnp.uint32(1), jnp.where(recoverable == jnp.uint32(1), steps, most), jnp.uint32(0)
            )
            where = (t, index, jnp.int32(0))
            events = lax.dynamic_update_slice(events, kept.astype(events.dtype)[None, None], where)
        return sums + more, events

    result: tuple[Array, Array] = lax.fori_loop(jnp.int32(0), jnp.int32(size.people), person, carry)
    return result


# Calls


def _call(
    size: EvidenceSize, ground: Any, cuts: Any, count: Array, seed_hi: Array, seed_lo: Array, episodes: Any
) -> dict[str, Array]:
    def tile(arguments: tuple[Array, ...]) -> dict[str, Array]:
        index, hi, lo, cell, evacuated, resolution = arguments
        # Tiles beyond the seeds of the call have no steps.
        used = index < count
        spreads = jnp.where(used, ground.fire.spreads, jnp.int32(0))
        steps = jnp.where(used, ground.horizon, jnp.int32(0))
        mine = ground._replace(fire=ground.fire._replace(spreads=spreads), horizon=steps)
        fire = run_fire(mine.fire, size.references.fire, hi, lo)
        values = run_references(mine, size.references, fire)

        def part(at: Array) -> dict[str, Array]:
            def cut(array: Array) -> Array:
                return lax.dynamic_slice_in_dim(array, at * jnp.int32(size.lanes), size.lanes, axis=array.ndim - 1)

            burning = burning_of(mine, size.part, fire._replace(burned=cut(fire.burned), planes=cut(fire.planes)))
            last = jnp.where(used, episodes.last, jnp.int32(-1))
            here = Episodes(cut(cell), cut(evacuated), cut(resolution), last, episodes.place)
            arrivals = first_arrivals(mine, cuts, size.capacity, burning)
            walk = _walk(mine, cuts, size, burning, here, arrivals)
            arrivals = arrivals._replace(left=walk.left)
            earliest = soonest(mine, cuts, size.capacity, walk.even)
            found = bounds(mine, cuts, size.capacity, burning, here.evacuated, earliest, arrivals)
            sums = {"sums": walk.sums, **found._asdict()}
            return sums | ({"events": walk.events} if size.events else {})

        parts = lax.map(part, lax.iota(jnp.int32, LANES // size.lanes))
        joined = {name: _join(value) for name, value in parts.items()}
        return joined | {"values": values.transpose(2, 0, 1)}

    index = lax.iota(jnp.int32, size.tiles)
    arguments = (index, seed_hi, seed_lo, episodes.cell, episodes.evacuated, episodes.resolution)
    results: dict[str, Array] = lax.map(tile, arguments)
    return results


def _join(parts: Array) -> Array:
    """Return [parts, ..., lanes] as [parts * lanes, ...]."""
    moved = jnp.moveaxis(parts, -1, 1)
    return moved.reshape(-1, *moved.shape[2:])


_EVIDENCE: Final = Kernel(_call)


def evidence(
    scenario: Scenario,
    seeds: ArrayLike,
    policy: str,
    *,
    policy_seed: int = 0,
    events: bool = False,
    threads: int | None = None,
    keep: Callable[[int, Trails], None] | None = None,
) -> Evidence:
    """Run a policy under each of many seeds and return the evidence (see `ember_jax.evidence.evidence`).

    `keep` is called with the first episode of each batch and its trails, without cells, where the fast form of the
    episodes is taken; a thread may call it.
    """
    if not _fits(scenario):
        return plain.evidence(scenario, seeds, policy, policy_seed=policy_seed, events=events, threads=threads)
    seeds = np.asarray(seeds, dtype=np.uint64)
    if supports(scenario, policy):

        def trails(at: int, count: int, tiles: int) -> Trails:
            found = policy_trails(
                scenario,
                seeds[at : at + count],
                policy,
                policy_seed=policy_seed,
                tiles=tiles,
                snapshots=_snapshots(scenario),
            )
            if keep is not None:
                keep(at, found._replace(cell=found.cell[:0]))
            return found

        return _evidence(scenario, seeds, trails, events, threads)
    size = padded_size(scenario)
    world = world_from_scenario(scenario, size=size)
    compiled, plan = prepared(world, scenario, policy, policy_seed, None)

    def plain_trails(at: int, count: int, tiles: int) -> Trails:
        fires = fire_worlds(scenario, seeds[at : at + count], threads=1)
        ways = policy_ways(world, compiled, plan, padded_steps(fires, size))
        return _trails(scenario, ways, size, count, tiles)

    return _evidence(scenario, seeds, plain_trails, events, threads)


def evidence_of_records(
    scenario: Scenario, records: Sequence[RunRecord], *, events: bool = False, threads: int | None = None
) -> Evidence:
    """Return the evidence of complete, authenticated records (see `ember_jax.evidence.evidence_of_records`)."""
    if not _fits(scenario):
        return plain.evidence_of_records(scenario, records, events=events, threads=threads)
    size = _world_size(scenario)

    def trails(at: int, count: int, tiles: int) -> Trails:
        ways = stack_ways([record_ways(scenario, record, size) for record in records[at : at + count]], count)
        return _trails(scenario, ways, size, count, tiles)

    seeds = np.array([record.header.seed for record in records], dtype=np.uint64)
    return _evidence(scenario, seeds, trails, events, threads)


def _fits(scenario: Scenario) -> bool:
    """Tell whether the arrivals and trails of a tile are of a bearable size; a plain batch takes any."""
    longest = max(scenario.grid.height * scenario.grid.width, scenario.termination.max_steps)
    return len(scenario.people) * longest <= _MOST_VALUES


def _world_size(scenario: Scenario) -> WorldSize:
    """Return the size of a scenario without padding."""
    grid = scenario.grid
    return WorldSize(rows=grid.height, cols=grid.width, people=len(scenario.people), exits=len(scenario.exits))


def _snapshots(scenario: Scenario) -> int:
    """Return padded snapshots T of an episode."""
    return padded(scenario.termination.max_steps + 1, 128)


def _tiles(scenario: Scenario, count: int) -> int:
    """Return tiles of a call for some episodes: one where that is enough, else as many as keep the trails small."""
    if count <= LANES:
        return 1
    size = reference_size(scenario)
    each = 2 * LANES * _snapshots(scenario) * size.people
    return max(1, min(size.fire.tiles, _TRAILS // each))


def _number_type(scenario: Scenario) -> Any:
    return np.uint16 if 32 * fire_size(scenario).words < 2**16 else np.uint32


def _trails(scenario: Scenario, ways: Ways, world_size: WorldSize, count: int, tiles: int) -> Trails:
    """Lay plain ways out for the kernel."""
    grid, people = scenario.grid, len(scenario.people)
    padded = padded_people(people)
    length = min(ways.cell.shape[1], scenario.termination.max_steps + 1)
    cell = ways.cell[:count, :length, :people]
    number = cell // world_size.cols * grid.width + cell % world_size.cols
    nobody = grid.height * grid.width
    whole = np.full((tiles * LANES, _snapshots(scenario), padded), nobody, dtype=_number_type(scenario))
    whole[:count, :length, :people] = np.where(ways.active[:count, :length, :people], number, nobody)
    return Trails(
        cell=np.ascontiguousarray(np.moveaxis(whole.reshape(tiles, LANES, *whole.shape[1:]), 1, -1)),
        evacuated=ways.evacuated[:count, :people],
        resolution_step=ways.resolution_step[:count, :people],
        cells_moved=ways.cells_moved[:count, :people],
    )


def _no_trails(scenario: Scenario, tiles: int) -> Trails:
    """Return the trails of no episode, in the shape of a call."""
    people = len(scenario.people)
    shape = (tiles, _snapshots(scenario), padded_people(people), LANES)
    none = np.zeros((0, people), dtype=np.int32)
    return Trails(
        cell=np.full(shape, scenario.grid.height * scenario.grid.width, dtype=_number_type(scenario)),
        evacuated=none.astype(np.bool_),
        resolution_step=none,
        cells_moved=none,
    )


def _evidence(
    scenario: Scenario,
    seeds: np.ndarray,
    trails: Callable[[int, int, int], Trails],
    events: bool,
    threads: int | None,
) -> Evidence:
    """Return the evidence of some seeds; `trails` says what people did, by first episode, number, and tiles."""
    tiles = _tiles(scenario, len(seeds))
    layout = _laid_out(scenario, tiles, events)
    per_call = seeds_of_a_call(len(seeds), tiles * LANES, threads)

    def batch(at: int) -> dict[str, np.ndarray]:
        part = seeds[at : at + per_call]
        return _batch(scenario, layout, part, trails(at, len(part), tiles), events, at)

    # It is compiled while the first trails are.
    with beside(_EVIDENCE.compile, *_arguments(scenario, layout, seeds[:0], _no_trails(scenario, tiles))):
        parts = list(run_batches(batch, range(0, len(seeds), per_call), threads=threads))
    none = np.zeros((3, 0, len(scenario.people)), dtype=np.uint32)
    references = np.concatenate([none, *(part["references"] for part in parts)], axis=1)
    return joined(scenario, seeds, parts, list(references))


class _Layout(NamedTuple):
    """What all calls for a scenario have in common."""

    size: EvidenceSize
    ground: Any
    cuts: Any
    place: np.ndarray
    """int32[cells]: where the tables have each cell of the grid, by its number."""


def _laid_out(scenario: Scenario, tiles: int, events: bool) -> _Layout:
    groups = cut_groups(scenario, _world_size(scenario))
    size = evidence_size(scenario, groups, tiles=tiles, events=events)
    number = np.arange(scenario.grid.height * scenario.grid.width, dtype=np.int32)
    place = np.zeros(size.references.cells, dtype=np.int32)
    place[: len(number)] = number + number // scenario.grid.width + size.references.margin
    return _Layout(
        size=size,
        ground=reference_ground(scenario, size.references),
        cuts=lay_out_cuts(scenario, groups, size.capacity, place),
        place=place,
    )


def _arguments(scenario: Scenario, layout: _Layout, seeds: np.ndarray, trails: Trails) -> tuple[Any, ...]:
    """Return the size and the arrays of a call."""
    size, people, horizon = layout.size, len(scenario.people), scenario.termination.max_steps

    def tiled(values: np.ndarray, fill: int) -> Any:
        """Return [N, P] as [tiles, P, LANES], padded."""
        whole = np.full((size.tiles * LANES, size.people), fill, dtype=values.dtype)
        whole[: len(seeds), :people] = values
        return np.ascontiguousarray(whole.reshape(size.tiles, LANES, size.people).swapaxes(1, 2))

    nobody = scenario.grid.height * scenario.grid.width
    last = np.flatnonzero(np.any(trails.cell != nobody, axis=(0, 2, 3)))
    resolution = np.where(trails.evacuated, trails.resolution_step, horizon).astype(np.int32)
    episodes: Any = Episodes(
        cell=trails.cell,  # type: ignore[arg-type]
        evacuated=tiled(trails.evacuated, 0),
        resolution=tiled(resolution, horizon),
        last=np.asarray(last.max(initial=-1), dtype=np.int32),  # type: ignore[arg-type]
        place=layout.place,  # type: ignore[arg-type]
    )
    used = np.asarray(-(-len(seeds) // LANES), dtype=np.int32)
    return size, layout.ground, layout.cuts, used, *padded_seeds(seeds, size.tiles), episodes


def _batch(
    scenario: Scenario, layout: _Layout, seeds: np.ndarray, trails: Trails, events: bool, first: int
) -> dict[str, np.ndarray]:
    """Return the sums of the episodes of a call (see `ember_jax.evidence.joined`); `first` is its first."""
    people = len(scenario.people)
    results = _EVIDENCE(*_arguments(scenario, layout, seeds, trails))
    found = {name: value.reshape(-1, *value.shape[2:])[: len(seeds)] for name, value in results.items()}
    if np.any(found["left_over"]):
        at = int(np.argmax(found["left_over"] > 0))
        raise VerificationError(
            f"{scenario.id}, seed {int(seeds[at])}: {int(found['left_over'][at])} evacuations more than the capacity "
            "allows by the horizon"
        )

    def over_evacuees(values: np.ndarray) -> np.ndarray:
        total: np.ndarray = np.where(trails.evacuated, values, 0).sum(axis=1, dtype=np.int64)
        return total

    sums: dict[str, np.ndarray] = {
        "evacuated": trails.evacuated,
        "references": found["values"][:, :, :people].swapaxes(0, 1),
        "sum_evacuation_steps": over_evacuees(trails.resolution_step),
        "cells_moved": over_evacuees(trails.cells_moved),
        "exit_bound": found["exit_bound"].astype(np.int64),
        "time_bound": found["time_bound"].astype(np.int64),
        **{name: found["sums"][:, place].astype(np.int64) for place, name in enumerate(_COUNTS)},
    }
    if events:
        sums["events"] = _listed(found["events"][:, :, :people], infinite_value(layout.size.references), first)
    return sums


def _listed(left: np.ndarray, most: int, first: int) -> np.ndarray:
    """Return the events of [N, T, P] as rows of episode, step, person, L(x, t)."""
    episode, step, person = np.nonzero(left)
    value = left[episode, step, person].astype(np.int64)
    earliest = np.where(value == most, NEVER, value + step)
    return np.stack([episode + first, step, person, earliest], axis=1)
