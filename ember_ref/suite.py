"""Suites, manifests and packs: which episodes an evaluation has (contract section 12)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ember_ref.canonical import LARGE_FILE, SMALL_FILE, digest, parse_canonical, read_bytes
from ember_ref.errors import DocumentError, EvaluationError, PackError, ScenarioError
from ember_ref.form import COUNT, DIGEST, ID, SEED, Form, list_of, object_of, one_of, repeats, show, text
from ember_ref.observation import OBSERVATION_VERSION
from ember_ref.scenario import Scenario, load_scenario
from ember_ref.simulator import SIMULATOR_VERSION, checked_seed

SUITE_VERSION: Final = "1.0"
EVALUATION_VERSION: Final = "1.0"
METRICS_VERSION: Final = "1.0"
PACK_VERSION: Final = "1.0"
SUITE_FILE: Final = "suite.json"
FAMILIES: Final = (
    "single_exit_low_density",
    "single_exit_high_density",
    "narrow_corridor_bottleneck",
    "multiple_exits",
    "central_ignition",
    "route_invalidation",
    "exit_loss",
    "multiple_ignitions",
    "asymmetric_exits",
    "maze",
    "custom",
)
"""The scenario families in declaration order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEntry:
    """One scenario of a suite, bound by its hash."""

    scenario_id: str
    scenario_hash: str
    primary_family: str
    families: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "scenario_id": self.scenario_id,
            "scenario_hash": self.scenario_hash,
            "primary_family": self.primary_family,
            "families": list(self.families),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite: its scenarios in suite order."""

    suite_id: str
    entries: tuple[SuiteEntry, ...]

    @classmethod
    def from_dict(cls, document: Any, *, what: str = "suite") -> Self:
        """Make a suite from its JSON object.

        Raises:
            DocumentError: with every fault and its place.
        """
        faults = suite_faults(document)
        if faults:
            raise DocumentError(what, faults)
        return cls(
            suite_id=document["suite_id"],
            entries=tuple(
                SuiteEntry(**(entry | {"families": tuple(entry["families"])})) for entry in document["scenarios"]
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the SUITE object."""
        return {
            "suite_version": SUITE_VERSION,
            "suite_id": self.suite_id,
            "scenarios": [entry.to_dict() for entry in self.entries],
        }

    @property
    def suite_hash(self) -> str:
        """The digest of the SUITE object, hex."""
        return digest(self.to_dict())

    def family_of(self, scenario_id: str) -> str:
        """Return the primary family of a scenario."""
        return next(entry.primary_family for entry in self.entries if entry.scenario_id == scenario_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledEpisode:
    """One episode of a manifest."""

    index: int
    scenario_id: str
    scenario_hash: str
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A schedule of episodes, bound to a suite and to the versions that it is for."""

    suite_id: str
    suite_hash: str
    episodes: tuple[ScheduledEpisode, ...]
    suite_version: str = SUITE_VERSION
    simulator_version: str = SIMULATOR_VERSION
    observation_version: str = OBSERVATION_VERSION
    metrics_version: str = METRICS_VERSION

    @classmethod
    def from_dict(cls, document: Any, *, what: str = "manifest") -> Self:
        """Make a manifest from its JSON object.

        Raises:
            DocumentError: with every fault and its place.
        """
        faults = manifest_faults(document)
        if faults:
            raise DocumentError(what, faults)
        fields = {key: value for key, value in document.items() if key != "evaluation_version"}
        fields["episodes"] = tuple(ScheduledEpisode(**episode) for episode in document["episodes"])
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the MANIFEST object."""
        return {
            "evaluation_version": EVALUATION_VERSION,
            "suite_id": self.suite_id,
            "suite_version": self.suite_version,
            "suite_hash": self.suite_hash,
            "simulator_version": self.simulator_version,
            "observation_version": self.observation_version,
            "metrics_version": self.metrics_version,
            "episodes": [episode.to_dict() for episode in self.episodes],
        }

    @property
    def manifest_hash(self) -> str:
        """The digest of the MANIFEST object, hex."""
        return digest(self.to_dict())

    def check(self, suite: Suite) -> None:
        """Require that the manifest is for a suite and for the running versions.

        Raises:
            EvaluationError: with every difference.
        """
        faults = []
        expected = schedule(suite, {}).to_dict()
        for key, found in self.to_dict().items():
            if key != "episodes" and found != expected[key]:
                faults.append(f"{key} is {show(found)}, expected {show(expected[key])}")
        order = {entry.scenario_id: i for i, entry in enumerate(suite.entries)}
        hashes = {entry.scenario_id: entry.scenario_hash for entry in suite.entries}
        for episode in self.episodes:
            if hashes.get(episode.scenario_id) != episode.scenario_hash:
                faults.append(f"episode {episode.index}: scenario {episode.scenario_id} is not in the suite")
        places = [order[e.scenario_id] for e in self.episodes if e.scenario_id in order]
        if places != sorted(places):
            faults.append("episodes: not in suite order")
        if faults:
            raise EvaluationError(f"manifest of suite {self.suite_id}: " + "; ".join(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFolder:
    """A suite with its scenarios."""

    suite: Suite
    scenarios: Mapping[str, Scenario]
    """By scenario ID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A frozen set of episodes in one file: suite, scenarios, manifest, and the digest of every fire."""

    pack_id: str
    suite: Suite
    scenarios: Mapping[str, Scenario]
    """By scenario ID."""
    manifest: Manifest
    fire_worlds: tuple[str, ...]
    scoring_version: str
    constants_digest: str

    @classmethod
    def from_dict(cls, document: Any, *, what: str = "pack") -> Self:
        """Make a pack from its JSON object.

        Raises:
            DocumentError: with every fault of form and its place.
            PackError: when its parts do not agree.
        """
        faults = _PACK(document, "")
        if not faults:
            faults += [f"suite.{fault}" for fault in suite_faults(document["suite"])]
            faults += [f"manifest.{fault}" for fault in manifest_faults(document["manifest"])]
        if faults:
            raise DocumentError(what, faults)
        scenarios, disagreements = [], []
        for i, entry in enumerate(document["scenarios"]):
            try:
                scenarios.append(Scenario.from_dict(entry, what=f"{what}, scenarios[{i}]"))
            except ScenarioError as error:
                disagreements.append(str(error))
                continue
            if scenarios[-1].to_dict() != entry:
                disagreements.append(f"scenarios[{i}]: not in normal form")
        suite, manifest = Suite.from_dict(document["suite"]), Manifest.from_dict(document["manifest"])
        if not disagreements:
            listed = [(entry.scenario_id, entry.scenario_hash) for entry in suite.entries]
            if [(s.id, s.content_hash) for s in scenarios] != listed:
                disagreements.append("scenarios: not those of the suite in suite order")
        try:
            manifest.check(suite)
        except EvaluationError as error:
            disagreements.append(str(error))
        if len(document["fire_worlds"]) != len(manifest.episodes):
            count = len(document["fire_worlds"])
            disagreements.append(f"fire_worlds: {count} digests for {len(manifest.episodes)} episodes")
        if disagreements:
            raise PackError(f"{what}: " + "; ".join(disagreements))
        return cls(
            pack_id=document["pack_id"],
            suite=suite,
            scenarios={scenario.id: scenario for scenario in scenarios},
            manifest=manifest,
            fire_worlds=tuple(document["fire_worlds"]),
            scoring_version=document["scoring_version"],
            constants_digest=document["constants_digest"],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the PACK object."""
        return {
            "pack_version": PACK_VERSION,
            "pack_id": self.pack_id,
            "suite": self.suite.to_dict(),
            "scenarios": [self.scenarios[entry.scenario_id].to_dict() for entry in self.suite.entries],
            "manifest": self.manifest.to_dict(),
            "fire_worlds": list(self.fire_worlds),
            "scoring_version": self.scoring_version,
            "constants_digest": self.constants_digest,
        }

    @property
    def pack_hash(self) -> str:
        """The digest of the PACK object, hex."""
        return digest(self.to_dict())


def schedule(suite: Suite, seeds: Mapping[str, Sequence[int]]) -> Manifest:
    """Return the manifest of a suite: scenario by scenario in suite order, seeds in the given order.

    Args:
        suite: the suite.
        seeds: the seeds of each scenario that is scheduled, by scenario ID.

    Raises:
        EvaluationError: for a scenario that the suite lacks, or a seed given twice for one scenario.
    """
    faults = [f"scenario {show(name)} is not in the suite" for name in seeds.keys() - _ids(suite)]
    faults += [f"scenario {name}: seed {s[i]} given twice" for name, s in seeds.items() for i, _ in repeats(s)]
    if faults:
        raise EvaluationError(f"schedule of suite {suite.suite_id}: " + "; ".join(sorted(faults)))
    pairs = [(entry, checked_seed(seed)) for entry in suite.entries for seed in seeds.get(entry.scenario_id, ())]
    return Manifest(
        suite_id=suite.suite_id,
        suite_hash=suite.suite_hash,
        episodes=tuple(
            ScheduledEpisode(index=index, scenario_id=entry.scenario_id, scenario_hash=entry.scenario_hash, seed=seed)
            for index, (entry, seed) in enumerate(pairs)
        ),
    )


def load_suite(path: Path) -> SuiteFolder:
    """Read a suite, given as its `suite.json` or the folder of it, with its scenario files beside it.

    Raises:
        DocumentError: for a file that is not of its form.
        EvaluationError: when scenario files are missing or differ from what the suite lists.
    """
    file = path / SUITE_FILE if path.is_dir() else path
    document = parse_canonical(read_bytes(file, limit=SMALL_FILE), what=str(file), limit=SMALL_FILE)
    suite = Suite.from_dict(document, what=str(file))
    scenarios, faults = {}, []
    for entry in suite.entries:
        scenario = load_scenario(file.parent / f"{entry.scenario_id}.json")
        scenarios[entry.scenario_id] = scenario
        if scenario.id != entry.scenario_id:
            faults.append(f"{entry.scenario_id}.json holds scenario {scenario.id}")
        elif scenario.content_hash != entry.scenario_hash:
            faults.append(
                f"{entry.scenario_id}.json has content hash {scenario.content_hash}, "
                f"the suite lists {entry.scenario_hash}"
            )
    if faults:
        raise EvaluationError(f"{file}: " + "; ".join(faults))
    return SuiteFolder(suite=suite, scenarios=scenarios)


def load_pack(path: Path) -> Pack:
    """Read a pack file; nothing in it is executed or unpacked.

    Raises:
        DocumentError: when it is not canonical or not of the form.
        PackError: when its parts do not agree.
    """
    document = parse_canonical(read_bytes(path, limit=LARGE_FILE), what=str(path), limit=LARGE_FILE)
    return Pack.from_dict(document, what=str(path))


def load_target(path: Path) -> SuiteFolder | Pack:
    """Read what an evaluation is of: a suite (its file or its folder), or a pack.

    Raises:
        DocumentError: when it is neither.
        EvaluationError: as `load_suite`.
        PackError: as `load_pack`.
    """
    if path.is_dir():
        return load_suite(path)
    document = parse_canonical(read_bytes(path, limit=LARGE_FILE), what=str(path), limit=LARGE_FILE)
    if isinstance(document, dict) and "pack_version" in document:
        return Pack.from_dict(document, what=str(path))
    return load_suite(path)


def suite_faults(document: Any) -> list[str]:
    """Return every fault of a SUITE object with its place."""
    faults = _SUITE(document, "")
    if faults:
        return faults
    entries = document["scenarios"]
    for i, entry in enumerate(entries):
        ranks = [FAMILIES.index(family) for family in entry["families"]]
        if ranks != sorted(set(ranks)):
            faults.append(f"scenarios[{i}].families: not in declaration order, each once")
        if entry["primary_family"] not in entry["families"]:
            faults.append(f"scenarios[{i}].primary_family: not among its families")
        if entry["scenario_id"] == "suite":
            faults.append(f"scenarios[{i}].scenario_id: no scenario can be named 'suite'")
    return faults + _repeated(entries, "scenarios", ("scenario_id", "scenario_hash"))


def manifest_faults(document: Any) -> list[str]:
    """Return every fault of a MANIFEST object with its place."""
    faults = _MANIFEST(document, "")
    if faults:
        return faults
    episodes = document["episodes"]
    for i, episode in enumerate(episodes):
        if episode["index"] != i:
            faults.append(f"episodes[{i}].index: {episode['index']}, expected {i}")
    pairs = [(episode["scenario_id"], episode["seed"]) for episode in episodes]
    faults += [f"episodes[{i}]: repeats the scenario and seed of episodes[{j}]" for i, j in repeats(pairs)]
    return faults


def _repeated(entries: Sequence[Mapping[str, Any]], place: str, keys: Iterable[str]) -> list[str]:
    return [
        f"{place}[{i}].{key}: repeats {place}[{j}].{key}"
        for key in keys
        for i, j in repeats([entry[key] for entry in entries])
    ]


def _ids(suite: Suite) -> set[str]:
    return {entry.scenario_id for entry in suite.entries}


_SUITE: Final[Form] = object_of(
    {
        "suite_version": one_of(SUITE_VERSION),
        "suite_id": ID,
        "scenarios": list_of(
            object_of(
                {
                    "scenario_id": ID,
                    "scenario_hash": DIGEST,
                    "primary_family": one_of(*FAMILIES),
                    "families": list_of(one_of(*FAMILIES), least=1),
                }
            ),
            least=1,
        ),
    }
)
_MANIFEST: Final[Form] = object_of(
    {
        "evaluation_version": one_of(EVALUATION_VERSION),
        "suite_id": ID,
        "suite_version": text(),
        "suite_hash": DIGEST,
        "simulator_version": text(),
        "observation_version": text(),
        "metrics_version": text(),
        "episodes": list_of(object_of({"index": COUNT, "scenario_id": ID, "scenario_hash": DIGEST, "seed": SEED})),
    }
)
_PACK: Final[Form] = object_of(
    {
        "pack_version": one_of(PACK_VERSION),
        "pack_id": ID,
        "suite": lambda _value, _place: [],
        "scenarios": list_of(lambda _value, _place: []),
        "manifest": lambda _value, _place: [],
        "fire_worlds": list_of(DIGEST),
        "scoring_version": text(),
        "constants_digest": DIGEST,
    }
)
