"""SHA-256 on 32-bit words, batched by shape (FIPS 180-4, sections 4.1.2, 4.2.2 and 6.2).

A message is a sequence of big-endian 32-bit words; a batch of messages lies on the axes after the first.
A digest is eight such words. The batch is elementwise, so the functions compose with `jit` and `vmap`, and
they do not depend on `jax_enable_x64`.
"""

import math
from collections.abc import Sequence
from typing import Final

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

BLOCK_WORDS: Final = 16
"""32-bit words in a block of SHA-256."""


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def _integer_root(value: int, power: int) -> int:
    low, high = 0, value
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**power <= value else (low, middle - 1)
    return low


# FIPS 180-4, 4.2.2 and 5.3.3: the first 32 bits of the fractional parts of the cube roots of the first 64
# primes, and of the square roots of the first 8.
_ROUND_CONSTANTS: Final = np.array(
    [_integer_root(prime << 96, 3) & 0xFFFFFFFF for prime in _primes(64)], dtype=np.uint32
).reshape(4, 16)
INITIAL_STATE: Final = tuple(math.isqrt(prime << 64) & 0xFFFFFFFF for prime in _primes(8))


def _rotate(word: Array, count: int) -> Array:
    return jnp.bitwise_or(word >> jnp.uint32(count), word << jnp.uint32(32 - count))


def _round(state: Sequence[Array], word: Array, constant: Array) -> tuple[Array, ...]:
    a, b, c, d, e, f, g, h = state
    choice = g ^ (e & (f ^ g))
    majority = (a & b) | (c & (a | b))
    first = h + (_rotate(e, 6) ^ _rotate(e, 11) ^ _rotate(e, 25)) + choice + constant + word
    second = (_rotate(a, 2) ^ _rotate(a, 13) ^ _rotate(a, 22)) + majority
    return (first + second, a, b, c, d + first, e, f, g)


def _next_words(words: Sequence[Array]) -> tuple[Array, ...]:
    """Return the 16 words of the message schedule after the 16 given."""
    words = list(words)
    for _ in range(BLOCK_WORDS):
        old, late = words[-15], words[-2]
        small = _rotate(old, 7) ^ _rotate(old, 18) ^ (old >> jnp.uint32(3))
        large = _rotate(late, 17) ^ _rotate(late, 19) ^ (late >> jnp.uint32(10))
        words.append(words[-16] + small + words[-7] + large)
    return tuple(words[-BLOCK_WORDS:])


def compress(state: Sequence[Array], block: Sequence[Array]) -> tuple[Array, ...]:
    """Apply the compression function (FIPS 180-4, 6.2.2).

    Args:
        state: eight uint32 arrays, the digest so far.
        block: sixteen uint32 arrays of the same shape, the words of one block.

    Returns:
        The eight words of the next state.
    """

    def sixteen_rounds(
        trip: Array, carry: tuple[tuple[Array, ...], tuple[Array, ...]]
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        working, words = carry
        constants = lax.dynamic_index_in_dim(jnp.asarray(_ROUND_CONSTANTS), trip, keepdims=False)
        for index in range(BLOCK_WORDS):
            working = _round(working, words[index], constants[index])
        return working, _next_words(words)

    start = (tuple(state), tuple(block))
    working, _ = lax.fori_loop(jnp.int32(0), jnp.int32(4), sixteen_rounds, start)
    return tuple(old + new for old, new in zip(state, working, strict=True))


def pad(message: bytes) -> list[int]:
    """Return the padded message as big-endian words, a multiple of 16 of them (FIPS 180-4, 5.1.1)."""
    zeros = -(len(message) + 9) % (4 * BLOCK_WORDS)
    padded = message + b"\x80" + bytes(zeros) + (8 * len(message)).to_bytes(8, "big")
    return [int.from_bytes(padded[at : at + 4], "big") for at in range(0, len(padded), 4)]


def _padded_word(words: Array, index: Array, length: Array) -> Array:
    """Return the padded message's words `index` (they lie on the first axis), the length in bits left out."""
    index, length = index.reshape(-1, *(1,) * (words.ndim - 1)), length[None]
    start = index * jnp.uint32(4)
    inside = jnp.where(length > start, length - start, jnp.uint32(0))  # bytes of the message in and after the word
    shift = jnp.uint32(8) * jnp.minimum(inside, jnp.uint32(3))
    last = (words & ~(jnp.uint32(0xFFFFFFFF) >> shift)) | (jnp.uint32(0x80000000) >> shift)
    partial = (length >= start) & (inside < jnp.uint32(4))
    return jnp.where(inside >= jnp.uint32(4), words, jnp.where(partial, last, jnp.uint32(0)))


def sha256(words: Array, length: ArrayLike) -> Array:
    """Return the SHA-256 digests of messages whose lengths are data.

    Args:
        words: uint32[n, *batch], the big-endian words of the messages, n at least 1; whatever lies after the
            end of a message has no effect.
        length: uint32, broadcast to [*batch]: bytes of each message, at most 4 n, below 2^29.

    Returns:
        uint32[8, *batch], the words of each digest.
    """
    count, *batch = words.shape
    length = jnp.broadcast_to(jnp.asarray(length, dtype=jnp.uint32), batch)
    blocks = (count + 2) // BLOCK_WORDS + 1
    words = jnp.pad(words, ((0, blocks * BLOCK_WORDS - count), *((0, 0) for _ in batch)))
    last_block = (length + jnp.uint32(8)) // jnp.uint32(4 * BLOCK_WORDS)
    in_block = jnp.arange(BLOCK_WORDS, dtype=jnp.uint32)

    def absorb(block: Array, state: Array) -> Array:
        first = block * jnp.uint32(BLOCK_WORDS)
        given = lax.dynamic_slice_in_dim(words, first.astype(jnp.int32), BLOCK_WORDS)
        padded = _padded_word(given, first + in_block, length)
        bits = jnp.where(block == last_block, length << jnp.uint32(3), jnp.uint32(0))
        padded = padded.at[BLOCK_WORDS - 1].set(padded[BLOCK_WORDS - 1] | bits)
        return jnp.where(block <= last_block, jnp.stack(compress(tuple(state), tuple(padded))), state)

    initial = jnp.asarray(INITIAL_STATE, dtype=jnp.uint32).reshape(8, *(1,) * len(batch))
    trips = jnp.max(last_block, initial=jnp.uint32(0)) + jnp.uint32(1)
    digest: Array = lax.fori_loop(jnp.uint32(0), trips, absorb, jnp.broadcast_to(initial, (8, *batch)))
    return digest
