import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ember_jax import fire as plain
from ember_jax import fire_kernel
from ember_jax.fire_kernel import fire_size, fire_summaries, fire_worlds, padded_seeds, terrain
from ember_ref.fire import NEVER, Fire, fire_world
from ember_ref.scenario import Scenario, TerminationSpec, load_scenario, parse_scenario
from ember_ref.stream import FIRE, Stream

VECTORS = Path(__file__).parents[1] / "vectors"
SEEDS = [0, 1, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1]


def _scenario(
    height,
    width,
    *,
    ignitions,
    obstacles=(),
    exits=((0, 0),),
    probability=0.3,
    interval=1,
    flammable=False,
    max_steps=40,
):
    taken = {*map(tuple, ignitions), *map(tuple, obstacles), *map(tuple, exits)}
    person = next(cell for cell in np.ndindex(height, width) if cell not in taken)
    return Scenario.from_dict(
        {
            "schema_version": "1.0",
            "id": "fire",
            "description": "",
            "seed": 0,
            "grid": {"width": width, "height": height, "obstacles": [list(cell) for cell in obstacles]},
            "exits": [{"id": f"E{i}", "position": list(cell)} for i, cell in enumerate(exits)],
            "people": [{"id": "P1", "position": list(person)}],
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


def _assert_equals_reference(scenario, seeds):
    worlds = fire_worlds(scenario, seeds)
    summaries = fire_summaries(scenario, seeds, digests=True)
    for at, seed in enumerate(seeds):
        expected = fire_world(scenario, int(seed))
        assert worlds.ignition_step[at].reshape(-1).tolist() == list(expected.ignition_step)
        assert worlds.stream_position[at] == summaries.stream_position[at] == expected.stream_position
        assert summaries.burned[at] == expected.burned
        assert summaries.digest[at].tobytes().hex() == expected.digest


def test_every_world_of_the_vectors_is_reproduced():
    for line in (VECTORS / "simulator.jsonl").read_text().splitlines():
        vector = json.loads(line)
        scenario = load_scenario(VECTORS / vector["scenario"])
        seeds = np.array([world["seed"] for world in vector["worlds"]], dtype=np.uint64)
        got = fire_summaries(scenario, seeds, digests=True)
        for at, world in enumerate(vector["worlds"]):
            assert got.digest[at].tobytes().hex() == world["fire_world_digest"], vector["scenario"]
            assert got.stream_position[at] == world["stream_position"]
            assert got.burned[at] == world["burned"]


@pytest.mark.parametrize("probability", [None, 0.0, 2**-53, 0.3, 1 - 2**-53, 1.0])
@pytest.mark.parametrize("flammable", [False, True])
def test_both_models_and_every_probability_with_flammable_exits_and_without(probability, flammable):
    scenario = _scenario(
        7,
        9,
        ignitions=[(3, 4), (6, 8)],
        obstacles=[(2, 4), (3, 5)],
        exits=[(0, 0), (3, 3)],
        probability=probability,
        flammable=flammable,
    )
    _assert_equals_reference(scenario, SEEDS)


@pytest.mark.parametrize(("interval", "max_steps"), [(2, 41), (3, 9), (7, 6), (5, 5), (1, 300)])
def test_the_fire_spreads_only_in_multiples_of_the_interval(interval, max_steps):
    scenario = _scenario(6, 11, ignitions=[(5, 10)], interval=interval, max_steps=max_steps, probability=0.05)
    _assert_equals_reference(scenario, SEEDS)


def test_without_ignitions_nothing_burns_and_no_word_is_consumed():
    worlds = fire_worlds(_scenario(5, 5, ignitions=[]), SEEDS)
    assert np.all(worlds.ignition_step == NEVER)
    assert not np.any(worlds.stream_position)


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 97), (97, 1), (3, 31), (3, 32), (3, 33), (5, 64), (4, 127)])
def test_any_width_is_only_data(shape):
    height, width = shape
    tiny = height * width == 2
    ignitions = [(0, 0)] if tiny else [(height - 1, width - 1)]
    scenario = _scenario(height, width, ignitions=ignitions, flammable=tiny, max_steps=60)
    _assert_equals_reference(scenario, SEEDS)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_random_scenarios_equal_the_reference(data):
    height, width = data.draw(st.integers(2, 15)), data.draw(st.integers(2, 15))
    cells = data.draw(st.permutations([(row, col) for row in range(height) for col in range(width)]))
    exits, ignitions = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 3))
    obstacles = data.draw(st.integers(0, max(0, len(cells) // 3 - 2)))
    ends = np.cumsum([exits, ignitions, obstacles]).tolist()
    if ends[-1] >= len(cells):
        return
    scenario = _scenario(
        height,
        width,
        exits=cells[: ends[0]],
        ignitions=cells[ends[0] : ends[1]],
        obstacles=cells[ends[1] : ends[2]],
        probability=data.draw(st.none() | st.floats(0, 1)),
        interval=data.draw(st.integers(1, 3)),
        flammable=data.draw(st.booleans()),
        max_steps=data.draw(st.integers(1, 60)),
    )
    _assert_equals_reference(scenario, data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3)))


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 2048, 2300])
def test_results_do_not_depend_on_the_batch_the_place_in_it_or_the_threads(count):
    scenario = _scenario(5, 6, ignitions=[(2, 3)], max_steps=20)
    seeds = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    backwards = fire_summaries(scenario, seeds[::-1], digests=True, threads=1)
    got = fire_summaries(scenario, seeds, digests=True, threads=2)
    assert got.digest.shape == (count, 32)
    assert np.array_equal(got.digest, backwards.digest[::-1])
    assert np.array_equal(got.stream_position, backwards.stream_position[::-1])
    for at in {0, count // 2, count - 1} if count else ():
        assert got.digest[at].tobytes().hex() == fire_world(scenario, int(seeds[at])).digest


@pytest.mark.parametrize("start", [2**32 - 50, 2**40 + 7, 2**64 - 2**20])
def test_stream_positions_are_64_bit_counts(start):
    scenario = _scenario(8, 8, ignitions=[(4, 4)], probability=0.2)
    size = fire_size(scenario)
    ground = terrain(scenario, size)._replace(start=np.uint64(start))
    hi, lo = padded_seeds(np.array(SEEDS, dtype=np.uint64), size.tiles)
    got = fire_kernel._COUNTS(size, ground, np.int32(1), hi, lo)
    for at, seed in enumerate(SEEDS):
        stream, burning = Stream(FIRE, seed, position=start), set(scenario.fire.ignitions)
        for step in range(1, scenario.termination.max_steps + 1):
            burning.update(Fire(scenario).ignitions(burning, step, stream))
        assert got["burned"][0, at] == len(burning)
        assert got["stream_position"][0, at] == stream.position


def test_many_draws_start_the_buffer_again_without_a_trace():
    # p = 0 keeps the same candidates for ever; 1,000 steps of 160 draws and more pass the buffer's 2,048 bits.
    ignitions = [(row, col) for row in range(1, 16) for col in range(row % 2, 16, 2)]
    scenario = _scenario(16, 16, ignitions=ignitions, probability=0.0, max_steps=1000)
    got = fire_summaries(scenario, [5])
    assert got.stream_position[0] == fire_world(scenario, 5).stream_position


def test_the_largest_grid_equals_the_reference():
    scenario = _scenario(
        512, 512, ignitions=[(0, 511), (256, 256), (511, 0), (511, 511)], obstacles=[(255, 256)], max_steps=12
    )
    _assert_equals_reference(scenario, [3, 2**64 - 3])


def test_worlds_equal_the_plain_twin_on_the_benchmark_scenarios():
    for name in ("bench-20", "bench-64-slow"):
        scenario = load_scenario(Path(__file__).parents[2] / "benchmarks" / "scenarios" / f"{name}.json")
        scenario = dataclasses.replace(scenario, termination=TerminationSpec(max_steps=90))
        seeds = np.arange(3, dtype=np.uint64)
        got, expected = fire_worlds(scenario, seeds), plain.fire_worlds(scenario, seeds)
        assert np.array_equal(got.ignition_step, expected.ignition_step)
        assert np.array_equal(got.stream_position, expected.stream_position)


def test_scenarios_of_one_padded_size_share_a_compilation():
    before = fire_kernel._COUNTS.compilations
    for height, width, probability, interval in (
        (20, 20, 0.3, 1),
        (20, 25, None, 2),
        (33, 15, 0.0, 7),
        (17, 29, 1.0, 1),
    ):
        scenario = _scenario(
            height, width, ignitions=[(1, 1)], probability=probability, interval=interval, max_steps=99
        )
        fire_summaries(scenario, SEEDS)
    assert fire_kernel._COUNTS.compilations - before <= 1


def _arguments():
    scenario = _scenario(6, 6, ignitions=[(2, 2)], max_steps=9)
    size = fire_size(scenario)
    return size, (terrain(scenario, size), np.int32(1), *padded_seeds(np.array([1], dtype=np.uint64), size.tiles))


def test_the_whole_call_is_one_kernel():
    if jax.default_backend() != "cpu":
        pytest.skip("the attribute is for cpu")
    size, arguments = _arguments()
    text = fire_kernel._COUNTS.compile(size, *arguments).as_text()
    assert text.count('inlineable="false",xla_cpu_small_call="true"') == 1


def test_every_call_lowers_for_cpu_cuda_and_tpu():
    size, arguments = _arguments()
    with jax.enable_x64(True):
        for kernel in (fire_kernel._COUNTS, fire_kernel._DIGESTS, fire_kernel._WORLDS):
            for platform in ("cpu", "cuda", "tpu"):
                exported = jax.export.export(kernel.traceable(size), platforms=[platform])(*arguments)
                assert exported.platforms == (platform,)


@pytest.mark.parametrize("enable_x64", [False, True])
def test_results_do_not_depend_on_jax_enable_x64_or_lenient_promotion(enable_x64):
    scenario = parse_scenario((VECTORS / "scenarios" / "door-11.json").read_bytes())
    strict = jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise")
    with jax.enable_x64(enable_x64), strict[0], strict[1]:
        fire_kernel._COUNTS._compiled.clear()
        got = fire_summaries(scenario, SEEDS)
    assert [fire_world(scenario, seed).stream_position for seed in SEEDS] == got.stream_position.tolist()
