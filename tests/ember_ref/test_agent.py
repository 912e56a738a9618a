"""Agent protocol 1.0 with real child processes: every fault ends its episode as the contract says, and nothing stays.

Contract section 13; docs/agents.md.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import uuid

import pytest

from ember_ref.agent import (
    LOG_LIMIT,
    AgentError,
    FailureKind,
    Hello,
    PolicyAgent,
    ProcessAgent,
    absolute_command,
    play,
)
from ember_ref.canonical import canonical_bytes
from ember_ref.episode import run_episode
from ember_ref.errors import EmberError
from ember_ref.policies import FireAwareShortestPath, NearestExitGreedy, make_policy
from ember_ref.scenario import FireModel, scenario_from_text
from ember_ref.simulator import Simulator

TESTS = pathlib.Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"
FAULTY = f"{sys.executable} {TESTS / 'agents' / 'faulty.py'}"
ROOM = scenario_from_text(
    ["P.....", ".P...E", "......", "*....."],
    id="room",
    max_steps=6,
    model=FireModel.STOCHASTIC,
    spread_probability=0.4,
)
# P1 is next to the exit: after one step east it is resolved.
LEAVING = scenario_from_text(["EP..P"], id="leaving", max_steps=3)

INVALID = [
    "garbage", "empty-line", "null", "null-actions", "nan", "bad-utf8", "byte-order-mark", "long-line",
    "long-spaces", "brackets", "digits", "duplicate-key", "unknown-key", "list", "missing-action", "unknown-action",
    "unknown-person",    "hello-null", "hello-version", "hello-name", "hello-extra", "hello-long-id",
]  # fmt: skip
GONE = ["crash", "closed-pipe", "child-holds-the-pipe", "own-session", "daemon"]
LATE = ["late", "half-line", "silent", "children-while-late", "deaf"]


def processes_of(token):
    """Return the processes that have a token among their arguments, zombies left out."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if token.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def failure(command, *, scenario=ROOM, seed=0, **options):
    agent = ProcessAgent(command, **options)
    with pytest.raises(AgentError) as caught:
        play(scenario, seed, agent)
    return caught.value


@pytest.mark.parametrize("fault", INVALID)
def test_any_other_bytes_are_invalid_output(fault):
    assert failure(f"{FAULTY} {fault} 1").kind is FailureKind.INVALID_OUTPUT


@pytest.mark.parametrize("fault", GONE)
def test_the_end_of_the_process_or_of_the_pipe_is_model_error(fault):
    token = uuid.uuid4().hex
    began = time.monotonic()
    assert failure(f"{FAULTY} {fault} 1 {token}").kind is FailureKind.MODEL_ERROR
    assert time.monotonic() - began < 5
    assert processes_of(token) == []


@pytest.mark.parametrize("fault", LATE)
def test_a_late_line_is_timeout_and_no_descendant_survives(fault):
    token = uuid.uuid4().hex
    began = time.monotonic()
    error = failure(f"{FAULTY} {fault} 1 {token}", deadline=0.7)
    assert error.kind is FailureKind.TIMEOUT
    assert "0.7 seconds" in str(error)
    assert time.monotonic() - began < 5.7
    assert processes_of(token) == []


def test_an_observation_that_is_not_read_counts_into_the_deadline():
    wide = scenario_from_text(["P" + "." * 400 + "E"] + ["#." * 201] * 99, id="wide", max_steps=3)
    assert len(canonical_bytes(Simulator(wide, 0).observe().to_dict())) > 1 << 17  # more than the pipe holds
    assert failure(f"{FAULTY} deaf 0", scenario=wide, deadline=0.7).kind is FailureKind.TIMEOUT


def test_an_action_for_a_resolved_person_is_invalid_output():
    walker = (
        "import json,sys\nsys.stdin.readline()\n"
        'print(\'{"agent_protocol_version":"1.0","name":"walker","version":null}\', flush=True)\n'
        "for line in sys.stdin:\n"
        '    print(json.dumps({"actions": {"P1": "west", "P2": "stay"}}), flush=True)\n'
    )
    error = failure(f"{sys.executable} -c {json.dumps(walker)}".replace("\\n", "\n"), scenario=LEAVING)
    assert error.kind is FailureKind.INVALID_OUTPUT
    assert "P1" in str(error)


def test_bytes_before_they_were_asked_for_are_invalid_output():
    assert failure(f"{FAULTY} two-lines 1").kind is FailureKind.INVALID_OUTPUT


def test_nothing_survives_when_the_evaluator_is_killed(tmp_path):
    token = uuid.uuid4().hex
    program = (
        (
            "from ember_ref.agent import ProcessAgent, play\n"
            "from ember_ref.scenario import scenario_from_text\n"
            f"agent = ProcessAgent({f'{FAULTY} children-while-late 0 {token}'!r}, log={str(tmp_path / 'log')!r})\n"
            "play(scenario_from_text(['P.E'], id='s', max_steps=3), 0, agent)\n"
        )
        .replace("log='", "log=__import__('pathlib').Path('")
        .replace("log')", "log'))")
    )
    evaluator = subprocess.Popen([sys.executable, "-c", program], cwd=TESTS.parent)
    until = time.monotonic() + 20
    while len(processes_of(token)) < 5 and time.monotonic() < until:  # evaluator, supervisor, agent, two children
        time.sleep(0.05)
    assert len(processes_of(token)) == 5
    evaluator.send_signal(signal.SIGKILL)
    evaluator.wait()
    until = time.monotonic() + 5
    while processes_of(token) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes_of(token) == []


def test_an_honest_agent_gives_the_record_of_the_policy_it_copies():
    agent = ProcessAgent(f"{sys.executable} {EXAMPLES / 'shortest_path.py'}")
    for seed in range(3):
        assert play(ROOM, seed, agent) == run_episode(ROOM, seed, FireAwareShortestPath())
    assert agent.hello == Hello(name="shortest-path", version="1")
    assert agent.hello.model_id == "shortest-path-1"
    assert len((EXAMPLES / "shortest_path.py").read_text().splitlines()) <= 20


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_an_agent_in_another_language():
    agent = ProcessAgent(f"node {EXAMPLES / 'greedy.js'}")
    for seed in range(2):
        assert play(ROOM, seed, agent) == run_episode(ROOM, seed, NearestExitGreedy())
    assert agent.hello.model_id == "greedy-js"


def test_a_kept_process_starts_the_next_episode_with_step_0(tmp_path):
    log = tmp_path / "log"
    agent = ProcessAgent(f"{sys.executable} {EXAMPLES / 'shortest_path.py'}", reuse=True, log=log)
    records = [play(ROOM, seed, agent) for seed in range(4)]
    supervisor = agent._process._supervisor
    agent.close()
    assert supervisor.poll() is not None
    assert records == [run_episode(ROOM, seed, FireAwareShortestPath()) for seed in range(4)]


def test_after_a_failure_a_kept_process_is_replaced():
    agent = ProcessAgent(f"{FAULTY} null 2", reuse=True)
    for seed in range(2):
        with pytest.raises(AgentError):
            play(ROOM, seed, agent)
        assert agent._process is None
    assert len(play(LEAVING, 0, ProcessAgent(f"{FAULTY} none")).steps) == 3


def test_a_later_hello_that_differs_is_model_error():
    agent = ProcessAgent(f"{FAULTY} hello-changes")
    play(ROOM, 0, agent)
    with pytest.raises(AgentError, match="the evaluation began with") as caught:
        play(ROOM, 1, agent)
    assert caught.value.kind is FailureKind.MODEL_ERROR


def test_standard_error_is_kept_and_bounded(tmp_path):
    log = tmp_path / "agent.log"
    play(ROOM, 0, ProcessAgent(f"{FAULTY} talkative", log=log))
    assert LOG_LIMIT <= log.stat().st_size <= LOG_LIMIT + 100
    failure(f"{FAULTY} null 0", log=log)
    assert "about to fail: null" in log.read_text()


def test_the_agent_gets_a_minimal_environment_and_an_empty_folder_that_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("EMBER_SECRET", "s")
    monkeypatch.setenv("EMBER_KEY", "k")
    report = tmp_path / "report.json"
    report.touch()
    monkeypatch.chdir(tmp_path)
    play(ROOM, 0, ProcessAgent(f"{FAULTY} look-around 0 report.json report.json", environment=["EMBER_KEY", "NONE"]))
    seen = json.loads(report.read_text())
    assert seen["folder"] == []
    assert seen["environment"].keys() - {"LC_CTYPE", "PWD", "__CF_USER_TEXT_ENCODING"} == {
        "PATH", "LANG", "HOME", "TMPDIR", "EMBER_KEY",
    }  # fmt: skip
    assert seen["environment"]["EMBER_KEY"] == "k"
    assert seen["arguments"][0] == str(report)
    assert not pathlib.Path(seen["cwd"]).exists()


def test_paths_of_the_command_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run me").write_text("#!/bin/sh\n")
    (tmp_path / "run me").chmod(0o755)
    (tmp_path / "model.bin").touch()
    assert absolute_command("'./run me' model.bin --at=model.bin other --x=no") == [
        str(tmp_path / "run me"), str(tmp_path / "model.bin"), f"--at={tmp_path / 'model.bin'}", "other", "--x=no",
    ]  # fmt: skip
    assert absolute_command("sh -c 'exit 1'") == [shutil.which("sh"), "-c", "exit 1"]


@pytest.mark.parametrize("command", ["", "  ", "'unclosed", "no-such-program-anywhere x"])
def test_a_command_that_cannot_be_started_is_refused_before_anything_runs(command):
    with pytest.raises(EmberError, match="agent"):
        ProcessAgent(command)
    for deadline in (0, float("nan"), 1_000_001, 1e300):
        with pytest.raises(EmberError, match="deadline"):
            ProcessAgent("sh", deadline=deadline)


def test_the_lines_to_the_agent_are_canonical_and_hold_nothing_but_observations(tmp_path):
    copy = tmp_path / "lines"
    copy.touch()
    recorder = tmp_path / "recorder.py"
    recorder.write_text(
        "import json, sys\n"
        f"copy = open({str(copy)!r}, 'ab')\n"
        "for number, line in enumerate(sys.stdin.buffer):\n"
        "    copy.write(line); copy.flush()\n"
        "    seen = json.loads(line)\n"
        "    people = [p['id'] for p in seen.get('people', []) if p['status'] == 'active']\n"
        "    hello = {'agent_protocol_version': '1.0', 'name': 'recorder', 'version': None}\n"
        "    print(json.dumps({'actions': dict.fromkeys(people, 'stay')} if number else hello), flush=True)\n"
    )
    record = play(ROOM, 5, ProcessAgent(f"{sys.executable} {recorder}"))
    lines = copy.read_bytes().splitlines(keepends=True)
    assert lines[0] == b'{"agent_protocol_version":"1.0","observation_version":"1.0"}\n'
    simulator = Simulator(ROOM, 5)
    expected = []
    for step in record.steps:
        expected.append(canonical_bytes(simulator.observe().to_dict()) + b"\n")
        simulator.step(step.actions)
    assert lines[1:] == expected  # one line a step, and nothing after the last answer
    assert b"room" not in b"".join(lines)
    assert b"seed" not in b"".join(lines)


class Walker:
    """A policy as a user writes it."""

    def __init__(self, answer):
        self.answer = answer

    def act(self, observation):
        return self.answer(observation)


def _raise(_observation):
    raise RuntimeError("no idea")


def test_a_policy_in_process():
    agent = PolicyAgent(Walker(lambda seen: {person.id: "east" for person in seen.active}))
    assert agent.hello.model_id == "Walker"
    record = play(ROOM, 0, agent)
    assert str(record.steps[0].actions["P1"]) == "east"
    named = make_policy("congestion-aware-v1")
    assert play(ROOM, 1, PolicyAgent(named)) == run_episode(ROOM, 1, named)
    assert PolicyAgent(named).hello.model_id == "congestion-aware-v1"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (_raise, FailureKind.MODEL_ERROR),
        (lambda _: None, FailureKind.INVALID_OUTPUT),
        (lambda _: {}, FailureKind.INVALID_OUTPUT),
        (lambda _: {"P1": "up", "P2": "stay"}, FailureKind.INVALID_OUTPUT),
        (lambda _: {"P1": None, "P2": "stay"}, FailureKind.INVALID_OUTPUT),
        (lambda _: {"P1": "stay", "P2": "stay", 3: "stay"}, FailureKind.INVALID_OUTPUT),
    ],
)
def test_failures_of_a_policy_in_process(answer, kind):
    with pytest.raises(AgentError) as caught:
        play(ROOM, 0, PolicyAgent(Walker(answer)))
    assert caught.value.kind is kind


def test_a_model_name_is_an_id():
    with pytest.raises(EmberError, match="not an ID"):
        PolicyAgent(Walker(_raise), name="two words")


def test_no_temporary_folder_is_left():
    folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp"))
    before = set(folder.glob("ember-agent-*"))
    failure(f"{FAULTY} own-session 0")
    assert set(folder.glob("ember-agent-*")) <= before
