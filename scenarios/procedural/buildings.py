"""Buildings of rooms along corridors: offices, wings, rings, houses and museums."""

import itertools

from ember_ref.grid import Position
from scenarios.procedural.canvas import Canvas, Layout, Rectangle
from scenarios.procedural.draws import Draws


def office(draws: Draws, height: int, width: int) -> Layout:
    """Rooms on both sides of one or more parallel corridors; corridors are joined by short ones across."""
    canvas = Canvas(height, width)
    count = 3 if height >= 34 else 2 if height >= 21 else 1
    wide = draws.between(1, 2) if count == 1 else 1
    corridors: list[Rectangle] = []
    bands: list[tuple[int, int, int]] = []  # first row, last row, index of the corridor
    depths = _spread(draws, height - 2 - count * wide - 2 * count - (count - 1), 2 * count)
    row = 1
    for number in range(count):
        upper, lower = depths[2 * number : 2 * number + 2]
        at = row + upper + 1
        corridors.append(canvas.corridor(at, 1, at + wide - 1, width - 2))
        bands += [(row, at - 2, number), (at + wide + 1, at + wide + lower, number)]
        row = at + wide + lower + 2
    crossings = _crossings(draws, width) if count > 1 else []
    for first, last, number in bands:
        inner = first > 1 and last < height - 2
        spans = _spans(width, crossings) if inner else [(1, width - 2)]
        rooms = []
        for left, right in spans:
            for start, stop in draws.intervals(left, right, least=4 if last - first >= 5 else 3, most=6):
                rooms.append(canvas.room(first, start, last, stop))
        for room in rooms:
            if draws.chance(1, 9):
                canvas.open_side(room, corridors[number])
            else:
                canvas.door_between(draws, room, corridors[number])
        _join_neighbours(draws, canvas, rooms)
    for at in crossings:
        canvas.corridor(corridors[0].bottom + 1, at, corridors[-1].top - 1, at)
    for corridor in corridors:
        canvas.gate(*((row, col) for col in (0, width - 1) for row in range(corridor.top, corridor.bottom + 1)))
    for first, last, number in (bands[0], bands[-1]):
        _entrance(draws, canvas, [r for r in canvas.rooms if r.top == first and r.bottom == last], corridors[number])
    return canvas.layout("office")


def wings(draws: Draws, height: int, width: int) -> Layout:
    """Wings of rooms that stand on a spine, with the outside between them: a T, a U or a comb from above."""
    canvas = Canvas(height, width)
    depth, wide = draws.between(3, 4 if width >= 24 else 3), draws.between(1, 2 if width >= 18 else 1)
    wing = 2 * depth + wide + 4
    count = max(1, min(4, (width + 3) // (wing + 3)))
    spare = width - count * wing
    gap = spare // (count - 1) if count > 1 else 0
    lead = draws.between(0, spare) if count == 1 else (spare - gap * (count - 1)) // 2
    below = draws.between(3, 4 if height >= 18 else 3)
    top = height - 2 - below - wide
    spine = canvas.corridor(top, 1, top + wide - 1, width - 2)
    for number in range(count):
        left = lead + number * (wing + gap)
        middle = left + depth + 2
        corridor = canvas.corridor(1, middle, top - 1, middle + wide - 1)
        for start in (left + 1, middle + wide + 1):
            rooms = [
                canvas.room(first, start, last, start + depth - 1)
                for first, last in draws.intervals(1, top - 2, least=3 if height >= 18 else 2, most=5)
            ]
            for room in rooms:
                canvas.door_between(draws, room, corridor)
            _join_neighbours(draws, canvas, rooms)
        canvas.gate(*((0, col) for col in range(corridor.left, corridor.right + 1)))
    rooms = [
        canvas.room(spine.bottom + 2, first, height - 2, last)
        for first, last in draws.intervals(1, width - 2, least=3, most=6)
    ]
    for room in rooms:
        canvas.door_between(draws, room, spine)
    _join_neighbours(draws, canvas, rooms)
    canvas.gate(*((row, col) for col in (0, width - 1) for row in range(spine.top, spine.bottom + 1)))
    _entrance(draws, canvas, rooms, spine)
    return canvas.layout("wings")


def ring(draws: Draws, height: int, width: int) -> Layout:
    """A corridor round a courtyard or an inner hall, with rooms outside it all the way round."""
    canvas = Canvas(height, width)
    depth = 2 if height < 16 else draws.between(3, 4 if height >= 24 else 3)
    wide = 1 if height < 20 else draws.between(1, 2)
    near, far = depth + 2, (height - 3 - depth, width - 3 - depth)  # the corridor's outer edge
    corridor = [
        canvas.corridor(near, near, near + wide - 1, far[1]),
        canvas.corridor(far[0] - wide + 1, near, far[0], far[1]),
        canvas.corridor(near, near, far[0], near + wide - 1),
        canvas.corridor(near, far[1] - wide + 1, far[0], far[1]),
    ]
    sides: list[list[Rectangle]] = []
    for first, last in ((1, depth), (height - 1 - depth, height - 2)):
        cuts = draws.intervals(near, far[1], least=3, most=6)
        cuts[0] = 1, cuts[0][1]
        cuts[-1] = cuts[-1][0], width - 2
        sides.append([canvas.room(first, start, last, stop) for start, stop in cuts])
    for first, last in ((1, depth), (width - 1 - depth, width - 2)):
        cuts = draws.intervals(near, far[0], least=2 if height < 16 else 3, most=6)
        sides.append([canvas.room(start, first, stop, last) for start, stop in cuts])
    for side, way in zip(sides, corridor, strict=True):
        for room in side:
            canvas.door_between(draws, room, way)
    for number in draws.shuffled([number for number in range(4) if number < 2 or len(sides[number]) > 1]):
        _entrance(draws, canvas, sides[number], corridor[number])
    _core(draws, canvas, corridor, near + wide + 1, (far[0] - wide - 1, far[1] - wide - 1))
    return canvas.layout("ring")


def house(draws: Draws, height: int, width: int) -> Layout:
    """A house or flat: a hallway, and rooms of many sizes on both sides, some reached through others."""
    canvas = Canvas(height, width)
    wide = draws.between(1, 2)
    row = draws.between(height * 2 // 5, height * 3 // 5 - wide + 1)
    hallway = canvas.corridor(row, 1, row + wide - 1, width - 2)
    for first, last in ((1, row - 2), (row + wide + 1, height - 2)):
        for room in _split(draws, Rectangle(top=first, left=1, bottom=last, right=width - 2), least=3, most=30):
            canvas.room(room.top, room.left, room.bottom, room.right)
    canvas.connect(draws, [hallway, *canvas.rooms], first=1, loops=(1, 3))
    canvas.gate(*((r, c) for c in draws.shuffled([0, width - 1]) for r in range(row, row + wide)))
    for room in draws.shuffled([r for r in canvas.rooms if r.bottom == height - 2 or r.top == 1]):
        canvas.gate(*_outer(canvas, room)[1:-1])
    return canvas.layout("house")


def museum(draws: Draws, height: int, width: int) -> Layout:
    """Galleries one behind the other, with doors between neighbours, loops, and pedestals in the large ones."""
    canvas = Canvas(height, width)
    for first, last in draws.intervals(1, height - 2, least=4, most=7):
        for start, stop in draws.intervals(1, width - 2, least=4, most=9):
            canvas.room(first, start, last, stop)
    canvas.connect(draws, list(canvas.rooms), first=0, loops=(1, 2))
    for room in canvas.rooms:
        if room.height >= 5 and room.width >= 5 and draws.chance(2, 3):
            canvas.block(room.top + 2, room.left + 2, room.bottom - 2, room.right - 2)
    for room in draws.shuffled([r for r in canvas.rooms if _outer(canvas, r)]):
        canvas.gate(*_outer(canvas, room)[1:-1])
    return canvas.layout("museum")


# Parts


def _spread(draws: Draws, total: int, count: int) -> list[int]:
    """Share a total out as evenly as it goes, the odd ones at random."""
    shares = [total // count] * count
    for place in draws.shuffled(range(count))[: total % count]:
        shares[place] += 1
    return shares


def _crossings(draws: Draws, width: int) -> list[int]:
    """Return the columns of the corridors across."""
    third = (width - 2) // 3
    places = [draws.between(5, third), draws.between(width - 1 - third, width - 6)]
    return places if draws.chance(1, 2) else [draws.between(third + 1, width - 2 - third)]


def _spans(width: int, crossings: list[int]) -> list[tuple[int, int]]:
    """Return the columns left for rooms between the corridors across."""
    edges = [-1, *crossings, width]
    spans = [(left + 2, right - 2) for left, right in itertools.pairwise(edges)]
    return [(left, right) for left, right in spans if right - left >= 1]


def _split(draws: Draws, whole: Rectangle, *, least: int, most: int) -> list[Rectangle]:
    """Split a rectangle by walls into rooms of at most `most` cells or too small to split (binary partition)."""
    tall, wide = whole.height >= 2 * least + 1, whole.width >= 2 * least + 1
    if not (tall or wide) or (whole.area <= most and draws.chance(3, 4)) or whole.area <= 2 * least * least:
        return [whole]
    across = wide and (not tall or whole.width > whole.height or (whole.width == whole.height and draws.chance(1, 2)))
    t, l, b, r = whole.top, whole.left, whole.bottom, whole.right  # noqa: E741
    if across:
        at = draws.between(l + least, r - least)
        parts = [(t, l, b, at - 1), (t, at + 1, b, r)]
    else:
        at = draws.between(t + least, b - least)
        parts = [(t, l, at - 1, r), (at + 1, l, b, r)]
    return [
        room
        for top, left, bottom, right in parts
        for room in _split(draws, Rectangle(top=top, left=left, bottom=bottom, right=right), least=least, most=most)
    ]


def _join_neighbours(draws: Draws, canvas: Canvas, rooms: list[Rectangle]) -> None:
    """Give some rooms next to each other a door between them."""
    for one, other in itertools.pairwise(rooms):
        if draws.chance(1, 8):
            canvas.door_between(draws, one, other)


def _entrance(draws: Draws, canvas: Canvas, rooms: list[Rectangle], corridor: Rectangle) -> None:
    """Make one of the rooms an entrance: open to its corridor, with gates in its outer wall."""
    room = draws.pick(rooms[1:-1] if len(rooms) > 2 else rooms)
    canvas.open_side(room, corridor)
    wall = _outer(canvas, room)
    canvas.gate(*(wall[1:-1] or wall))


def _outer(canvas: Canvas, room: Rectangle) -> list[Position]:
    """Return the longest stretch of the outer wall that a room has, in order."""
    walls: list[list[Position]] = [
        [(0, col) for col in range(room.left, room.right + 1) if room.top == 1],
        [(canvas.height - 1, col) for col in range(room.left, room.right + 1) if room.bottom == canvas.height - 2],
        [(row, 0) for row in range(room.top, room.bottom + 1) if room.left == 1],
        [(row, canvas.width - 1) for row in range(room.top, room.bottom + 1) if room.right == canvas.width - 2],
    ]
    return max(walls, key=len)


def _core(draws: Draws, canvas: Canvas, corridor: list[Rectangle], start: int, end: tuple[int, int]) -> None:
    """Fill the middle of a ring: a hall with doors on two to four sides, inner rooms, or a courtyard."""
    tall, wide = end[0] - start + 1, end[1] - start + 1
    if tall < 2 or wide < 3:
        return
    if wide >= 9 and draws.chance(1, 2):
        middle = start + tall // 2  # a wall between two rows of rooms, where there is room for two
        rows = [(start, middle - 1), (middle + 1, end[0])] if tall >= 7 else [(start, end[0])]
        for number, (first, last) in enumerate(rows):
            for left, right in draws.intervals(start, end[1], least=3, most=7):
                room = canvas.room(first, left, last, right)
                canvas.door_between(draws, room, corridor[number if len(rows) == 2 else draws.between(0, 1)])
    elif draws.chance(2, 3):
        hall = canvas.room(start, start, end[0], end[1])
        for number in draws.shuffled(range(4))[: draws.between(2, 4)]:
            canvas.door_between(draws, hall, corridor[number], wide=draws.chance(1, 2))
        if tall >= 5 and wide >= 5:
            for col in range(start + 2, end[1] - 1, 4):
                for row in {start + 1, end[0] - 1}:
                    canvas.block(row, col, row, col)
