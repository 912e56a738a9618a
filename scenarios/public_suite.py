"""The drawings of the public suite `public-v1`, and the command that writes its files.

`python -m scenarios.public_suite` writes `scenarios/public/` anew, byte for byte. Each drawing is a text map;
people and exits are numbered in an order shuffled by the stream `suite/public-v1/FAMILY`, so that an ID says
nothing about a distance.
"""

import dataclasses
from typing import Any, Final

from ember_ref.canonical import write_canonical
from ember_ref.scenario import FireModel, Scenario, numbered, scenario_from_text
from ember_ref.stream import Stream
from ember_ref.suite import SUITE_FILE, Suite, SuiteEntry
from scenarios.bundled import suite_path

SUITE_ID: Final = "public-v1"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One scenario of the suite as a person drew it."""

    family: str
    description: str
    rows: str
    rules: dict[str, Any]

    def scenario(self, number: int) -> Scenario:
        """Return the scenario, number `number` of the suite."""
        drawn = scenario_from_text(
            self.rows.split(),
            id=f"v1-pub-{number:02}-{self.family.replace('_', '-')}",
            description=self.description,
            seed=number,
            **self.rules,
        )
        stream = Stream(f"suite/{SUITE_ID}/{self.family}", 0)
        exits = [exit.position for exit in drawn.exits]
        people = [person.position for person in drawn.people]
        stream.shuffle(exits)
        stream.shuffle(people)
        return dataclasses.replace(
            drawn,
            exits=tuple(
                dataclasses.replace(drawn.exits[0], id=name, position=cell) for name, cell in numbered("E", exits)
            ),
            people=tuple(
                dataclasses.replace(drawn.people[0], id=name, position=cell) for name, cell in numbered("P", people)
            ),
        )


def _stochastic(probability: float, *, interval: int = 1, max_steps: int, flammable: bool = False) -> dict[str, Any]:
    return {
        "model": FireModel.STOCHASTIC,
        "spread_probability": probability,
        "spread_interval": interval,
        "exits_flammable": flammable,
        "max_steps": max_steps,
    }


def _deterministic(*, interval: int, max_steps: int, flammable: bool = False) -> dict[str, Any]:
    return {"spread_interval": interval, "exits_flammable": flammable, "max_steps": max_steps}


DRAWINGS: Final = (
    Drawing(
        family="single_exit_low_density",
        description="A small flat with five people and one front door; a fire in the kitchen.",
        rows="""
            ##########
            #..P#....#
            #...#.P..#
            #........E
            #...#....#
            ##.####.##
            #...#...*#
            #.P.#.P..#
            #...#....#
            #P..#....#
            ##########
        """,
        rules=_stochastic(0.25, max_steps=60),
    ),
    Drawing(
        family="single_exit_high_density",
        description="A meeting hall with thirty-six people and one door.",
        rows="""
            ##############
            #............#
            #.P.P.P.P.P..#
            #.P.P.P.P.P..#
            #............#
            #.P.P.P.P.P..E
            #.P.P.P.P.P..#
            #............#
            #.P.P.P.P.P..#
            #.P.P.P.P.P..#
            #.P.P.P.P.P.P#
            #..........*.#
            #............#
            ##############
        """,
        rules=_stochastic(0.2, interval=2, max_steps=100),
    ),
    Drawing(
        family="narrow_corridor_bottleneck",
        description="A room whose only way out is one cell wide; the lobby behind it has three doors.",
        rows="""
            ####################
            #*........#####....#
            #..P.P.P..#####....E
            #.P.P.P.P.#####....#
            #..P.P.P........P..E
            #.P.P.P.P.#####....#
            #..P.P.P..#####....E
            #.........#####..P.#
            ####################
        """,
        rules=_deterministic(interval=2, max_steps=80),
    ),
    Drawing(
        family="multiple_exits",
        description="A gallery with four doors; most visitors stand near the same one.",
        rows="""
            ####################
            #..................#
            #..................#
            #.P.P.P....###.....E
            #.P.P.P....###.....#
            E.P.P.P............#
            #.P.P.P....###.....#
            #.P.P.P....###.....#
            #............P.....#
            #......*...........#
            #........P.....P...#
            ####E#########E#####
        """,
        rules=_stochastic(0.2, max_steps=90),
    ),
    Drawing(
        family="central_ignition",
        description="An open office around a core; the fire starts in the middle and drives people apart.",
        rows="""
            ########E########
            #...............#
            #.P.....P.....P.#
            #...##.....##...#
            #...#.......#...#
            #.P...P...P...P.#
            #...............#
            #.....P...P.....#
            E.P.....*.....P.E
            #.....P...P.....#
            #...............#
            #.P...P...P...P.#
            #...#.......#...#
            #...##.....##...#
            #.P.....P.....P.#
            #...............#
            ########E########
        """,
        rules=_stochastic(0.35, max_steps=60),
    ),
    Drawing(
        family="route_invalidation",
        description="Two corridors lead from the rooms to the exit; the fire starts beside the shorter one.",
        rows="""
            ########################
            #.P..#.P..#*#P...#.....#
            #....#....#.#....#.....#
            ##.####.###.###.##.....#
            #......................E
            #.####.####.####.......#
            #.####.####.####.......#
            #.#..P.#..P.#..#.......#
            #.#....#....#P.#.......#
            #.#.####.####.##.......#
            #......................#
            ########################
        """,
        rules=_stochastic(0.3, max_steps=110),
    ),
    Drawing(
        family="exit_loss",
        description="A shop with a front and a back door; both can burn and the front one soon does.",
        rows="""
            ##########E###########
            #....................#
            #...*................#
            #.P.....P.P.P........#
            #..####.####.####.##.#
            #..####.####.####.##.#
            #....P......P........#
            #..####.####.####.##.#
            #..####.####.####.##.#
            #.P....P...P....P.P..#
            #.....P.P.....P......#
            #....................#
            ####################E#
        """,
        rules=_stochastic(0.3, max_steps=100, flammable=True),
    ),
    Drawing(
        family="multiple_ignitions",
        description="A hotel floor in which three rooms catch fire at once.",
        rows="""
            #######################
            #.P.#*..#.P.#.P.#...#.#
            #...#...#...#...#.P.#.#
            ##.###.###.###.###.##.#
            E.....................#
            ##.###.###.###.###.##.#
            #...#...#...#...#...#.#
            #.P.#.P.#.P.#..*#.P.#.#
            #####.###.###########.#
            #...#...#...#...#.....#
            #.P.......P.#.P.....*.#
            ######################E
        """,
        rules=_stochastic(0.2, max_steps=90),
    ),
    Drawing(
        family="asymmetric_exits",
        description="A lecture hall with a single near door and a wide one at the far end.",
        rows="""
            ####################
            #..................#
            #.P.P.P.P..........#
            #.P.P.P.P..........E
            E.P.P.P.P..........E
            #.P.P.P.P..........E
            #.P.P.P.P..........#
            #......P...........#
            #................*.#
            ####################
        """,
        rules=_deterministic(interval=5, max_steps=90),
    ),
    Drawing(
        family="maze",
        description="A maze in which the exit is near as the crow flies and far on foot.",
        rows="""
            #####################
            #...#.......#..P....#
            ###.#.#####.#.###P#.#
            #.#...#...#..P#....P#
            #.#####.#.###.#P#####
            #.......#.#P..#..P#.#
            #.#########.#P###.#.E
            #.#.......#.#...P.#.#
            #.#.#####.#.#######.#
            #.......#.#.#.......#
            #.#####.#.#.#.#.#.#.#
            #.#.....#...#.#.#...#
            #.#.###########.#.###
            #.#.............#.#.#
            #.#.#####.###.###.#.#
            #.#...#...#...#...#.#
            #.###.#.###.###.###.#
            #...#...#.#...#...#.#
            #.#.#####.#.#.###.#.#
            #*#.........#.......#
            #####################
        """,
        rules=_stochastic(0.3, interval=2, max_steps=160),
    ),
)


def build() -> list[Scenario]:
    """Return the scenarios of the suite in suite order."""
    return [drawing.scenario(number) for number, drawing in enumerate(DRAWINGS, start=1)]


def suite_of(scenarios: list[Scenario]) -> Suite:
    """Return the suite of the scenarios of the drawings."""
    return Suite(
        suite_id=SUITE_ID,
        entries=tuple(
            SuiteEntry(
                scenario_id=scenario.id,
                scenario_hash=scenario.content_hash,
                primary_family=drawing.family,
                families=(drawing.family,),
            )
            for drawing, scenario in zip(DRAWINGS, scenarios, strict=True)
        ),
    )


def main() -> None:
    """Write the files of the suite."""
    folder = suite_path(SUITE_ID)
    folder.mkdir(exist_ok=True)
    scenarios = build()
    for scenario in scenarios:
        write_canonical(folder / f"{scenario.id}.json", scenario.to_dict())
    write_canonical(folder / SUITE_FILE, suite_of(scenarios).to_dict())


if __name__ == "__main__":
    main()
