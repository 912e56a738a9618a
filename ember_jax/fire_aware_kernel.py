"""The fire-aware policy in a tile of lanes (contract section 13): ways kept until fire comes upon them.

A lane keeps the first direction of a shortest way from every cell, and the cells that its people come by on
these ways. Fire only takes cells away, so distances only grow: while none of those cells burns, everybody's
distance stays what it is, no neighbour comes nearer, and the first direction stays the first. Whoever is held
up waits on the own way. So only when fire touches a way that somebody is on is there anything to do.

On small grids such lanes are taken out, 16 at a time side by side, flooded and put back. On large ones, where
a flood takes long, a lane is looked after alone: what the fire has taken is crossed out of its ways (see
`ember_jax.route_kernel`), and only if somebody's distance has grown is there a flood.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ember_jax.board_kernel import VECTOR, any_word, bits_at, inside, near, put, some_cell, written
from ember_jax.fire_kernel import FireSize, pack, repeat_if
from ember_jax.kernel import LANES
from ember_jax.movement_kernel import People, as_bit, bit_of, each, row_of, with_row
from ember_jax.route_kernel import (
    Routes,
    board_of,
    each_lane,
    flood,
    marked,
    nearer,
    offsets,
    prune_lane,
    restart_routes,
    start_routes,
    with_flood,
)

_GOAL: Final = 0  # any exit
_SHORT: Final = 32  # words
_TRIPS: Final = 3  # pairs of steps between two looks at what has changed


class Guide(NamedTuple):
    """What the policy keeps between steps."""

    first: tuple[Array, Array, Array]
    """uint32[W, L] each: the bits, lowest first, of the first direction of a shortest way: 1 for north, then
    south, east, west; 0 without a way. Exact on the cells of `relied`."""
    relied: Array
    """uint32[W, L]: the cells that people come by."""
    trapped: Array
    """M[L]: people without a way; fire never gives one back."""
    routes: Any
    """On large grids the `Routes`, exact in a lane when it was last looked after; `()` on small ones."""


def first_guide(parents: np.ndarray, people: Iterable[int], width: int) -> np.ndarray:
    """Return what a guide has of ways at step 0, on the host: `first` and `relied`, uint32[4, W].

    Args:
        parents: uint32[4, W], the cells whose neighbour in each direction is one nearer to an exit.
        people: the cells of people.
        width: cells from one row to the next.
    """
    north, south, east, west = _firsts(tuple(parents))
    boards = np.stack([north | east, south | east, west])
    bits = [np.unpackbits(board.view(np.uint8), bitorder="little") for board in boards]
    code = bits[0] + 2 * bits[1] + 4 * bits[2]
    steps = (0, -width, width, 1, -1)
    relied = np.zeros(code.shape, dtype=np.bool_)
    for start in people:
        cell = start
        while not relied[cell]:
            relied[cell] = True
            cell += steps[code[cell]]
    return np.concatenate([boards, pack(relied, boards.shape[1])[None]])


def start_guide(ground: Any, size: FireSize, people: People) -> Guide:
    """Return what is known at step 0."""
    boards = [jnp.broadcast_to(board[:, None], (*board.shape, LANES)) for board in ground.guide]
    return Guide(
        first=(boards[0], boards[1], boards[2]),
        relied=boards[3],
        trapped=jnp.zeros_like(people.active),
        routes=() if _short(size) else start_routes(ground, size),
    )


def restart_guide(ground: Any, size: FireSize, again: Array, guide: Guide) -> Guide:
    """Return what is known at step 0 in the lanes of `again`, bool[L]."""
    pairs = zip(ground.guide, (*guide.first, guide.relied), strict=True)
    boards = [jnp.where(again, board[:, None], kept) for board, kept in pairs]
    return Guide(
        first=(boards[0], boards[1], boards[2]),
        relied=boards[3],
        trapped=jnp.where(again, jnp.zeros_like(guide.trapped), guide.trapped),
        routes=() if _short(size) else restart_routes(ground, size, again, guide.routes),
    )


def _short(size: FireSize) -> bool:
    """Tell whether lanes are flooded side by side; longer boards fill vectors alone."""
    return size.words <= _SHORT


def aim(
    ground: Any, size: FireSize, burning: Array, present: Array, people: People, guide: Guide
) -> tuple[People, Guide]:
    """Point everybody along the first direction of a shortest way around the fire.

    Args:
        ground: the scenario, with `route` and `fire`.
        size: the padded size of the fire.
        burning: uint32[margin + W + margin, L], before the step.
        present: M[], who is active in any lane.
        people: everybody.
        guide: what was kept.
    """
    seeking = people.active & ~guide.trapped
    none = jnp.zeros(LANES, dtype=jnp.uint32)

    def touched() -> Array:
        burns = any_word(inside(size, burning) & guide.relied)
        return jnp.where(seeking != jnp.asarray(0, seeking.dtype), burns, none)

    need = written(ground.route.once, touched, none)
    renew = _renew_together if _short(size) else _renew_alone
    guide = renew(ground, size, burning, present, people._replace(active=seeking), need, guide)

    def point(person: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        target, trapped = carry
        cell = row_of(people.cell, person)
        code = bits_at(size.words, guide.first, cell)
        there = cell
        for direction, offset in enumerate(offsets(ground)):
            there = jnp.where(code == jnp.uint32(direction + 1), cell + offset, there)
        return with_row(target, there, person), trapped | as_bit(code == jnp.uint32(0), person, trapped)

    target, trapped = each(present, point, (people.target, guide.trapped))
    return people._replace(target=target), guide._replace(trapped=trapped)


def _renew_together(
    ground: Any, size: FireSize, burning: Array, present: Array, people: People, need: Array, guide: Guide
) -> Guide:
    """Flood in the lanes where `need`, uint32[L], is not 0; `active` are those who may have a way."""

    def note(lane: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        lanes, count = carry
        found = (need[lane] != jnp.uint32(0)).astype(jnp.int32)
        return lax.dynamic_update_slice(lanes, lane[None], (count,)), count + found

    start = (jnp.zeros(LANES, dtype=jnp.int32), jnp.int32(0))
    lanes, count = lax.fori_loop(jnp.int32(0), jnp.int32(LANES), note, start)

    def some(index: Array, guide: Guide) -> Guide:
        # A part that is not full has the last lane several times.
        places = jnp.minimum(index * jnp.int32(VECTOR) + lax.iota(jnp.int32, VECTOR), count - jnp.int32(1))
        mine = lanes.at[places].get(mode="promise_in_bounds")
        at = lax.iota(jnp.int32, burning.shape[0])[:, None] * jnp.int32(LANES) + mine[None]
        burns = burning.reshape(-1).at[at].get(mode="promise_in_bounds")
        occupied = _occupied(size, present, people, mine)
        found = flood(ground, size, burns, jnp.int32(_GOAL), people=occupied, planes=0)
        firsts = _firsts(nearer(ground, size, found))
        return _with_lanes(guide, firsts, _come_by(ground, size, firsts, occupied), mine)

    parts = (count + jnp.int32(VECTOR - 1)) // jnp.int32(VECTOR)
    result: Guide = lax.fori_loop(jnp.int32(0), parts, some, guide)
    return result


def _renew_alone(
    ground: Any, size: FireSize, burning: Array, present: Array, people: People, need: Array, guide: Guide
) -> Guide:
    """Bring the lanes where `need`, uint32[L], is not 0 up to date; `active` are those who may have a way."""
    goal = jnp.int32(_GOAL)

    def one(lane: Array, guide: Guide) -> Guide:
        burns = lax.dynamic_slice_in_dim(burning, lane, 1, axis=1)
        occupied = _occupied(size, present, people, lane[None])
        routes = prune_lane(ground, size, burns, goal, lane, guide.routes)
        valid = inside(size, board_of(routes.valid, goal, lane))

        def again(routes: Routes) -> Routes:
            found = flood(ground, size, burns, goal, people=occupied, planes=0)
            return with_flood(ground, size, found, goal, lane, routes)

        routes = repeat_if(some_cell(occupied & ~valid), again, routes)
        firsts = _firsts(tuple(board_of(boards, goal, lane) for boards in routes.parents))
        relied = _walked(ground, size, present, people, firsts, lane)
        return _with_lanes(guide, firsts, relied, lane[None])._replace(routes=routes)

    return each_lane(marked(need), one, guide)


def _with_lanes(guide: Guide, firsts: tuple[Array, ...], relied: Array, lanes: Array) -> Guide:
    """Return a guide with what was found in some lanes."""
    north, south, east, west = firsts
    new = (north | east, south | east, west, relied)

    def back(index: Array, boards: tuple[Array, ...]) -> tuple[Array, ...]:
        columns = [lax.dynamic_slice_in_dim(board, index, 1, axis=1) for board in new]
        place = (jnp.int32(0), lanes[index])
        return tuple(
            lax.dynamic_update_slice(board, column, place) for board, column in zip(boards, columns, strict=True)
        )

    kept = (*guide.first, guide.relied)
    boards: tuple[Array, ...] = lax.fori_loop(jnp.int32(0), jnp.int32(lanes.shape[0]), back, kept)
    return guide._replace(first=(boards[0], boards[1], boards[2]), relied=boards[3])


def _occupied(size: FireSize, present: Array, people: People, lanes: Array) -> Array:
    """Return where active people are, in some lanes: uint32[W, G]."""

    def place(person: Array, board: Array) -> Array:
        cell, there = row_of(people.cell, person), bit_of(people.active, person).astype(jnp.uint32)

        def one(index: Array, board: Array) -> Array:
            lane = lanes[index]
            bit = there[lane] << (cell[lane] & jnp.uint32(31))
            at = ((cell[lane] >> jnp.uint32(5)).astype(jnp.int32), index)
            return lax.dynamic_update_slice(board, lax.dynamic_slice(board, at, (1, 1)) | bit, at)

        placed: Array = lax.fori_loop(jnp.int32(0), jnp.int32(lanes.shape[0]), one, board)
        return placed

    return each(present, place, jnp.zeros((size.words, lanes.shape[0]), dtype=jnp.uint32))


def _firsts(boards: tuple[Any, ...]) -> tuple[Any, Any, Any, Any]:
    """Return the cells whose first direction is north, south, east, west."""
    north, south, east, west = boards
    return north, south & ~north, east & ~(north | south), west & ~(north | south | east)


def _come_by(ground: Any, size: FireSize, firsts: tuple[Array, ...], cells: Array) -> Array:
    """Return the cells that one comes by in first directions from some cells, uint32[W, G]: in all lanes at once."""
    none = jnp.zeros((cells.shape[0] + 2 * size.margin, cells.shape[1]), dtype=jnp.uint32)
    padded = [put(size, none, first) for first in firsts]

    def onward(board: Array) -> Array:
        to_north, to_south, to_east, to_west = (near(ground, size, board & first) for first in padded)
        return inside(size, board) | to_north[1] | to_south[0] | to_east[3] | to_west[2]

    def two(_: Array, boards: tuple[Array, Array]) -> tuple[Array, Array]:
        odd = put(size, boards[1], onward(boards[0]))
        return put(size, boards[0], onward(odd)), odd

    def some(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        even, odd = lax.fori_loop(jnp.int32(0), jnp.int32(_TRIPS), two, carry[:2])
        return even, odd, some_cell(inside(size, even) ^ inside(size, odd))

    start = (put(size, none, cells), none, jnp.bool_(True))
    board, _, _ = lax.while_loop(lambda carry: carry[2], some, start)
    return inside(size, board)


def _walked(
    ground: Any, size: FireSize, present: Array, people: People, firsts: tuple[Array, ...], lane: Array
) -> Array:
    """Return the same in one lane, uint32[W, 1]: active people walk until somebody has been there before."""

    def at(cell: Array) -> tuple[Array, Array]:
        return (cell >> jnp.uint32(5)).astype(jnp.int32), jnp.int32(0)

    def has(board: Array, cell: Array) -> Array:
        word = lax.dynamic_slice(board, at(cell), (1, 1))[0, 0]
        bit: Array = (word >> (cell & jnp.uint32(31))) & jnp.uint32(1)
        return bit

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        board, cell, _ = carry
        word = lax.dynamic_slice(board, at(cell), (1, 1))
        board = lax.dynamic_update_slice(board, word | (jnp.uint32(1) << (cell & jnp.uint32(31))), at(cell))
        there = cell
        for first, offset in zip(firsts, offsets(ground), strict=True):
            there = there + has(first, cell) * offset
        # Looked up in the board after the mark: one that a trip reads before it writes is copied.
        return board, there, has(board, there) == jnp.uint32(0)

    def one(person: Array, board: Array) -> Array:
        start = row_of(people.cell, person)[lane]
        active = bit_of(people.active, person)[lane] != jnp.asarray(0, people.active.dtype)
        go = active & (has(board, start) == jnp.uint32(0))
        walked: Array = lax.while_loop(lambda carry: carry[2], step, (board, start, go))[0]
        return walked

    return each(present, one, jnp.zeros((size.words, 1), dtype=jnp.uint32))
