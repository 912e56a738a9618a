import dataclasses
import subprocess
import sys
from fractions import Fraction

import pytest
from score_vectors import report

from ember_ref.errors import DocumentError, ScoringInputError
from scoring.efficiency import OperationalRecord, efficiency_of, efficiency_view

RECORD = OperationalRecord(
    model_id="congestion-aware-v1",
    provider_id="local",
    inference_configuration_digest="ab" * 32,
    trials=3,
    episodes=27,
    latency_seconds=1.5,
    input_tokens=10,
    output_tokens=20,
    cost=Fraction(81, 100),
    cost_unit="USD",
    retries=0,
    timeouts=1,
)


def test_points_per_unit_are_exact():
    view = efficiency_of(report("a"), RECORD).to_dict()
    assert view["cost_per_episode"] == [1, 100]
    assert Fraction(*view["points_per_unit_exact"]) == report("a").score * 100
    assert view["report_digest"] == report("a").report_digest


def test_the_record_reads_back():
    assert OperationalRecord.from_dict(RECORD.to_dict()) == RECORD
    free = dataclasses.replace(RECORD, cost=None, cost_unit=None)
    assert OperationalRecord.from_dict(free.to_dict()) == free
    assert free.record_digest != RECORD.record_digest


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("model_id", "", "model_id: empty"),
        ("provider_id", "", "provider_id: empty"),
        ("inference_configuration_digest", "AB" * 32, "64 lower-case hex"),
        ("trials", 0, "trials: less than 1"),
        ("episodes", -1, "episodes: negative"),
        ("latency_seconds", -0.5, "latency_seconds: negative or not finite"),
        ("latency_seconds", float("inf"), "latency_seconds: negative or not finite"),
        ("latency_seconds", float("nan"), "latency_seconds: negative or not finite"),
        ("input_tokens", -1, "input_tokens: negative"),
        ("output_tokens", -1, "output_tokens: negative"),
        ("cost", Fraction(-1), "cost: negative"),
        ("cost", None, "one without the other"),
        ("cost_unit", "", "cost_unit: empty"),
        ("retries", -1, "retries: negative"),
        ("timeouts", -1, "timeouts: negative"),
    ],
)
def test_what_cannot_be_measured_is_refused(field, value, message):
    with pytest.raises(ScoringInputError, match=message):
        dataclasses.replace(RECORD, **{field: value})


def test_forms_and_costs_that_are_none():
    with pytest.raises(DocumentError, match="latency_seconds: 1 is not a float"):
        OperationalRecord.from_dict(RECORD.to_dict() | {"latency_seconds": 1})
    with pytest.raises(ScoringInputError, match="not in lowest terms"):
        OperationalRecord.from_dict(RECORD.to_dict() | {"cost": [2, 4]})
    with pytest.raises(ScoringInputError, match="has no cost"):
        efficiency_of(report("a"), dataclasses.replace(RECORD, cost=None, cost_unit=None))
    with pytest.raises(ScoringInputError, match="expected more than 0"):
        efficiency_view(report("a"), Fraction(0), "USD")
    with pytest.raises(ScoringInputError, match="operational record is of"):
        efficiency_of(report("b"), RECORD)


def test_no_score_reads_cost():
    code = "import sys, scoring.assessment; assert 'scoring.efficiency' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
