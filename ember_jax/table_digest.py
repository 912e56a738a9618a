"""Table digests on the device, taken as the tables are made (contract section 8).

The header of the message ends in the middle of a word, so every word after it is the end of one value and the start
of the next. A window of layers is hashed as far as it fills whole blocks; the values after that wait for the next.
"""

from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ember_jax.digest import BLOCK_WORDS, INITIAL_STATE, compress
from ember_ref.scenario import Scenario

_HEADER_BYTES: Final = 74
_HEADER_WORDS: Final = _HEADER_BYTES // 4  # whole ones; two bytes are left
_WAITING: Final = 32  # values of earlier windows that the next block may still need


class TableDigests(NamedTuple):
    """The digests of M tables so far."""

    header: np.ndarray
    """uint32[19, M]: the message before the values, the second half of the last word 0."""
    state: Any
    """uint32[8, M]."""
    waiting: Any
    """uint32[32, M]: the last values taken, the latest last."""
    values: int
    """Values taken of each table."""
    blocks: int
    """Blocks hashed."""


def start_digests(scenario: Scenario, names: list[str], seeds: list[int]) -> TableDigests:
    """Return the digests of nothing, of one table for each name and seed."""
    sizes = (scenario.termination.max_steps, scenario.grid.height, scenario.grid.width)
    header = np.zeros((_HEADER_WORDS + 1, len(names)), dtype=np.uint32)
    for index, (name, seed) in enumerate(zip(names, seeds, strict=True)):
        message = b"emberbench/table/v1\0" + name.encode("ascii") + b"\0" + bytes.fromhex(scenario.content_hash)
        message += seed.to_bytes(8, "big") + b"".join(size.to_bytes(4, "big") for size in sizes)
        header[:, index] = np.frombuffer(message + bytes(2), dtype=">u4")
    state = np.tile(np.array(INITIAL_STATE, dtype=np.uint32)[:, None], (1, len(names)))
    waiting = np.zeros((_WAITING, len(names)), dtype=np.uint32)
    return TableDigests(header, state, waiting, values=0, blocks=0)


def take_layers(digests: TableDigests, layers: Array, count: int, scenario: Scenario, *, last: bool) -> TableDigests:
    """Take a window of layers.

    Args:
        digests: of what came before.
        layers: uint32[M, T, R, C], from the highest snapshot down.
        count: how many of the T layers count.
        scenario: says which part of R x C is the grid.
        last: whether nothing follows.
    """
    height, width = scenario.grid.height, scenario.grid.width
    values = digests.values + count * height * width
    words = _HEADER_WORDS + values
    # At the end the rest of the last value, the bit after the message, and the length in two words.
    blocks = (words + 1 + 2 + BLOCK_WORDS - 1) // BLOCK_WORDS if last else words // BLOCK_WORDS
    first = BLOCK_WORDS * digests.blocks
    bits = 8 * (_HEADER_BYTES + 4 * values)
    state, waiting = _take(
        digests.header,
        digests.state,
        digests.waiting,
        layers,
        np.asarray([count, height, width, blocks - digests.blocks], dtype=np.int32),
        # Where the value that ends in the first word is in this window, and where the header ends.
        np.asarray([first - _HEADER_WORDS - digests.values, max(_HEADER_WORDS - first, -1)], dtype=np.int32),
        np.asarray([bits >> 32, bits & 0xFFFFFFFF], dtype=np.uint32) if last else np.zeros(2, dtype=np.uint32),
    )
    return digests._replace(state=state, waiting=waiting, values=values, blocks=blocks)


def finished(digests: TableDigests) -> list[str]:
    """Return the digests in hex, after the last window."""
    return [row.astype(">u4").tobytes().hex() for row in np.asarray(digests.state).T]


@jax.jit
def _take(
    header: Array, state: Array, waiting: Array, layers: Array, sizes: Array, offsets: Array, bits: Array
) -> tuple[Array, Array]:
    count, height, width, blocks = sizes
    tables, _, _, columns = layers.shape
    cells, rows = height * width, layers.shape[2]
    board = layers.reshape(tables, -1).T
    one = jnp.uint32(1)

    def value(index: Array) -> Array:
        """Return values by their place in the window: uint32[n, M]."""
        inside = jnp.clip(index, jnp.int32(0), count * cells - jnp.int32(1))
        layer, cell = inside // cells, inside % cells
        place = (layer * jnp.int32(rows) + cell // width) * jnp.int32(columns) + cell % width
        new = board.at[place].get(mode="promise_in_bounds")
        earlier = jnp.clip(index + jnp.int32(_WAITING), jnp.int32(0), jnp.int32(_WAITING - 1))
        old = waiting.at[earlier].get(mode="promise_in_bounds")
        # What comes after the last value is the bit that ends the message, and zeros.
        rest = jnp.where(index == count * cells, one << jnp.uint32(31), jnp.uint32(0))[:, None]
        index = index[:, None]
        return jnp.where(index < jnp.int32(0), old, jnp.where(index < count * cells, new, rest))

    def absorb(block: Array, state: Array) -> Array:
        at = block * jnp.int32(BLOCK_WORDS) + jnp.arange(-1, BLOCK_WORDS, dtype=jnp.int32)
        values = value(at + offsets[0])
        before, now = values[:-1], values[1:]
        at = at[1:]
        place = jnp.int32(_HEADER_WORDS) - offsets[1] + at
        head = header.at[jnp.clip(place, jnp.int32(0), jnp.int32(_HEADER_WORDS))].get(mode="promise_in_bounds")
        ended = (at > offsets[1])[:, None]
        begins = jnp.where((at >= offsets[1])[:, None], now >> jnp.uint32(16), jnp.uint32(0))
        words = jnp.where(ended, before << jnp.uint32(16), head) | begins
        length = jnp.where(block == blocks - jnp.int32(1), bits, jnp.zeros_like(bits))
        words = words.at[-2:].set(words[-2:] | length[:, None])
        return jnp.stack(compress(tuple(state), tuple(words)))

    state = lax.fori_loop(jnp.int32(0), blocks, absorb, state)
    return state, value(count * cells - jnp.int32(_WAITING) + jnp.arange(_WAITING, dtype=jnp.int32))
