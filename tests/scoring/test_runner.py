"""The runner: every scheduled episode once, whatever fails or stops it (contract sections 12 and 13)."""

import collections
import json
import pathlib
import sys

import pytest

from ember_ref.agent import FailureKind, PolicyAgent, ProcessAgent
from ember_ref.canonical import parse_canonical, write_canonical
from ember_ref.episode import run_episode
from ember_ref.errors import EmberError, VerificationError
from ember_ref.policies import make_policy
from ember_ref.scenario import FireModel, scenario_from_text
from ember_ref.suite import Suite, SuiteEntry, SuiteFolder, schedule
from scoring.evaluation import authenticate, open_result
from scoring.runner import (
    UNKNOWN_MODEL,
    agent_outcomes,
    beside,
    evaluate,
    failures_path,
    journalled_hello,
    measures_path,
    policy_outcomes,
    record_outcomes,
    trial_path,
)

FAULTY = f"{sys.executable} -I -S {pathlib.Path(__file__).parents[1] / 'agents' / 'faulty.py'}"
ROOM = scenario_from_text(
    ["P.....", ".P...E", "......", "*....."],
    id="room",
    max_steps=4,
    model=FireModel.STOCHASTIC,
    spread_probability=0.4,
)
HALL = scenario_from_text(["P..E", "P..."], id="hall", max_steps=6)
SCENARIOS = {scenario.id: scenario for scenario in (ROOM, HALL)}
FOLDER = SuiteFolder(
    suite=Suite(
        suite_id="two",
        entries=tuple(
            SuiteEntry(scenario_id=s.id, scenario_hash=s.content_hash, primary_family="custom", families=("custom",))
            for s in SCENARIOS.values()
        ),
    ),
    scenarios=SCENARIOS,
)
MANIFEST = schedule(FOLDER.suite, {"room": range(4), "hall": [7]})


def index_of(episode):
    return episode.scheduled.index


def run(out, outcomes, *, manifest=MANIFEST, identity=None, model_id=None, **options):
    return evaluate(
        target=FOLDER,
        manifest=manifest,
        outcomes=outcomes,
        out=out,
        identity=identity or {"policy": "p"},
        model_id=model_id,
        **options,
    )


def stored_indices(out):
    return list(authenticate(open_result(out), FOLDER, extract=index_of))


class Choosy:
    """A policy that fails on call numbers that the test names, and counts its calls."""

    def __init__(self, failing=(), stop_at=None):
        self.failing, self.stop_at = failing, stop_at
        self.episodes = 0

    def reset(self):
        self.episodes += 1
        if self.episodes == self.stop_at:
            raise KeyboardInterrupt
        if self.episodes in self.failing:
            raise RuntimeError("planted")

    def act(self, observation):
        return {person.id: "stay" for person in observation.active}


def test_policy_records_and_in_process_agent_write_the_same_bytes(tmp_path):
    name = "congestion-aware-v1"

    def records(scenario, seeds):
        return (run_episode(scenario, seed, make_policy(name)) for seed in seeds)

    for file, outcomes in {
        "policy": policy_outcomes(FOLDER, name, workers=1),
        "workers": policy_outcomes(FOLDER, name, workers=2),
        "records": record_outcomes(FOLDER, records, batch=2, workers=1),
        "agent": agent_outcomes(FOLDER, PolicyAgent(make_policy(name))),
    }.items():
        result = run(tmp_path / f"{file}.json", outcomes, model_id=name)
        assert result.episodes == 5
        assert result.failures == {}
    assert len({path.read_bytes() for path in tmp_path.glob("*.json") if "." not in path.stem}) == 1
    assert failures_path(tmp_path / "policy.json").read_bytes() == b"[{}]\n"
    assert stored_indices(tmp_path / "policy.json") == [0, 1, 2, 3, 4]
    assert not beside(tmp_path / "policy.json", "partial").exists()


def test_failures_are_declared_and_the_run_goes_on(tmp_path):
    out = tmp_path / "r.json"
    result = run(out, agent_outcomes(FOLDER, PolicyAgent(Choosy(failing={2, 5}))))
    assert result.model_id == "Choosy"
    assert result.failures == {1: FailureKind.MODEL_ERROR, 4: FailureKind.MODEL_ERROR}
    assert failures_path(out).read_bytes() == b'[{"1":"model_error","4":"model_error"}]\n'
    assert stored_indices(out) == [0, 2, 3]
    measures = parse_canonical(measures_path(out).read_bytes(), what="measures")
    assert measures["wall_seconds"] == result.wall_seconds > 0
    assert measures["timeouts"] == 0
    assert measures["details"]["1"] == "model_error: RuntimeError: planted"


def test_it_goes_on_where_it_stopped_and_never_repeats_a_failure(tmp_path):
    out = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        run(out, agent_outcomes(FOLDER, PolicyAgent(Choosy(failing={2}, stop_at=4))))
    assert not out.exists()
    second = Choosy()
    result = run(out, agent_outcomes(FOLDER, PolicyAgent(second)))
    assert second.episodes == 2  # three were done, the failed one among them
    assert result.failures == {1: FailureKind.MODEL_ERROR}
    assert stored_indices(out) == [0, 2, 3, 4]
    before = out.read_bytes()
    third = Choosy()
    assert run(out, agent_outcomes(FOLDER, PolicyAgent(third))) == result
    assert third.episodes == 0
    assert out.read_bytes() == before


def test_a_journal_cut_off_anywhere_in_its_last_line_loses_that_episode_only(tmp_path):
    whole = tmp_path / "whole.json"
    run(whole, policy_outcomes(FOLDER, "always-stay-v1", workers=1), model_id="m")
    stopped = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        run(stopped, agent_outcomes(FOLDER, PolicyAgent(Choosy(stop_at=4))), model_id="m")
    journal = beside(stopped, "partial")
    data = journal.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (last + 1, (last + len(data)) // 2, len(data) - 1):
        journal.write_bytes(data[:cut])
        again = Choosy()
        run(stopped, agent_outcomes(FOLDER, PolicyAgent(again)), model_id="m")
        assert again.episodes == 3
        assert stopped.read_bytes() == whole.read_bytes()
        stopped.unlink()


def test_a_journal_line_given_twice_counts_once(tmp_path):
    out = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        run(out, agent_outcomes(FOLDER, PolicyAgent(Choosy(stop_at=3))))
    journal = beside(out, "partial")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines, lines[-1]]))
    run(out, agent_outcomes(FOLDER, PolicyAgent(Choosy())))
    assert stored_indices(out) == [0, 1, 2, 3, 4]


def test_files_of_another_evaluation_are_refused_with_what_differs(tmp_path):
    out = tmp_path / "r.json"
    outcomes = policy_outcomes(FOLDER, "always-stay-v1", workers=1)
    run(out, outcomes, model_id="m")
    with pytest.raises(EmberError, match="policy is 'p', now 'q'"):
        run(out, outcomes, identity={"policy": "q"}, model_id="m")
    with pytest.raises(EmberError, match="manifest_hash"):
        run(out, outcomes, manifest=schedule(FOLDER.suite, {"hall": [1]}), model_id="m")
    measures_path(out).unlink()
    with pytest.raises(EmberError, match=r"r\.run\.json is not beside it"):
        run(out, outcomes, model_id="m")
    stopped = tmp_path / "s.json"
    with pytest.raises(KeyboardInterrupt):
        run(stopped, agent_outcomes(FOLDER, PolicyAgent(Choosy(stop_at=2))))
    with pytest.raises(EmberError, match="another evaluation"):
        run(stopped, outcomes, identity={"policy": "q"})


def test_two_processes_cannot_run_one_evaluation(tmp_path):
    out = tmp_path / "r.json"

    class Nested(Choosy):
        def act(self, observation):
            with pytest.raises(EmberError, match="another process"):
                run(out, agent_outcomes(FOLDER, PolicyAgent(Choosy())))
            return super().act(observation)

    run(out, agent_outcomes(FOLDER, PolicyAgent(Nested())), manifest=schedule(FOLDER.suite, {"hall": [1]}))


def test_expired_deadlines_are_counted_and_an_agent_without_a_hello_has_a_name(tmp_path):
    out = tmp_path / "r.json"
    manifest = schedule(FOLDER.suite, {"hall": [1, 2]})
    result = run(out, agent_outcomes(FOLDER, ProcessAgent(f"{FAULTY} silent", deadline=0.3)), manifest=manifest)
    assert result.model_id == UNKNOWN_MODEL
    assert result.timeouts == 2
    assert 0.6 <= result.wall_seconds < 8
    assert stored_indices(out) == []


def test_the_hello_is_remembered_when_the_evaluation_goes_on(tmp_path):
    out = tmp_path / "r.json"
    agent = ProcessAgent(f"{FAULTY} hello-changes")

    def two_only(episodes):
        for number, outcome in enumerate(agent_outcomes(FOLDER, agent)(episodes)):
            if number == 1:
                raise KeyboardInterrupt
            yield outcome

    with pytest.raises(KeyboardInterrupt):
        run(out, two_only)
    hello = journalled_hello(out)
    assert hello is not None
    again = ProcessAgent(f"{FAULTY} hello-changes", expected=hello)
    result = run(out, agent_outcomes(FOLDER, again))
    assert result.model_id == hello.model_id
    assert set(result.failures.values()) == {FailureKind.MODEL_ERROR}
    assert stored_indices(out) == [0]


def test_300_episodes_of_an_agent_that_fails_at_random(tmp_path):
    """Every episode ends with a result or the right kind; none is lost."""
    out = tmp_path / "r.json"
    log = tmp_path / "log"
    manifest = schedule(FOLDER.suite, {"room": range(300)})
    result = run(out, agent_outcomes(FOLDER, ProcessAgent(f"{FAULTY} random", log=log)), manifest=manifest)
    stored = stored_indices(out)
    assert sorted([*stored, *result.failures]) == list(range(300))
    assert len(result.failures) > 20
    planted = collections.Counter(line.split(": ")[1] for line in log.read_text().splitlines() if ": " in line)
    gone = planted["crash"] + planted["closed-pipe"]
    assert collections.Counter(result.failures.values())[FailureKind.MODEL_ERROR] == gone
    # The second of two lines may come after the last observation was asked for, where it is nobody's answer.
    invalid = planted["null"] + planted["garbage"] + planted["missing-action"]
    found = collections.Counter(result.failures.values())[FailureKind.INVALID_OUTPUT]
    assert invalid <= found <= invalid + planted["two-lines"]
    assert json.loads(failures_path(out).read_bytes())[0].keys() == {str(index) for index in result.failures}


def test_names_beside_a_result():
    out = pathlib.Path("d/r.json")
    assert failures_path(out) == pathlib.Path("d/r.failures.json")
    assert trial_path(out, 1) == out
    assert failures_path(trial_path(out, 2)) == pathlib.Path("d/r.2.failures.json")
    assert failures_path(pathlib.Path("r")) == pathlib.Path("r.failures.json")


def test_a_journal_with_an_episode_that_is_not_scheduled_is_refused(tmp_path):
    out = tmp_path / "r.json"
    identity = {"policy": "p", "model_id": None, "manifest_hash": MANIFEST.manifest_hash}
    line = {"detail": "", "episode": None, "failure": "timeout", "hello": None, "index": 99, "seconds": 1.0}
    journal = beside(out, "partial")
    write_canonical(journal, {"identity": identity})
    with journal.open("ab") as file:
        write_canonical(tmp_path / "line", line)
        file.write((tmp_path / "line").read_bytes())
    with pytest.raises(EmberError, match="episode 99 is not scheduled"):
        run(out, policy_outcomes(FOLDER, "always-stay-v1", workers=1))


def test_a_damaged_line_of_a_journal_is_refused_with_its_number(tmp_path):
    out = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        run(out, agent_outcomes(FOLDER, PolicyAgent(Choosy(stop_at=3))))
    journal = beside(out, "partial")
    head, first, *rest = journal.read_bytes().splitlines(keepends=True)
    for damaged, fault in (
        (first.replace(b'"seconds":', b'"second":'), "second"),
        (first.replace(b'"failure":null', b'"failure":"tired"'), "failure"),
        (b"[]\n", "object"),
        (first[:-20] + b"\n", "partial"),
    ):
        assert damaged != first
        journal.write_bytes(b"".join([head, damaged, *rest]))
        with pytest.raises(EmberError, match=fault) as refusal:
            run(out, agent_outcomes(FOLDER, PolicyAgent(Choosy())))
        assert "r.partial.json" in str(refusal.value)
        assert not out.exists()


@pytest.mark.parametrize("key", ["identity", "result_digest", "episodes", "failures", "wall_seconds"])
def test_damaged_measures_beside_a_result_are_refused(tmp_path, key):
    out = tmp_path / "r.json"
    outcomes = policy_outcomes(FOLDER, "always-stay-v1", workers=1)
    run(out, outcomes, model_id="m")
    measures = json.loads(measures_path(out).read_bytes())
    write_canonical(measures_path(out), {**measures, key: [True]})
    with pytest.raises(EmberError, match=key):
        run(out, outcomes, model_id="m")


def test_a_result_that_changed_since_it_was_finished_is_not_taken_for_done(tmp_path):
    out, other = tmp_path / "r.json", tmp_path / "s.json"
    outcomes = policy_outcomes(FOLDER, "always-stay-v1", workers=1)
    assert not run(out, outcomes, model_id="m").earlier
    assert run(out, outcomes, model_id="m").earlier
    run(other, agent_outcomes(FOLDER, PolicyAgent(Choosy(failing={2}))), model_id="m")
    out.write_bytes(other.read_bytes())
    with pytest.raises(VerificationError, match="changed since the evaluation ended"):
        run(out, outcomes, model_id="m")
