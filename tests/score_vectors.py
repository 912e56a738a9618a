"""The score vectors, and small real episodes, for the tests of scoring."""

import functools
import json
from pathlib import Path

from ember_ref.episode import run_episode
from ember_ref.policies import make_policy
from ember_ref.scenario import Scenario
from scoring.evidence import ReferenceImplementation, evidence_of
from scoring.report import ScoreReport

VECTORS = Path(__file__).parent / "vectors" / "score"
RESULTS = {"a": ("result-a", "result-a2", "result-a3"), "b": ("result-b",), "c": ("result-c",)}


def vector(name):
    return json.loads((VECTORS / f"{name}.json").read_text())


@functools.cache
def report(model):
    return ScoreReport.from_dict(vector(f"expected-report-{model}"))


def scenario_of(rows, *, max_steps=40, probability=None, name="drawn"):
    """Return a scenario drawn as text; a digit or letter other than the marks is a person of that name."""
    cells = [((i, j), mark) for i, row in enumerate(rows) for j, mark in enumerate(row)]
    exits = [cell for cell, mark in cells if mark == "E"]
    return Scenario.from_dict(
        {
            "schema_version": "1.0",
            "id": name,
            "description": "",
            "seed": 0,
            "grid": {
                "height": len(rows),
                "width": len(rows[0]),
                "obstacles": [list(cell) for cell, mark in cells if mark == "#"],
            },
            "exits": [{"id": f"E{i}", "position": list(cell)} for i, cell in enumerate(exits, start=1)],
            "people": [{"id": mark, "position": list(cell)} for cell, mark in cells if mark not in "#.E*"],
            "fire": {
                "model": "deterministic" if probability is None else "stochastic",
                "ignitions": [list(cell) for cell, mark in cells if mark == "*"],
                "spread_interval": 1,
                "spread_probability": probability,
                "exits_flammable": False,
            },
            "movement": {"enter_fire": "casualty", "conflict_resolution": "lowest_id_wins"},
            "termination": {"max_steps": max_steps},
        }
    )


def run(scenario, policy, seed=0):
    return run_episode(scenario, seed, make_policy(policy, 0))


def evidence(scenario, record):
    (privileged,) = ReferenceImplementation().privileged(scenario, [record])
    return evidence_of(scenario, record, privileged)
