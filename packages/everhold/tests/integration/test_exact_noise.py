"""Uniform words, and the exact comparison of a uniform number with an exponential."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from everhold.randomness import SecureNoise, SeededNoise, below_exponential

SOURCES = {"secure": SecureNoise(), "seeded": SeededNoise(20)}


def boundary(exponent, factor, bits):
    """Digits of ``e^{-exponent}/factor`` as a whole number of ``2^-bits``, rounded down."""
    with mp.workdps(400):
        real = mp.exp(-mp.mpf(exponent.numerator) / exponent.denominator) * factor.denominator / factor.numerator
        return int(mp.floor(real * mp.mpf(2) ** bits))


CASES = [
    (Fraction(1, 3), Fraction(1)),
    (Fraction(7), Fraction(5, 4)),
    (Fraction(0.1) / 2**31, Fraction(1)),
    (Fraction(44), Fraction(1)),
    (Fraction(10**6, 7), Fraction(1)),
    (Fraction(0), Fraction(2**40 + 1, 2**40)),
]


@pytest.mark.parametrize(("exponent", "factor"), CASES)
@pytest.mark.parametrize("words", [1, 2, 5])
def test_the_comparison_turns_where_the_exponential_lies(exponent, factor, words):
    digits = boundary(exponent, factor, 64 * words)
    for number, expected in ((digits - 1, True), (digits + 1, False)):
        if number < 0:
            continue
        first, *rest = ((number >> 64 * k) % 2**64 for k in reversed(range(words)))
        tail = [*rest, *[2**63] * 400]
        if digits == 0:
            expected = False  # e^{-10^6/7} lies far below all these digits
        assert below_exponential(first, iter(tail), exponent=exponent, factor=factor) is expected


def test_an_undecided_word_asks_for_more():
    exponent, factor = Fraction(1, 3), Fraction(1)
    first = boundary(exponent, factor, 64)
    second = boundary(exponent, factor, 128) % 2**64
    assert below_exponential(first, iter([second - 1]), exponent=exponent, factor=factor)
    assert not below_exponential(first, iter([second + 1]), exponent=exponent, factor=factor)
    with pytest.raises(StopIteration):
        below_exponential(first, iter([second]), exponent=exponent, factor=factor)


def test_its_frequency_is_the_probability():
    words = iter(np.random.default_rng(1).integers(0, 2**64, 60_000, dtype=np.uint64).tolist())
    exponent, factor = Fraction(2, 3), Fraction(9, 8)
    hits = sum(below_exponential(next(words), words, exponent=exponent, factor=factor) for _ in range(5000))
    assert stats.binomtest(hits, 5000, np.exp(-2 / 3) * 8 / 9).pvalue > 1e-6


@pytest.mark.parametrize("source", SOURCES)
def test_every_bit_of_a_word_is_fair(source):
    words = SOURCES[source].words(20_000, stream="fair")
    bits = np.unpackbits(words.view(np.uint8)).reshape(20_000, 64).sum(axis=0)
    assert stats.chisquare(np.concatenate([bits, 20_000 - bits]), np.full(128, 10_000.0)).statistic < 64 + 6 * 12
    assert words.dtype == np.uint64
    assert SOURCES[source].words(0, stream="fair").shape == (0,)
    with pytest.raises(ValueError, match="size"):
        SOURCES[source].words(-1, stream="fair")


def test_seeded_words_keep_to_their_stream_and_order():
    at_once, noise = SeededNoise(5).words(9, stream="a"), SeededNoise(5)
    noise.words(17, stream="b")
    assert at_once.tolist() == [noise.words(1, stream="a").item() for _ in range(9)]
    assert SeededNoise(6).words(9, stream="a").tolist() != at_once.tolist()
