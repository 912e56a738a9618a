"""`ember evaluate`: every scheduled episode with a policy or an agent, into a result."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

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
    note,
    seeds_for,
    suite_or_pack_of,
)
from ember_cli.progress import Progress
from ember_ref.form import ID_PATTERN, show
from ember_ref.policies import make_policy
from ember_ref.record import RunRecord
from ember_ref.scenario import Scenario
from ember_ref.suite import Manifest, Pack, SuiteFolder, schedule

FEW_TRIALS = 3
"""Below this number of trials of an agent the command warns: one answer of a sampled model says little."""


def evaluate(
    target: Annotated[str, typer.Argument(help="A pack, or a suite: file, folder or bundled name.")],
    out: Annotated[Path, typer.Option("--out", help="The result; failures and measures go beside it.")],
    policy: Annotated[str | None, typer.Option("--policy", help="A built-in policy by name.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The command of an agent that speaks agent protocol 1.0.")
    ] = None,
    seeds: SeedsText = None,
    policy_seed: PolicySeed = 0,
    deadline: Annotated[float, typer.Option("--deadline", help="Seconds for each line of an agent.")] = 60.0,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Write this many results, one a trial.")] = 1,
    model_id: Annotated[str | None, typer.Option("--model-id", help="The model ID in the result.")] = None,
    reuse: Annotated[bool, typer.Option("--reuse", help="Keep the agent's process between episodes.")] = False,
    env: Annotated[
        list[str] | None, typer.Option("--env", help="A variable that the agent may see; may be repeated.")
    ] = None,
    as_json: Json = False,
    backend: UseBackend = Backend.JAX,
) -> None:
    """Run every scheduled episode; the same command goes on where it was stopped."""
    from scoring.runner import EvaluationRun, Outcomes, policy_outcomes, record_outcomes, trial_path
    from scoring.runner import evaluate as run_evaluation

    if (policy is None) == (agent is None):
        raise UsageError("give either --policy NAME or --agent COMMAND")
    if model_id is not None and not ID_PATTERN.fullmatch(model_id):
        raise UsageError(f"--model-id {show(model_id)} is not an ID")
    if agent is None and (reuse or env):
        raise UsageError("--reuse and --env are for an --agent")
    if not out.name:
        raise UsageError(f"--out {show(str(out))}: not the name of a file")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}")
    loaded = suite_or_pack_of(target)
    manifest = _manifest(loaded, seeds)
    if agent is not None and trials < FEW_TRIALS:
        note(
            f"ember: {trials} trial(s); a sampled model needs --trials {FEW_TRIALS} or more (temperature 0 is not "
            "determinism), and every trial is scored"
        )
    report = Report(as_json=as_json, title="Evaluation")
    for trial in range(1, trials + 1):
        result = trial_path(out, trial)
        identity: dict[str, Any] = {"trial": trial}
        outcomes: Outcomes
        if policy is not None:
            make_policy(policy, policy_seed)  # refuses an unknown name or seed before anything runs
            identity |= {"policy": policy, "policy_seed": policy_seed}
            if backend is Backend.JAX:
                outcomes = record_outcomes(loaded, partial(_compiled, loaded, policy, policy_seed))
            else:
                outcomes = policy_outcomes(loaded, policy, policy_seed)
        else:
            outcomes, described = _agent(loaded, agent or "", deadline, env or [], reuse, result)
            identity |= described
        with Progress("episodes") as progress:
            run: EvaluationRun = run_evaluation(
                target=loaded,
                manifest=manifest,
                outcomes=outcomes,
                out=result,
                identity=identity,
                model_id=model_id or policy,
                progress=progress,
            )
        report.add({"model_id": run.model_id, "episodes": run.episodes, "failures": len(run.failures)})
        if run.earlier:
            note(f"ember: {result}: complete already, nothing was run")
        kinds = [str(kind) for kind in run.failures.values()]
        if kinds:
            counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
            note(f"ember: {result}: {len(kinds)} of {run.episodes} episodes without a result ({counts})")
    report.close()


def _manifest(target: SuiteFolder | Pack, seeds: str | None) -> Manifest:
    if isinstance(target, Pack):
        if seeds is not None:
            raise UsageError("--seeds: a pack has its own seeds")
        return target.manifest
    chosen: Mapping[str, Sequence[int]] = {
        scenario.id: list(seeds_for(seeds, scenario)) for scenario in target.scenarios.values()
    }
    return schedule(target.suite, chosen)


def _agent(
    target: SuiteFolder | Pack, command: str, deadline: float, env: list[str], reuse: bool, result: Path
) -> tuple[Any, dict[str, Any]]:
    from ember_ref.agent import ProcessAgent, absolute_command
    from scoring.runner import agent_log_path, agent_outcomes, journalled_hello

    agent = ProcessAgent(
        command,
        deadline=deadline,
        environment=env,
        reuse=reuse,
        log=agent_log_path(result),
        expected=journalled_hello(result),
    )
    described = {"agent": absolute_command(command), "deadline": deadline, "reuse": reuse}
    return agent_outcomes(target, agent), described


def _compiled(
    target: SuiteFolder | Pack, policy: str, policy_seed: int, scenario: Scenario, seeds: Sequence[int]
) -> Iterator[RunRecord]:
    import numpy as np

    from ember_jax.rollout import records
    from ember_jax.world import padded_size

    enable_compilation_cache()
    # One size for the whole suite: one compilation instead of one a scenario.
    size = padded_size(*target.scenarios.values())
    return records(scenario, np.array(seeds, dtype=np.uint64), policy, policy_seed=policy_seed, size=size)
