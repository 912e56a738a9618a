"""The fast rollouts beside their plain twin."""

import numpy as np
from strategies import random_scenario

from ember_jax import rollout, rollout_kernel
from ember_jax.rollout_kernel import rollout_ground, rollout_size, rollout_summaries
from ember_jax.world import WorldSize
from ember_ref.scenario import Scenario

FIELDS = ("steps", "termination", "status", "resolution_step", "exit_index", "cause", "cells_moved")
SEEDS = np.array([0, 1, 2**32, 2**64 - 1], dtype=np.uint64)
SIZE = WorldSize(rows=16, cols=16, people=16, exits=8)


def make_scenario(height, width, *, exits, people, ignitions=(), obstacles=(), blocked=False, **fire):
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


def assert_equals_plain(scenario, policy, *, seeds=SEEDS, size=SIZE, **options):
    got = rollout_summaries(scenario, seeds, policy, **options)
    options.pop("threads", None)
    (expected,) = rollout.plain_rollouts(scenario, seeds, policy, size=size, tile=len(seeds), **options)
    for field in FIELDS:
        assert np.array_equal(getattr(got, field), getattr(expected, field)), (scenario.id, policy, field)


def assert_random_scenarios_equal_plain(policies, numbers, *, most_people=8):
    for number in numbers:
        scenario = random_scenario(number, max_people=most_people)
        seeds = np.array([scenario.seed, 1, 2, 2**64 - 1], dtype=np.uint64)
        for policy in policies:
            options = {"policy_seed": 2**64 - number} if policy == "random-legal-v1" and number else {}
            assert_equals_plain(scenario, policy, seeds=seeds, **options)


def call_of(scenario, policy):
    """Return the kernel, its size and its arguments for one call."""
    size = rollout_size(scenario, policy)
    seeds = np.zeros(size.seeds, dtype=np.uint32)
    ground = rollout_ground(scenario, size, policy)
    return rollout_kernel._ROLLOUTS, size, (ground, np.int32(1), seeds, seeds)
