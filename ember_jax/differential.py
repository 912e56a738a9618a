"""The comparison of the two implementations: the only module that calls the rules of both.

It compares fire worlds and reference tables cell by cell and run records byte by byte, and names the first
difference: the step, the person or cell, the field, and both values.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ember_jax.fire import world_of
from ember_jax.fire_kernel import fire_worlds
from ember_jax.kernel import beside
from ember_jax.references import layers, references
from ember_jax.references_kernel import reference_summaries
from ember_jax.rollout import records
from ember_jax.world import WorldSize
from ember_ref.episode import episode_digests, run_episode
from ember_ref.fire import NEVER, FireWorld, fire_world
from ember_ref.grid import ACTIONS, Action
from ember_ref.observation import Observation
from ember_ref.policies import POLICY_NAMES, SCRUB_PREFIX, Scripted, StaticShortestPath, make_policy
from ember_ref.record import ActionLog, RunRecord, first_difference
from ember_ref.references import TABLES, References
from ember_ref.references import layers as oracle_layers
from ember_ref.references import references as oracle_references
from ember_ref.scenario import Scenario
from ember_ref.stream import Stream

ALL_POLICIES: Final = (*POLICY_NAMES, *(SCRUB_PREFIX + name for name in POLICY_NAMES))
"""Every policy but `scripted`."""
RANDOM_ACTIONS: Final = "random-actions"
"""The name under which random action logs are reported, with their number after it."""
WORLD: Final = "world"
"""What the `policy` of a difference between fire worlds says."""
REFERENCES: Final = "references"
"""What it says of a difference between reference tables, or between what single people could do."""
_FEW_POLICIES: Final = 2
"""Up to so many policies are compiled one by one."""
_FIELDS: Final = ("earliest", "moves", "danger")
_PERSON_FIELDS: Final = ("earliest_evacuation", "fewest_moves", "fewest_danger_states")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place where the two implementations differ."""

    seed: int
    policy: str
    step: int
    place: str
    """A person's ID, a cell as `[row, col]`, or what else holds the field."""
    field: str
    ref: Any
    jax: Any

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the command `verify`."""
        return {name: getattr(self, name) for name in self.__slots__}


def world_difference(ref: FireWorld, jax: FireWorld) -> Difference | None:
    """Compare two fire worlds of one scenario and seed."""

    def difference(step: int, place: str, field: str, a: Any, b: Any) -> Difference:
        return Difference(seed=ref.seed, policy=WORLD, step=step, place=place, field=field, ref=a, jax=b)

    pairs = enumerate(zip(ref.ignition_step, jax.ignition_step, strict=True))
    differing = [(min(a, b), at, a, b) for at, (a, b) in pairs if a != b]
    if differing:
        step, at, a, b = min(differing)
        return difference(step, f"[{at // ref.width}, {at % ref.width}]", "ignition_step", a, b)
    if ref.stream_position != jax.stream_position:
        return difference(ref.max_steps, "stream", "position", ref.stream_position, jax.stream_position)
    return None


def table_difference(scenario: Scenario, seed: int) -> Difference | None:
    """Compare the tables L, M and D of a scenario and seed, in the order of the induction."""
    oracle = oracle_layers(scenario, fire_world(scenario, seed))
    compiled = layers(scenario, np.array([seed], dtype=np.uint64))
    for ref, (step, jax) in zip(oracle, compiled, strict=True):
        for name, field in zip(TABLES, _FIELDS, strict=True):
            values = np.asarray(getattr(jax, field)).reshape(-1).tolist()
            for at, (a, b) in enumerate(zip(getattr(ref, field), values, strict=True)):
                if a != b:
                    place = f"[{at // scenario.grid.width}, {at % scenario.grid.width}]"
                    return Difference(seed=seed, policy=REFERENCES, step=step, place=place, field=name, ref=a, jax=b)
    return None


def person_difference(ref: References, values: Mapping[str, Sequence[int]]) -> Difference | None:
    """Compare what people could do with the values of the kernel, by field and in ID order; `NEVER` for `None`."""
    for field in _PERSON_FIELDS:
        for person, found in zip(ref.people, values[field], strict=True):
            expected = getattr(person, field)
            if (NEVER if expected is None else expected) != found:
                found_here = None if found == NEVER else found
                return Difference(
                    seed=ref.seed,
                    policy=REFERENCES,
                    step=0,
                    place=person.id,
                    field=field,
                    ref=expected,
                    jax=found_here,
                )
    return None


def record_difference(ref: RunRecord, jax: RunRecord, policy: str) -> Difference | None:
    """Compare two run records of one scenario, seed and policy."""
    parts: list[tuple[int, str, Any, Any]] = [
        (0, "header", ref.header, jax.header),
        (0, "initial_state", ref.initial_state, jax.initial_state),
        *((a.step, "", a, b) for a, b in zip(ref.steps, jax.steps, strict=False)),
    ]
    for step, place, a, b in parts:
        found = None if a == b else first_difference(a.to_dict(), b.to_dict(), place)
        if found:
            return _named(ref, policy, step, found, a.to_dict())
    found = first_difference(len(ref.steps), len(jax.steps), "steps") or first_difference(
        ref.final_state.to_dict(), jax.final_state.to_dict(), "final_state"
    )
    return _named(ref, policy, len(ref.steps), found, {}) if found else None


def compare(
    scenario: Scenario,
    seeds: Sequence[int],
    policies: Iterable[str] = ALL_POLICIES,
    *,
    policy_seed: int = 0,
    random_actions: int = 0,
    size: WorldSize | None = None,
    workers: Executor | None = None,
) -> Iterator[Difference | None]:
    """Compare both implementations on a scenario, an item for each fire world with its tables and each episode.

    Args:
        scenario: the scenario.
        seeds: evaluator seeds.
        policies: policy names.
        policy_seed: the seed of the policies' own streams.
        random_actions: how many random action logs to run as well, on the seeds in turn.
        size: the padded size; the scenario's own without it.
        workers: processes that run the oracle.

    Yields:
        The first difference of an item, or `None` where both agree.
    """
    array, policies = np.array(seeds, dtype=np.uint64), tuple(policies)
    with beside(reference_summaries, scenario, array) as aside:
        fires = fire_worlds(scenario, array)
        expected = _map(workers, oracle_references, [scenario] * len(seeds), seeds)
        tables = references(scenario, array, size=size)
        first = list(itertools.islice(tables, 1))
        summaries = aside.result()
    for place, (seed, ref, jax) in enumerate(zip(seeds, expected, itertools.chain(first, tables), strict=True)):
        compiled = world_of(scenario, seed, fires, place)
        people = {field: getattr(summaries, field)[place].tolist() for field in _PERSON_FIELDS}
        if compiled.digest != ref.fire_world_digest:
            yield world_difference(fire_world(scenario, seed), compiled)
        elif jax != ref:
            yield table_difference(scenario, seed)
        else:
            yield person_difference(ref, people)
    for policy in policies:
        pairs = _map(
            workers,
            episode_digests,
            [scenario] * len(seeds),
            seeds,
            [policy] * len(seeds),
            [policy_seed] * len(seeds),
        )
        shared = len(policies) > _FEW_POLICIES
        found = records(scenario, array, policy, policy_seed=policy_seed, size=size, shared=shared)
        for seed, (record_digest, _), record in zip(seeds, pairs, found, strict=True):
            if record.record_digest == record_digest:
                yield None
            else:
                oracle = run_episode(scenario, seed, make_policy(policy, policy_seed))
                yield record_difference(oracle, record, policy)
    for number in range(random_actions):
        seed = seeds[number % len(seeds)]
        oracle = run_episode(scenario, seed, RandomActions(number))
        log = action_log(oracle)
        (record,) = records(scenario, array[[number % len(seeds)]], Scripted.name, log=log, size=size)
        yield None if record == oracle else record_difference(oracle, record, f"{RANDOM_ACTIONS}-{number}")


class RandomActions:
    """Actions without sense: half of them toward an exit, so that people meet, half of them any of the five."""

    name = RANDOM_ACTIONS

    def __init__(self, number: int) -> None:
        """Take the number of the action log, which seeds it."""
        self._number = number
        self._toward = StaticShortestPath()
        self.reset()

    def reset(self) -> None:
        """Start the log anew."""
        self._stream = Stream(f"verify/{RANDOM_ACTIONS}", self._number)

    def act(self, observation: Observation) -> Mapping[str, Action]:
        """Draw one word a person."""
        toward = self._toward.act(observation)
        actions = {}
        for person, action in toward.items():
            choice = self._stream.below(2 * len(ACTIONS))
            actions[person] = ACTIONS[choice] if choice < len(ACTIONS) else action
        return actions


def action_log(record: RunRecord) -> ActionLog:
    """Return the actions of a record as a log."""
    return ActionLog(
        scenario_hash=record.header.scenario_hash,
        seed=record.header.seed,
        actions=tuple(step.actions for step in record.steps),
    )


def _map(workers: Executor | None, function: Any, *arguments: Sequence[Any]) -> Iterator[Any]:
    return map(function, *arguments) if workers is None else workers.map(function, *arguments, chunksize=4)


def _named(ref: RunRecord, policy: str, step: int, found: tuple[str, Any, Any], part: Any) -> Difference:
    """Turn the path of a difference into the person or cell it is about, and the field."""
    path, a, b = found
    place, field = "episode", path
    holder = re.match(r"(state\.|initial_state\.|)(\w+)(?:\[(\d+)\]|\.)(?:\.?([\w.-]+))?", path)
    if holder and holder[2] == "actions":
        place, field = holder[4], "action"
    elif holder and holder[3]:
        owner = part.get("state", part) if holder[1] == "state." else part
        entries = owner.get(holder[2], [])
        entry = entries[int(holder[3])] if int(holder[3]) < len(entries) else None
        if isinstance(entry, dict):
            place = entry.get("person_id") or entry.get("id") or place
        elif entry is not None:
            place = str(entry)
    return Difference(seed=ref.header.seed, policy=policy, step=step, place=place, field=field, ref=a, jax=b)
