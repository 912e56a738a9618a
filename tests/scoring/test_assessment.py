import json

import pytest
from score_vectors import RESULTS, VECTORS, report, vector

from ember_ref.agent import FailureKind
from ember_ref.canonical import canonical_bytes, write_canonical
from ember_ref.errors import DocumentError, ScoringInputError
from ember_ref.suite import Pack, SuiteFolder, load_pack
from scoring.assessment import load_failures, score_results, verify_report
from scoring.evaluation import open_result
from scoring.evidence import ReferenceImplementation

PACK = load_pack(VECTORS / "pack.json")


def opened(model):
    return [open_result(VECTORS / f"{name}.json") for name in RESULTS[model]]


@pytest.mark.parametrize("model", RESULTS)
def test_reports_of_the_vectors(model):
    failures = load_failures(VECTORS / f"failures-{model}.json")
    made = score_results(opened(model), PACK, failures, workers=1)
    assert canonical_bytes(made.to_dict()) + b"\n" == (VECTORS / f"expected-report-{model}.json").read_bytes()


def test_a_provider_in_batches_makes_the_same_report():
    asked = []

    class Counting(ReferenceImplementation):
        def privileged(self, scenario, records):
            asked.append(len(records))
            return super().privileged(scenario, records)

    failures = load_failures(VECTORS / "failures-b.json")
    made = score_results(opened("b"), PACK, failures, provider=Counting(), workers=1)
    assert made.to_dict() == report("b").to_dict()
    assert max(asked) == 3


def test_a_bare_suite_is_unofficial_and_scores_the_same():
    folder = SuiteFolder(suite=PACK.suite, scenarios=PACK.scenarios)
    made = score_results(opened("b"), folder, load_failures(VECTORS / "failures-b.json"), workers=1)
    assert (made.header.official, made.header.pack_id, made.header.pack_hash) == (False, None, None)
    assert made.score == report("b").score
    assert made.confidence_interval == report("b").confidence_interval


def smaller(tmp_path, drop=(), change=None):
    document = vector("result-b")
    document["episodes"] = [e for e in document["episodes"] if e["index"] not in drop]
    if change is not None:
        change(document)
    path = tmp_path / "result.json"
    write_canonical(path, document)
    return [open_result(path)]


def test_a_deleted_episode_is_missing_and_scores_nothing(tmp_path):
    failures = load_failures(VECTORS / "failures-b.json")
    made = score_results(smaller(tmp_path, drop={0, 12}), PACK, failures, workers=1)
    assert made.episodes[0].trials[0].failure is FailureKind.MISSING
    assert made.score < report("b").score


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        ([{99: FailureKind.TIMEOUT}], "episode 99 is not scheduled"),
        ([{0: FailureKind.TIMEOUT}], "episode 0 has a result"),
        ([{}, {}], "failures for 2 trials, 1 results"),
    ],
)
def test_declarations_that_cannot_be_are_refused(failures, message):
    with pytest.raises(ScoringInputError, match=message):
        score_results(opened("b"), PACK, failures, workers=1)


def test_results_that_do_not_belong_together_are_refused(tmp_path):
    with pytest.raises(ScoringInputError, match="trial 1 is of model random-legal-v1"):
        score_results([*opened("b"), *opened("c")], PACK)

    def shorten(document):
        document["manifest"]["episodes"].pop()
        document["episodes"] = [e for e in document["episodes"] if e["index"] != 26]

    with pytest.raises(ScoringInputError, match="is of manifest"):
        score_results(smaller(tmp_path, change=shorten), PACK)
    with pytest.raises(ScoringInputError, match="no result"):
        score_results([], PACK)


def test_a_pack_of_other_constants_is_refused():
    other = Pack.from_dict(PACK.to_dict() | {"constants_digest": "0" * 64})
    with pytest.raises(ScoringInputError, match=r"is for scoring 1\.0 with constants 0000"):
        score_results(opened("b"), other)


def test_another_fire_or_another_record_is_refused(tmp_path):
    document = PACK.to_dict()
    document["fire_worlds"] = ["0" * 64, *document["fire_worlds"][1:]]
    with pytest.raises(ScoringInputError, match="the pack lists 0000"):
        score_results(opened("b"), Pack.from_dict(document), workers=1)

    def forge(document):
        document["episodes"][1]["record"]["steps"][0]["actions"]["P1"] = "stay"

    with pytest.raises(ScoringInputError, match=r"episodes\[1\]"):
        score_results(smaller(tmp_path, change=forge), PACK, workers=1)


def test_a_report_is_verified_against_its_results():
    results = {result.result_digest: result for result in opened("c")}
    verify_report(report("c"), results, PACK, what="c")
    with pytest.raises(ScoringInputError, match="is not given"):
        verify_report(report("b"), results, PACK, what="b")


@pytest.mark.parametrize(
    "text", ['{"0":"timeout"}', '[{"00":"timeout"}]', '[{"+1":"timeout"}]', '[{"1":"lost"}]', "[1]"]
)
def test_failures_files_that_are_none(tmp_path, text):
    path = tmp_path / "failures.json"
    path.write_text(json.dumps(json.loads(text), separators=(",", ":")) + "\n")
    with pytest.raises(DocumentError):
        load_failures(path)
