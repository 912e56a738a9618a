"""The evidence of episodes as the oracle has it, for the tests of both compiled forms."""

import json
import pathlib

from strategies import random_scenario

from ember_jax.evidence import COLUMNS
from ember_ref.episode import run_episode
from ember_ref.policies import make_policy
from ember_ref.scenario import load_scenario
from scoring.evidence import ReferenceImplementation, evidence_of

VECTORS = pathlib.Path(__file__).parent / "vectors"
LINES = [json.loads(line) for line in (VECTORS / "simulator.jsonl").read_text().splitlines()]
_NAMES = {
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


def oracle(scenario, record):
    """Return the evidence columns of a record, and its events, as the oracle has them."""
    implementation = ReferenceImplementation()
    (privileged,) = implementation.privileged(scenario, [record])
    document = evidence_of(scenario, record, privileged).to_dict()
    index = {person.id: place for place, person in enumerate(scenario.people)}
    events = [(event.step, index[event.person_id], event.earliest) for event in privileged.events]
    return {name: document[name] for name in COLUMNS}, events


def check_bounds(line, bounds, evidence):
    """Compare `evidence(scenario, seeds, policy)` with the bounds of a line of the vectors."""
    scenario = load_scenario(VECTORS / line["scenario"])
    for expected in bounds:
        found = evidence(scenario, [expected["seed"]], expected["policy"])
        got = {name: int(getattr(found, field)[0]) for name, field in _NAMES.items()}
        got["replanning"] = [int(found.recovery_bound_steps[0]), int(found.recovery_steps[0])]
        assert {**got, "policy": expected["policy"], "seed": expected["seed"]} == expected


def check_random(numbers, policies, seeds_each, evidence_of_records, **limits):
    """Compare episodes of random scenarios: the policies given, some seeds a scenario; return how many."""
    episodes = 0
    sides = {"max_side": 16, "max_people": 16, "max_steps": 60, **limits}
    for number in numbers:
        scenario = random_scenario(number, **sides)
        seeds = [number * 1000 + i for i in range(seeds_each)]
        for policy in policies(number):
            records = [run_episode(scenario, seed, make_policy(policy)) for seed in seeds]
            found = evidence_of_records(scenario, records, events=True)
            for place, (seed, record) in enumerate(zip(seeds, records, strict=True)):
                expected, events = oracle(scenario, record)
                got = {name: int(getattr(found, name)[place]) for name in COLUMNS}
                assert got == expected, (number, seed, policy)
                mine = found.events[found.events[:, 0] == place][:, 1:]
                assert sorted(map(tuple, mine.tolist())) == sorted(events), (number, seed, policy)
                episodes += 1
    return episodes
