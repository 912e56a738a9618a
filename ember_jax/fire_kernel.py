"""Fire worlds of many seeds, bit-packed and batch-explicit: the fast form of `ember_jax.fire` (section 4).

The grid lies row-major in 32-bit words of 32 cells with words of padding on both sides, and the last axis is
a tile of 128 seeds. North and south are shifts by the width across words, west and east by one bit under
masks of the first and last column, so a grid of any width is only data. A step visits the words between the
first and the last that can have candidates. Per word, all lanes deal success bits to their candidates
together, four candidates a pass; bits come from a small buffer of successes relative to each lane's own
position in its stream. `ember_jax.fire` is the plain twin and the test.

The order of the loops and the arrays that each one carries follow from what the compiler does with them:
only what a loop carries is written to memory, and an array that one trip reads and updates is copied.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from ember_jax.digest import BLOCK_WORDS, INITIAL_STATE, compress
from ember_jax.fire import FireWorlds
from ember_jax.kernel import LANES, Kernel, run_batches, seeds_of_a_call
from ember_jax.stream import FIRE, GOLDEN_GAMMA, MIX_STEPS, split, stream_seed, threshold
from ember_ref.fire import NEVER
from ember_ref.scenario import FireModel, Scenario

_CANDIDATES: Final = 4
_PASS_BITS: Final = 4 * _CANDIDATES  # success bits that a pass uses at most
WINDOW_BITS: Final = 64
"""Success bits of a window."""
_BUFFER_ROWS: Final = 64
_BLOCK: Final = 4  # words that the loops over whole rows of words take at a time
_FOLD: Final = 16
_HEADER: Final = 21

_Carry = TypeVar("_Carry")


class FireSize(NamedTuple):
    """What sets the shapes of the kernel, and so the compilation."""

    words: int
    """Words of the grid, W."""
    margin: int
    """Words of padding on each side."""
    planes: int
    """Bits of a spread's number, K; 0 where only what burns is asked for, not since when."""
    tiles: int
    """Tiles of a call, T."""


class Terrain(NamedTuple):
    """The fire of one scenario, packed; host arrays."""

    flammable: np.ndarray
    """uint32[W]: cells that can ignite."""
    ignitions: np.ndarray
    """uint32[W]: cells that burn at step 0."""
    has_west: np.ndarray
    """uint32[W]: cells outside the first column."""
    has_east: np.ndarray
    """uint32[W]: cells outside the last column."""
    row_words: np.ndarray
    """int32[]: whole words in a row of the grid."""
    row_bits: np.ndarray
    """uint32[]: bits of a row beyond those."""
    words: np.ndarray
    """int32[]: words that hold cells, rounded up to a block."""
    spreads: np.ndarray
    """int32[]: spreads within the horizon."""
    interval: np.ndarray
    """uint32[]: steps between spreads."""
    stochastic: np.ndarray
    """uint32[]: all ones for a fire that draws, else 0."""
    threshold: np.ndarray
    """uint64[]: `ceil(p * 2^53)`."""
    start: np.ndarray
    """uint64[]: the position of the stream at step 0; 0 in the contract, larger in tests."""
    cells: np.ndarray
    """uint32[]: cells of the grid."""
    header: np.ndarray
    """uint32[21]: what the digest's message has before the cells, without its first byte; seed and position 0."""


class Fire(NamedTuple):
    """The fires of a tile, on the device."""

    burned: Array
    """uint32[W, L]: cells with an ignition step."""
    planes: Array
    """uint32[K, W, L]: bit planes of the number of the spread that ignited a cell (0 for the ignitions), in
    Gray code; other cells hold anything."""
    stream_position: Array
    """uint64[L]."""


class Successes(NamedTuple):
    """Success bits of every lane, relative to its own position in the stream."""

    rows: Array
    """uint32[64, L]: 32 draws a word."""
    state: Array
    """uint64[L]: the state of SplitMix64 that gives the draw of bit 0."""
    position: Array
    """uint64[L]: the stream position of bit 0."""
    start: Array
    """uint32[L]: the value of the lane's count of draws at bit 0, modulo 2^32."""
    made: Array
    """int32[]: rows that are made."""
    low: Array
    """uint32[L]: the next 32 success bits of each lane, the earliest lowest."""
    high: Array
    """uint32[L]: the 32 after them."""
    fetched: Array
    """uint32[L]: the lane's count of draws when the window was fetched."""
    left: Array
    """int32[]: bits that every lane's window has left at least."""


class FireSummaries(NamedTuple):
    """What a sweep needs of the fires of one scenario under many seeds, on the host."""

    burned: np.ndarray
    """uint32[N]: cells with an ignition step, the ignitions included."""
    stream_position: np.ndarray
    """uint64[N]."""
    digest: np.ndarray | None
    """uint8[N, 32]: fire-world digests; `None` when they were not asked for."""


def fire_worlds(scenario: Scenario, seeds: ArrayLike, *, threads: int | None = None) -> FireWorlds:
    """Run the fire of a scenario under each of many 64-bit seeds.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host.
        threads: calls at a time; all cores without it.
    """
    height, width = scenario.grid.height, scenario.grid.width
    count = len(np.asarray(seeds))
    steps = np.empty((count, height, width), dtype=np.uint32)
    positions = np.empty(count, dtype=np.uint64)
    for at, part in _run(_WORLDS, scenario, seeds, threads):
        end = at + len(part["stream_position"])
        steps[at:end] = part["ignition_step"][:, : height * width].reshape(-1, height, width)
        positions[at:end] = part["stream_position"]
    return FireWorlds(ignition_step=steps, stream_position=positions)


def fire_summaries(
    scenario: Scenario, seeds: ArrayLike, *, digests: bool = False, threads: int | None = None
) -> FireSummaries:
    """Run the fire under each of many seeds without moving the worlds to the host.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host.
        digests: whether to hash every world (on the device).
        threads: calls at a time; all cores without it.
    """
    count = len(np.asarray(seeds))
    burned = np.empty(count, dtype=np.uint32)
    positions = np.empty(count, dtype=np.uint64)
    hashes = np.empty((count, 8), dtype=">u4") if digests else None
    for at, part in _run(_DIGESTS if digests else _COUNTS, scenario, seeds, threads):
        end = at + len(part["burned"])
        burned[at:end], positions[at:end] = part["burned"], part["stream_position"]
        if hashes is not None:
            hashes[at:end] = part["digest"]
    return FireSummaries(
        burned=burned,
        stream_position=positions,
        digest=None if hashes is None else hashes.view(np.uint8),
    )


def fire_size(scenario: Scenario) -> FireSize:
    """Return the padded size of a scenario's fire; few sizes, so that scenarios share compilations."""
    height, width = scenario.grid.height, scenario.grid.width
    words = 16
    while 32 * words < height * width:
        words *= 2
    margin = next(margin for margin in (2, 4, 17) if margin > width // 32)
    planes = 8 if scenario.termination.max_steps // scenario.fire.spread_interval < 256 else 16
    return FireSize(words=words, margin=margin, planes=planes, tiles=max(1, min(16, 2048 // words)))


def terrain(scenario: Scenario, size: FireSize) -> Terrain:
    """Pack the fire of a scenario into words."""
    grid, fire = scenario.grid, scenario.fire
    flammable = np.ones((grid.height, grid.width), dtype=np.bool_)
    closed = set(grid.obstacles)
    if not fire.exits_flammable:
        closed |= {exit.position for exit in scenario.exits}
    for cell in closed:
        flammable[cell] = False
    ignitions = np.zeros_like(flammable)
    for cell in fire.ignitions:
        ignitions[cell] = True
    col = np.broadcast_to(np.arange(grid.width), flammable.shape)
    horizon = scenario.termination.max_steps
    probability = fire.spread_probability
    text = b"emberbench/fire-world/v1\0"[1:] + bytes.fromhex(scenario.content_hash) + bytes(8)
    numbers = np.array([horizon, grid.height, grid.width, 0, 0], dtype=np.uint32)
    words = -(-grid.height * grid.width // (32 * _BLOCK)) * _BLOCK
    return Terrain(
        flammable=pack(flammable, size.words),
        ignitions=pack(ignitions, size.words),
        has_west=pack(col > 0, size.words),
        has_east=pack(col < grid.width - 1, size.words),
        row_words=np.asarray(grid.width // 32, dtype=np.int32),
        row_bits=np.asarray(grid.width % 32, dtype=np.uint32),
        words=np.asarray(words, dtype=np.int32),
        spreads=np.asarray(horizon // fire.spread_interval, dtype=np.int32),
        interval=np.asarray(fire.spread_interval, dtype=np.uint32),
        stochastic=np.asarray(-(fire.model is FireModel.STOCHASTIC) & 0xFFFFFFFF, dtype=np.uint32),
        threshold=np.asarray(0 if probability is None else threshold(probability), dtype=np.uint64),
        start=np.asarray(0, dtype=np.uint64),
        cells=np.asarray(grid.height * grid.width, dtype=np.uint32),
        header=np.concatenate([np.frombuffer(text, dtype=">u4").astype(np.uint32), numbers]),
    )


def pack(mask: np.ndarray, words: int) -> np.ndarray:
    """Pack a mask of cells row-major into uint32[words], the earliest cell in the lowest bit."""
    flat = np.zeros(32 * words, dtype=np.bool_)
    flat[: mask.size] = mask.reshape(-1)
    return np.packbits(flat, bitorder="little").view("<u4").astype(np.uint32)


# The whole fire of a tile


class FireState(NamedTuple):
    """The state of a tile between spreads; L lanes."""

    spread: Array  # int32[], the number of the next spread, from 1
    first: Array  # int32[], the words that can have candidates: first to end - 1
    end: Array
    burning: Array  # uint32[margin + W + margin, L]
    ignited: Array  # uint32[W, L], what earlier spreads ignited, in words with candidates
    planes: Array  # uint32[K, W, L]
    successes: Successes
    drawn: Array  # uint32[L], words consumed, modulo 2^32
    scratch: tuple[Array, ...]  # five uint32[1, L], see `_visit`


def run_fire(ground: Any, size: FireSize, seed_hi: Array, seed_lo: Array) -> Fire:
    """Run the fire of a scenario under a tile of seeds, for the whole horizon.

    Args:
        ground: the `Terrain`.
        size: its padded size.
        seed_hi: uint32[L], upper halves of the evaluator seeds.
        seed_lo: uint32[L], lower halves.
    """
    return finish_fire(ground, size, start_fire(ground, size, seed_hi, seed_lo))


def start_fire(ground: Any, size: FireSize, seed_hi: Array, seed_lo: Array) -> FireState:
    """Return the fires of a tile at step 0 (see `run_fire`)."""
    none = jnp.zeros(LANES, dtype=jnp.uint32)
    row = jnp.zeros((1, LANES), dtype=jnp.uint32)
    ignitions = jnp.broadcast_to(ground.ignitions[:, None], (size.words, LANES))
    planes = jnp.zeros((size.planes, size.words, LANES), dtype=jnp.uint32)
    return FireState(
        spread=jnp.int32(1),
        first=jnp.int32(0),
        end=ground.words,
        burning=jnp.pad(ignitions, ((size.margin, size.margin), (0, 0))),
        ignited=jnp.zeros_like(ignitions),
        planes=planes.at[:1].set(~ignitions),  # not burning: the Gray code of spread 1
        successes=_open(ground, seed_hi, seed_lo),
        drawn=none,
        scratch=(row, row, row, row, row),
    )


def finish_fire(ground: Any, size: FireSize, state: FireState) -> Fire:
    """Run fires on to the horizon."""
    state = lax.while_loop(lambda state: spreads_on(ground, state), lambda state: spread(ground, size, state), state)
    bits = state.successes
    return Fire(
        burned=state.burning[size.margin : size.margin + size.words],
        planes=state.planes,
        stream_position=bits.position + (state.drawn - bits.start).astype(jnp.uint64),
    )


def spreads_on(ground: Any, state: FireState) -> Array:
    """Tell whether anything can ignite in a later spread within the horizon: bool[]."""
    on: Array = (state.spread <= ground.spreads) & (state.first < state.end)
    return on


def spread(ground: Any, size: FireSize, state: FireState) -> FireState:
    """Let the fires of a tile spread once."""
    seen = _Visits(
        ignited=state.ignited,
        successes=state.successes,
        drawn=state.drawn,
        first=jnp.int32(size.words),
        last=jnp.int32(-1),
        scratch=state.scratch,
    )
    always = (state.spread <= ground.spreads).astype(jnp.int32)
    seen = lax.fori_loop(
        state.first,
        state.end,
        lambda word, seen: _visit(ground, size, state.burning, always, word, seen),
        seen,
    )
    some = seen.last >= 0
    burning = _merge(size, state.burning, seen)
    # A candidate has a neighbour that burns, so the next ones lie within a row of these or of what ignited.
    reach = ground.row_words + jnp.int32(1)
    return FireState(
        spread=state.spread + jnp.int32(1),
        first=jnp.where(some, jnp.maximum(seen.first - reach, jnp.int32(0)), jnp.int32(0)),
        end=jnp.where(some, jnp.minimum(seen.last + reach + jnp.int32(1), ground.words), jnp.int32(0)),
        burning=burning,
        ignited=seen.ignited,
        planes=_count(ground, size, state.planes, burning, state.spread + jnp.int32(1)),
        successes=seen.successes,
        drawn=seen.drawn,
        scratch=seen.scratch,
    )


def ignite(ground: Any, size: FireSize, burning: Array, lanes: Array, successes: Successes) -> tuple[Array, Array]:
    """Let the fires of some lanes spread once.

    Args:
        ground: the `Terrain`.
        size: its padded size.
        burning: uint32[margin + W + margin, L].
        lanes: uint32[L], all ones in lanes whose fire spreads, else 0.
        successes: of `start_successes`.

    Returns:
        What burns afterwards, and uint32[L] words consumed.
    """
    row = jnp.zeros((1, LANES), dtype=jnp.uint32)
    mine = ground._replace(flammable=ground.flammable[:, None, None] & lanes[None, None, :])
    seen = _Visits(
        ignited=jnp.zeros((size.words, LANES), dtype=jnp.uint32),
        successes=successes,
        drawn=jnp.zeros(LANES, dtype=jnp.uint32),
        first=jnp.int32(size.words),
        last=jnp.int32(-1),
        scratch=(row, row, row, row, row),
    )
    always = (ground.interval != jnp.uint32(0)).astype(jnp.int32)
    seen = lax.fori_loop(
        jnp.int32(0), ground.words, lambda word, seen: _visit(mine, size, burning, always, word, seen), seen
    )
    return _merge(size, burning, seen), seen.drawn


def _merge(size: FireSize, burning: Array, seen: "_Visits") -> Array:
    """Add what ignited to what burns."""

    def merge(block: Array, burning: Array) -> Array:
        at = block * jnp.int32(_BLOCK)
        old = rows_at(burning, at + jnp.int32(size.margin), _BLOCK)
        return put_rows(burning, old | rows_at(seen.ignited, at, _BLOCK), at + jnp.int32(size.margin))

    blocks = jnp.where(seen.last >= 0, seen.last // jnp.int32(_BLOCK) + jnp.int32(1), jnp.int32(0))
    merged: Array = lax.fori_loop(seen.first // jnp.int32(_BLOCK), blocks, merge, burning)
    return merged


def _count(ground: Any, size: FireSize, planes: Array, burning: Array, spread: Array) -> Array:
    """Move the cells that don't burn on to the next spread: one bit of a Gray code changes."""
    if not size.planes:
        return planes
    zeros = lax.population_count((spread & -spread) - jnp.int32(1))
    plane = jnp.minimum(zeros, jnp.int32(size.planes - 1))

    def flip(block: Array, planes: Array) -> Array:
        at = block * jnp.int32(_BLOCK)
        where = (plane, at, jnp.int32(0))
        old = lax.dynamic_slice(planes, where, (1, _BLOCK, LANES))
        still = ~rows_at(burning, at + jnp.int32(size.margin), _BLOCK)
        return lax.dynamic_update_slice(planes, old ^ still[None], where)

    flipped: Array = lax.fori_loop(jnp.int32(0), ground.words // jnp.int32(_BLOCK), flip, planes)
    return flipped


# One word of the grid


class _Visits(NamedTuple):
    ignited: Array
    successes: Successes
    drawn: Array
    first: Array  # int32[], the first word with candidates so far
    last: Array  # int32[], the last one
    scratch: tuple[Array, ...]


def _visit(ground: Any, size: FireSize, burning: Array, always: Array, word: Array, seen: _Visits) -> _Visits:
    """Find the candidates of a word and let their draws decide.

    `always` is 1. A loop of one trip writes what it carries to memory, so that the uses after it don't
    compute it again; the compiler must not know that the trip is one.
    """
    centre = word + jnp.int32(size.margin)
    near_rows: tuple[Array, ...] = lax.fori_loop(
        jnp.int32(0), always, lambda _, _old: _vertical(ground, burning, centre), seen.scratch[:2]
    )
    found: tuple[Array, ...] = lax.fori_loop(
        jnp.int32(0),
        always,
        lambda _, _old: _candidates(ground, burning, word, centre, near_rows),
        seen.scratch[2:],
    )
    candidates, low, high = (row[0] for row in found)
    fullest = fold_max(lax.population_count(candidates))
    some = fullest > jnp.uint32(0)
    ignited, successes, drawn = repeat_if(
        some,
        lambda carry: _decide(ground, word, fullest, candidates, (low, high), *carry),
        (seen.ignited, seen.successes, seen.drawn),
    )
    return _Visits(
        ignited=ignited,
        successes=successes,
        drawn=drawn,
        first=jnp.where(some, jnp.minimum(seen.first, word), seen.first),
        last=jnp.where(some, word, seen.last),
        scratch=(*near_rows, *found),
    )


def _vertical(ground: Any, burning: Array, centre: Array) -> tuple[Array, Array]:
    """Return which cells of a word have a burning northern, and southern, neighbour."""
    one = jnp.uint32(1)
    bits, rest = bounded(ground.row_bits), bounded(jnp.uint32(31) - ground.row_bits)
    above, below = centre - ground.row_words, centre + ground.row_words
    north = (rows_at(burning, above) << bits) | ((rows_at(burning, above - jnp.int32(1)) >> one) >> rest)
    south = (rows_at(burning, below) >> bits) | ((rows_at(burning, below + jnp.int32(1)) << one) << rest)
    return north, south


def _candidates(
    ground: Any, burning: Array, word: Array, centre: Array, near_rows: tuple[Array, ...]
) -> tuple[Array, Array, Array]:
    """Return the candidates of a word and two bit planes: burning neighbours, less one."""
    north, south = near_rows
    here = rows_at(burning, centre)
    after, before = rows_at(burning, centre + jnp.int32(1)), rows_at(burning, centre - jnp.int32(1))
    east = ((here >> jnp.uint32(1)) | (after << jnp.uint32(31))) & ground.has_east[word]
    west = ((here << jnp.uint32(1)) | (before >> jnp.uint32(31))) & ground.has_west[word]
    odd = north ^ south ^ east ^ west
    both, sides = north & south, east & west
    candidates = (north | south | east | west) & ~here & ground.flammable[word]
    return candidates, ~odd, (odd & (both | sides)) | (both & sides)


def _decide(
    ground: Any,
    word: Array,
    fullest: Array,
    candidates: Array,
    planes: tuple[Array, Array],
    ignited: Array,
    successes: Successes,
    drawn: Array,
) -> tuple[Array, Successes, Array]:
    """Deal success bits to the candidates of a word, in as many passes as the fullest lane needs."""

    def one_pass(_: Array, carry: tuple[Array, Array, Successes]) -> tuple[Array, Array, Successes]:
        rest, ignites, bits = carry
        bits = repeat_if(
            bits.left < _PASS_BITS,
            lambda bits: _fetch(ground, bits, drawn + (draws - _draws(rest, planes))),
            bits,
        )
        after, ignites = _deal(rest, planes, bits.low, ignites)
        used = bounded(_draws(rest ^ after, planes))
        fill = (bits.high << jnp.uint32(1)) << bounded(jnp.uint32(31) - used)
        bits = bits._replace(
            low=(bits.low >> used) | fill, high=bits.high >> used, left=bits.left - jnp.int32(_PASS_BITS)
        )
        return after, ignites, bits

    draws = _draws(candidates, planes)
    four = jnp.uint32(_CANDIDATES)
    passes = ((fullest + (four - jnp.uint32(1))) // four) & ground.stochastic
    start = (candidates, candidates & ~ground.stochastic, successes)
    _, ignites, successes = lax.fori_loop(jnp.int32(0), passes.astype(jnp.int32), one_pass, start)
    drawn = drawn + (draws & ground.stochastic)
    left = jnp.int32(WINDOW_BITS) - fold_max(drawn - successes.fetched).astype(jnp.int32)
    return put_rows(ignited, ignites[None], word), successes._replace(left=left), drawn


def _draws(cells: Array, planes: tuple[Array, Array]) -> Array:
    """Return how many words the candidates `cells` consume: uint32[L]."""
    low, high = planes
    count = lax.population_count
    draws: Array = count(cells) + count(cells & low) + (count(cells & high) << jnp.uint32(1))
    return draws


def _deal(rest: Array, planes: tuple[Array, Array], bits: Array, ignites: Array) -> tuple[Array, Array]:
    """Let the first four candidates of `rest` take their bits; return those after them, and what ignites."""
    low, high = planes
    one, none = jnp.uint32(1), jnp.uint32(0)
    for _ in range(_CANDIDATES):
        after = rest & (rest - one)
        cell = rest ^ after
        number = one + ((low & cell) != none).astype(jnp.uint32) + (((high & cell) != none).astype(jnp.uint32) << one)
        mine = (one << number) - one
        ignites = ignites | jnp.where((bits & mine) != none, cell, none)
        bits, rest = bits >> number, after
    return rest, ignites


# Success bits


def _open(ground: Any, seed_hi: Array, seed_lo: Array) -> Successes:
    seed = stream_seed(FIRE, seed_hi, seed_lo)
    state = (seed.hi.astype(jnp.uint64) << jnp.uint64(32)) | seed.lo.astype(jnp.uint64)
    return start_successes(state, jnp.broadcast_to(ground.start, (LANES,)))


def start_successes(seed: Array, position: Array) -> Successes:
    """Return the success bits of streams from a position on, none made yet.

    Args:
        seed: uint64[L], seeds of the fire's stream.
        position: uint64[L], words consumed before.
    """
    none = jnp.zeros(LANES, dtype=jnp.uint32)
    return Successes(
        rows=jnp.zeros((_BUFFER_ROWS, LANES), dtype=jnp.uint32),
        state=seed + _gamma(1) * (position + jnp.uint64(1)),
        position=position,
        start=none,
        made=jnp.int32(0),
        low=none,
        high=none,
        fetched=none,
        left=jnp.int32(0),
    )


def _gamma(times: int) -> Array:
    return jnp.asarray(times * GOLDEN_GAMMA & 0xFFFFFFFFFFFFFFFF, dtype=jnp.uint64)


def _fetch(ground: Any, bits: Successes, drawn: Array) -> Successes:
    """Fill every lane's window with the bits from its count of draws on, making rows as they are needed."""

    def restart(old: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        state, position, start, _ = old
        used = (drawn - start).astype(jnp.uint64)
        return state + used * _gamma(1), position + used, drawn, jnp.int32(0)

    def make(row: Array, rows: Array) -> Array:
        return put_rows(rows, _row(ground, state, row)[None], row)

    window = jnp.int32(WINDOW_BITS // 32 + 1)
    needed = (fold_max(drawn - bits.start) >> jnp.uint32(5)).astype(jnp.int32) + window
    full = needed > _BUFFER_ROWS
    state, position, start, made = repeat_if(full, restart, (bits.state, bits.position, bits.start, bits.made))
    needed = jnp.where(full, window, needed)
    rows = lax.fori_loop(made, needed, make, bits.rows)
    offset = drawn - start
    index = (offset >> jnp.uint32(5)).astype(jnp.int32) * jnp.int32(LANES) + lax.iota(jnp.int32, LANES)
    flat = rows.reshape(-1)
    words = [flat.at[index + jnp.int32(k * LANES)].get(mode="promise_in_bounds") for k in range(3)]
    down, up = bounded(offset), bounded(jnp.uint32(31) - bounded(offset))
    return Successes(
        rows=rows,
        state=state,
        position=position,
        start=start,
        made=jnp.maximum(made, needed),
        low=(words[0] >> down) | ((words[1] << jnp.uint32(1)) << up),
        high=(words[1] >> down) | ((words[2] << jnp.uint32(1)) << up),
        fetched=drawn,
        left=jnp.int32(WINDOW_BITS),
    )


def _row(ground: Any, state: Array, row: Array) -> Array:
    """Return the success bits of draws 32 `row` to 32 `row` + 31 after a state: uint32[L]."""
    state = state + row.astype(jnp.uint64) * _gamma(32)
    # word >> 11 < threshold, as word <= limit; p = 1 gives the greatest word, p = 0 nothing at all.
    limit = (ground.threshold << jnp.uint64(11)) - jnp.uint64(1)
    successes = jnp.zeros(LANES, dtype=jnp.uint32)
    for draw in range(32):
        word = state + _gamma(draw)
        for shift, factor in MIX_STEPS:
            word = (word ^ (word >> jnp.uint64(shift))) * jnp.uint64(factor)
        word = word ^ (word >> jnp.uint64(31))
        successes = successes | ((word <= limit).astype(jnp.uint32) << jnp.uint32(draw))
    never = ground.threshold == jnp.uint64(0)
    return jnp.where(never, jnp.uint32(0), successes)


# Rows of words


def rows_at(words: Array, at: Array, count: int = 1) -> Array:
    """Return `count` rows of uint32[n, L] from row `at` on."""
    return lax.dynamic_slice(words, (at, jnp.int32(0)), (count, LANES))


def put_rows(words: Array, rows: Array, at: Array) -> Array:
    """Replace the rows of uint32[n, L] from row `at` on."""
    return lax.dynamic_update_slice(words, rows, (at, jnp.int32(0)))


def bounded(shift: Array) -> Array:
    """Return a shift below 32 as one that the compiler can see to be below 32."""
    return jnp.bitwise_and(shift, jnp.uint32(31))


def repeat_if(condition: Array, function: Callable[[_Carry], _Carry], carry: _Carry) -> _Carry:
    """Apply a function under a condition that all lanes share; a loop, because a branch copies its operands."""
    trips = condition.astype(jnp.int32)
    result: _Carry = lax.fori_loop(jnp.int32(0), trips, lambda _, carry: function(carry), carry)
    return result


def fold_max(lanes: Array) -> Array:
    """Return the maximum over lanes: elementwise down to 16 of them, for a plain reduction is scalar code."""
    while lanes.shape[-1] > _FOLD:
        half = lanes.shape[-1] // 2
        lanes = jnp.maximum(lanes[..., :half], lanes[..., half:])
    return jnp.max(lanes, axis=-1)


def fold(combine: Callable[[Array, Array], Array], rows: Array) -> Array:
    """Return all rows combined, elementwise: [lanes]."""
    while rows.shape[0] > 1:
        half, odd = divmod(rows.shape[0], 2)
        halves = combine(rows[:half], rows[half : 2 * half])
        rows = jnp.concatenate([halves, rows[-1:]]) if odd else halves
    return rows[0]


# What becomes of a tile's fires


def spread_numbers(fire: Fire) -> Array:
    """Return the bit planes of the spread numbers in plain binary, lowest first: uint32[K, W, L]."""
    binary = [fire.planes[-1]]
    for plane in fire.planes[-2::-1]:
        binary.append(binary[-1] ^ plane)
    return jnp.stack(binary[::-1])


def _ignition_steps(ground: Any, fire: Fire) -> Array:
    """Return the ignition steps of every cell: uint32[W * 32, L]."""
    bit = jnp.arange(32, dtype=jnp.uint32)[None, :, None]
    number = jnp.zeros((fire.burned.shape[0], 32, LANES), dtype=jnp.uint32)
    for index, plane in enumerate(spread_numbers(fire)):
        number = number | (((plane[:, None] >> bit) & jnp.uint32(1)) << jnp.uint32(index))
    burned = ((fire.burned[:, None] >> bit) & jnp.uint32(1)) != jnp.uint32(0)
    return jnp.where(burned, number * ground.interval, jnp.uint32(NEVER)).reshape(-1, LANES)


def digest(ground: Any, fire: Fire, seed_hi: Array, seed_lo: Array) -> Array:
    """Return the fire-world digests of a tile: uint32[8, L].

    After its first byte the message is a sequence of 32-bit numbers, 21 of header and one a cell, so every
    word of it is the end of one number and the start of the next.
    """
    header = jnp.broadcast_to(ground.header[:, None], (_HEADER, LANES))
    position = fire.stream_position
    halves = (seed_hi, seed_lo, (position >> jnp.uint64(32)).astype(jnp.uint32), position.astype(jnp.uint32))
    for at, half in zip((14, 15, 19, 20), halves, strict=True):
        header = header.at[at].set(half)
    planes = spread_numbers(fire)
    end = ground.cells + jnp.uint32(_HEADER)
    blocks = ((ground.cells * jnp.uint32(4) + jnp.uint32(4 * _HEADER + 1 + 8)) // jnp.uint32(64)) + jnp.uint32(1)

    def number(at: Array) -> Array:
        cell = jnp.minimum(jnp.maximum(at, jnp.uint32(_HEADER)) - jnp.uint32(_HEADER), ground.cells)
        word = (cell >> jnp.uint32(5)).astype(jnp.int32)
        value = _cell_step(ground, fire.burned, planes, word, bounded(cell))
        value = jnp.where(at < jnp.uint32(_HEADER), rows_at(header, at.astype(jnp.int32))[0], value)
        rest = jnp.where(at == end, jnp.uint32(0x80000000), jnp.uint32(0))
        return jnp.where(at < end, value, rest)

    def absorb(block: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        state, before, message = carry

        def write(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            message, before = carry
            now = number(block * jnp.uint32(BLOCK_WORDS) + index.astype(jnp.uint32))
            word = (before << jnp.uint32(24)) | (now >> jnp.uint32(8))
            return put_rows(message, word[None], index), now

        message, before = lax.fori_loop(jnp.int32(0), jnp.int32(BLOCK_WORDS), write, (message, before))
        length = ground.cells * jnp.uint32(32) + jnp.uint32(8 * (4 * _HEADER + 1))
        tail = jnp.where(block + jnp.uint32(1) == blocks, length, jnp.uint32(0))
        words = [message[index] for index in range(BLOCK_WORDS)]
        words[-1] = words[-1] | tail
        state = jnp.stack(compress(tuple(state), words))
        return state, before, message

    initial = jnp.broadcast_to(jnp.asarray(INITIAL_STATE, dtype=jnp.uint32)[:, None], (8, LANES))
    first = jnp.full(LANES, ord("e"), dtype=jnp.uint32)
    message = jnp.zeros((BLOCK_WORDS, LANES), dtype=jnp.uint32)
    hashed: Array = lax.fori_loop(jnp.uint32(0), blocks, absorb, (initial, first, message))[0]
    return hashed


def _cell_step(ground: Any, burned: Array, planes: Array, word: Array, bit: Array) -> Array:
    number = jnp.zeros(LANES, dtype=jnp.uint32)
    for index in range(planes.shape[0]):
        plane = rows_at(planes[index], word)[0]
        number = number | (((plane >> bit) & jnp.uint32(1)) << jnp.uint32(index))
    burns = (rows_at(burned, word)[0] >> bit) & jnp.uint32(1)
    return jnp.where(burns != jnp.uint32(0), number * ground.interval, jnp.uint32(NEVER))


# Tiles and calls


def _kernel(finish: Callable[..., dict[str, Array]]) -> Kernel:
    """Make the kernel of a call: T tiles of seeds, each tile's fires finished by `finish`."""

    def run(size: FireSize, ground: Any, count: Array, seed_hi: Array, seed_lo: Array) -> dict[str, Array]:
        def tile(arguments: tuple[Array, Array, Array]) -> dict[str, Array]:
            index, hi, lo = arguments
            # Tiles beyond the seeds of the call burn for no step.
            mine = ground._replace(spreads=jnp.where(index < count, ground.spreads, jnp.int32(0)))
            return finish(ground, run_fire(mine, size, hi, lo), hi, lo)

        index = lax.iota(jnp.int32, size.tiles)
        results: dict[str, Array] = lax.map(tile, (index, seed_hi, seed_lo))
        return results

    return Kernel(run)


def _world_of(ground: Any, fire: Fire, _hi: Array, _lo: Array) -> dict[str, Array]:
    # Lanes first, as the host wants it; the copy is cheaper here.
    steps = _ignition_steps(ground, fire).T
    return {"ignition_step": steps, "stream_position": fire.stream_position}


def _counts_of(_ground: Any, fire: Fire, _hi: Array, _lo: Array) -> dict[str, Array]:
    burned = jnp.sum(lax.population_count(fire.burned), axis=0, dtype=jnp.uint32)
    return {"burned": burned, "stream_position": fire.stream_position}


def _digests_of(ground: Any, fire: Fire, hi: Array, lo: Array) -> dict[str, Array]:
    return _counts_of(ground, fire, hi, lo) | {"digest": digest(ground, fire, hi, lo).T}


_WORLDS: Final = _kernel(_world_of)
_COUNTS: Final = _kernel(_counts_of)
_DIGESTS: Final = _kernel(_digests_of)


def _run(
    kernel: Kernel, scenario: Scenario, seeds: ArrayLike, threads: int | None
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yield (index of the first seed, results with seeds on the first axis) for every call."""
    size = fire_size(scenario)
    ground = terrain(scenario, size)
    seeds = np.asarray(seeds, dtype=np.uint64)
    per_call = seeds_of_a_call(len(seeds), size.tiles * LANES, threads)

    def call(at: int) -> tuple[int, dict[str, np.ndarray]]:
        hi, lo = padded_seeds(seeds[at : at + per_call], size.tiles)
        number = min(per_call, len(seeds) - at)
        parts = kernel(size, ground, np.asarray(-(-number // LANES), dtype=np.int32), hi, lo)
        return at, {name: part.reshape(-1, *part.shape[2:])[:number] for name, part in parts.items()}

    kernel.compile(size, ground, np.int32(0), *padded_seeds(seeds[:0], size.tiles))
    yield from run_batches(call, range(0, len(seeds), per_call), threads=threads)


def padded_seeds(seeds: np.ndarray, tiles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the halves of seeds as two uint32[tiles, L], zeros after the last seed."""
    padded = np.zeros(tiles * LANES, dtype=np.uint64)
    padded[: len(seeds)] = seeds
    hi, lo = split(padded)
    return hi.reshape(tiles, LANES), lo.reshape(tiles, LANES)
