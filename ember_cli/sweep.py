"""`ember sweep`: a scenario or suite over very many fires, into Parquet."""

import datetime
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from ember_cli.console import (
    FAILED,
    HELD,
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
    target_of,
)
from ember_cli.sweep_folder import EVIDENCE_COLUMNS, Part, SweepFolder, read_part, write_run
from ember_ref.episode import run_episode
from ember_ref.fire import FireWorld, fire_world
from ember_ref.form import show
from ember_ref.observation import PersonStatus
from ember_ref.policies import make_policy
from ember_ref.record import RunRecord
from ember_ref.references import references_of
from ember_ref.scenario import Scenario
from ember_ref.simulator import CasualtyCause
from scoring.evidence import ReferenceImplementation, evidence_of

_MOST_ROWS = 10**11
"""Rows of a sweep, whose parts are listed before any is made."""


def sweep(
    target: Annotated[str, typer.Argument(help="A scenario or a suite: file, folder or bundled name.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write; taken up again when it is there.")],
    seeds: SeedsText = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="A policy; may be repeated. Without it, fires alone.")
    ] = None,
    policy_seed: PolicySeed = 0,
    verify: Annotated[
        int, typer.Option("--verify", min=0, help="Check this many seeds a scenario with the oracle.")
    ] = 0,
    digests: Annotated[bool, typer.Option("--digests", help="Add the fire-world digest of every seed.")] = False,
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence/--no-evidence",
            help="Add what the score reads of every episode; without, a sweep is much faster.",
        ),
    ] = True,
    shard: Annotated[str, typer.Option("--shard", help="Do share i of n, as i/n, from 0/n.")] = "0/1",
    restart: Annotated[bool, typer.Option("--restart", help="Empty the folder of a sweep first.")] = False,
    as_json: Json = False,
    backend: UseBackend = Backend.JAX,
) -> int:
    """Run every policy in the fire of every seed, and keep a row of each."""
    index, shards = _shard(shard)
    policies = policy or []
    for place, given in enumerate(policies):
        make_policy(given, policy_seed)
        if given in policies[:place]:
            raise UsageError(f"--policy {given} is given twice")
    scenarios = target_of(target)
    chosen = [seeds_for(seeds, scenario) for scenario in scenarios]
    rows = sum(item.count for item in chosen) * max(len(policies), 1)
    if rows > _MOST_ROWS:
        raise UsageError(f"--seeds: {rows} rows, more than {_MOST_ROWS}, the most that one sweep takes")
    folder = SweepFolder(
        out,
        scenarios=scenarios,
        seeds=chosen,
        policies=policies,
        policy_seed=policy_seed,
        backend=str(backend),
        digests=digests,
        evidence=evidence,
    )
    folder.open(restart=restart)
    folder.clean()
    if backend is Backend.JAX:
        enable_compilation_cache()
    started = datetime.datetime.now(tz=datetime.UTC).strftime("%Y%m%dT%H%M%S")
    clock = time.monotonic()
    mine = [part for number, part in enumerate(folder.parts()) if number % shards == index]
    seconds, fresh = _make(folder, mine, policy_seed, backend)
    report = Report(as_json=as_json, title=f"Sweep of {target}")
    mismatches = 0
    for i, scenario in enumerate(scenarios):
        for j, name in enumerate(folder.policies):
            parts = [part for part in mine if (part.scenario, part.policy) == (i, j)]
            if not parts:
                continue
            differences = _verify(folder, parts, verify, policy_seed, backend)
            for difference in differences:
                note(f"ember: {difference}")
            mismatches += len(differences)
            spent = seconds.get((i, j), 0.0)
            done = sum(part.stop - part.start for part in parts)
            report.add(
                {
                    "scenario_id": scenario.id,
                    "policy": name,
                    "seeds": done,
                    **_means(folder, parts),
                    "verified": min(verify, done),
                    "mismatches": len(differences),
                    "seconds": round(spent, 3),
                    "seeds_per_s": round(fresh.get((i, j), 0) / spent, 1) if spent else None,
                }
            )
    write_run(out, _run_document(index, shards, started, time.monotonic() - clock, backend, fresh), started)
    report.close()
    return FAILED if mismatches else HELD


def _make(
    folder: SweepFolder, parts: list[Part], policy_seed: int, backend: Backend
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], int]]:
    """Make the parts that are not there; return seconds and fresh seeds by (scenario, policy)."""
    seconds: dict[tuple[int, int], float] = {}
    fresh: dict[tuple[int, int], int] = {}
    todo = [part for part in parts if not folder.is_done(part)]
    progress = _Progress(sum(part.stop - part.start for part in todo))
    # A part is written while the next one is made; at most two are held.
    with ThreadPoolExecutor(max_workers=1) as writer:
        writing: Future[None] | None = None
        for number, part in enumerate(todo, start=1):
            key = part.scenario, part.policy
            start = time.monotonic()
            batches = list(progress.counting(_rows(folder, part, policy_seed, backend)))
            if writing is not None:
                writing.result()
            writing = writer.submit(folder.write, part, batches)
            if number == len(todo):
                writing.result()
            seconds[key] = seconds.get(key, 0.0) + time.monotonic() - start
            fresh[key] = fresh.get(key, 0) + part.stop - part.start
    progress.close()
    return seconds, fresh


def _rows(folder: SweepFolder, part: Part, policy_seed: int, backend: Backend) -> Iterator[Mapping[str, Any]]:
    scenario, policy = folder.scenarios[part.scenario], folder.policies[part.policy]
    values = folder.seeds[part.scenario].part(part.start, part.stop)
    if backend is Backend.JAX:
        from ember_jax.sweep import rows

        yield from rows(
            scenario, values, policy, policy_seed=policy_seed, digests=folder.digests, evidence=folder.evidence
        )
        return
    for seed in values:
        row = oracle_row(scenario, seed, policy, policy_seed, digests=folder.digests, evidence=folder.evidence)[0]
        yield {name: [value] for name, value in row.items()}


def oracle_row(
    scenario: Scenario, seed: int, policy: str | None, policy_seed: int, *, digests: bool, evidence: bool = True
) -> tuple[dict[str, Any], RunRecord | None]:
    """Return the row of a seed as the oracle has it, and the run record behind it."""
    fire = fire_world(scenario, seed)
    row: dict[str, Any] = {
        "seed": seed,
        "stream_position": fire.stream_position,
        "burned": fire.burned,
        **_savable(scenario, fire),
    }
    if digests:
        row["fire_world_digest"] = bytes.fromhex(fire.digest)
    if policy is None:
        return row, None
    record = run_episode(scenario, seed, make_policy(policy, policy_seed))
    causes = [casualty.cause for step in record.steps for casualty in step.casualties]
    leaving = [step.step for step in record.steps for _ in step.evacuations]
    row |= _evidence(scenario, record) if evidence else {}
    return row | {
        "steps": len(record.steps),
        "evacuated": len(leaving),
        "casualties_entered_fire": causes.count(CasualtyCause.ENTERED_FIRE),
        "casualties_fire_spread": causes.count(CasualtyCause.FIRE_SPREAD),
        "stranded": sum(p.status is PersonStatus.ACTIVE for p in record.final_state.people),
        "sum_evacuation_steps": sum(leaving),
    }, record


def _evidence(scenario: Scenario, record: RunRecord) -> dict[str, int]:
    (privileged,) = ReferenceImplementation().privileged(scenario, [record])
    document = evidence_of(scenario, record, privileged).to_dict()
    return {name: document[name] for name in EVIDENCE_COLUMNS}


def _savable(scenario: Scenario, fire: FireWorld) -> dict[str, int]:
    people = references_of(scenario, fire).people
    sums = {
        "sum_earliest_savable": [person.earliest_evacuation for person in people],
        "sum_fewest_moves_savable": [person.fewest_moves for person in people],
        "sum_fewest_danger_states_savable": [person.fewest_danger_states for person in people],
    }
    return {
        "max_evacuated": sum(person.earliest_evacuation is not None for person in people),
        **{name: sum(value for value in values if value is not None) for name, values in sums.items()},
    }


def _verify(folder: SweepFolder, parts: list[Part], count: int, policy_seed: int, backend: Backend) -> list[str]:
    """Recompute rows, fire worlds and records of some seeds, spread evenly, and describe what differs."""
    if count == 0:
        return []
    scenario, policy = folder.scenarios[parts[0].scenario], folder.policies[parts[0].policy]
    places = [(part, place) for part in parts for place in range(part.start, part.stop)]
    count = min(count, len(places))
    spread = [places[i * (len(places) - 1) // max(count - 1, 1)] for i in range(count)]
    differences = []
    tables: dict[str, Any] = {}
    for part, place in spread:
        seed = folder.seeds[part.scenario].part(place, place + 1)[0]
        if part.name not in tables:
            tables = {part.name: read_part(folder.file(part), folder.schema(), part.stop - part.start)}
        found = tables[part.name].slice(place - part.start, 1).to_pylist()[0]
        expected, record = oracle_row(
            scenario, seed, policy, policy_seed, digests=folder.digests, evidence=folder.evidence
        )
        where = f"{scenario.id}, seed {seed}"
        differences += [
            f"{where}, policy {policy}, column {name}: the oracle has {show_value(value)}, "
            f"the sweep {show_value(found[name])}"
            for name, value in expected.items()
            if found[name] != value
        ]
        if backend is Backend.JAX:
            differences += _twin_differences(scenario, seed, policy, policy_seed, record)
    return differences


def _twin_differences(
    scenario: Scenario, seed: int, policy: str | None, policy_seed: int, record: RunRecord | None
) -> list[str]:
    import numpy as np

    from ember_jax.differential import record_difference, world_difference
    from ember_jax.fire import world_of
    from ember_jax.fire_kernel import fire_worlds
    from ember_jax.rollout import records

    array = np.array([seed], dtype=np.uint64)
    fires = fire_worlds(scenario, array)
    found = [world_difference(fire_world(scenario, seed), world_of(scenario, seed, fires, 0))]
    if policy is not None and record is not None:
        (compiled,) = records(scenario, array, policy, policy_seed=policy_seed)
        found.append(record_difference(record, compiled, policy))
    return [
        f"{scenario.id}, seed {seed}, {d.policy}, step {d.step}, {d.place}, {d.field}: "
        f"the oracle has {show(d.ref)}, the compiled twin {show(d.jax)}"
        for d in found
        if d is not None
    ]


def show_value(value: Any) -> str:
    """Return a column's value for a message."""
    return value.hex() if isinstance(value, bytes) else str(value)


def _means(folder: SweepFolder, parts: list[Part]) -> dict[str, float | None]:
    names = ("evacuated", "casualties", "stranded")
    if folder.policies == [None]:
        return {f"mean_{name}": None for name in names}
    import pyarrow.compute as pc

    columns = ["evacuated", "casualties_entered_fire", "casualties_fire_spread", "stranded"]
    sums, rows = dict.fromkeys(columns, 0), 0
    for part in parts:
        rows_here = part.stop - part.start
        table = read_part(folder.file(part), folder.schema(), rows_here, columns=columns)
        rows += table.num_rows
        for name in columns:
            sums[name] += pc.sum(table.column(name)).as_py()
    casualties = sums["casualties_entered_fire"] + sums["casualties_fire_spread"]
    totals = (sums["evacuated"], casualties, sums["stranded"])
    return {f"mean_{name}": total / rows for name, total in zip(names, totals, strict=True)}


def _run_document(
    index: int, shards: int, started: str, seconds: float, backend: Backend, fresh: Mapping[Any, int]
) -> dict[str, Any]:
    devices = []
    if backend is Backend.JAX:
        import jax

        devices = [str(device.device_kind) for device in jax.devices()]
    return {
        "command": sys.argv[1:],
        "shard": f"{index}/{shards}",
        "started": started,
        "seconds": round(seconds, 3),
        "fresh_seeds": sum(fresh.values()),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "devices": devices,
    }


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise UsageError(f"--shard {show(text)}: expected i/n with 0 <= i < n, such as 0/4")
    return int(match[1]), int(match[2])


class _Progress:
    """Rows made so far: a bar with rate and time left on a terminal, a line a while in a log."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._start = self._said = time.monotonic()
        self._bar: Any = None
        if total and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("rows"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]:,.0f}/s"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("rows", total=total, rate=0.0)
            self._bar.start()

    def counting(self, batches: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Pass batches of rows on and count them."""
        for batch in batches:
            yield batch
            self._done += len(batch["seed"])
            now = time.monotonic()
            rate = self._done / max(now - self._start, 1e-9)
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done, rate=rate)
            elif now - self._said > 10:
                self._said = now
                left = (self._total - self._done) / rate
                note(f"{self._done} of {self._total} rows, {rate:,.0f}/s, about {left:,.0f} s left")

    def close(self) -> None:
        """Take the bar down."""
        if self._bar is not None:
            self._bar.stop()
