"""What the map and the people of a scenario say without any fire."""

import functools
from collections import Counter
from collections.abc import Collection, Sequence

from ember_ref.grid import Grid, Position
from ember_ref.scenario import Scenario
from scenarios.procedural.measures import dead_ends, open_cells, wide_cells

_STRETCH = 3  # cells of a narrow corridor


class Facts:
    """Figures of one scenario, each computed when it is first asked for; they depend on no ID."""

    def __init__(self, scenario: Scenario) -> None:
        """Take a scenario."""
        self.scenario = scenario
        self.grid: Grid = scenario.grid
        self.exits: list[Position] = sorted(exit.position for exit in scenario.exits)
        self.people: list[Position] = sorted(person.position for person in scenario.people)
        self.ignitions: list[Position] = list(scenario.fire.ignitions)

    @functools.cached_property
    def floor(self) -> int:
        """Open cells that are no exit."""
        return sum(1 for _ in open_cells(self.grid)) - len(self.exits)

    @functools.cached_property
    def walk(self) -> dict[Position, int]:
        """The distance of every cell to its nearest exit, fire ignored."""
        return self.grid.distances(self.exits)

    @functools.cached_property
    def to_exit(self) -> list[dict[Position, int]]:
        """The distance of every cell to each exit."""
        return [self.grid.distances([exit]) for exit in self.exits]

    @functools.cached_property
    def connected(self) -> bool:
        """Whether every open cell has a way to an exit."""
        return len(self.walk) == self.floor + len(self.exits)

    def nearest(self, cell: Position) -> int:
        """Return the index of the nearest exit; the first row-major of equals."""
        return min(range(len(self.exits)), key=lambda e: self.to_exit[e].get(cell, 1 << 30))

    @functools.cached_property
    def floor_by_exit(self) -> list[int]:
        """How many floor cells have each exit as their nearest."""
        counts = Counter(self.nearest(cell) for cell in open_cells(self.grid))
        return [counts[e] - 1 for e in range(len(self.exits))]

    @functools.cached_property
    def people_by_exit(self) -> list[int]:
        """How many people have each exit as their nearest."""
        counts = Counter(map(self.nearest, self.people))
        return [counts[e] for e in range(len(self.exits))]

    @functools.cached_property
    def exit_gap(self) -> int:
        """The least walking distance between two exits; 0 with one exit."""
        pairs = [(e, other) for e in range(len(self.exits)) for other in range(e)]
        return min((self.to_exit[e].get(self.exits[other], 1 << 30) for e, other in pairs), default=0)

    @functools.cached_property
    def ignition_gap(self) -> int:
        """The least walking distance between two ignitions; 0 with one."""
        found = [1 << 30]
        for i, cell in enumerate(self.ignitions):
            reach = self.grid.distances([cell])
            found += [reach[other] for other in self.ignitions[:i] if other in reach]
        return min(found) if len(self.ignitions) > 1 else 0

    @functools.cached_property
    def queue(self) -> int:
        """The sum of the steps in which people would leave through one exit cell, one a step, without fire."""
        return sum(queue_steps([self.walk[person] for person in self.people]))

    @functools.cached_property
    def behind_narrow(self) -> int:
        """The most people that one corridor, a cell wide for 3 cells or more, cuts off from all exits."""
        cut_off = _cut_off(self.grid, self.exits, set(self.people))
        return max((cut_off.get(cell, 0) for cell in self._narrow()), default=0)

    def _narrow(self) -> list[Position]:
        """Return one cell of every narrow stretch."""
        narrow = {cell for cell in open_cells(self.grid) if len(self.grid.neighbours(cell)) == 2} - set(self.exits)
        found, left = [], set(narrow)
        while left:
            stretch, front = set(), {min(left)}
            while front:
                stretch |= front
                left -= front
                front = {y for x in front for y in self.grid.neighbours(x) if y in left}
            if len(stretch) >= _STRETCH:
                found.append(min(stretch))
        return found

    @functools.cached_property
    def better_elsewhere(self) -> tuple[int, int]:
        """For the busiest exit: people whose nearest it is, and how many reach another before its queue ends.

        Others are at least half as far again for those who count.
        """
        busiest = max(range(len(self.exits)), key=lambda e: self.people_by_exit[e])
        mine = [person for person in self.people if self.nearest(person) == busiest]
        if not mine or len(self.exits) < 2:
            return len(mine), 0
        end = queue_steps([self.to_exit[busiest][person] for person in mine])[-1]
        sooner = 0
        for person in mine:
            here = self.to_exit[busiest][person]
            other = min(self.to_exit[e].get(person, 1 << 30) for e in range(len(self.exits)) if e != busiest)
            sooner += 2 * other >= 3 * here and other < end
        return len(mine), sooner

    @functools.cached_property
    def detours(self) -> int:
        """How many people walk at least half as far again as the crow flies (in Manhattan steps)."""
        count = 0
        for row, col in self.people:
            straight = min(abs(row - r) + abs(col - c) for r, c in self.exits)
            count += 2 * self.walk[row, col] >= 3 * straight
        return count

    @functools.cached_property
    def dead_ends(self) -> int:
        """Open cells with exactly one open neighbour, exits left out."""
        return dead_ends(self.grid) - sum(len(self.grid.neighbours(exit)) == 1 for exit in self.exits)

    @functools.cached_property
    def wide_cells(self) -> int:
        """Open cells in an open square of two by two."""
        return wide_cells(self.grid)

    @functools.cached_property
    def clear_walk(self) -> dict[Position, int]:
        """The distance of every cell to its nearest exit around what burns at step 0."""
        return self.grid.distances(self.exits, avoid=frozenset(self.ignitions))

    @functools.cached_property
    def ways(self) -> dict[str, list[Position]]:
        """Everybody's shortest way around what burns at step 0, from the start to the exit.

        It is the way that `fire-aware-shortest-path-v1` sets out on; the start alone where there is none.
        """
        return {person.id: self._way(person.position) for person in self.scenario.people}

    def _way(self, cell: Position) -> list[Position]:
        walk, way = self.clear_walk, [cell]
        while walk.get(cell, 0) > 0:
            cell = next(y for y in self.grid.neighbours(cell) if walk.get(y) == walk[cell] - 1)
            way.append(cell)
        return way


def queue_steps(releases: list[int]) -> list[int]:
    """Return the steps in which people leave through one cell, one a step, each at its release or later."""
    steps: list[int] = []
    for release in sorted(releases):
        steps.append(max(release, steps[-1] + 1 if steps else 1))
    return steps


def _cut_off(grid: Grid, exits: Sequence[Position], people: Collection[Position]) -> dict[Position, int]:
    """Return how many people have no way to any exit without each cell, by cell; whoever stands there is one.

    Depth-first search from all exits together, with the lowest number that a subtree reaches back to: Tarjan,
    "Depth-first search and linear graph algorithms", 1972, section 3.
    """
    number: dict[Position, int] = {}
    low: dict[Position, int] = {}
    inside: dict[Position, int] = {}  # people in the subtree
    behind: dict[Position, int] = {}  # people in subtrees that reach back no farther than here
    sources = set(exits)
    for source in exits:
        if source in number:
            continue
        stack = [(source, iter(grid.neighbours(source)))]
        number[source], low[source] = len(number) + 1, 0
        inside[source], behind[source] = int(source in people), 0
        while stack:
            cell, ahead = stack[-1]
            for other in ahead:
                if other in number:
                    low[cell] = min(low[cell], number[other])
                    continue
                number[other] = len(number) + 1
                low[other] = 0 if other in sources else number[other]  # exits are joined outside
                inside[other], behind[other] = int(other in people), 0
                stack.append((other, iter(grid.neighbours(other))))
                break
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[cell])
                    inside[above] += inside[cell]
                    behind[above] += inside[cell] if low[cell] >= number[above] else 0
    return {cell: count + (cell in people) for cell, count in behind.items()}
