"""What makes a drawing a building: measured on the cells of every generated scenario."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ember_ref.grid import DIRECTIONS, Grid, Position, target_of
from scenarios.procedural.canvas import Layout, Rectangle

LEAST_SIDE: Final = 2
"""Cells of the shorter side of a room."""
CORRIDOR_WIDTHS: Final = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """A drawing and the terrain that became of it, exits open."""

    layout: Layout
    grid: Grid
    exits: tuple[Position, ...]


def layout_faults(building: Building) -> list[str]:
    """Return the names of the measures that do not hold."""
    return [name for name, (_, holds) in LAYOUT_RULES.items() if not holds(building)]


def dead_ends(grid: Grid) -> int:
    """Return how many open cells have exactly one open neighbour."""
    return sum(len(grid.neighbours(cell)) == 1 for cell in open_cells(grid))


def wide_cells(grid: Grid) -> int:
    """Return how many open cells lie in an open square of two by two."""
    squares = (((r, c), (r + 1, c), (r, c + 1), (r + 1, c + 1)) for r, c in grid.positions())
    return len({cell for square in squares if all(map(grid.is_open, square)) for cell in square})


def open_cells(grid: Grid) -> Iterator[Position]:
    """Yield the open cells, row-major."""
    return (cell for cell in grid.positions() if grid.is_open(cell))


def _enclosed(b: Building) -> bool:
    h, w = b.grid.height, b.grid.width
    border = [cell for cell in open_cells(b.grid) if cell[0] in (0, h - 1) or cell[1] in (0, w - 1)]
    return set(border) <= set(b.exits)


def _connected(b: Building) -> bool:
    return len(b.grid.distances(b.exits)) == sum(1 for _ in open_cells(b.grid))


def _rooms(b: Building) -> bool:
    least = 0 if b.layout.name == "maze" else 1 if b.layout.name == "hall" else 3
    return len(b.layout.rooms) >= least and all(_is_room(b.grid, room) for room in b.layout.rooms)


def _is_room(grid: Grid, room: Rectangle) -> bool:
    floor = sum(map(grid.is_open, room.cells()))
    return min(room.height, room.width) >= LEAST_SIDE and 2 * floor >= room.area


def _apart(b: Building) -> bool:
    cells = [cell for room in b.layout.rooms for cell in room.cells()]
    return len(cells) == len(set(cells))


def _room_doors(b: Building) -> bool:
    return all(any(map(b.grid.is_open, room.border())) for room in b.layout.rooms)


def _doors(b: Building) -> bool:
    return all(_is_door(b.grid, door) for door in b.layout.doors)


def _is_door(grid: Grid, door: Position) -> bool:
    north, south, east, west = (grid.is_open(target_of(door, direction)) for direction in DIRECTIONS)
    return (north and south and not (east and west)) or (east and west and not (north and south))


def _corridors(b: Building) -> bool:
    ways = b.layout.corridors
    return all(
        min(way.height, way.width) in CORRIDOR_WIDTHS and all(map(b.grid.is_open, way.cells())) for way in ways
    )


def _dead_ends(b: Building) -> bool:
    floor, found = sum(1 for _ in open_cells(b.grid)), dead_ends(b.grid) - len(b.exits)
    if b.layout.name == "maze":
        return 40 * found >= floor
    return 50 * (found - 2 * len(b.layout.corridors)) <= floor


def _no_specks(b: Building) -> bool:
    return all(
        cell in b.layout.furniture or any(other in b.grid.obstacles for other in _around(cell))
        for cell in b.grid.obstacles
    )


def _around(cell: Position) -> list[Position]:
    reach = (-1, 0, 1)
    return [(cell[0] + i, cell[1] + j) for i in reach for j in reach if i or j]


def _share(b: Building) -> bool:
    floor, area = sum(1 for _ in open_cells(b.grid)), b.grid.height * b.grid.width
    return area <= 3 * floor <= 3 * area * 9 // 10


LAYOUT_RULES: Final[Mapping[str, tuple[str, Callable[[Building], bool]]]] = MappingProxyType(
    {
        "outer wall": ("the outer wall is closed but for the exits", _enclosed),
        "reachable": ("every floor cell has a way to an exit", _connected),
        "rooms": (
            "3 rooms or more (a hall: 1; a maze: none), each at least 2 cells wide and half of it free of furniture",
            _rooms,
        ),
        "apart": ("no two rooms share a cell", _apart),
        "room doors": ("every room has a door or an open side", _room_doors),
        "doors": ("every door stands in a wall: open on two opposite sides, not on all four", _doors),
        "corridors": ("corridors are 1 or 2 cells wide, without furniture", _corridors),
        "dead ends": (
            "a maze has a dead end for every 40 floor cells; elsewhere 50 cells a dead end, ends of corridors apart",
            _dead_ends,
        ),
        "walls": ("no wall stands alone: every obstacle touches another, or is furniture", _no_specks),
        "floor": ("a third to nine tenths of the cells are floor", _share),
    }
)
"""Every measure of a drawing by name: what it says, and whether it holds."""
