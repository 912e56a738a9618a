"""Whole steps of many environments, batch-explicit: the fast form of `ember_jax.simulator` (contract section 5).

Every lane of a tile is an environment of its own, with its own step number and stream, so one can be started
again while the others go on. The functions work on one tile of 128 lanes; map them over tiles. They may be
traced in any program: 64-bit integers stay inside. `step` changes nothing in a lane that is done, and marks a
lane as faulty when an active person has no allowed action, like its plain twin.
"""

from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ember_jax.board_kernel import bits_at
from ember_jax.fire_kernel import FireSize, Successes, Terrain, fire_size, ignite, pack, start_successes, terrain
from ember_jax.grid import EAST, NORTH, SOUTH, STAY, WEST
from ember_jax.kernel import LANES
from ember_jax.movement_kernel import (
    MOST_PEOPLE,
    People,
    any_lane,
    as_bit,
    bit_of,
    each,
    mask_type,
    movers,
    moves,
    on_fire,
    row_of,
    with_row,
)
from ember_jax.route_kernel import offsets
from ember_jax.simulator import ACTIVE, CASUALTY, ENTERED_FIRE, EVACUATED, FIRE_SPREAD, NO_CASUALTY
from ember_jax.stream import FIRE, Uint64, split, stream_seed
from ember_ref.scenario import EnterFire, Scenario

_DIRECTIONS: Final = (NORTH, SOUTH, EAST, WEST)


class EnvironmentSize(NamedTuple):
    """What sets the shapes of a tile, and so the compilation."""

    fire: FireSize
    people: int
    """Padded people P."""


class Ground(NamedTuple):
    """The terrain and people of one scenario; host arrays. N = 32 W cells, row-major."""

    fire: Terrain
    """With its 64-bit numbers as two uint32[], the upper half first, or whole."""
    exits: np.ndarray
    """uint32[W]: exits."""
    open_beside: np.ndarray
    """uint32[4, W]: cells whose neighbour in the north, south, east, west is open and in bounds."""
    width: np.ndarray
    """uint32[]: cells from one row to the next."""
    person: np.ndarray
    """uint32[P]: where each person starts."""
    real: np.ndarray
    """bool[P]: people that are not padding."""
    horizon: np.ndarray
    """int32[]: `max_steps`."""
    fire_blocks: np.ndarray
    """uint32[]: all ones when a move into fire is refused."""


class State(NamedTuple):
    """The environments of a tile between two steps; L = 128 lanes."""

    step: Array
    """int32[L]: completed steps."""
    cell: Array
    """uint32[P, L]: row-major; a resolved person keeps the cell of its resolution."""
    status: Array
    """int8[P, L]: `ACTIVE`, `EVACUATED` or `CASUALTY`; padding is `CASUALTY`."""
    burning: Array
    """uint32[margin + W + margin, L]: burning cells, row-major, the earliest in the lowest bit."""
    fire_seed: Uint64
    """uint32[L] each: seed of the fire's stream. Evaluator-private."""
    fire_position: Uint64
    """uint32[L] each: words of the fire's stream consumed so far. Evaluator-private."""
    done: Array
    """bool[L]: nobody is active, or `max_steps` steps are made."""
    fault: Array
    """bool[L]: some step had an invalid action; that step and all later ones were not made."""


class StepEvents(NamedTuple):
    """What happened in one step; all zero for people who were not active."""

    moved: Array
    """bool[P, L]: outcomes `moved`."""
    evacuated: Array
    """bool[P, L]."""
    cause: Array
    """int8[P, L]: `NO_CASUALTY`, `ENTERED_FIRE` or `FIRE_SPREAD`."""


def supports(scenario: Scenario) -> bool:
    """Tell whether there is a form for a scenario here."""
    return len(scenario.people) <= MOST_PEOPLE


def environment_size(scenario: Scenario) -> EnvironmentSize:
    """Return the padded size of a scenario; few sizes, so that scenarios share compilations."""
    people = next(most for most in (8, 20, 32, MOST_PEOPLE) if most >= len(scenario.people))
    return EnvironmentSize(fire=fire_size(scenario)._replace(planes=0), people=people)


def environment_ground(scenario: Scenario, size: EnvironmentSize, *, wide: bool = False) -> Ground:
    """Lay a scenario out for a tile.

    Args:
        scenario: the scenario.
        size: its padded size.
        wide: whether to leave 64-bit numbers whole, for a program that is traced in an `enable_x64` scope.
    """
    grid, words = scenario.grid, size.fire.words
    floor = np.zeros((grid.height + 2, grid.width + 2), dtype=np.bool_)
    floor[1:-1, 1:-1] = True
    for row, col in grid.obstacles:
        floor[row + 1, col + 1] = False
    beside = (floor[:-2, 1:-1], floor[2:, 1:-1], floor[1:-1, 2:], floor[1:-1, :-2])
    exits = np.zeros((grid.height, grid.width), dtype=np.bool_)
    for exit in scenario.exits:
        exits[exit.position] = True
    person = np.zeros(size.people, dtype=np.uint32)
    starts = [row * grid.width + col for row, col in (person.position for person in scenario.people)]
    person[: len(starts)] = starts
    blocks = scenario.movement.enter_fire is EnterFire.BLOCKED
    fire = terrain(scenario, size.fire)
    return Ground(
        fire=fire if wide else _halved(fire),
        exits=pack(exits, words),
        open_beside=np.stack([pack(side, words) for side in beside]),
        width=np.asarray(grid.width, dtype=np.uint32),
        person=person,
        real=np.arange(size.people) < len(starts),
        horizon=np.asarray(scenario.termination.max_steps, dtype=np.int32),
        fire_blocks=np.asarray(-blocks & 0xFFFFFFFF, dtype=np.uint32),
    )


def _halved(fire: Any) -> Any:
    return fire._replace(threshold=split(fire.threshold), start=split(fire.start))


def reset(ground: Any, size: EnvironmentSize, seed_hi: Array, seed_lo: Array) -> State:
    """Start the episodes of a tile under 64-bit evaluator seeds, given as two uint32[L]."""
    shape = (size.people, LANES)
    none = jnp.zeros(LANES, dtype=jnp.uint32)
    ignitions = jnp.broadcast_to(ground.fire.ignitions[:, None], (size.fire.words, LANES))
    status = jnp.where(ground.real, jnp.int8(ACTIVE), jnp.int8(CASUALTY))
    return State(
        step=jnp.zeros(LANES, dtype=jnp.int32),
        cell=jnp.broadcast_to(ground.person[:, None], shape),
        status=jnp.broadcast_to(status[:, None], shape),
        burning=jnp.pad(ignitions, ((size.fire.margin, size.fire.margin), (0, 0))),
        fire_seed=stream_seed(FIRE, seed_hi, seed_lo),
        fire_position=Uint64(none, none),
        done=jnp.zeros(LANES, dtype=jnp.bool_),
        fault=jnp.zeros(LANES, dtype=jnp.bool_),
    )


def step(ground: Any, size: EnvironmentSize, state: State, action: Array) -> tuple[State, StepEvents]:
    """Run one step of every lane.

    Args:
        ground: the scenario.
        size: its padded size (static).
        state: before the step.
        action: int8[P, L], in action order; entries of people who are not active are ignored.
    """
    with jax.enable_x64(True):
        fire = ground.fire
        if isinstance(fire.threshold, tuple):
            fire = fire._replace(threshold=_joined(Uint64(*fire.threshold)), start=_joined(Uint64(*fire.start)))
        return _step(ground._replace(fire=fire), size, state, action)


def _step(ground: Any, size: EnvironmentSize, state: State, action: Array) -> tuple[State, StepEvents]:
    target, active, invalid = _read(ground, size, state, action)
    fault = state.fault | (~state.done & (invalid != jnp.asarray(0, invalid.dtype)))
    goes_on = ~state.done & ~fault
    active = jnp.where(goes_on, active, jnp.asarray(0, active.dtype))
    present = any_lane(active)
    moved, cell = _move(ground, size, state, target, active, present)

    def on_exit(person: Array, mask: Array) -> Array:
        return mask | as_bit(bits_at(size.fire.words, [ground.exits], row_of(cell, person)), person, mask)

    before = on_fire(size.fire, state.burning, present, cell, active)
    evacuated = active & each(present, on_exit, jnp.zeros_like(active)) & ~before
    number = state.step + goes_on.astype(jnp.int32)
    burning, position = _spread(ground, size, state, number, goes_on)
    lost = on_fire(size.fire, burning, present, cell, active) & ~evacuated
    none = jnp.asarray(0, active.dtype)
    still = active & ~evacuated & ~lost
    over = (still == none) | (number >= ground.horizon)
    left, burned = _rows(size, evacuated), _rows(size, lost)
    status = jnp.where(left, jnp.int8(EVACUATED), jnp.where(burned, jnp.int8(CASUALTY), state.status))
    cause = jnp.where(_rows(size, before), jnp.int8(ENTERED_FIRE), jnp.int8(FIRE_SPREAD))
    new = State(
        step=number,
        cell=cell,
        status=status,
        burning=burning,
        fire_seed=state.fire_seed,
        fire_position=position,
        done=jnp.where(goes_on, over, state.done),
        fault=fault,
    )
    cause = jnp.where(burned, cause, jnp.int8(NO_CASUALTY))
    return new, StepEvents(moved=_rows(size, moved), evacuated=left, cause=cause)


def _read(ground: Any, size: EnvironmentSize, state: State, action: Array) -> tuple[Array, Array, Array]:
    """Return everybody's target (the own cell for `stay` and what map refuses), who is active, and who is wrong."""
    kind = mask_type(size.people)

    def look(person: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        target, active, invalid = carry
        here, way = row_of(state.cell, person), row_of(action, person)
        sides = bits_at(size.fire.words, list(ground.open_beside), here)
        goal = here
        for number, direction in enumerate(_DIRECTIONS):
            goes = (way == jnp.int8(direction)) & ((sides >> jnp.uint32(number)) & jnp.uint32(1) != jnp.uint32(0))
            goal = jnp.where(goes, here + offsets(ground)[number], goal)
        acts = row_of(state.status, person) == jnp.int8(ACTIVE)
        wrong = acts & ((way < jnp.int8(STAY)) | (way > jnp.int8(WEST)))
        return (
            with_row(target, goal, person),
            active | as_bit(acts, person, active),
            invalid | as_bit(wrong, person, invalid),
        )

    nobody = jnp.zeros(LANES, dtype=kind)
    start = (jnp.zeros_like(state.cell), nobody, nobody)
    read: tuple[Array, Array, Array] = jax.lax.fori_loop(jnp.int32(0), jnp.int32(size.people), look, start)
    return read


def _move(
    ground: Any, size: EnvironmentSize, state: State, target: Array, active: Array, present: Array
) -> tuple[Array, Array]:
    """Return who moves, M[L], and where everybody is then, uint32[P, L]."""
    nobody = jnp.zeros_like(active)
    zero = jnp.zeros(state.cell.shape, dtype=jnp.int32)
    people = People(
        cell=state.cell,
        target=target,
        active=active,
        evacuated=nobody,
        entered_fire=nobody,
        resolution_step=zero,
        cells_moved=zero,
    )
    going = movers(size.fire, state.burning, ground.fire_blocks, present, people)
    moved, _ = moves(present, people, going, jnp.zeros(state.cell.shape, dtype=active.dtype))

    def move(person: Array, cell: Array) -> Array:
        goes = bit_of(moved, person) != jnp.asarray(0, moved.dtype)
        return with_row(cell, jnp.where(goes, row_of(target, person), row_of(cell, person)), person)

    return moved, each(any_lane(moved), move, state.cell)


def _spread(ground: Any, size: EnvironmentSize, state: State, number: Array, goes_on: Array) -> tuple[Array, Uint64]:
    """Return what burns after the step `number` of every lane that goes on, and the positions of the streams."""
    due = goes_on & (number.astype(jnp.uint32) % ground.fire.interval == jnp.uint32(0))
    lanes = jnp.where(due, jnp.uint32(0xFFFFFFFF), jnp.uint32(0))
    position = _joined(state.fire_position)
    successes: Successes = start_successes(_joined(state.fire_seed), position)
    burning, drawn = ignite(ground.fire, size.fire, state.burning, lanes, successes)
    position = position + drawn.astype(jnp.uint64)
    return burning, Uint64((position >> jnp.uint64(32)).astype(jnp.uint32), position.astype(jnp.uint32))


def _joined(pair: Uint64) -> Array:
    joined: Array = (pair.hi.astype(jnp.uint64) << jnp.uint64(32)) | pair.lo.astype(jnp.uint64)
    return joined


def _rows(size: EnvironmentSize, mask: Array) -> Array:
    """Return a mask of people as bool[P, L]."""
    person = jnp.arange(size.people, dtype=mask.dtype)[:, None]
    rows: Array = ((mask[None] >> person) & jnp.asarray(1, mask.dtype)) != jnp.asarray(0, mask.dtype)
    return rows
