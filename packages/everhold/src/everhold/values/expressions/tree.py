"""The small immutable tree that the parser makes of a text expression, the same tree for all spellings of a query.

Engines get this tree and never the analyst's text. `Node.of` gives equal queries the same form. Its rewritings do not
change the value of any row, null included: ``a <= b`` and ``not (b < a)`` are null for the same rows, De Morgan's laws
and flattening hold in Kleene's logic, IEEE addition and multiplication commute.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Literal, TypeAlias

from everhold.errors import QueryRejected


def quoted(name: str) -> str:
    """Return a name in double quotes, as expressions and DuckDB write it.

    Examples:
        >>> quoted("arrival delay")
        '"arrival delay"'
    """
    return '"' + name.replace('"', '""') + '"'


class ColumnKind(Enum):
    """The kinds of column values that expressions distinguish."""

    __hash__ = object.__hash__  # that of an Enum is a function in Python, and takes ten times as long

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    TIME = "time"
    """Dates and timestamps."""
    OTHER = "other"
    """Times of day, intervals, lists, structures, bytes: cannot be used in an expression."""


class Operation(Enum):
    """The operations that nodes can have. Other ways of writing an expression are rewritten to them."""

    __hash__ = object.__hash__

    COLUMN = "column"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    TIME = "time"
    NULL = "null"
    NEGATE = "negate"
    ABSOLUTE = "abs"
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    FLOOR = "floor"
    LOGARITHM = "logarithm"
    DAYS = "days"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    DAY_OF_WEEK = "day of week"
    LEAST = "least"
    GREATEST = "greatest"
    EQUAL = "equal"
    LESS = "less"
    MEMBER = "member"
    LIKE = "like"
    LOWER = "lower"
    UPPER = "upper"
    IS_NULL = "is null"
    NOT = "not"
    AND = "and"
    OR = "or"
    CASE = "case"


_CONDITIONS = frozenset(
    {Operation.EQUAL, Operation.LESS, Operation.MEMBER, Operation.LIKE, Operation.IS_NULL, Operation.NOT, Operation.AND,
     Operation.OR}
)  # fmt: skip
_OF_TIMES = frozenset(
    {Operation.DAYS, Operation.YEAR, Operation.MONTH, Operation.DAY, Operation.HOUR, Operation.DAY_OF_WEEK}
)
_LITERALS = frozenset({Operation.NUMBER, Operation.STRING, Operation.BOOLEAN, Operation.TIME})
_SMALL, _LARGE = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LETTERS = {Operation.LOWER: (_LARGE, _SMALL), Operation.UPPER: (_SMALL, _LARGE)}
"""Letters that are replaced, and by which; all others stay, because engines disagree about them."""
_DUAL = {Operation.AND: Operation.OR, Operation.OR: Operation.AND}


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """One step of an expression. Equal nodes have equal digests, so comparing and hashing never recurse.

    Attributes:
        operation: The operation that the node computes.
        kind: Static type of the result: NUMBER, STRING, BOOLEAN or TIME.
        operands: Inputs; for CASE condition, result, condition, result, ..., otherwise.
        value: Name of a column, value of a literal (of a time seconds since 1970), or pattern of LIKE.
        digest: SHA-256 of the structure below.
        depth: Longest way down to a leaf.
    """

    operation: Operation = field(compare=False)
    kind: ColumnKind = field(compare=False)
    operands: tuple[Node, ...] = field(default=(), compare=False)
    value: str | float | bool | None = field(default=None, compare=False)
    digest: str = field(init=False)
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        inputs, below = [], 0
        for operand in self.operands:
            inputs.append(operand.digest)
            below = max(below, operand.depth)
        text = json.dumps([self.operation.value, self.kind.value, self.value, inputs])
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest())
        object.__setattr__(self, "depth", 1 + below)

    def __repr__(self) -> str:
        return f"Node({self.operation.value}, {self.kind.value}, {self.digest[:8]})"

    @property
    def is_literal(self) -> bool:
        """Whether the value is written in the expression itself."""
        return self.operation in _LITERALS

    @staticmethod
    def literal(value: str | float | bool) -> Node:
        """Build the node of a literal, without the sign of zero."""
        if isinstance(value, bool):
            return Node(Operation.BOOLEAN, ColumnKind.BOOLEAN, value=value)
        if isinstance(value, str):
            return Node(Operation.STRING, ColumnKind.STRING, value=value)
        return Node(Operation.NUMBER, ColumnKind.NUMBER, value=float(value) + 0.0)

    @staticmethod
    def like(text: Node, pattern: str) -> Node:
        """Build the node that tests a text against a pattern, an equality if the pattern has no ``%`` or ``_``."""
        if not {*pattern} & {"%", "_"}:
            return Node.of(Operation.EQUAL, text, Node.literal(pattern))
        return Node(Operation.LIKE, ColumnKind.BOOLEAN, (text,), re.sub("%+", "%", pattern))

    @staticmethod
    def of(operation: Operation, *operands: Node) -> Node:
        """Return the node of an operation in its canonical form, which is equal for equivalent spellings."""
        first = operands[0]
        match operation:
            case Operation.NEGATE | Operation.NOT if first.operation is operation:
                return first.operands[0]
            case Operation.LOWER | Operation.UPPER:
                first = first.operands[0] if first.operation in LETTERS else first
                if first.is_literal:
                    return Node.literal(str(first.value).translate(str.maketrans(*LETTERS[operation])))
                operands = (first,)
            case Operation.NEGATE if isinstance(first.value, float):
                return Node.literal(-first.value)
            case Operation.NOT if isinstance(first.value, bool):
                return Node.literal(not first.value)
            case Operation.NOT if first.operation in _DUAL:
                return Node.of(_DUAL[first.operation], *(Node.of(operation, part) for part in first.operands))
            case Operation.ADD | Operation.MULTIPLY:
                operands = _sorted(operands)
            case Operation.EQUAL:
                for one, other in (operands, operands[::-1]):
                    if isinstance(one.value, bool):
                        return other if one.value else Node.of(Operation.NOT, other)
                operands = _sorted(operands)
            case Operation.MEMBER:
                operands = (first, *_sorted(set(operands[1:])))
                if len(operands) == 2:
                    return Node.of(Operation.EQUAL, *operands)
                if first.is_literal:  # then it is not known which side of an equality is the subject
                    return Node.of(Operation.OR, *(Node.of(Operation.EQUAL, first, other) for other in operands[1:]))
            case Operation.LEAST | Operation.GREATEST | Operation.AND | Operation.OR:
                # Operands of an operation that takes up its own results, and knows neither order nor repetition
                found: set[Node] = set()
                for operand in operands:
                    found.update(operand.operands if operand.operation is operation else (operand,))
                operands = _sorted(_joined(operation, found) if operation in _DUAL else found)
                if len(operands) == 1:
                    return operands[0]
        if operation in _CONDITIONS:
            return Node(operation, ColumnKind.BOOLEAN, operands)
        return Node(operation, ColumnKind.NUMBER if operation in _OF_TIMES else operands[-1].kind, operands)


def _sorted(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=attrgetter("digest")))


def _joined(operation: Operation, parts: Iterable[Node]) -> set[Node]:
    """Return the operands of ``or`` with ``x = 1`` and ``x = 2`` joined to ``x in (1, 2)``.

    Operands of ``and`` that are negations are joined in the same way.
    """
    kept: set[Node] = set()
    lists: dict[Node, list[Node]] = {}
    for part in parts:
        positive = part.operands[0] if operation is Operation.AND and part.operation is Operation.NOT else part
        subject = _subject(positive) if operation is Operation.OR or positive is not part else None
        if subject is None:
            kept.add(part)
        else:
            lists.setdefault(subject, []).extend(node for node in positive.operands if node != subject)
    for subject, literals in lists.items():
        joined = Node.of(Operation.MEMBER, subject, *literals)
        kept.add(joined if operation is Operation.OR else Node.of(Operation.NOT, joined))
    return kept


def _subject(node: Node) -> Node | None:
    """Return the operand that an equality or list compares with literals, or None for other nodes."""
    if node.operation not in (Operation.EQUAL, Operation.MEMBER) or node.operands[0].kind is ColumnKind.BOOLEAN:
        return None
    free = [operand for operand in node.operands if not operand.is_literal]
    return free[0] if len(free) == 1 else None


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression over named columns, made by `parse`.

    Attributes:
        root: The node that gives its value.
        nodes: All different nodes, operands before the nodes that use them; in a fixed order.
        kind: The kind of its value, NUMBER or BOOLEAN.

    Examples:
        >>> from everhold.values.expressions import parse
        >>> late = parse("arr_delay > 15", {"arr_delay": ColumnKind.NUMBER})
        >>> late.kind, late.columns()
        (<ColumnKind.BOOLEAN: 'boolean'>, ('arr_delay',))
        >>> late == parse("NOT (arr_delay<=15.0)", {"arr_delay": ColumnKind.NUMBER})
        True
    """

    root: Node
    nodes: tuple[Node, ...] = field(init=False, repr=False, compare=False)
    kind: ColumnKind = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        done: dict[Node, None] = {}
        stack = [self.root]
        while stack:  # without recursion, because a sum of many terms is deep
            waiting = [operand for operand in stack[-1].operands if operand not in done]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done.setdefault(stack.pop())
        object.__setattr__(self, "nodes", tuple(done))
        object.__setattr__(self, "kind", self.root.kind)

    def columns(self) -> tuple[str, ...]:
        """Return the sorted names of the columns that the expression reads."""
        return tuple(sorted(str(node.value) for node in self.nodes if node.operation is Operation.COLUMN))

    def canonical(self) -> str:
        """A JSON text that is equal for all spellings of the expression. It identifies the expression in the ledger."""
        places: dict[Node, int] = {}
        listed = []
        for node in self.nodes:
            below = list(map(places.__getitem__, node.operands))
            listed.append([node.operation.value, node.value, below or node.kind.value])
            places[node] = len(places)
        return json.dumps({"expression": 1, "steps": listed}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RowValue:
    """An expression with the range that is mapped to [0, 1]: ``(clip(x, low, high) - low) / (high - low)``.

    Args:
        expression: The expression that is computed for each row.
        low: Value that counts as 0; null counts as this too. 0 for a boolean.
        high: Value that counts as 1. 1 for a boolean.
        within: Whether the expression is never outside the range, whatever the row, so that no value is clipped.

    Raises:
        QueryRejected: If the range from ``low`` to ``high`` is not finite, is empty, or is given for a boolean.
    """

    expression: Expression
    low: float = 0.0
    high: float = 1.0
    within: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        for name, end in (("low", self.low), ("high", self.high)):
            try:
                real = math.nan if isinstance(end, bool) or not isinstance(end, numbers.Real) else float(end)
            except OverflowError:
                real = math.nan
            object.__setattr__(self, name, real + 0.0)  # without a negative zero
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise QueryRejected(
                f"low is {self.low} and high is {self.high}. Pass two finite numbers, the smaller one as low."
            )
        if self.expression.kind is ColumnKind.BOOLEAN and (self.low, self.high) != (0.0, 1.0):
            raise QueryRejected("low and high are given for a condition, which counts 0 or 1. Leave them out.")

    @property
    def width(self) -> float:
        """The range ``high - low``, rounded once, so that every engine divides by the same number."""
        return self.high - self.low

    @property
    def leaves(self) -> tuple[RowValue, ...]:
        """The row values of single expressions in this one: only itself."""
        return (self,)


@dataclass(frozen=True, slots=True)
class CombinedValue:
    """A row value computed from two row values a and b on the grid, as `everhold.values.base.Pair` defines.

    Attributes:
        how: ``"difference"`` for ``(unit + a - b) / 2``, rounded down, ``"within"`` for ``min(a, b)``, ``"outside"``
            for ``min(a, unit - b)``.
        first: The row value a.
        second: The row value b.
    """

    how: Literal["difference", "within", "outside"]
    first: AnyValue
    second: AnyValue

    @property
    def leaves(self) -> tuple[RowValue, ...]:
        """The row values of single expressions in this one, from left to right."""
        return tuple(leaf for part in (self.first, self.second) for leaf in part.leaves)


AnyValue: TypeAlias = RowValue | CombinedValue
"""Value that an engine computes for each row."""


# Functions of numbers and times as arithmetic, so that every engine gives the same bits.
#
# Engines have calendars and logarithms of their own: one counts days before 1582 otherwise, another one's logarithm
# ends in another bit, a third one raises for zero. So the few functions of the language become sums, products,
# quotients, floors and choices before any engine sees them. A time is a double, seconds since 1970 in UTC.

_DAY, _HOUR = 86_400.0, 3_600.0  # seconds
_DAYS_TO_1970 = 719_468.0  # from March 1 of the year 0
_DAYS_OF_ERA = 146_097.0  # 400 years
_POWERS = (512, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)  # of two; the first one twice, for the smallest numbers
_TERMS = 12  # of the series of the logarithm; the next one is below 1e-18
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first one with 21 zero bits behind


def lowered(expression: Expression) -> Expression:
    """Return the expression with functions on which engines disagree rewritten by simpler operations.

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
    """Build the quotient rounded down, which is exact for whole numbers with a quotient below 2^53."""
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
    """Return the node of the number of days from 1970 to a time, rounded down."""
    return _whole(_plain(Operation.FLOOR, time), _DAY)


def _hour(time: Node) -> Node:
    return _whole(_rest(_plain(Operation.FLOOR, time), _DAY), _HOUR)


def _date(time: Node) -> tuple[Node, Node, Node]:
    """Build the year, month and day of the Gregorian calendar, by years from March in eras of 400 years."""
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
    """Build the natural logarithm by scaling to about 1 and a series, null unless positive and finite.

    ``ln m = 2 artanh s`` for ``s = (m - 1)/(m + 1)`` with m between sqrt(1/2) and sqrt(2).
    """
    mantissa, exponent = number, Node.literal(0.0)
    for power in _POWERS:
        above, below = _less(math.nextafter(2.0**power, 0.0), mantissa), _less(mantissa, 2.0**-power)
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


_RULES: dict[Operation, Callable[..., Node]] = {
    Operation.DAYS: _days,
    Operation.YEAR: lambda time: _date(time)[0],
    Operation.MONTH: lambda time: _date(time)[1],
    Operation.DAY: lambda time: _date(time)[2],
    Operation.HOUR: _hour,
    Operation.DAY_OF_WEEK: lambda time: _plus(_rest(_plus(_day_number(time), 3.0), 7.0), 1.0),  # Monday is 1
    Operation.LOGARITHM: _logarithm,
}
