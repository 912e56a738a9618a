"""The scenario: what an author writes, its normal form and its content hash (contract section 2)."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from ember_ref.canonical import SMALL_FILE, digest, parse_json, read_bytes
from ember_ref.errors import DocumentError, ScenarioError
from ember_ref.form import (
    ID,
    SEED,
    boolean,
    integer,
    list_of,
    nullable,
    object_of,
    one_of,
    repeats,
    show,
    text,
    tuple_of,
)
from ember_ref.grid import Grid, Position

SCHEMA_VERSION: Final = "1.0"
MAX_SIDE: Final = 512
MAX_CELLS: Final = MAX_SIDE**2
"""The most entries of a list of positions; a longer one repeats some, and only its length is a fault."""
MAX_PEOPLE: Final = 1024
MAX_STEPS: Final = 65535


class FireModel(StrEnum):
    """How the fire spreads."""

    DETERMINISTIC = "deterministic"
    STOCHASTIC = "stochastic"


class EnterFire(StrEnum):
    """What a move into a burning cell does (R6)."""

    BLOCKED = "blocked"
    CASUALTY = "casualty"


class ConflictResolution(StrEnum):
    """Who wins a cell that several people want (R1)."""

    LOWEST_ID_WINS = "lowest_id_wins"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitSpec:
    """An exit: its ID and its cell."""

    id: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSpec:
    """A person: the ID and the cell at step 0."""

    id: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class FireSpec:
    """The fire's model, its ignitions and its parameters; probability is `None` when deterministic."""

    model: FireModel
    ignitions: tuple[Position, ...]
    spread_interval: int
    spread_probability: float | None
    exits_flammable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MovementSpec:
    """The rules of movement that a scenario can vary."""

    enter_fire: EnterFire = EnterFire.CASUALTY
    conflict_resolution: ConflictResolution = ConflictResolution.LOWEST_ID_WINS


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationSpec:
    """The horizon: the last step of an episode."""

    max_steps: int


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A valid scenario in normal form: obstacles and ignitions row-major, exits and people by ID.

    Raises:
        ScenarioError: at construction, with every fault and its place.
    """

    id: str
    description: str
    seed: int
    grid: Grid
    exits: tuple[ExitSpec, ...]
    people: tuple[PersonSpec, ...]
    fire: FireSpec
    movement: MovementSpec
    termination: TerminationSpec

    def __post_init__(self) -> None:
        faults = scenario_faults(self.to_dict())
        if faults:
            raise ScenarioError(f"scenario {show(self.id)}", faults)
        # Words may come as plain strings; the rules compare members of the enumerations.
        probability = self.fire.spread_probability
        fire = FireSpec(
            model=FireModel(self.fire.model),
            ignitions=tuple(sorted(self.fire.ignitions)),
            spread_interval=self.fire.spread_interval,
            # An integer is taken as its float, and a negative zero as 0.0 (contract section 1).
            spread_probability=None if probability is None else float(probability) + 0.0,
            exits_flammable=self.fire.exits_flammable,
        )
        movement = MovementSpec(
            enter_fire=EnterFire(self.movement.enter_fire),
            conflict_resolution=ConflictResolution(self.movement.conflict_resolution),
        )
        object.__setattr__(self, "fire", fire)
        object.__setattr__(self, "movement", movement)
        object.__setattr__(self, "exits", tuple(sorted(self.exits, key=lambda exit: exit.id)))
        object.__setattr__(self, "people", tuple(sorted(self.people, key=lambda person: person.id)))

    @classmethod
    def from_dict(cls, document: Any, *, what: str = "scenario") -> Self:
        """Make a scenario from its JSON object, in any order of its lists.

        Raises:
            ScenarioError: with every fault and its place.
        """
        faults = scenario_faults(document)
        if faults:
            raise ScenarioError(what, faults)
        grid, fire = document["grid"], document["fire"]
        return cls(
            id=document["id"],
            description=document["description"],
            seed=document["seed"],
            grid=Grid(height=grid["height"], width=grid["width"], obstacles=frozenset(_cells(grid["obstacles"]))),
            exits=tuple(ExitSpec(id=e["id"], position=tuple(e["position"])) for e in document["exits"]),
            people=tuple(PersonSpec(id=p["id"], position=tuple(p["position"])) for p in document["people"]),
            fire=FireSpec(
                model=FireModel(fire["model"]),
                ignitions=tuple(_cells(fire["ignitions"])),
                spread_interval=fire["spread_interval"],
                spread_probability=fire["spread_probability"],
                exits_flammable=fire["exits_flammable"],
            ),
            movement=MovementSpec(
                enter_fire=EnterFire(document["movement"]["enter_fire"]),
                conflict_resolution=ConflictResolution(document["movement"]["conflict_resolution"]),
            ),
            termination=TerminationSpec(max_steps=document["termination"]["max_steps"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the normal form."""
        return {
            "schema_version": SCHEMA_VERSION,
            "id": self.id,
            "description": self.description,
            "seed": self.seed,
            "grid": {
                "width": self.grid.width,
                "height": self.grid.height,
                "obstacles": [list(cell) for cell in sorted(self.grid.obstacles)],
            },
            "exits": [{"id": exit.id, "position": list(exit.position)} for exit in self.exits],
            "people": [{"id": person.id, "position": list(person.position)} for person in self.people],
            "fire": {
                "model": str(self.fire.model),
                "ignitions": [list(cell) for cell in self.fire.ignitions],
                "spread_interval": self.fire.spread_interval,
                "spread_probability": self.fire.spread_probability,
                "exits_flammable": self.fire.exits_flammable,
            },
            "movement": {
                "enter_fire": str(self.movement.enter_fire),
                "conflict_resolution": str(self.movement.conflict_resolution),
            },
            "termination": {"max_steps": self.termination.max_steps},
        }

    @functools.cached_property
    def content_hash(self) -> str:
        """The digest of the normal form, hex."""
        return digest(self.to_dict())


def parse_scenario(data: bytes, *, what: str = "scenario") -> Scenario:
    """Read a scenario from the bytes of a JSON file.

    Raises:
        ScenarioError: with every fault and its place.
    """
    try:
        document = parse_json(data, what=what, limit=SMALL_FILE)
    except DocumentError as error:
        raise ScenarioError(error.what, error.faults) from None
    return Scenario.from_dict(document, what=what)


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        DocumentError: when the file cannot be read.
        ScenarioError: with every fault and its place.
    """
    return parse_scenario(read_bytes(path, limit=SMALL_FILE), what=str(path))


def scenario_faults(document: Any) -> list[str]:
    """Return every fault of a scenario's JSON object, each with its place; empty when it is valid."""
    faults = _FORM(document, "")
    if not isinstance(document, dict):
        return faults
    grid = _part(document, "grid")
    height: Any = grid.get("height")
    width: Any = grid.get("width")
    obstacles = _placed(grid.get("obstacles"), "grid.obstacles")
    exits = _placed(document.get("exits"), "exits", key="position")
    people = _placed(document.get("people"), "people", key="position")
    fire = _part(document, "fire")
    ignitions = _placed(fire.get("ignitions"), "fire.ignitions")

    for entries in (obstacles, exits, people, ignitions):
        if not (_SIDE(height, "") or _SIDE(width, "")):
            faults += [
                f"{place}: [{row}, {col}] is out of bounds of {height} rows and {width} columns"
                for place, (row, col) in entries
                if row >= height or col >= width
            ]
        cells = [cell for _, cell in entries]
        faults += [f"{entries[i][0]}: repeats {entries[j][0]}" for i, j in repeats(cells)]
    for key in ("exits", "people"):
        faults += _repeated_ids(document.get(key), key)

    on_obstacle = _set_of(obstacles)
    on_exit, on_ignition = _set_of(exits), _set_of(ignitions)
    faults += [f"{place}: on an obstacle" for place, cell in (*exits, *people, *ignitions) if cell in on_obstacle]
    faults += [f"{place}: on an exit" for place, cell in people if cell in on_exit]
    faults += [f"{place}: on an ignition" for place, cell in people if cell in on_ignition]
    if fire.get("exits_flammable") is not True:
        faults += [
            f"{place}: on an exit, which needs exits_flammable" for place, cell in ignitions if cell in on_exit
        ]
    faults += _probability_faults(fire)
    return faults


def scenario_from_text(
    rows: Sequence[str],
    *,
    id: str,
    description: str = "",
    seed: int = 0,
    model: FireModel = FireModel.DETERMINISTIC,
    spread_interval: int = 1,
    spread_probability: float | None = None,
    exits_flammable: bool = False,
    enter_fire: EnterFire = EnterFire.CASUALTY,
    max_steps: int = 100,
) -> Scenario:
    """Make a scenario from a text map (contract section 2), one string a row.

    `#` obstacle, `.` floor, `E` exit, `P` person, `*` ignition, `X` ignition on an exit. Exits and people are
    numbered in row-major order, with zeros in front to the digits of the last number.

    Raises:
        ScenarioError: for a row of another length, another character, or a fault of the scenario.
    """
    width = len(rows[0]) if rows else 0
    faults = [f"row {i}: {len(row)} characters, expected {width}" for i, row in enumerate(rows) if len(row) != width]
    faults += [
        f"row {i}, column {j}: {mark!a} is not one of # . E P * X"
        for i, row in enumerate(rows)
        for j, mark in enumerate(row)
        if mark not in "#.EP*X"
    ]
    if faults:
        raise ScenarioError(f"text map of {show(id)}", faults)

    def marked(marks: str) -> list[Position]:
        return [(i, j) for i, row in enumerate(rows) for j, mark in enumerate(row) if mark in marks]

    return Scenario(
        id=id,
        description=description,
        seed=seed,
        grid=Grid(height=len(rows), width=width, obstacles=frozenset(marked("#"))),
        exits=tuple(ExitSpec(id=name, position=cell) for name, cell in numbered("E", marked("EX"))),
        people=tuple(PersonSpec(id=name, position=cell) for name, cell in numbered("P", marked("P"))),
        fire=FireSpec(
            model=model,
            ignitions=tuple(marked("*X")),
            spread_interval=spread_interval,
            spread_probability=spread_probability,
            exits_flammable=exits_flammable,
        ),
        movement=MovementSpec(enter_fire=enter_fire),
        termination=TerminationSpec(max_steps=max_steps),
    )


def numbered(letter: str, cells: Sequence[Position]) -> list[tuple[str, Position]]:
    """Name cells `letter` and their number from 1, zero-padded to the digits of the last one."""
    digits = len(str(len(cells)))
    return [(f"{letter}{i:0{digits}}", cell) for i, cell in enumerate(cells, start=1)]


def _probability_faults(fire: dict[str, Any]) -> list[str]:
    place, value = "fire.spread_probability", fire.get("spread_probability")
    if fire.get("model") == FireModel.DETERMINISTIC and value is not None:
        return [f"{place}: {show(value)} is not null, as the model is deterministic"]
    if fire.get("model") == FireModel.STOCHASTIC and value is None and "spread_probability" in fire:
        return [f"{place}: null is not a number from 0 to 1, as the model is stochastic"]
    return []


def _probability(value: Any, place: str) -> list[str]:
    if type(value) in (int, float) and 0 <= value <= 1 and not math.isnan(value):
        return []
    return [f"{place}: {show(value)} is not a number from 0 to 1"]


def _part(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _placed(entries: Any, place: str, *, key: str | None = None) -> list[tuple[str, Position]]:
    """Return the well-formed positions of a list with their places; the others are faults of form."""
    if not isinstance(entries, list):
        return []
    placed = []
    for i, entry in enumerate(entries[:MAX_CELLS]):
        where = f"{place}[{i}]" if key is None else f"{place}[{i}].{key}"
        cell: Any = entry if key is None else entry.get(key) if isinstance(entry, dict) else None
        if not _POSITION(cell, where):
            placed.append((where, (cell[0], cell[1])))
    return placed


def _repeated_ids(entries: Any, place: str) -> list[str]:
    if not isinstance(entries, list):
        return []
    ids = [(i, e["id"]) for i, e in enumerate(entries) if isinstance(e, dict) and isinstance(e.get("id"), str)]
    names = [name for _, name in ids]
    return [f"{place}[{ids[i][0]}].id: {show(names[i])} repeats {place}[{ids[j][0]}].id" for i, j in repeats(names)]


def _set_of(entries: Iterable[tuple[str, Position]]) -> frozenset[Position]:
    return frozenset(cell for _, cell in entries)


def _cells(entries: Iterable[list[int]]) -> Iterable[Position]:
    return ((row, col) for row, col in entries)


_SIDE: Final = integer(1, MAX_SIDE)
_POSITION: Final = tuple_of(integer(0, MAX_SIDE - 1), integer(0, MAX_SIDE - 1))
_PLACED: Final = object_of({"id": ID, "position": _POSITION})
_FORM: Final[Callable[[Any, str], list[str]]] = object_of(
    {
        "schema_version": one_of(SCHEMA_VERSION),
        "id": ID,
        "description": text(4096),
        "seed": SEED,
        "grid": object_of({"width": _SIDE, "height": _SIDE, "obstacles": list_of(_POSITION, most=MAX_CELLS)}),
        "exits": list_of(_PLACED, least=1, most=MAX_CELLS),
        "people": list_of(_PLACED, least=1, most=MAX_PEOPLE),
        "fire": object_of(
            {
                "model": one_of(*map(str, FireModel)),
                "ignitions": list_of(_POSITION, most=MAX_CELLS),
                "spread_interval": integer(1, MAX_STEPS),
                "spread_probability": nullable(_probability),
                "exits_flammable": boolean,
            }
        ),
        "movement": object_of(
            {
                "enter_fire": one_of(*map(str, EnterFire)),
                "conflict_resolution": one_of(*map(str, ConflictResolution)),
            }
        ),
        "termination": object_of({"max_steps": integer(1, MAX_STEPS)}),
    }
)
