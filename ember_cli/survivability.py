"""`ember survivability`: where in a building people can still be saved, over many fires."""

import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ember_cli.console import (
    Backend,
    Json,
    Report,
    SeedsText,
    UsageError,
    UseBackend,
    enable_compilation_cache,
    note,
    scenario_of,
    seeds_for,
)
from ember_cli.progress import Progress
from ember_ref.canonical import write_bytes
from ember_ref.fire import NEVER, fire_world
from ember_ref.references import layers
from ember_ref.scenario import Scenario

BATCH: Final = 1024
"""Seeds between two signs of progress."""
_SUFFIX: Final = ".npz"
_WALL, _EXIT, _IGNITION, _PERSON = "#2b2b2b", "#1f6fd6", "#d62728", "black"


def survivability(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or the name of a bundled scenario.")],
    out: Annotated[Path, typer.Option("--out", help="The array file to write, ending in .npz.")],
    seeds: SeedsText = None,
    as_json: Json = False,
    backend: UseBackend = Backend.JAX,
) -> None:
    """Map, for every cell, the share of fires in which a person there at step 0 can still escape.

    The array file has, by cell: `escapes` (fires with an escape), `share` (of all fires) and `mean_earliest` (the
    mean earliest evacuation step in these fires); NaN at walls and exits and where there is nothing to average;
    also `walls`, `exits`, `ignitions`, `fires`, `scenario_hash`. With the extra `plot` installed, a picture is
    written beside it, ending in .png.
    """
    if out.suffix != _SUFFIX:
        raise UsageError(f"--out {out}: expected a name ending in {_SUFFIX}")
    item = scenario_of(scenario)
    chosen = seeds_for(seeds, item)
    import numpy as np

    shape = item.grid.height, item.grid.width
    escapes, total = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    with Progress("fires") as progress:
        for start in range(0, chosen.count, BATCH):
            for earliest in _earliest(item, chosen.part(start, start + BATCH), backend):
                finite = earliest != NEVER
                escapes += finite.sum(axis=0, dtype=np.int64)
                total += np.where(finite, earliest, 0).sum(axis=0, dtype=np.int64)
            progress(min(start + BATCH, chosen.count), chosen.count)
    arrays = _arrays(item, escapes, total, chosen.count)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(out, buffer.getvalue())
    if importlib.util.find_spec("matplotlib") is None:
        note(f"ember: {out} is written; for a picture install the extra `plot`")
    else:
        write_bytes(out.with_suffix(".png"), _picture(item, arrays))
    standing = arrays["share"][~np.isnan(arrays["share"])]
    report = Report(as_json=as_json, title=f"Survivability: {out}")
    report.add({"scenario": scenario, "seeds": chosen.count, "cells": int(standing.size)})
    report.close()


def _earliest(scenario: Scenario, seeds: list[int], backend: Backend) -> Iterator[Any]:
    """Yield L at snapshot 0, uint32[n, height, width], of all seeds."""
    import numpy as np

    if backend is Backend.JAX:
        from ember_jax.references import first_layers

        enable_compilation_cache()
        yield from (layer.earliest for _, layer in first_layers(scenario, np.array(seeds, dtype=np.uint64)))
        return
    for seed in seeds:
        *_, first = layers(scenario, fire_world(scenario, seed))
        cells = np.array(first.earliest, dtype=np.uint32)
        yield cells.reshape(1, scenario.grid.height, scenario.grid.width)


def _arrays(scenario: Scenario, escapes: Any, total: Any, fires: int) -> dict[str, Any]:
    import numpy as np

    shape = scenario.grid.height, scenario.grid.width
    marks = {
        "walls": scenario.grid.obstacles,
        "exits": [exit.position for exit in scenario.exits],
        "ignitions": scenario.fire.ignitions,
        "people": [person.position for person in scenario.people],
    }
    masks = {name: np.zeros(shape, dtype=np.bool_) for name in marks}
    for name, cells in marks.items():
        for cell in cells:
            masks[name][cell] = True
    nobody = masks["walls"] | masks["exits"]
    share = np.where(nobody, np.nan, escapes / fires)
    mean = np.full(shape, np.nan)
    np.divide(total, escapes, out=mean, where=escapes > 0)
    return {
        "escapes": escapes,
        "share": share,
        "mean_earliest": mean,
        **masks,
        "fires": np.int64(fires),
        "scenario_hash": np.str_(scenario.content_hash),
    }


def _picture(scenario: Scenario, arrays: dict[str, Any]) -> bytes:
    """Draw both maps side by side; return the bytes of a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height, width = scenario.grid.height, scenario.grid.width
    inches = min(9.0, max(4.0, width / 3)), min(9.0, max(4.0, height / 3))
    figure = Figure(figsize=(2 * inches[0] + 2, inches[1] + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    figure.suptitle(f"{scenario.id}: what a person alone could do, over {int(arrays['fires']):,} fires")
    _map(left, scenario, arrays, "share", "share of fires with an escape from here", scale="RdYlGn", most=1.0)
    _map(
        right,
        scenario,
        arrays,
        "mean_earliest",
        "mean earliest evacuation step, where one escapes",
        scale="viridis_r",
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _map(
    axes: Any,
    scenario: Scenario,
    arrays: dict[str, Any],
    name: str,
    title: str,
    *,
    scale: str,
    most: float | None = None,
) -> None:
    import matplotlib as mpl
    import numpy as np
    from matplotlib.colors import ListedColormap
    from matplotlib.lines import Line2D

    colours = mpl.colormaps[scale].with_extremes(bad="#d9d9d9")
    image = axes.imshow(arrays[name], cmap=colours, vmin=0.0, vmax=most, interpolation="nearest")
    axes.figure.colorbar(image, ax=axes, shrink=0.8)
    solid = np.where(arrays["walls"], 1.0, np.nan)
    axes.imshow(solid, cmap=ListedColormap([_WALL]), vmin=0, vmax=1, interpolation="nearest")
    # A marker fills most of its cell on a small map and stays visible on a large one.
    side = max(4.0, min(14.0, 330.0 / max(scenario.grid.height, scenario.grid.width)))
    kinds = (
        ("exits", "s", _EXIT, side, "exit"),
        ("ignitions", "*", _IGNITION, 1.3 * side, "ignition"),
        ("people", "o", _PERSON, max(2.0, 0.35 * side), "person at step 0"),
    )
    for mask, marker, colour, size, _ in kinds:
        rows, cols = np.nonzero(arrays[mask])
        edge = "white" if marker != "o" else "none"
        axes.plot(cols, rows, marker, color=colour, markersize=size, markeredgecolor=edge, markeredgewidth=0.6)
    handles = [
        Line2D([], [], linestyle="none", marker=marker, color=colour, label=label)
        for _, marker, colour, _, label in kinds
    ]
    handles.append(Line2D([], [], linestyle="none", marker="s", color=_WALL, label="wall"))
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.04), ncols=4, frameon=False, fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.tick_params(labelsize=7)
