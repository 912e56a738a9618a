"""Generated scenarios: draw, check, try in fires, and draw again until one is accepted.

Scenario `index` of a family depends on nothing but the generator's version, the family, the generator seed, the
index and the options: not on the count, the other families or the number of workers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from ember_ref.errors import EmberError
from ember_ref.scenario import Scenario
from scenarios.procedural.draws import Draws
from scenarios.procedural.facts import Facts
from scenarios.procedural.families import GENERATED, fire_rejection, map_rejection
from scenarios.procedural.measures import Building, layout_faults
from scenarios.procedural.setting import Request, dimensions, set_up
from scenarios.procedural.site import MapBase, Site, drawn_site
from scenarios.procedural.trial import Backend, Trial, trial

ACCEPTANCE_SEEDS: Final = 128
"""Fires in which a scenario is tried."""
MOST_DRAFTS: Final = 1000
"""Drafts of one scenario before the generator gives up."""
NO_ROOM: Final = "no room"
"""Why a draft is rejected that has no place for its exits, fires or people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """An accepted scenario and how it came about."""

    family: str
    index: int
    scenario: Scenario
    site: Site
    drafts: int
    """How many were drawn, the accepted one included."""
    rejections: dict[str, int]
    """How many were rejected, by the rule that each broke first."""
    words: int
    """Words of the stream that were consumed."""
    trial: Trial

    @property
    def building(self) -> Building | None:
        """The drawing with its exits open; `None` on a map."""
        if self.site.layout is None:
            return None
        exits = tuple(exit.position for exit in self.scenario.exits)
        return Building(layout=self.site.layout, grid=self.scenario.grid, exits=exits)

    def to_dict(self) -> dict[str, Any]:
        """Return what the manifest keeps."""
        scenario, layout = self.scenario, self.site.layout
        return {
            "scenario_id": scenario.id,
            "scenario_hash": scenario.content_hash,
            "family": self.family,
            "index": self.index,
            "site": self.site.name,
            "rooms": None if layout is None else len(layout.rooms),
            "height": scenario.grid.height,
            "width": scenario.grid.width,
            "people": len(scenario.people),
            "exits": len(scenario.exits),
            "ignitions": len(scenario.fire.ignitions),
            "spread_interval": scenario.fire.spread_interval,
            "spread_probability": scenario.fire.spread_probability,
            "max_steps": scenario.termination.max_steps,
            "drafts": self.drafts,
            "rejections": dict(sorted(self.rejections.items())),
            "stream_position": self.words,
            "trial": self.trial.to_dict(),
        }


def generate(
    family: str, index: int, request: Request, *, maps: Sequence[MapBase] = (), backend: Backend = Backend.JAX
) -> Generated:
    """Generate scenario `index` of a family.

    Raises:
        EmberError: when no draft is accepted, with how often each rule rejected one.
    """
    what = GENERATED[family]
    draws = Draws(family, request.seed, index)
    seeds = draws.seeds(ACCEPTANCE_SEEDS)
    (own_seed,) = draws.seeds(1)
    rejections: Counter[str] = Counter()
    for number in range(1, MOST_DRAFTS + 1):
        if maps:
            site = draws.pick(maps).site()
        else:
            name = draws.pick(what.layouts)
            site = drawn_site(draws, name, *dimensions(draws, what, request.size))
        scenario = set_up(draws, what, site, request, id=f"{family}-{request.seed}-{index}", seed=own_seed)
        if scenario is None:
            rejections[NO_ROOM] += 1
            continue
        reason = map_rejection(family, Facts(scenario)) or _layout_rejection(site, scenario)
        if reason is None:
            found = trial(scenario, seeds, backend=backend)
            reason = fire_rejection(family, found, accepting=True)
            if reason is None:
                return Generated(
                    family=family,
                    index=index,
                    scenario=scenario,
                    site=site,
                    drafts=number,
                    rejections=dict(rejections),
                    words=draws.position,
                    trial=found,
                )
        rejections[reason] += 1
    found_out = ", ".join(f"{reason!r} {count} times" for reason, count in rejections.most_common())
    where = f" on {', '.join(base.name for base in maps)}" if maps else ""
    raise EmberError(
        f"{family}, index {index}: none of {MOST_DRAFTS} drafts{where} is accepted; rejected for {found_out}"
    )


def generate_all(
    families: Sequence[str],
    count: int,
    request: Request,
    *,
    maps: Sequence[MapBase] = (),
    backend: Backend = Backend.JAX,
    workers: int = 1,
) -> Iterator[Generated]:
    """Yield scenarios 0 to `count - 1` of each family, in order, several at a time."""
    tasks = [(family, index) for family in families for index in range(count)]
    if workers == 1:
        for family, index in tasks:
            yield generate(family, index, request, maps=maps, backend=backend)
        return
    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(generate, *task, request, maps=maps, backend=backend) for task in tasks]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _layout_rejection(site: Site, scenario: Scenario) -> str | None:
    if site.layout is None:
        return None
    exits = tuple(exit.position for exit in scenario.exits)
    faults = layout_faults(Building(layout=site.layout, grid=scenario.grid, exits=exits))
    return f"layout: {faults[0]}" if faults else None
