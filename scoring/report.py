"""The score report: every number of a score, down to the person, recomputed whenever it is read.

Scoring sections 4.4, 6, 7 and 10, contract section 15. A report holds facts (who ran what, the evidence of each
trial, the failures) and what follows from them. Only the facts are kept here; reading a report rebuilds the rest and
refuses any other bytes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Self

from ember_ref.agent import FailureKind
from ember_ref.canonical import LARGE_FILE, canonical_bytes, digest, parse_canonical, read_bytes
from ember_ref.errors import DocumentError, ScoringInputError
from ember_ref.form import show
from ember_ref.record import first_difference
from ember_ref.suite import ScheduledEpisode
from scoring.bootstrap import quantile
from scoring.constants import CONSTANTS_DIGEST, SCORING_VERSION
from scoring.evidence import CrowdDiagnostics, Evidence, ratio
from scoring.hierarchy import Hierarchy, ScoreInterval, mean, median
from scoring.report_form import REPORT_FORM
from scoring.score import COMPONENTS, QUALITY_COMPONENTS, EpisodeScore, Status, score_episode

AGGREGATES: Final = (*COMPONENTS, "safety", "quality")
"""What a report gives means of, beside the score."""
HEADER: Final = (
    "model_id",
    "pack_id",
    "pack_hash",
    "evaluation_manifest_hash",
    "suite_id",
    "suite_version",
    "suite_hash",
    "simulator_version",
    "observation_version",
    "metrics_version",
)
TOTALS: Final = ("escapable", "evacuated", "avoidable_casualties", "avoidable_stranded", "unavoidable_losses")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHeader:
    """What was scored against what."""

    model_id: str
    pack_id: str | None
    pack_hash: str | None
    evaluation_manifest_hash: str
    suite_id: str
    suite_version: str
    suite_hash: str
    simulator_version: str
    observation_version: str
    metrics_version: str

    @property
    def official(self) -> bool:
        """Whether a pack was given; a pack with other constants is refused before."""
        return self.pack_hash is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of the header in a report."""
        return {name: getattr(self, name) for name in HEADER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial of one scheduled episode."""

    status: Status
    failure: FailureKind | None
    evidence: Evidence | None
    diagnostics: CrowdDiagnostics | None
    result: EpisodeScore | None
    """The score, of an authenticated trial of an applicable episode."""

    @classmethod
    def of(
        cls,
        *,
        max_evacuated: int,
        evidence: Evidence | None,
        diagnostics: CrowdDiagnostics | None,
        failure: FailureKind | None,
    ) -> Self:
        """Score a trial from its facts; a gap without a declared reason is `missing`."""
        if not max_evacuated:
            status, failure, result = Status.NOT_APPLICABLE, None, None
        elif evidence is None:
            status, failure, result = Status.FAILED, failure or FailureKind.MISSING, None
        else:
            result = score_episode(evidence.counts)
            status, failure = result.status, None
        return cls(status=status, failure=failure, evidence=evidence, diagnostics=diagnostics, result=result)

    @property
    def score(self) -> Fraction:
        """The score in points, exact; 0 for a failure."""
        return Fraction(0) if self.result is None else Fraction(self.result.score)

    def value(self, name: str) -> Fraction | None:
        """Return a component, `safety` or `quality`, exact; a failed trial has a Safety of 0 and nothing else."""
        if self.result is None:
            return Fraction(0) if name == "safety" and self.status is Status.FAILED else None
        rounded = {"safety": self.result.safety, "quality": self.result.quality} | dict(self.result.components)
        value = rounded[name]
        return None if value is None else Fraction(value)

    def to_dict(self) -> dict[str, Any]:
        """Return the TRIAL object."""
        result, failed = self.result, 0.0 if self.status is Status.FAILED else None
        return {
            "status": str(self.status),
            "failure": None if self.failure is None else str(self.failure),
            "score": failed if result is None else float(result.score),
            "components": {name: _float(result.components[name]) if result else None for name in COMPONENTS},
            "safety": failed if result is None else float(result.safety),
            "quality": _float(result.quality) if result else None,
            "severity": _float(result.severity) if result else None,
            "severe": list(result.severe) if result else [],
            "ceiling": _float(result.ceiling) if result else None,
            "evidence": None if self.evidence is None else self.evidence.to_dict(),
            "diagnostics": None if self.diagnostics is None else self.diagnostics.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeReport:
    """One scheduled episode with all its trials."""

    scheduled: ScheduledEpisode
    max_evacuated: int
    trials: tuple[Trial, ...]

    @property
    def applicable(self) -> bool:
        """Whether anybody could be saved."""
        return self.max_evacuated > 0

    @property
    def score(self) -> Fraction | None:
        """The mean over the trials, exact."""
        return mean(trial.score for trial in self.trials) if self.applicable else None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return self.scheduled.to_dict() | {
            "max_evacuated": self.max_evacuated,
            "score": as_float(self.score),
            "trials": [trial.to_dict() for trial in self.trials],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReport:
    """A score report: its facts, and the interval, which takes long."""

    header: ReportHeader
    result_digests: tuple[str, ...]
    """One a trial."""
    episodes: tuple[EpisodeReport, ...]
    hierarchy: Hierarchy
    confidence_interval: ScoreInterval | None

    @classmethod
    def of(
        cls,
        *,
        header: ReportHeader,
        result_digests: Sequence[str],
        episodes: Sequence[EpisodeReport],
        family: Mapping[str, str],
    ) -> Self:
        """Make the report of scored episodes.

        Args:
            header: what was scored.
            result_digests: one a trial.
            episodes: every scheduled episode, in manifest order.
            family: the primary family of every scenario with an applicable episode.
        """
        applicable = [episode for episode in episodes if episode.applicable]
        hierarchy = Hierarchy.of(((e.scheduled.index, e.scheduled.scenario_id) for e in applicable), family)
        scores = {e.scheduled.index: e.score for e in applicable if e.score is not None}
        seed = {
            "scoring_version": SCORING_VERSION,
            "constants_digest": CONSTANTS_DIGEST,
            "evaluation_manifest_hash": header.evaluation_manifest_hash,
            "model_id": header.model_id,
            "episode_scores": exact_list(scores),
        }
        return cls(
            header=header,
            result_digests=tuple(result_digests),
            episodes=tuple(episodes),
            hierarchy=hierarchy,
            confidence_interval=hierarchy.interval(scores, seed),
        )

    @classmethod
    def from_dict(cls, document: Any, *, what: str = "score report") -> Self:
        """Make a report from its object, and recompute every number of it.

        Raises:
            DocumentError: with every fault of form and its place.
            ScoringInputError: when evidence cannot be, or a number does not follow from it.
        """
        faults = REPORT_FORM(document, "")
        if faults:
            raise DocumentError(what, faults)
        report = cls.of(
            header=ReportHeader(**{name: document[name] for name in HEADER}),
            result_digests=document["result_digests"],
            episodes=[_read_episode(e, f"{what}, episodes[{i}]") for i, e in enumerate(document["episodes"])],
            family=_read_families(document, what),
        )
        report.check(what)
        rebuilt = report.to_dict()
        if canonical_bytes(rebuilt) != canonical_bytes(document):
            difference = first_difference(rebuilt, document)
            field, computed, stored = difference or ("numbers", "another spelling", "the file's")
            raise ScoringInputError(f"{what}: {field} is {show(stored)}, recomputed {show(computed)}")
        return report

    def check(self, what: str) -> None:
        """Require that the facts of the episodes agree with one another.

        Raises:
            ScoringInputError: names the episode.
        """
        if (self.header.pack_id is None) != (self.header.pack_hash is None):
            raise ScoringInputError(f"{what}: pack_id and pack_hash belong together")
        populations: dict[str, int] = {}
        hashes: dict[str, str] = {}
        seen: set[tuple[str, int]] = set()
        previous = ""
        for index, episode in enumerate(self.episodes):
            scheduled = episode.scheduled
            place = f"{what}, episodes[{index}]"
            if scheduled.index != index:
                raise ScoringInputError(f"{place}: index {scheduled.index}, expected {index}")
            if len(episode.trials) != len(self.result_digests):
                raise ScoringInputError(f"{place}: {len(episode.trials)} trials, {len(self.result_digests)} results")
            name = scheduled.scenario_id
            known = name in hashes
            if hashes.setdefault(name, scheduled.scenario_hash) != scheduled.scenario_hash or (
                known and name != previous
            ):
                raise ScoringInputError(f"{place}: scenario {name} with another hash, or not in one piece")
            if (name, scheduled.seed) in seen:
                raise ScoringInputError(f"{place}: scenario and seed of an earlier episode")
            seen.add((name, scheduled.seed))
            previous = name
            evidence = [trial.evidence for trial in episode.trials if trial.evidence is not None]
            if len({item.unsavable_ids for item in evidence}) > 1:
                raise ScoringInputError(f"{place}: trials differ in who could be saved")
            for item in evidence:
                if populations.setdefault(name, item.population) != item.population:
                    raise ScoringInputError(f"{place}: evidence.population differs between runs of {name}")
        for episode in self.episodes:
            population = populations.get(episode.scheduled.scenario_id)
            if population is not None and episode.max_evacuated > population:
                raise ScoringInputError(
                    f"{what}, episodes[{episode.scheduled.index}]: max_evacuated {episode.max_evacuated}, "
                    f"population {population}"
                )

    @property
    def applicable(self) -> list[EpisodeReport]:
        """The episodes in which anybody could be saved."""
        return [episode for episode in self.episodes if episode.applicable]

    @property
    def episode_scores(self) -> dict[int, Fraction]:
        """The exact score of every applicable episode by index."""
        return {e.scheduled.index: score for e in self.episodes if (score := e.score) is not None}

    @property
    def score(self) -> Fraction | None:
        """The EMBER Score, exact."""
        return self.hierarchy.overall(self.episode_scores)

    def aggregate(self, name: str) -> tuple[Fraction | None, int]:
        """Return the mean of a component, `safety` or `quality`, and in how many trials it is defined."""
        values: dict[int, Fraction] = {}
        count = 0
        for episode in self.applicable:
            defined = [value for trial in episode.trials if (value := trial.value(name)) is not None]
            count += len(defined)
            average = mean(defined)
            if average is not None:
                values[episode.scheduled.index] = average
        return self.hierarchy.overall(values), count

    @property
    def authenticated(self) -> list[tuple[Evidence, CrowdDiagnostics, EpisodeScore]]:
        """What is known of every authenticated trial of an applicable episode."""
        return [
            (trial.evidence, trial.diagnostics, trial.result)
            for episode in self.applicable
            for trial in episode.trials
            if trial.evidence is not None and trial.diagnostics is not None and trial.result is not None
        ]

    @property
    def totals(self) -> dict[str, int]:
        """The people of all authenticated trials."""
        evidence = [item for item, _, _ in self.authenticated]
        totals = {name: sum(getattr(item, name) for item in evidence) for name in TOTALS[1:]}
        return {"escapable": sum(item.max_evacuated for item in evidence)} | totals

    @property
    def report_digest(self) -> str:
        """The digest of the REPORT object, hex."""
        return digest(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the REPORT object."""
        trials, scores = len(self.result_digests), self.episode_scores
        scenarios, families = self.hierarchy.scenario_means(scores), self.hierarchy.family_means(scores)
        total = len(scores) * trials
        aggregates = {name: self.aggregate(name) for name in AGGREGATES}
        totals = self.totals
        return self.header.to_dict() | {
            "scoring_version": SCORING_VERSION,
            "artifact": "score_report",
            "constants_digest": CONSTANTS_DIGEST,
            "official": self.header.official,
            "trials": trials,
            "result_digests": list(self.result_digests),
            "scheduled_episodes": len(self.episodes),
            "applicable_episodes": len(scores),
            "score": as_float(self.score),
            "score_exact": exact(self.score),
            "confidence_interval": self.confidence_interval and self.confidence_interval.to_dict(),
            "scenario_balanced": as_float(mean(scenarios.values())),
            "micro": as_float(mean(scores.values())),
            "families": [
                {"family": name, "score": float(score), "scenarios": list(self.hierarchy.families[name])}
                for name, score in families.items()
            ],
            "scenarios": [{"scenario_id": name, "score": float(score)} for name, score in scenarios.items()],
            "components": {
                name: {"value": as_float(value), "defined": defined, "total": total}
                for name, (value, defined) in aggregates.items()
            },
            "tail": self._tail(scenarios),
            "robustness": self._robustness(),
            "totals": totals,
            "totals_per_trial": {name: value / trials for name, value in totals.items()},
            "diagnostics": self._diagnostics(),
            "episode_scores": exact_list(scores),
            "episodes": [episode.to_dict() for episode in self.episodes],
        }

    def tail_values(self) -> dict[str, Fraction | None]:
        """Return the lower tail, exact."""
        scores = self.episode_scores
        scenarios = self.hierarchy.scenario_means(scores)
        ordered = sorted(scores.values())
        return {
            "median_scenario": median(scenarios.values()),
            "worst_scenario": min(scenarios.values(), default=None),
            "p10_episode": quantile(ordered, Fraction(1, 10)) if ordered else None,
            "cvar10": mean(ordered[: math.ceil(len(ordered) / 10)]),
        }

    def _tail(self, scenarios: Mapping[str, Fraction]) -> dict[str, Any]:
        failures = [trial.failure for episode in self.episodes for trial in episode.trials]
        return {name: as_float(value) for name, value in self.tail_values().items()} | {
            # the first of equals, in suite order
            "worst_scenario_id": min(scenarios, key=lambda name: scenarios[name], default=None),
            "zero_score_episode_trials": {"catastrophic": self._statuses()[Status.CATASTROPHIC]}
            | {str(kind): failures.count(kind) for kind in FailureKind},
        }

    def _statuses(self) -> dict[Status, int]:
        found = [trial.status for episode in self.episodes for trial in episode.trials]
        return {status: found.count(status) for status in Status}

    def _robustness(self) -> dict[str, Any]:
        severe = [name for _, _, result in self.authenticated for name in result.severe]
        return {
            "episode_trials": len(self.applicable) * len(self.result_digests),
            "statuses": {str(status): count for status, count in self._statuses().items()},
            "severe_episode_trials": {name: severe.count(name) for name in QUALITY_COMPONENTS},
        }

    @property
    def crowd(self) -> CrowdDiagnostics:
        """The crowd diagnostics of all authenticated trials: sums, and the highest peak."""
        crowds = [crowd for _, crowd, _ in self.authenticated]
        sums = {name: sum(getattr(crowd, name) for crowd in crowds) for name in CrowdDiagnostics.__slots__}
        return CrowdDiagnostics(
            **(sums | {"peak_contested_cells": max((crowd.peak_contested_cells for crowd in crowds), default=0)})
        )

    def _diagnostics(self) -> dict[str, Any]:
        trials, crowd = len(self.result_digests), self.crowd
        return {
            "congestion_block_rate": ratio(crowd.congestion_blocks, crowd.movement_attempts),
            "contested_cell_steps": crowd.contested_cell_steps,
            "contested_cell_steps_per_trial": crowd.contested_cell_steps / trials,
            "hotspot_cells": crowd.hotspot_cells,
            "hotspot_cells_per_trial": crowd.hotspot_cells / trials,
            "peak_contested_cells": crowd.peak_contested_cells,
            "exit_throughput": ratio(crowd.evacuations, crowd.exit_window_steps),
        }


def load_report(path: Path) -> ScoreReport:
    """Read a report file and recompute every number of it (see `ScoreReport.from_dict`)."""
    document = parse_canonical(read_bytes(path, limit=LARGE_FILE), what=str(path), limit=LARGE_FILE)
    if isinstance(document, dict) and "artifact" not in document and "manifest" in document:
        hint = "not a score report but an evaluation result; `ember score RESULT --out REPORT` makes a report of it"
        raise DocumentError(str(path), [hint])
    return ScoreReport.from_dict(document, what=str(path))


def as_float(value: Fraction | None) -> float | None:
    """Return the correctly rounded float of an exact value."""
    return None if value is None else float(value)


def exact(value: Fraction | None) -> list[int] | None:
    """Return `[numerator, denominator]` in lowest terms."""
    return None if value is None else [value.numerator, value.denominator]


def exact_list(values: Mapping[int, Fraction]) -> list[list[int]]:
    """Return `[index, numerator, denominator]` of every episode."""
    return [[index, value.numerator, value.denominator] for index, value in values.items()]


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _read_families(document: Mapping[str, Any], what: str) -> dict[str, str]:
    family: dict[str, str] = {}
    for entry in document["families"]:
        for scenario in entry["scenarios"]:
            if family.setdefault(scenario, entry["family"]) != entry["family"]:
                raise ScoringInputError(f"{what}: families: {scenario} is in two families")
    applicable = {episode["scenario_id"] for episode in document["episodes"] if episode["max_evacuated"]}
    if applicable != family.keys():
        name = min(applicable ^ family.keys())
        raise ScoringInputError(f"{what}: families: {name} is left out, or has no applicable episode")
    return family


def _read_episode(document: Mapping[str, Any], what: str) -> EpisodeReport:
    return EpisodeReport(
        scheduled=ScheduledEpisode(**{name: document[name] for name in ScheduledEpisode.__slots__}),
        max_evacuated=document["max_evacuated"],
        trials=tuple(
            _read_trial(trial, document["max_evacuated"], f"{what}.trials[{i}]")
            for i, trial in enumerate(document["trials"])
        ),
    )


def _read_trial(document: Mapping[str, Any], max_evacuated: int, what: str) -> Trial:
    failure, stored, crowd = document["failure"], document["evidence"], document["diagnostics"]
    if (stored is None) != (crowd is None):
        raise ScoringInputError(f"{what}: evidence and diagnostics belong together")
    if max_evacuated and (stored is None) == (failure is None):
        raise ScoringInputError(f"{what}: expected either evidence or a failure")
    evidence = None if stored is None else Evidence.from_dict(stored, what=f"{what}.evidence")
    diagnostics: CrowdDiagnostics | None = None
    if evidence is not None:
        diagnostics = CrowdDiagnostics.from_dict(crowd, evidence, what=f"{what}.diagnostics")
        if evidence.max_evacuated != max_evacuated:
            raise ScoringInputError(
                f"{what}.evidence: max_evacuated {evidence.max_evacuated}, the episode has {max_evacuated}"
            )
    return Trial.of(
        max_evacuated=max_evacuated,
        evidence=evidence,
        diagnostics=diagnostics,
        failure=None if failure is None else FailureKind(failure),
    )
