"""The six tests of the fairness document, section 4."""

import dataclasses
import enum
import json

import pytest

from ember_ref.canonical import canonical_bytes
from ember_ref.grid import Action
from ember_ref.observation import MapView, Observation, PersonState, PersonStatus, RulesView
from ember_ref.scenario import (
    ConflictResolution,
    EnterFire,
    ExitSpec,
    FireModel,
    FireSpec,
    MovementSpec,
    TerminationSpec,
    scenario_from_text,
)
from ember_ref.simulator import Simulator
from ember_ref.stream import FIRE, stream_seed

ROWS = ["P..E", ".*#.", "P..E"]
RULES = {"model": "stochastic", "spread_probability": 0.25, "spread_interval": 2, "max_steps": 30}


def drawn(**changes):
    return dataclasses.replace(
        scenario_from_text(ROWS, id="secret-name", description="hidden text", **RULES), **changes
    )


def observed(scenario, seed=987654321987, steps=3):
    simulator = Simulator(scenario, seed)
    for _ in range(steps):
        simulator.step({p.id: Action.STAY for p in simulator.observe().active})
    return simulator.observe()


def test_the_exact_field_lists():
    names = {kind: [field.name for field in dataclasses.fields(kind)] for kind in (Observation, MapView, RulesView)}
    assert names == {
        Observation: ["step", "map", "rules", "people", "burning", "allowed_actions"],
        MapView: ["width", "height", "obstacles", "exits"],
        RulesView: [
            "fire_model",
            "spread_interval",
            "spread_probability",
            "exits_flammable",
            "enter_fire",
            "conflict_resolution",
            "max_steps",
        ],
    }
    document = observed(drawn()).to_dict()
    assert list(document) == ["observation_version", *names[Observation]]
    assert list(document["map"]) == names[MapView]
    assert list(document["rules"]) == names[RulesView]
    assert list(document["people"][0]) == ["id", "position", "status"]


def test_the_object_graph_holds_only_public_types():
    allowed = {
        Observation, MapView, RulesView, ExitSpec, PersonState, PersonStatus, Action, FireModel, EnterFire,
        ConflictResolution, tuple, frozenset, int, float, bool, str, type(None),
    }  # fmt: skip
    pending, seen = [observed(drawn())], set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        assert type(item) in allowed
        if isinstance(item, tuple | frozenset):
            pending.extend(item)
        elif not isinstance(item, enum.Enum):
            names = [name for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ())]
            pending.extend(getattr(item, name) for name in names if hasattr(item, name))
            pending.extend(getattr(item, "__dict__", {}).values())
    assert len(seen) > 20


def test_no_seed_stream_position_or_hidden_text_anywhere():
    scenario, seed = drawn(), 987654321987
    simulator = Simulator(scenario, seed)
    simulator.step({p.id: Action.STAY for p in simulator.observe().active})
    simulator.step({p.id: Action.STAY for p in simulator.observe().active})
    text = canonical_bytes(simulator.observe().to_dict()).decode() + repr(simulator.observe())
    assert simulator.fire_position > 0
    for hidden in (seed, stream_seed(FIRE, seed), scenario.seed or "secret", "secret-name", "hidden text"):
        assert str(hidden) not in text
    for word in (scenario.content_hash, "trapped", "seed", "position_of", "schema_version", "stream"):
        assert word not in text


def test_the_same_for_other_seeds_and_other_hidden_metadata():
    first = observed(drawn(), seed=1, steps=1)  # interval 2: nothing has been drawn yet
    for scenario, seed in ((drawn(), 2), (drawn(id="other", description="", seed=99), 1)):
        assert observed(scenario, seed, steps=1) == first
        assert observed(scenario, seed, steps=1).to_dict() == first.to_dict()


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("max_steps", {"termination": TerminationSpec(max_steps=31)}),
        ("enter_fire", {"movement": MovementSpec(enter_fire=EnterFire.BLOCKED)}),
        *(
            (name, {"fire": FireSpec(**({
                "model": FireModel.STOCHASTIC, "ignitions": ((1, 1),), "spread_interval": 2,
                "spread_probability": 0.25, "exits_flammable": False,
            } | {name: value}))})
            for name, value in (("spread_interval", 3), ("spread_probability", 0.5), ("exits_flammable", True))
        ),
    ],
)  # fmt: skip
def test_one_changed_rule_changes_only_the_rules(rule, changes):
    before, after = observed(drawn(), steps=0).to_dict(), observed(drawn(**changes), steps=0).to_dict()
    assert {key for key in before if before[key] != after[key]} == {"rules"}
    assert {key for key in before["rules"] if before["rules"][key] != after["rules"][key]} == {rule}


def test_every_rule_equals_the_scenarios():
    scenario = drawn()
    document = scenario.to_dict()
    assert observed(scenario).to_dict()["rules"] == {
        "fire_model": document["fire"]["model"],
        **{key: document["fire"][key] for key in ("spread_interval", "spread_probability", "exits_flammable")},
        **document["movement"],
        "max_steps": document["termination"]["max_steps"],
    }


def test_the_serialised_form_is_plain_json():
    document = observed(drawn()).to_dict()
    assert json.loads(json.dumps(document)) == document
    assert document["allowed_actions"] == ["stay", "north", "south", "east", "west"]
