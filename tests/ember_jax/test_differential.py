import dataclasses

import numpy as np
import pytest

from ember_jax import differential
from ember_jax.differential import (
    RandomActions,
    compare,
    person_difference,
    record_difference,
    table_difference,
    world_difference,
)
from ember_ref.episode import run_episode
from ember_ref.fire import NEVER, fire_world
from ember_ref.policies import make_policy
from ember_ref.references import references
from ember_ref.scenario import scenario_from_text

SCENARIO = scenario_from_text(
    ["P....E", "..*...", "P....P"], id="differ", model="stochastic", spread_probability=0.3, max_steps=9
)
RECORD = run_episode(SCENARIO, 3, make_policy("static-shortest-path-v1"))


def with_step(number, **changes):
    """Return the record with fields of one step changed."""
    steps = list(RECORD.steps)
    steps[number - 1] = dataclasses.replace(steps[number - 1], **changes)
    return dataclasses.replace(RECORD, steps=tuple(steps))


def with_person(people, **changes):
    return (dataclasses.replace(people[0], **changes), *people[1:])


def test_equal_worlds_and_records_have_no_difference():
    world = fire_world(SCENARIO, 3)
    assert world_difference(world, world) is None
    assert record_difference(RECORD, RECORD, "static") is None
    assert set(compare(SCENARIO, [3], ["always-stay-v1"], random_actions=1)) == {None}


def test_the_earliest_differing_cell_of_a_world_is_named():
    world = fire_world(SCENARIO, 3)
    steps = list(world.ignition_step)
    at = 1 * 6 + 2  # the ignition, so no earlier step can differ
    steps[at], steps[0] = 5, 7
    found = world_difference(world, dataclasses.replace(world, ignition_step=tuple(steps)))
    assert (found.seed, found.policy, found.step) == (3, "world", 0)
    assert (found.place, found.field, found.ref, found.jax) == ("[1, 2]", "ignition_step", 0, 5)


def test_the_first_differing_cell_of_a_table_is_named(monkeypatch):
    assert table_difference(SCENARIO, 3) is None
    honest = differential.layers

    def forged(scenario, seeds):
        for step, layer in honest(scenario, seeds):
            if step == 4:
                changed = layer.moves.copy()
                changed[0, 1, 0] ^= np.uint32(1)
                layer = layer._replace(moves=changed)  # noqa: PLW2901
            yield step, layer

    monkeypatch.setattr(differential, "layers", forged)
    found = table_difference(SCENARIO, 3)
    assert (found.policy, found.step, found.place, found.field) == ("references", 4, "[1, 0]", "M")
    assert found.ref != found.jax


def test_a_person_whose_references_differ_is_named(monkeypatch):
    ref = references(SCENARIO, 3)
    names = ("earliest_evacuation", "fewest_moves", "fewest_danger_states")
    values = {name: [getattr(person, name) for person in ref.people] for name in names}
    assert None not in values["fewest_moves"]
    assert person_difference(ref, values) is None
    values["fewest_moves"][2] += 1
    found = person_difference(ref, values)
    assert (found.place, found.field, found.jax - found.ref) == ("P3", "fewest_moves", 1)
    honest = differential.reference_summaries

    def forged(scenario, seeds):
        summaries = honest(scenario, seeds)
        summaries.fewest_moves[0, 0] = NEVER
        return summaries

    monkeypatch.setattr(differential, "reference_summaries", forged)
    first, *others = compare(SCENARIO, [3, 4], [])
    assert (first.seed, first.place, first.jax) == (3, "P1", None)
    assert others == [None]


def test_a_differing_stream_position_is_named():
    world = fire_world(SCENARIO, 3)
    other = dataclasses.replace(world, stream_position=world.stream_position + 2**32)
    found = world_difference(world, other)
    assert (found.place, found.field, found.jax - found.ref) == ("stream", "position", 2**32)


def test_a_differing_action_names_the_person():
    step = RECORD.steps[1]
    first = next(iter(step.actions))
    assert step.actions[first] == "east"
    found = record_difference(RECORD, with_step(2, actions={**step.actions, first: "west"}), "static")
    assert (found.step, found.place, found.field, found.ref, found.jax) == (2, "P1", "action", "east", "west")


def test_a_differing_outcome_names_the_person():
    movements = RECORD.steps[1].movements
    changed = (movements[0], dataclasses.replace(movements[1], outcome="stayed"), *movements[2:])
    found = record_difference(RECORD, with_step(2, movements=changed), "static")
    assert (found.step, found.place, found.ref, found.jax) == (2, "P2", str(movements[1].outcome), "stayed")


@pytest.mark.parametrize("where", ["initial", "later"])
def test_a_differing_state_names_the_person_and_the_coordinate(where):
    state = RECORD.initial_state if where == "initial" else RECORD.steps[0].state
    row, col = state.people[0].position
    moved = dataclasses.replace(state, people=with_person(state.people, position=(row, col + 9)))
    other = dataclasses.replace(RECORD, initial_state=moved) if where == "initial" else with_step(1, state=moved)
    found = record_difference(RECORD, other, "static")
    assert (found.step, found.place, found.ref, found.jax) == (where == "later", "P1", col, col + 9)


def test_a_missing_step_is_a_difference():
    shorter = dataclasses.replace(RECORD, steps=RECORD.steps[:-1])
    found = record_difference(RECORD, shorter, "static")
    assert (found.field, found.ref, found.jax) == ("steps", len(RECORD.steps), len(RECORD.steps) - 1)


def test_random_actions_are_a_function_of_their_number():
    runs = [run_episode(SCENARIO, 3, RandomActions(number)) for number in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
