"""What a score cost: the operational record, and points per unit of cost (scoring section 11, contract section 15).

No score reads either: `scoring.report` does not know this module.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Self

from ember_ref.canonical import LARGE_FILE, digest, parse_canonical, read_bytes
from ember_ref.errors import DocumentError, ScoringInputError
from ember_ref.form import DIGEST, ID, Form, nullable, number, object_of, one_of, text
from scoring.constants import SCORING_VERSION
from scoring.report import ScoreReport, as_float, exact
from scoring.report_form import EXACT, any_integer

_COUNTS: Final = ("trials", "episodes", "input_tokens", "output_tokens", "retries", "timeouts")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationalRecord:
    """The work behind results, measured by the evaluator."""

    model_id: str
    provider_id: str
    inference_configuration_digest: str
    """The digest of the canonical JSON of every inference setting, hex."""
    trials: int
    episodes: int
    """Scheduled episodes of one trial."""
    latency_seconds: float
    input_tokens: int
    output_tokens: int
    cost: Fraction | None
    cost_unit: str | None
    retries: int
    timeouts: int

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            ScoringInputError: names every such field.
        """
        faults = [f"{name}: empty" for name in ("model_id", "provider_id") if not getattr(self, name)]
        if DIGEST(self.inference_configuration_digest, ""):
            faults.append("inference_configuration_digest: not 64 lower-case hex digits")
        faults += [f"{name}: negative" for name in _COUNTS if getattr(self, name) < 0]
        faults += [f"{name}: less than 1" for name in ("trials", "episodes") if getattr(self, name) == 0]
        if not math.isfinite(self.latency_seconds) or self.latency_seconds < 0:
            faults.append("latency_seconds: negative or not finite")
        if self.cost is not None and self.cost < 0:
            faults.append("cost: negative")
        if (self.cost is None) != (self.cost_unit is None):
            faults.append("cost and cost_unit: one without the other")
        if self.cost_unit == "":
            faults.append("cost_unit: empty")
        if faults:
            raise ScoringInputError("operational record: " + "; ".join(faults))

    @classmethod
    def from_dict(cls, document: Any, *, what: str = "operational record") -> Self:
        """Make a record from its object.

        Raises:
            DocumentError: with every fault of form and its place.
            ScoringInputError: for a value that cannot be measured.
        """
        faults = _OPERATIONAL(document, "")
        if faults:
            raise DocumentError(what, faults)
        fields = {name: document[name] for name in cls.__slots__}
        cost = document["cost"]
        fields["cost"] = None if cost is None else Fraction(*cost)
        record = cls(**fields)
        if exact(record.cost) != cost:
            raise ScoringInputError(f"{what}: cost {cost} is not in lowest terms")
        return record

    def to_dict(self) -> dict[str, Any]:
        """Return the OPERATIONAL object."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {
            "scoring_version": SCORING_VERSION,
            "artifact": "operational_record",
            "latency_seconds": float(self.latency_seconds),
            "cost": exact(self.cost),
        }

    @property
    def record_digest(self) -> str:
        """The digest of the OPERATIONAL object, hex."""
        return digest(self.to_dict())

    @property
    def cost_per_episode(self) -> Fraction | None:
        """The cost of one episode of one trial."""
        return None if self.cost is None else self.cost / (self.trials * self.episodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyView:
    """Points per unit of cost. It changes neither score nor order."""

    report: ScoreReport
    cost_per_episode: Fraction
    cost_unit: str

    @property
    def points_per_unit(self) -> Fraction | None:
        """The score over the cost of an episode, exact."""
        score = self.report.score
        return None if score is None else score / self.cost_per_episode

    def to_dict(self) -> dict[str, Any]:
        """Return the EFFICIENCY object."""
        return {
            "scoring_version": SCORING_VERSION,
            "artifact": "efficiency_view",
            "model_id": self.report.header.model_id,
            "report_digest": self.report.report_digest,
            "score": as_float(self.report.score),
            "score_exact": exact(self.report.score),
            "cost_per_episode": exact(self.cost_per_episode),
            "cost_unit": self.cost_unit,
            "points_per_unit": as_float(self.points_per_unit),
            "points_per_unit_exact": exact(self.points_per_unit),
        }


def efficiency_view(report: ScoreReport, cost_per_episode: Fraction, unit: str) -> EfficiencyView:
    """Return the view of a report under an evaluator-measured cost.

    Raises:
        ScoringInputError: when the cost is not positive, or its unit empty.
    """
    if cost_per_episode <= 0:
        raise ScoringInputError(f"cost per episode {cost_per_episode}; expected more than 0")
    if not unit:
        raise ScoringInputError("cost_unit: empty")
    return EfficiencyView(report=report, cost_per_episode=cost_per_episode, cost_unit=unit)


def efficiency_of(report: ScoreReport, record: OperationalRecord) -> EfficiencyView:
    """Return the view of a report under its own operational record.

    Raises:
        ScoringInputError: when the record is of other work, or its cost unknown.
    """
    found = (record.model_id, record.trials, record.episodes)
    expected = (report.header.model_id, len(report.result_digests), len(report.episodes))
    if found != expected:
        raise ScoringInputError(
            f"the operational record is of (model, trials, episodes) {found}, the report of {expected}"
        )
    if record.cost_per_episode is None or record.cost_unit is None:
        raise ScoringInputError("the operational record has no cost; an efficiency view needs one")
    return efficiency_view(report, record.cost_per_episode, record.cost_unit)


def load_operational_record(path: Path) -> OperationalRecord:
    """Read an operational record file (see `OperationalRecord.from_dict`)."""
    document = parse_canonical(read_bytes(path, limit=LARGE_FILE), what=str(path), limit=LARGE_FILE)
    return OperationalRecord.from_dict(document, what=str(path))


def inference_configuration_digest(settings: Mapping[str, Any]) -> str:
    """Return the digest of all inference settings, hex."""
    return digest(dict(settings))


_OPERATIONAL: Final[Form] = object_of(
    {
        "scoring_version": one_of(SCORING_VERSION),
        "artifact": one_of("operational_record"),
        "model_id": ID,
        "provider_id": text(),
        "inference_configuration_digest": text(),
        **dict.fromkeys(_COUNTS, any_integer),
        "latency_seconds": number,
        "cost": nullable(EXACT),
        "cost_unit": nullable(text()),
    }
)
