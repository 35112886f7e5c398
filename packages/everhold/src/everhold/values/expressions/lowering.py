"""Functions of numbers and times as arithmetic, so that every engine gives the same bits.

Engines have calendars and logarithms of their own: one counts days before 1582 otherwise, another one's logarithm ends
in another bit, a third one raises for zero. So the few functions of the language become sums, products, quotients,
floors and choices before any engine sees them. A time is a double, seconds since 1970 in UTC.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from everhold.values.expressions.tree import ColumnKind, Expression, Node, Operation

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["lowered"]

_DAY, _HOUR = 86_400.0, 3_600.0  # seconds
_DAYS_TO_1970 = 719_468.0  # from March 1 of the year 0
_DAYS_OF_ERA = 146_097.0  # 400 years
_POWERS = (512, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)  # of two; the first one twice, for the smallest numbers
_TERMS = 12  # of the series of the logarithm; the next one is below 1e-18
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first one with 21 zero bits behind


def lowered(expression: Expression) -> Expression:
    """The same row values without functions that engines disagree about.

    Examples:
        >>> year = Node.of(Operation.YEAR, Node(Operation.COLUMN, ColumnKind.TIME, value="visit"))
        >>> {node.operation.value for node in lowered(Expression(year)).nodes} >= {"floor", "divide"}
        True
        >>> Operation.YEAR in {node.operation for node in lowered(Expression(year)).nodes}
        False
    """
    if not any(node.operation in _RULES for node in expression.nodes):
        return expression
    rebuilt: dict[Node, Node] = {}
    for node in expression.nodes:
        operands = tuple(rebuilt[operand] for operand in node.operands)
        rule = _RULES.get(node.operation)
        rebuilt[node] = rule(*operands) if rule else Node(node.operation, node.kind, operands, node.value)
    return Expression(rebuilt[expression.root])


def _plain(operation: Operation, *operands: Node | float) -> Node:
    nodes = [operand if isinstance(operand, Node) else Node.literal(operand) for operand in operands]
    return Node(operation, ColumnKind.NUMBER, tuple(nodes))


def _plus(one: Node | float, other: Node | float) -> Node:
    return _plain(Operation.ADD, one, other)


def _minus(one: Node | float, other: Node | float) -> Node:
    return _plain(Operation.SUBTRACT, one, other)


def _times(one: Node | float, other: Node | float) -> Node:
    return _plain(Operation.MULTIPLY, one, other)


def _whole(one: Node, other: float) -> Node:
    """The quotient rounded down; exact for whole numbers whose quotient is below 2^53."""
    return _plain(Operation.FLOOR, _plain(Operation.DIVIDE, one, other))


def _rest(one: Node, other: float) -> Node:
    return _minus(one, _times(_whole(one, other), other))


def _less(one: Node | float, other: Node | float) -> Node:
    operands = [operand if isinstance(operand, Node) else Node.literal(operand) for operand in (one, other)]
    return Node(Operation.LESS, ColumnKind.BOOLEAN, tuple(operands))


def _choice(*parts: Node | float) -> Node:
    return _plain(Operation.CASE, *parts)


def _days(first: Node, second: Node) -> Node:
    return _plain(Operation.DIVIDE, _minus(first, second), _DAY)


def _day_number(time: Node) -> Node:
    """Days since 1970; of whole seconds, so that no rounding reaches the next day."""
    return _whole(_plain(Operation.FLOOR, time), _DAY)


def _hour(time: Node) -> Node:
    return _whole(_rest(_plain(Operation.FLOOR, time), _DAY), _HOUR)


def _day_of_week(time: Node) -> Node:
    """1970 began on a Thursday."""
    return _plus(_rest(_plus(_day_number(time), 3.0), 7.0), 1.0)


def _date(time: Node) -> tuple[Node, Node, Node]:
    """Year, month and day of the Gregorian calendar, of all times: years that begin in March, in eras of 400."""
    days = _plus(_day_number(time), _DAYS_TO_1970)
    era, day_of_era = _whole(days, _DAYS_OF_ERA), _rest(days, _DAYS_OF_ERA)
    leaps = _plus(_minus(_whole(day_of_era, 36_524.0), _whole(day_of_era, 1_460.0)),
                  _times(_whole(day_of_era, 146_096.0), -1.0))  # fmt: skip
    year_of_era = _whole(_plus(day_of_era, leaps), 365.0)
    before = _minus(_plus(_times(year_of_era, 365.0), _whole(year_of_era, 4.0)), _whole(year_of_era, 100.0))
    day_of_year = _minus(day_of_era, before)
    month = _whole(_plus(_times(day_of_year, 5.0), 2.0), 153.0)  # from March on
    day = _plus(_minus(day_of_year, _whole(_plus(_times(month, 153.0), 2.0), 5.0)), 1.0)
    next_year = _whole(month, 10.0)
    year = _plus(_plus(year_of_era, _times(era, 400.0)), next_year)
    return year, _minus(_plus(month, 3.0), _times(next_year, 12.0)), day


def _logarithm(number: Node) -> Node:
    """Natural logarithm by halving and doubling to about 1 and a series; null where it is no positive finite number.

    ``ln m = 2 artanh s`` for ``s = (m - 1)/(m + 1)`` with m between sqrt(1/2) and sqrt(2).
    """
    mantissa, exponent = number, Node.literal(0.0)
    for power in _POWERS:
        above, below = _less(_under(2.0**power), mantissa), _less(mantissa, 2.0**-power)
        mantissa, exponent = (
            _choice(above, _times(mantissa, 2.0**-power), below, _times(mantissa, 2.0**power), mantissa),
            _choice(above, _plus(exponent, power), below, _plus(exponent, -power), exponent),
        )
    above, below = _less(math.sqrt(2.0), mantissa), _less(mantissa, math.sqrt(0.5))
    mantissa, exponent = (
        _choice(above, _times(mantissa, 0.5), below, _times(mantissa, 2.0), mantissa),
        _choice(above, _plus(exponent, 1.0), below, _plus(exponent, -1.0), exponent),
    )
    share = _plain(Operation.DIVIDE, _minus(mantissa, 1.0), _plus(mantissa, 1.0))
    square, series = _times(share, share), Node.literal(1.0 / (2 * _TERMS + 1))
    for term in reversed(range(_TERMS)):
        series = _plus(_times(series, square), 1.0 / (2 * term + 1))
    small = _plus(_times(_times(share, 2.0), series), _times(exponent, _LN2_LOW))
    null = Node(Operation.NULL, ColumnKind.NUMBER)
    return _choice(_less(0.0, number), _plus(_times(exponent, _LN2_HIGH), small), null)


def _under(number: float) -> float:
    """The next smaller double, so that "more than it" is "at least"."""
    return math.nextafter(number, 0.0)


_RULES: dict[Operation, Callable[..., Node]] = {
    Operation.DAYS: _days,
    Operation.YEAR: lambda time: _date(time)[0],
    Operation.MONTH: lambda time: _date(time)[1],
    Operation.DAY: lambda time: _date(time)[2],
    Operation.HOUR: _hour,
    Operation.DAY_OF_WEEK: _day_of_week,
    Operation.LOGARITHM: _logarithm,
}
