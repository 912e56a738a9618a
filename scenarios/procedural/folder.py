"""A generated suite as a folder: scenario files, `suite.json` and the manifest `generator.json`."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ember_ref.canonical import digest, write_canonical
from ember_ref.errors import DocumentError
from ember_ref.suite import SUITE_FILE, Suite, SuiteEntry
from scenarios.procedural.draws import GENERATOR_VERSION
from scenarios.procedural.generator import ACCEPTANCE_SEEDS, Generated
from scenarios.procedural.setting import Request
from scenarios.procedural.site import MapBase

MANIFEST_FILE: Final = "generator.json"


def parameters(families: Sequence[str], count: int, request: Request, maps: Sequence[MapBase]) -> dict[str, Any]:
    """Return what decides the bytes of a generated suite."""
    return {
        "generator_version": GENERATOR_VERSION,
        "families": list(families),
        "count": count,
        "seed": request.seed,
        "size": str(request.size),
        "difficulty": str(request.difficulty),
        "maps": [{"name": base.name, "digest": base.digest} for base in maps],
        "acceptance_seeds": ACCEPTANCE_SEEDS,
    }


def suite_id_of(chosen: dict[str, Any]) -> str:
    """Return the suite ID that belongs to parameters: other parameters, another ID."""
    return f"generated-{digest(chosen)[:16]}"


def suite_of(suite_id: str, scenarios: Sequence[Generated]) -> Suite:
    """Return the suite of generated scenarios, in the order given."""
    return Suite(
        suite_id=suite_id,
        entries=tuple(
            SuiteEntry(
                scenario_id=item.scenario.id,
                scenario_hash=item.scenario.content_hash,
                primary_family=item.family,
                families=(item.family,),
            )
            for item in scenarios
        ),
    )


def refuse_existing(folder: Path) -> None:
    """Require that a folder can be made.

    Raises:
        DocumentError: when there is something of that name, or nothing to make it in.
    """
    if folder.exists() or folder.is_symlink():
        raise DocumentError(str(folder), ["is there already; name a folder that is not"])
    if not folder.absolute().parent.is_dir():
        raise DocumentError(str(folder), [f"cannot be made: {folder.absolute().parent} is no folder"])


def write_folder(folder: Path, suite: Suite, scenarios: Sequence[Generated], chosen: dict[str, Any]) -> None:
    """Write a suite's folder whole or not at all: beside its target, then renamed into place.

    Raises:
        DocumentError: when the folder is there already, or cannot be written.
    """
    refuse_existing(folder)
    folder = folder.absolute()
    try:
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        partial.chmod(0o777 & ~_umask())
    except OSError as error:
        raise DocumentError(str(folder), [f"cannot be written: {error.strerror}"]) from None
    try:
        for item in scenarios:
            write_canonical(partial / f"{item.scenario.id}.json", item.scenario.to_dict())
        manifest = {
            **chosen,
            "suite_id": suite.suite_id,
            "suite_hash": suite.suite_hash,
            "scenarios": [item.to_dict() for item in scenarios],
        }
        write_canonical(partial / MANIFEST_FILE, manifest)
        write_canonical(partial / SUITE_FILE, suite.to_dict())
        refuse_existing(folder)
        partial.rename(folder)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise DocumentError(str(folder), [f"cannot be written: {error.strerror}"]) from None
        raise


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
