"""Metrics against the vectors, the edge cases of metrics.md section 13, and damaged records."""

import copy
import dataclasses
import json
import pathlib
import random
from collections import Counter
from fractions import Fraction

import pytest
from strategies import random_scenario

from ember_jax.differential import RandomActions
from ember_ref.canonical import canonical_bytes
from ember_ref.episode import run_episode
from ember_ref.errors import MetricsInputError, RecordError, ReplayMismatchError
from ember_ref.policies import POLICY_NAMES, make_policy
from ember_ref.record import RunRecord
from ember_ref.scenario import scenario_from_text
from ember_ref.simulator import Simulator
from ember_ref.suite import load_pack
from scoring.metrics import check_invariants, episode_metrics
from scoring.validation import REPLAY_FAILURE

SCORE = pathlib.Path(__file__).parents[1] / "vectors" / "score"
PACK = load_pack(SCORE / "pack.json")


def measured(rows, policy="static-shortest-path-v1", **rules):
    scenario = scenario_from_text(rows, id="map", **({"max_steps": 12} | rules))
    return episode_metrics(scenario, run_episode(scenario, 0, make_policy(policy)))


@pytest.mark.parametrize("name", ["a", "a2", "a3", "b", "c"])
def test_the_metrics_of_the_vectors_byte_for_byte(name):
    episodes = json.loads((SCORE / f"result-{name}.json").read_text())["episodes"]
    assert len(episodes) > 20
    for episode in episodes:
        found = episode_metrics(PACK.scenarios[episode["scenario_id"]], RunRecord.from_dict(episode["record"]))
        assert canonical_bytes(found.to_dict()) == canonical_bytes(episode["metrics"])


# Section 13, a row each.


def test_nobody_evacuates():
    found = measured(["P#E", "P#."], "always-stay-v1")
    assert found.time.person_time_to_safety_total == 2 * 12
    assert (found.time.mean_evacuation_step, found.time.median_evacuation_step) == (None, None)
    assert (found.exits.exit_shares, found.exits.max_exit_share, found.exits.exit_balance) == (None, None, None)
    assert found.path_efficiency.mean_detour_ratio is None


def test_one_exit_has_no_balance_and_two_have():
    assert measured(["P.E"]).exits.exit_balance is None
    assert measured(["EP.PE"]).exits.exit_balance == 1
    assert measured(["EPP..E"]).exits.exit_balance == 0


def test_no_fire_ever():
    found = measured(["P.E"]).fire_exposure
    assert (found.person_states_with_fire, found.exposure_total, found.min_fire_distance) == (0, 0, None)
    assert found.person_states_without_fire == found.active_person_states == 2


def test_no_movement_attempts():
    found = measured(["P.E"], "always-stay-v1").movement
    assert (found.movement_attempts, found.blocked_rate, found.congestion_block_rate) == (0, None, None)
    assert found.stay_rate == 1


def test_no_blocked_event_with_a_next_decision():
    found = measured(["P.E"]).replanning
    assert (found.recovery_proxy_rate, found.repeated_block_proxy_rate, found.action_change_proxy_rate) == (
        None,
        None,
        None,
    )


def test_a_person_walled_off_from_every_exit():
    (walled, free) = measured(["P#..E", "##P.."]).people
    assert (walled.static_exit_distance, walled.path_efficiency, walled.status) == (None, None, "active")
    assert free.path_efficiency == 1


def test_an_early_end_is_still_censored_at_the_horizon():
    found = measured(["P*#", "#.E"], "static-shortest-path-v1", max_steps=50, spread_interval=1)
    assert found.time.episode_steps < 50
    assert found.time.person_time_to_safety_total == 50
    assert found.people[0].time_to_safety == 50


def test_counts_of_a_queue_by_hand():
    # P1 waits for P2 at the only exit: one conflict in step 1, then it leaves.
    found = measured(["P.", "E.", "P."])
    assert found.movement.blocked_by_outcome["conflict"] == 1
    assert found.replanning.moved_after_block == found.replanning.blocks_with_next_decision == 1
    assert found.time.evacuation_steps == {"P1": 1, "P2": 2}
    assert found.time.median_evacuation_step == Fraction(3, 2)
    assert [person.max_consecutive_blocks for person in found.people] == [0, 1]


def test_exposure_by_hand():
    found = measured(["P...*E", "######"], "always-stay-v1", max_steps=2, spread_interval=5).fire_exposure
    assert found.distance_histogram == {4: 3}
    assert found.exposure_total == Fraction(3, 4)
    assert found.mean_exposure == Fraction(1, 4)


def test_a_record_that_is_empty_unfinished_or_of_another_scenario():
    scenario = scenario_from_text(["P..E"], id="map", max_steps=9)
    simulator = Simulator(scenario, 0)
    with pytest.raises(MetricsInputError, match="termination: the record has no steps"):
        episode_metrics(scenario, RunRecord.of(simulator))
    simulator.step({"P1": "east"})
    with pytest.raises(MetricsInputError, match="a complete episode is needed"):
        episode_metrics(scenario, RunRecord.of(simulator))
    other = scenario_from_text(["P.E"], id="map", max_steps=9)
    record = run_episode(scenario, 0, make_policy("always-stay-v1"))
    with pytest.raises(MetricsInputError, match="compatibility: scenario_hash"):
        episode_metrics(other, record)


def test_what_only_a_replay_can_refuse_keeps_its_cause():
    scenario = scenario_from_text(
        ["P....E", "...*.."], id="map", model="stochastic", spread_probability=0.5, max_steps=9
    )
    record = run_episode(scenario, 1, make_policy("always-stay-v1"))
    forged = dataclasses.replace(record, header=dataclasses.replace(record.header, seed=2))
    with pytest.raises(MetricsInputError) as caught:
        episode_metrics(scenario, forged)
    assert str(caught.value).startswith(REPLAY_FAILURE)
    assert isinstance(caught.value.__cause__, ReplayMismatchError)


@pytest.mark.parametrize(
    ("group", "field", "message"),
    [
        ("safety", "evacuated", "evacuated \\+ casualties \\+ stranded = population"),
        ("safety", "terminal_trapped_count", "terminal_trapped_count <= stranded"),
        ("movement", "successful_moves", "successful_moves \\+ blocked_moves = movement_attempts"),
        ("replanning", "blocked_events", "blocked_events = blocked_moves"),
        ("replanning", "stayed_after_block", "moved \\+ blocked \\+ stayed after a block"),
    ],
)
def test_a_broken_invariant_is_never_handed_out(group, field, message):
    found = measured(["P.", "E.", "P."])
    check_invariants(found)
    part = getattr(found, group)
    wrong = dataclasses.replace(found, **{group: dataclasses.replace(part, **{field: getattr(part, field) + 1})})
    with pytest.raises(MetricsInputError, match=f"invariant broken: {message}"):
        check_invariants(wrong)


def test_an_evacuee_cannot_have_walked_less_than_the_way():
    found = measured(["P..E"])
    shorter = (dataclasses.replace(found.people[0], cells_moved=2),)
    with pytest.raises(MetricsInputError, match="static_exit_distance <= cells_moved"):
        check_invariants(dataclasses.replace(found, people=shorter))


def damaged(document, other, dice):
    """Return a copy of a record with one thing wrong; `other` is a record to splice from."""
    document = copy.deepcopy(document)
    steps = document["steps"]
    kind = dice.choice(
        ["drop", "swap", "double", "splice", "field", "field", "head", "start", "type", "event", "seed"]
    )
    place = dice.randrange(len(steps))
    if kind == "drop":
        del steps[place]
    elif kind == "swap" and len(steps) > 1:
        other = (place + 1) % len(steps)
        steps[place], steps[other] = steps[other], steps[place]
    elif kind == "double":
        steps.insert(place, copy.deepcopy(steps[place]))
    elif kind == "splice":
        document["steps"] = steps[:place] + copy.deepcopy(other["steps"][place:])
        document["final_state"] = copy.deepcopy(other["final_state"])
    elif kind == "seed":
        document["header"]["seed"] += 1
    elif kind == "event":
        steps[place]["casualties"].append({"person_id": "P1", "cause": "fire_spread"})
    else:
        part = {"head": document["header"], "start": document["initial_state"]}.get(kind, document)
        owner, key = dice.choice(leaves(part))
        value = owner[key]
        owner[key] = 1.5 if kind == "type" else changed(value, dice)
    return document


def leaves(value):
    """Return (owner, key) of every leaf."""
    found, pending = [], [value]
    while pending:
        item = pending.pop()
        pairs = item.items() if isinstance(item, dict) else enumerate(item)
        for key, inner in pairs:
            if isinstance(inner, dict | list):
                pending.append(inner)
            else:
                found.append((item, key))
    return found


def changed(value, dice):
    """Return another value, of the same type where one is at hand."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + dice.choice([1, 2])
    words = ["moved", "stayed", "north", "stay", "active", "casualty", "P1", "E1", "max_steps", "0.1.0"]
    return dice.choice([word for word in words if word != value])


def refuse_damaged(count):
    dice, stages = random.Random(5), Counter()
    scenario = scenario_from_text(
        ["P.P..E", ".#.*..", "P....P"], id="map", model="stochastic", spread_probability=0.3, max_steps=10
    )
    documents = [run_episode(scenario, 3, RandomActions(number)).to_dict() for number in range(10)]
    while stages.total() < count:
        original = dice.choice(documents)
        document = damaged(original, dice.choice(documents), dice)
        if document in documents:
            continue
        try:
            episode_metrics(scenario, RunRecord.from_dict(document))
        except RecordError:
            stages["form"] += 1
        except MetricsInputError as error:
            stages["replay" if str(error).startswith(REPLAY_FAILURE) else str(error).split(":")[0]] += 1
        else:
            raise AssertionError(document)
    return stages


def test_damaged_records_are_refused_at_every_stage():
    stages = refuse_damaged(400)
    assert stages.keys() >= {"form", "compatibility", "initial state", "structure", "termination", "replay"}


@pytest.mark.slow
def test_five_thousand_damaged_records():
    stages = refuse_damaged(5000)
    print(dict(stages))
    assert stages.total() == 5000


def accept_honest(count):
    for number in range(count):
        scenario = random_scenario(number, max_side=8)
        policy = make_policy(POLICY_NAMES[number % len(POLICY_NAMES)])
        found = episode_metrics(scenario, run_episode(scenario, number, policy))
        safety, movement = found.safety, found.movement
        assert safety.evacuated + safety.casualties + safety.stranded == safety.population
        assert safety.terminal_trapped_count <= safety.stranded
        assert movement.successful_moves + movement.blocked_moves == movement.movement_attempts
        assert found.replanning.blocked_events == movement.blocked_moves


def test_honest_records_are_accepted():
    accept_honest(100)


@pytest.mark.slow
def test_two_thousand_honest_records():
    accept_honest(2000)
