"""The scenarios and suites that come with the package, by name."""

from pathlib import Path
from typing import Final

from ember_ref.errors import EmberError
from ember_ref.form import show

_HERE: Final = Path(__file__).parent
SUITES: Final = {"public-v1": _HERE / "public"}
"""Folder of every bundled suite: `suite.json` and its scenario files."""


def suite_path(name: str) -> Path:
    """Return the folder of a bundled suite.

    Raises:
        EmberError: for an unknown name.
    """
    if name not in SUITES:
        raise EmberError(f"suite {show(name)} is not bundled; expected {', '.join(SUITES)}")
    return SUITES[name]


def scenario_names() -> list[str]:
    """Return the IDs of all bundled scenarios, sorted."""
    files = (path for folder in SUITES.values() for path in folder.glob("*.json"))
    return sorted(path.stem for path in files if path.stem != "suite")


def scenario_path(name: str) -> Path:
    """Return the file of a bundled scenario.

    Raises:
        EmberError: for an unknown name.
    """
    if name not in scenario_names():
        raise EmberError(f"scenario {show(name)} is not bundled; expected one of {', '.join(scenario_names())}")
    return next(folder / f"{name}.json" for folder in SUITES.values() if (folder / f"{name}.json").exists())
