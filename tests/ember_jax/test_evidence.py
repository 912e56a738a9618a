"""The evidence of whole rollouts against the bounds of the vectors."""

import json
import pathlib

import numpy as np
import pytest

from ember_jax.evidence import evidence
from ember_ref.scenario import load_scenario

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
LINES = {
    line["scenario"].split("/")[1].removesuffix(".json"): line
    for line in map(json.loads, (VECTORS / "simulator.jsonl").read_text().splitlines())
}
LARGE = {"crowd200-11", "crowd60-11", "wide161-11", "wide64-11", "long300-11", "tall70-11", "events2-11", "wide33-11"}
QUICK = ("gen-101-0006", "events-11")
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


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in LINES if name not in LARGE],
)
def test_the_bounds_of_the_vectors(name):
    line = LINES[name]
    scenario = load_scenario(VECTORS / line["scenario"])
    for expected in line["bounds"] if name not in QUICK else line["bounds"][3:6]:
        found = evidence(scenario, np.array([expected["seed"]], dtype=np.uint64), expected["policy"])
        sums = {key: int(getattr(found, field)[0]) for key, field in NAMES.items()}
        sums["replanning"] = [int(found.recovery_bound_steps[0]), int(found.recovery_steps[0])]
        assert sums == {key: expected[key] for key in sums}
