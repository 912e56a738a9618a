"""The folder of a sweep: what it is of, its parts, and how they become one file.

`run.json` holds what all shards share. Each part is a Parquet file of one scenario and policy over a contiguous
range of the seed list; it is written beside its name and renamed, so a part that is there is whole. The parts do
not depend on the shard that made them. Each names the sweep that it is of by the digest of `run.json`.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ember_cli.console import Seeds, UsageError
from ember_ref.canonical import digest, parse_canonical, read_bytes, write_canonical
from ember_ref.errors import DocumentError, VerificationError
from ember_ref.form import DIGEST, ID, SEED, Form, boolean, integer, list_of, object_of, show, text
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
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / RUN_FILE
        if restart and file.exists():
            read_description(self.path)  # refuses a folder that is not a sweep's
            self._empty()
            write_canonical(file, self.description)
        if file.exists():
            found = read_description(self.path)
            difference = first_difference(self.description, found)
            if difference:
                place, now, then = difference
                raise UsageError(
                    f"{self.path}: holds another sweep: {place} is {show(then)} there and {show(now)} in this "
                    "call; choose another --out, or empty it with --restart"
                )
            return
        others = sorted(path.name for path in self.path.iterdir() if not path.name.startswith("."))
        if RUN_FILE in others:  # another shard has just made it
            self.open(restart=False)
            return
        if others:
            raise UsageError(f"{self.path}: not the folder of a sweep (it holds {show(others[0])})")
        write_canonical(file, self.description)

    def _empty(self) -> None:
        """Remove the files of a sweep, and nothing else."""
        for pattern in ("part-*.parquet", "runs/*.json", MERGED_FILE, RUN_FILE):
            for path in self.path.glob(pattern):
                path.unlink()

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
        return schema_of(self.description)

    def is_done(self, part: Part) -> bool:
        """Tell whether a part is there.

        Raises:
            VerificationError: when a file of its name is damaged or of another sweep.
        """
        file = self.file(part)
        if not file.exists():
            return False
        check_footer(file, self.schema(), part.stop - part.start)
        return True

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
        descriptor, name = tempfile.mkstemp(prefix=f".{part.name}.", dir=self.path)
        temporary = Path(name)
        try:
            # The lock, which ends with the process, tells other shards that the file is being written.
            with os.fdopen(descriptor, "wb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
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
                with pq.ParquetWriter(file, layout, **_WRITING) as writer:
                    writer.write_table(pa.concat_tables(tables).combine_chunks())
                file.flush()
                os.fsync(file.fileno())
                temporary.chmod(0o644)
                temporary.replace(self.file(part))
        finally:
            temporary.unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove what a killed process left half-written: the files that nobody holds a lock on."""
        for path in self.path.glob(".part-*"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def merge_parts(path: Path) -> tuple[Path, int]:
    """Check that the parts in a sweep's folder are complete and its own, and write them as one file.

    Returns:
        The file and its rows.

    Raises:
        UsageError: when the folder is not that of a sweep.
        VerificationError: when a part is missing, damaged, or holds other rows than its name says.
    """
    import pyarrow.parquet as pq

    description = read_description(path)
    layout, policies = schema_of(description), description["policies"] or [None]
    expected = list(_expected(description))
    missing = [part.name for part, *_ in expected if not (path / part.name).is_file()]
    if missing:
        raise VerificationError(f"{path}: {len(missing)} of {len(expected)} parts are missing, first {missing[0]}")
    known = {part.name for part, *_ in expected}
    extra = sorted(file.name for file in path.glob("part-*.parquet") if file.name not in known)
    if extra:
        raise VerificationError(f"{path}: {extra[0]} is no part of this sweep")
    target, rows = path / MERGED_FILE, 0
    temporary = path / f".{MERGED_FILE}.{os.getpid()}"
    hashers: dict[tuple[int, int], Any] = {}
    try:
        with pq.ParquetWriter(temporary, layout, **_WRITING) as writer:
            for part, entry, policy, values in expected:
                table = read_part(path / part.name, layout, part.stop - part.start)
                found = table.column("seed").to_pylist()
                owners = {"scenario_id": entry["scenario_id"], "scenario_hash": entry["scenario_hash"]}
                owners |= {"policy": policy} if policy is not None else {}
                own = all(set(table.column(name).to_pylist()) == {value} for name, value in owners.items())
                if not own or (values is not None and found != list(values)):
                    raise VerificationError(f"{path / part.name}: does not hold the rows that its name says")
                hasher = hashers.setdefault((part.scenario, part.policy), hashlib.sha256())
                hasher.update(b"".join(seed.to_bytes(8, "big") for seed in found))
                writer.write_table(table)
                rows += len(found)
        for i, entry in enumerate(description["scenarios"]):
            expected_digest = entry["seeds"].get("digest")
            for j in range(len(policies)):
                if expected_digest and hashers[i, j].hexdigest() != expected_digest:
                    raise VerificationError(f"{path}: the parts of {entry['scenario_id']} hold other seeds")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target, rows


def read_description(path: Path) -> dict[str, Any]:
    """Read what a folder's sweep is of.

    Raises:
        UsageError: when the folder is not that of a sweep.
        DocumentError: when its `run.json` is damaged.
    """
    file = path / RUN_FILE
    if not file.is_file():
        raise UsageError(f"{path}: not the folder of a sweep (no {RUN_FILE})")
    description = parse_canonical(read_bytes(file), what=str(file))
    faults = _DESCRIPTION(description, "")
    if faults:
        raise DocumentError(f"{file}, not of a sweep", faults)
    document: dict[str, Any] = description
    return document


def schema_of(description: Mapping[str, Any]) -> "pa.Schema":
    """Return the Parquet schema of a sweep's parts; its metadata names the sweep."""
    left_out = set() if description["policies"] else set(_POLICY_COLUMNS)
    left_out |= set() if description["digests"] else {"fire_world_digest"}
    left_out |= set() if description["evidence"] else set(EVIDENCE_COLUMNS)
    import pyarrow as pa

    types = {"string": pa.string(), "uint64": pa.uint64(), "int32": pa.int32(), "int64": pa.int64()}
    types["digest"] = pa.binary(32)
    columns = [(name, types[kind]) for name, kind in _TYPES.items() if name not in left_out]
    return pa.schema(columns, metadata={_SWEEP_KEY: digest(dict(description)).encode()})


def check_footer(file: Path, layout: "pa.Schema", rows: int) -> None:
    """Require that a part is a whole Parquet file of this sweep with so many rows; its pages are not read.

    Raises:
        VerificationError: when it is not.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        footer = pq.read_metadata(file)
        found = footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise VerificationError(f"{file}: damaged ({error}); {_REMEDY}") from None
    if (found.metadata or {}).get(_SWEEP_KEY) != layout.metadata[_SWEEP_KEY] or not found.equals(layout):
        raise VerificationError(f"{file}: a part of another sweep; {_REMEDY}")
    if footer.num_rows != rows:
        raise VerificationError(f"{file}: {footer.num_rows} rows, expected {rows}; {_REMEDY}")


def read_part(file: Path, layout: "pa.Schema", rows: int, *, columns: list[str] | None = None) -> "pa.Table":
    """Read a part, or some of its columns (see `check_footer`).

    Raises:
        VerificationError: when it is damaged or of another sweep.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_footer(file, layout, rows)
    try:
        return pq.read_table(file, columns=columns, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise VerificationError(f"{file}: damaged ({error}); {_REMEDY}") from None


def _expected(
    description: Mapping[str, Any],
) -> Iterator[tuple[Part, Mapping[str, Any], str | None, range | None]]:
    """Yield every part with the scenario's entry, the policy, and the seeds where they are a range."""
    size = description["part_seeds"]
    for i, entry in enumerate(description["scenarios"]):
        seeds = entry["seeds"]
        count = seeds["stop"] - seeds["start"] if "start" in seeds else seeds["count"]
        for j, policy in enumerate(description["policies"] or [None]):
            for start in range(0, count, size):
                stop = min(start + size, count)
                values = range(seeds["start"] + start, seeds["start"] + stop) if "start" in seeds else None
                yield Part(scenario=i, policy=j, start=start, stop=stop), entry, policy, values


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


def _seeds_form(value: Any, place: str) -> list[str]:
    if isinstance(value, dict) and "start" in value:
        return object_of({"start": SEED, "stop": integer(1, 2**64)})(value, place)
    return object_of({"count": integer(1), "digest": DIGEST})(value, place)


_SWEEP_KEY: Final = b"ember-sweep"
_WRITING: Final[dict[str, Any]] = {"compression": "zstd", "write_page_checksum": True}
_REMEDY: Final = "remove it and run the sweep again, which makes it anew"
_DESCRIPTION: Final[Form] = object_of(
    {
        "sweep_version": text(),
        "simulator_version": text(),
        "observation_version": text(),
        "scenarios": list_of(object_of({"scenario_id": ID, "scenario_hash": DIGEST, "seeds": _seeds_form}), least=1),
        "policies": list_of(text()),
        "policy_seed": SEED,
        "backend": text(),
        "digests": boolean,
        "evidence": boolean,
        "part_seeds": integer(1),
    }
)
