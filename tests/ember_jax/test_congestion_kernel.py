import jax
import jax.numpy as jnp
import pytest
from rollout_twins import assert_equals_plain, call_of, make_scenario

from ember_jax import congestion_kernel
from ember_jax.congestion_kernel import _follow, start_crowd
from ember_jax.movement_kernel import any_lane, start_people
from ember_jax.rollout_kernel import supports

POLICY = "congestion-aware-v1"


@pytest.mark.usefixtures("form")
def test_a_crowd_shares_exits_out_by_load_and_waits_for_taken_cells():
    # Nearly everybody stands nearest to one exit; some exits are behind a wall, one burns.
    people = [(row, col) for row in range(3, 7) for col in range(2)]
    scenario = make_scenario(
        9,
        9,
        exits=[(4, 3), (0, 8), (8, 8), (2, 0), (8, 0)],
        people=people,
        obstacles=[(7, 1), (7, 0), (1, 7), (0, 7), (1, 8)],
        ignitions=[(2, 0), (5, 5)],
        flammable=True,
        probability=0.2,
    )
    assert_equals_plain(scenario, POLICY)


@pytest.mark.usefixtures("form")
def test_a_grid_of_one_column_knows_north_from_west():
    scenario = make_scenario(
        12, 1, exits=[(0, 0), (11, 0)], people=[(5, 0), (6, 0), (2, 0)], ignitions=[(9, 0)], probability=0.4
    )
    assert_equals_plain(scenario, POLICY)


def test_a_bound_stays_a_bound_until_the_next_flood():
    # A person with a bound of 5 steps onto a cell whose own distance is exact: what is known there is 4 or more.
    scenario = make_scenario(1, 9, exits=[(0, 8)], people=[(0, 2)], probability=0.0)
    _, size, (ground, *_) = call_of(scenario, POLICY)

    @jax.jit
    def follow(ground):
        people = start_people(ground.person, ground.people)
        crowd = start_crowd(ground, size.fire)
        crowd = crowd._replace(reach=jnp.full_like(crowd.reach, 5 << 13 | 1 << 12), cell=crowd.cell - jnp.uint32(1))
        return _follow(ground, size.fire, jnp.int32(0), any_lane(people.active), people, crowd).reach[0, 0, 0]

    with jax.enable_x64(True):
        reach = int(follow(ground))
    assert reach >> 12 & 1
    assert reach >> 13 == 4
    assert reach & 15 == 4  # east


def test_too_many_exits_are_left_to_the_plain_form():
    cells = [(row, col) for row in range(40) for col in range(40)]
    few = make_scenario(40, 40, exits=cells[:30], people=cells[-1:])
    many = make_scenario(40, 40, exits=cells[: congestion_kernel.MOST_EXITS + 1], people=cells[-1:])
    assert supports(few, POLICY)
    assert not supports(many, POLICY)
