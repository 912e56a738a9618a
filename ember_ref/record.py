"""Run records, action logs, and the replay check (contract section 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ember_ref.canonical import LARGE_FILE, SMALL_FILE, digest, parse_canonical, parse_json, read_bytes
from ember_ref.errors import DocumentError, RecordError, ReplayMismatchError, SimulationError
from ember_ref.form import (
    COUNT,
    DIGEST,
    ID,
    SEED,
    Form,
    boolean,
    integer,
    list_of,
    map_of,
    nullable,
    object_of,
    one_of,
    show,
    text,
    tuple_of,
)
from ember_ref.grid import ACTIONS, Action
from ember_ref.movement import Movement, MoveOutcome
from ember_ref.observation import OBSERVATION_VERSION, PersonState, PersonStatus
from ember_ref.scenario import SCHEMA_VERSION, Scenario
from ember_ref.simulator import (
    SIMULATOR_VERSION,
    Casualty,
    CasualtyCause,
    Evacuation,
    Simulator,
    State,
    StepRecord,
    TerminationReason,
    checked_seed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """What identifies the episode of a record."""

    simulator_version: str
    observation_version: str
    schema_version: str
    scenario_id: str
    scenario_hash: str
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Return the header object."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One episode, whole: everything that replay, metrics and score read."""

    header: RunHeader
    initial_state: State
    steps: tuple[StepRecord, ...]
    final_state: State

    @classmethod
    def of(cls, simulator: Simulator) -> Self:
        """Return the record of a simulator's episode up to now."""
        return cls(
            header=header_of(simulator.scenario, simulator.seed),
            initial_state=simulator.initial_state,
            steps=tuple(simulator.steps),
            final_state=simulator.state,
        )

    @classmethod
    def from_dict(cls, document: Any, *, what: str = "run record") -> Self:
        """Make a record from its JSON object. Order and truth of its content are the replay check's matter.

        Raises:
            RecordError: with every fault of form and its place.
        """
        faults = RECORD_FORM(document, "")
        if faults:
            raise RecordError(what, faults)
        return cls(
            header=RunHeader(**document["header"]),
            initial_state=_state(document["initial_state"]),
            steps=tuple(_step(step) for step in document["steps"]),
            final_state=_state(document["final_state"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record object."""
        return {
            "header": self.header.to_dict(),
            "initial_state": self.initial_state.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
            "final_state": self.final_state.to_dict(),
        }

    @property
    def record_digest(self) -> str:
        """The digest of the record object, hex."""
        return digest(self.to_dict())

    @property
    def trajectory_digest(self) -> str:
        """The digest of the list of all snapshots, hex."""
        states = [self.initial_state, *(step.state for step in self.steps)]
        return digest([state.to_dict() for state in states])


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLog:
    """The actions of a run, one mapping a step, bound to a scenario and a seed."""

    scenario_hash: str
    seed: int
    actions: tuple[Mapping[str, Action], ...]

    @classmethod
    def from_dict(cls, document: Any, *, what: str = "action log") -> Self:
        """Make an action log from its JSON object.

        Raises:
            RecordError: with every fault of form and its place.
        """
        faults = _LOG_FORM(document, "")
        if faults:
            raise RecordError(what, faults)
        return cls(
            scenario_hash=document["scenario_hash"],
            seed=document["seed"],
            actions=tuple(_actions(step) for step in document["actions"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the action log object."""
        actions = [{person: str(action) for person, action in step.items()} for step in self.actions]
        return {"scenario_hash": self.scenario_hash, "seed": self.seed, "actions": actions}

    def check(self, scenario: Scenario, seed: int) -> None:
        """Refuse to serve another run.

        Raises:
            SimulationError: when the log belongs to another scenario or another seed.
        """
        if self.scenario_hash != scenario.content_hash:
            raise SimulationError(
                f"the action log is of scenario {self.scenario_hash}, not of {scenario.id} ({scenario.content_hash})"
            )
        if self.seed != seed:
            raise SimulationError(f"the action log is of seed {self.seed}, not of seed {seed}")


def parse_record(data: bytes, *, what: str = "run record") -> RunRecord:
    """Read a record from the bytes of its file.

    Raises:
        RecordError: when they are not canonical or not of the form.
    """
    try:
        document = parse_canonical(data, what=what, limit=LARGE_FILE)
    except DocumentError as error:
        raise RecordError(error.what, error.faults) from None
    return RunRecord.from_dict(document, what=what)


def load_record(path: Path) -> RunRecord:
    """Read a record file (see `parse_record`)."""
    return parse_record(read_bytes(path, limit=LARGE_FILE), what=str(path))


def load_action_log(path: Path) -> ActionLog:
    """Read an action log file, in any JSON spelling.

    Raises:
        RecordError: when it is not of the form.
    """
    try:
        document = parse_json(read_bytes(path, limit=SMALL_FILE), what=str(path), limit=SMALL_FILE)
    except DocumentError as error:
        raise RecordError(error.what, error.faults) from None
    return ActionLog.from_dict(document, what=str(path))


def header_of(scenario: Scenario, seed: int) -> RunHeader:
    """Return the header of a new record."""
    return RunHeader(
        simulator_version=SIMULATOR_VERSION,
        observation_version=OBSERVATION_VERSION,
        schema_version=SCHEMA_VERSION,
        scenario_id=scenario.id,
        scenario_hash=scenario.content_hash,
        seed=checked_seed(seed),
    )


def replay_check(scenario: Scenario, record: RunRecord) -> None:
    """Run the recorded actions from the recorded seed and require the identical record.

    Raises:
        ReplayMismatchError: names the first step and field of difference.
    """
    simulator = Simulator(scenario, record.header.seed)
    _compare(0, "header", header_of(scenario, record.header.seed).to_dict(), record.header.to_dict())
    _compare(0, "initial_state", simulator.initial_state.to_dict(), record.initial_state.to_dict())
    for number, recorded in enumerate(record.steps, start=1):
        try:
            replayed = simulator.step(recorded.actions)
        except SimulationError as error:
            raise ReplayMismatchError(number, "actions", str(error)) from error
        if replayed != recorded:
            _compare(number, "", replayed.to_dict(), recorded.to_dict())
    _compare(simulator.state.step, "final_state", simulator.state.to_dict(), record.final_state.to_dict())


def first_difference(expected: Any, found: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """Return the place and both values of the first difference of two JSON values, in canonical order."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            where = f"{place}.{key}" if place else key
            difference = first_difference(expected.get(key), found.get(key), where)
            if difference:
                return difference
        return None
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for i, (a, b) in enumerate(zip(expected, found, strict=True)):
            difference = first_difference(a, b, f"{place}[{i}]")
            if difference:
                return difference
        return None
    if isinstance(expected, list) and isinstance(found, list):
        shared = min(len(expected), len(found))
        inner = first_difference(expected[:shared], found[:shared], place)
        return inner or (place, f"{len(expected)} entries", f"{len(found)} entries")
    return None if expected == found else (place, expected, found)


def _compare(step: int, place: str, expected: Any, found: Any) -> None:
    difference = first_difference(expected, found, place)
    if difference:
        field, replayed, recorded = difference
        detail = f"the record has {show(recorded)}, the replay {show(replayed)}"
        raise ReplayMismatchError(step, field, detail)


def _actions(document: Mapping[str, str]) -> dict[str, Action]:
    return {person: Action(action) for person, action in document.items()}


def _state(document: Mapping[str, Any]) -> State:
    reason = document["termination_reason"]
    return State(
        step=document["step"],
        people=tuple(
            PersonState(id=p["id"], position=tuple(p["position"]), status=PersonStatus(p["status"]))
            for p in document["people"]
        ),
        burning=tuple((row, col) for row, col in document["burning"]),
        trapped=tuple(document["trapped"]),
        terminated=document["terminated"],
        termination_reason=None if reason is None else TerminationReason(reason),
    )


def _step(document: Mapping[str, Any]) -> StepRecord:
    return StepRecord(
        step=document["step"],
        actions=_actions(document["actions"]),
        movements=tuple(
            Movement(
                person_id=m["person_id"],
                action=Action(m["action"]),
                origin=tuple(m["origin"]),
                target=tuple(m["target"]),
                outcome=MoveOutcome(m["outcome"]),
            )
            for m in document["movements"]
        ),
        ignitions=tuple((row, col) for row, col in document["ignitions"]),
        evacuations=tuple(
            Evacuation(person_id=e["person_id"], exit_id=e["exit_id"]) for e in document["evacuations"]
        ),
        casualties=tuple(
            Casualty(person_id=c["person_id"], cause=CasualtyCause(c["cause"])) for c in document["casualties"]
        ),
        state=_state(document["state"]),
    )


_CELL: Final = tuple_of(COUNT, COUNT)
_ACTION: Final = one_of(*map(str, ACTIONS))
_STATE: Final = object_of(
    {
        "step": COUNT,
        "people": list_of(object_of({"id": ID, "position": _CELL, "status": one_of(*map(str, PersonStatus))})),
        "burning": list_of(_CELL),
        "trapped": list_of(ID),
        "terminated": boolean,
        "termination_reason": nullable(one_of(*map(str, TerminationReason))),
    }
)
_STEP: Final = object_of(
    {
        "step": COUNT,
        "actions": map_of(ID, _ACTION),
        "movements": list_of(
            object_of(
                {
                    "person_id": ID,
                    "action": _ACTION,
                    "origin": _CELL,
                    "target": tuple_of(integer(-1), integer(-1)),
                    "outcome": one_of(*map(str, MoveOutcome)),
                }
            )
        ),
        "ignitions": list_of(_CELL),
        "evacuations": list_of(object_of({"person_id": ID, "exit_id": ID})),
        "casualties": list_of(object_of({"person_id": ID, "cause": one_of(*map(str, CasualtyCause))})),
        "state": _STATE,
    }
)
RECORD_FORM: Final[Form] = object_of(
    {
        "header": object_of(
            {
                "simulator_version": text(),
                "observation_version": text(),
                "schema_version": text(),
                "scenario_id": ID,
                "scenario_hash": DIGEST,
                "seed": SEED,
            }
        ),
        "initial_state": _STATE,
        "steps": list_of(_STEP),
        "final_state": _STATE,
    }
)
"""The form of a run record (contract section 7)."""
_LOG_FORM: Final[Form] = object_of({"scenario_hash": DIGEST, "seed": SEED, "actions": list_of(map_of(ID, _ACTION))})
