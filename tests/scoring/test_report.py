import copy
import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_vectors import RESULTS, VECTORS, report, vector

from ember_ref.agent import FailureKind
from ember_ref.canonical import canonical_bytes, digest
from ember_ref.errors import DocumentError, ScoringInputError
from scoring.leaderboard import standing
from scoring.report import EpisodeReport, ScoreReport, Trial, load_report
from scoring.score import Status


@pytest.mark.parametrize("model", RESULTS)
def test_reading_a_report_rebuilds_its_bytes(model):
    path = VECTORS / f"expected-report-{model}.json"
    assert canonical_bytes(load_report(path).to_dict()) + b"\n" == path.read_bytes()


def places(value, path=()):
    """Yield the path of every number, word and null of a document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))
    else:
        yield path


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + 0.5
    if value is None:
        return 1.0
    return value + "x" if len(value) != 64 else ("0" if value[0] != "0" else "1") + value[1:]


FREE = {
    "model_id",
    "pack_hash",
    "pack_id",
    "suite_id",
    "suite_version",
    "suite_hash",
    "simulator_version",
    "observation_version",
    "metrics_version",
    "evaluation_manifest_hash",
}
"""What a report says of where it comes from: only its results and pack can show it wrong."""


def small():
    """Return report c with the episodes of three scenarios, made honest again."""
    whole = report("c")
    names = ("door", "noise", "maze")
    episodes = [e for e in whole.episodes if e.scheduled.scenario_id in names]
    episodes = [
        dataclasses.replace(e, scheduled=dataclasses.replace(e.scheduled, index=i)) for i, e in enumerate(episodes)
    ]
    return remade(whole, episodes)


def remade(whole, episodes):
    family = {name: family for family, names in whole.hierarchy.families.items() for name in names}
    return ScoreReport.of(header=whole.header, result_digests=whole.result_digests, episodes=episodes, family=family)


SMALL = small().to_dict()
TOP = [path for path in places(SMALL) if path[0] not in {"episodes", "result_digests", *FREE}]
BELOW = [path for path in places(SMALL) if path[0] == "episodes" and path[1] == 0]


def refuses(document):
    with pytest.raises((ScoringInputError, DocumentError)):
        ScoreReport.from_dict(document)


def put(document, path, value):
    document = copy.deepcopy(document)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


def get(document, path):
    for key in path:
        document = document[key]
    return document


@pytest.mark.parametrize("path", TOP, ids=lambda path: ".".join(map(str, path)))
def test_a_forged_number_is_refused(path):
    refuses(put(SMALL, path, changed(get(SMALL, path))))


ONLY_RESULTS_TELL = {"seed", "scenario_hash", "sum_earliest", "exit_bound", "route_invalidations"}
"""What nothing else in a report follows from: only its results (`verify_report`) can show it wrong."""


@pytest.mark.parametrize("path", BELOW, ids=lambda path: ".".join(map(str, path)))
def test_a_forged_episode_field_is_refused(path):
    if path[-1] in ONLY_RESULTS_TELL or path[-2] in {"avoidable_casualty_ids", "unavoidable_stranded_ids"}:
        assert ScoreReport.from_dict(SMALL).report_digest != digest(put(SMALL, path, changed(get(SMALL, path))))
        return
    refuses(put(SMALL, path, changed(get(SMALL, path))))


@pytest.mark.parametrize("key", sorted(SMALL))
def test_a_missing_or_unknown_key_is_refused(key):
    without = {name: value for name, value in SMALL.items() if name != key}
    with pytest.raises(DocumentError, match=f"{key}: missing"):
        ScoreReport.from_dict(without)
    with pytest.raises(DocumentError, match="unknown key"):
        ScoreReport.from_dict(SMALL | {f"{key}_": 1})


def test_messages_name_the_field_and_both_values():
    with pytest.raises(ScoringInputError, match=r"score report: score is 99\.5, recomputed "):
        ScoreReport.from_dict(SMALL | {"score": 99.5})
    with pytest.raises(ScoringInputError, match="pack_id and pack_hash belong together"):
        ScoreReport.from_dict(SMALL | {"pack_id": None})
    path = ("episodes", 0, "trials", 0, "diagnostics")
    with pytest.raises(ScoringInputError, match="evidence and diagnostics belong together"):
        ScoreReport.from_dict(put(SMALL, path, None))
    doubled = put(SMALL, ("episodes", 0, "trials", 0, "failure"), "timeout")
    with pytest.raises(ScoringInputError, match="either evidence or a failure"):
        ScoreReport.from_dict(doubled)


def test_a_report_with_other_bytes_is_refused(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(vector("expected-report-b"), indent=1))
    with pytest.raises(DocumentError, match="not canonical JSON"):
        load_report(path)


def with_failure(whole, index, trial, kind):
    """Return the report after one trial of an episode lost its result."""
    episodes = list(whole.episodes)
    old = episodes[index]
    lost = Trial.of(max_evacuated=old.max_evacuated, evidence=None, diagnostics=None, failure=kind)
    trials = tuple(lost if i == trial else t for i, t in enumerate(old.trials))
    episodes[index] = EpisodeReport(scheduled=old.scheduled, max_evacuated=old.max_evacuated, trials=trials)
    return remade(whole, episodes)


@settings(max_examples=40)
@given(st.data())
def test_losing_an_episode_never_raises_score_safety_or_place(data):
    """A failure can never disappear; deleting any episode or declaring any failure never helps."""
    whole = report(data.draw(st.sampled_from("abc")))
    lost = whole
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(whole.episodes) - 1))
        trial = data.draw(st.integers(0, len(whole.result_digests) - 1))
        lost = with_failure(lost, index, trial, data.draw(st.sampled_from([None, *FailureKind])))
    assert lost.score <= whole.score
    assert lost.aggregate("safety")[0] <= whole.aggregate("safety")[0]
    assert standing(lost).key >= standing(whole).key
    zero = lost.to_dict()["tail"]["zero_score_episode_trials"]
    failed = sum(t.status is Status.FAILED for e in lost.applicable for t in e.trials)
    assert sum(zero[str(kind)] for kind in FailureKind) == failed


def single(whole, trial):
    episodes = [dataclasses.replace(e, trials=(e.trials[trial],)) for e in whole.episodes]
    return remade(dataclasses.replace(whole, result_digests=whole.result_digests[trial : trial + 1]), episodes)


def test_the_score_is_the_mean_of_the_trials_own_scores():
    whole = report("a")
    alone = [single(whole, trial).score for trial in range(3)]
    assert whole.score == sum(alone) / 3 < max(alone)


@settings(max_examples=10)
@given(st.permutations(range(3)), st.data())
def test_the_order_of_trials_changes_neither_score_nor_interval(order, data):
    whole = report("a")
    index = data.draw(st.integers(0, len(whole.episodes) - 1))
    whole = with_failure(whole, index, data.draw(st.integers(0, 2)), FailureKind.TIMEOUT)
    episodes = [dataclasses.replace(e, trials=tuple(e.trials[i] for i in order)) for e in whole.episodes]
    shuffled = remade(whole, episodes)
    assert shuffled.score == whole.score
    assert shuffled.confidence_interval == whole.confidence_interval


def test_without_applicable_episodes_everything_is_undefined():
    whole = report("b")
    nobody = [
        EpisodeReport(
            scheduled=e.scheduled,
            max_evacuated=0,
            trials=(Trial.of(max_evacuated=0, evidence=None, diagnostics=None, failure=FailureKind.TIMEOUT),),
        )
        for e in whole.episodes
    ]
    empty = remade(whole, nobody)
    document = empty.to_dict()
    for name in ("score", "score_exact", "confidence_interval", "scenario_balanced", "micro"):
        assert document[name] is None
    tail = dict(document["tail"])
    assert set(tail.pop("zero_score_episode_trials").values()) == {0}
    assert set(tail.values()) == {None}
    assert document["robustness"]["statuses"]["not_applicable"] == len(whole.episodes)
    assert ScoreReport.from_dict(document).to_dict() == document


def test_fewer_than_five_episodes_have_no_interval():
    whole = report("b")
    few = remade(whole, [e for e in whole.episodes if e.applicable][:4])
    assert few.confidence_interval is None
