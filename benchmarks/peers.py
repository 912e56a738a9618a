"""Whole steps against other grid environments with many agents: `python -m benchmarks.peers [--keep FOLDER]`.

Jumanji's Cleaner and Connector and POGEMA, at 20x20 with 20 agents, are installed from the package index into
environments of their own in a temporary folder, never into this one, and run as processes. Their rounds and ours
alternate; each program has the machine to itself in its rounds and may use all its cores. Of the batch sizes
tried, the fastest counts.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.compiled import Compiled
from benchmarks.environment import STEPS
from benchmarks.question import FILES
from benchmarks.work import Task, Work
from ember_jax.kernel import cores
from ember_ref.scenario import load_scenario

PEERS = {"jumanji": "peer_jumanji.py", "pogema": "peer_pogema.py"}
_LANES = 1 << 13


def environment_of(package: str, folder: Path) -> Path:
    """Make an environment with a package, if it is not there yet; return its interpreter."""
    python = folder / package / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / package)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", package], check=True)
    return python


def rounds_of(python: Path, script: str, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Run a peer's script and return its lines."""
    path = Path(__file__).parent / script
    command = [str(python), str(path), str(rounds), str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ours(threads: int, seconds: float) -> dict[str, Any]:
    """Return a round of this project's whole step."""
    task = Task(work=Work.STEP, scenario=load_scenario(FILES / "bench-20.json"))
    program = Compiled()
    begin = time.monotonic()
    program.run(task, 0, 1)
    first = time.monotonic() - begin
    program.run(task, 0, _LANES, threads=threads)
    calls, begin, cpu = 0, time.monotonic(), time.process_time()
    while time.monotonic() - begin < seconds:
        program.run(task, calls * _LANES, _LANES, threads=threads)
        calls += 1
    return {
        "peer": f"EMBER whole step, {threads} threads",
        "version": "",
        "lanes": _LANES,
        "steps": calls * STEPS * _LANES,
        "wall": time.monotonic() - begin,
        "cpu": time.process_time() - cpu,
        "compile_seconds": first,
    }


def main() -> None:
    """Print a table and the JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="a folder for the environments, kept and used again")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        pythons = {package: environment_of(package, folder) for package in PEERS}
        lines = []
        for _ in range(given.rounds):
            for package, script in PEERS.items():
                lines += rounds_of(pythons[package], script, 1, given.seconds)
            lines += [ours(threads, given.seconds) for threads in sorted({1, cores()})]
    _print(lines)


def _print(lines: list[dict[str, Any]]) -> None:
    rounds = defaultdict(list)
    for line in lines:
        rounds[line["peer"], line["lanes"]].append(line)
    best: dict[str, dict[str, Any]] = {}
    for (peer, lanes), made in rounds.items():
        row = {
            "peer": peer,
            "version": made[0]["version"],
            "lanes": lanes,
            "steps_per_s": round(statistics.median(one["steps"] / one["wall"] for one in made)),
            "steps_per_cpu_s": round(statistics.median(one["steps"] / one["cpu"] for one in made)),
            "first_result_s": round(made[0]["compile_seconds"], 2),
            "cpu_use": [round(one["cpu"] / one["wall"], 2) for one in made],
        }
        if peer not in best or row["steps_per_cpu_s"] > best[peer]["steps_per_cpu_s"]:
            best[peer] = row
    yardstick = best["Jumanji Cleaner"]
    table = Table(title="Whole steps of environments, 20x20 with 20 agents")
    for name in ("environment", "version", "lanes", "steps /s", "per CPU s", "factor", "(CPU)", "first result s"):
        table.add_column(name, justify="left" if name in {"environment", "version"} else "right")
    table.add_column("CPU use of each round")
    for row in best.values():
        for clock in ("s", "cpu_s"):
            row[f"factor_{clock}"] = round(row[f"steps_per_{clock}"] / yardstick[f"steps_per_{clock}"], 3)
        table.add_row(
            row["peer"],
            row["version"],
            str(row["lanes"]),
            f"{row['steps_per_s']:,}",
            f"{row['steps_per_cpu_s']:,}",
            f"{row['factor_s']:.3g}",
            f"{row['factor_cpu_s']:.3g}",
            f"{row['first_result_s']}",
            " ".join(f"{use:.2f}" for use in row["cpu_use"]),
        )
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    console.print("A factor is over Jumanji's Cleaner, by wall time and by CPU time.")
    for row in best.values():
        print(json.dumps(row, sort_keys=True))


if __name__ == "__main__":
    main()
