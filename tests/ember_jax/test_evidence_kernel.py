"""The fast evidence against the vectors, the oracle, its plain twin, and itself in other batches."""

import dataclasses

import jax
import numpy as np
import pytest
from evidence_oracle import LINES, VECTORS, check_bounds, check_random, oracle

from ember_jax import evidence as plain
from ember_jax import evidence_kernel
from ember_jax.capacity import cut_groups
from ember_jax.capacity_kernel import lay_out_cuts
from ember_jax.evidence import COLUMNS
from ember_jax.evidence_kernel import evidence, evidence_of_records, evidence_size
from ember_jax.fire_kernel import padded_seeds
from ember_jax.references_kernel import reference_ground
from ember_ref.episode import run_episode
from ember_ref.errors import VerificationError
from ember_ref.fire import NEVER
from ember_ref.policies import POLICY_NAMES, make_policy
from ember_ref.scenario import TerminationSpec, load_scenario, scenario_from_text

QUICK = ("door-11.json", "events-11.json", "gen-101-0006.json")
EVENTS = VECTORS / "scenarios" / "events-11.json"


def assert_equal(left, right):
    for name, a, b in zip(left._fields, left, right, strict=True):
        assert np.array_equal(a, b), name


def test_the_bounds_of_three_vectors():
    chosen = [line for line in LINES if line["scenario"].split("/")[1] in QUICK]
    assert len(chosen) == len(QUICK)
    for line in chosen:
        check_bounds(line, line["bounds"], evidence)


@pytest.mark.slow
def test_every_bound_of_the_vectors():
    assert len(LINES) > 100
    for line in LINES:
        check_bounds(line, line["bounds"], evidence)


def test_evidence_of_random_episodes_equals_the_oracle():
    policy_of = lambda number: [POLICY_NAMES[number % len(POLICY_NAMES)]]  # noqa: E731
    assert check_random(range(50), policy_of, 3, evidence_of_records, max_people=8) == 150


@pytest.mark.slow
def test_evidence_of_5000_random_episodes_equals_the_oracle():
    assert check_random(range(1000, 1210), lambda _: POLICY_NAMES, 4, evidence_of_records) >= 5000


@pytest.mark.parametrize("steps", [254, 255, 300])
def test_horizons_about_the_width_of_a_byte(steps):
    policy_of = lambda _: ["random-legal-v1"]  # noqa: E731
    assert check_random([7, 30], policy_of, 2, evidence_of_records, max_steps=steps) == 4


def test_a_horizon_at_the_end_of_a_byte_by_hand():
    """The way is longer than the horizon for one, and ends with it for the other."""
    for horizon in (254, 255):
        corridor = ["." * 255 + "E"]
        for start, escapes in ((255 - horizon, True), (254 - horizon, False)):
            if start < 0:
                continue
            rows = [corridor[0][:start] + "P" + corridor[0][start + 1 :]]
            scenario = scenario_from_text(rows, id="corridor", max_steps=horizon)
            found = evidence(scenario, [0], "static-shortest-path-v1")
            assert (int(found.earliest_evacuation[0, 0]) == horizon) == escapes
            assert int(found.sum_evacuation_steps[0]) == (horizon if escapes else 0)
            assert int(found.exit_bound[0]) == int(found.time_bound[0]) == (horizon if escapes else 0)


def test_an_escape_that_ends_with_the_horizon_is_one():
    scenario, policy = load_scenario(EVENTS), "static-shortest-path-v1"
    found = evidence(scenario, range(6), policy, events=True)
    ends = {(int(found.events[i, 0]), int(found.events[i, 3])) for i in range(len(found.events))}
    met = 0
    for seed, end in sorted(ends)[:12]:
        if end == NEVER:
            continue
        for horizon in (end, end - 1):
            short = dataclasses.replace(scenario, termination=TerminationSpec(max_steps=horizon))
            record = run_episode(short, seed, make_policy(policy))
            expected, events = oracle(short, record)
            got = evidence_of_records(short, [record])
            assert {name: int(getattr(got, name)[0]) for name in COLUMNS} == expected, (seed, horizon)
            met += any(earliest == horizon for _, _, earliest in events)
    assert met > 0


def test_an_exit_takes_people_until_it_burns():
    # The exit on the left burns from step 1 on; it takes one person of the bound in step 1, none in step 2.
    rows = ["." * 16 + "PP", "." * 15 + "PPP", "E*" + "." * 13 + "PPE", "." * 15 + "PPP", "." * 16 + "PP"]
    scenario = scenario_from_text(rows, id="closing", max_steps=40, exits_flammable=True)
    record = run_episode(scenario, 0, make_policy("static-shortest-path-v1"))
    expected, _ = oracle(scenario, record)
    got = evidence_of_records(scenario, [record])
    assert {name: int(getattr(got, name)[0]) for name in COLUMNS} == expected
    assert int(got.exit_bound[0]) == 2 * 1 + sum(range(2, 12))  # two in step 1, then one a step


def test_many_people_take_more_than_one_word():
    rows = ["P" * 10 + "#." for _ in range(7)] + ["." * 11 + "E"]
    crowd = scenario_from_text(rows, id="crowd", max_steps=120)
    assert len(crowd.people) == 70
    seeds = np.arange(3, dtype=np.uint64)
    fast = evidence(crowd, seeds, "congestion-aware-v1", events=True)
    assert_equal(fast, plain.evidence(crowd, seeds, "congestion-aware-v1", events=True))
    assert int(fast.time_bound[0]) > int(fast.sum_earliest[0])


@pytest.mark.parametrize("policy", [*POLICY_NAMES, "adv-block-scrub.congestion-aware-v1"])
def test_a_rollout_has_the_evidence_of_its_records(policy):
    scenario = load_scenario(EVENTS)
    seeds = list(range(6))
    records = [run_episode(scenario, seed, make_policy(policy)) for seed in seeds]
    rolled = evidence(scenario, seeds, policy, events=True)
    assert len(rolled.events) > 0
    assert_equal(rolled, evidence_of_records(scenario, records, events=True))


def test_neither_batch_nor_x64_nor_threads_matter():
    scenario = load_scenario(EVENTS)
    seeds = np.arange(300, dtype=np.uint64) + np.uint64(2**64 - 300)
    together = evidence(scenario, seeds, "fire-aware-shortest-path-v1")
    chosen = [0, 129, 299]
    alone = [evidence(scenario, [seed], "fire-aware-shortest-path-v1") for seed in seeds[chosen]]
    for name in COLUMNS:
        values = getattr(together, name)
        assert values.dtype == np.int64
        assert values[chosen].tolist() == [int(getattr(found, name)[0]) for found in alone]
    with jax.enable_x64(True):
        wide = evidence(scenario, seeds[::-1], "fire-aware-shortest-path-v1", threads=1)
    for name in COLUMNS:
        assert np.array_equal(getattr(wide, name)[::-1], getattr(together, name))


def test_no_episode_has_no_evidence():
    found = evidence(load_scenario(EVENTS), [], "static-shortest-path-v1", events=True)
    assert found.time_bound.shape == (0,)
    assert found.earliest_evacuation.shape[0] == 0


def test_what_is_too_large_takes_the_plain_form(monkeypatch):
    scenario = load_scenario(EVENTS)
    fast = evidence(scenario, [1, 2], "static-shortest-path-v1")
    monkeypatch.setattr(evidence_kernel, "_MOST_VALUES", 1)
    monkeypatch.setattr(evidence_kernel, "_EVIDENCE", None)
    assert_equal(evidence(scenario, [1, 2], "static-shortest-path-v1"), fast)


def test_more_evacuations_than_the_exits_allow_are_refused():
    scenario = scenario_from_text(["P.PE"], id="pair", max_steps=3)
    record = run_episode(scenario, 0, make_policy("static-shortest-path-v1"))
    forged = scenario_from_text(["P.PE"], id="pair", max_steps=2)
    with pytest.raises(VerificationError, match="pair, seed 0"):
        evidence_of_records(forged, [record])


def test_scenarios_of_one_size_share_a_compilation():
    first = scenario_from_text(["P..E", "..#.", "*..P"], id="a", max_steps=20)
    other = scenario_from_text(["E....", ".P#..", "..#.*", "P...."], id="b", max_steps=31)
    evidence(first, [0], "static-shortest-path-v1")
    before = evidence_kernel._EVIDENCE.compilations
    evidence(other, range(99), "static-shortest-path-v1")
    assert evidence_kernel._EVIDENCE.compilations == before


@pytest.mark.parametrize("events", [False, True])
def test_the_call_is_one_kernel_and_lowers_for_every_platform(events):
    scenario = load_scenario(EVENTS)
    groups = cut_groups(scenario, evidence_kernel._world_size(scenario))
    size = evidence_size(scenario, groups, tiles=1, events=events)
    place = np.zeros(size.references.cells, dtype=np.int32)
    episodes = evidence_kernel.Episodes(
        cell=np.zeros((size.tiles, size.snapshots, size.people, 128), dtype=np.uint16),
        evacuated=np.zeros((size.tiles, size.people, 128), dtype=np.bool_),
        resolution=np.zeros((size.tiles, size.people, 128), dtype=np.int32),
        last=np.int32(0),
        place=place,
    )
    cuts = lay_out_cuts(scenario, groups, size.capacity, place)
    seeds = padded_seeds(np.array([1], dtype=np.uint64), size.tiles)
    arguments = (reference_ground(scenario, size.references), cuts, np.int32(1), *seeds, episodes)
    kernel = evidence_kernel._EVIDENCE
    if jax.default_backend() == "cpu":
        text = kernel.compile(size, *arguments).as_text()
        calls = [line for line in text.splitlines() if " call(" in line]
        assert sum('inlineable="false",xla_cpu_small_call="true"' in line for line in calls) == 1
    with jax.enable_x64(True):
        for platform in ("cpu", "cuda", "tpu"):
            exported = jax.export.export(kernel.traceable(size), platforms=[platform])(*arguments)
            assert exported.platforms == (platform,)
