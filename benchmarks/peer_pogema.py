"""Environment steps per second of POGEMA; run by `benchmarks.peers` in its own environment.

Prints one JSON line a round. POGEMA steps one environment at a time in Python; its actions are random and drawn
beforehand, and its episodes do not end within a round.
"""

import json
import sys
import time
from importlib import metadata

import numpy as np
from pogema import GridConfig, pogema_v0

SIDE = 20
AGENTS = 20
DENSITY = 0.18


def main() -> None:
    """Measure."""
    rounds, seconds = int(sys.argv[1]), float(sys.argv[2])
    config = GridConfig(
        num_agents=AGENTS, size=SIDE, density=DENSITY, seed=1, max_episode_steps=10**9, on_target="restart"
    )
    environment = pogema_v0(grid_config=config)
    actions = np.random.Generator(np.random.PCG64(7)).integers(0, 5, size=(32, AGENTS)).tolist()
    begin = time.monotonic()
    environment.reset()
    environment.step(actions[0])
    first = time.monotonic() - begin
    for _ in range(rounds):
        steps, begin, cpu = 0, time.monotonic(), time.process_time()
        while time.monotonic() - begin < seconds:
            for action in actions:
                environment.step(action)
            steps += len(actions)
        wall, cpu = time.monotonic() - begin, time.process_time() - cpu
        line = {
            "peer": "POGEMA",
            "version": metadata.version("pogema"),
            "lanes": 1,
            "steps": steps,
            "wall": wall,
            "cpu": cpu,
            "compile_seconds": first,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
