"""Generated scenarios: rules, trials, the generator and its folder."""

import json
import statistics

import pytest

from ember_ref.errors import DocumentError, EmberError
from ember_ref.grid import Grid
from ember_ref.scenario import EnterFire, FireModel, load_scenario, scenario_from_text
from ember_ref.suite import FAMILIES, load_suite
from scenarios.bundled import scenario_path
from scenarios.maps import read_map
from scenarios.procedural import generator
from scenarios.procedural.check import check_scenario
from scenarios.procedural.draws import Draws
from scenarios.procedural.facts import Facts, _cut_off, queue_steps
from scenarios.procedural.families import (
    GENERATED,
    fire_rejection,
    fire_rules,
    map_rejection,
    map_rules,
)
from scenarios.procedural.folder import parameters, suite_id_of, suite_of, write_folder
from scenarios.procedural.generator import NO_ROOM, generate, generate_all
from scenarios.procedural.measures import LAYOUT_RULES, layout_faults
from scenarios.procedural.setting import Difficulty, Request, Size
from scenarios.procedural.site import map_base
from scenarios.procedural.trial import COLUMNS, Trial, compiled_trial, oracle_columns, tally

SMALL = Request(seed=5, size=Size.SMALL)
GOOD = Trial(
    fires=100,
    people=10,
    applicable=100,
    savable=800,
    reached=800,
    fixed_short=50,
    fixed_evacuated=500,
    aware_evacuated=700,
    detour_fires=50,
    exit_losses=80,
)


@pytest.fixture
def every_fire_is_good(monkeypatch):
    """Take every draft that the rules for the map leave: no fire is run."""
    monkeypatch.setattr(generator, "trial", lambda *_, **__: GOOD)


def facts_of(rows, **rules):
    return Facts(
        scenario_from_text(rows.split(), id="s", model=FireModel.STOCHASTIC, spread_probability=0.5, **rules)
    )


ROOM = "P.P.P.P.E\n.P.P.P.P#\nP.P.P.P.#\n*P.P.P..#"
NARROW = "PPPP####E\nPPPP.....\n*PPP####E\n"
TWO_WAYS = "E.......E\n.........\n....*....\n.........\n....P...."
BREAKS_AND_HOLDS = {
    ("maze", "reachable"): ("E.P*#.", "E.P*.."),
    ("maze", "fire"): ("E.P", "E.P*"),
    ("single_exit_low_density", "exits"): ("E.P.E", "E.P.."),
    ("single_exit_low_density", "low density"): ("E" + "." * 13 + "P", "E" + "." * 14 + "P"),
    ("single_exit_high_density", "exits"): ("E.P.E", "E.P.."),
    ("single_exit_high_density", "high density"): ("E" + "." * 10 + "P", "E" + "." * 9 + "P"),
    ("single_exit_high_density", "queue"): ("E......P.......P", ROOM),
    ("narrow_corridor_bottleneck", "exits"): ("E.P..", "E.P.E"),
    ("narrow_corridor_bottleneck", "bottleneck"): (NARROW.replace("#", "."), NARROW),
    ("multiple_exits", "exits"): ("E.P.E", "EEP.E"),
    ("multiple_exits", "exits apart"): ("EE..P....E", "E...E..P.E"),
    ("multiple_exits", "exits used"): ("E.EP" + "." * 12 + "E", "E....E.P.E"),
    ("central_ignition", "exits"): ("E.P..", "E.P.E"),
    ("central_ignition", "central"): (TWO_WAYS.replace("*", "."), TWO_WAYS),
    ("route_invalidation", "exits"): ("E.P..", "E.P.E"),
    ("exit_loss", "exits"): ("E.P..", "E.P.E"),
    ("multiple_ignitions", "exits"): ("E.P..", "E.P.E"),
    ("multiple_ignitions", "ignitions apart"): ("E.**.P..", "E.*..*P."),
    ("asymmetric_exits", "exits"): ("E.P..", "E.P.E"),
    ("asymmetric_exits", "near door"): ("EP......PE", "EPP......E"),
    ("asymmetric_exits", "far doors"): ("EP.........E", "PPP.....\nEPP....E\nPPP....."),
    ("maze", "dead ends"): (ROOM, "E.P#.\n.#..."),
    ("maze", "narrow"): (ROOM, "E.P#.\n.#..."),
    ("maze", "winding"): ("E..P", "E#...\n.#.#P\n...#.\n"),
}


@pytest.mark.parametrize(("family", "rule"), BREAKS_AND_HOLDS)
def test_a_rule_for_the_map_rejects_what_breaks_it_and_nothing_else(family, rule):
    (found,) = [each for each in map_rules(family) if each.name == rule]
    breaks, holds = BREAKS_AND_HOLDS[family, rule]
    assert not found.holds(facts_of(breaks))
    assert found.holds(facts_of(holds))


def test_exit_loss_needs_exits_that_burn():
    (rule,) = [rule for rule in map_rules("exit_loss") if rule.name == "flammable"]
    assert rule.holds(facts_of("E.P*E", exits_flammable=True))
    assert not rule.holds(facts_of("E.P*E"))


def test_every_rule_for_the_map_has_its_pair_above():
    named = {(family, rule.name) for family in GENERATED for rule in map_rules(family)}
    common = {rule.name for rule in map_rules("custom")}
    own = {pair for pair in named if pair[1] not in common}
    assert own - {("exit_loss", "flammable")} <= set(BREAKS_AND_HOLDS)
    assert common <= {rule for _, rule in BREAKS_AND_HOLDS}


@pytest.mark.parametrize("family", [*GENERATED, "custom"])
def test_fire_rules_compare_exactly_and_acceptance_asks_for_more(family):
    for rule in fire_rules(family):
        assert rule.accept > rule.least > 0
        for accepting, bound in ((False, rule.least), (True, rule.accept)):
            # A share just at the bound holds, whatever its size; the next one below does not.
            whole = bound.denominator * 10**18
            part = bound.numerator * 10**18
            assert shared(rule, part, whole).holds(GOOD, accepting=accepting)
            assert not shared(rule, part - 1, whole).holds(GOOD, accepting=accepting)


def shared(rule, part, whole):
    return type(rule)(
        name=rule.name, text=rule.text, share=lambda _: (part, whole), least=rule.least, accept=rule.accept
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"applicable": 60}, "solvable"),
        ({"savable": 400}, "savable"),
        ({"reached": 300}, "threat"),
        ({"fixed_short": 9}, "not trivial"),
        ({"aware_evacuated": 300}, "not hopeless"),
        ({"detour_fires": 20}, "detours"),
        ({"exit_losses": 40}, "exit lost"),
    ],
)
def test_a_trial_that_breaks_a_rule_names_it(change, reason):
    trial = Trial(**(GOOD.to_dict() | change))
    reasons = {fire_rejection(family, trial, accepting=False) for family in GENERATED}
    assert reason in reasons
    assert {fire_rejection(family, GOOD, accepting=True) for family in GENERATED} == {None}


def test_a_queue_leaves_one_a_step():
    assert queue_steps([3, 1, 1, 7, 3]) == [1, 2, 3, 4, 7]


def test_people_behind_a_corridor_one_cell_wide():
    assert facts_of(NARROW).behind_narrow == 11
    assert facts_of("PPE\nPPP").behind_narrow == 0


@pytest.mark.parametrize("index", range(60))
def test_cut_off_people_are_those_whom_no_exit_reaches_around_a_cell(index):
    draws = Draws("maze", 99, index)
    grid = Grid(height=5, width=6, obstacles=frozenset((draws.between(0, 4), draws.between(0, 5)) for _ in range(11)))
    cells = draws.shuffled([cell for cell in grid.positions() if grid.is_open(cell)])
    exits, people = cells[: draws.between(1, 3)], set(cells[3 : 3 + draws.between(1, 9)])
    reached = grid.distances(exits)
    people &= reached.keys()
    found = _cut_off(grid, sorted(exits), people)
    assert found.keys() == reached.keys()
    for cell in found:
        free = grid.distances(exits, avoid={cell})
        assert found[cell] == sum(person not in free for person in people), cell


@pytest.mark.parametrize("name", ["v1-pub-07-exit-loss", "v1-pub-10-maze"])
def test_both_backends_give_the_same_figures(name):
    facts = Facts(load_scenario(scenario_path(name)))
    seeds = [0, 1, 7, 2**64 - 1]
    oracle, compiled = oracle_columns(facts, seeds), compiled_trial(facts, seeds)
    assert {column: values.tolist() for column, values in compiled.items()} == oracle
    assert tuple(oracle) == COLUMNS
    assert tally(3, oracle) == tally(3, compiled)


@pytest.mark.parametrize(("interval", "closes"), [(1, 1), (2, 0)])
def test_a_way_closes_when_the_fire_is_on_it_before_who_walks_it(interval, closes):
    # The way east passes (0, 7) at step 4; the fire is there at step 3 intervals. The way west is longer, and safe.
    rows = ["...P.....E", ".######.##", ".######.##", ".######*##", ".#########", "E#########"]
    facts = Facts(scenario_from_text(rows, id="s", max_steps=20, spread_interval=interval))
    assert facts.ways["P1"][-1] == (0, 9)
    found = oracle_columns(facts, [0])
    assert found["detours"] == [closes]
    assert found["fixed_evacuated"] == [1 - closes]
    assert found["aware_evacuated"] == found["max_evacuated"] == [1]


def test_ways_avoid_what_burns_at_step_0():
    facts = Facts(scenario_from_text(["P..*...E", "........"], id="s", max_steps=20))
    assert (0, 3) not in facts.ways["P1"]
    assert len(facts.ways["P1"]) == 10
    facts = Facts(scenario_from_text(["P..*...E"], id="s", max_steps=20))
    assert facts.ways["P1"] == [(0, 0)]
    assert oracle_columns(facts, [0])["detours"] == [0]  # nothing saves the person


def test_generated_families_are_those_of_the_contract_but_custom():
    assert tuple(GENERATED) == tuple(family for family in FAMILIES if family != "custom")


@pytest.mark.parametrize("size", Size)
@pytest.mark.parametrize("family", GENERATED)
@pytest.mark.usefixtures("every_fire_is_good")
def test_every_generated_scenario_holds_its_measures_and_rules(family, size):
    for index in range(4):
        made = generate(family, index, Request(seed=3, size=size))
        assert layout_faults(made.building) == []
        assert map_rejection(family, Facts(made.scenario)) is None
        scenario = made.scenario
        assert scenario.id == f"{family}-3-{index}"
        assert scenario.movement.enter_fire is EnterFire.CASUALTY
        assert scenario.fire.model is FireModel.STOCHASTIC
        assert sum(made.rejections.values()) == made.drafts - 1
        near = scenario.grid.distances(scenario.fire.ignitions)
        assert all(near.get(person.position, 9) >= 3 for person in scenario.people)


@pytest.mark.usefixtures("every_fire_is_good")
def test_a_scenario_depends_on_neither_count_nor_workers_nor_other_families():
    alone = generate("maze", 2, SMALL)
    many = list(generate_all(["exit_loss", "maze"], 3, SMALL, workers=3))
    assert many[-1].to_dict() == alone.to_dict()
    assert [(item.family, item.index) for item in many] == [
        (family, index) for family in ("exit_loss", "maze") for index in range(3)
    ]
    again = list(generate_all(["exit_loss", "maze"], 3, SMALL, workers=1))
    assert [item.to_dict() for item in again] == [item.to_dict() for item in many]


@pytest.mark.usefixtures("every_fire_is_good")
def test_seeds_indices_sizes_and_difficulties_give_other_scenarios():
    requests = [
        SMALL,
        Request(seed=6, size=Size.SMALL),
        Request(seed=5, size=Size.MEDIUM),
        Request(seed=5, size=Size.SMALL, difficulty=Difficulty.HARD),
    ]
    hashes = {generate("exit_loss", index, request).scenario.content_hash for request in requests for index in (0, 1)}
    assert len(hashes) == 8


@pytest.mark.usefixtures("every_fire_is_good")
def test_harder_fires_spread_faster():
    means = []
    for difficulty in Difficulty:
        made = generate_all(["maze"], 12, Request(seed=5, size=Size.SMALL, difficulty=difficulty))
        fires = [item.scenario.fire for item in made]
        means.append(statistics.mean(fire.spread_probability / fire.spread_interval for fire in fires))
    assert means[0] * 1.4 < means[1]
    assert means[1] * 1.4 < means[2]


@pytest.mark.usefixtures("every_fire_is_good")
def test_ids_say_nothing_about_the_distance():
    leanings = []
    for item in generate_all(["single_exit_high_density", "multiple_exits"], 30, SMALL):
        facts = Facts(item.scenario)
        walks = [facts.walk[person.position] for person in item.scenario.people]
        leanings.append(statistics.correlation(range(len(walks)), ranks(walks)))
    # 60 means of about 15 independent people: the standard error is about 0.03.
    assert abs(statistics.mean(leanings)) < 0.12


def ranks(values):
    """Return the rank of each value; equal ones share the mean of theirs."""
    return [sum(v < value for v in values) + (sum(v == value for v in values) - 1) / 2 for value in values]


@pytest.mark.usefixtures("every_fire_is_good")
def test_exit_ids_do_not_follow_the_order_of_their_places():
    orders = set()
    for item in generate_all(["multiple_exits"], 12, SMALL):
        cells = [exit.position for exit in item.scenario.exits]
        orders.add(cells == sorted(cells))
    assert orders == {False, True}


def test_giving_up_says_how_often_each_rule_rejected(monkeypatch):
    monkeypatch.setattr(generator, "trial", lambda *_, **__: Trial(**(GOOD.to_dict() | {"savable": 0})))
    monkeypatch.setattr(generator, "MOST_DRAFTS", 5)
    with pytest.raises(EmberError, match=r"exit_loss, index 3: none of 5 drafts is accepted; rejected for 'savable'"):
        generate("exit_loss", 3, SMALL)


MAPS = [f"tests/vectors/maps/{name}" for name in ("mesa-fire/floorplan_1.txt", "movingai/room-32-32-4.map")]


@pytest.mark.parametrize("path", MAPS)
@pytest.mark.usefixtures("every_fire_is_good")
def test_a_real_map_is_the_base(path, request):
    file = request.config.rootpath / path
    base = map_base(file.name, read_map(file))
    made = generate("multiple_ignitions", 0, SMALL, maps=[base])
    grid = made.scenario.grid
    assert made.building is None
    assert made.site.name == file.name
    assert map_rejection("multiple_ignitions", Facts(made.scenario)) is None
    exits = {exit.position for exit in made.scenario.exits}
    assert exits <= set(base.gates)
    assert {cell for cell in grid.positions() if grid.is_open(cell)} <= {
        cell for cell in base.grid.positions() if base.grid.is_open(cell)
    } | exits


def test_a_map_without_room_is_refused(tmp_path):
    file = tmp_path / "solid.txt"
    file.write_text("####\n#..#\n####\n")
    with pytest.raises(EmberError, match=r"map 'solid.txt': 2 connected floor cells, too few for exits and people"):
        map_base(file.name, read_map(file))


def test_a_map_that_cannot_be_of_a_family_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(generator, "MOST_DRAFTS", 5)
    file = tmp_path / "room.txt"
    file.write_text("E.......\n" * 5)
    base = map_base(file.name, read_map(file))
    with pytest.raises(EmberError, match=r"maze, index 0: none of 5 drafts on room.txt is accepted; rejected for"):
        generate("maze", 0, SMALL, maps=[base])


@pytest.mark.usefixtures("every_fire_is_good")
def test_the_folder_is_a_suite_with_a_manifest(tmp_path):
    made = list(generate_all(["exit_loss", "maze"], 2, SMALL))
    given = parameters(["exit_loss", "maze"], 2, SMALL, [])
    suite = suite_of(suite_id_of(given), made)
    write_folder(tmp_path / "suite", suite, made, given)
    folder = load_suite(tmp_path / "suite")
    assert folder.suite == suite
    assert [entry.primary_family for entry in suite.entries] == ["exit_loss"] * 2 + ["maze"] * 2
    manifest = json.loads((tmp_path / "suite" / "generator.json").read_bytes())
    assert manifest["generator_version"] == "1.0"
    assert manifest["suite_hash"] == suite.suite_hash
    assert [row["scenario_hash"] for row in manifest["scenarios"]] == [e.scenario_hash for e in suite.entries]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["suite"]


@pytest.mark.usefixtures("every_fire_is_good")
def test_a_folder_that_is_there_is_never_touched(tmp_path):
    made = [generate("maze", 0, SMALL)]
    given = parameters(["maze"], 1, SMALL, [])
    suite = suite_of("s", made)
    (tmp_path / "suite").mkdir()
    with pytest.raises(DocumentError, match="is there already; name a folder that is not"):
        write_folder(tmp_path / "suite", suite, made, given)
    with pytest.raises(DocumentError, match=r"cannot be made: .*nowhere is no folder"):
        write_folder(tmp_path / "nowhere" / "suite", suite, made, given)
    assert [path.name for path in tmp_path.rglob("*")] == ["suite"]


@pytest.mark.usefixtures("every_fire_is_good")
def test_a_failed_write_leaves_nothing(tmp_path):
    made = [generate("maze", 0, SMALL)]
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_folder(tmp_path / "suite", suite_of("s", made), made, {"bad": object()})
    assert list(tmp_path.iterdir()) == []


def test_no_room_is_a_reason_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(generator, "MOST_DRAFTS", 3)
    file = tmp_path / "tiny.txt"
    file.write_text("E...\n....\n")
    base = map_base(file.name, read_map(file))
    with pytest.raises(EmberError, match=f"rejected for '{NO_ROOM}' 3 times"):
        generate("multiple_exits", 0, SMALL, maps=[base])


def test_suite_ids_differ_with_every_parameter():
    base = map_base("m", read_map_of("E....\n....."))
    ids = {
        suite_id_of(parameters(families, count, request, maps))
        for families in (["maze"], ["maze", "exit_loss"])
        for count in (1, 2)
        for request in (SMALL, Request(seed=5), Request(seed=6), Request(seed=5, difficulty=Difficulty.EASY))
        for maps in ([], [base])
    }
    assert len(ids) == 2 * 2 * 4 * 2


def read_map_of(rows):
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "m.txt"
        file.write_text(rows)
        return read_map(file)


def test_the_page_has_every_rule_and_measure_word_for_word(request):
    page = (request.config.rootpath / "docs/procedural.md").read_text()
    for family in GENERATED.values():
        assert f"| `{family.name}` | {family.text} |" in page
    for rule in [rule for family in GENERATED for rule in map_rules(family)]:
        assert f"| `{rule.name}` | {rule.text} |" in page
    for rule in [rule for family in GENERATED for rule in fire_rules(family)]:
        assert f"| `{rule.name}` | {rule.text} ({rule.least}) | {rule.accept} |" in page
    for name, (text, _) in LAYOUT_RULES.items():
        assert f"| `{name}` | {text} |" in page


@pytest.mark.usefixtures("every_fire_is_good")
def test_scenarios_of_one_size_share_their_compilations():
    from ember_jax.references_kernel import _REFERENCES, reference_size

    made = [item.scenario for item in generate_all(["multiple_exits", "exit_loss"], 6, SMALL)]
    before = _REFERENCES.compilations
    for scenario in made:
        check_scenario(scenario, "custom", [0, 1])
    assert _REFERENCES.compilations - before <= len(set(map(reference_size, made))) <= 2
