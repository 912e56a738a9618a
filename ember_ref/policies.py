"""The baseline policies (contract section 13).

A policy sees observations only. Ties go to the earlier action in action order, or to the lower ID.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from typing import Final, Protocol

from ember_ref.errors import EmberError, SimulationError
from ember_ref.form import show
from ember_ref.grid import DIRECTIONS, Action, Grid, Position, target_of
from ember_ref.movement import CONGESTION_BLOCKS, resolve
from ember_ref.observation import MapView, Observation
from ember_ref.record import ActionLog
from ember_ref.simulator import checked_seed
from ember_ref.stream import Stream


class Policy(Protocol):
    """A decision model in process. `reset` is called before every episode."""

    name: str

    def reset(self) -> None:
        """Forget the episode before."""

    def act(self, observation: Observation) -> Mapping[str, Action]:
        """Return one action for every active person."""


class AlwaysStay:
    """Nobody ever moves."""

    name = "always-stay-v1"

    def reset(self) -> None:
        """Do nothing: there is no memory."""

    def act(self, observation: Observation) -> dict[str, Action]:
        """Return `stay` for everyone."""
        return dict.fromkeys((person.id for person in observation.active), Action.STAY)


class RandomLegal:
    """A uniform choice among `stay` and the directions to open, non-burning cells."""

    name = "random-legal-v1"

    def __init__(self, policy_seed: int = 0) -> None:
        """Take the policy's own seed, which is never the evaluator's."""
        self._seed = checked_seed(policy_seed)
        self._terrain = Terrain()
        self.reset()

    def reset(self) -> None:
        """Rewind the policy's stream to position 0."""
        self._stream = Stream(f"policy/{self.name}", self._seed)

    def act(self, observation: Observation) -> dict[str, Action]:
        """Draw one word a person, in ID order."""
        grid = self._terrain.grid(observation.map)
        actions = {}
        for person in observation.active:
            choices = [
                Action.STAY,
                *(
                    direction
                    for direction, cell in open_directions(grid, person.position)
                    if cell not in observation.burning
                ),
            ]
            actions[person.id] = choices[self._stream.below(len(choices))]
        return actions


class NearestExitGreedy:
    """Straight to the exit nearest by Manhattan distance, whether it burns or not."""

    name = "nearest-exit-greedy-v1"

    def __init__(self) -> None:
        """Start without a map."""
        self._terrain = Terrain()

    def reset(self) -> None:
        """Do nothing: nothing depends on the episode before."""

    def act(self, observation: Observation) -> dict[str, Action]:
        """Return the first direction to an open, non-burning cell nearer to the exit, else `stay`."""
        grid = self._terrain.grid(observation.map)
        exits = [exit.position for exit in observation.map.exits]
        actions = {}
        for person in observation.active:
            here = person.position
            goal = min(exits, key=partial(manhattan, here))
            closer = {
                cell
                for cell in grid.neighbours(here)
                if cell not in observation.burning and manhattan(cell, goal) < manhattan(here, goal)
            }
            actions[person.id] = first_direction(grid, here, closer)
        return actions


class StaticShortestPath:
    """A shortest path to the nearest exit, as if there were no fire."""

    name = "static-shortest-path-v1"

    def __init__(self) -> None:
        """Start without a map."""
        self._terrain = Terrain()

    def reset(self) -> None:
        """Do nothing: nothing depends on the episode before."""

    def act(self, observation: Observation) -> dict[str, Action]:
        """Return the first direction down the distance to an exit, fire ignored."""
        grid = self._terrain.grid(observation.map)
        return descend(observation, grid, self._terrain.static_distances())


class FireAwareShortestPath:
    """A shortest path to a non-burning exit through non-burning cells."""

    name = "fire-aware-shortest-path-v1"

    def __init__(self) -> None:
        """Start without a map."""
        self._terrain = Terrain()

    def reset(self) -> None:
        """Do nothing: nothing depends on the episode before."""

    def act(self, observation: Observation) -> dict[str, Action]:
        """Return the first direction down the fire-aware distance."""
        grid = self._terrain.grid(observation.map)
        exits = (exit.position for exit in observation.map.exits)
        return descend(observation, grid, grid.distances(exits, avoid=observation.burning))


class CongestionAware:
    """Shares the people out among the exits by distance and load, and lets nobody aim at a taken cell."""

    name = "congestion-aware-v1"

    def __init__(self) -> None:
        """Start without a map."""
        self._terrain = Terrain()

    def reset(self) -> None:
        """Do nothing: nothing depends on the episode before."""

    def act(self, observation: Observation) -> dict[str, Action]:
        """Assign an exit to everyone who can reach one, then a step toward it."""
        grid, burning = self._terrain.grid(observation.map), observation.burning
        distances = {
            exit.id: grid.distances([exit.position], avoid=burning)
            for exit in observation.map.exits
            if exit.position not in burning
        }
        order = []
        for person in observation.active:
            reachable = [d[person.position] for d in distances.values() if person.position in d]
            if reachable:
                order.append((min(reachable), person.id, person.position))
        order.sort()

        load = dict.fromkeys(distances, 0)
        assigned = {}
        for _, person_id, position in order:
            costs = [(d[position] + load[exit_id], exit_id) for exit_id, d in distances.items() if position in d]
            exit_id = min(costs)[1]
            load[exit_id] += 1
            assigned[person_id] = distances[exit_id]

        actions = dict.fromkeys((person.id for person in observation.active), Action.STAY)
        taken: set[Position] = set()
        for _, person_id, position in order:
            action = first_direction(grid, position, nearer(grid, position, assigned[person_id]) - taken)
            actions[person_id] = action
            if action is not Action.STAY:
                taken.add(target_of(position, action))
        return actions


class BlockScrub:
    """Another policy, with every move that people would block replaced by `stay` (scoring section 4.2)."""

    def __init__(self, policy: Policy) -> None:
        """Wrap a policy."""
        self.name = f"{SCRUB_PREFIX}{policy.name}"
        self._policy = policy
        self._terrain = Terrain()

    def reset(self) -> None:
        """Reset the wrapped policy."""
        self._policy.reset()

    def act(self, observation: Observation) -> dict[str, Action]:
        """Resolve the wrapped policy's moves with the public resolver and scrub the blocked ones."""
        actions = self._policy.act(observation)
        movements = resolve(
            grid=self._terrain.grid(observation.map),
            burning=observation.burning,
            enter_fire=observation.rules.enter_fire,
            positions={person.id: person.position for person in observation.active},
            actions=actions,
        )
        return {m.person_id: Action.STAY if m.outcome in CONGESTION_BLOCKS else m.action for m in movements}


class Scripted:
    """An action log."""

    name = "scripted"

    def __init__(self, log: ActionLog) -> None:
        """Take the log; whether it is this run's is checked by `ActionLog.check`."""
        self._log = log

    def reset(self) -> None:
        """Do nothing: the step of the observation is the place in the log."""

    def act(self, observation: Observation) -> Mapping[str, Action]:
        """Return the logged actions of the next step.

        Raises:
            SimulationError: when the log ends before the run.
        """
        if observation.step >= len(self._log.actions):
            raise SimulationError(
                f"step {observation.step + 1}: the action log ends after {len(self._log.actions)} steps"
            )
        return self._log.actions[observation.step]


SCRUB_PREFIX: Final = "adv-block-scrub."
_BY_NAME: Final[dict[str, Callable[[int], Policy]]] = {
    AlwaysStay.name: lambda _seed: AlwaysStay(),
    RandomLegal.name: RandomLegal,
    NearestExitGreedy.name: lambda _seed: NearestExitGreedy(),
    StaticShortestPath.name: lambda _seed: StaticShortestPath(),
    FireAwareShortestPath.name: lambda _seed: FireAwareShortestPath(),
    CongestionAware.name: lambda _seed: CongestionAware(),
}
POLICY_NAMES: Final = tuple(_BY_NAME)
"""The policies that can be made from their name alone; each also with `adv-block-scrub.` before it."""


def make_policy(name: str, policy_seed: int = 0) -> Policy:
    """Make a baseline policy by its name.

    Raises:
        EmberError: for an unknown name.
    """
    if name.startswith(SCRUB_PREFIX):
        return BlockScrub(make_policy(name.removeprefix(SCRUB_PREFIX), policy_seed))
    if name not in _BY_NAME:
        known = ", ".join(POLICY_NAMES)
        raise EmberError(f"policy {show(name)} is unknown; expected {known}, or one of them after {SCRUB_PREFIX}")
    return _BY_NAME[name](policy_seed)


class Terrain:
    """The grid of the map that a policy saw last, and its distances without fire."""

    __slots__ = ("_grid", "_static", "_view")

    def __init__(self) -> None:
        """Start without a map."""
        self._view: MapView | None = None
        self._grid = Grid(height=0, width=0, obstacles=frozenset())
        self._static: dict[Position, int] | None = None

    def grid(self, view: MapView) -> Grid:
        """Return the grid of a map view, made anew only when the map changed."""
        if view is not self._view:
            self._view, self._static = view, None
            self._grid = Grid(height=view.height, width=view.width, obstacles=frozenset(view.obstacles))
        return self._grid

    def static_distances(self) -> dict[Position, int]:
        """Return w of the last map: the distance to the nearest exit, fire ignored."""
        if self._static is None:
            exits: Iterable[Position] = () if self._view is None else (e.position for e in self._view.exits)
            self._static = self._grid.distances(exits)
        return self._static


def manhattan(a: Position, b: Position) -> int:
    """Return the Manhattan distance of two cells."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def open_directions(grid: Grid, position: Position) -> list[tuple[Action, Position]]:
    """Return the directions to open neighbours with the cells they point at, in action order."""
    pairs = ((direction, target_of(position, direction)) for direction in DIRECTIONS)
    return [(direction, cell) for direction, cell in pairs if grid.is_open(cell)]


def first_direction(grid: Grid, position: Position, cells: Set[Position]) -> Action:
    """Return the first direction to an open neighbour among `cells`, else `stay`."""
    directions = open_directions(grid, position)
    return next((direction for direction, cell in directions if cell in cells), Action.STAY)


def nearer(grid: Grid, position: Position, distance: Mapping[Position, int]) -> set[Position]:
    """Return the open neighbours one nearer by `distance`; none when the position has none."""
    goal = distance.get(position, 0) - 1
    return {cell for cell in grid.neighbours(position) if distance.get(cell) == goal}


def descend(observation: Observation, grid: Grid, distance: Mapping[Position, int]) -> dict[str, Action]:
    """Return, for every active person, the first direction to a cell one nearer; `stay` when unreachable."""
    return {
        person.id: first_direction(grid, person.position, nearer(grid, person.position, distance))
        for person in observation.active
    }
