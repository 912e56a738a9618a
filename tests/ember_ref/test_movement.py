import itertools
import random

import pytest

from ember_ref.grid import ACTIONS, Action, Grid, target_of
from ember_ref.movement import CONGESTION_BLOCKS, MoveOutcome, resolve
from ember_ref.scenario import EnterFire


def resolved(grid, positions, actions, *, burning=frozenset(), enter_fire=EnterFire.CASUALTY):
    movements = resolve(grid=grid, burning=burning, enter_fire=enter_fire, positions=positions, actions=actions)
    assert [m.person_id for m in movements] == sorted(positions)
    return {m.person_id: m.outcome for m in movements}


def by_elimination(grid, positions, actions, burning, enter_fire):
    """Resolve a step by the text of contract section 5 alone: strike out movers until nothing changes."""
    outcome, target = {}, {p: target_of(positions[p], actions[p]) for p in positions}
    for person in positions:
        if actions[person] is Action.STAY:
            outcome[person] = MoveOutcome.STAYED
        elif not grid.contains(target[person]):
            outcome[person] = MoveOutcome.BLOCKED_BOUNDARY
        elif target[person] in grid.obstacles:
            outcome[person] = MoveOutcome.BLOCKED_WALL
        elif enter_fire is EnterFire.BLOCKED and target[person] in burning:
            outcome[person] = MoveOutcome.BLOCKED_FIRE
    movers = [p for p in positions if p not in outcome]
    for person in movers:
        if min(p for p in movers if target[p] == target[person]) != person:
            outcome[person] = MoveOutcome.BLOCKED_CONFLICT
    going = [p for p in movers if p not in outcome]
    ahead = {p: next((o for o in positions if positions[o] == target[p]), None) for p in going}
    for person in going:
        at = ahead[person]
        for _ in going:
            at = at if at == person else ahead.get(at)
        if at == person:
            outcome[person] = MoveOutcome.BLOCKED_CYCLE
    moving = {p for p in going if p not in outcome}
    while stuck := {p for p in moving if ahead[p] is not None and ahead[p] not in moving}:
        moving -= stuck
    for person in positions:
        outcome.setdefault(person, MoveOutcome.MOVED if person in moving else MoveOutcome.BLOCKED_OCCUPIED)
    return outcome


@pytest.mark.parametrize("seed", range(8))
def test_dense_crowds_resolve_as_the_text_says(seed):
    dice = random.Random(seed)
    for _ in range(60):
        height, width = dice.randint(1, 4), dice.randint(2, 5)
        cells = [(r, c) for r in range(height) for c in range(width)]
        obstacles = frozenset(dice.sample(cells, dice.randint(0, 2)))
        free = [cell for cell in cells if cell not in obstacles]
        people = dice.sample(free, dice.randint(0, len(free)))
        names = dice.sample([f"P{i}" for i in range(1, 30)], len(people))
        positions = dict(zip(names, people, strict=True))
        actions = {name: dice.choice(ACTIONS) for name in names}
        burning = frozenset(dice.sample(cells, dice.randint(0, 2))) - set(people)
        enter_fire = dice.choice(list(EnterFire))
        grid = Grid(height=height, width=width, obstacles=obstacles)
        assert resolved(grid, positions, actions, burning=burning, enter_fire=enter_fire) == by_elimination(
            grid, positions, actions, burning, enter_fire
        )


def test_every_action_pair_of_two_neighbours():
    grid = Grid(height=3, width=4, obstacles=frozenset())
    positions = {"P2": (1, 1), "P10": (1, 2)}
    for left, right in itertools.product(ACTIONS, repeat=2):
        actions = {"P2": left, "P10": right}
        found = resolved(grid, positions, actions)
        assert found == by_elimination(grid, positions, actions, frozenset(), EnterFire.CASUALTY)
    assert resolved(grid, positions, {"P2": Action.EAST, "P10": Action.WEST}) == {
        "P2": MoveOutcome.BLOCKED_CYCLE,
        "P10": MoveOutcome.BLOCKED_CYCLE,
    }


@pytest.mark.parametrize("count", range(2, 5))
def test_the_lowest_id_wins_whatever_the_order_of_the_mapping(count):
    grid = Grid(height=3, width=3, obstacles=frozenset())
    sides = {"P2": ((0, 1), Action.SOUTH), "P10": ((2, 1), Action.NORTH), "P3": ((1, 0), Action.EAST),
             "P1": ((1, 2), Action.WEST)}  # fmt: skip
    for names in itertools.permutations(list(sides)[:count]):
        positions = {name: sides[name][0] for name in names}
        found = resolved(grid, positions, {name: sides[name][1] for name in names})
        assert [name for name, outcome in found.items() if outcome is MoveOutcome.MOVED] == [min(names)]


def test_nobody_and_the_congestion_blocks():
    grid = Grid(height=1, width=1, obstacles=frozenset())
    assert resolved(grid, {}, {}) == {}
    assert {str(outcome) for outcome in CONGESTION_BLOCKS} == {
        "blocked_occupied",
        "blocked_conflict",
        "blocked_cycle",
    }


def test_a_chain_of_1024_is_followed_without_recursion():
    grid = Grid(height=2, width=512, obstacles=frozenset())
    cells = [(0, c) for c in range(512)] + [(1, c) for c in reversed(range(512))]
    positions = {f"P{i:04}": cell for i, cell in enumerate(cells)}
    around = [*[Action.EAST] * 511, Action.SOUTH, *[Action.WEST] * 511, Action.NORTH]
    actions = dict(zip(positions, around, strict=True))
    assert set(resolved(grid, positions, actions).values()) == {MoveOutcome.BLOCKED_CYCLE}
    del positions["P0512"], actions["P0512"]
    assert set(resolved(grid, positions, actions).values()) == {MoveOutcome.MOVED}


def test_words_may_be_plain_strings():
    grid = Grid(height=1, width=3, obstacles=frozenset())
    positions = {"P1": (0, 0), "P2": (0, 2)}
    actions = {"P1": "stay", "P2": "west"}
    (first, second) = resolve(grid=grid, burning={(0, 1)}, enter_fire="blocked", positions=positions, actions=actions)
    assert (first.outcome, second.outcome) == (MoveOutcome.STAYED, MoveOutcome.BLOCKED_FIRE)
    assert [type(movement.action) for movement in (first, second)] == [Action, Action]
