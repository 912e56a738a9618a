"""A scenario as arrays: the only crossing between `ember_ref`'s data and the compiled path.

People and exits lie in ID order, so an index comparison is an ID comparison. Arrays are padded to a few
sizes, so that many scenarios share one compilation; padding is never open floor, a person or an exit.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from jax import Array

from ember_jax.stream import threshold
from ember_ref.fire import NEVER
from ember_ref.grid import ACTIONS, Position
from ember_ref.movement import Movement, MoveOutcome
from ember_ref.observation import Observation, PersonState, PersonStatus, map_view, rules_view
from ember_ref.record import RunRecord, header_of
from ember_ref.scenario import EnterFire, FireModel, Scenario
from ember_ref.simulator import Casualty, CasualtyCause, Evacuation, State, StepRecord, TerminationReason

_SHARED_CELLS: Final = 64 * 64
_SHARED_PEOPLE: Final = 64
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

    floor: Array
    """bool[R, C]: open cells, exits included."""
    exit_cells: Array
    """bool[R, C]: exits."""
    exit_index: Array
    """int32[R, C]: the index of the exit on a cell, -1 where there is none."""
    ignitions: Array
    """bool[R, C]: cells that burn at step 0."""
    exit_row: Array
    """int32[E]: row of each exit, 0 in padding."""
    exit_col: Array
    """int32[E]: column of each exit, 0 in padding."""
    exit_valid: Array
    """bool[E]: which exits are real."""
    person_row: Array
    """int32[P]: row of each person at step 0, 0 in padding."""
    person_col: Array
    """int32[P]: column of each person at step 0, 0 in padding."""
    person_valid: Array
    """bool[P]: which people are real."""
    height: Array
    """int32[]: rows in bounds."""
    width: Array
    """int32[]: columns in bounds."""
    max_steps: Array
    """int32[]: the horizon in steps."""
    spread_interval: Array
    """int32[]: steps between spreads."""
    stochastic: Array
    """bool[]: whether the fire draws."""
    exits_flammable: Array
    """bool[]: whether exits are candidates."""
    fire_blocks: Array
    """bool[]: whether a move into fire is refused (`enter_fire: blocked`)."""
    threshold: Array
    """uint32[2]: halves of `ceil(p * 2^53)`, high first; 0 for a deterministic fire."""

    @property
    def size(self) -> WorldSize:
        """The static sizes of an unbatched world."""
        rows, cols = self.floor.shape
        return WorldSize(rows, cols, self.person_row.shape[0], self.exit_row.shape[0])


def padded_size(*scenarios: Scenario) -> WorldSize:
    """Return the least of the padded sizes that holds all the given scenarios."""
    return WorldSize(
        rows=_side(max(scenario.grid.height for scenario in scenarios)),
        cols=_side(max(scenario.grid.width for scenario in scenarios)),
        people=max(4, _power_of_two(max(len(scenario.people) for scenario in scenarios))),
        exits=_power_of_two(max(len(scenario.exits) for scenario in scenarios)),
    )


def shared_size(scenarios: Sequence[Scenario]) -> WorldSize | None:
    """Return one size for several scenarios, so that they compile once; `None` when that would waste too much."""
    size = padded_size(*scenarios)
    return size if size.rows * size.cols <= _SHARED_CELLS and size.people <= _SHARED_PEOPLE else None


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
    fields: dict[str, Any] = {
        "floor": floor,
        "exit_cells": exit_index >= 0,
        "exit_index": exit_index,
        "ignitions": ignitions,
        "exit_row": exit_row,
        "exit_col": exit_col,
        "exit_valid": exit_valid,
        "person_row": person_row,
        "person_col": person_col,
        "person_valid": person_valid,
        "height": np.asarray(grid.height, dtype=np.int32),
        "width": np.asarray(grid.width, dtype=np.int32),
        "max_steps": np.asarray(scenario.termination.max_steps, dtype=np.int32),
        "spread_interval": np.asarray(scenario.fire.spread_interval, dtype=np.int32),
        "stochastic": np.asarray(scenario.fire.model is FireModel.STOCHASTIC),
        "exits_flammable": np.asarray(scenario.fire.exits_flammable),
        "fire_blocks": np.asarray(scenario.movement.enter_fire is EnterFire.BLOCKED),
        "threshold": np.asarray([bound >> 32, bound & 0xFFFFFFFF], dtype=np.uint32),
    }
    return World(**fields)


def stack_worlds(worlds: list[World]) -> World:
    """Stack worlds of one size along a new leading axis."""
    stacked: list[Any] = [np.stack(fields) for fields in zip(*worlds, strict=True)]
    return World(*stacked)


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


class Trajectory(NamedTuple):
    """What a run record needs of each step; a leading axis of steps, and of episodes when batched."""

    made: Array
    """bool[T]: whether the step was made; the rest of its entries mean something only then."""
    action: Array
    """int8[T, P]."""
    target_row: Array
    """int16[T, P]."""
    target_col: Array
    """int16[T, P]."""
    outcome: Array
    """int8[T, P]."""
    row: Array
    """int16[T, P], after the step."""
    col: Array
    """int16[T, P], after the step."""
    status: Array
    """int8[T, P], after the step."""
    exit_index: Array
    """int32[T, P]."""
    cause: Array
    """int8[T, P]."""
    trapped: Array
    """bool[T, P], after the step."""


def observation_from_arrays(
    scenario: Scenario,
    step: int,
    row: np.ndarray,
    col: np.ndarray,
    status: np.ndarray,
    burning: np.ndarray,
) -> Observation:
    """Return the observation that arrays of a state stand for (int[P] each, bool[R, C])."""
    people = [(int(r), int(c), int(s)) for r, c, s in zip(row, col, status, strict=True)]
    return Observation(
        step=step,
        map=map_view(scenario),
        rules=rules_view(scenario),
        people=_people(scenario, people),
        burning=frozenset((int(r), int(c)) for r, c in np.argwhere(burning)),
    )


def record_from_trajectory(
    scenario: Scenario,
    seed: int,
    ignition_step: np.ndarray,
    initial_trapped: np.ndarray,
    trajectory: Trajectory,
) -> RunRecord:
    """Make the run record of one episode.

    Args:
        scenario: the scenario.
        seed: the evaluator seed.
        ignition_step: uint32[height, width], the fire world.
        initial_trapped: bool[P].
        trajectory: one episode's steps.
    """
    horizon = scenario.termination.max_steps
    ids = [person.id for person in scenario.people]
    ignited_in: dict[int, list[Position]] = {}
    for row, col in np.argwhere(ignition_step != NEVER).tolist():
        ignited_in.setdefault(int(ignition_step[row, col]), []).append((row, col))
    burning = sorted(ignited_in.get(0, []))
    now = [(*person.position, 0) for person in scenario.people]
    state = State(
        step=0,
        people=_people(scenario, now),
        burning=tuple(burning),
        trapped=_named(ids, initial_trapped.tolist()),
        terminated=False,
        termination_reason=None,
    )
    initial, steps = state, []
    lists: list[Any] = [np.asarray(field).tolist() for field in trajectory]
    fields: Any = Trajectory(*lists)
    for number in range(1, sum(fields.made) + 1):
        at = number - 1
        active = [i for i, (_, _, status) in enumerate(now) if status == 0]
        actions = {ids[i]: ACTIONS[fields.action[at][i]] for i in active}
        movements = tuple(
            Movement(
                person_id=ids[i],
                action=actions[ids[i]],
                origin=now[i][:2],
                target=(fields.target_row[at][i], fields.target_col[at][i]),
                outcome=_OUTCOMES[fields.outcome[at][i]],
            )
            for i in active
        )
        now = list(zip(fields.row[at], fields.col[at], fields.status[at], strict=True))[: len(ids)]
        ignited = ignited_in.get(number, [])
        burning = sorted(burning + ignited) if ignited else burning
        over = all(status != 0 for _, _, status in now)
        ended = over or number == horizon
        reason = (TerminationReason.ALL_RESOLVED if over else TerminationReason.MAX_STEPS) if ended else None
        state = State(
            step=number,
            people=_people(scenario, now),
            burning=tuple(burning) if ignited else state.burning,
            trapped=_named(ids, fields.trapped[at]),
            terminated=ended,
            termination_reason=reason,
        )
        exits, causes = fields.exit_index[at], fields.cause[at]
        steps.append(
            StepRecord(
                step=number,
                actions=actions,
                movements=movements,
                ignitions=tuple(ignited),
                evacuations=tuple(
                    Evacuation(person_id=ids[i], exit_id=scenario.exits[exits[i]].id) for i in active if exits[i] >= 0
                ),
                casualties=tuple(Casualty(person_id=ids[i], cause=_CAUSES[causes[i]]) for i in active if causes[i]),
                state=state,
            )
        )
    return RunRecord(header=header_of(scenario, seed), initial_state=initial, steps=tuple(steps), final_state=state)


def _people(scenario: Scenario, rows: list[tuple[int, int, int]]) -> tuple[PersonState, ...]:
    return tuple(
        PersonState(id=person.id, position=(row, col), status=_STATUSES[status])
        for person, (row, col, status) in zip(scenario.people, rows, strict=False)
    )


def _named(ids: list[str], mask: list[bool]) -> tuple[str, ...]:
    return tuple(name for name, holds in zip(ids, mask, strict=False) if holds)


ACTION_CODES: Final = {action: code for code, action in enumerate(ACTIONS)}
_OUTCOMES: Final = tuple(MoveOutcome)
_STATUSES: Final = tuple(PersonStatus)
_CAUSES: Final = (None, *CasualtyCause)
