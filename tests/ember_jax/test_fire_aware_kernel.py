import numpy as np
import pytest
from rollout_twins import assert_equals_plain, call_of, make_scenario

from ember_jax import fire_aware_kernel
from ember_jax.fire_kernel import fire_size
from ember_jax.rollout_kernel import rollout_summaries
from ember_jax.world import WorldSize

POLICY = "fire-aware-shortest-path-v1"


@pytest.mark.usefixtures("form")
def test_people_without_a_way_stay_and_others_turn_round():
    # A wall with one door that burns early: who is behind it is trapped, who walks to it must turn round.
    wall = [(row, 5) for row in range(10) if row != 4]
    people = [(0, 3), (4, 1), (9, 4), (2, 7), (7, 7), (5, 4)]
    scenario = make_scenario(
        10, 10, exits=[(4, 9), (9, 0)], people=people, obstacles=wall, ignitions=[(3, 6)], probability=0.6
    )
    assert_equals_plain(scenario, POLICY, seeds=np.arange(600, dtype=np.uint64), threads=1)


def test_on_a_large_grid_ways_are_kept_crossed_out_and_made_anew():
    # A comb of walls with two openings each, the fire between them: some lanes lose one way, some all.
    height = width = 37
    walls = [
        (row, col)
        for col in range(4, width - 2, 4)
        for row in range(height)
        if row not in (2 + col % 8, 33 - col % 5)
    ]
    people = [(row, col) for row in (1, 17, 30) for col in (0, 9, 18, 27)]
    scenario = make_scenario(
        height,
        width,
        exits=[(0, 36), (36, 1)],
        people=people,
        obstacles=walls,
        ignitions=[(17, 2), (30, 19), (3, 35)],
        probability=0.4,
        max_steps=120,
    )
    size = WorldSize(rows=height, cols=width, people=len(people), exits=2)
    assert fire_size(scenario).words > fire_aware_kernel._SHORT
    seeds = np.arange(150, dtype=np.uint64)
    assert_equals_plain(scenario, POLICY, seeds=seeds, size=size)
    found = rollout_summaries(scenario, seeds, POLICY)
    assert len(np.unique(found.resolution_step, axis=0)) > 100  # the fires do come upon their ways


def test_the_guide_of_step_0_has_first_directions_and_the_cells_that_people_come_by():
    # From (2, 0) north comes before east, (1, 3) goes on east, (0, 2) has one way; (2, 2) is on nobody's.
    scenario = make_scenario(
        3, 5, exits=[(0, 4)], people=[(2, 0), (1, 3)], obstacles=[(1, 1), (1, 2)], ignitions=[(2, 4)]
    )
    _, _, (ground, *_) = call_of(scenario, POLICY)
    bits = [np.unpackbits(board.view(np.uint8), bitorder="little")[:15] for board in ground.guide]
    code = (bits[0] + 2 * bits[1] + 4 * bits[2]).reshape(3, 5)
    north, east, west = 1, 3, 4
    assert code.tolist() == [
        [east, east, east, east, 0],
        [north, 0, 0, north, north],
        [north, east, east, north, 0],
    ]
    assert west not in code
    assert bits[3].reshape(3, 5).tolist() == [[1, 1, 1, 1, 1], [1, 0, 0, 1, 0], [1, 0, 0, 0, 0]]
