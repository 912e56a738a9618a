"""`ember run`: a policy's episodes, with their digests."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ember_cli.console import (
    Backend,
    Json,
    PolicySeed,
    Report,
    SeedsText,
    UsageError,
    UseBackend,
    enable_compilation_cache,
    scenario_of,
    seeds_for,
)
from ember_ref.canonical import write_canonical
from ember_ref.episode import run_episode
from ember_ref.form import repeats
from ember_ref.observation import PersonStatus
from ember_ref.policies import Policy, Scripted, make_policy
from ember_ref.record import ActionLog, RunRecord, load_action_log
from ember_ref.scenario import Scenario

BATCH = 16
"""Records that are made at once."""


def run(
    scenario: Annotated[list[str], typer.Argument(help="A scenario file, or the name of a bundled scenario.")],
    policy: Annotated[str, typer.Option("--policy", help="A policy by name; `scripted` needs --actions.")],
    seeds: SeedsText = None,
    policy_seed: PolicySeed = 0,
    actions: Annotated[Path | None, typer.Option("--actions", help="The action log of `scripted`.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the run records into this folder.")] = None,
    as_json: Json = False,
    backend: UseBackend = Backend.JAX,
) -> None:
    """Run a policy to the end of an episode under each seed."""
    if (policy == Scripted.name) != (actions is not None):
        raise UsageError("--policy scripted and --actions LOG go together")
    log = None if actions is None else load_action_log(actions)
    if log is None:
        make_policy(policy, policy_seed)  # refuses an unknown name or seed before anything runs
    loaded = [(name, scenario_of(name)) for name in scenario]
    play = _player(policy, policy_seed, log, [item for _, item in loaded], backend)
    if log is not None:
        for _, item in loaded:
            for seed in seeds_for(seeds, item):
                log.check(item, seed)
    if out is not None:
        ids = [item.id for _, item in loaded]
        if repeats(ids):
            twice = ids[repeats(ids)[0][0]]
            raise UsageError(f"two scenarios have the ID {twice}: their records would be one file")
        out.mkdir(parents=True, exist_ok=True)
    report = Report(as_json=as_json, title=policy)
    for name, item in loaded:
        chosen = seeds_for(seeds, item)
        for start in range(0, chosen.count, BATCH):
            batch = chosen.part(start, start + BATCH)
            for record in play(item, batch):
                if out is not None:
                    write_canonical(out / f"{item.id}-{record.header.seed}-{policy}.json", record.to_dict())
                report.add({"scenario": name, "policy": policy, **summary(record)})
    report.close()


def summary(record: RunRecord) -> dict[str, int | str | None]:
    """Return what a line of `ember run` says of a record."""
    statuses = [person.status for person in record.final_state.people]
    reason = record.final_state.termination_reason
    return {
        "seed": record.header.seed,
        "record_digest": record.record_digest,
        "trajectory_digest": record.trajectory_digest,
        "steps": len(record.steps),
        "evacuated": statuses.count(PersonStatus.EVACUATED),
        "casualties": statuses.count(PersonStatus.CASUALTY),
        "stranded": statuses.count(PersonStatus.ACTIVE),
        "termination_reason": None if reason is None else str(reason),
    }


def _player(
    policy: str, policy_seed: int, log: ActionLog | None, scenarios: Sequence[Scenario], backend: Backend
) -> Callable[[Scenario, list[int]], Iterator[RunRecord]]:
    """Return what runs the policy of a call on a backend: (scenario, seeds) -> records in order."""
    if backend is Backend.REF:
        player: Policy = make_policy(policy, policy_seed) if log is None else Scripted(log)
        return lambda scenario, seeds: (run_episode(scenario, seed, player) for seed in seeds)
    import numpy as np

    from ember_jax.rollout import records
    from ember_jax.world import shared_size

    enable_compilation_cache()
    size = shared_size(scenarios)
    return lambda scenario, seeds: records(
        scenario, np.array(seeds, dtype=np.uint64), policy, policy_seed=policy_seed, log=log, size=size
    )
