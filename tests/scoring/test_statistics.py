"""Statistics against the vectors, and the rules of statistics.md."""

import decimal
import json
import os
import pathlib
import random
import statistics as python_statistics
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from ember_ref.canonical import canonical_bytes
from ember_ref.episode import run_episode
from ember_ref.errors import EvaluationError, StatisticsInputError
from ember_ref.policies import make_policy
from ember_ref.scenario import scenario_from_text
from ember_ref.suite import Suite, SuiteEntry, SuiteFolder, load_pack, schedule
from scoring.evaluation import open_result
from scoring.metrics import episode_metrics
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


def test_mean_variance_and_median_agree_with_python_and_numpy_on_random_rationals():
    dice = random.Random(7)
    for n in (2, 3, 8, 51):
        values = [Fraction(dice.randrange(-9999, 9999), dice.randrange(1, 999)) for _ in range(n)]
        found, floats = statistics_of(values), np.array([float(value) for value in values])
        assert found["variance"] == float(python_statistics.variance(values))
        assert found["median"] == float(python_statistics.median(values))
        assert found["mean"] == float(python_statistics.mean(values))
        assert found["std"] == float(found["variance"]) ** 0.5
        assert found["variance"] == pytest.approx(np.var(floats, ddof=1), rel=1e-9)
        assert found["median"] == pytest.approx(np.median(floats), rel=1e-12)
        for name, level in (("p25", 0.25), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95)):
            assert found["quantiles"][name] == pytest.approx(np.quantile(floats, level), rel=1e-9)


def simulated(folder, policy, left_out=()):
    """Return the target and the result of real episodes: one scenario, five seeds, some of them missing."""
    scenario = scenario_from_text(["P...E", "*...#"], id="one", max_steps=30, enter_fire="blocked")
    entry = SuiteEntry(
        scenario_id="one", scenario_hash=scenario.content_hash, primary_family="custom", families=("custom", "maze")
    )
    suite = Suite(suite_id="real", entries=(entry,))
    manifest = schedule(suite, {"one": range(5)})
    episodes = []
    for scheduled in manifest.episodes:
        if scheduled.index not in left_out:
            record = run_episode(scenario, scheduled.seed, make_policy(policy))
            metrics = episode_metrics(scenario, record).to_dict()
            episodes.append({**scheduled.to_dict(), "record": record.to_dict(), "metrics": metrics})
    document = {
        "evaluation_version": "1.0",
        "model_id": policy,
        "manifest": manifest.to_dict(),
        "episodes": episodes,
    }
    path = folder / f"{policy}.json"
    path.write_bytes(canonical_bytes(document) + b"\n")
    return SuiteFolder(suite=suite, scenarios={"one": scenario}), open_result(path)


def test_section_6_on_real_episodes(tmp_path):
    target, still = simulated(tmp_path, "always-stay-v1", left_out=(1, 3))
    found = aggregate_statistics(still, target, workers=1)
    assert (found["scheduled_episodes"], found["observed_episodes"]) == (5, 3)
    assert [(key["index"], key["seed"]) for key in found["missing_episodes"]] == [(1, 1), (3, 3)]
    assert [group["name"] for group in found["families"]] == ["maze", "custom"]  # both hold every episode
    for group in (found["overall"], *found["scenarios"], *found["families"]):
        assert group["missing_indices"] == [1, 3]
        counts = group["robustness"]
        assert (counts["observed"], counts["missing"]) == (3, 2)
        assert counts["with_casualties"] + counts["with_stranded"] == counts["zero_evacuation"] == 3
        rows = {row["metric"]: row for row in group["metrics"]}
        # A missing episode is no failure: the rates are those of the three that were seen.
        assert (rows["evacuated_rate"]["statistics"]["n"], rows["evacuated_rate"]["statistics"]["max"]) == (3, 0.0)
        for name in ("blocked_rate", "congestion_block_rate", "aggregate_path_efficiency", "max_exit_share"):
            assert (rows[name]["undefined"], rows[name]["statistics"]["n"]) == (3, 0)
            assert rows[name]["statistics"]["mean"] is None
            assert rows[name]["mean_ci"] is None


def test_section_7_on_real_episodes(tmp_path):
    target, still = simulated(tmp_path, "always-stay-v1", left_out=(1,))
    _, walking = simulated(tmp_path, "static-shortest-path-v1", left_out=(3, 4))
    found = paired_statistics(still, walking, target, workers=1)
    assert (found["paired_count"], found["overall"]["paired_indices"]) == (2, [0, 2])
    assert [key["index"] for key in found["missing_from_a"]] == [1]
    assert [key["index"] for key in found["missing_from_b"]] == [3, 4]
    rows = {row["metric"]: row for row in found["overall"]["metrics"]}
    assert rows["evacuated_rate"]["deltas"] == [[0, -1.0], [2, -1.0]]
    assert (rows["evacuated_rate"]["b_better"], rows["casualty_rate"]["b_better"]) == (2, 2)
    assert rows["blocked_rate"]["undefined"] == 2  # undefined for the one who stays
    assert (rows["exits_used"]["a_better"], rows["exits_used"]["ties"]) == (None, None)


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
    for number, locale in enumerate(["C", "C.UTF-8"]):
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "LC_ALL": locale, "PYTHONPATH": root}
        found = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert found.stdout == expected("aggregate-a")
