"""Compiling a batch as one kernel, and running batches on every core or device.

XLA on CPU runs a loop of many small kernels, each with its own overhead. A call that carries the attribute
`xla_cpu_small_call` (undocumented) and is not inlined is compiled as one kernel with all its loops inside,
which is about four times as fast for the batch-explicit kernels of this package. Without the attribute the
results are the same, so nothing but speed depends on it.

A branch that all lanes share is a loop of no or one trip, for a conditional copies its operands. The compiler takes
what does not change in a loop out of it, whole inner loops too, and would make what the branch is there to leave
out; that pass is turned off.

64-bit integers live in a local `enable_x64` scope around trace, compile and call.
"""

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import jax
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

LANES: Final = 128
"""Episodes of a tile, the last axis of every array of a kernel."""

_ONE_KERNEL: Final = {"xla_cpu_small_call": "true", "inlineable": "false"}
_COMPILER_OPTIONS: Final = {
    "xla_cpu_prefer_vector_width": 512,
    "xla_disable_hlo_passes": "while-loop-invariant-code-motion",
}

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Kernel:
    """A function that is compiled once for each static argument, shape of its arrays and device, as one kernel.

    Attributes:
        compilations: how often the function was compiled.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Take the function `function(static, *arrays)`; static is hashable, arrays are pytrees of arrays."""
        self._function = function
        self._compiled: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self.compilations = 0

    def traceable(self, static: Any) -> Any:
        """Return the jitted function of the arrays; trace and call it in an `enable_x64` scope."""

        def tagged(*arrays: Any) -> Any:
            result = jax.jit(lambda *arrays: self._function(static, *arrays))(*arrays)
            if jax.default_backend() != "cpu":
                return result
            return set_xla_metadata(result, **_ONE_KERNEL)  # type: ignore[no-untyped-call]

        return jax.jit(tagged)

    def compile(self, static: Any, *arrays: Any) -> Any:
        """Return the executable for these shapes on the default device, compiling it when it is new."""
        leaves, structure = jax.tree.flatten(arrays)
        shapes = tuple((np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves)
        key = (static, structure, shapes, devices()[0])
        with self._lock, jax.enable_x64(True):
            if key not in self._compiled:
                self._compiled[key] = _compile(self.traceable(static).lower(*arrays))
                self.compilations += 1
            return self._compiled[key]

    def __call__(self, static: Any, *arrays: Any) -> Any:
        """Run the function on host arrays; returns a pytree of host arrays."""
        executable = self.compile(static, *arrays)
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, executable(*arrays))


def _compile(lowered: Any) -> Any:
    if jax.default_backend() != "cpu":
        return lowered.compile()
    try:
        return lowered.compile(compiler_options=_COMPILER_OPTIONS)
    except jax.errors.JaxRuntimeError:  # a jaxlib without the options: slower, equal
        return lowered.compile()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def devices() -> list[jax.Device]:
    """Return the devices that batches are dealt to: all local ones, or the one that the user has set."""
    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    if chosen is None or isinstance(chosen, str):
        local: list[jax.Device] = jax.local_devices(backend=chosen)
        return local if chosen is None else local[:1]
    return [chosen]


def seeds_of_a_call(count: int, most: int, threads: int | None) -> int:
    """Return how many seeds a call takes, whole tiles and at most so many: few are shared out among the threads."""
    share = -(-count // (LANES * (threads or cores()))) * LANES
    return max(LANES, min(most, share))


def run_batches(
    function: Callable[[_Item], _Result], batches: Iterable[_Item], *, threads: int | None = None
) -> Iterator[_Result]:
    """Yield `function(batch)` for every batch, in order, several at a time in threads.

    A compiled call releases the interpreter's lock, so threads use all cores. Batches are dealt to the devices
    in turn; with several devices there is a thread for each, else one for each core. At most two batches a thread
    are under way or waiting to be taken, whatever the number of batches.
    """
    dealt = devices()
    if threads is None:
        threads = len(dealt) if len(dealt) > 1 else cores()
    if threads == 1:
        yield from map(function, batches)
        return

    def run(device: jax.Device, batch: _Item) -> _Result:
        if len(dealt) == 1:
            return function(batch)
        with jax.default_device(device):
            return function(batch)

    pending: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(max_workers=threads) as pool:
        for device, batch in zip(itertools.cycle(dealt), batches, strict=False):
            pending.append(pool.submit(run, device, batch))
            if len(pending) >= 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextmanager
def beside(function: Callable[..., _Result], *arguments: Any, **named: Any) -> Iterator[Future[_Result]]:
    """Call a function in a thread while the block runs, on the device of the caller: compilations go side by side."""
    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]

    def call() -> _Result:
        with jax.default_device(chosen):
            return function(*arguments, **named)

    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool.submit(call)
