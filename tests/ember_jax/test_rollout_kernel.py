import json
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_form import assert_one_kernel_for_every_platform
from rollout_twins import (
    FIELDS,
    SEEDS,
    assert_equals_plain,
    assert_random_scenarios_equal_plain,
    call_of,
    make_scenario,
)

from ember_jax import rollout, rollout_kernel
from ember_jax.kernel import Kernel
from ember_jax.movement_kernel import MOST_PEOPLE
from ember_jax.rollout_kernel import POLICIES, rollout_summaries, supports
from ember_jax.simulator import ALL_RESOLVED, CASUALTY, EVACUATED
from ember_ref.scenario import load_scenario

VECTORS = Path(__file__).parents[1] / "vectors"
STAY, RANDOM, GREEDY, STATIC, FIRE_AWARE, CONGESTION_AWARE = POLICIES


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


@pytest.mark.parametrize("policy", [STATIC, GREEDY, RANDOM])
def test_runs_of_the_vectors_come_out(policy):
    lines = (VECTORS / "simulator.jsonl").read_text().splitlines()
    assert _assert_runs_come_out(lines[::8], [policy]) >= 10


@pytest.mark.slow
def test_all_runs_of_the_vectors_come_out():
    lines = (VECTORS / "simulator.jsonl").read_text().splitlines()
    assert _assert_runs_come_out(lines, [*POLICIES, f"adv-block-scrub.{CONGESTION_AWARE}"]) > 600


@pytest.mark.parametrize("policy", [STAY, RANDOM, GREEDY, STATIC])
def test_random_scenarios_equal_the_plain_twin(policy):
    assert_random_scenarios_equal_plain([policy], range(60))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_many_random_scenarios_equal_the_plain_twin(policy):
    assert_random_scenarios_equal_plain([policy], range(1000, 2000))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_random_crowds_equal_the_plain_twin(data):
    height, width = 6, data.draw(st.integers(4, 9))
    cells = data.draw(st.permutations([(row, col) for row in range(height) for col in range(width)]))
    people = data.draw(st.integers(9, 12))
    scenario = make_scenario(
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
    assert_equals_plain(scenario, data.draw(st.sampled_from([RANDOM, STATIC])))


@pytest.mark.parametrize("number", [1, 32, 33, 64])
def test_masks_hold_every_number_of_people_up_to_64(number):
    people = [(row, col) for row in range(10) for col in range(1, 9)][:number]
    scenario = make_scenario(10, 10, exits=[(0, 0), (9, 9)], people=people, ignitions=[(5, 0)], probability=0.1)
    assert supports(scenario, STATIC)
    assert_equals_plain(scenario, STATIC, size=None)


def test_more_people_and_unknown_policies_are_left_to_the_plain_form():
    people = [(row, col) for row in range(10) for col in range(1, 9)][: MOST_PEOPLE + 1]
    scenario = make_scenario(10, 10, exits=[(0, 0)], people=people)
    assert not supports(scenario, STATIC)
    assert not supports(make_scenario(2, 2, exits=[(0, 0)], people=[(1, 1)]), "scripted")


def test_a_scrubbed_policy_moves_people_like_its_own():
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    assert_equals_plain(scenario, f"adv-block-scrub.{STATIC}", size=None)


@pytest.mark.parametrize("policy", [STATIC, RANDOM])
def test_results_do_not_depend_on_the_batch(policy):
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    seeds = np.arange(2100, dtype=np.uint64)
    got = rollout_summaries(scenario, seeds, policy, threads=2)
    backwards = rollout_summaries(scenario, seeds[::-1], policy, threads=1)
    alone = rollout_summaries(scenario, seeds[2099:], policy)
    for field in FIELDS:
        assert np.array_equal(getattr(got, field), getattr(backwards, field)[::-1]), field
        assert np.array_equal(getattr(got, field)[2099:], getattr(alone, field)), field


def test_no_seeds_are_no_episodes():
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    assert rollout_summaries(scenario, np.zeros(0, dtype=np.uint64), STATIC).status.shape == (0, len(scenario.people))


@pytest.mark.parametrize("x64", [True, False])
def test_results_do_not_depend_on_the_users_64_bit_setting(x64):
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    got = rollout_summaries(scenario, SEEDS, RANDOM, policy_seed=2**64 - 1)
    with jax.enable_x64(x64):
        same = rollout_summaries(scenario, SEEDS, RANDOM, policy_seed=2**64 - 1)
    for field in FIELDS:
        assert np.array_equal(getattr(got, field), getattr(same, field)), field


def test_scenarios_of_one_padded_size_share_a_compilation(monkeypatch):
    kernel = Kernel(rollout_kernel._call)
    monkeypatch.setattr(rollout_kernel, "_ROLLOUTS", kernel)
    for width, probability in ((5, 0.3), (9, None), (12, 0.0)):
        scenario = make_scenario(4, width, exits=[(0, 0)], people=[(3, 3), (2, 2)], probability=probability)
        rollout_summaries(scenario, SEEDS, STATIC)
        rollout_summaries(scenario, SEEDS, STAY)
    assert kernel.compilations == 1


@pytest.mark.parametrize("policy", [STATIC, GREEDY, RANDOM])
def test_the_call_is_one_kernel_and_lowers_for_every_platform(policy):
    kernel, size, arguments = call_of(load_scenario(VECTORS / "scenarios" / "door-11.json"), policy)
    assert_one_kernel_for_every_platform(kernel, size, arguments)


@pytest.mark.parametrize("count", [1, 127, 129, 700])
def test_every_number_of_seeds_is_complete_and_in_order(count):
    # One step, a few, and the whole horizon: lanes end and start again at different times.
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    seeds = np.random.default_rng(count).integers(0, 2**64, count, dtype=np.uint64)
    got = rollout_summaries(scenario, seeds, STATIC, threads=1)
    assert got.status.shape == (count, len(scenario.people))
    expected = next(rollout.plain_rollouts(scenario, seeds, STATIC, tile=count))
    for field in FIELDS:
        assert np.array_equal(getattr(got, field), getattr(expected, field)), field


@pytest.mark.parametrize("interval", [1, 3, 40])
def test_lanes_start_again_between_two_spreads(interval):
    people = [(row, col) for row in range(4) for col in range(3)]
    scenario = make_scenario(
        9,
        9,
        exits=[(8, 8)],
        people=people[:8],
        ignitions=[(8, 0)],
        probability=0.4,
        interval=interval,
        max_steps=35,
    )
    seeds = np.arange(600, dtype=np.uint64)
    assert_equals_plain(scenario, RANDOM, seeds=seeds, threads=1)


def test_batches_of_rollouts_are_those_of_the_plain_form():
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    (fast,) = rollout.rollouts(scenario, SEEDS, STATIC)
    (plain,) = rollout.plain_rollouts(scenario, SEEDS, STATIC)
    for name, left, right in zip(fast._fields, fast, plain, strict=True):
        for a, b in zip(left, right, strict=True) if name == "fires" else [(left, right)]:
            assert np.array_equal(a, b), name
