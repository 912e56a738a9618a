"""The oracle, `ember_ref`: one seed at a time, standard library only."""

from typing import Any

import numpy as np

from benchmarks.environment import COLUMNS, actions_of
from benchmarks.work import Results, Task, Work
from ember_cli.sweep import oracle_row
from ember_cli.sweep_folder import EVIDENCE_COLUMNS
from ember_ref.episode import run_episode
from ember_ref.fire import NEVER, fire_world
from ember_ref.grid import Action
from ember_ref.observation import PersonStatus
from ember_ref.policies import make_policy
from ember_ref.record import RunRecord
from ember_ref.references import references_of
from ember_ref.scenario import Scenario
from ember_ref.simulator import CasualtyCause, Simulator

_STATUS = {PersonStatus.ACTIVE: 0, PersonStatus.EVACUATED: 1, PersonStatus.CASUALTY: 2}
_CAUSE = {CasualtyCause.ENTERED_FIRE: 1, CasualtyCause.FIRE_SPREAD: 2}
_ACTIONS = tuple(Action)


class Oracle:
    """`ember_ref`."""

    name = "ember_ref"
    most_threads = 1
    check_seeds = 4

    def can(self, _task: Task) -> bool:
        """Tell whether it does this task: it does all."""
        return True

    def run(self, task: Task, first: int, count: int, *, threads: int = 1, worlds: bool = False) -> Results:  # noqa: ARG002
        """Do a task (see `benchmarks.work.Program`)."""
        seeds = range(first, first + count)
        if task.work is Work.STEP:
            return {"lanes": _steps(task.scenario, first, count)}
        if task.work is Work.EVIDENCE:
            rows = [oracle_row(task.scenario, seed, task.policy, 0, digests=False)[0] for seed in seeds]
            return {name: np.array([row[name] for row in rows], dtype=np.int64) for name in EVIDENCE_COLUMNS}
        if task.work is Work.ROLLOUT:
            policy = make_policy(str(task.policy), 0)
            return _stacked([_episode(task.scenario, run_episode(task.scenario, seed, policy)) for seed in seeds])
        return _stacked([_world(task, seed, worlds) for seed in seeds])


def _stacked(rows: list[dict[str, Any]]) -> Results:
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _world(task: Task, seed: int, worlds: bool) -> dict[str, Any]:
    fire = fire_world(task.scenario, seed)
    row: dict[str, Any] = {"burned": np.uint32(fire.burned), "stream_position": np.uint64(fire.stream_position)}
    if worlds and task.work is Work.WORLD:
        row["ignition_step"] = np.array(fire.ignition_step, dtype=np.uint32).reshape(fire.height, fire.width)
    if task.work is Work.REFERENCES:
        people = references_of(task.scenario, fire).people
        for name in ("earliest_evacuation", "fewest_moves", "fewest_danger_states"):
            values = [getattr(person, name) for person in people]
            row[name] = np.array([NEVER if value is None else value for value in values], dtype=np.uint32)
    return row


def _episode(scenario: Scenario, record: RunRecord) -> dict[str, Any]:
    index = {person.id: i for i, person in enumerate(scenario.people)}
    exits = {exit.id: i for i, exit in enumerate(scenario.exits)}
    resolution, exit_index, cause, moved = (np.zeros(len(index), dtype=np.int32) for _ in range(4))
    exit_index -= 1
    for step in record.steps:
        for movement in step.movements:
            moved[index[movement.person_id]] += movement.outcome == "moved"
        for evacuation in step.evacuations:
            i = index[evacuation.person_id]
            resolution[i], exit_index[i] = step.step, exits[evacuation.exit_id]
        for casualty in step.casualties:
            i = index[casualty.person_id]
            resolution[i], cause[i] = step.step, _CAUSE[casualty.cause]
    status = np.array([_STATUS[person.status] for person in record.final_state.people], dtype=np.int32)
    return {
        "steps": np.int32(len(record.steps)),
        "status": status,
        "resolution_step": resolution,
        "exit_index": exit_index,
        "cause": cause,
        "cells_moved": moved,
    }


def _steps(scenario: Scenario, first: int, count: int) -> np.ndarray:
    result = np.zeros((count, len(COLUMNS)), dtype=np.uint64)
    actions = actions_of(len(scenario.people), count)
    ids = [person.id for person in scenario.people]
    for lane in range(count):
        seed = first + lane
        simulator, moved = Simulator(scenario, seed), 0
        for now in actions[:, lane]:
            chosen = {person: _ACTIONS[action] for person, action in zip(ids, now, strict=True)}
            active = [p.id for p in simulator.state.people if p.status is PersonStatus.ACTIVE]
            events = simulator.step({person: chosen[person] for person in active})
            moved += sum(movement.outcome == "moved" for movement in events.movements)
            if simulator.state.terminated:
                statuses = [person.status for person in simulator.state.people]
                ended = (1, statuses.count(PersonStatus.EVACUATED), statuses.count(PersonStatus.CASUALTY), moved)
                result[lane, :4] += np.array(ended, dtype=np.uint64)
                seed += count
                simulator, moved = Simulator(scenario, seed), 0
        state = simulator.state
        active_cells = [p.position for p in state.people if p.status is PersonStatus.ACTIVE]
        result[lane, 4:] = [
            state.step,
            len(active_cells),
            sum(row * scenario.grid.width + col for row, col in active_cells),
            len(state.burning),
            simulator.fire_position,
        ]
    return result
