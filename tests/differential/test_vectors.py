"""Every line of the vectors with the compiled twin; the largest grids and crowds are a slow campaign."""

import json
import pathlib

import numpy as np
import pytest

from ember_jax.fire import fire_worlds as plain_fire_worlds
from ember_jax.fire import world_of
from ember_jax.fire_kernel import fire_worlds
from ember_jax.rollout import records
from ember_jax.world import WorldSize
from ember_ref.record import load_action_log
from ember_ref.scenario import load_scenario

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
LINES = [json.loads(line) for line in (VECTORS / "simulator.jsonl").read_text().splitlines()]
# One padded size for the small ones, so that each policy compiles once for all of them.
SMALL = WorldSize(rows=24, cols=24, people=32, exits=8)


def fits(scenario):
    grid = scenario.grid
    needed = (grid.height, grid.width, len(scenario.people), len(scenario.exits))
    return all(need <= have for need, have in zip(needed, SMALL, strict=True))


def check_runs(line, size):
    scenario = load_scenario(VECTORS / line["scenario"])
    by_policy = {}
    for run in line["runs"]:
        by_policy.setdefault(run["policy"], []).append(run)
    for policy, runs in by_policy.items():
        seeds = np.array([run["seed"] for run in runs], dtype=np.uint64)
        found = records(scenario, seeds, policy, size=size, tile=2)
        for run, record in zip(runs, found, strict=True):
            assert (record.record_digest, record.trajectory_digest) == (
                run["record_digest"],
                run["trajectory_digest"],
            ), (policy, run["seed"])
    script = line["scripted"]
    seeds = np.array([script["run"]["seed"]], dtype=np.uint64)
    log = load_action_log(VECTORS / script["actions"])
    (record,) = records(scenario, seeds, "scripted", log=log, size=size, tile=1)
    assert record.record_digest == script["run"]["record_digest"]


def lines(*, small):
    return [line for line in LINES if fits(load_scenario(VECTORS / line["scenario"])) == small]


def name_of(line):
    return line["scenario"].split("/")[1]


@pytest.mark.parametrize("form", [fire_worlds, plain_fire_worlds], ids=["fast", "plain"])
def test_worlds(form):
    lines_of_form = LINES if form is fire_worlds else lines(small=True)
    for line in lines_of_form:
        scenario = load_scenario(VECTORS / line["scenario"])
        seeds = [world["seed"] for world in line["worlds"]]
        options = {} if form is fire_worlds else {"size": SMALL, "tile": 4}
        fires = form(scenario, np.array(seeds, dtype=np.uint64), **options)
        for place, world in enumerate(line["worlds"]):
            fire = world_of(scenario, world["seed"], fires, place)
            assert (fire.digest, fire.stream_position, fire.burned) == (
                world["fire_world_digest"],
                world["stream_position"],
                world["burned"],
            )


def test_small_runs():
    assert len(lines(small=True)) >= 30
    for line in lines(small=True):
        check_runs(line, SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("line", lines(small=False), ids=name_of)
def test_large_runs(line):
    check_runs(line, None)
