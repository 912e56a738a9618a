import json
import statistics

import pytest

from ember_ref.canonical import canonical_bytes, parse_canonical
from ember_ref.errors import EmberError
from ember_ref.fire import fire_world
from ember_ref.scenario import EnterFire, FireModel, load_scenario
from scenarios.bundled import scenario_names, scenario_path, suite_path
from scenarios.public_suite import DRAWINGS, build, suite_of

SUITE = json.loads((suite_path("public-v1") / "suite.json").read_text())
SCENARIOS = [load_scenario(scenario_path(entry["scenario_id"])) for entry in SUITE["scenarios"]]


def test_the_files_are_the_drawings_byte_for_byte():
    built = build()
    folder = suite_path("public-v1")
    assert (folder / "suite.json").read_bytes() == canonical_bytes(suite_of(built).to_dict()) + b"\n"
    files = {path.name for path in folder.glob("*.json")}
    assert files == {"suite.json", *(f"{scenario.id}.json" for scenario in built)}
    for scenario in built:
        data = (folder / f"{scenario.id}.json").read_bytes()
        assert parse_canonical(data, what=scenario.id) == scenario.to_dict()


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


def test_ids_say_little_about_the_distance():
    leanings = []
    for scenario in SCENARIOS:
        distances = scenario.grid.distances(exit.position for exit in scenario.exits)
        walks = [distances[person.position] for person in scenario.people]
        leanings.append(statistics.correlation(range(len(walks)), walks))
    # Shuffled numbers of few people correlate by chance; over the suite they must not lean to a side.
    assert abs(statistics.mean(leanings)) < 0.25
    assert min(leanings) < 0 < max(leanings)


def test_families_mean_what_they_say():
    by_family = dict(zip((drawing.family for drawing in DRAWINGS), SCENARIOS, strict=True))
    assert len(by_family["single_exit_low_density"].exits) == 1
    assert len(by_family["single_exit_high_density"].exits) == 1
    assert len(by_family["multiple_exits"].exits) > 2
    assert len(by_family["multiple_ignitions"].fire.ignitions) > 1
    assert by_family["exit_loss"].fire.exits_flammable
    (ignition,) = by_family["central_ignition"].fire.ignitions
    assert ignition == (
        by_family["central_ignition"].grid.height // 2,
        by_family["central_ignition"].grid.width // 2,
    )
    maze = by_family["maze"]
    (exit,) = (exit.position for exit in maze.exits)
    distances = maze.grid.distances([exit])
    detours = [
        distances[cell] / (abs(cell[0] - exit[0]) + abs(cell[1] - exit[1]))
        for cell in (person.position for person in maze.people)
    ]
    assert statistics.median(detours) >= 3


def test_unknown_names_list_the_known_ones():
    with pytest.raises(EmberError, match="suite 'public-v9' is not bundled; expected public-v1"):
        suite_path("public-v9")
    with pytest.raises(EmberError, match="scenario 'nowhere' is not bundled; expected one of v1-pub-01"):
        scenario_path("nowhere")
    assert len(scenario_names()) == 10
