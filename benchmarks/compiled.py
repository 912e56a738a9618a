"""The compiled path of this project, called as `ember bench` and `ember sweep` call it."""

import numpy as np

from benchmarks.environment import actions_of, environment_steps
from benchmarks.work import Results, Task, Work
from ember_jax import evidence as plain
from ember_jax.evidence_kernel import evidence
from ember_jax.fire_kernel import fire_summaries, fire_worlds
from ember_jax.kernel import cores
from ember_jax.references_kernel import reference_summaries
from ember_jax.rollout import rollouts
from ember_jax.rollout_kernel import rollout_summaries, supports
from ember_ref.scenario import Scenario

_EPISODE = ("steps", "status", "resolution_step", "exit_index", "cause", "cells_moved")


class Compiled:
    """`ember_jax`; the first call of a task compiles."""

    name = "ember_jax"
    most_threads = cores()
    check_seeds = 512

    def can(self, _task: Task) -> bool:
        """Tell whether it does this task: it does all."""
        return True

    def run(self, task: Task, first: int, count: int, *, threads: int = 1, worlds: bool = False) -> Results:
        """Do a task (see `benchmarks.work.Program`)."""
        scenario = task.scenario
        seeds = np.arange(count, dtype=np.uint64) + np.uint64(first)
        if task.work is Work.WORLD:
            found = fire_summaries(scenario, seeds, threads=threads)
            results = {"burned": found.burned, "stream_position": found.stream_position}
            if worlds:
                results["ignition_step"] = fire_worlds(scenario, seeds, threads=threads).ignition_step
            return results
        if task.work is Work.REFERENCES:
            references = reference_summaries(scenario, seeds, threads=threads)
            names = ("earliest_evacuation", "fewest_moves", "fewest_danger_states", "burned", "stream_position")
            return {name: getattr(references, name) for name in names}
        if task.work is Work.ROLLOUT:
            return _episodes(scenario, seeds, str(task.policy), threads)
        if task.work is Work.EVIDENCE:
            return _columns(evidence(scenario, seeds, str(task.policy), threads=threads))
        actions = actions_of(len(scenario.people), count)
        return {"lanes": environment_steps(scenario, first, actions, count, threads=threads)}


class Plain:
    """The plain form of the evidence, one rule after another."""

    name = "ember_jax, plain"
    most_threads = cores()
    check_seeds = 64

    def can(self, task: Task) -> bool:
        """Tell whether it does this task."""
        return task.work is Work.EVIDENCE

    def run(self, task: Task, first: int, count: int, *, threads: int = 1, worlds: bool = False) -> Results:  # noqa: ARG002
        """Do a task (see `benchmarks.work.Program`)."""
        seeds = np.arange(count, dtype=np.uint64) + np.uint64(first)
        return _columns(plain.evidence(task.scenario, seeds, str(task.policy), threads=threads))


def _columns(found: plain.Evidence) -> Results:
    return {name: getattr(found, name) for name in plain.COLUMNS}


def _episodes(scenario: Scenario, seeds: np.ndarray, policy: str, threads: int) -> Results:
    """Run a policy in the fast form if it has one, else in the plain one."""
    if supports(scenario, policy):
        found = rollout_summaries(scenario, seeds, policy, threads=threads)
        return {name: getattr(found, name) for name in _EPISODE}
    parts = list(rollouts(scenario, seeds, policy))
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in _EPISODE}
