"""The fire: one step, and the fire world of a whole horizon (contract section 4).

The fire depends on the terrain, the burning set, the step number and its own stream; never on people.
"""

import hashlib
from collections.abc import Collection, Set
from dataclasses import dataclass
from typing import Final

from ember_ref.grid import Position
from ember_ref.scenario import FireModel, Scenario
from ember_ref.stream import FIRE, Stream, threshold

NEVER: Final = 0xFFFFFFFF
"""The ignition step of a cell that does not burn by `max_steps`, and any other time that does not come."""


class Fire:
    """The fire process of a scenario: what may burn, and how it spreads."""

    __slots__ = ("_exits", "_scenario", "_threshold")

    def __init__(self, scenario: Scenario) -> None:
        """Take the rules of the fire from a scenario."""
        self._scenario = scenario
        self._exits = frozenset(exit.position for exit in scenario.exits)
        probability = scenario.fire.spread_probability
        self._threshold = 0 if probability is None else threshold(probability)

    def candidates(self, burning: Set[Position]) -> list[Position]:
        """Return the cells that can ignite next to `burning`, row-major."""
        grid = self._scenario.grid
        around = {cell for source in burning for cell in grid.neighbours(source)} - burning
        if not self._scenario.fire.exits_flammable:
            around -= self._exits
        return sorted(around)

    def ignitions(self, burning: Set[Position], step: int, stream: Stream) -> list[Position]:
        """Return the cells that ignite in a step, row-major, and consume its draws.

        Args:
            burning: the burning set of snapshot `step - 1`.
            step: the number of the step, from 1.
            stream: the fire's stream at its position before the step.
        """
        rules = self._scenario.fire
        if step % rules.spread_interval:
            return []
        candidates = self.candidates(burning)
        if rules.model is FireModel.DETERMINISTIC:
            return candidates
        return [cell for cell in candidates if self._ignites(cell, burning, stream)]

    def _ignites(self, cell: Position, burning: Collection[Position], stream: Stream) -> bool:
        # Every draw is consumed, also after a success: the position depends on the burning set alone.
        neighbours = self._scenario.grid.neighbours(cell)
        draws = [stream.bernoulli(self._threshold) for source in neighbours if source in burning]
        return any(draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class FireWorld:
    """The whole fire of one `(scenario, seed)`."""

    content_hash: str
    seed: int
    max_steps: int
    height: int
    width: int
    ignition_step: tuple[int, ...]
    """Row-major; 0 for the ignitions, `NEVER` for a cell that does not burn by `max_steps`."""
    stream_position: int
    """Words consumed after step `max_steps`."""

    def at(self, position: Position) -> int:
        """Return the ignition step of a cell."""
        return self.ignition_step[position[0] * self.width + position[1]]

    @property
    def burned(self) -> int:
        """The number of cells with an ignition step, the ignitions included."""
        return sum(step != NEVER for step in self.ignition_step)

    @property
    def digest(self) -> str:
        """The fire-world digest, hex."""
        header = (
            b"emberbench/fire-world/v1\0"
            + bytes.fromhex(self.content_hash)
            + self.seed.to_bytes(8, "big")
            + b"".join(value.to_bytes(4, "big") for value in (self.max_steps, self.height, self.width))
            + self.stream_position.to_bytes(8, "big")
        )
        cells = b"".join(step.to_bytes(4, "big") for step in self.ignition_step)
        return hashlib.sha256(header + cells).hexdigest()


def fire_world(scenario: Scenario, seed: int) -> FireWorld:
    """Run the fire of a scenario under a seed, with no people, for the whole horizon."""
    fire, stream = Fire(scenario), Stream(FIRE, seed)
    ignition_step = dict.fromkeys(scenario.fire.ignitions, 0)
    interval = scenario.fire.spread_interval
    for step in range(interval, scenario.termination.max_steps + 1, interval):
        drawn, ignited = stream.position, fire.ignitions(ignition_step.keys(), step, stream)
        if not ignited and stream.position == drawn:
            break  # no candidates, so none ever again: a long horizon costs no more than its fire
        ignition_step |= dict.fromkeys(ignited, step)
    return FireWorld(
        content_hash=scenario.content_hash,
        seed=seed,
        max_steps=scenario.termination.max_steps,
        height=scenario.grid.height,
        width=scenario.grid.width,
        ignition_step=tuple(ignition_step.get(cell, NEVER) for cell in scenario.grid.positions()),
        stream_position=stream.position,
    )
