"""The fixed hierarchy of means, and the bootstrap over it (scoring sections 6 and 7).

Episode-trial, episode, scenario, primary family, overall: each level is the unweighted mean of the defined values of
the level below. Everything is exact; the bootstrap runs on integers over one common denominator.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Self

from ember_ref.canonical import digest
from ember_ref.suite import FAMILIES
from scoring.bootstrap import BootstrapStream, quantile
from scoring.constants import CONSTANTS

METHOD: Final = "stratified_two_stage_percentile_bootstrap"
LEVEL: Final = 0.95
MINIMUM_EPISODES: Final = 5
"""With fewer applicable episodes there is no interval."""
RESAMPLES: Final[int] = CONSTANTS["resamples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreInterval:
    """A 95 % interval of this evaluation sample; bounds in points, exact."""

    seed: str
    lower: Fraction
    upper: Fraction

    def to_dict(self) -> dict[str, Any]:
        """Return the SCORE_CI object."""
        return {
            "method": METHOD,
            "level": LEVEL,
            "resamples": RESAMPLES,
            "seed": self.seed,
            "lower": float(self.lower),
            "upper": float(self.upper),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """The applicable episodes by family and scenario."""

    families: Mapping[str, tuple[str, ...]]
    """Families in declaration order, each with its scenarios in suite order."""
    scenarios: Mapping[str, tuple[int, ...]]
    """Scenarios in suite order, each with its episode indices in manifest order."""

    @classmethod
    def of(cls, episodes: Iterable[tuple[int, str]], family: Mapping[str, str]) -> Self:
        """Make the hierarchy of applicable episodes.

        Args:
            episodes: (index, scenario ID) in manifest order.
            family: the primary family of each of these scenarios.
        """
        scenarios: dict[str, tuple[int, ...]] = {}
        for index, scenario in episodes:
            scenarios[scenario] = (*scenarios.get(scenario, ()), index)
        families = {name: tuple(s for s in scenarios if family[s] == name) for name in FAMILIES}
        return cls(families={name: own for name, own in families.items() if own}, scenarios=scenarios)

    def scenario_means(self, values: Mapping[int, Fraction]) -> dict[str, Fraction]:
        """Return the mean of each scenario that has a value, values by episode index."""
        means = {
            scenario: mean(values[index] for index in indices if index in values)
            for scenario, indices in self.scenarios.items()
        }
        return {scenario: value for scenario, value in means.items() if value is not None}

    def family_means(self, values: Mapping[int, Fraction]) -> dict[str, Fraction]:
        """Return the mean of each family that has a value."""
        scenario = self.scenario_means(values)
        means = {
            family: mean(scenario[name] for name in names if name in scenario)
            for family, names in self.families.items()
        }
        return {family: value for family, value in means.items() if value is not None}

    def overall(self, values: Mapping[int, Fraction]) -> Fraction | None:
        """Return the family-balanced mean, `None` without a value."""
        return mean(self.family_means(values).values())

    def interval(self, values: Mapping[int, Fraction], seed_object: Mapping[str, Any]) -> ScoreInterval | None:
        """Return the stratified two-stage bootstrap interval of the overall mean.

        Every episode of the hierarchy has a value. A resample draws, family by family, all its scenarios with
        replacement, then for each drawn scenario its episodes with replacement (contract section 11).
        """
        if len(values) < MINIMUM_EPISODES:
            return None
        seed = digest(dict(seed_object))
        stream = BootstrapStream(bytes.fromhex(seed))
        denominator, strata = self._integers(values)
        sums = []
        for _ in range(RESAMPLES):
            total = 0
            for stratum in strata:
                for place in stream.indices(len(stratum), len(stratum)):
                    scaled = stratum[place]
                    total += sum(map(scaled.__getitem__, stream.indices(len(scaled), len(scaled))))
            sums.append(Fraction(total, denominator))
        sums.sort()
        tail = (1 - Fraction(str(LEVEL))) / 2
        return ScoreInterval(seed=seed, lower=quantile(sums, tail), upper=quantile(sums, 1 - tail))

    def _integers(self, values: Mapping[int, Fraction]) -> tuple[int, list[list[list[int]]]]:
        """Return a denominator, and each episode's share in the overall mean over it, by family and scenario."""
        weights = {
            scenario: len(self.families) * len(names) * len(self.scenarios[scenario])
            for names in self.families.values()
            for scenario in names
        }
        common = math.lcm(*weights.values())
        unit = math.lcm(*(value.denominator for value in values.values()))
        strata = [
            [
                [int(values[index] * unit) * (common // weights[name]) for index in self.scenarios[name]]
                for name in names
            ]
            for names in self.families.values()
        ]
        return unit * common, strata


def mean(values: Iterable[Fraction]) -> Fraction | None:
    """Return the exact mean, `None` without a value."""
    listed = list(values)
    return sum(listed, start=Fraction(0)) / len(listed) if listed else None


def median(values: Iterable[Fraction]) -> Fraction | None:
    """Return the exact median, `None` without a value."""
    ordered = sorted(values)
    return quantile(ordered, Fraction(1, 2)) if ordered else None
