"""Arithmetic that never leaves the doubles, for engines that raise where a result becomes too large or too small.

The result is decided before it is computed, by comparing numbers that were multiplied by powers of two, which is exact:
infinity, zero, or the operation itself. Templates name the operands ``{0}`` and ``{1}``, the operation ``{2}``, and
numbers in angle brackets, as `float.fromhex` reads them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from everhold.values.expressions.tree import Node, Operation
from everhold_engines.sql.value_ranges import LARGEST, ValueRange

if TYPE_CHECKING:
    from everhold_engines.sql.dialects import Dialect

_NUMBER = re.compile(r"<([^ <>]+)>")
_SUM = (
    "(CASE WHEN (abs({0}) < <0x1p1023> AND abs({1}) < <0x1p1023>) OR abs({0}) < <1> OR abs({1}) < <1> THEN {2} "
    "WHEN abs({0} * <0x1p-1> + {1} * <0x1p-1>) < <0x1p1023> THEN {2} "
    "ELSE ({0} * <0x1p-1> + {1} * <0x1p-1>) * INFINITY END)"
)
"""A sum is too large where that of the halves is 2^1023 at least; so small ones are never halved."""

_QUOTIENT = (
    "(CASE WHEN abs({1}) < <1> AND abs({0}) > <0x1p-60> THEN CASE WHEN abs({0}) * <0x1p-512> >= abs({1}) * <0x1p512> "
    "THEN ({0} * INFINITY) * (nullif({1}, <0>) * INFINITY) ELSE {2} END "
    "WHEN abs({1}) > <1> AND abs({1}) <= INFINITY AND abs({0}) < <1> "
    "THEN CASE WHEN abs({0}) * <0x1p537> <= abs({1}) * <0x1p-538> THEN <0> ELSE {2} END ELSE {2} END)"
)
"""A quotient of two doubles is never so near to a power of two that rounding would take it there."""

_ONE_SIDE, _OTHER_SIDE = "(abs({0}) * <0x1p537>)", "(abs({1}) * <0x1p538>)"


def _upper_half(side: str) -> str:
    return f"({side} * <0x8000001p0> - ({side} * <0x8000001p0> - {side}))"


def _lower_half(side: str) -> str:
    return f"({side} - {_upper_half(side)})"


_TIE = " + ".join(
    [
        f"((({_upper_half(_ONE_SIDE)} * {_upper_half(_OTHER_SIDE)} - <1>)",
        f"{_upper_half(_ONE_SIDE)} * {_lower_half(_OTHER_SIDE)})",
        f"{_lower_half(_ONE_SIDE)} * {_upper_half(_OTHER_SIDE)})",
        f"{_lower_half(_ONE_SIDE)} * {_lower_half(_OTHER_SIDE)}",
    ]
)
"""Rounding error of a product that is 1 (Dekker 1971)."""

_PRODUCT = (
    "(CASE WHEN abs({0}) > <1> AND abs({1}) > <1> THEN CASE "
    "WHEN (abs({0}) * <0x1p-512>) * (abs({1}) * <0x1p-512>) >= <1> THEN {0} * ({1} * INFINITY) ELSE {2} END "
    "WHEN least(abs({0}), abs({1})) < <0x1p-537> AND greatest(abs({0}), abs({1})) < <1> THEN CASE "
    f"WHEN {_ONE_SIDE} * {_OTHER_SIDE} < <1> THEN <0> WHEN {_ONE_SIDE} * {_OTHER_SIDE} > <1> THEN {{2}} "
    f"WHEN {_TIE} <= <0> THEN <0> ELSE {{2}} END ELSE {{2}} END)"
)
"""The same of a product, but one may be so near: then the rest is computed that rounding takes away."""


def leaves_doubles(operation: Operation, first: ValueRange, second: ValueRange) -> bool:
    """True if finite operands may give a result that is too large, or nonzero operands one that is too small."""
    most, other_most = (min(one.most, LARGEST) for one in (first, second))
    match operation:
        case Operation.ADD | Operation.SUBTRACT:
            return most + other_most == math.inf
        case Operation.MULTIPLY:
            return most * other_most == math.inf or first.least * second.least == 0.0
        case _:
            return most / second.least == math.inf or (other_most > 0.0 and first.least / other_most == 0.0)


def safe_template(node: Node, plain: str, dialect: Dialect) -> str:
    """One of the four operations as a template of SQL that raises for no operands."""
    constant, place = _constant(node)
    if node.operation in (Operation.ADD, Operation.SUBTRACT):
        template = _SUM.replace("+", "+" if node.operation is Operation.ADD else "-")
    elif constant:
        template = _with_constant(node.operation, constant, place)
    else:
        template = _PRODUCT if node.operation is Operation.MULTIPLY else _QUOTIENT
    numbers = _NUMBER.sub(lambda found: dialect.literal(float.fromhex(found[1])), template)
    return numbers.replace("INFINITY", dialect.write("infinite")).replace("{2}", plain)


def _constant(node: Node) -> tuple[float, int]:
    """The literal by which is multiplied or divided, 0 where there is none; and the place of the other operand."""
    for place in (1, 0) if node.operation is Operation.MULTIPLY else (1,):
        if node.operands[place].operation in (Operation.NUMBER, Operation.TIME):
            return float(node.operands[place].value or 0.0), 1 - place
    return 0.0, 0


def _with_constant(operation: Operation, constant: float, place: int) -> str:
    """A product or quotient with a literal: compared with the number where it leaves the doubles."""
    if (abs(constant) > 1.0) is (operation is Operation.MULTIPLY):
        limit, sign = _last_finite(operation, constant), "" if constant > 0 else "-"
        return f"(CASE WHEN abs({{{place}}}) > <{limit.hex()}> THEN {{{place}}} * ({sign}INFINITY) ELSE {{2}} END)"
    return f"(CASE WHEN abs({{{place}}}) <= <{_last_zero(operation, constant).hex()}> THEN <0> ELSE {{2}} END)"


def _last_finite(operation: Operation, constant: float) -> float:
    """The largest double whose product or quotient with a constant is finite."""
    return _last(lambda number: math.isfinite(_result(operation, number, constant)), LARGEST)


def _last_zero(operation: Operation, constant: float) -> float:
    """The largest double whose product or quotient with a constant is 0."""
    return _last(lambda number: _result(operation, number, constant) == 0.0, LARGEST)


def _result(operation: Operation, number: float, constant: float) -> float:
    return number * abs(constant) if operation is Operation.MULTIPLY else number / abs(constant)


def _last(holds: Callable[[float], bool], high: float) -> float:
    """The last double of those for which something holds, from 0 on, by halving in their order."""
    low, above = 0, _place(high) + 1
    while above - low > 1:
        middle = (low + above) // 2
        low, above = (middle, above) if holds(_double_at(middle)) else (low, middle)
    return _double_at(low)


def _place(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _double_at(place: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", place))[0])
