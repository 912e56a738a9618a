"""What metrics require of a record before they read it: stages 1 to 3 of metrics.md section 2.

Stages 1 and 2 give precise messages and confirm every assumption of the metrics; stage 3 replays the record and
refuses what is consistent but was not produced by the simulator.
"""

from collections.abc import Iterator

from ember_ref.errors import MetricsInputError, ReplayMismatchError
from ember_ref.form import show
from ember_ref.grid import Action, Position, target_of
from ember_ref.movement import Movement, MoveOutcome
from ember_ref.observation import OBSERVATION_VERSION, PersonState, PersonStatus
from ember_ref.record import RunRecord, replay_check
from ember_ref.scenario import SCHEMA_VERSION, Scenario
from ember_ref.simulator import (
    SIMULATOR_VERSION,
    CasualtyCause,
    State,
    StepRecord,
    TerminationReason,
    escapable,
)

REPLAY_FAILURE = "record failed simulator replay verification: "
"""How the message of a failed stage 3 starts."""


def authenticate(scenario: Scenario, record: RunRecord) -> None:
    """Run all three stages.

    Raises:
        MetricsInputError: with the first fault; after a failed replay its error is the cause.
    """
    for stage, faults in (
        ("compatibility", _compatibility(scenario, record)),
        ("initial state", _initial_state(scenario, record.initial_state)),
        ("structure", _structure(scenario, record)),
        ("termination", _termination(scenario, record)),
    ):
        fault = next(faults, None)
        if fault is not None:
            raise MetricsInputError(f"{stage}: {fault}")
    try:
        replay_check(scenario, record)
    except ReplayMismatchError as error:
        raise MetricsInputError(f"{REPLAY_FAILURE}{error}") from error


def _compatibility(scenario: Scenario, record: RunRecord) -> Iterator[str]:
    header = record.header
    for name, found, expected in (
        ("simulator_version", header.simulator_version, SIMULATOR_VERSION),
        ("observation_version", header.observation_version, OBSERVATION_VERSION),
        ("schema_version", header.schema_version, SCHEMA_VERSION),
        ("scenario_id", header.scenario_id, scenario.id),
        ("scenario_hash", header.scenario_hash, scenario.content_hash),
    ):
        if found != expected:
            yield f"{name} is {show(found)}, expected {show(expected)}"


def _initial_state(scenario: Scenario, state: State) -> Iterator[str]:
    people = tuple(
        PersonState(id=person.id, position=person.position, status=PersonStatus.ACTIVE) for person in scenario.people
    )
    if state.step != 0:
        yield f"step is {state.step}, expected 0"
    if state.people != people:
        yield "people are not those of the scenario, active at their positions, in ID order"
    if state.burning != scenario.fire.ignitions:
        yield "burning is not the scenario's ignitions"
    if state.terminated or state.termination_reason is not None:
        yield "terminated at step 0"
    yield from _trapped(scenario, state, "initial state")


def _structure(scenario: Scenario, record: RunRecord) -> Iterator[str]:
    before = record.initial_state
    for number, step in enumerate(record.steps, start=1):
        place = f"step {number}"
        if step.step != number or step.state.step != number:
            yield f"{place}: numbered {step.step}, its state {step.state.step}"
        yield from _movements(scenario, before, step, place)
        yield from _fire(scenario, before, step, place)
        yield from _people(scenario, before, step, place)
        yield from _trapped(scenario, step.state, place)
        before = step.state


def _movements(scenario: Scenario, before: State, step: StepRecord, place: str) -> Iterator[str]:
    active = {person.id: person.position for person in before.people if person.status is PersonStatus.ACTIVE}
    if step.actions.keys() != active.keys():
        yield f"{place}: actions do not cover exactly the active people"
    if [movement.person_id for movement in step.movements] != list(active):
        yield f"{place}: movements do not cover exactly the active people, in ID order"
    for movement in step.movements:
        who = f"{place}, {movement.person_id}"
        if movement.action != step.actions.get(movement.person_id):
            yield f"{who}: the movement's action is not the action"
        if movement.origin != active.get(movement.person_id):
            yield f"{who}: the origin is not where the person was"
        if movement.target != target_of(movement.origin, movement.action):
            yield f"{who}: the target is not the cell that the action points at"
        if (movement.action is Action.STAY) != (movement.outcome is MoveOutcome.STAYED):
            yield f"{who}: outcome {movement.outcome} of action {movement.action}"
        yield from _refusal(scenario, before, movement, who)
    ends = [movement.destination for movement in step.movements]
    if len(set(ends)) != len(ends):
        yield f"{place}: two people end in one cell"


def _refusal(scenario: Scenario, before: State, movement: Movement, who: str) -> Iterator[str]:
    in_bounds = scenario.grid.contains(movement.target)
    is_open = scenario.grid.is_open(movement.target)
    outcome = movement.outcome
    if outcome is MoveOutcome.MOVED and not is_open:
        yield f"{who}: moved out of bounds or into a wall"
    if outcome is MoveOutcome.BLOCKED_BOUNDARY and in_bounds:
        yield f"{who}: blocked by a boundary inside the grid"
    if outcome is MoveOutcome.BLOCKED_WALL and (is_open or not in_bounds):
        yield f"{who}: blocked by a wall that is none"
    if outcome is MoveOutcome.BLOCKED_FIRE and movement.target not in before.burning:
        yield f"{who}: blocked by fire where nothing burns"


def _fire(scenario: Scenario, before: State, step: StepRecord, place: str) -> Iterator[str]:
    new = set(step.ignitions)
    if len(new) != len(step.ignitions) or new & set(before.burning):
        yield f"{place}: an ignition that burned before"
    if not all(scenario.grid.is_open(cell) for cell in new):
        yield f"{place}: an ignition that is no open cell"
    if step.ignitions != tuple(sorted(new)):
        yield f"{place}: ignitions are not row-major"
    if step.state.burning != tuple(sorted({*before.burning, *new})):
        yield f"{place}: burning is not the burning set before and the ignitions, row-major"


def _people(scenario: Scenario, before: State, step: StepRecord, place: str) -> Iterator[str]:
    if [person.id for person in step.state.people] != [person.id for person in before.people]:
        yield f"{place}: people are not those of the scenario in ID order"
        return
    exits = {exit.position: exit.id for exit in scenario.exits}
    ends = {movement.person_id: movement.destination for movement in step.movements}
    burned, burning = set(before.burning), set(step.state.burning)
    leaving = {event.person_id: event.exit_id for event in step.evacuations}
    dying = {event.person_id: event.cause for event in step.casualties}
    events = [event.person_id for event in step.evacuations] + [event.person_id for event in step.casualties]
    if len(set(events)) != len(events) or not set(events) <= ends.keys():
        yield f"{place}: an event of somebody who was not active, or two of one person"
    for was, now in zip(before.people, step.state.people, strict=True):
        who = f"{place}, {now.id}"
        if was.status is not PersonStatus.ACTIVE:
            if now != was:
                yield f"{who}: changed after resolution"
            continue
        end: Position = ends.get(now.id, was.position)
        if now.position != end:
            yield f"{who}: is not where the movement ended"
        status = PersonStatus.EVACUATED if now.id in leaving else PersonStatus.ACTIVE
        status = PersonStatus.CASUALTY if now.id in dying else status
        if now.status is not status:
            yield f"{who}: status {now.status} without the event for it"
        if now.id in leaving and leaving[now.id] != exits.get(end):
            yield f"{who}: evacuated through an exit that is not there"
        if now.id in dying:
            cause = CasualtyCause.ENTERED_FIRE if end in burned else CasualtyCause.FIRE_SPREAD
            if end not in burning or dying[now.id] is not cause:
                yield f"{who}: lost without fire, or to another cause"
        if status is PersonStatus.ACTIVE and (end in burning or (end in exits and end not in burned)):
            yield f"{who}: active on a burning cell or a usable exit"


def _trapped(scenario: Scenario, state: State, place: str) -> Iterator[str]:
    exits = {exit.position for exit in scenario.exits}
    free = escapable(scenario.grid, exits, set(state.burning))
    expected = tuple(
        person.id for person in state.people if person.status is PersonStatus.ACTIVE and person.position not in free
    )
    if state.trapped != expected:
        yield f"{place}: trapped is not who is cut off"


def _termination(scenario: Scenario, record: RunRecord) -> Iterator[str]:
    if not record.steps:
        yield "the record has no steps"
        return
    horizon = scenario.termination.max_steps
    for step in record.steps[:-1]:
        if step.state.terminated or step.state.termination_reason is not None:
            yield f"step {step.step}: terminated before the last step"
    last = record.steps[-1].state
    if record.final_state != last:
        yield "the final state is not the state of the last step"
    reason = None
    if all(person.status is not PersonStatus.ACTIVE for person in last.people):
        reason = TerminationReason.ALL_RESOLVED
    elif last.step == horizon:
        reason = TerminationReason.MAX_STEPS
    if reason is None or not last.terminated:
        yield f"the record ends at step {last.step} of {horizon} with somebody active; a complete episode is needed"
    if last.termination_reason is not reason:
        yield f"the reason is {last.termination_reason}, expected {reason}"
