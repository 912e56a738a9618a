import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from backends import Jax, Ref, outcomes, play
from strategies import random_scenario

from ember_jax import fire, rollout, simulator
from ember_jax.differential import ALL_POLICIES, RandomActions, action_log, compare
from ember_jax.fire_kernel import fire_worlds
from ember_jax.policies import ANY_POLICY, make_policy
from ember_jax.rollout import records, rollouts
from ember_jax.stream import Uint64, split
from ember_jax.world import (
    WorldSize,
    observation_from_arrays,
    padded_size,
    stack_worlds,
    world_from_scenario,
)
from ember_ref import policies as oracle_policies
from ember_ref.episode import run_episode
from ember_ref.errors import EmberError, SimulationError
from ember_ref.fire import Fire
from ember_ref.policies import SCRUB_PREFIX
from ember_ref.scenario import scenario_from_text
from ember_ref.simulator import Simulator
from ember_ref.stream import FIRE, Stream

SIZE = WorldSize(rows=16, cols=16, people=16, exits=8)
SEEDS = [0, 1, 2**63, 2**64 - 1]


def array(seeds):
    return np.array(seeds, dtype=np.uint64)


@pytest.mark.parametrize("policy", ALL_POLICIES[:6])
def test_random_scenarios_have_the_oracles_records(policy):
    for number in range(25):
        scenario = random_scenario(number)
        found = records(scenario, array(SEEDS), policy, policy_seed=number, size=SIZE, tile=4)
        for seed, record in zip(SEEDS, found, strict=True):
            expected = run_episode(scenario, seed, oracle_policies.make_policy(policy, number))
            assert record == expected, (number, seed)
            assert record.record_digest == expected.record_digest


def test_scrubbed_policies_and_random_logs_have_the_oracles_records():
    for number in range(8):
        scenario = random_scenario(100 + number)
        policies = [ALL_POLICIES[6 + number % 6]]
        assert set(compare(scenario, SEEDS[:2], policies, random_actions=2)) == {None}


def test_policies_that_share_one_compilation_have_the_oracles_records():
    rollout._segments.clear_cache()
    for number, policy in enumerate((*ALL_POLICIES, 2 * SCRUB_PREFIX + "congestion-aware-v1")):
        scenario = random_scenario(300 + number)
        found = records(scenario, array(SEEDS), policy, policy_seed=number, size=SIZE, shared=True)
        for seed, record in zip(SEEDS, found, strict=True):
            expected = run_episode(scenario, seed, oracle_policies.make_policy(policy, number))
            assert record.record_digest == expected.record_digest, (scenario.id, policy)
    assert rollout._segments._cache_size() == 1


def test_outcomes_are_those_of_the_records():
    scenario = random_scenario(7)
    (batch,) = rollouts(scenario, array(SEEDS), "random-legal-v1", size=SIZE, tile=4)
    for place, seed in enumerate(SEEDS):
        record = run_episode(scenario, seed, oracle_policies.make_policy("random-legal-v1"))
        assert batch.steps[place] == len(record.steps)
        evacuated = {e.person_id: step.step for step in record.steps for e in step.evacuations}
        lost = {c.person_id: step.step for step in record.steps for c in step.casualties}
        resolution = [(evacuated | lost).get(person.id, 0) for person in scenario.people]
        assert batch.resolution_step[place].tolist() == resolution
        moved = [
            sum(m.outcome == "moved" for step in record.steps for m in step.movements if m.person_id == person.id)
            for person in scenario.people
        ]
        assert batch.cells_moved[place].tolist() == moved
        assert (batch.status[place] == simulator.EVACUATED).sum() == len(evacuated)


def test_padding_batch_and_order_change_nothing():
    scenario, policy = random_scenario(3), "congestion-aware-v1"
    expected = [record.record_digest for record in records(scenario, array(SEEDS), policy)]
    larger = WorldSize(rows=24, cols=32, people=32, exits=8)
    for options in ({"size": larger}, {"tile": 1}, {"tile": 3}):
        assert [r.record_digest for r in records(scenario, array(SEEDS), policy, **options)] == expected
    backward = [r.record_digest for r in records(scenario, array(SEEDS[::-1]), policy)]
    assert backward == expected[::-1]


@pytest.mark.parametrize("people", ["P", "PP"])
@pytest.mark.parametrize("batch", [1, 2])
def test_one_or_two_people_in_a_batch_of_one_or_two(people, batch):
    scenario = scenario_from_text([people.ljust(4, ".") + "E", "...*."], id="few", max_steps=9)
    found = list(records(scenario, array(range(batch)), "static-shortest-path-v1"))
    assert found == [
        run_episode(scenario, seed, oracle_policies.make_policy("static-shortest-path-v1")) for seed in range(batch)
    ]


def test_people_in_the_last_cell_are_not_touched_by_padded_people():
    scenario = scenario_from_text(["." * 8] * 7 + ["E" + "." * 6 + "P"], id="corner", max_steps=3)
    (record,) = records(scenario, array([0]), "always-stay-v1")
    assert record.final_state.people[0].position == (7, 7)


def test_horizons_1_and_50_in_one_batch_of_worlds_freeze_apart():
    short = scenario_from_text(["P.....E"], id="short", max_steps=1)
    long = dataclasses.replace(short, termination=dataclasses.replace(short.termination, max_steps=50))
    worlds = stack_worlds([world_from_scenario(short), world_from_scenario(long)])
    policy = make_policy("static-shortest-path-v1")

    def run(world, fires):
        plan = policy.prepare(world, Uint64(jnp.uint32(0), jnp.uint32(0)))
        return rollout.episode(world, policy, plan, fires)

    never = jnp.full((2, 8, 8), 0xFFFFFFFF, dtype=jnp.uint32)
    end = jax.vmap(run)(worlds, never)
    assert end.step.tolist() == [1, 6]
    assert end.people.status[:, 0].tolist() == [simulator.ACTIVE, simulator.EVACUATED]


def test_fires_of_stacked_worlds_are_each_ones_own():
    scenarios = [random_scenario(number) for number in range(6)]
    size = padded_size(*scenarios)
    worlds = stack_worlds([world_from_scenario(scenario, size=size) for scenario in scenarios])
    hi, lo = split(array([s.seed for s in scenarios]))
    seeds = fire.stream_seed("fire", hi, lo)
    found = jax.jit(jax.vmap(fire.fire_world))(worlds, seeds)
    for place, scenario in enumerate(scenarios):
        expected = fire_worlds(scenario, array([scenario.seed])).ignition_step[0]
        height, width = expected.shape
        assert np.array_equal(found.ignition_step[place, :height, :width], expected)


@pytest.mark.parametrize("compiled", [True, False])
def test_single_steps_have_the_oracles_states_observations_and_positions(compiled):
    for number in (1, 5, 8, None):
        scenario = DRAWS if number is None else random_scenario(number, max_steps=12)
        world = world_from_scenario(scenario, size=SIZE)
        noise = RandomActions(number or 0)
        oracle = Simulator(scenario, 2**63 + (number or 0))
        hi, lo = split(array([oracle.seed]))
        state = simulator.reset(world, hi[0], lo[0])
        step = jax.jit(simulator.step) if compiled else simulator.step
        ids = [person.id for person in scenario.people]
        while not oracle.state.terminated:
            actions = noise.act(oracle.observe())
            codes = np.zeros(SIZE.people, dtype=np.int32)
            for person, action in actions.items():
                codes[ids.index(person)] = list(oracle.observe().allowed_actions).index(action)
            oracle.step(actions)
            state, _ = step(world, state, jnp.asarray(codes))
            people = state.people
            seen = observation_from_arrays(
                scenario,
                int(state.step),
                *(np.asarray(field) for field in people),
                np.asarray(state.burning),
            )
            assert seen == oracle.observe()
            position = state.fire_position
            assert (int(position.hi) << 32) + int(position.lo) == oracle.fire_position
            trapped = simulator.trapped(world, state.burning, people)
            assert tuple(np.array(ids)[np.asarray(trapped)[: len(ids)]]) == oracle.state.trapped
        assert bool(state.done)
        again, _ = step(world, state, jnp.asarray(codes))
        assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.all(a == b)), again, state))


def test_an_invalid_action_faults_and_freezes():
    world = world_from_scenario(scenario_from_text(["P.E"], id="x", max_steps=9))
    state = simulator.reset(world, jnp.uint32(0), jnp.uint32(0))
    bad, _ = simulator.step(world, state, jnp.full(4, 5, dtype=jnp.int32))
    assert (bool(bad.fault), int(bad.step)) == (True, 0)


def test_stream_positions_past_2_to_the_32():
    scenario = scenario_from_text(
        ["..*..", "P...E"], id="far", model="stochastic", spread_probability=0.5, max_steps=9
    )
    world = world_from_scenario(scenario)
    start = 2**32 - 2
    position = Uint64(jnp.uint32(start >> 32), jnp.uint32(start & 0xFFFFFFFF))
    seed = fire.stream_seed("fire", jnp.uint32(0), jnp.uint32(7))
    ignited, after = fire.ignitions(world, jnp.asarray(world.ignitions), jnp.int32(1), seed, position)
    stream = Stream(FIRE, 7, position=start)
    expected = Fire(scenario).ignitions(set(scenario.fire.ignitions), 1, stream)
    assert [(int(r), int(c)) for r, c in np.argwhere(np.asarray(ignited))] == expected
    assert (int(after.hi) << 32) + int(after.lo) == stream.position == start + 3


@pytest.mark.parametrize("policy", ["fire-aware-shortest-path-v1", "random-legal-v1"])
def test_the_global_64_bit_switch_changes_nothing(policy):
    scenario = random_scenario(11)
    expected = [record.record_digest for record in records(scenario, array(SEEDS), policy, size=SIZE, tile=4)]
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", not before)
    try:
        found = [record.record_digest for record in records(scenario, array(SEEDS), policy, size=SIZE, tile=4)]
        worlds = fire.fire_worlds(scenario, array(SEEDS))
    finally:
        jax.config.update("jax_enable_x64", before)
    assert found == expected
    assert np.array_equal(worlds.ignition_step, fire_worlds(scenario, array(SEEDS)).ignition_step)


def dtypes_of(function, *arguments):
    """Return the dtypes of every value in the traced program, inner programs included."""
    found, pending = set(), [jax.make_jaxpr(function)(*arguments).jaxpr]
    while pending:
        program = pending.pop()
        for equation in program.eqns:
            found |= {variable.aval.dtype for variable in equation.outvars}
            for value in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "jaxpr")):
                inner = getattr(value, "jaxpr", value if hasattr(value, "eqns") else None)
                if inner is not None:
                    pending.append(inner)
    return found


@pytest.mark.parametrize("policy", ALL_POLICIES[:6])
def test_no_float_in_the_traced_programs(policy):
    world = world_from_scenario(random_scenario(2), size=SIZE)
    world = jax.tree.map(jnp.asarray, world)
    zero = Uint64(jnp.uint32(0), jnp.uint32(0))
    compiled = make_policy(policy)
    never = jnp.full((16, 16), 0xFFFFFFFF, dtype=jnp.uint32)
    state = simulator.reset(world, jnp.uint32(0), jnp.uint32(1))
    programs = [
        dtypes_of(fire.fire_world, world, zero),
        dtypes_of(simulator.step, world, state, jnp.zeros(16, dtype=jnp.int32)),
        dtypes_of(lambda w, f: rollout.episode(w, compiled, compiled.prepare(w, zero), f), world, never),
    ]
    for dtypes in programs:
        assert len(dtypes) > 1
        assert not [dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.floating)]


def test_200_scenarios_compile_once_a_padded_size():
    policy = make_policy("static-shortest-path-v1")
    rollout._episodes.clear_cache()
    scenarios = [random_scenario(number, max_side=8, max_people=4) for number in range(200)]
    for scenario in scenarios:
        size = padded_size(scenario)
        (_,) = rollouts(scenario, array([3]), policy.name, size=size, tile=1)
    assert rollout._episodes._cache_size() <= len({padded_size(scenario) for scenario in scenarios})


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_every_entry_point_lowers(platform):
    world = world_from_scenario(random_scenario(2), size=SIZE)
    fires = np.full((4, 16, 16), 0xFFFFFFFF, dtype=np.uint32)
    seeds = split(array(SEEDS))
    plan_seed = split(array(0))
    jax.export.export(fire._fire_worlds, platforms=[platform])(world, *seeds)
    progress, _ = rollout._starts(world, fires)
    jax.export.export(rollout._starts, platforms=[platform])(world, fires)
    for policy in (*map(make_policy, ALL_POLICIES), ANY_POLICY):
        plan = rollout._prepare(world, policy, *plan_seed)
        for entry, extra in ((rollout._episodes, ()), (rollout._segments, (progress,))):
            closed = jax.jit(lambda w, p, f, *rest, entry=entry, policy=policy: entry(w, policy, p, f, *rest))
            jax.export.export(closed, platforms=[platform])(world, plan, fires, *extra)


def test_a_log_that_does_not_cover_the_active_people_is_refused():
    record = run_episode(SCENARIO, 1, RandomActions(0))
    log = action_log(record)
    for actions, step in (
        (log.actions[:1], 2),
        (({"P1": "stay"},), 1),
        (({**log.actions[0], "P9": "stay"}, *log.actions[1:]), 1),
    ):
        broken = dataclasses.replace(log, actions=actions)
        with pytest.raises(SimulationError, match=f"step {step}: the action log does not cover"):
            list(records(SCENARIO, array([1]), "scripted", log=broken))
    (same,) = records(SCENARIO, array([1]), "scripted", log=log)
    assert same == record


# Cells with two burning neighbours, so that a draw skipped after a success moves every draw after it.
DRAWS = scenario_from_text(
    ["*.*.*", ".....", "P#..E"], id="draws", model="stochastic", spread_probability=0.5, max_steps=8
)
SCENARIO = scenario_from_text(["P.P.E", ".*..#", "P...."], id="log", max_steps=6, spread_interval=9)


def test_two_to_eight_people_into_one_cell_one_winner():
    rows = ["PPP", "P.P", "PPP", "..E"]
    for letters in ("-s-ew-n-", "-s--w-n-", "-s-e----", "---ew---"):
        found = outcomes(play(Jax(), rows, letters))
        assert found == outcomes(play(Ref(), rows, letters))
        assert list(found.values()).count("moved") == 1


def test_unknown_policies_and_worlds_that_do_not_fit():
    with pytest.raises(EmberError, match="policy 'nope' is unknown"):
        make_policy("nope")
    with pytest.raises(ValueError, match="does not fit"):
        world_from_scenario(random_scenario(2), size=WorldSize(1, 1, 1, 1))


def test_policies_are_one_object_a_name():
    for name in ALL_POLICIES:
        assert make_policy(name) is make_policy(name)
    names = [make_policy(name).name for name in ALL_POLICIES]
    assert names == list(ALL_POLICIES)
    assert all(a != b for a, b in itertools.combinations(names, 2))
