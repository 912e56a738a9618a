"""Agents: external models over agent protocol 1.0, and policies in process (contract section 13).

An agent sees observations and nothing else. Whatever it does wrong ends its episode with an `AgentError` that
carries the failure kind of the contract; it never ends the evaluation. The boundary is the protocol, not a sandbox:
an external agent is a process with the rights of whoever started it.
"""

import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from ember_ref.canonical import MEBIBYTE, canonical_bytes, parse_json
from ember_ref.errors import DocumentError, EmberError, SimulationError
from ember_ref.form import ID, ID_PATTERN, Form, map_of, nullable, object_of, one_of, show
from ember_ref.grid import ACTIONS, Action
from ember_ref.observation import OBSERVATION_VERSION, Observation
from ember_ref.policies import Policy
from ember_ref.record import RunRecord
from ember_ref.scenario import Scenario
from ember_ref.simulator import Simulator

AGENT_PROTOCOL_VERSION: Final = "1.0"
_LONGEST_DEADLINE: Final = 1_000_000
DEFAULT_DEADLINE: Final = 60.0
"""Seconds for each line of an agent, the hello included."""
LINE_LIMIT: Final = MEBIBYTE
"""The longest line of an agent in bytes, without its LF."""
LOG_LIMIT: Final = MEBIBYTE
"""How much of an agent's standard error is kept, in bytes a process."""
_FAREWELL_SECONDS: Final = 0.5
"""How long an agent may take to end by itself when its standard input closes."""
_END_SECONDS: Final = 5.0
_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_CHUNK: Final = 1 << 16


class FailureKind(StrEnum):
    """Why a scheduled episode has no result."""

    MISSING = "missing"
    INVALID_OUTPUT = "invalid_output"
    MODEL_ERROR = "model_error"
    TIMEOUT = "timeout"


class AgentError(EmberError):
    """What ends an agent's episode without a result.

    Attributes:
        kind: the failure kind.
    """

    def __init__(self, kind: FailureKind, message: str) -> None:
        """Make an error of a kind."""
        self.kind = kind
        super().__init__(f"{kind}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """How an agent names itself."""

    name: str
    version: str | None

    @property
    def model_id(self) -> str:
        """`name`, or `name-version`."""
        return self.name if self.version is None else f"{self.name}-{self.version}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object without the protocol version."""
        return {"name": self.name, "version": self.version}


class Agent(Protocol):
    """A decision model that `play` asks."""

    hello: Hello | None
    """How it named itself; `None` before it did."""

    def start(self) -> None:
        """Begin an episode."""

    def act(self, observation: Observation) -> Mapping[str, Action]:
        """Return one action for every active person."""

    def end(self, *, failed: bool) -> None:
        """End the episode; nothing of a failed one goes on."""

    def close(self) -> None:
        """End everything."""


class ActingModel(Protocol):
    """A policy in process, as a user writes it; a `reset` method, if there is one, is called before every episode."""

    def act(self, observation: Observation) -> Mapping[str, Any]:
        """Return one action for every active person."""


def play(scenario: Scenario, seed: int, agent: Agent) -> RunRecord:
    """Run an agent to the end of an episode.

    Raises:
        AgentError: when the agent fails; its processes are gone then.
    """
    simulator = Simulator(scenario, seed)
    failed = True
    try:
        agent.start()
        while not simulator.state.terminated:
            actions = agent.act(simulator.observe())
            try:
                simulator.step(actions)
            except SimulationError as error:
                raise AgentError(FailureKind.INVALID_OUTPUT, str(error)) from None
        failed = False
    finally:
        agent.end(failed=failed)
    return RunRecord.of(simulator)


class PolicyAgent:
    """A policy in process: an exception of it is `model_error`, a wrong answer `invalid_output`."""

    def __init__(self, policy: Policy | ActingModel, *, name: str | None = None) -> None:
        """Wrap a policy.

        Args:
            policy: an object with `act(observation)`.
            name: its model ID; its attribute `name`, or else the name of its class, without it.

        Raises:
            EmberError: when the name is no ID.
        """
        name = name or getattr(policy, "name", None) or type(policy).__name__
        if not ID_PATTERN.fullmatch(name):
            raise EmberError(f"the model name {show(name)} is not an ID")
        self.hello: Hello | None = Hello(name=name, version=None)
        self._policy = policy

    def start(self) -> None:
        """Reset the policy.

        Raises:
            AgentError: when it raises.
        """
        reset = getattr(self._policy, "reset", None)
        if reset is not None:
            self._guarded(reset)

    def act(self, observation: Observation) -> dict[str, Action]:
        """Ask the policy.

        Raises:
            AgentError: when it raises, or answers with anything but an object of people and actions.
        """
        answer = self._guarded(self._policy.act, observation)
        if not isinstance(answer, Mapping):
            raise AgentError(FailureKind.INVALID_OUTPUT, f"step {observation.step}: the answer is not a mapping")
        return dict(answer)

    def end(self, *, failed: bool) -> None:
        """Do nothing: there is no process."""

    def close(self) -> None:
        """Do nothing: there is no process."""

    @staticmethod
    def _guarded(function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise AgentError(FailureKind.MODEL_ERROR, f"{type(error).__name__}: {error}") from error


class ProcessAgent:
    """An external agent: a process that reads observations and writes actions, a line each."""

    def __init__(
        self,
        command: str,
        *,
        deadline: float = DEFAULT_DEADLINE,
        environment: Iterable[str] = (),
        reuse: bool = False,
        log: Path | None = None,
        expected: Hello | None = None,
    ) -> None:
        """Take the command; no process is started yet.

        Args:
            command: the program and its arguments as a shell would split them; no shell runs it.
            deadline: seconds for each line, the hello included.
            environment: names of variables that are let through.
            reuse: whether the process is kept between episodes.
            log: where the agent's standard error is appended.
            expected: the hello of an earlier process of the same evaluation.

        Raises:
            EmberError: for a command that cannot be started, or a deadline that is not positive.
        """
        if not 0 < deadline <= _LONGEST_DEADLINE:
            raise EmberError(f"the deadline {deadline} is not a number of seconds from 0 to {_LONGEST_DEADLINE}")
        self.hello: Hello | None = expected
        self._command = absolute_command(command)
        self._deadline = deadline
        self._environment = tuple(environment)
        self._reuse = reuse
        self._log = log
        self._process: _Process | None = None

    def start(self) -> None:
        """Begin an episode: start a process unless one is kept, and exchange hellos.

        Raises:
            AgentError: when the process ends, is late, or says something else.
        """
        if self._process is not None:
            return
        self._process = _Process(self._command, _environment(self._environment), self._log)
        greeting = {"agent_protocol_version": AGENT_PROTOCOL_VERSION, "observation_version": OBSERVATION_VERSION}
        hello = _hello(self._process.exchange(greeting, self._deadline, "the hello"))
        if self.hello is not None and hello != self.hello:
            raise AgentError(
                FailureKind.MODEL_ERROR,
                f"the hello is of {hello.model_id}, the evaluation began with {self.hello.model_id}",
            )
        self.hello = hello

    def act(self, observation: Observation) -> dict[str, Action]:
        """Exchange one observation for one answer.

        Raises:
            AgentError: when the process ends, is late, or answers anything else.
        """
        if self._process is None:
            raise AgentError(FailureKind.MODEL_ERROR, "no process is running")
        place = f"the answer to step {observation.step}"
        line = self._process.exchange(observation.to_dict(), self._deadline, place)
        answer = _parsed(line, place, _ANSWER)
        return {person: Action(action) for person, action in answer["actions"].items()}

    def end(self, *, failed: bool) -> None:
        """End the process, unless it is kept."""
        if failed or not self._reuse:
            self._finish(patient=not failed)

    def close(self) -> None:
        """End a kept process."""
        self._finish(patient=True)

    def _finish(self, *, patient: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.finish(patient=patient)


class _Process:
    """A running agent under its supervisor, and the pipes to both."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path | None) -> None:
        folder = tempfile.mkdtemp(prefix="ember-agent-")
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        log_file = os.open(log or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            passed = (control, status, log_file)
            words = [sys.executable, "-I", "-S", str(_SUPERVISOR), *map(str, passed), str(LOG_LIMIT), *command]
            self._supervisor = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd=folder,
                env={**environment, "HOME": folder, "TMPDIR": folder},
                pass_fds=passed,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._control)
            os.close(self._status)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            for descriptor in (control, status, log_file):
                os.close(descriptor)
        if self._supervisor.stdin is None or self._supervisor.stdout is None:
            raise EmberError("the agent's pipes were not made")
        self._folder = folder
        self._stdin, self._stdout = self._supervisor.stdin, self._supervisor.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._received = bytearray()

    def exchange(self, message: Mapping[str, Any], deadline: float, place: str) -> bytes:
        """Write one line and read one, within one deadline.

        Raises:
            AgentError: when it cannot be done.
        """
        until = time.monotonic() + deadline
        self._read()
        if self._received:
            raise AgentError(FailureKind.INVALID_OUTPUT, f"{place}: bytes came before they were asked for")
        pending = memoryview(canonical_bytes(message) + b"\n")
        ended = False
        while True:
            line_end = self._received.find(b"\n", 0, LINE_LIMIT + 1)
            if line_end >= 0:
                line = bytes(self._received[:line_end])
                del self._received[: line_end + 1]
                return line
            if len(self._received) > LINE_LIMIT:
                raise AgentError(FailureKind.INVALID_OUTPUT, f"{place}: a line longer than {LINE_LIMIT} bytes")
            if ended:
                raise AgentError(FailureKind.MODEL_ERROR, f"{place}: the agent ended before it")
            left = until - time.monotonic()
            if left <= 0:
                raise AgentError(FailureKind.TIMEOUT, f"{place}: not there after {deadline:g} seconds")
            writable = [self._stdin.fileno()] if pending else []
            ready, able, _ = select.select([self._stdout.fileno(), self._status], writable, [], left)
            if able:
                pending = self._write(pending)
            if ready:
                # The process may have written before it ended, so its end counts only after a read.
                ended = self._status in ready
                ended = not self._read() or ended

    def _write(self, pending: memoryview) -> memoryview:
        try:
            return pending[os.write(self._stdin.fileno(), pending[:_CHUNK]) :]
        except BlockingIOError:
            return pending
        except OSError:
            return pending[:0]  # it closed its input; whether it still answers is for the read to find out

    def _read(self) -> bool:
        """Take what is there, up to just over a line; return whether more can come."""
        while len(self._received) <= LINE_LIMIT:
            try:
                data = os.read(self._stdout.fileno(), _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._received += data
        return True

    def finish(self, *, patient: bool) -> None:
        """Close the agent's input and end everything it started; a patient end lets it go by itself first."""
        self._stdin.close()
        if patient:
            select.select([self._status], [], [], _FAREWELL_SECONDS)
        os.close(self._control)
        try:
            self._supervisor.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        self._stdout.close()
        os.close(self._status)
        shutil.rmtree(self._folder, ignore_errors=True)


def absolute_command(command: str) -> list[str]:
    """Split a command as a shell would, and make the paths in it absolute, for it runs in another folder.

    Raises:
        EmberError: when it is empty, cannot be split, or its program is not found.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise EmberError(f"the agent command {show(command)} cannot be split: {error}") from None
    if not words:
        raise EmberError("the agent command is empty; expected a program and its arguments")
    program = shutil.which(words[0]) or shutil.which(os.path.abspath(words[0]))  # noqa: PTH100
    if program is None:
        raise EmberError(f"the agent's program {show(words[0])} is not found, or cannot be run")
    # Not resolved: a link may be what makes a program what it is (a virtual environment's python).
    return [os.path.abspath(program), *(_absolute(word) for word in words[1:])]  # noqa: PTH100


def _absolute(word: str) -> str:
    option, equals, value = word.partition("=")
    if equals and word.startswith("-") and value and Path(value).exists():
        return f"{option}={Path(value).absolute()}"
    return str(Path(word).absolute()) if word and Path(word).exists() else word


def _environment(names: Iterable[str]) -> dict[str, str]:
    kept = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    return kept | {name: os.environ[name] for name in names if name in os.environ}


def _hello(line: bytes) -> Hello:
    document = _parsed(line, "the hello", _HELLO)
    hello = Hello(name=document["name"], version=document["version"])
    if not ID_PATTERN.fullmatch(hello.model_id):
        raise AgentError(FailureKind.INVALID_OUTPUT, f"the hello: {show(hello.model_id)} is too long for an ID")
    return hello


def _parsed(line: bytes, place: str, form: Form) -> Any:
    try:
        document = parse_json(line, what=place, limit=LINE_LIMIT)
    except DocumentError as error:
        raise AgentError(FailureKind.INVALID_OUTPUT, str(error)) from None
    faults = form(document, "")
    if faults:
        raise AgentError(FailureKind.INVALID_OUTPUT, f"{place}: " + "; ".join(faults[:5]))
    return document


_HELLO: Final[Form] = object_of(
    {"agent_protocol_version": one_of(AGENT_PROTOCOL_VERSION), "name": ID, "version": nullable(ID)}
)
_ANSWER: Final[Form] = object_of({"actions": map_of(ID, one_of(*map(str, ACTIONS)))})
