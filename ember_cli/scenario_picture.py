"""Pictures of scenarios, and a sheet of many (the extra `plot`)."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ember_ref.grid import Grid, Position
from ember_ref.scenario import Scenario
from scenarios.procedural.measures import wide_cells

_OUTSIDE, _FLOOR, _WALL, _FURNITURE = 0, 1, 2, 3
_COLOURS: Final = ("#e6ece2", "#faf6ea", "#3c3d42", "#b08a62")
_EXIT, _IGNITION, _PERSON = "#1f6fd6", "#d62728", "#111111"
_MOST_FURNITURE: Final = 40


def picture(scenario: Scenario, caption: str = "") -> bytes:
    """Draw one scenario; return the bytes of a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height, width = scenario.grid.height, scenario.grid.width
    scale = min(0.3, 12 / max(height, width))
    figure = Figure(figsize=(max(4.0, scale * width), scale * height + 1.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _draw(axes, scenario, side=max(2.0, 45 * scale))
    figure.suptitle(scenario.id, fontsize=10)
    axes.set_title(caption, fontsize=8, wrap=True)
    return _png(figure, dpi=110)


def contact_sheet(rows: Mapping[str, Sequence[Scenario]]) -> bytes:
    """Draw a row of scenarios for every name; return the bytes of a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    most = max(map(len, rows.values()))
    figure = Figure(figsize=(2.4 * most, 2.3 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), most, squeeze=False)
    for line, (name, scenarios) in zip(grid, rows.items(), strict=True):
        for axes in line:
            axes.set_axis_off()
        for axes, scenario in zip(line, scenarios, strict=False):
            _draw(axes, scenario, side=45 * 1.6 / max(scenario.grid.height, scenario.grid.width, 12))
        line[0].set_title(name.replace("_", " "), fontsize=9, loc="left")
    return _png(figure, dpi=80)


def _draw(axes: Any, scenario: Scenario, *, side: float) -> None:
    from matplotlib.colors import ListedColormap

    kinds = _kinds(scenario.grid)
    axes.imshow(kinds, cmap=ListedColormap(_COLOURS), vmin=0, vmax=3, interpolation="nearest")
    marks = (
        ([exit.position for exit in scenario.exits], "s", _EXIT, 1.25),
        (scenario.fire.ignitions, "*", _IGNITION, 2.6),
        ([person.position for person in scenario.people], "o", _PERSON, 1.0),
    )
    for cells, marker, colour, share in marks:
        if cells:
            rows, cols = zip(*cells, strict=True)
            axes.plot(cols, rows, marker, color=colour, markersize=share * side, markeredgewidth=0)
    axes.set_axis_off()


def _kinds(grid: Grid) -> list[list[int]]:
    """Tell floor, walls, furniture, and what lies outside: solid cells that touch no floor."""
    kinds = [[_FLOOR] * grid.width for _ in range(grid.height)]
    for row, col in grid.obstacles:
        near = any(grid.is_open((row + i, col + j)) for i in (-1, 0, 1) for j in (-1, 0, 1))
        kinds[row][col] = _WALL if near else _OUTSIDE
    maze = 5 * wide_cells(grid) <= grid.height * grid.width - len(grid.obstacles)
    for block in () if maze else _blocks(grid):
        rows, cols = zip(*block, strict=True)
        full = (max(rows) - min(rows) + 1) * (max(cols) - min(cols) + 1) == len(block)
        border = {0, grid.height - 1} & set(rows) or {0, grid.width - 1} & set(cols)
        if full and not border and len(block) <= _MOST_FURNITURE:
            for row, col in block:
                kinds[row][col] = _FURNITURE
    return kinds


def _blocks(grid: Grid) -> list[set[Position]]:
    """Return the connected sets of obstacles, corners included."""
    left, blocks = set(grid.obstacles), []
    while left:
        block, front = set(), [left.pop()]
        while front:
            row, col = front.pop()
            block.add((row, col))
            around = {(row + i, col + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= around
            front.extend(around)
        blocks.append(block)
    return blocks


def _png(figure: Any, *, dpi: int) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()
