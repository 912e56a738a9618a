"""Privileged references by backward induction over (cell, step) (contract section 8, scoring section 3).

For one person alone who knows the whole fire. Source of the method: Bellman, "Dynamic Programming", 1957,
chapter I: the best from a state is the best over its transitions, from the horizon back.
"""

import hashlib
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ember_ref.canonical import digest
from ember_ref.fire import NEVER, FireWorld, fire_world
from ember_ref.grid import Position
from ember_ref.memory import require_memory
from ember_ref.scenario import Scenario

HAZARD_RADIUS: Final = 2
"""Manhattan distance within which a state is in the danger zone."""
TABLES: Final = ("L", "M", "D")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The three tables at one snapshot, row-major; `NEVER` where no escape exists."""

    step: int
    earliest: list[int]
    """L: the earliest evacuation step."""
    moves: list[int]
    """M: the fewest moves of an escape."""
    danger: list[int]
    """D: the fewest danger states of an escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonReference:
    """What one person could do from the start; `None` where nothing saves the person."""

    id: str
    earliest_evacuation: int | None
    fewest_moves: int | None
    fewest_danger_states: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The references of an episode."""

    scenario_hash: str
    seed: int
    horizon: int
    fire_world_digest: str
    table_digests: dict[str, str]
    people: tuple[PersonReference, ...]

    @property
    def max_evacuated(self) -> int:
        """M*: how many people can be saved."""
        return sum(person.earliest_evacuation is not None for person in self.people)

    def to_dict(self) -> dict[str, Any]:
        """Return the references object."""
        return {
            "scenario_hash": self.scenario_hash,
            "seed": self.seed,
            "horizon": self.horizon,
            "max_evacuated": self.max_evacuated,
            "fire_world_digest": self.fire_world_digest,
            "table_digests": dict(self.table_digests),
            "people": [person.to_dict() for person in self.people],
        }

    @property
    def references_digest(self) -> str:
        """The digest of the references object, hex."""
        return digest(self.to_dict())


def layers(scenario: Scenario, world: FireWorld) -> Iterator[Layer]:
    """Yield the tables from the horizon down to snapshot 0, the order of the induction."""
    grid, ignition, width = scenario.grid, world.ignition_step, scenario.grid.width
    exits = {row * width + col for row, col in (exit.position for exit in scenario.exits)}
    inside = [(row, col) for row, col in grid.positions() if grid.is_open((row, col))]
    neighbours = {
        row * width + col: [r * width + c for r, c in grid.neighbours((row, col))]
        for row, col in inside
        if row * width + col not in exits
    }
    near_fire = _least_ignition_near(scenario, world)
    size = len(ignition)
    earliest, moves, danger = ([NEVER] * size for _ in TABLES)
    yield Layer(step=world.max_steps, earliest=earliest, moves=moves, danger=danger)
    for t in range(world.max_steps - 1, -1, -1):
        later_earliest, later_moves, later_danger = earliest, moves, danger
        earliest, moves, danger = ([NEVER] * size for _ in TABLES)
        for x, around in neighbours.items():
            if ignition[x] <= t:
                continue
            z = 1 if near_fire[x] <= t else 0
            best_earliest = best_moves = best_danger = NEVER
            if ignition[x] > t + 1:  # stay
                best_earliest, best_moves, best_danger = later_earliest[x], later_moves[x], later_danger[x]
            for y in around:
                if ignition[y] <= t:
                    continue
                if y in exits:
                    best_earliest, best_moves, best_danger = min(best_earliest, t + 1), 1, 0
                elif ignition[y] > t + 1 and later_earliest[y] != NEVER:
                    best_earliest = min(best_earliest, later_earliest[y])
                    best_moves = min(best_moves, 1 + later_moves[y])
                    best_danger = min(best_danger, later_danger[y])
            if best_earliest != NEVER:
                earliest[x], moves[x], danger[x] = best_earliest, best_moves, z + best_danger
        yield Layer(step=t, earliest=earliest, moves=moves, danger=danger)


def references(scenario: Scenario, seed: int) -> References:
    """Compute the references of an episode; the tables are digested as they are made, and not kept."""
    return references_of(scenario, fire_world(scenario, seed))


def references_of(scenario: Scenario, world: FireWorld) -> References:
    """Compute the references in a fire world (see `references`)."""
    hashers = {name: hashlib.sha256(_table_header(name, world)) for name in TABLES}
    for layer in layers(scenario, world):
        for name, table in zip(TABLES, (layer.earliest, layer.moves, layer.danger), strict=True):
            hashers[name].update(_big_endian(table))
    places = [row * world.width + col for row, col in (person.position for person in scenario.people)]
    return References(
        scenario_hash=scenario.content_hash,
        seed=world.seed,
        horizon=world.max_steps,
        fire_world_digest=world.digest,
        table_digests={name: hasher.hexdigest() for name, hasher in hashers.items()},
        people=tuple(
            PersonReference(
                id=person.id,
                earliest_evacuation=_finite(layer.earliest[x]),
                fewest_moves=_finite(layer.moves[x]),
                fewest_danger_states=_finite(layer.danger[x]),
            )
            for person, x in zip(scenario.people, places, strict=True)
        ),
    )


class EarliestTable:
    """L, kept whole: `L(x, t)` for any cell and snapshot."""

    def __init__(self, scenario: Scenario, world: FireWorld) -> None:
        """Run the induction and keep every layer.

        Raises:
            MemoryLimitError: before anything is computed, when the layers do not fit in memory.
        """
        require_memory(
            4 * (world.max_steps + 1) * world.height * world.width,
            what=f"L of {scenario.id} ({world.height} x {world.width} cells, {world.max_steps} steps), kept whole,",
            instead="take `references`, which keeps no table, or a shorter horizon",
        )
        self._width = world.width
        self._layers = [array("I", layer.earliest) for layer in layers(scenario, world)][::-1]

    def at(self, position: Position, step: int) -> int:
        """Return the earliest evacuation step from a cell at a snapshot, `NEVER` without an escape."""
        return self._layers[step][position[0] * self._width + position[1]]


def _least_ignition_near(scenario: Scenario, world: FireWorld) -> list[int]:
    """Return, for every cell, the least ignition step within the hazard radius, walls ignored."""
    reach = range(-HAZARD_RADIUS, HAZARD_RADIUS + 1)
    ball = [(i, j) for i in reach for j in reach if abs(i) + abs(j) <= HAZARD_RADIUS]
    return [
        min(
            world.at((row + i, col + j))
            for i, j in ball
            if 0 <= row + i < world.height and 0 <= col + j < world.width
        )
        for row, col in scenario.grid.positions()
    ]


def _table_header(name: str, world: FireWorld) -> bytes:
    return (
        b"emberbench/table/v1\0"
        + name.encode("ascii")
        + b"\0"
        + bytes.fromhex(world.content_hash)
        + world.seed.to_bytes(8, "big")
        + b"".join(value.to_bytes(4, "big") for value in (world.max_steps, world.height, world.width))
    )


def _big_endian(table: list[int]) -> bytes:
    values = array("I", table)
    if sys.byteorder == "little":
        values.byteswap()
    return values.tobytes()


def _finite(value: int) -> int | None:
    return None if value == NEVER else value
