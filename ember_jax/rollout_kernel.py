"""Rollouts of the baseline policies, batch-explicit: the fast form of `ember_jax.rollout`.

Fire and people of a tile of 128 seeds step together, and a tile ends when nobody is active in any lane.
People lie in ID order, [people, lanes]. `ember_jax.movement_kernel` decides who moves,
`ember_jax.aim_kernel` and `ember_jax.congestion_kernel` where people want to go.
"""

import functools
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from ember_jax import aim_kernel, congestion_kernel
from ember_jax.fire_kernel import (
    FireSize,
    FireState,
    Terrain,
    fire_size,
    fold_max,
    pack,
    padded_seeds,
    repeat_if,
    spread,
    spreads_on,
    start_fire,
    terrain,
)
from ember_jax.kernel import LANES, Kernel, run_batches
from ember_jax.movement_kernel import (
    MOST_PEOPLE,
    People,
    any_lane,
    as_bit,
    bit_of,
    each,
    movers,
    moves,
    on_fire,
    row_of,
    start_people,
    with_row,
)
from ember_jax.route_kernel import DIRECTIONS, RouteGround, bits_at, flood_distances, route_ground
from ember_jax.simulator import ACTIVE, ALL_RESOLVED, CASUALTY, ENTERED_FIRE, EVACUATED, FIRE_SPREAD, MAX_STEPS
from ember_jax.stream import GOLDEN_GAMMA, join, split, stream_seed
from ember_ref.policies import SCRUB_PREFIX
from ember_ref.scenario import EnterFire, Scenario


class Aim(StrEnum):
    """How a policy finds its way; one compilation each."""

    MAP = "map"
    GREEDY = "greedy"
    RANDOM = "random"
    FIRE_AWARE = "fire aware"
    CONGESTION_AWARE = "congestion aware"


POLICIES: Final = {
    "always-stay-v1": Aim.MAP,
    "random-legal-v1": Aim.RANDOM,
    "nearest-exit-greedy-v1": Aim.GREEDY,
    "static-shortest-path-v1": Aim.MAP,
    "fire-aware-shortest-path-v1": Aim.FIRE_AWARE,
    "congestion-aware-v1": Aim.CONGESTION_AWARE,
}
"""The policies that have a form here."""


class RolloutSize(NamedTuple):
    """What sets the shapes of the kernel, and so the compilation."""

    fire: FireSize
    people: int
    """Padded people P."""
    goals: int
    """Padded goals E of the ways that the policy follows, 0 for none."""
    aim: Aim


class Ground(NamedTuple):
    """The terrain, people and policy of one scenario; host arrays. W words of cells, row-major."""

    fire: Terrain
    route: RouteGround
    exits: np.ndarray
    """uint32[W]: exits."""
    width: np.ndarray
    """uint32[]: cells from one row to the next."""
    way: np.ndarray
    """uint32[32 W], or uint32[0] where the map alone does not decide: where the policy sends a person from each
    cell."""
    choices: np.ndarray
    """uint32[4, W], or uint32[4, 0]: the directions that the policy takes unless their cell burns."""
    stream: np.ndarray
    """uint64[]: the state of the policy's SplitMix64 that gives its first word."""
    person: np.ndarray
    """uint32[P]: where each person starts."""
    people: np.ndarray
    """uint64[]: a bit for every real person."""
    horizon: np.ndarray
    """int32[]: `max_steps`."""
    fire_blocks: np.ndarray
    """uint32[]: all ones when a move into fire is refused."""


class RolloutSummaries(NamedTuple):
    """What became of everybody under each of many seeds, on the host; P people in ID order."""

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


_CAUSE: Final = 8
"""In the kernel the status of a casualty is its cause plus this."""


def supports(scenario: Scenario, policy: str) -> bool:
    """Tell whether the kernel has a form for a scenario and a policy."""
    if _base(policy) not in POLICIES or len(scenario.people) > MOST_PEOPLE:
        return False
    if POLICIES[_base(policy)] is not Aim.CONGESTION_AWARE:
        return True
    goals = _padded_goals(scenario)
    return goals <= congestion_kernel.MOST_EXITS and goals * fire_size(scenario).words <= _MOST_GOAL_WORDS


_MOST_GOAL_WORDS: Final = 1 << 15  # words of all goals' boards: 80 MB of ways a tile


def _base(policy: str) -> str:
    """Return the policy that moves people alike: a move that would come out blocked may as well be `stay`."""
    while policy.startswith(SCRUB_PREFIX):
        policy = policy.removeprefix(SCRUB_PREFIX)
    return policy


def _padded_goals(scenario: Scenario) -> int:
    return next(most for most in (1, 2, 4, 8, 32, 128, 512, 1 << 20) if most >= len(scenario.exits))


def rollout_summaries(
    scenario: Scenario,
    seeds: ArrayLike,
    policy: str,
    *,
    policy_seed: int = 0,
    threads: int | None = None,
) -> RolloutSummaries:
    """Run a policy under each of many 64-bit seeds.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host.
        policy: a policy that the scenario is supported with.
        policy_seed: 64-bit seed of the policy's own stream.
        threads: calls at a time; all cores without it.
    """
    people = len(scenario.people)
    parts = list(_run(scenario, seeds, policy, policy_seed, threads))
    cell, step, status, moved = (
        np.concatenate([np.empty((0, people), np.int32), *(part[name] for part in parts)])
        for name in ("cell", "resolution_step", "status", "cells_moved")
    )
    exit_of = np.full(32 * fire_size(scenario).words, -1, dtype=np.int32)
    for index, exit in enumerate(scenario.exits):
        exit_of[exit.position[0] * scenario.grid.width + exit.position[1]] = index
    active = np.any(status == ACTIVE, axis=1)
    lost = status > EVACUATED
    return RolloutSummaries(
        steps=np.where(active, scenario.termination.max_steps, step.max(axis=1)).astype(np.int32),
        termination=np.where(active, MAX_STEPS, ALL_RESOLVED).astype(np.int32),
        status=np.where(lost, CASUALTY, status).astype(np.int32),
        resolution_step=step,
        exit_index=np.where(status == EVACUATED, exit_of[cell], -1).astype(np.int32),
        cause=np.where(lost, status - _CAUSE, 0).astype(np.int32),
        cells_moved=moved,
    )


def rollout_size(scenario: Scenario, policy: str) -> RolloutSize:
    """Return the padded size of a scenario's rollouts; few sizes, so that scenarios share compilations."""
    aim = POLICIES[_base(policy)]
    goals = {Aim.FIRE_AWARE: 1, Aim.CONGESTION_AWARE: _padded_goals(scenario)}
    return RolloutSize(
        fire=fire_size(scenario)._replace(planes=0),
        people=next(most for most in (8, 20, 32, MOST_PEOPLE) if most >= len(scenario.people)),
        goals=goals.get(aim, 0),
        aim=aim,
    )


def rollout_ground(scenario: Scenario, size: RolloutSize, policy: str, *, policy_seed: int = 0) -> Ground:
    """Lay a scenario and a policy out for the kernel."""
    grid, policy = scenario.grid, _base(policy)
    exits = np.zeros((grid.height, grid.width), dtype=np.bool_)
    for exit in scenario.exits:
        exits[exit.position] = True
    person = np.zeros(size.people, dtype=np.uint32)
    person[: len(scenario.people)] = [
        row * grid.width + col for row, col in (person.position for person in scenario.people)
    ]
    goals = [[exit.position] for exit in scenario.exits]
    if size.aim is not Aim.CONGESTION_AWARE:
        goals = [[exit.position for exit in scenario.exits]][: size.goals]
    stream = np.zeros((), dtype=np.uint64)
    if size.aim is Aim.RANDOM:
        stream = join(*_POLICY_STREAM(*split(np.asarray(policy_seed, dtype=np.uint64))))
    blocks = scenario.movement.enter_fire is EnterFire.BLOCKED
    return Ground(
        fire=terrain(scenario, size.fire),
        route=route_ground(scenario, size.fire, goals, padded=size.goals, people=size.people),
        exits=pack(exits, size.fire.words),
        width=np.asarray(grid.width, dtype=np.uint32),
        way=_way(scenario, policy, size),
        choices=_choices(scenario, size),
        stream=np.asarray((int(stream) + GOLDEN_GAMMA) % 2**64, dtype=np.uint64),
        person=person,
        people=np.asarray((1 << len(scenario.people)) - 1, dtype=np.uint64),
        horizon=np.asarray(scenario.termination.max_steps, dtype=np.int32),
        fire_blocks=np.asarray(-blocks & 0xFFFFFFFF, dtype=np.uint32),
    )


_POLICY_STREAM: Final = jax.jit(functools.partial(stream_seed, "policy/random-legal-v1"))
_AROUND: Final = ((-1, 0), (1, 0), (0, 1), (0, -1))


def _floor(scenario: Scenario) -> np.ndarray:
    """Return the open cells within a margin of one: bool[H + 2, W + 2]."""
    floor = np.zeros((scenario.grid.height + 2, scenario.grid.width + 2), dtype=np.bool_)
    floor[1:-1, 1:-1] = True
    for row, col in scenario.grid.obstacles:
        floor[row + 1, col + 1] = False
    return floor


def _beside(cells: np.ndarray, direction: int) -> np.ndarray:
    """Return the neighbours of cells that have a margin of one."""
    row, col = _AROUND[direction]
    return cells[1 + row : cells.shape[0] - 1 + row, 1 + col : cells.shape[1] - 1 + col]


def _way(scenario: Scenario, policy: str, size: RolloutSize) -> np.ndarray:
    """Return `Ground.way`: a step nearer to the nearest exit, or nowhere."""
    if size.aim is not Aim.MAP:
        return np.zeros(0, dtype=np.uint32)
    way = np.arange(32 * size.fire.words, dtype=np.uint32)
    if policy == "always-stay-v1":
        return way
    floor = _floor(scenario)
    exits = np.zeros_like(floor)
    for exit in scenario.exits:
        exits[exit.position[0] + 1, exit.position[1] + 1] = True
    distance = np.pad(flood_distances(floor[1:-1, 1:-1], exits[1:-1, 1:-1]), 1, constant_values=-2)
    steps = [row * scenario.grid.width + col for row, col in _AROUND]
    here = distance[1:-1, 1:-1]
    offset = np.zeros_like(here)
    for direction in reversed(range(DIRECTIONS)):
        nearer = floor[1:-1, 1:-1] & (_beside(distance, direction) == here - 1)
        offset = np.where(nearer, steps[direction], offset)
    way[: offset.size] += offset.reshape(-1).astype(np.uint32)
    return way


def _choices(scenario: Scenario, size: RolloutSize) -> np.ndarray:
    """Return `Ground.choices`: steps to open cells, for the greedy policy those nearer to the nearest exit."""
    if size.aim not in (Aim.GREEDY, Aim.RANDOM):
        return np.zeros((DIRECTIONS, 0), dtype=np.uint32)
    floor = _floor(scenario)
    row, col = np.indices((scenario.grid.height, scenario.grid.width))
    goal_row, goal_col = np.zeros_like(row), np.zeros_like(col)
    least = np.full(row.shape, np.iinfo(np.int64).max)
    for exit in scenario.exits:
        gap = abs(row - exit.position[0]) + abs(col - exit.position[1])
        nearer = gap < least  # the lowest ID of equals
        least = np.where(nearer, gap, least)
        goal_row, goal_col = (
            np.where(nearer, there, goal) for there, goal in zip(exit.position, (goal_row, goal_col), strict=True)
        )
    boards = []
    for direction, (down, right) in enumerate(_AROUND):
        near = floor[1:-1, 1:-1] & _beside(floor, direction)
        if size.aim is Aim.GREEDY:
            near = near & (abs(row + down - goal_row) + abs(col + right - goal_col) < least)
        boards.append(pack(near, size.fire.words))
    return np.stack(boards)


# A tile of episodes


class _State(NamedTuple):
    number: Array
    """int32[]: the step to make."""
    fire: FireState
    people: People
    memory: Any
    """What the policy keeps."""
    held_by: Array
    """M[P, L]: written before it is read; carried, so that it is written once."""


def _start_memory(ground: Any, size: RolloutSize, people: People) -> Any:
    if size.aim is Aim.RANDOM:
        return jnp.broadcast_to(ground.stream, (LANES,))
    if size.aim is Aim.FIRE_AWARE:
        return aim_kernel.start_guided(ground, size.fire, people)
    if size.aim is Aim.CONGESTION_AWARE:
        return congestion_kernel.start_crowd(ground, size.fire)
    return ()


def _aim(
    ground: Any, size: RolloutSize, burning: Array, present: Array, people: People, memory: Any
) -> tuple[People, Any]:
    """Point everybody to where the policy sends them."""
    common = (ground, size.fire, burning, present, people)
    if size.aim is Aim.MAP:

        def point(person: Array, target: Array) -> Array:
            there = ground.way.at[row_of(people.cell, person)].get(mode="promise_in_bounds")
            return with_row(target, there, person)

        return people._replace(target=each(present, point, people.target)), memory
    if size.aim is Aim.GREEDY:
        return aim_kernel.greedy(*common), memory
    if size.aim is Aim.RANDOM:
        return aim_kernel.random_legal(*common, memory)
    if size.aim is Aim.FIRE_AWARE:
        return aim_kernel.fire_aware(*common, memory)
    return congestion_kernel.aim(*common, memory)


def _step(ground: Any, size: RolloutSize, state: _State) -> _State:
    number, fire, people, memory, held_by = state
    present = any_lane(people.active)
    people, memory = _aim(ground, size, fire.burning, present, people, memory)
    going = movers(size.fire, fire.burning, ground.fire_blocks, present, people)
    moved, held_by = moves(present, people, going, held_by)

    def move(person: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        cell, count = carry
        goes = bit_of(moved, person).astype(jnp.uint32)
        here = jnp.where(goes != jnp.uint32(0), row_of(people.target, person), row_of(cell, person))
        return (
            with_row(cell, here, person),
            with_row(count, row_of(count, person) + goes.astype(jnp.int32), person),
        )

    cell, cells_moved = each(present, move, (people.cell, people.cells_moved))

    def on_exit(person: Array, mask: Array) -> Array:
        return mask | as_bit(bits_at(size.fire.words, [ground.exits], row_of(cell, person)), person, mask)

    before = on_fire(size.fire, fire.burning, present, cell, people.active)
    evacuated = people.active & each(present, on_exit, jnp.zeros_like(moved)) & ~before
    due = number.astype(jnp.uint32) % ground.fire.interval == jnp.uint32(0)
    fire = repeat_if(due & spreads_on(ground.fire, fire), lambda fire: spread(ground.fire, size.fire, fire), fire)
    lost = on_fire(size.fire, fire.burning, present, cell, people.active) & ~evacuated
    resolved = evacuated | lost

    def resolve(person: Array, steps: Array) -> Array:
        mine = bit_of(resolved, person) != jnp.asarray(0, resolved.dtype)
        return with_row(steps, jnp.where(mine, number, row_of(steps, person)), person)

    people = people._replace(
        cell=cell,
        active=people.active & ~resolved,
        evacuated=people.evacuated | evacuated,
        entered_fire=people.entered_fire | (lost & before),
        resolution_step=each(any_lane(resolved), resolve, people.resolution_step),
        cells_moved=cells_moved,
    )
    return _State(number + jnp.int32(1), fire, people, memory, held_by)


def _episodes(ground: Any, size: RolloutSize, hi: Array, lo: Array) -> People:
    """Run the episodes of a tile to their ends."""
    people = start_people(ground.person, ground.people)
    start = _State(
        number=jnp.int32(1),
        fire=start_fire(ground.fire, size.fire, hi, lo),
        people=people,
        memory=_start_memory(ground, size, people),
        held_by=jnp.zeros(people.cell.shape, dtype=people.active.dtype),
    )
    none = jnp.asarray(0, people.active.dtype)
    return lax.while_loop(
        lambda state: (state.number <= ground.horizon) & (fold_max(state.people.active) != none),
        lambda state: _step(ground, size, state),
        start,
    ).people


def _status(size: RolloutSize, people: People) -> Array:
    """Return `ACTIVE`, `EVACUATED`, or `_CAUSE` plus the cause of a casualty: int32[P, L]."""
    kind = people.active.dtype
    person = jnp.arange(size.people, dtype=kind)[:, None]
    active, evacuated, entered = (
        ((mask[None] >> person) & jnp.asarray(1, kind)) != jnp.asarray(0, kind)
        for mask in (people.active, people.evacuated, people.entered_fire)
    )
    cause = jnp.where(entered, jnp.int32(ENTERED_FIRE), jnp.int32(FIRE_SPREAD)) + jnp.int32(_CAUSE)
    return jnp.where(active, jnp.int32(ACTIVE), jnp.where(evacuated, jnp.int32(EVACUATED), cause))


# Calls


def _call(size: RolloutSize, ground: Any, count: Array, seed_hi: Array, seed_lo: Array) -> dict[str, Array]:
    def tile(arguments: tuple[Array, Array, Array]) -> dict[str, Array]:
        index, hi, lo = arguments
        # Tiles beyond the seeds of the call have no steps.
        spreads = jnp.where(index < count, ground.fire.spreads, jnp.int32(0))
        horizon = jnp.where(index < count, ground.horizon, jnp.int32(0))
        mine = ground._replace(fire=ground.fire._replace(spreads=spreads), horizon=horizon)
        people = _episodes(mine, size, hi, lo)
        return {
            "cell": people.cell.T.astype(jnp.int32),
            "status": _status(size, people).T,
            "resolution_step": people.resolution_step.T,
            "cells_moved": people.cells_moved.T,
        }

    results: dict[str, Array] = lax.map(tile, (lax.iota(jnp.int32, size.fire.tiles), seed_hi, seed_lo))
    return results


_ROLLOUTS: Final = Kernel(_call)


def _run(
    scenario: Scenario, seeds: ArrayLike, policy: str, policy_seed: int, threads: int | None
) -> Iterator[dict[str, np.ndarray]]:
    size = rollout_size(scenario, policy)
    ground = rollout_ground(scenario, size, policy, policy_seed=policy_seed)
    seeds = np.asarray(seeds, dtype=np.uint64)
    tiles = size.fire.tiles
    per_call = tiles * LANES
    people = len(scenario.people)

    def call(at: int) -> dict[str, np.ndarray]:
        hi, lo = padded_seeds(seeds[at : at + per_call], tiles)
        number = min(per_call, len(seeds) - at)
        parts = _ROLLOUTS(size, ground, np.asarray(-(-number // LANES), dtype=np.int32), hi, lo)
        return {name: part.reshape(per_call, size.people)[:number, :people] for name, part in parts.items()}

    _ROLLOUTS.compile(size, ground, np.int32(0), *padded_seeds(seeds[:0], tiles))
    yield from run_batches(call, range(0, len(seeds), per_call), threads=threads)
