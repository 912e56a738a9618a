from pathlib import Path

import jax
import numpy as np
import pytest
from rollout_twins import assert_equals_plain, assert_random_scenarios_equal_plain, call_of, make_scenario

from ember_ref.scenario import load_scenario

POLICY = "fire-aware-shortest-path-v1"
SCENARIOS = Path(__file__).parents[1] / "vectors" / "scenarios"


@pytest.mark.usefixtures("form")
def test_random_scenarios_equal_the_plain_twin():
    assert_random_scenarios_equal_plain([POLICY], range(80))


@pytest.mark.slow
@pytest.mark.usefixtures("form")
def test_many_random_scenarios_equal_the_plain_twin():
    assert_random_scenarios_equal_plain([POLICY], range(1000, 2000), most_people=12)


@pytest.mark.usefixtures("form")
def test_people_without_a_way_stay_and_others_turn_round():
    # A wall with one door that burns early: who is behind it is trapped, who walks to it must turn round.
    wall = [(row, 5) for row in range(10) if row != 4]
    people = [(0, 3), (4, 1), (9, 4), (2, 7), (7, 7), (5, 4)]
    scenario = make_scenario(
        10, 10, exits=[(4, 9), (9, 0)], people=people, obstacles=wall, ignitions=[(3, 6)], probability=0.6
    )
    assert_equals_plain(scenario, POLICY, seeds=np.arange(600, dtype=np.uint64), threads=1)


@pytest.mark.usefixtures("form")
def test_the_call_is_one_kernel_and_lowers_for_every_platform():
    kernel, size, arguments = call_of(load_scenario(SCENARIOS / "door-11.json"), POLICY)
    if jax.default_backend() == "cpu":
        text = kernel.compile(size, *arguments).as_text()
        assert text.count('inlineable="false",xla_cpu_small_call="true"') == 1
    with jax.enable_x64(True):
        for platform in ("cpu", "cuda", "tpu"):
            exported = jax.export.export(kernel.traceable(size), platforms=[platform])(*arguments)
            assert exported.platforms == (platform,)
