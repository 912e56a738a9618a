"""`ember compare`: two score reports, episode by episode."""

from pathlib import Path
from typing import Annotated

import typer

from ember_cli.console import Json, Report


def compare(
    report_a: Annotated[Path, typer.Argument(metavar="REPORT_A", help="A score report.")],
    report_b: Annotated[Path, typer.Argument(metavar="REPORT_B", help="A report of the same episodes.")],
    as_json: Json = False,
) -> None:
    """Say which of two models is better, if that can be said."""
    from scoring.comparison import compare as compare_reports
    from scoring.display import comparison_lines
    from scoring.report import load_report

    comparison = compare_reports(load_report(report_a), load_report(report_b))
    if as_json:
        Report(as_json=True).add(comparison.to_dict())
        return
    print("\n".join(comparison_lines(comparison)))
