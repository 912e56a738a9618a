import json
from fractions import Fraction

import pytest

from ember_ref.canonical import parse_canonical
from ember_ref.errors import EmberError
from ember_ref.fire import fire_world
from ember_ref.scenario import EnterFire, FireModel, load_scenario
from scenarios.bundled import scenario_names, scenario_path, suite_path
from scenarios.public_suite import (
    DRAWINGS,
    FROZEN,
    MOST_CORRELATION,
    build,
    files_of,
    rank_correlation,
    require_frozen,
)

FOLDER = suite_path("public-v1")
FILES = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
SUITE = json.loads(FILES["suite.json"])
SCENARIOS = [load_scenario(scenario_path(entry["scenario_id"])) for entry in SUITE["scenarios"]]
BY_FAMILY = dict(zip((drawing.family for drawing in DRAWINGS), SCENARIOS, strict=True))


# Frozen


def test_the_files_are_frozen_and_are_the_drawings_byte_for_byte():
    require_frozen(FILES)
    assert files_of(build()) == FILES
    for scenario in SCENARIOS:
        assert parse_canonical(FILES[f"{scenario.id}.json"], what=scenario.id) == scenario.to_dict()


@pytest.mark.parametrize("name", FROZEN)
def test_any_changed_byte_of_a_file_asks_for_another_suite_id(name):
    data = FILES[name]
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(EmberError) as caught:
            require_frozen(FILES | {name: changed})
        assert str(caught.value) == (
            f"{name}: not as frozen in suite public-v1; a changed suite takes another suite_id "
            "(change SUITE_ID from 'public-v1' in scenarios/public_suite.py, then FROZEN)"
        )


def test_a_file_more_or_less_asks_for_another_suite_id():
    with pytest.raises(EmberError, match=r"^v1-pub-11\.json: not as frozen in suite public-v1"):
        require_frozen(FILES | {"v1-pub-11.json": b"{}\n"})
    with pytest.raises(EmberError, match=r"^suite\.json, .*v1-pub-10-maze\.json: not as frozen"):
        require_frozen({})


# What the scenarios are made of


def test_one_scenario_for_each_family_but_custom():
    assert [entry["primary_family"] for entry in SUITE["scenarios"]] == [
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
    ]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_sizes_people_and_rules(scenario):
    assert 8 <= scenario.grid.height <= 24
    assert 8 <= scenario.grid.width <= 24
    assert 4 <= len(scenario.people) <= 40
    assert scenario.movement.enter_fire is EnterFire.CASUALTY
    distances = scenario.grid.distances(exit.position for exit in scenario.exits)
    assert all(person.position in distances for person in scenario.people)
    assert fire_world(scenario, 0).burned > len(scenario.fire.ignitions)


def test_both_fire_models_occur():
    assert {scenario.fire.model for scenario in SCENARIOS} == set(FireModel)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_ids_say_nothing_about_the_distance(scenario):
    ids = [person.id for person in scenario.people]
    assert ids == sorted(ids)
    distances = scenario.grid.distances(exit.position for exit in scenario.exits)
    assert abs(rank_correlation([distances[person.position] for person in scenario.people])) <= MOST_CORRELATION


def test_a_rank_correlation_is_concordant_less_discordant_pairs_over_all_pairs():
    assert rank_correlation([1, 2, 3]) == 1
    assert rank_correlation([3, 2, 1]) == -1
    assert rank_correlation([1, 3, 2, 4]) == Fraction(4, 6)
    assert rank_correlation([1, 1, 2]) == Fraction(2, 3)


def test_families_are_built_as_their_names_say():
    assert len(BY_FAMILY["single_exit_low_density"].exits) == 1
    assert len(BY_FAMILY["single_exit_high_density"].exits) == 1
    assert len(BY_FAMILY["multiple_exits"].exits) > 2
    assert len(BY_FAMILY["multiple_ignitions"].fire.ignitions) > 1
    assert BY_FAMILY["exit_loss"].fire.exits_flammable
    (ignition,) = BY_FAMILY["central_ignition"].fire.ignitions
    assert ignition == (
        BY_FAMILY["central_ignition"].grid.height // 2,
        BY_FAMILY["central_ignition"].grid.width // 2,
    )


def test_unknown_names_list_the_known_ones():
    with pytest.raises(EmberError, match="suite 'public-v9' is not bundled; expected public-v1"):
        suite_path("public-v9")
    with pytest.raises(EmberError, match="scenario 'nowhere' is not bundled; expected one of v1-pub-01"):
        scenario_path("nowhere")
    assert len(scenario_names()) == 10
