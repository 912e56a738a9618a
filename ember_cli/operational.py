"""`ember operational`: what the work behind results took and cost."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from ember_cli.console import Json, Report, UsageError
from ember_ref.canonical import parse_canonical, parse_json, read_bytes, write_canonical
from ember_ref.errors import DocumentError
from ember_ref.form import show


def operational(
    results: Annotated[list[Path], typer.Argument(metavar="RESULT...", help="The results, one a trial.")],
    provider: Annotated[str, typer.Option("--provider", help="Who served the model.")],
    inference: Annotated[Path, typer.Option("--inference", help="A JSON object of all inference settings.")],
    out: Annotated[Path, typer.Option("--out", help="Write the record.")],
    input_tokens: Annotated[int, typer.Option("--input-tokens", min=0)] = 0,
    output_tokens: Annotated[int, typer.Option("--output-tokens", min=0)] = 0,
    cost: Annotated[str | None, typer.Option("--cost", help="All trials together: A or A/B.")] = None,
    cost_unit: Annotated[str | None, typer.Option("--cost-unit", help="USD, say.")] = None,
    retries: Annotated[int, typer.Option("--retries", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Write the operational record of an evaluation: no score reads it."""
    from scoring.efficiency import OperationalRecord, inference_configuration_digest
    from scoring.evaluation import open_result

    settings = parse_json(read_bytes(inference), what=str(inference))
    if not isinstance(settings, dict):
        raise DocumentError(str(inference), [f"document: {show(settings)} is not an object"])
    opened = [open_result(path) for path in results]
    models = {result.model_id for result in opened}
    if len(models) > 1 or len({result.manifest.manifest_hash for result in opened}) > 1:
        raise UsageError(f"the results are of several models or manifests: {', '.join(sorted(models))}")
    measured = [_measures(path) for path in results]
    record = OperationalRecord(
        model_id=opened[0].model_id,
        provider_id=provider,
        inference_configuration_digest=inference_configuration_digest(settings),
        trials=len(results),
        episodes=len(opened[0].manifest.episodes),
        latency_seconds=float(sum(entry["wall_seconds"] for entry in measured)),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=None if cost is None else _fraction(cost),
        cost_unit=cost_unit,
        retries=retries,
        timeouts=sum(entry["timeouts"] for entry in measured),
    )
    write_canonical(out, record.to_dict())
    report = Report(as_json=as_json, title="Operational record")
    report.add(record.to_dict())
    report.close()


def _measures(result: Path) -> dict[str, Any]:
    from scoring.runner import measures_path

    path = measures_path(result)
    document = parse_canonical(read_bytes(path), what=str(path))
    wall, timeouts = (document.get(name) if isinstance(document, dict) else None for name in _MEASURED)
    if type(wall) not in (int, float) or type(timeouts) is not int:
        raise DocumentError(str(path), [f"expected an object with {' and '.join(_MEASURED)}"])
    return {"wall_seconds": wall, "timeouts": timeouts}


_MEASURED = ("wall_seconds", "timeouts")


def _fraction(text: str) -> Fraction:
    numerator, slash, denominator = text.partition("/")
    words = (numerator, denominator) if slash else (numerator,)
    if not all(word.isascii() and word.isdigit() and len(word) <= 30 for word in words) or (
        slash and int(denominator) == 0
    ):
        raise UsageError(f"--cost {show(text)} is not A or A/B, integers")
    return Fraction(int(numerator), int(denominator) if slash else 1)
