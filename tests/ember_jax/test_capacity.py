"""Cut groups, first arrivals and list schedules, each against a separate way to get them."""

import jax
import jax.numpy as jnp
import numpy as np
from strategies import random_scenario

from ember_jax.capacity import cut_groups, exit_bound, first_arrivals
from ember_jax.world import WorldSize, world_from_scenario
from ember_ref import capacity as oracle
from ember_ref.fire import NEVER, fire_world
from ember_ref.references import EarliestTable
from ember_ref.scenario import scenario_from_text

SIZE = WorldSize(rows=12, cols=12, people=40, exits=8)


def people_of(scenario):
    return [person.position for person in scenario.people]


def test_groups_with_people_are_those_of_the_oracle():
    compared = 0
    for number in range(200):
        scenario = random_scenario(number, max_side=12)
        people = people_of(scenario)
        found = cut_groups(scenario, SIZE)
        expected = {
            (d, frozenset(group.cut), frozenset(i for i, cell in enumerate(people) if cell in group.cells))
            for d, groups in enumerate(oracle.cut_groups(scenario), start=1)
            for group in groups
            if any(cell in group.cells for cell in people)
        }
        got = set()
        for index in range(found.cell.shape[0]):
            for leader in set(found.person_group[:, index].tolist()) - {-1}:
                members = np.flatnonzero(found.person_group[:, index] == leader).tolist()
                assert leader == min(members)
                cells = found.cell[index][found.cell_group[index] == leader].tolist()
                got.add((index + 1, frozenset(divmod(cell, SIZE.cols) for cell in cells), frozenset(members)))
        assert got == expected, number
        compared += len(expected)
    assert compared > 300


def test_first_arrivals_are_those_of_a_search_person_by_person():
    compared = 0
    arrivals = jax.jit(first_arrivals)
    for number in range(60):
        scenario = random_scenario(number, max_side=12)
        world, groups = world_from_scenario(scenario, size=SIZE), cut_groups(scenario, SIZE)
        fire = fire_world(scenario, number)
        steps = np.full((SIZE.rows, SIZE.cols), NEVER, dtype=np.uint32)
        shape = scenario.grid.height, scenario.grid.width
        steps[: shape[0], : shape[1]] = np.array(fire.ignition_step, dtype=np.uint32).reshape(shape)
        found = np.asarray(arrivals(world, steps, groups))
        exits = {exit.position for exit in scenario.exits}
        for person, start in enumerate(people_of(scenario)):
            # Whoever may wait as well as walk: every cell at every step.
            reached, here = {}, {start}
            for step in range(scenario.termination.max_steps + 1):
                for cell in here:
                    reached.setdefault(cell, step)
                around = here.union(*(scenario.grid.neighbours(cell) for cell in here)) if here else here
                here = {cell for cell in around if cell not in exits and fire.at(cell) > step + 1}
            for index, place in zip(*np.nonzero(groups.cell_group >= 0), strict=True):
                mine = groups.cell_group[index, place] == groups.person_group[person, index]
                cell = divmod(int(groups.cell[index, place]), SIZE.cols)
                expected = reached.get(cell, NEVER) if mine else NEVER
                assert found[person, index, place] == expected, (number, person, cell)
                compared += int(expected != NEVER)
    assert compared > 500


def test_the_exit_bound_is_the_list_schedule_of_the_oracle():
    """Up to 40 people at up to three exits, some of which burn; also with nobody, and with people left out."""
    dice = np.random.default_rng(5)
    bound = jax.jit(exit_bound)
    rows = ["P" * 10] * 4 + ["." * 10, "E..E..E..."]
    scenario = scenario_from_text(rows, id="queue", max_steps=60)
    world = world_from_scenario(scenario, size=SIZE)
    for _ in range(60):
        burns = dice.integers(1, 70, size=3)
        burns[0] = NEVER  # so that everybody gets out
        steps = np.full((SIZE.rows, SIZE.cols), NEVER, dtype=np.uint32)
        for exit, step in zip(scenario.exits, burns, strict=True):
            steps[exit.position] = step
        soonest = dice.integers(1, 18, size=40).astype(np.uint32)
        evacuated = dice.random(40) < dice.random()
        expected = oracle.list_schedule(
            soonest[evacuated].tolist(), lambda step, burns=burns: int(np.sum(burns > step - 1)), 60
        )
        assert int(bound(world, jnp.asarray(steps), soonest, evacuated)) == expected


def test_a_group_of_people_behind_two_doors_shares_them():
    # Both halves of the room end at the same two doors: one group, two cut cells, two people a step.
    scenario = scenario_from_text(["PP.PP", "##.##", "E...E"], id="doors", max_steps=30)
    groups = cut_groups(scenario, SIZE)
    expected = oracle.cut_groups(scenario)
    assert [len(found) for found in expected][:2] == [1, 1]
    assert set(groups.person_group[:4, 1].tolist()) == {0}
    fire = fire_world(scenario, 0)
    bounds = oracle.capacity_bounds(scenario, fire, EarliestTable(scenario, fire), ["P1", "P2", "P3", "P4"])
    assert bounds.exit_bound <= bounds.time_bound
