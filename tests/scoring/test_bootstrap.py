import hashlib
import itertools
import random
import statistics
from fractions import Fraction

import numpy as np
import pytest

from scoring.bootstrap import BootstrapStream, mean_interval, over_one_denominator, quantile

SEED = bytes(range(32))


def plain_words():
    """Yield the words of the stream, one SHAKE block after the other, as the document says."""
    for block in itertools.count():
        text = b"emberbench/statistics/bootstrap/v1\0" + SEED + block.to_bytes(8, "big")
        data = hashlib.shake_256(text).digest(4096)
        yield from (int.from_bytes(data[at : at + 8], "big") for at in range(0, 4096, 8))


def plain_index(words, n):
    """Draw one index by rejection."""
    while True:
        word = next(words)
        if word < 2**64 - 2**64 % n:
            return word % n


def test_words_do_not_depend_on_how_they_are_asked_for():
    expected = list(itertools.islice(plain_words(), 1500))
    assert list(BootstrapStream(SEED).words(1500)) == expected
    stream = BootstrapStream(SEED)
    assert [word for count in (0, 1, 511, 1, 3, 984) for word in stream.words(count)] == expected


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 2**63 + 1, 2**64 - 1])
def test_indices_are_drawn_by_rejection_in_order(n):
    words, stream = plain_words(), BootstrapStream(SEED)
    assert stream.indices(n, 700) == [plain_index(words, n) for _ in range(700)]
    assert stream.indices(5, 3) == [plain_index(words, 5) for _ in range(3)]


def test_the_interval_is_that_of_a_plain_resampling():
    dice = random.Random(1)
    values = [Fraction(dice.randrange(-50, 50), dice.randrange(1, 30)) for _ in range(9)]
    words = plain_words()
    means = sorted(sum(values[plain_index(words, 9)] for _ in range(9)) / 9 for _ in range(200))
    assert mean_interval(values, SEED, 200) == (
        quantile(means, Fraction(1, 40)),
        quantile(means, Fraction(39, 40)),
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_resampling_distribution_is_that_of_full_enumeration(n):
    # Every tuple of indices is equally likely; a long stream must show each mean in its exact share.
    values = [Fraction(2**i) for i in range(n)]
    exact = {}
    for indices in itertools.product(range(n), repeat=n):
        total = sum(values[i] for i in indices)
        exact[total] = exact.get(total, 0) + Fraction(1, n**n)
    stream, rounds = BootstrapStream(SEED), 20000
    found = {}
    for _ in range(rounds):
        total = sum(values[i] for i in stream.indices(n, n))
        found[total] = found.get(total, 0) + 1
    assert set(found) == set(exact)
    for total, share in exact.items():
        spread = 5 * (float(share * (1 - share)) / rounds) ** 0.5
        assert abs(found[total] / rounds - share) <= spread


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_interval_of_every_resample_once_is_that_of_the_exact_distribution(n, monkeypatch):
    # The words of every index tuple once, each in a random place of its residue class, rejected words in between.
    dice = random.Random(n)
    limit = 2**64 - 2**64 % n
    words = []
    for index in itertools.chain.from_iterable(itertools.product(range(n), repeat=n)):
        if limit < 2**64 and dice.random() < 0.3:
            words.append(dice.randrange(limit, 2**64))
        words.append(dice.randrange(limit // n) * n + index)
    stream = iter(words)
    monkeypatch.setattr(BootstrapStream, "words", lambda _self, count: list(itertools.islice(stream, count)))
    values = [Fraction(dice.randrange(-99, 99), dice.randrange(1, 20)) for _ in range(n)]
    exact = sorted(sum(chosen) / n for chosen in itertools.product(values, repeat=n))
    bounds = tuple(quantile(exact, Fraction(p)) for p in ("1/40", "39/40"))
    assert mean_interval(values, SEED, n**n) == bounds
    assert next(stream, None) is None


def test_quantiles_and_medians_agree_with_python_and_numpy():
    dice = random.Random(2)
    for n in (1, 2, 5, 8, 33):
        values = sorted(Fraction(dice.randrange(1000), 8) for _ in range(n))
        assert quantile(values, Fraction(1, 2)) == statistics.median(values)
        for p in ("1/4", "9/10", "19/20", "1/40"):
            expected = np.quantile([float(value) for value in values], float(Fraction(p)), method="linear")
            assert float(quantile(values, Fraction(p))) == pytest.approx(expected, rel=1e-12)
        if n > 1:
            cuts = statistics.quantiles(values, n=4, method="inclusive")
            assert [quantile(values, Fraction(k, 4)) for k in (1, 2, 3)] == cuts


def test_the_example_of_the_document():
    values = [Fraction(value) for value in (1, 2, 3, 4)]
    found = [float(quantile(values, Fraction(p))) for p in ("1/4", "1/2", "3/4", "9/10", "19/20")]
    assert found == [1.75, 2.5, 3.25, 3.7, 3.85]


def test_one_denominator():
    assert over_one_denominator([Fraction(1, 2), Fraction(-2, 3), Fraction(4)]) == ([3, -4, 24], 6)
