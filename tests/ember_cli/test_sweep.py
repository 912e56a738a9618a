import fcntl
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ember_cli import sweep_folder
from ember_cli.sweep import oracle_row
from ember_cli.sweep_folder import SweepFolder
from ember_ref.canonical import canonical_bytes
from ember_ref.scenario import load_scenario
from scenarios.bundled import scenario_path

FLAT = "v1-pub-01-single-exit-low-density"
POLICIES = ("static-shortest-path-v1", "always-stay-v1")


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch):
    monkeypatch.setattr(sweep_folder, "PART_SEEDS", 16)


def rows_of(folder):
    """Return every row of the parts of a sweep, in the order of their names."""
    return [row for file in sorted(folder.glob("part-*.parquet")) for row in pq.read_table(file).to_pylist()]


def test_rows_are_those_of_the_oracle(ember, tmp_path):
    out = tmp_path / "sweep"
    options = [word for name in POLICIES for word in ("--policy", name)]
    result = ember("sweep", FLAT, "--seeds", "0:40", *options, "--digests", "--verify", 3, "--out", out, "--json")
    assert result.code == 0
    assert [(line["policy"], line["seeds"], line["verified"], line["mismatches"]) for line in result.lines] == [
        (name, 40, 3, 0) for name in POLICIES
    ]
    scenario = load_scenario(scenario_path(FLAT))
    expected = [
        {
            "scenario_id": scenario.id,
            "scenario_hash": scenario.content_hash,
            "policy": name,
            **oracle_row(scenario, seed, name, 0, digests=True)[0],
        }
        for name in POLICIES
        for seed in range(40)
    ]
    assert rows_of(out) == expected
    evacuated = [row["evacuated"] for row in expected[:40]]
    assert result.lines[0]["mean_evacuated"] == sum(evacuated) / 40
    table = pq.read_table(next(iter(sorted(out.glob("part-*.parquet")))))
    types = {field.name: str(field.type) for field in table.schema}
    assert types["seed"] == types["stream_position"] == "uint64"
    assert types["fire_world_digest"] == "fixed_size_binary[32]"


def test_without_a_policy_there_are_only_the_columns_of_the_fire(ember, tmp_path):
    assert ember("sweep", FLAT, "--seeds", "5,3", "--out", tmp_path / "s").code == 0
    (file,) = (tmp_path / "s").glob("part-*.parquet")
    assert pq.read_table(file).column_names == [
        *("scenario_id", "scenario_hash", "seed", "stream_position", "burned", "max_evacuated"),
        *("sum_earliest_savable", "sum_fewest_moves_savable", "sum_fewest_danger_states_savable"),
    ]
    assert [row["seed"] for row in rows_of(tmp_path / "s")] == [5, 3]


def test_both_backends_write_the_same_rows(ember, tmp_path):
    for backend in ("ref", "jax"):
        arguments = ("--seeds", "0:20", "--policy", "random-legal-v1", "--policy-seed", 4, "--backend", backend)
        assert ember("sweep", FLAT, *arguments, "--digests", "--out", tmp_path / backend).code == 0
    assert rows_of(tmp_path / "ref") == rows_of(tmp_path / "jax")


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_shards_make_the_same_rows_whatever_their_number_and_order(ember, tmp_path, shards):
    out = tmp_path / "sweep"
    for index in reversed(range(shards)):
        call = ("sweep", FLAT, "--seeds", "0:100", "--out", out, "--shard", f"{index}/{shards}")
        assert ember(*call).code == 0
    merged = ember("merge", out, "--json")
    assert merged.code == 0
    assert merged.lines == [{"file": str(out / "sweep.parquet"), "rows": 100}]
    assert [row["seed"] for row in pq.read_table(out / "sweep.parquet").to_pylist()] == list(range(100))
    assert pq.read_table(out / "sweep.parquet").to_pylist() == rows_of(out)
    assert len(list((out / "runs").iterdir())) >= 1


def test_merge_names_what_is_missing_extra_or_wrong(ember, refused, tmp_path):
    out = tmp_path / "sweep"
    ember("sweep", FLAT, "--seeds", "0:40", "--out", out)
    parts = sorted(out.glob("part-*.parquet"))
    kept = parts[1].read_bytes()
    parts[1].unlink()
    assert "1 of 3 parts are missing" in refused("merge", out, code=1)
    parts[1].write_bytes(parts[0].read_bytes())
    assert "does not hold the rows that its name says" in refused("merge", out, code=1)
    parts[1].write_bytes(kept)
    (out / "part-9999-00-00000000000000000000.parquet").write_bytes(kept)
    assert "is no part of this sweep" in refused("merge", out, code=1)
    assert not (out / "sweep.parquet").exists()
    assert "not the folder of a sweep" in refused("merge", tmp_path)


def test_restart_empties_the_folder_of_a_sweep_and_of_nothing_else(ember, refused, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years")
    for content in ('{"not":"a sweep"}\n', "[]\n", "not json"):
        (precious / "run.json").write_text(content)
        refused("sweep", FLAT, "--seeds", "0:2", "--out", precious, "--restart")
        assert sorted(path.name for path in precious.iterdir()) == ["run.json", "thesis.txt"]
    out = tmp_path / "sweep"
    ember("sweep", FLAT, "--seeds", "0:2", "--out", out)
    (out / "notes.txt").write_text("mine")
    assert ember("sweep", FLAT, "--seeds", "0:3", "--out", out, "--restart").code == 0
    assert (out / "notes.txt").read_text() == "mine"


def test_parts_that_are_damaged_or_of_another_sweep_end_with_exit_1(ember, refused, tmp_path):
    out, other = tmp_path / "sweep", tmp_path / "other"
    call = ("sweep", FLAT, "--seeds", "0:10", "--out")
    ember(*call, out)
    ember("sweep", FLAT, "--seeds", "0:10", "--digests", "--out", other)
    (part,), (foreign,) = out.glob("part-*.parquet"), other.glob("part-*.parquet")
    whole = part.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 8] ^= 1
    for content, message in (
        (whole[:900], "damaged"),
        (b"", "damaged"),
        (foreign.read_bytes(), "a part of another sweep"),
    ):
        part.write_bytes(content)
        assert message in refused(*call, out, code=1)
        assert f"{part}: {message}" in refused("merge", out, code=1)
    part.write_bytes(flipped)
    assert f"{part}: damaged" in refused("merge", out, code=1)
    part.unlink()
    assert ember(*call, out).code == 0
    assert part.read_bytes() == whole


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("policies"),
        lambda d: d.update(part_seeds=0),
        lambda d: d.update(scenarios=5),
        lambda d: d["scenarios"][0].update(seeds={}),
        lambda d: d.update(policy_seed=5),
        lambda d: d["scenarios"][0].update(scenario_hash="0" * 64),
    ],
)
def test_a_changed_description_is_never_merged(ember, tmp_path, change):
    out = tmp_path / "sweep"
    ember("sweep", FLAT, "--seeds", "0:3", "--out", out)
    document = json.loads((out / "run.json").read_text())
    change(document)
    (out / "run.json").write_bytes(canonical_bytes(document) + b"\n")
    result = ember("merge", out, "--json")
    assert result.code in (1, 2)
    assert "internal error" not in result.err
    assert not (out / "sweep.parquet").exists()


def test_a_part_that_another_process_writes_is_left_alone(ember, tmp_path):
    out = tmp_path / "sweep"
    ember("sweep", FLAT, "--seeds", "0:3", "--out", out)
    held, left = out / ".part-held", out / ".part-left"
    left.write_bytes(b"")
    with held.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ember("sweep", FLAT, "--seeds", "0:3", "--out", out)
        assert held.exists()
        assert not left.exists()


def test_a_folder_of_another_call_is_refused_with_what_differs(ember, refused, tmp_path):
    out = tmp_path / "sweep"
    ember("sweep", FLAT, "--seeds", "0:5", "--out", out)
    text = refused("sweep", FLAT, "--seeds", "0:6", "--out", out)
    assert "scenarios[0].seeds.stop is 5 there and 6 in this call" in text
    assert ember("sweep", FLAT, "--seeds", "0:6", "--out", out, "--restart").code == 0
    assert len(rows_of(out)) == 6
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear")
    text = refused("sweep", FLAT, "--seeds", "0:6", "--out", tmp_path / "letters", "--restart")
    assert "not the folder of a sweep (it holds 'mine.txt')" in text
    assert (tmp_path / "letters" / "mine.txt").read_text() == "dear"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shard", "2/2"), "--shard '2/2': expected i/n"),
        (("--policy", "nope"), "policy 'nope' is unknown"),
        (("--policy", "always-stay-v1", "--policy", "always-stay-v1"), "is given twice"),
        (("--verify", "-1"), "--verify"),
    ],
)
def test_bad_calls_write_nothing(refused, tmp_path, options, message):
    assert message in refused("sweep", FLAT, "--seeds", "0:4", *options, "--out", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_difference_ends_with_exit_1_and_names_it(ember, tmp_path):
    out = tmp_path / "sweep"
    ember("sweep", FLAT, "--seeds", "0:10", "--policy", "static-shortest-path-v1", "--out", out)
    # What a broken compiled path would have written.
    (part,) = out.glob("part-*.parquet")
    table = pq.read_table(part)
    place = table.column_names.index("evacuated")
    wrong = pc.add(table.column("evacuated"), pa.scalar(1, pa.int32()))
    pq.write_table(table.set_column(place, table.schema.field("evacuated"), wrong), part)
    call = ("sweep", FLAT, "--seeds", "0:10", "--policy", "static-shortest-path-v1", "--verify", 2, "--out", out)
    result = ember(*call, "--json")
    assert result.code == 1
    assert result.lines[0]["mismatches"] > 0
    assert f"{FLAT}, seed 0, policy static-shortest-path-v1, column evacuated" in result.err
    assert "the oracle has" in result.err


def test_killed_at_any_moment_it_goes_on_and_ends_with_the_same_rows(tmp_path):
    """SIGKILL at random moments; the same command run again ends with the same rows."""
    seeds, target = "0:30000", "v1-pub-09-asymmetric-exits"
    code = (
        "import sys; from ember_cli import sweep_folder; sweep_folder.PART_SEEDS = 500\n"
        "from ember_cli.main import main; main()"
    )

    def start(out):
        arguments = ["sweep", target, "--seeds", seeds, "--digests", "--out", str(out)]
        root = pathlib.Path(__file__).parents[2]
        environment = {**os.environ, "EMBER_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(root)}
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    assert start(tmp_path / "whole").wait() == 0
    whole = {file.name: file.read_bytes() for file in (tmp_path / "whole").glob("part-*.parquet")}
    assert len(whole) == 60
    out, dice, unfinished = tmp_path / "killed", random.Random(1), 0
    for _ in range(6):
        process = start(out)
        deadline = time.monotonic() + 30
        before = len(list(out.glob("part-*.parquet"))) if out.exists() else 0
        while time.monotonic() < deadline and process.poll() is None:
            if out.exists() and len(list(out.glob("part-*.parquet"))) > before:
                break
            time.sleep(0.01)
        time.sleep(dice.random() * 0.05)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        unfinished += len(list(out.glob("part-*.parquet"))) < len(whole)
    assert unfinished >= 1
    assert start(out).wait() == 0
    assert {file.name: file.read_bytes() for file in out.glob("part-*.parquet")} == whole
    assert not list(out.glob(".part-*"))


def test_parts_of_a_huge_range_are_never_written_out():
    scenario = load_scenario(scenario_path(FLAT))
    from ember_cli.console import parse_seeds

    folder = SweepFolder(
        pathlib.Path("unused"),
        scenarios=[scenario],
        seeds=[parse_seeds("0:18446744073709551616")],
        policies=[],
        policy_seed=0,
        backend="jax",
        digests=False,
        evidence=True,
    )
    parts = folder.parts()
    assert [next(parts).start for _ in range(3)] == [0, 16, 32]
    assert json.dumps(folder.description["scenarios"][0]["seeds"]) == '{"start": 0, "stop": 18446744073709551616}'
