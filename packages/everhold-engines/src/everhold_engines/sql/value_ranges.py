"""Ranges of the doubles of an expression for any rows, so that few operations have to be watched.

Some engines raise where a result becomes too large or too small for a double, and an error is a free answer. Literals
and what is known of times rule that out for most operations: `ValueRange` follows them through the tree.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from everhold.values.expressions.tree import ColumnKind, Node, Operation

LARGEST = sys.float_info.max
SMALLEST = 5e-324
_FARTHEST = 1e15  # seconds from 1970 to any time of any engine
_OF_TIMES = 2.0**-72  # times are whole microseconds: those that are not 0 are multiples of this as doubles


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Range of the doubles of a node.

    Attributes:
        low: None is below; minus infinity where there may be such, or finite ones however large.
        high: None is above.
        step: A power of two of which all finite ones are multiples.
        nan: Whether a missing value may be nan; it may always be null.
    """

    low: float = -math.inf
    high: float = math.inf
    step: float = SMALLEST
    nan: bool = False

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high):
            object.__setattr__(self, "low", -math.inf)
            object.__setattr__(self, "high", math.inf)
        if self.least > self.step and math.isfinite(self.least):
            object.__setattr__(self, "step", max(self.step, math.ulp(self.least)))

    @property
    def most(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def least(self) -> float:
        """No absolute value but 0 is below."""
        return max(self.low, -self.high, self.step)

    @property
    def zero(self) -> bool:
        """True if 0 may be among them."""
        return self.low <= 0.0 <= self.high


def folded(node: Node, operands: tuple[Node, ...]) -> Node:
    """The node with new operands, or the literal that it is where all of them are numbers."""
    values = [float(operand.value or 0.0) for operand in operands if _is_number(operand)]
    rule = _FOLDED.get(node.operation)
    if rule is None or len(values) < len(operands):
        return Node(node.operation, node.kind, operands, node.value)
    found = rule(*values)
    return Node(Operation.NULL, node.kind) if math.isnan(found) else Node.literal(found)


def _is_number(node: Node) -> bool:
    return node.operation in (Operation.NUMBER, Operation.TIME)


_FOLDED: dict[Operation, Callable[..., float]] = {
    Operation.NEGATE: lambda x: -x,
    Operation.ABSOLUTE: abs,
    Operation.FLOOR: lambda x: float(math.floor(x)) if math.isfinite(x) else x,
    Operation.ADD: lambda x, y: x + y,
    Operation.SUBTRACT: lambda x, y: x - y,
    Operation.MULTIPLY: lambda x, y: x * y,
    Operation.DIVIDE: lambda x, y: x / y if y else math.nan,
}


def range_of(node: Node, known: Mapping[Node, ValueRange]) -> ValueRange:
    """Of a node of numbers or times, from those of its operands."""
    operands = [known[operand] for operand in node.operands if operand in known]
    match node.operation:
        case Operation.NUMBER | Operation.TIME:
            value = float(node.value or 0.0)
            return ValueRange(value, value, _step(value))
        case Operation.COLUMN if node.kind is ColumnKind.TIME:
            return ValueRange(-_FARTHEST, _FARTHEST, _OF_TIMES)
        case Operation.COLUMN:
            return ValueRange(nan=True)
        case Operation.NULL:
            return ValueRange(math.inf, -math.inf, math.inf)
        case Operation.NEGATE:
            return replace(operands[0], low=-operands[0].high, high=-operands[0].low)
        case Operation.ABSOLUTE:
            return replace(operands[0], low=0.0 if operands[0].zero else operands[0].least, high=operands[0].most)
        case Operation.FLOOR:
            low, high = (math.floor(end) if math.isfinite(end) else end for end in (operands[0].low, operands[0].high))
            return replace(operands[0], low=float(low), high=float(high), step=max(operands[0].step, 1.0))
        case Operation.ADD:
            return _sum(*operands)
        case Operation.SUBTRACT:
            return _sum(operands[0], replace(operands[1], low=-operands[1].high, high=-operands[1].low))
        case Operation.MULTIPLY:
            return _product(*operands, square=node.operands[0] == node.operands[1])
        case Operation.DIVIDE:
            return _quotient(*operands)
        case Operation.CASE:
            return _any_of(_branches(node, known))
        case Operation.LEAST:
            return replace(_any_of(operands), high=min(one.high for one in operands), nan=False)
        case _:  # GREATEST
            return replace(_any_of(operands), low=max(one.low for one in operands), nan=False)


def _step(value: float) -> float:
    """The largest power of two of which a literal is a multiple."""
    if value == 0.0 or math.isinf(value):
        return math.inf
    mantissa, exponent = math.frexp(value)
    whole = int(abs(mantissa) * 2**53)
    return max(math.ldexp(float(whole & -whole), exponent - 53), SMALLEST)


def _sum(one: ValueRange, other: ValueRange) -> ValueRange:
    opposite = (one.high == math.inf and other.low == -math.inf) or (one.low == -math.inf and other.high == math.inf)
    return ValueRange(
        one.low + other.low, one.high + other.high, min(one.step, other.step),
        one.nan or other.nan or opposite,
    )  # fmt: skip


def _product(one: ValueRange, other: ValueRange, *, square: bool) -> ValueRange:
    ends = [first * second for first in (one.low, one.high) for second in (other.low, other.high)]
    lost = (one.zero and other.most == math.inf) or (other.zero and one.most == math.inf)
    nan = one.nan or other.nan or (lost and not square)
    if any(map(math.isnan, ends)):
        ends = [-math.inf, math.inf]
    low = max(min(ends), 0.0) if square else min(ends)
    return ValueRange(low, max(ends), max(one.step * other.step, SMALLEST), nan)


def _quotient(one: ValueRange, other: ValueRange) -> ValueRange:
    nan = one.nan or other.nan or (one.most == math.inf and other.most == math.inf)
    if other.zero or nan:
        return ValueRange(step=_least_quotient(one, other), nan=nan)
    ends = [first / second for first in (one.low, one.high) for second in (other.low, other.high)]
    return ValueRange(min(ends), max(ends), _least_quotient(one, other), nan)


def _least_quotient(one: ValueRange, other: ValueRange) -> float:
    least = one.least / other.most if 0.0 < other.most < math.inf else 0.0
    return max(math.ulp(least), SMALLEST) if math.isfinite(least) else SMALLEST


def _branches(node: Node, known: Mapping[Node, ValueRange]) -> list[ValueRange]:
    """Of each result of a case, with what its condition says of a number that is compared with literals."""
    narrowed = dict(known)
    found = []
    for condition, result in zip(node.operands[:-1:2], node.operands[1::2], strict=False):
        found.append(_within(result, _narrowed(condition, narrowed, holds=True)))
        narrowed = _narrowed(condition, narrowed, holds=False)
    return [*found, _within(node.operands[-1], narrowed)]


def _within(result: Node, narrowed: Mapping[Node, ValueRange]) -> ValueRange:
    follow = result.operation in (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE)
    return range_of(result, narrowed) if follow else narrowed[result]


def _narrowed(condition: Node, known: Mapping[Node, ValueRange], *, holds: bool) -> dict[Node, ValueRange]:
    """Facts that follow if ``a < b`` holds, or if it does not; then it may also be null."""
    if condition.operation is not Operation.LESS or sum(map(_is_number, condition.operands)) != 1:
        return dict(known)
    first, second = condition.operands
    subject, above = (second, True) if _is_number(first) else (first, False)
    if subject not in known:
        return dict(known)
    limit, reach = float((first if above else second).value or 0.0), known[subject]
    if holds:
        limit = math.nextafter(limit, math.inf if above else -math.inf)
    if above is holds:
        narrow = replace(reach, low=max(reach.low, limit), nan=reach.nan and not holds)
    else:
        narrow = replace(reach, high=min(reach.high, limit), nan=reach.nan and not holds)
    return {**known, subject: narrow}


def _any_of(ranges: Sequence[ValueRange]) -> ValueRange:
    return ValueRange(
        min(one.low for one in ranges), max(one.high for one in ranges), min(one.step for one in ranges),
        any(one.nan for one in ranges),
    )  # fmt: skip
