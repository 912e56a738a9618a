"""Batches over devices: the same bytes on one device and on several, and as many compilations as devices."""

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ember_jax import fire_kernel, references_kernel, rollout_kernel
from ember_jax.kernel import Kernel, devices, run_batches
from ember_ref.suite import load_suite
from scenarios.bundled import suite_path

STATIC = "static-shortest-path-v1"

PROGRAM = """
import hashlib
import jax, numpy as np
from ember_jax import fire_kernel, kernel
from ember_jax.fire_kernel import fire_summaries
from ember_ref.scenario import load_scenario
from scenarios.bundled import scenario_path

scenario = load_scenario(scenario_path("v1-pub-01-single-exit-low-density"))
used = set()
compile = kernel.Kernel.compile
def seen(self, *arguments):
    used.add(kernel.devices()[0])
    return compile(self, *arguments)
kernel.Kernel.compile = seen
seeds = np.arange(9000, dtype=np.uint64) + np.uint64(2**63)
hasher = hashlib.sha256()
for array in fire_summaries(scenario, seeds):
    if array is not None:
        hasher.update(np.ascontiguousarray(array).tobytes())
print(len(jax.local_devices()), len(used), fire_kernel._COUNTS.compilations, hasher.hexdigest())
"""


def run_on(count):
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | flags, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_batch_is_dealt_to_all_devices_and_the_bytes_are_the_same():
    one, two, four = (run_on(count) for count in (1, 2, 4))
    assert [one[:3], two[:3], four[:3]] == [["1"] * 3, ["2"] * 3, ["4"] * 3]
    assert one[3] == two[3] == four[3]


def test_batches_come_in_order_whatever_the_threads():
    for threads in (1, 2, 5, None):
        assert list(run_batches(lambda item: item * item, range(20), threads=threads)) == [i * i for i in range(20)]


def test_a_device_that_the_user_has_set_is_the_only_one():
    (device,) = jax.local_devices()[:1]
    with jax.default_device(device):
        assert devices() == [device]
    with jax.default_device("cpu"):
        assert devices() == jax.local_devices(backend="cpu")[:1]


def test_a_kernel_compiles_once_a_shape_and_static_argument():
    kernel = Kernel(lambda times, values: values * np.uint32(times))
    for times, length in ((2, 3), (2, 3), (3, 3), (2, 4), (3, 3)):
        values = np.arange(length, dtype=np.uint32)
        assert kernel(times, values).tolist() == (values * times).tolist()
    assert kernel.compilations == 3


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the option is the CPU compiler's")
def test_what_a_branch_leaves_out_is_not_taken_out_of_it():
    # The inner loop does not depend on what the outer one carries.
    def function(_static, trips, value):
        def outer(_, old):
            return old + lax.fori_loop(jnp.int32(0), value, lambda _, old: old * jnp.int32(3), jnp.int32(1))

        return lax.fori_loop(jnp.int32(0), trips, outer, jnp.int32(0))

    kernel = Kernel(function)
    arguments = (np.int32(2), np.int32(4))
    assert kernel("", *arguments) == 162
    text = kernel.compile("", *arguments).as_text()
    bodies = set(re.findall(r"body=%([\w.]+)", text))
    computations = [part.split(maxsplit=1) for part in text.split("\n\n") if part.strip()]
    nested = [name for name, part in computations if name.lstrip("%") in bodies and "to_apply=%while" in part]
    assert len(nested) == 1


def test_an_error_in_a_batch_is_the_callers():
    def fail(item):
        raise ValueError(f"batch {item}")

    with pytest.raises(ValueError, match="batch 0"):
        list(run_batches(fail, range(3), threads=2))


@pytest.mark.parametrize(
    ("kernel", "size_of", "run"),
    [
        (fire_kernel._COUNTS, fire_kernel.fire_size, fire_kernel.fire_summaries),
        (references_kernel._REFERENCES, references_kernel.reference_size, references_kernel.reference_summaries),
        (
            rollout_kernel._ROLLOUTS,
            lambda scenario: rollout_kernel.rollout_size(scenario, STATIC),
            lambda scenario, seeds: rollout_kernel.rollout_summaries(scenario, seeds, STATIC),
        ),
    ],
    ids=["fires", "references", "rollouts"],
)
def test_scenarios_of_one_padded_size_share_one_compilation(kernel, size_of, run):
    by_size = {}
    for scenario in load_suite(suite_path("public-v1")).scenarios.values():
        by_size.setdefault(size_of(scenario), []).append(scenario)
    shared = max(by_size.values(), key=len)
    assert len(shared) >= 4
    before = kernel.compilations
    for scenario in shared:
        for count in (1, 3, 200):
            run(scenario, np.arange(count, dtype=np.uint64))
    assert kernel.compilations - before <= 1
