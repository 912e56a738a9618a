"""Trails against the snapshots of run records, and one kernel for every platform."""

import jax
import numpy as np
import pytest
from rollout_twins import make_scenario
from strategies import random_scenario

from ember_jax import trail_kernel
from ember_jax.fire_kernel import padded_seeds
from ember_jax.kernel import LANES
from ember_jax.rollout import plain_rollouts
from ember_jax.rollout_kernel import rollout_ground, rollout_size
from ember_jax.simulator import ACTIVE, CASUALTY, ENTERED_FIRE, EVACUATED, FIRE_SPREAD, NO_CASUALTY
from ember_jax.sweep import outcomes_of_trails
from ember_jax.trail_kernel import policy_trails
from ember_ref.episode import run_episode
from ember_ref.observation import PersonStatus
from ember_ref.policies import POLICY_NAMES, make_policy

SNAPSHOTS = 64


def snapshots(scenario, record):
    """Return where everybody active was: int[T, P], the number of cells for nobody."""
    nobody = scenario.grid.height * scenario.grid.width
    states = [record.initial_state, *(step.state for step in record.steps)]
    rows = np.full((SNAPSHOTS, len(scenario.people)), nobody)
    for number, state in enumerate(states):
        for index, person in enumerate(state.people):
            if person.status is PersonStatus.ACTIVE:
                rows[number, index] = person.position[0] * scenario.grid.width + person.position[1]
    return rows


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_trails_are_the_snapshots_of_the_records(policy):
    for number in (3, 11):
        scenario = random_scenario(number, max_side=12, max_people=8, max_steps=40)
        seeds = np.array([5, 2**64 - 1, *range(LANES)], dtype=np.uint64)
        found = policy_trails(scenario, seeds, policy, policy_seed=9, tiles=2, snapshots=SNAPSHOTS)
        people = len(scenario.people)
        for place in (0, 1, LANES + 1):
            record = run_episode(scenario, int(seeds[place]), make_policy(policy, 9))
            cell = found.cell[place // LANES, :, :people, place % LANES]
            assert np.array_equal(cell, snapshots(scenario, record))
            statuses = [person.status for person in record.final_state.people]
            assert found.evacuated[place].tolist() == [status is PersonStatus.EVACUATED for status in statuses]


def test_outcomes_of_trails_are_those_of_plain_rollouts():
    scenario = make_scenario(
        6, 9, exits=[(0, 8)], people=[(0, 5), (3, 3), (5, 0), (2, 0), (4, 5)], ignitions=[(3, 5)], max_steps=12
    )
    policy, seeds = "static-shortest-path-v1", np.arange(LANES + 40, dtype=np.uint64)
    kept = [
        policy_trails(scenario, part, policy, policy_seed=0, tiles=1, snapshots=SNAPSHOTS)
        for part in np.split(seeds, [LANES])
    ]
    found = outcomes_of_trails(kept)
    (expected,) = plain_rollouts(scenario, seeds, policy, tile=len(seeds))
    for name in found._fields:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    met = {*zip(found.status.flat, found.cause.flat, strict=True)}
    unhurt = {(ACTIVE, NO_CASUALTY), (EVACUATED, NO_CASUALTY)}
    assert met == unhurt | {(CASUALTY, ENTERED_FIRE), (CASUALTY, FIRE_SPREAD)}


@pytest.mark.parametrize("policy", ["static-shortest-path-v1", "congestion-aware-v1"])
def test_the_call_is_one_kernel_and_lowers_for_every_platform(policy):
    scenario = random_scenario(3, max_side=12, max_people=8, max_steps=40)
    size = rollout_size(scenario, policy)._replace(seeds=LANES)
    static = trail_kernel._Static(size, 2, SNAPSHOTS)
    seeds = padded_seeds(np.array([1], dtype=np.uint64), 2)
    arguments = (rollout_ground(scenario, size, policy), np.int32(1), *seeds)
    if jax.default_backend() == "cpu":
        text = trail_kernel._TRAILS.compile(static, *arguments).as_text()
        calls = [line for line in text.splitlines() if " call(" in line]
        assert sum('inlineable="false",xla_cpu_small_call="true"' in line for line in calls) == 1
    with jax.enable_x64(True):
        for platform in ("cpu", "cuda", "tpu"):
            exported = jax.export.export(trail_kernel._TRAILS.traceable(static), platforms=[platform])(*arguments)
            assert exported.platforms == (platform,)
