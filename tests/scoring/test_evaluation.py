"""Results as streams, and their authentication (statistics section 1, scoring section 2)."""

import json
import pathlib
import random

import pytest

from ember_ref.canonical import canonical_bytes, digest
from ember_ref.errors import DocumentError, EmberError, EvaluationError, PackError
from ember_ref.suite import Pack, SuiteFolder, load_pack
from scoring.evaluation import authentic, authenticate, check_fire_worlds, fire_world_digests, open_result

VECTORS = pathlib.Path(__file__).parents[1] / "vectors" / "score"
PACK = load_pack(VECTORS / "pack.json")
SUITE = SuiteFolder(suite=PACK.suite, scenarios=PACK.scenarios)
REPORT = json.loads((VECTORS / "expected-report-a.json").read_bytes())
SHORT = json.loads((VECTORS / "result-a.json").read_bytes())
SHORT["episodes"] = SHORT["episodes"][:2]


def index_of(episode):
    return episode.scheduled.index


def written(tmp_path, document):
    file = tmp_path / "result.json"
    file.write_bytes(canonical_bytes(document) + b"\n")
    return file


def changed(change):
    document = json.loads(json.dumps(SHORT))
    change(document)
    return document


def authenticated(path, target=PACK, **options):
    return list(authenticate(open_result(path), target, extract=index_of, **options))


@pytest.mark.parametrize(("name", "place"), [("a", 0), ("a2", 1), ("a3", 2)])
def test_the_results_of_the_vectors_are_authentic_and_their_digests_known(name, place):
    result = open_result(VECTORS / f"result-{name}.json")
    document = json.loads((VECTORS / f"result-{name}.json").read_bytes())
    assert result.result_digest == REPORT["result_digests"][place] == digest(document)
    assert result.model_id == REPORT["model_id"]
    assert result.manifest == PACK.manifest
    told = []
    indices = authenticated(result.path, workers=1, progress=lambda done, total: told.append((done, total)))
    assert indices == [episode["index"] for episode in document["episodes"]]
    assert told == [(done, 27) for done in range(1, len(indices) + 1)]
    assert [e.to_dict() for e in result.episodes()] == document["episodes"]


def test_workers_give_the_same_in_the_same_order_and_the_same_faults(tmp_path):
    path = VECTORS / "result-a2.json"
    assert authenticated(path, workers=2) == authenticated(path, SUITE, workers=1)
    document = json.loads(path.read_bytes())
    document["episodes"][3]["metrics"]["time"]["episode_steps"] += 1
    file = written(tmp_path, document)
    messages = set()
    for workers in (1, 2):
        with pytest.raises(EvaluationError) as caught:
            authenticated(file, workers=workers)
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert "episodes[3]: metrics.time.episode_steps: stored" in messages.pop()


def test_extracts_see_scenario_record_and_metrics(tmp_path):
    (first, _) = authenticate(open_result(written(tmp_path, SHORT)), SUITE, extract=authentic)
    assert first.scenario.content_hash == first.record.header.scenario_hash == first.scheduled.scenario_hash
    assert first.metrics.to_dict() == SHORT["episodes"][0]["metrics"]


def test_a_result_without_episodes_is_authentic(tmp_path):
    file = written(tmp_path, SHORT | {"episodes": []})
    assert authenticated(file) == []


def test_one_byte_changed_anywhere_in_a_record_is_refused(tmp_path):
    """Every byte of the first episode's record in turn is too slow; 400 of them, and every kind of change."""
    dice = random.Random(5)
    data = canonical_bytes(SHORT | {"episodes": SHORT["episodes"][:1]}) + b"\n"
    start = data.index(b'"record":')
    end = data.index(b'],"evaluation_version"')
    file = tmp_path / "result.json"
    refused = set()
    for _ in range(400):
        place = dice.randrange(start, end)
        other = dice.choice([bytes([data[place] ^ (1 << dice.randrange(8))]), b"0", b"1", b"", data[place:][:1] * 2])
        if other == data[place : place + 1]:
            continue
        file.write_bytes(data[:place] + other + data[place + 1 :])
        with pytest.raises(EmberError) as caught:
            authenticated(file, SUITE)
        refused.add(type(caught.value))
    assert {DocumentError, EvaluationError} <= refused


def swap(document):
    document["episodes"].reverse()


def repeat(document):
    document["episodes"].append(document["episodes"][-1])


def other_seed(document):
    document["episodes"][0]["seed"] += 1


def other_index(document):
    document["episodes"][0]["index"] = 26


def far_index(document):
    document["episodes"][1]["index"] = 1000


def other_header(document):
    document["episodes"][0]["record"]["header"]["seed"] += 1


def splice(document):
    document["episodes"][0]["record"] = document["episodes"][1]["record"]


def float_metric(document):
    document["episodes"][0]["metrics"]["time"]["max_steps"] *= 1.0


def no_metrics(document):
    document["episodes"][0]["metrics"] = {}


def other_version(document):
    document["manifest"]["simulator_version"] = "0.1.0"


def other_suite(document):
    document["manifest"]["suite_hash"] = "0" * 64


@pytest.mark.parametrize(
    "change",
    [
        swap,
        repeat,
        other_seed,
        other_index,
        far_index,
        other_header,
        splice,
        float_metric,
        no_metrics,
        other_version,
        other_suite,
    ],
)
def test_a_well_formed_result_that_does_not_hold_is_an_evaluation_error(tmp_path, change):
    with pytest.raises(EvaluationError):
        authenticated(written(tmp_path, changed(change)), SUITE)


def test_a_step_dropped_is_refused_by_replay(tmp_path):
    def drop(document):
        del document["episodes"][0]["record"]["steps"][1]

    with pytest.raises(EvaluationError, match=r"episodes\[0\]"):
        authenticated(written(tmp_path, changed(drop)), SUITE)


def unknown_key(document):
    document["episodes"][0]["extra"] = 1


def missing_key(document):
    del document["episodes"][0]["seed"]


def boolean_seed(document):
    document["episodes"][0]["seed"] = True


def bad_model(document):
    document["model_id"] = "two words"


def bad_manifest(document):
    document["manifest"]["episodes"][0]["index"] = 5


def listed_record(document):
    document["episodes"][0]["record"] = []


@pytest.mark.parametrize("change", [unknown_key, missing_key, boolean_seed, bad_model, bad_manifest, listed_record])
def test_a_result_of_another_form_is_a_document_error(tmp_path, change):
    with pytest.raises(DocumentError):
        authenticated(written(tmp_path, changed(change)), SUITE)


def test_only_canonical_bytes_are_read(tmp_path):
    data = canonical_bytes(SHORT) + b"\n"
    file = tmp_path / "result.json"
    for other in [
        b"",
        data[:-1],
        data + b"\n",
        b" " + data,
        data.replace(b'},{"index"', b'}, {"index"', 1),
        data.replace(b'"seed":', b'"seed": ', 1),
        data[: len(data) // 2],
        data.replace(b'{"episodes":[', b'{"episodes":[,', 1),
        data.replace(b'],"evaluation_version"', b',],"evaluation_version"', 1),
        b"[" * 100_000,
        b'{"episodes":[' + b"[" * 100_000 + data[data.index(b'],"evaluation_version"') :],
    ]:
        file.write_bytes(other)
        with pytest.raises(DocumentError):
            authenticated(file, SUITE)
    with pytest.raises(DocumentError, match="cannot be read"):
        open_result(tmp_path / "none.json")


def test_a_result_that_changes_between_its_two_readings_is_refused(tmp_path):
    file = written(tmp_path, SHORT)
    result = open_result(file)
    file.write_bytes(canonical_bytes(SHORT | {"episodes": SHORT["episodes"][:1]}) + b"\n")
    with pytest.raises(DocumentError, match="changed while it was read"):
        list(authenticate(result, SUITE, extract=index_of))


def test_ids_that_look_like_the_frame_of_a_result_are_read(tmp_path):
    """A person may be called `index` or `evaluation_version`; the pieces are still cut where the episodes end."""
    from ember_ref.episode import run_episode
    from ember_ref.policies import make_policy
    from ember_ref.scenario import PersonSpec, Scenario
    from ember_ref.suite import Suite, SuiteEntry, schedule
    from scoring.runner import evaluate, policy_outcomes

    base = next(iter(PACK.scenarios.values()))
    names = ["index", "evaluation_version", "episodes"]
    people = [PersonSpec(id=name, position=p.position) for name, p in zip(names, base.people, strict=False)]
    scenario = Scenario.from_dict(
        base.to_dict() | {"people": [{"id": p.id, "position": list(p.position)} for p in people]}
    )
    entry = SuiteEntry(
        scenario_id=scenario.id, scenario_hash=scenario.content_hash, primary_family="custom", families=("custom",)
    )
    folder = SuiteFolder(suite=Suite(suite_id="s", entries=(entry,)), scenarios={scenario.id: scenario})
    run = evaluate(
        target=folder,
        manifest=schedule(folder.suite, {scenario.id: [1, 2, 3]}),
        outcomes=policy_outcomes(folder, "static-shortest-path-v1", workers=1),
        out=tmp_path / "r.json",
        identity={},
        model_id="m",
    )
    records = [episode.record for episode in open_result(run.result).episodes()]
    assert records == [run_episode(scenario, seed, make_policy("static-shortest-path-v1")) for seed in (1, 2, 3)]
    assert authenticated(run.result, folder) == [0, 1, 2]


def with_fires(fires):
    return Pack.from_dict(PACK.to_dict() | {"fire_worlds": fires})


def test_the_fires_of_a_pack_are_what_its_digests_say(tmp_path):
    assert tuple(fire_world_digests(PACK, PACK.manifest, workers=1)) == PACK.fire_worlds
    check_fire_worlds(PACK, workers=1)
    fires = list(PACK.fire_worlds)
    fires[0], fires[4] = fires[4], fires[0]
    with pytest.raises(PackError) as caught:
        check_fire_worlds(with_fires(fires), workers=1)
    assert "fire_worlds[0]" in str(caught.value)
    assert "fire_worlds[4]" in str(caught.value)
    with pytest.raises(EvaluationError, match="the fire has digest"):
        authenticated(written(tmp_path, SHORT), with_fires(fires))


def test_a_result_of_another_manifest_than_the_pack_is_refused(tmp_path):
    def shorten(document):
        document["manifest"]["episodes"] = document["manifest"]["episodes"][:5]

    file = written(tmp_path, changed(shorten))
    assert authenticated(file, SUITE) == [0, 1]
    with pytest.raises(EvaluationError, match="pack"):
        authenticated(file, PACK)
