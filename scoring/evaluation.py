"""Evaluation results: read as a stream, and authenticated from scratch (contract section 12).

A result can be gigabytes, and in its canonical bytes the episodes come before the manifest that they are checked
against. So it is read twice: once to find the manifest and the digest, once for the episodes, at most one record a
worker in memory.

What a result says is believed only after `authenticate`: statistics section 1 and scoring section 2.
"""

import concurrent.futures
import functools
import hashlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from ember_ref.canonical import LARGE_FILE, MEBIBYTE, RESULT_FILE, canonical_bytes, parse_canonical
from ember_ref.errors import DocumentError, EmberError, EvaluationError, PackError, VerificationError
from ember_ref.fire import fire_world
from ember_ref.form import COUNT, DIGEST, ID, SEED, Form, object_of, one_of, show
from ember_ref.record import RECORD_FORM, RunRecord, first_difference
from ember_ref.scenario import Scenario
from ember_ref.suite import (
    EVALUATION_VERSION,
    Manifest,
    Pack,
    ScheduledEpisode,
    SuiteFolder,
    manifest_faults,
)
from scoring.metrics import Metrics, episode_metrics

Target = SuiteFolder | Pack
"""What an evaluation is of: a suite with its scenarios, or a pack."""
Progress = Callable[[int, int], None]
"""Called with the number of episodes done and of all."""
T = TypeVar("T")

_OPENING: Final = b'{"episodes":['
_BETWEEN: Final = b'},{"index":'
_CLOSING: Final = b'],"evaluation_version":'
_CHUNK: Final = MEBIBYTE
_HEADER_LIMIT: Final = 17 * MEBIBYTE
_SMALL_RESULT: Final = 2 * MEBIBYTE
"""Below this size of a result, starting workers takes longer than they save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultEpisode:
    """One episode of a result as it is stored; nothing of it is believed yet."""

    scheduled: ScheduledEpisode
    record: RunRecord
    metrics: Mapping[str, Any]
    """The stored METRICS object."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {**self.scheduled.to_dict(), "record": self.record.to_dict(), "metrics": dict(self.metrics)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticEpisode:
    """One episode that the simulator reproduced, with the metrics recomputed from it."""

    scheduled: ScheduledEpisode
    scenario: Scenario
    record: RunRecord
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """A result file: its head in memory, its episodes read when they are asked for."""

    path: Path
    model_id: str
    manifest: Manifest
    result_digest: str
    """The digest of the RESULT object, hex."""
    file_digest: str
    """The SHA-256 of the file, its newline included, by which both readings are known to be of the same bytes."""
    size: int
    """Bytes of the file."""

    def stored_episodes(self) -> Iterator[bytes]:
        """Yield the canonical bytes of each stored episode, in the order of the file.

        Raises:
            DocumentError: when the file changed since it was opened.
        """
        hasher = hashlib.sha256()
        with self.path.open("rb") as file:
            yield from _pieces(file, self.path, hasher)
        if hasher.hexdigest() != self.file_digest:
            raise DocumentError(str(self.path), ["changed while it was read"])

    def episodes(self) -> Iterator[ResultEpisode]:
        """Yield each stored episode after the checks of structure; the records are not replayed.

        Raises:
            DocumentError: for an episode that is not of its form.
            EvaluationError: for one that is not the manifest's, or out of its order.
        """
        previous = -1
        for place, data in enumerate(self.stored_episodes()):
            episode = parse_episode(data, what=f"{self.path}, episodes[{place}]")
            check_place(episode, self.manifest, previous, what=f"{self.path}, episodes[{place}]")
            previous = episode.scheduled.index
            yield episode


def open_result(path: Path) -> EvaluationResult:
    """Open a result: its manifest, model and digest, without its episodes.

    Raises:
        DocumentError: when the file is missing, too large, or its head is not of the form.
    """
    hasher = hashlib.sha256()
    try:
        size = path.stat().st_size
        if size > RESULT_FILE:
            raise DocumentError(str(path), [f"larger than {RESULT_FILE} bytes, the most that is read"])
        with path.open("rb") as file:
            head = _head(file, path, hasher)
        whole = hasher.copy()
        whole.update(b"\n")
    except OSError as error:
        raise DocumentError(str(path), [f"cannot be read: {error.strerror}"]) from None
    document = parse_canonical(head, what=str(path), limit=_HEADER_LIMIT)
    faults = _HEAD(document, "")
    if not faults:
        faults = [f"manifest.{fault}" for fault in manifest_faults(document["manifest"])]
    if faults:
        raise DocumentError(str(path), faults)
    return EvaluationResult(
        path=path,
        model_id=document["model_id"],
        manifest=Manifest.from_dict(document["manifest"]),
        result_digest=hasher.hexdigest(),
        file_digest=whole.hexdigest(),
        size=size,
    )


def parse_episode(data: bytes, *, what: str) -> ResultEpisode:
    """Read the canonical bytes of one stored episode.

    Raises:
        DocumentError: when they are not canonical or not of the form.
    """
    document = parse_canonical(data + b"\n", what=what, limit=LARGE_FILE)
    faults = _EPISODE(document, "")
    if faults:
        raise DocumentError(what, faults)
    return ResultEpisode(
        scheduled=ScheduledEpisode(**{key: document[key] for key in ScheduledEpisode.__slots__}),
        record=RunRecord.from_dict(document["record"], what=f"{what}.record"),
        metrics=document["metrics"],
    )


def check_place(episode: ResultEpisode, manifest: Manifest, previous: int, *, what: str) -> None:
    """Require that a stored episode and its record's header are the manifest's, in the manifest's order.

    Raises:
        EvaluationError: when they are not.
    """
    scheduled = episode.scheduled
    if scheduled.index <= previous:
        raise EvaluationError(f"{what}: index {scheduled.index} after {previous}; expected the order of the manifest")
    if scheduled.index >= len(manifest.episodes) or manifest.episodes[scheduled.index] != scheduled:
        raise EvaluationError(f"{what}: index, scenario, hash and seed are not those of an episode of the manifest")
    header = episode.record.header
    found = [header.scenario_id, header.scenario_hash, header.seed]
    found += [header.simulator_version, header.observation_version]
    expected = [scheduled.scenario_id, scheduled.scenario_hash, scheduled.seed]
    expected += [manifest.simulator_version, manifest.observation_version]
    if found != expected:
        raise EvaluationError(f"{what}.record.header: {found}, the manifest has {expected}")


def check_manifest(manifest: Manifest, target: Target) -> None:
    """Require that a manifest is for a target and for the running versions.

    Raises:
        EvaluationError: when it is not; with a pack, also when it is not the pack's own.
    """
    if Manifest.from_dict(manifest.to_dict()) != manifest:
        raise EvaluationError("the manifest changes when it is rebuilt from its object")
    manifest.check(target.suite)
    if isinstance(target, Pack) and manifest != target.manifest:
        raise EvaluationError(
            f"the result is of manifest {manifest.manifest_hash}, pack {target.pack_id} has "
            f"{target.manifest.manifest_hash}"
        )


def check_episode(episode: ResultEpisode, scenario: Scenario, *, fire_world_digest: str | None) -> AuthenticEpisode:
    """Replay one stored episode and require what it stores.

    Args:
        episode: the stored episode.
        scenario: the scenario of its hash.
        fire_world_digest: the pack's digest of its fire, or `None` without a pack.

    Raises:
        VerificationError: when it does not hold; a metrics input error keeps the replay's as its cause.
    """
    metrics = episode_metrics(scenario, episode.record)
    recomputed = metrics.to_dict()
    if canonical_bytes(recomputed) != canonical_bytes(dict(episode.metrics)):
        difference = first_difference(recomputed, dict(episode.metrics), "metrics")
        field, computed, stored = difference or ("metrics", "another spelling", "of the numbers")
        raise EvaluationError(f"{field}: stored {show(stored)}, recomputed {show(computed)}")
    if fire_world_digest is not None:
        _check_fire(scenario, episode.record, fire_world_digest)
    return AuthenticEpisode(scheduled=episode.scheduled, scenario=scenario, record=episode.record, metrics=metrics)


def authentic(episode: AuthenticEpisode) -> AuthenticEpisode:
    """Return the episode itself: the extract of `authenticate` that keeps everything."""
    return episode


def authenticate(
    result: EvaluationResult,
    target: Target,
    *,
    extract: Callable[[AuthenticEpisode], T],
    workers: int | None = None,
    progress: Progress | None = None,
) -> Iterator[T]:
    """Authenticate a whole result, episode by episode in its order, over all cores.

    Args:
        result: the result.
        target: the suite or pack that it must be of.
        extract: makes what is wanted of an authentic episode, in the worker; a function of a module.
        workers: processes; as many as there are cores without it, none for a small result.
        progress: called after every episode.

    Yields:
        What `extract` made. Nothing may be used of it before the iteration has ended: any fault raises.

    Raises:
        DocumentError: for bytes that are not of the form.
        EvaluationError: for a result that is not the target's, or that replay does not reproduce.
    """
    check_manifest(result.manifest, target)
    if workers is None:
        workers = 1 if result.size < _SMALL_RESULT else os.cpu_count() or 1
    task = functools.partial(_authenticated, extract, result.manifest, str(result.path))
    previous, done = -1, 0
    for outcome in over_cores(task, enumerate(result.stored_episodes()), target, workers=workers):
        index, value = _unwrapped(outcome)
        if index <= previous:
            raise EvaluationError(
                f"{result.path}, episodes[{done}]: index {index} after {previous}; expected the order of the manifest"
            )
        previous, done = index, done + 1
        if progress is not None:
            progress(done, len(result.manifest.episodes))
        yield value


def over_cores(
    task: Callable[..., T], items: Iterable[tuple[Any, ...]], target: Target, *, workers: int
) -> Iterator[T]:
    """Yield `task(*item)` of every item in order, with at most two items a worker in memory.

    Args:
        task: a function of a module; it finds the target in `worker_target`.
        items: its arguments.
        target: sent to every worker once.
        workers: processes; with 1 everything is done here.
    """
    if workers <= 1:
        for item in items:
            _prepare(target)
            yield task(*item)
        return
    processes = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=processes, initializer=_prepare, initargs=(target,)
    ) as pool:
        waiting: deque[concurrent.futures.Future[T]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(task, *item))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def fire_world_digests(target: Target, manifest: Manifest, *, workers: int) -> Iterator[str]:
    """Yield the digest of every scheduled fire, computed by the reference, in order."""
    episodes = ((episode,) for episode in manifest.episodes)
    return over_cores(_fire_world_digest, episodes, target, workers=min(workers, len(manifest.episodes)))


def check_fire_worlds(pack: Pack, *, workers: int, progress: Progress | None = None) -> None:
    """Require that the fires of a pack are what its digests say.

    Raises:
        PackError: names every episode whose fire is another one.
    """
    faults = []
    computed = fire_world_digests(pack, pack.manifest, workers=workers)
    for index, (digest, listed) in enumerate(zip(computed, pack.fire_worlds, strict=True)):
        if digest != listed:
            faults.append(f"fire_worlds[{index}]: {listed}, the reference computes {digest}")
        if progress is not None:
            progress(index + 1, len(pack.fire_worlds))
    if faults:
        raise PackError(f"pack {pack.pack_id}: " + "; ".join(faults))


def worker_target() -> Target:
    """Return the target of `over_cores` inside its task."""
    return _targets[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """An error on its way out of a worker; the errors themselves don't survive the way."""

    what: str
    faults: tuple[str, ...]
    of_form: bool


_targets: list[Target] = []
"""The target of this worker process."""


def _prepare(target: Target) -> None:
    _targets[:] = [target]


def _authenticated(
    extract: Callable[[AuthenticEpisode], T], manifest: Manifest, path: str, place: int, data: bytes
) -> tuple[int, T] | _Fault:
    target = worker_target()
    what = f"{path}, episodes[{place}]"
    try:
        episode = parse_episode(data, what=what)
        check_place(episode, manifest, -1, what=what)
        index = episode.scheduled.index
        digest = target.fire_worlds[index] if isinstance(target, Pack) else None
        scenario = target.scenarios[episode.scheduled.scenario_id]
        return index, extract(check_episode(episode, scenario, fire_world_digest=digest))
    except DocumentError as error:
        return _Fault(what=error.what, faults=error.faults, of_form=True)
    except VerificationError as error:
        message = str(error)
        return _Fault(what="", faults=(message if message.startswith(what) else f"{what}: {message}",), of_form=False)


def _unwrapped(outcome: tuple[int, T] | _Fault) -> tuple[int, T]:
    if isinstance(outcome, _Fault):
        error: EmberError = EvaluationError(outcome.faults[0])
        if outcome.of_form:
            error = DocumentError(outcome.what, outcome.faults)
        raise error
    return outcome


def _fire_world_digest(episode: ScheduledEpisode) -> str:
    return fire_world(worker_target().scenarios[episode.scenario_id], episode.seed).digest


def _check_fire(scenario: Scenario, record: RunRecord, expected: str) -> None:
    world = fire_world(scenario, record.header.seed)
    if world.digest != expected:
        raise EvaluationError(f"the fire has digest {world.digest}, the pack lists {expected}")
    width = scenario.grid.width
    starts = sorted((step, place) for place, step in enumerate(world.ignition_step))
    burning: set[tuple[int, int]] = set()
    at = 0
    for state in (record.initial_state, *(step.state for step in record.steps)):
        while at < len(starts) and starts[at][0] <= state.step:
            burning.add(divmod(starts[at][1], width))
            at += 1
        if burning != set(state.burning) or len(burning) != len(state.burning):
            raise EvaluationError(f"the burning set of snapshot {state.step} is not that of the fire")


def _head(file: BinaryIO, path: Path, hasher: Any) -> bytes:
    """Return the object of a result without its episodes, and hash the object on the way."""
    buffer = bytearray()
    passed = False
    opening = file.read(len(_OPENING))
    if opening != _OPENING:
        raise DocumentError(str(path), [f"byte 0: not a canonical result, which begins {_OPENING.decode()}"])
    hasher.update(opening)
    while chunk := file.read(_CHUNK):
        buffer += chunk
        if not passed:
            at = buffer.find(_CLOSING)
            passed = at >= 0
            cut = at + 2 if passed else max(0, len(buffer) - len(_CLOSING))
            hasher.update(buffer[:cut])
            del buffer[:cut]
        if passed and len(buffer) > _HEADER_LIMIT:
            raise DocumentError(str(path), [f"more than {_HEADER_LIMIT} bytes after the episodes"])
    if not passed:
        raise DocumentError(str(path), ["the list of episodes does not end as that of a canonical result"])
    if not buffer.endswith(b"\n"):
        raise DocumentError(str(path), ["no newline at the end; expected canonical JSON followed by one newline"])
    hasher.update(buffer[:-1])
    return b"{" + bytes(buffer)


def _pieces(file: BinaryIO, path: Path, hasher: Any) -> Iterator[bytes]:
    """Cut the list of episodes at the bytes that, in canonical JSON of this form, stand only between two of them."""
    hasher.update(file.read(len(_OPENING)))
    buffer = bytearray()
    searched = 0
    while chunk := file.read(_CHUNK):
        hasher.update(chunk)
        buffer += chunk
        while (at := buffer.find(_BETWEEN, searched)) >= 0 and buffer.find(_CLOSING, searched, at) < 0:
            yield bytes(buffer[: at + 1])
            del buffer[: at + 2]
            searched = 0
        end = buffer.find(_CLOSING, searched)
        if end >= 0:
            if end:
                yield bytes(buffer[:end])
            break
        searched = max(0, len(buffer) - max(len(_BETWEEN), len(_CLOSING)))
        if len(buffer) > LARGE_FILE + _CHUNK:
            raise DocumentError(str(path), [f"an episode larger than {LARGE_FILE} bytes, the most that is read"])
    while chunk := file.read(_CHUNK):
        hasher.update(chunk)


_HEAD: Final[Form] = object_of(
    {
        "evaluation_version": one_of(EVALUATION_VERSION),
        "model_id": ID,
        "manifest": lambda _value, _place: [],
    }
)
_EPISODE: Final[Form] = object_of(
    {
        "index": COUNT,
        "scenario_id": ID,
        "scenario_hash": DIGEST,
        "seed": SEED,
        "record": RECORD_FORM,
        "metrics": lambda value, place: (
            [] if isinstance(value, dict) else [f"{place}: {show(value)} is not an object"]
        ),
    }
)
