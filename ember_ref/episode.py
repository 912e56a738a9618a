"""Running one episode: the only place where a policy meets the simulator (fairness section 1.2)."""

from ember_ref.policies import Policy
from ember_ref.record import RunRecord
from ember_ref.scenario import Scenario
from ember_ref.simulator import Simulator


def run_episode(scenario: Scenario, seed: int, policy: Policy) -> RunRecord:
    """Run a policy to the end of an episode. The policy receives observations and nothing else.

    Raises:
        SimulationError: when the policy's actions are refused.
    """
    simulator = Simulator(scenario, seed)
    policy.reset()
    while not simulator.state.terminated:
        simulator.step(policy.act(simulator.observe()))
    return RunRecord.of(simulator)
