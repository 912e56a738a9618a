"""Where everybody was in the episodes of a baseline policy, batch-explicit (see `ember_jax.rollout_kernel`).

The lanes of a tile start together and none starts again, so a snapshot of all is one slice.
"""

from typing import Any, Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ember_jax.episode_kernel import RolloutSize, start_lanes, step_lanes, stream_seeds
from ember_jax.fire_kernel import padded_seeds
from ember_jax.kernel import LANES, Kernel
from ember_jax.movement_kernel import People, any_lane, bit_of, row_of
from ember_jax.rollout_kernel import rollout_ground, rollout_size
from ember_ref.scenario import Scenario


class Trails(NamedTuple):
    """What people did in the episodes of a call; N episodes, P people."""

    cell: np.ndarray
    """uint16 or uint32[tiles, T, padded P, LANES]: the number of the cell, row-major, where a person was who was
    active at a snapshot; else the number of cells of the grid."""
    evacuated: np.ndarray
    """bool[N, P]."""
    resolution_step: np.ndarray
    """int32[N, P]: the step in which a person left or was lost; 0 when stranded."""
    cells_moved: np.ndarray
    """int32[N, P]: outcomes `moved`."""
    stranded: np.ndarray | None = None
    """bool[N, P], as the next two `None` for what was not run here: people who were active at the end."""
    entered_fire: np.ndarray | None = None
    """bool[N, P]: people who were lost by a move into fire."""
    steps: np.ndarray | None = None
    """int32[N]: steps of the episode."""


class _Static(NamedTuple):
    size: RolloutSize
    tiles: int
    snapshots: int


def policy_trails(
    scenario: Scenario, seeds: np.ndarray, policy: str, *, policy_seed: int, tiles: int, snapshots: int
) -> Trails:
    """Run a policy under a few seeds and keep where everybody was.

    Args:
        scenario: the scenario.
        seeds: uint64[N], at most `tiles` tiles of them.
        policy: a policy that `ember_jax.rollout_kernel` supports the scenario with.
        policy_seed: 64-bit seed of the policy's own stream.
        tiles: tiles of the call.
        snapshots: T, above the horizon.
    """
    size = rollout_size(scenario, policy)._replace(seeds=LANES)
    ground = rollout_ground(scenario, size, policy, policy_seed=policy_seed)
    count, people = len(seeds), len(scenario.people)
    static = _Static(size, tiles, snapshots)
    found = _TRAILS(static, ground, np.asarray(count, dtype=np.int32), *padded_seeds(seeds, tiles))

    def of_people(values: np.ndarray) -> np.ndarray:
        return values.swapaxes(1, 2).reshape(-1, size.people)[:count, :people]

    return Trails(
        cell=found["cell"],
        evacuated=of_people(found["evacuated"]),
        resolution_step=of_people(found["resolution_step"]),
        cells_moved=of_people(found["cells_moved"]),
        stranded=of_people(found["stranded"]),
        entered_fire=of_people(found["entered_fire"]),
        steps=found["steps"].reshape(-1)[:count],
    )


def _call(static: _Static, ground: Any, count: Array, seed_hi: Array, seed_lo: Array) -> dict[str, Array]:
    size = static.size
    kind = jnp.uint16 if 32 * size.fire.words < 2**16 else jnp.uint32

    def record(number: Array, present: Array, people: People, trail: Array) -> Array:
        def person(index: Array, trail: Array) -> Array:
            there = bit_of(present, index) != jnp.asarray(0, present.dtype)
            here = jnp.where(there, row_of(people.cell, index), ground.fire.cells).astype(kind)
            return lax.dynamic_update_slice(trail, here[None, None], (number, index, jnp.int32(0)))

        kept: Array = lax.fori_loop(jnp.int32(0), jnp.int32(size.people), person, trail)
        return kept

    def tile(arguments: tuple[Array, Array, Array]) -> dict[str, Array]:
        index, hi, lo = arguments
        # Lanes beyond the seeds of the call have nobody.
        mine = jnp.clip(count - index * jnp.int32(LANES), jnp.int32(0), jnp.int32(LANES))
        lanes = start_lanes(ground, size, mine, stream_seeds(size, mine, hi, lo))
        none = jnp.asarray(0, lanes.people.active.dtype)
        nobody = jnp.broadcast_to(ground.fire.cells.astype(kind), (static.snapshots, size.people, LANES))

        def step(carry: tuple[Any, Array]) -> tuple[Any, Array]:
            lanes = step_lanes(ground, size, carry[0])
            return lanes, record(lanes.clock, lanes.people.active | lanes.stranded, lanes.people, carry[1])

        lanes, trail = lax.while_loop(
            lambda carry: any_lane(carry[0].people.active) != none,
            step,
            (lanes, record(jnp.int32(0), lanes.people.active, lanes.people, nobody)),
        )
        person = jnp.arange(size.people, dtype=lanes.people.evacuated.dtype)[:, None]

        def each_of(mask: Array) -> Array:
            return (mask[None] >> person) & jnp.ones_like(person) != none

        return {
            "cell": trail,
            "evacuated": each_of(lanes.people.evacuated),
            "stranded": each_of(lanes.stranded),
            "entered_fire": each_of(lanes.people.entered_fire),
            "steps": lanes.last,
            "resolution_step": lanes.people.resolution_step,
            "cells_moved": lanes.people.cells_moved,
        }

    results: dict[str, Array] = lax.map(tile, (lax.iota(jnp.int32, static.tiles), seed_hi, seed_lo))
    return results


_TRAILS: Final = Kernel(_call)
