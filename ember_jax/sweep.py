"""The rows of a sweep: what each fire, and each policy's episode in it, came to.

Rows are made a batch at a time, so memory does not grow with the number of seeds.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ember_jax.fire_kernel import fire_summaries
from ember_jax.rollout import rollouts
from ember_jax.simulator import ACTIVE, ENTERED_FIRE, EVACUATED, FIRE_SPREAD
from ember_ref.scenario import Scenario

Columns = dict[str, np.ndarray]
_BATCH: Final = 4096


def rows(
    scenario: Scenario,
    seeds: Sequence[int],
    policy: str | None,
    *,
    policy_seed: int = 0,
    digests: bool = False,
) -> Iterator[Columns]:
    """Yield the columns of a sweep for some seeds, a batch at a time, in order.

    Args:
        scenario: the scenario.
        seeds: evaluator seeds.
        policy: a policy name; without it only the columns of the fire.
        policy_seed: the seed of the policy's own stream.
        digests: whether to add `fire_world_digest`.

    Yields:
        Arrays of one length by column name: uint64 `seed` and `stream_position`, int32 and int64 counts, and
        the digests as `S32` bytes.
    """
    array = np.array(seeds, dtype=np.uint64)
    if policy is None:
        for at in range(0, len(array), _BATCH):
            part = array[at : at + _BATCH]
            fires = fire_summaries(scenario, part, digests=digests)
            yield _fire_columns(part, fires.burned, fires.stream_position, fires.digest)
        return
    for batch in rollouts(scenario, array, policy, policy_seed=policy_seed):
        evacuated = batch.status == EVACUATED
        worlds = batch.fires
        hashes = fire_summaries(scenario, batch.seeds, digests=True).digest if digests else None
        yield _fire_columns(batch.seeds, worlds.burned, worlds.stream_position, hashes) | {
            "steps": batch.steps,
            "evacuated": _count(evacuated),
            "casualties_entered_fire": _count(batch.cause == ENTERED_FIRE),
            "casualties_fire_spread": _count(batch.cause == FIRE_SPREAD),
            "stranded": _count(batch.status == ACTIVE),
            "sum_evacuation_steps": _sum(np.where(evacuated, batch.resolution_step, 0)),
        }


def _fire_columns(
    seeds: np.ndarray, burned: np.ndarray, stream_position: np.ndarray, digests: np.ndarray | None
) -> Columns:
    columns = {
        "seed": seeds,
        "stream_position": stream_position,
        "burned": burned.astype(np.int32),
    }
    if digests is not None:
        columns["fire_world_digest"] = np.array([row.tobytes() for row in digests], dtype=object)
    return columns


def _count(mask: np.ndarray) -> np.ndarray:
    counts: np.ndarray = np.count_nonzero(mask, axis=1).astype(np.int32)
    return counts


def _sum(values: np.ndarray) -> np.ndarray:
    sums: np.ndarray = np.asarray(values.sum(axis=1, dtype=np.int64))
    return sums
