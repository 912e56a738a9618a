import dataclasses

import pytest
from score_vectors import evidence, run, scenario_of, vector

from ember_ref.errors import ScoringInputError
from ember_ref.references import PersonReference
from ember_ref.scenario import load_scenario
from scenarios.bundled import scenario_names, scenario_path
from scoring.evidence import CrowdDiagnostics, Evidence, ReferenceImplementation, evidence_of
from scoring.score import score_episode

ROOM_WITH_A_DOOR = (
    "#########",
    "#.ad#..E#",
    "#.be....#",
    "#.cf#..E#",
    "#########",
)
TWO_EXITS = (
    "###########",
    "#.abc.....#",
    "E.def.....E",
    "#.ghi.....#",
    "###########",
)


def trials_of(model):
    for episode in vector(f"expected-report-{model}")["episodes"]:
        for trial in episode["trials"]:
            if trial["evidence"] is not None:
                yield trial


@pytest.mark.parametrize("name", sorted(scenario_names()))
def test_block_scrub_keeps_trajectory_and_score(name):
    scenario = load_scenario(scenario_path(name))
    honest = run(scenario, "congestion-aware-v1")
    scrubbed = run(scenario, "adv-block-scrub.congestion-aware-v1")
    assert scrubbed.trajectory_digest == honest.trajectory_digest
    assert CrowdDiagnostics.of(scrubbed).congestion_blocks == 0
    assert evidence(scenario, scrubbed) == evidence(scenario, honest)


def test_congestion_blocks_are_diagnostics_not_score_inputs():
    scenario = scenario_of(ROOM_WITH_A_DOOR)
    honest, scrubbed = (run(scenario, p + "congestion-aware-v1") for p in ("", "adv-block-scrub."))
    assert CrowdDiagnostics.of(honest).congestion_blocks > CrowdDiagnostics.of(scrubbed).congestion_blocks == 0
    assert honest.record_digest != scrubbed.record_digest
    scores = [score_episode(evidence(scenario, record).counts) for record in (honest, scrubbed)]
    assert scores[0] == scores[1]


def test_real_episode_person_level_attribution():
    # a could walk out and burns; b sits behind walls and is stranded: the loss of b must not hide that of a
    scenario = scenario_of(("E..a.*", "######", "b#...."), max_steps=8)
    found = evidence(scenario, run(scenario, "always-stay-v1"))
    assert found.avoidable_casualty_ids == ("a",)
    assert found.unavoidable_stranded_ids == ("b",)
    assert (found.avoidable_casualties, found.avoidable_stranded, found.unavoidable_losses) == (1, 0, 1)
    assert (found.population, found.max_evacuated) == (2, 1)


def test_real_episode_unavoidable_door_queue_is_not_charged():
    scenario = scenario_of(ROOM_WITH_A_DOOR)
    found = evidence(scenario, run(scenario, "congestion-aware-v1"))
    assert found.sum_earliest < found.exit_bound < found.time_bound  # they queue, at the door and not at the exits
    assert found.qualities["time"] == 1


def test_real_episode_avoidable_queue_is_charged():
    scenario = scenario_of(TWO_EXITS)
    herd, split = (evidence(scenario, run(scenario, p)) for p in ("static-shortest-path-v1", "congestion-aware-v1"))
    assert herd.evacuated == split.evacuated == 9
    assert herd.qualities["time"] < split.qualities["time"] <= 1
    assert score_episode(herd.counts).score < score_episode(split.counts).score


def test_every_evidence_of_the_vectors_is_accepted():
    count = 0
    for model in "abc":
        for trial in trials_of(model):
            read = Evidence.from_dict(trial["evidence"], what="vector")
            assert read.to_dict() == trial["evidence"]
            diagnostics = CrowdDiagnostics.from_dict(trial["diagnostics"], read, what="vector")
            assert diagnostics.to_dict() == trial["diagnostics"]
            count += 1
    assert count > 100


HONEST = next(t["evidence"] for t in trials_of("a") if t["evidence"]["recoverable_route_invalidations"])
FORGED = {
    "population": HONEST["population"] + 1,
    "max_evacuated": HONEST["max_evacuated"] - 1,
    "evacuated": HONEST["evacuated"] + 1,
    "avoidable_casualties": 0,
    "avoidable_stranded": 1,
    "unavoidable_losses": 0,
    "avoidable_casualty_ids": [],
    "avoidable_stranded_ids": ["P4"],
    "unavoidable_casualty_ids": ["P8", "P4"],
    "unavoidable_stranded_ids": ["P8"],
    "sum_earliest": HONEST["fewest_moves"] - 1,
    "exit_bound": HONEST["sum_earliest"] - 1,
    "time_bound": HONEST["sum_evacuation_steps"] + 1,
    "sum_evacuation_steps": HONEST["time_bound"] - 1,
    "danger_states": HONEST["fewest_danger_states"] - 1,
    "fewest_danger_states": HONEST["danger_states"] + 1,
    "cells_moved": HONEST["fewest_moves"] - 1,
    "fewest_moves": HONEST["cells_moved"] + 1,
    "route_invalidations": HONEST["recoverable_route_invalidations"] - 1,
    "recoverable_route_invalidations": 0,
    "recovery_bound_steps": HONEST["recovery_steps"] + 1,
    "recovery_steps": HONEST["recovery_bound_steps"] - 1,
}


def test_every_field_is_forged_below():
    assert FORGED.keys() == HONEST.keys()
    assert HONEST["avoidable_casualty_ids"] == ["P4"]
    assert HONEST["unavoidable_casualty_ids"] == ["P8"]


@pytest.mark.parametrize("field", FORGED)
def test_a_forged_field_is_refused(field):
    with pytest.raises(ScoringInputError, match="forged: "):
        Evidence.from_dict(HONEST | {field: FORGED[field]}, what="forged")


@pytest.mark.parametrize("ids", [["P4", "P2"], ["P2", "P2"]])
def test_unsorted_or_repeated_ids_are_refused(ids):
    forged = HONEST | {"avoidable_casualty_ids": ids, "avoidable_casualties": 2}
    with pytest.raises(ScoringInputError, match="avoidable_casualty_ids: not sorted, each ID once"):
        Evidence.from_dict(forged, what="forged")


def test_a_person_in_two_lists_is_refused():
    with pytest.raises(ScoringInputError, match="two of the four lists"):
        Evidence.from_dict(HONEST | {"unavoidable_casualty_ids": ["P4"]}, what="forged")


@pytest.mark.parametrize("field", ["sum_earliest", "time_bound", "cells_moved", "danger_states"])
def test_sums_without_an_evacuee_are_refused(field):
    nobody = dict.fromkeys(HONEST, 0) | {name: [] for name in HONEST if name.endswith("_ids")}
    nobody |= {"population": 1, "max_evacuated": 1, "avoidable_stranded": 1, "avoidable_stranded_ids": ["P1"]}
    Evidence.from_dict(nobody, what="honest")
    with pytest.raises(ScoringInputError, match=f"{field}: not 0 without an evacuee"):
        Evidence.from_dict(nobody | {field: 1}, what="forged")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("earliest_evacuation", "a: evacuated at step 3, below the least possible 4"),
        ("fewest_moves", "a: cells moved 3, below the least possible 4"),
        ("fewest_danger_states", "a: danger states 0, below the least possible 1"),
    ],
)
def test_an_evacuee_below_a_bound_is_named(field, message):
    scenario = scenario_of(("E..a",))
    record = run(scenario, "static-shortest-path-v1")
    (honest,) = ReferenceImplementation().privileged(scenario, [record])
    least = getattr(honest.people[0], field) + 1
    better = dataclasses.replace(honest, people=(dataclasses.replace(honest.people[0], **{field: least}),))
    with pytest.raises(ScoringInputError, match=message):
        evidence_of(scenario, record, better)


def test_an_evacuee_without_an_escape_is_named():
    scenario = scenario_of(("E..a",))
    record = run(scenario, "static-shortest-path-v1")
    (honest,) = ReferenceImplementation().privileged(scenario, [record])
    nothing = PersonReference(id="a", earliest_evacuation=None, fewest_moves=None, fewest_danger_states=None)
    with pytest.raises(ScoringInputError, match="a evacuated, and no escape exists"):
        evidence_of(scenario, record, dataclasses.replace(honest, people=(nothing,)))


CROWD = next(t for t in trials_of("c") if t["diagnostics"]["hotspot_cells"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("movement_attempts", 1),
        ("congestion_blocks", 0),
        ("contested_cell_steps", CROWD["diagnostics"]["congestion_blocks"] + 1),
        ("hotspot_cells", CROWD["diagnostics"]["contested_cell_steps"]),
        ("peak_contested_cells", 0),
        ("congestion_block_rate", 0.5),
        ("exit_throughput", 0.123456),
    ],
)
def test_forged_diagnostics_are_refused(field, value):
    evidence_read = Evidence.from_dict(CROWD["evidence"], what="vector")
    with pytest.raises(ScoringInputError, match="forged: "):
        CrowdDiagnostics.from_dict(CROWD["diagnostics"] | {field: value}, evidence_read, what="forged")


def test_crowd_diagnostics_count_cells_and_windows():
    # b waits for a's cell twice; both leave by the one exit, in steps 2 and 3
    scenario = scenario_of(("E.a", "##b"))
    crowd = CrowdDiagnostics.of(run(scenario, "static-shortest-path-v1"))
    assert (crowd.evacuations, crowd.exit_window_steps) == (2, 2)
    assert crowd.congestion_blocks == crowd.contested_cell_steps == crowd.hotspot_cells == 0
