"""The plain evidence of batches against the vectors, the oracle, and itself in other batches and paddings."""

import functools

import jax
import numpy as np
import pytest
from evidence_oracle import LINES, VECTORS, check_bounds, check_random

from ember_jax.evidence import COLUMNS, evidence, evidence_of_records
from ember_jax.world import WorldSize
from ember_ref.capacity import capacity_bounds
from ember_ref.episode import run_episode
from ember_ref.fire import NEVER, fire_world
from ember_ref.policies import POLICY_NAMES, make_policy
from ember_ref.references import EarliestTable, references_of
from ember_ref.routes import route_invalidations
from ember_ref.scenario import load_scenario, scenario_from_text

SMALL = WorldSize(rows=24, cols=24, people=64, exits=8)
TINY = WorldSize(rows=16, cols=16, people=16, exits=8)
QUICK = ("door-11.json", "events-11.json", "gen-101-0006.json")


def test_the_bounds_of_three_vectors():
    chosen = [line for line in LINES if line["scenario"].split("/")[1] in QUICK]
    assert len(chosen) == len(QUICK)
    for line in chosen:
        bounds = [bound for bound in line["bounds"] if bound["policy"] == "congestion-aware-v1"]
        check_bounds(line, bounds, functools.partial(evidence, size=SMALL))


def test_evidence_of_random_episodes_equals_the_oracle():
    policy_of = lambda number: [POLICY_NAMES[number % len(POLICY_NAMES)]]  # noqa: E731
    assert check_random(range(60), policy_of, 2, functools.partial(evidence_of_records, size=TINY)) == 120


@pytest.mark.slow
def test_evidence_of_1000_random_episodes_equals_the_oracle():
    found = check_random(
        range(1000, 1042), lambda _: POLICY_NAMES, 4, functools.partial(evidence_of_records, size=TINY)
    )
    assert found >= 1000


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
    together = evidence(scenario, seeds, "fire-aware-shortest-path-v1")
    alone = [evidence(scenario, [seed], "fire-aware-shortest-path-v1", size=SMALL) for seed in seeds[[0, 7, 19]]]
    for name in COLUMNS:
        values = getattr(together, name)
        assert values.dtype == np.int64
        assert values[[0, 7, 19]].tolist() == [int(getattr(found, name)[0]) for found in alone]
    with jax.enable_x64(True):
        wide = evidence(scenario, seeds, "fire-aware-shortest-path-v1", threads=1)
    for name in COLUMNS:
        assert np.array_equal(getattr(wide, name), getattr(together, name))


def test_one_bound_by_hand():
    """Nine people behind a door pass it one a step, two steps from an exit."""
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


def test_scenarios_of_one_size_share_compilations_and_all_lower_for_every_platform():
    from ember_jax import evidence as module

    size = WorldSize(rows=8, cols=8, people=8, exits=8)
    first = scenario_from_text(["P..E", "..#.", "*..P"], id="first", max_steps=20)
    other = scenario_from_text(["E....", ".P#..", "..#.*", "P...."], id="other", max_steps=31)
    compiled = {"_begin": (), "_go_on": (1,), "_block": (), "_descend": (), "_arrivals": (), "_bounds": ()}
    calls = {}

    def keeping(name, function):
        def call(*arguments):
            calls.setdefault(name, arguments)
            return function(*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in compiled:
            patch.setattr(module, name, keeping(name, getattr(module, name)))
        module.evidence(first, [0, 1, 2, 3], "static-shortest-path-v1", size=size)
    counts = {name: getattr(module, name)._cache_size() for name in compiled}
    module.evidence(other, [7, 8, 9, 10], "static-shortest-path-v1", size=size)
    assert {name: getattr(module, name)._cache_size() for name in compiled} == counts
    with jax.enable_x64(True):
        for name, static in compiled.items():
            function = jax.jit(getattr(module, name), static_argnums=static)
            for platform in ("cpu", "cuda", "tpu"):
                exported = jax.export.export(function, platforms=[platform])(*calls[name])
                assert exported.platforms == (platform,)
