"""The ten families: how a scenario of each is set up, and what it must be to be accepted.

A rule is written down here once; a scenario that breaks one is rejected with the rule's name, by the generator
and by `ember check-suite` alike. Rules over fires compare a share of integers with a fraction; the generator
asks for more (`accept`) than the check does (`least`), since it sees fewer fires.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from scenarios.procedural.facts import Facts
from scenarios.procedural.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRule:
    """What the map and the people must be."""

    name: str
    text: str
    holds: Callable[[Facts], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class FireRule:
    """What a share of something over many fires must be at least."""

    name: str
    text: str
    share: Callable[[Trial], tuple[int, int]]
    least: Fraction
    accept: Fraction

    def holds(self, found: Trial, *, accepting: bool) -> bool:
        """Tell whether the share is large enough, in exact integers."""
        part, whole = self.share(found)
        bound = self.accept if accepting else self.least
        return part * bound.denominator >= bound.numerator * whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family's own rules and what its scenarios are set up from."""

    name: str
    text: str
    layouts: tuple[str, ...]
    """Kinds of buildings; one named twice comes twice as often."""
    crowd: str
    """`few`, `some` or `many` people."""
    exits: tuple[int, int]
    """The least and the most exits."""
    fire: str
    """Where it starts: `anywhere`, `way`, `middle`, `exit` or `apart`."""
    flammable: bool = False
    map_rules: tuple[MapRule, ...] = ()
    fire_rules: tuple[FireRule, ...] = ()


COMMON_MAP_RULES: Final = (
    MapRule(name="reachable", text="every floor cell has a way to an exit", holds=lambda f: f.connected),
    MapRule(name="fire", text="something burns at step 0", holds=lambda f: len(f.ignitions) > 0),
)
COMMON_FIRE_RULES: Final = (
    FireRule(
        name="solvable",
        text="somebody can be saved in three quarters of the fires",
        share=lambda t: (t.applicable, t.fires),
        least=Fraction(3, 4),
        accept=Fraction(9, 10),
    ),
    FireRule(
        name="savable",
        text="half of all people can be saved, over all fires",
        share=lambda t: (t.savable, t.fires * t.people),
        least=Fraction(1, 2),
        accept=Fraction(3, 5),
    ),
    FireRule(
        name="threat",
        text="the fire comes to the places where a third of the people stand, over all fires",
        share=lambda t: (t.reached, t.fires * t.people),
        least=Fraction(1, 3),
        accept=Fraction(9, 20),
    ),
    FireRule(
        name="not trivial",
        text="a fixed plan (static-shortest-path-v1) saves fewer than M* in a tenth of the fires",
        share=lambda t: (t.fixed_short, t.fires),
        least=Fraction(1, 10),
        accept=Fraction(1, 5),
    ),
    FireRule(
        name="not hopeless",
        text="a fire-aware plan (fire-aware-shortest-path-v1) saves half of M*, over all fires",
        share=lambda t: (t.aware_evacuated, t.savable),
        least=Fraction(1, 2),
        accept=Fraction(3, 5),
    ),
)


def _exits(least: int, most: int | None = None) -> MapRule:
    if least == most == 1:
        return MapRule(name="exits", text="one exit", holds=lambda f: len(f.exits) == 1)
    return MapRule(name="exits", text=f"{least} exits or more", holds=lambda f: len(f.exits) >= least)


_FAMILIES: Final = (
    Family(
        name="single_exit_low_density",
        text="A few people and one way out: the fire decides who has to hurry.",
        layouts=("house", "house", "office", "wings", "museum"),
        crowd="few",
        exits=(1, 1),
        fire="way",
        map_rules=(
            _exits(1, 1),
            MapRule(
                name="low density",
                text="15 floor cells a person or more",
                holds=lambda f: f.floor >= 15 * len(f.people),
            ),
        ),
    ),
    Family(
        name="single_exit_high_density",
        text="A crowd and one way out: the queue decides.",
        layouts=("hall", "hall", "shop"),
        crowd="many",
        exits=(1, 1),
        fire="anywhere",
        map_rules=(
            _exits(1, 1),
            MapRule(
                name="high density",
                text="at most 10 floor cells a person",
                holds=lambda f: f.floor <= 10 * len(f.people),
            ),
            MapRule(
                name="queue",
                text="without a fire, queueing makes the sum of evacuation steps a quarter longer than walking",
                holds=lambda f: 4 * f.queue >= 5 * sum(f.walk[person] for person in f.people),
            ),
        ),
    ),
    Family(
        name="narrow_corridor_bottleneck",
        text="A corridor one cell wide that most people have to take: the exits behind it do not help.",
        layouts=("passage",),
        crowd="some",
        exits=(2, 3),
        fire="anywhere",
        map_rules=(
            _exits(2),
            MapRule(
                name="bottleneck",
                text="a corridor, one cell wide for 3 cells or more, cuts 3 in 5 people (8 or more) off from exits",
                holds=lambda f: f.behind_narrow >= 8 and 5 * f.behind_narrow >= 3 * len(f.people),
            ),
        ),
    ),
    Family(
        name="multiple_exits",
        text="Several exits far from each other, each near for somebody.",
        layouts=("office", "shop", "museum", "hall", "wings"),
        crowd="some",
        exits=(3, 4),
        fire="way",
        map_rules=(
            _exits(3),
            MapRule(
                name="exits apart",
                text="from any exit to any other it is a walk of a quarter of height plus width",
                holds=lambda f: 4 * f.exit_gap >= f.grid.height + f.grid.width,
            ),
            MapRule(
                name="exits used",
                text="every exit is the nearest of a twelfth of the floor",
                holds=lambda f: 12 * min(f.floor_by_exit) >= f.floor,
            ),
        ),
    ),
    Family(
        name="central_ignition",
        text="A fire in the middle of the building that divides it.",
        layouts=("ring", "ring", "museum", "office", "shop", "hall"),
        crowd="some",
        exits=(2, 3),
        fire="middle",
        map_rules=(
            _exits(2),
            MapRule(
                name="central",
                text="one ignition, in the middle third of the height and of the width",
                holds=lambda f: (
                    len(f.ignitions) == 1
                    and 3 * abs(2 * f.ignitions[0][0] - f.grid.height + 1) <= f.grid.height
                    and 3 * abs(2 * f.ignitions[0][1] - f.grid.width + 1) <= f.grid.width
                ),
            ),
        ),
    ),
    Family(
        name="route_invalidation",
        text="The fire closes the shortest way of somebody who has another one.",
        layouts=("ring", "ring", "museum", "museum", "office"),
        crowd="some",
        exits=(2, 3),
        fire="way",
        map_rules=(_exits(2),),
        fire_rules=(
            FireRule(
                name="detours",
                text="in a quarter of the fires the shortest way of somebody with an escape, clear at step 0, "
                "closes before they are through it, even alone",
                share=lambda t: (t.detour_fires, t.fires),
                least=Fraction(1, 4),
                accept=Fraction(3, 8),
            ),
        ),
    ),
    Family(
        name="exit_loss",
        text="An exit burns while people are still on their way.",
        layouts=("office", "shop", "museum", "hall", "wings"),
        crowd="some",
        exits=(2, 3),
        fire="exit",
        flammable=True,
        map_rules=(
            _exits(2),
            MapRule(name="flammable", text="exits can burn", holds=lambda f: f.scenario.fire.exits_flammable),
        ),
        fire_rules=(
            FireRule(
                name="exit lost",
                text="in half of the fires an exit burns before the fire-aware plan's last evacuation",
                share=lambda t: (t.exit_losses, t.fires),
                least=Fraction(1, 2),
                accept=Fraction(13, 20),
            ),
        ),
    ),
    Family(
        name="multiple_ignitions",
        text="Fires in several places at once.",
        layouts=("wings", "museum", "office", "shop", "ring"),
        crowd="some",
        exits=(2, 3),
        fire="apart",
        map_rules=(
            _exits(2),
            MapRule(
                name="ignitions apart",
                text="2 ignitions or more, a walk of a fifth of height plus width from each other",
                holds=lambda f: len(f.ignitions) >= 2 and 5 * f.ignition_gap >= f.grid.height + f.grid.width,
            ),
        ),
    ),
    Family(
        name="asymmetric_exits",
        text="A small door near most people, and wider ones farther away that clear the queue.",
        layouts=("hall", "shop", "office"),
        crowd="many",
        exits=(3, 4),
        fire="anywhere",
        map_rules=(
            _exits(2),
            MapRule(
                name="near door",
                text="one exit is the nearest of 3 in 5 people",
                holds=lambda f: 5 * f.better_elsewhere[0] >= 3 * len(f.people),
            ),
            MapRule(
                name="far doors",
                text="a quarter of them reach another exit, half as far again or more, before the queue at the near "
                "one ends",
                holds=lambda f: 4 * f.better_elsewhere[1] >= f.better_elsewhere[0],
            ),
        ),
    ),
    Family(
        name="maze",
        text="Corridors with many dead ends and long ways round.",
        layouts=("maze",),
        crowd="some",
        exits=(1, 2),
        fire="way",
        map_rules=(
            MapRule(
                name="dead ends",
                text="a dead end for every 40 floor cells or more",
                holds=lambda f: 40 * f.dead_ends >= f.floor,
            ),
            MapRule(
                name="narrow",
                text="at most a fifth of the floor lies in open squares of two by two",
                holds=lambda f: 5 * f.wide_cells <= f.floor,
            ),
            MapRule(
                name="winding",
                text="half of the people walk half as far again as the crow flies",
                holds=lambda f: 2 * f.detours >= len(f.people),
            ),
        ),
    ),
)
GENERATED: Final[Mapping[str, Family]] = MappingProxyType({family.name: family for family in _FAMILIES})
"""The families by name, in the order of the contract; `custom` is none of them."""


def map_rules(family: str) -> tuple[MapRule, ...]:
    """Return the rules for map and people of a family; only the common ones for `custom`."""
    return COMMON_MAP_RULES + (GENERATED[family].map_rules if family in GENERATED else ())


def fire_rules(family: str) -> tuple[FireRule, ...]:
    """Return the rules over fires of a family; only the common ones for `custom`."""
    return COMMON_FIRE_RULES + (GENERATED[family].fire_rules if family in GENERATED else ())


def map_rejection(family: str, facts: Facts) -> str | None:
    """Return the name of the first rule for map and people that a scenario breaks."""
    return next((rule.name for rule in map_rules(family) if not rule.holds(facts)), None)


def fire_rejection(family: str, found: Trial, *, accepting: bool) -> str | None:
    """Return the name of the first rule over fires that a scenario breaks."""
    return next((rule.name for rule in fire_rules(family) if not rule.holds(found, accepting=accepting)), None)
