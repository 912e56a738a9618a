"""Aggregate and paired statistics of evaluation results, version 1.0 (statistics.md, contract section 14).

All values are exact fractions of authenticated episodes; a float is made once, at the border. Nothing here ranks
models or combines metrics.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from ember_ref.canonical import digest
from ember_ref.errors import EvaluationError, StatisticsInputError, VerificationError
from ember_ref.form import show
from ember_ref.simulator import TerminationReason
from ember_ref.suite import FAMILIES, Manifest, Pack, SuiteFolder
from scoring.bootstrap import (
    LEAST_RESAMPLES,
    LEVEL,
    MINIMUM_N,
    MOST_RESAMPLES,
    RESAMPLES,
    STREAM,
    mean_interval,
    quantile,
)
from scoring.evaluation import AuthenticEpisode, EvaluationResult, authenticate
from scoring.metrics import Metrics

STATISTICS_VERSION: Final = "1.0"
HIGHER, LOWER, NONE = "higher_is_better", "lower_is_better", "none"
_QUANTILES: Final = {
    "p25": Fraction(1, 4),
    "p50": Fraction(1, 2),
    "p75": Fraction(3, 4),
    "p90": Fraction(9, 10),
    "p95": Fraction(19, 20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One supported metric (statistics.md section 2)."""

    metric: str
    source: str
    kind: str
    direction: str

    def value(self, metrics: Metrics) -> Fraction | None:
        """Return the exact value of an episode, `None` when undefined."""
        group, field = self.source.split(".")
        found: Fraction | int | None = getattr(getattr(metrics, group), field)
        return None if found is None else Fraction(found)

    def to_dict(self) -> dict[str, str]:
        """Return the DEFINITION object."""
        return {name: getattr(self, name) for name in self.__slots__}


def _definition(metric: str, group: str, kind: str, direction: str) -> Definition:
    return Definition(metric=metric, source=f"{group}.{metric}", kind=kind, direction=direction)


DEFINITIONS: Final = (
    _definition("evacuated_rate", "safety", "outcome", HIGHER),
    _definition("casualty_rate", "safety", "outcome", LOWER),
    _definition("stranded_rate", "safety", "outcome", LOWER),
    _definition("terminal_trapped_rate", "safety", "outcome", LOWER),
    _definition("mean_person_time_to_safety", "time", "outcome", LOWER),
    _definition("blocked_rate", "movement", "behaviour", LOWER),
    _definition("congestion_block_rate", "movement", "behaviour", LOWER),
    _definition("aggregate_path_efficiency", "path_efficiency", "proxy", HIGHER),
    _definition("mean_exposure", "fire_exposure", "proxy", LOWER),
    _definition("exits_used", "exits", "descriptive", NONE),
    _definition("max_exit_share", "exits", "descriptive", NONE),
    _definition("exit_balance", "exits", "descriptive", NONE),
)
"""The supported metrics in the order of every artifact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What statistics take of one authentic episode."""

    index: int
    values: tuple[Fraction | None, ...]
    """In the order of `DEFINITIONS`."""
    all_resolved: bool
    casualties: int
    stranded: int
    evacuated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Scheduled episodes that are summarised together."""

    kind: str
    name: str
    indices: tuple[int, ...]


def observe(episode: AuthenticEpisode) -> Observed:
    """Take from an authentic episode what statistics need."""
    metrics = episode.metrics
    return Observed(
        index=episode.scheduled.index,
        values=tuple(definition.value(metrics) for definition in DEFINITIONS),
        all_resolved=episode.record.final_state.termination_reason is TerminationReason.ALL_RESOLVED,
        casualties=metrics.safety.casualties,
        stranded=metrics.safety.stranded,
        evacuated=metrics.safety.evacuated,
    )


def aggregate_statistics(
    result: EvaluationResult,
    target: SuiteFolder | Pack,
    *,
    resamples: int = RESAMPLES,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return the AGGREGATE artifact of a result.

    Args:
        result: the result; it is authenticated from scratch.
        target: the suite or pack that it is of.
        resamples: resamples of each interval, 100 to 1,000,000.
        workers: processes that authenticate.
        progress: called after every episode with how many are done, and of how many.

    Raises:
        StatisticsInputError: when any check fails.
    """
    check_resamples(resamples)
    observed = _authenticated(result, target, workers, progress)
    manifest = result.manifest

    def group(item: Group) -> dict[str, Any]:
        present = [observed[index] for index in item.indices if index in observed]
        missing = [index for index in item.indices if index not in observed]
        rows = []
        for place, definition in enumerate(DEFINITIONS):
            values = [value for episode in present if (value := episode.values[place]) is not None]
            seed = _seed("aggregate_mean", manifest, [result.result_digest], item, definition, resamples)
            rows.append(
                {
                    "metric": definition.metric,
                    "scheduled": len(item.indices),
                    "observed": len(present),
                    "missing": len(missing),
                    "undefined": len(present) - len(values),
                    "statistics": statistics_of(values),
                    "mean_ci": _interval(values, "mean", seed, resamples),
                }
            )
        return {
            "kind": item.kind,
            "name": item.name,
            "episode_indices": list(item.indices),
            "missing_indices": missing,
            "robustness": _robustness(item, present),
            "metrics": rows,
        }

    return {
        **_header("aggregate", manifest, resamples),
        "model_id": result.model_id,
        "result_digest": result.result_digest,
        "observed_episodes": len(observed),
        "missing_episodes": _keys(manifest, lambda index: index not in observed),
        **_groups(manifest, target, group),
    }


def paired_statistics(
    result_a: EvaluationResult,
    result_b: EvaluationResult,
    target: SuiteFolder | Pack,
    *,
    resamples: int = RESAMPLES,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return the PAIRED artifact of two results of one manifest; every delta is A - B.

    Raises:
        EvaluationError: when the manifests differ, before any replay.
        StatisticsInputError: when any other check fails.
    """
    check_resamples(resamples)
    manifest = result_a.manifest
    if manifest != result_b.manifest:
        raise EvaluationError(
            f"{result_a.path} and {result_b.path} have different manifests: {manifest.manifest_hash} and "
            f"{result_b.manifest.manifest_hash}; only results of one manifest can be paired"
        )
    a = _authenticated(result_a, target, workers, progress)
    b = _authenticated(result_b, target, workers, progress)
    digests = [result_a.result_digest, result_b.result_digest]

    def group(item: Group) -> dict[str, Any]:
        paired = [index for index in item.indices if index in a and index in b]
        lacks_a = [index for index in item.indices if index not in a]
        lacks_b = [index for index in item.indices if index not in b]
        rows = []
        for place, definition in enumerate(DEFINITIONS):
            deltas = [
                (index, left - right)
                for index in paired
                if (left := a[index].values[place]) is not None and (right := b[index].values[place]) is not None
            ]
            values = [delta for _, delta in deltas]
            seed = _seed("paired_mean_delta", manifest, digests, item, definition, resamples)
            rows.append(
                {
                    "metric": definition.metric,
                    "paired": len(paired),
                    "missing_from_a": len(lacks_a),
                    "missing_from_b": len(lacks_b),
                    "undefined": len(paired) - len(deltas),
                    "deltas": [[index, float(delta)] for index, delta in deltas],
                    "statistics": statistics_of(values),
                    "mean_delta_ci": _interval(values, "mean_delta", seed, resamples),
                    **_wins(values, definition.direction),
                }
            )
        return {
            "kind": item.kind,
            "name": item.name,
            "paired_indices": paired,
            "missing_from_a": lacks_a,
            "missing_from_b": lacks_b,
            "metrics": rows,
        }

    return {
        **_header("paired", manifest, resamples),
        "model_a": result_a.model_id,
        "model_b": result_b.model_id,
        "result_digest_a": result_a.result_digest,
        "result_digest_b": result_b.result_digest,
        "delta": "A - B",
        "paired_count": len(a.keys() & b.keys()),
        "missing_from_a": _keys(manifest, lambda index: index not in a),
        "missing_from_b": _keys(manifest, lambda index: index not in b),
        **_groups(manifest, target, group),
    }


def statistics_of(values: Sequence[Fraction]) -> dict[str, Any]:
    """Return the STATISTICS object of some values; what is undefined is `None` (statistics.md section 4)."""
    n, ordered = len(values), sorted(values)
    mean = sum(values, start=Fraction(0)) / n if n else None
    variance = None
    if mean is not None and n > 1:
        variance = sum(((value - mean) ** 2 for value in values), start=Fraction(0)) / (n - 1)
    return {
        "n": n,
        "mean": _float(mean),
        "median": _float(quantile(ordered, Fraction(1, 2)) if n else None),
        "variance": _float(variance),
        "std": None if variance is None else math.sqrt(float(variance)),
        "min": _float(ordered[0] if n else None),
        "max": _float(ordered[-1] if n else None),
        "quantiles": {name: _float(quantile(ordered, p) if n else None) for name, p in _QUANTILES.items()},
    }


def check_resamples(resamples: int) -> None:
    """Require a number of resamples within its bounds.

    Raises:
        StatisticsInputError: when it is none.
    """
    if type(resamples) is not int or not LEAST_RESAMPLES <= resamples <= MOST_RESAMPLES:
        raise StatisticsInputError(
            f"resamples: {show(resamples)} is not an integer from {LEAST_RESAMPLES} to {MOST_RESAMPLES}"
        )


def _authenticated(
    result: EvaluationResult,
    target: SuiteFolder | Pack,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
) -> dict[int, Observed]:
    try:
        episodes = list(authenticate(result, target, extract=observe, workers=workers, progress=progress))
    except VerificationError as error:
        raise StatisticsInputError(f"{result.path}: {error}") from error
    return {episode.index: episode for episode in episodes}


def _groups(
    manifest: Manifest, target: SuiteFolder | Pack, summarise: Callable[[Group], dict[str, Any]]
) -> dict[str, Any]:
    by_scenario: dict[str, list[int]] = {}
    for episode in manifest.episodes:
        by_scenario.setdefault(episode.scenario_id, []).append(episode.index)
    scenarios = [
        Group(kind="scenario", name=entry.scenario_id, indices=tuple(by_scenario[entry.scenario_id]))
        for entry in target.suite.entries
        if entry.scenario_id in by_scenario
    ]
    families = []
    for family in FAMILIES:
        members = [entry.scenario_id for entry in target.suite.entries if family in entry.families]
        indices = sorted(index for member in members for index in by_scenario.get(member, []))
        if indices:
            families.append(Group(kind="family", name=family, indices=tuple(indices)))
    overall = Group(kind="overall", name="overall", indices=tuple(e.index for e in manifest.episodes))
    return {
        "overall": summarise(overall),
        "scenarios": [summarise(group) for group in scenarios],
        "families": [summarise(group) for group in families],
    }


def _header(artifact: str, manifest: Manifest, resamples: int) -> dict[str, Any]:
    return {
        "statistics_version": STATISTICS_VERSION,
        "artifact": artifact,
        "evaluation_manifest_hash": manifest.manifest_hash,
        "suite_id": manifest.suite_id,
        "suite_version": manifest.suite_version,
        "suite_hash": manifest.suite_hash,
        "simulator_version": manifest.simulator_version,
        "observation_version": manifest.observation_version,
        "metrics_version": manifest.metrics_version,
        "scheduled_episodes": len(manifest.episodes),
        "metric_definitions": [definition.to_dict() for definition in DEFINITIONS],
        "methods": {
            "quantiles": "hyndman_fan_type_7",
            "variance": "sample_n_minus_1",
            "std": "sqrt_of_float_variance",
            "bootstrap": {
                "method": "percentile_bootstrap",
                "level": LEVEL,
                "resamples": resamples,
                "minimum_n": MINIMUM_N,
                "stream": STREAM,
            },
        },
    }


def _keys(manifest: Manifest, chosen: Callable[[int], bool]) -> list[dict[str, Any]]:
    manifest_hash = manifest.manifest_hash
    return [
        {"evaluation_manifest_hash": manifest_hash, **episode.to_dict()}
        for episode in manifest.episodes
        if chosen(episode.index)
    ]


def _robustness(group: Group, present: Sequence[Observed]) -> dict[str, int]:
    resolved = sum(episode.all_resolved for episode in present)
    return {
        "scheduled": len(group.indices),
        "observed": len(present),
        "missing": len(group.indices) - len(present),
        "all_resolved": resolved,
        "max_steps": len(present) - resolved,
        "with_casualties": sum(episode.casualties > 0 for episode in present),
        "with_stranded": sum(episode.stranded > 0 for episode in present),
        "zero_evacuation": sum(episode.evacuated == 0 for episode in present),
    }


def _wins(deltas: Sequence[Fraction], direction: str) -> dict[str, int | None]:
    positive, negative = sum(delta > 0 for delta in deltas), sum(delta < 0 for delta in deltas)
    zero = len(deltas) - positive - negative
    better: Mapping[str, tuple[int | None, int | None, int | None]] = {
        HIGHER: (positive, negative, zero),
        LOWER: (negative, positive, zero),
        NONE: (None, None, None),
    }
    a_better, b_better, ties = better[direction]
    return {
        "delta_positive": positive,
        "delta_negative": negative,
        "delta_zero": zero,
        "a_better": a_better,
        "b_better": b_better,
        "ties": ties,
    }


def _seed(
    purpose: str, manifest: Manifest, digests: Sequence[str], group: Group, definition: Definition, resamples: int
) -> str:
    return digest(
        {
            "statistics_version": STATISTICS_VERSION,
            "purpose": purpose,
            "evaluation_manifest_hash": manifest.manifest_hash,
            "result_digests": list(digests),
            "group": [group.kind, group.name],
            "metric": definition.metric,
            "resamples": resamples,
        }
    )


def _interval(values: Sequence[Fraction], statistic: str, seed: str, resamples: int) -> dict[str, Any] | None:
    if len(values) < MINIMUM_N:
        return None
    lower, upper = mean_interval(values, bytes.fromhex(seed), resamples)
    return {
        "method": "percentile_bootstrap",
        "statistic": statistic,
        "level": LEVEL,
        "resamples": resamples,
        "seed": seed,
        "lower": float(lower),
        "upper": float(upper),
    }


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
