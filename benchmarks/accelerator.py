"""Rates of whatever device JAX finds, with digests checked: `python -m benchmarks.accelerator [SCENARIO …]`.

Prepared for an accelerator; runs on a CPU too. For each kind of work both forms are measured: the kernels of
`ember_jax`, made for scalar loops over wide lanes, and the plain forms, dense over cells and vmapped over seeds. The
first seeds are compared with the oracle before anything is timed; a form that differs fails the script. The batch
is doubled until the rate has twice not grown by a tenth.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.compiled import Compiled
from benchmarks.oracle import Oracle
from benchmarks.question import targets
from benchmarks.work import Task, Work, digest
from ember_jax import fire, references, rollout

CHECKED = 8
"""Seeds that are compared with the oracle."""
_POLICIES = ("static-shortest-path-v1", "fire-aware-shortest-path-v1", "congestion-aware-v1")
_MOST = 1 << 20

Run = Callable[[int, int], Mapping[str, np.ndarray]]
"""From a first seed and a count to results."""


def plain(task: Task) -> Run:
    """Return the plain form of a task, with the arrays of `benchmarks.work`."""
    scenario = task.scenario
    cells = [person.position for person in scenario.people]
    rows, cols = (np.array(part) for part in zip(*cells, strict=True))

    def seeds(first: int, count: int) -> np.ndarray:
        return np.arange(count, dtype=np.uint64) + np.uint64(first)

    def worlds(first: int, count: int) -> Mapping[str, np.ndarray]:
        found = fire.fire_worlds(scenario, seeds(first, count))
        return {"burned": found.burned.astype(np.uint32), "stream_position": found.stream_position}

    def tables(first: int, count: int) -> Mapping[str, np.ndarray]:
        parts = []
        for found, layer in references.first_layers(scenario, seeds(first, count)):
            names = ("earliest_evacuation", "fewest_moves", "fewest_danger_states")
            part: dict[str, Any] = {
                name: np.asarray(table)[:, rows, cols] for name, table in zip(names, layer, strict=True)
            }
            part |= {"burned": found.burned.astype(np.uint32), "stream_position": found.stream_position}
            parts.append(part)
        return _joined(parts)

    def episodes(first: int, count: int) -> Mapping[str, np.ndarray]:
        names = ("steps", "status", "resolution_step", "exit_index", "cause", "cells_moved")
        found = rollout.rollouts(scenario, seeds(first, count), str(task.policy))
        return _joined([{name: getattr(part, name) for name in names} for part in found])

    return {Work.WORLD: worlds, Work.REFERENCES: tables, Work.ROLLOUT: episodes}[task.work]


def kernel(task: Task) -> Run:
    """Return the fast form of a task."""
    program = Compiled()
    return lambda first, count: program.run(task, first, count, threads=program.most_threads)


def _joined(parts: list[dict[str, Any]]) -> Mapping[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def measure(run: Run, seconds: float) -> tuple[int, float]:
    """Return the best batch and its rate."""
    count, best, rate, worse = 128, 128, 0.0, 0
    while count <= _MOST and worse < 2:
        run(1 << 40, count)  # a new batch may compile
        calls, start = 0, time.monotonic()
        while not calls or time.monotonic() - start < seconds / 4:
            run(calls * count, count)
            calls += 1
        now = calls * count / (time.monotonic() - start)
        worse = 0 if now > 1.1 * rate else worse + 1
        if now > rate:
            best, rate = count, now
        count *= 2
        if count / now > 4 * seconds:
            break
    return best, rate


def main() -> int:
    """Print a table and JSON lines; return 1 when a form differs from the oracle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=["bench-20", "bench-64"])
    parser.add_argument("--seconds", type=float, default=2.0, help="about how long a rate is measured")
    parser.add_argument("--forms", nargs="+", choices=["kernel", "plain"], default=["kernel", "plain"])
    given = parser.parse_args()
    table = Table(title=f"{len(jax.local_devices())} x {jax.devices()[0].device_kind}")
    for name in ("scenario", "work", "policy", "form"):
        table.add_column(name)
    for name in ("rate /s", "batch", "first result s"):
        table.add_column(name, justify="right")
    table.add_column("digest")
    lines, held = [], True
    for work, policy in [(Work.WORLD, None), (Work.REFERENCES, None), *((Work.ROLLOUT, name) for name in _POLICIES)]:
        for target in targets(given.scenarios, work, policy):
            (task,) = target.tasks
            expected = digest(Oracle().run(task, 0, CHECKED), CHECKED)
            for form in given.forms:
                run = {"kernel": kernel, "plain": plain}[form](task)
                start = time.monotonic()
                equal = digest(run(0, CHECKED), CHECKED) == expected
                first = time.monotonic() - start
                held &= equal
                batch, rate = measure(run, given.seconds)
                line = {
                    "device": jax.devices()[0].device_kind,
                    "devices": len(jax.local_devices()),
                    "jax": jax.__version__,
                    "scenario": target.name,
                    "work": str(work),
                    "policy": policy,
                    "form": form,
                    "per_s": round(rate, 1),
                    "batch": batch,
                    "first_result_s": round(first, 2),
                    "digest": expected if equal else "differs",
                }
                lines.append(line)
                names = (target.name, str(work), policy or "", form, f"{rate:,.0f}", f"{batch:,}", f"{first:.2f}")
                table.add_row(*names, expected[:12] if equal else "DIFFERS")
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    for line in lines:
        print(json.dumps(line, sort_keys=True))
    print(hashlib.sha256("".join(line["digest"] for line in lines).encode("ascii")).hexdigest())
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
