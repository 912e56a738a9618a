"""A batched numpy version, written as one would: dense over cells, all seeds of a chunk at once.

Arrays are [seeds, cells] on a grid with a border of walls, so a neighbour is a shift of the last axis.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.environment import COLUMNS, actions_of
from benchmarks.work import Results, Task, Work
from ember_ref.fire import NEVER
from ember_ref.scenario import EnterFire, FireModel, Scenario
from ember_ref.stream import FIRE, stream_seed, threshold

CHUNK = 128
_FAR = 1 << 20
_STAY, _STATIC, _FIRE_AWARE, _CONGESTION = (
    "always-stay-v1",
    "static-shortest-path-v1",
    "fire-aware-shortest-path-v1",
    "congestion-aware-v1",
)


class Batched:
    """Plain numpy."""

    name = "numpy"
    most_threads = 1
    check_seeds = 64

    def can(self, task: Task) -> bool:
        """Tell whether it does this task: everything but evidence and the rollouts of some policies."""
        return task.work is not Work.EVIDENCE and task.policy in {None, _STAY, _STATIC, _FIRE_AWARE, _CONGESTION}

    def run(self, task: Task, first: int, count: int, *, threads: int = 1, worlds: bool = False) -> Results:  # noqa: ARG002
        """Do a task (see `benchmarks.work.Program`)."""
        ground = Ground(task.scenario)
        if task.work is Work.STEP:
            return {"lanes": environment_steps(ground, first, count)}
        seeds = range(first, first + count)
        parts = []
        for at in range(0, count, CHUNK):
            chunk = seeds[at : at + CHUNK]
            if task.work is Work.ROLLOUT:
                parts.append(rollout(ground, chunk, str(task.policy)))
            else:
                parts.append(_world(ground, chunk, task.work is Work.REFERENCES, worlds))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class Ground:
    """A scenario on a grid with a border."""

    def __init__(self, scenario: Scenario) -> None:
        """Lay it out."""
        grid = scenario.grid
        self.scenario = scenario
        self.stride = grid.width + 2
        self.cells = (grid.height + 2) * self.stride
        self.directions = np.array([0, -self.stride, self.stride, 1, -1])
        floor = np.zeros((grid.height + 2, self.stride), dtype=np.bool_)
        floor[1:-1, 1:-1] = True
        self.inner = np.flatnonzero(floor)
        self.floor = floor.reshape(-1)
        self.floor[[self.at(cell) for cell in grid.obstacles]] = False
        self.exits = np.array([self.at(exit.position) for exit in scenario.exits])
        self.exit_of = np.full(self.cells, -1)
        self.exit_of[self.exits] = np.arange(len(self.exits))
        self.flammable = self.floor.copy()
        if not scenario.fire.exits_flammable:
            self.flammable[self.exits] = False
        self.people = np.array([self.at(person.position) for person in scenario.people])
        self.ignitions = [self.at(cell) for cell in scenario.fire.ignitions]
        self.horizon = scenario.termination.max_steps
        self.fire_blocks = scenario.movement.enter_fire is EnterFire.BLOCKED

    def at(self, cell: tuple[int, int]) -> int:
        """Return the number of a cell."""
        return (cell[0] + 1) * self.stride + cell[1] + 1

    def around(self, cells: np.ndarray) -> list[np.ndarray]:
        """Return what the four neighbours of every cell hold; the border's are those of the other end."""
        return [np.roll(cells, -direction, axis=-1) for direction in self.directions[1:]]


class Fires:
    """The fires of a chunk of seeds."""

    def __init__(self, ground: Ground, seeds: range) -> None:
        """Start them."""
        self.ground = ground
        self.seeds = np.array([stream_seed(FIRE, seed) for seed in seeds], dtype=np.uint64)
        self.position = np.zeros(len(seeds), dtype=np.uint64)
        self.steps = np.full((len(seeds), ground.cells), NEVER, dtype=np.uint32)
        self.steps[:, ground.ignitions] = 0
        self.burning = self.steps != NEVER

    def spread(self, now: np.ndarray) -> bool:
        """Make step now[N] of every fire; tell whether anything could ignite."""
        fire = self.ground.scenario.fire
        candidates = self.ground.flammable & ~self.burning & (now % fire.spread_interval == 0)[:, None]
        near = np.stack(self.ground.around(self.burning), axis=2) & candidates[:, :, None]
        if fire.model is FireModel.STOCHASTIC:
            # One draw each in row-major order, and in each cell north, south, east, west: the order of the array.
            lane, cell, _ = np.nonzero(near)
            drawn = np.bincount(lane, minlength=len(self.seeds))
            rank = np.arange(len(lane)) - np.repeat(np.cumsum(drawn) - drawn, drawn)
            word = _word(self.seeds[lane], self.position[lane] + rank.astype(np.uint64))
            success = word >> np.uint64(11) < np.uint64(threshold(fire.spread_probability or 0.0))
            self.position += drawn.astype(np.uint64)
            ignited = np.zeros_like(self.burning)
            ignited[lane[success], cell[success]] = True
        else:
            ignited = near.any(axis=2)
        self.steps = np.where(ignited, now[:, None].astype(np.uint32), self.steps)
        self.burning |= ignited
        return bool(near.any())

    def finish(self) -> None:
        """Run to the horizon."""
        interval = self.ground.scenario.fire.spread_interval
        for step in range(interval, self.ground.horizon + 1, interval):
            if not self.spread(np.full(len(self.seeds), step)):
                break


def _word(seed: np.ndarray, position: np.ndarray) -> np.ndarray:
    z = seed + (position + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: np.ndarray = z ^ (z >> np.uint64(31))
    return result


def _world(ground: Ground, seeds: range, references: bool, worlds: bool) -> Results:
    fires = Fires(ground, seeds)
    fires.finish()
    results = {
        "burned": fires.burning.sum(axis=1, dtype=np.uint32),
        "stream_position": fires.position,
    }
    if references:
        tables = first_tables(ground, fires.steps)
        names = ("earliest_evacuation", "fewest_moves", "fewest_danger_states")
        results |= {name: table[:, ground.people] for name, table in zip(names, tables, strict=True)}
    elif worlds:
        grid = ground.scenario.grid
        results["ignition_step"] = fires.steps[:, ground.inner].reshape(-1, grid.height, grid.width)
    return results


def first_tables(ground: Ground, burns: np.ndarray) -> list[np.ndarray]:
    """Return L, M and D at step 0 by backward induction: uint32[N, cells] each."""
    never = np.uint32(NEVER)
    near = np.minimum.reduce([burns, *ground.around(burns)])
    near[:, np.setdiff1d(np.arange(ground.cells), ground.inner)] = never
    near = np.minimum.reduce([near, *ground.around(near)])
    is_exit = ground.exit_of >= 0
    tables = [np.full_like(burns, never) for _ in range(3)]
    for t in range(ground.horizon - 1, -1, -1):
        alive = ground.floor & ~is_exit & (burns > t)
        open_exit = is_exit & (burns > t)
        lives_on = burns > t + 1
        danger = (near <= t).astype(np.uint32)
        earliest, moves, hazard = (np.where(lives_on, table, never) for table in tables)
        beside = [np.where(open_exit, np.uint32(t + 1), earliest), np.where(open_exit, 0, moves)]
        beside.append(np.where(open_exit, np.uint32(0), hazard))
        neighbours = [np.minimum.reduce(ground.around(table)) for table in beside]
        neighbours[1] = _plus(neighbours[1], np.uint32(1))
        best = [np.minimum(a, b) for a, b in zip((earliest, moves, hazard), neighbours, strict=True)]
        best[2] = _plus(best[2], danger)
        tables = [np.where(alive, table, never) for table in best]
    return tables


def _plus(values: np.ndarray, more: np.ndarray | np.uint32) -> np.ndarray:
    return np.where(values == NEVER, np.uint32(NEVER), values + more)


class Episodes:
    """The people of a chunk of seeds and their fires."""

    def __init__(self, ground: Ground, seeds: range) -> None:
        """Start them."""
        shape = len(seeds), len(ground.people)
        self.ground = ground
        self.fires = Fires(ground, seeds)
        self.cell = np.broadcast_to(ground.people, shape).copy()
        self.steps = np.zeros(shape[0], dtype=np.int32)
        self.status, self.resolution, self.cause, self.moved = (np.zeros(shape, dtype=np.int32) for _ in range(4))
        self.exit_index = np.full(shape, -1, dtype=np.int32)

    @property
    def running(self) -> np.ndarray:
        """bool[N]: episodes that have not ended."""
        runs: np.ndarray = (self.status == 0).any(axis=1) & (self.steps < self.ground.horizon)
        return runs

    def step(self, action: np.ndarray) -> None:
        """Make one step of every episode that runs."""
        lane = np.arange(len(self.cell))[:, None]
        active = (self.status == 0) & self.running[:, None]
        self.steps += self.running
        moves = self._moves(active, action)
        self.cell = np.where(moves, self.cell + self.ground.directions[action], self.cell)
        self.moved += moves
        stood_in_fire = self.fires.burning[lane, self.cell]
        exit_index = self.ground.exit_of[self.cell]
        evacuated = active & (exit_index >= 0) & ~stood_in_fire
        self.fires.spread(np.where(active.any(axis=1), self.steps, -1))
        lost = active & ~evacuated & self.fires.burning[lane, self.cell]
        self.exit_index = np.where(evacuated, exit_index, self.exit_index)
        self.status += evacuated + 2 * lost
        self.cause += np.where(lost, np.where(stood_in_fire, 1, 2), 0).astype(np.int32)
        self.resolution = np.where(evacuated | lost, self.steps[:, None], self.resolution)

    def _moves(self, active: np.ndarray, action: np.ndarray) -> np.ndarray:
        ground, lanes = self.ground, np.arange(len(self.cell))
        target = self.cell + ground.directions[action]
        goes = active & (action > 0) & ground.floor[target]
        if ground.fire_blocks:
            goes &= ~self.fires.burning[lanes[:, None], target]
        claimed = np.zeros((len(lanes), ground.cells), dtype=np.bool_)
        holder = np.full((len(lanes), ground.cells), -1)
        for person in range(self.cell.shape[1]):
            goes[:, person] &= ~claimed[lanes, target[:, person]]
            claimed[lanes, target[:, person]] |= goes[:, person]
            here = lanes[active[:, person]]
            holder[here, self.cell[here, person]] = person
        ahead = holder[lanes[:, None], target]
        moves: np.ndarray = goes & (ahead < 0)
        while True:
            more = goes & (moves | (moves[lanes[:, None], ahead] & (ahead >= 0)))
            if (more == moves).all():
                return moves
            moves = more


def rollout(ground: Ground, seeds: range, policy: str) -> Results:
    """Run whole episodes."""
    episodes = Episodes(ground, seeds)
    way = _descend(ground, _distances(ground, ground.exits, np.broadcast_to(ground.floor, (1, ground.cells))))[0]
    act: Callable[[Episodes], np.ndarray] = {
        _STAY: lambda episodes: np.zeros(episodes.cell.shape, dtype=np.int64),
        _STATIC: lambda episodes: way[episodes.cell],
        _FIRE_AWARE: _fire_aware,
        _CONGESTION: _congestion_aware,
    }[policy]
    while episodes.running.any():
        episodes.step(act(episodes))
    return {
        "steps": episodes.steps,
        "status": episodes.status,
        "resolution_step": episodes.resolution,
        "exit_index": episodes.exit_index,
        "cause": episodes.cause,
        "cells_moved": episodes.moved,
    }


def _distances(ground: Ground, sources: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return distances to sources through free[N, cells]: int64, `_FAR` where there is no way."""
    frontier = np.zeros(free.shape, dtype=np.bool_)
    frontier[:, sources] = free[:, sources]
    distance = np.where(frontier, 0, _FAR)
    level = 0
    while frontier.any():
        level += 1
        frontier = np.logical_or.reduce(ground.around(frontier)) & free & (distance == _FAR)
        distance[frontier] = level
    return distance


def _descend(ground: Ground, distance: np.ndarray) -> np.ndarray:
    """Return the first direction to a cell one nearer, of every cell; 0 where there is none."""
    way = np.zeros(distance.shape, dtype=np.int64)
    for number, beside in reversed(list(enumerate(ground.around(distance), start=1))):
        way[(beside == distance - 1) & (distance < _FAR)] = number
    return way


def _fire_aware(episodes: Episodes) -> np.ndarray:
    ground = episodes.ground
    way = _descend(ground, _distances(ground, ground.exits, ground.floor & ~episodes.fires.burning))
    here: np.ndarray = way[np.arange(len(way))[:, None], episodes.cell]
    return here


def _congestion_aware(episodes: Episodes) -> np.ndarray:
    ground, cell = episodes.ground, episodes.cell
    lanes = np.arange(len(cell))
    free = ground.floor & ~episodes.fires.burning
    distance = np.stack([_distances(ground, exit, free) for exit in ground.exits], axis=1)
    here = distance[lanes[:, None], :, cell]  # [N, P, E]
    least = np.where(episodes.status == 0, here.min(axis=2), _FAR)
    order = np.argsort(least, axis=1, kind="stable")
    load = np.zeros((len(cell), len(ground.exits)), dtype=np.int64)
    taken = np.zeros((len(cell), ground.cells), dtype=np.bool_)
    action = np.zeros(cell.shape, dtype=np.int64)
    for person in order.T:
        waits = least[lanes, person] < _FAR
        reach = here[lanes, person]
        chosen = np.where(reach < _FAR, reach + load, 2 * _FAR).argmin(axis=1)
        load[lanes, chosen] += waits
        first = np.zeros(len(cell), dtype=np.int64)
        for number in range(4, 0, -1):
            goal = cell[lanes, person] + ground.directions[number]
            nearer = distance[lanes, chosen, goal] == reach[lanes, chosen] - 1
            first = np.where(waits & nearer & ~taken[lanes, goal], number, first)
        action[lanes, person] = first
        taken[lanes, cell[lanes, person] + ground.directions[first]] |= first > 0
    return action


def environment_steps(ground: Ground, first: int, count: int) -> np.ndarray:
    """Make steps of `count` environments (see `benchmarks.environment`)."""
    actions = actions_of(len(ground.people), count)
    episodes = Episodes(ground, range(first, first + count))
    seed = np.arange(count) + first
    result = np.zeros((count, len(COLUMNS)), dtype=np.uint64)
    for now in actions:
        episodes.step(now.astype(np.int64))
        for lane in np.flatnonzero(~episodes.running):
            result[lane, :4] += np.array(
                [
                    1,
                    (episodes.status[lane] == 1).sum(),
                    (episodes.status[lane] == 2).sum(),
                    episodes.moved[lane].sum(),
                ],
                dtype=np.uint64,
            )
            seed[lane] += count
            _restart(episodes, int(lane), int(seed[lane]))
    active = episodes.status == 0
    row, col = episodes.cell // ground.stride - 1, episodes.cell % ground.stride - 1
    unpadded = row * ground.scenario.grid.width + col
    result[:, 4] = episodes.steps
    result[:, 5] = active.sum(axis=1)
    result[:, 6] = np.where(active, unpadded, 0).sum(axis=1)
    result[:, 7] = episodes.fires.burning.sum(axis=1)
    result[:, 8] = episodes.fires.position
    return result


def _restart(episodes: Episodes, lane: int, seed: int) -> None:
    """Start one episode again under another seed."""
    fresh = Episodes(episodes.ground, range(seed, seed + 1))
    for name in ("cell", "steps", "status", "resolution", "cause", "moved", "exit_index"):
        getattr(episodes, name)[lane] = getattr(fresh, name)[0]
    for name in ("seeds", "position", "steps", "burning"):
        getattr(episodes.fires, name)[lane] = getattr(fresh.fires, name)[0]
