"""Counter-based random streams as pure functions of (stream seed, 64-bit position) (contract section 3).

A 64-bit integer is a pair of uint32 arrays, high half first, of any shapes that broadcast. Everything is
elementwise, so the functions compose with `jit` and `vmap` and do not depend on `jax_enable_x64`.

SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from ember_jax.digest import BLOCK_WORDS, INITIAL_STATE, compress, pad

FIRE: Final = "fire"
"""The label of the fire's stream."""

GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15
MIX_STEPS: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shift and factor of each multiplying step of the finalizer; a shift by 31 comes last."""

_DOMAIN: Final = b"emberbench/simulator/stream/v1"


class Uint64(NamedTuple):
    """A 64-bit unsigned integer as two 32-bit halves."""

    hi: Array  # uint32[...]
    lo: Array  # uint32[...]


Pair = tuple[ArrayLike, ArrayLike] | Sequence[ArrayLike] | Array
"""A 64-bit integer given as (high half, low half), or as a uint32 array whose first axis holds both."""


def uint64(pair: Pair) -> Uint64:
    """Return a pair of integers or arrays as two uint32 arrays."""
    return Uint64(jnp.asarray(pair[0], dtype=jnp.uint32), jnp.asarray(pair[1], dtype=jnp.uint32))


def constant(value: int) -> Uint64:
    """Return a Python integer, modulo 2^64."""
    return Uint64(jnp.uint32(value >> 32 & 0xFFFFFFFF), jnp.uint32(value & 0xFFFFFFFF))


def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split a host array of 64-bit unsigned integers into its uint32 halves, high first."""
    values = np.asarray(values, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    return (values >> np.uint64(32)).astype(np.uint32), (values & low).astype(np.uint32)


def join(hi: ArrayLike, lo: ArrayLike) -> np.ndarray:
    """Join uint32 halves into a host array of 64-bit unsigned integers."""
    return (np.asarray(hi).astype(np.uint64) << np.uint64(32)) | np.asarray(lo).astype(np.uint64)


def add(left: Pair, right: Pair) -> Uint64:
    """Return the sum modulo 2^64."""
    left, right = uint64(left), uint64(right)
    lo = left.lo + right.lo
    carry = (lo < left.lo).astype(jnp.uint32)
    return Uint64(left.hi + right.hi + carry, lo)


def advance(position: Pair, count: ArrayLike) -> Uint64:
    """Return a position after `count` more words, a uint32."""
    return add(position, (jnp.uint32(0), jnp.asarray(count, dtype=jnp.uint32)))


def multiply_high(left: ArrayLike, right: ArrayLike) -> Array:
    """Return the upper 32 bits of the product of two 32-bit unsigned integers."""
    left, right = jnp.asarray(left, dtype=jnp.uint32), jnp.asarray(right, dtype=jnp.uint32)
    half, mask = jnp.uint32(16), jnp.uint32(0xFFFF)
    left_hi, left_lo, right_hi, right_lo = left >> half, left & mask, right >> half, right & mask
    middle = left_hi * right_lo + (left_lo * right_lo >> half)  # cannot overflow
    cross = left_lo * right_hi + (middle & mask)
    high: Array = left_hi * right_hi + (middle >> half) + (cross >> half)
    return high


def multiply(left: Pair, right: Pair) -> Uint64:
    """Return the product modulo 2^64."""
    left, right = uint64(left), uint64(right)
    hi = multiply_high(left.lo, right.lo) + left.hi * right.lo + left.lo * right.hi
    return Uint64(hi, left.lo * right.lo)


def shift_right(value: Pair, count: int) -> Uint64:
    """Return the value shifted right by a static count from 1 to 31."""
    value = uint64(value)
    down, up = jnp.uint32(count), jnp.uint32(32 - count)
    return Uint64(value.hi >> down, (value.lo >> down) | (value.hi << up))


def mix64(z: Pair) -> Uint64:
    """Return the SplitMix64 finalizer of a 64-bit integer."""
    z = uint64(z)
    for count, factor in MIX_STEPS:
        shifted = shift_right(z, count)
        z = multiply((z.hi ^ shifted.hi, z.lo ^ shifted.lo), constant(factor))
    shifted = shift_right(z, 31)
    return Uint64(z.hi ^ shifted.hi, z.lo ^ shifted.lo)


def stream_seed(label: str, seed_hi: ArrayLike, seed_lo: ArrayLike) -> Uint64:
    """Return the 64-bit seeds of the stream `label` (static) under 64-bit evaluator or policy seeds.

    Args:
        label: ASCII text.
        seed_hi: uint32[...], the upper halves of the seeds.
        seed_lo: uint32[...], the lower halves, of the same shape.
    """
    seed = uint64((seed_hi, seed_lo))
    prefix = _DOMAIN + b"\0" + label.encode("ascii") + b"\0"
    words: list[Array] = [jnp.uint32(word) for word in pad(prefix + bytes(8))]
    first, offset = divmod(len(prefix), 4)
    for at, half in enumerate(seed, start=first):
        words[at] |= half >> jnp.uint32(8 * offset)
        if offset:
            words[at + 1] |= half << jnp.uint32(32 - 8 * offset)
    arrays = jnp.broadcast_arrays(seed.lo, *words)[1:]
    state: tuple[Array, ...] = tuple(jnp.full_like(arrays[0], word) for word in INITIAL_STATE)
    for at in range(0, len(arrays), BLOCK_WORDS):
        state = compress(state, arrays[at : at + BLOCK_WORDS])
    return Uint64(state[0], state[1])


def word(stream_seed: Pair, position: Pair) -> Uint64:
    """Return the words at `position` (0, 1, 2, …) of the streams with seeds `stream_seed`."""
    count = advance(position, jnp.uint32(1))
    return mix64(add(stream_seed, multiply(count, constant(GOLDEN_GAMMA))))


def threshold(probability: float) -> int:
    """Return `ceil(probability * 2^53)` in exact integers, 0 to 2^53; host arithmetic."""
    return math.ceil(Fraction(probability) * 2**53)


def succeeds(word: Pair, threshold: Pair) -> Array:
    """Tell which Bernoulli draws with the given words and thresholds succeed: bool[...]."""
    draw, bound = shift_right(word, 11), uint64(threshold)
    return (draw.hi < bound.hi) | ((draw.hi == bound.hi) & (draw.lo < bound.lo))


def below(word: Pair, n: ArrayLike) -> Array:
    """Return the choices from 0 to n - 1 that words make (n uint32): `((word >> 32) * n) >> 32`."""
    return multiply_high(uint64(word).hi, n)
