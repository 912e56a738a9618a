"""`world`, `run`, `replay`, `verify` and `import`, and what they refuse."""

import json
import pathlib
import subprocess
import sys
import time

import pytest

from ember_ref.canonical import canonical_bytes
from ember_ref.fire import fire_world
from ember_ref.record import load_record
from ember_ref.scenario import load_scenario
from scenarios.bundled import scenario_path

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
FLAT = "v1-pub-01-single-exit-low-density"
LINES = [json.loads(line) for line in (VECTORS / "simulator.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("backend", ["ref", "jax"])
def test_world_prints_the_vectors(ember, backend):
    line = next(line for line in LINES if "door-11" in line["scenario"])
    seeds = ",".join(str(world["seed"]) for world in line["worlds"])
    result = ember("world", VECTORS / line["scenario"], "--seeds", seeds, "--json", "--backend", backend)
    assert result.code == 0
    found = result.lines
    assert {entry.pop("scenario") for entry in found} == {str(VECTORS / line["scenario"])}
    assert found == line["worlds"]
    assert result.out.encode() == b"".join(canonical_bytes(json.loads(x)) + b"\n" for x in result.out.splitlines())


@pytest.mark.parametrize("backend", ["ref", "jax"])
def test_run_prints_the_vectors_and_writes_records(ember, tmp_path, backend):
    line = next(line for line in LINES if "gen-101-0001" in line["scenario"])
    scenario, run = VECTORS / line["scenario"], line["runs"][0]
    options = ("--seeds", run["seed"], "--policy", run["policy"], "--backend", backend)
    result = ember("run", scenario, *options, "--json", "--out", tmp_path)
    (found,) = result.lines
    del found["scenario"]
    assert found == run
    (file,) = tmp_path.iterdir()
    assert load_record(file).record_digest == run["record_digest"]
    replayed = ember("replay", file, "--scenario", scenario, "--json")
    assert replayed.code == 0
    assert replayed.lines == [
        {
            "record_digest": run["record_digest"],
            "trajectory_digest": run["trajectory_digest"],
            "verified": True,
        }
    ]


@pytest.mark.parametrize("backend", ["ref", "jax"])
def test_run_plays_an_action_log(ember, backend):
    line = next(line for line in LINES if "gen-101-0001" in line["scenario"])
    script = line["scripted"]
    options = ("--policy", "scripted", "--actions", VECTORS / script["actions"], "--backend", backend)
    result = ember("run", VECTORS / line["scenario"], "--seeds", script["run"]["seed"], *options, "--json")
    assert [entry["record_digest"] for entry in result.lines] == [script["run"]["record_digest"]]


def test_several_scenarios_in_one_process_and_their_own_seeds(ember):
    result = ember("world", FLAT, "v1-pub-10-maze", "--json")
    assert [(entry["scenario"], entry["seed"]) for entry in result.lines] == [(FLAT, 1), ("v1-pub-10-maze", 10)]


def test_a_table_on_a_terminal_names_the_columns(ember):
    result = ember("world", FLAT, "--seeds", "0:2")
    assert result.code == 0
    assert "fire world digest" in result.out


def test_verify_compares_both_backends(ember):
    result = ember(
        "verify", FLAT, "--seeds", "0:3", "--policy", "static-shortest-path-v1", "--random-actions", 2, "--json"
    )
    assert result.code == 0
    assert result.lines == [{"scenario": FLAT, "episodes": 8, "mismatches": 0, "first": None}]


def test_verify_reports_the_first_difference(ember, monkeypatch):
    # A fault planted in the compiled path only: the fire of another seed.
    from ember_jax import differential

    honest = differential.fire_worlds
    monkeypatch.setattr(differential, "fire_worlds", lambda scenario, seeds: honest(scenario, seeds + 1))
    result = ember("verify", FLAT, "--seeds", "0:2", "--policy", "always-stay-v1", "--json")
    assert result.code == 1
    (line,) = result.lines
    assert line["mismatches"] == 2
    ref, other = (fire_world(load_scenario(scenario_path(FLAT)), seed) for seed in (0, 1))
    cells = [min(a, b) for a, b in zip(ref.ignition_step, other.ignition_step, strict=True) if a != b]
    assert line["first"]["step"] == min(cells)
    assert line["first"]["field"] == "ignition_step"
    assert {"seed", "policy", "step", "place", "field", "ref", "jax"} == line["first"].keys()


# Seeds.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-1", "'-1' is not a seed"),
        ("18446744073709551616", "is not a seed, an integer from 0 to 2^64 - 1"),
        ("1.0", "'1.0' is not a seed"),
        ("true", "'true' is not a seed"),
        ("1,1", "seed 1 is given twice"),
        ("5:5", "an empty range"),
        ("9:3", "an empty range"),
        ("", "'' is not a seed"),
        ("@missing", "cannot be read"),
    ],
)
def test_bad_seeds(refused, text, message):
    assert message in refused("world", FLAT, "--seeds", text)


def test_seeds_from_a_file_and_the_last_seed(ember, refused, tmp_path):
    file = tmp_path / "seeds"
    file.write_text("7\n18446744073709551615\n")
    result = ember("world", FLAT, "--seeds", f"@{file}", "--json")
    assert [entry["seed"] for entry in result.lines] == [7, 2**64 - 1]
    result = ember("world", FLAT, "--seeds", f"{2**64 - 2}:{2**64}", "--json")
    assert [entry["seed"] for entry in result.lines] == [2**64 - 2, 2**64 - 1]
    file.write_text("7\nx\n")
    assert "line 2: 'x' is not a seed" in refused("world", FLAT, "--seeds", f"@{file}")


# Bad input.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"seed":1,"seed":2}', "duplicate key 'seed'"),
        (b'{"seed":NaN}', "NaN is not a JSON number"),
        (b"\xef\xbb\xbf{}", "byte-order mark"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5000, "an integer with too many digits"),
        (b"{}", "grid: missing"),
        (b"", "not JSON"),
    ],
)
def test_bad_scenario_files_give_one_clear_error_in_two_seconds(refused, tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    start = time.monotonic()
    text = refused("run", path, "--policy", "always-stay-v1", "--out", tmp_path / "records")
    assert message in text
    assert str(path) in text
    assert time.monotonic() - start < 2
    assert not (tmp_path / "records").exists()


def test_a_file_of_100_mb_is_refused_at_once(refused, tmp_path):
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    start = time.monotonic()
    assert "larger than 16777216 bytes" in refused("world", path)
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", FLAT, "--policy", "fastest"), "policy 'fastest' is unknown"),
        (("run", FLAT, "--policy", "scripted"), "--policy scripted and --actions LOG go together"),
        (("run", FLAT, "--policy", "random-legal-v1", "--policy-seed", "-1"), "seed -1 is not an integer"),
        (("run", FLAT), "policy"),
        (("world", "nowhere"), "scenario 'nowhere' is not bundled"),
        (("world", "no/such/file.json"), "cannot be read: No such file"),
        (("world", FLAT, "--backend", "cuda"), "--backend"),
        (("world", FLAT, "--wat"), "--wat"),
        (("dance",), "dance"),
        (("verify", "public-v9"), "'public-v9' is not bundled"),
    ],
)
def test_bad_calls(refused, arguments, message):
    assert message in refused(*arguments)


def test_an_action_log_of_another_scenario_is_refused(refused):
    log = VECTORS / "scenarios" / "door-11.actions"
    text = refused("run", FLAT, "--policy", "scripted", "--actions", log)
    assert "the action log is of scenario" in text


def test_damaged_records(ember, tmp_path):
    ember("run", FLAT, "--policy", "random-legal-v1", "--seeds", "0:2", "--out", tmp_path)
    first, second = sorted(tmp_path.iterdir())
    document, other = json.loads(first.read_text()), json.loads(second.read_text())
    damaged = tmp_path / "damaged.json"

    def replay(content):
        damaged.write_bytes(content)
        return ember("replay", damaged, "--scenario", FLAT, "--json")

    flipped = first.read_bytes().replace(b'"outcome":"moved"', b'"outcome":"movef"', 1)
    assert replay(flipped).code == 2
    removed = {**document, "steps": document["steps"][:1] + document["steps"][2:]}
    spliced = {**document, "steps": document["steps"][:1] + other["steps"][1:]}
    for content in (removed, spliced):
        result = replay(canonical_bytes(content) + b"\n")
        assert result.code == 1
        assert result.lines[0]["verified"] is False
        assert "step 2" in result.err
    result = replay(json.dumps(document).encode())
    assert (result.code, "not canonical JSON" in result.err) == (2, True)


# Import.


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (("movingai/random-32-32-20.map", "--exit", "0,0", "--ignite", "20,20"), (32, 32)),
        (("movingai/den312d.map", "--exit", "2,5", "--ignite", "60,40"), (81, 65)),
        (("mesa-fire/floorplan_1.txt", "--ignite", "25,25"), (50, 50)),
    ],
)
def test_import_of_real_maps_and_a_verified_sweep(ember, tmp_path, arguments, size):
    out = tmp_path / "map.json"
    name, *options = arguments
    result = ember(
        "import", VECTORS / "maps" / name, *options, "--people", 8, "--max-steps", 60, "--out", out, "--json"
    )
    assert result.code == 0, result.err
    scenario = load_scenario(out)
    assert result.lines == [{"scenario_id": scenario.id, "content_hash": scenario.content_hash, "file": str(out)}]
    assert (scenario.grid.height, scenario.grid.width) == size
    assert out.read_bytes() == canonical_bytes(scenario.to_dict()) + b"\n"
    swept = ember("sweep", out, "--seeds", "0:20", "--verify", 2, "--out", tmp_path / "sweep", "--json")
    assert (swept.code, swept.lines[0]["mismatches"]) == (0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--people", 3), "exits: 0 entries, fewer than 1"),
        (("--people", 3, "--exit", "0;0"), "--exit '0;0': expected ROW,COL"),
        (("--people", 5000, "--exit", "0,0"), "5000 people, but only"),
        (("--exit", "0,0"), "people: 0 entries, fewer than 1"),
        (("--people", 3, "--exit", "0,10"), "exits[0].position: on an obstacle"),
        (("--scen", "x.scen", "--exit", "0,0"), "--scen needs --people N"),
        (("--people", 3, "--exit", "0,0", "--probability", "2"), "spread_probability: 2.0 is not a number"),
    ],
)
def test_imports_that_cannot_be(refused, tmp_path, options, message):
    out = tmp_path / "out.json"
    path = VECTORS / "maps" / "movingai" / "random-32-32-20.map"
    assert message in refused("import", path, *options, "--out", out)
    assert not out.exists()


# The process.


def test_a_closed_pipe_and_an_error_leave_no_traceback():
    command = f"{sys.executable} -m ember_cli.main world {FLAT} --seeds 0:3000 --backend ref --json | head -1"
    script = f"{command}; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert result.returncode == 0
    assert json.loads(result.stdout)["seed"] == 0


def test_two_scenarios_of_one_id_do_not_overwrite_each_others_records(refused, tmp_path):
    other = tmp_path / "other.json"
    document = json.loads(scenario_path(FLAT).read_text())
    document["fire"]["spread_probability"] = 0.9
    other.write_text(json.dumps(document))
    text = refused("run", FLAT, other, "--policy", "always-stay-v1", "--out", tmp_path / "records")
    assert f"two scenarios have the ID {FLAT}" in text
    assert not (tmp_path / "records").exists()


def test_verify_takes_several_targets(ember):
    options = ("--seeds", "0", "--policy", "always-stay-v1", "--json")
    result = ember("verify", FLAT, "v1-pub-10-maze", *options)
    assert [line["scenario"] for line in result.lines] == [FLAT, "v1-pub-10-maze"]


@pytest.mark.parametrize(
    "command", [("verify", FLAT), ("pack", "build", "public-v1", "--id", "x", "--out", "x.json")]
)
def test_ranges_that_cannot_be_held_are_refused_at_once(refused, command):
    start = time.monotonic()
    assert "at most 1000000" in refused(*command, "--seeds", "0:18446744073709551616")
    assert time.monotonic() - start < 2


def test_a_sweep_without_end_is_refused(refused, tmp_path):
    text = refused("sweep", FLAT, "--seeds", "0:18446744073709551616", "--out", tmp_path / "s")
    assert "rows, more than 100000000000" in text
    assert not (tmp_path / "s").exists()


def test_a_map_without_ignition_is_imported_with_a_warning(ember, tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("P.E\n")
    result = ember("import", path, "--out", tmp_path / "out.json", "--json")
    assert result.code == 0
    assert "nothing in it ever burns" in result.err
