"""Buildings around large rooms: halls, shops, passages between two halls, and mazes."""

import dataclasses
import itertools

from ember_ref.grid import Position
from scenarios.procedural.canvas import Canvas, Layout, Rectangle
from scenarios.procedural.draws import Draws


def hall(draws: Draws, height: int, width: int) -> Layout:
    """A hall with benches, tables or columns, most often behind a foyer with a cloakroom and a store."""
    canvas = Canvas(height, width)
    foyer = draws.between(3, 4) if height >= 14 and draws.chance(7, 8) else 0
    last = height - 2 - (foyer + 1 if foyer else 0)
    main = canvas.room(1, 1, last, width - 2)
    _furnish(draws, canvas, main)
    if foyer:
        sides = draws.between(3, max(3, width // 5))
        middle = canvas.room(last + 2, sides + 2, height - 2, width - 3 - sides)
        for room in (
            canvas.room(last + 2, 1, height - 2, sides),
            canvas.room(last + 2, width - 1 - sides, height - 2, width - 2),
        ):
            canvas.door_between(draws, room, middle)
        halves = [dataclasses.replace(middle, right=middle.left + middle.width // 2 - 2)]
        halves.append(dataclasses.replace(middle, left=halves[0].right + 3))
        two = middle.width >= 9 and draws.chance(1, 2)
        for part in halves if two else [middle]:
            canvas.door_between(draws, part, main, wide=True)
        canvas.gate(*draws.shuffled([(height - 1, col) for col in range(middle.left + 1, middle.right)]))
    else:
        canvas.gate(*draws.shuffled([(height - 1, col) for col in range(3, width - 3)]))
    sides_of_hall = [(row, col) for row in range(2, last) for col in (0, width - 1)]
    canvas.gate(*draws.shuffled([*sides_of_hall, *((0, col) for col in range(3, width - 3))]))
    return canvas.layout("hall")


def shop(draws: Draws, height: int, width: int) -> Layout:
    """A shop: shelves with aisles, tills near the front, and store rooms behind."""
    canvas = Canvas(height, width)
    store = draws.between(2, 3 if height < 20 else 4)
    floor = canvas.room(store + 2, 1, height - 2, width - 2)
    stores = [canvas.room(1, a, store, b) for a, b in draws.intervals(1, width - 2, least=3, most=8)]
    for room in stores:
        canvas.door_between(draws, room, floor)
    for one, other in itertools.pairwise(stores):
        if draws.chance(1, 4):
            canvas.door_between(draws, one, other)
    tills = floor.bottom - (3 if height >= 16 else 1)
    _shelves(draws, canvas, Rectangle(top=floor.top, left=1, bottom=tills - 1, right=width - 2))
    if height >= 16:
        for col in range(4, width - 4, 3):
            canvas.block(tills, col, tills + 1, col)
    front = draws.shuffled([(height - 1, col) for col in range(3, width - 3)])
    sides = [(row, col) for row in range(floor.top + 1, floor.bottom) for col in (0, width - 1)]
    canvas.gate(*front, *draws.shuffled(sides))
    canvas.gate(*((0, col) for room in draws.shuffled(stores) for col in range(room.left, room.right + 1)))
    return canvas.layout("shop")


def passage(draws: Draws, height: int, width: int) -> Layout:
    """A hall whose only way out is a corridor one cell wide, to a lobby with doors; side rooms along it."""
    canvas = Canvas(height, width)
    lobby_width = draws.between(3, max(3, width // 6))
    zone = draws.between(4, max(4, width // 4))  # columns between hall and lobby, walls included
    edge = width - 2 - lobby_width - zone  # the last column of the hall
    main = canvas.room(1, 1, height - 2, edge)
    _furnish(draws, canvas, main)
    lobby = canvas.room(1, width - 1 - lobby_width, height - 2, width - 2)
    row = draws.between(4, height - 5)
    other = row
    if zone >= 7 and draws.chance(1, 3):  # a bend
        other = draws.between(4, height - 5)
    bend = edge + zone // 2
    ways = [canvas.corridor(row, edge + 1, row, bend), canvas.corridor(other, bend, other, edge + zone)]
    if row != other:
        ways.append(canvas.corridor(min(row, other), bend, max(row, other), bend))
    for first, last in ((1, min(row, other) - 2), (max(row, other) + 2, height - 2)):
        if last - first >= 1 and zone >= 4:
            for start, stop in draws.intervals(first, last, least=2, most=5):
                side = canvas.room(start, edge + 2, stop, edge + zone - 1)
                canvas.door_between(draws, side, lobby if draws.chance(2, 3) else main)
    canvas.gate(*draws.shuffled([(r, width - 1) for r in range(2, height - 2)]))
    ends = [(r, col) for r in (0, height - 1) for col in range(lobby.left, lobby.right + 1)]
    canvas.gate(*draws.shuffled(ends))
    return canvas.layout("passage")


def maze(draws: Draws, height: int, width: int) -> Layout:
    """Corridors one cell wide with many dead ends, a few loops, and sometimes a chamber in the middle.

    Source: the depth-first search of Even, "Graph Algorithms", 1979, section 3.3, with choices at random.
    """
    height, width = height - 1 + height % 2, width - 1 + width % 2
    canvas = Canvas(height, width)
    if min(height, width) >= 19 and draws.chance(1, 2):
        row, col = (height // 4) * 2 + 1, (width // 4) * 2 + 1
        canvas.room(row - 2, col - 2, row + 2, col + 2)
    start = (1 + 2 * draws.between(0, height // 2 - 1), 1 + 2 * draws.between(0, width // 2 - 1))
    seen, stack = {start}, [start]
    canvas.open.add(start)
    while stack:
        row, col = stack[-1]
        steps = [(row + i, col + j) for i, j in ((-2, 0), (2, 0), (0, 2), (0, -2))]
        fresh = [c for c in steps if 0 < c[0] < height - 1 and 0 < c[1] < width - 1 and c not in seen]
        if not fresh:
            stack.pop()
            continue
        chosen = draws.pick(fresh)
        seen.add(chosen)
        canvas.open |= {chosen, ((row + chosen[0]) // 2, (col + chosen[1]) // 2)}
        stack.append(chosen)
    _loops(draws, canvas, len(seen) // 24)
    canvas.gate(
        *draws.shuffled(
            [
                *((row, col) for row in range(1, height, 2) for col in (0, width - 1)),
                *((row, col) for col in range(1, width, 2) for row in (0, height - 1)),
            ]
        )
    )
    return canvas.layout("maze")


# Parts


def _furnish(draws: Draws, canvas: Canvas, room: Rectangle) -> None:
    """Put benches, tables, shelves or columns into a hall, an aisle away from its walls."""
    kind = draws.pick(("benches", "benches", "tables", "columns", "shelves"))
    if kind == "benches":
        _benches(draws, canvas, room)
    elif kind == "tables":
        step = draws.between(4, 5)
        for row in range(room.top + 2, room.bottom - 2, step - 1):
            for col in range(room.left + 2, room.right - 2, step):
                canvas.block(row, col, row, col + step - 3)
    elif kind == "shelves":
        _shelves(draws, canvas, room)
    else:
        step = draws.between(3, 5)
        for row in range(room.top + 2, room.bottom - 1, step):
            for col in range(room.left + 2, room.right - 1, step):
                canvas.block(row, col, row, col)


def _benches(draws: Draws, canvas: Canvas, room: Rectangle) -> None:
    """Rows of benches before a stage, with aisles at both sides and, in a wide hall, in the middle."""
    stage, aisle = draws.between(2, 3), draws.between(1, 2)
    middle = room.left + room.width // 2
    for row in range(room.top + stage, room.bottom - 1, 2):
        if room.width >= 11:
            canvas.block(row, room.left + 1, row, middle - 1)
            canvas.block(row, middle + aisle, row, room.right - 1)
        else:
            canvas.block(row, room.left + 1, row, room.right - 1)


def _shelves(draws: Draws, canvas: Canvas, room: Rectangle) -> None:
    """Shelves from front to back in blocks, with aisles between them and across."""
    aisle, thick = draws.between(1, 2), draws.between(1, 2)
    rows = draws.intervals(room.top + 1, room.bottom - 1, least=3, most=7)
    for col in range(room.left + 2, room.right - thick, aisle + thick):
        for first, last in rows:
            canvas.block(first, col, last, col + thick - 1)


def _loops(draws: Draws, canvas: Canvas, count: int) -> None:
    """Open some walls between two corridors of a maze, so that there are a few ways round."""
    walls: list[Position] = []
    for row in range(1, canvas.height - 1):
        for col in range(1, canvas.width - 1):
            across = {(row, col - 1), (row, col + 1)} <= canvas.open
            along = {(row - 1, col), (row + 1, col)} <= canvas.open
            if (row, col) not in canvas.open and across != along:
                walls.append((row, col))
    canvas.open.update(draws.shuffled(walls)[:count])
