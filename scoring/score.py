"""The arithmetic of one episode's score (scoring sections 4 and 5, contract section 11).

Counts and references come in as exact integers and rationals. Only the non-integer powers need decimals; they are
taken in a context of our own, so that the caller's never matters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from scoring.constants import CONSTANTS

SAFETY_COMPONENTS: Final = ("evacuation", "casualty", "stranding")
QUALITY_COMPONENTS: Final = ("time", "hazard", "path", "replanning")
COMPONENTS: Final = SAFETY_COMPONENTS + QUALITY_COMPONENTS
COMPONENT_UNIT: Final = Decimal("1e-12")
"""Components, Safety, Quality and Severity are rounded to this."""
SCORE_UNIT: Final = Decimal("1e-9")
"""Scores and ceilings are rounded to this."""

_ZERO, _ONE, _HUNDRED = Decimal(0), Decimal(1), Decimal(100)


def _context() -> Context:
    """Return the context of the score: 50 digits, half-even, every field given, none taken from the process."""
    return Context(
        prec=50,
        rounding=ROUND_HALF_EVEN,
        Emin=-999999,
        Emax=999999,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[InvalidOperation, DivisionByZero, Overflow],
    )


class Status(StrEnum):
    """What a trial of an episode came to (scoring section 4.4)."""

    SCORED = "scored"
    CATASTROPHIC = "catastrophic"
    FAILED = "failed"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCounts:
    """What the score of an authenticated episode depends on, and nothing else."""

    max_evacuated: int
    """M*, at least 1."""
    evacuated: int
    avoidable_casualties: int
    avoidable_stranded: int
    qualities: Mapping[str, Fraction | None]
    """Time, hazard, path and replanning in component space, exact; `None` where undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScore:
    """The score of an authenticated episode, rounded as it is reported."""

    status: Status
    components: Mapping[str, Decimal | None]
    """The seven by name, at 1e-12."""
    safety: Decimal
    quality: Decimal | None
    severity: Decimal
    severe: tuple[str, ...]
    """The severe quality components, in the order time, hazard, path, replanning."""
    ceiling: Decimal
    """100 * Safety * Severity, at 1e-9."""
    score: Decimal
    """In points, at 1e-9."""


def score_episode(counts: EpisodeCounts) -> EpisodeScore:
    """Return the score of an episode with M* of at least 1."""
    if counts.max_evacuated < 1:
        raise ValueError("an episode in which nobody can be saved has no score")
    with localcontext(_context()):
        components = _components(counts)
        gate = _is_catastrophic(counts)
        safety = _ZERO if gate else _product(components[name] for name in SAFETY_COMPONENTS)
        severe = tuple(name for name in QUALITY_COMPONENTS if is_severe(name, counts.qualities[name]))
        severity = _severity(components, severe)
        quality = _quality(components)
        score = _ZERO
        if quality is not None and quality > 0 and safety > 0:
            score = _HUNDRED * safety * (_beta() * quality.ln()).exp() * severity
        return EpisodeScore(
            status=Status.CATASTROPHIC if gate else Status.SCORED,
            components=components,
            safety=safety.quantize(COMPONENT_UNIT),
            quality=None if quality is None else quality.quantize(COMPONENT_UNIT),
            severity=severity.quantize(COMPONENT_UNIT),
            severe=severe,
            ceiling=(_HUNDRED * safety * severity).quantize(SCORE_UNIT),
            score=score.quantize(SCORE_UNIT),
        )


def score_without(counts: EpisodeCounts, name: str) -> Decimal:
    """Return the score as if one component were perfect: what its loss costs an episode.

    A Safety component becomes 1; a quality component becomes 1 where it is defined. The gate stays.
    """
    with localcontext(_context()):
        components = _components(counts)
        if components[name] is None or _is_catastrophic(counts):
            return score_episode(counts).score
        components[name] = _ONE
        severe = tuple(
            other for other in QUALITY_COMPONENTS if other != name and is_severe(other, counts.qualities[other])
        )
        quality = _quality(components)
        if quality is None or quality == 0:
            return _ZERO.quantize(SCORE_UNIT)
        safety = _product(components[other] for other in SAFETY_COMPONENTS)
        score = _HUNDRED * safety * (_beta() * quality.ln()).exp() * _severity(components, severe)
        return score.quantize(SCORE_UNIT)


def beta() -> Decimal:
    """Return the exponent of Quality, derived from the constants, to 50 digits."""
    with localcontext(_context()):
        return _beta()


def is_severe(name: str, quality: Fraction | None) -> bool:
    """Tell whether a quality component is below its severe threshold, exactly and strictly."""
    return quality is not None and quality < _constant("severe", name)


def _components(counts: EpisodeCounts) -> dict[str, Decimal | None]:
    savable = counts.max_evacuated
    evacuation = Fraction(counts.evacuated, savable) ** CONSTANTS["kE"]
    exact: dict[str, Decimal | None] = {
        "evacuation": _decimal(evacuation),
        "casualty": _loss_factor(counts.avoidable_casualties, savable, _constant("alpha_c"), CONSTANTS["k_c"]),
        "stranding": _loss_factor(counts.avoidable_stranded, savable, _constant("alpha_s"), CONSTANTS["k_s"]),
    }
    for name in QUALITY_COMPONENTS:
        quality = counts.qualities[name]
        if quality is not None and name == "hazard":
            quality = quality ** CONSTANTS["kH"]
        exact[name] = None if quality is None else _decimal(quality)
    return {name: None if value is None else value.quantize(COMPONENT_UNIT) for name, value in exact.items()}


def _loss_factor(lost: int, savable: int, alpha: Fraction, exponent: int) -> Decimal:
    """Return the incident factor times the rate term of avoidable losses."""
    doublings = Decimal(1 + lost).ln() / Decimal(2).ln()
    incident = (doublings * _decimal(alpha).ln()).exp()
    return incident * _decimal((1 - Fraction(lost, savable)) ** exponent)


def _is_catastrophic(counts: EpisodeCounts) -> bool:
    lost = counts.avoidable_casualties + counts.avoidable_stranded
    return Fraction(lost, counts.max_evacuated) >= _constant("catastrophic_loss_rate")


def _quality(components: Mapping[str, Decimal | None]) -> Decimal | None:
    """Return the weighted geometric mean of the defined quality components, weights renormalized."""
    defined = {name: value for name in QUALITY_COMPONENTS if (value := components[name]) is not None}
    if not defined:
        return None
    if not all(defined.values()):
        return _ZERO
    whole = sum((_constant("weights", name) for name in defined), start=Fraction(0))
    logarithm = _ZERO
    for name, value in defined.items():
        logarithm += _decimal(_constant("weights", name) / whole) * value.ln()
    return logarithm.exp()


def _severity(components: Mapping[str, Decimal | None], severe: tuple[str, ...]) -> Decimal:
    severity = _ONE
    for name in severe:
        ratio = (components[name] or _ZERO) / _decimal(_constant("severe", name))
        severity *= _decimal(_constant("phi")) * ratio ** CONSTANTS["gamma"]
    return severity


def _beta() -> Decimal:
    least = min(Fraction(text) for text in CONSTANTS["severe"].values())
    return min(_ONE, _decimal(_constant("alpha_c")).ln() / _decimal(least).ln())


def _product(factors: Any) -> Decimal:
    product = _ONE
    for factor in factors:
        product *= factor
    return product


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _constant(name: str, of: str | None = None) -> Fraction:
    value = CONSTANTS[name]
    return Fraction(value if of is None else value[of])
