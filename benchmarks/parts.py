"""What the time of the kernels is made of: `python -m benchmarks.parts [SCENARIO …]`.

A kernel is one piece of machine code, so its parts are told apart by leaving work out, in CPU time on one thread:

- start: the same seeds with a horizon of one step (hashing the stream seeds, laying out, results);
- success bits: a kernel that only makes as many rows of 32 draws as the tiles of these seeds need;
- visits: the rest of a fire world (finding candidates, dealing bits to them, counting steps);
- tables: worlds with references without the worlds;
- policies: whole rollouts; what one costs more than the static policy's is its ways.

Lane use says how much of a tile's work is done for lanes that need it: the mean over the greatest of 128 lanes of
the words drawn, and of the steps until the fire stands still.
"""

import dataclasses
import json
import sys
import time
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from rich.console import Console
from rich.table import Table

from benchmarks.compiled import Compiled
from benchmarks.question import parser, targets
from benchmarks.work import Task, Work
from ember_jax.fire_kernel import _row, fire_size, fire_worlds, terrain
from ember_jax.kernel import LANES, Kernel
from ember_ref.fire import NEVER
from ember_ref.scenario import Scenario

SEEDS = 1 << 13
_ROUNDS = 3
_POLICIES = ("static-shortest-path-v1", "fire-aware-shortest-path-v1", "congestion-aware-v1")


def cost(call: Any) -> float:
    """Return the CPU microseconds a seed of a call for `SEEDS` seeds, the least of some rounds."""
    call(0)
    times = []
    for turn in range(_ROUNDS):
        start = time.process_time()
        call(turn * SEEDS)
        times.append(time.process_time() - start)
    return 1e6 * min(times) / SEEDS


def of_task(task: Task) -> float:
    """Return the CPU microseconds a seed of a task."""
    program = Compiled()
    return cost(lambda first: program.run(task, first, SEEDS))


def _rows(_static: Any, ground: Any, rows: Array, states: Array) -> Array:
    def tile(arguments: tuple[Array, Array]) -> Array:
        count, state = arguments
        nothing = jnp.zeros(LANES, dtype=jnp.uint32)
        made: Array = lax.fori_loop(jnp.int32(0), count, lambda row, seen: seen ^ _row(ground, state, row), nothing)
        return made

    result: Array = lax.map(tile, (rows, states))
    return result


_ROWS = Kernel(_rows)


def parts_of(scenario: Scenario) -> dict[str, float]:
    """Return the parts in CPU microseconds a seed, and the lane use."""
    world = of_task(Task(work=Work.WORLD, scenario=scenario))
    short = dataclasses.replace(scenario, termination=dataclasses.replace(scenario.termination, max_steps=1))
    start = of_task(Task(work=Work.WORLD, scenario=short))
    fires = fire_worlds(scenario, np.arange(SEEDS, dtype=np.uint64))
    drawn = fires.stream_position.astype(np.int64).reshape(-1, LANES)
    burns = np.where(fires.ignition_step == NEVER, 0, fires.ignition_step)
    last = burns.max(axis=(1, 2)).astype(np.int64).reshape(-1, LANES)
    rows = (drawn.max(axis=1) // 32 + 3).astype(np.int32)
    ground = terrain(scenario, fire_size(scenario))
    states = np.arange(SEEDS, dtype=np.uint64).reshape(-1, LANES) * np.uint64(0x9E3779B97F4A7C15)
    bits = cost(lambda _: _ROWS(None, ground, rows, states))
    found = {
        "fire world": world,
        "start": start,
        "success bits": bits,
        "visits": world - start - bits,
        "lane use, draws": float(np.mean(drawn.mean(axis=1) / drawn.max(axis=1))),
        "lane use, steps": float(np.mean(last.mean(axis=1) / last.max(axis=1))),
        "tables": of_task(Task(work=Work.REFERENCES, scenario=scenario)) - world,
    }
    for policy in _POLICIES:
        found[policy.removesuffix("-v1")] = of_task(Task(work=Work.ROLLOUT, scenario=scenario, policy=policy))
    return found


def main() -> None:
    """Print a table and a JSON line for each scenario."""
    given = parser(__doc__ or "").parse_args()
    named = given.scenarios or ["bench-20", "bench-20-slow", "bench-64", "bench-64-slow"]
    table = Table(title="CPU microseconds a seed, one thread")
    table.add_column("part")
    lines = []
    for target in targets(named, Work.WORLD, None):
        (task,) = target.tasks
        lines.append({"scenario": target.name} | parts_of(task.scenario))
        table.add_column(target.name, justify="right")
    for part in list(lines[0])[1:]:
        table.add_row(part, *(f"{line[part]:.3g}" for line in lines))
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    for line in lines:
        print(json.dumps(line, sort_keys=True))


if __name__ == "__main__":
    main()
