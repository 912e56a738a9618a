"""The work that is compared: what a program is given, and the arrays that it must return.

Every program returns the same arrays for the same task and seeds, bit for bit, so its rounds can be checked
by one number and its first results by a digest.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from ember_ref.scenario import Scenario

Results = Mapping[str, np.ndarray]
MASK = (1 << 64) - 1


class Work(StrEnum):
    """One kind of work.

    `WORLD` gives `burned` and `stream_position` [N]; `REFERENCES` adds `earliest_evacuation`, `fewest_moves` and
    `fewest_danger_states` [N, P]; `ROLLOUT` gives `steps` [N] and `status`, `resolution_step`, `exit_index`, `cause`
    and `cells_moved` [N, P]; `EVIDENCE` gives the columns of `ember_jax.evidence` [N]; `STEP` gives `lanes` [N, 9],
    see `benchmarks.environment`.
    """

    WORLD = "world"
    REFERENCES = "references"
    ROLLOUT = "rollout"
    EVIDENCE = "evidence"
    STEP = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of work on one scenario."""

    work: Work
    scenario: Scenario
    policy: str | None = None


class Program(Protocol):
    """A program that does some of the work."""

    name: str
    most_threads: int
    check_seeds: int
    """Seeds whose results are compared before anything is timed."""

    def can(self, task: Task) -> bool:
        """Tell whether it does this task."""

    def run(self, task: Task, first: int, count: int, *, threads: int = 1, worlds: bool = False) -> Results:
        """Do a task for the seeds first, first + 1, ...; with `worlds` also `ignition_step` [N, height, width]."""


def checksum(results: Results) -> int:
    """Return the sum of all results modulo 2^64."""
    return sum(int(array.astype(np.uint64).sum(dtype=np.uint64)) for array in results.values()) & MASK


def digest(results: Results, count: int) -> str:
    """Return the SHA-256 of the results of the first `count` seeds, by name."""
    hasher = hashlib.sha256()
    for name in sorted(results):
        hasher.update(name.encode("ascii") + b"\0" + results[name][:count].astype("<u8").tobytes())
    return hasher.hexdigest()
