import jax
import numpy as np
import pytest
from hypothesis import given, settings
from strategies import scenarios

from ember_jax.world import WorldSize, padded_size, stack_worlds, world_from_scenario
from ember_ref.scenario import scenario_from_text


@settings(max_examples=60)
@given(scenario=scenarios())
def test_every_array_says_what_the_scenario_says_and_padding_nothing(scenario):
    world = world_from_scenario(scenario)
    grid = scenario.grid
    assert world.size == padded_size(scenario)
    cells = {tuple(cell) for cell in np.argwhere(world.floor).tolist()}
    assert cells == {cell for cell in grid.positions() if grid.is_open(cell)}
    assert {tuple(c) for c in np.argwhere(world.exit_cells).tolist()} == {e.position for e in scenario.exits}
    assert {tuple(c) for c in np.argwhere(world.ignitions).tolist()} == set(scenario.fire.ignitions)
    for index, exit in enumerate(scenario.exits):
        assert world.exit_index[exit.position] == index
    assert np.count_nonzero(world.exit_index >= 0) == len(scenario.exits)
    people = len(scenario.people)
    assert list(zip(world.person_row[:people], world.person_col[:people], strict=True)) == [
        person.position for person in scenario.people
    ]
    assert np.flatnonzero(world.person_valid).tolist() == list(range(people))
    assert np.flatnonzero(world.exit_valid).tolist() == list(range(len(scenario.exits)))
    assert sorted(person.id for person in scenario.people) == [person.id for person in scenario.people]


def test_dtypes_do_not_depend_on_the_global_64_bit_switch():
    scenario = scenario_from_text(["P.E"], id="x", max_steps=5)
    expected = [(np.asarray(field).dtype, np.shape(field)) for field in world_from_scenario(scenario)]
    with jax.enable_x64(not jax.config.jax_enable_x64):
        found = [(np.asarray(field).dtype, np.shape(field)) for field in world_from_scenario(scenario)]
    assert found == expected
    assert {str(dtype) for dtype, _ in found} == {"bool", "int32", "uint32"}


@pytest.mark.parametrize(
    ("probability", "halves"),
    [(0.0, [0, 0]), (1.0, [1 << 21, 0]), (0.5, [1 << 20, 0]), (2.0**-53, [0, 1]), (5e-324, [0, 1])],
)
def test_thresholds_at_the_ends(probability, halves):
    scenario = scenario_from_text(["P.E"], id="x", model="stochastic", spread_probability=probability, max_steps=5)
    assert world_from_scenario(scenario).threshold.tolist() == halves


def test_few_sizes_hold_every_scenario():
    sides = {padded_size(scenario_from_text(["PE" + "." * n], id="x", max_steps=1)).cols for n in range(511)}
    assert len(sides) <= 12
    small = scenario_from_text(["P.E"], id="a", max_steps=1)
    large = scenario_from_text(["P" * 9 + "E" * 3] + ["." * 12] * 20, id="b", max_steps=1)
    assert padded_size(small, large) == WorldSize(rows=24, cols=16, people=16, exits=4)


def test_stacked_worlds_have_a_leading_axis():
    scenario = scenario_from_text(["P.E"], id="x", max_steps=5)
    stacked = stack_worlds([world_from_scenario(scenario)] * 3)
    assert stacked.floor.shape[0] == 3
    assert stacked.max_steps.tolist() == [5, 5, 5]
