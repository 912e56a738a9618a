"""R1 to R10 of the fairness document, a test a sentence, on both implementations."""

import itertools
from dataclasses import replace

import pytest
from backends import causes, outcomes, play, statuses

from ember_ref.record import ActionLog
from ember_ref.scenario import PersonSpec, scenario_from_text

# R1. Collision tie-break: the lowest person ID wins.


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        (["P.P", "..E"], "ew"),
        (["P..", ".P.", "E.."], "en"),
    ],
)
def test_r1_two_movers_to_one_cell_the_lower_id_wins(backend, rows, step):
    assert outcomes(play(backend, rows, step)) == {"P1": "moved", "P2": "blocked_conflict"}


def test_r1_ids_compare_as_text(backend):
    # Ten people are P01 to P10 on a text map, so the IDs are set by hand: P2 and P10 want one cell.
    drawn = scenario_from_text(["P.P", "..E"], id="text", max_steps=1)
    people = (PersonSpec(id="P2", position=(0, 0)), PersonSpec(id="P10", position=(0, 2)))
    scenario = replace(drawn, people=people)
    log = ActionLog(scenario_hash=scenario.content_hash, seed=0, actions=({"P2": "east", "P10": "west"},))
    assert outcomes(backend.script(scenario, 0, log)) == {"P10": "moved", "P2": "blocked_conflict"}


def test_r1_four_movers_to_one_cell_one_winner(backend):
    record = play(backend, [".P.E", "P.P.", ".P.."], "sewn")
    assert outcomes(record) == {
        "P1": "moved",
        "P2": "blocked_conflict",
        "P3": "blocked_conflict",
        "P4": "blocked_conflict",
    }


def test_r1_a_loser_is_not_re_awarded_the_cell_if_the_winner_fails_later(backend):
    # P1 and P3 want P2's cell; P1 wins and fails, as P2 stays. P3 does not inherit anything.
    record = play(backend, ["PPP", "..E"], "e-w")
    assert outcomes(record) == {"P1": "blocked_occupied", "P2": "stayed", "P3": "blocked_conflict"}


def test_r1_a_mover_refused_before_takes_no_part(backend):
    # P1 points at a wall, so P2 is alone in wanting the free cell.
    record = play(backend, ["#P.", "P.E"], "we")
    assert outcomes(record) == {"P1": "blocked_wall", "P2": "moved"}
    record = play(backend, ["#PP", "..E"], "ww")
    assert outcomes(record) == {"P1": "blocked_wall", "P2": "blocked_occupied"}


# R2. Swaps are blocked.


def test_r2_two_people_who_exchange_cells_both_stay(backend):
    assert outcomes(play(backend, ["PPE"], "ew")) == {"P1": "blocked_cycle", "P2": "blocked_cycle"}


# R3. Rotations are blocked.


def test_r3_four_people_in_a_square_do_not_rotate(backend):
    record = play(backend, ["PP.", "PPE"], "esnw")
    assert set(outcomes(record).values()) == {"blocked_cycle"}


def test_r3_a_ring_of_eight_does_not_rotate(backend):
    record = play(backend, ["PPP.", "P#PE", "PPP."], "eesnsnww")
    assert set(outcomes(record).values()) == {"blocked_cycle"}


def test_r3_a_ring_with_a_hole_follows(backend):
    record = play(backend, ["PPP.", "P#PE", "PP.."], "eesnsnw")
    assert set(outcomes(record).values()) == {"moved"}


def test_r3_an_outside_mover_with_a_lower_id_breaks_the_rotation(backend):
    # P1 from outside and P3 of the ring want P2's cell; P1 wins, P3 stays, and the ring resolves as occupied.
    record = play(backend, [".P..", "EPP.", ".PP."], "sesnw")
    assert outcomes(record) == {
        "P1": "blocked_occupied",
        "P2": "blocked_occupied",
        "P3": "blocked_occupied",
        "P4": "blocked_conflict",
        "P5": "blocked_occupied",
    }


def test_r3_open_chains_follow_in_one_step(backend):
    assert set(outcomes(play(backend, ["PPP.E"], "eee")).values()) == {"moved"}


def test_r3_nobody_moves_behind_somebody_who_cannot_leave(backend):
    record = play(backend, ["PPP#E"], "eee")
    assert outcomes(record) == {"P1": "blocked_occupied", "P2": "blocked_occupied", "P3": "blocked_wall"}


def test_r3_a_chain_of_500_moves_as_one_or_not_at_all(backend):
    record = play(backend, ["P" * 500 + "E"], "e" * 500)
    assert set(outcomes(record).values()) == {"moved"}
    record = play(backend, ["P" * 500 + "#E"], "e" * 500)
    assert list(outcomes(record).values()) == ["blocked_occupied"] * 499 + ["blocked_wall"]


def test_r3_a_chain_behind_a_conflict_loser_stays(backend):
    record = play(backend, [".P..", "PP.E", "..P."], "ee-n")
    assert outcomes(record)["P1"] == "moved"
    record = play(backend, ["..P.", "PP.E"], "see")
    assert outcomes(record) == {"P1": "moved", "P2": "blocked_occupied", "P3": "blocked_conflict"}


# R4. Exit throughput: one person per exit cell per step.


def test_r4_one_person_an_exit_cell_a_step(backend):
    record = play(backend, ["P.", "E.", "P."], "sn", ".n")
    assert outcomes(record) == {"P1": "moved", "P2": "blocked_conflict"}
    assert [[e.person_id for e in step.evacuations] for step in record.steps] == [["P1"], ["P2"]]


def test_r4_a_queue_leaves_without_gaps(backend):
    record = play(backend, ["PPPE"], "eee", "ee.", "e..")
    assert [[e.person_id for e in step.evacuations] for step in record.steps] == [["P3"], ["P2"], ["P1"]]


def test_r4_two_adjacent_exits_pass_two_people_a_step(backend):
    record = play(backend, ["PE", "PE"], "ee")
    assert [(e.person_id, e.exit_id) for e in record.steps[0].evacuations] == [("P1", "E1"), ("P2", "E2")]


# R5. Burning exits are unusable.


def test_r5_a_burning_exit_evacuates_nobody(backend):
    record = play(backend, ["PX.E"], "e", exits_flammable=True)
    assert statuses(record) == {"P1": "casualty"}
    assert causes(record) == {"P1": "entered_fire"}


def test_r5_a_move_onto_a_burning_exit_is_refused_when_blocked(backend):
    record = play(backend, ["PX..E"], "e", exits_flammable=True, enter_fire="blocked", spread_interval=2)
    assert outcomes(record) == {"P1": "blocked_fire"}
    assert statuses(record) == {"P1": "active"}


def test_r5_evacuated_in_the_step_in_which_the_fire_reaches_the_exit(backend):
    record = play(backend, ["PE*"], "e", exits_flammable=True)
    assert statuses(record) == {"P1": "evacuated"}
    assert record.steps[0].ignitions == ((0, 1),)


def test_r5_an_exit_burns_only_when_exits_are_flammable(backend):
    assert backend.fire(play_scenario(["P.E*"], exits_flammable=False), 0).burned == 1
    assert backend.fire(play_scenario(["P.E*"], exits_flammable=True), 0).burned == 4


# R6. enter_fire.


def test_r6_a_move_into_fire_is_refused_when_blocked(backend):
    record = play(backend, ["P*", "E."], "e", enter_fire="blocked", spread_interval=9)
    assert outcomes(record) == {"P1": "blocked_fire"}
    assert statuses(record) == {"P1": "active"}


def test_r6_a_move_into_fire_is_a_casualty_by_default(backend):
    record = play(backend, ["P*", "E."], "e", spread_interval=9)
    assert outcomes(record) == {"P1": "moved"}
    assert causes(record) == {"P1": "entered_fire"}


# R7. Ignition timing.


def test_r7_ignitions_burn_at_step_0(backend):
    assert play(backend, ["P.*E"], "-", spread_interval=9).initial_state.burning == ((0, 2),)


def test_r7_spread_happens_only_in_multiples_of_the_interval(backend):
    record = play(backend, ["P...*E"], *["-"] * 6, spread_interval=3)
    assert [step.step for step in record.steps if step.ignitions] == [3, 6]


def test_r7_who_leaves_a_cell_that_ignites_in_this_step_survives(backend):
    assert statuses(play(backend, ["#P*", "..E"], "s")) == {"P1": "active"}


def test_r7_who_stays_on_it_is_lost_to_the_spread(backend):
    record = play(backend, ["#P*", "..E"], "-")
    assert causes(record) == {"P1": "fire_spread"}


def test_r7_who_moves_onto_a_cell_that_ignites_in_this_step_is_lost_to_the_spread(backend):
    record = play(backend, ["P.*E"], "e")
    assert outcomes(record) == {"P1": "moved"}
    assert causes(record) == {"P1": "fire_spread"}


def test_r7_cells_that_ignite_are_in_the_snapshot_of_the_step(backend):
    record = play(backend, ["P..*E"], "-")
    assert record.steps[0].state.burning == ((0, 2), (0, 3))


# R8. No burn-out.


def test_r8_the_burning_set_never_shrinks(backend):
    record = play(backend, ["P....*E"], *["-"] * 5, seed=3, model="stochastic", spread_probability=0.5)
    sets = [set(step.state.burning) for step in record.steps]
    assert all(before <= after for before, after in itertools.pairwise(sets))


# R9. Trapped.


def test_r9_trapped_at_step_0_and_when_the_way_burns(backend):
    record = play(backend, ["P#.E", "....", "..*P"], "--", spread_interval=1)
    assert record.initial_state.trapped == ()
    assert play(backend, ["P#E", "##P"], "--").initial_state.trapped == ("P1",)
    assert play(backend, ["P*.E"], "-", spread_interval=9).initial_state.trapped == ("P1",)


def test_r9_other_people_and_walls_of_people_do_not_trap(backend):
    assert play(backend, ["PPPE"], "---").initial_state.trapped == ()


def test_r9_a_burning_exit_traps(backend):
    record = play(backend, ["PE*"], "-", exits_flammable=True)
    assert record.steps[0].state.trapped == ("P1",)


def test_r9_only_active_people_are_trapped(backend):
    record = play(backend, ["P*.E"], "e", spread_interval=9)
    assert record.final_state.trapped == ()


def test_r9_trapped_does_not_end_the_run(backend):
    record = play(backend, ["P#E"], "-", "-", "-")
    assert len(record.steps) == 3


# R10. Termination precedence.


def test_r10_all_resolved_wins_on_the_last_step(backend):
    record = play(backend, ["P.E"], "e", "e")
    assert (len(record.steps), str(record.final_state.termination_reason)) == (2, "all_resolved")


def test_r10_max_steps_when_somebody_is_active(backend):
    record = play(backend, ["P..E"], "e", "e")
    assert str(record.final_state.termination_reason) == "max_steps"


def test_r10_the_run_ends_as_soon_as_nobody_is_active(backend):
    record = play(backend, ["P.E"], "e", "e", "e", "e")
    assert len(record.steps) == 2


def test_r10_a_corridor_of_length_d_needs_a_horizon_of_d(backend):
    for length in (1, 2, 5):
        rows = ["P" + "." * (length - 1) + "E"]
        assert statuses(play(backend, rows, *["e"] * length)) == {"P1": "evacuated"}
        if length > 1:
            assert statuses(play(backend, rows, *["e"] * (length - 1))) == {"P1": "active"}


# Phases of a step.


def test_boundary_and_wall_refusals_and_their_targets(backend):
    record = play(backend, ["P#", "E."], "n")
    assert record.steps[0].movements[0].target == (-1, 0)
    assert outcomes(record) == {"P1": "blocked_boundary"}
    assert outcomes(play(backend, ["P#", "E."], "e")) == {"P1": "blocked_wall"}


def test_each_person_has_one_outcome_and_head_count_is_constant(backend):
    record = play(backend, ["PP*E", "PP..", "E..P"], "eeewn", *["-----"] * 0)
    events = [e.person_id for step in record.steps for e in step.evacuations]
    events += [c.person_id for step in record.steps for c in step.casualties]
    assert len(events) == len(set(events))
    assert len(record.final_state.people) == 5


def play_scenario(rows, **rules):
    return scenario_from_text(rows, id="fire", max_steps=9, **rules)
