"""The order of a leaderboard: the displayed score first, then safety (scoring section 8, contract section 15)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ember_ref.errors import ScoringInputError
from scoring.comparison import ComparisonOutcome, check_comparable, compare
from scoring.display import points
from scoring.report import ScoreReport, as_float
from scoring.score import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the order of the leaderboard reads of a report, exact."""

    model_id: str
    displayed_score: Fraction | None
    """The score rounded half-even to 0.1 point."""
    safety: Fraction | None
    avoidable_casualties_per_trial: Fraction
    """A failed trial counts as the loss of everyone who could be saved."""
    avoidable_stranded_per_trial: Fraction
    worst_scenario: Fraction | None

    @property
    def key(self) -> tuple[Any, ...]:
        """What the order sorts by; an undefined value comes last."""
        return (
            *_descending(self.displayed_score),
            *_descending(self.safety),
            self.avoidable_casualties_per_trial,
            self.avoidable_stranded_per_trial,
            *_descending(self.worst_scenario),
            self.model_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardEntry:
    """One place of a leaderboard."""

    rank: int
    report: ScoreReport
    standing: Standing
    verified: bool
    """Whether the report was recomputed from its results."""
    outcome_against_next: ComparisonOutcome | None
    """The outcome of the comparison with the next place, as A; `None` for the last."""

    def to_dict(self) -> dict[str, Any]:
        """Return the ENTRY object."""
        return {
            "rank": self.rank,
            "model_id": self.standing.model_id,
            "official": self.report.header.official,
            "score": as_float(self.report.score),
            "displayed_score": points(self.report.score),
            "safety": as_float(self.standing.safety),
            "avoidable_casualties_per_trial": float(self.standing.avoidable_casualties_per_trial),
            "avoidable_stranded_per_trial": float(self.standing.avoidable_stranded_per_trial),
            "worst_scenario": as_float(self.standing.worst_scenario),
            "report_digest": self.report.report_digest,
            "verified": self.verified,
            "outcome_against_next": None if self.outcome_against_next is None else str(self.outcome_against_next),
        }


def standing(report: ScoreReport) -> Standing:
    """Return what the order reads of a report."""
    trials = len(report.result_digests)
    failed = sum(
        episode.max_evacuated
        for episode in report.applicable
        for trial in episode.trials
        if trial.status is Status.FAILED
    )
    score, totals = report.score, report.totals
    return Standing(
        model_id=report.header.model_id,
        displayed_score=None if score is None else Fraction(round(score * 10), 10),
        safety=report.aggregate("safety")[0],
        avoidable_casualties_per_trial=Fraction(totals["avoidable_casualties"] + failed, trials),
        avoidable_stranded_per_trial=Fraction(totals["avoidable_stranded"], trials),
        worst_scenario=min(report.hierarchy.scenario_means(report.episode_scores).values(), default=None),
    )


def leaderboard(reports: Sequence[ScoreReport], *, verified: bool) -> list[LeaderboardEntry]:
    """Return the reports in order, the best first.

    Args:
        reports: at least one, all of the same manifest and pack.
        verified: whether each was recomputed from its results.

    Raises:
        ScoringInputError: when two of them cannot stand in one leaderboard.
    """
    if not reports:
        raise ScoringInputError("a leaderboard of no report")
    for report in reports[1:]:
        check_comparable(reports[0], report)
    ordered = sorted(((standing(report), report) for report in reports), key=lambda pair: pair[0].key)
    following = [report for _, report in ordered[1:]]
    outcomes = [compare(a, b).outcome for (_, a), b in zip(ordered, following, strict=False)]
    return [
        LeaderboardEntry(rank=rank, report=report, standing=place, verified=verified, outcome_against_next=outcome)
        for rank, ((place, report), outcome) in enumerate(zip(ordered, [*outcomes, None], strict=True), start=1)
    ]


def _descending(value: Fraction | None) -> tuple[bool, Fraction]:
    return (True, Fraction(0)) if value is None else (False, -value)
