"""Episodes of a policy, whole and batched over seeds.

People never touch the fire, so a rollout takes finished fire worlds and resolves the people against them.
`rollouts` gives what became of everybody for any number of seeds, a batch at a time, in the fast form of
`ember_jax.rollout_kernel` or the plain one, its twin; `records` gives run records. The plain forms pad the
batch and freeze finished episodes, so no seed's result depends on the others.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from ember_jax.fire import FireWorlds, batch_tile, padded_steps, tiles
from ember_jax.fire_kernel import fire_worlds
from ember_jax.kernel import LANES
from ember_jax.policies import (
    ANY_POLICY,
    SCRIPTED_POLICY,
    Memory,
    Plan,
    Policy,
    View,
    make_policy,
    numbered,
    start_memory,
)
from ember_jax.rollout_kernel import rollout_summaries, supports
from ember_jax.simulator import (
    NO_CASUALTY,
    RUNNING,
    People,
    StepEvents,
    faulty,
    initial_people,
    resolve_step,
    select,
    termination,
    trapped,
)
from ember_jax.stream import Uint64, split
from ember_jax.world import (
    ACTION_CODES,
    Trajectory,
    World,
    WorldSize,
    padded_size,
    record_from_trajectory,
    world_from_scenario,
)
from ember_ref.errors import SimulationError
from ember_ref.record import ActionLog, RunRecord
from ember_ref.scenario import Scenario

SEGMENT_STEPS: Final = 64
"""Steps of a recorded episode that are computed at once."""


class Progress(NamedTuple):
    """An episode in progress, given its fire world."""

    step: Array
    """int32[]: completed steps."""
    people: People
    memory: Memory
    termination: Array
    """int32[]: as `ember_jax.simulator.State.termination`."""
    fault: Array
    """bool[]: as `ember_jax.simulator.State.fault`."""
    resolution_step: Array
    """int32[P]: the step in which a person left or was lost; 0 while active."""
    exit_index: Array
    """int32[P]: the exit used, -1 for none."""
    cause: Array
    """int32[P]: the casualty cause."""
    cells_moved: Array
    """int32[P]: outcomes `moved`."""

    @property
    def done(self) -> Array:
        """bool[]: whether no further step is made."""
        return (self.termination != RUNNING) | self.fault


def start(world: World) -> Progress:
    """Return every episode's beginning."""
    people = initial_people(world)
    zero = jnp.zeros_like(people.row)
    return Progress(
        step=jnp.int32(0),
        people=people,
        memory=start_memory(),
        termination=jnp.int32(RUNNING),
        fault=jnp.bool_(False),
        resolution_step=zero,
        exit_index=jnp.full_like(zero, -1),
        cause=jnp.full_like(zero, NO_CASUALTY),
        cells_moved=zero,
    )


def advance(
    world: World, policy: Policy, plan: Plan, ignition_step: Array, progress: Progress
) -> tuple[Progress, Array, StepEvents]:
    """Make one step of an episode that is not done.

    Args:
        world: the scenario.
        policy: the policy (static).
        plan: what the policy prepared.
        ignition_step: uint32[R, C], the fire world.
        progress: before the step.

    Returns:
        The progress after it, int32[P] actions, and the events.
    """
    number = progress.step + jnp.int32(1)
    before = ignition_step < number.astype(jnp.uint32)
    after = ignition_step <= number.astype(jnp.uint32)
    view = View(step=progress.step, people=progress.people, burning=before)
    action, memory = policy.act(world, plan, view, progress.memory)
    people, events = resolve_step(world, progress.people, action, before, after)
    resolved = events.evacuated | (events.cause != NO_CASUALTY)
    moved = progress.people.active & ((people.row != progress.people.row) | (people.col != progress.people.col))
    new = Progress(
        step=number,
        people=people,
        memory=memory,
        termination=termination(world, people, number),
        fault=progress.fault,
        resolution_step=jnp.where(resolved, number, progress.resolution_step),
        exit_index=jnp.where(events.evacuated, events.exit_index, progress.exit_index),
        cause=jnp.where(events.cause != NO_CASUALTY, events.cause, progress.cause),
        cells_moved=progress.cells_moved + moved.astype(jnp.int32),
    )
    fault = faulty(progress.people, action)
    return select(fault, progress._replace(fault=fault), new), action, events


def episode(world: World, policy: Policy, plan: Plan, ignition_step: Array) -> Progress:
    """Run an episode to its end."""
    return jax.lax.while_loop(
        lambda progress: ~progress.done,
        lambda progress: advance(world, policy, plan, ignition_step, progress)[0],
        start(world),
    )


def segment(
    world: World, policy: Policy, plan: Plan, ignition_step: Array, progress: Progress
) -> tuple[Progress, Trajectory]:
    """Run up to `SEGMENT_STEPS` steps and keep all that a run record needs of them."""

    def one(progress: Progress, _: None) -> tuple[Progress, Trajectory]:
        new, action, events = advance(world, policy, plan, ignition_step, progress)
        after = select(progress.done, progress, new)
        burning = ignition_step <= after.step.astype(jnp.uint32)
        return after, Trajectory(
            made=~progress.done & ~new.fault,
            action=action.astype(jnp.int8),
            target_row=events.movements.target_row.astype(jnp.int16),
            target_col=events.movements.target_col.astype(jnp.int16),
            outcome=events.movements.outcome.astype(jnp.int8),
            row=after.people.row.astype(jnp.int16),
            col=after.people.col.astype(jnp.int16),
            status=after.people.status.astype(jnp.int8),
            exit_index=events.exit_index,
            cause=events.cause.astype(jnp.int8),
            trapped=trapped(world, burning, after.people),
        )

    return jax.lax.scan(one, progress, None, length=SEGMENT_STEPS)


class Rollouts(NamedTuple):
    """What became of everybody in a batch of episodes, on the host; N seeds, P people in ID order."""

    seeds: np.ndarray
    """uint64[N]."""
    fires: FireWorlds
    steps: np.ndarray
    """int32[N]: steps of the episode."""
    termination: np.ndarray
    """int32[N]: `ALL_RESOLVED` or `MAX_STEPS` of `ember_jax.simulator`."""
    status: np.ndarray
    """int32[N, P]: `ACTIVE` (stranded), `EVACUATED` or `CASUALTY`."""
    resolution_step: np.ndarray
    """int32[N, P]: the step in which a person left or was lost; 0 when stranded."""
    exit_index: np.ndarray
    """int32[N, P]: the exit used, -1 for none."""
    cause: np.ndarray
    """int32[N, P]: the casualty cause."""
    cells_moved: np.ndarray
    """int32[N, P]: outcomes `moved`."""


def rollouts(
    scenario: Scenario,
    seeds: ArrayLike,
    policy: str,
    *,
    policy_seed: int = 0,
    log: ActionLog | None = None,
    size: WorldSize | None = None,
    tile: int | None = None,
) -> Iterator[Rollouts]:
    """Run a policy under each of many seeds, and yield the outcomes a batch at a time, in order.

    The form of `ember_jax.rollout_kernel` is taken where there is one and no padded size or tile is asked for.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host.
        policy: a policy name; `scripted` needs `log`.
        policy_seed: 64-bit seed of the policy's own stream.
        log: the action log of `scripted`.
        size: the padded size; the scenario's own without it.
        tile: seeds that are computed at once; chosen from N and the size without it.

    Raises:
        SimulationError: when an action log does not cover exactly the active people.
    """
    if log is not None or size is not None or tile is not None or not supports(scenario, policy):
        yield from plain_rollouts(scenario, seeds, policy, policy_seed=policy_seed, log=log, size=size, tile=tile)
        return
    seeds = np.asarray(seeds, dtype=np.uint64)
    batch = max(LANES, _BATCH_CELLS // (scenario.grid.height * scenario.grid.width) // LANES * LANES)
    for at in range(0, len(seeds), batch):
        part = seeds[at : at + batch]
        found = rollout_summaries(scenario, part, policy, policy_seed=policy_seed)
        yield Rollouts(seeds=part, fires=fire_worlds(scenario, part), **found._asdict())


_BATCH_CELLS: Final = 1 << 22  # of the fire worlds that are held at once


def plain_rollouts(
    scenario: Scenario,
    seeds: ArrayLike,
    policy: str,
    *,
    policy_seed: int = 0,
    log: ActionLog | None = None,
    size: WorldSize | None = None,
    tile: int | None = None,
) -> Iterator[Rollouts]:
    """Do what `rollouts` does (arguments and errors too), one rule after another; it has every policy and size."""
    size = padded_size(scenario) if size is None else size
    world = world_from_scenario(scenario, size=size)
    compiled, plan = prepared(world, scenario, policy, policy_seed, log)
    seeds = np.asarray(seeds, dtype=np.uint64)
    tile = batch_tile(size, len(seeds)) if tile is None else tile
    people = len(scenario.people)
    for at, batch in tiles(seeds, tile):
        count = min(tile, len(seeds) - at)
        fires = fire_worlds(scenario, batch)
        end = jax.device_get(_episodes(world, compiled, plan, padded_steps(fires, size)))
        _refuse_fault(end.fault[:count], end.step[:count])
        yield Rollouts(
            seeds=batch[:count],
            fires=FireWorlds(fires.ignition_step[:count], fires.stream_position[:count]),
            steps=end.step[:count],
            termination=end.termination[:count],
            status=end.people.status[:count, :people],
            resolution_step=end.resolution_step[:count, :people],
            exit_index=end.exit_index[:count, :people],
            cause=end.cause[:count, :people],
            cells_moved=end.cells_moved[:count, :people],
        )


def records(
    scenario: Scenario,
    seeds: ArrayLike,
    policy: str,
    *,
    policy_seed: int = 0,
    log: ActionLog | None = None,
    size: WorldSize | None = None,
    tile: int | None = None,
    shared: bool = False,
) -> Iterator[RunRecord]:
    """Run a policy under each of many seeds, and yield the run records in order (see `rollouts`).

    With `shared` all policies have one compilation, which takes longer than that of one policy.
    """
    size = padded_size(scenario) if size is None else size
    world = world_from_scenario(scenario, size=size)
    compiled, plan = prepared(world, scenario, policy, policy_seed, log, shared=shared)
    seeds = np.asarray(seeds, dtype=np.uint64)
    tile = min(16, batch_tile(size, len(seeds))) if tile is None else tile
    for at, batch in tiles(seeds, tile):
        count = min(tile, len(seeds) - at)
        fires = fire_worlds(scenario, batch)
        padded = padded_steps(fires, size)
        progress, initial_trapped = _starts(world, padded)
        parts = []
        while True:
            progress, part = _segments(world, compiled, plan, padded, progress)
            parts.append(jax.device_get(part))
            if np.all(np.asarray(progress.done)):
                break
        _refuse_fault(np.asarray(progress.fault)[:count], np.asarray(progress.step)[:count])
        fields: list[Any] = [np.concatenate(field, axis=1) for field in zip(*parts, strict=True)]
        for i in range(count):
            yield record_from_trajectory(
                scenario,
                int(batch[i]),
                fires.ignition_step[i],
                np.asarray(initial_trapped)[i],
                Trajectory(*(field[i] for field in fields)),
            )


def prepared(
    world: World, scenario: Scenario, policy: str, policy_seed: int, log: ActionLog | None, *, shared: bool = False
) -> tuple[Policy, Plan]:
    """Return a policy by its name, or the action log given, with what it prepares from the map (see `records`)."""
    if log is not None:
        return SCRIPTED_POLICY, _script(scenario, log, world.size.people)
    compiled = make_policy(policy)
    halves = split(np.asarray(policy_seed, dtype=np.uint64))
    if not shared:
        return compiled, _prepare(world, compiled, *halves)
    number, scrubs = numbered(policy)
    plan = _prepare(world, ANY_POLICY, *halves)
    return ANY_POLICY, plan._replace(number=np.int32(number), scrubs=np.int32(scrubs))


def _script(scenario: Scenario, log: ActionLog, people: int) -> np.ndarray:
    """Lay an action log out as int32[T, P], T a power of two; -1 where it has no action."""
    index = {person.id: i for i, person in enumerate(scenario.people)}
    length = 1 << len(log.actions).bit_length()
    script = np.full((length, people), -1, dtype=np.int32)
    for number, actions in enumerate(log.actions):
        if actions.keys() <= index.keys():  # an unknown person faults the step: nobody has an action
            for person, action in actions.items():
                script[number, index[person]] = ACTION_CODES[action]
    return script


def _refuse_fault(fault: np.ndarray, step: np.ndarray) -> None:
    if fault.any():
        number = int(step[int(np.argmax(fault))]) + 1
        raise SimulationError(f"step {number}: the action log does not cover exactly the active people")


@functools.partial(jax.jit, static_argnums=1)
def _prepare(world: World, policy: Policy, seed_hi: Array, seed_lo: Array) -> Plan:
    return policy.prepare(world, Uint64(seed_hi, seed_lo))


@functools.partial(jax.jit, static_argnums=1)
def _episodes(world: World, policy: Policy, plan: Plan, ignition_step: Array) -> Progress:
    return jax.vmap(lambda fire: episode(world, policy, plan, fire))(ignition_step)


@jax.jit
def _starts(world: World, ignition_step: Array) -> tuple[Progress, Array]:
    def begin(fire: Array) -> tuple[Progress, Array]:
        progress = start(world)
        return progress, trapped(world, fire == jnp.uint32(0), progress.people)

    return jax.vmap(begin)(ignition_step)


@functools.partial(jax.jit, static_argnums=1)
def _segments(
    world: World, policy: Policy, plan: Plan, ignition_step: Array, progress: Progress
) -> tuple[Progress, Trajectory]:
    return jax.vmap(lambda fire, now: segment(world, policy, plan, fire, now))(ignition_step, progress)
