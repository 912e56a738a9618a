import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ember_jax.digest import INITIAL_STATE, compress, pad, sha256


def _words(messages: list[bytes], count: int, fill: bytes = b"\xa5") -> np.ndarray:
    rows = [np.frombuffer(message.ljust(4 * count, fill), dtype=">u4") for message in messages]
    return np.stack(rows, axis=1).astype(np.uint32)


def _hex(digest: jax.Array) -> list[str]:
    return [bytes(row.astype(">u4").tobytes()).hex() for row in np.asarray(digest).T]


def test_every_length_up_to_three_blocks_in_one_batch_equals_hashlib():
    generator = np.random.default_rng(1)
    messages = [generator.bytes(length) for length in range(200)]
    lengths = np.array([len(message) for message in messages], dtype=np.uint32)
    digests = jax.jit(sha256)(_words(messages, 50), lengths)
    assert _hex(digests) == [hashlib.sha256(message).hexdigest() for message in messages]


@pytest.mark.parametrize("length", [0, 4, 55, 56, 64, 1685, 4096, 70001])
def test_a_batch_of_one_length_equals_hashlib(length):
    generator = np.random.default_rng(length)
    messages = [generator.bytes(length) for _ in range(3)]
    digests = jax.jit(sha256)(_words(messages, -(-length // 4) or 1), np.uint32(length))
    assert _hex(digests) == [hashlib.sha256(message).hexdigest() for message in messages]


def test_bytes_after_the_end_of_a_message_have_no_effect():
    message = b"abc"
    digests = [sha256(jnp.asarray(_words([message], 40, fill)), 3) for fill in (b"\0", b"\xff")]
    assert _hex(digests[0]) == _hex(digests[1]) == [hashlib.sha256(message).hexdigest()]


def test_digests_compose_with_vmap_on_another_axis():
    messages = [bytes([value]) * 70 for value in range(4)]
    digests = jax.vmap(sha256, in_axes=(0, None))(jnp.asarray(_words(messages, 18).T), 70)
    assert _hex(digests.T) == [hashlib.sha256(message).hexdigest() for message in messages]


def test_compress_of_a_padded_block_is_the_digest():
    block = [jnp.uint32(word) for word in pad(b"abc")]
    state = compress([jnp.uint32(word) for word in INITIAL_STATE], block)
    assert "".join(f"{int(word):08x}" for word in state) == hashlib.sha256(b"abc").hexdigest()
