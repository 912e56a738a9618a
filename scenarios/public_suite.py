"""The drawings of the public suite `public-v1`, and the command that writes its files.

`python -m scenarios.public_suite` writes `scenarios/public/` anew, byte for byte. Each drawing is a text map;
exits and people are numbered in an order shuffled by the stream `suite/public-v1/FAMILY`. People are shuffled again
until the rank correlation of their numbers with their distances is next to nothing, so that an ID, which decides who
goes first, says nothing about a distance. `docs/suite.md` shows what the drawings measure.
"""

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from ember_ref.canonical import canonical_bytes, write_bytes
from ember_ref.errors import EmberError
from ember_ref.scenario import FireModel, Scenario, numbered, scenario_from_text
from ember_ref.stream import Stream
from ember_ref.suite import SUITE_FILE, Suite, SuiteEntry
from scenarios.bundled import suite_path

SUITE_ID: Final = "public-v1"
FROZEN: Final = {
    "suite.json": "ba0e43ffc75424d3070c4385a62eb10c58b05e4160670265520c930ac39230ba",
    "v1-pub-01-single-exit-low-density.json": "dbce3e7ae7bb14bfc8b2c0cca81089031fa6f29c6de2575a57c2a81b286d3221",
    "v1-pub-02-single-exit-high-density.json": "be93f2cc662393b7d058b606a60b48fe1bc4f17dfa97acff4d4e814849a24350",
    "v1-pub-03-narrow-corridor-bottleneck.json": "121715b426593ad12fdd6b39e20aa02cbb33261b998733cf70a9769a3e123fb5",
    "v1-pub-04-multiple-exits.json": "c31ac35d90ba84198174131d98f7b38c07228fdab772b10ddfb175043f2d8cf0",
    "v1-pub-05-central-ignition.json": "1bbe4ad2816255c7c2ef0e6a5670779d2a86cdba5973d15bd3363e0a814146be",
    "v1-pub-06-route-invalidation.json": "8826f5a3a8ad6379b61ad9e7c5c38b1fccb64203cd00b055498e65523f1024f9",
    "v1-pub-07-exit-loss.json": "603593c6d682105860db6223024ba6458f48fafd197f53a26e57a210e7f0af68",
    "v1-pub-08-multiple-ignitions.json": "d42120c6a808bb33bbd2737bca24e78058e238f1b54b3baf929bc18b5c74bf69",
    "v1-pub-09-asymmetric-exits.json": "334c83376f0cec9a7474551cf8194af6686ef783857a444213c57bb8b99c13bb",
    "v1-pub-10-maze.json": "8789f9cc0a22e121e86686909716eb8dc12052bd0960a2edfa58bda8745aeaa2",
}
"""The SHA-256 of every file of the suite. They never change under this ID."""
MOST_CORRELATION: Final = Fraction(1, 20)
"""The most rank correlation of IDs with distances that a drawing's people are numbered with."""


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
        walks = drawn.grid.distances(exits)
        while True:
            stream.shuffle(people)
            if abs(rank_correlation([walks[cell] for cell in people])) <= _most_correlation(len(people)):
                break
        return dataclasses.replace(
            drawn,
            exits=tuple(
                dataclasses.replace(drawn.exits[0], id=name, position=cell) for name, cell in numbered("E", exits)
            ),
            people=tuple(
                dataclasses.replace(drawn.people[0], id=name, position=cell) for name, cell in numbered("P", people)
            ),
        )


def rank_correlation(values: Sequence[int]) -> Fraction:
    """Return Kendall's tau-a of values with their places: concordant less discordant pairs, over all pairs.

    Source: Kendall, "A new measure of rank correlation", Biometrika 1938. Equal values make a pair of neither kind.
    """
    pairs = list(itertools.combinations(values, 2))
    return Fraction(sum((later > earlier) - (later < earlier) for earlier, later in pairs), len(pairs))


def _most_correlation(count: int) -> Fraction:
    """Return 1/20, or one pair's worth where few people cannot come nearer to 0."""
    return max(MOST_CORRELATION, Fraction(1, math.comb(count, 2)))


def _stochastic(probability: float, *, max_steps: int, flammable: bool = False) -> dict[str, Any]:
    return {
        "model": FireModel.STOCHASTIC,
        "spread_probability": probability,
        "exits_flammable": flammable,
        "max_steps": max_steps,
    }


def _deterministic(*, interval: int, max_steps: int) -> dict[str, Any]:
    return {"spread_interval": interval, "max_steps": max_steps}


DRAWINGS: Final = (
    Drawing(
        family="single_exit_low_density",
        description="A flat with one front door; the kitchen burns beside the hall, and a way leads round the back.",
        rows="""
            ##############
            #.P#....#....#
            #..#..*.#.P..#
            #..#....#....#
            ##.###.####.##
            #............E
            ##.####.####.#
            #..P#P...#...#
            #...#....#.P.#
            #...##.###...#
            #............#
            ##############
        """,
        rules=_stochastic(0.3, max_steps=60),
    ),
    Drawing(
        family="single_exit_high_density",
        description="A lecture theatre with thirty-six people and one door at the back; a fire at the front.",
        rows="""
            ################
            #*.............#
            #.#####..#####.#
            #PPP.P.PP.P.PPP#
            #.#####..#####.#
            #.P.PPP..PP.PP.#
            #.#####..#####.#
            #.PP.PP..P.PPP.#
            #.#####..#####.#
            #.PPP.PP.PPPPP.#
            #..............#
            #..............E
            ################
        """,
        rules=_stochastic(0.34, max_steps=100),
    ),
    Drawing(
        family="narrow_corridor_bottleneck",
        description="A ballroom whose only way out is a corridor one cell wide; the lobby behind it has three doors.",
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
        rules=_stochastic(0.24, max_steps=80),
    ),
    Drawing(
        family="multiple_exits",
        description="A gallery with three doors; most visitors stand near the west one, and so does the fire.",
        rows="""
            ####################
            #..................#
            #..PP.P.P..........#
            #.P.P.P.P..###.....E
            #.P.P.P....###.....#
            E.PPPPP.P..........#
            #.P.P.P....###.....#
            #.P.P.P.P..###.....#
            #..P.P.P...........#
            #*.................#
            #..................#
            ##########E#########
        """,
        rules=_stochastic(0.13, max_steps=90),
    ),
    Drawing(
        family="central_ignition",
        description="A market hall with a door in each wall; the fire starts in the middle of the inner court.",
        rows="""
            ########E########
            #.P.P.P.P.P.P.P.#
            #..P.P.P.P.P.P..#
            #...............#
            #.P...........P.#
            #....###.###....#
            #.P..#P....#..P.#
            #....#.....#....#
            E.......*.......E
            #....#.....#....#
            #.P..#....P#..P.#
            #....###.###....#
            #...............#
            #.P...........P.#
            #......P.P......#
            #...............#
            ########E########
        """,
        rules=_stochastic(0.35, max_steps=60),
    ),
    Drawing(
        family="route_invalidation",
        description="Rooms between two corridors; a fire in the doorway of a store soon closes the shorter one.",
        rows="""
            ########################
            #P..#.PP#...#####......#
            #.P.#...#...#####......#
            ##.###.###*#####.......#
            #......................#
            #.##.###.#####.........#
            #.#...#...####.....P...#
            #.#.PP#.P.####.........#
            #.#...#.P.####..P......#
            #.############.........#
            #...................P..E
            ########################
        """,
        rules=_stochastic(0.2, max_steps=110),
    ),
    Drawing(
        family="exit_loss",
        description="A shop with a front and a back door that can both burn; the fire starts near the front one.",
        rows="""
            ##########E###########
            #....................#
            #............*.......#
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
        rules=_stochastic(0.2, max_steps=100, flammable=True),
    ),
    Drawing(
        family="multiple_ignitions",
        description="A hotel floor with two corridors and a staircase at either end; three rooms catch fire at once.",
        rows="""
            #######################
            #P..#*.P#P..#..P#...#.#
            #...#...#...#...#..P#.#
            ##.###.###.###.###.##.#
            E.....................#
            #.##.###.###.###.####.#
            #.#...#...#...#...#...#
            #.#P..#..P#..*#P..#..P#
            #.#...#...#...#...#...#
            #.##.###.###.###.####.#
            #.....................E
            ##.###.###.###.###.##.#
            #...#...#...#...#...#.#
            #P..#..P#...#P..#*..#.#
            #######################
        """,
        rules=_stochastic(0.2, max_steps=90),
    ),
    Drawing(
        family="asymmetric_exits",
        description="A meeting hall with a narrow door beside the seats and a wide one at the far end.",
        rows="""
            ################
            #..............#
            #.P.P.P........#
            #.P.PPP........E
            E.PPPPP........E
            #.P.PPP........E
            #.P.P.P........#
            #...P..........#
            #............*.#
            ################
        """,
        rules=_deterministic(interval=4, max_steps=90),
    ),
    Drawing(
        family="maze",
        description="A hedge maze of rings whose gaps lie far apart; the exit is near as the crow flies.",
        rows="""
            ###################
            #.................#
            #.####.##########.#
            #.#............P#.#
            #.#.###########.#.#
            #.#.#........P#.#.#
            #.#.#.###.###.#.#.#
            #.#P#.#.....#.#P#.#
            #.#.#.#.###.#.#.#.#
            #.#.#...#P..#P#.#.E
            #.#.#.#.###.#.#.#.#
            #.#.#.#.....#.#.#.#
            #.#.#P#######.#P#.#
            #*#.#.........#.#.#
            #.#.######.####.#.#
            #.#......P......#.#
            #.##.############.#
            #.................#
            ###################
        """,
        rules=_stochastic(0.3, max_steps=160),
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


def files_of(scenarios: list[Scenario]) -> dict[str, bytes]:
    """Return the files of the suite by name."""
    documents = {f"{scenario.id}.json": scenario.to_dict() for scenario in scenarios}
    documents[SUITE_FILE] = suite_of(scenarios).to_dict()
    return {name: canonical_bytes(document) + b"\n" for name, document in documents.items()}


def require_frozen(files: Mapping[str, bytes]) -> None:
    """Require that files are those of the suite, byte for byte.

    Raises:
        EmberError: names the files that differ, and the suite ID that a change needs.
    """
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    changed = sorted(name for name in digests.keys() | FROZEN.keys() if digests.get(name) != FROZEN.get(name))
    if changed:
        raise EmberError(
            f"{', '.join(changed)}: not as frozen in suite {SUITE_ID}; a changed suite takes another suite_id "
            f"(change SUITE_ID from {SUITE_ID!r} in scenarios/public_suite.py, then FROZEN)"
        )


def main() -> None:
    """Write the files of the suite, if they are those that were frozen."""
    files = files_of(build())
    require_frozen(files)
    folder = suite_path(SUITE_ID)
    for name, data in files.items():
        write_bytes(folder / name, data)


if __name__ == "__main__":
    main()
