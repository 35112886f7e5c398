"""Exact samplers on the integers: no float takes part (Canonne, Kamath, Steinke 2020).

Every function draws from `words`, an endless iterator of independent uniform 64-bit integers, and is exact for every
rational parameter. Running time depends on the drawn value, as with every rejection sampler.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction

WORD = 64
_SPARE_DIGITS = 40


def uniform_below(bound: int, words: Iterator[int]) -> int:
    """Uniform integer in [0, bound), for 1 <= bound <= 2**64."""
    shift = WORD - bound.bit_length()
    while True:
        value = next(words) >> shift
        if value < bound:
            return value


def bernoulli_exp(numerator: int, denominator: int, words: Iterator[int]) -> bool:
    """True with probability ``exp(-numerator/denominator)``, for a non-negative fraction x.

    Above 1, factors ``exp(-1)`` are taken off first. Then uniform reals are compared with x, x/2, x/3, ... until one is
    not below: the number of that one is odd with probability ``exp(-x)``. Reals are compared digit by digit in base
    2**64; with probability 1 - 2**-64 the first digit decides.
    """
    while numerator > denominator:
        if not bernoulli_exp(1, 1, words):
            return False
        numerator -= denominator
    step, rest = 1, numerator
    while True:
        digit, rest = divmod(rest << WORD, denominator * step)
        word = next(words)
        if word > digit:
            return step % 2 == 1
        if word < digit:
            step, rest = step + 1, numerator


def discrete_laplace(scale: int, words: Iterator[int]) -> int:
    """One draw with ``P[x]`` proportional to ``exp(-|x|/scale)``; 1 <= scale < 2**64."""
    shift = WORD - scale.bit_length()
    while True:
        low = next(words) >> shift
        if low >= scale or not bernoulli_exp(low, scale, words):
            continue
        high = 0
        while bernoulli_exp(1, 1, words):
            high += 1
        magnitude = low + scale * high
        negative = next(words) & 1
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def discrete_gaussian(scale: int, words: Iterator[int]) -> int:
    """One draw with ``P[x]`` proportional to ``exp(-x^2/(2 scale^2))``.

    Rejection from the discrete Laplace of the same scale: the ratio of the two laws is, up to a constant,
    ``exp(-(|x| - scale)^2 / (2 scale^2))``.
    """
    while True:
        value = discrete_laplace(scale, words)
        if bernoulli_exp((abs(value) - scale) ** 2, 2 * scale * scale, words):
            return value


def below_exponential(revealed: int, words: Iterator[int], *, exponent: Fraction, factor: Fraction) -> bool:
    """True if ``u * factor < exp(-exponent)``, for a uniform u whose first 64 binary digits are `revealed`.

    ``-ln(u * factor)`` is enclosed between the logarithms of both ends of what u may still be; further words are drawn
    until the exponent lies outside. Python's decimal logarithm is correctly rounded, so each enclosure is certain.

    Args:
        revealed: The first word of u, in [0, 2**64).
        words: Further independent uniform words; one is hardly ever needed.
        exponent: Non-negative.
        factor: At least 1, so that the probability is at most 1.
    """
    known, bits = revealed, WORD
    while True:
        least = _minus_log((known + 1) * factor.numerator, factor.denominator << bits)
        if least[0] >= exponent:
            return True
        if known and _minus_log(known * factor.numerator, factor.denominator << bits)[1] <= exponent:
            return False
        known, bits = known << WORD | next(words), bits + WORD


def _minus_log(numerator: int, denominator: int) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound of ``ln(denominator / numerator)``."""
    context = Context(prec=_SPARE_DIGITS + denominator.bit_length() // 3)
    above, below = (Decimal(number).ln(context) for number in (denominator, numerator))
    error = (Fraction(abs(above)) + Fraction(abs(below))) / 10 ** (context.prec - 1)  # over twice the roundings
    difference = Fraction(above) - Fraction(below)
    return difference - error, difference + error
