"""The simulator: one step in its phases, as a pure function (contract section 5, R1 to R10).

`reset` and `step` work on one world and compose with `jit` and `vmap`, over seeds and over stacked worlds.
Chance is separate from the rules: `resolve_step` takes the fire before and after the step, `step` draws it.
"""

from typing import Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from ember_jax import fire
from ember_jax.grid import UNREACHABLE, WEST, distances, look_up
from ember_jax.movement import MOVED, Movements, resolve
from ember_jax.stream import FIRE, Uint64, stream_seed
from ember_jax.world import World

ACTIVE, EVACUATED, CASUALTY = range(3)
"""Person status codes, in the order of `PersonStatus`."""
RUNNING, ALL_RESOLVED, MAX_STEPS = range(3)
"""Termination codes."""
NO_CASUALTY, ENTERED_FIRE, FIRE_SPREAD = range(3)
"""Casualty causes."""
INVALID_ACTION: Final = -1
"""Any action outside 0 to 4; whoever is active and has one faults the step."""


Tree = TypeVar("Tree")


class People(NamedTuple):
    """Where everybody is."""

    row: Array
    """int32[P]; a resolved person keeps the cell of its resolution."""
    col: Array
    """int32[P]."""
    status: Array
    """int32[P]: `ACTIVE`, `EVACUATED` or `CASUALTY`; padding is `CASUALTY`."""

    @property
    def active(self) -> Array:
        """bool[P]."""
        return self.status == ACTIVE


class State(NamedTuple):
    """An episode between two steps."""

    step: Array
    """int32[]: completed steps."""
    people: People
    burning: Array
    """bool[R, C]."""
    fire_seed: Uint64
    """Seed of the fire's stream. Evaluator-private."""
    fire_position: Uint64
    """Words of the fire's stream consumed so far. Evaluator-private."""
    termination: Array
    """int32[]: `RUNNING`, `ALL_RESOLVED` or `MAX_STEPS`."""
    fault: Array
    """bool[]: whether some step had an invalid action; that step and all later ones were not made."""

    @property
    def done(self) -> Array:
        """bool[]: whether no further step is made."""
        return (self.termination != RUNNING) | self.fault


class StepEvents(NamedTuple):
    """What happened in one step; all zero or -1 for people who were not active."""

    movements: Movements
    evacuated: Array
    """bool[P]: who left in this step."""
    exit_index: Array
    """int32[P]: the exit used, -1 for none."""
    cause: Array
    """int32[P]: `NO_CASUALTY`, `ENTERED_FIRE` or `FIRE_SPREAD`."""


def initial_people(world: World) -> People:
    """Return everybody at step 0."""
    status = jnp.where(world.person_valid, jnp.int32(ACTIVE), jnp.int32(CASUALTY))
    return People(row=jnp.asarray(world.person_row), col=jnp.asarray(world.person_col), status=status)


def reset(world: World, seed_hi: ArrayLike, seed_lo: ArrayLike) -> State:
    """Start an episode under a 64-bit evaluator seed, given as uint32 halves."""
    zero = jnp.uint32(0)
    return State(
        step=jnp.int32(0),
        people=initial_people(world),
        burning=jnp.asarray(world.ignitions),
        fire_seed=stream_seed(FIRE, seed_hi, seed_lo),
        fire_position=Uint64(zero, zero),
        termination=jnp.int32(RUNNING),
        fault=jnp.bool_(False),
    )


def resolve_step(
    world: World, people: People, action: Array, before: Array, after: Array
) -> tuple[People, StepEvents]:
    """Resolve phases 2 to 8 for the people, given the fire.

    Args:
        world: the scenario.
        people: before the step.
        action: int32[P], in action order.
        before: bool[R, C], the burning set before the step.
        after: bool[R, C], the burning set after it.
    """
    active = people.active
    movements = resolve(world, before, people.row, people.col, active, action)
    moved = active & (movements.outcome == MOVED)
    row = jnp.where(moved, movements.target_row, people.row)
    col = jnp.where(moved, movements.target_col, people.col)
    exit_index = look_up(jnp.asarray(world.exit_index), row, col, outside=-1)
    burned_before = look_up(before, row, col, outside=False)
    burns_after = look_up(after, row, col, outside=False)
    evacuated = active & (exit_index >= 0) & ~burned_before
    lost = active & ~evacuated & burns_after
    cause = jnp.where(burned_before, jnp.int32(ENTERED_FIRE), jnp.int32(FIRE_SPREAD))
    status = jnp.select([evacuated, lost], [jnp.int32(EVACUATED), jnp.int32(CASUALTY)], people.status)
    return People(row=row, col=col, status=status), StepEvents(
        movements=movements,
        evacuated=evacuated,
        exit_index=jnp.where(evacuated, exit_index, jnp.int32(-1)),
        cause=jnp.where(lost, cause, jnp.int32(NO_CASUALTY)),
    )


def termination(world: World, people: People, step: Array) -> Array:
    """Decide how the episode stands after a step (R10): int32[]."""
    return jnp.select(
        [~jnp.any(people.active), step >= world.max_steps],
        [jnp.int32(ALL_RESOLVED), jnp.int32(MAX_STEPS)],
        jnp.int32(RUNNING),
    )


def faulty(people: People, action: Array) -> Array:
    """Tell whether some active person has no allowed action: bool[]."""
    return jnp.any(people.active & ((action < 0) | (action > WEST)))


def step(world: World, state: State, action: Array) -> tuple[State, StepEvents]:
    """Run one step; an episode that has ended, or a step with an invalid action, changes nothing.

    Args:
        world: the scenario.
        state: before the step.
        action: int32[P], in action order; entries of people who are not active are ignored.
    """
    number = state.step + jnp.int32(1)
    ignited, position = fire.ignitions(world, state.burning, number, state.fire_seed, state.fire_position)
    after = state.burning | ignited
    people, events = resolve_step(world, state.people, action, state.burning, after)
    fault = state.fault | (faulty(state.people, action) & (state.termination == RUNNING))
    new = State(
        step=number,
        people=people,
        burning=after,
        fire_seed=state.fire_seed,
        fire_position=position,
        termination=termination(world, people, number),
        fault=fault,
    )
    frozen = state.done | fault
    nothing = StepEvents(
        movements=Movements(*(jnp.zeros_like(field) for field in events.movements)),
        evacuated=jnp.zeros_like(events.evacuated),
        exit_index=jnp.full_like(events.exit_index, -1),
        cause=jnp.zeros_like(events.cause),
    )
    kept = select(frozen, state._replace(fault=fault), new)
    return kept, select(frozen | ~state.people.active, nothing, events)


def trapped(world: World, burning: Array, people: People) -> Array:
    """Return who has no path to a non-burning exit through open, non-burning cells (R9): bool[P]."""
    safe = jnp.asarray(world.floor) & ~burning
    # A path starts on the person's own cell, which does not burn while the person is active.
    reach = distances(jnp.asarray(world.exit_cells) & safe, safe)
    unreachable = look_up(reach, people.row, people.col, outside=0) == UNREACHABLE
    return people.active & unreachable


def select(condition: Array, kept: Tree, new: Tree) -> Tree:
    """Return one of two pytrees of equal structure, leaf by leaf."""
    chosen: Tree = jax.tree.map(lambda a, b: jnp.where(condition, a, b), kept, new)
    return chosen
