"""Scenarios for tests: a seeded generator over all options, and hypothesis strategies on top of it."""

import random

from hypothesis import strategies as st

from ember_ref.grid import Grid
from ember_ref.scenario import (
    EnterFire,
    ExitSpec,
    FireModel,
    FireSpec,
    MovementSpec,
    PersonSpec,
    Scenario,
    TerminationSpec,
)


def random_scenario(number, *, max_side=12, max_people=12, max_steps=40):
    """Return scenario `number`: any option of the schema, at most the given sizes."""
    dice = random.Random(f"scenario {number}")
    while True:
        height, width = dice.randint(1, max_side), dice.randint(1, max_side)
        if height * width >= 2:
            break
    cells = [(row, col) for row in range(height) for col in range(width)]
    dice.shuffle(cells)
    exits = [cells.pop() for _ in range(min(dice.choice([1, 1, 2, 3, 5]), len(cells) - 1))]
    people = [cells.pop() for _ in range(min(dice.randint(1, max_people), len(cells)))]
    obstacles = [cells.pop() for _ in range(int(len(cells) * dice.choice([0, 0.1, 0.3])))]
    ignitions = [cells.pop() for _ in range(min(dice.choice([0, 1, 1, 2]), len(cells)))]
    flammable = dice.random() < 0.5
    if flammable and dice.random() < 0.2:
        ignitions.append(exits[0])
    stochastic = dice.random() < 0.8
    names = [f"P{i}" for i in range(1, len(people) + 1)]
    dice.shuffle(names)
    return Scenario(
        id=f"random-{number}",
        description="",
        seed=dice.randrange(2**64),
        grid=Grid(height=height, width=width, obstacles=frozenset(obstacles)),
        exits=tuple(ExitSpec(id=f"E{i}", position=cell) for i, cell in enumerate(exits)),
        people=tuple(PersonSpec(id=name, position=cell) for name, cell in zip(names, people, strict=True)),
        fire=FireSpec(
            model=FireModel.STOCHASTIC if stochastic else FireModel.DETERMINISTIC,
            ignitions=tuple(ignitions),
            spread_interval=dice.choice([1, 1, 2, 5]),
            spread_probability=dice.choice([0.0, 2.0**-53, 0.1, 0.3, 0.7, 1.0]) if stochastic else None,
            exits_flammable=flammable,
        ),
        movement=MovementSpec(enter_fire=dice.choice(list(EnterFire))),
        termination=TerminationSpec(max_steps=dice.randint(1, max_steps)),
    )


def scenarios(**sizes):
    """Return the strategy of random scenarios; a failing one is named by its number."""
    return st.integers(0, 2**32 - 1).map(lambda number: random_scenario(number, **sizes))


seeds = st.one_of(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
