"""Lower bounds on the sum of evacuation steps from the capacity of exits and cuts (contract section 9).

Three observations make a batch cheap and free of loops over steps, people or groups:

- Fire only grows, so a way that works later works at once: the first arrival of a person at a cell is the
  best one, for the release as for the steps that are left from there. First arrivals are one flood, with a
  bit a person.
- The cumulative capacity of a cut after s steps is the sum over its cells of min(s, last free step), so the
  step in which the n-th unit of capacity comes is found by halving.
- Job j of a list schedule, in order of release, takes the unit j + 1 + max over i <= j of (units before the
  release of job i) - i: the busy-period form of a queue (Lindley, "The theory of queues with a single
  server", 1952, equation 4).
"""

import functools
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ember_jax.grid import EAST, NORTH, SOUTH, WEST, shifted
from ember_jax.world import World, WorldSize
from ember_ref.fire import NEVER
from ember_ref.grid import Position
from ember_ref.scenario import Scenario

_NOBODY: Final = -1
_STEP_BITS: Final = 17  # a release is at most `max_steps`, below 2^16; unreachable sorts behind
_WIDE: Final = 1 << 14  # cut cells from which the units of capacity need 64 bits


class CutGroups(NamedTuple):
    """Groups of components with people inside, by threshold; host arrays. A group has the index of its first person.

    D thresholds (those with people behind a cut), K cut cells a threshold, both padded to a few sizes.
    """

    cell: np.ndarray
    """int32[D, K]: index of a cut cell in the padded grid; 0 in padding."""
    cell_group: np.ndarray
    """int32[D, K]: the group of the cut cell; `_NOBODY` in padding."""
    person_group: np.ndarray
    """int32[P, D]: the group in which a person starts; `_NOBODY` outside all."""


class Arrivals(NamedTuple):
    """First arrivals of people at the cut cells of their groups."""

    release: Array
    """uint32[P, D]: r_i, `NEVER` where no cut cell on an escape is reached."""
    rest: Array
    """uint32[P, D]: q_i, `NEVER` likewise."""


def cut_groups(scenario: Scenario, size: WorldSize) -> CutGroups:
    """Return the groups of a scenario; fire ignored, so once for all seeds."""
    walk = _walking_distances(scenario)
    people = [person.position for person in scenario.people]
    farthest = max((int(walk[cell]) for cell in people if walk[cell] != NEVER), default=0)
    found = [_groups_at(walk, people, d) for d in range(1, farthest)]
    thresholds = padded(len(found), 16)
    cells = padded(max((len(cells) for cells, _ in found), default=1), 8)
    cell = np.zeros((thresholds, cells), dtype=np.int32)
    cell_group = np.full((thresholds, cells), _NOBODY, dtype=np.int32)
    person_group = np.full((size.people, thresholds), _NOBODY, dtype=np.int32)
    for index, (cuts, groups) in enumerate(found):
        for place, ((row, col), group) in enumerate(cuts):
            cell[index, place], cell_group[index, place] = row * size.cols + col, group
        person_group[: len(people), index] = groups
    return CutGroups(cell=cell, cell_group=cell_group, person_group=person_group)


def first_arrivals(world: World, ignition_step: Array, groups: Any) -> Array:
    """Return the first step of every person at the cut cells of the own groups: uint32[P, D, K].

    `NEVER` where it is not reached, and for pairs that don't belong together.
    """
    rows, cols = world.floor.shape
    people = world.person_row.shape[0]
    words, planes = -(-people // 32), (rows * cols).bit_length()
    index = jnp.arange(people, dtype=jnp.int32)
    bit = jnp.where(world.person_valid, jnp.uint32(1) << (index % 32).astype(jnp.uint32), jnp.uint32(0))
    # Starts are distinct cells, so every addend has its own place.
    start = jnp.zeros((words, rows, cols), dtype=jnp.uint32)
    start = start.at[index // 32, world.person_row, world.person_col].add(bit, mode="promise_in_bounds")
    inside = jnp.asarray(world.floor) & ~jnp.asarray(world.exit_cells)

    def widen(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        step, front, seen, numbers = carry
        step = step + jnp.uint32(1)
        around = [_shift_words(front, direction) for direction in (NORTH, SOUTH, EAST, WEST)]
        passable = jnp.where(inside & (ignition_step > step), jnp.uint32(0xFFFFFFFF), jnp.uint32(0))
        new = functools.reduce(jnp.bitwise_or, around) & passable[None] & ~seen
        ones = (step >> jnp.arange(planes, dtype=jnp.uint32)) & jnp.uint32(1)
        mask = jnp.where(ones == 1, jnp.uint32(0xFFFFFFFF), jnp.uint32(0))
        return step, new, seen | new, numbers | (new[None] & mask[:, None, None, None])

    def goes_on(carry: tuple[Array, Array, Array, Array]) -> Array:
        return jnp.any(carry[1] != jnp.uint32(0)) & (carry[0] < world.max_steps.astype(jnp.uint32))

    numbers = jnp.zeros((planes, words, rows, cols), dtype=jnp.uint32)
    _, _, seen, numbers = jax.lax.while_loop(goes_on, widen, (jnp.uint32(0), start, start, numbers))

    def at_cuts(cells: Array) -> Array:
        flat = cells.reshape(*cells.shape[:-2], rows * cols)
        of_words = flat.at[..., groups.cell].get(mode="promise_in_bounds")
        of_people = jnp.take(of_words, index // 32, axis=-3)
        bits: Array = (of_people >> (index % 32).astype(jnp.uint32)[:, None, None]) & jnp.uint32(1)
        return bits

    step = jnp.zeros((people, *groups.cell.shape), dtype=jnp.uint32)
    for plane in range(planes):
        step = step | (at_cuts(numbers[plane]) << jnp.uint32(plane))
    mine = (groups.person_group[:, :, None] == groups.cell_group[None]) & (groups.cell_group[None] >= 0)
    return jnp.where(mine & (at_cuts(seen) == jnp.uint32(1)), step, jnp.uint32(NEVER))


def exit_bound(world: World, ignition_step: Array, soonest: Array, evacuated: Array) -> Array:
    """Return `Q_exit` of the evacuees: int32[].

    Args:
        world: the scenario.
        ignition_step: uint32[R, C], the fire world.
        soonest: uint32[P], `L_i`.
        evacuated: bool[P].
    """
    burns = ignition_step.at[world.exit_row, world.exit_col].get(mode="promise_in_bounds")
    # An exit lets people out up to the step in which it ignites.
    last = jnp.where(world.exit_valid, burns, jnp.uint32(0))[None]
    group = jnp.where(evacuated, jnp.int32(0), jnp.int32(_NOBODY))[:, None]
    schedule = _list_schedule(world, soonest[:, None], group, last, jnp.zeros(last.shape, dtype=jnp.int32))
    return jnp.sum(schedule.step, dtype=jnp.int32)


def time_bound(
    world: World, ignition_step: Array, groups: Any, arrivals: Arrivals, soonest: Array, evacuated: Array
) -> Array:
    """Return `Q_cut` of the evacuees over all thresholds, `Q_exit` left out: int32[] (see `exit_bound`)."""
    burns = ignition_step.reshape(-1).at[groups.cell].get(mode="promise_in_bounds")
    last = jnp.maximum(burns, jnp.uint32(1)) - jnp.uint32(1)
    group = jnp.where(evacuated[:, None], groups.person_group, jnp.int32(_NOBODY))
    own = jnp.broadcast_to(jnp.where(evacuated, soonest, jnp.uint32(0))[:, None], group.shape).astype(jnp.int32)
    schedule = _list_schedule(world, arrivals.release, group, last, groups.cell_group, arrivals.rest, own)
    by_cut = _running(jnp.add, schedule.first, schedule.step + schedule.rest)
    alone = _running(jnp.add, schedule.first, schedule.own)
    grouped = jnp.where(schedule.last, jnp.maximum(by_cut, alone), jnp.int32(0))
    outside = jnp.where(group < 0, own, jnp.int32(0))
    bound: Array = jnp.max(jnp.sum(grouped + outside, axis=0, dtype=jnp.int32))
    return bound


class _Schedule(NamedTuple):
    """Jobs by threshold, sorted by group and release; [P, D] each, 0 for those who are no job."""

    step: Array
    rest: Array
    own: Array
    first: Array
    last: Array


def _list_schedule(
    world: World,
    release: Array,
    group: Array,
    last: Array,
    cell_group: Array,
    rest: Array | None = None,
    own: Array | None = None,
) -> _Schedule:
    """Place jobs at the earliest free steps.

    Args:
        world: the scenario.
        release: uint32[P, D], the first step of each job.
        group: int32[P, D], whose capacity it uses; `_NOBODY` for no job.
        last: uint32[D, K], the last step in which a cell has room for one.
        cell_group: int32[D, K], the group of the cell.
        rest: uint32[P, D], carried along.
        own: int32[P, D], carried along.
    """
    wide = jnp.int64 if last.shape[1] > _WIDE else jnp.int32
    horizon = world.max_steps.astype(wide)
    unreachable = jnp.uint32((1 << _STEP_BITS) - 1)
    job = group >= 0
    key = (group << jnp.int32(_STEP_BITS)) | jnp.minimum(release, unreachable).astype(jnp.int32)
    none = jnp.zeros(group.shape, dtype=jnp.int32)
    carried = [none if rest is None else rest.astype(jnp.int32), none if own is None else own]
    key = jnp.where(job, key, jnp.int32(2**31 - 1))
    key, *carried = jax.lax.sort((key, *(jnp.where(job, c, jnp.int32(0)) for c in carried)), dimension=0, num_keys=1)
    job = key != jnp.int32(2**31 - 1)
    group = jnp.where(job, key >> jnp.int32(_STEP_BITS), jnp.int32(_NOBODY))
    release = key & jnp.int32((1 << _STEP_BITS) - 1)
    free = jnp.minimum(last, world.max_steps.astype(jnp.uint32)).astype(wide)
    mine = (group[:, :, None] == cell_group[None]) & job[:, :, None]

    def units(step: Array) -> Array:
        """Return the units of capacity up to a step."""
        return jnp.sum(jnp.where(mine, jnp.minimum(step[:, :, None], free[None]), 0), axis=2, dtype=wide)

    outside = jnp.full((1, group.shape[1]), _NOBODY - 1, dtype=jnp.int32)
    first = group != jnp.concatenate([outside, group[:-1]])
    final = job & (group != jnp.concatenate([group[1:], outside]))
    place = jnp.broadcast_to(jnp.arange(group.shape[0], dtype=wide)[:, None], group.shape)
    rank = place - _running(jnp.maximum, first, jnp.where(first, place, jnp.asarray(0, wide)))
    before = units(release.astype(wide) - jnp.asarray(1, wide))
    unit = rank + jnp.asarray(1, wide) + _running(jnp.maximum, first, before - rank)

    def halve(bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds  # units(low) < unit <= units(high)
        middle = (low + high) // jnp.asarray(2, wide)
        enough = units(middle) >= unit
        return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

    zero = jnp.zeros(group.shape, dtype=wide)
    _, step = jax.lax.while_loop(
        lambda bounds: jnp.any(bounds[1] - bounds[0] > 1), halve, (zero, jnp.broadcast_to(horizon, group.shape))
    )
    placed = jnp.where(job, step, jnp.asarray(0, wide)).astype(jnp.int32)
    return _Schedule(step=placed, rest=carried[0], own=carried[1], first=first, last=final)


def _running(combine: Any, first: Array, values: Array) -> Array:
    """Return running results down the first axis that start anew where `first` is set."""

    def join(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
        return left[0] | right[0], jnp.where(right[0], right[1], combine(left[1], right[1]))

    results: Array = jax.lax.associative_scan(join, (first, values), axis=0)[1]
    return results


def _shift_words(words: Array, direction: int) -> Array:
    moved: Array = jax.vmap(lambda cells: shifted(cells, direction, outside=jnp.uint32(0)))(words)
    return moved


# Geometry, on the host


def _walking_distances(scenario: Scenario) -> np.ndarray:
    """Return w: uint32[height, width], `NEVER` where there is no way to an exit."""
    floor = np.ones((scenario.grid.height, scenario.grid.width), dtype=np.bool_)
    for cell in scenario.grid.obstacles:
        floor[cell] = False
    walk = np.full(floor.shape, NEVER, dtype=np.uint32)
    front = np.zeros_like(floor)
    for exit in scenario.exits:
        front[exit.position] = True
    steps = 0
    while front.any():
        walk[front] = steps
        front = _spread(front) & floor & (walk == NEVER)
        steps += 1
    return walk


def _groups_at(walk: np.ndarray, people: list[Position], d: int) -> tuple[list[tuple[Position, int]], list[int]]:
    """Return the cut cells of groups with people, with their group, and the group of every person."""
    inside = (walk > d) & (walk != NEVER)
    component = _labels(inside)
    cut: dict[Position, set[int]] = {}
    for row, col in np.argwhere((walk == d) & _spread(inside)).tolist():
        around = ((row - 1, col), (row + 1, col), (row, col + 1), (row, col - 1))
        cut[row, col] = {
            int(component[r, c])
            for r, c in around
            if 0 <= r < walk.shape[0] and 0 <= c < walk.shape[1] and inside[r, c]
        }
    parent = list(range(int(component.max()) + 1))

    def root(label: int) -> int:
        while parent[label] != label:
            parent[label] = parent[parent[label]]
            label = parent[label]
        return label

    for labels in cut.values():
        least = min(root(label) for label in labels)
        for label in labels:
            parent[root(label)] = least
    leader: dict[int, int] = {}
    groups = []
    for index, cell in enumerate(people):
        groups.append(leader.setdefault(root(int(component[cell])), index) if inside[cell] else _NOBODY)
    cells = [(cell, leader[root(min(labels))]) for cell, labels in cut.items() if root(min(labels)) in leader]
    return cells, groups


def padded(count: int, least: int) -> int:
    """Return the first of `least`, 2 `least`, 4 `least`, … that is not below a count: few shapes to compile."""
    return least << max(0, -(-count // least) - 1).bit_length()


def _labels(mask: np.ndarray) -> np.ndarray:
    """Return the 4-connected component of every cell of a mask, from 1: int64; 0 outside."""
    label = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:
        padded = np.pad(label, 1)
        around = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, 2:], padded[1:-1, :-2])
        greatest = np.where(mask, functools.reduce(np.maximum, around, label), 0)
        # Follow labels to the cell that they are named after: long corridors take few rounds.
        flat = np.concatenate([[0], greatest.reshape(-1)])
        greatest = np.where(mask, np.maximum(greatest, flat[greatest]), 0)
        if np.array_equal(greatest, label):
            return label
        label = greatest


def _spread(mask: np.ndarray) -> np.ndarray:
    padded = np.pad(mask, 1)
    around: np.ndarray = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, 2:] | padded[1:-1, :-2]
    return around
