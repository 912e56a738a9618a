"""Capacity bounds of many episodes, batch-explicit: the fast form of `ember_jax.capacity` (contract section 9).

Cells lie as in `ember_jax.references_kernel`, and the last axis is a part of a tile of seeds. Every cell that is a
cut lies at one distance to the exits, so in one cut: a *gate* is such a cell, and gates of a cut follow each other.

- People's first arrivals are one flood with a bit a person; their steps are kept as bit planes in Gray code, of
  which one changes a step, and written out for the gates alone.
- L is not kept: while its layers pass (`ember_jax.evidence_kernel`), those of the gates are noted for the people
  who first arrive there at that snapshot.
- A schedule walks through the steps, and counts who is released and how many gates are open: nobody is sorted.
"""

from typing import Any, Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ember_jax.capacity import CutGroups, padded
from ember_jax.fire_kernel import bounded, fold, fold_max, repeat_if
from ember_jax.references_kernel import (
    CHUNK,
    EXIT,
    Burning,
    ReferenceSize,
    cells_at,
    differs,
    infinite_value,
    of_chunk,
    put_cells,
    value_type,
)
from ember_ref.scenario import Scenario

TRIPS: Final = 2
"""Trips of two steps each that a flood makes between two looks at whether it still grows."""


class CapacitySize(NamedTuple):
    """What sets the shapes of the bounds, and so the compilation."""

    references: ReferenceSize
    """With the lanes of a part."""
    people: int
    """Padded people P: whole words, or a part of one."""
    cuts: int
    """Padded cuts J."""
    gates: int
    """Padded gates E."""
    exits: int
    """Padded exits."""

    @property
    def word(self) -> int:
        """People of a word."""
        return min(32, self.people)

    @property
    def planes(self) -> int:
        """Bits of a step, B."""
        return min(self.references.bits, 17)


class Cuts(NamedTuple):
    """The cuts of one scenario, threshold by threshold, and its exits; host arrays."""

    cuts: np.ndarray
    """int32[]: cuts."""
    first: np.ndarray
    """int32[J]: the first gate of a cut."""
    end: np.ndarray
    """int32[J]: the gate after its last one."""
    opens: np.ndarray
    """int32[J]: 1 for the first cut of a threshold."""
    members: np.ndarray
    """bool[J, P]: people who start behind the cut."""
    gates: np.ndarray
    """int32[]: gates."""
    gate: np.ndarray
    """int32[E]: where a gate is, the padding in front of the cells included."""
    cut: np.ndarray
    """int32[E]: the cut of a gate."""
    exits: np.ndarray
    """int32[]: exits."""
    exit: np.ndarray
    """int32[X]: where an exit is."""
    start: np.ndarray
    """int32[P]: where a person starts; 0, which is in front of all cells, for nobody."""


class Arrivals(NamedTuple):
    """When people first are at the gates of their cuts, and how far from safety they are then."""

    step: Array
    """[E, P, lanes]: the step, all ones for never."""
    left: Array
    """[E, P, lanes]: L relative to that step, all ones where there is no escape or it is not known yet."""
    first: Array
    """int32[E]: the least step at a gate."""
    last: Array
    """int32[E]: the greatest one; below the least where nobody ever is."""
    latest: Array
    """int32[]: the greatest one of all."""


def capacity_size(scenario: Scenario, groups: CutGroups, references: ReferenceSize) -> CapacitySize:
    """Return the padded size of a scenario's cuts; few sizes, so that scenarios share compilations."""
    return CapacitySize(
        references=references,
        people=padded_people(len(scenario.people)),
        cuts=padded(sum(len(_groups_of(row)) for row in groups.cell_group), 64),
        gates=padded(int(np.count_nonzero(groups.cell_group >= 0)), 512),
        exits=padded(len(scenario.exits), 8),
    )


def padded_people(people: int) -> int:
    """Return padded people P; few sizes."""
    return next((most for most in (8, 20, 32, 64) if most >= people), -(-people // 32) * 32)


def lay_out_cuts(scenario: Scenario, groups: CutGroups, size: CapacitySize, place: np.ndarray) -> Cuts:
    """Lay a scenario's cuts out for the kernel.

    Args:
        scenario: the scenario.
        groups: its cut groups, of the grid without padding.
        size: its padded size.
        place: int32[C], where the cells of the grid are, the padding in front of them included.
    """
    gate, cut = np.zeros(size.gates, dtype=np.int32), np.zeros(size.gates, dtype=np.int32)
    first, end, opens = (np.zeros(size.cuts, dtype=np.int32) for _ in range(3))
    members = np.zeros((size.cuts, size.people), dtype=np.bool_)
    count = gates = 0
    for level, group_of_cell in enumerate(groups.cell_group):
        for number, group in enumerate(_groups_of(group_of_cell)):
            mine = groups.cell[level][group_of_cell == group]
            first[count], end[count], opens[count] = gates, gates + len(mine), number == 0
            gate[gates : end[count]], cut[gates : end[count]] = place[mine], count
            people = groups.person_group[: size.people, level]
            members[count, : len(people)] = people == group
            gates, count = int(end[count]), count + 1
    exits = np.zeros(size.exits, dtype=np.int32)
    width = scenario.grid.width
    for index, exit in enumerate(scenario.exits):
        exits[index] = place[exit.position[0] * width + exit.position[1]]
    start = np.zeros(size.people, dtype=np.int32)
    for index, person in enumerate(scenario.people):
        start[index] = place[person.position[0] * width + person.position[1]]
    return Cuts(
        cuts=np.asarray(count, dtype=np.int32),
        first=first,
        end=end,
        opens=opens,
        members=members,
        gates=np.asarray(gates, dtype=np.int32),
        gate=gate,
        cut=cut,
        exits=np.asarray(len(scenario.exits), dtype=np.int32),
        exit=exits,
        start=start,
    )


def _groups_of(group_of_cell: np.ndarray) -> list[int]:
    groups: list[int] = sorted(set(group_of_cell[group_of_cell >= 0].tolist()))
    return groups


# First arrivals


def first_arrivals(ground: Any, cuts: Any, size: CapacitySize, burning: Burning) -> Arrivals:
    """Return first arrivals at all gates, with nothing known of `left` yet."""
    most, dtype = infinite_value(size.references), value_type(size.references)
    never = jnp.full((size.gates, size.people, size.references.lanes), most, dtype=dtype)

    def of_word(word: Array, step: Array) -> Array:
        planes, seen = _flood(ground, cuts, size, burning, word * jnp.int32(size.word))
        return _written_out(cuts, size, word * jnp.int32(size.word), planes, seen, step)

    step = lax.fori_loop(jnp.int32(0), jnp.int32(size.people // size.word), of_word, never)
    first, last = _ranges(cuts, size, step)
    return Arrivals(step=step, left=never, first=first, last=last, latest=jnp.max(last))


def _flood(ground: Any, cuts: Any, size: CapacitySize, burning: Burning, person: Array) -> tuple[Array, Array]:
    """Walk from where the people of a word start.

    Returns:
        Bit planes of the step in Gray code, uint32[B, N, lanes], and who ever arrives, uint32[margin + N + margin,
        lanes].
    """
    part = size.references
    none = jnp.zeros((part.cells + 2 * part.margin, part.lanes), dtype=jnp.uint32)
    one = jnp.int32(1)

    def put(index: Array, cells: Array) -> Array:
        at = cuts.start[person + index]
        bit = (at > jnp.int32(0)).astype(jnp.uint32) << bounded(index.astype(jnp.uint32))
        row = lax.dynamic_slice(cells, (at, jnp.int32(0)), (1, part.lanes))
        return lax.dynamic_update_slice(cells, row | bit, (at, jnp.int32(0)))

    begin = lax.fori_loop(jnp.int32(0), jnp.int32(size.word), put, none)

    def spread(step: Array, old: Array, into: Array, planes: Array) -> tuple[Array, Array]:
        """Walk on to where a step leads; those who have not arrived count on by one bit of a Gray code."""
        number = (step + one).astype(jnp.uint32)
        plane = lax.population_count((number & -number) - jnp.uint32(1)).astype(jnp.int32)
        plane = jnp.minimum(plane, jnp.int32(size.planes - 1))

        def chunk(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            into, planes = carry
            at = index * jnp.int32(CHUNK)
            open = cells_at(part, burning.alive_until, at) > step.astype(value_type(part))
            open = open & (of_chunk(ground.kind, at) != jnp.uint8(EXIT)) & (step <= ground.horizon)
            around = jnp.where(open, any_around(ground, part, old, at), jnp.uint32(0))
            now = cells_at(part, old, at) | around
            where = (plane, at, jnp.int32(0))
            counted = lax.dynamic_slice(planes, where, (1, CHUNK, part.lanes)) ^ ~now[None]
            return put_cells(part, into, now, at), lax.dynamic_update_slice(planes, counted, where)

        result: tuple[Array, Array] = lax.fori_loop(jnp.int32(0), ground.chunks, chunk, (into, planes))
        return result

    def some(carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        step, even, odd, planes, _ = carry

        def two(index: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            even, odd, planes = carry
            at = step + jnp.int32(2) * index
            odd, planes = spread(at, even, odd, planes)
            even, planes = spread(at + one, odd, even, planes)
            return even, odd, planes

        even, odd, planes = lax.fori_loop(jnp.int32(0), jnp.int32(TRIPS), two, (even, odd, planes))
        return step + jnp.int32(2 * TRIPS), even, odd, planes, differs(ground, part, even, odd)

    def goes_on(carry: tuple[Array, Array, Array, Array, Array]) -> Array:
        on: Array = (carry[4] != jnp.int32(0)) & (carry[0] <= ground.horizon)
        return on

    planes = jnp.zeros((size.planes, part.cells, part.lanes), dtype=jnp.uint32)
    planes = planes.at[0].set(~begin[part.margin : part.margin + part.cells])
    _, seen, _, planes, _ = lax.while_loop(goes_on, some, (one, begin, none, planes, jnp.int32(1)))
    return planes, seen


def _written_out(cuts: Any, size: CapacitySize, person: Array, planes: Array, seen: Array, step: Array) -> Array:
    """Write the steps of the people of a word at all gates of theirs into `step`."""
    part = size.references
    who = lax.iota(jnp.uint32, size.word)[:, None]

    def one(gate: Array, step: Array) -> Array:
        at = cuts.gate[gate]
        where = (jnp.int32(0), at - jnp.int32(part.margin), jnp.int32(0))
        gray = lax.dynamic_slice(planes, where, (size.planes, 1, part.lanes))
        running = gray[-1]
        number = ((running >> who) & jnp.uint32(1)) << jnp.uint32(size.planes - 1)
        for plane in range(size.planes - 2, -1, -1):
            running = running ^ gray[plane]
            number = number | (((running >> who) & jnp.uint32(1)) << jnp.uint32(plane))
        here = lax.dynamic_slice(seen, (at, jnp.int32(0)), (1, part.lanes)) >> who
        mine = lax.dynamic_slice(cuts.members, (cuts.cut[gate], person), (1, size.word))[0]
        there = (here & jnp.uint32(1) & mine[:, None].astype(jnp.uint32)) != jnp.uint32(0)
        number = jnp.where(there, number, jnp.uint32(infinite_value(part))).astype(value_type(part))
        return lax.dynamic_update_slice(step, number[None], (gate, person, jnp.int32(0)))

    result: Array = lax.fori_loop(jnp.int32(0), cuts.gates, one, step)
    return result


def _ranges(cuts: Any, size: CapacitySize, step: Array) -> tuple[Array, Array]:
    """Return the least and the greatest step at every gate: int32[E] each, the greatest -1 where nobody ever is."""
    part = size.references
    most = jnp.asarray(infinite_value(part), value_type(part))

    # First over people, written to memory, then over lanes: a reduction computes again what it reads.
    def over_people(gate: Array, rows: tuple[Array, Array]) -> tuple[Array, Array]:
        def block(index: Array, rows: tuple[Array, Array]) -> tuple[Array, Array]:
            where = (gate, index * jnp.int32(size.word), jnp.int32(0))
            number = lax.dynamic_slice(step, where, (1, size.word, part.lanes))[0]
            early, late = (lax.dynamic_slice(row, (gate, jnp.int32(0)), (1, part.lanes)) for row in rows)
            # Both as greatest values: of the distance to all ones, and of the step with all ones as 0.
            early = jnp.maximum(early, fold(jnp.maximum, most - number)[None])
            late = jnp.maximum(
                late, fold(jnp.maximum, jnp.where(number == most, jnp.zeros_like(number), number))[None]
            )
            put = tuple(
                lax.dynamic_update_slice(row, value, (gate, jnp.int32(0)))
                for row, value in zip(rows, (early, late), strict=True)
            )
            return put[0], put[1]

        result: tuple[Array, Array] = lax.fori_loop(jnp.int32(0), jnp.int32(size.people // size.word), block, rows)
        return result

    rows = jnp.zeros((size.gates, part.lanes), dtype=value_type(part))
    early, late = lax.fori_loop(jnp.int32(0), cuts.gates, over_people, (rows, rows))

    def over_lanes(gate: Array, ranges: tuple[Array, Array]) -> tuple[Array, Array]:
        least = fold_max(lax.dynamic_index_in_dim(early, gate, keepdims=False))
        greatest = fold_max(lax.dynamic_index_in_dim(late, gate, keepdims=False)).astype(jnp.int32)
        nobody = least == jnp.zeros_like(least)
        first = jnp.where(nobody, jnp.int32(0), (most - least).astype(jnp.int32))
        last = jnp.where(nobody, jnp.int32(-1), greatest)
        return (
            lax.dynamic_update_slice(ranges[0], first[None], (gate,)),
            lax.dynamic_update_slice(ranges[1], last[None], (gate,)),
        )

    none = jnp.full(size.gates, -1, dtype=jnp.int32)
    result: tuple[Array, Array] = lax.fori_loop(jnp.int32(0), cuts.gates, over_lanes, (none, none))
    return result


def note_left(ground: Any, cuts: Any, size: CapacitySize, t: Array, layer: Array, arrivals: Arrivals) -> Array:
    """Return `left` with those who first arrive somewhere at t, where it is an escape; `layer` is L relative to t."""
    part = size.references
    most = jnp.asarray(infinite_value(part), value_type(part))
    limit = jnp.maximum(ground.horizon - t, jnp.int32(0)).astype(value_type(part))
    now = t.astype(value_type(part))

    def one(gate: Array, left: Array) -> Array:
        def note(left: Array) -> Array:
            where, whole = (gate, jnp.int32(0), jnp.int32(0)), (1, size.people, part.lanes)
            value = lax.dynamic_slice(layer, (cuts.gate[gate], jnp.int32(0)), (1, part.lanes))[None]
            value = jnp.where(value > limit, most, value)
            arrive = lax.dynamic_slice(arrivals.step, where, whole) == now
            return lax.dynamic_update_slice(
                left, jnp.where(arrive, value, lax.dynamic_slice(left, where, whole)), where
            )

        return repeat_if((arrivals.first[gate] <= t) & (t <= arrivals.last[gate]), note, left)

    left: Array = lax.fori_loop(jnp.int32(0), cuts.gates, one, arrivals.left)
    return left


# Bounds


def soonest(ground: Any, cuts: Any, size: CapacitySize, layer: Array) -> Array:
    """Return `L_i`, all ones where infinite: [P, lanes]; `layer` is L at 0."""
    part = size.references
    most = jnp.asarray(infinite_value(part), value_type(part))
    limit = ground.horizon.astype(value_type(part))

    def person(index: Array, people: Array) -> Array:
        value = lax.dynamic_slice(layer, (cuts.start[index], jnp.int32(0)), (1, part.lanes))
        return lax.dynamic_update_slice(people, jnp.where(value > limit, most, value), (index, jnp.int32(0)))

    nobody = jnp.full((size.people, part.lanes), infinite_value(part), dtype=value_type(part))
    result: Array = lax.fori_loop(jnp.int32(0), jnp.int32(size.people), person, nobody)
    return result


class Bounds(NamedTuple):
    """Bounds of the evacuees of each lane: int32[lanes]."""

    exit_bound: Array
    """`Q_exit`."""
    time_bound: Array
    """`Q_cut`."""
    left_over: Array
    """People whom no schedule could place: 0 where the episode is possible."""


def bounds(
    ground: Any,
    cuts: Any,
    size: CapacitySize,
    burning: Burning,
    evacuated: Array,
    earliest: Array,
    arrivals: Arrivals,
) -> Bounds:
    """Return the bounds.

    Args:
        ground: the terrain.
        cuts: the cuts.
        size: their size.
        burning: the fires.
        evacuated: bool[P, lanes].
        earliest: [P, lanes], `L_i`.
        arrivals: first arrivals, complete.
    """
    part = size.references
    most = jnp.asarray(infinite_value(part), value_type(part))
    none = jnp.zeros(part.lanes, dtype=jnp.int32)
    exit_bound, over = _schedule(
        ground, size, burning, jnp.where(evacuated, earliest, most), evacuated, (cuts.exit, jnp.int32(0), cuts.exits)
    )
    alone = _sum(size, jnp.where(evacuated, earliest.astype(jnp.int32), jnp.int32(0)))

    def cut(index: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        best, gain, over = carry

        def nearer(gate: Array, least: tuple[Array, Array]) -> tuple[Array, Array]:
            step = lax.dynamic_index_in_dim(arrivals.step, gate, keepdims=False)
            left = lax.dynamic_index_in_dim(arrivals.left, gate, keepdims=False)
            step = jnp.where(left == most, most, step)
            return jnp.minimum(least[0], step), jnp.minimum(least[1], left)

        far = jnp.full((size.people, part.lanes), infinite_value(part), dtype=value_type(part))
        first, end = cuts.first[index], cuts.end[index]
        release, left = lax.fori_loop(first, end, nearer, (far, far))
        mine = evacuated & cuts.members[index][:, None]
        release = jnp.where(mine, release, most)
        placed, later = _schedule(ground, size, burning, release, mine, (cuts.gate, first, end))
        beyond = jnp.where(mine, left.astype(jnp.int32) - earliest.astype(jnp.int32), jnp.int32(0))
        more = jnp.maximum(placed + _sum(size, beyond), jnp.int32(0))
        gain = more + jnp.where(cuts.opens[index] == jnp.int32(1), jnp.int32(0), gain)
        return jnp.maximum(best, gain), gain, over + later

    best, _, over = lax.fori_loop(jnp.int32(0), cuts.cuts, cut, (none, none, over))
    return Bounds(exit_bound=exit_bound, time_bound=jnp.maximum(exit_bound, alone + best), left_over=over)


def _schedule(
    ground: Any,
    size: CapacitySize,
    burning: Burning,
    release: Array,
    who: Array,
    through: tuple[Any, Array, Any],
) -> tuple[Array, Array]:
    """Let people through some cells, one a step each, as soon as there is room.

    Args:
        ground: the terrain.
        size: the size.
        burning: the fires.
        release: [P, lanes], the first step of each person, all ones for those who take no part.
        who: bool[P, lanes], who takes part.
        through: cells, the first of them and the end.

    Returns:
        The sum of the steps, and how many people are left over: int32[lanes].
    """
    part = size.references
    most, dtype = jnp.asarray(infinite_value(part), value_type(part)), value_type(part)
    none = jnp.zeros(part.lanes, dtype=jnp.int32)
    cells, first, end = through

    def step(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        s, waiting, coming, total = carry
        waiting = waiting + _count(size, release == s.astype(dtype))

        def room(index: Array, free: Array) -> Array:
            until = lax.dynamic_index_in_dim(burning.alive_until, cells[index], keepdims=False)
            more: Array = free + (until > s.astype(dtype)).astype(jnp.int32)
            return more

        served = jnp.minimum(waiting, lax.fori_loop(first, end, room, none))
        return s + jnp.int32(1), waiting - served, coming - served, total + served * s

    def goes_on(carry: tuple[Array, Array, Array, Array]) -> Array:
        on: Array = (fold_max(carry[2]) > jnp.int32(0)) & (carry[0] <= ground.horizon)
        return on

    coming = _count(size, release != most)
    _, _, left, total = lax.while_loop(goes_on, step, (jnp.int32(1), none, coming, none))
    return total, left + _count(size, who & (release == most))


def _count(size: CapacitySize, mask: Array) -> Array:
    """Return how many people of a mask bool[P, lanes]: int32[lanes]."""
    return _sum(size, mask.astype(jnp.uint8)).astype(jnp.int32)


def _sum(size: CapacitySize, values: Array) -> Array:
    """Return the sum over people of [P, lanes]: int32[lanes]; at most 32 people are added as they are."""
    if size.people == size.word:
        return fold(jnp.add, values).astype(jnp.int32)

    def block(index: Array, total: Array) -> Array:
        part = lax.dynamic_slice_in_dim(values, index * jnp.int32(size.word), size.word)
        return total + fold(jnp.add, part).astype(jnp.int32)

    none = jnp.zeros(size.references.lanes, dtype=jnp.int32)
    result: Array = lax.fori_loop(jnp.int32(0), jnp.int32(size.people // size.word), block, none)
    return result


# Cells, rows and lanes


def any_around(ground: Any, part: ReferenceSize, cells: Array, at: Array) -> Array:
    """Return the bits that any neighbour of a chunk's cells has: uint32[16, lanes]."""
    one = jnp.int32(1)
    north, south = cells_at(part, cells, at - ground.stride), cells_at(part, cells, at + ground.stride)
    return north | south | cells_at(part, cells, at + one) | cells_at(part, cells, at - one)
