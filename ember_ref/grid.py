"""Positions, actions, and distances on a grid (contract section 1)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

Position = tuple[int, int]
"""`(row, col)`, 0-based; row grows to the south, col to the east. Tuples sort row-major."""


class Action(StrEnum):
    """What a person may do in a step, in action order."""

    STAY = "stay"
    NORTH = "north"
    SOUTH = "south"
    EAST = "east"
    WEST = "west"


OFFSETS: Final[dict[Action, Position]] = {
    Action.STAY: (0, 0),
    Action.NORTH: (-1, 0),
    Action.SOUTH: (1, 0),
    Action.EAST: (0, 1),
    Action.WEST: (0, -1),
}
ACTIONS: Final = tuple(Action)
DIRECTIONS: Final = ACTIONS[1:]
"""The four moves in the one order in which neighbours are visited: north, south, east, west."""


def target_of(position: Position, action: Action) -> Position:
    """Return the cell that an action points at, out of bounds included; `stay` points at the own cell."""
    row, col = OFFSETS[action]
    return position[0] + row, position[1] + col


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The static terrain: a size and its obstacles. Every other cell in bounds is open."""

    height: int
    width: int
    obstacles: frozenset[Position]

    def contains(self, position: Position) -> bool:
        """Tell whether a position is in bounds."""
        return 0 <= position[0] < self.height and 0 <= position[1] < self.width

    def is_open(self, position: Position) -> bool:
        """Tell whether a position is in bounds and no obstacle."""
        return self.contains(position) and position not in self.obstacles

    def positions(self) -> Iterator[Position]:
        """Yield every position in bounds, row-major."""
        return ((row, col) for row in range(self.height) for col in range(self.width))

    def neighbours(self, position: Position) -> list[Position]:
        """Return the open neighbours of a position, north, south, east, west."""
        row, col = position
        around = ((row - 1, col), (row + 1, col), (row, col + 1), (row, col - 1))
        return [cell for cell in around if self.is_open(cell)]

    def distances(
        self, sources: Iterable[Position], *, avoid: Collection[Position] = frozenset()
    ) -> dict[Position, int]:
        """Return the fewest moves from each cell to the nearest source, through open cells outside `avoid`.

        Breadth-first search; a source in `avoid` counts as none, an unreachable cell has no entry.
        """
        level = [cell for cell in sources if cell not in avoid]
        distance = dict.fromkeys(level, 0)
        steps = 0
        while level:
            steps += 1
            reached: list[Position] = []
            for cell in level:
                for neighbour in self.neighbours(cell):
                    if neighbour not in distance and neighbour not in avoid:
                        distance[neighbour] = steps
                        reached.append(neighbour)
            level = reached
        return distance
