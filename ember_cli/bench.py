"""`ember bench`: how fast this machine does one kind of work."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from ember_cli.console import Json, Report, UsageError, enable_compilation_cache, scenario_of
from ember_ref.policies import make_policy
from ember_ref.scenario import Scenario

FIRST_SEED: Final = 0
_WARM_UP_SEED: Final = 1 << 63
_ROUND_SECONDS: Final = 0.5
_MASK: Final = (1 << 64) - 1


class Work(StrEnum):
    """What is measured."""

    WORLD = "world"
    REFERENCES = "references"
    ROLLOUT = "rollout"


def bench(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or the name of a bundled scenario.")],
    work: Annotated[Work, typer.Option("--work", help="Fire worlds, worlds with references, or rollouts.")],
    policy: Annotated[str | None, typer.Option("--policy", help="The policy of a rollout.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="At least how long to measure.")] = 5.0,
    as_json: Json = False,
) -> None:
    """Measure the steady state of the compiled path, with fresh seeds in every round.

    `compile_seconds` is the time to the first result (tracing, compiling or loading from the cache, one small
    batch); `cpu_use` is how many cores were busy on average; `checksum` is the sum of all results modulo 2^64,
    so that two programs, or two versions of one, can be seen to have done the same work on the same seeds.
    """
    if (work is Work.ROLLOUT) != (policy is not None):
        raise UsageError("--work rollout and --policy NAME go together")
    if not 0 < seconds <= 3600:
        raise UsageError(f"--seconds {seconds}: expected more than 0 and at most 3600")
    if policy is not None:
        make_policy(policy, 0)
    item = scenario_of(scenario)
    enable_compilation_cache()
    compute = _work(item, work, policy)
    start = time.monotonic()
    compute(_WARM_UP_SEED, 1)
    compile_seconds = time.monotonic() - start
    batch = _batch(compute)
    done = checksum = 0
    start, cpu = time.monotonic(), time.process_time()
    while (spent := time.monotonic() - start) < seconds:
        checksum = (checksum + compute(FIRST_SEED + done, batch)) & _MASK
        done += batch
    cpu_use = (time.process_time() - cpu) / spent
    import jax

    report = Report(as_json=as_json, title=f"{work} of {item.id}")
    report.add(
        {
            "work": str(work),
            "policy": policy,
            "scenario": item.id,
            "device": jax.devices()[0].device_kind,
            "batch": batch,
            "seeds": done,
            "seconds": round(spent, 3),
            "first_seed": FIRST_SEED,
            "seeds_per_s": round(done / spent, 1),
            "compile_seconds": round(compile_seconds, 3),
            "cpu_use": round(cpu_use, 2),
            "checksum": checksum,
        }
    )
    report.close()


def _batch(compute: Callable[[int, int], int]) -> int:
    """Return how many seeds make a round of about half a second; leaves everything warm."""
    batch, seed = 128, _WARM_UP_SEED
    while True:
        start = time.monotonic()
        compute(seed, batch)
        seed += batch
        if time.monotonic() - start > _ROUND_SECONDS / 2 or batch >= 1 << 20:
            return batch
        batch *= 2


def _work(scenario: Scenario, work: Work, policy: str | None) -> Callable[[int, int], int]:
    """Return the function from a first seed and a count to the sum of the results."""
    import numpy as np

    def seeds(first: int, count: int) -> Any:
        return np.arange(count, dtype=np.uint64) + np.uint64(first)

    def total(*arrays: Any) -> int:
        return int(sum(int(array.sum(dtype=np.uint64)) for array in arrays)) & _MASK

    def worlds(first: int, count: int) -> int:
        from ember_jax.fire_kernel import fire_summaries

        fires = fire_summaries(scenario, seeds(first, count))
        return total(fires.burned, fires.stream_position)

    def references(first: int, count: int) -> int:
        from ember_jax.references_kernel import reference_summaries

        found = reference_summaries(scenario, seeds(first, count))
        return total(
            found.earliest_evacuation,
            found.fewest_moves,
            found.fewest_danger_states,
            found.max_evacuated,
        )

    def episodes(first: int, count: int) -> int:
        from ember_jax.sweep import outcomes

        found = outcomes(scenario, seeds(first, count), str(policy))
        return total(found.steps, found.status, found.resolution_step, found.cells_moved)

    return {Work.WORLD: worlds, Work.REFERENCES: references, Work.ROLLOUT: episodes}[work]
