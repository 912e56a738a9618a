"""Counter-based random streams (contract section 3).

SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
A word is a pure function of the stream seed and its index, so any position is reached at once.
"""

import hashlib
import math
from fractions import Fraction
from typing import Final, TypeVar

FIRE: Final = "fire"
"""The label of the fire's stream."""

_DOMAIN: Final = b"emberbench/simulator/stream/v1"
_GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15
_MASK: Final = 2**64 - 1

_Item = TypeVar("_Item")


def stream_seed(label: str, seed: int) -> int:
    """Return the 64-bit seed of the stream `label` under a 64-bit evaluator or policy seed."""
    text = _DOMAIN + b"\0" + label.encode("ascii") + b"\0" + seed.to_bytes(8, "big")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def mix64(z: int) -> int:
    """Return the SplitMix64 finalizer of a 64-bit integer."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def word(seed: int, k: int) -> int:
    """Return word `k` (0, 1, 2, …) of the stream with stream seed `seed`, a 64-bit integer."""
    return mix64((seed + (k + 1) * _GOLDEN_GAMMA) & _MASK)


def threshold(probability: float) -> int:
    """Return `ceil(probability * 2^53)` in exact integers, 0 to 2^53."""
    return math.ceil(Fraction(probability) * 2**53)


class Stream:
    """A stream with a position: the number of words consumed, a 64-bit count."""

    __slots__ = ("position", "seed")

    def __init__(self, label: str, seed: int, *, position: int = 0) -> None:
        """Open the stream `label` under an evaluator or policy seed."""
        self.seed = stream_seed(label, seed)
        self.position = position

    def next(self) -> int:
        """Consume one word."""
        value = word(self.seed, self.position)
        self.position = (self.position + 1) & _MASK
        return value

    def bernoulli(self, bound: int) -> bool:
        """Consume one word and tell whether the draw with threshold `bound` succeeds."""
        return self.next() >> 11 < bound

    def below(self, n: int) -> int:
        """Consume one word and return a choice from 0 to n - 1 (n at most 2^32)."""
        return ((self.next() >> 32) * n) >> 32

    def shuffle(self, items: list[_Item]) -> None:
        """Shuffle a list in place: Fisher-Yates from the last place down, one word a place.

        Source: Durstenfeld, "Algorithm 235: Random permutation", CACM 1964.
        """
        for last in range(len(items) - 1, 0, -1):
            chosen = self.below(last + 1)
            items[last], items[chosen] = items[chosen], items[last]
