"""What all commands share: options, seeds, targets, output, and the way from an error to an exit code.

A command is one module with one function. It takes `Json` and, where both backends can do it, `UseBackend`, does
its work with exceptions of `ember_ref.errors`, and prints through `Report`. Heavy packages (jax, numpy, pyarrow) are
imported inside the function, so that `ember --help` loads none of them.

Exit codes: 0 done and all checks held; 1 a check did not hold; 2 the input or the call is wrong.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ember_ref.canonical import canonical_bytes, read_bytes
from ember_ref.errors import EmberError, VerificationError
from ember_ref.form import MAX_SEED, show
from ember_ref.scenario import Scenario, load_scenario
from ember_ref.suite import SUITE_FILE, Pack, SuiteFolder, load_suite, load_target
from scenarios.bundled import SUITES, scenario_names, scenario_path, suite_path

HELD, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
_MOST_LISTED: Final = 1_000_000
_SHORT: Final = 20
"""Characters of a cell that is never broken."""


class Backend(StrEnum):
    """Which implementation computes."""

    REF = "ref"
    JAX = "jax"


class PipeClosedError(Exception):
    """Whoever reads our output has closed it."""


class UsageError(EmberError):
    """A call of the command that cannot be meant."""


Json = Annotated[bool, typer.Option("--json", help="Print one canonical JSON object a line, and nothing else.")]
UseBackend = Annotated[Backend, typer.Option("--backend", help="The oracle (ref) or its compiled twin (jax).")]
SeedsText = Annotated[
    str | None,
    typer.Option("--seeds", help="3, or 0,1,7, or 0:1000 (half-open), or @FILE (one a line)."),
]
PolicySeed = Annotated[int, typer.Option("--policy-seed", help="Seed of the policy's own stream.")]


@dataclass(frozen=True, slots=True)
class Seeds:
    """Evaluator seeds in the order given; a range is never written out."""

    values: range | tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are (`len` of a range ends at 2^63)."""
        return self.values.stop - self.values.start if isinstance(self.values, range) else len(self.values)

    def part(self, start: int, stop: int) -> list[int]:
        """Return the seeds from place `start` to before place `stop`."""
        if isinstance(self.values, range):
            first = self.values.start
            return list(range(first + start, min(first + stop, self.values.stop)))
        return list(self.values[start:stop])

    def listed(self) -> list[int]:
        """Return them all, where a command has to hold them at once.

        Raises:
            UsageError: when there are more than a million.
        """
        if self.count > _MOST_LISTED:
            raise UsageError(f"--seeds: {self.count} seeds; this command takes at most {_MOST_LISTED}")
        return list(self.values)

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)


def parse_seeds(text: str) -> Seeds:
    """Read `3`, `0,1,7`, `0:1000` or `@FILE`.

    Raises:
        UsageError: for anything else, a seed outside 0 to 2^64 - 1, or a seed given twice.
    """
    place = f"--seeds {show(text)}"
    if text.startswith("@"):
        lines = read_bytes(Path(text[1:])).decode("utf-8", "replace").split("\n")
        words = lines[:-1] if lines[-1] == "" else lines
        seeds = [_seed(word.strip(), f"{text[1:]}, line {i}") for i, word in enumerate(words, start=1)]
    elif ":" in text:
        start_text, _, stop_text = text.partition(":")
        start, stop = _seed(start_text, place), _seed(stop_text, place, most=MAX_SEED + 1)
        if stop <= start:
            raise UsageError(f"{place}: an empty range; expected START:STOP with STOP above START")
        return Seeds(range(start, stop))
    else:
        seeds = [_seed(word, place) for word in text.split(",")]
    if len(set(seeds)) != len(seeds):
        seen: set[int] = set()
        twice = next(seed for seed in seeds if seed in seen or seen.add(seed))  # type: ignore[func-returns-value]
        raise UsageError(f"{place}: seed {twice} is given twice")
    if not seeds:
        raise UsageError(f"{place}: holds no seed")
    return Seeds(tuple(seeds))


def seeds_for(text: str | None, scenario: Scenario) -> Seeds:
    """Return the given seeds, or the scenario's own."""
    return Seeds((scenario.seed,)) if text is None else parse_seeds(text)


def _seed(word: str, place: str, *, most: int = MAX_SEED) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 20 and int(word) <= most):
        raise UsageError(f"{place}: {show(word)} is not a seed, an integer from 0 to 2^64 - 1")
    return int(word)


def scenario_of(name: str) -> Scenario:
    """Return the scenario of a file or of a bundled name."""
    path = Path(name)
    if path.is_file() or (not _is_bundled(name) and (path.exists() or "/" in name or name.endswith(".json"))):
        return load_scenario(path)
    return load_scenario(scenario_path(name))


def target_of(name: str) -> list[Scenario]:
    """Return the scenarios of a target: a scenario, a suite file or folder, or a bundled name of either."""
    path = Path(name)
    if path.is_dir() or path.name == SUITE_FILE or (name in SUITES and not path.exists()):
        folder = load_suite(suite_path(name) if name in SUITES and not path.exists() else path)
        return [folder.scenarios[entry.scenario_id] for entry in folder.suite.entries]
    return [scenario_of(name)]


def suite_or_pack_of(name: str) -> SuiteFolder | Pack:
    """Return the suite of a file, folder or bundled name, or the pack of a file."""
    return load_target(suite_path(name) if name in SUITES and not Path(name).exists() else Path(name))


def _is_bundled(name: str) -> bool:
    return name in scenario_names()


class Report:
    """The output of a command: JSON lines, or a table on the terminal."""

    def __init__(self, *, as_json: bool, title: str | None = None) -> None:
        """Start a report."""
        self._json = as_json
        self._title = title
        self._rows: list[Mapping[str, Any]] = []

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one object: printed at once as JSON, or kept as a row of the table."""
        if self._json:
            try:
                sys.stdout.buffer.write(canonical_bytes(row) + b"\n")
                sys.stdout.buffer.flush()
            except BrokenPipeError:  # typer would make it exit code 1
                raise PipeClosedError from None
        else:
            self._rows.append(row)

    def close(self) -> None:
        """Print the table, if there is one to print."""
        if self._json or not self._rows:
            return
        from rich import box
        from rich.console import Console
        from rich.measure import Measurement
        from rich.table import Table

        console = Console()
        if not console.is_terminal:
            console = Console(width=200)
        table = Table(title=self._title, box=box.SIMPLE_HEAD, show_header=len(self._rows) > 1)
        table.padding = (0, 1, 0, 0)
        if len(self._rows) == 1:
            table.add_column()
            table.add_column(overflow="fold")
            for key, value in self._rows[0].items():
                table.add_row(key.replace("_", " "), _cell(value))
        else:
            # What all rows share stands once under the table, so that a narrow terminal shows what differs.
            keys = list(self._rows[0])
            shared = {key for key in keys[1:] if all(row[key] == self._rows[0][key] for row in self._rows)}
            varying = [key for key in keys if key not in shared]
            for key in varying:
                cells = [_cell(row[key]) for row in self._rows]
                header, longest = key.replace("_", " "), max(map(len, cells))
                word = max(map(len, header.split()))
                table.add_column(header, overflow="fold", min_width=max(word, longest) if longest <= _SHORT else word)
            for row in self._rows:
                table.add_row(*(_cell(row[key]) for key in varying))
            named = [key for key in keys if key in shared and self._rows[0][key] is not None]
            facts = (f"{key.replace('_', ' ')} {_cell(self._rows[0][key])}" for key in named)
            table.caption = "; ".join(facts) or None
        # Wider than a narrow terminal rather than without a column.
        least = Measurement.get(console, console.options.update(max_width=1000), table).minimum
        console.width = max(console.width, least + 2 * len(table.columns))
        console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, str) and len(value) == 64:
        return value[:16] + "…"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(item)}" for key, item in value.items())
    return "" if value is None else str(value)


def note(message: str) -> None:
    """Print a line for a person to standard error."""
    print(message, file=sys.stderr, flush=True)


def enable_compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder, unless `EMBER_CACHE=off` or it cannot be written."""
    setting = os.environ.get("EMBER_CACHE", "")
    if setting == "off":
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(setting) if setting else base / "ember-jax" / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError:
        return
    import jax

    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


def run(app: Callable[..., Any], arguments: Sequence[str] | None = None) -> int:
    """Run the application and turn what it raises into a message and an exit code."""
    if sys.stdout is None:
        note("ember: standard output is closed; nothing can be printed")
        return WRONG
    try:
        result = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        note("ember: interrupted")
        return INTERRUPTED
    except PipeClosedError:
        # The reader has seen enough; the flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return HELD
    except VerificationError as error:
        note(f"ember: {error}")
        return FAILED
    except EmberError as error:
        note(f"ember: {error}")
        return WRONG
    except OSError as error:
        note(f"ember: {error.filename or 'input or output'}: {error.strerror or error}")
        return WRONG
    except MemoryError:
        note("ember: not enough memory for this call")
        return WRONG
    except Exception as error:
        if hasattr(error, "exit_code"):  # a call that typer refuses
            text = error.format_message() if hasattr(error, "format_message") else str(error)
            note(f"ember: {text.rstrip('.')}; `ember COMMAND --help` shows what is expected")
            return WRONG
        if os.environ.get(DEBUG):
            raise
        note(f"ember: internal error, {type(error).__name__}: {error}; set {DEBUG}=1 to see where, and report it")
        return WRONG
    return result if isinstance(result, int) else HELD


DEBUG: Final = "EMBER_DEBUG"
