"""A uniform number, revealed word by word and compared with an exponential without any rounding."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction

__all__ = ["below_exponential"]

WORD = 64
_SPARE_DIGITS = 40


def below_exponential(revealed: int, words: Iterator[int], *, exponent: Fraction, factor: Fraction) -> bool:
    """Whether ``u * factor < exp(-exponent)``, for a uniform u whose first 64 binary digits are `revealed`.

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
