import jax
import numpy as np
import pytest
from hypothesis import given, settings
from strategies import scenarios, seeds

from ember_jax.fire import fire_worlds, world_of
from ember_jax.world import WorldSize
from ember_ref.fire import NEVER, fire_world
from ember_ref.scenario import scenario_from_text

SIZE = WorldSize(rows=16, cols=16, people=16, exits=8)


def plain(scenario, evaluator_seeds, **options):
    array = np.array(evaluator_seeds, dtype=np.uint64)
    return fire_worlds(scenario, array, **{"size": SIZE, "tile": 4, **options})


def drawn(rows, probability, **rules):
    return scenario_from_text(rows, id="fire", model="stochastic", spread_probability=probability, **rules)


@settings(max_examples=40)
@given(scenario=scenarios(), seed=seeds)
def test_any_scenario_has_the_oracles_world_and_digest(scenario, seed):
    fires = plain(scenario, [seed, scenario.seed])
    for place, each in enumerate([seed, scenario.seed]):
        found, expected = world_of(scenario, each, fires, place), fire_world(scenario, each)
        assert found == expected
        assert found.digest == expected.digest


def test_a_fire_in_the_middle_spreads_to_both_sides_alike():
    fires = plain(drawn(["PE*.."], 1.0, max_steps=2, exits_flammable=True), [0])
    assert fires.ignition_step[0].tolist() == [[2, 1, 0, 1, 2]]


def test_fire_in_the_last_column_does_not_wrap():
    rows = ["." * 7 + "*", "." * 8, *["." * 8] * 5, "P......E"]
    steps = plain(drawn(rows, 1.0, max_steps=1), [0], size=None).ignition_step[0]
    assert np.argwhere(steps == 1).tolist() == [[0, 6], [1, 7]]
    assert steps[0, 0] == NEVER


def test_fire_does_not_enter_padding_and_come_back():
    # The only way round the wall leads over cells outside the 2x3 grid.
    steps = plain(drawn(["*#P", ".#E"], 1.0, max_steps=30), [0]).ignition_step[0]
    assert steps.tolist() == [[0, NEVER, NEVER], [1, NEVER, NEVER]]


def test_p_0_never_ignites_and_still_draws():
    fires = plain(drawn(["PE", ".*"], 0.0, max_steps=3), range(8))
    assert (fires.burned == 1).all()
    assert (fires.stream_position == 3).all()  # one candidate a step: the exit is not flammable


@pytest.mark.parametrize("probability", [2.0**-53, 2.0**-64])
def test_the_least_thresholds_are_1(probability):
    fires = plain(drawn(["PE", ".*"], probability, max_steps=1), range(8))
    assert (fires.burned == 1).all()


def test_a_cell_between_two_fires_has_two_draws():
    fires = plain(drawn(["*.*", "#P#", "#E#"], 0.5, max_steps=1), range(4000), tile=256)
    share = np.mean(fires.ignition_step[:, 0, 1] == 1)
    assert 0.72 < share < 0.78  # 3/4 give or take four deviations; one draw would make it 1/2
    assert (fires.stream_position == 2).all()


def test_the_end_seeds_have_worlds_of_their_own():
    scenario = drawn(["........"] * 7 + ["P..*...E"], 0.5, max_steps=9)
    fires = plain(scenario, [0, 1, 2**32, 2**63, 2**64 - 1])
    assert len({steps.tobytes() for steps in fires.ignition_step}) == 5


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_batch_changes_nothing(count):
    scenario = drawn(["........"] * 7 + ["P..*...E"], 0.3, max_steps=9)
    whole = plain(scenario, range(5))
    part = plain(scenario, range(count), tile=2)
    assert np.array_equal(part.ignition_step, whole.ignition_step[:count])
    backward = plain(scenario, range(count)[::-1])
    assert np.array_equal(backward.ignition_step[::-1], whole.ignition_step[:count])


def test_uncompiled_is_equal():
    scenario = drawn([".*.", "P.E"], 0.4, max_steps=3)
    expected = plain(scenario, [7], tile=1)
    with jax.disable_jit():
        found = plain(scenario, [7], tile=1)
    assert np.array_equal(found.ignition_step, expected.ignition_step)
    assert np.array_equal(found.stream_position, expected.stream_position)
