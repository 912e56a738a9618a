"""What many fires say about each scenario of a suite: the figures behind `ember check-suite`."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ember_ref.fire import NEVER
from ember_ref.scenario import Scenario
from ember_ref.suite import Suite
from scenarios.procedural.drawing import form_digest, symmetric_digest
from scenarios.procedural.facts import Facts
from scenarios.procedural.families import fire_rules, map_rules
from scenarios.procedural.trial import AWARE, COLUMNS, FIXED, compiled_columns, compiled_fires, tally

BASELINES: Final = ("always-stay-v1", FIXED, AWARE)
"""The policies of a check, unless others are named; the last two are always run."""
BATCH: Final = 2048
"""Fires that are held at once."""
SLACK_BINS: Final = (-20, -10, -5, 0, 5, 10, 20, 40)
"""Bounds of the histogram of slack, in steps; a bin holds its lower bound."""


@dataclass(slots=True, kw_only=True)
class ScenarioCheck:
    """A scenario's figures; shares are of fires, of people and fires, or of people with an escape and fires."""

    scenario_id: str
    family: str
    seeds: int
    people: int
    rejections: list[str]
    """The rules that it breaks (`scenarios.procedural.families`)."""
    applicable_share: float
    """Of fires: somebody can be saved."""
    mean_max_evacuated: float
    max_evacuated_histogram: list[int]
    """Fires by `M*`, from 0 to everybody."""
    reached_share: float
    """Of people and fires: the fire comes to where they stand."""
    fixed_short_share: float
    """Of fires: the fixed plan saves fewer than `M*`."""
    detour_share: float
    """Of fires: the shortest way of somebody with an escape, clear at step 0, closes before they are through it."""
    exit_loss_share: float
    """Of fires: an exit burns before the fire-aware plan's last evacuation."""
    slack_histogram: list[int]
    """People with an escape and a shortest way that burns, by the first ignition on it less `L_i` (`SLACK_BINS`)."""
    slack_never: int
    """People with an escape whose shortest way (around what burns at step 0) never burns."""
    mean_slack: float | None
    policies: dict[str, dict[str, float]]
    """By policy, a fire: mean `evacuated`, `casualties` and `stranded`."""
    id_correlation: float | None
    """Rank correlation of the order of person IDs with the distance to the nearest exit."""
    evidence_seeds: int = 0
    """Fires of the figures below, under the fire-aware policy: the first of all."""
    evidence: dict[str, float | None] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    """Earlier scenarios of the suite that differ in nothing but IDs, seed and description."""
    turned_duplicates: list[str] = field(default_factory=list)
    """Others that differ also by one of the eight symmetries."""
    overlap: list[str] = field(default_factory=list)
    """Scenarios of the other suite that are the same up to IDs and symmetries."""

    @property
    def holds(self) -> bool:
        """Whether nothing is against the scenario."""
        return not (self.rejections or self.duplicates or self.turned_duplicates or self.overlap)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


def check_scenario(
    scenario: Scenario,
    family: str,
    seeds: Sequence[int],
    *,
    policies: Sequence[str] = BASELINES,
    evidence_seeds: int = 0,
) -> ScenarioCheck:
    """Run one scenario in many fires on the compiled path.

    Args:
        scenario: the scenario.
        family: its primary family, whose rules are asked.
        seeds: evaluator seeds.
        policies: policy names; the fixed and the fire-aware plan are run besides.
        evidence_seeds: the number of fires, the first ones, of the capacity bounds and route invalidations.
    """
    import numpy as np

    facts = Facts(scenario)
    people = len(scenario.people)
    names = tuple(dict.fromkeys((*policies, FIXED, AWARE)))
    parts: list[dict[str, Any]] = []
    slack = _Slack()
    sums = {name: np.zeros(3, dtype=np.int64) for name in policies}
    for at in range(0, len(seeds), BATCH):
        fires = compiled_fires(facts, seeds[at : at + BATCH], names)
        parts.append(compiled_columns(scenario, fires))
        slack.add(fires)
        for name in policies:
            sums[name] += _outcome_sums(fires.outcomes[name])
    columns = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    found = tally(people, columns)
    return ScenarioCheck(
        scenario_id=scenario.id,
        family=family,
        seeds=found.fires,
        people=people,
        rejections=[
            *(rule.name for rule in map_rules(family) if not rule.holds(facts)),
            *(rule.name for rule in fire_rules(family) if not rule.holds(found, accepting=False)),
        ],
        applicable_share=found.applicable / found.fires,
        mean_max_evacuated=found.savable / found.fires,
        max_evacuated_histogram=np.bincount(columns["max_evacuated"], minlength=people + 1).tolist(),
        reached_share=found.reached / (found.fires * people),
        fixed_short_share=found.fixed_short / found.fires,
        detour_share=found.detour_fires / found.fires,
        exit_loss_share=found.exit_losses / found.fires,
        slack_histogram=slack.histogram,
        slack_never=slack.never,
        mean_slack=slack.mean,
        policies={
            name: dict(zip(("evacuated", "casualties", "stranded"), (total / found.fires).tolist(), strict=True))
            for name, total in sums.items()
        },
        id_correlation=_id_correlation(facts),
        evidence_seeds=min(evidence_seeds, len(seeds)),
        evidence=_evidence(scenario, seeds[:evidence_seeds]) if evidence_seeds else {},
    )


def compare_forms(
    suite: Suite, scenarios: Mapping[str, Scenario], checks: Iterable[ScenarioCheck], other: Iterable[Scenario]
) -> None:
    """Enter in each check which scenarios are the same as it, up to IDs and up to the eight symmetries."""
    mine = {entry.scenario_id: scenarios[entry.scenario_id] for entry in suite.entries}
    forms = {name: form_digest(scenario) for name, scenario in mine.items()}
    turned = {name: symmetric_digest(scenario) for name, scenario in mine.items()}
    theirs: dict[str, list[str]] = {}
    for scenario in other:
        theirs.setdefault(symmetric_digest(scenario), []).append(scenario.id)
    seen: dict[str, list[str]] = {}
    for check in checks:
        name = check.scenario_id
        same = seen.setdefault(turned[name], [])
        check.duplicates = [earlier for earlier in same if forms[earlier] == forms[name]]
        check.turned_duplicates = [earlier for earlier in same if forms[earlier] != forms[name]]
        check.overlap = list(theirs.get(turned[name], []))
        same.append(name)


class _Slack:
    """Adds up, over people with an escape, the first ignition on the shortest way less `L_i`."""

    def __init__(self) -> None:
        self.histogram = [0] * (len(SLACK_BINS) + 1)
        self.never = 0
        self._total = 0

    def add(self, fires: Any) -> None:
        """Add fires."""
        import numpy as np

        earliest, ignition = fires.earliest_evacuation, fires.way_ignition
        escapes = earliest != NEVER
        burns = escapes & (ignition != NEVER)
        slack = ignition[burns].astype(np.int64) - earliest[burns].astype(np.int64)
        counts = np.bincount(np.searchsorted(SLACK_BINS, slack, side="right"), minlength=len(self.histogram))
        self.histogram = [old + new for old, new in zip(self.histogram, counts.tolist(), strict=True)]
        self.never += int(np.count_nonzero(escapes & ~burns))
        self._total += int(slack.sum())

    @property
    def mean(self) -> float | None:
        """The mean over ways that burn."""
        count = sum(self.histogram)
        return self._total / count if count else None


def _outcome_sums(found: Any) -> Any:
    """Return how many are evacuated, lost and stranded, over all fires: int64[3]."""
    import numpy as np

    from ember_jax.simulator import ACTIVE, CASUALTY, EVACUATED

    counts = [np.count_nonzero(found.status == status) for status in (EVACUATED, CASUALTY, ACTIVE)]
    return np.array(counts, dtype=np.int64)


def _evidence(scenario: Scenario, seeds: Sequence[int]) -> dict[str, float | None]:
    """Return means a fire of bounds and events under the fire-aware policy, and shares of fires."""
    import numpy as np

    from ember_jax.evidence_kernel import evidence

    found = evidence(scenario, np.array(seeds, dtype=np.uint64), AWARE, threads=1)
    means = (
        "sum_earliest",
        "exit_bound",
        "time_bound",
        "sum_evacuation_steps",
        "route_invalidations",
        "recoverable_route_invalidations",
    )
    shares = {
        "exit_bound_share": found.exit_bound > found.sum_earliest,
        "time_bound_share": found.time_bound > found.exit_bound,
        "invalidation_share": found.route_invalidations > 0,
        "recoverable_share": found.recoverable_route_invalidations > 0,
    }
    return {
        **{name: float(np.mean(getattr(found, name))) for name in means},
        **{name: float(np.mean(share)) for name, share in shares.items()},
    }


def _id_correlation(facts: Facts) -> float | None:
    """Return Spearman's rank correlation; `None` when all are equally far."""
    walks = [facts.walk.get(person.position, 0) for person in facts.scenario.people]
    if len(set(walks)) < 2:
        return None
    order = sorted(walks)
    ranks = [order.index(walk) + (order.count(walk) - 1) / 2 for walk in walks]
    return statistics.correlation([float(place) for place in range(len(ranks))], ranks)
