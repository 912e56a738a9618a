"""How much memory a computation may take: asked before it is taken, so that a refusal is a sentence."""

import os
from pathlib import Path
from typing import Final

from ember_ref.errors import MemoryLimitError

_MEMINFO: Final = Path("/proc/meminfo")
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_CGROUP_USE: Final = Path("/sys/fs/cgroup/memory.current")


def available_memory() -> int | None:
    """Return the bytes that this process can still have, `None` where the system does not tell."""
    figures = [_system_memory(), _group_memory()]
    return min((figure for figure in figures if figure is not None), default=None)


def require_memory(size: int, *, what: str, instead: str) -> None:
    """Refuse what does not fit in memory.

    Args:
        size: bytes that are about to be taken.
        what: what takes them.
        instead: what to do instead.

    Raises:
        MemoryLimitError: with the figures and the way out.
    """
    available = available_memory()
    if available is not None and size > available:
        raise MemoryLimitError(
            f"{what} would take {_gibibytes(size)}, and {_gibibytes(available)} of memory are available; {instead}"
        )


def _system_memory() -> int | None:
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _group_memory() -> int | None:
    try:
        return max(0, int(_CGROUP_LIMIT.read_text()) - int(_CGROUP_USE.read_text()))
    except (OSError, ValueError):  # no control group, or one without a limit
        return None


def _gibibytes(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
