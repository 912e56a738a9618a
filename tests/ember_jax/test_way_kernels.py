"""The policies that look for ways around the fire, against their plain twins, in every form."""

from pathlib import Path

import pytest
from kernel_form import assert_one_kernel_for_every_platform
from rollout_twins import assert_random_scenarios_equal_plain, call_of

from ember_ref.scenario import load_scenario

SCENARIOS = Path(__file__).parents[1] / "vectors" / "scenarios"

pytestmark = [
    pytest.mark.usefixtures("form"),
    pytest.mark.parametrize("policy", ["fire-aware-shortest-path-v1", "congestion-aware-v1"]),
]


def test_random_scenarios_equal_the_plain_twin(policy):
    assert_random_scenarios_equal_plain([policy], range(80))


@pytest.mark.slow
def test_many_random_scenarios_equal_the_plain_twin(policy):
    assert_random_scenarios_equal_plain([policy], range(1000, 2000), most_people=12)


def test_the_call_is_one_kernel_and_lowers_for_every_platform(policy):
    kernel, size, arguments = call_of(load_scenario(SCENARIOS / "door-11.json"), policy)
    assert_one_kernel_for_every_platform(kernel, size, arguments)
