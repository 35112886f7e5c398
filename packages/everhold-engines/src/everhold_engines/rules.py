"""The reference evaluation of expressions, row by row, with which every engine has to agree.

It knows nothing of SQL, of arithmetic that stands for a calendar, or of null that runs through operations by itself;
calendar and exponents are Python's own.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from everhold.values.evaluation import UNIT
from everhold.values.expressions.tree import LETTERS, ColumnKind, Node, Operation, RowValue

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LAST_TERM = 25  # of the series of the logarithm


def grid_integer(value: RowValue, row: Mapping[str, Any], *, unit: int = UNIT) -> int:
    """Return the value of an expression in one row as a grid integer, from 0 to ``unit``.

    Args:
        value: The expression with its range.
        row: Columns by name: numbers, texts, truth values, `datetime` in UTC without a zone, or None.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> from everhold.values.expressions import parse
        >>> late = RowValue(parse("delay / 0 > 60 or delay > 60", {"delay": ColumnKind.NUMBER}))
        >>> [grid_integer(late, {"delay": delay}, unit=4) for delay in (10.0, 90.0, None)]
        [0, 4, 0]
    """
    found: dict[Node, Any] = {}
    for node in value.expression.nodes:
        found[node] = step_value(node, [found[operand] for operand in node.operands], row)
    result = found[value.expression.root]
    if result is None or isinstance(result, bool):
        return unit if result else 0
    share = (min(max(result, value.low), value.high) - value.low) / value.width
    return math.floor(float(share * unit))


def seconds(moment: datetime) -> float:
    """Return the seconds since 1970 of a UTC time without a zone."""
    return (moment - _EPOCH) // _MICROSECOND / 1e6


def step_value(node: Node, inputs: list[Any], row: Mapping[str, Any]) -> Any:
    """Return the value of one node, given the values of its operands, with None in place of nan."""
    value = _value(node, inputs, row)
    return None if isinstance(value, float) and math.isnan(value) else value


def _value(node: Node, inputs: list[Any], row: Mapping[str, Any]) -> Any:
    match node.operation:
        case Operation.COLUMN:
            return _read(row[str(node.value)], node.kind)
        case Operation.NULL:
            return None
        case Operation.AND:
            return False if False in inputs else None if None in inputs else True
        case Operation.OR:
            return True if True in inputs else None if None in inputs else False
        case Operation.IS_NULL:
            return inputs[0] is None
        case Operation.CASE:
            chosen = (result for test, result in zip(inputs[:-1:2], inputs[1::2], strict=True) if test)
            return next(chosen, inputs[-1])
    if not inputs:
        return node.value
    if None in inputs:
        return None
    if node.operation is Operation.LIKE:
        pattern = re.escape(str(node.value)).replace("%", ".*").replace("_", ".")
        return re.fullmatch(pattern, inputs[0], re.DOTALL) is not None
    return _RULES[node.operation](*inputs)


def _read(value: Any, kind: ColumnKind) -> Any:
    """Return a value of a column as expressions use it: numbers as floats, times as seconds since 1970."""
    if value is None or kind in (ColumnKind.STRING, ColumnKind.BOOLEAN):
        return value
    return seconds(value) if kind is ColumnKind.TIME else float(value)


def _logarithm(number: float) -> float | None:
    if not 0.0 < number < math.inf:
        return None
    mantissa, exponent = math.frexp(number)
    if mantissa < math.sqrt(0.5):
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    share, series = (mantissa - 1.0) / (mantissa + 1.0), 1.0 / _LAST_TERM
    for odd in range(_LAST_TERM - 2, 0, -2):
        series = series * (share * share) + 1.0 / odd
    return exponent * _LN2_HIGH + (share * 2.0 * series + exponent * _LN2_LOW)


def _moment(time: float) -> datetime:
    return _EPOCH + timedelta(seconds=math.floor(time))


def _changed(letters: Operation) -> Callable[[str], str]:
    table = str.maketrans(*LETTERS[letters])
    return lambda text: text.translate(table)


_RULES: dict[Operation, Callable[..., Any]] = {
    Operation.NEGATE: operator.neg,
    Operation.ABSOLUTE: abs,
    Operation.ADD: operator.add,
    Operation.SUBTRACT: operator.sub,
    Operation.MULTIPLY: operator.mul,
    Operation.DIVIDE: lambda one, other: one / other if other else None,
    Operation.FLOOR: lambda number: float(math.floor(number)) if math.isfinite(number) else number,
    Operation.LOGARITHM: _logarithm,
    Operation.DAYS: lambda one, other: (one - other) / _DAY,
    Operation.YEAR: lambda time: float(_moment(time).year),
    Operation.MONTH: lambda time: float(_moment(time).month),
    Operation.DAY: lambda time: float(_moment(time).day),
    Operation.HOUR: lambda time: float(_moment(time).hour),
    Operation.DAY_OF_WEEK: lambda time: float(_moment(time).isoweekday()),
    Operation.LEAST: lambda *values: min(values),
    Operation.GREATEST: lambda *values: max(values),
    Operation.EQUAL: operator.eq,
    Operation.LESS: operator.lt,
    Operation.MEMBER: lambda subject, *listed: subject in listed,
    Operation.NOT: operator.not_,
    Operation.LOWER: _changed(Operation.LOWER),
    Operation.UPPER: _changed(Operation.UPPER),
}
