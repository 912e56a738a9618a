"""What the built-in policies score on the public suite: every figure of `docs/baselines.md`.

`python -m benchmarks.suite` writes them. Two packs are evaluated and scored as the command does it: the development
seeds 0, 1, 2, and twenty seeds that were drawn once at random (`benchmarks/baseline_seeds.txt`).
"""

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from benchmarks.pages import table
from ember_cli.compiled_references import CompiledReferences
from ember_jax.rollout import records
from ember_jax.world import WorldSize, padded_size
from ember_ref.movement import MoveOutcome
from ember_ref.policies import POLICY_NAMES
from ember_ref.record import RunRecord
from ember_ref.references import references
from ember_ref.scenario import Scenario
from ember_ref.suite import Pack, SuiteFolder, schedule
from scoring.assessment import score_results
from scoring.comparison import compare
from scoring.constants import CONSTANTS_DIGEST, SCORING_VERSION
from scoring.display import factor, points
from scoring.evaluation import fire_world_digests, open_result
from scoring.hierarchy import ScoreInterval
from scoring.leaderboard import leaderboard
from scoring.report import EpisodeReport, ScoreReport
from scoring.runner import evaluate, record_outcomes
from scoring.score import COMPONENTS

DEVELOPMENT_SEEDS: Final = (0, 1, 2)
SEEDS_FILE: Final = Path(__file__).parent / "baseline_seeds.txt"
TOLD: Final = 3
"""How many episodes of the best baseline are told person by person."""


class Loss(NamedTuple):
    """Somebody who could have been saved and was not."""

    person: str
    start: str
    earliest: int
    """The step by which this person alone could have left."""
    end: str
    """When, where and how it ended."""
    moved: int
    waited: int
    """Steps without a move, before the end."""


def figures(target: SuiteFolder) -> dict[str, str]:
    """Return the blocks of `docs/baselines.md`."""
    random_seeds = [int(line) for line in SEEDS_FILE.read_text(encoding="utf-8").split()]
    blocks: dict[str, str] = {}
    for name, seeds in (("development", DEVELOPMENT_SEEDS), ("random", random_seeds)):
        pack = pack_of(target, f"baselines-{name}", seeds)
        reports = score_policies(pack)
        blocks |= {f"{name}-{block}": text for block, text in score_figures(reports).items()}
        if name == "development":
            blocks["losses"] = loss_figures(pack, reports[0])
    return blocks


def pack_of(target: SuiteFolder, pack_id: str, seeds: Sequence[int]) -> Pack:
    """Return the pack of a suite under some seeds."""
    manifest = schedule(target.suite, {entry.scenario_id: seeds for entry in target.suite.entries})
    return Pack(
        pack_id=pack_id,
        suite=target.suite,
        scenarios=target.scenarios,
        manifest=manifest,
        fire_worlds=tuple(fire_world_digests(target, manifest, workers=os.cpu_count() or 1)),
        scoring_version=SCORING_VERSION,
        constants_digest=CONSTANTS_DIGEST,
    )


def score_policies(pack: Pack) -> list[ScoreReport]:
    """Evaluate and score every built-in policy; return the reports in the order of the leaderboard."""
    size = padded_size(*pack.scenarios.values())
    provider = CompiledReferences()
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        for policy in POLICY_NAMES:
            out = Path(folder) / f"{policy}.json"
            evaluate(
                target=pack,
                manifest=pack.manifest,
                outcomes=record_outcomes(pack, partial(_records, policy, size)),
                out=out,
                identity={"policy": policy},
                model_id=policy,
            )
            reports.append(score_results([open_result(out)], pack, provider=provider))
    return [entry.report for entry in leaderboard(reports, verified=True)]


def score_figures(reports: Sequence[ScoreReport]) -> dict[str, str]:
    """Return the tables of some reports of one pack, in the order of the leaderboard."""
    names = [report.header.model_id for report in reports]
    families = [report.hierarchy.family_means(report.episode_scores) for report in reports]
    return {
        "scores": table(
            ("Policy", "Score", "95 % interval", "Safety", "Quality", "Avoidable casualties", "Avoidably stranded"),
            (
                (
                    report.header.model_id,
                    points(report.score),
                    _interval(report.confidence_interval),
                    *(factor(report.aggregate(name)[0]) for name in ("safety", "quality")),
                    *(str(report.totals[name]) for name in ("avoidable_casualties", "avoidable_stranded")),
                )
                for report in reports
            ),
        ),
        "components": table(
            ("Policy", *COMPONENTS),
            (
                (report.header.model_id, *(factor(report.aggregate(name)[0]) for name in COMPONENTS))
                for report in reports
            ),
        ),
        "families": table(
            ("Primary family", *names),
            ((family, *(points(means[family]) for means in families)) for family in families[0]),
        ),
        "tail": table(
            ("Policy", "Median scenario", "Worst scenario", "10th percentile", "CVaR10", "Episodes with score 0"),
            (_tail(report) for report in reports),
        ),
        "comparisons": table(
            ("A", "B", "A - B", "95 % interval", "Outcome"), map(_compared, itertools.combinations(reports, 2))
        ),
    }


def loss_figures(pack: Pack, report: ScoreReport) -> str:
    """Tell the worst episode of each of the three scenarios that a report lost most in, person by person."""
    worst: dict[str, EpisodeReport] = {}
    scores = report.episode_scores
    for index in sorted(scores, key=lambda index: (scores[index], index)):
        worst.setdefault(report.episodes[index].scheduled.scenario_id, report.episodes[index])
    return "".join(
        _story(pack.scenarios[name], episode, report.header.model_id)
        for name, episode in itertools.islice(worst.items(), TOLD)
    )


def losses(scenario: Scenario, record: RunRecord, people: Sequence[str]) -> Iterator[Loss]:
    """Yield what became of some people who are lost in a record."""
    possible = {person.id: person for person in references(scenario, record.header.seed).people}
    start = {person.id: person.position for person in scenario.people}
    end = {person.id: person.position for person in record.final_state.people}
    for name in people:
        outcomes = [m.outcome for step in record.steps for m in step.movements if m.person_id == name]
        deaths = [(step.step, c) for step in record.steps for c in step.casualties if c.person_id == name]
        how = "still inside"
        if deaths:
            step, casualty = deaths[0]
            how = f"step {step}, {_cell(end[name])}, {str(casualty.cause).replace('_', ' ')}"
        moved = outcomes.count(MoveOutcome.MOVED)
        yield Loss(
            person=name,
            start=_cell(start[name]),
            earliest=possible[name].earliest_evacuation or 0,
            end=how,
            moved=moved,
            waited=len(outcomes) - moved,
        )


def _story(scenario: Scenario, episode: EpisodeReport, policy: str) -> str:
    (trial,) = episode.trials
    evidence, seed = trial.evidence, episode.scheduled.seed
    if evidence is None:
        return ""
    (record,) = records(scenario, np.array([seed], dtype=np.uint64), policy)
    lost = sorted(evidence.avoidable_casualty_ids + evidence.avoidable_stranded_ids)
    others = f"; nothing could have saved {', '.join(evidence.unsavable_ids)}" if evidence.unsavable_ids else ""
    head = (
        f"\n**{scenario.id}, seed {seed}: {points(trial.score)} points.** {evidence.evacuated} of "
        f"{evidence.max_evacuated} people who could be saved left{others}. "
        f"The evacuees took {evidence.sum_evacuation_steps} person-steps, {evidence.time_bound} being `Q_cut`; "
        f"{evidence.danger_states} of them in danger, {evidence.fewest_danger_states} inevitably.\n"
    )
    rows = (
        (loss.person, loss.start, str(loss.earliest), loss.end, str(loss.moved), str(loss.waited))
        for loss in losses(scenario, record, lost)
    )
    return head + table(("Lost", "Start", "Could leave by step", "End", "Steps moved", "Steps waited"), rows)


def _records(policy: str, size: WorldSize, scenario: Scenario, seeds: Sequence[int]) -> Iterator[RunRecord]:
    return records(scenario, np.array(seeds, dtype=np.uint64), policy, size=size)


def _tail(report: ScoreReport) -> tuple[str, ...]:
    values = report.tail_values()
    document = report.to_dict()["tail"]
    zeros: Mapping[str, int] = document["zero_score_episode_trials"]
    return (
        report.header.model_id,
        points(values["median_scenario"]),
        f"{points(values['worst_scenario'])} ({document['worst_scenario_id']})",
        points(values["p10_episode"]),
        points(values["cvar10"]),
        f"{sum(zeros.values())} of {len(report.applicable)}",
    )


def _compared(pair: tuple[ScoreReport, ScoreReport]) -> tuple[str, ...]:
    comparison = compare(*pair)
    return (
        *(report.header.model_id for report in pair),
        points(comparison.delta),
        _interval(comparison.confidence_interval),
        str(comparison.outcome),
    )


def _interval(interval: ScoreInterval | None) -> str:
    return "none" if interval is None else f"[{points(interval.lower)}, {points(interval.upper)}]"


def _cell(position: tuple[int, int]) -> str:
    return f"({position[0]}, {position[1]})"
