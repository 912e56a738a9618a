"""`ember references`: what people could have done in each fire."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from ember_cli.console import (
    Backend,
    Json,
    Report,
    SeedsText,
    UseBackend,
    enable_compilation_cache,
    scenario_of,
    seeds_for,
)
from ember_ref.references import References
from ember_ref.references import references as oracle_references
from ember_ref.scenario import Scenario

BATCH: Final = 256
"""Seeds a call of the compiled path."""


def references(
    scenario: Annotated[list[str], typer.Argument(help="A scenario file, or the name of a bundled scenario.")],
    seeds: SeedsText = None,
    as_json: Json = False,
    backend: UseBackend = Backend.JAX,
) -> None:
    """Print what was possible for everybody: earliest evacuation, fewest moves, fewest danger states."""
    loaded = [(name, scenario_of(name)) for name in scenario]
    report = Report(as_json=as_json, title="References")
    for name, item in loaded:
        chosen = seeds_for(seeds, item)
        for start in range(0, chosen.count, BATCH):
            for found in references_of(item, chosen.part(start, start + BATCH), backend):
                report.add(_row(name, found, as_json=as_json))
    report.close()


def references_of(scenario: Scenario, seeds: list[int], backend: Backend) -> Iterable[References]:
    """Return the references of some seeds from a backend."""
    if backend is Backend.REF:
        return (oracle_references(scenario, seed) for seed in seeds)
    import numpy as np

    from ember_jax.references import references as compiled

    enable_compilation_cache()
    return compiled(scenario, np.array(seeds, dtype=np.uint64))


def _row(name: str, found: References, *, as_json: bool) -> dict[str, Any]:
    if as_json:
        return {"scenario": name, **found.to_dict(), "references_digest": found.references_digest}
    savable = [person for person in found.people if person.earliest_evacuation is not None]
    return {
        "scenario": name,
        "seed": found.seed,
        "savable": f"{found.max_evacuated} of {len(found.people)}",
        "earliest (sum)": sum(person.earliest_evacuation or 0 for person in savable),
        "moves (sum)": sum(person.fewest_moves or 0 for person in savable),
        "danger states (sum)": sum(person.fewest_danger_states or 0 for person in savable),
        "lost whatever is done": ", ".join(p.id for p in found.people if p.earliest_evacuation is None) or "nobody",
        "references_digest": found.references_digest,
    }
