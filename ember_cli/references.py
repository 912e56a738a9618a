"""`ember references`: what one person alone could do who knew the whole fire."""

from typing import Annotated

import typer

from ember_cli.console import Json, Report, SeedsText, scenario_of, seeds_for
from ember_ref.references import references as solve


def references(
    scenario: Annotated[list[str], typer.Argument(help="A scenario file, or the name of a bundled scenario.")],
    seeds: SeedsText = None,
    as_json: Json = False,
) -> None:
    """Solve the privileged references by backward induction, with the digests of the tables."""
    loaded = [(name, scenario_of(name)) for name in scenario]
    for name, item in loaded:
        for seed in seeds_for(seeds, item):
            found = solve(item, seed)
            document = {**found.to_dict(), "references_digest": found.references_digest}
            if as_json:
                Report(as_json=True).add({**document, "scenario": name})
                continue
            people = Report(as_json=False, title=f"{item.id}, seed {seed}: {found.max_evacuated} can be saved")
            for person in found.people:
                people.add(person.to_dict())
            people.close()
