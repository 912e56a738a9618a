"""Running one episode: the only place where a policy meets the simulator (fairness section 1.2)."""

from ember_ref.fire import fire_world
from ember_ref.policies import Policy, make_policy
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


def episode_digests(scenario: Scenario, seed: int, policy: str, policy_seed: int = 0) -> tuple[str, str]:
    """Return the record and trajectory digests of a named policy's episode, for a worker process."""
    record = run_episode(scenario, seed, make_policy(policy, policy_seed))
    return record.record_digest, record.trajectory_digest


def world_digest(scenario: Scenario, seed: int) -> str:
    """Return the digest of a fire world, for a worker process."""
    return fire_world(scenario, seed).digest
