"""A score as people read it: numbers rounded half-even from exact values, the summary, the Markdown form.

Scoring section 10, contract section 15. A score is points, never a percentage.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from ember_ref.errors import ScoringInputError
from scoring.comparison import ScoreComparison
from scoring.constants import SCORING_VERSION
from scoring.evidence import Evidence
from scoring.hierarchy import MINIMUM_EPISODES, RESAMPLES
from scoring.report import AGGREGATES, TOTALS, ScoreReport, Trial
from scoring.score import COMPONENTS, QUALITY_COMPONENTS, Status, beta, score_without

UNDEFINED: Final = "undefined"


def points(value: Fraction | None) -> str:
    """Return points, people or cells to 0.1."""
    return _text(value, 1)


def factor(value: Fraction | None) -> str:
    """Return a factor, a component or a rate to 0.001."""
    return _text(value, 3)


def summary_lines(report: ScoreReport) -> list[str]:
    """Return the summary of a report, line by line."""
    document = report.to_dict()
    trials, tail, robustness = document["trials"], document["tail"], document["robustness"]
    aggregates = {name: report.aggregate(name) for name in AGGREGATES}
    scores = report.episode_scores
    scenarios = report.hierarchy.scenario_means(scores)
    families = report.hierarchy.family_means(scores)
    zero = tail["zero_score_episode_trials"]
    worst = tail["worst_scenario_id"]
    components = "; ".join(
        f"{name} {factor(aggregates[name][0])} ({aggregates[name][1]}/{robustness['episode_trials']})"
        for name in COMPONENTS
    )
    crowd, exact = report.crowd, report.tail_values()
    return [
        (
            f"EMBER Score {points(report.score)} / 100 benchmark-performance points under EMBER scoring version "
            f"{SCORING_VERSION}"
        ),
        _interval_line(report),
        f"Model {report.header.model_id}; trials {trials}; {_target(report)}",
        f"Safety factor {factor(aggregates['safety'][0])}; quality factor {factor(aggregates['quality'][0])}",
        f"Components (0-1, defined/total): {components}",
        "Primary families: " + ("; ".join(f"{n} {points(v)}" for n, v in families.items()) or UNDEFINED),
        (
            f"Tail: median scenario {points(exact['median_scenario'])}; worst scenario "
            f"{points(scenarios[worst]) if worst else UNDEFINED}{f' ({worst})' if worst else ''}; p10 episode "
            f"{points(exact['p10_episode'])}; CVaR10 {points(exact['cvar10'])}"
        ),
        f"Zero-score episode-trials {sum(zero.values())} of {robustness['episode_trials']}: " + _counts(zero),
        "Severe quality failures (episode-trials): "
        + _counts({name: robustness["severe_episode_trials"][name] for name in QUALITY_COMPONENTS}),
        "People per trial: "
        + "; ".join(
            f"{name.replace('_', ' ')} {points(Fraction(document['totals'][name], trials))}" for name in TOTALS[:4]
        ),
        (
            f"Congestion diagnostics (not scored): block rate "
            f"{_rate(crowd.congestion_blocks, crowd.movement_attempts)}; "
            f"contested cell-steps per trial {points(Fraction(crowd.contested_cell_steps, trials))}; "
            f"hotspot cells per trial {points(Fraction(crowd.hotspot_cells, trials))}; "
            f"peak contested cells {crowd.peak_contested_cells}; "
            f"exit throughput {_rate(crowd.evacuations, crowd.exit_window_steps)}"
        ),
        "The EMBER Score is not a percentage of people evacuated.",
    ]


def markdown(report: ScoreReport) -> str:
    """Return a report as Markdown for a paper: the headline, a table of families, a table of components."""
    lines = summary_lines(report)
    families = report.hierarchy.family_means(report.episode_scores)
    aggregates = {name: report.aggregate(name) for name in AGGREGATES}
    total = len(report.applicable) * len(report.result_digests)
    return "\n".join(
        [
            f"# {report.header.model_id}: {points(report.score)} points",
            "",
            f"**{lines[0]}**",
            "",
            *(f"- {line}" for line in lines[1:4]),
            "",
            "| Primary family | Scenarios | Points |",
            "| --- | ---: | ---: |",
            *(
                f"| `{name}` | {len(report.hierarchy.families[name])} | {points(value)} |"
                for name, value in families.items()
            ),
            f"| **EMBER Score** | {len(report.hierarchy.scenarios)} | **{points(report.score)}** |",
            "",
            "| Component | Mean | Defined |",
            "| --- | ---: | ---: |",
            *(f"| {name} | {factor(value)} | {count}/{total} |" for name, (value, count) in aggregates.items()),
            "",
            *(f"- {line}" for line in lines[6:]),
            "",
            f"Manifest `sha256:{report.header.evaluation_manifest_hash}`; report `sha256:{report.report_digest}`; "
            "results " + ", ".join(f"`sha256:{digest}`" for digest in report.result_digests) + ".",
            "",
        ]
    )


def _interval_line(report: ScoreReport) -> str:
    interval = report.confidence_interval
    if interval is None:
        return f"95% CI none (fewer than {MINIMUM_EPISODES} applicable episodes)"
    return (
        f"95% CI [{points(interval.lower)}, {points(interval.upper)}] (stratified two-stage bootstrap, "
        f"{RESAMPLES} resamples; this sample only)"
    )


def _target(report: ScoreReport) -> str:
    header = report.header
    if header.official:
        return f"official; environment pack {header.pack_id} sha256:{header.pack_hash}"
    return f"UNOFFICIAL; suite {header.suite_id} sha256:{header.suite_hash}"


def _counts(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{name} {count}" for name, count in counts.items())


def _rate(numerator: int, denominator: int) -> str:
    return factor(Fraction(numerator, denominator) if denominator else None)


def _text(value: Fraction | None, places: int) -> str:
    """Return a rational in decimals, half-even; Python's `round` of a Fraction is exact."""
    if value is None:
        return UNDEFINED
    scaled = round(value * 10**places)
    whole, rest = divmod(abs(scaled), 10**places)
    return f"{'-' if scaled < 0 else ''}{whole}.{rest:0{places}d}"


def explanation_lines(report: ScoreReport, index: int) -> list[str]:
    """Return the story of one episode in numbers, trial by trial.

    Raises:
        ScoringInputError: for an episode that is not scheduled.
    """
    if not 0 <= index < len(report.episodes):
        raise ScoringInputError(f"episode {index} is not scheduled; expected 0 to {len(report.episodes) - 1}")
    episode = report.episodes[index]
    scheduled = episode.scheduled
    lines = [
        (
            f"Episode {index}: scenario {scheduled.scenario_id}, seed {scheduled.seed}; "
            f"{episode.max_evacuated} people could be saved; {points(episode.score)} points"
        )
    ]
    for number, trial in enumerate(episode.trials, start=1):
        lines.append(f"Trial {number} of {len(episode.trials)}: {trial.status}")
        if trial.failure is not None:
            lines.append(f"  No result ({trial.failure}): 0.0 points, as if everyone who could be saved was lost.")
        if trial.evidence is not None:
            lines += [f"  {line}" for line in _people_lines(trial.evidence)]
        if trial.evidence is not None and trial.result is not None:
            lines += [f"  {line}" for line in (*_loss_lines(trial.evidence), *_factor_lines(trial))]
    return lines


def _people_lines(evidence: Evidence) -> list[str]:
    lines = [
        f"{evidence.evacuated} of {evidence.population} people evacuated; {evidence.max_evacuated} could be saved."
    ]
    for what, people in (
        ("Died and could have been saved", evidence.avoidable_casualty_ids),
        ("Left inside and could have been saved", evidence.avoidable_stranded_ids),
        ("Died, and nothing could have saved them", evidence.unavoidable_casualty_ids),
        ("Left inside, and nothing could have saved them", evidence.unavoidable_stranded_ids),
    ):
        if people:
            lines.append(f"{what}: {', '.join(people)}.")
    return lines


def _loss_lines(evidence: Evidence) -> list[str]:
    lines = []
    if evidence.evacuated:
        queue = evidence.time_bound - evidence.sum_earliest
        lost = evidence.sum_evacuation_steps - evidence.time_bound
        lines.append(
            f"Time: {evidence.sum_evacuation_steps} person-steps; {evidence.sum_earliest} if everyone were alone, "
            f"{queue} more that queues at exits and doors force (Q_cut {evidence.time_bound}), {lost} lost."
        )
        lines.append(
            f"Danger zone: {evidence.danger_states} person-steps, of which {evidence.fewest_danger_states} "
            "could not be avoided."
        )
        lines.append(f"Way: {evidence.cells_moved} cells moved; {evidence.fewest_moves} were enough.")
    if evidence.recoverable_route_invalidations:
        lines.append(
            f"Routes cut off by fire that left a way out: {evidence.recoverable_route_invalidations}; resolved in "
            f"{evidence.recovery_steps} person-steps, {evidence.recovery_bound_steps} were possible."
        )
    return lines


def _factor_lines(trial: Trial) -> list[str]:
    evidence, result = trial.evidence, trial.result
    if evidence is None or result is None:
        return []
    if trial.status is Status.CATASTROPHIC:
        return ["Half or more of the people who could be saved were lost: 0.0 points whatever else holds."]
    lines = []
    for name in COMPONENTS:
        value = trial.value(name)
        if value is None:
            lines.append(f"{name}: {UNDEFINED}, left out")
            continue
        severe = "; SEVERE" if name in result.severe else ""
        without = Fraction(score_without(evidence.counts, name))
        lines.append(f"{name}: {factor(value)}{severe}; {points(without)} points if it were perfect")
    lines.append(
        f"Score {points(trial.score)} = 100 x Safety {factor(trial.value('safety'))} x Quality "
        f"{factor(trial.value('quality'))}^{beta():.3f} x Severity {factor(Fraction(result.severity))}; ceiling "
        f"{points(Fraction(result.ceiling))}"
    )
    return lines


def comparison_lines(comparison: ScoreComparison) -> list[str]:
    """Return a comparison line by line."""
    a, b, interval = comparison.a, comparison.b, comparison.confidence_interval
    families = a.hierarchy.family_means(comparison.deltas)
    bounds = f"95% CI [{points(interval.lower)}, {points(interval.upper)}]" if interval else _interval_line(a)
    return [
        f"A {a.header.model_id} {points(a.score)}; B {b.header.model_id} {points(b.score)} points",
        f"A - B {points(comparison.delta)} points; {bounds}",
        "Primary families, A - B: " + ("; ".join(f"{n} {points(v)}" for n, v in families.items()) or UNDEFINED),
        f"Outcome: {comparison.outcome}",
    ]
