import pytest
from hypothesis import given, settings
from strategies import scenarios, seeds

from ember_jax.differential import RandomActions
from ember_ref.episode import run_episode
from ember_ref.errors import SimulationError
from ember_ref.grid import Action
from ember_ref.scenario import scenario_from_text
from ember_ref.simulator import Simulator

SCENARIO = scenario_from_text(["P.E", "P.."], id="two", max_steps=3, seed=5)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({"P1": "stay"}, "step 1: no action for active person P2"),
        ({"P1": "stay", "P2": "stay", "P3": "stay"}, "an action for 'P3', who is not an active person"),
        ({"P1": "up", "P2": "stay"}, "'up' for P1 is not one of stay, north, south, east, west"),
        ({"P1": None, "P2": "stay"}, "null for P1 is not one of"),
        ({"P1": 1, "P2": "stay"}, "1 for P1 is not one of"),
    ],
)
def test_refused_actions_change_nothing(actions, message):
    simulator = Simulator(SCENARIO)
    before = simulator.state
    with pytest.raises(SimulationError, match=message):
        simulator.step(actions)
    assert simulator.state is before
    assert simulator.steps == []
    assert simulator.fire_position == 0


def test_every_fault_of_an_action_set_is_named():
    with pytest.raises(SimulationError) as caught:
        Simulator(SCENARIO).step({"P1": "up", "P9": "stay"})
    assert str(caught.value).count(";") == 2


def test_a_step_after_the_end_is_refused():
    simulator = Simulator(SCENARIO)
    for _ in range(3):
        simulator.step({"P1": Action.STAY, "P2": Action.STAY})
    with pytest.raises(SimulationError, match=r"step 4: the episode ended at step 3 \(max_steps\)"):
        simulator.step({"P1": Action.STAY, "P2": Action.STAY})


def test_the_scenarios_own_seed_is_the_default_and_0_is_a_seed():
    assert Simulator(SCENARIO).seed == 5
    assert Simulator(SCENARIO, 0).seed == 0


@pytest.mark.parametrize("seed", [-1, 2**64, True, 1.0, "1"])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(SimulationError, match=r"is not an integer from 0 to 2\^64 - 1"):
        Simulator(SCENARIO, seed)


@given(scenarios(), seeds)
@settings(max_examples=60, deadline=None)
def test_invariants_of_every_episode(scenario, seed):
    record = run_episode(scenario, seed, RandomActions(seed % 97))
    resolved = {}
    for step in record.steps:
        active = [p for p in step.state.people if p.status == "active"]
        assert len({p.position for p in active}) == len(active)  # one person a cell
        for event in (*step.evacuations, *step.casualties):
            assert event.person_id not in resolved
            resolved[event.person_id] = step.step
        assert len(active) + len(resolved) == len(scenario.people)
        assert not {p.position for p in active} & set(step.state.burning)
        leaving = [event.exit_id for event in step.evacuations]
        assert len(leaving) == len(set(leaving))  # one person an exit cell a step
    assert record.final_state.terminated
    assert len(record.steps) <= scenario.termination.max_steps


def test_a_chain_of_500_ends_and_moves_as_one():
    rows = ["P" * 500 + "E"]
    simulator = Simulator(scenario_from_text(rows, id="chain", max_steps=1), 0)
    step = simulator.step({person.id: Action.EAST for person in simulator.observe().active})
    assert {movement.outcome for movement in step.movements} == {"moved"}
    blocked = Simulator(scenario_from_text(["P" * 500 + "#E"], id="chain", max_steps=1), 0)
    step = blocked.step({person.id: Action.EAST for person in blocked.observe().active})
    assert [m.outcome for m in step.movements[-2:]] == ["blocked_occupied", "blocked_wall"]


@pytest.mark.parametrize("actions", [None, [], "stay", [["P1", "stay"]]])
def test_actions_that_are_no_mapping_are_refused(actions):
    with pytest.raises(SimulationError, match=r"step 1: .* is not one action for each active person"):
        Simulator(SCENARIO).step(actions)
