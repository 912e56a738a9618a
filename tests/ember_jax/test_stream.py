import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ember_jax import stream
from ember_ref import stream as reference

UINT64 = st.integers(0, 2**64 - 1)
EDGES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63, 2**64 - 2, 2**64 - 1]


def _pairs(values):
    return stream.split(np.array(values, dtype=np.uint64))


@pytest.mark.parametrize("label", ["fire", "policy/random-legal-v1", "", "a", "ab", "abc", "x" * 26, "x" * 90])
def test_stream_seed_equals_the_reference_for_labels_of_any_length(label):
    seeds = [*EDGES, 7, 0x0123456789ABCDEF]
    got = stream.join(*jax.jit(stream.stream_seed, static_argnums=0)(label, *_pairs(seeds)))
    assert got.tolist() == [reference.stream_seed(label, seed) for seed in seeds]


def test_word_0_of_stream_seed_0_is_the_value_of_the_contract():
    assert stream.join(*stream.word((0, 0), (0, 0))) == 0xE220A8397B1DCDAF


@given(st.lists(st.tuples(UINT64 | st.sampled_from(EDGES), UINT64 | st.sampled_from(EDGES)), min_size=8, max_size=8))
def test_word_is_a_pure_function_of_seed_and_64_bit_position(cases):
    seeds, positions = zip(*cases, strict=True)
    got = stream.join(*_word(_pairs(seeds), _pairs(positions)))
    assert got.tolist() == [reference.word(seed, position) for seed, position in cases]


_word = jax.jit(stream.word)
_arithmetic = jax.jit(lambda a, b: (stream.add(a, b), stream.multiply(a, b), stream.mix64(a)))


@given(st.lists(st.tuples(UINT64 | st.sampled_from(EDGES), UINT64 | st.sampled_from(EDGES)), min_size=8, max_size=8))
def test_pairs_of_halves_add_multiply_and_mix_like_64_bit_integers(cases):
    left, right = zip(*cases, strict=True)
    total, product, mixed = (stream.join(*pair).tolist() for pair in _arithmetic(_pairs(left), _pairs(right)))
    assert total == [(a + b) % 2**64 for a, b in cases]
    assert product == [a * b % 2**64 for a, b in cases]
    assert mixed == [reference.mix64(a) for a in left]


@pytest.mark.parametrize("probability", [0.0, 5e-324, 2**-53, 0.1, 0.3, 0.5, 1 - 2**-53, 1.0])
def test_a_draw_succeeds_when_the_word_shifted_by_11_is_below_the_threshold(probability):
    bound = stream.threshold(probability)
    assert bound == reference.threshold(probability)
    near = [((bound + offset) << 11) + rest for offset in (-1, 0, 1) for rest in (0, 1, 2047)]
    words = [word for word in [*near, *EDGES] if 0 <= word < 2**64]
    got = stream.succeeds(_pairs(words), _pairs(bound))
    assert got.tolist() == [word >> 11 < bound for word in words]


def test_below_chooses_by_the_upper_half_of_a_word():
    words, sizes = [*EDGES, 0x9E3779B97F4A7C15], [1, 2, 5, 2**32 - 1]
    for size in sizes:
        assert stream.below(_pairs(words), size).tolist() == [((word >> 32) * size) >> 32 for word in words]


def test_advance_carries_past_2_to_the_32():
    after = stream.advance(_pairs([2**32 - 1, 2**64 - 1, 5]), jnp.array([2, 1, 2**32 - 1], dtype=jnp.uint32))
    assert stream.join(*after).tolist() == [2**32 + 1, 0, 2**32 + 4]


@pytest.mark.parametrize("enable_x64", [False, True])
def test_streams_do_not_depend_on_jax_enable_x64_or_on_lenient_promotion(enable_x64):
    def words(seed):
        return stream.word(stream.stream_seed("fire", *seed), (jnp.uint32(1), jnp.uint32(3)))

    strict = jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise")
    with jax.enable_x64(enable_x64), strict[0], strict[1]:
        got = stream.join(*jax.jit(jax.vmap(words))(_pairs([5, 2**40])))
    assert got.tolist() == [reference.word(reference.stream_seed("fire", seed), 2**32 + 3) for seed in (5, 2**40)]
