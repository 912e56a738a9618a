"""From results to a score report: authentication from scratch, evidence, failures (scoring section 2).

Nothing that a result says of itself is believed. References come from a provider; the reference implementation works
inside the processes that authenticate, any other is asked here in batches.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ember_ref.agent import FailureKind
from ember_ref.canonical import SMALL_FILE, parse_canonical, read_bytes
from ember_ref.errors import DocumentError, EvaluationError, ScoringInputError
from ember_ref.form import list_of, map_of, one_of, show
from ember_ref.record import first_difference
from ember_ref.suite import Manifest, Pack
from scoring.constants import CONSTANTS_DIGEST, SCORING_VERSION
from scoring.evaluation import (
    AuthenticEpisode,
    EvaluationResult,
    Progress,
    Target,
    authentic,
    authenticate,
    check_manifest,
    over_cores,
    worker_target,
)
from scoring.evidence import (
    CrowdDiagnostics,
    Evidence,
    Privileged,
    ReferenceImplementation,
    ReferenceProvider,
    evidence_of,
)
from scoring.report import EpisodeReport, ReportHeader, ScoreReport, Trial

Failures = Mapping[int, FailureKind]
"""Why a trial has no result for some scheduled episodes, by index."""
Facts = tuple[Evidence, CrowdDiagnostics]
_BATCH: Final = 64
"""Records in memory while a provider outside the workers is asked."""


def score_results(
    results: Sequence[EvaluationResult],
    target: Target,
    failures: Sequence[Failures] | None = None,
    *,
    provider: ReferenceProvider | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> ScoreReport:
    """Score one or more trials of one model on one manifest.

    Args:
        results: one a trial.
        target: the pack, or the suite (then the score is unofficial).
        failures: one mapping a trial; without it every gap is `missing`.
        provider: where references come from; the reference implementation without it.
        workers: processes that authenticate.
        progress: called after every authenticated episode.

    Raises:
        DocumentError: for bytes that are not of the form.
        ScoringInputError: for anything that does not hold; there is no partial score.
    """
    declared = [{} for _ in results] if failures is None else list(failures)
    manifest = _checked_inputs(results, target, declared)
    trials: list[dict[int, Facts]] = []
    for number, result in enumerate(results):
        counted = None if progress is None else _shifted(progress, number, len(results))
        trials.append(_trial_facts(result, target, provider, workers, counted))
    for number, (facts, reasons) in enumerate(zip(trials, declared, strict=True)):
        both = sorted(facts.keys() & reasons.keys())
        if both:
            raise ScoringInputError(f"failures[{number}]: episode {both[0]} has a result")
    savable = _savable(manifest, target, trials, provider, workers)
    episodes = []
    for scheduled in manifest.episodes:
        made = []
        for facts, reasons in zip(trials, declared, strict=True):
            evidence, diagnostics = facts.get(scheduled.index, (None, None))
            made.append(
                Trial.of(
                    max_evacuated=savable[scheduled.index],
                    evidence=evidence,
                    diagnostics=diagnostics,
                    failure=reasons.get(scheduled.index),
                )
            )
        episodes.append(
            EpisodeReport(scheduled=scheduled, max_evacuated=savable[scheduled.index], trials=tuple(made))
        )
    report = ScoreReport.of(
        header=_header(results[0].model_id, manifest, target),
        result_digests=[result.result_digest for result in results],
        episodes=episodes,
        family={entry.scenario_id: entry.primary_family for entry in target.suite.entries},
    )
    report.check("score report")
    return report


def verify_report(report: ScoreReport, results: Mapping[str, EvaluationResult], target: Target, *, what: str) -> None:
    """Recompute a report from its results; failures come from the report.

    Args:
        report: the report.
        results: results by digest.
        target: what the report is of.
        what: the name of the report in messages.

    Raises:
        ScoringInputError: when a result is missing, or the report is another one.
    """
    missing = [digest for digest in report.result_digests if digest not in results]
    if missing:
        raise ScoringInputError(f"{what}: the result with digest {missing[0]} is not given")
    failures = [
        {
            episode.scheduled.index: reason
            for episode in report.episodes
            if (reason := episode.trials[trial].failure) is not None
        }
        for trial in range(len(report.result_digests))
    ]
    computed = score_results([results[digest] for digest in report.result_digests], target, failures)
    difference = first_difference(computed.to_dict(), report.to_dict())
    if difference:
        field, found, stored = difference
        raise ScoringInputError(f"{what}: {field} is {show(stored)}, the results make {show(found)}")


def load_failures(path: Path) -> list[dict[int, FailureKind]]:
    """Read a failures file: one object a trial, from episode index to failure kind.

    Raises:
        DocumentError: when it is not canonical or not of the form.
    """
    document = parse_canonical(read_bytes(path, limit=SMALL_FILE), what=str(path), limit=SMALL_FILE)
    faults = list_of(map_of(_index_faults, one_of(*map(str, FailureKind))))(document, "failures")
    if faults:
        raise DocumentError(str(path), faults)
    return [{int(index): FailureKind(kind) for index, kind in trial.items()} for trial in document]


def _index_faults(value: Any, place: str) -> list[str]:
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) <= 9
        and str(int(value)) == value
    ):
        return []
    return [f"{place}: {show(value)} is not an episode index without sign or leading zeros"]


def _checked_inputs(results: Sequence[EvaluationResult], target: Target, declared: Sequence[Failures]) -> Manifest:
    if not results:
        raise ScoringInputError("no result; expected one or more trials")
    first = results[0]
    for number, result in enumerate(results[1:], start=1):
        if result.model_id != first.model_id:
            raise ScoringInputError(f"trial {number} is of model {result.model_id}, trial 0 of {first.model_id}")
        if result.manifest != first.manifest:
            raise ScoringInputError(
                f"trial {number} is of manifest {result.manifest.manifest_hash}, trial 0 of "
                f"{first.manifest.manifest_hash}"
            )
    if isinstance(target, Pack) and (target.scoring_version, target.constants_digest) != (
        SCORING_VERSION,
        CONSTANTS_DIGEST,
    ):
        raise ScoringInputError(
            f"pack {target.pack_id} is for scoring {target.scoring_version} with constants "
            f"{target.constants_digest}, not {SCORING_VERSION} with {CONSTANTS_DIGEST}"
        )
    try:
        check_manifest(first.manifest, target)
    except EvaluationError as error:
        raise ScoringInputError(str(error)) from error
    if len(declared) != len(results):
        raise ScoringInputError(f"failures for {len(declared)} trials, {len(results)} results")
    for number, reasons in enumerate(declared):
        unknown = [index for index in reasons if not 0 <= index < len(first.manifest.episodes)]
        if unknown:
            raise ScoringInputError(f"failures[{number}]: episode {unknown[0]} is not scheduled")
    return first.manifest


def _header(model_id: str, manifest: Manifest, target: Target) -> ReportHeader:
    return ReportHeader(
        model_id=model_id,
        pack_id=target.pack_id if isinstance(target, Pack) else None,
        pack_hash=target.pack_hash if isinstance(target, Pack) else None,
        evaluation_manifest_hash=manifest.manifest_hash,
        suite_id=manifest.suite_id,
        suite_version=manifest.suite_version,
        suite_hash=manifest.suite_hash,
        simulator_version=manifest.simulator_version,
        observation_version=manifest.observation_version,
        metrics_version=manifest.metrics_version,
    )


def _trial_facts(
    result: EvaluationResult,
    target: Target,
    provider: ReferenceProvider | None,
    workers: int | None,
    progress: Progress | None,
) -> dict[int, Facts]:
    try:
        if provider is None:
            stream = authenticate(result, target, extract=_reference_facts, workers=workers, progress=progress)
            return dict(stream)
        episodes = authenticate(result, target, extract=authentic, workers=workers, progress=progress)
        return dict(_provided_facts(episodes, provider))
    except ScoringInputError:
        raise
    except EvaluationError as error:
        raise ScoringInputError(str(error)) from error


def _reference_facts(episode: AuthenticEpisode) -> tuple[int, Facts]:
    (privileged,) = ReferenceImplementation().privileged(episode.scenario, [episode.record])
    return _facts(episode, privileged)


def _facts(episode: AuthenticEpisode, privileged: Privileged) -> tuple[int, Facts]:
    evidence = evidence_of(episode.scenario, episode.record, privileged)
    return episode.scheduled.index, (evidence, CrowdDiagnostics.of(episode.record))


def _provided_facts(episodes: Iterator[AuthenticEpisode], provider: ReferenceProvider) -> Iterator[tuple[int, Facts]]:
    """Ask the provider for runs of episodes of one scenario, a bounded number at a time."""
    waiting: list[AuthenticEpisode] = []

    def answered() -> Iterator[tuple[int, Facts]]:
        if waiting:
            records = [episode.record for episode in waiting]
            possible = provider.privileged(waiting[0].scenario, records)
            for episode, privileged in zip(waiting, possible, strict=True):
                yield _facts(episode, privileged)
        waiting.clear()

    for episode in episodes:
        other = waiting and waiting[0].scheduled.scenario_id != episode.scheduled.scenario_id
        if other or len(waiting) >= _BATCH:
            yield from answered()
        waiting.append(episode)
    yield from answered()


def _savable(
    manifest: Manifest,
    target: Target,
    trials: Sequence[Mapping[int, Facts]],
    provider: ReferenceProvider | None,
    workers: int | None,
) -> dict[int, int]:
    """Return M* of every scheduled episode: of its evidence, else of the references."""
    known = {index: evidence.max_evacuated for facts in trials for index, (evidence, _) in facts.items()}
    unknown = [episode for episode in manifest.episodes if episode.index not in known]
    if provider is None:
        items = ((episode.scenario_id, episode.seed) for episode in unknown)
        few = 1 if len(unknown) < _BATCH else workers or 2
        computed = over_cores(_max_evacuated, items, target, workers=few)
        return known | dict(zip((episode.index for episode in unknown), computed, strict=True))
    return known | {
        episode.index: provider.max_evacuated(target.scenarios[episode.scenario_id], episode.seed)
        for episode in unknown
    }


def _max_evacuated(scenario_id: str, seed: int) -> int:
    return ReferenceImplementation().max_evacuated(worker_target().scenarios[scenario_id], seed)


def _shifted(progress: Progress, trial: int, trials: int) -> Progress:
    def counted(done: int, total: int) -> None:
        progress(trial * total + done, trials * total)

    return counted
