"""The deterministic percentile bootstrap, and the quantiles it ends in (statistics.md sections 4 and 8).

Words come from SHAKE-256 in counter mode; an index below n is drawn by rejection, so without bias. Everything is
exact: values are integers over one denominator, and only the caller turns a bound into a float.

Sources: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13 (percentile interval);
Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 1996, definition 7.
"""

import hashlib
import math
import sys
from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

STREAM: Final = "emberbench/statistics/bootstrap/v1"
LEVEL: Final = 0.95
TAIL: Final = Fraction(1, 40)
"""The share of resamples beyond each bound."""
MINIMUM_N: Final = 5
"""Fewer values have no interval."""
RESAMPLES: Final = 2000
LEAST_RESAMPLES: Final = 100
MOST_RESAMPLES: Final = 1_000_000

_BLOCK_WORDS: Final = 512
_WORD_RANGE: Final = 2**64


class BootstrapStream:
    """A stream of 64-bit words from a 32-byte seed, read from block 0 and never rewound."""

    __slots__ = ("_at", "_block", "_seed", "_words")

    def __init__(self, seed: bytes) -> None:
        """Open the stream of a seed."""
        self._seed = STREAM.encode("ascii") + b"\0" + seed
        self._block = 0
        self._words = array("Q")
        self._at = 0

    def words(self, count: int) -> "array[int]":
        """Consume `count` words."""
        taken = self._words[self._at : self._at + count]
        self._at += len(taken)
        while len(taken) < count:
            self._refill()
            self._at = min(count - len(taken), _BLOCK_WORDS)
            taken.extend(self._words[: self._at])
        return taken

    def indices(self, n: int, count: int) -> list[int]:
        """Draw `count` indices below n, each from the next word that is not rejected."""
        limit = _WORD_RANGE - _WORD_RANGE % n
        drawn: list[int] = []
        while len(drawn) < count:
            drawn += [word % n for word in self.words(count - len(drawn)) if word < limit]
        return drawn

    def _refill(self) -> None:
        data = hashlib.shake_256(self._seed + self._block.to_bytes(8, "big")).digest(8 * _BLOCK_WORDS)
        self._words = array("Q", data)
        if sys.byteorder == "little":
            self._words.byteswap()
        self._block += 1


def mean_interval(values: Sequence[Fraction], seed: bytes, resamples: int) -> tuple[Fraction, Fraction]:
    """Return the percentile interval of the mean: the exact bounds.

    Args:
        values: at least one value.
        seed: the 32 bytes that open the stream.
        resamples: how many resamples to draw, n indices each, one resample after the other.
    """
    scaled, denominator = over_one_denominator(values)
    stream, n = BootstrapStream(seed), len(scaled)
    value = scaled.__getitem__
    sums = sorted(sum(map(value, stream.indices(n, n))) for _ in range(resamples))
    means = [Fraction(total, denominator * n) for total in (*_around(sums, TAIL), *_around(sums, 1 - TAIL))]
    return _between(sums, TAIL, means[0], means[1]), _between(sums, 1 - TAIL, means[2], means[3])


def over_one_denominator(values: Sequence[Fraction]) -> tuple[list[int], int]:
    """Return the numerators of the values over their least common denominator, and that denominator."""
    denominator = math.lcm(*(value.denominator for value in values))
    return [value.numerator * (denominator // value.denominator) for value in values], denominator


def quantile(ordered: Sequence[Fraction], p: Fraction) -> Fraction:
    """Return the type-7 quantile of values in ascending order."""
    low, high = _around(ordered, p)
    return _between(ordered, p, low, high)


def _around(ordered: Sequence[Fraction] | Sequence[int], p: Fraction) -> tuple[Fraction, Fraction]:
    place = math.floor((len(ordered) - 1) * p)
    return Fraction(ordered[place]), Fraction(ordered[min(place + 1, len(ordered) - 1)])


def _between(ordered: Sequence[Fraction] | Sequence[int], p: Fraction, low: Fraction, high: Fraction) -> Fraction:
    h = (len(ordered) - 1) * p
    return low + (h - math.floor(h)) * (high - low)
