"""Two score reports compared episode by episode: one of four outcomes (scoring section 8, contract section 15)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from ember_ref.canonical import digest
from ember_ref.errors import ScoringInputError
from scoring.constants import CONSTANTS, CONSTANTS_DIGEST, SCORING_VERSION
from scoring.hierarchy import ScoreInterval
from scoring.report import ScoreReport, as_float, exact, exact_list

PRACTICAL_DIFFERENCE: Final = Fraction(CONSTANTS["practical_difference"])
"""The least difference, in points, that counts as better."""


class ComparisonOutcome(StrEnum):
    """What a comparison says."""

    EXACT_TIE = "exact_tie"
    A_BETTER = "a_better"
    B_BETTER = "b_better"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreComparison:
    """The difference of two reports, A - B, in points."""

    a: ScoreReport
    b: ScoreReport
    deltas: Mapping[int, Fraction]
    """The exact difference of every applicable episode, by index."""
    confidence_interval: ScoreInterval | None

    @property
    def delta(self) -> Fraction | None:
        """The difference of the scores, exact."""
        return self.a.hierarchy.overall(self.deltas)

    @property
    def outcome(self) -> ComparisonOutcome:
        """Which is better, if that can be said."""
        delta, interval = self.delta, self.confidence_interval
        if not any(self.deltas.values()):
            return ComparisonOutcome.EXACT_TIE
        if interval is None or delta is None:
            return ComparisonOutcome.INCONCLUSIVE
        if interval.lower > 0 and delta >= PRACTICAL_DIFFERENCE:
            return ComparisonOutcome.A_BETTER
        if interval.upper < 0 and -delta >= PRACTICAL_DIFFERENCE:
            return ComparisonOutcome.B_BETTER
        return ComparisonOutcome.INCONCLUSIVE

    @property
    def comparison_digest(self) -> str:
        """The digest of the COMPARISON object, hex."""
        return digest(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the COMPARISON object."""
        families = self.a.hierarchy.family_means(self.deltas)
        return {
            "scoring_version": SCORING_VERSION,
            "artifact": "score_comparison",
            "constants_digest": CONSTANTS_DIGEST,
            "evaluation_manifest_hash": self.a.header.evaluation_manifest_hash,
            "pack_hash": self.a.header.pack_hash,
            "model_a": self.a.header.model_id,
            "model_b": self.b.header.model_id,
            "report_digest_a": self.a.report_digest,
            "report_digest_b": self.b.report_digest,
            "score_a": as_float(self.a.score),
            "score_b": as_float(self.b.score),
            "delta": as_float(self.delta),
            "delta_exact": exact(self.delta),
            "confidence_interval": self.confidence_interval and self.confidence_interval.to_dict(),
            "families": [{"family": name, "delta": float(delta)} for name, delta in families.items()],
            "episode_deltas": exact_list(self.deltas),
            "outcome": str(self.outcome),
        }


def compare(a: ScoreReport, b: ScoreReport) -> ScoreComparison:
    """Pair two reports episode by episode.

    Raises:
        ScoringInputError: when they are not of the same episodes, names what differs.
    """
    check_comparable(a, b)
    scores_a, scores_b = a.episode_scores, b.episode_scores
    deltas = {index: score - scores_b[index] for index, score in scores_a.items()}
    seed = {
        "scoring_version": SCORING_VERSION,
        "constants_digest": CONSTANTS_DIGEST,
        "evaluation_manifest_hash": a.header.evaluation_manifest_hash,
        "model_a": a.header.model_id,
        "model_b": b.header.model_id,
        "episode_deltas": exact_list(deltas),
    }
    return ScoreComparison(a=a, b=b, deltas=deltas, confidence_interval=a.hierarchy.interval(deltas, seed))


def check_comparable(a: ScoreReport, b: ScoreReport) -> None:
    """Require that two reports are of the same episodes and the same references.

    Raises:
        ScoringInputError: names what differs.
    """
    names = ("evaluation_manifest_hash", "pack_hash", "suite_hash", "simulator_version", "observation_version")
    faults = [
        f"{name}: {getattr(a.header, name)} and {getattr(b.header, name)}"
        for name in names
        if getattr(a.header, name) != getattr(b.header, name)
    ]
    schedules = [[(episode.scheduled, episode.max_evacuated) for episode in report.episodes] for report in (a, b)]
    if schedules[0] != schedules[1]:
        faults.append("the scheduled or the applicable episodes")
    if a.hierarchy != b.hierarchy:
        faults.append("the families of the scenarios")
    if faults:
        models = f"reports of {a.header.model_id} and {b.header.model_id}"
        raise ScoringInputError(f"{models} cannot be compared; they differ in " + "; ".join(faults))
