"""How long a command takes on a machine that has never compiled it, and afterwards: `python -m benchmarks.cold`.

Every command is called twice as a process, with a compilation cache folder of its own that is empty at first.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.process import ember

FIRST, AFTERWARDS = 10.0, 4.0
"""Seconds that a command may take at first, and afterwards."""


def commands(scenario: str, folder: Path) -> dict[str, list[str]]:
    """Return the calls, by what the table says of them; sweeps go to new folders."""
    policies = ("static-shortest-path-v1", "fire-aware-shortest-path-v1", "congestion-aware-v1")
    calls = {
        "world": ["world", scenario, "--seeds", "0:10"],
        "references": ["references", scenario, "--seeds", "0:3"],
        "verify, one policy": ["verify", scenario, "--seeds", "0:2", "--policy", policies[0]],
        "verify": ["verify", scenario, "--seeds", "0:2"],
        "sweep, fires alone": ["sweep", scenario, "--seeds", "0:1000"],
        "bench world": ["bench", scenario, "--work", "world", "--seconds", "0.1"],
        "bench references": ["bench", scenario, "--work", "references", "--seconds", "0.1"],
    }
    for policy in policies:
        short = policy.removesuffix("-v1")
        calls[f"run {short}"] = ["run", scenario, "--seeds", "0:3", "--policy", policy]
        calls[f"sweep {short}"] = ["sweep", scenario, "--seeds", "0:1000", "--policy", policy]
        calls[f"sweep --no-evidence {short}"] = [*calls[f"sweep {short}"], "--no-evidence"]
        calls[f"bench {short}"] = ["bench", scenario, "--work", "rollout", "--policy", policy, "--seconds", "0.1"]
    for number, call in enumerate(calls.values()):
        if call[0] == "sweep":
            call += ["--out", str(folder / f"sweep-{number}"), "--restart"]
    return dict(sorted(calls.items()))


def main() -> None:
    """Print a table and a JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?", default="v1-pub-04-multiple-exits")
    parser.add_argument("--only", help="only calls whose name has this text")
    given = parser.parse_args()
    table = Table(title=f"Cold start, {given.scenario}")
    table.add_column("command")
    for name in ("first s", "CPU s", "afterwards s", "CPU s", "MiB"):
        table.add_column(name, justify="right")
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, call in commands(given.scenario, folder).items():
            if given.only and given.only not in name:
                continue
            with tempfile.TemporaryDirectory(dir=folder) as cache:
                first, after = (ember(call, {"XDG_CACHE_HOME": cache, "EMBER_CACHE": ""}) for _ in range(2))
            line = {
                "command": name,
                "first_s": round(first.wall, 2),
                "first_cpu_s": round(first.cpu, 2),
                "afterwards_s": round(after.wall, 2),
                "afterwards_cpu_s": round(after.cpu, 2),
                "peak_mib": max(first.peak_mib, after.peak_mib),
            }
            lines.append(line)
            style = "red" if first.cpu > FIRST or after.cpu > AFTERWARDS else ""
            table.add_row(*(str(value) for value in line.values()), style=style)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(f"Wanted: {FIRST} s at first, {AFTERWARDS} s afterwards; red where the CPU time alone is more.")
    for line in lines:
        print(json.dumps(line, sort_keys=True))


if __name__ == "__main__":
    main()
