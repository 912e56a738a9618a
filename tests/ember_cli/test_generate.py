"""`ember generate` and `ember check-suite`."""

import hashlib
import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from ember_ref.canonical import write_canonical
from ember_ref.scenario import Scenario
from ember_ref.suite import Suite, load_suite
from scenarios.procedural.drawing import form_digest, symmetric_digest
from scenarios.procedural.families import GENERATED

CALL = ("generate", "--family", "multiple_exits", "--family", "maze", "--count", "2", "--seed", "2026")
GOLDEN = {
    "generator.json": "65a8968489a826bdcc56eb75536eaeb588e348d5820a318893e0a756a8b8e4e0",
    "maze-2026-0.json": "2460fd35d0b3548abaf28f6988ac4eba6dc542d8ffed384cafab05e332080c17",
    "maze-2026-1.json": "e2de48903e1921638aa1fa062fdd442de847503ebf716bd7c16fee31946167f8",
    "multiple_exits-2026-0.json": "36981995fab59d197da86decbc1d85ddb721ea400b3434c4b0df8bad879924ac",
    "multiple_exits-2026-1.json": "26023660ed90e36ee4cb06f8a423ac244dd57651fabf5683ba224bea813aa853",
    "suite.json": "e68911161ac8c73e64684aaea77c53719f41301a088c86e6c8ceb0c520586f75",
}


def folder_digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


class Done:
    """What a call in a fresh process came to."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """Call the command in a process of its own; these share what they compile."""
    cache = tmp_path_factory.mktemp("compiled")

    def call(*arguments, hash_seed="random"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "EMBER_CACHE": str(cache)}
        words = [sys.executable, "-m", "ember_cli.main", *map(str, arguments)]
        return Done(subprocess.run(words, env=environment, capture_output=True, text=True, check=False))

    return call


@pytest.fixture(scope="session")
def golden(fresh, tmp_path_factory):
    """Make the golden call in two processes: another hash seed, another number of workers."""
    base = tmp_path_factory.mktemp("generated")
    folders = []
    for number, (hash_seed, workers) in enumerate((("0", 1), ("12345", 2))):
        folder = base / f"suite-{number}"
        options = ("--size", "small", "--out", folder, "--json", "--workers", workers)
        done = fresh(*CALL, *options, hash_seed=hash_seed)
        assert done.code == 0, done.err
        folders.append((folder, done.lines))
    return folders


def test_the_golden_call_writes_its_bytes_in_any_process_and_with_any_workers(golden):
    for folder, _ in golden:
        assert folder_digests(folder) == GOLDEN


def test_the_lines_are_those_of_the_suite(golden):
    folder, lines = golden[0]
    entries = load_suite(folder).suite.entries
    assert [(line["scenario_id"], line["content_hash"]) for line in lines] == [
        (entry.scenario_id, entry.scenario_hash) for entry in entries
    ]
    assert [line["file"] for line in lines] == [str(folder / f"{entry.scenario_id}.json") for entry in entries]
    assert [entry.primary_family for entry in entries] == ["multiple_exits"] * 2 + ["maze"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "cave"], "--family 'cave' is not a family; expected all, or one of single_exit_low_density"),
        (["--family", "custom"], "--family 'custom' is not a family"),
        (["--family", "maze", "--family", "maze"], "--family: a family is given twice"),
        (["--family", "all", "--family", "maze"], "--family: a family is given twice"),
        (["--family", "maze", "--seed", "-1"], "seed -1 is not an integer from 0 to 2^64 - 1"),
        (["--family", "maze", "--seed", "18446744073709551616"], "seed 18446744073709551616 is not an integer"),
        (["--family", "maze", "--count", "0"], "greater than or equal to 1"),
        (["--family", "maze", "--size", "huge"], "'huge' is not one of"),
        (["--family", "maze", "--difficulty", "x"], "'x' is not one of"),
        (["--family", "maze", "--id", "a b"], "--id 'a b' is not an ID"),
        (["--family", "maze", "--walls", "#"], "--walls needs --map"),
        (["--family", "maze", "--map", "nowhere.map"], "nowhere.map"),
    ],
)
def test_a_bad_call_is_refused_with_one_message(refused, tmp_path, arguments, message):
    call = ["--count", "1", "--seed", "1", *arguments]
    assert message in refused("generate", "--out", tmp_path / "suite", *call)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_refused_before_anything_is_made(refused, tmp_path):
    call = ("generate", "--family", "maze", "--count", "1", "--seed", "1", "--out")
    assert "is there already; name a folder that is not" in refused(*call, tmp_path)
    assert "no folder" in refused(*call, tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_call_leaves_nothing(ember, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("scenarios.procedural.generator.trial", interrupted)
    result = ember("generate", "--family", "maze", "--count", "1", "--seed", "1", "--out", tmp_path / "suite")
    assert result.code == 130
    assert list(tmp_path.iterdir()) == []


def test_a_family_that_a_map_cannot_have_is_an_error(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("scenarios.procedural.generator.MOST_DRAFTS", 3)
    file = tmp_path / "room.txt"
    file.write_text("E.......\n" * 5)
    call = ("generate", "--family", "maze", "--count", "1", "--seed", "1", "--map", file)
    assert "none of 3 drafts on room.txt is accepted" in refused(*call, "--out", tmp_path / "suite")
    assert "two maps have one name" in refused(*call, "--map", file, "--out", tmp_path / "suite")
    assert [path.name for path in tmp_path.iterdir()] == ["room.txt"]


# check-suite


def test_check_suite_says_what_it_finds(fresh, golden, tmp_path):
    folder, _ = golden[0]
    out = tmp_path / "check.parquet"
    result = fresh("check-suite", folder, "--seeds", "0:256", "--evidence-seeds", "0", "--out", out, "--json")
    assert result.code == 0, result.err
    assert [line["scenario_id"] for line in result.lines] == [e.scenario_id for e in load_suite(folder).suite.entries]
    for line in result.lines:
        assert line["seeds"] == 256
        assert line["rejections"] == line["duplicates"] == line["overlap"] == []
        assert line["applicable_share"] >= 0.75
        histogram = line["max_evacuated_histogram"]
        assert len(histogram) == line["people"] + 1
        assert sum(histogram) == 256
        assert sum(m * fires for m, fires in enumerate(histogram)) / 256 == line["mean_max_evacuated"]
        assert line["policies"]["always-stay-v1"]["evacuated"] == 0
        fixed, aware = (line["policies"][f"{name}-shortest-path-v1"] for name in ("static", "fire-aware"))
        assert fixed["evacuated"] < aware["evacuated"] <= line["mean_max_evacuated"]
        assert sum(aware.values()) == pytest.approx(line["people"])
        savable = line["mean_max_evacuated"] * 256
        assert sum(line["slack_histogram"]) + line["slack_never"] == round(savable)
        assert (line["evidence_seeds"], line["evidence"]) == (0, {})
    table = pq.read_table(out)
    assert table.num_rows == 4
    assert table.column("scenario_id").to_pylist() == [line["scenario_id"] for line in result.lines]
    assert table.column("fire-aware-shortest-path-v1.evacuated").to_pylist() == [
        line["policies"]["fire-aware-shortest-path-v1"]["evacuated"] for line in result.lines
    ]


def sub_suite(golden, folder, **copies):
    """Write a suite of some scenarios of the golden one, by the IDs they get."""
    source = load_suite(golden[0][0])
    entries = []
    for name, original in copies.items():
        scenario = Scenario.from_dict(source.scenarios[original].to_dict() | {"id": name})
        (entry,) = [entry for entry in source.suite.to_dict()["scenarios"] if entry["scenario_id"] == original]
        entries.append(entry | {"scenario_id": name, "scenario_hash": scenario.content_hash})
        write_canonical(folder / f"{name}.json", scenario.to_dict())
    suite = Suite.from_dict({"suite_version": "1.0", "suite_id": "some", "scenarios": entries})
    write_canonical(folder / "suite.json", suite.to_dict())


def test_evidence_is_that_of_the_score_over_the_first_fires(fresh, golden, tmp_path):
    from ember_ref.episode import run_episode
    from ember_ref.policies import make_policy
    from scoring.evidence import ReferenceImplementation, evidence_of

    sub_suite(golden, tmp_path, one="multiple_exits-2026-0")
    out = tmp_path / "check.parquet"
    call = ("check-suite", tmp_path, "--seeds", "0:6", "--evidence-seeds", "3", "--out", out, "--json")
    (line,) = fresh(*call).lines
    scenario = load_suite(tmp_path).scenarios["one"]
    policy = make_policy("fire-aware-shortest-path-v1", 0)
    records = [run_episode(scenario, seed, policy) for seed in range(3)]
    privileged = ReferenceImplementation().privileged(scenario, records)
    found = [evidence_of(scenario, *pair).to_dict() for pair in zip(records, privileged, strict=True)]
    assert line["evidence_seeds"] == 3
    for name in ("sum_earliest", "exit_bound", "time_bound", "sum_evacuation_steps", "route_invalidations"):
        assert line["evidence"][name] == pytest.approx(sum(one[name] for one in found) / 3)
    recoverable = sum(one["recoverable_route_invalidations"] > 0 for one in found) / 3
    assert line["evidence"]["recoverable_share"] == pytest.approx(recoverable)
    assert pq.read_table(out).column("time_bound").to_pylist() == [line["evidence"]["time_bound"]]


def test_the_summary_has_a_row_a_family_and_names_what_is_rejected(fresh, golden, tmp_path):
    folder, _ = golden[0]
    pictures = tmp_path / "pictures"
    result = fresh(
        "check-suite",
        folder,
        "--seeds",
        "0:128",
        "--evidence-seeds",
        "0",
        "--overlap",
        folder,
        "--pictures",
        pictures,
    )
    assert result.code == 1  # it overlaps with itself
    assert "multiple_exits" in result.out
    assert "maze-2026-1: is in the other suite as maze-2026-1" in result.err
    names = {path.name for path in pictures.iterdir()}
    assert names == {"contact-sheet.png", *(f"{e.scenario_id}.png" for e in load_suite(folder).suite.entries)}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures.iterdir())


def test_check_suite_refuses_a_bad_call(refused):
    assert "nowhere: cannot be read" in refused("check-suite", "nowhere")
    assert "not a seed" in refused("check-suite", "public-v1", "--seeds", "x")
    assert "policy 'fly' is unknown" in refused("check-suite", "public-v1", "--policy", "fly")


def test_forms_see_renamed_and_turned_scenarios(golden):
    from scenarios.procedural.canvas import turn_of

    suite = load_suite(golden[0][0])
    scenario = suite.scenarios["maze-2026-0"]
    document = scenario.to_dict()
    renamed = type(scenario).from_dict(
        document
        | {"id": "other", "description": "", "seed": 1}
        | {"people": [p | {"id": f"Q{i}"} for i, p in enumerate(reversed(document["people"]))]}
    )
    assert form_digest(renamed) == form_digest(scenario)
    height, width = scenario.grid.height, scenario.grid.width
    for turn in range(8):
        place = turn_of(turn, height, width)
        tall, wide = (width, height) if turn & 1 else (height, width)
        turned = type(scenario).from_dict(
            document
            | {
                "grid": {
                    "height": tall,
                    "width": wide,
                    "obstacles": [list(place(c)) for c in scenario.grid.obstacles],
                },
                "exits": [{"id": e.id, "position": list(place(e.position))} for e in scenario.exits],
                "people": [{"id": p.id, "position": list(place(p.position))} for p in scenario.people],
                "fire": document["fire"] | {"ignitions": [list(place(c)) for c in scenario.fire.ignitions]},
            }
        )
        assert symmetric_digest(turned) == symmetric_digest(scenario)
        assert (form_digest(turned) == form_digest(scenario)) == (turn == 0)
    slower = type(scenario).from_dict(document | {"termination": {"max_steps": 7}})
    assert symmetric_digest(slower) != symmetric_digest(scenario)


def test_a_suite_with_a_scenario_twice_fails(fresh, golden, tmp_path):
    sub_suite(golden, tmp_path, first="maze-2026-0", copy="maze-2026-0")
    result = fresh("check-suite", tmp_path, "--seeds", "0:128", "--evidence-seeds", "0")
    assert result.code == 1
    assert "copy: is the same as first" in result.err


# End to end


def test_a_pack_of_generated_scenarios_is_evaluated_and_scored(ember, golden, tmp_path):
    folder, _ = golden[0]
    pack, result, report = (tmp_path / name for name in ("pack.json", "result.json", "report.json"))
    policy, ref = "fire-aware-shortest-path-v1", ("--backend", "ref")
    assert ember("pack", "build", folder, "--seeds", "0:2", "--id", "p", "--out", pack, *ref).code == 0
    assert ember("evaluate", pack, "--policy", policy, "--out", result).code == 0
    scored = ember("score", result, "--pack", pack, "--out", report, "--json", *ref)
    assert scored.code == 0, scored.err
    interval = json.loads(report.read_bytes())["confidence_interval"]
    assert interval["lower"] < interval["upper"]


@pytest.mark.slow
def test_two_hundred_generated_scenarios_have_no_mismatch(ember, tmp_path):
    folder = tmp_path / "suite"
    made = ember("generate", "--family", "all", "--count", "20", "--seed", "1", "--size", "small", "--out", folder)
    assert made.code == 0, made.err
    assert len(load_suite(folder).suite.entries) == 20 * len(GENERATED)
    result = ember("verify", folder, "--seeds", "0:2", "--json")
    assert result.code == 0, result.err
    assert all(line["mismatches"] == 0 for line in result.lines)


@pytest.mark.slow
def test_the_oracle_accepts_the_same_bytes(fresh, tmp_path):
    folder = tmp_path / "suite"
    call = (*CALL[:5], "--count", "1", "--seed", "2026", "--size", "small", "--backend", "ref", "--out", folder)
    assert fresh(*call).code == 0
    for name in ("multiple_exits-2026-0.json", "maze-2026-0.json"):
        assert folder_digests(folder)[name] == GOLDEN[name]
