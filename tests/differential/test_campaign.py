"""Both implementations on scenarios that nobody has looked at, 1x2 to 64x64, with up to 60 people."""

import pytest
from strategies import random_scenario

from ember_jax.differential import ALL_POLICIES, compare
from ember_jax.world import WorldSize

SIZE = WorldSize(rows=64, cols=64, people=64, exits=8)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1300, 25))
def test_random_scenarios(start):
    for number in range(start, start + 25):
        scenario = random_scenario(number, max_side=64, max_people=60, max_steps=60)
        policies = [ALL_POLICIES[number % 12], ALL_POLICIES[(number // 12 + 6) % 12]]
        seeds = [number, 2**64 - 1 - number]
        differences = compare(scenario, seeds, policies, random_actions=1, policy_seed=number, size=SIZE)
        assert set(differences) == {None}, number
