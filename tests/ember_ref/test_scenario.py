import copy
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from hypothesis import given
from strategies import random_scenario, scenarios

from ember_ref.canonical import canonical_bytes
from ember_ref.errors import ScenarioError
from ember_ref.scenario import EnterFire, FireModel, Scenario, load_scenario, parse_scenario, scenario_from_text

DEMO = {
    "schema_version": "1.0",
    "id": "demo",
    "description": "free text",
    "seed": 7,
    "grid": {"width": 5, "height": 4, "obstacles": [[1, 1]]},
    "exits": [{"id": "E1", "position": [0, 4]}],
    "people": [{"id": "P1", "position": [3, 0]}, {"id": "P2", "position": [3, 1]}],
    "fire": {
        "model": "stochastic",
        "ignitions": [[2, 2]],
        "spread_interval": 1,
        "spread_probability": 0.3,
        "exits_flammable": False,
    },
    "movement": {"enter_fire": "casualty", "conflict_resolution": "lowest_id_wins"},
    "termination": {"max_steps": 40},
}


def changed(**changes):
    """Return DEMO with values at dotted paths replaced (`__` for a dot, a number for an index)."""
    document = copy.deepcopy(DEMO)
    for path, value in changes.items():
        *parents, key = [int(word) if word.isdigit() else word for word in path.split("__")]
        place = document
        for parent in parents:
            place = place[parent]
        if value is KeyError:
            del place[key]
        else:
            place[key] = value
    return document


def faults_of(document):
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(document, what="demo.json")
    assert str(caught.value).startswith("demo.json: ")
    return list(caught.value.faults)


# Each row of the table of contract section 2.
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"grid__width": 0}, "grid.width: 0 is not an integer from 1 to 512"),
        ({"grid__height": 513}, "grid.height: 513 is not an integer from 1 to 512"),
        ({"grid__height": True}, "grid.height: true is not an integer from 1 to 512"),
        ({"people": []}, "people: 0 entries, fewer than 1"),
        ({"exits": []}, "exits: 0 entries, fewer than 1"),
        ({"termination__max_steps": 0}, "termination.max_steps: 0 is not an integer from 1 to 65535"),
        ({"termination__max_steps": 65536}, "termination.max_steps: 65536 is not an integer from 1 to 65535"),
        ({"termination__max_steps": 3.0}, "termination.max_steps: 3.0 is not an integer from 1 to 65535"),
        ({"fire__spread_interval": 0}, "fire.spread_interval: 0 is not an integer from 1 to 65535"),
        ({"fire__spread_probability": 1.5}, "fire.spread_probability: 1.5 is not a number from 0 to 1"),
        ({"fire__spread_probability": True}, "fire.spread_probability: true is not a number from 0 to 1"),
        ({"fire__spread_probability": None}, "fire.spread_probability: null is not a number from 0 to 1"),
        ({"fire__model": "deterministic"}, "fire.spread_probability: 0.3 is not null"),
        ({"seed": -1}, "seed: -1 is not an integer from 0 to 18446744073709551615"),
        ({"seed": 2**64}, "seed: 18446744073709551616 is not an integer"),
        ({"seed": 1.0}, "seed: 1.0 is not an integer"),
        ({"seed": True}, "seed: true is not an integer"),
        ({"description": "x" * 4097}, "description: 4097 code points, more than 4096"),
        ({"description": 3}, "description: 3 is not a string"),
        ({"id": ""}, "id: '' is not an ID"),
        ({"id": "a" * 65}, "is not an ID"),
        ({"id": "a\0b"}, "is not an ID"),
        ({"id": "demo\n"}, "is not an ID"),
        ({"people__0__id": "-x"}, "people[0].id: '-x' is not an ID"),
        ({"people__1__id": "P1"}, "people[1].id: 'P1' repeats people[0].id"),
        ({"fire__model": "wild"}, "fire.model: 'wild' is not one of 'deterministic', 'stochastic'"),
        ({"movement__enter_fire": "maybe"}, "movement.enter_fire: 'maybe' is not one of"),
        ({"movement__conflict_resolution": "random"}, "'random' is not 'lowest_id_wins'"),
        ({"fire__exits_flammable": 1}, "fire.exits_flammable: 1 is not true or false"),
        ({"grid__obstacles": [[4, 0]]}, "grid.obstacles[0]: [4, 0] is out of bounds of 4 rows and 5 columns"),
        ({"grid__obstacles": [[-1, 0]]}, "grid.obstacles[0][0]: -1 is not an integer from 0 to 511"),
        ({"grid__obstacles": [[1, 1], [1, 1]]}, "grid.obstacles[1]: repeats grid.obstacles[0]"),
        ({"people__1__position": [3, 0]}, "people[1].position: repeats people[0].position"),
        ({"people__0__position": [3, 0, 0]}, "people[0].position: [3, 0, 0] is not a list of 2 values"),
        ({"exits__0__position": [1, 1]}, "exits[0].position: on an obstacle"),
        ({"people__0__position": [1, 1]}, "people[0].position: on an obstacle"),
        ({"people__0__position": [0, 4]}, "people[0].position: on an exit"),
        ({"people__0__position": [2, 2]}, "people[0].position: on an ignition"),
        ({"fire__ignitions": [[1, 1]]}, "fire.ignitions[0]: on an obstacle"),
        ({"fire__ignitions": [[0, 4]]}, "fire.ignitions[0]: on an exit, which needs exits_flammable"),
        ({"schema_version": "2.0"}, "schema_version: '2.0' is not '1.0'"),
        ({"extra": 1}, "extra: unknown key"),
        ({"grid__depth": 1}, "grid.depth: unknown key"),
        ({"movement__conflict_resolution": KeyError}, "movement.conflict_resolution: missing"),
        ({"fire__spread_probability": KeyError}, "fire.spread_probability: missing"),
        ({"grid": []}, "grid: [] is not an object"),
    ],
)
def test_each_fault_is_named_with_its_place(changes, fault):
    (found,) = faults_of(changed(**changes))
    assert fault in found


def test_all_faults_come_at_once():
    found = faults_of(
        changed(
            seed=-1,
            people__0__position=[0, 4],
            people__1__position=[9, 9],
            fire__model="deterministic",
            termination__max_steps=KeyError,
            extra=1,
        )
    )
    assert sorted(fault.split(":")[0] for fault in found) == [
        "extra",
        "fire.spread_probability",
        "people[0].position",
        "people[1].position",
        "seed",
        "termination.max_steps",
    ]


def test_more_than_1024_people_are_refused():
    people = [{"id": f"P{i}", "position": [i // 40, i % 40]} for i in range(1025)]
    document = changed(
        grid__width=60, grid__height=60, grid__obstacles=[], exits__0__position=[59, 59], people=people
    )
    document["fire"]["ignitions"] = [[58, 58]]
    assert faults_of(document) == ["people: 1025 entries, more than 1024"]
    document["people"].pop()
    assert len(Scenario.from_dict(document).people) == 1024


@pytest.mark.parametrize("document", [None, 3, [], "x", {}])
def test_what_is_no_scenario_at_all(document):
    assert faults_of(document)


def test_a_shared_id_of_a_person_and_an_exit_is_fine_and_an_ignition_may_burn_an_exit():
    document = changed(people__0__id="E1", fire__exits_flammable=True, fire__ignitions=[[0, 4]])
    assert Scenario.from_dict(document).fire.ignitions == ((0, 4),)


def test_the_normal_form_sorts_and_reads_numbers_as_floats():
    document = changed(
        people=[{"id": "P2", "position": [3, 1]}, {"id": "P10", "position": [3, 0]}],
        grid__obstacles=[[1, 3], [1, 1]],
        fire__ignitions=[[2, 2], [0, 0]],
        fire__spread_probability=1,
    )
    normal = Scenario.from_dict(document).to_dict()
    assert [person["id"] for person in normal["people"]] == ["P10", "P2"]
    assert normal["grid"]["obstacles"] == [[1, 1], [1, 3]]
    assert normal["fire"]["ignitions"] == [[0, 0], [2, 2]]
    assert canonical_bytes(normal["fire"]["spread_probability"]) == b"1.0"
    negative_zero = parse_scenario(json.dumps(changed(fire__spread_probability=-0.0)).encode())
    assert canonical_bytes(negative_zero.to_dict()["fire"]["spread_probability"]) == b"0.0"


@given(scenarios())
def test_the_content_hash_does_not_depend_on_spelling_or_order(scenario):
    document = scenario.to_dict()
    for name in ("people", "exits"):
        document[name].reverse()
    document["grid"]["obstacles"].reverse()
    document["fire"]["ignitions"].reverse()
    text = json.dumps(document, indent=3).replace("\n", "\r\n")
    assert parse_scenario(text.encode()) == scenario
    assert parse_scenario(text.encode()).content_hash == scenario.content_hash
    assert Scenario.from_dict(scenario.to_dict()).to_dict() == scenario.to_dict()


def test_ten_hash_seeds_give_one_digest():
    code = "from strategies import random_scenario; print(random_scenario(5).content_hash)"
    folder = pathlib.Path(__file__).parents[1]
    path = os.pathsep.join([str(folder), str(folder.parent)])
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(number), "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for number in range(10)
    }
    assert found == {random_scenario(5).content_hash.encode() + b"\n"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"seed": 1e3}', "seed: 1000.0 is not an integer"),
        (b'{"seed": 9007199254740993, "seed": 1}', "duplicate key 'seed'"),
        (b'{"seed": NaN}', "NaN is not a JSON number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"seed": ' + b"1" * 5000 + b"}", "an integer with too many digits"),
    ],
)
def test_bad_files_are_scenario_errors(data, message):
    with pytest.raises(ScenarioError, match=message):
        parse_scenario(data)


def test_seeds_beyond_2_to_the_53_survive():
    assert parse_scenario(json.dumps(changed(seed=9007199254740993)).encode()).seed == 9007199254740993


def test_a_map_of_512_cells_a_side_is_read_quickly(tmp_path):
    obstacles = [[row, col] for row in range(512) for col in range(200)]
    document = changed(
        grid__width=512,
        grid__height=512,
        grid__obstacles=obstacles,
        exits__0__position=[0, 300],
        people__0__position=[3, 300],
        people__1__position=[3, 301],
        fire__ignitions=[[9, 400]],
    )
    path = tmp_path / "large.json"
    path.write_text(json.dumps(document))
    start = time.process_time()
    assert len(load_scenario(path).grid.obstacles) == 102400
    assert time.process_time() - start < 5


def test_text_maps_number_row_major_with_zeros():
    scenario = scenario_from_text(["X" + "P" * 11, "E#*P.......#"], id="text", exits_flammable=True)
    assert [person.id for person in scenario.people] == [f"P{i:02}" for i in range(1, 13)]
    assert [exit.position for exit in scenario.exits] == [(0, 0), (1, 0)]
    assert scenario.fire.ignitions == ((0, 0), (1, 2))
    assert scenario.grid.obstacles == {(1, 1), (1, 11)}


def test_bad_text_maps_name_every_fault():
    with pytest.raises(ScenarioError) as caught:
        scenario_from_text(["P?E", ".."], id="bad")
    assert caught.value.faults == (
        "row 1: 2 characters, expected 3",
        "row 0, column 1: '?' is not one of # . E P * X",
    )
    with pytest.raises(ScenarioError, match="exits: 0 entries"):
        scenario_from_text(["P."], id="bad")


def test_words_given_as_plain_strings_become_members():
    scenario = scenario_from_text(
        ["PE"], id="words", model="stochastic", spread_probability=0.5, enter_fire="blocked"
    )
    assert scenario.fire.model is FireModel.STOCHASTIC
    assert scenario.movement.enter_fire is EnterFire.BLOCKED


def test_a_scenario_made_in_python_is_checked_too():
    with pytest.raises(ScenarioError, match=r"people\[0\].position: on an exit"):
        Scenario.from_dict(changed(people__0__position=[0, 4]))
    with pytest.raises(ScenarioError, match="max_steps: 0"):
        scenario_from_text(["PE"], id="x", max_steps=0)


@pytest.mark.parametrize(("given", "taken"), [(1, 1.0), (0, 0.0), (-0.0, 0.0)])
def test_a_probability_given_in_python_has_the_hash_of_the_one_in_a_file(given, taken):
    made = scenario_from_text(["PE"], id="x", model="stochastic", spread_probability=given)
    assert repr(made.fire.spread_probability) == repr(taken)
    assert made.content_hash == Scenario.from_dict(json.loads(json.dumps(made.to_dict()))).content_hash


def test_a_file_full_of_faults_is_refused_quickly():
    start = time.process_time()
    for entry in ("1", "[9999,0]", "[0,0]"):
        text = json.dumps(changed(grid__obstacles=[])).replace(
            '"obstacles": []', f'"obstacles": [{entry}' + f",{entry}" * 300_000 + "]"
        )
        with pytest.raises(ScenarioError, match=r"grid\.obstacles: 300001 entries, more than 262144") as caught:
            parse_scenario(text.encode())
        assert len(str(caught.value)) < 10_000
    assert time.process_time() - start < 9
