"""How cost grows with the grid, the people, the horizon and the batch: `python -m benchmarks.growth [--plot FILE]`.

One thing is changed at a time, the rest is a 32x32 grid with 20 people, 100 steps and batches of 16,384. The
maps are drawn here: 18 % of the cells are walls. Cost is CPU time a seed on one thread, the least of three rounds.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.compiled import Compiled
from benchmarks.work import Task, Work
from ember_cli.console import enable_compilation_cache
from ember_ref.scenario import Scenario, parse_scenario

BASE = {"side": 32, "people": 20, "horizon": 100, "batch": 1 << 14}
AXES = {
    "side": (10, 20, 32, 64, 128),
    "people": (1, 8, 20, 64),
    "horizon": (25, 50, 100, 200),
    "batch": (1, 16, 128, 1024, 1 << 14),
}
WORKS = {
    "fire world": (Work.WORLD, None),
    "references": (Work.REFERENCES, None),
    "static": (Work.ROLLOUT, "static-shortest-path-v1"),
    "fire-aware": (Work.ROLLOUT, "fire-aware-shortest-path-v1"),
    "congestion-aware": (Work.ROLLOUT, "congestion-aware-v1"),
}
_ROUNDS = 3
_SECONDS = 0.2


def drawn(side: int, people: int, horizon: int) -> Scenario:
    """Draw a map: walls at random, two exits in opposite corners, a fire in the middle."""
    source = random.Random(side)
    exits, fire = [[0, 0], [side - 1, side - 1]], [side // 2, side // 2]
    cells = [[row, col] for row in range(side) for col in range(side) if [row, col] not in [*exits, fire]]
    source.shuffle(cells)
    walls = side * side * 18 // 100
    document = {
        "schema_version": "1.0",
        "id": f"growth-{side}-{people}-{horizon}",
        "description": "",
        "seed": 0,
        "grid": {"width": side, "height": side, "obstacles": cells[:walls]},
        "exits": [{"id": f"E{i}", "position": cell} for i, cell in enumerate(exits)],
        "people": [{"id": f"P{i}", "position": cell} for i, cell in enumerate(cells[walls : walls + people])],
        "fire": {
            "model": "stochastic",
            "ignitions": [fire],
            "spread_interval": 1,
            "spread_probability": 0.3,
            "exits_flammable": False,
        },
        "movement": {"enter_fire": "casualty", "conflict_resolution": "lowest_id_wins"},
        "termination": {"max_steps": horizon},
    }
    return parse_scenario(json.dumps(document).encode("ascii"))


def cost(task: Task, batch: int) -> float:
    """Return the CPU time of a seed in seconds."""
    program, best, first = Compiled(), float("inf"), 0
    program.run(task, 0, min(batch, 128))
    for _ in range(_ROUNDS):
        done, start = 0, time.process_time()
        while not done or time.process_time() - start < _SECONDS:
            program.run(task, first, batch)
            done, first = done + batch, first + batch
        best = min(best, (time.process_time() - start) / done)
    return best


def measured() -> Iterator[dict[str, Any]]:
    """Yield a line for every axis, value and kind of work."""
    for axis, values in AXES.items():
        for value in values:
            at = BASE | {axis: value}
            scenario = drawn(at["side"], at["people"], at["horizon"])
            batch = min(at["batch"], (1 << 24) // scenario.grid.height**2)
            for name, (work, policy) in WORKS.items():
                task = Task(work=work, scenario=scenario, policy=policy)
                yield {"axis": axis, "value": value, "work": name, "us_per_seed": round(1e6 * cost(task, batch), 3)}


def plot(lines: list[dict[str, Any]], file: Path) -> None:
    """Draw a panel for every axis."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams |= {"svg.hashsalt": "growth", "svg.fonttype": "none"}
    figure, panels = pyplot.subplots(1, len(AXES), figsize=(13, 3.6), sharey=True)
    for panel, axis in zip(panels, AXES, strict=True):
        for name in WORKS:
            points = [(x["value"], x["us_per_seed"]) for x in lines if x["axis"] == axis and x["work"] == name]
            panel.loglog(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        panel.set_xlabel(axis)
        panel.grid(visible=True, which="major", linewidth=0.3)
    panels[0].set_ylabel("CPU microseconds a seed")
    panels[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Print a table and the JSON lines, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="an SVG file to write")
    given = parser.parse_args()
    enable_compilation_cache()
    lines = list(measured())
    table = Table(title="CPU microseconds a seed, one thread")
    table.add_column("axis")
    for name in ("value", *WORKS):
        table.add_column(name, justify="right")
    for axis, values in AXES.items():
        for value in values:
            found = [x["us_per_seed"] for x in lines if (x["axis"], x["value"]) == (axis, value)]
            table.add_row(axis, f"{value:,}", *(f"{number:,.2f}" for number in found))
        table.add_section()
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    for line in lines:
        print(json.dumps(line, sort_keys=True))
    if given.plot:
        plot(lines, given.plot)


if __name__ == "__main__":
    main()
