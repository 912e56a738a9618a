"""`bench`: what it prints, and that its checksum is that of the oracle's results."""

import pathlib

import numpy as np
import pytest

from ember_cli.bench import Work, _work
from ember_ref.episode import run_episode
from ember_ref.fire import fire_world
from ember_ref.policies import make_policy
from ember_ref.scenario import load_scenario
from scenarios.bundled import scenario_path

FLAT = "v1-pub-01-single-exit-low-density"
KEYS = {
    *("work", "policy", "scenario", "device", "batch", "seeds", "seconds", "first_seed", "seeds_per_s"),
    *("compile_seconds", "cpu_use", "checksum"),
}


@pytest.mark.parametrize(
    ("work", "options"),
    [("world", ()), ("references", ()), ("rollout", ("--policy", "static-shortest-path-v1"))],
)
def test_a_line_says_what_was_done(ember, work, options):
    result = ember("bench", FLAT, "--work", work, *options, "--seconds", 0.2, "--json")
    assert result.code == 0, result.err
    (line,) = result.lines
    assert line.keys() == KEYS
    assert (line["work"], line["scenario"], line["policy"]) == (work, FLAT, options[1] if options else None)
    assert line["seeds"] % line["batch"] == 0
    assert line["seconds"] >= 0.2
    assert line["seeds_per_s"] == pytest.approx(line["seeds"] / line["seconds"], rel=0.01)
    # The rounds are fresh seeds one after the other: the whole range at once has the same checksum.
    scenario = load_scenario(scenario_path(FLAT))
    if work != "rollout":
        assert _work(scenario, Work(work), line["policy"])(0, line["seeds"]) == line["checksum"]


def test_the_checksums_are_those_of_the_oracle():
    scenario = load_scenario(scenario_path(FLAT))
    fires = [fire_world(scenario, seed) for seed in range(5)]
    assert _work(scenario, Work.WORLD, None)(0, 5) == sum(f.burned + f.stream_position for f in fires)
    policy = "static-shortest-path-v1"
    records = [run_episode(scenario, seed, make_policy(policy, 0)) for seed in range(5)]
    steps = sum(len(record.steps) for record in records)
    moved = sum(m.outcome == "moved" for record in records for step in record.steps for m in step.movements)
    resolved = sum(step.step * len([*step.evacuations, *step.casualties]) for r in records for step in r.steps)
    from ember_jax.rollout import rollouts

    statuses = sum(int(batch.status.sum()) for batch in rollouts(scenario, np.arange(5), policy))
    assert _work(scenario, Work.ROLLOUT, policy)(0, 5) == steps + moved + resolved + statuses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--work", "rollout"), "--work rollout and --policy NAME go together"),
        (("--work", "world", "--policy", "always-stay-v1"), "go together"),
        (("--work", "rollout", "--policy", "fastest"), "policy 'fastest' is unknown"),
        (("--work", "dance"), "--work"),
        (("--work", "world", "--seconds", "nan"), "expected more than 0"),
        (("--work", "world", "--seconds", "0"), "expected more than 0"),
    ],
)
def test_bad_calls(refused, options, message):
    assert message in refused("bench", FLAT, *options)


def test_the_scenario_is_read_before_anything_is_compiled(refused):
    assert "is not bundled" in refused("bench", str(pathlib.PurePath("nowhere")), "--work", "world")
