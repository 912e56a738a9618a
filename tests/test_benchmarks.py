"""The programs of the benchmarks: all do the same work, bit for bit; and a loaded round does not count."""

import dataclasses

import numpy as np
import pytest

from benchmarks import measure
from benchmarks.batched import Batched
from benchmarks.compiled import Compiled, Plain
from benchmarks.environment import STEPS
from benchmarks.measure import Round, Target, compare
from benchmarks.oracle import Oracle
from benchmarks.scalar import Scalar, compiler
from benchmarks.work import Task, Work, checksum, digest
from ember_ref.policies import POLICY_NAMES
from ember_ref.scenario import load_scenario
from scenarios.bundled import scenario_path

SCENARIO = load_scenario(scenario_path("v1-pub-04-multiple-exits"))
TASKS = [
    *(Task(work=work, scenario=SCENARIO) for work in (Work.WORLD, Work.REFERENCES, Work.STEP)),
    *(Task(work=Work.ROLLOUT, scenario=SCENARIO, policy=policy) for policy in POLICY_NAMES),
]


@pytest.fixture(scope="module")
def programs():
    found = [Oracle(), Batched()]
    return [*found, Scalar(), Scalar(dense=True)] if compiler() else found


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.policy or str(task.work))
def test_programs_agree(task, programs):
    found = {one.name: one.run(task, 3, 4, worlds=True) for one in programs if one.can(task)}
    expected = digest(found["ember_ref"], 4)
    assert {name: digest(results, 4) for name, results in found.items()} == dict.fromkeys(found, expected)
    assert len(found) >= 2 or not compiler()


@pytest.mark.parametrize("task", TASKS[:2], ids=lambda task: str(task.work))
def test_the_compiled_path_agrees(task):
    compiled = Compiled().run(task, 3, 4, worlds=True)
    assert digest(compiled, 4) == digest(Oracle().run(task, 3, 4, worlds=True), 4)


def test_evidence_agrees():
    task = Task(work=Work.EVIDENCE, scenario=SCENARIO, policy="congestion-aware-v1")
    found = [digest(program.run(task, 3, 4), 4) for program in (Oracle(), Compiled(), Plain())]
    assert found == [found[0]] * 3
    assert not any(program.can(task) for program in (Batched(), *([Scalar()] if compiler() else [])))


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_threads_share_the_seeds():
    program = Scalar()
    for task in TASKS[:4]:
        one, three = (program.run(task, 0, 7, threads=threads) for threads in (1, 3))
        assert digest(one, 7) == digest(three, 7)


def test_steps_start_again_after_an_episode():
    short = dataclasses.replace(
        SCENARIO, termination=dataclasses.replace(SCENARIO.termination, max_steps=STEPS // 2 - 1)
    )
    task = Task(work=Work.STEP, scenario=short)
    lanes = Oracle().run(task, 0, 3)["lanes"]
    assert np.all(lanes[:, 0] >= 2)
    assert np.array_equal(Batched().run(task, 0, 3)["lanes"], lanes)


def test_a_number_differs_when_a_result_does():
    results = {"burned": np.array([1, 2], dtype=np.uint32)}
    other = {"burned": np.array([1, 3], dtype=np.uint32)}
    assert checksum(results) == 3
    assert checksum(other) == 4
    assert digest(results, 1) == digest(other, 1)
    assert digest(results, 2) != digest(other, 2)


class _Wrong(Batched):
    name = "wrong"

    def run(self, task, first, count, **options):
        results = super().run(task, first, count, **options)
        return results | {"burned": results["burned"] + np.uint32(count > 3)}


def test_a_program_that_differs_is_seen():
    found = compare([Batched(), _Wrong()], Target(name="x", tasks=TASKS[:1]), threads=(1,), pairs=1, seconds=0.001)
    assert found.digests == {"numpy": True, "wrong": False}


@pytest.mark.parametrize(("others", "loaded"), [(0.0, False), (99.0, True)])
def test_rounds_without_their_cores_are_dropped(monkeypatch, others, loaded):
    made = Round(seeds=1, wall=1.0, cpu=1.0, others=others)
    monkeypatch.setattr(measure, "_timed", lambda *_args, **_options: made)
    found = compare([Batched()], Target(name="x", tasks=TASKS[:1]), threads=(1,), pairs=3, seconds=1.0)
    (series,) = found.series
    assert len(series.rounds) == 3
    assert series.loaded is found.loaded is loaded
    assert (series.dropped > 0) is loaded
