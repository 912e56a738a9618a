"""The order of imports, and what each package may load."""

import ast
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
MAY_IMPORT = {
    "ember_ref": set(),
    "ember_jax": {"ember_ref"},
    "scoring": {"ember_ref"},
    "scenarios": {"ember_ref", "ember_jax", "scoring"},
    "ember_cli": {"ember_ref", "ember_jax", "scoring", "scenarios"},
}
# What `ember_jax` may take from the oracle: definitions of data, errors and constants, and no rule.
DATA = {
    "ember_ref.errors": None,
    "ember_ref.scenario": None,
    "ember_ref.observation": None,
    "ember_ref.fire": {"NEVER", "FireWorld"},
    "ember_ref.grid": {"ACTIONS", "Position"},
    "ember_ref.movement": {"Movement", "MoveOutcome"},
    "ember_ref.policies": {"POLICY_NAMES", "SCRUB_PREFIX"},
    "ember_ref.record": {"ActionLog", "RunRecord", "header_of"},
    "ember_ref.simulator": {"Casualty", "CasualtyCause", "Evacuation", "State", "StepRecord", "TerminationReason"},
    "ember_ref.references": {"PersonReference", "References", "HAZARD_RADIUS", "TABLES"},
    "ember_ref.memory": None,
}


def modules():
    return [path for package in MAY_IMPORT for path in sorted((ROOT / package).rglob("*.py"))]


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path):
    """Yield (module, names) of every import in a file, also those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module, {alias.name for alias in node.names}


def test_every_file_is_in_a_package_and_imports_only_what_lies_below():
    assert len(modules()) > 30
    for path in modules():
        package = name_of(path).split(".")[0]
        for module, _ in imports_of(path):
            other = module.split(".")[0]
            if other in MAY_IMPORT and other != package:
                assert other in MAY_IMPORT[package], f"{path} imports {module}"
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(MAY_IMPORT)


def test_modules_do_not_import_in_a_circle():
    graph = {}
    names = {name_of(path) for path in modules()}
    for path in modules():
        targets = set()
        for module, members in imports_of(path):
            targets |= {module} | {f"{module}.{member}" for member in members or ()}
        graph[name_of(path)] = (targets & names) - {name_of(path)}
    done = set()
    while graph:
        ready = {module for module, targets in graph.items() if targets <= done}
        assert ready, f"a circle among {sorted(graph)}"
        done |= ready
        graph = {module: targets for module, targets in graph.items() if module not in ready}


def test_the_compiled_twin_takes_data_and_no_rules_from_the_oracle():
    for path in sorted((ROOT / "ember_jax").glob("*.py")):
        if path.name == "differential.py":
            continue
        for module, names in imports_of(path):
            if module.startswith("ember_ref"):
                assert module in DATA, f"{path.name} imports {module}"
                allowed = DATA[module]
                assert allowed is None or (names is not None and names <= allowed), f"{path.name}: {module} {names}"


def loaded_by(code):
    """Return which heavy packages a fresh interpreter has loaded after running code."""
    check = "print('loaded:', *(m for m in ('jax', 'numpy', 'pyarrow') if m in sys.modules))"
    output = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\n{check}"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    return output.rpartition("loaded:")[2].split()


def test_the_oracle_and_scoring_load_neither_jax_nor_numpy():
    for package in ("ember_ref", "scoring"):
        names = [name_of(path) for path in sorted((ROOT / package).glob("*.py"))]
        if names:
            assert loaded_by("import " + ", ".join(names)) == []


def test_the_help_of_the_command_loads_nothing_heavy():
    assert loaded_by("from ember_cli import console, main\nassert console.run(main.app, ['--help']) == 0") == []


def test_importing_the_compiled_twin_touches_no_setting_of_jax():
    names = ", ".join(name_of(path) for path in sorted((ROOT / "ember_jax").glob("*.py")))
    code = f"import jax\nbefore = dict(jax.config.values)\nimport {names}\nassert dict(jax.config.values) == before"
    assert loaded_by(code)
