"""The evidence of episodes: `python -m benchmarks.evidence [SCENARIO …] [--policy NAME …]`."""

import sys

from benchmarks.question import ask
from benchmarks.work import Work

POLICIES = ("static-shortest-path-v1", "congestion-aware-v1")


def main(argv: list[str] | None = None) -> bool:
    """Print the table and the JSON lines; tell whether all programs agreed."""
    return ask("Evidence", Work.EVIDENCE, POLICIES, argv=argv)


if __name__ == "__main__":
    sys.exit(not main())
