"""The baseline policies (contract section 13), compiled.

A policy is a pair of pure functions: `prepare` computes once what the map alone decides, `act` answers one
observation. All that `act` reads is in observation 1.0: the map and rules of the world, positions, statuses,
burning cells and the step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ember_jax.grid import EAST, NORTH, SOUTH, STAY, UNREACHABLE, WEST, distances, look_up, target_of
from ember_jax.movement import resolve
from ember_jax.simulator import INVALID_ACTION, People
from ember_jax.stream import Uint64, advance, below, stream_seed, word
from ember_jax.world import World
from ember_ref.errors import EmberError
from ember_ref.policies import POLICY_NAMES, SCRUB_PREFIX

DIRECTIONS: Final = (NORTH, SOUTH, EAST, WEST)
SCRIPTED: Final = "scripted"


class View(NamedTuple):
    """What a policy sees besides the map and the rules."""

    step: Array
    """int32[]: completed steps."""
    people: People
    burning: Array
    """bool[R, C]."""


Plan = Any
"""What a policy prepares from the map: a pytree of arrays."""
Memory = Uint64
"""What a policy keeps between steps: the position of its own stream."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A compiled policy; hashable, so that it can be a static argument."""

    name: str
    prepare: Callable[[World, Uint64], Plan]
    """(world, policy seed) -> plan."""
    act: Callable[[World, Plan, View, Memory], tuple[Array, Memory]]
    """(world, plan, view, memory) -> int32[P] actions and the memory after."""


def start_memory() -> Memory:
    """Return the memory at the start of every episode: stream position 0."""
    return Uint64(jnp.uint32(0), jnp.uint32(0))


def make_policy(name: str) -> Policy:
    """Return a baseline policy by its name.

    Raises:
        EmberError: for an unknown name.
    """
    if name.startswith(SCRUB_PREFIX):
        return block_scrub(make_policy(name.removeprefix(SCRUB_PREFIX)))
    if name not in _BY_NAME:
        known = ", ".join(POLICY_NAMES)
        raise EmberError(f"policy {name[:80]!a} is unknown; expected {known}, or {SCRUB_PREFIX} and one of them")
    return _BY_NAME[name]


def block_scrub(policy: Policy) -> Policy:
    """Return another policy, with every move that people would block replaced by `stay`."""

    def act(world: World, plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
        action, memory = policy.act(world, plan, view, memory)
        return scrubbed(world, view, action), memory

    key = (policy.name, policy.prepare, policy.act)
    if key not in _SCRUBBED:  # one object for one policy, so that it compiles once
        _SCRUBBED[key] = Policy(name=SCRUB_PREFIX + policy.name, prepare=policy.prepare, act=act)
    return _SCRUBBED[key]


def scrubbed(world: World, view: View, action: Array) -> Array:
    """Return actions with every move that people would block replaced by `stay`: int32[P]."""
    people = view.people
    movements = resolve(world, view.burning, people.row, people.col, people.active, action)
    return jnp.where(movements.congestion_block, jnp.int32(STAY), action)


def first_direction(accepted: list[Array]) -> Array:
    """Return the first direction whose mask holds, else `stay`: int32[P] from four bool[P]."""
    return jnp.select(accepted, [jnp.int32(direction) for direction in DIRECTIONS], jnp.int32(STAY))


def around(cells: Array, people: People, *, outside: int | bool) -> list[Array]:
    """Return cells[R, C] at the four neighbours of everybody, north, south, east, west."""
    return [
        look_up(cells, *target_of(people.row, people.col, jnp.int32(direction)), outside=outside)
        for direction in DIRECTIONS
    ]


def descend(distance: Array, people: People) -> Array:
    """Return the first direction to a cell one nearer by distance[R, C]; `stay` where unreachable."""
    here = look_up(distance, people.row, people.col, outside=UNREACHABLE)
    nearer = around(distance, people, outside=UNREACHABLE)
    return first_direction([there == here - jnp.int32(1) for there in nearer])


def _nothing(_world: World, _policy_seed: Uint64) -> Plan:
    return ()


def _always_stay(_world: World, _plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
    return jnp.full_like(view.people.row, STAY), memory


def _random_stream(_world: World, policy_seed: Uint64) -> Plan:
    return stream_seed("policy/random-legal-v1", *policy_seed)


def _random_legal(world: World, plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
    people = view.people
    free = jnp.asarray(world.floor) & ~view.burning
    legal = around(free, people, outside=False)
    choices = jnp.uint32(1) + sum((mask.astype(jnp.uint32) for mask in legal), start=jnp.uint32(0))
    drawn = people.active.astype(jnp.uint32)  # one word a person, in ID order
    before = jnp.cumsum(drawn, dtype=jnp.uint32) - drawn
    choice = below(word(plan, advance(memory, before)), choices)
    accepted, number = [], jnp.zeros_like(choice)
    for mask in legal:
        number = number + mask.astype(jnp.uint32)
        accepted.append(mask & (choice == number))
    return first_direction(accepted), advance(memory, jnp.sum(drawn, dtype=jnp.uint32))


def _nearest_exit_greedy(world: World, _plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
    people = view.people
    exit_row, exit_col = jnp.asarray(world.exit_row), jnp.asarray(world.exit_col)
    gap = jnp.abs(people.row[:, None] - exit_row[None, :]) + jnp.abs(people.col[:, None] - exit_col[None, :])
    gap = jnp.where(jnp.asarray(world.exit_valid)[None, :], gap, jnp.int32(UNREACHABLE))
    nearest = jax.lax.argmin(gap, 1, jnp.int32)  # the lowest ID of equals
    goal_row, goal_col = exit_row[nearest], exit_col[nearest]
    free = jnp.asarray(world.floor) & ~view.burning
    accepted = []
    for direction, passable in zip(DIRECTIONS, around(free, people, outside=False), strict=True):
        row, col = target_of(people.row, people.col, jnp.int32(direction))
        now = jnp.abs(people.row - goal_row) + jnp.abs(people.col - goal_col)
        accepted.append(passable & (jnp.abs(row - goal_row) + jnp.abs(col - goal_col) < now))
    return first_direction(accepted), memory


def _static_distances(world: World, _policy_seed: Uint64) -> Plan:
    return distances(jnp.asarray(world.exit_cells), jnp.asarray(world.floor))


def _static(_world: World, plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
    return descend(plan, view.people), memory


def _fire_aware(world: World, _plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
    free = jnp.asarray(world.floor) & ~view.burning
    return descend(distances(jnp.asarray(world.exit_cells), free), view.people), memory


def _congestion_aware(world: World, _plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
    people = view.people
    free = jnp.asarray(world.floor) & ~view.burning

    def of_exit(exit: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        row, col, valid = exit
        source = jnp.zeros_like(free).at[row, col].set(valid, mode="promise_in_bounds")
        distance = distances(source, free)
        here = look_up(distance, people.row, people.col, outside=UNREACHABLE)
        return here, jnp.stack(around(distance, people, outside=UNREACHABLE))

    exits = (jnp.asarray(world.exit_row), jnp.asarray(world.exit_col), jnp.asarray(world.exit_valid))
    here, there = jax.lax.map(of_exit, exits)  # int32[E, P], int32[E, 4, P]
    least = jnp.min(here, axis=0)
    index = jnp.arange(least.shape[0], dtype=jnp.int32)
    waiting = people.active & (least < UNREACHABLE)
    target = [target_of(people.row, people.col, jnp.int32(direction)) for direction in DIRECTIONS]

    Carry = tuple[Array, Array, Array, Array, Array]  # noqa: N806 - a type

    def assign(carry: Carry) -> Carry:
        waiting, load, action, taken_row, taken_col = carry
        # The next in order of (least distance, ID); argmin takes the lowest ID of equals.
        person = jax.lax.argmin(jnp.where(waiting, least, jnp.int32(UNREACHABLE)), 0, jnp.int32)
        reach = here[:, person]
        cost = jnp.where(reach < UNREACHABLE, reach + load, jnp.int32(UNREACHABLE + 2**20))
        chosen = jax.lax.argmin(cost, 0, jnp.int32)
        accepted = []
        for number, (row, col) in enumerate(target):
            closer = there[chosen, number, person] == here[chosen, person] - 1
            taken = jnp.any((taken_row == row[person]) & (taken_col == col[person]))
            accepted.append(closer & ~taken)
        step = first_direction(accepted)
        goal_row, goal_col = target_of(people.row[person], people.col[person], step)
        me = index == person
        moves = me & (step != STAY)
        return (
            waiting & ~me,
            load + (jnp.arange(load.shape[0], dtype=jnp.int32) == chosen).astype(jnp.int32),
            jnp.where(me, step, action),
            jnp.where(moves, goal_row, taken_row),
            jnp.where(moves, goal_col, taken_col),
        )

    nowhere = jnp.full_like(people.row, -1)
    load = jnp.zeros(here.shape[0], dtype=jnp.int32)
    start = (waiting, load, jnp.full_like(people.row, STAY), nowhere, nowhere)
    _, _, action, _, _ = jax.lax.while_loop(lambda carry: jnp.any(carry[0]), assign, start)
    return action, memory


def _scripted(_world: World, plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
    # A plan of int32[T, P] actions; -1 where the log has none, and past its end.
    last = plan.shape[0] - 1
    row = plan.at[jnp.minimum(view.step, last)].get(mode="promise_in_bounds")
    # An action for somebody who is not active faults the step like a missing one.
    covers = ~jnp.any((row >= 0) & ~view.people.active)
    return jnp.where((view.step <= last) & covers, row, jnp.int32(INVALID_ACTION)), memory


_SCRUBBED: Final[dict[Any, Policy]] = {}
_BY_NAME: Final = {
    policy.name: policy
    for policy in (
        Policy("always-stay-v1", _nothing, _always_stay),
        Policy("random-legal-v1", _random_stream, _random_legal),
        Policy("nearest-exit-greedy-v1", _nothing, _nearest_exit_greedy),
        Policy("static-shortest-path-v1", _static_distances, _static),
        Policy("fire-aware-shortest-path-v1", _nothing, _fire_aware),
        Policy("congestion-aware-v1", _nothing, _congestion_aware),
    )
}


class AnyPlan(NamedTuple):
    """The plan of `ANY_POLICY`."""

    number: Any
    """int32[]: which policy (see `numbered`)."""
    scrubs: Any
    """int32[]: how often its moves that people would block are replaced by `stay`."""
    plans: tuple[Plan, ...]
    """What each policy prepared."""


def numbered(name: str) -> tuple[int, int]:
    """Return a policy as `AnyPlan.number` and `AnyPlan.scrubs`."""
    base = name.removeprefix(SCRUB_PREFIX)
    if base != name:
        number, scrubs = numbered(base)
        return number, scrubs + 1
    return list(_BY_NAME).index(name), 0


def _prepare_any(world: World, policy_seed: Uint64) -> Plan:
    plans = tuple(policy.prepare(world, policy_seed) for policy in _BY_NAME.values())
    return AnyPlan(number=jnp.int32(0), scrubs=jnp.int32(0), plans=plans)


def _any(world: World, plan: Plan, view: View, memory: Memory) -> tuple[Array, Memory]:
    def branch(policy: Policy, mine: Plan) -> Callable[[], tuple[Array, Memory]]:
        return lambda: policy.act(world, mine, view, memory)

    branches = [branch(policy, mine) for policy, mine in zip(_BY_NAME.values(), plan.plans, strict=True)]
    action, memory = jax.lax.switch(plan.number, branches)
    return jax.lax.fori_loop(0, plan.scrubs, lambda _, action: scrubbed(world, view, action), action), memory


ANY_POLICY: Final = Policy("any", _prepare_any, _any)
"""Every baseline policy, the one that acts being data: one compilation for all, longer than that of one."""
SCRIPTED_POLICY: Final = Policy(SCRIPTED, _nothing, _scripted)
"""An action log; its plan is made by `ember_jax.rollout`, not from the map."""
