"""Table digests on the device against hashlib, wherever blocks, windows and the message may end."""

import hashlib

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember_jax.references import references
from ember_jax.table_digest import _take, finished, start_digests, take_layers
from ember_jax.world import WorldSize
from ember_ref.references import references as oracle_references
from ember_ref.scenario import scenario_from_text

ROWS, COLUMNS, WINDOW = 4, 5, 32


def expected_digest(scenario, name, seed, values):
    sizes = (scenario.termination.max_steps, scenario.grid.height, scenario.grid.width)
    message = b"emberbench/table/v1\0" + name.encode() + b"\0" + bytes.fromhex(scenario.content_hash)
    message += seed.to_bytes(8, "big") + b"".join(size.to_bytes(4, "big") for size in sizes)
    return hashlib.sha256(message + values.astype(">u4").tobytes()).hexdigest()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, ROWS),
    st.integers(2, COLUMNS),
    st.lists(st.integers(1, WINDOW), min_size=1, max_size=4),
    st.integers(0, 9),
)
def test_any_windows_of_any_grid_equal_hashlib(height, width, counts, number):
    rows = ["P" + "." * (width - 2) + "E", *["." * width] * (height - 1)]
    scenario = scenario_from_text(rows, id="grid", max_steps=sum(counts))
    random = np.random.default_rng(number)
    names, seeds = ["L", "M", "D"], [0, 2**64 - 1, number]
    digests = start_digests(scenario, names, seeds)
    taken = [[], [], []]
    for place, count in enumerate(counts):
        layers = random.integers(0, 2**32, size=(3, WINDOW, ROWS, COLUMNS), dtype=np.uint32)
        last = place == len(counts) - 1
        digests = take_layers(digests, layers, count, scenario, last=last)
        for table in range(3):
            taken[table].append(layers[table, :count, :height, :width].reshape(-1))
    expected = [
        expected_digest(scenario, name, seed, np.concatenate(values))
        for name, seed, values in zip(names, seeds, taken, strict=True)
    ]
    assert finished(digests) == expected


@pytest.mark.parametrize("steps", [1, 31, 32, 33, 64])
def test_horizons_about_a_window(steps):
    size = WorldSize(rows=8, cols=8, people=8, exits=8)
    scenario = scenario_from_text(["P.*", "..E"], id="small", max_steps=steps)
    found = list(references(scenario, [3, 4, 5], size=size))
    assert found == [oracle_references(scenario, seed) for seed in (3, 4, 5)]


def test_it_lowers_for_every_platform():
    arguments = (
        np.zeros((19, 3), np.uint32),
        np.zeros((8, 3), np.uint32),
        np.zeros((32, 3), np.uint32),
        np.zeros((3, WINDOW, ROWS, COLUMNS), np.uint32),
        np.zeros(4, np.int32),
        np.zeros(2, np.int32),
        np.zeros(2, np.uint32),
    )
    for platform in ("cpu", "cuda", "tpu"):
        assert jax.export.export(_take, platforms=[platform])(*arguments).platforms == (platform,)
