"""Shortest ways to exits while a fire grows, batch-explicit: floods, and what the fire takes from them.

A flood gives for every cell the neighbours that are one nearer to a goal (one exit, or any of several). Fire
only takes cells away, so afterwards a cell keeps its distance as long as one neighbour that was one nearer
keeps its own: such neighbours are crossed out until nothing changes, and what is left is exact. Only a cell
that has lost all of them has a greater distance now, and only when somebody's way depends on such a cell is
there a new flood. On large grids that is rare, and every lane is looked after alone, its words side by side.
On small ones 16 lanes go together, nearly always some of them needs a flood, and all have one whenever fire
takes anything: crossing out would be in vain.

A flood is three sets of cells by distance modulo 3, each updated in place from the one before it. Each level
is the neighbours of the one before that are in neither of the two sets before it: the distances of neighbours
differ by at most one, so older members of the sets do no harm.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ember_jax import board_kernel
from ember_jax.board_kernel import (
    VECTOR,
    bits_at,
    code_of,
    inside,
    near,
    put,
    selected,
    some_bit,
    some_cell,
    word_at,
    written,
)
from ember_jax.fire_kernel import FireSize, pack
from ember_jax.kernel import LANES
from ember_ref.grid import Position
from ember_ref.scenario import Scenario

FAR: Final = 1 << 18
"""The distance of a cell without a way; all others are less, on the largest grid too."""
DIRECTIONS: Final = 4
"""North, south, east, west; bit d of a code is direction d."""

_TOGETHER: Final = LANES

_Carry = TypeVar("_Carry")


class RouteGround(NamedTuple):
    """The goals of one scenario, packed; host arrays. E goals, W words, P people."""

    floor: np.ndarray
    """uint32[W]: open cells, exits included."""
    goals: np.ndarray
    """int32[]: goals that are real; the others have no cells."""
    sources: np.ndarray
    """uint32[E, W]: the cells of each goal."""
    parents: np.ndarray
    """uint32[4, E, W]: cells whose neighbour in a direction is one nearer, at step 0."""
    valid: np.ndarray
    """uint32[E, W]: cells with a way, at step 0."""
    distance: np.ndarray
    """uint32[E, P]: of everybody's start, at step 0; `FAR` without a way."""
    once: np.ndarray
    """int32[]: 1. A loop of so many trips writes to memory what it carries, so that uses of it don't compute it
    again; the compiler must not know the number."""


class Routes(NamedTuple):
    """The ways of a tile to every goal, by group of G lanes."""

    parents: tuple[Array, Array, Array, Array]
    """uint32[E, W, L] each, or uint32[E, L, W, 1] for lazy ones: cells whose neighbour in a direction is one
    nearer."""
    valid: Array
    """uint32[E, margin + W + margin, L], or uint32[E, L, margin + W + margin, 1]: cells that have kept their
    distance."""


class Flood(NamedTuple):
    """What a flood finds, of one goal and one group of lanes."""

    levels: tuple[Array, Array, Array]
    """uint32[margin + W + margin, G] each: cells at a distance of 0, 1, 2 modulo 3."""
    planes: Array
    """uint32[K, W, G]: bit planes of the trip in which a cell was reached, three levels a trip, in Gray code."""
    trips: Array
    """int32[]: trips that the flood took."""


def lazy(size: FireSize) -> bool:
    """Tell whether lanes are looked after alone, and flooded only when somebody needs it."""
    return size.words > board_kernel.SELECTED_WORDS


def group_lanes(size: FireSize) -> int:
    """Return the lanes G of a group."""
    return 1 if lazy(size) else _TOGETHER


# The host's part


def route_ground(
    scenario: Scenario, size: FireSize, goals: Sequence[Sequence[Position]], *, padded: int, people: int
) -> RouteGround:
    """Flood once on the host, around the ignitions, for every goal.

    Args:
        scenario: the scenario.
        size: its padded size.
        goals: the cells of every goal.
        padded: padded goals E.
        people: padded people P.
    """
    height, width = scenario.grid.height, scenario.grid.width
    floor = np.ones((height, width), dtype=np.bool_)
    for cell in scenario.grid.obstacles:
        floor[cell] = False
    free = floor.copy()
    for cell in scenario.fire.ignitions:
        free[cell] = False
    ground = RouteGround(
        floor=pack(floor, size.words),
        goals=np.asarray(len(goals), dtype=np.int32),
        sources=np.zeros((padded, size.words), dtype=np.uint32),
        parents=np.zeros((DIRECTIONS, padded, size.words), dtype=np.uint32),
        valid=np.zeros((padded, size.words), dtype=np.uint32),
        distance=np.full((padded, people), FAR, dtype=np.uint32),
        once=np.asarray(1, dtype=np.int32),
    )
    starts = tuple(np.array([person.position for person in scenario.people], dtype=np.int64).T)
    for goal, cells in enumerate(goals):
        sources = np.zeros_like(floor)
        for cell in cells:
            sources[cell] = True
        distance = flood_distances(free, sources & free)
        ground.sources[goal] = pack(sources, size.words)
        ground.valid[goal] = pack(distance < FAR, size.words)
        ground.distance[goal, : len(scenario.people)] = distance[starts]
        around = np.pad(distance, 1, constant_values=FAR)
        shifts = (around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, 2:], around[1:-1, :-2])
        for direction, there in enumerate(shifts):
            ground.parents[direction, goal] = pack((distance < FAR) & (there + 1 == distance), size.words)
    return ground


def flood_distances(free: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Return the distance of every free cell to the nearest source, else `FAR`: int64[H, W]; a front a turn."""
    distance = np.full(tuple(side + 2 for side in free.shape), FAR, dtype=np.int64)
    open_cells = np.pad(free, 1).reshape(-1)
    flat, stride = distance.reshape(-1), distance.shape[1]
    front, steps = np.flatnonzero(np.pad(sources, 1)), 0
    while front.size:
        flat[front] = steps
        near = np.concatenate([front + offset for offset in (-stride, stride, 1, -1)])
        front, steps = np.unique(near[open_cells[near] & (flat[near] == FAR)]), steps + 1
    return distance[1:-1, 1:-1]


# Ways


def start_routes(ground: Any, size: FireSize) -> Routes:
    """Return the ways of step 0 in every lane."""

    def in_all(board: Any) -> Array:
        board = jnp.asarray(board)
        if lazy(size):
            return jnp.broadcast_to(board[:, None, :, None], (board.shape[0], LANES, board.shape[1], 1))
        return jnp.broadcast_to(board[:, :, None], (*board.shape, LANES))

    parents = [in_all(ground.route.parents[direction]) for direction in range(DIRECTIONS)]
    margins = ((0, 0), (size.margin, size.margin))
    return Routes(
        parents=(parents[0], parents[1], parents[2], parents[3]),
        valid=in_all(jnp.pad(ground.route.valid, margins)),
    )


def restart_routes(ground: Any, size: FireSize, again: Array, routes: Routes) -> Routes:
    """Return the ways of step 0 in the lanes of `again`, bool[L], and what was there in the others."""
    margins = ((0, 0), (size.margin, size.margin))
    first = [ground.route.parents[direction] for direction in range(DIRECTIONS)]
    first.append(jnp.pad(ground.route.valid, margins))
    boards = [*routes.parents, routes.valid]
    if lazy(size):

        def one(lane: Array, boards: tuple[Array, ...]) -> tuple[Array, ...]:
            start = (jnp.int32(0), lane, jnp.int32(0), jnp.int32(0))
            return tuple(
                lax.dynamic_update_slice(board, jnp.asarray(cells)[:, None, :, None], start)
                for board, cells in zip(boards, first, strict=True)
            )

        after: tuple[Array, ...] = each_group(size, marked(size, again.astype(jnp.uint32)), one, tuple(boards))
        boards = list(after)
    else:
        pairs = zip(boards, first, strict=True)
        boards = [jnp.where(again, jnp.asarray(cells)[:, :, None], board) for board, cells in pairs]
    return Routes(parents=(boards[0], boards[1], boards[2], boards[3]), valid=boards[4])


def burns_by_lane(ground: Any, size: FireSize, burning: Array) -> Array:
    """Lay a board [n, L] out as the ways are: [L, n, 1] for lazy ones."""
    if not lazy(size):
        return burning
    like = jnp.zeros((LANES, burning.shape[0], 1), dtype=jnp.uint32)
    return written(ground.route.once, lambda: burning.T[:, :, None], like)


def codes(size: FireSize, routes: Routes, goal: Array, cell: Array) -> Array:
    """Return the directions one nearer to a goal from every lane's cell, a bit each: uint32[L]."""
    found = []
    for boards in routes.parents:
        if not lazy(size):
            board = lax.dynamic_index_in_dim(boards, goal, keepdims=False)
            found.append(word_at(size.words, board, cell))
        else:
            lane = goal * jnp.int32(LANES) + lax.iota(jnp.int32, LANES)
            index = lane * jnp.int32(size.words) + (cell >> jnp.uint32(5)).astype(jnp.int32)
            found.append(boards.reshape(-1).at[index].get(mode="promise_in_bounds"))
    return code_of(found, cell)


def codes_of_group(size: FireSize, routes: Routes, goal: Array, group: Array, cell: Array) -> Array:
    """Return the same for the lanes of one group: uint32[G]."""
    return bits_at(size.words, [_of(size, board, goal, group) for board in routes.parents], cell)


def _place(size: FireSize, goal: Array, group: Array) -> tuple[Array, ...]:
    """Return where a group's part of a board of ways starts."""
    zero = jnp.int32(0)
    return (goal, group, zero, zero) if lazy(size) else (goal, zero, group * jnp.int32(_TOGETHER))


def _of(size: FireSize, boards: Array, goal: Array, group: Array) -> Array:
    """Return a group's part of a board of ways: uint32[n, G]."""
    shape = (1, 1, *boards.shape[2:]) if lazy(size) else (1, boards.shape[1], _TOGETHER)
    part = lax.dynamic_slice(boards, _place(size, goal, group), shape)
    return part.reshape(shape[-2:])


def _with(size: FireSize, boards: Array, board: Array, goal: Array, group: Array) -> Array:
    shape = (1, 1, *board.shape) if lazy(size) else (1, *board.shape)
    return lax.dynamic_update_slice(boards, board.reshape(shape), _place(size, goal, group))


def of_group(size: FireSize, board: Array, group: Array) -> Array:
    """Return a group's part of a board that lies as `burns_by_lane` gives it: uint32[n, G]."""
    return _of(size, board[None], jnp.int32(0), group)


def each_group(
    size: FireSize, some: Callable[[Array], Array], function: Callable[[Array, _Carry], _Carry], carry: _Carry
) -> _Carry:
    """Apply `function(group, carry)` for every group for which `some(group)` holds."""

    def one(group: Array, carry: _Carry) -> _Carry:
        # The compiler moves what does not change in a loop out of it, a whole flood too: it must not know that
        # the only trip is number 0.
        trips = some(group).astype(jnp.int32)
        after: _Carry = lax.fori_loop(jnp.int32(0), trips, lambda trip, carry: function(group + trip, carry), carry)
        return after

    groups = LANES // group_lanes(size)
    result: _Carry = lax.fori_loop(jnp.int32(0), jnp.int32(groups), one, carry)
    return result


def marked(size: FireSize, lanes: Array) -> Callable[[Array], Array]:
    """Return whether a group has a lane that is not 0 in uint32[L], for `each_group`."""
    width = group_lanes(size)

    def some(group: Array) -> Array:
        return some_bit(lax.dynamic_slice_in_dim(lanes, group * jnp.int32(width), width))

    return some


def touched(size: FireSize, routes: Routes, burning: Array, goal: Array) -> Callable[[Array], Array]:
    """Return whether fire has taken a cell with a way in a group, for `each_group`."""

    def some(group: Array) -> Array:
        burns = of_group(size, burning, group)
        return some_cell(inside(size, _of(size, routes.valid, goal, group) & burns))

    return some


def prune(ground: Any, size: FireSize, burning: Array, goal: Array, routes: Routes) -> Routes:
    """Take from the ways to a goal what a fire has taken (see the module).

    Args:
        ground: what holds the `RouteGround` as `route` and the `Terrain` as `fire`.
        size: the padded size.
        burning: as `burns_by_lane` gives it.
        goal: int32[].
        routes: before.
    """

    def one(group: Array, routes: Routes) -> Routes:
        return _prune_group(ground, size, burning, goal, group, routes)

    return each_group(size, touched(size, routes, burning, goal), one, routes)


def _prune_group(ground: Any, size: FireSize, burning: Array, goal: Array, group: Array, routes: Routes) -> Routes:
    burns = of_group(size, burning, group)
    parents = [_of(size, board, goal, group) for board in routes.parents]
    sources = lax.dynamic_index_in_dim(ground.route.sources, goal, keepdims=False)[:, None]

    def keep(board: Array) -> Array:
        """Return the cells of a board that are sources or have a neighbour one nearer on it."""
        kept = jnp.broadcast_to(sources, parents[0].shape)
        for plane, there in zip(parents, near(ground, size, board), strict=True):
            kept = kept | (plane & there)
        return inside(size, board) & kept

    def trip(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        even, odd, _ = carry
        odd = put(size, odd, keep(even))
        even = put(size, even, keep(odd))
        return even, odd, some_cell(inside(size, even) ^ inside(size, odd))

    start = (_of(size, routes.valid, goal, group) & ~burns, jnp.zeros_like(burns), jnp.bool_(True))
    valid, _, _ = lax.while_loop(lambda carry: carry[2], trip, start)
    left = zip(routes.parents, parents, near(ground, size, valid), strict=True)
    boards = [_with(size, board, plane & there, goal, group) for board, plane, there in left]
    return Routes(
        parents=(boards[0], boards[1], boards[2], boards[3]),
        valid=_with(size, routes.valid, valid, goal, group),
    )


def flood(
    ground: Any, size: FireSize, burning: Array, goal: Array, group: Array, *, people: Array | None, planes: int
) -> Flood:
    """Find every cell's distance to a goal around the fire, in one group of lanes.

    Args:
        ground: as for `prune`.
        size: the padded size.
        burning: as `burns_by_lane` gives it.
        goal: int32[].
        group: int32[].
        people: uint32[W, G], cells; a flood ends when it has reached all of them. None for all cells.
        planes: bit planes K of the trips; 0 where only ways are asked for.
    """
    burns = inside(size, of_group(size, burning, group))
    passable = ground.route.floor[:, None] & ~burns
    sources = lax.dynamic_index_in_dim(ground.route.sources, goal, keepdims=False)[:, None] & passable
    none = jnp.zeros((burns.shape[0] + 2 * size.margin, burns.shape[1]), dtype=jnp.uint32)
    start = (put(size, none, sources), none, none)
    wide = max(VECTOR, burns.shape[1])
    counts = jnp.zeros((planes, *burns.shape), dtype=jnp.uint32)

    def trip(carry: _Trip) -> _Trip:
        number, levels, counts, before, _ = carry
        number = number + jnp.int32(1)
        counts = _count(size, levels, counts, number)
        boards = list(levels)
        for level in (1, 2, 0):
            last, earlier = boards[(level - 1) % 3], boards[(level - 2) % 3]
            north, south, east, west = near(ground, size, last)
            new = (north | south | east | west) & passable & ~inside(size, last) & ~inside(size, earlier)
            boards[level] = put(size, boards[level], inside(size, boards[level]) | new)
        reached = inside(size, boards[0] | boards[1] | boards[2])
        cells = jnp.sum(lax.population_count(reached).reshape(-1, wide), axis=0, dtype=jnp.uint32)
        more = some_bit(cells ^ before)
        if people is not None:
            more = more & some_cell(people & ~reached)
        return number, (boards[0], boards[1], boards[2]), counts, cells, more

    first = (jnp.int32(0), start, counts, jnp.zeros(wide, dtype=jnp.uint32), some_cell(sources))
    trips, levels, counts, _, _ = lax.while_loop(lambda carry: carry[4], trip, first)
    return Flood(levels=levels, planes=counts, trips=trips)


_Trip = tuple[Array, tuple[Array, Array, Array], Array, Array, Array]


def _count(size: FireSize, levels: tuple[Array, ...], planes: Array, number: Array) -> Array:
    """Move the cells that are not reached on to trip `number`: one bit of a Gray code changes."""
    if not planes.shape[0]:
        return planes
    plane = lax.population_count((number & -number) - jnp.int32(1))
    where = (plane, jnp.int32(0), jnp.int32(0))
    old = lax.dynamic_slice(planes, where, (1, *planes.shape[1:]))
    still = ~inside(size, levels[0] | levels[1] | levels[2])
    return lax.dynamic_update_slice(planes, old ^ still[None], where)


def distance_planes(size: FireSize) -> int:
    """Return the bit planes that hold the trips of any flood."""
    return (32 * size.words // 3 + 2).bit_length()


def with_flood(ground: Any, size: FireSize, found: Flood, goal: Array, group: Array, routes: Routes) -> Routes:
    """Return the ways with those that a flood found in a group."""
    nearer = [near(ground, size, board) for board in found.levels]
    boards = []
    for direction, board in enumerate(routes.parents):
        mine = jnp.zeros_like(nearer[0][0])
        for level in range(3):
            mine = mine | (inside(size, found.levels[level]) & nearer[(level - 1) % 3][direction])
        boards.append(_with(size, board, mine, goal, group))
    reached = found.levels[0] | found.levels[1] | found.levels[2]
    return Routes(
        parents=(boards[0], boards[1], boards[2], boards[3]),
        valid=_with(size, routes.valid, reached, goal, group),
    )


def distance_at(size: FireSize, found: Flood, cell: Array) -> Array:
    """Return the distance of every lane's cell, of a group, in a flood: uint32[G], `FAR` where not reached."""
    level = bits_at(size.words, found.levels, cell, margin=size.margin)
    top = lax.population_count(_filled(found.trips))  # no higher plane was ever changed

    def plane(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        trip, binary = carry
        word = _word_of_plane(size, found.planes, top - jnp.int32(1) - index, cell)
        binary = binary ^ ((word >> (cell & jnp.uint32(31))) & jnp.uint32(1))
        return (trip << jnp.uint32(1)) | binary, binary

    none = jnp.zeros_like(cell)
    trip, _ = lax.fori_loop(jnp.int32(0), top, plane, (none, none))
    short = jnp.where(level == jnp.uint32(2), jnp.uint32(2), (level >> jnp.uint32(2)))
    return jnp.where(level == jnp.uint32(0), jnp.uint32(FAR), trip * jnp.uint32(3) - short)


def _word_of_plane(size: FireSize, planes: Array, plane: Array, cell: Array) -> Array:
    """Return the word of one plane that holds every lane's cell: uint32[G]; the plane is not copied."""
    lanes = planes.shape[2]
    if lazy(size):
        index = plane * jnp.int32(size.words) + (cell >> jnp.uint32(5)).astype(jnp.int32)
        return planes.reshape(-1).at[index].get(mode="promise_in_bounds")
    zero = jnp.int32(0)
    rows = [
        lax.dynamic_slice(planes, (plane, jnp.int32(index), zero), (1, 1, lanes))[0, 0] for index in range(size.words)
    ]
    return selected(rows, cell)


def _filled(number: Array) -> Array:
    """Return a number with all bits below its highest one set."""
    for shift in (1, 2, 4, 8, 16):
        number = number | (number >> jnp.int32(shift))
    return number
