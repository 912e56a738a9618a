"""The `ember` command as a process of its own: how long it takes, its CPU time and its peak memory."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a call came to."""

    stdout: str
    wall: float
    cpu: float
    peak_mib: int


def ember(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
    """Run the command and wait for it.

    Raises:
        RuntimeError: when it fails.
    """
    start = time.monotonic()
    command = [sys.executable, "-m", "ember_cli.main", *arguments]
    with subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        stdout = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"ember {' '.join(arguments)} ended with {process.returncode}")
    return Finished(
        stdout=stdout,
        wall=time.monotonic() - start,
        cpu=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss // 1024,
    )
