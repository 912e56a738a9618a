"""`ember sweep` from end to end, Parquet included, against the kernels alone: `python -m benchmarks.sweeps`.

The command runs as a process with a warm compilation cache; its own start is measured apart, by a sweep of
one seed. The kernels make the same rows' references and rollouts in this process, in turn with it.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.compiled import Compiled
from benchmarks.process import Finished, ember
from benchmarks.work import Task, Work
from ember_cli.console import scenario_of
from ember_jax.kernel import cores


def main() -> None:
    """Print a table and a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?", default="v1-pub-04-multiple-exits")
    parser.add_argument("--policy", default="static-shortest-path-v1")
    parser.add_argument("--seeds", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _sweep(Path(folder), given, 1)  # fills the cache
        begin = _sweep(Path(folder), given, 1)
        pairs = [(_sweep(Path(folder), given, given.seeds), *_kernels(given)) for _ in range(given.pairs)]

    def median(values: list[float]) -> float:
        return statistics.median(values)

    line = {
        "scenario": given.scenario,
        "policy": given.policy,
        "seeds": given.seeds,
        "start_s": round(begin.wall, 2),
        "sweep_s": round(median([sweep.wall for sweep, _, _ in pairs]), 2),
        "sweep_cpu_s": round(median([sweep.cpu for sweep, _, _ in pairs]), 2),
        "peak_mib": max(sweep.peak_mib for sweep, _, _ in pairs),
        "cpu_use": [round(sweep.cpu / sweep.wall, 2) for sweep, _, _ in pairs],
        "kernels_s": round(median([wall for _, wall, _ in pairs]), 2),
        "kernels_cpu_s": round(median([cpu for _, _, cpu in pairs]), 2),
        "kernels_cpu_use": [round(cpu / wall, 2) for _, wall, cpu in pairs],
        "share": round(median([wall / (sweep.wall - begin.wall) for sweep, wall, _ in pairs]), 2),
        "share_cpu": round(median([cpu / (sweep.cpu - begin.cpu) for sweep, _, cpu in pairs]), 2),
    }
    table = Table(title="A sweep against its kernels")
    table.add_column("what")
    table.add_column("value", justify="right")
    for name, value in line.items():
        table.add_row(name, str(value))
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print("`share` is the sweep's rate without its start over the kernels', by wall time and by CPU time.")
    print(json.dumps(line, sort_keys=True))


def _sweep(folder: Path, given: argparse.Namespace, seeds: int) -> Finished:
    options = ["--seeds", f"0:{seeds}", "--policy", given.policy, "--no-evidence", "--json"]
    with tempfile.TemporaryDirectory(dir=folder) as out:
        return ember(["sweep", given.scenario, *options, "--out", str(Path(out) / "sweep")])


def _kernels(given: argparse.Namespace) -> tuple[float, float]:
    """Return the wall and CPU time of the kernels for the rows of the sweep."""
    scenario, program, batch = scenario_of(given.scenario), Compiled(), 1 << 14
    tasks = [
        Task(work=Work.REFERENCES, scenario=scenario),
        Task(work=Work.ROLLOUT, scenario=scenario, policy=given.policy),
    ]
    for task in tasks:
        program.run(task, 0, 1)
    wall, cpu = time.monotonic(), time.process_time()
    for first in np.arange(0, given.seeds, batch).tolist():
        for task in tasks:
            program.run(task, first, min(batch, given.seeds - first), threads=cores())
    return time.monotonic() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main()
