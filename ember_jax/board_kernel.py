"""Boards of cells in words, batch-explicit: neighbours, look-ups and tests (see `ember_jax.fire_kernel`).

A board is uint32[margin + W + margin, lanes] or, without its margins, uint32[W, lanes]: bits for the cells of a
grid, row-major.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import jax.numpy as jnp
from jax import Array, lax

from ember_jax.fire_kernel import FireSize, bounded, fold

VECTOR: Final = 16
"""Words that the processor handles at once."""
SELECTED_WORDS: Final = 32
"""Up to so many words a look-up by selection beats one by address."""

_Carry = TypeVar("_Carry")


def inside(size: FireSize, board: Array) -> Array:
    """Return a padded board without its margins."""
    return board[size.margin : size.margin + size.words]


def put(size: FireSize, board: Array, cells: Array) -> Array:
    """Return a padded board with other cells inside."""
    return lax.dynamic_update_slice(board, cells, (jnp.int32(size.margin), jnp.int32(0)))


def near(ground: Any, size: FireSize, board: Array) -> tuple[Array, Array, Array, Array]:
    """Return the cells whose northern, southern, eastern, western neighbour is on a padded board: [W, lanes]."""
    margin, one = jnp.int32(size.margin), jnp.int32(1)
    bits, rest = bounded(ground.fire.row_bits), bounded(jnp.uint32(31) - ground.fire.row_bits)
    above, below = margin - ground.fire.row_words, margin + ground.fire.row_words

    def at(first: Array) -> Array:
        return lax.dynamic_slice(board, (first, jnp.int32(0)), (size.words, board.shape[1]))

    here = at(margin)
    north = (at(above) << bits) | ((at(above - one) >> jnp.uint32(1)) >> rest)
    south = (at(below) >> bits) | ((at(below + one) << jnp.uint32(1)) << rest)
    east = ((here >> jnp.uint32(1)) | (at(margin + one) << jnp.uint32(31))) & ground.fire.has_east[:, None]
    west = ((here << jnp.uint32(1)) | (at(margin - one) >> jnp.uint32(31))) & ground.fire.has_west[:, None]
    return north, south, east, west


def some_cell(cells: Array) -> Array:
    """Return whether uint32[W, lanes] has any cell, in any lane: bool[]."""
    return some_bit(any_word(cells))


def any_word(cells: Array) -> Array:
    """Return all words of uint32[W, lanes] together: uint32[lanes], or uint32[16] for fewer lanes."""
    return _by_block(jnp.bitwise_or, lambda rows: fold(jnp.bitwise_or, rows), cells)


def count_cells(cells: Array) -> Array:
    """Return how many cells uint32[W, lanes] has: uint32[lanes], or in parts uint32[16] for fewer lanes."""
    return _by_block(jnp.add, lambda rows: jnp.sum(lax.population_count(rows), axis=0, dtype=jnp.uint32), cells)


def _by_block(combine: Callable[[Array, Array], Array], together: Callable[[Array], Array], cells: Array) -> Array:
    """Put rows together, 16 at a time: a longer reduction becomes scalar code."""
    rows = cells.reshape(-1, max(VECTOR, cells.shape[1]))
    if rows.shape[0] <= VECTOR:
        return together(rows)

    def block(index: Array, found: Array) -> Array:
        return combine(found, together(lax.dynamic_slice_in_dim(rows, index * jnp.int32(VECTOR), VECTOR)))

    none = jnp.zeros(rows.shape[1], dtype=cells.dtype)
    result: Array = lax.fori_loop(jnp.int32(0), jnp.int32(rows.shape[0] // VECTOR), block, none)
    return result


def some_bit(lanes: Array) -> Array:
    """Return whether any lane of uint32[lanes] is not 0: bool[]."""
    while lanes.shape[0] > VECTOR:
        half = lanes.shape[0] // 2
        lanes = lanes[:half] | lanes[half:]
    some: Array = lax.reduce_or(lanes, axes=(0,)) != jnp.uint32(0)
    return some


def written(once: Array, function: Callable[[], _Carry], like: _Carry) -> _Carry:
    """Return what a function gives, written to memory.

    Args:
        once: int32[], 1 (see `ember_jax.route_kernel.RouteGround.once`).
        function: gives the arrays.
        like: arrays of the same shapes.
    """
    result: _Carry = lax.fori_loop(jnp.int32(0), once, lambda _, _old: function(), like)
    return result


def selected(rows: list[Array], cell: Array) -> Array:
    """Return, in every lane, the row that holds its cell; the rows are all words of a board."""
    for bit in range((len(rows) - 1).bit_length()):
        odd = (cell >> jnp.uint32(5 + bit)) & jnp.uint32(1) != jnp.uint32(0)
        rows = [jnp.where(odd, high, low) for low, high in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]


def word_at(words: int, board: Array, cell: Array, *, margin: int = 0) -> Array:
    """Return the word of a board that holds every lane's cell: uint32[lanes].

    Args:
        words: words W of the grid.
        board: uint32[margin + W + margin, lanes], or uint32[margin + W + margin] for all lanes.
        cell: uint32[lanes].
        margin: words of padding on both sides.
    """
    if words <= SELECTED_WORDS:
        return selected([board[margin + index] for index in range(words)], cell)
    index = (cell >> jnp.uint32(5)).astype(jnp.int32) + jnp.int32(margin)
    if board.ndim == 2:
        lanes = board.shape[1]
        index = index * jnp.int32(lanes) + lax.iota(jnp.int32, lanes)
    return board.reshape(-1).at[index].get(mode="promise_in_bounds")


def bits_at(words: int, boards: Sequence[Array], cell: Array, *, margin: int = 0) -> Array:
    """Return the bits of up to 32 boards (see `word_at`) at every lane's cell, the first lowest: uint32[lanes]."""
    return code_of([word_at(words, board, cell, margin=margin) for board in boards], cell)


def code_of(words: Sequence[Array], cell: Array) -> Array:
    """Return the bits of the words that hold every lane's cell, the first lowest: uint32[lanes]."""
    bit = cell & jnp.uint32(31)
    code = jnp.zeros_like(cell)
    for place, word in enumerate(words):
        code = code | (((word >> bit) & jnp.uint32(1)) << jnp.uint32(place))
    return code
