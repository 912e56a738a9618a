"""The runner: every scheduled episode once, into a result and the failures beside it.

Beside the target stands a journal, one line an episode that is done. The same command goes on from it, so no episode
is counted twice and none that ended in a failure is run again. When all are done, the failures, the measures of the
run and the result are written, and the journal goes.
"""

import fcntl
import functools
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from ember_ref.agent import Agent, AgentError, FailureKind, Hello, play
from ember_ref.canonical import canonical_bytes, parse_canonical, read_bytes, write_canonical, write_parts
from ember_ref.episode import run_episode
from ember_ref.errors import DocumentError, EmberError, VerificationError
from ember_ref.form import COUNT, DIGEST, ID, Form, map_of, matching, nullable, object_of, one_of, show, text
from ember_ref.policies import make_policy
from ember_ref.record import RunRecord
from ember_ref.scenario import Scenario
from ember_ref.suite import EVALUATION_VERSION, Manifest, ScheduledEpisode
from scoring.evaluation import Progress, ResultEpisode, Target, check_manifest, open_result, over_cores, worker_target
from scoring.metrics import episode_metrics

UNKNOWN_MODEL: Final = "unknown"
"""The model ID of an agent that never said its name, when the user gave none."""

Records = Callable[[Scenario, Sequence[int]], Iterator[RunRecord]]
"""Makes the run records of some seeds of a scenario, in order: how the compiled path takes part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one scheduled episode: a stored episode, or a failure."""

    index: int
    episode: Mapping[str, Any] | None
    """The episode object of a result."""
    failure: FailureKind | None = None
    detail: str | None = None
    hello: Hello | None = None
    """How the agent named itself."""
    seconds: float
    """Wall time of the decisions and the simulation, metrics not included."""

    def to_dict(self) -> dict[str, Any]:
        """Return the line of the journal."""
        return {
            "index": self.index,
            "episode": self.episode,
            "failure": None if self.failure is None else str(self.failure),
            "detail": self.detail,
            "hello": None if self.hello is None else self.hello.to_dict(),
            "seconds": self.seconds,
        }


Outcomes = Callable[[Sequence[ScheduledEpisode]], Iterable[Outcome]]
"""Runs the episodes that it is given and hands out each outcome as soon as it is there, in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRun:
    """A finished evaluation of one trial."""

    model_id: str
    result: Path
    episodes: int
    """How many were scheduled."""
    failures: Mapping[int, FailureKind]
    wall_seconds: float
    """Sum over the episodes, each counted once."""
    timeouts: int
    """Deadlines that expired."""
    earlier: bool = field(default=False, compare=False)
    """Whether it was there already, and nothing was run."""


def evaluate(
    *,
    target: Target,
    manifest: Manifest,
    outcomes: Outcomes,
    out: Path,
    identity: Mapping[str, Any],
    model_id: str | None = None,
    progress: Progress | None = None,
) -> EvaluationRun:
    """Run every scheduled episode that is not done yet, and write the result.

    Args:
        target: the suite or pack.
        manifest: the schedule; with a pack, its own.
        outcomes: runs episodes (`policy_outcomes`, `record_outcomes`, `agent_outcomes`).
        out: the result file.
        identity: what tells this evaluation from another one into the same file: policy, agent, deadline, trial.
        model_id: the model ID; what the agent calls itself without it.
        progress: called after every episode.

    Raises:
        EmberError: when the file belongs to another evaluation, or another process is writing it.
    """
    check_manifest(manifest, target)
    identity = {**identity, "model_id": model_id, "manifest_hash": manifest.manifest_hash}
    finished = _finished(out, identity)
    if finished is not None:
        return finished
    with _Journal(beside(out, "partial"), identity) as journal:
        journal.require_indices(len(manifest.episodes))
        open_episodes = [episode for episode in manifest.episodes if episode.index not in journal.places]
        if progress is not None:
            progress(len(journal.places), len(manifest.episodes))
        if open_episodes:
            for outcome in outcomes(open_episodes):
                journal.append(outcome)
                if progress is not None:
                    progress(len(journal.places), len(manifest.episodes))
        if len(journal.places) != len(manifest.episodes):
            raise EmberError(f"{out}: {len(journal.places)} of {len(manifest.episodes)} episodes were run")
        named = UNKNOWN_MODEL if journal.hello is None else journal.hello.model_id
        return _finish(out, identity, model_id or named, manifest, journal)


def policy_outcomes(target: Target, policy: str, policy_seed: int = 0, *, workers: int | None = None) -> Outcomes:
    """Run a built-in policy with the reference simulator, over all cores."""
    task = functools.partial(_policy_outcome, policy, policy_seed)

    def run(episodes: Sequence[ScheduledEpisode]) -> Iterator[Outcome]:
        return over_cores(task, ((episode,) for episode in episodes), target, workers=_workers(workers, episodes))

    return run


def record_outcomes(target: Target, records: Records, *, batch: int = 64, workers: int | None = None) -> Outcomes:
    """Take run records that something else makes, a batch of one scenario at a time; metrics over all cores."""

    def made(episodes: Sequence[ScheduledEpisode]) -> Iterator[tuple[ScheduledEpisode, RunRecord, float]]:
        at = 0
        while at < len(episodes):
            name = episodes[at].scenario_id
            part = [episode for episode in episodes[at : at + batch] if episode.scenario_id == name]
            at += len(part)
            started = time.monotonic()
            source = records(target.scenarios[name], [episode.seed for episode in part])
            for episode, record in zip(part, source, strict=True):
                now = time.monotonic()
                yield episode, record, now - started
                started = time.monotonic()

    def run(episodes: Sequence[ScheduledEpisode]) -> Iterator[Outcome]:
        return over_cores(_record_outcome, made(episodes), target, workers=_workers(workers, episodes))

    return run


def agent_outcomes(target: Target, agent: Agent) -> Outcomes:
    """Ask an agent, one episode after the other."""

    def run(episodes: Sequence[ScheduledEpisode]) -> Iterator[Outcome]:
        try:
            for episode in episodes:
                scenario = target.scenarios[episode.scenario_id]
                started = time.monotonic()
                try:
                    record = play(scenario, episode.seed, agent)
                except AgentError as error:
                    yield Outcome(
                        index=episode.index,
                        episode=None,
                        failure=error.kind,
                        detail=str(error),
                        hello=agent.hello,
                        seconds=time.monotonic() - started,
                    )
                    continue
                seconds = time.monotonic() - started
                stored = stored_episode(episode, scenario, record)
                yield Outcome(index=episode.index, episode=stored, hello=agent.hello, seconds=seconds)
        finally:
            agent.close()

    return run


def stored_episode(scheduled: ScheduledEpisode, scenario: Scenario, record: RunRecord) -> dict[str, Any]:
    """Return the episode object of a result."""
    metrics = episode_metrics(scenario, record).to_dict()
    return ResultEpisode(scheduled=scheduled, record=record, metrics=metrics).to_dict()


def trial_path(out: Path, trial: int) -> Path:
    """Return the result file of a trial, from 1: `r.json`, `r.2.json`, `r.3.json`."""
    return out if trial == 1 else beside(out, str(trial))


def failures_path(result: Path) -> Path:
    """Return where the failures of a result stand: `.json` replaced by `.failures.json`."""
    return beside(result, "failures")


def measures_path(result: Path) -> Path:
    """Return where wall time and expired deadlines of a result stand: `.json` replaced by `.run.json`."""
    return beside(result, "run")


def agent_log_path(result: Path) -> Path:
    """Return where an agent's standard error is kept: `.json` replaced by `.agent.log`."""
    return result.with_name(f"{result.name.removesuffix('.json')}.agent.log")


def beside(result: Path, word: str) -> Path:
    """Return a name beside a result: `r.json` and `failures` make `r.failures.json`."""
    return result.with_name(f"{result.name.removesuffix('.json')}.{word}.json")


def journalled_hello(out: Path) -> Hello | None:
    """Return how the agent of an evaluation that was cut off named itself."""
    journal = beside(out, "partial")
    if not journal.exists():
        return None
    with journal.open("rb") as file:
        at = 0
        for line in file:
            if line.endswith(b"\n"):
                hello = _journal_line(journal, line, at).get("hello")
                if hello is not None:
                    return Hello(name=hello["name"], version=hello["version"])
            at += len(line)
    return None


def _journal_line(journal: Path, line: bytes, at: int) -> dict[str, Any]:
    """Read a whole line of a journal: its identity at byte 0, then episodes.

    Raises:
        DocumentError: when it is damaged.
    """
    what = f"{journal}, byte {at}"
    document: dict[str, Any] = parse_canonical(line, what=what, limit=len(line))
    faults = (_JOURNAL_HEAD if at == 0 else _JOURNAL_EPISODE)(document, "")
    if faults:
        raise DocumentError(f"{what} (remove the file to start again)", faults)
    return document


@dataclass(slots=True)
class _Journal:
    """The lines of an evaluation in progress: its identity, then one an episode that is done."""

    path: Path
    identity: Mapping[str, Any]
    places: dict[int, int] = field(default_factory=dict)
    """Where the line of each episode begins."""
    failures: dict[int, FailureKind] = field(default_factory=dict)
    details: dict[int, str] = field(default_factory=dict)
    hello: Hello | None = None
    seconds: float = 0.0
    _file: BinaryIO | None = None

    @property
    def file(self) -> BinaryIO:
        """The open file."""
        if self._file is None:
            raise EmberError(f"{self.path}: not open")
        return self._file

    def __enter__(self) -> Self:
        self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            self._load()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def _load(self) -> None:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EmberError(f"{self.path}: another process is running this evaluation") from None
        at = 0
        for line in iter(self.file.readline, b""):
            if not line.endswith(b"\n"):
                break  # cut off while it was written: that episode is not done
            document = _journal_line(self.path, line, at)
            if at == 0:
                self._require_identity(document)
            else:
                self._take(document, at)
            at += len(line)
        self.file.truncate(at)
        self.file.seek(at)
        if at == 0:
            self._write({"identity": self.identity})

    def _require_identity(self, document: Mapping[str, Any]) -> None:
        require_same(self.path, document.get("identity", {}), self.identity)

    def require_indices(self, count: int) -> None:
        """Require that all lines are of episodes of the schedule."""
        unknown = [index for index in self.places if not 0 <= index < count]
        if unknown:
            raise EmberError(f"{self.path}: episode {unknown[0]} is not scheduled; remove the file to start again")

    def _take(self, document: Mapping[str, Any], at: int) -> None:
        index = document["index"]
        if index in self.places:
            return
        self.places[index] = at
        self.seconds += document["seconds"]
        if document["failure"] is not None:
            self.failures[index] = FailureKind(document["failure"])
            self.details[index] = document["detail"] or ""
        if self.hello is None and document["hello"] is not None:
            self.hello = Hello(**document["hello"])

    def append(self, outcome: Outcome) -> None:
        """Write the outcome of an episode down."""
        at = self.file.tell()
        document = outcome.to_dict()
        self._write(document)
        self._take(document, at)

    def _write(self, document: Mapping[str, Any]) -> None:
        self.file.write(canonical_bytes(document) + b"\n")
        self.file.flush()

    def stored(self) -> Iterator[bytes]:
        """Yield the canonical bytes of every stored episode, in the order of the manifest."""
        for index in sorted(self.places.keys() - self.failures.keys()):
            self.file.seek(self.places[index])
            yield canonical_bytes(json.loads(self.file.readline())["episode"])


def require_same(path: Path, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Require that a file is of this evaluation.

    Raises:
        EmberError: names everything that differs.
    """
    differences = [
        f"{key} is {show(found.get(key))}, now {show(expected.get(key))}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key) != expected.get(key)
    ]
    if differences:
        raise EmberError(
            f"{path}: of another evaluation ({'; '.join(differences)}); give another --out, or remove it"
        )


def _finish(
    out: Path, identity: Mapping[str, Any], model_id: str, manifest: Manifest, journal: _Journal
) -> EvaluationRun:
    run = EvaluationRun(
        model_id=model_id,
        result=out,
        episodes=len(manifest.episodes),
        failures=dict(sorted(journal.failures.items())),
        wall_seconds=journal.seconds,
        timeouts=sum(kind is FailureKind.TIMEOUT for kind in journal.failures.values()),
    )
    hasher = hashlib.sha256()
    for part in _result_parts(model_id, manifest, journal.stored()):
        hasher.update(part.removesuffix(b"\n"))
    write_canonical(failures_path(out), [{str(index): str(kind) for index, kind in run.failures.items()}])
    measures = {
        "identity": dict(identity),
        "result_digest": hasher.hexdigest(),
        "model_id": model_id,
        "episodes": run.episodes,
        "wall_seconds": run.wall_seconds,
        "timeouts": run.timeouts,
        "failures": {str(index): str(kind) for index, kind in run.failures.items()},
        "details": {str(index): detail for index, detail in journal.details.items()},
    }
    write_canonical(measures_path(out), measures)
    write_parts(out, _result_parts(model_id, manifest, journal.stored()))
    journal.path.unlink()
    return run


def _result_parts(model_id: str, manifest: Manifest, stored: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the canonical bytes of a result, an episode at a time."""
    yield b'{"episodes":['
    for place, episode in enumerate(stored):
        yield b"," + episode if place else episode
    yield b"],"
    head = {"evaluation_version": EVALUATION_VERSION, "manifest": manifest.to_dict(), "model_id": model_id}
    yield canonical_bytes(head)[1:] + b"\n"


def _finished(out: Path, identity: Mapping[str, Any]) -> EvaluationRun | None:
    """Return the evaluation that is finished in a file already, if it is this one."""
    if not out.exists() or beside(out, "partial").exists():
        return None
    measures_file = measures_path(out)
    if not measures_file.exists():
        raise EmberError(
            f"{out}: exists, and {measures_file.name} is not beside it; give another --out, or remove it"
        )
    measures = parse_canonical(read_bytes(measures_file), what=str(measures_file))
    faults = _MEASURES(measures, "")
    if faults:
        raise DocumentError(str(measures_file), faults)
    require_same(measures_file, measures["identity"], identity)
    result = open_result(out)
    if result.result_digest != measures["result_digest"]:
        raise VerificationError(
            f"{out}: changed since the evaluation ended: its digest is {result.result_digest}, "
            f"{measures_file.name} says {measures['result_digest']}"
        )
    return EvaluationRun(
        model_id=result.model_id,
        result=out,
        episodes=measures["episodes"],
        failures={int(index): FailureKind(kind) for index, kind in measures["failures"].items()},
        wall_seconds=measures["wall_seconds"],
        timeouts=measures["timeouts"],
        earlier=True,
    )


def _policy_outcome(policy: str, policy_seed: int, scheduled: ScheduledEpisode) -> Outcome:
    started = time.monotonic()
    scenario = worker_target().scenarios[scheduled.scenario_id]
    record = run_episode(scenario, scheduled.seed, make_policy(policy, policy_seed))
    seconds = time.monotonic() - started
    return Outcome(index=scheduled.index, episode=stored_episode(scheduled, scenario, record), seconds=seconds)


def _record_outcome(scheduled: ScheduledEpisode, record: RunRecord, seconds: float) -> Outcome:
    scenario = worker_target().scenarios[scheduled.scenario_id]
    return Outcome(index=scheduled.index, episode=stored_episode(scheduled, scenario, record), seconds=seconds)


def _workers(given: int | None, episodes: Sequence[ScheduledEpisode]) -> int:
    cores = (os.cpu_count() or 1) if given is None else given
    return min(cores, len(episodes))


def _anything(_value: Any, _place: str) -> list[str]:
    return []


def _seconds(value: Any, place: str) -> list[str]:
    return [] if type(value) in (int, float) and value >= 0 else [f"{place}: {show(value)} is not a time in seconds"]


_KIND: Final[Form] = one_of(*map(str, FailureKind))
_BY_INDEX: Final = matching(re.compile("0|[1-9][0-9]*"), "an episode index")
_JOURNAL_HEAD: Final[Form] = object_of({"identity": map_of(text(), _anything)})
_JOURNAL_EPISODE: Final[Form] = object_of(
    {
        "index": COUNT,
        "episode": _anything,
        "failure": nullable(_KIND),
        "detail": nullable(text()),
        "hello": nullable(object_of({"name": ID, "version": nullable(ID)})),
        "seconds": _seconds,
    }
)
_MEASURES: Final[Form] = object_of(
    {
        "identity": map_of(text(), _anything),
        "result_digest": DIGEST,
        "model_id": ID,
        "episodes": COUNT,
        "wall_seconds": _seconds,
        "timeouts": COUNT,
        "failures": map_of(_BY_INDEX, _KIND),
        "details": map_of(_BY_INDEX, text()),
    }
)
