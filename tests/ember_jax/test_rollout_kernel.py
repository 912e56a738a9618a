import json
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember_jax import rollout, rollout_kernel
from ember_jax.fire_kernel import padded_seeds
from ember_jax.rollout_kernel import (
    FIRE_AWARE,
    MOST_PEOPLE,
    POLICIES,
    STATIC_POLICIES,
    rollout_ground,
    rollout_size,
    rollout_summaries,
    supports,
)
from ember_jax.simulator import ALL_RESOLVED, CASUALTY, EVACUATED
from ember_ref.scenario import Scenario, load_scenario

VECTORS = Path(__file__).parents[1] / "vectors"
STATIC = "static-shortest-path-v1"
FIELDS = ("steps", "termination", "status", "resolution_step", "exit_index", "cause", "cells_moved")
SEEDS = np.array([0, 1, 2**32, 2**64 - 1], dtype=np.uint64)


def _scenario(height, width, *, exits, people, ignitions=(), obstacles=(), blocked=False, **fire):
    return Scenario.from_dict(
        {
            "schema_version": "1.0",
            "id": "rollout",
            "description": "",
            "seed": 0,
            "grid": {"width": width, "height": height, "obstacles": [list(cell) for cell in obstacles]},
            "exits": [{"id": f"E{i}", "position": list(cell)} for i, cell in enumerate(exits)],
            "people": [{"id": f"P{i:02}", "position": list(cell)} for i, cell in enumerate(people)],
            "fire": {
                "model": "deterministic" if fire.get("probability", 0.3) is None else "stochastic",
                "ignitions": [list(cell) for cell in ignitions],
                "spread_interval": fire.get("interval", 1),
                "spread_probability": fire.get("probability", 0.3),
                "exits_flammable": fire.get("flammable", False),
            },
            "movement": {
                "enter_fire": "blocked" if blocked else "casualty",
                "conflict_resolution": "lowest_id_wins",
            },
            "termination": {"max_steps": fire.get("max_steps", 30)},
        }
    )


def _assert_equals_plain(scenario, policy, seeds=SEEDS):
    got = rollout_summaries(scenario, seeds, policy, whole_fire=True)
    (expected,) = rollout.rollouts(scenario, seeds, policy)
    for field in FIELDS:
        assert np.array_equal(getattr(got, field), getattr(expected, field)), field
    assert np.array_equal(got.stream_position, expected.fires.stream_position)
    assert np.array_equal(got.burned, expected.fires.burned)


def _assert_runs_come_out(lines, policies):
    compared = 0
    for vector in map(json.loads, lines):
        scenario = load_scenario(VECTORS / vector["scenario"])
        for run in vector["runs"]:
            if run["policy"] not in policies or not supports(scenario, run["policy"]):
                continue
            got = rollout_summaries(scenario, [run["seed"]], run["policy"])
            assert got.steps[0] == run["steps"], vector["scenario"]
            assert np.count_nonzero(got.status == EVACUATED) == run["evacuated"], vector["scenario"]
            assert np.count_nonzero(got.status == CASUALTY) == run["casualties"], vector["scenario"]
            assert (got.termination[0] == ALL_RESOLVED) == (run["termination_reason"] == "all_resolved")
            compared += 1
    return compared


def test_static_runs_of_the_vectors_come_out():
    lines = (VECTORS / "simulator.jsonl").read_text().splitlines()
    assert _assert_runs_come_out(lines[::4], STATIC_POLICIES) >= 40


def test_fire_aware_runs_of_the_vectors_come_out():
    lines = (VECTORS / "simulator.jsonl").read_text().splitlines()
    assert _assert_runs_come_out(lines[::16], [FIRE_AWARE]) >= 4


@pytest.mark.slow
def test_all_runs_of_the_vectors_come_out():
    lines = (VECTORS / "simulator.jsonl").read_text().splitlines()
    assert _assert_runs_come_out(lines, POLICIES) > 240


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_random_crowds_equal_the_plain_twin(data):
    height, width = 6, data.draw(st.integers(4, 9))
    cells = data.draw(st.permutations([(row, col) for row in range(height) for col in range(width)]))
    people = data.draw(st.integers(9, 12))
    scenario = _scenario(
        height,
        width,
        exits=cells[:2],
        people=cells[2 : 2 + people],
        ignitions=cells[20 : data.draw(st.integers(20, 21))],
        obstacles=cells[22:] if width == 4 else cells[30 : data.draw(st.integers(30, 36))],
        blocked=data.draw(st.booleans()),
        probability=data.draw(st.sampled_from([None, 0.1, 0.4])),
        interval=data.draw(st.integers(1, 2)),
        flammable=data.draw(st.booleans()),
    )
    _assert_equals_plain(scenario, data.draw(st.sampled_from(POLICIES)))


@pytest.mark.parametrize("number", [1, 32, 33, 64])
def test_masks_hold_every_number_of_people_up_to_64(number):
    people = [(row, col) for row in range(10) for col in range(1, 9)][:number]
    scenario = _scenario(10, 10, exits=[(0, 0), (9, 9)], people=people, ignitions=[(5, 0)], probability=0.1)
    assert supports(scenario, STATIC)
    _assert_equals_plain(scenario, STATIC)


def test_more_people_and_other_policies_are_left_to_the_plain_form():
    people = [(row, col) for row in range(10) for col in range(1, 9)][: MOST_PEOPLE + 1]
    scenario = _scenario(10, 10, exits=[(0, 0)], people=people)
    assert not supports(scenario, STATIC)
    assert not supports(_scenario(2, 2, exits=[(0, 0)], people=[(1, 1)]), "congestion-aware-v1")


def test_results_do_not_depend_on_the_batch_or_on_running_fires_on():
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    seeds = np.arange(2100, dtype=np.uint64)
    got = rollout_summaries(scenario, seeds, STATIC, threads=2)
    backwards = rollout_summaries(scenario, seeds[::-1], STATIC, whole_fire=True, threads=1)
    for field in FIELDS:
        assert np.array_equal(getattr(got, field), getattr(backwards, field)[::-1]), field
    assert got.burned is None
    assert got.stream_position is None


def test_scenarios_of_one_padded_size_share_a_compilation():
    before = rollout_kernel._ROLLOUTS.compilations
    for width, probability in ((5, 0.3), (9, None), (12, 0.0)):
        scenario = _scenario(4, width, exits=[(0, 0)], people=[(3, 3), (2, 2)], probability=probability)
        rollout_summaries(scenario, SEEDS, STATIC)
        rollout_summaries(scenario, SEEDS, "always-stay-v1")
    assert rollout_kernel._ROLLOUTS.compilations - before <= 1


@pytest.mark.parametrize("policy", [STATIC, FIRE_AWARE])
def test_the_call_is_one_kernel_and_lowers_for_every_platform(policy):
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    size = rollout_size(scenario, policy, whole_fire=False)
    seeds = padded_seeds(np.array([1], dtype=np.uint64), size.fire.tiles)
    arguments = (rollout_ground(scenario, size, policy), np.int32(1), *seeds)
    kernel = rollout_kernel._ROLLOUTS
    if jax.default_backend() == "cpu":
        text = kernel.compile(size, *arguments).as_text()
        assert text.count('inlineable="false",xla_cpu_small_call="true"') == 1
    with jax.enable_x64(True):
        for platform in ("cpu", "cuda", "tpu"):
            exported = jax.export.export(kernel.traceable(size), platforms=[platform])(*arguments)
            assert exported.platforms == (platform,)
