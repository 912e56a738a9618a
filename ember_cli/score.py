"""`ember score`: results into a score report, its summary, and the story of an episode."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ember_cli.console import Backend, Json, Report, UsageError, UseBackend, note, suite_or_pack_of
from ember_cli.progress import Progress
from ember_ref.agent import FailureKind
from ember_ref.canonical import write_bytes, write_canonical
from ember_ref.suite import Pack, SuiteFolder

if TYPE_CHECKING:
    from scoring.evidence import ReferenceProvider
    from scoring.report import ScoreReport

_BAR: int = 40
"""Characters of a family bar of 100 points."""


def score(
    results: Annotated[list[Path], typer.Argument(metavar="RESULT...", help="One result a trial.")],
    pack: Annotated[Path | None, typer.Option("--pack", help="The pack; makes the score official.")] = None,
    suite: Annotated[str | None, typer.Option("--suite", help="A bare suite: the score is UNOFFICIAL.")] = None,
    failures: Annotated[
        Path | None,
        typer.Option("--failures", help="Failures of all trials; without it those beside each result."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the report.")] = None,
    explain: Annotated[int | None, typer.Option("--explain", help="Tell one episode as a story in numbers.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Write the report for a paper.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write a row for every episode and trial.")] = None,
    as_json: Json = False,
    backend: UseBackend = Backend.REF,
) -> None:
    """Authenticate results from scratch and score them.

    References come from the oracle by default: a first compilation takes longer than scoring a pack of 30 episodes.
    """
    from scoring.assessment import score_results
    from scoring.display import explanation_lines, summary_lines
    from scoring.display import markdown as markdown_text
    from scoring.evaluation import open_result

    target = pack_or_suite(pack, suite)
    opened = [open_result(path) for path in results]
    if explain is not None:
        if as_json:
            raise UsageError("--explain tells a story for people; leave --json out")
        scheduled = len(opened[0].manifest.episodes)
        if not 0 <= explain < scheduled:
            raise UsageError(f"--explain {explain}: no such episode; expected 0 to {scheduled - 1}")
    declared = _declared(results, failures)
    with Progress("episodes") as progress:
        report = score_results(opened, target, declared, provider=_provider(backend), progress=progress)
    story = [] if explain is None else explanation_lines(report, explain)
    if out is not None:
        write_canonical(out, report.to_dict())
    if markdown is not None:
        write_bytes(markdown, markdown_text(report).encode())
    if csv_file is not None:
        write_bytes(csv_file, _csv(report).encode())
    if not report.header.official:
        note("ember: UNOFFICIAL: scored against a suite, not an environment pack")
    if as_json:
        Report(as_json=True).add(report.to_dict())
        return
    print("\n".join(story or summary_lines(report)))
    if not story:
        _bars(report)


def _provider(backend: Backend) -> "ReferenceProvider | None":
    if backend is Backend.REF:
        return None
    from ember_cli.compiled_references import CompiledReferences

    return CompiledReferences()


def pack_or_suite(pack: Path | None, suite: str | None) -> SuiteFolder | Pack:
    """Return the target of a score.

    Raises:
        UsageError: when not exactly one is given, or the pack is none.
    """
    from ember_ref.suite import load_pack

    if pack is not None and suite is None:
        return load_pack(pack)
    if suite is not None and pack is None:
        return suite_or_pack_of(suite)
    raise UsageError("give either --pack PACK or --suite SUITE")


def _declared(results: Sequence[Path], failures: Path | None) -> list[dict[int, FailureKind]]:
    from scoring.assessment import load_failures
    from scoring.runner import failures_path

    if failures is not None:
        return load_failures(failures)
    declared: list[dict[int, FailureKind]] = []
    for result in results:
        beside = failures_path(result)
        own = load_failures(beside) if beside.exists() else [{}]
        if len(own) != 1:
            raise UsageError(f"{beside}: failures of {len(own)} trials; beside a result stand those of one")
        declared += own
    return declared


def _csv(report: "ScoreReport") -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header: list[str] = []
    for episode in report.to_dict()["episodes"]:
        for number, trial in enumerate(episode["trials"]):
            row = {name: episode[name] for name in ("index", "scenario_id", "seed", "max_evacuated")}
            row |= {"trial": number, "status": trial["status"], "failure": trial["failure"], "score": trial["score"]}
            row |= trial["components"] | {name: trial[name] for name in ("safety", "quality", "severity", "ceiling")}
            evidence: Mapping[str, object] = trial["evidence"] or {}
            for name in ("evacuated", "avoidable_casualties", "avoidable_stranded", "unavoidable_losses"):
                row[name] = evidence.get(name)
            if not header:
                header = list(row)
                writer.writerow(header)
            writer.writerow(["" if row[name] is None else row[name] for name in header])
    return text.getvalue()


def _bars(report: "ScoreReport") -> None:
    """Draw the families on a terminal; a log has the summary only."""
    from rich.console import Console

    from scoring.display import points

    console = Console()
    if not console.is_terminal:
        return
    families = report.hierarchy.family_means(report.episode_scores)
    width = max(map(len, families), default=0)
    for name, value in families.items():
        full = round(value * _BAR / 100)
        colour = "green" if value >= 80 else "yellow" if value >= 40 else "red"
        bar = f"[{colour}]{'█' * full}[/{colour}]{'·' * (_BAR - full)}"
        console.print(f"{name:<{width}} {bar} {points(value):>5}", highlight=False)
