"""The family of all text expressions, each weighted by the number of bits of its prefix code.

The code is over the canonical tree, so all spellings of a query have the same price. From the root downwards it names
for each node the operation, given the kind of its result, and then what the operation needs: a column, a number, a
category, a text, or how many operands follow. Each choice is made with probabilities that sum to at most 1, and so the
weights of all expressions together sum to at most 1 (Kraft's inequality).

A number is written as ``sign m 10^e`` in decimal. It has d digits with probability ``2^-d``. The probability of the
place of the first digit halves with each step away from the tens. All digits have the same probability.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Self

from everhold.arguments import as_float, brief
from everhold.errors import QueryRejected
from everhold.families.base import BoundFamily, Categories, Family, categories_of
from everhold.values.expressions.tree import ColumnKind, Expression, Node, Operation, RowValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.queries.query_compiler import QueryCompiler
    from everhold.values.base import BoundQuery, Pair, Schema

_VERSION = 1
_BITS = 60.0
_MOST_BITS = 1_000.0
_NUMBER, _STRING, _BOOLEAN, _TIME = ColumnKind.NUMBER, ColumnKind.STRING, ColumnKind.BOOLEAN, ColumnKind.TIME

_OPERATIONS: dict[ColumnKind, dict[Operation, float]] = {
    _BOOLEAN: {
        Operation.LESS: 0.32, Operation.EQUAL: 0.22, Operation.AND: 0.12, Operation.OR: 0.05, Operation.NOT: 0.1,
        Operation.MEMBER: 0.05, Operation.COLUMN: 0.05, Operation.LIKE: 0.03, Operation.IS_NULL: 0.03,
        Operation.CASE: 0.01, Operation.BOOLEAN: 0.01, Operation.NULL: 0.005, Operation.LEAST: 0.0025,
        Operation.GREATEST: 0.0025,
    },
    _NUMBER: {
        Operation.COLUMN: 0.5, Operation.NUMBER: 0.32, Operation.ADD: 0.02, Operation.SUBTRACT: 0.03,
        Operation.MULTIPLY: 0.02, Operation.DIVIDE: 0.02, Operation.ABSOLUTE: 0.01, Operation.HOUR: 0.01,
        Operation.DAY_OF_WEEK: 0.01, Operation.MONTH: 0.01, Operation.YEAR: 0.005, Operation.DAY: 0.005,
        Operation.DAYS: 0.005, Operation.CASE: 0.01, Operation.LEAST: 0.005, Operation.GREATEST: 0.005,
        Operation.NEGATE: 0.005, Operation.FLOOR: 0.005, Operation.LOGARITHM: 0.0025, Operation.NULL: 0.0025,
    },
    _STRING: {
        Operation.COLUMN: 0.45, Operation.STRING: 0.45, Operation.LOWER: 0.03, Operation.UPPER: 0.02,
        Operation.CASE: 0.02, Operation.LEAST: 0.01, Operation.GREATEST: 0.01, Operation.NULL: 0.01,
    },
    _TIME: {
        Operation.COLUMN: 0.45, Operation.TIME: 0.45, Operation.CASE: 0.03, Operation.LEAST: 0.03,
        Operation.GREATEST: 0.03, Operation.NULL: 0.01,
    },
}  # fmt: skip
"""Probability of each operation, given the kind of its result."""

_COMPARED = {_NUMBER: 0.7, _STRING: 0.15, _TIME: 0.1, _BOOLEAN: 0.05}
_EQUATED = {_STRING: 0.6, _NUMBER: 0.3, _TIME: 0.05, _BOOLEAN: 0.05}
_ALIKE = dict.fromkeys((_NUMBER, _STRING, _TIME, _BOOLEAN), 0.25)
_OF_OPERANDS = {
    Operation.LESS: _COMPARED, Operation.EQUAL: _EQUATED, Operation.MEMBER: _EQUATED, Operation.IS_NULL: _ALIKE,
}  # fmt: skip
"""Probability of the kind of what is compared, where the operation leaves it open."""

_SETS = frozenset({Operation.AND, Operation.OR, Operation.LEAST, Operation.GREATEST})
_LISTS = _SETS | {Operation.MEMBER, Operation.CASE}
_KNOWN, _SPELLED = 0.75, 0.25  # of a category that is listed, and of a text that is written letter by letter
_CHARACTERS = 0x110000
_DAY = 86_400.0
_DAYS = 2**16  # from 1970 on or before it that are written as a day
_MEAN, _PAIRS = 0.75, 0.25
_HOWS = {"difference": 0.25, "within": 0.25, "outside": 0.25, "ratio": 0.25}


def number_nats(value: float) -> float:
    """Return ln(1 / weight) of a number in the prefix code, which is finite for every double.

    Examples:
        >>> round(number_nats(15.0) / math.log(2.0), 1), round(number_nats(0.1234) / math.log(2.0), 1)
        (10.7, 21.3)
    """
    if value == 0.0 or not math.isfinite(value):
        return math.log(16.0) if value == 0.0 else math.log(3.0 * 16.0)
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    count, first = len(digits), len(digits) + int(exponent)
    nats = -math.log(7.0 / 8.0) - math.log(0.25 if sign else 0.75)
    nats += count * math.log(2.0) + math.log(9.0) + (count - 1) * math.log(10.0)
    return nats + abs(first - 2) * math.log(2.0) + math.log(3.0)


def _text_nats(text: str) -> float:
    """Return ln(1 / weight) of a text spelled letter by letter.

    Each letter is printable ASCII with probability one half.
    """
    letters = sum(math.log(2.0 * (95 if 32 <= ord(letter) < 127 else _CHARACTERS)) for letter in text)
    return letters + (len(text) + 1) * math.log(2.0)


def _spelled(value: object) -> float:
    """Return ln(1 / weight) of a text or number in the code."""
    return _text_nats(value) if isinstance(value, str) else number_nats(float(value))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Code:
    """A prefix code for expressions over the columns of one schema, which gives each expression a weight."""

    columns: Mapping[ColumnKind, int]
    categories: Categories

    def nats(self, expression: Expression) -> float:
        """Return ln(1 / weight) of a whole expression, including whether it is a condition or a number."""
        price: dict[Node, float] = {}
        for node in expression.nodes:  # operands come before what uses them
            operation, operands = node.operation, node.operands
            nats = -math.log(_OPERATIONS[node.kind][operation])
            if operation is Operation.COLUMN:
                nats += math.log(self.columns[node.kind])
            elif operation is Operation.NUMBER:
                nats += number_nats(float(node.value or 0.0))
            elif operation is Operation.STRING:
                nats += _text_nats(str(node.value))
            elif operation is Operation.TIME:
                seconds = float(node.value or 0.0)
                days = seconds / _DAY
                is_day = days.is_integer() and abs(days) < _DAYS  # the beginning of a day has more weight
                nats += math.log(2.0) + (math.log(2.0 * _DAYS) if is_day else number_nats(seconds))
            elif operation is Operation.BOOLEAN:
                nats += math.log(2.0)
            elif operation is Operation.LIKE:
                nats += price[operands[0]] + _text_nats(str(node.value))
            else:
                if operands and operation in _OF_OPERANDS:
                    nats -= math.log(_OF_OPERANDS[operation][operands[0].kind])
                if operands and operation in _LISTS:  # halved with every operand; of a set all orders are one
                    count = len(operands)
                    nats += count * math.log(2.0) - (math.lgamma(count + 1.0) if operation in _SETS else 0.0)
                listed = [operand for operand in operands if operand.operation is Operation.COLUMN]
                values = [operand for operand in operands if operand.is_literal]
                if operation not in (Operation.EQUAL, Operation.MEMBER):
                    nats += sum(price[operand] for operand in operands)
                elif len(listed) == 1 and len(values) == len(operands) - 1:
                    # of values that are compared with a column of categories: one of them, or spelled
                    known = self.categories.get(str(listed[0].value), ())
                    nats += price[listed[0]] + _ONE_WAY - math.lgamma(len(values) + 1.0)
                    for each in values:
                        if each.value in known:
                            nats += math.log(len(known)) - math.log(_KNOWN)
                        else:
                            nats += _spelled(each.value) - (math.log(_SPELLED) if known else 0.0)
                else:
                    nats += sum(price[operand] for operand in operands) + _OTHER_WAY
            price[node] = nats
        root = expression.root
        return price[root] - math.log(0.8 if root.kind is _BOOLEAN else 0.2)


_ONE_WAY, _OTHER_WAY = -math.log(0.9), -math.log(0.1)  # a column with values, or anything else


def expression_nats(expression: Expression, columns: Mapping[str, ColumnKind], categories: Categories) -> float:
    """Return ln(1 / weight) of an expression over named columns, in nats."""
    return _Code(Counter(columns.values()), categories).nats(expression)


@dataclass(frozen=True, slots=True)
class TextFamily(Family):
    """All text expressions whose description is at most some number of bits long. It is made by `texts`."""

    bits: float = _BITS

    def bind(self, compiler: QueryCompiler) -> BoundTexts:
        """Return the family of text expressions over the columns of one holdout."""
        bits, schema = self.checked_bits(), compiler.schema
        return BoundTexts(bits, categories_of(compiler, [*schema.asked]), schema)

    def planned_nats(self, *, training: bool) -> float | None:
        """Return ln(1 / weight) of the longest allowed text: its bits times ln 2."""
        return self.checked_bits() * math.log(2.0)

    def checked_bits(self) -> float:
        """Check and return the largest number of bits of a member.

        Raises:
            QueryRejected: If the number of bits is not one that can be declared. Nothing is charged.
        """
        bits = as_float(self.bits)
        if not 1.0 <= bits <= _MOST_BITS:
            raise QueryRejected(f"bits is {brief(self.bits)}. Pass a number from 1 to {_MOST_BITS:g}.")
        return bits


@dataclass(frozen=True, slots=True)
class BoundTexts(BoundFamily):
    """The family of text expressions over the columns of one holdout.

    Attributes:
        bits: Largest length of a member's description, in bits.
        categories: Values of columns that are known to have few.
    """

    kind: ClassVar[str] = "texts"
    bits: float
    categories: Categories
    schema: Schema = field(repr=False, compare=False)

    def nats(self, bound: BoundQuery) -> float | None:
        """Return ln(1 / weight) if a query is the mean of a text expression or combines two such means, else None."""
        nats = self._of(bound)
        return None if nats is None or nats > self.most_nats else nats

    def _of(self, bound: BoundQuery) -> float | None:
        """Return ln(1 / weight) of the mean of a text, or of a query made of texts, or None for any other query."""
        if isinstance(bound.row_value, RowValue) and bound.description.get("kind") in ("mean", "all rows"):
            value = bound.row_value
            nats = expression_nats(value.expression, self.schema.asked, self.categories) - math.log(_MEAN)
            if value.expression.kind is not _BOOLEAN:
                nats += number_nats(value.low) + number_nats(value.high)
            return nats
        pair = bound.pair
        if pair is None:
            return None
        parts = self._of_pair(pair)
        return None if parts is None else parts - math.log(_PAIRS * _HOWS[pair.how])

    def _of_pair(self, pair: Pair) -> float | None:
        """Return ln(1 / weight) of a pair of texts, or None if either query is not a text."""
        second = self._of(pair.second)
        first = self._of(_without(pair.first, pair.second))
        return None if first is None or second is None else first + second + math.log(2.0)  # within the second, or not

    def to_dict(self) -> dict[str, Any]:
        """Return bits, categories and the version of the code as plain JSON data, with the family's ``kind``."""
        categories = [[name, [*values]] for name, values in self.categories.items()]
        return {"kind": self.kind, "bits": self.bits, "categories": categories, "version": _VERSION}

    @classmethod
    def from_dict(cls, data: dict[str, Any], schema: Schema) -> Self:
        """Rebuild the family from the plain data that `to_dict` returns."""
        if data["version"] != _VERSION:
            raise ValueError(
                f"the family of texts has weights of version {data['version']!r}, and this version of everhold has "
                f"version {_VERSION}"
            )
        categories = {str(name): tuple(values) for name, values in data["categories"]}
        return cls(float(data["bits"]), categories, schema)

    @property
    def shown(self) -> str:
        """A short description for people, such as "text expressions of up to 40 bits"."""
        return f"text expressions of up to {self.bits:g} bits"

    @property
    def most_nats(self) -> float:
        """ln(1 / weight) of the longest allowed text."""
        return self.bits * math.log(2.0)


def _without(part: BoundQuery, whole: BoundQuery) -> BoundQuery:
    """Return the numerator of a ratio without the condition of the denominator, with which it is joined by "and"."""
    first, second = part.row_value, whole.row_value
    if not isinstance(first, RowValue) or not isinstance(second, RowValue):
        return part
    root, within = first.expression.root, second.expression.root
    inside = {*within.operands} if within.operation is Operation.AND else {within}
    if root.operation is not Operation.AND or not inside < {*root.operands}:
        return part
    rest = [operand for operand in root.operands if operand not in inside]
    left = rest[0] if len(rest) == 1 else Node.of(Operation.AND, *rest)
    return replace(part, row_value=RowValue(Expression(left)))


def texts(bits: float = _BITS) -> TextFamily:
    """Build the family of all queries in text form, and of ratios and differences of two, up to a description length.

    The sealed rows answer queries of a declared family at no cost.

    Args:
        bits: Largest description length of a query, in bits. Longer ones are asked like any other query. The half-width
            grows with the root of the bits; 20 are enough for ``"arr_delay > 15"``, and 60 for three conditions.

    Examples:
        >>> texts(40)
        TextFamily(bits=40)
    """
    return TextFamily(bits)
