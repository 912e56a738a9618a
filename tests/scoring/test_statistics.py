"""Statistics against the vectors, and the rules of statistics.md."""

import decimal
import json
import os
import pathlib
import shutil
import statistics as python_statistics
import subprocess
import sys
from fractions import Fraction

import pytest

from ember_ref.canonical import canonical_bytes
from ember_ref.errors import EvaluationError, StatisticsInputError
from ember_ref.suite import load_pack
from scoring.evaluation import open_result
from scoring.statistics import DEFINITIONS, aggregate_statistics, paired_statistics, statistics_of

SCORE = pathlib.Path(__file__).parents[1] / "vectors" / "score"
PACK = load_pack(SCORE / "pack.json")
A, B = open_result(SCORE / "result-a.json"), open_result(SCORE / "result-b.json")


def expected(name):
    return (SCORE / f"expected-{name}.json").read_bytes()


@pytest.mark.parametrize(("name", "result"), [("a", A), ("b", B)])
def test_the_aggregates_of_the_vectors_byte_for_byte(name, result):
    found = aggregate_statistics(result, PACK, workers=1)
    assert canonical_bytes(found) + b"\n" == expected(f"aggregate-{name}")


def test_the_pair_of_the_vectors_byte_for_byte_whatever_the_callers_decimal_context():
    with decimal.localcontext() as context:
        context.prec, context.rounding = 5, decimal.ROUND_UP
        found = paired_statistics(A, B, PACK, workers=1)
    assert canonical_bytes(found) + b"\n" == expected("paired-a-b")


def test_swapping_the_two_negates_every_delta_and_swaps_every_count():
    forth, back = paired_statistics(A, B, PACK, workers=1), paired_statistics(B, A, PACK, workers=1)
    pairs = {("delta_positive", "delta_negative"), ("a_better", "b_better"), ("missing_from_a", "missing_from_b")}
    for key in ("overall", "scenarios", "families"):
        groups = zip(*(x[key] if isinstance(x[key], list) else [x[key]] for x in (forth, back)), strict=True)
        for one, other in groups:
            assert one["missing_from_a"] == other["missing_from_b"]
            for row, swapped in zip(one["metrics"], other["metrics"], strict=True):
                assert row["deltas"] == [[index, -delta] for index, delta in swapped["deltas"]]
                for left, right in pairs:
                    assert (row[left], row[right]) == (swapped[right], swapped[left])
                assert row["ties"] == swapped["ties"]


def test_missing_and_undefined_are_counted_and_never_filled_in():
    found = aggregate_statistics(B, PACK, workers=1)
    for group in (found["overall"], *found["scenarios"], *found["families"]):
        for row in group["metrics"]:
            assert row["scheduled"] == row["observed"] + row["missing"]
            assert row["statistics"]["n"] == row["observed"] - row["undefined"]
    assert found["overall"]["missing_indices"] == [key["index"] for key in found["missing_episodes"]]
    assert found["overall"]["robustness"]["missing"] == 2
    undefined = {row["metric"]: row["undefined"] for row in found["overall"]["metrics"]}
    assert undefined["exit_balance"] > 0 == undefined["evacuated_rate"]


def test_robustness_counts_add_up():
    counts = aggregate_statistics(A, PACK, workers=1)["overall"]["robustness"]
    assert counts["all_resolved"] + counts["max_steps"] == counts["observed"] == 27


def test_intervals_need_five_values():
    found = aggregate_statistics(A, PACK, workers=1)
    assert all(row["mean_ci"] is None for group in found["scenarios"] for row in group["metrics"])
    assert all(row["mean_ci"] for row in found["overall"]["metrics"] if row["statistics"]["n"] >= 5)


def test_statistics_of_few_values():
    assert statistics_of([]) == {
        "n": 0,
        **dict.fromkeys(("mean", "median", "variance", "std", "min", "max")),
        "quantiles": dict.fromkeys(("p25", "p50", "p75", "p90", "p95")),
    }
    one = statistics_of([Fraction(1, 3)])
    assert (one["variance"], one["std"], one["mean"]) == (None, None, 1 / 3)
    assert set(one["quantiles"].values()) == {1 / 3}
    values = [Fraction(v) for v in (1, 2, 3, 4)]
    assert statistics_of(values)["variance"] == float(Fraction(5, 3)) == python_statistics.variance([1, 2, 3, 4])


def test_the_definitions_are_those_of_the_document_in_order():
    assert [d.metric for d in DEFINITIONS][:3] == ["evacuated_rate", "casualty_rate", "stranded_rate"]
    assert len(DEFINITIONS) == 12
    assert {d.metric for d in DEFINITIONS if d.direction == "none"} == {
        "exits_used",
        "max_exit_share",
        "exit_balance",
    }


@pytest.mark.parametrize("resamples", [99, 1_000_001, True, 100.0, "100"])
def test_resamples_out_of_bounds(resamples):
    with pytest.raises(StatisticsInputError, match=r"resamples: .* is not an integer from 100 to 1000000"):
        aggregate_statistics(A, PACK, resamples=resamples)


def rewritten(tmp_path, change):
    """Return result A, changed and in canonical form again."""
    document = json.loads((SCORE / "result-a.json").read_text())
    change(document)
    path = tmp_path / "result.json"
    path.write_bytes(canonical_bytes(document) + b"\n")
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["episodes"][0]["metrics"]["safety"].update(evacuated=9), "metrics.safety.evacuated"),
        (lambda d: d["episodes"][2]["record"]["steps"].pop(), "termination"),
        (lambda d: d["manifest"].update(suite_hash="0" * 64), "suite_hash"),
        (lambda d: d["manifest"].update(metrics_version="9"), "metrics_version"),
    ],
)
def test_whatever_does_not_hold_is_refused_and_nothing_is_summarised(tmp_path, change, message):
    result = open_result(rewritten(tmp_path, change))
    with pytest.raises(StatisticsInputError, match=message):
        aggregate_statistics(result, PACK, workers=1)


def test_results_of_different_manifests_are_refused_before_any_replay(tmp_path):
    def change(document):
        document["manifest"]["episodes"].pop()
        document["episodes"].pop()
        document["episodes"][0]["record"]["steps"].pop()  # would fail its replay

    other = open_result(rewritten(tmp_path, change))
    with pytest.raises(EvaluationError, match="have different manifests") as caught:
        paired_statistics(A, other, PACK, workers=1)
    assert not isinstance(caught.value, StatisticsInputError)


def test_the_command_prints_the_vectors_under_any_hash_seed_and_locale():
    command = [sys.executable, "-m", "ember_cli.main", "statistics", str(SCORE / "result-a.json")]
    command += ["--suite", str(SCORE / "pack.json"), "--json"]
    root = str(pathlib.Path(__file__).parents[2])
    locales = ["C", "C.UTF-8"] if shutil.which("locale") else ["C"]
    for number, locale in enumerate(locales):
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "LC_ALL": locale, "PYTHONPATH": root}
        found = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert found.stdout == expected("aggregate-a")
