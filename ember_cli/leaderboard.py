"""`ember leaderboard`: score reports in order, each recomputed from its results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ember_cli.console import Json, Report, UsageError, note
from ember_cli.score import pack_or_suite

if TYPE_CHECKING:
    from ember_ref.suite import Pack, SuiteFolder
    from scoring.report import ScoreReport


def leaderboard(
    reports: Annotated[list[Path], typer.Argument(metavar="REPORT...", help="Score reports of the same episodes.")],
    pack: Annotated[Path | None, typer.Option("--pack", help="The pack that the reports are of.")] = None,
    suite: Annotated[str | None, typer.Option("--suite", help="The suite, for unofficial reports.")] = None,
    results: Annotated[
        list[Path] | None, typer.Option("--results", help="A result of a report; may be repeated.")
    ] = None,
    trust_reports: Annotated[
        bool, typer.Option("--trust-reports", help="Don't recompute the reports from their results.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put models in order: the score to 0.1 point, then safety."""
    from scoring.leaderboard import leaderboard as order
    from scoring.report import load_report

    if trust_reports == bool(results):
        raise UsageError("give either --pack PACK and --results RESULT for every result, or --trust-reports")
    loaded = [load_report(path) for path in reports]
    if not trust_reports:
        _verify(loaded, reports, pack_or_suite(pack, suite), results or [])
    entries = order(loaded, verified=not trust_reports)
    table = Report(as_json=as_json, title="Leaderboard")
    for entry in entries:
        table.add(entry.to_dict())
    table.close()
    if trust_reports:
        note("ember: NOT verified: the reports are trusted; give --results to recompute them")
    else:
        note("ember: verified: every report was recomputed from its results")
    if not all(entry.report.header.official for entry in entries):
        note("ember: UNOFFICIAL: the reports are of a suite, not of an environment pack")


def _verify(
    reports: list["ScoreReport"], files: list[Path], target: "SuiteFolder | Pack", results: list[Path]
) -> None:
    from scoring.assessment import verify_report
    from scoring.evaluation import open_result

    opened = {result.result_digest: result for result in map(open_result, results)}
    for report, file in zip(reports, files, strict=True):
        verify_report(report, opened, target, what=str(file))
