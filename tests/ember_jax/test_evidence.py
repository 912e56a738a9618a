"""The evidence of batches against the vectors, the oracle, and itself in other batches and paddings."""

import json
import pathlib

import jax
import numpy as np
import pytest
from strategies import random_scenario

from ember_jax.evidence import COLUMNS, evidence, evidence_columns, evidence_of_records
from ember_jax.world import WorldSize
from ember_ref.capacity import capacity_bounds
from ember_ref.episode import run_episode
from ember_ref.fire import NEVER, fire_world
from ember_ref.policies import POLICY_NAMES, make_policy
from ember_ref.references import EarliestTable, references_of
from ember_ref.routes import route_invalidations
from ember_ref.scenario import load_scenario
from scoring.evidence import ReferenceImplementation, evidence_of

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
LINES = [json.loads(line) for line in (VECTORS / "simulator.jsonl").read_text().splitlines()]
SMALL = WorldSize(rows=24, cols=24, people=64, exits=8)
TINY = WorldSize(rows=16, cols=16, people=16, exits=8)
QUICK = ("door-11.json", "events-11.json", "gen-101-0006.json")
NAMES = {
    "sum_L": "sum_earliest",
    "q_exit": "exit_bound",
    "q_cut": "time_bound",
    "sum_A": "sum_evacuation_steps",
    "danger_states_of_evacuees": "danger_states",
    "danger_lower_bound": "fewest_danger_states",
    "moves": "cells_moved",
    "moves_lower_bound": "fewest_moves",
    "events": "route_invalidations",
    "recoverable_events": "recoverable_route_invalidations",
}


def fits(scenario):
    needed = (scenario.grid.height, scenario.grid.width, len(scenario.people), len(scenario.exits))
    return all(need <= have for need, have in zip(needed, SMALL, strict=True))


def check_bounds(line, bounds, size):
    scenario = load_scenario(VECTORS / line["scenario"])
    for expected in bounds:
        found = evidence(scenario, [expected["seed"]], expected["policy"], size=size)
        got = {name: int(getattr(found, field)[0]) for name, field in NAMES.items()}
        got["replanning"] = [int(found.recovery_bound_steps[0]), int(found.recovery_steps[0])]
        assert {**got, "policy": expected["policy"], "seed": expected["seed"]} == expected


def lines(*, small):
    return [line for line in LINES if fits(load_scenario(VECTORS / line["scenario"])) == small]


@pytest.mark.slow
def test_every_bound_of_the_small_vectors():
    assert len(lines(small=True)) >= 30
    for line in lines(small=True):
        check_bounds(line, line["bounds"], SMALL)


def test_the_bounds_of_three_vectors():
    chosen = [line for line in LINES if line["scenario"].split("/")[1] in QUICK]
    assert len(chosen) == len(QUICK)
    for line in chosen:
        check_bounds(line, [bound for bound in line["bounds"] if bound["policy"] == "congestion-aware-v1"], SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("line", lines(small=False), ids=lambda line: line["scenario"].split("/")[1])
def test_bounds_of_the_large_vectors(line):
    check_bounds(line, line["bounds"], None)


def oracle(scenario, record):
    """Return the evidence columns of a record, and its events, as the oracle has them."""
    implementation = ReferenceImplementation()
    (privileged,) = implementation.privileged(scenario, [record])
    document = evidence_of(scenario, record, privileged).to_dict()
    index = {person.id: place for place, person in enumerate(scenario.people)}
    events = [(event.step, index[event.person_id], event.earliest) for event in privileged.events]
    return {name: document[name] for name in COLUMNS}, events


def check_random(numbers, policies, seeds_each):
    """Compare episodes of random scenarios: every policy given, some seeds a scenario."""
    episodes = 0
    for number in numbers:
        scenario = random_scenario(number, max_side=16, max_people=16, max_steps=60)
        seeds = [number * 1000 + i for i in range(seeds_each)]
        for policy in policies(number):
            found = evidence(scenario, seeds, policy, events=True, size=TINY)
            for place, seed in enumerate(seeds):
                record = run_episode(scenario, seed, make_policy(policy))
                expected, events = oracle(scenario, record)
                got = {name: int(getattr(found, name)[place]) for name in COLUMNS}
                assert got == expected, (number, seed, policy)
                mine = found.events[found.events[:, 0] == place][:, 1:]
                assert sorted(map(tuple, mine.tolist())) == sorted(events), (number, seed, policy)
                episodes += 1
    return episodes


def test_evidence_of_random_episodes_equals_the_oracle():
    policy_of = lambda number: [POLICY_NAMES[number % len(POLICY_NAMES)]]  # noqa: E731
    assert check_random(range(100), policy_of, 3) == 300


@pytest.mark.slow
def test_evidence_of_5000_random_episodes_equals_the_oracle():
    assert check_random(range(1000, 1000 + 210), lambda _: POLICY_NAMES, 4) >= 5000


def test_records_of_anyone_give_the_same_evidence_as_the_rollout():
    scenario = load_scenario(VECTORS / "scenarios" / "events-11.json")
    seeds = list(range(6))
    records = [run_episode(scenario, seed, make_policy("random-legal-v1")) for seed in seeds]
    rolled = evidence(scenario, seeds, "random-legal-v1", events=True, size=SMALL)
    read = evidence_of_records(scenario, records, events=True, size=SMALL)
    assert len(rolled.events) > 0
    for a, b in zip(rolled, read, strict=True):
        assert np.array_equal(a, b)


def test_neither_batch_nor_padding_nor_x64_nor_threads_matter():
    scenario = load_scenario(VECTORS / "scenarios" / "events-11.json")
    seeds = np.arange(20, dtype=np.uint64)
    together = evidence_columns(scenario, "fire-aware-shortest-path-v1", seeds)
    alone = [evidence(scenario, [seed], "fire-aware-shortest-path-v1", size=SMALL) for seed in seeds[[0, 7, 19]]]
    for name in COLUMNS:
        assert together[name].dtype == np.int64
        assert together[name][[0, 7, 19]].tolist() == [int(getattr(found, name)[0]) for found in alone]
    with jax.enable_x64(True):
        wide = evidence(scenario, seeds, "fire-aware-shortest-path-v1", threads=1)
    for name in COLUMNS:
        assert np.array_equal(getattr(wide, name), together[name])


def test_one_bound_by_hand():
    """Nine people behind a door pass it one a step, two steps from an exit."""
    from ember_ref.scenario import scenario_from_text

    door = scenario_from_text(["PPP#.E", "PPP..E", "PPP#.E"], id="door", max_steps=30)
    found = evidence(door, [0], "congestion-aware-v1")
    world = fire_world(door, 0)
    table = EarliestTable(door, world)
    record = run_episode(door, 0, make_policy("congestion-aware-v1"))
    assert route_invalidations(door, record, table) == []
    bounds = capacity_bounds(door, world, table, [person.id for person in door.people])
    assert int(found.time_bound[0]) == bounds.time_bound == sum(range(1, 10)) + 9 * 2
    earliest = [person.earliest_evacuation or NEVER for person in references_of(door, world).people]
    assert found.earliest_evacuation[0].tolist() == earliest
