"""What the scenarios of the public suite measure, and every figure of `docs/suite.md` and `docs/baselines.md`.

Run as `python -m benchmarks.suite`: the pages and the pictures are written anew (about ten minutes on two cores).
`--check` writes nothing, and exits with 1 when a figure of a page is another one. Pictures need the `plot` extra.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks import baselines
from benchmarks.pages import blocks, filled, table
from ember_cli.console import enable_compilation_cache
from ember_jax.evidence import Evidence
from ember_jax.evidence_kernel import evidence
from ember_jax.fire_kernel import fire_worlds
from ember_jax.references_kernel import reference_summaries
from ember_jax.rollout import rollouts
from ember_jax.rollout_kernel import rollout_summaries, supports
from ember_jax.simulator import EVACUATED
from ember_ref.fire import NEVER
from ember_ref.scenario import FireModel, Scenario
from ember_ref.suite import SuiteFolder, load_suite
from scenarios.bundled import suite_path
from scenarios.public_suite import SUITE_ID, rank_correlation
from scoring.display import factor

SEEDS: Final = 1000
"""Every measure is over the seeds 0 to this, exclusive."""
CONGESTION_AWARE: Final = "congestion-aware-v1"
STATIC: Final = "static-shortest-path-v1"
DOCS: Final = Path(__file__).parents[1] / "docs"


class Crowd(NamedTuple):
    """What a policy's episodes came to, N seeds and P people."""

    evacuated: np.ndarray
    """bool[N, P]."""
    resolution_step: np.ndarray
    """int32[N, P]: the evacuation step of evacuees."""
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What one scenario measures over many seeds; shares and means are exact."""

    scenario: Scenario
    family: str
    applicable: Fraction
    """Share of seeds in which somebody can be saved."""
    unsavable: Fraction
    """Share of seeds in which somebody cannot be saved."""
    queue: Fraction
    """Mean of `Q_exit` over the sum of `L_i`, evacuees of the congestion-aware policy."""
    cut: Fraction
    """Share of congestion-aware runs with `Q_cut > Q_exit`."""
    recoverable: Fraction
    """Share of static runs with a recoverable route invalidation."""
    exit_lost: Fraction
    """Share of congestion-aware runs in which an exit burns before the last evacuation."""
    same: Fraction
    """Share of seeds in which the static and the congestion-aware policy evacuate the same people."""
    slower: Fraction
    """Mean over these seeds of the static policy's sum of evacuation steps over the congestion-aware policy's."""
    median_step: int
    """Median evacuation step of the congestion-aware policy's evacuees."""
    reached: np.ndarray
    """float[R, C]: the share of fires that have reached a cell by the median evacuation step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A figure that says that a family means what its name says."""

    scenario: str
    what: str
    least: Fraction
    found: Fraction
    most: Fraction | None = None

    @property
    def holds(self) -> bool:
        """Whether the figure is in its bounds."""
        return self.least <= self.found and (self.most is None or self.found <= self.most)


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a figure differs")
    check = parser.parse_args().check
    enable_compilation_cache()
    target = load_suite(suite_path(SUITE_ID))
    measured = measure(target, SEEDS)
    pages = {
        "suite.md": suite_figures(target, measured),
        "baselines.md": baselines.figures(target),
    }
    stale = []
    for name, figures in pages.items():
        old = (DOCS / name).read_text(encoding="utf-8")
        new = filled(old, figures, what=name)
        stale += [f"{name}: {block}" for block, text in blocks(old).items() if text != figures[block]]
        if not check:
            (DOCS / name).write_text(new, encoding="utf-8")
    if not check:
        (DOCS / "pictures").mkdir(exist_ok=True)
        for scenario in measured:
            draw(scenario, DOCS / "pictures" / f"{scenario.scenario.id}.png")
    for place in stale:
        print(f"{place} {'is out of date' if check else 'written anew'}", file=sys.stderr)
    if check and stale:
        sys.exit(1)


def measure(target: SuiteFolder, seeds: int) -> list[Measures]:
    """Measure every scenario of a suite over the seeds 0 to `seeds`, exclusive."""
    return [
        _measure(target.scenarios[entry.scenario_id], entry.primary_family, np.arange(seeds, dtype=np.uint64))
        for entry in target.suite.entries
    ]


def _measure(scenario: Scenario, family: str, seeds: np.ndarray) -> Measures:
    congestion, static = crowd(scenario, seeds, CONGESTION_AWARE), crowd(scenario, seeds, STATIC)
    fires = fire_worlds(scenario, seeds).ignition_step
    last = np.where(congestion.evacuated, congestion.resolution_step, 0).max(axis=1)
    exits = np.stack([fires[:, row, col] for row, col in (exit.position for exit in scenario.exits)], axis=1)
    same = (congestion.evacuated == static.evacuated).all(axis=1) & congestion.evacuated.any(axis=1)
    steps = congestion.resolution_step[congestion.evacuated]
    median_step = int(median(steps.tolist()))
    applicable, unsavable = survival(scenario, seeds)
    return Measures(
        scenario=scenario,
        family=family,
        applicable=applicable,
        unsavable=unsavable,
        queue=_mean_ratio(congestion.evidence.exit_bound, congestion.evidence.sum_earliest),
        cut=_share(congestion.evidence.time_bound > congestion.evidence.exit_bound),
        recoverable=_share(static.evidence.recoverable_route_invalidations > 0),
        exit_lost=_share((exits <= last[:, None]).any(axis=1)),
        same=_share(same),
        slower=_mean_ratio(
            static.evidence.sum_evacuation_steps[same], congestion.evidence.sum_evacuation_steps[same]
        ),
        median_step=median_step,
        reached=(fires <= median_step).mean(axis=0),
    )


def crowd(scenario: Scenario, seeds: np.ndarray, policy: str) -> Crowd:
    """Run a policy under many seeds."""
    if supports(scenario, policy):
        fast = rollout_summaries(scenario, seeds, policy)
        status, resolution_step = fast.status, fast.resolution_step
    else:
        parts = [(part.status, part.resolution_step) for part in rollouts(scenario, seeds, policy)]
        status, resolution_step = (np.concatenate(field) for field in zip(*parts, strict=True))
    return Crowd(
        evacuated=np.asarray(status == EVACUATED),
        resolution_step=np.asarray(resolution_step),
        evidence=evidence(scenario, seeds, policy),
    )


def survival(scenario: Scenario, seeds: np.ndarray) -> tuple[Fraction, Fraction]:
    """Return the share of seeds in which somebody can be saved, and that in which somebody cannot."""
    savable = reference_summaries(scenario, seeds).earliest_evacuation != NEVER
    return _share(savable.any(axis=1)), _share(~savable.all(axis=1))


def walks(scenario: Scenario) -> list[int]:
    """Return everybody's walking distance to the nearest exit, in ID order."""
    distances = scenario.grid.distances(exit.position for exit in scenario.exits)
    return [distances[person.position] for person in scenario.people]


def detours(scenario: Scenario) -> list[Fraction]:
    """Return everybody's walking distance over the Manhattan distance, each to the nearest exit."""
    exits = [exit.position for exit in scenario.exits]
    flights = [
        min(abs(row - exit_row) + abs(col - exit_col) for exit_row, exit_col in exits)
        for row, col in (person.position for person in scenario.people)
    ]
    return [Fraction(walk, flight) for walk, flight in zip(walks(scenario), flights, strict=True)]


def criteria(measured: Sequence[Measures]) -> list[Criterion]:
    """Return the figures that show that the families mean what they say."""
    by_family = {item.family: item for item in measured}

    def of(family: str, what: str, least: str, name: str) -> Criterion:
        item = by_family[family]
        return Criterion(scenario=item.scenario.id, what=what, least=Fraction(least), found=getattr(item, name))

    slower = "mean of the evacuation steps, static over congestion-aware, where both evacuate the same people"
    maze = by_family["maze"].scenario
    return [
        of("single_exit_high_density", "mean `Q_exit` / sum of `L_i`", "1.5", "queue"),
        of("narrow_corridor_bottleneck", "share of congestion-aware runs with `Q_cut > Q_exit`", "0.6", "cut"),
        of("multiple_exits", slower, "1.15", "slower"),
        of("route_invalidation", "share of static runs with a recoverable event", "0.6", "recoverable"),
        of(
            "exit_loss",
            "share of congestion-aware runs in which an exit burns before the last evacuation",
            "0.3",
            "exit_lost",
        ),
        of("asymmetric_exits", slower, "1.15", "slower"),
        Criterion(
            scenario=maze.id,
            what="median walking distance / Manhattan distance to the nearest exit",
            least=Fraction(3),
            found=median(detours(maze)),
        ),
        Criterion(
            scenario="every scenario",
            what="least share of seeds with `M* >= 1`",
            least=Fraction(99, 100),
            found=min(item.applicable for item in measured),
        ),
        Criterion(
            scenario="the suite",
            what="scenarios in which somebody is unsavable in 1 to 50 % of seeds",
            least=Fraction(5),
            found=Fraction(
                sum(Fraction(1, 100) <= item.unsavable <= Fraction(1, 2) for item in measured),
            ),
        ),
    ]


def suite_figures(target: SuiteFolder, measured: Sequence[Measures]) -> dict[str, str]:
    """Return the blocks of `docs/suite.md`."""
    return {
        "scenarios": scenario_table(target),
        "identifiers": identifier_table(target),
        "criteria": table(
            ("Scenario", "Figure", "Wanted", "Measured", "Holds"),
            (
                (row.scenario, row.what, f"at least {float(row.least):g}", factor(row.found), _yes(row.holds))
                for row in criteria(measured)
            ),
        ),
        "measures": table(
            (
                "Scenario",
                "`M* >= 1`",
                "somebody unsavable",
                "`Q_exit` / sum `L_i`",
                "`Q_cut > Q_exit`",
                "recoverable event",
                "exit lost",
                "static / congestion-aware steps",
                "same people",
                "median evacuation step",
            ),
            (
                (
                    item.scenario.id,
                    *map(factor, (item.applicable, item.unsavable, item.queue, item.cut, item.recoverable)),
                    *map(factor, (item.exit_lost, item.slower, item.same)),
                    str(item.median_step),
                )
                for item in measured
            ),
        ),
    }


def scenario_table(target: SuiteFolder) -> str:
    """Return the block that says what the scenarios are made of."""
    return table(
        ("Scenario", "Size", "People", "Exits", "Fire", "Ignitions", "Exits burn", "Horizon", "Content hash"),
        (
            (
                scenario.id,
                f"{scenario.grid.height} x {scenario.grid.width}",
                str(len(scenario.people)),
                str(len(scenario.exits)),
                _fire(scenario),
                str(len(scenario.fire.ignitions)),
                _yes(scenario.fire.exits_flammable),
                str(scenario.termination.max_steps),
                f"`{scenario.content_hash[:12]}…`",
            )
            for scenario in target.scenarios.values()
        ),
    )


def identifier_table(target: SuiteFolder) -> str:
    """Return the block that shows that IDs say nothing of distances."""
    rows = []
    for scenario in target.scenarios.values():
        correlation = rank_correlation(walks(scenario))
        exact = f"{correlation.numerator}/{correlation.denominator}" if correlation else "0"
        rows.append((scenario.id, str(len(scenario.people)), exact, factor(correlation)))
    return table(("Scenario", "People", "Kendall's tau, exact", "tau"), rows)


def draw(item: Measures, file: Path) -> None:
    """Draw a scenario, with the share of fires that reach each cell by the median evacuation step."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    scenario = item.scenario
    height, width = scenario.grid.height, scenario.grid.width
    figure = Figure(figsize=(0.42 * width + 1.6, 0.42 * height + 1.3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    walls = np.full((height, width), np.nan)
    for row, col in scenario.grid.obstacles:
        walls[row, col] = 1.0
    share = np.where(np.isnan(walls), item.reached, np.nan)
    image = axes.imshow(share, cmap="OrRd", vmin=0.0, vmax=1.0)
    axes.imshow(walls, cmap=ListedColormap(["#37474f"]), vmin=0.0, vmax=1.0)
    figure.colorbar(image, ax=axes, shrink=0.8, label=f"share of fires there by step {item.median_step}")
    marks: tuple[tuple[Iterable[Any], str, str, float], ...] = (
        (scenario.exits, "s", "#2e7d32", 16.0),
        (scenario.people, "o", "#1565c0", 13.0),
    )
    for entries, marker, colour, size in marks:
        for entry in entries:
            row, col = entry.position
            axes.plot(col, row, marker, color=colour, markersize=size, markeredgecolor="white", markeredgewidth=0.5)
            axes.text(col, row, entry.id, color="white", fontsize=6, ha="center", va="center")
    for row, col in scenario.fire.ignitions:
        axes.plot(col, row, "*", color="#b71c1c", markersize=17.0, markeredgecolor="white", markeredgewidth=0.6)
    axes.set_xticks(range(0, width, 2))
    axes.set_yticks(range(0, height, 2))
    axes.set_title(scenario.id, fontsize=10)
    figure.savefig(file, dpi=80, metadata={"Software": None})


def _fire(scenario: Scenario) -> str:
    fire = scenario.fire
    if fire.model is FireModel.STOCHASTIC:
        return f"stochastic, p = {fire.spread_probability}"
    return f"deterministic, every {fire.spread_interval} steps"


def _share(mask: np.ndarray) -> Fraction:
    return Fraction(int(np.count_nonzero(mask)), len(mask))


def _mean_ratio(upper: np.ndarray, lower: np.ndarray) -> Fraction:
    """Return the exact mean of ratios, those with 0 below left out; 0 when none is left."""
    ratios = [Fraction(int(high), int(low)) for high, low in zip(upper, lower, strict=True) if low]
    return sum(ratios, start=Fraction(0)) / max(len(ratios), 1)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    main()
