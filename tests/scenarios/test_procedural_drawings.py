"""Drawings of the generator: what makes them buildings, and that the measures can see when they are none."""

import dataclasses

import pytest

from ember_ref.grid import Grid
from ember_ref.stream import Stream, word
from scenarios.procedural.canvas import TURNS, Canvas, Rectangle, turn_of
from scenarios.procedural.draws import Draws
from scenarios.procedural.measures import LAYOUT_RULES, Building, layout_faults, wide_cells
from scenarios.procedural.setting import SIZES
from scenarios.procedural.site import LAYOUTS


def building(name, index, size="medium", *, exits=2):
    draws = Draws(name, 11, index)
    bounds = SIZES[size]
    layout = LAYOUTS[name](draws, draws.between(*bounds.heights), draws.between(*bounds.widths))
    layout = layout.turned(draws.between(0, TURNS - 1))
    chosen = tuple(draws.shuffled(layout.gates)[:exits])
    grid = dataclasses.replace(layout.grid, obstacles=layout.grid.obstacles.difference(chosen))
    return Building(layout=layout, grid=grid, exits=chosen)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_nearly_every_drawing_passes_every_measure(name, size):
    faults = [layout_faults(building(name, index, size)) for index in range(20)]
    assert sum(map(bool, faults)) <= 2, faults


@pytest.mark.parametrize("name", LAYOUTS)
def test_gates_are_walls_with_floor_behind_them(name):
    for index in range(6):
        layout = building(name, index).layout
        assert len(set(layout.gates)) == len(layout.gates) >= 2
        for gate in layout.gates:
            assert not layout.grid.is_open(gate)
            assert len(layout.grid.neighbours(gate)) == 1


@pytest.mark.parametrize("name", LAYOUTS)
def test_drawings_differ_from_each_other(name):
    grids = {building(name, index).grid for index in range(8)}
    assert len(grids) == 8


def wall_up(b, cells):
    return dataclasses.replace(b, grid=dataclasses.replace(b.grid, obstacles=b.grid.obstacles | set(cells)))


def carve(b, cells):
    return dataclasses.replace(b, grid=dataclasses.replace(b.grid, obstacles=b.grid.obstacles - set(cells)))


def room_of(b):
    return next(room for room in b.layout.rooms if min(room.height, room.width) >= 3)


def middle(room):
    return (room.top + room.bottom) // 2, (room.left + room.right) // 2


def with_layout(b, **changes):
    return dataclasses.replace(b, layout=dataclasses.replace(b.layout, **changes))


def planted(rule, b):
    """Return a building that breaks one measure."""
    room = room_of(b)
    door = b.layout.doors[0]
    around = [(door[0] + i, door[1] + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return {
        "outer wall": lambda: dataclasses.replace(b, exits=b.exits[:-1]),
        "reachable": lambda: wall_up(b, room.border()),
        "rooms": lambda: with_layout(b, rooms=b.layout.rooms[:2]),
        "apart": lambda: with_layout(b, rooms=(*b.layout.rooms, room)),
        "room doors": lambda: wall_up(b, room.border()),
        "doors": lambda: carve(b, around),
        "corridors": lambda: with_layout(b, corridors=(*b.layout.corridors, room)),
        "dead ends": lambda: with_layout(b, name="maze"),
        "walls": lambda: wall_up(b, [middle(room)]),
        "floor": lambda: carve(b, b.grid.obstacles),
    }[rule]()


@pytest.mark.parametrize("rule", LAYOUT_RULES)
def test_every_measure_sees_what_it_is_about(rule):
    b = next(b for b in (building("office", index, "large") for index in range(20)) if not layout_faults(b))
    assert rule in layout_faults(planted(rule, b))


def test_a_furnished_room_needs_half_of_its_floor():
    b = next(b for b in (building("office", index) for index in range(20)) if not layout_faults(b))
    room = room_of(b)
    cells = list(room.cells())
    assert "rooms" in layout_faults(wall_up(b, cells[: room.area // 2 + 1]))


def test_wide_cells_are_those_in_open_squares():
    walls = frozenset({(0, 2), (1, 2), (1, 3)})
    assert wide_cells(Grid(height=2, width=4, obstacles=walls)) == 4
    assert wide_cells(Grid(height=1, width=4, obstacles=frozenset())) == 0


def test_the_eight_turns_are_the_symmetries_of_a_rectangle():
    cells = [(row, col) for row in range(3) for col in range(5)]
    images = {tuple(map(turn_of(turn, 3, 5), cells)) for turn in range(TURNS)}
    assert len(images) == TURNS
    for turn in range(TURNS):
        image = set(map(turn_of(turn, 3, 5), cells))
        tall, wide = (5, 3) if turn & 1 else (3, 5)
        assert image == {(row, col) for row in range(tall) for col in range(wide)}


def test_a_turned_layout_turns_everything_with_it():
    layout = building("ring", 1).layout
    for turn in range(TURNS):
        turned = layout.turned(turn)
        place = turn_of(turn, layout.grid.height, layout.grid.width)
        assert {place(cell) for cell in layout.grid.obstacles} == turned.grid.obstacles
        for room, image in zip(layout.rooms, turned.rooms, strict=True):
            assert set(map(place, room.cells())) == set(image.cells())
        assert [place(gate) for gate in layout.gates] == list(turned.gates)


def test_draws_come_from_the_stream_of_the_contract():
    draws = Draws("maze", 2**64 - 1, 12)
    stream = Stream("generator/1.0/maze/12", 2**64 - 1)
    assert draws.seeds(2) == [word(stream.seed, 0), word(stream.seed, 1)]
    assert draws.between(5, 9) == 5 + ((word(stream.seed, 2) >> 32) * 5 >> 32)
    assert draws.position == 3


@pytest.mark.parametrize("length", range(1, 40))
def test_parts_fill_a_length_with_a_wall_between_neighbours(length):
    for index in range(5):
        parts = Draws("office", length, index).parts(length, least=3, most=6)
        assert sum(parts) + len(parts) - 1 == length
        assert min(parts) >= min(3, length)
        if len(parts) > 1 and length not in {13}:
            assert max(parts) <= 6


def test_doors_lie_in_shared_walls_only():
    canvas = Canvas(7, 12)
    one, other, far = canvas.room(1, 1, 5, 3), canvas.room(1, 5, 5, 7), canvas.room(1, 9, 5, 10)
    assert canvas.door_between(Draws("office", 0, 0), one, far) == ()
    (door,) = canvas.door_between(Draws("office", 0, 0), one, other)
    assert door[1] == 4
    assert 1 < door[0] < 5


def test_connect_leaves_nothing_apart_and_closes_no_loop_without_leave():
    canvas = Canvas(9, 17)
    rooms = [canvas.room(top, left, top + 2, left + 2) for top in (1, 5) for left in (1, 5, 9, 13)]
    canvas.connect(Draws("museum", 0, 0), rooms, first=0, loops=(0, 1))
    grid = canvas.layout("museum").grid
    assert len(canvas.doors) == len(rooms) - 1
    assert len(grid.distances([(1, 1)])) == 8 * 9 + 7


def test_the_border_of_a_rectangle_leaves_corners_out():
    border = list(Rectangle(top=1, left=1, bottom=2, right=3).border())
    assert len(border) == len(set(border)) == 10
    assert (0, 0) not in border
