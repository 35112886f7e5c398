"""Conformance test of an engine on made-up rows, run before any sealed row is evaluated.

Engines differ in nan, null, zeros, calendars, texts and overflowing sums, and a wrong count would make the promise
false. So some hundred expressions are evaluated on difficult made-up rows, by the same statements that are used for
sealed rows. Every integer is compared with that of `grid_integer`, a reference evaluation in Python, which shares no
code with the SQL: it uses Python's own calendar and arithmetic, and treats null explicitly. The rows are literals in
the statement, so an account that may only read is enough.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from everhold.display import Display
from everhold.errors import Unavailable
from everhold.progress import progress
from everhold.values.evaluation import UNIT
from everhold.values.expressions import parse
from everhold.values.expressions.tree import LETTERS, ColumnKind, Node, Operation, RowValue
from everhold_engines.sql.compiler import (
    cells_sql,
    group_kinds_sql,
    literal_rows_sql,
    pair_kinds_sql,
    part_totals_sql,
    row_values_sql,
    totals_sql,
)

if TYPE_CHECKING:
    from everhold_engines.base import Engine
    from everhold_engines.sql.dialects import Dialect


Row: TypeAlias = dict[str, Any]

_AT_ONCE = 40  # expressions of a statement
_LARGE_UNIT = 2**53
_COPIES = 32  # of each row, squared, so that sums in that unit do not fit into 64 bits
_PARTS = 7
_MOST_TOLD = 20
_inf, _nan = math.inf, math.nan
_REALS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e308, -1e308, 1e-308, 5e-324, _inf, -_inf, _nan, None, 0.1, 1 / 3, 2.0**53,
          1.7976931348623157e308, -5e-324, 60.0]  # fmt: skip
_FINITE = [0.5, 61.0, None, _nan, -1.0, 60.0, 3.0]  # a file's statistics may deny that one of them is nan
_INTEGERS = [0, 1, -1, 2**53 + 1, -(2**63), 2**63 - 1, 7, None, 15, 2**62 + 3, -(2**53) - 1]
_DECIMALS = ["0.07", "1.10", None, "-12345678901234.567891", "9999999999999.99", "0.00", "2.30"]
_TEXTS = ["", "UA", "ua", "é", "e\u0301", "Ｕ", "it's", 'a"b', "\U0001f6eb", "\uffee", "AA", None, " ", "a\\", "%",
          "\t", "ÄB", "UA ", "_A", "B\U0001f6ebA", "ß", "Zoe", "zoë"]  # fmt: skip
_TRUTHS = [True, False, None]
_TIMES = [
    datetime(1970, 1, 1), datetime(2024, 2, 29, 23, 59, 59, 999_999), datetime(2024, 3, 1), datetime(1, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1900, 2, 28, 12), datetime(1582, 10, 4),
    datetime(9999, 12, 31, 23, 59, 59), datetime(1582, 10, 10), None, datetime(2000, 12, 31, 0, 0, 0, 1),
    datetime(1945, 5, 8, 23, 1), datetime(2024, 3, 31, 2, 30), datetime(1600, 2, 29),
]  # fmt: skip
_ROWS = 46  # no multiple of any list's length, so that columns meet each other in many ways

_CONDITIONS = """
x > 60|x < 1|x >= 0.1|x <= -1|x = 0|x <> 0|x is null|x is not null|not (x > 0.5)|x between -1 and 1
x = y|x <> y|x < y|x >= y|x in (0, 1, 60)|x not in (0, 1, 60)|x in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
x not in (0.1, 1e308, 5e-324, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)|n = 9007199254740993.0|n > 9223372036854775807
n in (0, 7)|n in (-9223372036854775808.0, 15)
x > 0 or y > 0|x > 0 and y > 0|not (x > 0 and y > 0)|(x > 0 or b) is null|(x > 0) = b|(x > 0) <> b|b|not b|b is null
w > 60|w is null|w >= y|not (w < 60)|w <> 3
b and c|b or c|b = c|b <> c|not (b or c)|m = 0.07|m = 1.1|m > 2.299|m = 9999999999999.99|m = -12345678901234.567891
s = 'UA'|s <> 'UA'|s < 'a'|s >= 'é'|s > u|s = u|s <= 'Zoe'|s > '\uffee'|s < '\U0001f6eb'|s = 'UA '|s is null|s = ''
s in ('UA', 'é', 'it''s')|s not in ('UA', 'a\\', '%')|lower(s) = 'ua'|upper(s) = 'ÄB'|lower(s) = 'äb'|upper(s) = 'É'
s like 'U%'|s like '%A'|s like '_A'|s like '%a%'|s like '_'|s like '__'|s like ''|s like '%'|s like 'a\\'|s like '%\\%'
s not like 'U%'|s like 'U%A'|s like 'B_A'|s like '_%_'|s like '%''%'|s like 'a"_'|s like 'é%'|s like 'a%"%b'
t < date '1970-01-01'|t = timestamp '2024-02-29 23:59:59.999999'|t in (date '1970-01-01', date '0001-01-01')|t = z|t > d
t is null|z <= date '1582-10-10'|z = timestamp '1969-12-31 23:59:59.999999'|year(t) = 2024 and month(t) = 2
isodow(t) = 7|hour(z) = 23|d = date '2024-02-29'|d < t
case when x > 0 then b when y > 0 then c end|case when b then s else u end = 'UA'|case when x > 0 then t else z end > d
least(x, y) is null|greatest(x, n) = x|x / y is null|x - y = 0|x * y > 0|x + y is null|(x / 0) is null|ln(x) is null
x * x = 0|x / n = 0|x * 1e-300 = 0|x / 1e300 = 0|abs(x * y) > 1e308|x + x > 1e308|x - y < -1e308|1e-200 * 1e-200 * x = 0
"""
_NUMBERS = """
x|y|n|m|-x|abs(x)|x + y|x - y|x * y|x / y|x / n|n / x|x + 0.1|x * 3|x / 3|1 / x|least(x, y)|greatest(x, y, n)
least(x, 1)|ln(x * x)|w|greatest(w, n)
x * 1e300|x * 1e-300|x / 1e-300|x / 1e300|x * x * x|(x + y) * (x - y)|x * y + n|ln(x)|ln(abs(n))|ln(x + y)|ln(2)
year(t)|month(t)|day(t)|hour(t)|isodow(t)|year(d)|day(d)|isodow(d)|year(z)|month(z)|day(z)|hour(z)|t - z|t - d|d - z
case when x > 0 then x when y > 0 then y end|case s when 'UA' then 1 when 'é' then 2 else n end
case when b then 1 / x end|case when x = y then 0 else x end
abs(t - z) / 365.25|greatest(x / y, y / x)|case when t > z then t - z else n end|0.75|x - x|1e308 * 10|0 * x
"""
_RANGES = [
    (0.0, 1.0),
    (-1.0, 3.0),
    (0.0, 180.0),
    (-10.0, 1e6),
    (-1e307, 1e307),
    (0.1, 0.3),
    (0.0, 5e-324),
    (-5.0, 9999.0),
]


@dataclass(frozen=True, slots=True)
class Disagreement(Display):
    """One integer that an engine computed differently from the rules.

    Attributes:
        low: Value that counts as 0.
        high: Value that counts as 1.
        what: Integer that differs, such as ``"row 3"`` or ``"sum"``.
        found: Integer that the engine returned. ``"an error"`` if the engine raised an error.
    """

    expression: str
    low: float
    high: float
    what: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Conformance(Display):
    """Result of a conformance test: what was tested, and all disagreements.

    Attributes:
        findings: Expressions whose result in the engine differs from the rules.
    """

    rows_in: ClassVar[str] = "findings"

    engine: str
    expressions: int
    integers: int
    findings: tuple[Disagreement, ...]

    @property
    def agrees(self) -> bool:
        """True if the engine agreed with the rules in every integer."""
        return not self.findings

    def to_text(self) -> str:
        """Return a report of what was tested, with the first disagreements."""
        told = [
            f"  {one.expression!r} on [{one.low:g}, {one.high:g}], {one.what}: expected {one.expected}, "
            f"found {one.found}"
            for one in self.findings[:_MOST_TOLD]
        ]
        more = len(self.findings) - len(told)
        differing = f"{len(self.findings)} differ" if self.findings else "all as the rules say"
        return "\n".join(
            [
                f"{self.engine}: {self.expressions} expressions, {self.integers:,} integers, {differing}",
                *told,
                *([f"  and {more} more"] if more else []),
            ]
        )

    def __str__(self) -> str:
        return self.to_text()


def conformance(engine: Engine, *, source: str | None = None) -> Conformance:
    """Compare an engine's results for some hundred expressions on test rows with the expected integers.

    Args:
        engine: Engine to test. Nothing is written there, and its own table is not read.
        source: SQL that follows FROM if the made-up rows are in a table already. None to pass the rows as literals.

    Returns:
        The result of the test. Trust the engine only if there is no disagreement.

    Raises:
        Unavailable: If the engine cannot be reached.
    """
    rows = made_up_rows(engine.dialect)
    place = literal_rows_sql(made_up_columns(engine.dialect), engine.dialect) if source is None else source
    trial = _Trial(engine, place, rows)
    asked = expressions()
    with progress("trying the engine on made-up rows", len(asked)) as line:
        for start in range(0, len(asked), _AT_ONCE):
            trial.row_values(asked[start : start + _AT_ONCE])
            line(start)
        trial.sums(asked[::20])
    return Conformance(engine.kind, len(asked), trial.integers, tuple(trial.findings))


@cache
def expressions() -> tuple[tuple[str, RowValue], ...]:
    """Return the tested expressions as texts with their row values."""
    kinds = {name: _KINDS[kind] for name, kind in _COLUMNS.items()}
    conditions = [(text, RowValue(parse(text, kinds))) for text in _listed(_CONDITIONS)]
    numbers = [
        (text, RowValue(parse(text, kinds), *_RANGES[place % len(_RANGES)]))
        for place, text in enumerate(_listed(_NUMBERS))
    ]
    return (*conditions, *numbers)


def made_up_columns(dialect: Dialect) -> dict[str, tuple[str, list[Any]]]:
    """Return the test columns by name, each with its type and values."""
    first, last = dialect.years
    columns = {name: (kind, _cells(name, kind)) for name, kind in _COLUMNS.items()}
    dates = [None if day is None or not first <= day.year <= last else day for day in columns["d"][1]]
    return {**columns, "d": ("date", dates), "id": ("bigint", list(range(_ROWS)))}


def made_up_rows(dialect: Dialect) -> list[Row]:
    """Return the test rows as dictionaries from column name to value."""
    columns = {name: values for name, (_, values) in made_up_columns(dialect).items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


_COLUMNS = {"x": "double", "y": "double", "n": "bigint", "m": "decimal", "w": "double", "s": "text", "u": "text",
            "b": "boolean", "c": "boolean", "t": "timestamp", "d": "date", "z": "instant"}  # fmt: skip
_KINDS = {
    "double": ColumnKind.NUMBER, "bigint": ColumnKind.NUMBER, "decimal": ColumnKind.NUMBER, "text": ColumnKind.STRING,
    "boolean": ColumnKind.BOOLEAN, "timestamp": ColumnKind.TIME, "date": ColumnKind.TIME, "instant": ColumnKind.TIME,
}  # fmt: skip
_POOLS: dict[str, list[Any]] = {
    "double": _REALS, "bigint": _INTEGERS, "decimal": _DECIMALS, "text": _TEXTS, "boolean": _TRUTHS,
    "timestamp": _TIMES, "instant": _TIMES,
    "date": [None if time is None else datetime(time.year, time.month, time.day) for time in _TIMES],
}  # fmt: skip
_STRIDES = {"y": 7, "u": 4, "c": 2, "d": 3, "z": 5}  # columns of one type go through its values in other orders


def _cells(name: str, kind: str) -> list[Any]:
    pool, stride = _FINITE if name == "w" else _POOLS[kind], _STRIDES.get(name, 1)
    return [pool[(row * stride + row // len(pool)) % len(pool)] for row in range(_ROWS)]


def _listed(texts: str) -> Iterator[str]:
    return (text for line in texts.strip().splitlines() for text in line.split("|"))


class _Trial:
    """Runs statements about the made-up rows, and collects the disagreements."""

    def __init__(self, engine: Engine, source: str, rows: Sequence[Row]) -> None:
        self._engine, self._source, self._rows = engine, source, rows
        self.findings: list[Disagreement] = []
        self.integers = 0

    def row_values(self, asked: Sequence[tuple[str, RowValue]]) -> None:
        """Compare the integer of every row, which shows for which row the engine differs."""
        values = [value for _, value in asked]
        statement = row_values_sql(values, self._source, position="id", dialect=self._engine.dialect)
        found = self._answers(statement)
        if found is None and len(asked) > 1:
            for half in (asked[: len(asked) // 2], asked[len(asked) // 2 :]):
                self.row_values(half)
            return
        table = {} if found is None else {int(row[0]): row[1:] for row in found}
        for place, (text, value) in enumerate(asked):
            for number, row in enumerate(self._rows):
                got = table[number][place] if number in table else None
                self._compare(text, value, f"row {number}", grid_integer(value, row), got)

    def sums(self, asked: Sequence[tuple[str, RowValue]]) -> None:
        """Compare the engine's sums with the expected sums: large sums, sums by part, histograms, groups and pairs."""
        values, spelled = [value for _, value in asked], self._engine.dialect
        integers = self._integers(values, UNIT)
        large = [sum(column) * _COPIES**2 for column in self._integers(values, _LARGE_UNIT)]
        numbers = literal_rows_sql({"copy": ("bigint", list(range(_COPIES)))}, self._engine.dialect)
        twice = f"{self._source} AS r CROSS JOIN {numbers} AS one CROSS JOIN {numbers} AS other"
        names = ", ".join(f"r.{self._engine.dialect.quoted(name)}" for name in _COLUMNS)
        named = ", ".join(f"{name} AS {name[2:]}" for name in names.split(", "))
        repeated = totals_sql(values, f"(SELECT {named} FROM {twice})", unit=_LARGE_UNIT, dialect=spelled)
        self._compare_all(asked, repeated, {("sum",): large}, lambda row: {("sum",): row})
        parts = {(f"part {part}",): [sum(column[part::_PARTS]) for column in integers] for part in range(_PARTS)}
        by_part = part_totals_sql(values, self._source, parts=_PARTS, position="id", dialect=spelled)
        self._compare_all(asked, by_part, parts, lambda row: {(f"part {row[0]}",): row[1:]})
        self._kinds(asked, integers)

    def _kinds(self, asked: Sequence[tuple[str, RowValue]], integers: Sequence[Sequence[int]]) -> None:
        values, spelled = [value for _, value in asked], self._engine.dialect
        cells: Counter[tuple[int, ...]] = Counter(
            (place, min(one * 256 // UNIT, 255)) for place, column in enumerate(integers) for one in column
        )
        self._compare_counts(asked, cells_sql(values, self._source, dialect=spelled), "cell", cells, (0, 1, 2))
        groups = [self._groups(column) for column in integers]
        kinds: Counter[tuple[int, ...]] = Counter(
            (place, len(group), sum(group)) for place, own in enumerate(groups) for group in own
        )
        by_group = group_kinds_sql(values, self._source, group_by="b", dialect=spelled)
        self._compare_counts(asked, by_group, "group", kinds, (0, 1, 2, 3))
        numerators, denominators = [min(pair) for pair in zip(*integers[-2:], strict=True)], integers[-1]
        grouped = zip(self._groups(numerators), self._groups(denominators), strict=True)
        pairs: list[tuple[str | None, Iterator[tuple[int, ...]]]] = [
            (None, ((0, 1, *pair) for pair in zip(numerators, denominators, strict=True))),
            ("b", ((0, len(one), sum(one), sum(other)) for one, other in grouped)),
        ]
        for group_by, of_pairs in pairs:
            statement = pair_kinds_sql(values[-2], values[-1], self._source, group_by=group_by, dialect=spelled)
            self._compare_counts(asked[-1:], statement, "pair", Counter(of_pairs), (None, 0, 1, 2, 3))

    def _integers(self, values: Sequence[RowValue], unit: int) -> list[list[int]]:
        return [[grid_integer(value, row, unit=unit) for row in self._rows] for value in values]

    def _groups(self, column: Sequence[int]) -> list[list[int]]:
        return [[one for one, row in zip(column, self._rows, strict=True) if row["b"] is truth] for truth in _TRUTHS]

    def _answers(self, statement: str) -> list[tuple[Any, ...]] | None:
        """Return the engine's result rows, or None if the statement fails. An unreachable engine raises Unavailable."""
        try:
            return self._engine.rows(statement)
        except Unavailable:
            raise
        except Exception:
            return None

    def _compare(self, text: str, value: RowValue, what: str, expected: object, found: object) -> None:
        self.integers += 1
        if found is None or isinstance(found, str) or found != expected:
            told = "an error" if found is None else str(found)
            self.findings.append(Disagreement(text, value.low, value.high, what, str(expected), told))

    def _compare_all(
        self, asked: Sequence[tuple[str, RowValue]], statement: str, expected: dict[tuple[str], list[int]],
        read: Callable[[tuple[Any, ...]], dict[tuple[str], Sequence[Any]]],
    ) -> None:  # fmt: skip
        """Compare the sums of a statement, one for each expression, with the expected sums by their label."""
        found: dict[tuple[str], Sequence[Any]] = {}
        for row in self._answers(statement) or ():
            found.update(read(row))
        for what, sums in expected.items():
            for place, (text, value) in enumerate(asked):
                self._compare(text, value, what[0], sums[place], found[what][place] if what in found else None)

    def _compare_counts(
        self, asked: Sequence[tuple[str, RowValue]], statement: str, what: str,
        expected: Counter[tuple[int, ...]], places: Sequence[int | None],
    ) -> None:  # fmt: skip
        """Compare counts of different values in the rows of a statement: place of the expression, value and count."""
        rows = self._answers(statement)
        *kind, count = places
        counted: Counter[tuple[int, ...]] = Counter()
        for row in rows or ():
            counted[tuple(0 if place is None else int(row[place]) for place in kind)] += int(row[count or 0])
        for key in sorted({*expected, *counted}):
            text, value = asked[key[0]]
            self._compare(text, value, f"{what} {key[1:]}", expected[key], None if rows is None else counted[key])


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
            value = row[str(node.value)]
            if value is None or node.kind in (ColumnKind.STRING, ColumnKind.BOOLEAN):
                return value
            return seconds(value) if node.kind is ColumnKind.TIME else float(value)
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
