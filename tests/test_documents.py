"""What the documents show is what the command prints.

Every block marked `console` is run, in the order of its document and in one folder; what is printed to standard
output must be what the document shows. `EMBER_WRITE_DOCUMENTS=1` writes it into the documents instead.
"""

import os
import pathlib
import re
import shlex

import pytest

from ember_cli import console
from ember_cli.main import app

ROOT = pathlib.Path(__file__).parents[1]
BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
DOCUMENTS = sorted(
    path for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if BLOCK.search(path.read_text())
)
COLUMNS = "110"


def run_block(block, capfd):
    """Return a block with what its commands print now."""
    shown = []
    for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        program, *arguments = shlex.split(command)
        assert program == "ember", command
        arguments = [str(ROOT / part) if part.startswith(("tests/", "benchmarks/")) else part for part in arguments]
        code = console.run(app, arguments)
        out, err = capfd.readouterr()
        assert code in (0, 1), f"{command}: {err}"
        lines = [line.rstrip() for line in out.splitlines()]
        shown += [f"$ {command}", *lines]
    return "".join(f"{line}\n" for line in shown)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_show_what_is_printed(path, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", COLUMNS)
    text = path.read_text()
    blocks = BLOCK.findall(text)
    assert blocks
    now = [run_block(block, capfd) for block in blocks]
    if os.environ.get("EMBER_WRITE_DOCUMENTS") == "1":
        fresh = iter(now)
        path.write_text(BLOCK.sub(lambda _: next(fresh), text))
    else:
        assert now == blocks
