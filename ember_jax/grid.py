"""Actions, look-ups and distances on a padded grid (contract section 1)."""

from typing import Final

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

UNREACHABLE: Final = 2**30
"""The distance of a cell without a path."""
STAY, NORTH, SOUTH, EAST, WEST = range(5)
OFFSETS: Final = ((0, 0), (-1, 0), (1, 0), (0, 1), (0, -1))
"""Row and column offset of each action, in action order."""


def target_of(row: ArrayLike, col: ArrayLike, action: ArrayLike) -> tuple[Array, Array]:
    """Return the cells that actions point at, out of bounds included: int32[...] each."""
    row, col = jnp.asarray(row, dtype=jnp.int32), jnp.asarray(col, dtype=jnp.int32)
    action = jnp.asarray(action, dtype=jnp.int32)
    down, right = (action == SOUTH).astype(jnp.int32), (action == EAST).astype(jnp.int32)
    up, left = (action == NORTH).astype(jnp.int32), (action == WEST).astype(jnp.int32)
    return row + down - up, col + right - left


def look_up(cells: Array, row: ArrayLike, col: ArrayLike, *, outside: ArrayLike) -> Array:
    """Return the values of cells[R, C] at positions, and `outside` beyond the padded array."""
    rows, cols = cells.shape
    row, col = jnp.asarray(row, dtype=jnp.int32), jnp.asarray(col, dtype=jnp.int32)
    inside = (row >= 0) & (row < rows) & (col >= 0) & (col < cols)
    index = jnp.where(inside, row * cols + col, 0)
    values = cells.reshape(-1).at[index].get(mode="promise_in_bounds")
    return jnp.where(inside, values, jnp.asarray(outside, dtype=cells.dtype))


def shifted(cells: Array, action: int, *, outside: ArrayLike) -> Array:
    """Return, for every cell, the value of its neighbour in a direction; `outside` beyond the array."""
    rows, cols = cells.shape
    row, col = OFFSETS[action]
    padded = jnp.pad(cells, 1, constant_values=outside)
    return jax.lax.slice(padded, (1 + row, 1 + col), (1 + row + rows, 1 + col + cols))


def distances(sources: Array, passable: Array) -> Array:
    """Return the fewest moves from every cell to the nearest source through passable cells.

    Relaxation to the fixpoint, a wave front a trip.

    Args:
        sources: bool[R, C]; a source that is not passable counts as none.
        passable: bool[R, C].

    Returns:
        int32[R, C], `UNREACHABLE` where there is no path.
    """
    start = jnp.where(sources & passable, jnp.int32(0), jnp.int32(UNREACHABLE))

    def relax(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        distance, _ = carry
        nearest = distance
        for direction in (NORTH, SOUTH, EAST, WEST):
            nearest = jnp.minimum(nearest, shifted(distance, direction, outside=UNREACHABLE) + jnp.int32(1))
        nearest = jnp.where(passable, nearest, jnp.int32(UNREACHABLE))
        return nearest, jnp.any(nearest != distance)

    distance, _ = jax.lax.while_loop(lambda carry: carry[1], relax, (start, jnp.any(sources & passable)))
    return jnp.minimum(distance, jnp.int32(UNREACHABLE))
