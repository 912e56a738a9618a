"""`ember efficiency`: points per unit of cost."""

from pathlib import Path
from typing import Annotated

import typer

from ember_cli.console import Json, Report


def efficiency(
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="A score report.")],
    operational: Annotated[Path, typer.Option("--operational", help="The operational record of its results.")],
    as_json: Json = False,
) -> None:
    """Relate a score to its cost. It changes neither score nor order."""
    from scoring.efficiency import efficiency_of, load_operational_record
    from scoring.report import load_report

    view = efficiency_of(load_report(report), load_operational_record(operational))
    table = Report(as_json=as_json, title="Efficiency")
    table.add(view.to_dict())
    table.close()
