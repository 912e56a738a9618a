"""What every fast kernel is: one kernel on a CPU, and a program for every platform."""

import jax


def assert_one_kernel_for_every_platform(kernel, static, arguments):
    if jax.default_backend() == "cpu":
        text = kernel.compile(static, *arguments).as_text()
        assert text.count('inlineable="false",xla_cpu_small_call="true"') == 1
    with jax.enable_x64(True):
        for platform in ("cpu", "cuda", "tpu"):
            exported = jax.export.export(kernel.traceable(static), platforms=[platform])(*arguments)
            assert exported.platforms == (platform,)
