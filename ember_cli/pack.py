"""`ember pack`: freeze a set of episodes in one file, and check one."""

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ember_cli.console import (
    FAILED,
    HELD,
    Backend,
    Json,
    Report,
    UsageError,
    UseBackend,
    enable_compilation_cache,
    note,
    parse_seeds,
    suite_or_pack_of,
)
from ember_cli.progress import Progress
from ember_ref.canonical import write_canonical
from ember_ref.form import ID_PATTERN, show
from ember_ref.suite import Manifest, Pack, SuiteFolder, load_pack, schedule

_MOST_RANDOM = 1_000_000

app = typer.Typer(help="Build and check environment packs.", no_args_is_help=True)


@app.command("build")
def build(
    suite: Annotated[str, typer.Argument(help="A suite: file, folder or bundled name.")],
    seeds: Annotated[str, typer.Option("--seeds", help="As elsewhere, or random:N for N secret seeds.")],
    pack_id: Annotated[str, typer.Option("--id", help="The ID of the pack.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    as_json: Json = False,
    backend: UseBackend = Backend.JAX,
) -> None:
    """Freeze a suite under some seeds, with the digest of every fire."""
    from scoring.constants import CONSTANTS_DIGEST, SCORING_VERSION
    from scoring.evaluation import check_fire_worlds

    if not ID_PATTERN.fullmatch(pack_id):
        raise UsageError(f"--id {show(pack_id)} is not an ID")
    folder = suite_or_pack_of(suite)
    if isinstance(folder, Pack):
        raise UsageError(f"{suite} is a pack already; expected a suite")
    chosen = _seeds(seeds)
    manifest = schedule(folder.suite, {entry.scenario_id: chosen for entry in folder.suite.entries})
    digests = list(_digests(folder, manifest, backend))
    pack = Pack(
        pack_id=pack_id,
        suite=folder.suite,
        scenarios=folder.scenarios,
        manifest=manifest,
        fire_worlds=tuple(digests),
        scoring_version=SCORING_VERSION,
        constants_digest=CONSTANTS_DIGEST,
    )
    if backend is not Backend.REF:
        with Progress("fires") as progress:
            check_fire_worlds(pack, workers=os.cpu_count() or 1, progress=progress)
    write_canonical(out, pack.to_dict())
    report = Report(as_json=as_json, title="Pack")
    report.add(_described(pack))
    report.close()


@app.command("check")
def check(
    pack: Annotated[Path, typer.Argument(help="A pack file.")],
    overlap: Annotated[
        Path | None, typer.Option("--overlap", help="Another pack that must share no episode with it.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check that a pack's parts agree and its fires are what it says, and that no episode is shared."""
    from ember_ref.errors import PackError
    from scoring.constants import CONSTANTS_DIGEST, SCORING_VERSION
    from scoring.evaluation import check_fire_worlds

    loaded = load_pack(pack)
    other = None if overlap is None else load_pack(overlap)
    if (loaded.scoring_version, loaded.constants_digest) != (SCORING_VERSION, CONSTANTS_DIGEST):
        raise PackError(
            f"{pack}: for scoring {loaded.scoring_version} with constants {loaded.constants_digest}; "
            f"this is {SCORING_VERSION} with {CONSTANTS_DIGEST}"
        )
    with Progress("fires") as progress:
        check_fire_worlds(loaded, workers=os.cpu_count() or 1, progress=progress)
    described: dict[str, Any] = _described(loaded)
    shared = 0
    if other is not None:
        shared = len(_episodes(loaded) & _episodes(other))
        described |= {"overlap": other.pack_id, "shared_episodes": shared}
    report = Report(as_json=as_json, title="Pack")
    report.add(described)
    report.close()
    note(f"ember: {loaded.pack_id}: every fire has the digest that the pack gives")
    if shared and other is not None:
        note(f"ember: {shared} episodes are in both {loaded.pack_id} and {other.pack_id}")
    return FAILED if shared else HELD


def _seeds(text: str) -> Sequence[int]:
    """Read seeds, or draw secret ones from the system's generator."""
    if not text.startswith("random:"):
        return parse_seeds(text).listed()
    word = text.removeprefix("random:")
    if not (word.isascii() and word.isdigit() and len(word) <= 7 and 0 < int(word) <= _MOST_RANDOM):
        raise UsageError(f"--seeds {show(text)}: expected random:N, N from 1 to {_MOST_RANDOM}")
    drawn: dict[int, None] = {}
    while len(drawn) < int(word):
        drawn[secrets.randbits(64)] = None
    return list(drawn)


def _digests(folder: SuiteFolder, manifest: Manifest, backend: Backend) -> Iterator[str]:
    """Yield the fire-world digest of every scheduled episode, in order."""
    if backend is Backend.REF:
        from scoring.evaluation import fire_world_digests

        yield from fire_world_digests(folder, manifest, workers=os.cpu_count() or 1)
        return
    import numpy as np

    from ember_jax.fire_kernel import fire_summaries

    enable_compilation_cache()
    for entry in folder.suite.entries:
        values = [episode.seed for episode in manifest.episodes if episode.scenario_id == entry.scenario_id]
        if not values:
            continue
        fires = fire_summaries(folder.scenarios[entry.scenario_id], np.array(values, dtype=np.uint64), digests=True)
        yield from (bytes(row).hex() for row in np.asarray(fires.digest))


def _episodes(pack: Pack) -> set[tuple[str, int]]:
    return {(episode.scenario_hash, episode.seed) for episode in pack.manifest.episodes}


def _described(pack: Pack) -> dict[str, Any]:
    return {"pack_id": pack.pack_id, "digest": pack.pack_hash, "episodes": len(pack.manifest.episodes)}
