"""Setting up a scenario on a site: exits, fire, people, and the numbers of the rules."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ember_ref.grid import Grid, Position
from ember_ref.scenario import (
    MAX_PEOPLE,
    ExitSpec,
    FireModel,
    FireSpec,
    MovementSpec,
    PersonSpec,
    Scenario,
    TerminationSpec,
    numbered,
)
from scenarios.procedural.draws import Draws
from scenarios.procedural.families import Family
from scenarios.procedural.site import Site


class Size(StrEnum):
    """How large the buildings are; each shares compilations."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class Difficulty(StrEnum):
    """How fast the fire spreads and how near to people it starts."""

    EASY = "easy"
    NORMAL = "normal"
    HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The least and the most of what a size has."""

    heights: tuple[int, int]
    widths: tuple[int, int]
    people: Mapping[str, tuple[int, int]]
    """By crowd."""
    crowded_heights: tuple[int, int]
    """Of buildings for many people."""
    crowded_widths: tuple[int, int]


SIZES: Final[Mapping[Size, Bounds]] = MappingProxyType(
    {
        Size.SMALL: Bounds(
            heights=(13, 16),
            widths=(15, 20),
            people={"few": (4, 6), "some": (9, 16), "many": (17, 28)},
            crowded_heights=(12, 14),
            crowded_widths=(14, 18),
        ),
        Size.MEDIUM: Bounds(
            heights=(18, 24),
            widths=(22, 30),
            people={"few": (5, 8), "some": (17, 28), "many": (33, 56)},
            crowded_heights=(15, 20),
            crowded_widths=(20, 26),
        ),
        Size.LARGE: Bounds(
            heights=(28, 40),
            widths=(34, 46),
            people={"few": (6, 8), "some": (24, 32), "many": (48, 64)},
            crowded_heights=(20, 24),
            crowded_widths=(26, 30),
        ),
    }
)
_PERCENT: Final[Mapping[Difficulty, tuple[int, int]]] = MappingProxyType(
    {Difficulty.EASY: (6, 12), Difficulty.NORMAL: (10, 20), Difficulty.HARD: (18, 32)}
)
"""Spread probability, in hundredths, a step."""
_CLEAR: Final[Mapping[Difficulty, int]] = MappingProxyType(
    {Difficulty.EASY: 4, Difficulty.NORMAL: 3, Difficulty.HARD: 2}
)
"""Moves between an ignition and the nearest person, at least."""

_BYTE_HORIZON: Final = 250
"""The longest horizon, in tens, whose steps fit a byte in the compiled references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the scenarios of a call have in common."""

    seed: int
    size: Size = Size.MEDIUM
    difficulty: Difficulty = Difficulty.NORMAL


def dimensions(draws: Draws, family: Family, size: Size) -> tuple[int, int]:
    """Draw the height and width of a building."""
    bounds = SIZES[size]
    if family.crowd == "many":
        return draws.between(*bounds.crowded_heights), draws.between(*bounds.crowded_widths)
    return draws.between(*bounds.heights), draws.between(*bounds.widths)


def set_up(draws: Draws, family: Family, site: Site, request: Request, *, id: str, seed: int) -> Scenario | None:
    """Place exits, ignitions and people on a site; `None` when it has no room for them."""
    count = draws.between(*family.exits)
    exits = _asymmetric(draws, site, count) if family.name == "asymmetric_exits" else _apart(draws, site, count)
    if len(exits) < family.exits[0]:
        return None
    closed = site.grid.obstacles.difference(exits)
    grid = Grid(height=site.grid.height, width=site.grid.width, obstacles=closed)
    walk = grid.distances(exits)
    seats = [cell for cell in site.seats if walk.get(cell, 0) >= 1]
    ignitions = _ignitions(draws, family, grid, exits, walk, seats)
    if not ignitions:
        return None
    near = grid.distances(ignitions)
    clear = _CLEAR[request.difficulty]
    free = [cell for cell in seats if walk[cell] >= 2 and near.get(cell, clear) >= clear]
    mixed = draws.shuffled(free)
    if family.name == "asymmetric_exits":  # most of them near the small door
        beside = grid.distances(exits[:1])
        later = [beside[cell] > walk[cell] and draws.chance(9, 10) for cell in mixed]
        mixed = [cell for put_off in (False, True) for cell, at in zip(mixed, later, strict=True) if at == put_off]
    people = mixed[: _crowd(draws, family, request.size, len(walk) - len(exits), site)]
    if len(people) < (1 if family.crowd == "few" else 8):
        return None
    interval = 2 if draws.chance(1, 4) else 1
    percent = draws.between(*_PERCENT[request.difficulty]) * interval
    far = max(walk[person] for person in people)
    horizon = 10 * (-(-(2 * far + len(people) // len(exits) + 30) // 10))
    if 2 * far <= _BYTE_HORIZON:  # few scenarios are worth a compilation for longer steps
        horizon = min(horizon, _BYTE_HORIZON)
    return Scenario(
        id=id,
        description=_description(site, family, request, len(people), len(exits)),
        seed=seed,
        grid=grid,
        exits=tuple(ExitSpec(id=name, position=cell) for name, cell in numbered("E", draws.shuffled(exits))),
        people=tuple(PersonSpec(id=name, position=cell) for name, cell in numbered("P", draws.shuffled(people))),
        fire=FireSpec(
            model=FireModel.STOCHASTIC,
            ignitions=tuple(ignitions),
            spread_interval=interval,
            spread_probability=percent / 100,  # the double nearest to it, on every machine
            exits_flammable=family.flammable,
        ),
        movement=MovementSpec(),
        termination=TerminationSpec(max_steps=horizon),
    )


def _description(site: Site, family: Family, request: Request, people: int, exits: int) -> str:
    place = f"the map {site.name}" if site.layout is None else f"a drawn {site.name}"
    crowd, doors = ("person" if people == 1 else "people"), ("exit" if exits == 1 else "exits")
    return f"{family.text} Generated on {place}: {people} {crowd}, {exits} {doors}, {request.difficulty}."


# Exits


def _apart(draws: Draws, site: Site, count: int) -> list[Position]:
    """Take a good gate, and others as far from those taken as a few tries find."""
    if not site.gates:
        return []
    first = draws.pick(site.gates[: max(2, len(site.gates) // 3)])
    exits = [first]
    for _ in range(count - 1):
        tries = [draws.pick(site.gates) for _ in range(6)]
        best = max(tries, key=lambda gate: min(_manhattan(gate, exit) for exit in exits))
        if best not in exits:
            exits.append(best)
    return exits


def _asymmetric(draws: Draws, site: Site, count: int) -> list[Position]:
    """Take a gate near the seats, and after it gates side by side, far from it; nothing without both."""
    gates = set(site.gates)
    pairs = [gate for gate in site.gates if {(gate[0] + 1, gate[1]), (gate[0], gate[1] + 1)} & gates]
    if not pairs:
        return []
    near = min(
        (draws.pick(site.gates) for _ in range(4)),
        key=lambda gate: sum(_manhattan(gate, seat) for seat in site.seats),
    )
    far = max((draws.pick(pairs) for _ in range(4)), key=lambda gate: _manhattan(gate, near))
    ways = [[(far[0] + i, far[1]) for i in range(count - 1)], [(far[0], far[1] + i) for i in range(count - 1)]]
    stretch = max(([cell for cell in way if cell in gates] for way in ways), key=len)
    return list(dict.fromkeys([near, *stretch]))


def _manhattan(one: Position, other: Position) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


# Fires


def _ignitions(
    draws: Draws,
    family: Family,
    grid: Grid,
    exits: Sequence[Position],
    walk: Mapping[Position, int],
    seats: Sequence[Position],
) -> list[Position]:
    taken = set(exits)
    places: list[Position]
    if family.fire == "middle":
        h, w = grid.height, grid.width
        places = [cell for cell in walk if 3 * abs(2 * cell[0] - h + 1) <= h and 3 * abs(2 * cell[1] - w + 1) <= w]
    elif family.fire == "exit":
        reach = grid.distances([draws.pick(exits)])
        places = [cell for cell, distance in reach.items() if 2 <= distance <= 7]
    elif family.fire == "way" and draws.chance(4, 5):
        # Beside a way of many, not on it: the fire has to come to the way while people take it.
        traffic = _traffic(grid, walk, seats)
        busy = [cell for cell in walk if 8 * traffic[cell] >= len(seats) and walk[cell] >= 3]
        reach = grid.distances(sorted(busy))
        places = [cell for cell, distance in reach.items() if 1 <= distance <= 4]
    else:
        places = list(seats)
    places = sorted(cell for cell in places if cell not in taken)
    if not places:
        return []
    chosen = [draws.pick(places)]
    if family.fire == "apart":
        for _ in range(draws.between(1, 2)):
            tries = [draws.pick(places) for _ in range(4)]
            chosen.append(max(tries, key=lambda cell: min(_manhattan(cell, other) for other in chosen)))
    return sorted(set(chosen))


def _traffic(grid: Grid, walk: Mapping[Position, int], seats: Iterable[Position]) -> Counter[Position]:
    """Return how many seats have their shortest way through each cell, the seat itself left out."""
    through: Counter[Position] = Counter()
    starting = Counter(seats)
    for cell in sorted(walk, key=lambda cell: (-walk[cell], cell)):
        if walk[cell] > 0:
            following = next(y for y in grid.neighbours(cell) if walk[y] == walk[cell] - 1)
            through[following] += through[cell] + starting[cell]
    return through


# People


def _crowd(draws: Draws, family: Family, size: Size, floor: int, site: Site) -> int:
    least, most = SIZES[size].people[family.crowd]
    if family.crowd == "many":
        least = max(least, -(-floor // 10))
        # A map is as large as it is; a building is drawn to fit its crowd.
        most = max(least, most) if site.layout is None else most
        return draws.between(min(least, most), min(most, MAX_PEOPLE))
    if family.crowd == "few":
        return draws.between(min(least, max(1, floor // 15)), max(1, min(most, floor // 15)))
    return draws.between(least, most)
