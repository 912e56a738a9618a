"""Every line of the vectors, which two independent programs made (tests/vectors/README.md)."""

import json
import pathlib

import pytest

from ember_ref.canonical import canonical_bytes
from ember_ref.episode import run_episode
from ember_ref.fire import fire_world
from ember_ref.policies import Scripted, make_policy
from ember_ref.record import load_action_log, parse_record, replay_check
from ember_ref.scenario import load_scenario

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
LINES = [json.loads(line) for line in (VECTORS / "simulator.jsonl").read_text().splitlines()]


def summary(record, run):
    """Return what a vector says of a run, as far as `run` says it."""
    statuses = [str(person.status) for person in record.final_state.people]
    found = {
        "policy": run["policy"],
        "seed": record.header.seed,
        "record_digest": record.record_digest,
        "trajectory_digest": record.trajectory_digest,
        "steps": len(record.steps),
        "evacuated": statuses.count("evacuated"),
        "casualties": statuses.count("casualty"),
        "stranded": statuses.count("active"),
        "termination_reason": str(record.final_state.termination_reason),
    }
    return {key: found[key] for key in run}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["scenario"].split("/")[1])
def test_worlds(line):
    scenario = load_scenario(VECTORS / line["scenario"])
    for world in line["worlds"]:
        fire = fire_world(scenario, world["seed"])
        assert {
            "seed": world["seed"],
            "content_hash": scenario.content_hash,
            "fire_world_digest": fire.digest,
            "stream_position": fire.stream_position,
            "burned": fire.burned,
        } == world


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["scenario"].split("/")[1])
def test_runs_and_their_replay(line):
    scenario = load_scenario(VECTORS / line["scenario"])
    runs = [(run, make_policy(run["policy"])) for run in line["runs"]]
    script = line["scripted"]
    runs.append((script["run"], Scripted(load_action_log(VECTORS / script["actions"]))))
    for run, policy in runs:
        record = run_episode(scenario, run["seed"], policy)
        assert summary(record, run) == run
    # The form and the replay of one run a line; all have the same code behind them.
    read = parse_record(canonical_bytes(record.to_dict()) + b"\n")
    assert read == record
    replay_check(scenario, read)
