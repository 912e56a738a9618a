"""A building in the making: rooms, corridors, doors, furniture and gates on a grid of walls."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ember_ref.grid import Grid, Position
from scenarios.procedural.draws import Draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """Cells from a first to a last row and column, all included."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def height(self) -> int:
        """Rows."""
        return self.bottom - self.top + 1

    @property
    def width(self) -> int:
        """Columns."""
        return self.right - self.left + 1

    @property
    def area(self) -> int:
        """Cells."""
        return self.height * self.width

    def cells(self) -> Iterator[Position]:
        """Yield the cells, row-major."""
        return ((row, col) for row in range(self.top, self.bottom + 1) for col in range(self.left, self.right + 1))

    def border(self) -> Iterator[Position]:
        """Yield the cells just outside, corners left out: where its walls and doors are."""
        for col in range(self.left, self.right + 1):
            yield self.top - 1, col
            yield self.bottom + 1, col
        for row in range(self.top, self.bottom + 1):
            yield row, self.left - 1
            yield row, self.right + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A finished building. Its rooms and corridors are open but for furniture; walls are everything else."""

    name: str
    """The kind of building, such as `office`."""
    grid: Grid
    """All gates closed."""
    rooms: tuple[Rectangle, ...]
    corridors: tuple[Rectangle, ...]
    doors: tuple[Position, ...]
    furniture: frozenset[Position]
    """Obstacles inside rooms: benches, shelves, tables, columns, and the stacks of an archive."""
    gates: tuple[Position, ...]
    """Walls of the outside where an exit can be, each with open floor inside it; best ones first."""

    def turned(self, turn: int) -> "Layout":
        """Return the building under one of the eight symmetries, 0 to 7 (see `turn_of`)."""
        height, width = self.grid.height, self.grid.width
        place = turn_of(turn, height, width)

        def rectangles(found: tuple[Rectangle, ...]) -> tuple[Rectangle, ...]:
            corners = [sorted((place((r.top, r.left)), place((r.bottom, r.right)))) for r in found]
            return tuple(
                Rectangle(top=a[0], bottom=b[0], left=min(a[1], b[1]), right=max(a[1], b[1])) for a, b in corners
            )

        tall, wide = (width, height) if turn & 1 else (height, width)
        return Layout(
            name=self.name,
            grid=Grid(height=tall, width=wide, obstacles=frozenset(map(place, self.grid.obstacles))),
            rooms=rectangles(self.rooms),
            corridors=rectangles(self.corridors),
            doors=tuple(map(place, self.doors)),
            furniture=frozenset(map(place, self.furniture)),
            gates=tuple(map(place, self.gates)),
        )


def turn_of(turn: int, height: int, width: int) -> Callable[[Position], Position]:
    """Return where a symmetry takes a cell: bit 0 swaps rows and columns, after 1 mirrors rows and 2 columns."""

    def place(cell: Position) -> Position:
        row = height - 1 - cell[0] if turn & 2 else cell[0]
        col = width - 1 - cell[1] if turn & 4 else cell[1]
        return (col, row) if turn & 1 else (row, col)

    return place


TURNS: Final = 8


class Canvas:
    """Starts as solid wall; what is carved is remembered."""

    def __init__(self, height: int, width: int) -> None:
        """Start a canvas of the given size."""
        self.height = height
        self.width = width
        self.open: set[Position] = set()
        self.rooms: list[Rectangle] = []
        self.corridors: list[Rectangle] = []
        self.doors: list[Position] = []
        self.furniture: set[Position] = set()
        self.gates: list[Position] = []

    def room(self, top: int, left: int, bottom: int, right: int) -> Rectangle:
        """Carve a room."""
        found = Rectangle(top=top, left=left, bottom=bottom, right=right)
        self.open.update(found.cells())
        self.rooms.append(found)
        return found

    def corridor(self, top: int, left: int, bottom: int, right: int) -> Rectangle:
        """Carve a corridor."""
        found = Rectangle(top=top, left=left, bottom=bottom, right=right)
        self.open.update(found.cells())
        self.corridors.append(found)
        return found

    def door(self, cell: Position) -> None:
        """Carve a door."""
        self.open.add(cell)
        self.doors.append(cell)

    def open_side(self, one: Rectangle, other: Rectangle) -> None:
        """Take the wall between two rectangles away, and the doors in it with it."""
        wall = set(one.border()) & set(other.border())
        self.open |= wall
        self.doors = [door for door in self.doors if door not in wall]

    def block(self, top: int, left: int, bottom: int, right: int) -> None:
        """Put furniture on open cells; cells that are not open stay as they are."""
        for cell in Rectangle(top=top, left=left, bottom=bottom, right=right).cells():
            if cell in self.open:
                self.open.remove(cell)
                self.furniture.add(cell)

    def gate(self, *cells: Position) -> None:
        """Name walls of the outside that an exit can take."""
        self.gates.extend(cells)

    def gates_along(self, wall: Rectangle) -> list[Position]:
        """Return the cells of a stretch of the outer wall that have open floor inside, in order."""
        return [cell for cell in wall.cells() if self._inside(cell)]

    def _alone(self, cell: Position) -> bool:
        row, col = cell
        return all((row + i, col + j) in self.open for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)

    def _inside(self, cell: Position) -> bool:
        row, col = cell
        around = ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1))
        return sum(other in self.open for other in around) == 1

    def door_between(
        self, draws: Draws, one: Rectangle, other: Rectangle, *, wide: bool = False
    ) -> tuple[Position, ...]:
        """Make a door in the wall that two rectangles share, away from its ends where there is room.

        Returns:
            Its cells; none when they share no wall.
        """
        shared = sorted(set(one.border()) & set(other.border()) - self.open)
        if not shared:
            return ()
        inner = shared[1:-1] if len(shared) > 2 else shared
        first = draws.between(0, len(inner) - 1)
        cells = inner[first : first + 2] if wide else inner[first : first + 1]
        for cell in cells:
            self.door(cell)
        return tuple(cells)

    def connect(self, draws: Draws, places: list[Rectangle], *, first: int, loops: tuple[int, int]) -> None:
        """Give every place a way to every other by doors in shared walls.

        Walls of the first `first` places (the corridors) are tried before walls between others; of the walls
        that close a loop, `loops[0]` in `loops[1]` get a door too.

        Source: Kruskal, "On the shortest spanning subtree of a graph", 1956.
        """
        borders = [set(place.border()) for place in places]
        pairs = [(i, j) for i in range(len(places)) for j in range(i + 1, len(places)) if borders[i] & borders[j]]
        mixed = draws.shuffled(pairs)
        group = list(range(len(places)))
        for i, j in sorted(mixed, key=lambda pair: pair[0] >= first):
            joined = group[i] == group[j]
            if joined and not draws.chance(*loops):
                continue
            wide = min(places[i].area, places[j].area) >= 30 and draws.chance(1, 3)
            if self.door_between(draws, places[i], places[j], wide=wide) and not joined:
                old = group[j]
                group = [group[i] if of == old else of for of in group]

    def layout(self, name: str) -> Layout:
        """Return the finished building."""
        every = Rectangle(top=0, left=0, bottom=self.height - 1, right=self.width - 1)
        inner = Rectangle(top=1, left=1, bottom=self.height - 2, right=self.width - 2)
        # Where open sides meet, a stone of their walls can be left: it goes too.
        alone = [cell for cell in inner.cells() if cell not in self.furniture and self._alone(cell)]
        self.open.update(alone)
        walls = frozenset(cell for cell in every.cells() if cell not in self.open)
        return Layout(
            name=name,
            grid=Grid(height=self.height, width=self.width, obstacles=walls),
            rooms=tuple(self.rooms),
            corridors=tuple(self.corridors),
            doors=tuple(self.doors),
            furniture=frozenset(self.furniture),
            gates=tuple(dict.fromkeys(self.gates)),
        )
