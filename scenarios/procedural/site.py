"""Where a scenario can be set: a drawn building, or a real map."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ember_ref.canonical import digest
from ember_ref.errors import EmberError
from ember_ref.form import show
from ember_ref.grid import DIRECTIONS, Grid, Position, target_of
from scenarios.maps import MapDrawing
from scenarios.procedural.buildings import house, museum, office, ring, wings
from scenarios.procedural.canvas import TURNS, Layout
from scenarios.procedural.draws import Draws
from scenarios.procedural.halls import hall, maze, passage, shop

LAYOUTS: Final[Mapping[str, Callable[[Draws, int, int], Layout]]] = MappingProxyType(
    {f.__name__: f for f in (office, wings, ring, house, museum, hall, shop, passage, maze)}
)
"""The kinds of buildings by name: functions of draws, height and width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Terrain with places for exits and people."""

    name: str
    """The kind of building, or the name of the map."""
    grid: Grid
    """With every gate closed, but for gates of a map that are floor in it."""
    gates: tuple[Position, ...]
    """Cells that can become exits; best ones first."""
    seats: tuple[Position, ...]
    """Cells where people and fires can start, row-major."""
    layout: Layout | None
    """The drawing; `None` for a map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBase:
    """A real map as the base of scenarios: its largest connected floor; all else is closed."""

    name: str
    grid: Grid
    gates: tuple[Position, ...]
    """The map's own exits, closed until they are chosen; without any, the floor cells with nothing but walls
    between them and the outside."""

    @property
    def digest(self) -> str:
        """The digest of the terrain, hex."""
        walls = [list(cell) for cell in sorted(self.grid.obstacles)]
        return digest({"height": self.grid.height, "width": self.grid.width, "obstacles": walls})

    def site(self) -> Site:
        """Return the map as a site."""
        floor = (cell for cell in self.grid.positions() if self.grid.is_open(cell))
        return Site(
            name=self.name,
            grid=self.grid,
            gates=self.gates,
            seats=tuple(floor),
            layout=None,
        )


def map_base(name: str, drawing: MapDrawing) -> MapBase:
    """Take a map as a base.

    Raises:
        EmberError: when the map has no floor with a place for an exit.
    """
    grid = drawing.grid
    left = {cell for cell in grid.positions() if grid.is_open(cell)}
    largest: set[Position] = set()
    while left:
        found = set(grid.distances([min(left)]))
        left -= found
        if len(found) > len(largest):
            largest = found
    walls = frozenset(cell for cell in grid.positions() if cell not in largest)
    kept = Grid(height=grid.height, width=grid.width, obstacles=walls)
    gates = tuple(cell for cell in drawing.exits if cell in largest)
    if gates:
        kept = Grid(height=grid.height, width=grid.width, obstacles=walls.union(gates))
    else:
        gates = tuple(cell for cell in sorted(largest) if _faces_outside(kept, cell))
    if len(gates) == 0 or len(largest) < 4:
        raise EmberError(f"map {show(name)}: {len(largest)} connected floor cells, too few for exits and people")
    return MapBase(name=name, grid=kept, gates=gates)


def drawn_site(draws: Draws, name: str, height: int, width: int) -> Site:
    """Draw a building and turn it by one of the eight symmetries."""
    layout = LAYOUTS[name](draws, height, width).turned(draws.between(0, TURNS - 1))
    grid = layout.grid
    doors = set(layout.doors)
    if layout.rooms and name != "maze":
        seats = {cell for room in layout.rooms for cell in room.cells() if grid.is_open(cell)} - doors
    else:
        seats = {cell for cell in grid.positions() if grid.is_open(cell)}
    return Site(name=name, grid=grid, gates=layout.gates, seats=tuple(sorted(seats)), layout=layout)


def _faces_outside(grid: Grid, cell: Position) -> bool:
    for direction in DIRECTIONS:
        at = target_of(cell, direction)
        while grid.contains(at) and not grid.is_open(at):
            at = target_of(at, direction)
        if not grid.contains(at):
            return True
    return False
