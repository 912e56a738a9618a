"""How far a long command is: a bar with time left on a terminal, a line a while in a log."""

import sys
import time
from types import TracebackType
from typing import Any, Final, Self

from ember_cli.console import note

_LOG_SECONDS: Final = 10


class Progress:
    """Counts what is done, on standard error."""

    def __init__(self, noun: str) -> None:
        """Start to count `noun`, such as `episodes`."""
        self._noun = noun
        self._start = self._said = time.monotonic()
        self._first: int | None = None
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` are done; what was done at the first call does not count for the rate."""
        if self._first is None:
            self._first = done
        if sys.stderr.isatty():
            self._show(done, total)
            return
        now = time.monotonic()
        if now - self._said > _LOG_SECONDS and done > self._first:
            self._said = now
            left = (total - done) * (now - self._start) / (done - self._first)
            note(f"{done} of {total} {self._noun}, about {left:,.0f} s left")

    def _show(self, done: int, total: int) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn(self._noun), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task(self._noun, total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
