"""`ember check-suite`: what many fires say about every scenario of a suite."""

import concurrent.futures
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ember_cli.console import (
    FAILED,
    HELD,
    Json,
    Report,
    SeedsText,
    UsageError,
    enable_compilation_cache,
    note,
    seeds_for,
    suite_or_pack_of,
)
from ember_cli.progress import Progress
from ember_cli.suite_summary import parquet_bytes, policy_rows, safety_rows
from ember_ref.canonical import write_bytes
from ember_ref.policies import make_policy
from ember_ref.scenario import Scenario
from ember_ref.suite import Pack, SuiteFolder
from scenarios.procedural.check import BASELINES, ScenarioCheck, check_scenario, compare_forms


def check_suite(
    suite: Annotated[str, typer.Argument(help="A suite: file, folder or bundled name; or a pack.")],
    seeds: SeedsText = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="A policy; may be repeated. Without it, three baselines.")
    ] = None,
    evidence_seeds: Annotated[
        int,
        typer.Option(
            "--evidence-seeds",
            min=0,
            help="The fires, the first of all, of the capacity bounds and route invalidations; they cost the most.",
        ),
    ] = 64,
    overlap: Annotated[
        str | None, typer.Option("--overlap", help="Another suite or pack that must share no scenario with it.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write a Parquet file, a row a scenario.")] = None,
    pictures: Annotated[
        Path | None, typer.Option("--pictures", help="Draw every scenario into this folder (the extra `plot`).")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, max=256, help="Scenarios at a time.")] = None,
    as_json: Json = False,
) -> int:
    """Try every scenario in many fires, and say which rules of its family it breaks.

    Exit code 1: a scenario breaks a rule, is in the suite twice (up to IDs and the eight symmetries), or is in
    the other suite.
    """
    for name in policy or []:
        make_policy(name, 0)
    if pictures is not None and importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--pictures needs the extra `plot`")
    folder = suite_or_pack_of(suite)
    other = None if overlap is None else suite_or_pack_of(overlap)
    tasks = [(folder.scenarios[entry.scenario_id], entry.primary_family) for entry in folder.suite.entries]
    chosen = [seeds_for(seeds, scenario).listed() for scenario, _ in tasks]
    enable_compilation_cache()
    names = list(dict.fromkeys(policy or BASELINES))
    checks = _checked(tasks, chosen, names, evidence_seeds, workers or os.cpu_count() or 1)
    compare_forms(folder.suite, folder.scenarios, checks, () if other is None else other.scenarios.values())
    if out is not None:
        write_bytes(out, parquet_bytes(checks))
    if pictures is not None:
        _draw(pictures, folder, checks)
    if as_json:
        report = Report(as_json=True)
        for check in checks:
            report.add(check.to_dict())
    else:
        _show(checks, names)
    failed = [check for check in checks if not check.holds]
    for check in failed if not as_json else []:
        note(f"ember: {check.scenario_id}: {_why(check)}")
    return FAILED if failed else HELD


def _checked(
    tasks: Sequence[tuple[Scenario, str]],
    seeds: Sequence[list[int]],
    policies: Sequence[str],
    evidence_seeds: int,
    workers: int,
) -> list[ScenarioCheck]:
    """Check every scenario, some at a time: compiled calls use one core each and release the interpreter."""

    def check(at: int) -> ScenarioCheck:
        scenario, family = tasks[at]
        return check_scenario(scenario, family, seeds[at], policies=policies, evidence_seeds=evidence_seeds)

    checks: list[ScenarioCheck] = []
    with Progress("scenarios") as progress, concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(check, at) for at in range(len(tasks))]
        try:
            for future in futures:
                checks.append(future.result())
                progress(len(checks), len(tasks))
        finally:
            pool.shutdown(cancel_futures=True)
    return checks


def _why(check: ScenarioCheck) -> str:
    reasons = [f"breaks {', '.join(map(repr, check.rejections))}"] if check.rejections else []
    for word, names in (
        ("is the same as", check.duplicates),
        ("is, turned, the same as", check.turned_duplicates),
        ("is in the other suite as", check.overlap),
    ):
        reasons += [f"{word} {', '.join(names)}"] if names else []
    return "; ".join(reasons)


def _show(checks: Sequence[ScenarioCheck], policies: Sequence[str]) -> None:
    seeds = sum(check.seeds for check in checks)
    report = Report(as_json=False, title=f"{len(checks)} scenarios, {seeds:,} fires: what can be saved")
    for row in safety_rows(checks):
        report.add(row)
    report.close()
    evidence = sum(check.evidence_seeds for check in checks)
    title = "What policies save, of M*"
    if evidence:
        title += f"; bounds and route invalidations of the fire-aware plan, over {evidence:,} of the fires"
    report = Report(as_json=False, title=title)
    for row in policy_rows(checks, policies):
        report.add(row)
    report.close()


def _draw(pictures: Path, folder: SuiteFolder | Pack, checks: Sequence[ScenarioCheck]) -> None:
    from ember_cli.scenario_picture import contact_sheet, picture

    pictures.mkdir(parents=True, exist_ok=True)
    families: dict[str, list[Scenario]] = {}
    with Progress("pictures") as progress:
        for number, check in enumerate(checks, start=1):
            scenario = folder.scenarios[check.scenario_id]
            families.setdefault(check.family, []).append(scenario)
            caption = (
                f"M* {check.mean_max_evacuated:.1f} of {check.people}; "
                f"applicable in {100 * check.applicable_share:.0f} of 100 fires"
            )
            write_bytes(pictures / f"{scenario.id}.png", picture(scenario, caption))
            progress(number, len(checks))
    sheet = contact_sheet({family: scenarios[:10] for family, scenarios in families.items()})
    write_bytes(pictures / "contact-sheet.png", sheet)
