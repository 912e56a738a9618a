"""Ways that grew, window by window, against distances snapshot by snapshot."""

import jax
import numpy as np
from strategies import random_scenario

from ember_jax.routes import WINDOW, longer_ways
from ember_jax.world import WorldSize, world_from_scenario
from ember_ref.fire import NEVER, fire_world

SIZE = WorldSize(rows=12, cols=12, people=16, exits=8)


def test_bits_say_where_the_distance_grew():
    grew_somewhere, compiled = 0, jax.jit(longer_ways)
    for number in range(240):
        scenario = random_scenario(number, max_side=12, max_steps=80)
        world, fire = world_from_scenario(scenario, size=SIZE), fire_world(scenario, number)
        steps = np.full((SIZE.rows, SIZE.cols), NEVER, dtype=np.uint32)
        shape = scenario.grid.height, scenario.grid.width
        steps[: shape[0], : shape[1]] = np.array(fire.ignition_step, dtype=np.uint32).reshape(shape)
        exits = [exit.position for exit in scenario.exits]

        def distances(t, *, fire=fire, scenario=scenario, exits=exits):
            burning = {cell for cell in scenario.grid.positions() if fire.at(cell) <= t}
            return burning, scenario.grid.distances(exits, avoid=burning)

        horizon = scenario.termination.max_steps
        for first in range(0, horizon + 1, WINDOW):
            words = np.asarray(compiled(world, steps, np.asarray(first, dtype=np.int32)))
            for t in range(max(1, first), min(horizon, first + WINDOW - 1) + 1):
                (_, before), (burning, after) = distances(t - 1), distances(t)
                for cell in set(scenario.grid.positions()) - burning:
                    expected = cell in before and (cell not in after or after[cell] > before[cell])
                    assert bool(words[cell] >> (t - first) & 1) == expected, (number, t, cell)
                    grew_somewhere += expected
    assert grew_somewhere > 1000
