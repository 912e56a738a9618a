"""The public movement resolver: phases 2 to 5 of a step (contract section 5, R1 to R3, R6).

It is pure, and all that it reads is in an observation, so that anyone can run it ahead of a decision.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ember_ref.grid import Action, Grid, Position, target_of
from ember_ref.scenario import EnterFire


class MoveOutcome(StrEnum):
    """What became of one person's action in one step."""

    STAYED = "stayed"
    MOVED = "moved"
    BLOCKED_BOUNDARY = "blocked_boundary"
    BLOCKED_WALL = "blocked_wall"
    BLOCKED_FIRE = "blocked_fire"
    BLOCKED_OCCUPIED = "blocked_occupied"
    BLOCKED_CONFLICT = "blocked_conflict"
    BLOCKED_CYCLE = "blocked_cycle"


CONGESTION_BLOCKS: Final = frozenset(
    {MoveOutcome.BLOCKED_OCCUPIED, MoveOutcome.BLOCKED_CONFLICT, MoveOutcome.BLOCKED_CYCLE}
)
"""The outcomes in which other people are the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """One person's action and its outcome; `target` is the cell pointed at, out of bounds included."""

    person_id: str
    action: Action
    origin: Position
    target: Position
    outcome: MoveOutcome

    @property
    def destination(self) -> Position:
        """The cell that the person holds after the movement."""
        return self.target if self.outcome is MoveOutcome.MOVED else self.origin


def resolve(
    *,
    grid: Grid,
    burning: Set[Position],
    enter_fire: EnterFire,
    positions: Mapping[str, Position],
    actions: Mapping[str, Action],
) -> tuple[Movement, ...]:
    """Resolve one action of every active person. Words may be plain strings.

    Args:
        grid: the terrain.
        burning: the burning set before the step.
        enter_fire: what a move into a burning cell does.
        positions: the cell of every active person.
        actions: the action of the same people.

    Returns:
        The movements in ID order.
    """
    targets = {person: target_of(positions[person], actions[person]) for person in sorted(positions)}
    outcomes: dict[str, MoveOutcome] = {}
    movers: list[str] = []
    for person, target in targets.items():
        if actions[person] == Action.STAY:
            outcomes[person] = MoveOutcome.STAYED
        elif not grid.contains(target):
            outcomes[person] = MoveOutcome.BLOCKED_BOUNDARY
        elif target in grid.obstacles:
            outcomes[person] = MoveOutcome.BLOCKED_WALL
        elif enter_fire == EnterFire.BLOCKED and target in burning:
            outcomes[person] = MoveOutcome.BLOCKED_FIRE
        else:
            movers.append(person)

    winner: dict[Position, str] = {}
    for person in movers:  # in ID order, so the first claim of a cell is the lowest ID's
        if winner.setdefault(targets[person], person) != person:
            outcomes[person] = MoveOutcome.BLOCKED_CONFLICT
    holder = {position: person for person, position in positions.items()}
    for person in movers:
        if person not in outcomes:
            _follow(person, targets, holder, outcomes)

    return tuple(
        Movement(
            person_id=person,
            action=Action(actions[person]),
            origin=positions[person],
            target=target,
            outcome=outcomes[person],
        )
        for person, target in targets.items()
    )


def _follow(
    person: str,
    targets: Mapping[str, Position],
    holder: Mapping[Position, str],
    outcomes: dict[str, MoveOutcome],
) -> None:
    """Decide a mover and everyone ahead in its chain of movers, by following it to its end.

    Each cell has one winner, so a chain never joins another: it ends at a cell without an active person, at
    somebody already decided, or closes on its first member.
    """
    chain = [person]
    while True:
        ahead = holder.get(targets[chain[-1]])
        if ahead is None:
            outcome = MoveOutcome.MOVED
        elif ahead == person:
            outcome = MoveOutcome.BLOCKED_CYCLE
        elif ahead not in outcomes:
            chain.append(ahead)
            continue
        elif outcomes[ahead] is MoveOutcome.MOVED:
            outcome = MoveOutcome.MOVED
        else:
            outcome = MoveOutcome.BLOCKED_OCCUPIED
        outcomes.update(dict.fromkeys(chain, outcome))
        return
