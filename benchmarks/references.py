"""Worlds with everybody's references: `python -m benchmarks.references [SCENARIO …]`."""

import sys

from benchmarks.question import ask
from benchmarks.work import Work


def main(argv: list[str] | None = None) -> bool:
    """Print the table and the JSON lines; tell whether all programs agreed."""
    return ask("Worlds with everybody's references", Work.REFERENCES, argv=argv)


if __name__ == "__main__":
    sys.exit(not main())
