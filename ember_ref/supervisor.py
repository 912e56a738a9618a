"""The process between an evaluator and an agent: it outlives neither, and leaves no descendant behind.

It is run as a file by `ember_ref.agent`, never imported by it, and loads as little as it can:

    python -I -S supervisor.py CONTROL STATUS LOG LOG_LIMIT PROGRAM [ARGUMENT ...]

CONTROL is a pipe whose other end only the evaluator holds; when it closes, because the evaluator closed it or was
killed, every descendant is killed. The end of the agent's own process is told on STATUS as one line with its exit
code. What the agent writes to standard error goes to LOG, up to LOG_LIMIT bytes. The working folder is removed last.

On Linux the supervisor is a subreaper (`prctl(2)`, PR_SET_CHILD_SUBREAPER): a descendant whose parent is gone becomes
its child, whatever session or process group it moved to, so killing children until there are none finds them all.
Elsewhere only the agent's process group is killed.
"""

import ctypes
import os
import select
import shutil
import signal
import sys
import time
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_POLL_SECONDS: Final = 0.2
"""How often the parent is looked at; a pipe that something else inherited would otherwise hide its death."""
_CHUNK: Final = 1 << 16


def main(arguments: list[str]) -> None:
    """Run the agent until it is to end, and then everything that it started."""
    control, status, log, log_limit = (int(word) for word in arguments[:4])
    evaluator = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (control, status, log):
        os.set_inheritable(descriptor, False)
    woken, wake = os.pipe()
    for descriptor in (woken, wake):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    errors, errors_in = os.pipe()
    agent = _start(arguments[4:], errors_in)
    os.close(errors_in)
    # The agent's pipes must end with the agent, so its supervisor keeps no copy of them.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    kept = _Log(errors, log, log_limit)
    try:
        _watch(agent, evaluator, control, status, woken, kept)
    finally:
        _kill_all(agent)
        # Nobody is left to write: what is in the pipe is the end of it.
        while select.select([errors], [], [], 0)[0] and kept.copy():
            pass
        folder = os.getcwd()  # noqa: PTH109  pathlib is not worth its loading time here
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)


class _Log:
    """Copies the agent's standard error to the log, up to a limit."""

    def __init__(self, source: int, log: int, limit: int) -> None:
        self.source = source
        self._log = log
        self._left = limit

    def copy(self) -> bool:
        """Copy what is there; return whether more can come."""
        data = os.read(self.source, _CHUNK)
        if self._left > 0 and data:
            kept = data[: self._left]
            self._left -= len(kept)
            if self._left <= 0:
                kept += b"\n[the rest is not kept]\n"
            try:
                os.write(self._log, kept)
            except OSError:
                self._left = 0  # a full disk must not end the episode
        return bool(data)


def _start(command: list[str], errors_in: int) -> int:
    """Start the agent in a session of its own, with the pipes that this process was given."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        os.dup2(errors_in, 2)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _watch(agent: int, evaluator: int, control: int, status: int, woken: int, log: _Log) -> None:
    """Wait until the control pipe closes or the evaluator is gone; reap, and keep the log, meanwhile."""
    sources = [control, woken, log.source]
    while os.getppid() == evaluator:
        ready, _, _ = select.select(sources, [], [], _POLL_SECONDS)
        if woken in ready:
            os.read(woken, _CHUNK)
        if log.source in ready and not log.copy():
            sources.remove(log.source)
        code = _reap(agent)
        if code is not None:
            try:
                os.write(status, b"%d\n" % code)
            except OSError:
                return
        if control in ready:
            return


def _reap(agent: int) -> int | None:
    """Reap every child that ended; return the exit code of the agent's own process if it is among them."""
    code = None
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if child == 0:
            return code
        if child == agent:
            code = os.waitstatus_to_exitcode(status)


def _kill_all(agent: int) -> None:
    """Kill every descendant, again and again until there is none."""
    if sys.platform != "linux":
        _kill(-agent)
        _reap(agent)
        return
    while True:
        for descendant in _descendants():
            _kill(descendant)
        _reap(agent)
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        time.sleep(0.002)


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except OSError:
        return


def _descendants() -> list[int]:
    """Return all living descendants of this process, from the process table."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    after_name = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            parents[int(name)] = int(after_name[1])
    found = {os.getpid()}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return sorted(found - {os.getpid()})
        found |= more


if __name__ == "__main__":
    main(sys.argv[1:])
