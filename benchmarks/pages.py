"""Figures inside pages of `docs/`: blocks between two comments, which a command writes anew.

A block begins with the line `<!-- figures: NAME -->` and ends with the line `<!-- end -->`; what stands between them
is never written by hand.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from ember_ref.errors import EmberError

_BLOCK = re.compile(r"(<!-- figures: ([a-z0-9-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)


def blocks(page: str) -> dict[str, str]:
    """Return the text of every block of a page by its name."""
    return {match[2]: match[3] for match in _BLOCK.finditer(page)}


def filled(page: str, figures: Mapping[str, str], *, what: str) -> str:
    """Return a page with the text of its blocks replaced.

    Raises:
        EmberError: when the page has other blocks than there are figures.
    """
    names = blocks(page).keys()
    if names != figures.keys():
        raise EmberError(f"{what}: blocks {', '.join(sorted(names))}; expected {', '.join(sorted(figures))}")
    return _BLOCK.sub(lambda match: match[1] + figures[match[2]] + match[4], page)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is text, the others are numbers."""
    lines = [header, ["---", *("---:" for _ in header[1:])], *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"
