import inspect

import pytest

from ember_ref import errors
from ember_ref.errors import DocumentError, EmberError, EvaluationError, ReplayMismatchError, VerificationError

# What an error class says about a document that is not of its form, and about one that does not hold.
FORM = {"DocumentError", "ScenarioError", "RecordError"}
HOLDS = {
    "ReplayMismatchError", "MetricsInputError", "EvaluationError", "StatisticsInputError", "ScoringInputError",
    "PackError",
}  # fmt: skip


def test_the_tree_of_errors():
    found = {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == "ember_ref.errors"
    }
    assert all(issubclass(kind, EmberError) for kind in found.values())
    assert {name for name, kind in found.items() if issubclass(kind, DocumentError)} >= FORM
    assert {name for name, kind in found.items() if issubclass(kind, VerificationError)} >= HOLDS
    assert not any(issubclass(found[name], VerificationError) for name in FORM)
    assert issubclass(errors.StatisticsInputError, EvaluationError)


def test_one_fault_stays_on_the_line_and_several_have_a_line_each():
    assert str(DocumentError("a.json", ["x: missing"])) == "a.json: x: missing"
    assert str(DocumentError("a.json", ["x: missing", "y: missing"])) == "a.json: \n  x: missing\n  y: missing"


def test_a_replay_mismatch_has_its_place():
    error = ReplayMismatchError(3, "state.step", "the record has 4, the replay 3")
    assert (error.step, error.field) == (3, "state.step")
    assert str(error) == "step 3, state.step: the record has 4, the replay 3"


@pytest.mark.parametrize("name", sorted(HOLDS - {"ReplayMismatchError"}))
def test_the_others_say_what_they_are_given(name):
    assert str(getattr(errors, name)("what, where, expected")) == "what, where, expected"


def test_a_message_lists_a_hundred_faults_and_the_error_keeps_all():
    error = DocumentError("a.json", [f"x[{i}]: missing" for i in range(1500)])
    assert len(error.faults) == 1500
    assert str(error).endswith("\n  x[99]: missing\n  and 1400 more")
