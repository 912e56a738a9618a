"""The folder of a sweep: what it is of, its parts, and how they become one file.

`run.json` holds what all shards share. Each part is a Parquet file of one scenario and policy over a contiguous
range of the seed list; it is written beside its name and renamed, so a part that is there is whole. The parts do
not depend on the shard that made them.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ember_cli.console import Seeds, UsageError
from ember_ref.canonical import parse_canonical, read_bytes, write_canonical
from ember_ref.errors import VerificationError
from ember_ref.form import show
from ember_ref.observation import OBSERVATION_VERSION
from ember_ref.record import first_difference
from ember_ref.scenario import Scenario
from ember_ref.simulator import SIMULATOR_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

PART_SEEDS: Final = 16384
"""Seeds of a part."""
RUN_FILE: Final = "run.json"
MERGED_FILE: Final = "sweep.parquet"
EVIDENCE_COLUMNS: Final = (
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
"""What the score reads of an episode, in the names of the EVIDENCE object."""
_TYPES: Final = {
    "scenario_id": "string",
    "scenario_hash": "string",
    "seed": "uint64",
    "policy": "string",
    "stream_position": "uint64",
    "burned": "int32",
    "steps": "int32",
    "evacuated": "int32",
    "casualties_entered_fire": "int32",
    "casualties_fire_spread": "int32",
    "stranded": "int32",
    "sum_evacuation_steps": "int64",
    "max_evacuated": "int32",
    "sum_earliest_savable": "int64",
    "sum_fewest_moves_savable": "int64",
    "sum_fewest_danger_states_savable": "int64",
    **dict.fromkeys(EVIDENCE_COLUMNS, "int64"),
    "fire_world_digest": "digest",
}
"""Every column of a sweep and its type, in order."""
_POLICY_COLUMNS: Final = frozenset(
    {
        "policy",
        "steps",
        "evacuated",
        "casualties_entered_fire",
        "casualties_fire_spread",
        "stranded",
        "sum_evacuation_steps",
        *EVIDENCE_COLUMNS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Parquet part: a scenario, a policy, and the places `start` to before `stop` of the seed list."""

    scenario: int
    policy: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        """The file name; names sort in the order of the rows."""
        return f"part-{self.scenario:04}-{self.policy:02}-{self.start:020}.parquet"


class SweepFolder:
    """The folder of one sweep."""

    def __init__(
        self,
        path: Path,
        *,
        scenarios: list[Scenario],
        seeds: list[Seeds],
        policies: list[str],
        policy_seed: int,
        backend: str,
        digests: bool,
        evidence: bool,
    ) -> None:
        """Describe a sweep; nothing is read or written yet."""
        self.path = path
        self.scenarios = scenarios
        self.seeds = seeds
        self.policies: list[str | None] = list(policies) or [None]
        self.digests = digests
        self.evidence = evidence
        self.description: dict[str, Any] = {
            "sweep_version": "1.0",
            "simulator_version": SIMULATOR_VERSION,
            "observation_version": OBSERVATION_VERSION,
            "scenarios": [
                {"scenario_id": s.id, "scenario_hash": s.content_hash, "seeds": _seeds_document(chosen)}
                for s, chosen in zip(scenarios, seeds, strict=True)
            ],
            "policies": policies,
            "policy_seed": policy_seed,
            "backend": backend,
            "digests": digests,
            "evidence": evidence,
            "part_seeds": PART_SEEDS,
        }

    def open(self, *, restart: bool) -> None:
        """Create the folder, or take it up where it was left.

        Raises:
            UsageError: when it holds another sweep, or something else.
        """
        if restart and (self.path / RUN_FILE).exists():
            shutil.rmtree(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / RUN_FILE
        if file.exists():
            found = parse_canonical(read_bytes(file), what=str(file))
            difference = first_difference(self.description, found)
            if difference:
                place, now, then = difference
                raise UsageError(
                    f"{self.path}: holds another sweep: {place} is {show(then)} there and {show(now)} in this "
                    "call; choose another --out, or empty it with --restart"
                )
            return
        others = sorted(path.name for path in self.path.iterdir() if not path.name.startswith("."))
        if others:
            raise UsageError(f"{self.path}: not the folder of a sweep (it holds {show(others[0])})")
        write_canonical(file, self.description)

    def parts(self) -> Iterator[Part]:
        """Yield every part of the sweep, of all shards, in the order of the rows."""
        for i, seeds in enumerate(self.seeds):
            for j in range(len(self.policies)):
                for start in range(0, seeds.count, PART_SEEDS):
                    yield Part(scenario=i, policy=j, start=start, stop=min(start + PART_SEEDS, seeds.count))

    def file(self, part: Part) -> Path:
        """Return the file of a part."""
        return self.path / part.name

    def schema(self) -> "pa.Schema":
        """Return the schema of this sweep's parts."""
        return schema(with_policy=self.policies != [None], digests=self.digests, evidence=self.evidence)

    def write(self, part: Part, batches: Iterable[Mapping[str, Any]]) -> None:
        """Write a part whole or not at all.

        Args:
            part: which one.
            batches: the columns of its rows, but scenario and policy, a batch at a time.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        scenario, policy = self.scenarios[part.scenario], self.policies[part.policy]
        layout = self.schema()
        temporary = self.path / f".{part.name}.{os.getpid()}"
        try:
            with pq.ParquetWriter(temporary, layout, compression="zstd") as writer:
                tables = []
                for batch in batches:
                    count = len(batch["seed"])
                    fixed = {
                        "scenario_id": [scenario.id] * count,
                        "scenario_hash": [scenario.content_hash] * count,
                        "policy": [policy] * count,
                    }
                    columns = fixed | dict(batch)
                    tables.append(pa.table([pa.array(columns[f.name], type=f.type) for f in layout], schema=layout))
                writer.write_table(pa.concat_tables(tables).combine_chunks())
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(self.file(part))
        finally:
            temporary.unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove what a killed process of this machine left half-written."""
        for path in self.path.glob(".part-*"):
            pid = path.name.rpartition(".")[2]
            if not (pid.isdigit() and Path(f"/proc/{pid}").exists()):
                path.unlink(missing_ok=True)


def merge_parts(path: Path) -> tuple[Path, int]:
    """Check that the parts in a sweep's folder are complete, and write them as one file.

    Returns:
        The file and its rows.

    Raises:
        UsageError: when the folder is not that of a sweep.
        VerificationError: when a part is missing, or holds other seeds than its name says.
    """
    import pyarrow.parquet as pq

    if not (path / RUN_FILE).is_file():
        raise UsageError(f"{path}: not the folder of a sweep (no {RUN_FILE})")
    description = parse_canonical(read_bytes(path / RUN_FILE), what=str(path / RUN_FILE))
    policies = description["policies"] or [None]
    layout = schema(with_policy=policies != [None], digests=description["digests"], evidence=description["evidence"])
    expected: list[tuple[str, str, str | None, range | None, int]] = []
    for i, entry in enumerate(description["scenarios"]):
        seeds = entry["seeds"]
        count = seeds["stop"] - seeds["start"] if "start" in seeds else seeds["count"]
        for j, policy in enumerate(policies):
            for start in range(0, count, description["part_seeds"]):
                stop = min(start + description["part_seeds"], count)
                name = Part(scenario=i, policy=j, start=start, stop=stop).name
                values = range(seeds["start"] + start, seeds["start"] + stop) if "start" in seeds else None
                expected.append((name, entry["scenario_id"], policy, values, stop - start))
    missing = [name for name, *_ in expected if not (path / name).is_file()]
    if missing:
        raise VerificationError(f"{path}: {len(missing)} of {len(expected)} parts are missing, first {missing[0]}")
    known = {name for name, *_ in expected}
    extra = sorted(file.name for file in path.glob("part-*.parquet") if file.name not in known)
    if extra:
        raise VerificationError(f"{path}: {extra[0]} is no part of this sweep")
    target, rows = path / MERGED_FILE, 0
    temporary = path / f".{MERGED_FILE}.{os.getpid()}"
    hashers: dict[tuple[str, str | None], Any] = {}
    try:
        with pq.ParquetWriter(temporary, layout, compression="zstd") as writer:
            for name, scenario_id, policy, values, count in expected:
                table = pq.read_table(path / name, schema=layout)
                found = table.column("seed").to_pylist()
                owner = set(table.column("scenario_id").to_pylist()) == {scenario_id}
                if "policy" in table.column_names:
                    owner &= set(table.column("policy").to_pylist()) == {policy}
                if not owner or len(found) != count or (values is not None and found != list(values)):
                    raise VerificationError(f"{path / name}: does not hold the rows that its name says")
                hasher = hashers.setdefault((scenario_id, policy), hashlib.sha256())
                hasher.update(b"".join(seed.to_bytes(8, "big") for seed in found))
                writer.write_table(table)
                rows += count
        for entry in description["scenarios"]:
            for policy in policies:
                digest = entry["seeds"].get("digest")
                if digest and hashers[entry["scenario_id"], policy].hexdigest() != digest:
                    raise VerificationError(f"{path}: the parts of {entry['scenario_id']} hold other seeds")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target, rows


def schema(*, with_policy: bool, digests: bool, evidence: bool) -> "pa.Schema":
    """Return the Parquet schema of a sweep."""
    left_out = set() if with_policy else set(_POLICY_COLUMNS)
    left_out |= set() if digests else {"fire_world_digest"}
    left_out |= set() if evidence else set(EVIDENCE_COLUMNS)
    import pyarrow as pa

    types = {"string": pa.string(), "uint64": pa.uint64(), "int32": pa.int32(), "int64": pa.int64()}
    types["digest"] = pa.binary(32)
    return pa.schema([(name, types[kind]) for name, kind in _TYPES.items() if name not in left_out])


def write_run(path: Path, document: Mapping[str, Any], started: str) -> None:
    """Write the file of one run of the command: how it was called, on what, and how long it took."""
    folder = path / "runs"
    folder.mkdir(exist_ok=True)
    text = json.dumps(document, sort_keys=True, indent=1)
    (folder / f"{started}-{os.getpid()}.json").write_text(text + "\n", encoding="utf-8")


def _seeds_document(seeds: Seeds) -> dict[str, Any]:
    if isinstance(seeds.values, range):
        return {"start": seeds.values.start, "stop": seeds.values.stop}
    hasher = hashlib.sha256()
    for seed in seeds:
        hasher.update(seed.to_bytes(8, "big"))
    return {"count": seeds.count, "digest": hasher.hexdigest()}
