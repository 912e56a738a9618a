"""The rows of a sweep: what each fire, and each policy's episode in it, came to.

Rows are made a batch at a time, so memory does not grow with the number of seeds.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ember_jax.fire import FireWorlds, batch_tile, fire_worlds, world_of
from ember_jax.rollout import rollouts
from ember_jax.simulator import ACTIVE, ENTERED_FIRE, EVACUATED, FIRE_SPREAD
from ember_jax.world import padded_size
from ember_ref.scenario import Scenario

Columns = dict[str, np.ndarray]


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
        tile = batch_tile(padded_size(scenario), len(array))
        for at in range(0, len(array), tile):
            part = array[at : at + tile]
            fires = fire_worlds(scenario, part, tile=tile)
            yield _fire_columns(scenario, part, fires, digests)
        return
    for batch in rollouts(scenario, array, policy, policy_seed=policy_seed):
        evacuated = batch.status == EVACUATED
        yield _fire_columns(scenario, batch.seeds, batch.fires, digests) | {
            "steps": batch.steps,
            "evacuated": _count(evacuated),
            "casualties_entered_fire": _count(batch.cause == ENTERED_FIRE),
            "casualties_fire_spread": _count(batch.cause == FIRE_SPREAD),
            "stranded": _count(batch.status == ACTIVE),
            "sum_evacuation_steps": _sum(np.where(evacuated, batch.resolution_step, 0)),
        }


def _fire_columns(scenario: Scenario, seeds: np.ndarray, fires: FireWorlds, digests: bool) -> Columns:
    columns = {
        "seed": seeds,
        "stream_position": fires.stream_position,
        "burned": fires.burned.astype(np.int32),
    }
    if digests:
        hashes = [world_of(scenario, int(seed), fires, i).digest for i, seed in enumerate(seeds)]
        columns["fire_world_digest"] = np.array([bytes.fromhex(text) for text in hashes], dtype=object)
    return columns


def _count(mask: np.ndarray) -> np.ndarray:
    counts: np.ndarray = np.count_nonzero(mask, axis=1).astype(np.int32)
    return counts


def _sum(values: np.ndarray) -> np.ndarray:
    sums: np.ndarray = np.asarray(values.sum(axis=1, dtype=np.int64))
    return sums
