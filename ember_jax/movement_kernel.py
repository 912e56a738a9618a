"""Who moves, in a tile of lanes: the fast form of `ember_jax.movement` (contract section 5, R1 to R3).

People lie in ID order, [people, lanes], and sets of people are bit masks, one integer a lane. Claimed and
occupied cells are found by comparing everybody with everybody; who moves is the least fixpoint of "moves when
nobody unmoved holds my target and no lower ID claims it", swept in ID order until no lane changes, so a
closed chain never moves.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import jax.numpy as jnp
from jax import Array, lax

from ember_jax.board_kernel import bits_at
from ember_jax.fire_kernel import FireSize, fold_max, repeat_if
from ember_jax.kernel import LANES

MOST_PEOPLE: Final = 64
"""People that a mask holds; more need the plain form."""

_Carry = TypeVar("_Carry")


class People(NamedTuple):
    """Everybody of a tile; M is the unsigned integer that holds a bit for each of P people."""

    cell: Array
    """uint32[P, L]: where a person is, or was resolved."""
    target: Array
    """uint32[P, L]: the cell that a person's action points at, the own cell for `stay`; open cells only."""
    active: Array
    """M[L]."""
    evacuated: Array
    """M[L]."""
    entered_fire: Array
    """M[L]: casualties of this cause; the others are `FIRE_SPREAD`."""
    resolution_step: Array
    """int32[P, L]."""
    cells_moved: Array
    """int32[P, L]."""


def mask_type(people: int) -> Any:
    """Return the type of a mask of so many people."""
    return jnp.uint32 if people <= 32 else jnp.uint64


def any_lane(mask: Array) -> Array:
    """Return the people in the mask of any lane: M[]."""
    while mask.shape[-1] > 1:
        half = mask.shape[-1] // 2
        mask = mask[..., :half] | mask[..., half:]
    only: Array = mask[..., 0]
    return only


def each(people: Array, function: Callable[[Array, _Carry], _Carry], carry: _Carry) -> _Carry:
    """Apply `function(person, carry)` for every person of a mask that all lanes share, in ID order."""
    one = jnp.asarray(1, people.dtype)

    def step(state: tuple[Array, _Carry]) -> tuple[Array, _Carry]:
        rest, carry = state
        after = rest & (rest - one)
        return after, function(lax.population_count((rest ^ after) - one).astype(jnp.int32), carry)

    result: tuple[Array, _Carry] = lax.while_loop(
        lambda state: state[0] != jnp.asarray(0, people.dtype), step, (people, carry)
    )
    return result[1]


def row_of(rows: Array, person: Array) -> Array:
    """Return a person's row."""
    row: Array = lax.dynamic_index_in_dim(rows, person, keepdims=False)
    return row


def with_row(rows: Array, row: Array, person: Array) -> Array:
    """Replace a person's row."""
    return lax.dynamic_update_slice(rows, row[None], (person, jnp.int32(0)))


def bit_of(mask: Array, person: Array) -> Array:
    """Return a person's bit of a mask in every lane: M[L], 0 or 1."""
    return jnp.bitwise_and(mask >> person.astype(mask.dtype), jnp.asarray(1, mask.dtype))


def as_bit(condition: Array, person: Array, like: Array) -> Array:
    """Return a mask with a person's bit where a condition holds: M[L]."""
    return condition.astype(like.dtype) << person.astype(like.dtype)


def on_fire(size: FireSize, burning: Array, present: Array, cell: Array, active: Array) -> Array:
    """Return who is on a burning cell, among those active: M[L]. `cell` is uint32[P, L]."""

    def look(person: Array, mask: Array) -> Array:
        burns = bits_at(size.words, [burning], row_of(cell, person), margin=size.margin).astype(mask.dtype)
        return mask | (burns << person.astype(mask.dtype))

    return active & each(present, look, jnp.zeros_like(active))


def movers(size: FireSize, burning: Array, blocks: Array, present: Array, people: People) -> Array:
    """Return who is left after the static refusals: M[L]. `blocks` is not 0 when a move into fire is refused."""

    def look(person: Array, mask: Array) -> Array:
        goes = row_of(people.target, person) != row_of(people.cell, person)
        return mask | as_bit(goes, person, mask)

    def refuse(movers: Array) -> Array:
        return movers & ~on_fire(size, burning, present, people.target, people.active)

    going = people.active & each(present, look, jnp.zeros_like(people.active))
    return repeat_if(blocks != jnp.uint32(0), refuse, going)


def moves(present: Array, people: People, movers: Array, held_by: Array) -> tuple[Array, Array]:
    """Decide who moves: M[L].

    Args:
        present: M[], who is active in any lane.
        people: everybody.
        movers: M[L], who is left after the static refusals.
        held_by: M[P, L] to write to.

    Returns:
        Who moves, and `held_by` as written: the active person on everybody's target.
    """
    kind = movers.dtype
    one, none = jnp.asarray(1, kind), jnp.asarray(0, kind)
    number = people.cell.shape[0]

    def claims(person: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        held_by, goes = carry
        mine = row_of(people.target, person)
        lower = (one << person.astype(kind)) - one
        holders, rivals = none, none
        for other in range(number):
            bit = jnp.asarray(1 << other, kind)
            holders = holders | jnp.where(people.cell[other] == mine, bit, none)
            rivals = rivals | jnp.where(people.target[other] == mine, bit, none)
        # A loser of a conflict stays, even when the winner does not move.
        wins = (rivals & movers & lower) == none
        mine_goes = jnp.where(wins, bit_of(movers, person), none) << person.astype(kind)
        return with_row(held_by, holders & people.active, person), goes | mine_goes

    held_by, goes = each(present, claims, (held_by, jnp.zeros_like(movers)))

    def sweep(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        moved, _ = carry

        def try_one(person: Array, moved: Array) -> Array:
            free = (row_of(held_by, person) & ~moved) == none
            return moved | jnp.where(free, bit_of(goes, person) << person.astype(kind), none)

        more = each(present, try_one, moved)
        return more, fold_max(more ^ moved)

    start = (jnp.zeros_like(movers), one)
    moved: Array = lax.while_loop(lambda carry: carry[1] != none, sweep, start)[0]
    return moved, held_by


def start_people(person: Array, people: Array) -> People:
    """Return everybody at the start.

    Args:
        person: uint32[P], where each person starts.
        people: uint64[], a bit for every real person.
    """
    kind = mask_type(person.shape[0])
    zero = jnp.zeros((person.shape[0], LANES), dtype=jnp.int32)
    cell = jnp.broadcast_to(person[:, None], zero.shape)
    nobody = jnp.zeros(LANES, dtype=kind)
    return People(
        cell=cell,
        target=cell,
        active=jnp.broadcast_to(people.astype(kind), (LANES,)),
        evacuated=nobody,
        entered_fire=nobody,
        resolution_step=zero,
        cells_moved=zero,
    )
