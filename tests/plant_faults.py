"""Plant each fault in a copy of the project and report which tests catch it.

    python tests/plant_faults.py [NAME …]

A fault that no test catches, or whose place in the source is gone, ends with exit code 1.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
ORACLE = [
    "tests/contract",
    "tests/ember_ref",
    "--ignore=tests/ember_ref/test_agent.py",
    "-k",
    "not jax and not vectors",
]
STEPS = "tests/ember_jax/test_rollout.py::test_single_steps_have_the_oracles_states_observations_and_positions"
TWIN = [
    *(f"tests/contract/test_{name}.py" for name in ("rules", "policies", "common_random_numbers")),
    f"{STEPS}[True]",
    "-k",
    "not ref",
]
KERNEL = ["tests/differential/test_vectors.py", "-k", "fast"]
EVIDENCE = ["tests/ember_jax/test_evidence_kernel.py"]
REFERENCES = ["tests/ember_jax/test_references_kernel.py"]
WAYS = ["tests/ember_jax/test_fire_aware_kernel.py", "tests/ember_jax/test_way_kernels.py"]
# Name, file, the text as it is, the text with the fault, and where to look for the test that catches it.
FAULTS = [
    ("candidates in column order, oracle", "ember_ref/fire.py", "return sorted(around)",
     "return sorted(around, key=lambda cell: cell[::-1])", ORACLE),
    ("candidates in column order, twin", "ember_jax/fire.py",
     "before = jnp.cumsum(of_cell.reshape(-1), dtype=jnp.uint32).reshape(of_cell.shape) - of_cell",
     "before = jnp.cumsum(of_cell.T.reshape(-1), dtype=jnp.uint32).reshape(of_cell.T.shape).T - of_cell", TWIN),
    ("draws skipped after a success, oracle", "ember_ref/fire.py",
     "draws = [stream.bernoulli(self._threshold) for source in neighbours if source in burning]",
     "draws = (stream.bernoulli(self._threshold) for source in neighbours if source in burning)", ORACLE),
    ("draws skipped after a success, twin", "ember_jax/fire.py",
     "drawn = jnp.where(world.stochastic, jnp.sum(of_cell, dtype=jnp.uint32), jnp.uint32(0))",
     "drawn = jnp.where(world.stochastic, jnp.sum(of_cell > 0, dtype=jnp.uint32), jnp.uint32(0))", TWIN),
    ("action order changed in a tie-break, oracle", "ember_ref/policies.py",
     "pairs = ((direction, target_of(position, direction)) for direction in DIRECTIONS)",
     "pairs = ((direction, target_of(position, direction)) for direction in DIRECTIONS[::-1])", ORACLE),
    ("action order changed in a tie-break, twin", "ember_jax/policies.py",
     "return jnp.select(accepted, [jnp.int32(direction) for direction in DIRECTIONS], jnp.int32(STAY))",
     "return jnp.select(accepted[::-1], [jnp.int32(direction) for direction in DIRECTIONS[::-1]], jnp.int32(STAY))",
     TWIN),
    ("the other comparison in the conflict rule, oracle", "ember_ref/movement.py",
     "for person in movers:  # in ID order, so", "for person in movers[::-1]:  # in ID order, so", ORACLE),
    ("<= for < in the conflict rule, twin", "ember_jax/movement.py",
     "(people[None, :] < people[:, None])", "(people[None, :] <= people[:, None])", TWIN),
    ("P2 before P10, oracle", "ember_ref/scenario.py",
     "tuple(sorted(self.people, key=lambda person: person.id))",
     "tuple(sorted(self.people, key=lambda person: (len(person.id), person.id)))", ORACLE),
    ("P2 before P10 in a step, oracle", "ember_ref/movement.py",
     "for person in sorted(positions)}", "for person in sorted(positions, key=lambda p: (len(p), p))}", ORACLE),
    ("the highest ID wins, twin", "ember_jax/movement.py",
     "(people[None, :] < people[:, None])", "(people[None, :] > people[:, None])", TWIN),
    ("P2 before P10, twin", "ember_jax/world.py",
     "_cells([p.position for p in scenario.people], size.people)",
     "_cells([p.position for p in sorted(scenario.people, key=lambda p: (len(p.id), p.id))], size.people)", TWIN),
    ("cycles allowed, oracle", "ember_ref/movement.py",
     "outcome = MoveOutcome.BLOCKED_CYCLE", "outcome = MoveOutcome.MOVED", ORACLE),
    ("cycles allowed, twin", "ember_jax/movement.py",
     "[refusal, jnp.int32(BLOCKED_CONFLICT), jnp.int32(MOVED), jnp.int32(BLOCKED_CYCLE)],",
     "[refusal, jnp.int32(BLOCKED_CONFLICT), jnp.int32(MOVED), jnp.int32(MOVED)],", TWIN),
    ("evacuation after the fire, oracle", "ember_ref/simulator.py",
     "if cell in self._exit_ids and cell not in before",
     ("if cell in self._exit_ids and cell not in before.union(self._fire.ignitions(before, step, "
     "Stream(FIRE, self.seed, position=self._stream.position)))"), ORACLE),
    ("evacuation after the fire, twin", "ember_jax/simulator.py",
     "evacuated = active & (exit_index >= 0) & ~burned_before",
     "evacuated = active & (exit_index >= 0) & ~burns_after", TWIN),
    ("horizon off by one, oracle", "ember_ref/simulator.py",
     "elif step >= self.scenario.termination.max_steps:", "elif step > self.scenario.termination.max_steps:", ORACLE),
    ("horizon off by one, twin", "ember_jax/simulator.py",
     "[~jnp.any(people.active), step >= world.max_steps],",
     "[~jnp.any(people.active), step > world.max_steps],", TWIN),
    ("horizon of the fire off by one, twin", "ember_jax/fire.py",
     "last = world.max_steps // world.spread_interval", "last = (world.max_steps - 1) // world.spread_interval",
     ["tests/differential/test_vectors.py", "-k", "plain"]),
    ("padding taken as floor, twin", "ember_jax/world.py",
     "floor[: grid.height, : grid.width] = True", "floor[: grid.height + 1, : grid.width] = True",
     ["tests/differential/test_vectors.py", "-k", "plain"]),
    ("the first column's mask gone, fast fires", "ember_jax/fire_kernel.py",
     "has_west=pack(", "has_west=~pack(", KERNEL),
    ("exits burn a step early, fast references", "ember_jax/references_kernel.py",
     "jnp.minimum(step, never - jnp.uint32(1)) + jnp.uint32(1), step)", "step, step)", REFERENCES),
    ("danger from the step after, fast evidence", "ember_jax/evidence_kernel.py",
     "here(burning.danger_from) <= now, evacuated", "here(burning.danger_from) < now, evacuated", EVIDENCE),
    ("recoverable a step too short, fast evidence", "ember_jax/evidence_kernel.py",
     "recoverable = jnp.where(steps <= limit", "recoverable = jnp.where(steps < limit", EVIDENCE),
    ("exits open a step longer, fast bounds", "ember_jax/capacity_kernel.py",
     "(until > s.astype(dtype))", "(until >= s.astype(dtype))", EVIDENCE),
    ("the sum over cuts never starts again, fast bounds", "ember_jax/capacity_kernel.py",
     "jnp.where(cuts.opens[index] == jnp.int32(1), jnp.int32(0), gain)", "gain", EVIDENCE),
    ("south before north, fast ways", "ember_jax/fire_aware_kernel.py",
     "return north, south & ~north, east", "return north & ~south, south, east", WAYS),
    ("no flood for a longer way, fast ways", "ember_jax/fire_aware_kernel.py",
     "repeat_if(some_cell(occupied & ~valid), again, routes)",
     "repeat_if(some_cell(occupied & ~occupied), again, routes)", WAYS),
    ("people forgotten on their ways, fast ways", "ember_jax/fire_aware_kernel.py",
     "go = active & (has(board, start)", "go = ~active & (has(board, start)", WAYS),
    ("ways of the episode before, fast ways", "ember_jax/fire_aware_kernel.py",
     "relied=boards[3],\n        trapped=jnp.where(again",
     "relied=guide.relied,\n        trapped=jnp.where(again", WAYS),
]  # fmt: skip


def caught_by(fault):
    """Return the tests that fail with a fault planted; `None` when its place is gone."""
    _, name, honest, planted, tests = fault
    return failing(tests, name, honest, planted)


def failing(tests, name=None, honest=None, planted=None):
    """Return the first test that fails in a copy, with a text of file `name` replaced when one is given."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "project"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache"))
        if name is not None:
            source = (copy / name).read_text()
            if source.count(honest) != 1:
                return None
            (copy / name).write_text(source.replace(honest, planted))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]
        result = subprocess.run(
            command,
            cwd=copy,
            env=environment(copy),
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode not in (0, 1):  # a broken collection catches nothing
            raise RuntimeError(
                f"pytest ended with {result.returncode}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
            )
        lines = result.stdout.splitlines()
        return [line.split(" ")[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]


def environment(copy):
    """Return an environment in which the copy is the project that is imported."""
    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}


def main(names):
    """Plant the faults whose name holds one of `names`, or all of them."""
    chosen = [fault for fault in FAULTS if not names or any(name in fault[0] for name in names)]
    for tests in {tuple(fault[-1]) for fault in chosen}:
        if broken := failing(list(tests)):
            print(f"BROKEN   without any fault: {', '.join(broken)}")
            return 1
    escaped = 0
    for fault in chosen:
        found = caught_by(fault)
        if found is None:
            print(f"GONE     {fault[0]}: its place in {fault[1]} is not there once")
        else:
            verdict = "caught" if found else "ESCAPED"
            print(f"{verdict:8} {fault[0]}: {', '.join(found) or 'no test fails'}", flush=True)
        escaped += not found
    print(f"{len(chosen) - escaped} of {len(chosen)} faults caught")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
