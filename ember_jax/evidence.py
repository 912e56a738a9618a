"""The evidence of many episodes of one scenario at once (contract sections 8 to 10 and 15).

Everything that the score needs of a rollout and its fire: what the evacuees did, what each could have done, the
capacity bounds, and the route invalidations. Snapshots go in blocks: people's ways are computed forward, block by
block; then L is induced from the horizon down, block by block, and read where somebody's way was invalidated or
somebody first arrives at a cut. No table is kept, so the horizon does not set the memory.

`evidence` runs a policy; `evidence_of_records` takes run records, of any agent. `ember_jax.evidence_kernel` is the
fast form of both; this is its plain twin.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from ember_jax.capacity import Arrivals, CutGroups, cut_groups, exit_bound, first_arrivals, time_bound
from ember_jax.fire import FireWorlds, padded_steps
from ember_jax.fire_kernel import fire_worlds
from ember_jax.kernel import run_batches
from ember_jax.policies import Plan, Policy
from ember_jax.references import earliest_before, hazard
from ember_jax.references_kernel import reference_summaries
from ember_jax.rollout import Progress, advance, prepared, start
from ember_jax.routes import WINDOW, longer_ways
from ember_jax.simulator import ACTIVE, EVACUATED
from ember_jax.world import World, WorldSize, padded_size, world_from_scenario
from ember_ref.errors import VerificationError
from ember_ref.fire import NEVER
from ember_ref.movement import MoveOutcome
from ember_ref.observation import PersonStatus
from ember_ref.record import RunRecord
from ember_ref.scenario import Scenario

COLUMNS: Final = (
    "sum_earliest",
    "exit_bound",
    "time_bound",
    "danger_states",
    "fewest_danger_states",
    "cells_moved",
    "fewest_moves",
    "route_invalidations",
    "recoverable_route_invalidations",
    "recovery_bound_steps",
    "recovery_steps",
)
"""The evidence columns of a sweep, in the order of the command page."""
_TILES: Final = (256, 64, 16, 4, 1)
_TILE_BYTES: Final = 1 << 28


class Ways(NamedTuple):
    """Where everybody was, snapshot by snapshot; N episodes, T snapshots (a multiple of the window), P people."""

    cell: np.ndarray
    """int32[N, T, P]: the index of the cell in the padded grid."""
    active: np.ndarray
    """bool[N, T, P]: whether the person was active; never after the end of the episode."""
    evacuated: np.ndarray
    """bool[N, P]."""
    resolution_step: np.ndarray
    """int32[N, P]: the evacuation step of evacuees."""
    cells_moved: np.ndarray
    """int32[N, P]: outcomes `moved`."""


class Evidence(NamedTuple):
    """Evidence of N episodes, in the names of contract section 15: sums over evacuees, events of everyone."""

    earliest_evacuation: np.ndarray
    """uint32[N, P]: `L_i` of everyone, `NEVER` where infinite."""
    reference_moves: np.ndarray
    """uint32[N, P]: `m*_i` likewise."""
    reference_danger: np.ndarray
    """uint32[N, P]: `D*_i` likewise."""
    sum_earliest: np.ndarray
    """int64[N], as all that follow."""
    exit_bound: np.ndarray
    time_bound: np.ndarray
    sum_evacuation_steps: np.ndarray
    danger_states: np.ndarray
    fewest_danger_states: np.ndarray
    cells_moved: np.ndarray
    fewest_moves: np.ndarray
    route_invalidations: np.ndarray
    recoverable_route_invalidations: np.ndarray
    recovery_bound_steps: np.ndarray
    recovery_steps: np.ndarray
    events: np.ndarray | None
    """int64[M, 4], the events one by one: episode, step, person, L(x, t); `None` when they were not asked for."""


def evidence(
    scenario: Scenario,
    seeds: ArrayLike,
    policy: str,
    *,
    policy_seed: int = 0,
    events: bool = False,
    size: WorldSize | None = None,
    threads: int | None = None,
) -> Evidence:
    """Run a policy under each of many seeds and return the evidence.

    Args:
        scenario: the scenario.
        seeds: uint64[N] on the host.
        policy: a policy name.
        policy_seed: the seed of the policy's own stream.
        events: whether to list the route invalidations one by one.
        size: the padded size; the scenario's own without it.
        threads: batches at a time; all cores without it.

    Raises:
        VerificationError: when somebody did better than is possible, so one of the two is wrong.
    """
    size = padded_size(scenario) if size is None else size
    world = world_from_scenario(scenario, size=size)
    compiled, plan = prepared(world, scenario, policy, policy_seed, None)

    def ways(fires: FireWorlds, _: int) -> Ways:
        return policy_ways(world, compiled, plan, padded_steps(fires, size))

    return _evidence(scenario, np.asarray(seeds, dtype=np.uint64), ways, events, size, threads)


def evidence_of_records(
    scenario: Scenario,
    records: Sequence[RunRecord],
    *,
    events: bool = False,
    size: WorldSize | None = None,
    threads: int | None = None,
) -> Evidence:
    """Return the evidence of complete, authenticated records of one scenario (see `evidence`)."""
    size = padded_size(scenario) if size is None else size

    def ways(fires: FireWorlds, at: int) -> Ways:
        mine = records[at : at + len(fires.ignition_step)]
        return stack_ways([record_ways(scenario, record, size) for record in mine], len(fires.ignition_step))

    seeds = np.array([record.header.seed for record in records], dtype=np.uint64)
    return _evidence(scenario, seeds, ways, events, size, threads)


# Batches


def _evidence(
    scenario: Scenario, seeds: np.ndarray, ways: Any, events: bool, size: WorldSize, threads: int | None
) -> Evidence:
    world, groups = world_from_scenario(scenario, size=size), cut_groups(scenario, size)
    tile = _tile(size, groups, len(seeds))

    def batch(at: int) -> dict[str, np.ndarray]:
        mine = seeds[at : at + tile]
        filled = np.concatenate([mine, np.repeat(mine[-1:], tile - len(mine))])
        fires = fire_worlds(scenario, filled, threads=1)
        found = _batch(world, groups, fires, ways(fires, at), size, events)
        listed = found.pop("events", None)
        cut = {name: values[: len(mine)] for name, values in found.items()}
        if listed is not None:
            cut["events"] = listed[listed[:, 0] < len(mine)] + np.array([at, 0, 0, 0])
        return cut

    parts = list(run_batches(batch, range(0, len(seeds), tile), threads=threads))
    found = reference_summaries(scenario, seeds, threads=threads)
    references = (found.earliest_evacuation, found.fewest_moves, found.fewest_danger_states)
    return joined(scenario, seeds, parts, references)


def joined(
    scenario: Scenario, seeds: np.ndarray, parts: Sequence[Mapping[str, np.ndarray]], references: Sequence[np.ndarray]
) -> Evidence:
    """Return the evidence of all batches.

    Args:
        scenario: the scenario.
        seeds: uint64[N].
        parts: the sums of the batches in order, who evacuated as bool[n, P], and the events when they are listed.
        references: L, m* and D* of everyone, uint32[N, P] each.

    Raises:
        VerificationError: when somebody did better than is possible, so one of the two is wrong.
    """
    people = len(scenario.people)

    def whole(name: str, empty: Any) -> Any:
        return np.concatenate([part[name] for part in parts]) if parts else empty

    evacuated = whole("evacuated", np.zeros((0, people), dtype=np.bool_))[:, :people]

    def over_evacuees(values: np.ndarray) -> np.ndarray:
        sums: np.ndarray = np.where(evacuated, values, 0).sum(axis=1, dtype=np.int64)
        return sums

    earliest, moves, danger = references
    sums: dict[str, Any] = {name: whole(name, np.zeros(0, dtype=np.int64)) for name in SUMS}
    result = Evidence(
        earliest_evacuation=earliest,
        reference_moves=moves,
        reference_danger=danger,
        sum_earliest=over_evacuees(earliest),
        fewest_moves=over_evacuees(moves),
        fewest_danger_states=over_evacuees(danger),
        events=whole("events", None) if parts and "events" in parts[0] else None,
        **sums,
    )
    _check(scenario, seeds, result)
    return result


SUMS: Final = (
    "exit_bound",
    "time_bound",
    "sum_evacuation_steps",
    "danger_states",
    "cells_moved",
    "route_invalidations",
    "recoverable_route_invalidations",
    "recovery_bound_steps",
    "recovery_steps",
)


def _batch(
    world: World, groups: CutGroups, fires: FireWorlds, ways: Ways, size: WorldSize, events: bool
) -> dict[str, np.ndarray]:
    """Return the sums of one batch, and the events when asked for."""
    steps = jnp.asarray(padded_steps(fires, size))
    horizon = int(world.max_steps)
    resolution = np.where(ways.evacuated, ways.resolution_step, horizon).astype(np.int32)
    with jax.enable_x64(True):
        first, latest = _arrivals(world, groups, steps)
        blocks = max(ways.cell.shape[1], int(latest) + 1) // WINDOW + 1
        above = np.asarray(WINDOW * blocks, dtype=np.int32)
        earliest = _descend(world, steps, above)
        met = _no_arrivals(first)
        sums = {name: np.zeros(len(steps), dtype=np.int64) for name in _BLOCKSUMS}
        listed = []
        for block in reversed(range(blocks)):
            at = WINDOW * block
            inside = at < ways.cell.shape[1]
            cell = ways.cell[:, at : at + WINDOW] if inside else np.zeros_like(ways.cell[:, :WINDOW])
            active = ways.active[:, at : at + WINDOW] if inside else np.zeros_like(ways.active[:, :WINDOW])
            found = _block(
                world, groups, steps, np.asarray(at, dtype=np.int32), earliest, cell, active, ways.evacuated,
                resolution, first, met,
            )  # fmt: skip
            earliest, met = found.earliest, found.arrivals
            for name in _BLOCKSUMS:
                sums[name] += np.asarray(found.sums[name], dtype=np.int64)
            if events:
                listed.append(_listed(at, np.asarray(found.event), np.asarray(found.event_earliest)))
        exits, cuts = _bounds(world, groups, steps, met, earliest, ways.evacuated)
    result = {
        **sums,
        "exit_bound": np.asarray(exits, dtype=np.int64),
        "time_bound": np.maximum(np.asarray(exits, dtype=np.int64), np.asarray(cuts, dtype=np.int64)),
        "sum_evacuation_steps": np.where(ways.evacuated, ways.resolution_step, 0).sum(axis=1, dtype=np.int64),
        "cells_moved": np.where(ways.evacuated, ways.cells_moved, 0).sum(axis=1, dtype=np.int64),
        "evacuated": ways.evacuated,
    }
    if events:
        rows = np.concatenate(listed)
        result["events"] = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
    return result


def _listed(at: int, event: np.ndarray, earliest: np.ndarray) -> np.ndarray:
    episode, down, person = np.nonzero(event)
    return np.stack([episode, at + down, person, earliest[episode, down, person].astype(np.int64)], axis=1)


def _check(scenario: Scenario, seeds: np.ndarray, found: Evidence) -> None:
    chains = (
        ("sum_earliest", "exit_bound", "time_bound", "sum_evacuation_steps"),
        ("fewest_moves", "cells_moved"),
        ("fewest_danger_states", "danger_states"),
        ("recovery_bound_steps", "recovery_steps"),
    )
    for chain in chains:
        for lower, upper in itertools.pairwise(chain):
            low, high = getattr(found, lower), getattr(found, upper)
            if np.any(low > high):
                at = int(np.argmax(low > high))
                raise VerificationError(
                    f"{scenario.id}, seed {int(seeds[at])}: {upper} is {int(high[at])}, below {lower}, {int(low[at])}"
                )


def _tile(size: WorldSize, groups: CutGroups, count: int) -> int:
    """Return how many episodes to compute at once: few sizes, and bounded memory."""
    cells, people = size.rows * size.cols, size.people
    planes = (cells.bit_length() + 3) * -(-people // 32) * cells
    each = 4 * (WINDOW * cells + planes + 6 * people * groups.cell.size + people * people)
    return next(tile for tile in _TILES if tile == 1 or (tile * each <= _TILE_BYTES and count > tile // 4))


# Ways


def policy_ways(world: World, policy: Policy, plan: Plan, ignition_step: np.ndarray) -> Ways:
    """Run a policy and keep where everybody was."""
    progress = _begin(world, ignition_step)
    cells, actives, at = [], [], 0
    while True:
        progress, cell, active = _go_on(world, policy, plan, ignition_step, np.asarray(at, dtype=np.int32), progress)
        cells.append(np.asarray(cell))
        actives.append(np.asarray(active))
        at += WINDOW
        if np.all(np.asarray(progress.done)) and int(np.max(np.asarray(progress.step))) < at:
            break
    return Ways(
        cell=np.concatenate(cells, axis=1),
        active=np.concatenate(actives, axis=1),
        evacuated=np.asarray(progress.people.status) == EVACUATED,
        resolution_step=np.asarray(progress.resolution_step),
        cells_moved=np.asarray(progress.cells_moved),
    )


def record_ways(scenario: Scenario, record: RunRecord, size: WorldSize) -> Ways:
    """Read one record; a leading axis of one episode."""
    states = [record.initial_state, *(step.state for step in record.steps)]
    shape = (len(states), size.people)
    cell, active = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.bool_)
    for number, state in enumerate(states):
        for index, person in enumerate(state.people):
            cell[number, index] = person.position[0] * size.cols + person.position[1]
            active[number, index] = person.status is PersonStatus.ACTIVE
    index_of = {person.id: index for index, person in enumerate(scenario.people)}
    resolution, moved = np.zeros(size.people, dtype=np.int32), np.zeros(size.people, dtype=np.int32)
    evacuated = np.zeros(size.people, dtype=np.bool_)
    for step in record.steps:
        for event in step.evacuations:
            resolution[index_of[event.person_id]] = step.step
            evacuated[index_of[event.person_id]] = True
        for movement in step.movements:
            moved[index_of[movement.person_id]] += movement.outcome is MoveOutcome.MOVED
    return Ways(cell[None], active[None], evacuated[None], resolution[None], moved[None])


def stack_ways(ways: list[Ways], count: int) -> Ways:
    """Stack single episodes, padded in time to whole windows and in number by the last one."""
    length = WINDOW * -(-max(way.cell.shape[1] for way in ways) // WINDOW)
    padded = []
    for way in ways:
        more = ((0, 0), (0, length - way.cell.shape[1]), (0, 0))
        padded.append(way._replace(cell=np.pad(way.cell, more), active=np.pad(way.active, more)))
    padded += [padded[-1]] * (count - len(padded))
    stacked: list[Any] = [np.concatenate(fields) for fields in zip(*padded, strict=True)]
    return Ways(*stacked)


@jax.jit
def _begin(world: World, ignition_step: Array) -> Progress:
    return jax.vmap(lambda _: start(world))(ignition_step)


@functools.partial(jax.jit, static_argnums=1)
def _go_on(
    world: World, policy: Policy, plan: Plan, ignition_step: Array, first: Array, progress: Progress
) -> tuple[Progress, Array, Array]:
    """Run a window of steps: the progress after it, and cells and activity at its snapshots."""
    cols = world.floor.shape[1]

    def episode(fire: Array, progress: Progress) -> tuple[Progress, tuple[Array, Array]]:
        def one(progress: Progress, number: Array) -> tuple[Progress, tuple[Array, Array]]:
            people = progress.people
            here = people.row * jnp.int32(cols) + people.col
            active = (people.status == ACTIVE) & world.person_valid & (progress.step == number)
            new, _, _ = advance(world, policy, plan, fire, progress)
            after = jax.tree.map(lambda old, new: jnp.where(progress.done, old, new), progress, new)
            return after, (here, active)

        return jax.lax.scan(one, progress, first + jnp.arange(WINDOW, dtype=jnp.int32))

    after, (cell, active) = jax.vmap(episode)(ignition_step, progress)
    return after, cell, active


# Blocks


class _Block(NamedTuple):
    """What a block of snapshots came to."""

    earliest: Array
    """uint32[N, R, C]: L at its first snapshot."""
    arrivals: Arrivals
    """With the arrivals in this block and above."""
    sums: dict[str, Array]
    """uint32[N] by name."""
    event: Array
    """bool[N, T, P]."""
    event_earliest: Array
    """uint32[N, T, P]: L there."""


_BLOCKSUMS: Final = (
    "danger_states",
    "route_invalidations",
    "recoverable_route_invalidations",
    "recovery_bound_steps",
    "recovery_steps",
)


@jax.jit
def _block(
    world: World,
    groups: Any,
    ignition_step: Array,
    first: Array,
    after: Array,
    cell: Array,
    active: Array,
    evacuated: Array,
    resolution: Array,
    arrival: Array,
    met: Arrivals,
) -> _Block:
    one = functools.partial(_one_block, world, groups, first)
    return jax.vmap(one)(ignition_step, after, cell, active, evacuated, resolution, arrival, met)


def _one_block(
    world: World,
    groups: Any,
    first: Array,
    ignition_step: Array,
    after: Array,
    cell: Array,
    active: Array,
    evacuated: Array,
    resolution: Array,
    arrival: Array,
    met: Arrivals,
) -> _Block:
    def layer(after: Array, down: Array) -> tuple[Array, Array]:
        step = first + down
        new = earliest_before(world, ignition_step, step, after)
        new = jnp.where(step < world.max_steps, new, jnp.uint32(NEVER))
        return new, new

    lowest, layers = jax.lax.scan(layer, after, jnp.arange(WINDOW, dtype=jnp.int32), reverse=True)
    flat = layers.reshape(-1)
    cells = layers.shape[1] * layers.shape[2]
    down = jnp.arange(WINDOW, dtype=jnp.int32)
    step = (first + down).astype(jnp.uint32)[:, None]
    here = flat.at[down[:, None] * jnp.int32(cells) + cell].get(mode="promise_in_bounds")
    longer = longer_ways(world, ignition_step, first).reshape(-1).at[cell].get(mode="promise_in_bounds")
    grew = (longer >> down.astype(jnp.uint32)[:, None]) & jnp.uint32(1)
    event = active & (grew == jnp.uint32(1)) & (step > jnp.uint32(0))
    recoverable = event & (here != jnp.uint32(NEVER))
    danger_from = hazard(ignition_step).danger_from.reshape(-1).at[cell].get(mode="promise_in_bounds")
    danger = active & evacuated[None] & (danger_from <= step)

    def total(mask: Array, values: Array) -> Array:
        return jnp.sum(jnp.where(mask, values, jnp.uint32(0)), dtype=jnp.uint32)

    one = jnp.uint32(1)
    sums = {
        "danger_states": total(danger, one),
        "route_invalidations": total(event, one),
        "recoverable_route_invalidations": total(recoverable, one),
        "recovery_bound_steps": total(recoverable, here - step),
        "recovery_steps": total(recoverable, resolution.astype(jnp.uint32)[None] - step),
    }
    return _Block(
        earliest=lowest,
        arrivals=_arrivals_of_block(groups, first, flat, cells, arrival, met),
        sums=sums,
        event=event,
        event_earliest=here,
    )


def _arrivals_of_block(groups: Any, first: Array, flat: Array, cells: int, arrival: Array, met: Arrivals) -> Arrivals:
    """Add the first arrivals (uint32[P, D, K]) that lie in a block of layers, L as uint32[T * R * C]."""
    start = first.astype(jnp.uint32)
    mine = (arrival >= start) & (arrival < start + jnp.uint32(WINDOW))
    down = jnp.where(mine, arrival - start, jnp.uint32(0)).astype(jnp.int32)
    earliest = flat.at[down * jnp.int32(cells) + groups.cell[None]].get(mode="promise_in_bounds")
    escapes = mine & (earliest != jnp.uint32(NEVER))
    never = jnp.uint32(NEVER)
    release = jnp.min(jnp.where(escapes, arrival, never), axis=2)
    rest = jnp.min(jnp.where(escapes, earliest - arrival, never), axis=2)
    return Arrivals(release=jnp.minimum(met.release, release), rest=jnp.minimum(met.rest, rest))


@jax.jit
def _descend(world: World, ignition_step: Array, down_to: Array) -> Array:
    """Return L at a snapshot, from the horizon down; `NEVER` at and above the horizon."""

    def one(fire: Array) -> Array:
        def layer(trip: Array, after: Array) -> Array:
            return earliest_before(world, fire, world.max_steps - jnp.int32(1) - trip, after)

        top = jnp.full(fire.shape, NEVER, dtype=jnp.uint32)
        lowest: Array = jax.lax.fori_loop(jnp.int32(0), world.max_steps - down_to, layer, top)
        return lowest

    return jax.vmap(one)(ignition_step)


@jax.jit
def _arrivals(world: World, groups: Any, ignition_step: Array) -> tuple[Array, Array]:
    """Return first arrivals at cuts, uint32[N, P, D, K], and the latest of all."""
    arrival = jax.vmap(lambda fire: first_arrivals(world, fire, groups))(ignition_step)
    finite = jnp.where(arrival == jnp.uint32(NEVER), jnp.uint32(0), arrival)
    return arrival, jnp.max(finite)


def _no_arrivals(arrival: Array) -> Arrivals:
    none = np.full(arrival.shape[:3], NEVER, dtype=np.uint32)
    nowhere: list[Any] = [none, none]
    return Arrivals(*nowhere)


@jax.jit
def _bounds(
    world: World, groups: Any, ignition_step: Array, met: Arrivals, earliest: Array, evacuated: Array
) -> tuple[Array, Array]:
    """Return `Q_exit`, and the greatest bound over the cuts: int32[N] each."""

    def one(fire: Array, met: Arrivals, earliest: Array, evacuated: Array) -> tuple[Array, Array]:
        soonest = earliest.at[world.person_row, world.person_col].get(mode="promise_in_bounds")
        exits = exit_bound(world, fire, soonest, evacuated)
        return exits, time_bound(world, fire, groups, met, soonest, evacuated)

    return jax.vmap(one)(ignition_step, met, earliest, evacuated)
