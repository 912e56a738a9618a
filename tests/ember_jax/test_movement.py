import random

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import random_scenario

from ember_jax import movement
from ember_jax.world import WorldSize, world_from_scenario
from ember_ref.grid import ACTIONS
from ember_ref.movement import resolve

SIZE = WorldSize(rows=8, cols=8, people=16, exits=8)
compiled = jax.jit(movement.resolve)


def crowd(number):
    """Return a scenario, positions of a dense crowd, who is active, a burning set and actions."""
    dice = random.Random(f"crowd {number}")
    scenario = random_scenario(number, max_side=6, max_people=12)
    cells = [cell for cell in scenario.grid.positions() if scenario.grid.is_open(cell)]
    ids = [person.id for person in scenario.people]
    positions = dict(zip(ids, dice.sample(cells, len(ids)), strict=True))
    active = {person for person in ids if dice.random() < 0.9}
    burning = {cell for cell in cells if dice.random() < 0.15}
    actions = {person: dice.choice(ACTIONS) for person in ids}
    return scenario, positions, active, burning, actions


@settings(max_examples=150)
@given(number=st.integers(0, 2**32 - 1))
def test_any_crowd_has_the_oracles_targets_and_outcomes(number):
    scenario, positions, active, burning, actions = crowd(number)
    ids = list(positions)
    expected = resolve(
        grid=scenario.grid,
        burning=burning,
        enter_fire=scenario.movement.enter_fire,
        positions={person: positions[person] for person in ids if person in active},
        actions={person: actions[person] for person in ids if person in active},
    )
    place = np.zeros((SIZE.people, 2), dtype=np.int32)
    place[: len(ids)] = [positions[person] for person in ids]
    acts = np.zeros(SIZE.people, dtype=bool)
    acts[: len(ids)] = [person in active for person in ids]
    action = np.zeros(SIZE.people, dtype=np.int32)
    action[: len(ids)] = [ACTIONS.index(actions[person]) for person in ids]
    fire = np.zeros((SIZE.rows, SIZE.cols), dtype=bool)
    for cell in burning:
        fire[cell] = True
    world = world_from_scenario(scenario, size=SIZE)
    found = compiled(world, *map(jnp.asarray, (fire, place[:, 0], place[:, 1], acts, action)))
    assert [m.person_id for m in expected] == [person for person in ids if person in active]
    for each in expected:
        at = ids.index(each.person_id)
        assert (int(found.target_row[at]), int(found.target_col[at])) == each.target
        assert movement.OUTCOMES[int(found.outcome[at])] == each.outcome
