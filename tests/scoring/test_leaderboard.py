import dataclasses
from fractions import Fraction

import pytest
from score_vectors import report

from ember_ref.errors import ScoringInputError
from scoring.leaderboard import Standing, leaderboard, standing


def test_the_order_of_the_vectors():
    entries = [entry.to_dict() for entry in leaderboard([report(m) for m in "cab"], verified=False)]
    assert [e["model_id"] for e in entries] == ["congestion-aware-v1", "nearest-exit-greedy-v1", "random-legal-v1"]
    assert [e["rank"] for e in entries] == [1, 2, 3]
    assert [e["outcome_against_next"] for e in entries] == ["a_better", "a_better", None]
    assert [e["displayed_score"] for e in entries] == ["20.6", "8.5", "0.0"]
    assert {e["verified"] for e in entries} == {False}


def test_a_failure_counts_as_the_loss_of_everyone_who_could_be_saved():
    whole = report("b")
    failed = [e for e in whole.episodes if e.trials[0].failure is not None]
    lost = sum(e.max_evacuated for e in failed)
    assert lost > 0
    assert standing(whole).avoidable_casualties_per_trial == whole.totals["avoidable_casualties"] + lost


ORDER = [
    {"displayed_score": Fraction(5)},
    {"safety": Fraction(9, 10)},
    {"avoidable_casualties_per_trial": Fraction(1)},
    {"avoidable_stranded_per_trial": Fraction(1)},
    {"worst_scenario": Fraction(3)},
    {"model_id": "a"},
    {},
    {"worst_scenario": None},
    {"safety": None},
    {"displayed_score": None, "safety": Fraction(1)},
]


def test_each_criterion_decides_only_when_those_before_tie():
    base = Standing(
        model_id="m",
        displayed_score=Fraction(4),
        safety=Fraction(1, 2),
        avoidable_casualties_per_trial=Fraction(2),
        avoidable_stranded_per_trial=Fraction(2),
        worst_scenario=Fraction(2),
    )
    places = [dataclasses.replace(base, **changes) for changes in ORDER]
    backwards = places[::-1]
    assert sorted(backwards, key=lambda place: place.key) == places


def test_what_cannot_stand_in_one_leaderboard_is_refused():
    header = dataclasses.replace(report("b").header, pack_hash=None, pack_id=None)
    with pytest.raises(ScoringInputError, match="pack_hash"):
        leaderboard([report("a"), dataclasses.replace(report("b"), header=header)], verified=True)
    with pytest.raises(ScoringInputError, match="no report"):
        leaderboard([], verified=True)
