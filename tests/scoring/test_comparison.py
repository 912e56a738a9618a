import dataclasses
from fractions import Fraction

import pytest
from score_vectors import VECTORS, report

from ember_ref.canonical import canonical_bytes
from ember_ref.errors import ScoringInputError
from scoring.comparison import ComparisonOutcome, ScoreComparison, compare
from scoring.hierarchy import ScoreInterval


@pytest.mark.parametrize("pair", ["a-b", "b-c"])
def test_comparisons_of_the_vectors(pair):
    made = compare(*(report(model) for model in pair.split("-")))
    assert canonical_bytes(made.to_dict()) + b"\n" == (VECTORS / f"expected-comparison-{pair}.json").read_bytes()
    assert made.delta == made.a.score - made.b.score


def test_the_other_way_round_negates_every_delta():
    there, back = compare(report("a"), report("b")), compare(report("b"), report("a"))
    assert back.deltas == {index: -delta for index, delta in there.deltas.items()}
    assert back.delta == -there.delta
    assert (there.outcome, back.outcome) == (ComparisonOutcome.A_BETTER, ComparisonOutcome.B_BETTER)


def test_a_report_ties_with_itself():
    assert compare(report("a"), report("a")).outcome is ComparisonOutcome.EXACT_TIE


def outcome(delta, lower, upper):
    """Return the outcome when every episode differs by `delta` points and the interval is as given."""
    whole = report("a")
    interval = None if lower is None else ScoreInterval(seed="", lower=lower, upper=upper)
    deltas = dict.fromkeys(whole.episode_scores, delta)
    return ScoreComparison(a=whole, b=whole, deltas=deltas, confidence_interval=interval).outcome


def test_the_four_outcomes_at_their_edges():
    one, little = Fraction(1), Fraction(1, 10**12)
    assert outcome(one, little, 2 * one) is ComparisonOutcome.A_BETTER
    assert outcome(-one, -2 * one, -little) is ComparisonOutcome.B_BETTER
    assert outcome(one - little, little, 2 * one) is ComparisonOutcome.INCONCLUSIVE
    assert outcome(one, Fraction(0), 2 * one) is ComparisonOutcome.INCONCLUSIVE
    assert outcome(-one, -2 * one, Fraction(0)) is ComparisonOutcome.INCONCLUSIVE
    assert outcome(one, None, None) is ComparisonOutcome.INCONCLUSIVE
    assert outcome(Fraction(0), None, None) is ComparisonOutcome.EXACT_TIE


@pytest.mark.parametrize("name", ["evaluation_manifest_hash", "pack_hash"])
def test_reports_of_other_episodes_are_refused(name):
    header = dataclasses.replace(report("b").header, **{name: "0" * 64})
    with pytest.raises(ScoringInputError, match=f"they differ in {name}: .* and 0000"):
        compare(report("a"), dataclasses.replace(report("b"), header=header))


def test_reports_of_other_references_are_refused():
    episodes = list(report("b").episodes)
    episodes[0] = dataclasses.replace(episodes[0], max_evacuated=3)
    with pytest.raises(ScoringInputError, match="the applicable episodes"):
        compare(report("a"), dataclasses.replace(report("b"), episodes=tuple(episodes)))
