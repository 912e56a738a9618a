"""`ember generate`: suites of drawn buildings, or of real maps, accepted over many fires."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ember_cli.console import (
    Backend,
    Json,
    Report,
    UsageError,
    UseBackend,
    enable_compilation_cache,
)
from ember_cli.progress import Progress
from ember_ref.form import ID_PATTERN, show
from ember_ref.simulator import checked_seed
from scenarios.maps import read_map
from scenarios.procedural import trial
from scenarios.procedural.families import GENERATED
from scenarios.procedural.folder import parameters, refuse_existing, suite_id_of, suite_of, write_folder
from scenarios.procedural.generator import Generated, generate_all
from scenarios.procedural.setting import Difficulty, Request, Size
from scenarios.procedural.site import MapBase, map_base

ALL = "all"


def generate(
    family: Annotated[
        list[str], typer.Option("--family", help="A family, or all; may be repeated.", show_default=False)
    ],
    count: Annotated[int, typer.Option("--count", min=1, max=100_000, help="Scenarios a family.")],
    seed: Annotated[int, typer.Option("--seed", help="The generator seed, 0 to 2^64 - 1.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to make; it must not be there yet.")],
    size: Annotated[Size, typer.Option("--size", help="How large the buildings are.")] = Size.MEDIUM,
    difficulty: Annotated[
        Difficulty, typer.Option("--difficulty", help="How fast the fire spreads, and how near it starts.")
    ] = Difficulty.NORMAL,
    maps: Annotated[
        list[Path] | None,
        typer.Option("--map", help="Set the scenarios on this map instead of drawn buildings; may be repeated."),
    ] = None,
    walls: Annotated[
        str | None, typer.Option("--walls", metavar="CHARS", help="The characters of the maps that block.")
    ] = None,
    suite_id: Annotated[str | None, typer.Option("--id", help="The ID of the suite; else one of its own.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, max=256, help="Scenarios at a time.")] = None,
    as_json: Json = False,
    backend: UseBackend = Backend.JAX,
) -> None:
    """Generate a suite: buildings of the chosen families that hold their rules over many fires.

    The same call writes the same bytes on every machine and with any number of workers.
    """
    chosen = _families(family)
    request = Request(seed=checked_seed(seed), size=size, difficulty=difficulty)
    if suite_id is not None and not ID_PATTERN.fullmatch(suite_id):
        raise UsageError(f"--id {show(suite_id)} is not an ID")
    if walls is not None and not maps:
        raise UsageError("--walls needs --map: drawn buildings have no characters")
    bases = _bases(maps or [], walls)
    refuse_existing(out)
    if backend is Backend.JAX:
        enable_compilation_cache()
    made: list[Generated] = []
    with Progress("scenarios") as progress:
        for item in generate_all(
            chosen,
            count,
            request,
            maps=bases,
            backend=trial.Backend(str(backend)),
            workers=os.cpu_count() or 1 if workers is None else workers,
        ):
            made.append(item)
            progress(len(made), len(chosen) * count)
    given = parameters(chosen, count, request, bases)
    suite = suite_of(suite_id_of(given) if suite_id is None else suite_id, made)
    write_folder(out, suite, made, given)
    report = Report(as_json=as_json, title=f"Suite {suite.suite_id} in {out}")
    for row in _rows(made, out) if as_json else _summary(chosen, made):
        report.add(row)
    report.close()


def _families(names: Sequence[str]) -> list[str]:
    """Return the chosen families in the order of the contract."""
    for name in names:
        if name != ALL and name not in GENERATED:
            raise UsageError(f"--family {show(name)} is not a family; expected all, or one of {', '.join(GENERATED)}")
    if len(set(names)) != len(names) or (ALL in names and len(names) > 1):
        raise UsageError("--family: a family is given twice")
    return [name for name in GENERATED if name in names or ALL in names]


def _bases(paths: Sequence[Path], walls: str | None) -> list[MapBase]:
    bases = [map_base(path.name, read_map(path, walls=walls)) for path in paths]
    if len({base.name for base in bases}) != len(bases):
        raise UsageError("--map: two maps have one name")
    return bases


def _rows(made: Sequence[Generated], out: Path) -> list[dict[str, Any]]:
    return [
        {
            "scenario_id": item.scenario.id,
            "content_hash": item.scenario.content_hash,
            "file": str(out / f"{item.scenario.id}.json"),
        }
        for item in made
    ]


def _summary(families: Sequence[str], made: Sequence[Generated]) -> list[dict[str, Any]]:
    rows = []
    for family in families:
        mine = [item for item in made if item.family == family]
        drafts = sum(item.drafts for item in mine)
        rejections: Counter[str] = Counter()
        for item in mine:
            rejections.update(item.rejections)
        rows.append(
            {
                "family": family,
                "scenarios": len(mine),
                "drafts": drafts,
                "accepted": f"{100 * len(mine) // drafts} in 100",
                "most rejected for": ", ".join(f"{name} {times}" for name, times in rejections.most_common(3)),
            }
        )
    return rows
