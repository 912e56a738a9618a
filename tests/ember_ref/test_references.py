"""References, capacity bounds and route invalidations against vectors, exhaustive search and the bounds' chain."""

import contextlib
import functools
import itertools
import json
import pathlib

import pytest
from strategies import random_scenario

from ember_ref.capacity import capacity_bounds, list_schedule
from ember_ref.episode import run_episode
from ember_ref.errors import VerificationError
from ember_ref.fire import NEVER, fire_world
from ember_ref.grid import ACTIONS
from ember_ref.movement import MoveOutcome
from ember_ref.observation import PersonStatus
from ember_ref.policies import POLICY_NAMES, make_policy
from ember_ref.references import HAZARD_RADIUS, EarliestTable, layers, references, references_of
from ember_ref.routes import route_invalidations
from ember_ref.scenario import load_scenario, scenario_from_text
from ember_ref.simulator import Simulator
from scenarios.bundled import scenario_names, scenario_path

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
LINES = [json.loads(line) for line in (VECTORS / "simulator.jsonl").read_text().splitlines()]
LARGE = ("crowd200-11", "wide161-11", "wide64-11", "long300-11", "tall70-11", "events2-11")


def name_of(line):
    return line["scenario"].split("/")[1].removesuffix(".json")


def marked(lines):
    return [
        pytest.param(line, id=name_of(line), marks=[pytest.mark.slow] if name_of(line) in LARGE else [])
        for line in lines
    ]


def evidence(scenario, record, world, table):
    """Return the sums over evacuees and events that the vectors have of a run."""
    steps = {event.person_id: step.step for step in record.steps for event in step.evacuations}
    bounds = capacity_bounds(scenario, world, table, list(steps))
    people = {person.id: person for person in references_of(scenario, world).people}
    events = route_invalidations(scenario, record, table)
    recoverable = [event for event in events if event.recoverable]
    states = [record.initial_state, *(step.state for step in record.steps)]
    danger = sum(
        0 < min(abs(p.position[0] - r) + abs(p.position[1] - c) for r, c in state.burning) <= HAZARD_RADIUS
        for state in states
        if state.burning
        for p in state.people
        if p.status is PersonStatus.ACTIVE and p.id in steps
    )
    moves = sum(
        m.outcome is MoveOutcome.MOVED for step in record.steps for m in step.movements if m.person_id in steps
    )
    return {
        "sum_L": bounds.sum_earliest,
        "q_exit": bounds.exit_bound,
        "q_cut": bounds.time_bound,
        "sum_A": sum(steps.values()),
        "danger_states_of_evacuees": danger,
        "danger_lower_bound": sum(people[person].fewest_danger_states for person in steps),
        "moves": moves,
        "moves_lower_bound": sum(people[person].fewest_moves for person in steps),
        "events": len(events),
        "recoverable_events": len(recoverable),
        "replanning": [
            sum(event.earliest - event.step for event in recoverable),
            sum(event.resolution - event.step for event in recoverable),
        ],
    }


@pytest.mark.parametrize("line", marked(LINES))
def test_references_of_the_vectors(line):
    scenario = load_scenario(VECTORS / line["scenario"])
    for expected in line["references"]:
        found = references(scenario, expected["seed"])
        assert {**found.to_dict(), "references_digest": found.references_digest}.items() >= expected.items()


@pytest.mark.parametrize("line", marked(LINES))
def test_bounds_of_the_vectors(line):
    scenario = load_scenario(VECTORS / line["scenario"])
    world = fire_world(scenario, 0)
    table = EarliestTable(scenario, world)
    for expected in line["bounds"]:
        record = run_episode(scenario, expected["seed"], make_policy(expected["policy"]))
        found = evidence(scenario, record, world, table)
        assert {"policy": expected["policy"], "seed": 0, **found} == expected


@pytest.mark.parametrize("number", range(60))
def test_the_chain_of_bounds_holds_for_every_policy(number):
    scenario = random_scenario(number, max_side=9)
    world = fire_world(scenario, number)
    table = EarliestTable(scenario, world)
    for policy in POLICY_NAMES:
        found = evidence(scenario, run_episode(scenario, number, make_policy(policy)), world, table)
        assert found["sum_L"] <= found["q_exit"] <= found["q_cut"] <= found["sum_A"]
        assert found["danger_lower_bound"] <= found["danger_states_of_evacuees"]
        assert found["moves_lower_bound"] <= found["moves"]
        assert found["replanning"][0] <= found["replanning"][1]


def forward_search(scenario, world, start):
    """Return the earliest evacuation step of one person by widening the set of cells it can be on."""
    exits = {exit.position for exit in scenario.exits}
    cells = {start}
    for step in range(1, scenario.termination.max_steps + 1):
        reach = {y for x in cells for y in scenario.grid.neighbours(x) if world.at(y) >= step}
        if reach & exits:
            return step
        cells = {cell for cell in (cells | reach) - exits if world.at(cell) > step}
    return None


@pytest.mark.parametrize("name", scenario_names())
def test_earliest_steps_and_m_star_equal_a_forward_search(name):
    scenario = load_scenario(scenario_path(name))
    for seed in range(3):
        found = references(scenario, seed)
        world = fire_world(scenario, seed)
        expected = [forward_search(scenario, world, person.position) for person in scenario.people]
        assert [person.earliest_evacuation for person in found.people] == expected
        assert found.max_evacuated == sum(step is not None for step in expected)


def tiny(number):
    """Return a scenario of at most 3x3 cells and 6 steps with one person."""
    return random_scenario(number, max_side=3, max_people=1, max_steps=6)


@pytest.mark.parametrize("number", range(80))
def test_tables_equal_an_exhaustive_search_over_all_plans(number):
    scenario = tiny(number)
    world = fire_world(scenario, number)
    exits = {exit.position for exit in scenario.exits}

    def danger(cell, t):
        burning = [c for c in scenario.grid.positions() if world.at(c) <= t]
        return any(0 < abs(cell[0] - r) + abs(cell[1] - c) <= HAZARD_RADIUS for r, c in burning)

    def plans(cell, t):
        """Yield (evacuation step, moves, danger states) of every plan that escapes from a live state."""
        if t == world.max_steps:
            return
        here = int(danger(cell, t))
        if world.at(cell) > t + 1:
            yield from ((step, moves, here + more) for step, moves, more in plans(cell, t + 1))
        for y in scenario.grid.neighbours(cell):
            if world.at(y) <= t:
                continue
            if y in exits:
                yield t + 1, 1, here
            elif world.at(y) > t + 1:
                yield from ((step, 1 + moves, here + more) for step, moves, more in plans(y, t + 1))

    for layer in layers(scenario, world):
        for place, cell in enumerate(scenario.grid.positions()):
            alive = scenario.grid.is_open(cell) and cell not in exits and world.at(cell) > layer.step
            found = list(plans(cell, layer.step)) if alive else []
            expected = tuple(min(values) for values in zip(*found, strict=True)) if found else (NEVER,) * 3
            assert (layer.earliest[place], layer.moves[place], layer.danger[place]) == expected


@pytest.mark.parametrize("number", range(24))
def test_q_cut_is_at_most_the_exhaustive_joint_optimum(number):
    scenario = random_scenario(1000 + number, max_side=3, max_people=2 + number % 2, max_steps=4)
    world = fire_world(scenario, number)
    ids = [person.id for person in scenario.people]

    @functools.cache
    def best(history):
        """Return the least sum of evacuation steps in which everyone leaves, after a history of actions."""
        simulator = Simulator(scenario, number)
        for actions in history:
            simulator.step(dict(actions))
        people = simulator.state.people
        if any(person.status is PersonStatus.CASUALTY for person in people):
            return None
        if all(person.status is PersonStatus.EVACUATED for person in people):
            return sum(step.step for step in simulator.steps for _ in step.evacuations)
        if simulator.state.terminated:
            return None
        active = [person.id for person in people if person.status is PersonStatus.ACTIVE]
        options = itertools.product(ACTIONS, repeat=len(active))
        totals = [best((*history, tuple(zip(active, choice, strict=True)))) for choice in options]
        return min((total for total in totals if total is not None), default=None)

    if len(ids) > 2 and scenario.termination.max_steps > 2:
        pytest.skip("too many plans")
    optimum = best(())
    if optimum is None:
        return
    bounds = capacity_bounds(scenario, world, EarliestTable(scenario, world), ids)
    assert bounds.sum_earliest <= bounds.exit_bound <= bounds.time_bound <= optimum


def test_a_door_is_a_cut_and_a_single_exit_a_queue():
    door = scenario_from_text(["PPP#.E", "PPP..E", "PPP#.E"], id="door", max_steps=30)
    world = fire_world(door, 0)
    bounds = capacity_bounds(door, world, EarliestTable(door, world), [person.id for person in door.people])
    assert bounds.sum_earliest <= bounds.exit_bound < bounds.time_bound
    # Nine people pass the door at (1, 3) in steps 1 to 9, two steps from an exit each.
    assert bounds.time_bound == sum(range(1, 10)) + 9 * 2


def test_a_list_schedule_places_the_earliest_first_and_refuses_what_is_left_over():
    assert list_schedule([1, 1, 1, 5], lambda _step: 1, 9) == 1 + 2 + 3 + 5
    assert list_schedule([], lambda _step: 0, 9) == 0
    assert list_schedule([2, 2], lambda step: 2 if step == 3 else 0, 3) == 6
    with pytest.raises(VerificationError, match="1 evacuations more than the capacity allows by step 2"):
        list_schedule([1, 1, 1], lambda _step: 1, 2)


def test_an_event_needs_a_fire_that_spread_and_a_longer_way():
    scenario = scenario_from_text(["P...E", "#.*.#"], id="event", max_steps=20, spread_interval=2)
    world = fire_world(scenario, 0)
    record = run_episode(scenario, 0, make_policy("always-stay-v1"))
    events = route_invalidations(scenario, record, EarliestTable(scenario, world))
    assert [(event.person_id, event.step, event.recoverable) for event in events] == [("P1", 2, False)]
    walking = run_episode(scenario, 0, make_policy("static-shortest-path-v1"))
    assert route_invalidations(scenario, walking, EarliestTable(scenario, world)) == []


def test_who_has_no_escape_cannot_have_evacuated():
    scenario = scenario_from_text(["P#E"], id="walled", max_steps=3)
    world = fire_world(scenario, 0)
    with pytest.raises(VerificationError, match="who has no escape"):
        capacity_bounds(scenario, world, EarliestTable(scenario, world), ["P1"])
    assert references(scenario, 0).people[0].earliest_evacuation is None


@pytest.mark.slow
def test_the_chain_of_bounds_holds_on_2000_episodes():
    """Every policy; every evacuee has an escape, and nobody is better than the own bounds."""
    episodes = 0
    for number in range(5000, 5000 + 340):
        scenario = random_scenario(number, max_side=16, max_people=20, max_steps=80)
        world = fire_world(scenario, number)
        table = EarliestTable(scenario, world)
        people = {person.id: person for person in references_of(scenario, world).people}
        for policy in POLICY_NAMES:
            record = run_episode(scenario, number, make_policy(policy))
            found = evidence(scenario, record, world, table)
            assert found["sum_L"] <= found["q_exit"] <= found["q_cut"] <= found["sum_A"]
            assert found["danger_lower_bound"] <= found["danger_states_of_evacuees"]
            assert found["moves_lower_bound"] <= found["moves"]
            assert found["replanning"][0] <= found["replanning"][1]
            for step in record.steps:
                for event in step.evacuations:
                    assert people[event.person_id].earliest_evacuation is not None
                    assert people[event.person_id].earliest_evacuation <= step.step
            episodes += 1
    assert episodes >= 2000


@pytest.mark.slow
@pytest.mark.parametrize("name", scenario_names())
def test_earliest_steps_and_m_star_equal_a_forward_search_on_20_seeds(name):
    scenario = load_scenario(scenario_path(name))
    for seed in range(20):
        found = references(scenario, seed)
        world = fire_world(scenario, seed)
        expected = [forward_search(scenario, world, person.position) for person in scenario.people]
        assert [person.earliest_evacuation for person in found.people] == expected
        assert found.max_evacuated == sum(step is not None for step in expected)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_q_cut_is_at_most_the_exhaustive_joint_optimum_on_many_maps(block):
    for number in range(100 + 100 * block, 200 + 100 * block):
        with contextlib.suppress(pytest.skip.Exception):
            test_q_cut_is_at_most_the_exhaustive_joint_optimum(number)
