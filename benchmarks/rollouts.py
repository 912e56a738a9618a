"""Rollouts of every policy: `python -m benchmarks.rollouts [SCENARIO …] [--policy NAME …]`."""

import sys

from benchmarks.question import ask
from benchmarks.work import Work
from ember_ref.policies import POLICY_NAMES


def main(argv: list[str] | None = None) -> bool:
    """Print the table and the JSON lines; tell whether all programs agreed."""
    return ask("Rollouts", Work.ROLLOUT, POLICY_NAMES, argv=argv)


if __name__ == "__main__":
    sys.exit(not main())
