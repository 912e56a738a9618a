import pytest
from hypothesis import given, settings
from strategies import scenarios, seeds

from ember_ref.fire import NEVER, Fire, fire_world
from ember_ref.scenario import scenario_from_text
from ember_ref.stream import FIRE, Stream, threshold


def drawn(rows, **rules):
    return scenario_from_text(rows, id="fire", **({"max_steps": 10} | rules))


def burning_at(world, step):
    return {(i // world.width, i % world.width) for i, at in enumerate(world.ignition_step) if at <= step}


@pytest.mark.parametrize("model", [{"model": "stochastic", "spread_probability": 1.0}, {}])
def test_a_fire_in_the_middle_spreads_one_cell_a_step_to_both_sides(model):
    world = fire_world(drawn(["..*..", "P###E"], **model), 0)
    assert [burning_at(world, t) & {(0, c) for c in range(5)} for t in range(3)] == [
        {(0, 2)},
        {(0, 1), (0, 2), (0, 3)},
        {(0, c) for c in range(5)},
    ]


def test_a_fire_does_not_wrap_around_the_grid():
    scenario = drawn(["." * 7 + "*", *["." * 8] * 6, "P" + "." * 6 + "E"], model="stochastic", spread_probability=1.0)
    assert (0, 0) not in burning_at(fire_world(scenario, 0), 1)


def test_a_cell_between_two_fires_ignites_in_three_quarters_of_the_seeds():
    scenario = drawn(["*.*", "###", "P.E"], model="stochastic", spread_probability=0.5, max_steps=1)
    share = sum(fire_world(scenario, seed).at((0, 1)) == 1 for seed in range(2000)) / 2000
    assert 0.72 < share < 0.78


def test_every_draw_is_consumed_also_after_a_success_and_at_p_0_and_1():
    for probability in (0.0, 0.5, 1.0):
        scenario = drawn(["*.*", "###", "P.E"], model="stochastic", spread_probability=probability, max_steps=1)
        assert fire_world(scenario, 3).stream_position == 2


def test_a_deterministic_fire_consumes_no_word():
    assert fire_world(drawn(["*.P.E"]), 3).stream_position == 0


def test_draws_go_row_major_and_north_south_east_west():
    # Cells (0, 1) and (1, 0) each touch the two ignitions; (0, 1) draws words 0 and 1: its south, then its west.
    scenario = drawn(["*.", ".*", "##", "PE"], model="stochastic", spread_probability=0.5, max_steps=1)
    for seed in range(50):
        stream = Stream(FIRE, seed)
        draws = [stream.next() >> 11 < threshold(0.5) for _ in range(4)]
        world = fire_world(scenario, seed)
        assert (world.at((0, 1)) == 1) == any(draws[:2])
        assert (world.at((1, 0)) == 1) == any(draws[2:])


def test_the_least_probability_ignites_nothing_in_a_thousand_draws():
    scenario = drawn(["*....", "P...E"], model="stochastic", spread_probability=2.0**-53, max_steps=300)
    assert fire_world(scenario, 0).burned == 1


def test_a_world_without_ignitions_never_burns():
    world = fire_world(drawn(["P.E"], model="stochastic", spread_probability=1.0), 9)
    assert (set(world.ignition_step), world.stream_position, world.burned) == ({NEVER}, 0, 0)


@given(scenarios(), seeds)
@settings(max_examples=50)
def test_a_world_is_the_union_of_the_steps_and_obeys_the_candidates(scenario, seed):
    world, fire, stream = fire_world(scenario, seed), Fire(scenario), Stream(FIRE, seed)
    burning = set(scenario.fire.ignitions)
    for step in range(1, scenario.termination.max_steps + 1):
        ignited = fire.ignitions(burning, step, stream)
        assert ignited == sorted(cell for cell in scenario.grid.positions() if world.at(cell) == step)
        assert set(ignited) <= set(fire.candidates(burning))
        assert not ignited or step % scenario.fire.spread_interval == 0
        burning |= set(ignited)
    assert stream.position == world.stream_position


def test_a_long_horizon_costs_no_more_than_its_fire():
    world = fire_world(drawn(["*P.E", "...."], max_steps=65535, spread_interval=3), 0)
    assert world.burned == 7
    assert max(step for step in world.ignition_step if step != NEVER) == 12
    shut = drawn(["*#.", "##P", "E.."], model="stochastic", spread_probability=0.5, max_steps=65535)
    assert (fire_world(shut, 1).burned, fire_world(shut, 1).stream_position) == (1, 0)
    walls = drawn(["*.#P.E"], model="stochastic", spread_probability=0.01, max_steps=65535)
    world = fire_world(walls, 1)
    assert world.burned == 2
    assert world.stream_position == world.at((0, 1))  # one draw a step, up to the success
