import json

import pytest
from score_vectors import VECTORS, report

from scoring.display import explanation_lines, markdown, summary_lines

PACK = VECTORS / "pack.json"
B = VECTORS / "result-b.json"
FAILURES = VECTORS / "failures-b.json"


def test_score_writes_the_report_and_tells_an_episode(ember, tmp_path):
    out, paper, rows = (tmp_path / name for name in ("report.json", "report.md", "rows.csv"))
    files = ("--out", out, "--markdown", paper, "--csv", rows)
    told = ember("score", B, "--pack", PACK, "--failures", FAILURES, *files, "--explain", 1)
    assert told.code == 0
    assert out.read_bytes() == (VECTORS / "expected-report-b.json").read_bytes()
    assert "Died and could have been saved: P7." in told.out
    assert "casualty: 0.324; 70.4 points if it were perfect" in told.out
    assert "| **EMBER Score** | 8 | **8.5** |" in paper.read_text()
    assert len(rows.read_text().splitlines()) == 1 + 27
    whole = ember("score", B, "--pack", PACK, "--failures", FAILURES, "--json")
    assert whole.out.encode() == out.read_bytes()


@pytest.mark.slow
def test_the_compiled_references_make_the_same_report(ember):
    made = ember("score", B, "--pack", PACK, "--failures", FAILURES, "--backend", "jax", "--json")
    assert made.out.encode() == (VECTORS / "expected-report-b.json").read_bytes()


def test_a_bare_suite_is_said_to_be_unofficial(ember, tmp_path):
    pack = json.loads(PACK.read_text())
    for scenario in pack["scenarios"]:
        (tmp_path / f"{scenario['id']}.json").write_text(json.dumps(scenario))
    (tmp_path / "suite.json").write_bytes((VECTORS / "suite.json").read_bytes())
    told = ember("score", B, "--suite", tmp_path)
    assert told.code == 0
    assert "UNOFFICIAL; suite vectors sha256:" in told.out
    assert "missing 2" in told.out  # no failures file beside the result
    assert "UNOFFICIAL" in told.err


@pytest.mark.parametrize("pair", ["a-b", "b-c"])
def test_compare(ember, pair):
    files = [VECTORS / f"expected-report-{model}.json" for model in pair.split("-")]
    made = ember("compare", *files, "--json")
    assert made.out.encode() == (VECTORS / f"expected-comparison-{pair}.json").read_bytes()
    assert "Outcome: a_better" in ember("compare", *files).out


def test_leaderboard_recomputes_unless_told_to_trust(ember):
    files = [VECTORS / f"expected-report-{model}.json" for model in "cb"]
    trusted = ember("leaderboard", *files, "--trust-reports", "--json")
    assert [line["verified"] for line in trusted.lines] == [False, False]
    assert "NOT verified" in trusted.err
    results = [part for model in "bc" for part in ("--results", VECTORS / f"result-{model}.json")]
    checked = ember("leaderboard", *files, "--pack", PACK, *results, "--json")
    assert [(line["model_id"], line["verified"]) for line in checked.lines] == [
        ("nearest-exit-greedy-v1", True),
        ("random-legal-v1", True),
    ]
    assert "every report was recomputed" in checked.err


def test_operational_and_efficiency(ember, tmp_path):
    result = tmp_path / "result-b.json"
    result.write_bytes(B.read_bytes())
    (tmp_path / "result-b.run.json").write_text('{"timeouts":1,"wall_seconds":2.5}\n')
    settings = tmp_path / "settings.json"
    settings.write_text('{"temperature": 0.0}')
    record = tmp_path / "record.json"
    cost = ("--cost", "27/100", "--cost-unit", "USD")
    call = ("operational", result, "--provider", "local", "--inference", settings, "--out", record)
    made = ember(*call, *cost, "--json")
    assert (made.code, made.lines[0]["latency_seconds"], made.lines[0]["timeouts"]) == (0, 2.5, 1)
    view = ember("efficiency", VECTORS / "expected-report-b.json", "--operational", record, "--json")
    assert view.lines[0]["cost_per_episode"] == [1, 100]


def test_bad_calls_are_refused(refused, tmp_path):
    assert "either --pack PACK or --suite" in refused("score", B)
    assert "--explain 99: no such episode; expected 0 to 26" in refused("score", B, "--pack", PACK, "--explain", 99)
    assert "leave --json out" in refused("score", B, "--pack", PACK, "--explain", 1, "--json")
    assert "not a score report but an evaluation result" in refused("compare", B, B)
    assert "--trust-reports" in refused("leaderboard", VECTORS / "expected-report-b.json")
    forged = tmp_path / "forged.json"
    text = (VECTORS / "expected-report-b.json").read_text()
    forged.write_text(text.replace('"evacuated":105', '"evacuated":106', 1))
    assert "totals.evacuated is 106, recomputed 105" in refused(
        "compare", forged, VECTORS / "expected-report-a.json", code=1
    )
    assert list(tmp_path.iterdir()) == [forged]


def test_the_summary_has_the_lines_of_the_document():
    lines = summary_lines(report("a"))
    starts = [
        "EMBER Score 20.6 / 100 benchmark-performance points under EMBER scoring version 1.0",
        "95% CI [13.0, 28.2] (stratified two-stage bootstrap, 2000 resamples; this sample only)",
        "Model congestion-aware-v1; trials 3; official; environment pack vectors-pack sha256:2851e5a6",
        "Safety factor 0.252; quality factor 0.731",
        "Components (0-1, defined/total): evacuation 0.452 (69/72); casualty 0.323 (69/72); stranding",
        "Primary families: multiple_exits 27.6; route_invalidation 3.3; ",
        "Tail: median scenario 25.2; worst scenario 1.5 (wing); p10 episode 1.1; CVaR10 0.2",
        "Zero-score episode-trials 33 of 72: catastrophic 30; missing 1; invalid_output 0; model_error 1; timeout 1",
        "Severe quality failures (episode-trials): time 13; hazard 14; path 7; replanning 31",
        "People per trial: escapable 176.3; evacuated 103.7; avoidable casualties 59.3; avoidable stranded 13.3",
        "Congestion diagnostics (not scored): block rate 0.066; contested cell-steps per trial 131.7; hotspot",
        "The EMBER Score is not a percentage of people evacuated.",
    ]
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))
    assert not any("%" in line for line in lines[2:])
    assert lines[0] in markdown(report("a"))


def test_the_story_of_a_failed_trial():
    story = "\n".join(explanation_lines(report("a"), 0))
    assert "No result (model_error): 0.0 points" in story
    assert "SEVERE" in story
