"""Scenarios that are the same but for names, or but for a turn of the paper."""

from ember_ref.canonical import digest
from ember_ref.scenario import Scenario


def drawing(scenario: Scenario) -> list[str]:
    """Return the scenario as a text map (contract section 2): what is where, without any ID."""
    rows = [["."] * scenario.grid.width for _ in range(scenario.grid.height)]
    for row, col in scenario.grid.obstacles:
        rows[row][col] = "#"
    for exit in scenario.exits:
        rows[exit.position[0]][exit.position[1]] = "E"
    for person in scenario.people:
        rows[person.position[0]][person.position[1]] = "P"
    for row, col in scenario.fire.ignitions:
        rows[row][col] = "X" if rows[row][col] == "E" else "*"
    return ["".join(row) for row in rows]


def form_digest(scenario: Scenario) -> str:
    """Return the digest of everything but the scenario's ID, description and seed and the IDs of people and exits."""
    return digest({"map": drawing(scenario), **_rules(scenario)})


def symmetric_digest(scenario: Scenario) -> str:
    """Return the least digest of the eight symmetries: equal for scenarios that differ by a turn or a mirror."""
    rows, found = drawing(scenario), []
    for _ in range(4):
        rows = ["".join(column) for column in zip(*reversed(rows), strict=True)]  # a quarter turn
        found += [rows, [row[::-1] for row in rows]]
    return digest({"map": min(found), **_rules(scenario)})


def _rules(scenario: Scenario) -> dict[str, object]:
    document = scenario.to_dict()
    fire = {key: value for key, value in document["fire"].items() if key != "ignitions"}
    return {"fire": fire, "movement": document["movement"], "termination": document["termination"]}
