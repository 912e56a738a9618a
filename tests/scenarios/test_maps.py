import pathlib

import pytest

from ember_ref.errors import DocumentError, ScenarioError
from ember_ref.scenario import FireModel
from ember_ref.stream import Stream
from scenarios.maps import import_map, read_map, read_starts

MAPS = pathlib.Path(__file__).parents[1] / "vectors" / "maps"
MOVING_AI = MAPS / "movingai"
RANDOM = MOVING_AI / "random-32-32-10.map"
STARTS = MOVING_AI / "random-32-32-10-random-1.scen"


@pytest.mark.parametrize(
    ("name", "exit", "size", "free", "farthest", "total"),
    [
        ("random-32-32-20", (0, 0), (32, 32), 819, 62, 25813),
        ("room-32-32-4", (0, 3), (32, 32), 682, 59, 22748),
        ("maze-32-32-2", (1, 1), (32, 32), 666, 140, 57068),
        ("den312d", (2, 5), (81, 65), 2445, 134, 183855),
        ("warehouse-10-20-10-2-1", (1, 1), (63, 161), 5699, 218, 621191),
    ],
)
def test_moving_ai_maps_have_their_known_sizes_and_distances(name, exit, size, free, farthest, total):
    grid = read_map(MOVING_AI / f"{name}.map").grid
    distances = grid.distances([exit])
    assert (grid.height, grid.width) == size
    assert grid.height * grid.width - len(grid.obstacles) == free
    assert max(distances.values()) == farthest
    assert sum(distances.values()) == total


def test_the_one_tree_of_the_random_map_blocks():
    text = (MOVING_AI / "random-32-32-20.map").read_text()
    row, col = next((i, line.index("T")) for i, line in enumerate(text.split("\n")[4:]) if "T" in line)
    assert (row, col) in read_map(MOVING_AI / "random-32-32-20.map").grid.obstacles


def test_a_map_without_a_final_newline_keeps_its_last_row():
    assert not (MOVING_AI / "arena.map").read_bytes().endswith(b"\n")
    assert read_map(MOVING_AI / "arena.map").grid.height == 49


def test_floor_plan_with_walls_only():
    drawing = read_map(MAPS / "mesa-fire" / "floorplan_1.txt", walls="W")
    distances = drawing.grid.distances(drawing.exits)
    assert 2500 - len(drawing.grid.obstacles) == 2148
    assert len(drawing.exits) == 8
    assert (max(distances.values()), sum(distances.values())) == (44, 55440)


def test_furniture_blocks_unless_walls_say_otherwise(tmp_path):
    plan = tmp_path / "plan.txt"
    plan.write_text("W E W\nW F W\nW S W\n")
    assert (1, 1) in read_map(plan).grid.obstacles
    assert (1, 1) not in read_map(plan, walls="W").grid.obstacles


def test_a_blank_plan_has_no_exit_and_says_so():
    drawing = read_map(MAPS / "mesa-fire" / "floorplan_blank.txt")
    assert not drawing.grid.obstacles
    with pytest.raises(ScenarioError, match="exits: 0 entries, fewer than 1"):
        import_map(drawing, id="blank", people=3, model=FireModel.DETERMINISTIC)


def test_text_map_with_an_exit_that_burns(tmp_path):
    text = tmp_path / "map.txt"
    text.write_bytes(b"#X#\r\n#.#\r\n#P#\r\n#E#\r\n")
    scenario = import_map(read_map(text), id="text", model=FireModel.DETERMINISTIC, exits_flammable=True)
    assert [exit.position for exit in scenario.exits] == [(0, 1), (3, 1)]
    assert scenario.fire.ignitions == ((0, 1),)
    assert [person.position for person in scenario.people] == [(2, 1)]


def test_starts_swap_x_and_y_and_skip_exits_ignitions_and_repeats():
    drawing = read_map(RANDOM)
    starts = read_starts(STARTS, drawing.grid)
    assert starts[0] == (6, 11)  # x = 11, y = 6 in the file
    people = import_map(
        drawing,
        id="starts",
        exits=[starts[0]],
        ignitions=[starts[1]],
        people=3,
        starts=(starts[0], starts[1], starts[2], starts[2], *starts[3:]),
        model=FireModel.DETERMINISTIC,
    ).people
    assert [person.position for person in people] == list(starts[2:5])


def test_placed_people_depend_on_the_place_seed_alone():
    drawing = read_map(RANDOM)

    def places(place_seed, exit=(0, 0)):
        scenario = import_map(
            drawing,
            id="placed",
            exits=[exit],
            people=12,
            place_seed=place_seed,
            model=FireModel.DETERMINISTIC,
        )
        return [(person.id, person.position) for person in scenario.people]

    assert places(5) == places(5) != places(6)
    assert [name for name, _ in places(5)] == [f"P{i:02}" for i in range(1, 13)]
    assert all(drawing.grid.is_open(cell) and cell != (0, 0) for _, cell in places(5))
    # Drawn anew from the words of the stream: the last place takes word 0.
    cells = [c for c in drawing.grid.positions() if drawing.grid.is_open(c) and c != (0, 0)]
    stream = Stream("import/place", 5)
    for last in reversed(range(1, len(cells))):
        chosen = (stream.next() >> 32) * (last + 1) >> 32
        cells[last], cells[chosen] = cells[chosen], cells[last]
    assert [cell for _, cell in places(5)] == cells[:12]


def test_too_many_people_are_refused(tmp_path):
    text = tmp_path / "map.txt"
    text.write_text("E..\n")
    with pytest.raises(DocumentError, match="3 people, but only 2 cells"):
        import_map(read_map(text), id="full", people=3, model=FireModel.DETERMINISTIC)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no map"),
        ("#.Q\n", "line 1: 'Q' not among"),
        ("...\n..\n", "line 2: 2 cells, where the first row has 3"),
        ("W _\n_ Z\n", "line 2: 'Z' not among"),
        (
            "type octile\nheight 2\nwidth 3\nmap\n...\n",
            "1 rows of 3 characters, where the header says 2 rows of 3",
        ),
        ("type octile\nheight x\nwidth 3\nmap\n...\n", "lines 2 to 4: expected"),
        ("type octile\nheight 1\nwidth 3\nmap\n.é.\n", "not ASCII"),
        ("." * 513 + "\n", "more than 512"),
    ],
)
def test_bad_maps_name_the_fault(tmp_path, text, message):
    path = tmp_path / "bad.map"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match=message):
        read_map(path)


def test_all_faults_of_a_scen_file_come_at_once(tmp_path):
    path = tmp_path / "bad.scen"
    path.write_text("version 1\n1\tm\t32\t32\t0\t0\n1\tm\t9\t9\t0\t0\t1\t1\t2\n1\tm\t32\t32\t7\t0\t1\t1\t2\n")
    with pytest.raises(DocumentError) as caught:
        read_starts(path, read_map(RANDOM).grid)
    assert [fault.split(":")[0] for fault in caught.value.faults] == ["line 2", "line 3", "line 4"]


def test_a_missing_scen_header_is_refused(tmp_path):
    path = tmp_path / "bad.scen"
    path.write_text("1\tm\n")
    with pytest.raises(DocumentError, match="expected `version 1`"):
        read_starts(path, read_map(RANDOM).grid)
