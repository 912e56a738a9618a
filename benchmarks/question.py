"""One question: which programs, on which scenarios; asked on the command line, answered by a table and JSON lines."""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.batched import Batched
from benchmarks.compiled import Compiled, Plain
from benchmarks.environment import STEPS
from benchmarks.measure import PAIRS, ROUND_SECONDS, Comparison, Series, Target, compare
from benchmarks.oracle import Oracle
from benchmarks.scalar import Scalar
from benchmarks.work import Program, Task, Work
from ember_cli.console import target_of

FILES = Path(__file__).parent / "scenarios"
SUITE = "public-v1"
HAND_TUNED = {
    ("bench-20", Work.WORLD, None): 300_000,
    ("bench-20", Work.REFERENCES, None): 110_000,
    ("bench-20", Work.ROLLOUT, "static-shortest-path-v1"): 300_000,
    ("bench-20", Work.ROLLOUT, "fire-aware-shortest-path-v1"): 74_000,
    ("bench-20", Work.ROLLOUT, "congestion-aware-v1"): 22_000,
    ("bench-64", Work.WORLD, None): 24_000,
    ("bench-64", Work.REFERENCES, None): 6_000,
}
"""Rates of one core of a hand-tuned AVX-512 program, measured elsewhere: the yardstick of the targets."""


def parser(title: str) -> argparse.ArgumentParser:
    """Return the command line that all questions share."""
    result = argparse.ArgumentParser(description=title)
    result.add_argument("scenarios", nargs="*", help="scenario files, suites, or bundled names of either")
    result.add_argument("--pairs", type=int, default=PAIRS, help="rounds of each program that must count")
    result.add_argument("--seconds", type=float, default=ROUND_SECONDS, help="about how long a round takes")
    result.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads to try")
    result.add_argument(
        "--fast", action="store_true", help="leave the slow programs out: only the compiled path and C++"
    )
    result.add_argument("--policy", nargs="+", help="policies of the rollouts and evidence")
    return result


def targets(named: Sequence[str], work: Work, policy: str | None) -> Iterator[Target]:
    """Yield what is measured: each scenario named, or the benchmark files and the public suite as a whole."""
    for name in named or [*sorted(path.stem for path in FILES.glob("*.json")), SUITE]:
        here = FILES / f"{name}.json"
        scenarios = target_of(str(here) if here.exists() else name)
        yield Target(
            name=Path(name).stem,
            tasks=[Task(work=work, scenario=scenario, policy=policy) for scenario in scenarios],
        )


def programs(*, fast: bool) -> list[Program]:
    """Return the programs, the compiled path first."""
    found: list[Program] = [Compiled()]
    try:
        found += [Scalar(), Scalar(dense=True)]
    except RuntimeError as error:
        print(error, file=sys.stderr)
    return found if fast else [*found, Plain(), Batched(), Oracle()]


def ask(title: str, work: Work, policies: Sequence[str | None] = (None,), argv: Sequence[str] | None = None) -> bool:
    """Answer a question; tell whether all programs agreed."""
    given = parser(title).parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else 172)
    table = _table(title)
    everyone = programs(fast=given.fast)
    lines, agreed, loaded = [], True, False
    for policy in given.policy if given.policy and work in (Work.ROLLOUT, Work.EVIDENCE) else policies:
        for target in targets(given.scenarios, work, policy):
            found = compare(everyone, target, threads=given.threads, pairs=given.pairs, seconds=given.seconds)
            agreed &= all(found.digests.values())
            loaded |= found.loaded
            for row in _rows(found, work, policy):
                lines.append(row)
                table.add_row(*_cells(row))
            table.add_section()
    console.print(table)
    console.print(_NOTES)
    if loaded:
        console.print("Rounds marked ! did not get their cores, and there were too few others.", style="bold red")
    if not agreed:
        console.print("PROGRAMS DISAGREE: see `agrees`.", style="bold red")
    for line in lines:
        print(json.dumps(line, sort_keys=True))
    return agreed


_NOTES = (
    "Rates are medians over interleaved rounds; a factor is that of this program over the scalar C++ with as many "
    "threads, first by wall time, then by CPU time, medians over pairs. 'Of hand-tuned': by CPU time on one thread, "
    "by wall time on more, over one core's figure in the issue, which was measured elsewhere."
)


def _table(title: str) -> Table:
    table = Table(title=title)
    for name in ("scenario", "policy", "program"):
        table.add_column(name, no_wrap=True)
    for name in ("threads", "rate /s", "per CPU s", "factor", "(CPU)", "of hand-tuned", "first result s"):
        table.add_column(name, justify="right")
    table.add_column("CPU use of each round", no_wrap=True)
    table.add_column("dropped", justify="right")
    table.add_column("agrees")
    return table


def _rows(found: Comparison, work: Work, policy: str | None) -> Iterator[dict[str, Any]]:
    unit = STEPS if work is Work.STEP else 1
    for series in found.series:
        scalar = next(
            (one for one in found.series if one.program.name == "C++ scalar" and one.threads == series.threads), None
        )
        yardstick = HAND_TUNED.get((found.target.name, work, policy))
        by = series.cpu_rate if series.threads == 1 else series.rate
        yield {
            "work": str(work),
            "scenario": found.target.name,
            "policy": policy,
            "program": series.program.name,
            "threads": series.threads,
            "seeds_per_round": series.count * len(found.target.tasks),
            "per_s": round(unit * series.rate, 1),
            "per_cpu_s": round(unit * series.cpu_rate, 1),
            "factor": scalar and _factor(series, scalar, "wall"),
            "factor_cpu": scalar and _factor(series, scalar, "cpu"),
            "of_hand_tuned": yardstick and round(by / yardstick, 2),
            "first_result_s": round(series.compile_seconds, 2) or None,
            "cpu_use": [round(one.cpu_use, 2) for one in series.rounds],
            "loaded": series.loaded,
            "dropped": series.dropped,
            "agrees": found.digests[series.program.name],
            "digest": found.digest,
        }


def _factor(series: Series, scalar: Series, clock: str) -> float:
    """Return the median over pairs of rounds of the ratio of rates."""
    pairs = zip(series.rounds, scalar.rounds, strict=False)
    ratios = [a.seeds / getattr(a, clock) / (b.seeds / getattr(b, clock)) for a, b in pairs]
    return float(round(statistics.median(ratios), 3))


def _cells(row: dict[str, Any]) -> list[str]:
    def number(value: float | None) -> str:
        if value is None:
            return ""
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    return [
        row["scenario"],
        (row["policy"] or "").removesuffix("-v1"),
        row["program"],
        str(row["threads"]),
        number(row["per_s"]),
        number(row["per_cpu_s"]),
        number(row["factor"]),
        number(row["factor_cpu"]),
        number(row["of_hand_tuned"]),
        number(row["first_result_s"]),
        " ".join(f"{use:.2f}" for use in row["cpu_use"]) + ("!" if row["loaded"] else ""),
        str(row["dropped"]),
        "yes" if row["agrees"] else "NO",
    ]
