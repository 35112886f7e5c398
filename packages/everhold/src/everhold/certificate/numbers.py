"""Numbers in a certificate as text. Bounds are rounded to the side on which the sentence stays true."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from everhold.display import LEAST_SHOWN

_LEAST_SHOWN = Decimal(repr(LEAST_SHOWN))


def at_most(value: float) -> str:
    """Return an upper bound as text, rounded up to three decimals, or to two digits if it is small.

    Examples:
        >>> at_most(0.09301), at_most(0.1), at_most(0.00123), at_most(2.8e-27)
        ('0.094', '0.1', '0.0013', '0.000000000000001')
    """
    return _rounded(value, ROUND_CEILING)


def at_least(value: float) -> str:
    """Return a lower bound as text, rounded down.

    Examples:
        >>> at_least(0.0399), at_least(2.8e-27)
        ('0.039', '0')
    """
    return _rounded(value, ROUND_FLOOR)


def _rounded(value: float, direction: str) -> str:
    exact = Decimal(repr(float(value)))
    if not exact.is_finite():
        return f"{value:g}"
    if abs(exact) < _LEAST_SHOWN:
        return plain(exact.quantize(_LEAST_SHOWN, rounding=direction) + 0)  # + 0 takes the sign of -0 away
    in_decimals = Decimal("0.01") <= abs(exact) < Decimal("1e15")
    last = -3 if in_decimals else exact.adjusted() - 1
    return plain(exact.quantize(Decimal(1).scaleb(last), rounding=direction))


def plain(exact: Decimal) -> str:
    """Return a number as text without an exponent and without zeros at the end.

    Examples:
        >>> plain(Decimal("0.100")), plain(Decimal("1E+3"))
        ('0.1', '1000')
    """
    text = format(exact, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(probability: float) -> str:
    """Return a probability in per cent as text, with all its digits.

    Examples:
        >>> percent(0.95), percent(0.9995)
        ('95 %', '99.95 %')
    """
    return f"{plain(Decimal(repr(float(probability))) * 100)} %"


def counted(count: int, one: str) -> str:
    """Return a count with its noun, such as "3 queries".

    Examples:
        >>> counted(1000, "query"), counted(1, "surprise")
        ('1,000 queries', '1 surprise')
    """
    many = f"{one.removesuffix('y')}ies" if one.endswith("y") else f"{one}s"
    return f"{count:,} {one if count == 1 else many}"


def shown(value: float) -> str:
    """Return a number for a table as text, with six significant digits.

    Examples:
        >>> shown(0.0465805205), shown(20000), shown(1e-06), shown(2.8e-27)
        ('0.0465805', '20,000', '0.000001', '0')
    """
    if abs(value) < _LEAST_SHOWN:
        return "0"
    if abs(value) < 1e15 and value == int(value):
        return f"{int(value):,}"
    if not 1e-9 < abs(value) < 1e15:
        return f"{value:.6g}"
    exact = Decimal(repr(value))
    return plain(exact.quantize(Decimal(1).scaleb(min(exact.adjusted() - 5, 0)), rounding=ROUND_HALF_EVEN))
