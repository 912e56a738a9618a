"""How long scoring takes: 1,000 episodes of the public suite, authenticated over all cores.

Run as `python -m benchmarks.score [EPISODES]`. The result is made by the runner first; only scoring is timed.
"""

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from ember_ref.suite import load_suite, schedule
from scenarios.bundled import suite_path
from scoring.assessment import score_results
from scoring.evaluation import open_result
from scoring.runner import evaluate, policy_outcomes

POLICY = "congestion-aware-v1"


def main() -> None:
    """Print one line of JSON."""
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    target = load_suite(suite_path("public-v1"))
    each = episodes // len(target.suite.entries)
    manifest = schedule(target.suite, {name: range(each) for name in target.scenarios})
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
        start = time.monotonic()
        report = score_results([open_result(out)], target)
        seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        json.dumps(
            {
                "episodes": len(manifest.episodes),
                "cores": os.cpu_count(),
                "seconds": round(seconds, 1),
                "peak_mib": peak,
                "score": float(report.score or 0),
            }
        )
    )


if __name__ == "__main__":
    main()
