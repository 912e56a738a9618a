"""Suites, manifests and packs (contract section 12)."""

import copy
import json
import pathlib
import shutil

import pytest

from ember_ref.canonical import canonical_bytes, digest, write_canonical
from ember_ref.errors import DocumentError, EvaluationError, PackError, SimulationError
from ember_ref.suite import (
    FAMILIES,
    Manifest,
    Pack,
    Suite,
    SuiteFolder,
    load_pack,
    load_suite,
    load_target,
    schedule,
)
from scenarios.bundled import suite_path

VECTORS = pathlib.Path(__file__).parents[1] / "vectors" / "score"
PACK = json.loads((VECTORS / "pack.json").read_bytes())
REPORT = json.loads((VECTORS / "expected-report-a.json").read_bytes())


def changed(document, **changes):
    """Return a copy with dotted places changed: `{"suite.scenarios.0.families": [...]}`."""
    document = copy.deepcopy(document)
    for place, value in changes.items():
        *way, last = (int(word) if word.isdigit() else word for word in place.split("."))
        item = document
        for step in way:
            item = item[step]
        if value is ...:
            del item[last]
        else:
            item[last] = value
    return document


def test_the_vectors_are_read_and_written_byte_for_byte_with_their_hashes():
    pack = load_pack(VECTORS / "pack.json")
    assert canonical_bytes(pack.to_dict()) + b"\n" == (VECTORS / "pack.json").read_bytes()
    assert pack.pack_hash == REPORT["pack_hash"]
    assert pack.manifest.manifest_hash == REPORT["evaluation_manifest_hash"]
    suite = Suite.from_dict(json.loads((VECTORS / "suite.json").read_bytes()))
    assert suite == pack.suite
    assert suite.suite_hash == REPORT["suite_hash"]
    assert suite.family_of("hall") == "maze"


def test_the_pack_of_the_vectors_is_what_schedule_makes_of_its_suite():
    pack = load_pack(VECTORS / "pack.json")
    seeds = {entry.scenario_id: [] for entry in pack.suite.entries}
    for episode in pack.manifest.episodes:
        seeds[episode.scenario_id].append(episode.seed)
    assert schedule(pack.suite, seeds) == pack.manifest


def test_families_stand_in_declaration_order():
    assert FAMILIES[0] == "single_exit_low_density"
    assert FAMILIES[-1] == "custom"
    assert len(set(FAMILIES)) == 11


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"suite_version": "2.0"}, "suite_version"),
        ({"suite_id": "a b"}, "suite_id"),
        ({"extra": 1}, "extra: unknown key"),
        ({"suite_id": ...}, "suite_id: missing"),
        ({"scenarios": []}, "fewer than 1"),
        ({"scenarios.0.primary_family": "castle"}, "scenarios[0].primary_family"),
        ({"scenarios.0.families": []}, "scenarios[0].families"),
        ({"scenarios.0.families": ["maze"], "scenarios.0.primary_family": "custom"}, "not among its families"),
        ({"scenarios.0.families": ["maze", "exit_loss"], "scenarios.0.primary_family": "maze"}, "declaration order"),
        ({"scenarios.0.families": ["maze", "maze"], "scenarios.0.primary_family": "maze"}, "each once"),
        ({"scenarios.0.scenario_hash": "A" * 64}, "scenarios[0].scenario_hash"),
        (
            {"scenarios.1.scenario_id": PACK["suite"]["scenarios"][0]["scenario_id"]},
            "scenarios[1].scenario_id: repeats",
        ),
        ({"scenarios.0.scenario_id": "suite"}, "named 'suite'"),
    ],
)
def test_faults_of_a_suite(changes, place):
    with pytest.raises(DocumentError) as caught:
        Suite.from_dict(changed(PACK["suite"], **changes))
    assert place in str(caught.value)


def test_all_faults_of_a_suite_are_named_at_once():
    broken = changed(PACK["suite"], suite_id="", **{"scenarios.0.scenario_hash": 1, "scenarios.2.families": None})
    with pytest.raises(DocumentError) as caught:
        Suite.from_dict(broken)
    assert len(caught.value.faults) == 3


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"episodes.0.seed": True}, "episodes[0].seed"),
        ({"episodes.0.seed": 2**64}, "episodes[0].seed"),
        ({"episodes.0.seed": 1.0}, "episodes[0].seed"),
        ({"episodes.1.index": 2}, "episodes[1].index: 2, expected 1"),
        ({"episodes.1.seed": PACK["manifest"]["episodes"][0]["seed"]}, "episodes[1]: repeats"),
        ({"evaluation_version": "1.1"}, "evaluation_version"),
        ({"episodes": {}}, "episodes"),
    ],
)
def test_faults_of_a_manifest(changes, place):
    with pytest.raises(DocumentError) as caught:
        Manifest.from_dict(changed(PACK["manifest"], **changes))
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"simulator_version": "0.1.0"}, "simulator_version is '0.1.0', expected '0.2.0'"),
        ({"suite_hash": "0" * 64}, "suite_hash"),
        ({"suite_id": "other"}, "suite_id"),
        ({"metrics_version": "2.0"}, "metrics_version"),
        ({"episodes.0.scenario_hash": "0" * 64}, "episode 0: scenario"),
    ],
)
def test_a_manifest_of_another_suite_or_version_is_refused(changes, message):
    manifest = Manifest.from_dict(changed(PACK["manifest"], **changes))
    with pytest.raises(EvaluationError) as caught:
        manifest.check(Suite.from_dict(PACK["suite"]))
    assert message in str(caught.value)


def test_episodes_out_of_suite_order_are_refused():
    episodes = list(reversed(PACK["manifest"]["episodes"]))
    episodes = [episode | {"index": i} for i, episode in enumerate(episodes)]
    manifest = Manifest.from_dict(changed(PACK["manifest"], episodes=episodes))
    with pytest.raises(EvaluationError, match="not in suite order"):
        manifest.check(Suite.from_dict(PACK["suite"]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenarios.0.description": "another"}, "not those of the suite"),
        ({"scenarios.0.seed": -1}, "scenarios[0]"),
        ({"fire_worlds": []}, "0 digests for"),
        ({"manifest.suite_id": "other"}, "suite_id"),
    ],
)
def test_a_pack_whose_parts_disagree_is_refused(changes, message):
    with pytest.raises(PackError) as caught:
        Pack.from_dict(changed(PACK, **changes))
    assert message in str(caught.value)


def test_a_scenario_of_a_pack_is_in_normal_form():
    people = PACK["scenarios"][0]["people"]
    assert len(people) > 1
    with pytest.raises(PackError, match="not in normal form"):
        Pack.from_dict(changed(PACK, **{"scenarios.0.people": people[::-1]}))


def test_only_canonical_bytes_of_a_pack_are_read(tmp_path):
    data = (VECTORS / "pack.json").read_bytes()
    for place, other in enumerate(
        [data[:-1], data + b"\n", b" " + data, data.replace(b":", b": ", 1), b"\xef\xbb\xbf"]
    ):
        file = tmp_path / f"{place}.json"
        file.write_bytes(other)
        with pytest.raises(DocumentError):
            load_pack(file)


def test_a_schedule_takes_each_pair_once_and_only_scenarios_of_the_suite():
    suite = Suite.from_dict(PACK["suite"])
    first, second = (entry.scenario_id for entry in suite.entries[:2])
    manifest = schedule(suite, {second: [5], first: [9, 2**64 - 1]})
    assert [(e.index, e.scenario_id, e.seed) for e in manifest.episodes] == [
        (0, first, 9),
        (1, first, 2**64 - 1),
        (2, second, 5),
    ]
    with pytest.raises(EvaluationError, match="seed 3 given twice"):
        schedule(suite, {first: [3, 4, 3]})
    with pytest.raises(EvaluationError, match="is not in the suite"):
        schedule(suite, {"nowhere": [3]})
    with pytest.raises(SimulationError, match="seed"):
        schedule(suite, {first: [True]})


def test_a_suite_folder_is_checked_against_its_files(tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(suite_path("public-v1"), folder)
    loaded = load_suite(folder)
    assert isinstance(loaded, SuiteFolder)
    assert load_suite(folder / "suite.json") == loaded == load_target(folder) == load_target(folder / "suite.json")
    assert list(loaded.scenarios) == [entry.scenario_id for entry in loaded.suite.entries]
    names = list(loaded.scenarios)
    for name in names[:2]:
        scenario = loaded.scenarios[name].to_dict()
        write_canonical(folder / f"{name}.json", scenario | {"description": "changed"})
    with pytest.raises(EvaluationError) as caught:
        load_suite(folder)
    assert all(name in str(caught.value) for name in names[:2])
    (folder / f"{names[0]}.json").unlink()
    with pytest.raises(DocumentError, match="cannot be read"):
        load_suite(folder)


def test_a_target_is_told_by_what_it_holds(tmp_path):
    assert isinstance(load_target(VECTORS / "pack.json"), Pack)
    write_canonical(tmp_path / "neither.json", [])
    with pytest.raises(DocumentError):
        load_target(tmp_path / "neither.json")


def test_every_hash_is_the_digest_of_its_object():
    pack = load_pack(VECTORS / "pack.json")
    assert pack.pack_hash == digest(PACK)
    assert pack.suite.suite_hash == digest(PACK["suite"])
    assert pack.manifest.manifest_hash == digest(PACK["manifest"])
