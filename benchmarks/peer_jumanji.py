"""Environment steps per second of Jumanji's Cleaner and Connector; run by `benchmarks.peers` in its own environment.

Prints one JSON line a round. Steps are batched with `vmap` and jitted, `STEPS` of them in a scan, with random
actions that are drawn beforehand. Episodes that have ended are stepped on, not started again: a reset generates a
map, which is not what is measured here.
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import jumanji
from jumanji.environments import Cleaner, Connector
from jumanji.environments.routing.cleaner.generator import RandomGenerator
from jumanji.environments.routing.connector.generator import UniformRandomGenerator

STEPS = 32
SIDE = 20
AGENTS = 20


def environments() -> dict[str, tuple[object, int]]:
    """Return the environments and how many actions an agent has."""
    cleaner = Cleaner(generator=RandomGenerator(num_rows=SIDE, num_cols=SIDE, num_agents=AGENTS))
    connector = Connector(generator=UniformRandomGenerator(grid_size=SIDE, num_agents=AGENTS))
    return {"Cleaner": (cleaner, 4), "Connector": (connector, 5)}


def main() -> None:
    """Measure every environment at several batch sizes."""
    rounds, seconds = int(sys.argv[1]), float(sys.argv[2])
    for name, (environment, choices) in environments().items():
        for lanes in (64, 256, 1024):
            keys = jax.random.split(jax.random.key(0), lanes)
            state, _ = jax.jit(jax.vmap(environment.reset))(keys)
            actions = jax.random.randint(jax.random.key(1), (STEPS, lanes, AGENTS), 0, choices, dtype=jnp.int32)

            @jax.jit
            def run(state, actions, environment=environment):  # noqa: ANN001, ANN202
                def one(state, action):  # noqa: ANN001, ANN202
                    state, timestep = jax.vmap(environment.step)(state, action)
                    return state, (timestep.reward.sum(), timestep.discount.sum())

                return jax.lax.scan(one, state, actions)

            begin = time.monotonic()
            jax.block_until_ready(run(state, actions))
            compile_seconds = time.monotonic() - begin
            for _ in range(rounds):
                calls, begin, cpu = 0, time.monotonic(), time.process_time()
                while time.monotonic() - begin < seconds:
                    jax.block_until_ready(run(state, actions))
                    calls += 1
                wall, cpu = time.monotonic() - begin, time.process_time() - cpu
                line = {
                    "peer": f"Jumanji {name}",
                    "version": jumanji.__version__,
                    "lanes": lanes,
                    "steps": calls * STEPS * lanes,
                    "wall": wall,
                    "cpu": cpu,
                    "compile_seconds": compile_seconds,
                }
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
