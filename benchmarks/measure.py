"""Interleaved rounds of several programs on one task, with the CPU use of every round.

Rounds go A, B, C, A, B, C, …, so that whatever else the machine does meets all programs alike. A round that
did not get its cores is dropped and made again, up to a limit; if the limit is reached the table says so. Rates per
second of CPU time are given too: they hardly depend on what else runs.
"""

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.work import Program, Task, checksum, digest

PAIRS = 5
ROUND_SECONDS = 0.25
_GOT = 0.9  # of its cores, for a round to count
_TRIES = 2  # times the pairs wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A scenario, or several that are taken together."""

    name: str
    tasks: Sequence[Task]


@dataclass(slots=True, kw_only=True)
class Round:
    """One timed call."""

    seeds: int
    wall: float
    cpu: float
    others: float | None
    """Cores that other processes kept busy; `None` where the system does not say."""

    @property
    def cpu_use(self) -> float:
        """Cores that were busy for this round on average."""
        return self.cpu / self.wall


@dataclass(slots=True, kw_only=True)
class Series:
    """All rounds of one program with one number of threads."""

    program: Program
    threads: int
    count: int = 1
    compile_seconds: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    dropped: int = 0
    loaded: bool = False
    """Whether rounds that did not get their cores had to be kept."""

    @property
    def rate(self) -> float:
        """Median seeds per second."""
        return statistics.median(round.seeds / round.wall for round in self.rounds)

    @property
    def cpu_rate(self) -> float:
        """Median seeds per second of CPU time."""
        return statistics.median(round.seeds / round.cpu for round in self.rounds)


@dataclass(slots=True, kw_only=True)
class Comparison:
    """What programs did on one target."""

    target: Target
    digests: dict[str, bool]
    """Whether each program's first results equal those of the first program."""
    digest: str
    series: list[Series]

    @property
    def loaded(self) -> bool:
        """Whether rounds that did not get their cores had to be kept."""
        return any(one.loaded for one in self.series)


def compare(
    programs: Sequence[Program],
    target: Target,
    *,
    threads: Sequence[int] = (1, 2),
    pairs: int = PAIRS,
    seconds: float = ROUND_SECONDS,
) -> Comparison:
    """Check that programs agree, then time them in turn.

    Args:
        programs: the programs; those that cannot do the tasks are left out; the first one can.
        target: what they do.
        threads: how many threads to try, as far as a program can use them.
        pairs: rounds of each that must count.
        seconds: about how long a round takes.
    """
    able = [program for program in programs if all(program.can(task) for task in target.tasks)]
    reference = able[0]
    compile_seconds = {reference.name: _first_result(reference, target)}
    equal, found = {}, ""
    for program in able:
        equal[program.name], found = _agrees(reference, program, target)
    series = [
        Series(program=program, threads=number, compile_seconds=compile_seconds.get(program.name, 0.0))
        for number in threads
        for program in able
        if number <= program.most_threads
    ]
    for one in series:
        one.count = _calibrate(one, target, seconds)
    for number in threads:
        _interleave([one for one in series if one.threads == number], target, pairs)
    return Comparison(target=target, digests=equal, digest=found, series=series)


def _first_result(program: Program, target: Target) -> float:
    start = time.monotonic()
    for task in target.tasks:
        program.run(task, 0, 1)
    return time.monotonic() - start


def _agrees(reference: Program, program: Program, target: Target) -> tuple[bool, str]:
    """Compare the first results of two programs; return the digest of the last task's too."""
    agrees, found = True, ""
    for task in target.tasks:
        count = min(reference.check_seeds, program.check_seeds)
        expected = reference.run(task, 0, count, worlds=True)
        found = digest(expected, count)
        agrees &= program is reference or digest(program.run(task, 0, count, worlds=True), count) == found
    return agrees, found


def _calibrate(series: Series, target: Target, seconds: float) -> int:
    """Return a power of two of seeds that fills a round, and that twice as many would hardly be faster a seed."""
    count, rate = 1, 0.0
    while True:
        _timed(series, target, count, first=1 << 40)  # a new size may compile
        spent = _timed(series, target, count, first=1 << 40).cpu
        now = count / spent
        if (spent > seconds / 2 and now < 1.15 * rate) or count >= 1 << 22:
            return count
        rate, count = now, count * (2 if spent > seconds / 16 else 8)


def _timed(series: Series, target: Target, count: int, first: int) -> Round:
    others = _busy()
    cpu, wall = time.process_time(), time.monotonic()
    for task in target.tasks:
        checksum(series.program.run(task, first, count, threads=series.threads))
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    busy = None if others is None else max(0.0, (_busy() or 0.0) - others - cpu) / wall
    return Round(seeds=count * len(target.tasks), wall=wall, cpu=cpu, others=busy)


def _interleave(all_series: Sequence[Series], target: Target, pairs: int) -> None:
    """Make rounds in turn until every series has its pairs."""
    spare: dict[int, list[Round]] = {id(series): [] for series in all_series}
    for turn in range(pairs * _TRIES):
        waiting = [series for series in all_series if len(series.rounds) < pairs]
        if not waiting:
            break
        for series in all_series:
            made = _timed(series, target, series.count, first=turn * series.count)
            if _got_its_cores(made, series.threads):
                series.rounds.append(made)
            else:
                series.dropped += 1
                spare[id(series)].append(made)
    for series in all_series:
        missing = pairs - len(series.rounds)
        if missing > 0:
            series.loaded = True
            series.rounds += spare[id(series)][-missing:]
            series.dropped -= missing


def _got_its_cores(made: Round, threads: int) -> bool:
    """Tell whether nothing else took cores that a round could have used."""
    cores = os.cpu_count() or 1
    if made.others is None:
        return made.cpu_use >= _GOT * min(threads, cores)
    return made.others <= max(cores - threads, 0) + threads * (1 - _GOT)


def _busy() -> float | None:
    """Return the CPU seconds that all processes have used, or `None` where the system does not say."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _idle, _wait, interrupt, soft, steal = (int(value) for value in fields[:8])
    return (user + nice + system + interrupt + soft + steal) / 100
