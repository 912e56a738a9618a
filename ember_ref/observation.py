"""Observation 1.0: all that a decision model ever sees (contract section 6, fairness sections 1 and 4).

The classes hold copies of public values only. No field leads to the scenario, the simulator, a seed, a stream
or the trapped set.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ember_ref.grid import ACTIONS, Action, Position
from ember_ref.scenario import ConflictResolution, EnterFire, ExitSpec, FireModel, Scenario

OBSERVATION_VERSION: Final = "1.0"


class PersonStatus(StrEnum):
    """Where a person stands: still inside, out, or lost."""

    ACTIVE = "active"
    EVACUATED = "evacuated"
    CASUALTY = "casualty"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonState:
    """A person in a snapshot; a resolved person keeps the cell of its resolution."""

    id: str
    position: Position
    status: PersonStatus

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"id": self.id, "position": list(self.position), "status": str(self.status)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MapView:
    """The static map: obstacles row-major, exits by ID."""

    width: int
    height: int
    obstacles: tuple[Position, ...]
    exits: tuple[ExitSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesView:
    """Every rule that a scenario can vary and that matters to a decision."""

    fire_model: FireModel
    spread_interval: int
    spread_probability: float | None
    exits_flammable: bool
    enter_fire: EnterFire
    conflict_resolution: ConflictResolution
    max_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The current state and the rules.

    Attributes:
        step: the number of completed steps.
        map: the static map.
        rules: the rules of this episode.
        people: every person, by ID.
        burning: every burning cell now.
        allowed_actions: the five actions; any active person may submit any of them in any step.
    """

    step: int
    map: MapView
    rules: RulesView
    people: tuple[PersonState, ...]
    burning: frozenset[Position]
    allowed_actions: tuple[Action, ...] = ACTIONS

    @property
    def active(self) -> list[PersonState]:
        """The people who need an action, by ID."""
        return [person for person in self.people if person.status is PersonStatus.ACTIVE]

    def to_dict(self) -> dict[str, Any]:
        """Return the serialised form, with `observation_version`."""
        return {
            "observation_version": OBSERVATION_VERSION,
            "step": self.step,
            "map": {
                "width": self.map.width,
                "height": self.map.height,
                "obstacles": [list(cell) for cell in self.map.obstacles],
                "exits": [{"id": exit.id, "position": list(exit.position)} for exit in self.map.exits],
            },
            "rules": {
                "fire_model": str(self.rules.fire_model),
                "spread_interval": self.rules.spread_interval,
                "spread_probability": self.rules.spread_probability,
                "exits_flammable": self.rules.exits_flammable,
                "enter_fire": str(self.rules.enter_fire),
                "conflict_resolution": str(self.rules.conflict_resolution),
                "max_steps": self.rules.max_steps,
            },
            "people": [person.to_dict() for person in self.people],
            "burning": [list(cell) for cell in sorted(self.burning)],
            "allowed_actions": [str(action) for action in self.allowed_actions],
        }


def map_view(scenario: Scenario) -> MapView:
    """Copy the public map of a scenario."""
    return MapView(
        width=scenario.grid.width,
        height=scenario.grid.height,
        obstacles=tuple(sorted(scenario.grid.obstacles)),
        exits=tuple(ExitSpec(id=exit.id, position=exit.position) for exit in scenario.exits),
    )


def rules_view(scenario: Scenario) -> RulesView:
    """Copy the public rules of a scenario."""
    return RulesView(
        fire_model=scenario.fire.model,
        spread_interval=scenario.fire.spread_interval,
        spread_probability=scenario.fire.spread_probability,
        exits_flammable=scenario.fire.exits_flammable,
        enter_fire=scenario.movement.enter_fire,
        conflict_resolution=scenario.movement.conflict_resolution,
        max_steps=scenario.termination.max_steps,
    )
