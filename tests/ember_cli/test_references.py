"""`references` and `survivability`, and what they refuse."""

import json
import pathlib

import numpy as np
import pytest

from ember_cli import survivability
from ember_ref.canonical import canonical_bytes
from ember_ref.fire import fire_world
from ember_ref.references import references
from ember_ref.scenario import scenario_from_text

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
LINES = [json.loads(line) for line in (VECTORS / "simulator.jsonl").read_text().splitlines()]


@pytest.fixture
def corner(tmp_path):
    """A room whose far corner is cut off by some fires."""
    scenario = scenario_from_text(
        ["#######", "#P...P#", "#..*..E", "#######"],
        id="corner",
        max_steps=20,
        model="stochastic",
        spread_probability=0.5,
    )
    file = tmp_path / "corner.json"
    file.write_bytes(canonical_bytes(scenario.to_dict()))
    return scenario, file


@pytest.mark.parametrize("backend", ["ref", "jax"])
def test_references_prints_the_vectors(ember, backend):
    line = next(line for line in LINES if "gen-101-0006" in line["scenario"])
    seeds = ",".join(str(entry["seed"]) for entry in line["references"])
    result = ember("references", VECTORS / line["scenario"], "--seeds", seeds, "--json", "--backend", backend)
    assert result.code == 0
    for found, expected in zip(result.lines, line["references"], strict=True):
        assert found.items() >= expected.items()
    assert result.out.encode() == b"".join(canonical_bytes(entry) + b"\n" for entry in result.lines)


def test_references_tells_on_a_terminal_who_is_lost(ember, corner):
    scenario, file = corner
    result = ember("references", file, "--seeds", "3")
    assert result.code == 0
    found = references(scenario, 3)
    assert f"{found.max_evacuated} of {len(found.people)}" in result.out


@pytest.mark.parametrize("backend", ["ref", "jax"])
def test_survivability_counts_the_fires_with_an_escape(ember, corner, tmp_path, backend, monkeypatch):
    monkeypatch.setattr(survivability, "BATCH", 16)  # several batches
    scenario, file = corner
    out = tmp_path / f"{backend}.npz"
    result = ember("survivability", file, "--seeds", "0:40", "--out", out, "--json", "--backend", backend)
    assert result.code == 0
    assert result.lines == [{"scenario": str(file), "seeds": 40, "cells": 10}]
    found = np.load(out)
    assert int(found["fires"]) == 40
    assert str(found["scenario_hash"]) == scenario.content_hash
    per_seed = [
        {person.id: person.earliest_evacuation for person in references(scenario, seed).people} for seed in range(40)
    ]
    for person in scenario.people:
        steps = [step for seed in per_seed if (step := seed[person.id]) is not None]
        assert len(steps) > 0
        assert found["escapes"][person.position] == len(steps)
        assert found["share"][person.position] == len(steps) / 40
        assert found["mean_earliest"][person.position] == sum(steps) / len(steps)
    assert np.isnan(found["share"][found["walls"] | found["exits"]]).all()
    # Where it burns nobody escapes, and there is nothing to average.
    assert found["share"][2, 3] == 0
    assert np.isnan(found["mean_earliest"][2, 3])
    assert fire_world(scenario, 0).at((2, 3)) == 0
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_survivability_says_how_to_get_a_picture_when_it_cannot_draw(ember, corner, tmp_path, monkeypatch):
    monkeypatch.setattr(survivability.importlib.util, "find_spec", lambda _: None)
    result = ember("survivability", corner[1], "--seeds", "0,1", "--out", tmp_path / "s.npz", "--json")
    assert result.code == 0
    assert "install the extra `plot`" in result.err
    assert not (tmp_path / "s.png").exists()
    assert (tmp_path / "s.npz").exists()


def test_survivability_refuses_a_name_that_is_no_array_file(refused, corner, tmp_path):
    text = refused("survivability", corner[1], "--seeds", "0,1", "--out", tmp_path / "s.png")
    assert "expected a name ending in .npz" in text
    assert "No such file" in refused("survivability", corner[1], "--out", tmp_path / "nowhere" / "s.npz")
    assert not list(tmp_path.glob("s.*"))
