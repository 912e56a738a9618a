"""The ties of the policies (contract section 13), on both implementations."""

import pytest

from ember_ref.scenario import scenario_from_text

GREEDY, STATIC, AWARE, CONGESTION = (
    "nearest-exit-greedy-v1",
    "static-shortest-path-v1",
    "fire-aware-shortest-path-v1",
    "congestion-aware-v1",
)


@pytest.mark.parametrize("policy", [GREEDY, STATIC, AWARE, CONGESTION])
@pytest.mark.parametrize(
    ("rows", "action"),
    [
        ([".E", "P."], "north"),  # before east
        ([".P", "E."], "south"),  # before west
        (["P.", ".E"], "south"),  # before east
        (["E.", ".P"], "north"),  # before west
    ],
)
def test_ties_go_to_the_earlier_action(backend, policy, rows, action):
    record = backend.run(scenario_from_text(rows, id="tie", max_steps=3), 0, policy)
    assert record.steps[0].actions == {"P1": action}


@pytest.mark.parametrize(
    ("policy", "action"), [(GREEDY, "west"), (STATIC, "east"), (AWARE, "east"), (CONGESTION, "west")]
)
def test_exits_at_one_distance(backend, policy, action):
    # Greedy and congestion-aware choose the exit of the lower ID, the others the earlier action.
    record = backend.run(scenario_from_text(["E.P.E"], id="tie", max_steps=2), 0, policy)
    assert record.steps[0].actions == {"P1": action}


@pytest.mark.parametrize("policy", [STATIC, AWARE])
def test_the_whole_way_follows_the_action_order(backend, policy):
    record = backend.run(scenario_from_text(["P...", "....", "...E"], id="way", max_steps=9), 0, policy)
    assert [str(step.actions["P1"]) for step in record.steps] == ["south", "south", "east", "east", "east"]
