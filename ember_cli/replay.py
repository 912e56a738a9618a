"""`ember replay`: whether the simulator reproduces a run record."""

from pathlib import Path
from typing import Annotated

import typer

from ember_cli.console import FAILED, HELD, Json, Report, note, scenario_of
from ember_ref.errors import ReplayMismatchError
from ember_ref.record import load_record, replay_check


def replay(
    record: Annotated[Path, typer.Argument(help="A run record file.")],
    scenario: Annotated[str, typer.Option("--scenario", help="The scenario that it is a run of.")],
    as_json: Json = False,
) -> int:
    """Run the recorded actions from the recorded seed and require the identical record."""
    run, origin = load_record(record), scenario_of(scenario)
    report = Report(as_json=as_json, title=record.name)
    verified = True
    try:
        replay_check(origin, run)
    except ReplayMismatchError as error:
        verified = False
        note(f"ember: {record}: {error}")
    report.add(
        {
            "record_digest": run.record_digest,
            "trajectory_digest": run.trajectory_digest,
            "verified": verified,
        }
    )
    report.close()
    return HELD if verified else FAILED
