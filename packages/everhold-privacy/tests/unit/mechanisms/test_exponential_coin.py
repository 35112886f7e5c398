"""The exact comparison of a uniform number with an exponential."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from everhold_privacy.mechanisms.selection import below_exponential


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
