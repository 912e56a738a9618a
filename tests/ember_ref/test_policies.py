import pytest
from strategies import random_scenario

from ember_ref.episode import run_episode
from ember_ref.errors import EmberError
from ember_ref.movement import CONGESTION_BLOCKS
from ember_ref.policies import POLICY_NAMES, SCRUB_PREFIX, make_policy
from ember_ref.scenario import scenario_from_text
from ember_ref.simulator import Simulator
from ember_ref.stream import stream_seed, word


def first_actions(rows, policy, **rules):
    simulator = Simulator(scenario_from_text(rows, id="map", **rules), 0)
    return {person: str(action) for person, action in make_policy(policy).act(simulator.observe()).items()}


def test_ties_go_to_the_earlier_action():
    # The exit lies north-east: north comes before east.
    for policy in ("nearest-exit-greedy-v1", "static-shortest-path-v1", "fire-aware-shortest-path-v1"):
        assert first_actions([".E", "P."], policy) == {"P1": "north"}
    # South-west: south comes before west.
    assert first_actions([".P", "E."], "static-shortest-path-v1") == {"P1": "south"}
    # East before west.
    assert first_actions(["E.P.E"], "static-shortest-path-v1") == {"P1": "east"}


def test_greedy_takes_the_nearest_exit_burning_or_not_and_the_lower_id_of_equals():
    assert first_actions(["X.P....E"], "nearest-exit-greedy-v1", exits_flammable=True) == {"P1": "west"}
    assert first_actions(["E.P.E"], "nearest-exit-greedy-v1") == {"P1": "west"}  # E1 before E2
    assert first_actions(["P#E", "..."], "nearest-exit-greedy-v1") == {"P1": "stay"}
    assert first_actions(["P*E"], "nearest-exit-greedy-v1") == {"P1": "stay"}


def test_static_ignores_fire_and_fire_aware_does_not():
    rows = ["P*E", "..."]
    assert first_actions(rows, "static-shortest-path-v1") == {"P1": "east"}
    assert first_actions(rows, "fire-aware-shortest-path-v1") == {"P1": "south"}
    assert first_actions(["P*E"], "fire-aware-shortest-path-v1") == {"P1": "stay"}
    assert first_actions(["P#E"], "static-shortest-path-v1") == {"P1": "stay"}


def test_random_legal_draws_a_word_a_person_from_its_own_stream():
    rows, seed = ["P.E", "#*P"], stream_seed("policy/random-legal-v1", 0)
    legal = {"P1": ["stay", "east"], "P2": ["stay", "north"]}
    expected = {
        person: choices[(word(seed, k) >> 32) * len(choices) >> 32]
        for k, (person, choices) in enumerate(legal.items())
    }
    assert first_actions(rows, "random-legal-v1") == expected
    scenario = scenario_from_text(rows, id="again", max_steps=5)
    policy = make_policy("random-legal-v1", 3)
    assert run_episode(scenario, 1, policy) == run_episode(scenario, 1, policy)  # every episode starts at 0


def test_congestion_aware_shares_the_exits_out():
    # Three people one step from E1 in line, E2 further: the third gains by E2.
    actions = first_actions(["E.PPP..E"], "congestion-aware-v1")
    assert actions["P1"] == "west"
    assert actions["P3"] == "east"


def test_congestion_aware_lets_nobody_aim_at_a_taken_cell():
    actions = first_actions(["#P#", "P.P", "#E#"], "congestion-aware-v1")
    assert sorted(actions.values()) == ["south", "stay", "stay"]
    assert actions["P1"] == "south"


def test_congestion_aware_leaves_out_who_cannot_escape():
    assert first_actions(["P*PE"], "congestion-aware-v1", spread_interval=9) == {"P1": "stay", "P2": "east"}


@pytest.mark.parametrize("number", range(12))
def test_the_scrub_keeps_the_trajectory_and_has_no_congestion_block(number):
    scenario = random_scenario(number, max_people=30, max_side=9)
    for name in POLICY_NAMES:
        plain = run_episode(scenario, number, make_policy(name))
        scrubbed = run_episode(scenario, number, make_policy(SCRUB_PREFIX + name))
        assert scrubbed.trajectory_digest == plain.trajectory_digest
        outcomes = {m.outcome for step in scrubbed.steps for m in step.movements}
        assert not outcomes & CONGESTION_BLOCKS


def test_names():
    assert make_policy(SCRUB_PREFIX * 2 + "always-stay-v1").name == SCRUB_PREFIX * 2 + "always-stay-v1"
    with pytest.raises(EmberError, match="policy 'fast' is unknown; expected always-stay-v1"):
        make_policy("fast")
    with pytest.raises(EmberError, match="seed -1 is not an integer"):
        make_policy("random-legal-v1", -1)
