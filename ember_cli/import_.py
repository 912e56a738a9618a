"""`ember import`: a scenario from a real map."""

import re
from pathlib import Path
from typing import Annotated

import typer

from ember_cli.console import Json, Report, UsageError, note
from ember_ref.canonical import write_canonical
from ember_ref.form import show
from ember_ref.grid import Position
from ember_ref.scenario import EnterFire, FireModel
from ember_ref.simulator import checked_seed
from scenarios.maps import import_map, read_map, read_starts


def import_(
    map_file: Annotated[Path, typer.Argument(metavar="MAP", help="A Moving AI map, floor plan or text map.")],
    out: Annotated[Path, typer.Option("--out", help="The scenario file to write.")],
    scen: Annotated[Path | None, typer.Option("--scen", help="Take the start cells from this .scen file.")] = None,
    exit_cells: Annotated[list[str] | None, typer.Option("--exit", metavar="R,C", help="Add an exit.")] = None,
    ignite: Annotated[list[str] | None, typer.Option("--ignite", metavar="R,C", help="Add an ignition.")] = None,
    people: Annotated[int | None, typer.Option("--people", min=1, help="Place this many people.")] = None,
    scenario_id: Annotated[str | None, typer.Option("--id", help="The scenario's ID; else the map's name.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="The scenario's default evaluator seed.")] = 0,
    model: Annotated[FireModel, typer.Option("--model", help="How the fire spreads.")] = FireModel.STOCHASTIC,
    probability: Annotated[
        float | None, typer.Option("--probability", help="Spread probability; 0.3 when stochastic.")
    ] = None,
    spread_interval: Annotated[int, typer.Option("--spread-interval", help="Steps between spreads.")] = 1,
    exits_flammable: Annotated[bool, typer.Option("--exits-flammable", help="Exits can burn.")] = False,
    enter_fire: Annotated[
        EnterFire, typer.Option("--enter-fire", help="What a move into fire does.")
    ] = EnterFire.CASUALTY,
    max_steps: Annotated[int, typer.Option("--max-steps", help="The horizon.")] = 300,
    walls: Annotated[
        str | None, typer.Option("--walls", metavar="CHARS", help="The characters that block, and no others.")
    ] = None,
    place_seed: Annotated[int, typer.Option("--place-seed", help="Seed of the stream that places people.")] = 0,
    as_json: Json = False,
) -> None:
    """Make a scenario file from a map, with exits, ignitions and people added to it."""
    if scen is not None and people is None:
        raise UsageError("--scen needs --people N: how many of its starts to take")
    drawing = read_map(map_file, walls=walls)
    if probability is None and model is FireModel.STOCHASTIC:
        probability = 0.3
    scenario = import_map(
        drawing,
        id=_id_of(map_file) if scenario_id is None else scenario_id,
        description=f"Imported from {map_file.name}.",
        exits=[_cell("--exit", text) for text in exit_cells or []],
        ignitions=[_cell("--ignite", text) for text in ignite or []],
        people=people,
        starts=None if scen is None else read_starts(scen, drawing.grid),
        place_seed=checked_seed(place_seed),
        seed=seed,
        model=model,
        spread_interval=spread_interval,
        spread_probability=probability,
        exits_flammable=exits_flammable,
        enter_fire=enter_fire,
        max_steps=max_steps,
    )
    if not scenario.fire.ignitions:
        note("ember: the scenario has no ignition, so nothing in it ever burns; --ignite R,C adds one")
    write_canonical(out, scenario.to_dict())
    report = Report(as_json=as_json, title=map_file.name)
    report.add({"scenario_id": scenario.id, "content_hash": scenario.content_hash, "file": str(out)})
    report.close()


def _id_of(path: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", path.stem)[:64]
    return name if name[:1].isalnum() else f"map{name}"[:64]


def _cell(option: str, text: str) -> Position:
    match = re.fullmatch(r"([0-9]{1,3}),([0-9]{1,3})", text)
    if match is None:
        raise UsageError(f"{option} {show(text)}: expected ROW,COL, such as 0,12")
    return int(match[1]), int(match[2])
