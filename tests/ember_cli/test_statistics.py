import csv
import json

import pytest
from score_vectors import VECTORS

from ember_ref.canonical import canonical_bytes

PACK = VECTORS / "pack.json"
A, B = VECTORS / "result-a.json", VECTORS / "result-b.json"


@pytest.fixture(scope="module")
def episode(tmp_path_factory):
    """Return the files of a real record and its scenario, and the stored metrics."""
    folder = tmp_path_factory.mktemp("episode")
    stored = json.loads(A.read_bytes())["episodes"][0]
    scenarios = {scenario["id"]: scenario for scenario in json.loads(PACK.read_bytes())["scenarios"]}
    (folder / "scenario.json").write_text(json.dumps(scenarios[stored["scenario_id"]]))
    (folder / "record.json").write_bytes(canonical_bytes(stored["record"]) + b"\n")
    return folder, stored


def test_metrics_prints_the_stored_metrics(ember, episode):
    folder, stored = episode
    told = ember("metrics", folder / "record.json", "--scenario", folder / "scenario.json", "--json")
    assert told.out.encode() == canonical_bytes(stored["metrics"]) + b"\n"
    table = ember("metrics", folder / "record.json", "--scenario", folder / "scenario.json")
    assert table.code == 0
    for name in ("safety", "evacuated rate", "replanning", "people", "P1"):
        assert name in table.out


def test_metrics_of_a_forged_record_is_1_and_of_another_form_2(ember, refused, episode, tmp_path):
    folder, stored = episode
    forged = tmp_path / "forged.json"
    record = json.loads(json.dumps(stored["record"]))
    record["header"]["seed"] += 1
    forged.write_bytes(canonical_bytes(record) + b"\n")
    told = ember("metrics", forged, "--scenario", folder / "scenario.json")
    assert told.code == 1
    assert "Traceback" not in told.err
    forged.write_text(json.dumps(record))
    assert "canonical" in refused("metrics", forged, "--scenario", folder / "scenario.json")


def test_statistics_prints_the_vectors(ember):
    pair = ember("statistics", A, "--suite", PACK, "--against", B, "--json")
    assert pair.out.encode() == (VECTORS / "expected-paired-a-b.json").read_bytes()
    one = ember("statistics", B, "--suite", PACK, "--json")
    assert one.out.encode() == (VECTORS / "expected-aggregate-b.json").read_bytes()


@pytest.mark.parametrize(("by", "key"), [("scenario", "scenarios"), ("family", "families")])
def test_tables_and_the_spreadsheet_hold_every_group(ember, tmp_path, by, key):
    artifact = json.loads((VECTORS / "expected-aggregate-b.json").read_bytes())
    rows = tmp_path / "rows.csv"
    told = ember("statistics", B, "--suite", PACK, "--by", by, "--csv", rows)
    assert told.code == 0
    assert "evacuated rate ↑" in told.out
    assert "casualty rate ↓" in told.out
    for group in artifact[key]:
        assert f"{by} {group['name']}" in told.out
    groups = [artifact["overall"], *artifact["scenarios"], *artifact["families"]]
    expected = [(group, row) for group in groups for row in group["metrics"]]
    written = list(csv.DictReader(rows.read_text().splitlines()))
    assert len(written) == len(expected)
    for line, (group, row) in zip(written, expected, strict=True):
        assert (line["kind"], line["name"], line["metric"]) == (group["kind"], group["name"], row["metric"])
        assert line["mean"] == ("" if row["statistics"]["mean"] is None else repr(row["statistics"]["mean"]))
        assert (line["n"], line["missing"]) == (str(row["statistics"]["n"]), str(row["missing"]))


def test_a_pair_shows_wins_losses_and_ties(ember, tmp_path):
    rows = tmp_path / "rows.csv"
    told = ember("statistics", A, "--suite", PACK, "--against", B, "--csv", rows)
    for name in ("a_better", "b_better", "ties", "missing_from_b"):
        shown = {"a_better": "A wins", "b_better": "B wins"}.get(name, name.replace("_", " "))
        assert shown in told.out
        assert name in rows.read_text().splitlines()[0]


def test_bad_calls_leave_nothing_behind(refused, tmp_path):
    rows = tmp_path / "rows.csv"
    assert "--resamples" in refused("statistics", A, "--suite", PACK, "--resamples", 99, "--csv", rows)
    assert "cannot be read" in refused("statistics", tmp_path / "none.json", "--suite", PACK, "--csv", rows)
    forged = tmp_path / "forged.json"
    document = json.loads(A.read_bytes())
    document["episodes"][0]["metrics"]["safety"]["evacuated"] += 1
    forged.write_bytes(canonical_bytes(document) + b"\n")
    assert "metrics.safety.evacuated" in refused("statistics", forged, "--suite", PACK, "--csv", rows, code=1)
    assert not rows.exists()
