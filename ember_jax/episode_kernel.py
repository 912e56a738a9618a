"""Episodes of the baseline policies, many in the lanes of one tile.

Every lane has its own step and seed. When most lanes have come to an end, their outcomes are written and they
start again with the next seeds, without waiting for the last ones. Not earlier, because a step costs about as
much as there are people in any lane, and towards the end these are few. All fires spread in the same turns of
the loop: lanes start again only between two spreads.
"""

from enum import StrEnum
from typing import Any, Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ember_jax import aim_kernel, congestion_kernel, fire_aware_kernel
from ember_jax.board_kernel import bits_at, some_bit, written
from ember_jax.fire_kernel import (
    WINDOW_BITS,
    FireSize,
    FireState,
    Terrain,
    repeat_if,
    spread,
    start_fire,
    start_successes,
)
from ember_jax.kernel import LANES
from ember_jax.movement_kernel import (
    People,
    any_lane,
    as_bit,
    bit_of,
    each,
    movers,
    moves,
    on_fire,
    row_of,
    start_people,
    with_row,
)
from ember_jax.route_kernel import RouteGround, each_lane, marked
from ember_jax.simulator import (
    ACTIVE,
    ALL_RESOLVED,
    CASUALTY,
    ENTERED_FIRE,
    EVACUATED,
    FIRE_SPREAD,
    MAX_STEPS,
    NO_CASUALTY,
)
from ember_jax.stream import FIRE, GOLDEN_GAMMA, stream_seed

_WAITING: Final = LANES - LANES // 8
"""Lanes that wait before they start again."""


class Aim(StrEnum):
    """How a policy finds its way; one compilation each."""

    MAP = "map"
    GREEDY = "greedy"
    RANDOM = "random"
    FIRE_AWARE = "fire aware"
    CONGESTION_AWARE = "congestion aware"


class RolloutSize(NamedTuple):
    """What sets the shapes of the kernel, and so the compilation."""

    fire: FireSize
    people: int
    """Padded people P."""
    goals: int
    """Padded goals E of the ways that the policy follows, 0 for none."""
    aim: Aim
    seeds: int
    """Seeds N that a call has room for, whole tiles."""


class Ground(NamedTuple):
    """The terrain, people and policy of one scenario; host arrays. W words of cells, row-major."""

    fire: Terrain
    route: RouteGround
    exits: np.ndarray
    """uint32[W]: exits."""
    exit_index: np.ndarray
    """int32[32 W]: the number of the exit on each cell, -1 for none."""
    width: np.ndarray
    """uint32[]: cells from one row to the next."""
    way: np.ndarray
    """uint32[32 W], or uint32[0] where the map alone does not decide: where the policy sends a person from each
    cell."""
    choices: np.ndarray
    """uint32[4, W], or uint32[4, 0]: the directions that the policy takes unless their cell burns."""
    guide: np.ndarray
    """uint32[4, W], or uint32[4, 0] for other policies: what `fire_aware_kernel.Guide` has at step 0."""
    stream: np.ndarray
    """uint64[]: the state of the policy's SplitMix64 that gives its first word."""
    person: np.ndarray
    """uint32[P]: where each person starts."""
    people: np.ndarray
    """uint64[]: a bit for every real person."""
    horizon: np.ndarray
    """int32[]: `max_steps`."""
    fire_blocks: np.ndarray
    """uint32[]: all ones when a move into fire is refused."""


class RolloutSummaries(NamedTuple):
    """What became of everybody under each of N seeds; P people in ID order."""

    steps: Any
    """int32[N]: steps of the episode."""
    termination: Any
    """int32[N]: `ALL_RESOLVED` or `MAX_STEPS` of `ember_jax.simulator`."""
    status: Any
    """int32[N, P]: `ACTIVE` (stranded), `EVACUATED` or `CASUALTY`."""
    resolution_step: Any
    """int32[N, P]: the step in which a person left or was lost; 0 when stranded."""
    exit_index: Any
    """int32[N, P]: the exit used, -1 for none."""
    cause: Any
    """int32[N, P]: the casualty cause."""
    cells_moved: Any
    """int32[N, P]: outcomes `moved`."""


class _Lanes(NamedTuple):
    """A tile of episodes, each at its own step."""

    clock: Array
    """int32[]: turns of the loop."""
    birth: Array
    """int32[L]: the clock at step 0 of each lane's episode."""
    seed: Array
    """int32[L]: the number of each lane's seed."""
    busy: Array
    """uint32[L]: 1 in lanes with an episode, until its outcome is written."""
    next: Array
    """int32[]: the next seed."""
    fire: FireState
    people: People
    stranded: Array
    """M[L]: people who were active at the horizon."""
    last: Array
    """int32[L]: the last step made."""
    memory: Any
    """What the policy keeps."""
    held_by: Array
    """M[P, L]: written before it is read; carried, so that it is written once."""
    outcomes: RolloutSummaries


def run_episodes(ground: Any, size: RolloutSize, count: Array, seed_hi: Array, seed_lo: Array) -> RolloutSummaries:
    """Run the episodes of the first `count` seeds to their ends.

    Args:
        ground: the `Ground`.
        size: its padded size.
        count: int32[], at most N.
        seed_hi: uint32[N], upper halves of the evaluator seeds.
        seed_lo: uint32[N], lower halves.
    """
    streams = stream_seeds(size, count, seed_hi, seed_lo)
    lanes = lax.while_loop(
        lambda lanes: some_bit(lanes.busy),
        lambda lanes: _start_again(ground, size, count, streams, step_lanes(ground, size, lanes)),
        start_lanes(ground, size, count, streams),
    )
    return lanes.outcomes


def stream_seeds(size: RolloutSize, count: Array, seed_hi: Array, seed_lo: Array) -> Array:
    """Return the seeds of the fire's streams: uint64[N]; only whole tiles with a seed are made."""

    def tile(index: Array, streams: Array) -> Array:
        at = index * jnp.int32(LANES)
        halves = (lax.dynamic_slice_in_dim(half, at, LANES) for half in (seed_hi, seed_lo))
        seed = stream_seed(FIRE, *halves)
        joined = (seed.hi.astype(jnp.uint64) << jnp.uint64(32)) | seed.lo.astype(jnp.uint64)
        return lax.dynamic_update_slice_in_dim(streams, joined, at, axis=0)

    tiles = (count + jnp.int32(LANES - 1)) // jnp.int32(LANES)
    result: Array = lax.fori_loop(jnp.int32(0), tiles, tile, jnp.zeros(size.seeds, dtype=jnp.uint64))
    return result


def start_lanes(ground: Any, size: RolloutSize, count: Array, streams: Array) -> _Lanes:
    """Return the first episodes, at most `count`, at step 0."""
    people = start_people(ground.person, ground.people)
    lane = lax.iota(jnp.int32, LANES)
    busy = (lane < count).astype(jnp.uint32)
    nobody = jnp.zeros_like(people.active)
    fire = start_fire(ground.fire, size.fire, jnp.zeros(LANES, dtype=jnp.uint32), jnp.zeros(LANES, dtype=jnp.uint32))
    of_seed = jnp.zeros(size.seeds, dtype=jnp.int32)
    of_person = jnp.zeros((size.seeds, size.people), dtype=jnp.int32)
    return _Lanes(
        clock=jnp.int32(0),
        birth=jnp.zeros(LANES, dtype=jnp.int32),
        seed=lane,
        busy=busy,
        next=jnp.int32(LANES),
        fire=fire._replace(successes=start_successes(streams[:LANES], jnp.zeros(LANES, dtype=jnp.uint64))),
        people=people._replace(active=jnp.where(busy != jnp.uint32(0), people.active, nobody)),
        stranded=nobody,
        last=jnp.zeros(LANES, dtype=jnp.int32),
        memory=_start_memory(ground, size, people),
        held_by=jnp.zeros(people.cell.shape, dtype=people.active.dtype),
        outcomes=RolloutSummaries(of_seed, of_seed, of_person, of_person, of_person, of_person, of_person),
    )


def step_lanes(ground: Any, size: RolloutSize, lanes: _Lanes) -> _Lanes:
    """Make one step in every lane with somebody active."""
    fire, people = lanes.fire, lanes.people
    clock = lanes.clock + jnp.int32(1)
    number = clock - lanes.birth
    present = any_lane(people.active)
    people, memory = _aim(ground, size, fire.burning, present, people, lanes.memory)
    going = movers(size.fire, fire.burning, ground.fire_blocks, present, people)
    moved, held_by = moves(present, people, going, lanes.held_by)

    def move(person: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        cell, count = carry
        goes = bit_of(moved, person).astype(jnp.uint32)
        here = jnp.where(goes != jnp.uint32(0), row_of(people.target, person), row_of(cell, person))
        return (
            with_row(cell, here, person),
            with_row(count, row_of(count, person) + goes.astype(jnp.int32), person),
        )

    cell, cells_moved = each(present, move, (people.cell, people.cells_moved))

    def on_exit(person: Array, mask: Array) -> Array:
        return mask | as_bit(bits_at(size.fire.words, [ground.exits], row_of(cell, person)), person, mask)

    before = on_fire(size.fire, fire.burning, present, cell, people.active)
    evacuated = people.active & each(present, on_exit, jnp.zeros_like(moved)) & ~before
    due = _between_spreads(ground, clock) & (ground.fire.spreads != jnp.int32(0)) & (fire.first < fire.end)
    fire = repeat_if(due, lambda fire: spread(ground.fire, size.fire, fire)._replace(spread=jnp.int32(1)), fire)
    lost = on_fire(size.fire, fire.burning, present, cell, people.active) & ~evacuated
    resolved = evacuated | lost

    def resolve(person: Array, steps: Array) -> Array:
        mine = bit_of(resolved, person) != jnp.asarray(0, resolved.dtype)
        return with_row(steps, jnp.where(mine, number, row_of(steps, person)), person)

    none = jnp.zeros_like(resolved)
    left = people.active & ~resolved
    over = number == ground.horizon
    return lanes._replace(
        clock=clock,
        fire=fire,
        people=people._replace(
            cell=cell,
            active=jnp.where(over, none, left),
            evacuated=people.evacuated | evacuated,
            entered_fire=people.entered_fire | (lost & before),
            resolution_step=each(any_lane(resolved), resolve, people.resolution_step),
            cells_moved=cells_moved,
        ),
        stranded=lanes.stranded | jnp.where(over, left, none),
        last=jnp.where(people.active != none, number, lanes.last),
        memory=memory,
        held_by=held_by,
    )


def _between_spreads(ground: Any, clock: Array) -> Array:
    """Tell whether fires spread in this turn, or would if there were time: bool[]."""
    on_time = clock.astype(jnp.uint32) % ground.fire.interval == jnp.uint32(0)
    between: Array = on_time | (ground.fire.spreads == jnp.int32(0))
    return between


# The policy


def _start_memory(ground: Any, size: RolloutSize, people: People) -> Any:
    if size.aim is Aim.RANDOM:
        return jnp.broadcast_to(ground.stream, (LANES,))
    if size.aim is Aim.FIRE_AWARE:
        return fire_aware_kernel.start_guide(ground, size.fire, people)
    if size.aim is Aim.CONGESTION_AWARE:
        return congestion_kernel.start_crowd(ground, size.fire)
    return ()


def _restart_memory(ground: Any, size: RolloutSize, again: Array, memory: Any) -> Any:
    """Return what the policy knows at step 0 in the lanes of `again`, bool[L]."""
    if size.aim is Aim.RANDOM:
        return jnp.where(again, ground.stream, memory)
    if size.aim is Aim.FIRE_AWARE:
        return fire_aware_kernel.restart_guide(ground, size.fire, again, memory)
    if size.aim is Aim.CONGESTION_AWARE:
        return congestion_kernel.restart_crowd(ground, size.fire, again, memory)
    return memory


def _aim(
    ground: Any, size: RolloutSize, burning: Array, present: Array, people: People, memory: Any
) -> tuple[People, Any]:
    """Point everybody to where the policy sends them."""
    common = (ground, size.fire, burning, present, people)
    if size.aim is Aim.MAP:

        def point(person: Array, target: Array) -> Array:
            there = ground.way.at[row_of(people.cell, person)].get(mode="promise_in_bounds")
            return with_row(target, there, person)

        return people._replace(target=each(present, point, people.target)), memory
    if size.aim is Aim.GREEDY:
        return aim_kernel.greedy(*common), memory
    if size.aim is Aim.RANDOM:
        return aim_kernel.random_legal(*common, memory)
    if size.aim is Aim.FIRE_AWARE:
        return fire_aware_kernel.aim(*common, memory)
    return congestion_kernel.aim(*common, memory)


# The next seeds


def _start_again(ground: Any, size: RolloutSize, count: Array, streams: Array, lanes: _Lanes) -> _Lanes:
    """Write the outcomes of lanes that have come to an end, and give them the next seeds, if it is time."""
    none = jnp.asarray(0, lanes.people.active.dtype)
    ended = written(
        ground.route.once,
        lambda: jnp.where(lanes.people.active == none, lanes.busy, jnp.uint32(0)),
        jnp.zeros(LANES, dtype=jnp.uint32),
    )
    waiting = jnp.sum(ended, dtype=jnp.uint32) >= jnp.uint32(_WAITING)
    in_turn = waiting & _between_spreads(ground, lanes.clock) & (lanes.next < count)
    all_ended = any_lane(lanes.people.active) == none

    def again(lanes: _Lanes) -> _Lanes:
        lanes = _collect(ground, size, count, ended, lanes)
        clock = jnp.where(all_ended, jnp.int32(0), lanes.clock)
        return _restart(ground, size, streams, ended != jnp.uint32(0), lanes._replace(clock=clock))

    return repeat_if(in_turn | all_ended, again, lanes)


_Written = tuple[RolloutSummaries, Array, Array, Array]


def _collect(ground: Any, size: RolloutSize, count: Array, ended: Array, lanes: _Lanes) -> _Lanes:
    """Write the outcomes of the lanes that have ended, and number their next seeds."""
    people, kind = lanes.people, lanes.people.active.dtype
    person = jnp.arange(size.people, dtype=kind)

    def has(mask: Array, lane: Array) -> Array:
        """Return the people of a mask in one lane: bool[P]."""
        return (mask[lane] >> person) & jnp.asarray(1, kind) != jnp.asarray(0, kind)

    def of_lane(rows: Array, lane: Array) -> Array:
        return lax.dynamic_slice(rows, (jnp.int32(0), lane), (size.people, 1))[:, 0]

    def write(lane: Array, carry: _Written) -> _Written:
        outcomes, seed, busy, following = carry
        evacuated, active = has(people.evacuated, lane), has(lanes.stranded, lane)
        entered = has(people.entered_fire, lane)
        lost = ~evacuated & ~active
        exit = ground.exit_index.at[of_lane(people.cell, lane)].get(mode="promise_in_bounds")
        over = lanes.stranded[lane] != jnp.asarray(0, kind)
        cause = jnp.where(entered, jnp.int32(ENTERED_FIRE), jnp.int32(FIRE_SPREAD))
        values = RolloutSummaries(
            steps=lanes.last[lane],
            termination=jnp.where(over, jnp.int32(MAX_STEPS), jnp.int32(ALL_RESOLVED)),
            status=jnp.select([evacuated, active], [jnp.int32(EVACUATED), jnp.int32(ACTIVE)], jnp.int32(CASUALTY)),
            resolution_step=of_lane(people.resolution_step, lane),
            exit_index=jnp.where(evacuated, exit, jnp.int32(-1)),
            cause=jnp.where(lost, cause, jnp.int32(NO_CASUALTY)),
            cells_moved=of_lane(people.cells_moved, lane),
        )
        at = seed[lane]
        outcomes = RolloutSummaries(
            *(
                lax.dynamic_update_slice_in_dim(rows, value[None], at, axis=0)
                for rows, value in zip(outcomes, values, strict=True)
            )
        )
        more = (following < count).astype(jnp.uint32)
        return (
            outcomes,
            lax.dynamic_update_slice_in_dim(seed, following[None], lane, axis=0),
            lax.dynamic_update_slice_in_dim(busy, more[None], lane, axis=0),
            following + jnp.int32(1),
        )

    start = (lanes.outcomes, lanes.seed, lanes.busy, lanes.next)
    outcomes, seed, busy, following = each_lane(marked(ended), write, start)
    return lanes._replace(outcomes=outcomes, seed=seed, busy=busy, next=following)


def _restart(ground: Any, size: RolloutSize, streams: Array, again: Array, lanes: _Lanes) -> _Lanes:
    """Put the lanes of `again`, bool[L], to step 0 of their next episodes."""
    people, fire, bits = lanes.people, lanes.fire, lanes.fire.successes
    first = start_people(ground.person, ground.people)
    kind = people.active.dtype
    none = jnp.asarray(0, kind)
    stream = streams.at[jnp.minimum(lanes.seed, jnp.int32(size.seeds - 1))].get(mode="promise_in_bounds")
    fresh = start_successes(stream, jnp.zeros(LANES, dtype=jnp.uint64))
    used = (fire.drawn - bits.start).astype(jnp.uint64)
    drawn = jnp.where(again, jnp.uint32(0), fire.drawn)
    onward = bits.state + used * jnp.asarray(GOLDEN_GAMMA, dtype=jnp.uint64)
    ignitions = jnp.pad(ground.fire.ignitions, (size.fire.margin, size.fire.margin))
    return lanes._replace(
        birth=jnp.where(again, lanes.clock, lanes.birth),
        people=People(
            cell=jnp.where(again, first.cell, people.cell),
            target=people.target,
            active=jnp.where(again & (lanes.busy != jnp.uint32(0)), first.active, people.active),
            evacuated=jnp.where(again, none, people.evacuated),
            entered_fire=jnp.where(again, none, people.entered_fire),
            resolution_step=jnp.where(again, jnp.int32(0), people.resolution_step),
            cells_moved=jnp.where(again, jnp.int32(0), people.cells_moved),
        ),
        stranded=jnp.where(again, none, lanes.stranded),
        fire=fire._replace(
            first=jnp.int32(0),
            end=ground.fire.words,
            burning=jnp.where(again, ignitions[:, None], fire.burning),
            ignited=jnp.where(again, jnp.uint32(0), fire.ignited),
            drawn=drawn,
            # The buffer of success bits starts again at every lane's position, with no window.
            successes=bits._replace(
                state=jnp.where(again, fresh.state, onward),
                start=drawn,
                made=jnp.int32(0),
                fetched=drawn - jnp.uint32(WINDOW_BITS),
                left=jnp.int32(0),
            ),
        ),
        memory=_restart_memory(ground, size, again, lanes.memory),
    )
