"""Choices of the generator, all from one stream of the contract (section 3)."""

from collections.abc import Sequence
from typing import Final, TypeVar

from ember_ref.stream import Stream

GENERATOR_VERSION: Final = "1.0"
_Item = TypeVar("_Item")


class Draws:
    """The stream of one scenario: every choice, retry and acceptance seed comes from it, in order."""

    def __init__(self, family: str, seed: int, index: int) -> None:
        """Open the stream of scenario `index` of a family under a generator seed."""
        self._stream = Stream(f"generator/{GENERATOR_VERSION}/{family}/{index}", seed)

    @property
    def position(self) -> int:
        """How many words are consumed."""
        return self._stream.position

    def seeds(self, count: int) -> list[int]:
        """Return distinct 64-bit seeds: the next words, repeats skipped."""
        found: dict[int, None] = {}
        while len(found) < count:
            found[self._stream.next()] = None
        return list(found)

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return low + self._stream.below(high - low + 1)

    def chance(self, wins: int, of: int) -> bool:
        """Return whether a draw with `wins` chances of `of` succeeds."""
        return self._stream.below(of) < wins

    def pick(self, items: Sequence[_Item]) -> _Item:
        """Return one of the items."""
        return items[self._stream.below(len(items))]

    def shuffled(self, items: Sequence[_Item]) -> list[_Item]:
        """Return the items in shuffled order."""
        mixed = list(items)
        self._stream.shuffle(mixed)
        return mixed

    def parts(self, length: int, *, least: int, most: int) -> list[int]:
        """Cut a length into parts with one cell (a wall) between neighbours.

        Every part has `least` to `most` cells where that is possible; a length that allows no such cut gives
        parts of at least `least`, or one part.
        """
        if length < 2 * least + 1:
            return [length]
        counts = [n for n in range(1, length + 1) if n * least + n - 1 <= length <= n * most + n - 1]
        count = self.pick(counts) if counts else (length + 1) // (least + 1)
        parts = [least] * count
        for _ in range(length - (count - 1) - sum(parts)):
            open_parts = [i for i, part in enumerate(parts) if part < most] or list(range(count))
            parts[self.pick(open_parts)] += 1
        return parts

    def intervals(self, start: int, stop: int, *, least: int, most: int) -> list[tuple[int, int]]:
        """Cut the cells `start` to `stop`, both included, as `parts` does; return first and last of each part."""
        found, at = [], start
        for part in self.parts(stop - start + 1, least=least, most=most):
            found.append((at, at + part - 1))
            at += part + 1
        return found
