"""What many fires make of a scenario: the figures that acceptance and `ember check-suite` compare.

Both backends give the same integers: the compiled one in batches, the oracle one fire at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ember_ref.episode import run_episode
from ember_ref.fire import NEVER, FireWorld, fire_world
from ember_ref.observation import PersonStatus
from ember_ref.policies import make_policy
from ember_ref.references import references_of
from ember_ref.scenario import Scenario
from scenarios.procedural.facts import Facts

FIXED: Final = "static-shortest-path-v1"
"""The policy that follows a fixed plan."""
AWARE: Final = "fire-aware-shortest-path-v1"
"""The policy that looks at the fire."""
COLUMNS: Final = ("max_evacuated", "reached", "fixed_evacuated", "aware_evacuated", "detours", "exit_lost")
"""A figure a fire, integers: `M*`; people whose starting cell burns by the horizon (who stays is lost); people
who leave under the fixed and the fire-aware policy; people with an escape whose shortest way closes before they
are through it, even alone; and 1 when an exit burns before the fire-aware policy's last evacuation."""


class Backend(StrEnum):
    """Who computes the fires."""

    REF = "ref"
    JAX = "jax"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Sums over the fires of a trial."""

    fires: int
    people: int
    applicable: int
    """Fires in which somebody can be saved."""
    savable: int
    """Sum of `M*`."""
    reached: int
    """Sum of people whose starting cell burns."""
    fixed_short: int
    """Fires in which the fixed plan saves fewer than `M*`."""
    fixed_evacuated: int
    aware_evacuated: int
    detour_fires: int
    """Fires in which somebody with an escape has to leave the shortest way."""
    exit_losses: int
    """Fires in which an exit burns before the fire-aware policy's last evacuation."""

    def to_dict(self) -> dict[str, int]:
        """Return the figures by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def trial(scenario: Scenario, seeds: Sequence[int], *, backend: Backend = Backend.JAX) -> Trial:
    """Try a scenario under some seeds."""
    facts = Facts(scenario)
    columns = compiled_columns(facts, seeds) if backend is Backend.JAX else oracle_columns(facts, seeds)
    return tally(len(scenario.people), columns)


def tally(people: int, columns: Mapping[str, Any]) -> Trial:
    """Add columns up (see `COLUMNS`; lists or arrays of integers)."""
    rows = list(zip(*(map(int, columns[name]) for name in COLUMNS), strict=True))
    return Trial(
        fires=len(rows),
        people=people,
        applicable=sum(row[0] > 0 for row in rows),
        savable=sum(row[0] for row in rows),
        reached=sum(row[1] for row in rows),
        fixed_short=sum(row[2] < row[0] for row in rows),
        fixed_evacuated=sum(row[2] for row in rows),
        aware_evacuated=sum(row[3] for row in rows),
        detour_fires=sum(row[4] > 0 for row in rows),
        exit_losses=sum(row[5] for row in rows),
    )


def oracle_columns(facts: Facts, seeds: Sequence[int]) -> dict[str, list[int]]:
    """Return the columns of a scenario as the oracle has them."""
    rows = [_oracle_row(facts, fire_world(facts.scenario, seed)) for seed in seeds]
    return {name: list(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}


def _oracle_row(facts: Facts, fire: FireWorld) -> tuple[int, ...]:
    scenario = facts.scenario
    saved = {p.id for p in references_of(scenario, fire).people if p.earliest_evacuation is not None}
    fixed, aware = (run_episode(scenario, fire.seed, make_policy(name, 0)) for name in (FIXED, AWARE))
    evacuated = [
        sum(person.status is PersonStatus.EVACUATED for person in record.final_state.people)
        for record in (fixed, aware)
    ]
    last = max((step.step for step in aware.steps if step.evacuations), default=0)
    return (
        len(saved),
        sum(fire.at(person) != NEVER for person in facts.people),
        *evacuated,
        sum(id in saved and _closes(way, fire) for id, way in facts.ways.items()),
        int(any(fire.at(exit) < last for exit in facts.exits)),
    )


def _closes(way: list[tuple[int, int]], fire: FireWorld) -> bool:
    """Tell whether somebody who walks a way alone from step 0 comes to harm on it (contract section 5)."""
    inside = any(fire.at(cell) <= step for step, cell in enumerate(way[:-1]))
    return inside or fire.at(way[-1]) <= len(way) - 2


def compiled_columns(facts: Facts, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the columns of a scenario as the compiled path has them: int64[N] by name."""
    import numpy as np

    from ember_jax.fire_kernel import fire_worlds
    from ember_jax.references_kernel import reference_summaries
    from ember_jax.simulator import EVACUATED
    from ember_jax.sweep import outcomes

    scenario = facts.scenario
    array = np.array(seeds, dtype=np.uint64)
    burns = fire_worlds(scenario, array).ignition_step
    escapes = reference_summaries(scenario, array).earliest_evacuation != NEVER
    fixed, aware = (outcomes(scenario, array, name) for name in (FIXED, AWARE))
    left = aware.status == EVACUATED
    last = np.where(left, aware.resolution_step, 0).max(axis=1)
    rows, cols = zip(*(exit.position for exit in scenario.exits), strict=True)
    lost = (burns[:, rows, cols] < last[:, None]).any(axis=1)
    closes = np.stack([_closes_each(facts.ways[person.id], burns) for person in scenario.people], axis=1)
    rows, cols = zip(*(person.position for person in scenario.people), strict=True)
    columns = (
        escapes.sum(axis=1),
        (burns[:, rows, cols] != NEVER).sum(axis=1),
        (fixed.status == EVACUATED).sum(axis=1),
        left.sum(axis=1),
        (closes & escapes).sum(axis=1),
        lost,
    )
    return {name: column.astype(np.int64) for name, column in zip(COLUMNS, columns, strict=True)}


def _closes_each(way: list[tuple[int, int]], burns: Any) -> Any:
    """Return `_closes` for every fire: bool[N]."""
    import numpy as np

    rows, cols = zip(*way, strict=True)
    steps = np.arange(len(way), dtype=np.int64)
    steps[-1] -= 1  # the exit: harm only when it burns before the last step
    return (burns[:, rows, cols].astype(np.int64) <= steps).any(axis=1)
