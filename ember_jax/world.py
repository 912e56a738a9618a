"""A scenario as arrays: the only crossing between `ember_ref`'s data and the compiled path.

People and exits lie in ID order, so an index comparison is an ID comparison. Arrays are padded to a few sizes,
so that many scenarios share one compilation; padding is never open floor, never a person, never an exit.
"""

from typing import Final, NamedTuple

import numpy as np
from ember_ref.scenario import EnterFire, FireModel, Scenario
from jax import Array

from ember_jax.stream import threshold

ArrayOrHost = Array | np.ndarray
_SIDES: Final = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


class WorldSize(NamedTuple):
    """What sets the shapes, and so the compilation."""

    rows: int
    cols: int
    people: int
    exits: int


class World(NamedTuple):
    """One scenario. Functions of one world are batched from outside with `jax.vmap`.

    R, C, P and E are the padded rows, columns, people and exits of a `WorldSize`.
    """

    floor: ArrayOrHost
    """bool[R, C]: open cells, exits included."""
    exit_cells: ArrayOrHost
    """bool[R, C]: exits."""
    exit_index: ArrayOrHost
    """int32[R, C]: the index of the exit on a cell, -1 where there is none."""
    ignitions: ArrayOrHost
    """bool[R, C]: cells that burn at step 0."""
    exit_row: ArrayOrHost
    """int32[E]: row of each exit, 0 in padding."""
    exit_col: ArrayOrHost
    """int32[E]: column of each exit, 0 in padding."""
    exit_valid: ArrayOrHost
    """bool[E]: which exits are real."""
    person_row: ArrayOrHost
    """int32[P]: row of each person at step 0, 0 in padding."""
    person_col: ArrayOrHost
    """int32[P]: column of each person at step 0, 0 in padding."""
    person_valid: ArrayOrHost
    """bool[P]: which people are real."""
    height: ArrayOrHost
    """int32[]: rows in bounds."""
    width: ArrayOrHost
    """int32[]: columns in bounds."""
    max_steps: ArrayOrHost
    """int32[]: the horizon in steps."""
    spread_interval: ArrayOrHost
    """int32[]: steps between spreads."""
    stochastic: ArrayOrHost
    """bool[]: whether the fire draws."""
    exits_flammable: ArrayOrHost
    """bool[]: whether exits are candidates."""
    fire_blocks: ArrayOrHost
    """bool[]: whether a move into fire is refused (`enter_fire: blocked`)."""
    threshold: ArrayOrHost
    """uint32[2]: halves of `ceil(p * 2^53)`, high first; 0 for a deterministic fire."""

    @property
    def size(self) -> WorldSize:
        """The static sizes of an unbatched world."""
        return WorldSize(*self.floor.shape, self.person_row.shape[0], self.exit_row.shape[0])


def padded_size(*scenarios: Scenario) -> WorldSize:
    """Return the least of the padded sizes that holds all the given scenarios."""
    return WorldSize(
        rows=_side(max(scenario.grid.height for scenario in scenarios)),
        cols=_side(max(scenario.grid.width for scenario in scenarios)),
        people=max(4, _power_of_two(max(len(scenario.people) for scenario in scenarios))),
        exits=_power_of_two(max(len(scenario.exits) for scenario in scenarios)),
    )


def world_from_scenario(scenario: Scenario, *, size: WorldSize | None = None) -> World:
    """Lay a scenario out as host arrays, padded to `size` or to its own padded size.

    Raises:
        ValueError: when the scenario does not fit `size`.
    """
    size = padded_size(scenario) if size is None else size
    grid = scenario.grid
    needed = WorldSize(grid.height, grid.width, len(scenario.people), len(scenario.exits))
    if any(need > have for need, have in zip(needed, size, strict=True)):
        raise ValueError(f"scenario {scenario.id}: {needed} does not fit {size}")
    floor = np.zeros((size.rows, size.cols), dtype=np.bool_)
    floor[: grid.height, : grid.width] = True
    _mark(floor, grid.obstacles, False)
    exit_index = np.full_like(floor, -1, dtype=np.int32)
    for index, exit in enumerate(scenario.exits):
        exit_index[exit.position] = index
    ignitions = np.zeros_like(floor)
    _mark(ignitions, scenario.fire.ignitions, True)
    exit_row, exit_col, exit_valid = _cells([exit.position for exit in scenario.exits], size.exits)
    person_row, person_col, person_valid = _cells([p.position for p in scenario.people], size.people)
    probability = scenario.fire.spread_probability
    bound = 0 if probability is None else threshold(probability)
    return World(
        floor=floor,
        exit_cells=exit_index >= 0,
        exit_index=exit_index,
        ignitions=ignitions,
        exit_row=exit_row,
        exit_col=exit_col,
        exit_valid=exit_valid,
        person_row=person_row,
        person_col=person_col,
        person_valid=person_valid,
        height=np.asarray(grid.height, dtype=np.int32),
        width=np.asarray(grid.width, dtype=np.int32),
        max_steps=np.asarray(scenario.termination.max_steps, dtype=np.int32),
        spread_interval=np.asarray(scenario.fire.spread_interval, dtype=np.int32),
        stochastic=np.asarray(scenario.fire.model is FireModel.STOCHASTIC),
        exits_flammable=np.asarray(scenario.fire.exits_flammable),
        fire_blocks=np.asarray(scenario.movement.enter_fire is EnterFire.BLOCKED),
        threshold=np.asarray([bound >> 32, bound & 0xFFFFFFFF], dtype=np.uint32),
    )


def stack_worlds(worlds: list[World]) -> World:
    """Stack worlds of one size along a new leading axis."""
    return World(*(np.stack(fields) for fields in zip(*worlds, strict=True)))


def _mark(mask: np.ndarray, cells: frozenset[tuple[int, int]] | tuple[tuple[int, int], ...], value: bool) -> None:
    if cells:
        rows, cols = zip(*cells, strict=True)
        mask[list(rows), list(cols)] = value


def _cells(cells: list[tuple[int, int]], length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    padded = np.zeros((length, 2), dtype=np.int32)
    padded[: len(cells)] = cells
    return padded[:, 0], padded[:, 1], np.arange(length) < len(cells)


def _side(length: int) -> int:
    return next(side for side in _SIDES if side >= length)


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
