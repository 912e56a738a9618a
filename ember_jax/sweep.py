"""The rows of a sweep: what each fire, and each policy's episode in it, came to.

Rows are made a batch at a time, so memory does not grow with the number of seeds.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from ember_jax.evidence import COLUMNS
from ember_jax.evidence_kernel import evidence as episode_evidence
from ember_jax.fire_kernel import fire_summaries
from ember_jax.kernel import beside
from ember_jax.references_kernel import ReferenceSummaries, reference_summaries
from ember_jax.rollout import rollouts
from ember_jax.rollout_kernel import rollout_summaries, supports
from ember_jax.simulator import ACTIVE, CASUALTY, ENTERED_FIRE, EVACUATED, FIRE_SPREAD, NO_CASUALTY
from ember_jax.trail_kernel import Trails
from ember_ref.fire import NEVER
from ember_ref.scenario import Scenario

Columns = dict[str, np.ndarray]
_MOST_SEEDS: Final = 1 << 14
_LEAST_SEEDS: Final = 1 << 10
_MOST_VALUES: Final = 1 << 21  # seeds times people of a batch
_PLAIN_SEEDS: Final = 1 << 11  # of a batch of the plain form, so that progress is seen


class Outcomes(NamedTuple):
    """What became of everybody under each of many seeds; P people in ID order."""

    steps: np.ndarray
    """int32[N]: steps of the episode."""
    status: np.ndarray
    """int32[N, P]: `ACTIVE` (stranded), `EVACUATED` or `CASUALTY`."""
    resolution_step: np.ndarray
    """int32[N, P]: the step in which a person left or was lost; 0 when stranded."""
    cause: np.ndarray
    """int32[N, P]: the casualty cause."""
    cells_moved: np.ndarray
    """int32[N, P]: outcomes `moved`."""


def rows(
    scenario: Scenario,
    seeds: Sequence[int],
    policy: str | None,
    *,
    policy_seed: int = 0,
    digests: bool = False,
    evidence: bool = True,
) -> Iterator[Columns]:
    """Yield the columns of a sweep for some seeds, a batch at a time, in order.

    Args:
        scenario: the scenario.
        seeds: evaluator seeds.
        policy: a policy name; without it only the columns of the world.
        policy_seed: the seed of the policy's own stream.
        digests: whether to add `fire_world_digest`.
        evidence: whether to add the columns of `ember_jax.evidence` for a policy.

    Yields:
        Arrays of one length by column name: uint64 `seed` and `stream_position`, int32 counts, int64 sums, and
        the digests as 32 bytes each.
    """
    array = np.array(seeds, dtype=np.uint64)
    batch = max(_LEAST_SEEDS, min(_MOST_SEEDS, _MOST_VALUES // len(scenario.people)))
    if policy is not None and not supports(scenario, policy):
        batch = min(batch, _PLAIN_SEEDS)
    for at in range(0, len(array), batch):
        part = array[at : at + batch]
        kept: dict[int, Trails] = {}
        if policy is None or not evidence:
            columns = _world_columns(part, reference_summaries(scenario, part, digests=digests))
        else:
            with beside(fire_summaries, scenario, part, digests=digests, threads=1) as aside:
                found = episode_evidence(scenario, part, policy, policy_seed=policy_seed, keep=kept.__setitem__)
                fires = aside.result()
            # The evidence has everybody's references, so they are not made again.
            references = ReferenceSummaries(
                earliest_evacuation=found.earliest_evacuation,
                fewest_moves=found.reference_moves,
                fewest_danger_states=found.reference_danger,
                **fires._asdict(),
            )
            columns = _world_columns(part, references) | {name: getattr(found, name) for name in COLUMNS}
        if kept:
            columns |= _policy_columns(outcomes_of_trails([kept[at] for at in sorted(kept)]))
        elif policy is not None:
            columns |= _policy_columns(outcomes(scenario, part, policy, policy_seed=policy_seed))
        yield columns


def outcomes(scenario: Scenario, seeds: np.ndarray, policy: str, *, policy_seed: int = 0) -> Outcomes:
    """Run a policy under each of many seeds, in the fastest form that has it."""
    if supports(scenario, policy):
        fast = rollout_summaries(scenario, seeds, policy, policy_seed=policy_seed)
        return Outcomes(*(getattr(fast, name) for name in Outcomes._fields))
    # Field by field, so that no batch's worlds are kept.
    parts = [
        [getattr(part, name) for name in Outcomes._fields]
        for part in rollouts(scenario, seeds, policy, policy_seed=policy_seed)
    ]
    return Outcomes(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def outcomes_of_trails(trails: Sequence[Trails]) -> Outcomes:
    """Return what became of everybody in the episodes of `ember_jax.trail_kernel`, one batch after another."""

    def joined(name: str) -> np.ndarray:
        values: np.ndarray = np.concatenate([getattr(part, name) for part in trails])
        return values

    evacuated, stranded = joined("evacuated"), joined("stranded")
    status = np.select([evacuated, stranded], [EVACUATED, ACTIVE], CASUALTY).astype(np.int32)
    lost = np.where(joined("entered_fire"), ENTERED_FIRE, FIRE_SPREAD)
    return Outcomes(
        steps=joined("steps"),
        status=status,
        resolution_step=joined("resolution_step"),
        cause=np.where(status == CASUALTY, lost, NO_CASUALTY).astype(np.int32),
        cells_moved=joined("cells_moved"),
    )


def _world_columns(seeds: np.ndarray, references: ReferenceSummaries) -> Columns:
    savable = references.earliest_evacuation != NEVER
    columns = {
        "seed": seeds,
        "stream_position": references.stream_position,
        "burned": references.burned.astype(np.int32),
        "max_evacuated": _count(savable),
        "sum_earliest_savable": _sum(np.where(savable, references.earliest_evacuation, 0)),
        "sum_fewest_moves_savable": _sum(np.where(savable, references.fewest_moves, 0)),
        "sum_fewest_danger_states_savable": _sum(np.where(savable, references.fewest_danger_states, 0)),
    }
    if references.digest is not None:
        columns["fire_world_digest"] = np.array([row.tobytes() for row in references.digest], dtype=object)
    return columns


def _policy_columns(found: Outcomes) -> Columns:
    evacuated = found.status == EVACUATED
    return {
        "steps": found.steps,
        "evacuated": _count(evacuated),
        "casualties_entered_fire": _count(found.cause == ENTERED_FIRE),
        "casualties_fire_spread": _count(found.cause == FIRE_SPREAD),
        "stranded": _count(found.status == ACTIVE),
        "sum_evacuation_steps": _sum(np.where(evacuated, found.resolution_step, 0)),
    }


def _count(mask: np.ndarray) -> np.ndarray:
    counts: np.ndarray = np.count_nonzero(mask, axis=1).astype(np.int32)
    return counts


def _sum(values: np.ndarray) -> np.ndarray:
    sums: np.ndarray = np.asarray(values.sum(axis=1, dtype=np.int64))
    return sums
