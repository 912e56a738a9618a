"""Every error that this project raises on purpose.

A message says what is wrong, where, and what is expected. `EmberError` is the base, so that a caller can
catch them all; the command line turns a `VerificationError` into exit code 1 and any other into 2.
"""

from collections.abc import Sequence
from typing import Final

SHOWN_FAULTS: Final = 100
"""The most faults of one document that a message lists; `faults` has them all."""


class EmberError(Exception):
    """The base of all errors of this project."""


class VerificationError(EmberError):
    """A well-formed input that does not hold: it was not produced by the rules it claims."""


class DocumentError(EmberError):
    """A file or message that is not of its form (JSON, keys, types, bounds, canonical bytes)."""

    def __init__(self, what: str, faults: Sequence[str]) -> None:
        """Make an error about the document `what` with every fault found in it."""
        self.what = what
        self.faults = tuple(faults)
        lines = self.faults if len(faults) == 1 else ("", *(f"  {fault}" for fault in faults[:SHOWN_FAULTS]))
        more = f"\n  and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
        super().__init__(f"{what}: " + "\n".join(lines) + more)


class ScenarioError(DocumentError):
    """A scenario that breaks contract section 2; `faults` names each fault with its place."""


class RecordError(DocumentError):
    """A run record or an action log that is not of its form."""


class MemoryLimitError(EmberError):
    """A computation that does not fit in memory; the message has the figures and what to do instead."""


class SimulationError(EmberError):
    """An action set that the simulator refuses, a step after the end, or a seed that is none."""


class ReplayMismatchError(VerificationError):
    """A run record that the simulator does not reproduce.

    Attributes:
        step: the first step of difference; 0 for the header and the initial state.
        field: the dotted name of the first field of difference.
    """

    def __init__(self, step: int, field: str, detail: str) -> None:
        """Make an error about `field` of `step`."""
        self.step = step
        self.field = field
        super().__init__(f"step {step}, {field}: {detail}")


class MetricsInputError(VerificationError):
    """A scenario and record that metrics refuse; a replay mismatch is kept as `__cause__`."""


class EvaluationError(VerificationError):
    """An evaluation result, manifest or suite that does not belong together."""


class StatisticsInputError(EvaluationError):
    """A result that statistics refuse."""


class ScoringInputError(VerificationError):
    """A result, report or declaration that scoring refuses."""


class PackError(VerificationError):
    """An environment pack whose parts do not agree."""
