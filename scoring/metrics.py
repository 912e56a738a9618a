"""Per-episode metrics, version 1.0 (metrics.md, contract section 12).

Counts are integers and ratios exact fractions; `to_dict` rounds each fraction to its float once.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from ember_ref.errors import MetricsInputError
from ember_ref.grid import Position
from ember_ref.movement import CONGESTION_BLOCKS, Movement, MoveOutcome
from ember_ref.observation import PersonStatus
from ember_ref.record import RunRecord
from ember_ref.scenario import Scenario
from ember_ref.simulator import CasualtyCause
from ember_ref.suite import METRICS_VERSION
from scoring.validation import authenticate

Ratio = Fraction | None
_BLOCKED: Final = "blocked_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """Section 4."""

    population: int
    evacuated: int
    casualties: int
    stranded: int
    evacuated_rate: Fraction
    casualty_rate: Fraction
    stranded_rate: Fraction
    terminal_trapped_count: int
    terminal_trapped_rate: Fraction
    casualties_by_cause: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Section 5; steps and person-steps."""

    episode_steps: int
    max_steps: int
    evacuees: int
    non_evacuees: int
    evacuation_steps: Mapping[str, int]
    first_evacuation_step: int | None
    last_evacuation_step: int | None
    mean_evacuation_step: Ratio
    median_evacuation_step: Ratio
    person_time_to_safety_total: int
    mean_person_time_to_safety: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class MovementMetrics:
    """Section 6; decisions by outcome."""

    decisions: int
    stay_actions: int
    movement_attempts: int
    successful_moves: int
    blocked_moves: int
    blocked_by_outcome: Mapping[str, int]
    congestion_blocks: int
    stay_rate: Ratio
    blocked_rate: Ratio
    congestion_block_rate: Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEfficiency:
    """Section 7; over the evacuees."""

    evacuees_measured: int
    total_cells_moved: int
    total_static_lower_bound: int
    aggregate_path_efficiency: Ratio
    mean_path_efficiency: Ratio
    mean_detour_ratio: Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class FireExposure:
    """Section 8; person-states by Manhattan distance to the nearest fire."""

    active_person_states: int
    person_states_with_fire: int
    person_states_without_fire: int
    distance_histogram: Mapping[int, int]
    adjacent_person_states: int
    min_fire_distance: int | None
    exposure_total: Fraction
    mean_exposure: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Exits:
    """Section 9."""

    exit_count: int
    exits_used: int
    evacuations_per_exit: Mapping[str, int]
    exit_shares: Mapping[str, Fraction] | None
    max_exit_share: Ratio
    exit_balance: Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanning:
    """Section 10; what followed a blocked move."""

    blocked_events: int
    blocks_with_next_decision: int
    blocks_without_next_decision: int
    moved_after_block: int
    blocked_after_block: int
    stayed_after_block: int
    action_changed_after_block: int
    max_consecutive_blocks: int
    recovery_proxy_rate: Ratio
    repeated_block_proxy_rate: Ratio
    action_change_proxy_rate: Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonMetrics:
    """Section 12."""

    person_id: str
    initial_position: Position
    final_position: Position
    status: str
    resolution_step: int | None
    exit_id: str | None
    casualty_cause: str | None
    decisions: int
    stay_actions: int
    cells_moved: int
    blocked_moves: int
    max_consecutive_blocks: int
    time_to_safety: int
    static_exit_distance: int | None
    path_efficiency: Ratio
    detour_ratio: Ratio
    min_fire_distance: int | None
    fire_exposure: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """All metrics of one authenticated episode."""

    metrics_version: str
    scenario_id: str
    scenario_hash: str
    seed: int
    safety: Safety
    time: Time
    movement: MovementMetrics
    path_efficiency: PathEfficiency
    fire_exposure: FireExposure
    exits: Exits
    replanning: Replanning
    people: tuple[PersonMetrics, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the METRICS object of plain JSON types."""
        document: dict[str, Any] = _plain(self)
        return document


def episode_metrics(scenario: Scenario, record: RunRecord) -> Metrics:
    """Compute the metrics of an episode, after authenticating its record.

    Raises:
        MetricsInputError: when any of the three stages refuses the record, or an invariant is broken.
    """
    authenticate(scenario, record)
    decisions = _decisions(record)
    distances = _fire_distances(scenario, record)
    people = _people(scenario, record, decisions, distances)
    metrics = Metrics(
        metrics_version=METRICS_VERSION,
        scenario_id=scenario.id,
        scenario_hash=scenario.content_hash,
        seed=record.header.seed,
        safety=_safety(record),
        time=_time(scenario, record),
        movement=_movement(decisions),
        path_efficiency=_path_efficiency(people),
        fire_exposure=_fire_exposure(distances),
        exits=_exits(scenario, record),
        replanning=_replanning(decisions),
        people=people,
    )
    check_invariants(metrics)
    return metrics


def check_invariants(metrics: Metrics) -> None:
    """Require the invariants of sections 4, 6, 7 and 10: a guard on the computation itself, after authentication.

    Raises:
        MetricsInputError: names the first that is broken.
    """
    safety, movement, replanning = metrics.safety, metrics.movement, metrics.replanning
    followed = replanning.moved_after_block + replanning.blocked_after_block + replanning.stayed_after_block
    held = {
        "evacuated + casualties + stranded = population": safety.evacuated + safety.casualties + safety.stranded
        == safety.population,
        "terminal_trapped_count <= stranded": safety.terminal_trapped_count <= safety.stranded,
        "successful_moves + blocked_moves = movement_attempts": movement.successful_moves + movement.blocked_moves
        == movement.movement_attempts,
        "blocked_events = blocked_moves": replanning.blocked_events == movement.blocked_moves,
        "moved + blocked + stayed after a block = blocks with a next decision": followed
        == replanning.blocks_with_next_decision,
        "1 <= static_exit_distance <= cells_moved of every evacuee": all(
            1 <= (person.static_exit_distance or 0) <= person.cells_moved
            for person in metrics.people
            if person.exit_id is not None
        ),
    }
    for invariant, holds in held.items():
        if not holds:
            raise MetricsInputError(f"invariant broken: {invariant}")


def ratio(numerator: Fraction | int, denominator: int) -> Ratio:
    """Return a / b, undefined when b is 0."""
    return Fraction(numerator, denominator) if denominator else None


def _safety(record: RunRecord) -> Safety:
    statuses = Counter(person.status for person in record.final_state.people)
    population = len(record.final_state.people)
    causes = Counter(casualty.cause for step in record.steps for casualty in step.casualties)
    trapped = len(record.final_state.trapped)
    return Safety(
        population=population,
        evacuated=statuses[PersonStatus.EVACUATED],
        casualties=statuses[PersonStatus.CASUALTY],
        stranded=statuses[PersonStatus.ACTIVE],
        evacuated_rate=Fraction(statuses[PersonStatus.EVACUATED], population),
        casualty_rate=Fraction(statuses[PersonStatus.CASUALTY], population),
        stranded_rate=Fraction(statuses[PersonStatus.ACTIVE], population),
        terminal_trapped_count=trapped,
        terminal_trapped_rate=Fraction(trapped, population),
        casualties_by_cause={str(cause): causes[cause] for cause in CasualtyCause},
    )


def _time(scenario: Scenario, record: RunRecord) -> Time:
    population, horizon = len(scenario.people), scenario.termination.max_steps
    steps = evacuation_steps(record)
    values = sorted(steps.values())
    lost = population - len(values)
    middle = [values[(len(values) - 1) // 2], values[len(values) // 2]] if values else []
    total = sum(values) + lost * horizon
    return Time(
        episode_steps=len(record.steps),
        max_steps=horizon,
        evacuees=len(values),
        non_evacuees=lost,
        evacuation_steps=dict(sorted(steps.items())),
        first_evacuation_step=values[0] if values else None,
        last_evacuation_step=values[-1] if values else None,
        mean_evacuation_step=ratio(sum(values), len(values)),
        median_evacuation_step=ratio(sum(middle), len(middle)),
        person_time_to_safety_total=total,
        mean_person_time_to_safety=Fraction(total, population),
    )


def _movement(decisions: Mapping[str, Sequence[Movement]]) -> MovementMetrics:
    outcomes = Counter(decision.outcome for history in decisions.values() for decision in history)
    total, stays = outcomes.total(), outcomes[MoveOutcome.STAYED]
    blocked = {
        outcome.removeprefix(_BLOCKED): outcomes[outcome] for outcome in MoveOutcome if outcome.startswith(_BLOCKED)
    }
    congestion = sum(outcomes[outcome] for outcome in CONGESTION_BLOCKS)
    return MovementMetrics(
        decisions=total,
        stay_actions=stays,
        movement_attempts=total - stays,
        successful_moves=outcomes[MoveOutcome.MOVED],
        blocked_moves=sum(blocked.values()),
        blocked_by_outcome=blocked,
        congestion_blocks=congestion,
        stay_rate=ratio(stays, total),
        blocked_rate=ratio(sum(blocked.values()), total - stays),
        congestion_block_rate=ratio(congestion, total - stays),
    )


def _path_efficiency(people: Sequence[PersonMetrics]) -> PathEfficiency:
    measured = [person for person in people if person.path_efficiency is not None]
    moved = sum(person.cells_moved for person in measured)
    bound = sum(person.static_exit_distance or 0 for person in measured)
    efficiencies = sum((person.path_efficiency or Fraction(0) for person in measured), start=Fraction(0))
    detours = sum((person.detour_ratio or Fraction(0) for person in measured), start=Fraction(0))
    return PathEfficiency(
        evacuees_measured=len(measured),
        total_cells_moved=moved,
        total_static_lower_bound=bound,
        aggregate_path_efficiency=ratio(bound, moved),
        mean_path_efficiency=ratio(efficiencies, len(measured)),
        mean_detour_ratio=ratio(detours, len(measured)),
    )


def _fire_exposure(distances: Mapping[str, Sequence[int | None]]) -> FireExposure:
    states = [distance for history in distances.values() for distance in history]
    histogram = Counter(distance for distance in states if distance is not None)
    total = exposure(histogram)
    return FireExposure(
        active_person_states=len(states),
        person_states_with_fire=histogram.total(),
        person_states_without_fire=len(states) - histogram.total(),
        distance_histogram=dict(sorted(histogram.items())),
        adjacent_person_states=histogram[1],
        min_fire_distance=min(histogram, default=None),
        exposure_total=total,
        mean_exposure=total / len(states),
    )


def exposure(histogram: Mapping[int, int]) -> Fraction:
    """Return the sum of count / d over a histogram of fire distances."""
    return sum((Fraction(count, distance) for distance, count in histogram.items()), start=Fraction(0))


def _exits(scenario: Scenario, record: RunRecord) -> Exits:
    used = Counter(event.exit_id for step in record.steps for event in step.evacuations)
    counts = {exit.id: used[exit.id] for exit in scenario.exits}
    total, number = used.total(), len(counts)
    shares = {exit: Fraction(count, total) for exit, count in counts.items()} if total else None
    balance = None
    if shares is not None and number > 1:
        concentration = sum((share * share for share in shares.values()), start=Fraction(0))
        balance = (1 - concentration) / (1 - Fraction(1, number))
    return Exits(
        exit_count=number,
        exits_used=sum(count > 0 for count in counts.values()),
        evacuations_per_exit=counts,
        exit_shares=shares,
        max_exit_share=None if shares is None else max(shares.values()),
        exit_balance=balance,
    )


def _replanning(decisions: Mapping[str, Sequence[Movement]]) -> Replanning:
    # People decide at every step until they resolve, so the next decision is the next entry.
    pairs = [
        (decision, following)
        for history in decisions.values()
        for decision, following in zip(history, [*history[1:], None], strict=False)
        if _is_blocked(decision)
    ]
    followed = [(decision, following) for decision, following in pairs if following is not None]
    moved = sum(following.outcome is MoveOutcome.MOVED for _, following in followed)
    again = sum(_is_blocked(following) for _, following in followed)
    stayed = sum(following.outcome is MoveOutcome.STAYED for _, following in followed)
    changed = sum(following.action is not decision.action for decision, following in followed)
    return Replanning(
        blocked_events=len(pairs),
        blocks_with_next_decision=len(followed),
        blocks_without_next_decision=len(pairs) - len(followed),
        moved_after_block=moved,
        blocked_after_block=again,
        stayed_after_block=stayed,
        action_changed_after_block=changed,
        max_consecutive_blocks=max((_longest_block(history) for history in decisions.values()), default=0),
        recovery_proxy_rate=ratio(moved, len(followed)),
        repeated_block_proxy_rate=ratio(again, len(followed)),
        action_change_proxy_rate=ratio(changed, len(followed)),
    )


def _people(
    scenario: Scenario,
    record: RunRecord,
    decisions: Mapping[str, Sequence[Movement]],
    distances: Mapping[str, Sequence[int | None]],
) -> tuple[PersonMetrics, ...]:
    leaving = {event.person_id: event.exit_id for step in record.steps for event in step.evacuations}
    dying = {event.person_id: event.cause for step in record.steps for event in step.casualties}
    steps = evacuation_steps(record)
    resolved = steps | {event.person_id: step.step for step in record.steps for event in step.casualties}
    walks = scenario.grid.distances(exit.position for exit in scenario.exits)
    people = []
    for person, final in zip(scenario.people, record.final_state.people, strict=True):
        history = decisions[person.id]
        outcomes = Counter(decision.outcome for decision in history)
        near = Counter(distance for distance in distances[person.id] if distance is not None)
        walk, moved = walks.get(person.position), outcomes[MoveOutcome.MOVED]
        out = person.id in leaving
        people.append(
            PersonMetrics(
                person_id=person.id,
                initial_position=person.position,
                final_position=final.position,
                status=str(final.status),
                resolution_step=resolved.get(person.id),
                exit_id=leaving.get(person.id),
                casualty_cause=str(dying[person.id]) if person.id in dying else None,
                decisions=len(history),
                stay_actions=outcomes[MoveOutcome.STAYED],
                cells_moved=moved,
                blocked_moves=sum(map(_is_blocked, history)),
                max_consecutive_blocks=_longest_block(history),
                time_to_safety=steps.get(person.id, scenario.termination.max_steps),
                static_exit_distance=walk,
                path_efficiency=Fraction(walk, moved) if out and walk is not None else None,
                detour_ratio=Fraction(moved, walk) if out and walk is not None else None,
                min_fire_distance=min(near, default=None),
                fire_exposure=exposure(near),
            )
        )
    return tuple(people)


def evacuation_steps(record: RunRecord) -> dict[str, int]:
    """Return the step in which each evacuee left."""
    return {event.person_id: step.step for step in record.steps for event in step.evacuations}


def _decisions(record: RunRecord) -> dict[str, list[Movement]]:
    decisions: dict[str, list[Movement]] = {person.id: [] for person in record.initial_state.people}
    for step in record.steps:
        for movement in step.movements:
            decisions[movement.person_id].append(movement)
    return decisions


def _fire_distances(scenario: Scenario, record: RunRecord) -> dict[str, list[int | None]]:
    """Return, for every person, the distance to the fire in each snapshot in which the person is active."""
    distances: dict[str, list[int | None]] = {person.id: [] for person in scenario.people}
    field: dict[Position, int] = {}
    burning = record.initial_state.burning
    for state, ignitions in [(record.initial_state, burning), *((s.state, s.ignitions) for s in record.steps)]:
        _spread_distances(scenario, field, ignitions)
        for person in state.people:
            if person.status is PersonStatus.ACTIVE:
                distances[person.id].append(field.get(person.position))
    return distances


def _spread_distances(scenario: Scenario, field: dict[Position, int], ignitions: Iterable[Position]) -> None:
    """Lower the Manhattan distances to the fire, walls ignored, after new ignitions; only what changes is visited."""
    level, distance = list(ignitions), 0
    while level:
        lowered = [cell for cell in level if field.get(cell, distance + 1) > distance]
        field.update(dict.fromkeys(lowered, distance))
        distance += 1
        around = {
            neighbour
            for row, col in lowered
            for neighbour in ((row - 1, col), (row + 1, col), (row, col + 1), (row, col - 1))
            if scenario.grid.contains(neighbour)
        }
        level = [cell for cell in around if field.get(cell, distance + 1) > distance]


def _is_blocked(decision: Movement) -> bool:
    return decision.outcome.startswith(_BLOCKED)


def _longest_block(history: Sequence[Movement]) -> int:
    longest = run = 0
    for decision in history:
        run = run + 1 if _is_blocked(decision) else 0
        longest = max(longest, run)
    return longest


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
