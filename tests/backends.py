"""The two implementations behind one face, so that one test body runs on both."""

import jax
import numpy as np

from ember_jax import simulator
from ember_jax.fire import world_of
from ember_jax.fire_kernel import fire_worlds
from ember_jax.rollout import records
from ember_jax.stream import split
from ember_jax.world import world_from_scenario
from ember_ref.episode import run_episode
from ember_ref.fire import fire_world
from ember_ref.grid import ACTIONS
from ember_ref.policies import Scripted, make_policy
from ember_ref.record import ActionLog
from ember_ref.scenario import scenario_from_text
from ember_ref.simulator import Simulator


class Ref:
    """The oracle."""

    name = "ref"

    def run(self, scenario, seed, policy):
        return run_episode(scenario, seed, make_policy(policy))

    def script(self, scenario, seed, log):
        return run_episode(scenario, seed, Scripted(log))

    def fire(self, scenario, seed):
        return fire_world(scenario, seed)

    def fire_positions(self, scenario, seed, record, _size):
        simulator = Simulator(scenario, seed)
        positions = [simulator.fire_position]
        for step in record.steps:
            simulator.step(step.actions)
            positions.append(simulator.fire_position)
        return positions


class Jax:
    """The compiled twin."""

    name = "jax"

    def run(self, scenario, seed, policy):
        (record,) = records(scenario, np.array([seed], dtype=np.uint64), policy)
        return record

    def script(self, scenario, seed, log):
        (record,) = records(scenario, np.array([seed], dtype=np.uint64), "scripted", log=log)
        return record

    def fire(self, scenario, seed):
        return world_of(scenario, seed, fire_worlds(scenario, np.array([seed], dtype=np.uint64)), 0)

    def fire_positions(self, scenario, seed, record, size):
        world = world_from_scenario(scenario, size=size)
        state = _reset(world, *split(np.array(seed, dtype=np.uint64)))
        positions = [_joined(state.fire_position)]
        for step in record.steps:
            codes = np.zeros(size.people, dtype=np.int32)
            for index, person in enumerate(scenario.people):
                codes[index] = ACTIONS.index(step.actions.get(person.id, "stay"))
            state, _ = _step(world, state, codes)
            positions.append(_joined(state.fire_position))
        return positions


def _joined(position):
    return (int(position.hi) << 32) + int(position.lo)


_reset, _step = jax.jit(simulator.reset), jax.jit(simulator.step)


BACKENDS = [Ref(), Jax()]


def play(backend, rows, *steps, seed=0, **rules):
    """Play a text map for as many steps as there are actions, and return the run record.

    A step is the actions of the active people in ID order, as first letters: `"nw-"` is north, west, stay.
    """
    scenario = scenario_from_text(rows, id="play", max_steps=len(steps), **rules)
    letters = {"-": "stay", "n": "north", "s": "south", "e": "east", "w": "west"}
    ids = [person.id for person in scenario.people]
    actions = [
        {person: letters[letter] for person, letter in zip(ids, step, strict=True) if letter != "."} for step in steps
    ]
    log = ActionLog(scenario_hash=scenario.content_hash, seed=seed, actions=tuple(actions))
    return backend.script(scenario, seed, log)


def outcomes(record, step=1):
    """Return the outcome of each person in a step."""
    return {movement.person_id: str(movement.outcome) for movement in record.steps[step - 1].movements}


def statuses(record):
    """Return everybody's status at the end."""
    return {person.id: str(person.status) for person in record.final_state.people}


def causes(record):
    """Return the cause of each casualty."""
    return {casualty.person_id: str(casualty.cause) for step in record.steps for casualty in step.casualties}
