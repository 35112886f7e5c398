"""Expressions as SQL that is exact and safe in every dialect: ranges of values, arithmetic, branches.

A missing number is null or nan. Operations carry both along, and a comparison with null is not true, so tests for
missing values are written only where they matter. A condition is compiled to two SQL conditions: whether it is true,
and whether it is false. If it is not true, it may be false or null, which makes no difference to its use. So for nan,
``delay > 60`` needs only one more comparison, with infinity.

No value of a row raises an error. If an engine raises an error for doubles that become too large or too small,
operations are guarded, unless the ranges of their operands rule this out.

A long piece of SQL that is used twice becomes a column of a sub-select. A short one is repeated.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from everhold.values.expressions.tree import ColumnKind, Expression, Node, Operation, RowValue, lowered

if TYPE_CHECKING:
    from everhold_engines.sql.dialects import Dialect


LARGEST = sys.float_info.max
SMALLEST = 5e-324
_FARTHEST = 1e15  # seconds from 1970 to any time of any engine
_OF_TIMES = 2.0**-72  # times are whole microseconds: those that are not 0 are multiples of this as doubles


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Range of the doubles that a node of an expression can have.

    Attributes:
        low: Lower bound of the values. Minus infinity if values may be infinite or arbitrarily large.
        high: Upper bound of the values.
        step: A power of two of which all finite values are multiples.
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
        """A bound below which no absolute value except 0 lies."""
        return max(self.low, -self.high, self.step)

    @property
    def zero(self) -> bool:
        """True if 0 may be in the range."""
        return self.low <= 0.0 <= self.high


def folded(node: Node, operands: tuple[Node, ...]) -> Node:
    """Return a node with new operands, or a literal if all operands are numbers."""
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
    """Return the range of a node of numbers or times, from the ranges of its operands."""
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
            narrowed = dict(known)
            found = []
            for condition, result in zip(node.operands[:-1:2], node.operands[1::2], strict=False):
                found.append(_within(result, _narrowed(condition, narrowed, holds=True)))
                narrowed = _narrowed(condition, narrowed, holds=False)
            return _any_of([*found, _within(node.operands[-1], narrowed)])
        case Operation.LEAST:
            return replace(_any_of(operands), high=min(one.high for one in operands), nan=False)
        case _:  # GREATEST
            return replace(_any_of(operands), low=max(one.low for one in operands), nan=False)


def _step(value: float) -> float:
    """Return the largest power of two of which a literal is a multiple."""
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


def _within(result: Node, narrowed: Mapping[Node, ValueRange]) -> ValueRange:
    follow = result.operation in (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE)
    return range_of(result, narrowed) if follow else narrowed[result]


def _narrowed(condition: Node, known: Mapping[Node, ValueRange], *, holds: bool) -> dict[Node, ValueRange]:
    """Return the ranges of values that remain if ``a < b`` is true, or if it is false or null.

    Args:
        condition: The comparison ``a < b``.
        known: Ranges of values that are known before the comparison.
        holds: Whether the comparison is true. If not, it is false or null.
    """
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
    """Return whether finite operands can give a result outside the range of doubles, by overflow or underflow."""
    most, other_most = (min(one.most, LARGEST) for one in (first, second))
    match operation:
        case Operation.ADD | Operation.SUBTRACT:
            return most + other_most == math.inf
        case Operation.MULTIPLY:
            return most * other_most == math.inf or first.least * second.least == 0.0
        case _:
            return most / second.least == math.inf or (other_most > 0.0 and first.least / other_most == 0.0)


def safe_template(node: Node, plain: str, dialect: Dialect) -> str:
    """Return an SQL template for an arithmetic operation that raises no error for any operands."""
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
    """Return the literal of a product or quotient, 0 if it has none, and the index of the other operand."""
    for place in (1, 0) if node.operation is Operation.MULTIPLY else (1,):
        if node.operands[place].operation in (Operation.NUMBER, Operation.TIME):
            return float(node.operands[place].value or 0.0), 1 - place
    return 0.0, 0


def _with_constant(operation: Operation, constant: float, place: int) -> str:
    """Return SQL for a product or quotient with a literal, infinite or 0 where the result is out of a double's range.

    `place` is the operand, 0 or 1, that is not the literal.
    """
    if (abs(constant) > 1.0) is (operation is Operation.MULTIPLY):
        limit = _last(lambda number: math.isfinite(_result(operation, number, constant)))
        sign = "" if constant > 0 else "-"
        return f"(CASE WHEN abs({{{place}}}) > <{limit.hex()}> THEN {{{place}}} * ({sign}INFINITY) ELSE {{2}} END)"
    limit = _last(lambda number: _result(operation, number, constant) == 0.0)
    return f"(CASE WHEN abs({{{place}}}) <= <{limit.hex()}> THEN <0> ELSE {{2}} END)"


def _result(operation: Operation, number: float, constant: float) -> float:
    return number * abs(constant) if operation is Operation.MULTIPLY else number / abs(constant)


def _last(holds: Callable[[float], bool]) -> float:
    """Return the last double from 0 on for which a condition holds, by bisection."""
    places = range(1, int(struct.unpack("<q", struct.pack("<d", LARGEST))[0]) + 1)
    return _double_at(bisect_left(places, True, key=lambda place: not holds(_double_at(place))))


def _double_at(place: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", place))[0])


Part: TypeAlias = str | int
"""Text, or the number of a piece."""

CompiledParts: TypeAlias = tuple[Part, Part]
"""Two of each node: where a condition is true and where it is false; of all else the value and where it is there."""

_PLACE = re.compile(r"\{(\d)\}")


@dataclass(slots=True)
class SqlFragments:
    """Store of SQL fragments without duplicates. Later fragments refer to earlier ones by number."""

    dialect: Dialect
    _pieces: dict[tuple[Part, ...], int] = field(default_factory=dict)

    def _put(self, *parts: Part) -> int:
        return self._pieces.setdefault(parts, len(self._pieces))

    def _joined(
        self, between: str, parts: Sequence[Part], *, before: Sequence[Part] = "(", after: Sequence[Part] = ")"
    ) -> int:
        inside: list[Part] = [between] * (2 * len(parts) - 1)
        inside[::2] = parts
        return self._put(*before, *inside, *after)

    def _logic(self, node: Node, inputs: Sequence[CompiledParts]) -> CompiledParts | None:
        """Return SQL for a logical operation in three-valued logic, or None for another node."""
        ones, others = map(list, zip(*inputs, strict=True))
        match node.operation:
            case Operation.NOT:
                return others[0], ones[0]
            case Operation.AND:
                return self._joined(" AND ", ones), self._joined(" OR ", others)
            case Operation.OR:
                return self._joined(" OR ", ones), self._joined(" AND ", others)
            case Operation.EQUAL if node.operands[0].kind is ColumnKind.BOOLEAN:
                (true, false), (also_true, also_false) = inputs
                return (
                    self._put("((", true, " AND ", also_true, ") OR (", false, " AND ", also_false, "))"),
                    self._put("((", true, " AND ", also_false, ") OR (", false, " AND ", also_true, "))"),
                )
        return None

    def _filled(self, template: str, *operands: Part) -> int:
        """Store a fragment made from a template, in which ``{0}``, ``{1}``, ... are operands, and return its number."""
        written = _PLACE.split(template)
        return self._put(*(operands[int(part)] if odd % 2 else part for odd, part in enumerate(written) if part))


_SIGNS = {Operation.ADD: "+", Operation.SUBTRACT: "-", Operation.MULTIPLY: "*", Operation.DIVIDE: "/"}
_TESTS = {Operation.EQUAL: ("=", "<>"), Operation.LESS: ("<", ">="), Operation.MEMBER: ("IN", "NOT IN")}
_READ = {ColumnKind.NUMBER: "number", ColumnKind.TIME: "time", ColumnKind.BOOLEAN: "truth"}
_OF_DOUBLES = (ColumnKind.NUMBER, ColumnKind.TIME)
_SHORT = 320  # characters that are repeated rather than making a column


@dataclass(slots=True)
class SqlCompiler(SqlFragments):
    """Compiles row values to SQL for one engine."""

    _ranges: dict[Node, ValueRange] = field(default_factory=dict)
    _leaves: set[int] = field(default_factory=set)

    def prepared(self, expression: Expression) -> Expression:
        """Return the expression to compile: without functions, and with literals for all parts whose value is known."""
        return _rebuilt(lowered(_rebuilt(expression, _of_positive)), folded)

    def compiled(self, node: Node, inputs: Sequence[CompiledParts]) -> CompiledParts:
        """Return SQL for a node of an expression, given the SQL of its operands."""
        if node.kind in _OF_DOUBLES:
            self._ranges[node] = range_of(node, self._ranges)
        if not inputs:
            return self._leaf(node)
        if (logic := self._logic(node, inputs)) is not None:
            return logic
        ones, others = map(list, zip(*inputs, strict=True))
        words = self.dialect.words
        match node.operation:
            case Operation.IS_NULL:
                is_condition = node.operands[0].kind is ColumnKind.BOOLEAN
                present = self._joined(" OR ", inputs[0]) if is_condition else others[0]
                return self._put("(CASE WHEN ", present, " THEN FALSE ELSE TRUE END)"), present
            case Operation.EQUAL | Operation.LESS | Operation.MEMBER:
                return self._test(node, ones, others, negated=False), self._test(node, ones, others, negated=True)
            case Operation.LIKE:
                like = self._joined(" AND ", [self._filled(*test) for test in self._like(ones[0], str(node.value))])
                return like, self._put("(NOT ", like, ")")
            case Operation.LOWER | Operation.UPPER:
                return self._present(node, self._filled(words[node.operation.value], ones[0]))
            case Operation.CASE if node.kind is ColumnKind.BOOLEAN:
                return self._case(ones, ones), self._case(ones, others)
            case Operation.CASE:
                return self._present(node, self._case(ones, ones))
            case Operation.LEAST | Operation.GREATEST:
                listed = self._joined(", ", ones, before=[f"{node.operation.value}("])
                there = self._all([other for other in others if other != "TRUE"])
                value = self._put("(CASE WHEN ", there, " THEN ", listed, " END)") if there != "TRUE" else listed
                return self._present(node, value)
            case Operation.NEGATE | Operation.ABSOLUTE | Operation.FLOOR:
                return self._present(node, self._filled(_ALONE.get(node.operation, words["floor"]), ones[0]))
            case _:
                first, second = (self._ranges[operand] for operand in node.operands)
                plain = f"({{0}} {_SIGNS[node.operation]} {{1}})"
                if node.operation is Operation.DIVIDE and second.zero:
                    plain = f"({{0}} / nullif({{1}}, {self.dialect.literal(0.0)}))"
                if self.dialect.raises and leaves_doubles(node.operation, first, second):
                    plain = safe_template(node, plain, self.dialect)
                # one piece: a column of a sub-select would be computed for all rows
                return self._present(node, self._filled(plain, *ones))

    def grid(self, value: RowValue, root: CompiledParts, unit: int) -> Part:
        """Return SQL for the integer of one row, where missing values count as the lower end.

        Below the first step nothing is computed, because its quotient might be too small for a double.
        """
        number, present = root
        none, all_steps = map(self.dialect.words["integer"].format, (0, int(unit)))
        if value.expression.kind is ColumnKind.BOOLEAN:
            return self._put("(CASE WHEN ", number, f" THEN {all_steps} ELSE {none} END)")
        one, high, low = map(self.dialect.literal, (_first_step(value, unit), value.high, value.low))
        top = [number, f" >= {high}"] if present == "TRUE" else ["(", number, f" >= {high} AND ", present, ")"]
        if self.dialect.eager:
            clipped = self._put("(CASE WHEN ", number, f" > {low} AND ", number, f" < {high} THEN ", number, " WHEN ",
                                *top, f" THEN {high} ELSE {low} END)")  # fmt: skip
            return self._filled(self.dialect.words["whole"], self._steps(value, clipped, unit))
        steps = self._filled(self.dialect.words["whole"], self._steps(value, number, unit))
        return self._put("(CASE WHEN ", number, f" >= {one} AND ", number, f" < {high} THEN ", steps, " WHEN ", *top,
                         f" THEN {all_steps} ELSE {none} END)")  # fmt: skip

    def condition(self, value: RowValue, root: CompiledParts) -> Part:
        """Return SQL for whether a row counts, for an expression that is a condition."""
        return root[0]

    def select(self, results: Sequence[Part], source: str, position: str | None, *, names: str = "v") -> str:
        """Return a statement with the results of each row, in nested selects if pieces are long."""
        kept = [result for result in results if isinstance(result, int)]
        for flat in (True, False):
            texts, layers = self._layers(kept, flat=flat)
            if flat and layers == [[]]:
                break
        last = [
            f"{result if isinstance(result, str) else texts[result]} AS {names}{place}"
            for place, result in enumerate(results)
        ]
        own = [f"{self.dialect.column(position)} AS p"] if position else []
        if layers == [[]]:
            return f"SELECT {', '.join(own + last)} FROM {source} AS {self.dialect.rows}"
        first = f"{', '.join(own + layers[0]) or '1 AS one'} FROM {source} AS {self.dialect.rows}"
        rows = f"(SELECT {first}{self.dialect.write('fence')})"
        for depth, layer in enumerate(layers[1:], 1):
            rows = f"(SELECT w{depth}.*, {', '.join(layer)} FROM {rows} AS w{depth}{self.dialect.write('fence')})"
        return f"SELECT {', '.join((['p'] if position else []) + last)} FROM {rows} AS w"

    def _layers(self, results: Sequence[int], *, flat: bool) -> tuple[dict[int, str], list[list[str]]]:
        """Return the SQL text of each fragment, and the columns of each nested SELECT that shares fragments."""
        uses = dict.fromkeys(results, 0)
        for parts, piece in reversed(self._pieces.items()):
            if piece in uses:
                for part in parts:
                    if isinstance(part, int):
                        uses[part] = uses.get(part, 0) + 1
        texts: dict[int, str] = {}
        levels: dict[int, int] = {}
        layers: list[list[str]] = [[]]
        for parts, piece in self._pieces.items():
            if piece in uses:
                text, level = "", 0
                for part in parts:
                    text += part if isinstance(part, str) else texts[part]
                    level = max(level, 0 if isinstance(part, str) else levels[part])
                shared = (uses[piece] - 1) * len(text) > _SHORT and (piece not in self._leaves or len(text) > _SHORT)
                if shared or (piece in self._leaves and not flat):
                    layers += [[]] if level == len(layers) else []
                    layers[level].append(f"{text} AS s{piece}")
                    text, level = f"s{piece}", level + 1
                texts[piece], levels[piece] = text, level
        return texts, layers

    def _leaf(self, node: Node) -> CompiledParts:
        """Return the compiled parts of a literal or a column."""
        match node.operation:
            case Operation.NULL if node.kind is ColumnKind.BOOLEAN:
                return "FALSE", "FALSE"
            case Operation.NULL:
                kind = self.dialect.write("string" if node.kind is ColumnKind.STRING else "double")
                return self.dialect.write("null", kind), "FALSE"
            case Operation.BOOLEAN:
                return ("TRUE", "FALSE") if node.value else ("FALSE", "TRUE")
            case Operation.NUMBER | Operation.TIME:
                return self.dialect.literal(float(node.value or 0.0)), "TRUE"
            case Operation.STRING:
                return self.dialect.literal(str(node.value)), "TRUE"
        read = self._filled(self.dialect.words[_READ.get(node.kind, "text")], self.dialect.column(str(node.value)))
        self._leaves.add(read)
        if node.kind is ColumnKind.BOOLEAN:
            return read, self._put("(NOT ", read, ")")
        return self._present(node, read)

    def _present(self, node: Node, value: Part) -> CompiledParts:
        """Return SQL for a value, and SQL for the condition that the value is neither null nor nan."""
        if node in self._ranges and self._ranges[node].nan:
            return value, self._put("(", value, f" <= {self.dialect.write('infinite')})")
        return value, self._put("(", value, " IS NOT NULL)")

    def _all(self, conditions: Sequence[Part]) -> Part:
        return self._joined(" AND ", conditions) if conditions else "TRUE"

    def _test(self, node: Node, ones: Sequence[Part], others: Sequence[Part], *, negated: bool) -> Part:
        """Return SQL for a comparison that is false for null, also for nan in engines that order nan.

        `negated` is true if the comparison is negated.
        """
        sign = _TESTS[node.operation][negated]
        values, zero = list(ones[1:]), self.dialect.literal(0.0)
        tests = [self._put("(", ones[0], f" {sign} ", values[0], ")")]
        if node.operation is Operation.MEMBER:
            tests = [self._joined(", ", values, before=["(", ones[0], f" {sign} ("], after=["))"])]
            if zero in values:  # some engines tell two zeros apart there
                equal, between = ("<>", " AND ") if negated else ("=", " OR ")
                tests = [self._joined(between, [*tests, self._put("(", ones[0], f" {equal} {zero})")])]
        return self._all([*tests, *(others[place] for place in self._let_in(node, negated=negated))])

    def _let_in(self, node: Node, *, negated: bool) -> list[int]:
        """Return the indices of operands for which a nan would make a test true.

        `negated` is true if the comparison is negated.
        """
        nans = [place for place, one in enumerate(node.operands) if one in self._ranges and self._ranges[one].nan]
        differ = negated and node.operation is not Operation.LESS
        if differ or not self.dialect.greatest_nan:
            return nans if differ else []
        if node.operation is Operation.LESS:
            return [place for place in nans if place != negated]
        return nans[:1] if len(nans) > 1 else []

    def _like(self, text: Part, pattern: str) -> Iterator[tuple[str, *tuple[Part, ...]]]:
        """Yield tests that a text matches a LIKE pattern, as templates with their operands."""
        write, literal, ends = self.dialect.write, self.dialect.literal, pattern.split("%")
        first, *between, last = ends if len(ends) > 1 else (pattern, "")
        sign = ">=" if len(ends) > 1 else "="
        yield f"({write('length', '{0}')} {sign} {len(first) + len(last)})", text
        for start, run in _runs(first):
            piece = write("piece", "{0}", start + 1, len(run))
            yield f"({piece} = {{1}})", text, literal(run)
        for start, run in _runs(last):
            piece = write("piece", write("ending", "{0}", len(last)), start + 1, len(run))
            yield f"({piece} = {{1}})", text, literal(run)
        for part in filter(None, between):
            inside: Part = text
            if first or last:  # of a text that is too short something is made, too
                rest = f"{write('length', '{0}')} - {len(first) + len(last)}"
                inside = self._filled(write("piece", "{0}", len(first) + 1, f"greatest({rest}, 0)"), text)
            yield self.dialect.words["inside"], inside, literal(part)

    def _case(self, conditions: Sequence[Part], results: Sequence[Part]) -> Part:
        """Return SQL for the result of the first true condition."""
        parts: list[Part] = ["(CASE"]
        for condition, result in zip(conditions[:-1:2], results[1::2], strict=False):
            parts += [" WHEN ", condition, " THEN ", result]
        return self._put(*parts, " ELSE ", results[-1], " END)")

    def _steps(self, value: RowValue, number: Part, unit: int) -> Part:
        """Return SQL for the steps of the grid above the lower end, before rounding down."""
        literal, step = self.dialect.literal, value.width / unit
        above = number if value.low == 0.0 else self._put("(", number, f" - {literal(value.low)})")
        if unit & (unit - 1) == 0 and step >= sys.float_info.min:  # the same bits, by one division
            return self._put(above, f" / {literal(step)}")
        return self._put(above, f" / {literal(value.width)} * {literal(float(unit))}")


_ALONE = {Operation.NEGATE: "(-{0})", Operation.ABSOLUTE: "abs({0})"}


def _rebuilt(expression: Expression, rule: Callable[[Node, tuple[Node, ...]], Node]) -> Expression:
    rebuilt: dict[Node, Node] = {}
    for node in expression.nodes:
        rebuilt[node] = rule(node, tuple(rebuilt[operand] for operand in node.operands))
    return Expression(rebuilt[expression.root])


def _of_positive(node: Node, operands: tuple[Node, ...]) -> Node:
    """Return a logarithm node that is null for operands which are not finite and positive."""
    if node.operation is Operation.LOGARITHM:
        null = Node(Operation.NULL, ColumnKind.NUMBER)
        for end, above in ((math.inf, False), (0.0, True)):
            pair = (Node.literal(end), operands[0]) if above else (operands[0], Node.literal(end))
            test = Node(Operation.LESS, ColumnKind.BOOLEAN, pair)
            operands = (Node(Operation.CASE, ColumnKind.NUMBER, (test, operands[0], null)),)
    return Node(node.operation, node.kind, operands, node.value)


def _runs(part: str) -> Iterator[tuple[int, str]]:
    """Yield the literal parts of a LIKE pattern with their positions, split at ``_``."""
    return ((found.start(), found[0]) for found in re.finditer("[^_]+", part))


def _first_step(value: RowValue, unit: int) -> float:
    """Return the smallest double that rounds to a positive number of grid steps, at most the upper end."""
    below, above = value.low, value.high
    while True:
        middle = below + (above - below) / 2
        if not below < middle < above:
            return above
        if (middle - value.low) / value.width * unit >= 1.0:
            above = middle
        else:
            below = middle
