"""The public movement resolver: phases 2 to 5 of a step (contract section 5, R1 to R3, R6).

Everybody is compared with everybody, and chains are followed by pointer doubling, so no result depends on the
order of writes. People lie in ID order: a lower index is a lower ID.
"""

from typing import Final, NamedTuple

import jax.numpy as jnp
from jax import Array

from ember_jax.grid import STAY, look_up, target_of
from ember_jax.world import World
from ember_ref.movement import MoveOutcome

OUTCOMES: Final = tuple(MoveOutcome)
"""The outcome that each code stands for."""
(
    STAYED,
    MOVED,
    BLOCKED_BOUNDARY,
    BLOCKED_WALL,
    BLOCKED_FIRE,
    BLOCKED_OCCUPIED,
    BLOCKED_CONFLICT,
    BLOCKED_CYCLE,
) = range(len(OUTCOMES))


class Movements(NamedTuple):
    """What became of every person's action; only active people's entries mean something."""

    target_row: Array
    """int32[P]: row of the cell pointed at, out of bounds included."""
    target_col: Array
    """int32[P]: its column."""
    outcome: Array
    """int32[P]: an index of `OUTCOMES`."""

    @property
    def congestion_block(self) -> Array:
        """bool[P]: whether other people are the reason that the person stays."""
        return self.outcome >= BLOCKED_OCCUPIED


def resolve(world: World, burning: Array, row: Array, col: Array, active: Array, action: Array) -> Movements:
    """Resolve one action of every active person.

    Args:
        world: the scenario.
        burning: bool[R, C], before the step.
        row: int32[P], where people are.
        col: int32[P].
        active: bool[P], who holds a cell and acts.
        action: int32[P], indices in action order.
    """
    target_row, target_col = target_of(row, col, action)
    in_bounds = (target_row >= 0) & (target_row < world.height) & (target_col >= 0) & (target_col < world.width)
    floor = look_up(jnp.asarray(world.floor), target_row, target_col, outside=False)
    fire = look_up(burning, target_row, target_col, outside=False)
    refusal = jnp.select(
        [action == STAY, ~in_bounds, ~floor, fire & world.fire_blocks],
        [jnp.int32(code) for code in (STAYED, BLOCKED_BOUNDARY, BLOCKED_WALL, BLOCKED_FIRE)],
        jnp.int32(MOVED),
    )
    mover = active & (refusal == MOVED)

    people = jnp.arange(row.shape[0], dtype=jnp.int32)
    same_target = (target_row[:, None] == target_row[None, :]) & (target_col[:, None] == target_col[None, :])
    lower_rival = same_target & mover[None, :] & (people[None, :] < people[:, None])
    goes = mover & ~jnp.any(lower_rival, axis=1)

    holds = (target_row[:, None] == row[None, :]) & (target_col[:, None] == col[None, :]) & active[None, :]
    held = jnp.any(holds, axis=1)
    ahead = jnp.sum(jnp.where(holds, people[None, :], jnp.int32(0)), axis=1, dtype=jnp.int32)
    # A link leads from a mover to the one ahead. Doubling the links walks every chain to its end in
    # log2(P) + 1 rounds; whoever still has a link then stands in a closed chain.
    moves, linked = goes & ~held, goes & held
    for _ in range(row.shape[0].bit_length()):
        moves = moves | (linked & moves[ahead])
        onward = linked & linked[ahead]
        linked, ahead = onward, jnp.where(onward, ahead[ahead], people)
    outcome = jnp.select(
        [refusal != MOVED, ~goes, moves, linked],
        [refusal, jnp.int32(BLOCKED_CONFLICT), jnp.int32(MOVED), jnp.int32(BLOCKED_CYCLE)],
        jnp.int32(BLOCKED_OCCUPIED),
    )
    return Movements(target_row=target_row, target_col=target_col, outcome=outcome)
