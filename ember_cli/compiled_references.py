"""The compiled path as the references of a score: one batch for many records of a scenario."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ember_cli.console import enable_compilation_cache
from ember_jax.evidence import Evidence
from ember_jax.evidence_kernel import evidence_of_records
from ember_jax.references_kernel import reference_summaries
from ember_ref.fire import NEVER
from ember_ref.record import RunRecord
from ember_ref.references import PersonReference
from ember_ref.routes import RouteInvalidation
from ember_ref.scenario import Scenario
from scoring.evidence import Privileged

_EVENT: Final = 4
"""Columns of an event: episode, step, person, L(x, t)."""


class CompiledReferences:
    """The provider (see `scoring.evidence.ReferenceProvider`) that asks `ember_jax`; the numbers are the same."""

    def __init__(self) -> None:
        """Keep what is compiled."""
        enable_compilation_cache()

    def max_evacuated(self, scenario: Scenario, seed: int) -> int:
        """Return M*."""
        summaries = reference_summaries(scenario, np.array([seed], dtype=np.uint64))
        return int((summaries.earliest_evacuation != NEVER).sum())

    def privileged(self, scenario: Scenario, records: Sequence[RunRecord]) -> Iterator[Privileged]:
        """Yield what was possible in each record."""
        found = evidence_of_records(scenario, records, events=True)
        for place, record in enumerate(records):
            yield Privileged(
                people=tuple(
                    PersonReference(
                        id=person.id,
                        earliest_evacuation=_finite(found.earliest_evacuation[place, index]),
                        fewest_moves=_finite(found.reference_moves[place, index]),
                        fewest_danger_states=_finite(found.reference_danger[place, index]),
                    )
                    for index, person in enumerate(scenario.people)
                ),
                exit_bound=int(found.exit_bound[place]),
                time_bound=int(found.time_bound[place]),
                events=tuple(_events(scenario, record, found, place)),
            )


def _events(scenario: Scenario, record: RunRecord, found: Evidence, place: int) -> Iterator[RouteInvalidation]:
    leaving = {event.person_id: step.step for step in record.steps for event in step.evacuations}
    events = np.zeros((0, _EVENT), dtype=np.int64) if found.events is None else found.events
    for _, step, index, earliest in events[events[:, 0] == place].tolist():
        person = scenario.people[index].id
        yield RouteInvalidation(
            person_id=person,
            step=step,
            earliest=earliest,
            resolution=leaving.get(person, scenario.termination.max_steps),
        )


def _finite(value: np.uint32) -> int | None:
    return None if value == NEVER else int(value)
