"""`ember merge`: the parts of a sweep as one file."""

from pathlib import Path
from typing import Annotated

import typer

from ember_cli.console import Json, Report
from ember_cli.sweep_folder import merge_parts


def merge(
    path: Annotated[Path, typer.Argument(help="The folder of a sweep.")],
    as_json: Json = False,
) -> None:
    """Check that the shards in a folder are complete and without overlap, and write one file."""
    file, rows = merge_parts(path)
    report = Report(as_json=as_json, title=path.name)
    report.add({"file": str(file), "rows": rows})
    report.close()
