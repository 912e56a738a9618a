"""Digests frozen under their versions: a change of any byte must come with a new version (docs/versions.md)."""

import json
import pathlib

import pytest

from ember_ref.canonical import digest
from ember_ref.episode import run_episode
from ember_ref.fire import fire_world
from ember_ref.observation import OBSERVATION_VERSION
from ember_ref.policies import make_policy
from ember_ref.scenario import SCHEMA_VERSION, load_scenario
from ember_ref.simulator import SIMULATOR_VERSION, Simulator

FOLDER = pathlib.Path(__file__).parent
VECTORS = FOLDER.parent / "vectors" / "scenarios"
GOLDEN = json.loads((FOLDER / "digests.json").read_text())
SCENARIOS = ["gen-101-0001", "gen-101-0006", "gen-102-0002", "doors-11", "events-11"]


def computed(name):
    """Return the digests of one scenario as the running code makes them."""
    scenario = load_scenario(VECTORS / f"{name}.json")
    simulator = Simulator(scenario, 3)
    return {
        "content_hash": scenario.content_hash,
        "observation": digest(simulator.observe().to_dict()),
        "fire_world": fire_world(scenario, 3).digest,
        "records": {
            policy: run_episode(scenario, 3, make_policy(policy)).record_digest
            for policy in ("random-legal-v1", "congestion-aware-v1")
        },
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_digests_change_only_with_their_version(name):
    found, golden = computed(name), GOLDEN["scenarios"][name]
    for key, version, running in (
        ("content_hash", "scenario schema", SCHEMA_VERSION),
        ("observation", "observation", OBSERVATION_VERSION),
        ("fire_world", "simulator", SIMULATOR_VERSION),
        ("records", "simulator", SIMULATOR_VERSION),
    ):
        frozen = GOLDEN["versions"][version]
        assert running == frozen, f"the {version} version is {running}: freeze new digests for it"
        assert found[key] == golden[key], f"{key} of {name} changed: bump the {version} version from {frozen}"


if __name__ == "__main__":
    versions = {
        "scenario schema": SCHEMA_VERSION,
        "observation": OBSERVATION_VERSION,
        "simulator": SIMULATOR_VERSION,
    }
    document = {"versions": versions, "scenarios": {name: computed(name) for name in SCENARIOS}}
    (FOLDER / "digests.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
