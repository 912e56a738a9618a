from collections import deque

from hypothesis import given
from strategies import scenarios

from ember_ref.grid import ACTIONS, DIRECTIONS, Action, Grid, target_of


def test_the_action_order_and_the_compass():
    assert [str(action) for action in ACTIONS] == ["stay", "north", "south", "east", "west"]
    assert [target_of((5, 5), action) for action in ACTIONS] == [(5, 5), (4, 5), (6, 5), (5, 6), (5, 4)]
    assert DIRECTIONS == (Action.NORTH, Action.SOUTH, Action.EAST, Action.WEST)


def test_neighbours_are_open_in_bounds_and_in_order():
    grid = Grid(height=3, width=3, obstacles=frozenset({(1, 2)}))
    assert grid.neighbours((1, 1)) == [(0, 1), (2, 1), (1, 0)]
    assert grid.neighbours((0, 0)) == [(1, 0), (0, 1)]  # no index wraps around
    assert grid.neighbours((2, 2)) == [(2, 1)]
    assert Grid(height=1, width=1, obstacles=frozenset()).neighbours((0, 0)) == []


def test_open_is_in_bounds_and_no_obstacle():
    grid = Grid(height=2, width=3, obstacles=frozenset({(0, 1)}))
    assert [cell for cell in grid.positions() if grid.is_open(cell)] == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert not any(grid.contains(cell) for cell in ((-1, 0), (0, -1), (2, 0), (0, 3)))


def test_distances_go_around_walls_and_what_is_avoided():
    grid = Grid(height=2, width=4, obstacles=frozenset({(0, 1)}))
    assert grid.distances([(0, 0)]) == {
        (0, 0): 0, (1, 0): 1, (1, 1): 2, (1, 2): 3, (0, 2): 4, (1, 3): 4, (0, 3): 5,
    }  # fmt: skip
    assert grid.distances([(0, 0)], avoid={(1, 1)}) == {(0, 0): 0, (1, 0): 1}
    assert grid.distances([(0, 0)], avoid={(0, 0)}) == {}
    assert grid.distances([]) == {}


@given(scenarios())
def test_distances_are_the_least_over_the_sources(scenario):
    grid, burning = scenario.grid, frozenset(scenario.fire.ignitions)
    found = grid.distances([exit.position for exit in scenario.exits], avoid=burning)
    each = [_search(grid, exit.position, burning) for exit in scenario.exits if exit.position not in burning]
    reached = set().union(*each)
    assert found == {cell: min(d[cell] for d in each if cell in d) for cell in reached}


def _search(grid, source, avoid):
    distance, queue = {source: 0}, deque([source])
    while queue:
        cell = queue.popleft()
        for direction in DIRECTIONS:
            other = target_of(cell, direction)
            if grid.is_open(other) and other not in avoid and other not in distance:
                distance[other] = distance[cell] + 1
                queue.append(other)
    return distance
