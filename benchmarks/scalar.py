"""The plain scalar C++ programs of `benchmarks/limit/`, compiled when a compiler is there and called in process."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import COLUMNS, STEPS, actions_of
from benchmarks.work import Results, Task, Work
from ember_ref.scenario import EnterFire, FireModel, Scenario
from ember_ref.stream import threshold

SOURCE = Path(__file__).parent / "limit" / "limit.cpp"
FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


class _Scenario(ctypes.Structure):
    """The layout of `Scenario` in limit/scenario.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("height", "width", "exits", "people", "ignitions")),
        *((name, ctypes.c_int32) for name in ("max_steps", "spread_interval")),
        *((name, ctypes.c_int32) for name in ("stochastic", "exits_flammable", "fire_blocks")),
        ("threshold", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ("open", "exit_cell", "person_cell", "ignition_cell")),
    )


def compiler() -> str | None:
    """Return the C++ compiler: `CXX`, or g++ or clang++ where there is one."""
    named = os.environ.get("CXX")
    return named or next((path for name in ("g++", "clang++") if (path := shutil.which(name))), None)


def build(folder: Path) -> ctypes.CDLL:
    """Compile the programs into a folder and load them.

    Raises:
        RuntimeError: when there is no compiler, or it fails.
    """
    command = compiler()
    if command is None:
        raise RuntimeError("no C++ compiler (CXX, g++ or clang++): the scalar programs are left out")
    library = folder / "limit.so"
    done = subprocess.run([command, *FLAGS, "-o", library, SOURCE], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} cannot compile {SOURCE.name}: the scalar programs are left out\n{done.stderr}")
    return ctypes.CDLL(str(library))


class Scalar:
    """Plain scalar C++, one seed after the other; threads take equal shares of the seeds."""

    most_threads = 64
    check_seeds = 512

    def __init__(self, *, dense: bool = False) -> None:
        """Compile; `dense` takes the fire that looks at every cell in every step."""
        self.name = "C++ plain loop" if dense else "C++ scalar"
        self._dense = dense
        with tempfile.TemporaryDirectory() as folder:
            self._library = build(Path(folder))

    def can(self, task: Task) -> bool:
        """Tell whether it does this task; the plain loop is only there for fires."""
        if self._dense:
            return task.work is Work.WORLD
        if task.work is Work.EVIDENCE:
            return False
        return task.policy is None or not task.policy.startswith("adv-block-scrub.")

    def run(self, task: Task, first: int, count: int, *, threads: int = 1, worlds: bool = False) -> Results:
        """Do a task (see `benchmarks.work.Program`)."""
        call = _Call(self._library, task.scenario, first, count)
        work = {
            Work.WORLD: lambda: call.worlds(self._dense, worlds),
            Work.REFERENCES: call.references,
            Work.ROLLOUT: lambda: call.rollouts(str(task.policy)),
            Work.STEP: call.steps,
        }[task.work]()
        share = -(-count // threads)
        if threads == 1:
            work(0, count)
            return call.results
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda at: work(at, min(share, count - at)), range(0, count, share)))
        return call.results


class _Call:
    """The arrays of one call, and the functions that fill a share of them."""

    def __init__(self, library: ctypes.CDLL, scenario: Scenario, first: int, count: int) -> None:
        self._library = library
        self._first, self._count = first, count
        self._item, self._kept = _flat(scenario)
        self._scenario = scenario
        self.results: dict[str, np.ndarray] = {}

    def _array(self, name: str, dtype: type, *shape: int) -> np.ndarray:
        self.results[name] = np.zeros((self._count, *shape), dtype=dtype)
        return self.results[name]

    def worlds(self, dense: bool, steps: bool) -> Any:
        burned, position = self._array("burned", np.uint32), self._array("stream_position", np.uint64)
        size = self._scenario.grid.height, self._scenario.grid.width
        world = self._array("ignition_step", np.uint32, *size) if steps else None
        function = self._library.dense_fire_worlds if dense else self._library.fire_worlds

        def share(at: int, count: int) -> None:
            worlds = None if world is None else _at(world, at)
            function(*self._seeds(at, count), _at(burned, at), _at(position, at), worlds)

        return share

    def references(self) -> Any:
        people = len(self._scenario.people)
        arrays = [
            self._array(name, np.uint32, people)
            for name in ("earliest_evacuation", "fewest_moves", "fewest_danger_states")
        ]
        arrays += [self._array("burned", np.uint32), self._array("stream_position", np.uint64)]

        def share(at: int, count: int) -> None:
            self._library.references(*self._seeds(at, count), *(_at(array, at) for array in arrays))

        return share

    def rollouts(self, policy: str) -> Any:
        people = len(self._scenario.people)
        names = ("status", "resolution_step", "exit_index", "cause", "cells_moved")
        arrays = [self._array("steps", np.int32), *(self._array(name, np.int32, people) for name in names)]
        name = policy.encode("ascii")

        def share(at: int, count: int) -> None:
            scenario, first, number = self._seeds(at, count)
            outs = (_at(array, at) for array in arrays)
            if not self._library.rollouts(scenario, name, ctypes.c_uint64(0), first, number, *outs):
                raise ValueError(f"the C++ programs have no policy {policy}")

        return share

    def steps(self) -> Any:
        lanes = self._array("lanes", np.uint64, len(COLUMNS))
        people = len(self._scenario.people)
        actions = actions_of(people, self._count)

        def share(at: int, count: int) -> None:
            scenario, first, number = self._seeds(at, count)
            self._library.environment_steps(
                scenario,
                first,
                ctypes.c_uint64(self._count),
                number,
                ctypes.c_int64(self._count),
                ctypes.c_int64(STEPS),
                ctypes.c_void_p(actions.ctypes.data + at * people),
                _at(lanes, at),
            )

        return share

    def _seeds(self, at: int, count: int) -> tuple[Any, Any, Any]:
        return ctypes.byref(self._item), ctypes.c_uint64(self._first + at), ctypes.c_int64(count)


def _at(array: np.ndarray, at: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + at * array.strides[0])


def _flat(scenario: Scenario) -> tuple[_Scenario, list[np.ndarray]]:
    """Lay a scenario out for C++; the arrays must live as long as the structure."""
    grid, fire = scenario.grid, scenario.fire
    floor = np.ones((grid.height, grid.width), dtype=np.uint8)
    for cell in grid.obstacles:
        floor[cell] = 0

    def cells(positions: list[tuple[int, int]]) -> np.ndarray:
        return np.array([row * grid.width + col for row, col in positions], dtype=np.int32)

    lists = [
        cells([exit.position for exit in scenario.exits]),
        cells([person.position for person in scenario.people]),
        cells(list(fire.ignitions)),
    ]
    probability = fire.spread_probability
    item = _Scenario(
        height=grid.height,
        width=grid.width,
        exits=len(lists[0]),
        people=len(lists[1]),
        ignitions=len(lists[2]),
        max_steps=scenario.termination.max_steps,
        spread_interval=fire.spread_interval,
        stochastic=fire.model is FireModel.STOCHASTIC,
        exits_flammable=fire.exits_flammable,
        fire_blocks=scenario.movement.enter_fire is EnterFire.BLOCKED,
        threshold=0 if probability is None else threshold(probability),
        open=floor.ctypes.data,
        exit_cell=lists[0].ctypes.data,
        person_cell=lists[1].ctypes.data,
        ignition_cell=lists[2].ctypes.data,
    )
    return item, [floor, *lists]
