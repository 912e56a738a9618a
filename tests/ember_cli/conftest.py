import json
import os

import pytest

from ember_cli import console
from ember_cli.main import app

os.environ["EMBER_CACHE"] = "off"


class Result:
    """What a call of the command came to."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def ember(capfd):
    """Call the command in this process."""

    def call(*arguments):
        code = console.run(app, [str(argument) for argument in arguments])
        return Result(code, *capfd.readouterr())

    return call


@pytest.fixture
def refused(ember):
    """Call the command, and require exit 2, one message, and nothing on standard output."""

    def call(*arguments, code=2):
        result = ember(*arguments)
        assert result.code == code
        assert result.out == ""
        assert result.err.startswith("ember: ")
        assert "Traceback" not in result.err
        return result.err

    return call
