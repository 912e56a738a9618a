"""The simulator: one step in its phases, and the state between steps (contract section 5, R1 to R10)."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ember_ref.errors import SimulationError
from ember_ref.fire import Fire
from ember_ref.form import MAX_SEED, show
from ember_ref.grid import ACTIONS, Action, Grid, Position
from ember_ref.movement import Movement, resolve
from ember_ref.observation import Observation, PersonState, PersonStatus, map_view, rules_view
from ember_ref.scenario import Scenario
from ember_ref.stream import FIRE, Stream

SIMULATOR_VERSION: Final = "0.2.0"


class TerminationReason(StrEnum):
    """Why an episode ended (R10)."""

    ALL_RESOLVED = "all_resolved"
    MAX_STEPS = "max_steps"


class CasualtyCause(StrEnum):
    """How a person was lost."""

    ENTERED_FIRE = "entered_fire"
    FIRE_SPREAD = "fire_spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuation:
    """A person who left, and the exit used."""

    person_id: str
    exit_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Casualty:
    """A person who was lost, and the cause."""

    person_id: str
    cause: CasualtyCause


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A snapshot: people and trapped by ID, burning row-major."""

    step: int
    people: tuple[PersonState, ...]
    burning: tuple[Position, ...]
    trapped: tuple[str, ...]
    terminated: bool
    termination_reason: TerminationReason | None

    def to_dict(self) -> dict[str, Any]:
        """Return the STATE object of a run record."""
        return {
            "step": self.step,
            "people": [person.to_dict() for person in self.people],
            "burning": [list(cell) for cell in self.burning],
            "trapped": list(self.trapped),
            "terminated": self.terminated,
            "termination_reason": None if self.termination_reason is None else str(self.termination_reason),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What happened in one step, and the snapshot after it."""

    step: int
    actions: Mapping[str, Action]
    movements: tuple[Movement, ...]
    ignitions: tuple[Position, ...]
    evacuations: tuple[Evacuation, ...]
    casualties: tuple[Casualty, ...]
    state: State

    def to_dict(self) -> dict[str, Any]:
        """Return the step object of a run record."""
        return {
            "step": self.step,
            "actions": {person: str(action) for person, action in self.actions.items()},
            "movements": [
                {
                    "person_id": movement.person_id,
                    "action": str(movement.action),
                    "origin": list(movement.origin),
                    "target": list(movement.target),
                    "outcome": str(movement.outcome),
                }
                for movement in self.movements
            ],
            "ignitions": [list(cell) for cell in self.ignitions],
            "evacuations": [{"person_id": e.person_id, "exit_id": e.exit_id} for e in self.evacuations],
            "casualties": [{"person_id": c.person_id, "cause": str(c.cause)} for c in self.casualties],
            "state": self.state.to_dict(),
        }


class Simulator:
    """An episode in progress.

    Attributes:
        scenario: the scenario. Evaluator-private, like everything here but `observe()`.
        seed: the evaluator seed.
        initial_state: the snapshot of step 0.
        steps: the record of every step so far.
        state: the snapshot now.
    """

    def __init__(self, scenario: Scenario, seed: int | None = None) -> None:
        """Start an episode; without a seed, under the scenario's own.

        Raises:
            SimulationError: when the seed is not an integer from 0 to 2^64 - 1.
        """
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else checked_seed(seed)
        self.steps: list[StepRecord] = []
        self._fire = Fire(scenario)
        self._stream = Stream(FIRE, self.seed)
        self._map = map_view(scenario)
        self._rules = rules_view(scenario)
        self._exit_ids = {exit.position: exit.id for exit in scenario.exits}
        self._burning = frozenset(scenario.fire.ignitions)
        people = tuple(
            PersonState(id=person.id, position=person.position, status=PersonStatus.ACTIVE)
            for person in scenario.people
        )
        self._can_escape = escapable(scenario.grid, self._exit_ids.keys(), self._burning)
        self.initial_state = State(
            step=0,
            people=people,
            burning=tuple(sorted(self._burning)),
            trapped=self._trapped(people),
            terminated=False,
            termination_reason=None,
        )
        self.state = self.initial_state

    @property
    def fire_position(self) -> int:
        """The position of the fire's stream. Evaluator-private."""
        return self._stream.position

    def observe(self) -> Observation:
        """Return what a decision model sees now."""
        return Observation(
            step=self.state.step,
            map=self._map,
            rules=self._rules,
            people=self.state.people,
            burning=self._burning,
        )

    def step(self, actions: Mapping[str, Action]) -> StepRecord:
        """Run one step.

        Args:
            actions: exactly one allowed action for every active person.

        Raises:
            SimulationError: for any other actions, or after the end; the state does not change.
        """
        checked = self._checked_actions(actions)
        step, before = self.state.step + 1, self._burning
        positions = {p.id: p.position for p in self.state.people if p.status is PersonStatus.ACTIVE}
        movements = resolve(
            grid=self.scenario.grid,
            burning=before,
            enter_fire=self.scenario.movement.enter_fire,
            positions=positions,
            actions=checked,
        )
        positions = {movement.person_id: movement.destination for movement in movements}
        evacuations = tuple(
            Evacuation(person_id=person, exit_id=self._exit_ids[cell])
            for person, cell in positions.items()
            if cell in self._exit_ids and cell not in before
        )
        ignitions = tuple(self._fire.ignitions(before, step, self._stream))
        burning = before.union(ignitions)
        safe = {evacuation.person_id for evacuation in evacuations}
        casualties = tuple(
            Casualty(
                person_id=person,
                cause=CasualtyCause.ENTERED_FIRE if cell in before else CasualtyCause.FIRE_SPREAD,
            )
            for person, cell in positions.items()
            if person not in safe and cell in burning
        )
        lost = {casualty.person_id for casualty in casualties}
        if ignitions:
            self._burning = burning
            self._can_escape = escapable(self.scenario.grid, self._exit_ids.keys(), burning)
        people = tuple(
            PersonState(id=p.id, position=positions[p.id], status=_status(p.id, safe, lost))
            if p.id in positions
            else p
            for p in self.state.people
        )
        self.state = self._snapshot(step, people, ignitions)
        record = StepRecord(
            step=step,
            actions=checked,
            movements=movements,
            ignitions=ignitions,
            evacuations=evacuations,
            casualties=casualties,
            state=self.state,
        )
        self.steps.append(record)
        return record

    def _snapshot(self, step: int, people: tuple[PersonState, ...], ignitions: tuple[Position, ...]) -> State:
        reason = None
        if all(person.status is not PersonStatus.ACTIVE for person in people):
            reason = TerminationReason.ALL_RESOLVED
        elif step >= self.scenario.termination.max_steps:
            reason = TerminationReason.MAX_STEPS
        return State(
            step=step,
            people=people,
            burning=tuple(sorted(self._burning)) if ignitions else self.state.burning,
            trapped=self._trapped(people),
            terminated=reason is not None,
            termination_reason=reason,
        )

    def _trapped(self, people: tuple[PersonState, ...]) -> tuple[str, ...]:
        return tuple(
            person.id
            for person in people
            if person.status is PersonStatus.ACTIVE and person.position not in self._can_escape
        )

    def _checked_actions(self, actions: Mapping[str, Action]) -> dict[str, Action]:
        if self.state.terminated:
            raise SimulationError(
                f"step {self.state.step + 1}: the episode ended at step {self.state.step} "
                f"({self.state.termination_reason}); no further step is possible"
            )
        if not isinstance(actions, Mapping):
            raise SimulationError(
                f"step {self.state.step + 1}: {show(actions)} is not one action for each active person"
            )
        active = [person.id for person in self.state.people if person.status is PersonStatus.ACTIVE]
        faults = [f"no action for active person {person}" for person in active if person not in actions]
        known = set(active)
        for person, action in actions.items():
            if person not in known:
                faults.append(f"an action for {show(person)}, who is not an active person")
            elif not isinstance(action, str) or action not in ACTIONS:
                faults.append(f"{show(action)} for {person} is not one of {', '.join(ACTIONS)}")
        if faults:
            raise SimulationError(f"step {self.state.step + 1}: " + "; ".join(faults))
        return {person: Action(actions[person]) for person in active}


def escapable(grid: Grid, exits: Set[Position], burning: Set[Position]) -> Set[Position]:
    """Return the cells with a path to a non-burning exit through open, non-burning cells (R9)."""
    return grid.distances(exits, avoid=burning).keys()


def checked_seed(seed: int) -> int:
    """Return an evaluator seed that is one.

    Raises:
        SimulationError: when it is not an integer from 0 to 2^64 - 1.
    """
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise SimulationError(f"seed {show(seed)} is not an integer from 0 to 2^64 - 1")
    return seed


def _status(person: str, safe: set[str], lost: set[str]) -> PersonStatus:
    if person in safe:
        return PersonStatus.EVACUATED
    return PersonStatus.CASUALTY if person in lost else PersonStatus.ACTIVE
