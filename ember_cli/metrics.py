"""`ember metrics`: the metrics of one authenticated run record."""

from pathlib import Path
from typing import Annotated

import typer

from ember_cli.console import Json, Report, scenario_of
from ember_ref.record import load_record


def metrics(
    record: Annotated[Path, typer.Argument(help="A run record file.")],
    scenario: Annotated[str, typer.Option("--scenario", help="The scenario that it is a run of.")],
    as_json: Json = False,
) -> None:
    """Authenticate a record by replay and compute its metrics."""
    from scoring.metrics import episode_metrics

    document = episode_metrics(scenario_of(scenario), load_record(record)).to_dict()
    if as_json:
        Report(as_json=True).add(document)
        return
    for name, group in document.items():
        if isinstance(group, dict):
            table = Report(as_json=False, title=name)
            table.add(group)
            table.close()
    people = Report(as_json=False, title="people")
    for person in document["people"]:
        people.add(person)
    people.close()
