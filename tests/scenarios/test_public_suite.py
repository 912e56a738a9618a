import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks import baselines, pages, suite
from ember_ref.canonical import parse_canonical
from ember_ref.episode import run_episode
from ember_ref.errors import EmberError
from ember_ref.fire import fire_world
from ember_ref.policies import POLICY_NAMES, make_policy
from ember_ref.scenario import EnterFire, FireModel, load_scenario
from ember_ref.suite import load_suite
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
from scoring.display import factor, points
from scoring.evidence import ReferenceImplementation, evidence_of
from scoring.score import score_episode

ROOT = Path(__file__).parents[2]
FOLDER = suite_path("public-v1")
FILES = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
SUITE = json.loads(FILES["suite.json"])
SCENARIOS = [load_scenario(scenario_path(entry["scenario_id"])) for entry in SUITE["scenarios"]]
BY_FAMILY = dict(zip((drawing.family for drawing in DRAWINGS), SCENARIOS, strict=True))
TARGET = load_suite(FOLDER)


def rows_of(page, block):
    """Return the rows of a table of a page, each a mapping from the header's texts."""
    lines = pages.blocks((ROOT / "docs" / page).read_text())[block].split("\n")
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line)
    return [dict(zip(header, row, strict=True)) for row in rows]


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
    assert abs(rank_correlation(suite.walks(scenario))) <= MOST_CORRELATION


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


# The figures of docs/suite.md and docs/baselines.md


def test_the_figures_that_need_no_fire_are_those_of_the_page():
    found = pages.blocks((ROOT / "docs" / "suite.md").read_text())
    assert found["scenarios"] == suite.scenario_table(TARGET)
    assert found["identifiers"] == suite.identifier_table(TARGET)


def test_the_page_says_that_every_criterion_holds():
    rows = rows_of("suite.md", "criteria")
    assert len(rows) == 9
    for row in rows:
        assert row["Holds"] == "yes"
        assert float(row["Measured"]) >= float(row["Wanted"].removeprefix("at least "))
    assert rows[6]["Measured"] == factor(sorted(suite.detours(BY_FAMILY["maze"]))[len(BY_FAMILY["maze"].people) // 2])


@pytest.mark.parametrize("row", rows_of("suite.md", "measures"), ids=lambda row: row["Scenario"])
def test_who_can_be_saved_over_a_thousand_fires_is_what_the_page_says(row):
    scenario = TARGET.scenarios[row["Scenario"]]
    applicable, unsavable = suite.survival(scenario, np.arange(suite.SEEDS, dtype=np.uint64))
    assert applicable >= Fraction(99, 100)
    assert (row["`M* >= 1`"], row["somebody unsavable"]) == (factor(applicable), factor(unsavable))


def test_every_scenario_has_a_picture():
    page = (ROOT / "docs" / "suite.md").read_text()
    for scenario in SCENARIOS:
        assert f"](pictures/{scenario.id}.png)" in page
        assert (ROOT / "docs" / "pictures" / f"{scenario.id}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("pack", ["development", "random"])
def test_the_policies_stand_in_the_order_that_the_suite_is_for(pack):
    scores = {row["Policy"]: float(row["Score"]) for row in rows_of("baselines.md", f"{pack}-scores")}
    assert set(scores) == set(POLICY_NAMES)
    order = ["congestion-aware-v1", "fire-aware-shortest-path-v1", "static-shortest-path-v1"]
    order += ["nearest-exit-greedy-v1", "random-legal-v1"]
    values = [scores[name] for name in order]
    assert values == sorted(set(values), reverse=True)
    assert 40 <= values[0] <= 80
    assert values[-1] < 1
    assert scores["always-stay-v1"] == 0


@pytest.mark.parametrize("entry", TARGET.suite.entries, ids=lambda entry: entry.primary_family)
def test_the_scores_of_the_static_policy_are_those_of_the_page(entry):
    """By the oracle, so that the page does not rest on the compiled path alone."""
    policy, scenario = "static-shortest-path-v1", TARGET.scenarios[entry.scenario_id]
    records = [run_episode(scenario, seed, make_policy(policy)) for seed in baselines.DEVELOPMENT_SEEDS]
    possible = ReferenceImplementation().privileged(scenario, records)
    evidence = [evidence_of(scenario, *pair) for pair in zip(records, possible, strict=True)]
    scores = [Fraction(score_episode(item.counts).score) for item in evidence]
    (row,) = (
        row
        for row in rows_of("baselines.md", "development-families")
        if row["Primary family"] == entry.primary_family
    )
    assert row[policy] == points(sum(scores) / len(scores))


@pytest.mark.slow
def test_one_command_recomputes_every_figure():
    """About ten minutes on two cores."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.suite", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
