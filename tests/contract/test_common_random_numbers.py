"""One (scenario, seed) has one fire, whatever people do (fairness section 2), on both implementations."""

import pytest

from ember_jax.differential import RandomActions
from ember_jax.world import padded_size
from ember_ref.episode import run_episode
from ember_ref.policies import POLICY_NAMES, make_policy
from ember_ref.record import ActionLog
from ember_ref.scenario import load_scenario, scenario_from_text
from scenarios.bundled import scenario_path

ROWS = ["P....E", ".#.*..", "P..#..", "..X..P"]
TWO = ["P....E", ".#.*..", "P..#.*", ".....P"]


def drawn(rows, *, flammable=True, interval=1, probability=0.3):
    return scenario_from_text(
        rows,
        id="common",
        model="stochastic",
        spread_probability=probability,
        spread_interval=interval,
        exits_flammable=flammable,
        max_steps=14,
    )


CASES = {
    "one exit burns": drawn(ROWS),
    "two ignitions, exits not flammable": drawn(TWO, flammable=False),
    "interval 2": drawn(ROWS, interval=2),
    "p = 0": drawn(ROWS, probability=0.0),
    "p = 1": drawn(ROWS, probability=1.0),
    "route invalidation": load_scenario(scenario_path("v1-pub-06-route-invalidation")),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 2**63 + 5])
def test_the_fire_is_the_same_under_every_policy_and_log_and_without_people(backend, name, seed):
    scenario = CASES[name]
    world = backend.fire(scenario, seed)
    noise = run_episode(scenario, seed, RandomActions(1))
    log = ActionLog(
        scenario_hash=scenario.content_hash, seed=seed, actions=tuple(step.actions for step in noise.steps)
    )
    runs = [backend.run(scenario, seed, policy) for policy in POLICY_NAMES]
    for record in [*runs, backend.script(scenario, seed, log)]:
        for step in record.steps:
            cells = [cell for cell in scenario.grid.positions() if world.at(cell) == step.step]
            assert list(step.ignitions) == cells
            burning = [cell for cell in scenario.grid.positions() if world.at(cell) <= step.step]
            assert list(step.state.burning) == burning


@pytest.mark.parametrize("name", CASES)
def test_stream_positions_agree_at_every_shared_step(backend, name):
    scenario, size = CASES[name], padded_size(*CASES.values())
    policies = [RandomActions(1), RandomActions(2), make_policy("always-stay-v1"), make_policy("random-legal-v1")]
    runs = [run_episode(scenario, 7, policy) for policy in policies]
    positions = [backend.fire_positions(scenario, 7, record, size) for record in runs]
    shared = min(map(len, positions))
    assert shared > 1
    assert len({tuple(seen[:shared]) for seen in positions}) == 1
    longest = max(positions, key=len)
    if len(longest) > scenario.termination.max_steps:
        assert longest[-1] == backend.fire(scenario, 7).stream_position
