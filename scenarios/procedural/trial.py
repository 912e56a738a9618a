"""What many fires make of a scenario: the figures that acceptance and `ember check-suite` compare.

Both backends give the same integers: the compiled one in batches, the oracle one fire at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

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
who leave under the fixed and the fire-aware policy; people with an escape whose shortest way, clear at step 0,
closes before they are through it, even alone; and 1 when an exit burns before the last evacuation of the
fire-aware policy."""


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
    """Fires in which the shortest way of somebody with an escape, clear at step 0, closes."""
    exit_losses: int
    """Fires in which an exit burns before the fire-aware policy's last evacuation."""

    def to_dict(self) -> dict[str, int]:
        """Return the figures by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def trial(scenario: Scenario, seeds: Sequence[int], *, backend: Backend = Backend.JAX) -> Trial:
    """Try a scenario under some seeds."""
    facts = Facts(scenario)
    columns = compiled_trial(facts, seeds) if backend is Backend.JAX else oracle_columns(facts, seeds)
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
    return len(way) == 1 or inside or fire.at(way[-1]) <= len(way) - 2


class Fires(NamedTuple):
    """The fires of some seeds and what comes of them, on the host; N fires, P people in ID order."""

    ignition_step: Any
    """uint32[N, height, width]."""
    earliest_evacuation: Any
    """uint32[N, P]: `L_i`, `NEVER` where infinite."""
    outcomes: Mapping[str, Any]
    """`ember_jax.sweep.Outcomes` by policy."""
    closes: Any
    """bool[N, P]: whether the shortest way, clear at step 0, closes before somebody alone is through it."""
    way_ignition: Any
    """uint32[N, P]: the first ignition on the shortest way, start and exit included; `NEVER` without one."""


def compiled_fires(facts: Facts, seeds: Sequence[int], policies: Sequence[str] = (FIXED, AWARE)) -> Fires:
    """Run fires, references and policies on the compiled path."""
    import numpy as np

    from ember_jax.fire_kernel import fire_worlds
    from ember_jax.references_kernel import reference_summaries
    from ember_jax.sweep import outcomes

    scenario = facts.scenario
    array = np.array(seeds, dtype=np.uint64)
    burns = fire_worlds(scenario, array).ignition_step
    ways = [_way_in_fire(facts.ways[person.id], burns) for person in scenario.people]
    return Fires(
        ignition_step=burns,
        earliest_evacuation=reference_summaries(scenario, array).earliest_evacuation,
        outcomes={name: outcomes(scenario, array, name) for name in policies},
        closes=np.stack([closes for closes, _ in ways], axis=1),
        way_ignition=np.stack([first for _, first in ways], axis=1),
    )


def compiled_trial(facts: Facts, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the columns of a scenario as the compiled path has them: int64[N] by name."""
    return compiled_columns(facts.scenario, compiled_fires(facts, seeds))


def compiled_columns(scenario: Scenario, fires: Fires) -> dict[str, Any]:
    """Return the columns of fires (see `COLUMNS`): int64[N] by name."""
    import numpy as np

    from ember_jax.simulator import EVACUATED

    burns, escapes = fires.ignition_step, fires.earliest_evacuation != NEVER
    fixed, aware = (fires.outcomes[name] for name in (FIXED, AWARE))
    left = aware.status == EVACUATED
    last = np.where(left, aware.resolution_step, 0).max(axis=1)
    exit_rows, exit_cols = zip(*(exit.position for exit in scenario.exits), strict=True)
    lost = (burns[:, exit_rows, exit_cols] < last[:, None]).any(axis=1)
    rows, cols = zip(*(person.position for person in scenario.people), strict=True)
    columns = (
        escapes.sum(axis=1),
        (burns[:, rows, cols] != NEVER).sum(axis=1),
        (fixed.status == EVACUATED).sum(axis=1),
        left.sum(axis=1),
        (fires.closes & escapes).sum(axis=1),
        lost,
    )
    return {name: column.astype(np.int64) for name, column in zip(COLUMNS, columns, strict=True)}


def _way_in_fire(way: list[tuple[int, int]], burns: Any) -> tuple[Any, Any]:
    """Return `_closes` and the first ignition on a way for every fire: bool[N], uint32[N]."""
    import numpy as np

    rows, cols = zip(*way, strict=True)
    on_way = burns[:, rows, cols]
    steps = np.arange(len(way), dtype=np.uint32)
    if len(way) == 1:  # no way to any exit
        return np.ones(len(burns), dtype=np.bool_), on_way[:, 0]
    # The exit harms only when it burns before the last step; at a walk of one it would have to burn at step 0.
    steps[-1] -= 1
    return (on_way <= steps).any(axis=1), on_way.min(axis=1)
