"""`ember world`: the fire of a scenario under each seed."""

from typing import Annotated

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
from ember_ref.fire import FireWorld, fire_world
from ember_ref.scenario import Scenario

BATCH = 256
"""Seeds a call of the compiled path."""


def world(
    scenario: Annotated[list[str], typer.Argument(help="A scenario file, or the name of a bundled scenario.")],
    seeds: SeedsText = None,
    as_json: Json = False,
    backend: UseBackend = Backend.JAX,
) -> None:
    """Run the fire alone and print its digest, a line a seed."""
    loaded = [(name, scenario_of(name)) for name in scenario]
    report = Report(as_json=as_json, title="Fire worlds")
    for name, item in loaded:
        chosen = seeds_for(seeds, item)
        for start in range(0, chosen.count, BATCH):
            for fire in fire_worlds(item, chosen.part(start, start + BATCH), backend):
                report.add(
                    {
                        "scenario": name,
                        "seed": fire.seed,
                        "content_hash": fire.content_hash,
                        "fire_world_digest": fire.digest,
                        "stream_position": fire.stream_position,
                        "burned": fire.burned,
                    }
                )
    report.close()


def fire_worlds(scenario: Scenario, seeds: list[int], backend: Backend) -> list[FireWorld]:
    """Return the fire worlds of some seeds from a backend."""
    if backend is Backend.REF:
        return [fire_world(scenario, seed) for seed in seeds]
    import numpy as np

    from ember_jax.fire import world_of
    from ember_jax.fire_kernel import fire_worlds as compiled

    enable_compilation_cache()
    fires = compiled(scenario, np.array(seeds, dtype=np.uint64))
    return [world_of(scenario, seed, fires, i) for i, seed in enumerate(seeds)]
