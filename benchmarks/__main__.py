"""Every question, one after the other: `python -m benchmarks [SCENARIO …] [options]`."""

import sys

from benchmarks import evidence, references, rollouts, step, worlds


def main(argv: list[str] | None = None) -> bool:
    """Print all tables; tell whether all programs agreed everywhere."""
    agreed = [question.main(argv) for question in (worlds, references, rollouts, evidence, step)]
    return all(agreed)


if __name__ == "__main__":
    sys.exit(not main())
