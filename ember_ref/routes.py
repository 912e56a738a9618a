"""Route-invalidation events (contract section 10, scoring section 4.2)."""

from dataclasses import dataclass

from ember_ref.fire import NEVER
from ember_ref.observation import PersonStatus
from ember_ref.record import RunRecord
from ember_ref.references import EarliestTable
from ember_ref.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteInvalidation:
    """A person whose way to an exit grew or vanished in a step."""

    person_id: str
    step: int
    earliest: int
    """L(x, t); `NEVER` when no escape is left."""
    resolution: int
    """r_e: the person's evacuation step, or the horizon without one."""

    @property
    def recoverable(self) -> bool:
        """Whether an escape was left."""
        return self.earliest != NEVER


def route_invalidations(scenario: Scenario, record: RunRecord, earliest: EarliestTable) -> list[RouteInvalidation]:
    """Return the events of an episode, by step and person.

    Args:
        scenario: the scenario.
        record: a complete record.
        earliest: L of the record's fire world.
    """
    exits = [exit.position for exit in scenario.exits]
    leaving = {event.person_id: step.step for step in record.steps for event in step.evacuations}
    before = scenario.grid.distances(exits, avoid=frozenset(record.initial_state.burning))
    events = []
    for step in record.steps:
        if not step.ignitions:
            continue
        after = scenario.grid.distances(exits, avoid=frozenset(step.state.burning))
        for person in step.state.people:
            here = person.position
            if person.status is not PersonStatus.ACTIVE or here not in before:
                continue
            if here not in after or after[here] > before[here]:
                events.append(
                    RouteInvalidation(
                        person_id=person.id,
                        step=step.step,
                        earliest=earliest.at(here, step.step),
                        resolution=leaving.get(person.id, scenario.termination.max_steps),
                    )
                )
        before = after
    return events
