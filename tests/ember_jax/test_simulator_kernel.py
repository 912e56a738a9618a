"""The fast step against its plain twin: every lane, every step, on maps, rules and intervals of all kinds."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ember_jax import simulator, simulator_kernel
from ember_jax.kernel import LANES
from ember_jax.movement import MOVED
from ember_jax.stream import join, split
from ember_jax.world import WorldSize, world_from_scenario
from ember_ref.scenario import EnterFire, FireModel, load_scenario
from scenarios.bundled import scenario_path

OPEN = load_scenario(scenario_path("v1-pub-04-multiple-exits"))
STEPS = 24


def variant(**changes):
    parts = {
        "fire": {"model", "spread_probability", "spread_interval", "exits_flammable"},
        "movement": {"enter_fire"},
        "termination": {"max_steps"},
    }
    made = {
        part: dataclasses.replace(getattr(OPEN, part), **{k: v for k, v in changes.items() if k in names})
        for part, names in parts.items()
    }
    return dataclasses.replace(OPEN, **made)


VARIANTS = {
    "bundled": OPEN,
    "blocked": variant(enter_fire=EnterFire.BLOCKED, spread_probability=0.9),
    "deterministic": variant(model=FireModel.DETERMINISTIC, spread_probability=None, exits_flammable=True),
    "interval": variant(spread_interval=3, spread_probability=0.6),
    "short": variant(max_steps=9),
    "certain": variant(spread_probability=1.0),
}


@functools.cache
def stepped(size):
    return jax.jit(lambda ground, state, action: simulator_kernel.step(ground, size, state, action))


@functools.cache
def started(size):
    return jax.jit(lambda ground, hi, lo: simulator_kernel.reset(ground, size, hi, lo))


plain_step = jax.jit(jax.vmap(simulator.step, in_axes=(None, 0, 0)))
plain_reset = jax.jit(jax.vmap(simulator.reset, in_axes=(None, 0, 0)))


def board(size, burning, cells):
    words = np.asarray(burning)[size.fire.margin : size.fire.margin + size.fire.words]
    bits = np.unpackbits(words.T.astype("<u4").copy().view(np.uint8), axis=1, bitorder="little")
    return bits[:, :cells].astype(bool)


def assert_equal(scenario, size, fast, plain):
    people = len(scenario.people)
    width, height = scenario.grid.width, scenario.grid.height
    cell = np.asarray(fast.cell)[:people].T
    assert np.array_equal(fast.step, plain.step)
    assert np.array_equal(cell // width, plain.people.row[:, :people])
    assert np.array_equal(cell % width, plain.people.col[:, :people])
    assert np.array_equal(np.asarray(fast.status)[:people].T, plain.people.status[:, :people])
    assert np.array_equal(board(size, fast.burning, height * width), plain.burning.reshape(LANES, -1))
    assert np.array_equal(join(*fast.fire_position), join(*plain.fire_position))
    assert np.array_equal(fast.done, plain.termination != simulator.RUNNING)
    assert np.array_equal(fast.fault, plain.fault)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_step_of_every_lane_is_that_of_the_plain_twin(name):
    scenario = VARIANTS[name]
    size = simulator_kernel.environment_size(scenario)
    ground = simulator_kernel.environment_ground(scenario, size)
    shape = WorldSize(
        rows=scenario.grid.height,
        cols=scenario.grid.width,
        people=len(scenario.people),
        exits=len(scenario.exits),
    )
    world = world_from_scenario(scenario, size=shape)
    hi, lo = split(np.arange(LANES, dtype=np.uint64) + np.uint64(2**40))
    fast, plain = started(size)(ground, hi, lo), plain_reset(world, hi, lo)
    assert_equal(scenario, size, fast, plain)
    generator = np.random.Generator(np.random.PCG64(5))
    actions = generator.integers(0, 5, size=(STEPS, LANES, shape.people))
    if name == "bundled":  # some lanes get an action that there is not
        actions[7, 3, 0], actions[9, 5:8, 1] = 5, -1
    for action in actions:
        padded = np.zeros((size.people, LANES), dtype=np.int8)
        padded[: shape.people] = action.T
        fast, events = stepped(size)(ground, fast, padded)
        plain, expected = plain_step(world, plain, action.astype(np.int32))
        assert_equal(scenario, size, fast, plain)
        people = slice(shape.people)
        assert np.array_equal(np.asarray(events.moved)[people].T, expected.movements.outcome == MOVED)
        assert np.array_equal(np.asarray(events.evacuated)[people].T, expected.evacuated)
        assert np.array_equal(np.asarray(events.cause)[people].T, expected.cause)
    assert name != "bundled" or np.asarray(fast.fault).sum() == 3  # of one lane the person had left
    assert name != "short" or np.asarray(fast.done).all()


def test_a_lane_can_be_started_again_while_others_go_on():
    scenario = VARIANTS["interval"]
    size = simulator_kernel.environment_size(scenario)
    ground = simulator_kernel.environment_ground(scenario, size)
    action = jnp.zeros((size.people, LANES), dtype=jnp.int8)
    seeds = np.arange(LANES, dtype=np.uint64)
    state = fresh = started(size)(ground, *split(seeds))
    for _ in range(4):
        state, _ = stepped(size)(ground, state, action)
    again = np.arange(LANES) % 3 == 0
    state = jax.tree.map(lambda old, new: jnp.where(again, new, old), state, fresh)
    for _ in range(5):
        state, _ = stepped(size)(ground, state, action)
    alone = fresh
    for _ in range(5):
        alone, _ = stepped(size)(ground, alone, action)
    assert np.asarray(state.step).tolist() == [5 if one else 9 for one in again]
    for mine, other in zip(jax.tree.leaves(state), jax.tree.leaves(alone), strict=True):
        assert np.array_equal(np.asarray(mine)[..., again], np.asarray(other)[..., again])


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_a_step_lowers_for_every_platform(platform):
    size = simulator_kernel.environment_size(OPEN)
    ground = simulator_kernel.environment_ground(OPEN, size)
    state = started(size)(ground, *split(np.arange(LANES, dtype=np.uint64)))
    action = np.zeros((size.people, LANES), dtype=np.int8)
    exported = jax.export.export(stepped(size), platforms=[platform])(ground, state, action)
    assert exported.platforms == (platform,)
