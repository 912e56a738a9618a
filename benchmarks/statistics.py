"""How long statistics take: 50 scenarios with 20 seeds each, every group and metric, on one core.

Run as `python -m benchmarks.statistics [RESAMPLES]`. The scenarios are five variants of each one of the public suite.
The result is made by the runner first; only reading, authentication and the summary are timed, in this one process.
"""

import dataclasses
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from ember_ref.suite import Suite, SuiteEntry, SuiteFolder, load_suite, schedule
from scenarios.bundled import suite_path
from scoring.bootstrap import RESAMPLES
from scoring.evaluation import open_result
from scoring.runner import evaluate, policy_outcomes
from scoring.statistics import aggregate_statistics

POLICY = "congestion-aware-v1"
VARIANTS = 5
SEEDS = 20


def variants_of(target: SuiteFolder) -> SuiteFolder:
    """Return a suite with `VARIANTS` scenarios for each one of a suite."""
    entries, scenarios = [], {}
    for entry in target.suite.entries:
        for number in range(VARIANTS):
            name = f"{entry.scenario_id}.{number}"
            scenario = dataclasses.replace(target.scenarios[entry.scenario_id], id=name)
            scenarios[name] = scenario
            entries.append(
                SuiteEntry(
                    scenario_id=name,
                    scenario_hash=scenario.content_hash,
                    primary_family=entry.primary_family,
                    families=entry.families,
                )
            )
    return SuiteFolder(suite=Suite(suite_id="statistics", entries=tuple(entries)), scenarios=scenarios)


def main() -> None:
    """Print one line of JSON."""
    resamples = int(sys.argv[1]) if len(sys.argv) > 1 else RESAMPLES
    target = variants_of(load_suite(suite_path("public-v1")))
    # Variants differ in their seeds, so that no two episodes have the same fire.
    first = {name: SEEDS * (place % VARIANTS) for place, name in enumerate(target.scenarios)}
    manifest = schedule(target.suite, {name: range(seed, seed + SEEDS) for name, seed in first.items()})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        evaluate(
            target=target,
            manifest=manifest,
            outcomes=policy_outcomes(target, POLICY),
            out=out,
            identity={},
            model_id=POLICY,
        )
        size = out.stat().st_size
        authenticated = [0.0]

        def progress(_done: int, _total: int) -> None:
            authenticated[0] = time.process_time()

        wall, cpu = time.monotonic(), time.process_time()
        artifact = aggregate_statistics(open_result(out), target, resamples=resamples, workers=1, progress=progress)
        end_wall, end_cpu = time.monotonic(), time.process_time()
    groups = 1 + len(artifact["scenarios"]) + len(artifact["families"])
    print(
        json.dumps(
            {
                "episodes": len(manifest.episodes),
                "groups": groups,
                "resamples": resamples,
                "result_mib": size >> 20,
                "seconds": round(end_wall - wall, 1),
                "cpu_seconds": round(end_cpu - cpu, 1),
                "summary_cpu_seconds": round(end_cpu - authenticated[0], 1),
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
