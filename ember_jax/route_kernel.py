"""Shortest ways to exits while a fire grows, batch-explicit: floods, and what the fire takes from them.

A flood gives for every cell the neighbours that are one nearer to a goal (one exit, or any of several). Fire
only takes cells away, so afterwards a cell keeps its distance as long as one neighbour that was one nearer
keeps its own: such neighbours are crossed out until nothing changes, and what is left is exact. Only a cell
that has lost all of them has a greater distance now, and only when somebody's way depends on such a cell is
there a new flood. That is rare, so every lane is looked after alone, its words side by side.

A flood is three sets of cells by distance modulo 3, each updated in place from the one before it. Each level
is the neighbours of the one before that are in neither of the two sets before it: the distances of neighbours
differ by at most one, so older members of the sets do no harm.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ember_jax.board_kernel import (
    bits_at,
    code_of,
    count_cells,
    inside,
    near,
    put,
    some_bit,
    some_cell,
    written,
)
from ember_jax.fire_kernel import FireSize, pack, repeat_if
from ember_jax.kernel import LANES
from ember_ref.grid import Position
from ember_ref.scenario import Scenario

FAR: Final = 1 << 18
"""The distance of a cell without a way; all others are less, on the largest grid too."""
DIRECTIONS: Final = 4
"""North, south, east, west; bit d of a code is direction d."""

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
    """The ways of a tile to every goal."""

    parents: tuple[Array, Array, Array, Array]
    """uint32[E, L, W, 1] each: cells whose neighbour in a direction is one nearer."""
    valid: Array
    """uint32[E, L, margin + W + margin, 1]: cells that have kept their distance."""


class Flood(NamedTuple):
    """What a flood finds, of one goal and G lanes."""

    levels: tuple[Array, Array, Array]
    """uint32[margin + W + margin, G] each: cells at a distance of 0, 1, 2 modulo 3."""
    planes: Array
    """uint32[K, W, G]: bit planes of the trip in which a cell was reached, three levels a trip, in Gray code."""
    trips: Array
    """int32[]: trips that the flood took."""


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


def offsets(ground: Any) -> tuple[Array, Array, Array, Array]:
    """Return what each direction adds to the number of a cell."""
    return jnp.uint32(0) - ground.width, jnp.uint32(ground.width), jnp.uint32(1), jnp.uint32(0xFFFFFFFF)


def start_routes(ground: Any, size: FireSize) -> Routes:
    """Return the ways of step 0 in every lane."""

    def in_all(board: Array) -> Array:
        return jnp.broadcast_to(board[:, None, :, None], (board.shape[0], LANES, board.shape[1], 1))

    boards = [in_all(board) for board in _first_routes(ground, size)]
    return Routes(parents=(boards[0], boards[1], boards[2], boards[3]), valid=boards[4])


def restart_routes(ground: Any, size: FireSize, again: Array, routes: Routes) -> Routes:
    """Return the ways of step 0 in the lanes of `again`, bool[L], and what was there in the others."""
    first = _first_routes(ground, size)

    def one(lane: Array, boards: tuple[Array, ...]) -> tuple[Array, ...]:
        start = (jnp.int32(0), lane, jnp.int32(0), jnp.int32(0))
        return tuple(
            lax.dynamic_update_slice(board, cells[:, None, :, None], start)
            for board, cells in zip(boards, first, strict=True)
        )

    start: tuple[Array, ...] = (*routes.parents, routes.valid)
    boards = each_lane(marked(again.astype(jnp.uint32)), one, start)
    return Routes(parents=(boards[0], boards[1], boards[2], boards[3]), valid=boards[4])


def _first_routes(ground: Any, size: FireSize) -> list[Array]:
    """Return the parents in each direction and what is valid, at step 0: [E, W], the last with its margins."""
    parents = [jnp.asarray(ground.route.parents[direction]) for direction in range(DIRECTIONS)]
    return [*parents, jnp.pad(ground.route.valid, ((0, 0), (size.margin, size.margin)))]


def by_lane(ground: Any, board: Array) -> Array:
    """Lay a board [n, L] out as the ways are: [L, n, 1]."""
    like = jnp.zeros((LANES, board.shape[0], 1), dtype=jnp.uint32)
    return written(ground.route.once, lambda: board.T[:, :, None], like)


def codes(size: FireSize, routes: Routes, goal: Array, cell: Array) -> Array:
    """Return the directions one nearer to a goal from every lane's cell, a bit each: uint32[L]."""
    lane = goal * jnp.int32(LANES) + lax.iota(jnp.int32, LANES)
    index = lane * jnp.int32(size.words) + (cell >> jnp.uint32(5)).astype(jnp.int32)
    return code_of([boards.reshape(-1).at[index].get(mode="promise_in_bounds") for boards in routes.parents], cell)


def codes_of_lane(size: FireSize, routes: Routes, goal: Array, lane: Array, cell: Array) -> Array:
    """Return the same for one lane: uint32[1]."""
    return bits_at(size.words, [board_of(board, goal, lane) for board in routes.parents], cell)


def board_of(boards: Array, goal: Array, lane: Array) -> Array:
    """Return a lane's part of boards [E, L, n, 1]: uint32[n, 1]."""
    zero = jnp.int32(0)
    part = lax.dynamic_slice(boards, (goal, lane, zero, zero), (1, 1, *boards.shape[2:]))
    return part.reshape(boards.shape[2:])


def _with(boards: Array, board: Array, goal: Array, lane: Array) -> Array:
    return lax.dynamic_update_slice(boards, board[None, None], (goal, lane, jnp.int32(0), jnp.int32(0)))


def of_lane(board: Array, lane: Array) -> Array:
    """Return a lane's part of a board that lies as `by_lane` gives it: uint32[n, 1]."""
    return board_of(board[None], jnp.int32(0), lane)


def each_lane(some: Callable[[Array], Array], function: Callable[[Array, _Carry], _Carry], carry: _Carry) -> _Carry:
    """Apply `function(lane, carry)` for every lane for which `some(lane)` holds."""

    def one(lane: Array, carry: _Carry) -> _Carry:
        return repeat_if(some(lane), lambda carry: function(lane, carry), carry)

    result: _Carry = lax.fori_loop(jnp.int32(0), jnp.int32(LANES), one, carry)
    return result


def marked(lanes: Array) -> Callable[[Array], Array]:
    """Return whether a lane is not 0 in uint32[L], for `each_lane`."""
    return lambda lane: lanes[lane] != jnp.uint32(0)


def prune(ground: Any, size: FireSize, burning: Array, goal: Array, routes: Routes) -> Routes:
    """Take from the ways to a goal what a fire has taken (see the module).

    Args:
        ground: what holds the `RouteGround` as `route` and the `Terrain` as `fire`.
        size: the padded size.
        burning: as `by_lane` gives it.
        goal: int32[].
        routes: before.
    """

    def touched(lane: Array) -> Array:
        return some_cell(inside(size, board_of(routes.valid, goal, lane) & of_lane(burning, lane)))

    def one(lane: Array, routes: Routes) -> Routes:
        return prune_lane(ground, size, of_lane(burning, lane), goal, lane, routes)

    return each_lane(touched, one, routes)


def prune_lane(ground: Any, size: FireSize, burns: Array, goal: Array, lane: Array, routes: Routes) -> Routes:
    """Do so in one lane; `burns` is uint32[margin + W + margin, 1]."""
    parents = [board_of(board, goal, lane) for board in routes.parents]
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

    start = (board_of(routes.valid, goal, lane) & ~burns, jnp.zeros_like(burns), jnp.bool_(True))
    valid, _, _ = lax.while_loop(lambda carry: carry[2], trip, start)
    left = zip(routes.parents, parents, near(ground, size, valid), strict=True)
    boards = [_with(board, plane & there, goal, lane) for board, plane, there in left]
    return Routes(
        parents=(boards[0], boards[1], boards[2], boards[3]),
        valid=_with(routes.valid, valid, goal, lane),
    )


def flood(ground: Any, size: FireSize, burning: Array, goal: Array, *, people: Array | None, planes: int) -> Flood:
    """Find every cell's distance to a goal around the fire, in G lanes.

    Args:
        ground: as for `prune`.
        size: the padded size.
        burning: uint32[margin + W + margin, G].
        goal: int32[].
        people: uint32[W, G], cells; a flood ends when it has reached all of them. None for all cells.
        planes: bit planes K of the trips; 0 where only ways are asked for.
    """
    burns = inside(size, burning)
    passable = ground.route.floor[:, None] & ~burns
    sources = lax.dynamic_index_in_dim(ground.route.sources, goal, keepdims=False)[:, None] & passable
    none = jnp.zeros((burns.shape[0] + 2 * size.margin, burns.shape[1]), dtype=jnp.uint32)
    start = (put(size, none, sources), none, none)
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

        # A flood ends when the last level of a trip has found nothing, or everybody is reached; a look at every
        # second trip is enough.
        def look(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            cells = count_cells(inside(size, boards[0]))
            more = some_bit(cells ^ carry[0])
            if people is not None:
                more = more & some_cell(people & ~inside(size, boards[0] | boards[1] | boards[2]))
            return cells, more

        cells, more = repeat_if(number % jnp.int32(2) == jnp.int32(0), look, (before, jnp.bool_(True)))
        return number, (boards[0], boards[1], boards[2]), counts, cells, more

    first = (jnp.int32(0), start, counts, count_cells(sources), some_cell(sources))
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


def nearer(ground: Any, size: FireSize, found: Flood) -> tuple[Array, Array, Array, Array]:
    """Return the cells whose neighbour in each direction is one nearer: uint32[W, G] each."""
    there = [near(ground, size, board) for board in found.levels]

    def one(direction: int) -> Array:
        pairs = [(inside(size, found.levels[level]), there[(level - 1) % 3][direction]) for level in range(3)]
        return functools.reduce(jnp.bitwise_or, [here & before for here, before in pairs])

    return one(0), one(1), one(2), one(3)


def with_flood(ground: Any, size: FireSize, found: Flood, goal: Array, lane: Array, routes: Routes) -> Routes:
    """Return the ways with those that a flood found in a lane."""
    pairs = zip(routes.parents, nearer(ground, size, found), strict=True)
    boards = [_with(board, mine, goal, lane) for board, mine in pairs]
    reached = found.levels[0] | found.levels[1] | found.levels[2]
    return Routes(
        parents=(boards[0], boards[1], boards[2], boards[3]), valid=_with(routes.valid, reached, goal, lane)
    )


def distance_at(size: FireSize, found: Flood, cell: Array) -> Array:
    """Return the distance of a lane's cell in its flood: uint32[1], `FAR` where not reached."""
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
    """Return the word of one plane that holds the cell of a lane: uint32[1]; the plane is not copied."""
    index = plane * jnp.int32(size.words) + (cell >> jnp.uint32(5)).astype(jnp.int32)
    return planes.reshape(-1).at[index].get(mode="promise_in_bounds")


def _filled(number: Array) -> Array:
    """Return a number with all bits below its highest one set."""
    for shift in (1, 2, 4, 8, 16):
        number = number | (number >> jnp.int32(shift))
    return number
