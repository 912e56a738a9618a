"""The plain compiled references: digests of the vectors, tables of the oracle, batches, padding, memory."""

import json
import pathlib

import numpy as np
import pytest
from strategies import random_scenario

from ember_jax.references import first_layers, layers, references, tables
from ember_jax.references_kernel import reference_summaries
from ember_jax.world import WorldSize
from ember_ref import memory
from ember_ref.errors import MemoryLimitError
from ember_ref.fire import fire_world
from ember_ref.references import EarliestTable
from ember_ref.references import layers as oracle_layers
from ember_ref.references import references as oracle_references
from ember_ref.scenario import load_scenario

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
LINES = [json.loads(line) for line in (VECTORS / "simulator.jsonl").read_text().splitlines()]
SMALL = WorldSize(rows=24, cols=24, people=64, exits=8)
TINY = WorldSize(rows=8, cols=8, people=8, exits=8)


def fits(scenario):
    return scenario.grid.height <= SMALL.rows and scenario.grid.width <= SMALL.cols


def check_line(line, size):
    scenario = load_scenario(VECTORS / line["scenario"])
    found = references(scenario, [entry["seed"] for entry in line["references"]], size=size)
    for expected, got in zip(line["references"], found, strict=True):
        assert {**got.to_dict(), "references_digest": got.references_digest}.items() >= expected.items()


def test_references_of_the_small_vectors():
    small = [line for line in LINES if fits(load_scenario(VECTORS / line["scenario"]))]
    assert len(small) >= 30
    for line in small:
        check_line(line, SMALL)


@pytest.mark.parametrize(
    "line",
    [line for line in LINES if not fits(load_scenario(VECTORS / line["scenario"]))],
    ids=lambda line: line["scenario"].split("/")[1],
)
def test_references_of_the_large_vectors(line):
    check_line(line, None)


def test_every_table_of_random_scenarios_equals_the_oracle():
    for number in range(40):
        scenario = random_scenario(number, max_side=8, max_people=8)
        seeds = [number, 2**64 - 1 - number]
        kept = tables(scenario, seeds, size=TINY)
        for place, seed in enumerate(seeds):
            for layer in oracle_layers(scenario, fire_world(scenario, seed)):
                for name, whole in zip(("earliest", "moves", "danger"), kept, strict=True):
                    assert whole[place, layer.step].reshape(-1).tolist() == getattr(layer, name), (number, seed)


def test_first_layers_are_those_of_the_tables_and_of_the_kernel():
    scenario = load_scenario(VECTORS / "scenarios" / "door-11.json")
    seeds = np.arange(40, dtype=np.uint64)
    parts = [layer for _, layer in first_layers(scenario, seeds, tile=16)]
    steps = dict(layers(scenario, seeds))
    people = tuple(zip(*(person.position for person in scenario.people), strict=True))
    summaries = reference_summaries(scenario, seeds)
    names = ("earliest_evacuation", "fewest_moves", "fewest_danger_states")
    for name, fields, table in zip(names, zip(*parts, strict=True), steps[0], strict=True):
        first = np.concatenate(fields)
        assert np.array_equal(first, table)
        assert np.array_equal(first[:, people[0], people[1]], getattr(summaries, name))


def test_padding_and_batch_do_not_matter():
    scenario = random_scenario(3, max_side=8, max_people=8)
    together = list(references(scenario, [5, 6, 7], size=SMALL))
    alone = [next(references(scenario, [seed], size=TINY)) for seed in (5, 6, 7)]
    assert together == alone == [oracle_references(scenario, seed) for seed in (5, 6, 7)]


def test_tables_that_do_not_fit_are_refused_with_the_figure_and_the_way_out(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    scenario = random_scenario(1, max_side=8)
    with pytest.raises(MemoryLimitError, match=r"of 9000 seeds, kept, would take .* GiB, .* keep no table"):
        tables(scenario, range(9000))
    large = random_scenario(1, max_side=60, max_steps=400)
    with pytest.raises(MemoryLimitError, match=r"L of random-1 .* take `references`"):
        EarliestTable(large, fire_world(large, 0))
    # What keeps no table needs no permission.
    assert next(references(scenario, [1])).seed == 1
    assert next(first_layers(scenario, [1]))[1].earliest.dtype == np.uint32
