import decimal
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.constants import CONSTANTS_DIGEST
from scoring.score import EpisodeCounts, Status, beta, is_severe, score_episode, score_without

ARITHMETIC = Path(__file__).parents[1] / "vectors" / "score" / "arithmetic.jsonl"
PERFECT = {"time": Fraction(1), "hazard": Fraction(1), "path": Fraction(1), "replanning": None}


def counts(savable, casualties=0, stranded=0, **qualities):
    return EpisodeCounts(
        max_evacuated=savable,
        evacuated=savable - casualties - stranded,
        avoidable_casualties=casualties,
        avoidable_stranded=stranded,
        qualities=PERFECT | {name: Fraction(value) for name, value in qualities.items()},
    )


def score(*arguments, **qualities):
    return score_episode(counts(*arguments, **qualities)).score


def test_arithmetic_vectors():
    seen = set()
    for line in ARITHMETIC.read_text().splitlines():
        case = json.loads(line)
        expected = case["result"]
        seen.add(expected["status"])
        if case["max_evacuated"] == 0:
            continue
        names = ("time", "hazard", "path", "replanning")
        qualities = {name: None if case[name] is None else Fraction(case[name]) for name in names}
        got = score_episode(
            EpisodeCounts(
                max_evacuated=case["max_evacuated"],
                evacuated=case["evacuated"],
                avoidable_casualties=case["casualties"],
                avoidable_stranded=case["stranded"],
                qualities=qualities,
            )
        )
        as_text = {
            "status": str(got.status),
            "components": {k: None if v is None else format(v, "f") for k, v in got.components.items()},
            "safety": format(got.safety, "f"),
            "quality": None if got.quality is None else format(got.quality, "f"),
            "severity": format(got.severity, "f"),
            "severe": list(got.severe),
            "ceiling": format(got.ceiling, "f"),
            "score": format(got.score, "f"),
        }
        assert as_text == expected, case
    assert seen == {"scored", "catastrophic", "not_applicable"}


def test_constants_and_beta():
    assert CONSTANTS_DIGEST == "e6b9b888c3503f2e1a0883338ed7dc22a3fbd6183a9d23c9a2d0b24524b68d7d"
    assert beta() == Decimal("0.73696559416620616641658048554157366710501698533210")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ((4, 1, 0), "10.678710938"),
        ((12, 3, 0), "6.407226562"),
        ((16, 0, 3), "27.891601562"),
        ((32, 0, 15), "3.262539062"),
        ((100, 1, 0), "56.488808964"),
        ((100, 0, 10), "30.319111809"),
        ((100, 25, 0), "1.612801454"),
    ],
)
def test_values_of_the_contract(case, expected):
    assert score(*case) == Decimal(expected)


@pytest.mark.parametrize(
    ("case", "qualities", "expected"),
    [
        ((100,), {}, "100.0"),
        ((100, 1), {}, "56.5"),
        ((100, 2), {}, "39.4"),
        ((100, 3), {}, "30.0"),
        ((100, 5), {}, "19.6"),
        ((100, 10), {}, "9.1"),
        ((100, 25), {}, "1.6"),
        ((4, 1), {}, "10.7"),
        ((100, 0, 1), {}, "76.8"),
        ((100, 0, 10), {}, "30.3"),
        ((100, 50), {}, "0.0"),
        ((100, 25, 25), {}, "0.0"),
        ((100,), {"time": "9/10"}, "96.2"),
        ((100,), {"time": "8/10"}, "92.1"),
        ((100,), {"time": "1/2"}, "77.5"),
        ((100,), {"time": "2/5"}, "45.7"),
        ((100,), {"time": "1/4"}, "24.0"),
        ((100,), {"time": "1/10"}, "6.8"),
        ((100,), {"hazard": "9/10"}, "97.4"),
        ((100,), {"hazard": "7/10"}, "68.4"),
        ((100,), {"path": "3/5"}, "93.9"),
        ((100,), {"path": "2/5"}, "57.2"),
        ((100,), {"replanning": "4/5"}, "96.0"),
        ((100,), {"replanning": "3/10"}, "38.5"),
        ((100,), {"time": "1/2", "hazard": "3/4", "path": "1/2", "replanning": "1/2"}, "64.7"),
    ],
)
def test_every_row_of_section_5(case, qualities, expected):
    assert score(*case, **qualities).quantize(Decimal("0.1")) == Decimal(expected)


def test_one_savable_casualty_among_an_unsavable_stranded_person():
    # population 100, one unsavable: M* = 99 and the casualty counts in full
    assert score(99, 1).quantize(Decimal("0.1")) == Decimal("56.5")


def test_threshold_values_are_not_severe():
    assert not is_severe("hazard", Fraction(3, 4))
    assert is_severe("hazard", Fraction(3, 4) - Fraction(1, 10**30))
    assert not is_severe("time", Fraction(1, 2))
    assert not is_severe("replanning", None)


SEVERE_EDGE = {"time": "1/2", "hazard": "3/4", "path": "1/2", "replanning": "1/2"}
UNIT = Decimal("1e-9")


def test_r12_a_safe_run_beats_a_perfect_run_with_a_casualty():
    for savable in range(2, 1001):
        assert score(savable, **SEVERE_EDGE) > score(savable, 1)
        assert score(savable, time="1/2") > score(savable, 1)
        if savable >= 3:  # at 2 the gate makes both 0
            assert score(savable, 0, 1, **SEVERE_EDGE) > score(savable, 1, 1)


def test_ceilings_for_every_population():
    for savable in range(2, 1001):
        assert score(savable, 1) <= 60 + UNIT
        assert score(savable, 0, 1) <= Decimal(80) * (1 - Decimal(1) / savable) ** 4 + UNIT
        assert score(savable, 0, 1) < 80 + UNIT
        if savable >= 3:
            assert score(savable, 1) < score(savable, 0, 1)
    assert score(1, 1) == score(2, 1) == score(2, 0, 1) == 0
    below = "499999/1000000"
    assert score(100, time=below) < 80
    assert score(100, time=below, path=below) < 64


ratios = st.fractions(min_value=0, max_value=1, max_denominator=10**6)


@given(st.data())
def test_no_component_exceeds_one_and_the_score_stays_below_its_ceiling(data):
    savable = data.draw(st.integers(1, 1000))
    casualties = data.draw(st.integers(0, savable))
    stranded = data.draw(st.integers(0, savable - casualties))
    qualities = {name: data.draw(st.none() | ratios) for name in PERFECT}
    lost = EpisodeCounts(
        max_evacuated=savable,
        evacuated=savable - casualties - stranded,
        avoidable_casualties=casualties,
        avoidable_stranded=stranded,
        qualities=qualities,
    )
    got = score_episode(lost)
    assert all(value is None or 0 <= value <= 1 for value in got.components.values())
    assert 0 <= got.score <= got.ceiling + UNIT
    assert got.ceiling <= 100
    assert (got.status is Status.CATASTROPHIC) == (2 * (casualties + stranded) >= savable)
    if casualties:
        assert got.score <= 60 + UNIT
    for name in got.components:
        assert score_without(lost, name) >= got.score - UNIT


def test_the_callers_decimal_context_changes_nothing():
    expected = score_episode(counts(100, 3, 2, time="1/3", hazard="2/3"))
    with decimal.localcontext(decimal.Context(prec=5, rounding=decimal.ROUND_UP)):
        assert score_episode(counts(100, 3, 2, time="1/3", hazard="2/3")) == expected
        assert str(beta()).startswith("0.736965594166206166416580")


def test_no_defined_quality_scores_nothing():
    nobody = EpisodeCounts(
        max_evacuated=2,
        evacuated=0,
        avoidable_casualties=2,
        avoidable_stranded=0,
        qualities=dict.fromkeys(PERFECT),
    )
    got = score_episode(nobody)
    assert (got.quality, got.score, got.severity, got.status) == (None, 0, 1, Status.CATASTROPHIC)


def test_an_episode_without_anybody_to_save_is_refused():
    with pytest.raises(ValueError, match="nobody can be saved"):
        score_episode(counts(0))
