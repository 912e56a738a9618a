import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_form import assert_one_kernel_for_every_platform

from ember_jax import references_kernel
from ember_jax.fire_kernel import padded_seeds
from ember_jax.references_kernel import reference_ground, reference_size, reference_summaries
from ember_ref.fire import NEVER, fire_world
from ember_ref.scenario import Scenario, load_scenario

VECTORS = Path(__file__).parents[1] / "vectors"
FIELDS = ("earliest_evacuation", "fewest_moves", "fewest_danger_states")


def _scenario(height, width, *, exits, people, ignitions, obstacles, probability, interval, flammable, max_steps):
    return Scenario.from_dict(
        {
            "schema_version": "1.0",
            "id": "references",
            "description": "",
            "seed": 0,
            "grid": {"width": width, "height": height, "obstacles": [list(cell) for cell in obstacles]},
            "exits": [{"id": f"E{i}", "position": list(cell)} for i, cell in enumerate(exits)],
            "people": [{"id": f"P{i}", "position": list(cell)} for i, cell in enumerate(people)],
            "fire": {
                "model": "deterministic" if probability is None else "stochastic",
                "ignitions": [list(cell) for cell in ignitions],
                "spread_interval": interval,
                "spread_probability": probability,
                "exits_flammable": flammable,
            },
            "movement": {"enter_fire": "casualty", "conflict_resolution": "lowest_id_wins"},
            "termination": {"max_steps": max_steps},
        }
    )


def _expected(scenario, seed):
    """L, M and D at the people's starts: the rules of contract section 8, cell by cell and step by step."""
    world, horizon = fire_world(scenario, seed), scenario.termination.max_steps
    exits = {exit.position for exit in scenario.exits}
    cells = set(scenario.grid.positions()) - scenario.grid.obstacles
    burns_at = {cell: world.at(cell) for cell in cells}
    after = {}
    for t in range(horizon - 1, -1, -1):
        burning = [cell for cell in cells if burns_at[cell] <= t]
        now = {}
        for x in cells - exits:
            if burns_at[x] <= t:
                continue
            z = int(any(abs(x[0] - b[0]) + abs(x[1] - b[1]) <= 2 for b in burning))
            options = []
            if x in after:
                earliest, moves, danger = after[x]
                options.append((earliest, moves, z + danger))
            for y in scenario.grid.neighbours(x):
                if y in exits and burns_at[y] > t:
                    options.append((t + 1, 1, z))
                elif y in after and burns_at[y] > t:
                    earliest, moves, danger = after[y]
                    options.append((earliest, 1 + moves, z + danger))
            if options:
                now[x] = tuple(map(min, zip(*options, strict=True)))
        after = now
    return [after.get(person.position, (NEVER,) * 3) for person in scenario.people]


def _got(scenario, seeds):
    summaries = reference_summaries(scenario, seeds)
    values = [getattr(summaries, field) for field in FIELDS]
    return np.stack(values, axis=-1).tolist()


def test_every_reference_of_the_vectors_is_reproduced():
    for line in (VECTORS / "simulator.jsonl").read_text().splitlines():
        vector = json.loads(line)
        scenario = load_scenario(VECTORS / vector["scenario"])
        got = reference_summaries(scenario, [entry["seed"] for entry in vector["references"]])
        for at, entry in enumerate(vector["references"]):
            for field in FIELDS:
                expected = [NEVER if person[field] is None else person[field] for person in entry["people"]]
                assert getattr(got, field)[at].tolist() == expected, (vector["scenario"], field)
            assert got.max_evacuated[at] == entry["max_evacuated"]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_scenarios_equal_the_rules_step_by_step(data):
    height, width = data.draw(st.integers(2, 8)), data.draw(st.integers(2, 8))
    cells = data.draw(st.permutations([(row, col) for row in range(height) for col in range(width)]))
    exits, people = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 4))
    ignitions, obstacles = data.draw(st.integers(0, 2)), data.draw(st.integers(0, len(cells) // 4))
    ends = np.cumsum([exits, people, ignitions, obstacles]).tolist()
    if ends[-1] > len(cells):
        return
    scenario = _scenario(
        height,
        width,
        exits=cells[: ends[0]],
        people=cells[ends[0] : ends[1]],
        ignitions=cells[ends[1] : ends[2]],
        obstacles=cells[ends[2] : ends[3]],
        probability=data.draw(st.sampled_from([None, 0.0, 0.1, 0.5, 1.0])),
        interval=data.draw(st.integers(1, 3)),
        flammable=data.draw(st.booleans()),
        max_steps=data.draw(st.integers(1, 30)),
    )
    seeds = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=2))
    expected = [list(map(list, _expected(scenario, seed))) for seed in seeds]
    assert _got(scenario, seeds) == expected


@pytest.mark.parametrize("horizon", [15, 16, 253, 254, 255, 256, 1000, 65534, 65535])
def test_every_horizon_in_the_integers_that_hold_it(horizon):
    # A long way around a wall beside a slow fire; the last layers repeat and are skipped.
    scenario = _scenario(
        5,
        5,
        exits=[(0, 0)],
        people=[(0, 2), (4, 4)],
        ignitions=[(4, 0)],
        obstacles=[(0, 1), (1, 1), (2, 1), (3, 1)],
        probability=0.05,
        interval=7,
        flammable=True,
        max_steps=horizon,
    )
    bits = 8 if horizon < 255 else 16 if horizon < 65535 else 32
    assert reference_size(scenario).bits == bits
    # Beyond 300 steps everything near has burned or nothing changes: a longer horizon adds no way out.
    shorter = json.loads(json.dumps(scenario.to_dict()))
    shorter["termination"]["max_steps"] = min(horizon, 300)
    seeds = list(range(8))
    assert _got(scenario, seeds) == [list(map(list, _expected(Scenario.from_dict(shorter), seed))) for seed in seeds]


def test_results_do_not_depend_on_the_place_in_a_batch_or_the_threads():
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    seeds = np.arange(2200, dtype=np.uint64)
    got = reference_summaries(scenario, seeds, threads=2)
    backwards = reference_summaries(scenario, seeds[::-1], threads=1)
    for field in FIELDS:
        assert np.array_equal(getattr(got, field), getattr(backwards, field)[::-1])
    assert got.earliest_evacuation[1777].tolist() == [value for value, _, _ in _expected(scenario, 1777)]


def test_scenarios_of_one_padded_size_share_a_compilation():
    before = references_kernel._REFERENCES.compilations
    for name in ("gen-101-0000", "gen-101-0001", "gen-101-0002", "gen-101-0003"):
        reference_summaries(load_scenario(VECTORS / "scenarios" / f"{name}.json"), [1])
    sizes = {reference_size(load_scenario(VECTORS / "scenarios" / f"gen-101-000{index}.json")) for index in range(4)}
    assert references_kernel._REFERENCES.compilations - before <= len(sizes) < 4


def test_the_call_is_one_kernel_and_lowers_for_every_platform():
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    size = reference_size(scenario)
    static = references_kernel._Static(size, False)
    seeds = padded_seeds(np.array([1], dtype=np.uint64), size.fire.tiles)
    arguments = (reference_ground(scenario, size), np.int32(1), *seeds)
    kernel = references_kernel._REFERENCES
    assert_one_kernel_for_every_platform(kernel, static, arguments)
