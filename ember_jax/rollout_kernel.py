"""Rollouts of the baseline policies, batch-explicit: the fast form of `ember_jax.rollout`.

`ember_jax.episode_kernel` makes the steps of many episodes, `ember_jax.movement_kernel` decides who moves,
`ember_jax.aim_kernel` and `ember_jax.congestion_kernel` where people want to go. This is the host's side of it.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from ember_jax import congestion_kernel
from ember_jax.episode_kernel import Aim, Ground, RolloutSize, RolloutSummaries, run_episodes
from ember_jax.fire_aware_kernel import first_guide
from ember_jax.fire_kernel import fire_size, pack, padded_seeds, terrain
from ember_jax.kernel import LANES, Kernel, run_batches, seeds_of_a_call
from ember_jax.movement_kernel import MOST_PEOPLE
from ember_jax.route_kernel import DIRECTIONS, flood_distances, route_ground
from ember_jax.stream import GOLDEN_GAMMA, join, split, stream_seed
from ember_ref.policies import SCRUB_PREFIX
from ember_ref.scenario import EnterFire, Scenario

POLICIES: Final = {
    "always-stay-v1": Aim.MAP,
    "random-legal-v1": Aim.RANDOM,
    "nearest-exit-greedy-v1": Aim.GREEDY,
    "static-shortest-path-v1": Aim.MAP,
    "fire-aware-shortest-path-v1": Aim.FIRE_AWARE,
    "congestion-aware-v1": Aim.CONGESTION_AWARE,
}
"""The policies that have a form here."""

_MOST_GOAL_WORDS: Final = 1 << 15  # words of all goals' boards: 80 MB of ways a tile
_MOST_TILES: Final = 64  # of the seeds of a call; on large grids fewer, as a call should not take long
_MOST_WORDS: Final = 8192


def supports(scenario: Scenario, policy: str) -> bool:
    """Tell whether the kernel has a form for a scenario and a policy."""
    if _base(policy) not in POLICIES or len(scenario.people) > MOST_PEOPLE:
        return False
    if POLICIES[_base(policy)] is not Aim.CONGESTION_AWARE:
        return True
    goals = _padded_goals(scenario)
    return goals <= congestion_kernel.MOST_EXITS and goals * fire_size(scenario).words <= _MOST_GOAL_WORDS


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
    none = np.zeros((0, people), dtype=np.int32)
    nothing = RolloutSummaries(none[:, 0], none[:, 0], none, none, none, none, none)
    parts = [nothing, *_run(scenario, seeds, policy, policy_seed, threads)]
    return RolloutSummaries(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def rollout_size(scenario: Scenario, policy: str) -> RolloutSize:
    """Return the padded size of a scenario's rollouts; few sizes, so that scenarios share compilations."""
    aim = POLICIES[_base(policy)]
    fire = fire_size(scenario)._replace(planes=0, tiles=1)
    goals = {Aim.FIRE_AWARE: 1, Aim.CONGESTION_AWARE: _padded_goals(scenario)}
    return RolloutSize(
        fire=fire,
        people=next(most for most in (8, 20, 32, MOST_PEOPLE) if most >= len(scenario.people)),
        goals=goals.get(aim, 0),
        aim=aim,
        seeds=LANES * max(1, min(_MOST_TILES, _MOST_WORDS // fire.words)),
    )


def rollout_ground(scenario: Scenario, size: RolloutSize, policy: str, *, policy_seed: int = 0) -> Ground:
    """Lay a scenario and a policy out for the kernel."""
    grid, policy = scenario.grid, _base(policy)
    exits = np.zeros((grid.height, grid.width), dtype=np.bool_)
    for exit in scenario.exits:
        exits[exit.position] = True
    exit_index = np.full(32 * size.fire.words, -1, dtype=np.int32)
    for index, exit in enumerate(scenario.exits):
        exit_index[exit.position[0] * grid.width + exit.position[1]] = index
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
    route = route_ground(scenario, size.fire, goals, padded=size.goals, people=size.people)
    guide = np.zeros((4, 0), dtype=np.uint32)
    if size.aim is Aim.FIRE_AWARE:
        starts = (int(cell) for cell in person[: len(scenario.people)])
        guide = first_guide(route.parents[:, 0], starts, grid.width)
    return Ground(
        fire=terrain(scenario, size.fire),
        route=route,
        exits=pack(exits, size.fire.words),
        exit_index=exit_index,
        width=np.asarray(grid.width, dtype=np.uint32),
        way=_way(scenario, policy, size),
        choices=_choices(scenario, size),
        guide=guide,
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


def _call(size: RolloutSize, ground: Any, count: Array, seed_hi: Array, seed_lo: Array) -> RolloutSummaries:
    return run_episodes(ground, size, count, seed_hi, seed_lo)


_ROLLOUTS: Final = Kernel(_call)


def _run(
    scenario: Scenario, seeds: ArrayLike, policy: str, policy_seed: int, threads: int | None
) -> Iterator[RolloutSummaries]:
    size = rollout_size(scenario, policy)
    ground = rollout_ground(scenario, size, policy, policy_seed=policy_seed)
    seeds = np.asarray(seeds, dtype=np.uint64)
    people = len(scenario.people)
    per_call = seeds_of_a_call(len(seeds), size.seeds, threads)

    def call(at: int) -> RolloutSummaries:
        number = min(per_call, len(seeds) - at)
        hi, lo = _halves(seeds[at : at + number], size)
        found = _ROLLOUTS(size, ground, np.asarray(number, dtype=np.int32), hi, lo)
        return RolloutSummaries(*(part[:number, :people] if part.ndim == 2 else part[:number] for part in found))

    _ROLLOUTS.compile(size, ground, np.int32(0), *_halves(seeds[:0], size))
    yield from run_batches(call, range(0, len(seeds), per_call), threads=threads)


def _halves(seeds: np.ndarray, size: RolloutSize) -> tuple[np.ndarray, np.ndarray]:
    """Return the halves of seeds as two uint32[N], zeros after the last seed."""
    hi, lo = padded_seeds(seeds, size.seeds // LANES)
    return hi.reshape(-1), lo.reshape(-1)
