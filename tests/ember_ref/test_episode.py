import pytest
from strategies import random_scenario

from ember_ref.episode import episode_digests, run_episode, world_digest
from ember_ref.errors import SimulationError
from ember_ref.fire import fire_world
from ember_ref.grid import Action
from ember_ref.observation import Observation
from ember_ref.policies import make_policy
from ember_ref.scenario import scenario_from_text

SCENARIO = scenario_from_text(["P..E", ".*..", "P..."], id="episode", max_steps=6, seed=9)


class Recorder:
    """A policy that keeps all that it is given."""

    name = "recorder"

    def __init__(self):
        self.seen = []

    def reset(self):
        self.seen.append("reset")

    def act(self, *given):
        self.seen += given
        return {person.id: Action.STAY for person in given[0].active}


def test_a_policy_is_reset_once_and_given_observations_only():
    policy = Recorder()
    record = run_episode(SCENARIO, 4, policy)
    assert policy.seen[0] == "reset"
    assert [type(item) for item in policy.seen[1:]] == [Observation] * len(record.steps)
    assert [item.step for item in policy.seen[1:]] == list(range(len(record.steps)))


def test_the_last_step_is_the_horizon_or_the_last_resolution():
    scenario = scenario_from_text(["P..E"], id="walk", max_steps=9)
    for policy, steps in (("static-shortest-path-v1", 3), ("always-stay-v1", 9)):
        record = run_episode(scenario, 0, make_policy(policy))
        assert [step.step for step in record.steps] == list(range(1, steps + 1))
        assert record.final_state == record.steps[-1].state


def test_refused_actions_end_the_episode_with_an_error():
    class Silent(Recorder):
        def act(self, *given):
            return dict.fromkeys(given[1:])

    with pytest.raises(
        SimulationError, match="step 1: no action for active person P1; no action for active person P2"
    ):
        run_episode(SCENARIO, 4, Silent())


@pytest.mark.parametrize("number", range(5))
def test_the_digests_for_workers_are_those_of_the_record_and_the_world(number):
    scenario = random_scenario(number)
    record = run_episode(scenario, 3, make_policy("random-legal-v1", 8))
    assert episode_digests(scenario, 3, "random-legal-v1", 8) == (record.record_digest, record.trajectory_digest)
    assert world_digest(scenario, 3) == fire_world(scenario, 3).digest
