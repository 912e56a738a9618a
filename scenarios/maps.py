"""Scenarios from real maps: Moving AI grids, space-separated floor plans, and text maps.

Moving AI `.map` (Stern et al., "Multi-Agent Pathfinding: Definitions, Variants, and Benchmarks", SoCS 2019):
    `type octile`, `height H`, `width W`, `map`, then H rows of W characters, row 0 on top. Water is a wall. A
    `.scen` file has a line a start, fields separated by tabs: bucket, map, width, height, start x (a column),
    start y (a row), goal x, goal y, length.
Floor plan: rows of one-character tokens separated by spaces; `W` wall, `F` furniture, `E` exit, `D` door,
    `S` spawn, `_` empty.
Text map: as `ember_ref.scenario.scenario_from_text`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ember_ref.canonical import SMALL_FILE, read_bytes
from ember_ref.errors import DocumentError
from ember_ref.form import show
from ember_ref.grid import Grid, Position
from ember_ref.scenario import (
    MAX_SIDE,
    EnterFire,
    ExitSpec,
    FireModel,
    FireSpec,
    MovementSpec,
    PersonSpec,
    Scenario,
    TerminationSpec,
    numbered,
)
from ember_ref.stream import Stream

PLACE: Final = "import/place"
"""The label of the stream that places people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """What the characters of a map format mean; every other character is a fault."""

    walls: str
    floor: str
    exits: str = ""
    people: str = ""
    ignitions: str = ""

    @property
    def all(self) -> str:
        """Every character that the format has."""
        return "".join(dict.fromkeys(self.walls + self.floor + self.exits + self.people + self.ignitions))


MOVING_AI: Final = Legend(walls="@OTW", floor=".GS")
FLOOR_PLAN: Final = Legend(walls="WF", floor="_DS", exits="E")
TEXT_MAP: Final = Legend(walls="#", floor=".", exits="EX", people="P", ignitions="*X")


@dataclass(frozen=True, slots=True, kw_only=True)
class MapDrawing:
    """A map as read: the terrain and whatever the drawing places on it, row-major."""

    grid: Grid
    exits: tuple[Position, ...]
    people: tuple[Position, ...]
    ignitions: tuple[Position, ...]


def read_map(path: Path, *, walls: str | None = None) -> MapDrawing:
    """Read a map file in any of the formats, which is recognised by its first line.

    Args:
        path: the file.
        walls: the characters that block, in place of the format's own; all its other characters are open.

    Raises:
        DocumentError: with every fault of the file and its place.
    """
    what = str(path)
    lines = _lines(path)
    if lines and lines[0].startswith("type "):
        rows, first, legend = _moving_ai_rows(lines, what), 5, MOVING_AI
    elif lines and re.fullmatch(r"\S( \S)*", lines[0]) and len(lines[0]) > 1:
        rows, first, legend = [line.split(" ") for line in lines], 1, FLOOR_PLAN
    else:
        rows, first, legend = [list(line) for line in lines], 1, TEXT_MAP
    faults = _row_faults(rows, first, legend.all + (walls or ""))
    if not rows or not rows[0]:
        faults = ["holds no map"]
    elif max(len(rows), len(rows[0])) > MAX_SIDE:
        faults.append(f"{len(rows)} rows and {len(rows[0])} columns, more than {MAX_SIDE}")
    if faults:
        raise DocumentError(what, faults)
    blocked = legend.walls if walls is None else walls

    def cells(marks: str) -> tuple[Position, ...]:
        return tuple((i, j) for i, row in enumerate(rows) for j, mark in enumerate(row) if mark in marks)

    return MapDrawing(
        grid=Grid(height=len(rows), width=len(rows[0]), obstacles=frozenset(cells(blocked))),
        exits=tuple(cell for cell in cells(legend.exits) if rows[cell[0]][cell[1]] not in blocked),
        people=cells(legend.people),
        ignitions=cells(legend.ignitions),
    )


def read_starts(path: Path, grid: Grid) -> tuple[Position, ...]:
    """Read the start cells of a Moving AI `.scen` file, in the order of the file.

    Raises:
        DocumentError: with every fault of the file and its place.
    """
    lines = _lines(path)
    if not lines or not re.fullmatch(r"version 1(\.0)?", lines[0].strip()):
        raise DocumentError(str(path), ["line 1: expected `version 1`"])
    starts, faults = [], []
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split("\t")
        if len(fields) != 9 or not all(re.fullmatch(r"[0-9]{1,6}", field) for field in fields[2:8]):
            faults.append(f"line {number}: expected 9 fields separated by tabs, numbers in the 3rd to the 8th")
            continue
        width, height, col, row = map(int, fields[2:6])
        if (width, height) != (grid.width, grid.height):
            faults.append(
                f"line {number}: of a map {width} wide and {height} high, not {grid.width} and {grid.height}"
            )
        elif not grid.is_open((row, col)):
            faults.append(f"line {number}: the start, row {row} column {col}, is not an open cell of the map")
        else:
            starts.append((row, col))
    if faults:
        raise DocumentError(str(path), faults)
    return tuple(starts)


def import_map(
    drawing: MapDrawing,
    *,
    id: str,
    exits: Sequence[Position] = (),
    ignitions: Sequence[Position] = (),
    people: int | None = None,
    starts: Sequence[Position] | None = None,
    place_seed: int = 0,
    description: str = "",
    seed: int = 0,
    model: FireModel = FireModel.STOCHASTIC,
    spread_interval: int = 1,
    spread_probability: float | None = None,
    exits_flammable: bool = False,
    enter_fire: EnterFire = EnterFire.CASUALTY,
    max_steps: int = 300,
) -> Scenario:
    """Make a scenario from a drawing and what the caller adds to it.

    Exits and ignitions are those of the drawing and the given ones. Without `people` the drawing's people
    stay. With `people`, that many are placed: on the first distinct `starts` that are no exit and no
    ignition, or else on the open cells that are neither, row-major, shuffled by stream `import/place` under
    `place_seed`, and numbered in shuffled order.

    Raises:
        DocumentError: when there are fewer places than people.
        ScenarioError: with every fault of the scenario.
    """
    all_exits = sorted({*drawing.exits, *exits})
    all_ignitions = sorted({*drawing.ignitions, *ignitions})
    cells = list(drawing.people)
    if people is not None:
        taken = {*all_exits, *all_ignitions}
        if starts is not None:
            places = [cell for cell in dict.fromkeys(starts) if cell not in taken]
        else:
            places = [c for c in drawing.grid.positions() if drawing.grid.is_open(c) and c not in taken]
            Stream(PLACE, place_seed).shuffle(places)
        if len(places) < people:
            raise DocumentError(
                f"map of {show(id)}", [f"{people} people, but only {len(places)} cells to place them"]
            )
        cells = places[:people]
    return Scenario(
        id=id,
        description=description,
        seed=seed,
        grid=drawing.grid,
        exits=tuple(ExitSpec(id=name, position=cell) for name, cell in numbered("E", all_exits)),
        people=tuple(PersonSpec(id=name, position=cell) for name, cell in numbered("P", cells)),
        fire=FireSpec(
            model=model,
            ignitions=tuple(all_ignitions),
            spread_interval=spread_interval,
            spread_probability=spread_probability,
            exits_flammable=exits_flammable,
        ),
        movement=MovementSpec(enter_fire=enter_fire),
        termination=TerminationSpec(max_steps=max_steps),
    )


def _lines(path: Path) -> list[str]:
    data = read_bytes(path, limit=SMALL_FILE)
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise DocumentError(str(path), [f"byte {error.start}: not ASCII"]) from None
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]


def _moving_ai_rows(lines: list[str], what: str) -> list[list[str]]:
    header = [line.split() for line in lines[1:4]]
    if [words[:1] for words in header] != [["height"], ["width"], ["map"]] or any(
        len(words) != 2 or not re.fullmatch(r"[0-9]{1,6}", words[1]) for words in header[:2]
    ):
        raise DocumentError(what, ["lines 2 to 4: expected `height H`, `width W` and `map`"])
    height, width = int(header[0][1]), int(header[1][1])
    rows = [list(line) for line in lines[4:]]
    if len(rows) != height or (rows and len(rows[0]) != width):
        found = f"{len(rows)} rows of {len(rows[0]) if rows else 0} characters"
        raise DocumentError(what, [f"{found}, where the header says {height} rows of {width}"])
    return rows


def _row_faults(rows: list[list[str]], first: int, known: str) -> list[str]:
    faults = []
    for number, row in enumerate(rows, start=first):
        if len(row) != len(rows[0]):
            faults.append(f"line {number}: {len(row)} cells, where the first row has {len(rows[0])}")
        unknown = sorted({mark for mark in row if len(mark) != 1 or mark not in known})
        if unknown:
            faults.append(f"line {number}: {', '.join(map(show, unknown))} not among {' '.join(known)}")
    return faults
