"""The evidence of one authenticated episode: the integers behind its score, person by person.

Scoring sections 3, 4.1 and 4.2, contract sections 8 to 10 and 15. Evidence is made once from a record, and validated
every time it is read: what no run could have produced is refused.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol, Self

from ember_ref.capacity import capacity_bounds
from ember_ref.errors import ScoringInputError
from ember_ref.fire import fire_world
from ember_ref.form import COUNT, ID, Form, integer, list_of, nullable, number, object_of
from ember_ref.grid import Position
from ember_ref.movement import CONGESTION_BLOCKS, MoveOutcome
from ember_ref.observation import PersonStatus
from ember_ref.record import RunRecord
from ember_ref.references import HAZARD_RADIUS, EarliestTable, PersonReference, references
from ember_ref.routes import RouteInvalidation, route_invalidations
from ember_ref.scenario import Scenario
from scoring.score import EpisodeCounts

LOSSES: Final = (
    "avoidable_casualty_ids",
    "avoidable_stranded_ids",
    "unavoidable_casualty_ids",
    "unavoidable_stranded_ids",
)
"""The four classes of people who did not leave."""
_EVACUEE_SUMS: Final = (
    "sum_earliest",
    "exit_bound",
    "time_bound",
    "sum_evacuation_steps",
    "danger_states",
    "fewest_danger_states",
    "cells_moved",
    "fewest_moves",
)
_EVENTS: Final = (
    "route_invalidations",
    "recoverable_route_invalidations",
    "recovery_bound_steps",
    "recovery_steps",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The EVIDENCE object; the sums are over the evacuees, the events over everyone."""

    population: int
    max_evacuated: int
    """M*, how many could be saved."""
    evacuated: int
    avoidable_casualties: int
    avoidable_stranded: int
    unavoidable_losses: int
    avoidable_casualty_ids: tuple[str, ...]
    avoidable_stranded_ids: tuple[str, ...]
    unavoidable_casualty_ids: tuple[str, ...]
    unavoidable_stranded_ids: tuple[str, ...]
    sum_earliest: int
    exit_bound: int
    """Q_exit, in person-steps."""
    time_bound: int
    """Q_cut, in person-steps."""
    sum_evacuation_steps: int
    danger_states: int
    fewest_danger_states: int
    cells_moved: int
    fewest_moves: int
    route_invalidations: int
    recoverable_route_invalidations: int
    recovery_bound_steps: int
    recovery_steps: int

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, what: str) -> Self:
        """Make evidence from an object of `EVIDENCE_FORM`.

        Raises:
            ScoringInputError: with every reason why no run can have it.
        """
        lists = {name: tuple(document[name]) for name in LOSSES}
        evidence = cls(**{**document, **lists})
        evidence.check(what)
        return evidence

    def to_dict(self) -> dict[str, Any]:
        """Return the EVIDENCE object."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def unsavable_ids(self) -> tuple[str, ...]:
        """Everyone whom no policy could save, in ID order: the same in every run of the episode."""
        return tuple(sorted(self.unavoidable_casualty_ids + self.unavoidable_stranded_ids))

    @property
    def qualities(self) -> dict[str, Fraction | None]:
        """The exact quality components; `None` where undefined."""
        steps, moves, recovery = self.sum_evacuation_steps, self.cells_moved, self.recovery_steps
        avoidable_danger = self.danger_states - self.fewest_danger_states
        return {
            "time": Fraction(self.time_bound, steps) if self.evacuated else None,
            "hazard": 1 - Fraction(avoidable_danger, steps) if self.evacuated else None,
            "path": Fraction(self.fewest_moves, moves) if self.evacuated else None,
            "replanning": (
                Fraction(self.recovery_bound_steps, recovery) if self.recoverable_route_invalidations else None
            ),
        }

    @property
    def counts(self) -> EpisodeCounts:
        """What the score reads of it."""
        return EpisodeCounts(
            max_evacuated=self.max_evacuated,
            evacuated=self.evacuated,
            avoidable_casualties=self.avoidable_casualties,
            avoidable_stranded=self.avoidable_stranded,
            qualities=self.qualities,
        )

    def check(self, what: str) -> None:
        """Require what holds of every run.

        Raises:
            ScoringInputError: names every field that cannot be.
        """
        faults = [*self._attribution_faults(), *self._bound_faults(), *self._event_faults()]
        if faults:
            raise ScoringInputError(f"{what}: " + "; ".join(faults))

    def _attribution_faults(self) -> list[str]:
        faults = []
        for name in LOSSES:
            people = getattr(self, name)
            if list(people) != sorted(set(people)):
                faults.append(f"{name}: not sorted, each ID once")
        lost = [person for name in LOSSES for person in set(getattr(self, name))]
        if len(set(lost)) != len(lost):
            faults.append("a person is in two of the four lists of losses")
        savable_lost = len(self.avoidable_casualty_ids) + len(self.avoidable_stranded_ids)
        unsavable = len(self.unavoidable_casualty_ids) + len(self.unavoidable_stranded_ids)
        for name, expected in (
            ("avoidable_casualties", len(self.avoidable_casualty_ids)),
            ("avoidable_stranded", len(self.avoidable_stranded_ids)),
            ("unavoidable_losses", unsavable),
            ("max_evacuated", self.evacuated + savable_lost),
            ("population", self.evacuated + savable_lost + unsavable),
        ):
            if getattr(self, name) != expected:
                faults.append(f"{name}: {getattr(self, name)}, the people listed make {expected}")
        return faults

    def _bound_faults(self) -> list[str]:
        if not self.evacuated:
            return [f"{name}: not 0 without an evacuee" for name in _EVACUEE_SUMS if getattr(self, name)]
        chains = (
            ("evacuated", "fewest_moves", "cells_moved", "sum_evacuation_steps"),
            ("fewest_moves", "sum_earliest", "exit_bound", "time_bound", "sum_evacuation_steps"),
            ("fewest_danger_states", "danger_states", "sum_evacuation_steps"),
            ("fewest_danger_states", "sum_earliest"),
        )
        return self._order_faults(chains)

    def _event_faults(self) -> list[str]:
        if not self.recoverable_route_invalidations:
            return [
                f"{name}: not 0 without a recoverable event"
                for name in ("recovery_bound_steps", "recovery_steps")
                if getattr(self, name)
            ]
        chains = (
            ("recoverable_route_invalidations", "route_invalidations"),
            ("recoverable_route_invalidations", "recovery_bound_steps", "recovery_steps"),
        )
        return self._order_faults(chains)

    def _order_faults(self, chains: tuple[tuple[str, ...], ...]) -> list[str]:
        return [
            f"{upper}: {getattr(self, upper)}, below its bound {lower} of {getattr(self, lower)}"
            for chain in chains
            for lower, upper in itertools.pairwise(chain)
            if getattr(self, lower) > getattr(self, upper)
        ]


EVIDENCE_FORM: Final[Form] = object_of(
    {
        "population": integer(1),
        "max_evacuated": COUNT,
        "evacuated": COUNT,
        "avoidable_casualties": COUNT,
        "avoidable_stranded": COUNT,
        "unavoidable_losses": COUNT,
        **dict.fromkeys(LOSSES, list_of(ID)),
        **dict.fromkeys(_EVACUEE_SUMS, COUNT),
        **dict.fromkeys(_EVENTS, COUNT),
    }
)
"""The form of an EVIDENCE object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdDiagnostics:
    """Crowd diagnostics 1.0 of one episode (contract section 12). They explain a score and never enter it."""

    movement_attempts: int
    congestion_blocks: int
    contested_cell_steps: int
    """(cell, step) pairs in which other people blocked a move into the cell."""
    hotspot_cells: int
    """Cells contested in at least two steps."""
    peak_contested_cells: int
    """The most contested cells of one step."""
    evacuations: int
    exit_window_steps: int
    """Steps from the first to the last evacuation, both included, summed over the exits used."""

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        """Count the crowd of a record."""
        attempts = blocks = evacuations = peak = 0
        contested_steps: dict[tuple[int, int], int] = {}
        windows: dict[str, tuple[int, int]] = {}
        for step in record.steps:
            contested = set()
            for movement in step.movements:
                attempts += movement.outcome is not MoveOutcome.STAYED
                if movement.outcome in CONGESTION_BLOCKS:
                    blocks += 1
                    contested.add(movement.target)
            for cell in contested:
                contested_steps[cell] = contested_steps.get(cell, 0) + 1
            peak = max(peak, len(contested))
            for evacuation in step.evacuations:
                evacuations += 1
                first, _ = windows.get(evacuation.exit_id, (step.step, step.step))
                windows[evacuation.exit_id] = (first, step.step)
        return cls(
            movement_attempts=attempts,
            congestion_blocks=blocks,
            contested_cell_steps=sum(contested_steps.values()),
            hotspot_cells=sum(count >= 2 for count in contested_steps.values()),
            peak_contested_cells=peak,
            evacuations=evacuations,
            exit_window_steps=sum(last - first + 1 for first, last in windows.values()),
        )

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], evidence: Evidence, *, what: str) -> Self:
        """Make diagnostics from an object of `DIAGNOSTICS_FORM`, beside the evidence of the same episode.

        The report has the exit windows inside `exit_throughput` only: evacuations over an integer.

        Raises:
            ScoringInputError: with every reason why no run can have them.
        """
        counted = {name: document[name] for name in _COUNTED}
        throughput = document["exit_throughput"]
        window = 0
        if evidence.evacuated and throughput:
            window = round(Fraction(evidence.evacuated) / Fraction(throughput))
        diagnostics = cls(**counted, evacuations=evidence.evacuated, exit_window_steps=window)
        faults = diagnostics._faults(evidence)
        expected = diagnostics.to_dict()
        faults += [
            f"{name}: {document[name]}, the counts make {expected[name]}"
            for name in ("congestion_block_rate", "exit_throughput")
            if document[name] != expected[name]
        ]
        if faults:
            raise ScoringInputError(f"{what}: " + "; ".join(faults))
        return diagnostics

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnostics object of a trial."""
        counted = {name: getattr(self, name) for name in _COUNTED}
        return counted | {
            "congestion_block_rate": ratio(self.congestion_blocks, self.movement_attempts),
            "exit_throughput": ratio(self.evacuations, self.exit_window_steps),
        }

    def _faults(self, evidence: Evidence) -> list[str]:
        faults = []
        if self.congestion_blocks + evidence.cells_moved > self.movement_attempts:
            faults.append("movement_attempts: fewer than the evacuees' moves and the congestion blocks")
        if self.contested_cell_steps > self.congestion_blocks:
            faults.append("contested_cell_steps: more than congestion blocks")
        if bool(self.contested_cell_steps) != bool(self.congestion_blocks):
            faults.append("contested_cell_steps: 0 exactly without congestion blocks")
        if 2 * self.hotspot_cells > self.contested_cell_steps:
            faults.append("hotspot_cells: each is contested in two steps")
        if self.peak_contested_cells > self.contested_cell_steps:
            faults.append("peak_contested_cells: more than contested cell-steps")
        if bool(self.peak_contested_cells) != bool(self.contested_cell_steps):
            faults.append("peak_contested_cells: 0 exactly without contested cell-steps")
        return faults


_COUNTED: Final = (
    "movement_attempts",
    "congestion_blocks",
    "contested_cell_steps",
    "hotspot_cells",
    "peak_contested_cells",
)
DIAGNOSTICS_FORM: Final[Form] = object_of(
    {
        **dict.fromkeys(_COUNTED, COUNT),
        "congestion_block_rate": nullable(number),
        "exit_throughput": nullable(number),
    }
)
"""The form of the diagnostics object of a trial."""


def ratio(numerator: int, denominator: int) -> float | None:
    """Return the correctly rounded ratio, `None` when the denominator is 0."""
    return numerator / denominator if denominator else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Privileged:
    """What was possible in an episode: the side of the evidence that no model ever sees."""

    people: tuple[PersonReference, ...]
    """In ID order."""
    exit_bound: int
    """Q_exit of the evacuees."""
    time_bound: int
    """Q_cut of the evacuees."""
    events: tuple[RouteInvalidation, ...]


class ReferenceProvider(Protocol):
    """Where references come from: the reference implementation, or a compiled batch; the numbers are the same."""

    def max_evacuated(self, scenario: Scenario, seed: int) -> int:
        """Return M*."""

    def privileged(self, scenario: Scenario, records: Sequence[RunRecord]) -> Iterable[Privileged]:
        """Yield what was possible in each of some authenticated records of one scenario."""


class ReferenceImplementation:
    """The provider that asks `ember_ref`."""

    def max_evacuated(self, scenario: Scenario, seed: int) -> int:
        """Return M* (see `ReferenceProvider`)."""
        return references(scenario, seed).max_evacuated

    def privileged(self, scenario: Scenario, records: Sequence[RunRecord]) -> Iterator[Privileged]:
        """Yield what was possible in each record (see `ReferenceProvider`)."""
        for record in records:
            world = fire_world(scenario, record.header.seed)
            earliest = EarliestTable(scenario, world)
            evacuees = [event.person_id for step in record.steps for event in step.evacuations]
            bounds = capacity_bounds(scenario, world, earliest, evacuees)
            yield Privileged(
                people=references(scenario, record.header.seed).people,
                exit_bound=bounds.exit_bound,
                time_bound=bounds.time_bound,
                events=tuple(route_invalidations(scenario, record, earliest)),
            )


def evidence_of(scenario: Scenario, record: RunRecord, privileged: Privileged) -> Evidence:
    """Return the evidence of an authenticated record.

    Raises:
        ScoringInputError: when somebody did better than is possible, so the record or the references are forged.
    """
    reference = {person.id: person for person in privileged.people}
    status = {person.id: person.status for person in record.final_state.people}
    leaving = {event.person_id: step.step for step in record.steps for event in step.evacuations}
    moves = dict.fromkeys(status, 0)
    for step in record.steps:
        for movement in step.movements:
            moves[movement.person_id] += movement.outcome is MoveOutcome.MOVED
    danger = _danger_states(record, leaving)
    for person, step_left in leaving.items():
        _check_person(reference[person], step_left, moves[person], danger[person], record)
    lost = {
        (savable, died): tuple(
            person
            for person in sorted(status)
            if person not in leaving
            and (reference[person].earliest_evacuation is not None) is savable
            and (status[person] is PersonStatus.CASUALTY) is died
        )
        for savable in (True, False)
        for died in (True, False)
    }
    recoverable = [event for event in privileged.events if event.recoverable]
    evidence = Evidence(
        population=len(status),
        max_evacuated=sum(person.earliest_evacuation is not None for person in privileged.people),
        evacuated=len(leaving),
        avoidable_casualties=len(lost[True, True]),
        avoidable_stranded=len(lost[True, False]),
        unavoidable_losses=len(lost[False, True]) + len(lost[False, False]),
        avoidable_casualty_ids=lost[True, True],
        avoidable_stranded_ids=lost[True, False],
        unavoidable_casualty_ids=lost[False, True],
        unavoidable_stranded_ids=lost[False, False],
        sum_earliest=sum(reference[person].earliest_evacuation or 0 for person in leaving),
        exit_bound=privileged.exit_bound,
        time_bound=privileged.time_bound,
        sum_evacuation_steps=sum(leaving.values()),
        danger_states=sum(danger.values()),
        fewest_danger_states=sum(reference[person].fewest_danger_states or 0 for person in leaving),
        cells_moved=sum(moves[person] for person in leaving),
        fewest_moves=sum(reference[person].fewest_moves or 0 for person in leaving),
        route_invalidations=len(privileged.events),
        recoverable_route_invalidations=len(recoverable),
        recovery_bound_steps=sum(event.earliest - event.step for event in recoverable),
        recovery_steps=sum(event.resolution - event.step for event in recoverable),
    )
    evidence.check(f"evidence of scenario {scenario.id}, seed {record.header.seed}")
    return evidence


def _check_person(reference: PersonReference, left: int, moves: int, danger: int, record: RunRecord) -> None:
    """Require that an evacuee did no better than is possible alone."""
    who = f"scenario {record.header.scenario_id}, seed {record.header.seed}: {reference.id}"
    if reference.earliest_evacuation is None:
        raise ScoringInputError(f"{who} evacuated, and no escape exists")
    for noun, actual, least in (
        ("evacuated at step", left, reference.earliest_evacuation),
        ("cells moved", moves, reference.fewest_moves or 0),
        ("danger states", danger, reference.fewest_danger_states or 0),
    ):
        if actual < least:
            raise ScoringInputError(f"{who}: {noun} {actual}, below the least possible {least}")


def _danger_states(record: RunRecord, leaving: Mapping[str, int]) -> dict[str, int]:
    """Count, for every evacuee, the snapshots before the evacuation within the hazard radius of the fire.

    An active person's own cell does not burn, so the distance is never 0.
    """
    reach = range(-HAZARD_RADIUS, HAZARD_RADIUS + 1)
    ball = [(i, j) for i in reach for j in reach if abs(i) + abs(j) <= HAZARD_RADIUS]
    near: set[Position] = set()

    def spread(cells: Iterable[Position]) -> None:
        near.update((row + i, col + j) for row, col in cells for i, j in ball)

    counts = dict.fromkeys(leaving, 0)
    spread(record.initial_state.burning)
    for state, ignitions in [(record.initial_state, ())] + [(step.state, step.ignitions) for step in record.steps]:
        spread(ignitions)
        for person in state.people:
            if state.step < leaving.get(person.id, 0) and person.position in near:
                counts[person.id] += 1
    return counts
