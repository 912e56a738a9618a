import copy
import dataclasses
import json
import random

import pytest

from ember_ref.canonical import canonical_bytes, digest
from ember_ref.episode import run_episode
from ember_ref.errors import RecordError, ReplayMismatchError, SimulationError
from ember_ref.policies import Scripted, make_policy
from ember_ref.record import ActionLog, RunRecord, load_action_log, parse_record, replay_check
from ember_ref.scenario import load_scenario, scenario_from_text
from ember_ref.simulator import Simulator
from scenarios.bundled import scenario_path

SCENARIO = scenario_from_text(
    ["P.P.E", ".*..#", "P...P"], id="replayed", model="stochastic", spread_probability=0.4, max_steps=12
)
RECORD = run_episode(SCENARIO, 11, make_policy("random-legal-v1"))
DOCUMENT = RECORD.to_dict()


def test_a_record_is_read_back_and_replayed():
    assert RunRecord.from_dict(DOCUMENT) == RECORD
    assert parse_record(canonical_bytes(DOCUMENT) + b"\n") == RECORD
    replay_check(SCENARIO, RECORD)


def test_the_digests_are_of_the_record_and_of_the_states_once_each():
    assert RECORD.record_digest == digest(DOCUMENT)
    states = [DOCUMENT["initial_state"], *(step["state"] for step in DOCUMENT["steps"])]
    assert RECORD.trajectory_digest == digest(states)
    assert states[-1] == DOCUMENT["final_state"]


def test_a_replayed_log_gives_the_same_record():
    log = ActionLog(
        scenario_hash=SCENARIO.content_hash, seed=11, actions=tuple(step.actions for step in RECORD.steps)
    )
    assert ActionLog.from_dict(log.to_dict()) == log
    longer = dataclasses.replace(log, actions=(*log.actions, {"P1": "stay"}))
    for each in (log, longer):
        assert run_episode(SCENARIO, 11, Scripted(each)) == RECORD


def test_a_log_that_ends_early_or_of_another_run_is_refused(tmp_path):
    log = ActionLog(scenario_hash=SCENARIO.content_hash, seed=11, actions=(RECORD.steps[0].actions,))
    with pytest.raises(SimulationError, match="step 2: the action log ends after 1 steps"):
        run_episode(SCENARIO, 11, Scripted(log))
    with pytest.raises(SimulationError, match="of seed 11, not of seed 12"):
        log.check(SCENARIO, 12)
    with pytest.raises(SimulationError, match="the action log is of scenario"):
        log.check(scenario_from_text(["PE"], id="other"), 11)
    path = tmp_path / "log.json"
    path.write_text('{"scenario_hash": 1, "seed": -1, "actions": [{"P1": "jump"}]}')
    with pytest.raises(RecordError) as caught:
        load_action_log(path)
    assert len(caught.value.faults) == 3


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d["header"].pop("observation_version"), "header.observation_version: missing"),
        (lambda d: d["header"].update(seed=True), "header.seed: true is not an integer"),
        (lambda d: d["steps"][0].update(step="1"), "steps[0].step: '1' is not an integer"),
        (lambda d: d["steps"][0]["actions"].update(P1="jump"), "steps[0].actions.P1: 'jump' is not one of"),
        (lambda d: d["final_state"].update(extra=1), "final_state.extra: unknown key"),
        (lambda d: d["steps"][0]["movements"][0].update(origin=[0.0, 1]), "origin[0]: 0.0 is not an integer"),
        (lambda d: d.update(steps={}), "steps: an object is not a list"),
    ],
)
def test_a_record_that_is_not_of_its_form_names_the_place(change, fault):
    document = copy.deepcopy(DOCUMENT)
    change(document)
    with pytest.raises(RecordError) as caught:
        RunRecord.from_dict(document)
    assert any(fault in found for found in caught.value.faults)


@pytest.mark.parametrize(
    ("change", "step", "field"),
    [
        (lambda d: d["header"].update(simulator_version="0.1.0"), 0, "header.simulator_version"),
        (lambda d: d["header"].update(observation_version="2.0"), 0, "header.observation_version"),
        (lambda d: d["header"].update(scenario_hash="0" * 64), 0, "header.scenario_hash"),
        (lambda d: d["header"].update(scenario_id="other"), 0, "header.scenario_id"),
        (lambda d: d["initial_state"]["people"][0].update(position=[1, 0]), 0, "initial_state.people[0].position[0]"),
        (lambda d: d["steps"].pop(2), 3, None),
        (lambda d: d["steps"].insert(2, d["steps"][2]), 4, None),
        (lambda d: d["steps"][1].update(step=7), 2, "step"),
        (lambda d: d["steps"][0]["movements"].reverse(), 1, None),
        (lambda d: d["steps"][3]["state"].update(terminated=True), 4, "state.terminated"),
        (lambda d: d["final_state"].update(step=99), None, "final_state.step"),
    ],
)
def test_a_record_that_was_not_produced_names_step_and_field(change, step, field):
    document = copy.deepcopy(DOCUMENT)
    change(document)
    with pytest.raises(ReplayMismatchError) as caught:
        replay_check(SCENARIO, RunRecord.from_dict(document))
    assert step is None or caught.value.step == step
    assert field is None or caught.value.field == field


def test_another_seed_or_spliced_steps_are_refused():
    other = run_episode(SCENARIO, 12, make_policy("random-legal-v1"))
    for spliced in (
        dataclasses.replace(RECORD, header=other.header),
        dataclasses.replace(RECORD, steps=RECORD.steps[:4] + other.steps[4:]),
        dataclasses.replace(RECORD, final_state=other.final_state),
    ):
        with pytest.raises(ReplayMismatchError):
            replay_check(SCENARIO, spliced)


def test_an_unfinished_record_can_pass_the_replay_check():
    simulator = Simulator(SCENARIO, 11)
    replay_check(SCENARIO, RunRecord.of(simulator))
    simulator.step(RECORD.steps[0].actions)
    replay_check(SCENARIO, RunRecord.of(simulator))


def test_a_changed_byte_anywhere_is_refused():
    data, dice = canonical_bytes(DOCUMENT) + b"\n", random.Random(4)
    refused = 0
    for _ in range(400):
        place = dice.randrange(len(data))
        flipped = bytearray(data)
        flipped[place] ^= 1 << dice.randrange(8)
        try:
            replay_check(SCENARIO, parse_record(bytes(flipped)))
        except (RecordError, ReplayMismatchError):
            refused += 1
    assert refused == 400


def test_errors_name_the_document():
    scenario = load_scenario(scenario_path("v1-pub-10-maze"))
    with pytest.raises(ReplayMismatchError, match=r"step 0, header\.scenario_hash"):
        replay_check(scenario, RECORD)
    with pytest.raises(RecordError, match=r"^name: byte \d+: not canonical"):
        parse_record(json.dumps(DOCUMENT).encode(), what="name")
