"""`ember statistics`: summaries of one result, or of the differences of two."""

import csv
import io
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ember_cli.console import Json, Report, suite_or_pack_of
from ember_cli.progress import Progress
from ember_ref.canonical import write_bytes
from scoring.bootstrap import LEAST_RESAMPLES, MOST_RESAMPLES, RESAMPLES

_ARROWS = {"higher_is_better": "↑", "lower_is_better": "↓", "none": ""}


class By(StrEnum):
    """The groups that a table shows beside the overall one."""

    SCENARIO = "scenario"
    FAMILY = "family"


def statistics(
    result: Annotated[Path, typer.Argument(help="An evaluation result.")],
    suite: Annotated[str, typer.Option("--suite", "--pack", help="The suite or pack that it is of.")],
    against: Annotated[Path | None, typer.Option("--against", help="A second result: deltas, A - B.")] = None,
    resamples: Annotated[
        int,
        typer.Option("--resamples", min=LEAST_RESAMPLES, max=MOST_RESAMPLES, help="Resamples of each interval."),
    ] = RESAMPLES,
    by: Annotated[By | None, typer.Option("--by", help="A table for every scenario or family as well.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write every row for a spreadsheet.")] = None,
    as_json: Json = False,
) -> None:
    """Authenticate results from scratch and summarise every metric."""
    from scoring.evaluation import open_result
    from scoring.statistics import aggregate_statistics, paired_statistics

    target, first = suite_or_pack_of(suite), open_result(result)
    with Progress("episodes") as progress:
        if against is None:
            artifact = aggregate_statistics(first, target, resamples=resamples, progress=progress)
        else:
            second = open_result(against)
            artifact = paired_statistics(first, second, target, resamples=resamples, progress=progress)
    if csv_file is not None:
        write_bytes(csv_file, _csv(artifact).encode())
    if as_json:
        Report(as_json=True).add(artifact)
        return
    shown = [artifact["overall"]]
    if by is not None:
        shown += artifact["scenarios" if by is By.SCENARIO else "families"]
    directions = {entry["metric"]: _ARROWS[entry["direction"]] for entry in artifact["metric_definitions"]}
    for group in shown:
        name = "overall" if group["kind"] == "overall" else f"{group['kind']} {group['name']}"
        table = Report(as_json=False, title=name)
        for row in group["metrics"]:
            table.add(_line(row, directions[row["metric"]]))
        table.close()


def _line(row: dict[str, Any], arrow: str) -> dict[str, Any]:
    """Return a row of the table: figures to four places, an undefined one empty."""
    values, interval = row["statistics"], row.get("mean_ci") or row.get("mean_delta_ci")
    line = {
        "metric": f"{row['metric'].replace('_', ' ')} {arrow}".strip(),
        "mean": _figure(values["mean"]),
        "95% CI": f"[{_figure(interval['lower'])}, {_figure(interval['upper'])}]" if interval else None,
        "median": _figure(values["median"]),
        "n": values["n"],
        "undefined": row["undefined"],
    }
    if "deltas" in row:
        missing = {name: row[name] for name in ("missing_from_a", "missing_from_b")}
        return line | missing | {"A wins": row["a_better"], "B wins": row["b_better"], "ties": row["ties"]}
    return line | {"missing": row["missing"]}


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _csv(artifact: dict[str, Any]) -> str:
    rows = list(_flat(artifact))
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(artifact: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in [artifact["overall"], *artifact["scenarios"], *artifact["families"]]:
        for row in group["metrics"]:
            values = dict(row["statistics"])
            quantiles = values.pop("quantiles")
            interval = row.get("mean_ci") or row.get("mean_delta_ci") or {"lower": None, "upper": None}
            counts = {
                key: value
                for key, value in row.items()
                if key not in {"statistics", "mean_ci", "mean_delta_ci", "deltas"}
            }
            yield {
                "kind": group["kind"],
                "name": group["name"],
                **counts,
                **values,
                **quantiles,
                "ci_lower": interval["lower"],
                "ci_upper": interval["upper"],
            }
