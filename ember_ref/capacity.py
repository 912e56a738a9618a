"""Lower bounds on the sum of evacuation steps from the capacity of exits and cuts (contract section 9).

A list schedule of unit jobs with release dates minimises the sum of their finish steps: Baker, "Introduction to
Sequencing and Scheduling", 1974, section 4.2.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ember_ref.errors import VerificationError
from ember_ref.fire import NEVER, FireWorld
from ember_ref.grid import Position
from ember_ref.references import EarliestTable
from ember_ref.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class CutGroup:
    """Components behind one connected set of cuts, at one threshold."""

    cells: frozenset[Position]
    """The cells of its components: those with w > d."""
    cut: frozenset[Position]
    """The cells with w = d next to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBounds:
    """The bounds for a set of people who all evacuate, in person-steps."""

    sum_earliest: int
    exit_bound: int
    """Q_exit."""
    time_bound: int
    """Q_cut."""


def list_schedule(releases: Iterable[int], capacity: Callable[[int], int], horizon: int) -> int:
    """Return the sum of the steps at which released jobs are placed, earliest first.

    Args:
        releases: the first step at which each job may be placed.
        capacity: how many jobs a step takes.
        horizon: the last step.

    Raises:
        VerificationError: when a job is left over, so no run can have had it.
    """
    jobs = sorted(releases)
    total = placed = released = 0
    for step in range(1, horizon + 1):
        if placed == len(jobs):
            break
        while released < len(jobs) and jobs[released] <= step:
            released += 1
        count = min(capacity(step), released - placed)
        placed += count
        total += count * step
    if placed < len(jobs):
        raise VerificationError(f"{len(jobs) - placed} evacuations more than the capacity allows by step {horizon}")
    return total


def capacity_bounds(
    scenario: Scenario, world: FireWorld, earliest: EarliestTable, evacuees: Sequence[str]
) -> CapacityBounds:
    """Return the bounds for the given people, all of whom have an escape.

    Raises:
        VerificationError: when they cannot all have evacuated.
    """
    chosen = set(evacuees)
    start = {person.id: person.position for person in scenario.people if person.id in chosen}
    soonest = {person: earliest.at(position, 0) for person, position in start.items()}
    if NEVER in soonest.values():
        raise VerificationError("somebody evacuated who has no escape")
    exits = [exit.position for exit in scenario.exits]
    exit_bound = list_schedule(
        soonest.values(), lambda step: sum(world.at(cell) > step - 1 for cell in exits), world.max_steps
    )
    escapes = _Escapes(scenario, world, earliest)
    arrivals = {person: escapes.arrivals(position) for person, position in start.items()}
    time_bound = exit_bound
    for groups in cut_groups(scenario):
        bound, rest = 0, set(start)
        for group in groups:
            members = [person for person, position in start.items() if position in group.cells]
            rest -= set(members)
            bound += _group_bound(world, group, members, soonest, arrivals)
        bound += sum(soonest[person] for person in rest)
        time_bound = max(time_bound, bound)
    return CapacityBounds(sum_earliest=sum(soonest.values()), exit_bound=exit_bound, time_bound=time_bound)


def cut_groups(scenario: Scenario) -> list[list[CutGroup]]:
    """Return the groups of components and their cuts for every threshold d = 1, 2, …; fire ignored."""
    walk = scenario.grid.distances(exit.position for exit in scenario.exits)
    thresholds = []
    for d in range(1, max(walk.values())):
        inside = {cell for cell, distance in walk.items() if distance > d}
        groups: list[CutGroup] = []
        for component in _components(scenario, inside):
            cut = {y for x in component for y in scenario.grid.neighbours(x) if walk[y] == d}
            touching = [group for group in groups if group.cut & cut]
            groups = [group for group in groups if not group.cut & cut]
            groups.append(
                CutGroup(
                    cells=frozenset(component.union(*(group.cells for group in touching))),
                    cut=frozenset(cut.union(*(group.cut for group in touching))),
                )
            )
        thresholds.append(groups)
    return thresholds


def _group_bound(
    world: FireWorld,
    group: CutGroup,
    members: Sequence[str],
    soonest: dict[str, int],
    arrivals: dict[str, dict[Position, tuple[int, int]]],
) -> int:
    releases, remaining = [], 0
    for person in members:
        pairs = [arrivals[person][cell] for cell in group.cut if cell in arrivals[person]]
        releases.append(min(first for first, _ in pairs))
        remaining += min(rest for _, rest in pairs)
    placed = list_schedule(releases, lambda step: sum(world.at(cell) > step for cell in group.cut), world.max_steps)
    return max(placed + remaining, sum(soonest[person] for person in members))


class _Escapes:
    """The states with an escape, step by step, shared by everyone who starts in the same fire."""

    def __init__(self, scenario: Scenario, world: FireWorld, earliest: EarliestTable) -> None:
        self._cells = [cell for cell in scenario.grid.positions() if scenario.grid.is_open(cell)]
        self._reach = {cell: (cell, *scenario.grid.neighbours(cell)) for cell in self._cells}
        self._earliest = earliest
        self._horizon = world.max_steps
        self._alive: list[dict[Position, int]] = []

    def arrivals(self, start: Position) -> dict[Position, tuple[int, int]]:
        """Return, for every cell on some escape, the first step there and the fewest steps left from there.

        Only states with an escape are followed: no escape leads through a state without one.
        """
        arrivals: dict[Position, tuple[int, int]] = {}
        front = {start}
        for step in range(self._horizon + 1):
            left = self._steps_left(step)
            front &= left.keys()
            if not front:
                break
            for cell in front:
                first, rest = arrivals.get(cell, (step, NEVER))
                arrivals[cell] = first, min(rest, left[cell])
            front = {y for x in front for y in self._reach[x]}
        return arrivals

    def _steps_left(self, step: int) -> dict[Position, int]:
        """Return `L(x, step) - step` of every cell where it is finite."""
        while len(self._alive) <= step:
            t = len(self._alive)
            soonest = ((cell, self._earliest.at(cell, t)) for cell in self._cells)
            self._alive.append({cell: value - t for cell, value in soonest if value != NEVER})
        return self._alive[step]


def _components(scenario: Scenario, cells: set[Position]) -> list[set[Position]]:
    components, left = [], set(cells)
    while left:
        component, front = set(), {min(left)}
        while front:
            component |= front
            left -= front
            front = {y for x in front for y in scenario.grid.neighbours(x) if y in left}
        components.append(component)
    return components
