import hashlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ember_ref.stream import Stream, mix64, stream_seed, threshold, word

GAMMA = 0x9E3779B97F4A7C15


def test_the_first_words_of_seed_0_are_splitmix64s():
    # The published sequence of SplitMix64 with state 0.
    assert [word(0, k) for k in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_a_stream_seed_is_the_head_of_a_sha_256():
    text = b"emberbench/simulator/stream/v1\0fire\0" + (7).to_bytes(8, "big")
    assert stream_seed("fire", 7) == int(hashlib.sha256(text).hexdigest()[:16], 16)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_word_is_a_pure_function_of_seed_and_position(seed, k):
    assert word(seed, k) == mix64((seed + (k + 1) * GAMMA) % 2**64)
    stream = Stream("fire", seed, position=k)
    assert stream.next() == word(stream.seed, k)
    assert stream.position == (k + 1) % 2**64


@given(st.floats(0, 1))
def test_the_threshold_is_exact(probability):
    bound = threshold(probability)
    assert bound - 1 < Fraction(probability) * 2**53 <= bound


@pytest.mark.parametrize(
    ("probability", "bound"), [(0.0, 0), (1.0, 2**53), (0.5, 2**52), (2.0**-53, 1), (2.0**-64, 1), (5e-324, 1)]
)
def test_thresholds_at_the_ends(probability, bound):
    assert threshold(probability) == bound


def test_p_0_never_succeeds_p_1_always_and_the_least_p_only_when_53_bits_are_zero():
    stream = Stream("fire", 1)
    assert not any(stream.bernoulli(threshold(0.0)) for _ in range(1000))
    assert all(stream.bernoulli(threshold(1.0)) for _ in range(1000))
    assert (threshold(2.0**-64) > (2**11 - 1) >> 11, threshold(2.0**-64) > 2**11 >> 11) == (True, False)


def test_seeds_at_the_ends_of_the_range_differ():
    assert len({stream_seed("fire", seed) for seed in (0, 1, 2**63, 2**64 - 1)}) == 4


def test_a_shuffle_takes_a_word_a_place_from_the_last_down():
    stream, words = Stream("import/place", 3), Stream("import/place", 3)
    items, expected = list("abcdef"), list("abcdef")
    stream.shuffle(items)
    for last in (5, 4, 3, 2, 1):
        chosen = (words.next() >> 32) * (last + 1) >> 32
        expected[last], expected[chosen] = expected[chosen], expected[last]
    assert items == expected
    assert stream.position == 5
