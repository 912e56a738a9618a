"""`ember verify`: both implementations side by side."""

import concurrent.futures
import multiprocessing
import os
import sys
from typing import Annotated

import typer

from ember_cli.console import (
    FAILED,
    HELD,
    Json,
    PolicySeed,
    Report,
    SeedsText,
    enable_compilation_cache,
    note,
    seeds_for,
    target_of,
)
from ember_ref.policies import make_policy


def verify(
    target: Annotated[list[str], typer.Argument(help="Scenarios or suites: files, folders or bundled names.")],
    seeds: SeedsText = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="A policy; may be repeated. Without it, every one.")
    ] = None,
    random_actions: Annotated[
        int,
        typer.Option("--random-actions", min=0, help="Random action logs a scenario, on the seeds in turn."),
    ] = 0,
    policy_seed: PolicySeed = 0,
    as_json: Json = False,
) -> int:
    """Run the oracle and its compiled twin and compare every fire world and run record."""
    for name in policy or []:
        make_policy(name, policy_seed)
    scenarios = [scenario for name in target for scenario in target_of(name)]
    chosen = [(scenario, seeds_for(seeds, scenario).listed()) for scenario in scenarios]
    from ember_jax.differential import ALL_POLICIES, compare
    from ember_jax.world import shared_size

    enable_compilation_cache()
    report = Report(as_json=as_json, title="Verification")
    failed, size = False, shared_size(scenarios)
    processes = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), mp_context=processes) as workers:
        for scenario, values in chosen:
            episodes, differences = 0, []
            for difference in compare(
                scenario,
                values,
                policy or ALL_POLICIES,
                policy_seed=policy_seed,
                random_actions=random_actions,
                size=size,
                workers=workers,
            ):
                episodes += 1
                if difference is not None:
                    differences.append(difference)
            failed |= bool(differences)
            report.add(
                {
                    "scenario": scenario.id,
                    "episodes": episodes,
                    "mismatches": len(differences),
                    "first": differences[0].to_dict() if differences else None,
                }
            )
            if sys.stderr.isatty():
                note(f"{scenario.id}: {episodes} compared, {len(differences)} differ")
    report.close()
    return FAILED if failed else HELD
