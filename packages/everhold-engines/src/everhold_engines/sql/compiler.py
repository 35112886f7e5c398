"""Statements about row values, in the dialect of the engine that runs them.

Each function takes the `source` of the rows: the text after FROM, which is a quoted name or a sub-select in brackets.
`branching` writes the SQL of the values, by the rules of `everhold.values.expressions`. Every sum is exact for any
number of rows. Rows in files need no SQL: `everhold.values.expressions.arrays` evaluates them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from everhold.values.evaluation import UNIT
from everhold.values.expressions.tree import AnyValue, ColumnKind, RowValue
from everhold_engines.sql.branching import SqlCompiler
from everhold_engines.sql.dialects import DUCKDB, Dialect

if TYPE_CHECKING:
    from everhold.values.expressions.tree import Node
    from everhold_engines.sql.branching import CompiledParts, Part


_EPOCH = datetime(1970, 1, 1)
_TIMES = ("timestamp", "date", "instant")


def literal_rows_sql(columns: Mapping[str, tuple[str, Sequence[Any]]], dialect: Dialect) -> str:
    """Return a select in brackets that produces the given rows from literals of their types.

    Args:
        columns: By name the type, a key of `Dialect.types`, and the values: numbers, texts, truth values, `datetime` in
            UTC without a zone, or None.
        dialect: SQL dialect of the engine.

    Examples:
        >>> import duckdb
        >>> from everhold_engines.sql.dialects import DUCKDB
        >>> with duckdb.connect() as engine:
        ...     engine.sql(f"FROM {literal_rows_sql({'x': ('double', [0.5, None])}, DUCKDB)}").fetchall()
        [(0.5,), (None,)]
    """
    names = list(map(dialect.quoted, columns))
    cells = [[_cell(value, kind, dialect) for value in values] for kind, values in columns.values()]
    rows = [", ".join(row) for row in zip(*cells, strict=True)]
    if dialect.name == "spark":  # what VALUES gives would be computed while the plan is made, in another way
        pairs = [
            ", ".join(f"{dialect.literal(name)}, {cell}" for name, cell in zip(columns, row, strict=True))
            for row in zip(*cells, strict=True)
        ]
        structures = ", ".join(f"named_struct({row})" for row in pairs)
        return f"(SELECT inline(array({structures})))"
    if dialect.name == "clickhouse":
        picked = ", ".join(f"r.{place} AS {name}" for place, name in enumerate(names, 1))
        return f"(SELECT {picked} FROM (SELECT arrayJoin([{', '.join(f'tuple({row})' for row in rows)}]) AS r))"
    return f"(SELECT * FROM (VALUES {', '.join(f'({row})' for row in rows)}) AS r({', '.join(names)}))"


def _cell(value: Any, kind: str, dialect: Dialect) -> str:
    if value is None:
        return f"CAST(NULL AS {dialect.types[kind]})"
    if kind in _TIMES and dialect.name == "clickhouse":  # its texts of times begin in 1900
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        moment = f"toDate32('{value:%Y-%m-%d}')" if kind == "date" else f"fromUnixTimestamp64Micro({micros}, 'UTC')"
        return f"CAST({moment} AS {dialect.types[kind]})"
    return f"CAST({_literal(value, kind, dialect)} AS {dialect.types[kind]})"


def _literal(value: Any, kind: str, dialect: Dialect) -> str:
    match value:
        case datetime():
            written = value.date().isoformat() if kind == "date" else value.isoformat(" ", "microseconds")
            return f"'{written}+00:00'" if kind == "instant" else f"'{written}'"
        case bool():
            return str(value).upper()
        case float() | str():
            return dialect.literal(value)
        case _:
            return f"'{value}'"


def spread(dialect: Dialect, rows: str, kept: Sequence[str], columns: Sequence[str]) -> str:
    """Return SQL that turns columns into rows ``place, value``, one for each column, and keeps some columns."""
    before = "".join(f"{name}, " for name in kept)
    if len(columns) == 1:
        return f"SELECT {before}0 AS place, {columns[0]} AS value FROM {rows} AS w"
    if dialect.name == "duckdb":
        places = ", ".join(map(str, range(len(columns))))
        return f"SELECT {before}unnest([{places}]) AS place, unnest([{', '.join(columns)}]) AS value FROM {rows}"
    if dialect.name == "spark":
        pairs = ", ".join(f"{place}, {column}" for place, column in enumerate(columns))
        return f"SELECT {before}stack({len(columns)}, {pairs}) AS (place, value) FROM {rows} AS w"
    if dialect.name == "clickhouse":
        pairs = ", ".join(f"({place}, {column})" for place, column in enumerate(columns))
        joined = f"SELECT {before}arrayJoin([{pairs}]) AS pair FROM {rows} AS w"
        return f"SELECT {before}pair.1 AS place, pair.2 AS value FROM ({joined}) AS w"
    places = " UNION ALL ".join(f"SELECT {place} AS place" for place in range(len(columns)))
    chosen = " ".join(f"WHEN {place} THEN {column}" for place, column in enumerate(columns))
    return f"SELECT {before}place, CASE place {chosen} END AS value FROM {rows} AS w CROSS JOIN ({places}) AS each"


def texts_in_order(dialect: Dialect, rows: str, columns: Sequence[str], *, part: str, by: str) -> str:
    """Return SQL that concatenates each column's texts within groups of rows, sorted by other columns.

    If the engine can, rows are sorted once for all columns. No two rows of a part may have the same text in ``by``.
    """
    if dialect.name not in ("spark", "clickhouse"):
        listed = ", ".join(f"string_agg({column}, ',' ORDER BY {by}) AS {column}" for column in columns)
        return f"SELECT {part}, {listed} FROM {rows} AS l GROUP BY {part}"
    texts = ", ".join([by, *columns])
    told, one = {
        "spark": (f"array_sort(collect_list(struct({texts})))", "array_join(transform(told, s -> s.{0}), ',')"),
        "clickhouse": (f"arraySort(s -> s.1, groupArray(tuple({texts})))", "arrayStringConcat(told.{1}, ',')"),
    }[dialect.name]
    listed = ", ".join(f"{one.format(column, place)} AS {column}" for place, column in enumerate(columns, 2))
    return f"SELECT {part}, {listed} FROM (SELECT {part}, {told} AS told FROM {rows} AS l GROUP BY {part}) AS o"


_CELLS = 256
_POSITION = "file_row_number"


def row_values_sql(
    values: Sequence[AnyValue], source: str, *,
    position: str | None = None, unit: int = UNIT, dialect: Dialect = DUCKDB, names: str = "v",
) -> str:  # fmt: skip
    """Return SQL with a BIGINT column ``v0, v1, ...`` for each row value, in ``[0, unit]``.

    Args:
        values: Row values to compute.
        source: SQL that follows FROM, in the dialect.
        position: Column with the position of a row, which comes first and is called ``p``; None for no such column.
        unit: Grid steps between 0 and 1, less than 2^54.
        dialect: SQL dialect of the engine.
        names: Prefix of the column names, before their numbers.

    Examples:
        >>> import duckdb
        >>> from everhold.values.expressions import ColumnKind, RowValue, parse
        >>> with duckdb.connect() as engine:
        ...     _ = engine.execute("create table flights as select unnest([10, 90, null]) as delay")
        ...     late = RowValue(parse("delay > 60", {"delay": ColumnKind.NUMBER}))
        ...     engine.execute(row_values_sql([late], "flights", unit=4)).fetchall()
        [(0,), (4,), (0,)]
    """
    draft = _Draft(values, source, unit, dialect)
    return draft.finished(draft.rows(position, names=names))


def totals_sql(values: Sequence[AnyValue], source: str, *, unit: int = UNIT, dialect: Dialect = DUCKDB) -> str:
    """Return SQL for one row of exact sums over all rows, in a column ``v0, v1, ...`` for each row value.

    Examples:
        >>> from everhold.values.expressions import ColumnKind, RowValue, parse
        >>> from everhold_engines.sql.dialects import POSTGRESQL
        >>> late = RowValue(parse("delay > 60", {"delay": ColumnKind.NUMBER}))
        >>> print(totals_sql([late], "flights", unit=4, dialect=POSTGRESQL))
        SELECT coalesce((count(*) FILTER (WHERE g0))::numeric * 4, 0) AS v0 FROM (SELECT (('60.0'::float8 <
        t."delay"::float8) AND (t."delay"::float8 <= 'Infinity'::float8)) AS g0 FROM flights AS t) AS r
    """
    draft = _Draft(values, source, unit, dialect)
    sums = ", ".join(f"coalesce({total}, 0) AS v{place}" for place, total in enumerate(draft.totals()))
    return draft.finished(f"SELECT {sums} FROM {draft.counted(None)}")


def part_totals_sql(
    values: Sequence[AnyValue], source: str, *,
    parts: int, position: str = _POSITION, unit: int = UNIT, dialect: Dialect = DUCKDB,
) -> str:  # fmt: skip
    """Return SQL for the sums of ``parts`` disjoint parts: rows ``part, v0, v1, ...`` without empty parts.

    A row belongs to part ``position modulo parts``, with positions from 0; other arguments as for `row_values_sql`.
    """
    draft = _Draft(values, source, unit, dialect)
    part = draft.dialect.write("rest", "p", int(parts))
    sums = ", ".join(f"{total} AS v{place}" for place, total in enumerate(draft.totals()))
    return draft.finished(f"SELECT {part} AS part, {sums} FROM {draft.counted(position)} GROUP BY part ORDER BY part")


def cells_sql(values: Sequence[AnyValue], source: str, *, unit: int = UNIT, dialect: Dialect = DUCKDB) -> str:
    """Return SQL for histograms, with columns ``place, cell, count, sum``. A place is the index of a row value.

    The cell of v is ``v * 256 / unit`` rounded down, at most 255, as in `sums.cells_of`. Empty cells are left out. The
    time of the statement may depend on the values.
    """
    draft = _Draft(values, source, unit, dialect)
    of, each = draft.dialect, spread(draft.dialect, f"({draft.rows(None, names='g')})", [], draft.names())
    cell = f"least({of.write('quotient', f'(value * {_CELLS})', int(unit))}, {_CELLS - 1})"
    return draft.finished(
        f"SELECT place, cell, count(*) AS count, {of.total('value', unit=unit, condition=False)} AS sum "
        f"FROM (SELECT place, {cell} AS cell, value FROM ({each}) AS s) AS c GROUP BY place, cell"
    )


def group_kinds_sql(
    values: Sequence[AnyValue], source: str, *, group_by: str, unit: int = UNIT, dialect: Dialect = DUCKDB
) -> str:
    """Return SQL that counts groups by size and sum, with the columns ``place, size, sum, count``.

    Args:
        values: Row values to compute.
        source: SQL that follows FROM, in the dialect.
        group_by: Column whose equal values make a group.
        unit: Grid steps between 0 and 1.
        dialect: SQL dialect of the engine.
    """
    draft = _Draft(values, source, unit, dialect)
    of, totals = draft.dialect, ", ".join(f"{total} AS h{place}" for place, total in enumerate(draft.totals()))
    groups = f"(SELECT {of.write('size')} AS size, {totals} FROM {draft.counted(group_by)} GROUP BY p)"
    kinds = spread(of, groups, ["size"], draft.names("h"))
    return draft.finished(
        f"SELECT place, size, value AS sum, count(*) AS count FROM ({kinds}) AS s GROUP BY place, size, value"
    )


def pair_kinds_sql(
    numerator: AnyValue, denominator: AnyValue, source: str, *,
    group_by: str | None = None, unit: int = UNIT, dialect: Dialect = DUCKDB,
) -> str:  # fmt: skip
    """Return SQL for the number of rows or groups with each pair of sums: ``size, numerator, denominator, count``.

    The numerator of a row is the smaller of both row values. Without groups each row has size 1. The arguments are as
    for `group_kinds_sql`, and ``group_by`` is None without groups.
    """
    draft = _Draft([numerator, denominator], source, unit, dialect)
    of, rows = draft.dialect, draft.rows(group_by, names="g")
    if group_by is None:
        units = f"(SELECT {of.write('integer', 1)} AS size, least(g0, g1) AS h0, g1 AS h1 FROM ({rows}) AS r)"
    else:
        pairs = f"(SELECT p, least(g0, g1) AS k0, g1 AS k1 FROM ({rows}) AS r)"
        sums = [of.total(name, unit=unit, condition=False) for name in ("k0", "k1")]
        units = f"(SELECT {of.write('size')} AS size, {sums[0]} AS h0, {sums[1]} AS h1 FROM {pairs} AS u GROUP BY p)"
    counted = "SELECT size, h0 AS numerator, h1 AS denominator, count(*) AS count"
    return draft.finished(f"{counted} FROM {units} AS n GROUP BY size, h0, h1")


class _Draft:
    """A statement about row values, written in an intermediate dialect before translation to the engine's dialect."""

    def __init__(self, values: Sequence[AnyValue], source: str, unit: int, dialect: Dialect) -> None:
        self._values, self._unit, self._for, self._source = values, unit, dialect, source
        self.dialect, self._rows = dialect.draft(source)

    def finished(self, statement: str) -> str:
        """Return the statement in the engine's dialect."""
        return self._for.finished(statement, self._source)

    def rows(self, position: str | None, *, names: str, counted: bool = False) -> str:
        """Return a select of the row values, where counted values stand as conditions."""
        fragments = SqlCompiler(self.dialect)
        compiled: dict[Node, CompiledParts] = {}
        results: list[Part] = []
        for own, value in [(each, leaf) for each in self._values for leaf in each.leaves]:
            expression = fragments.prepared(value.expression)
            for node in expression.nodes:
                if node not in compiled:
                    compiled[node] = fragments.compiled(node, list(map(compiled.__getitem__, node.operands)))
            if counted and _is_condition(own):
                results.append(fragments.condition(value, compiled[expression.root]))
            else:
                results.append(fragments.grid(value, compiled[expression.root], self._unit))
        if all(isinstance(value, RowValue) for value in self._values):
            return fragments.select(results, self._rows, position, names=names)
        leaves = fragments.select(results, self._rows, position, names="l")
        columns, before = map("l{}".format, range(len(results))), "" if position is None else "p, "
        joined = (_joined(value, columns, self._unit, self.dialect) for value in self._values)
        listed = ", ".join(f"{value} AS {names}{place}" for place, value in enumerate(joined))
        return f"SELECT {before}{listed} FROM ({leaves}) AS j"

    def counted(self, position: str | None) -> str:
        """Return a select in brackets that `totals` adds up, with column names unlike those of the sums."""
        return f"({self.rows(position, names='g', counted=True)}) AS r"

    def names(self, letter: str = "g") -> list[str]:
        """Return the names of the columns, one for each row value."""
        return [f"{letter}{place}" for place in range(len(self._values))]

    def totals(self) -> list[str]:
        """Return SQL for the sum of each row value over `counted` rows."""
        pairs = zip(self.names(), self._values, strict=True)
        return [self.dialect.total(name, unit=self._unit, condition=_is_condition(value)) for name, value in pairs]


def _joined(value: AnyValue, columns: Iterator[str], unit: int, dialect: Dialect) -> str:
    """Return SQL for the value of a combined query in grid units, from one column for each of its parts."""
    if isinstance(value, RowValue):
        return next(columns)
    first, second = (_joined(part, columns, unit, dialect) for part in (value.first, value.second))
    if value.how == "within":
        return f"least({first}, {second})"
    if value.how == "outside":
        return f"least({first}, {int(unit)} - {second})"
    return dialect.write("quotient", f"({int(unit)} + {first} - {second})", 2)


def _is_condition(value: AnyValue) -> bool:
    return isinstance(value, RowValue) and value.expression.kind is ColumnKind.BOOLEAN


_WIDEST = 2**56  # no sum is larger


def group_sizes_sql(source: str, *, group_by: str, dialect: Dialect = DUCKDB) -> str:
    """Return SQL for the number of groups of each size: rows ``size, count``, in any order."""
    size = dialect.write("size")
    sizes = f"SELECT {size} AS size FROM {source} AS {dialect.rows} GROUP BY {dialect.column(group_by)}"
    return f"SELECT size, count(*) AS count FROM ({sizes}) AS g GROUP BY size"


def group_cells_sql(
    values: Sequence[AnyValue], source: str, *, group_by: str, across: int, unit: int = UNIT, dialect: Dialect = DUCKDB
) -> str:
    """Return SQL that counts groups by size and bin of the sum, with the columns ``place, size, cell, count, sum``.

    Args:
        values: Row values to compute.
        source: SQL that follows FROM, in the dialect.
        group_by: Column whose equal values make a group.
        across: Number of bins for groups of one size, a divisor of ``unit``.
        unit: Grid steps between 0 and 1.
        dialect: SQL dialect of the engine.
    """
    rows = _rows(values, source, group_by, unit, dialect)
    totals = ", ".join(f"{_whole_total(f'g{place}', unit, dialect)} AS h{place}" for place in range(len(values)))
    groups = f"(SELECT {dialect.write('size')} AS size, {totals} FROM ({rows}) AS r GROUP BY p)"
    each = spread(dialect, groups, ["size"], [f"h{place}" for place in range(len(values))])
    cell = _coarse_cell("value", across, unit, dialect)
    return (
        f"SELECT place, size, cell, count(*) AS count, {_whole_total('value', _WIDEST, dialect)} AS sum "
        f"FROM (SELECT place, size, {cell} AS cell, value FROM ({each}) AS s) AS c GROUP BY place, size, cell"
        f"{dialect.write('closing')}"
    )


def pair_cells_sql(
    both: Sequence[AnyValue], source: str, *, across: int, group_by: str | None = None, unit: int = UNIT,
    dialect: Dialect = DUCKDB,
) -> str:  # fmt: skip
    """Return SQL for rows or groups by size and half of a square cell, in any order.

    ``both`` has the row values of numerator and denominator. The numerator of a row is the smaller of them. Without
    groups each row has size 1. The other arguments are as for `group_cells_sql`, and ``group_by`` is None without
    groups.

    Returns:
        SQL for rows ``size, c0, c1, steep, count, numerator, denominator``: both cells, whether the numerator lies
            further inside its cell than the denominator, the number of units, and their sums.
    """
    rows = _rows(both, source, group_by, unit, dialect)
    if group_by is None:
        units = f"SELECT 1 AS size, least(g0, g1) AS h0, g1 AS h1 FROM ({rows}) AS r"
    else:
        pairs = f"SELECT p, least(g0, g1) AS k0, g1 AS k1 FROM ({rows}) AS r"
        named = ", ".join(f"{_whole_total(f'k{place}', unit, dialect)} AS h{place}" for place in (0, 1))
        units = f"SELECT {dialect.write('size')} AS size, {named} FROM ({pairs}) AS u GROUP BY p"
    cells = ", ".join(f"{_coarse_cell(f'h{place}', across, unit, dialect)} AS c{place}" for place in (0, 1))
    step = f"(size * {unit // across})"
    steep = f"CASE WHEN h0 - c0 * {step} > h1 - c1 * {step} THEN 1 ELSE 0 END"
    sums = [_whole_total(name, _WIDEST, dialect) for name in ("h0", "h1")]
    return (
        f"SELECT size, c0, c1, steep, count(*) AS count, {sums[0]} AS numerator, {sums[1]} AS denominator FROM "
        f"(SELECT size, c0, c1, {steep} AS steep, h0, h1 FROM (SELECT size, h0, h1, {cells} FROM ({units}) AS n) AS c) "
        f"AS d GROUP BY size, c0, c1, steep{dialect.write('closing')}"
    )


def _rows(values: Sequence[AnyValue], source: str, group_by: str | None, unit: int, dialect: Dialect) -> str:
    """Return SQL for the row values ``g0, g1, ...`` as the inside of a nested select."""
    written = row_values_sql(values, source, position=group_by, unit=unit, dialect=dialect, names="g")
    return written.removesuffix(dialect.write("closing"))


def _whole_total(column: str, unit: int, dialect: Dialect) -> str:
    """Return SQL for an exact sum. The caller knows that it fits into 64 bits."""
    return f"CAST({dialect.total(column, unit=unit, condition=False)} AS BIGINT)"


def _coarse_cell(value: str, across: int, unit: int, dialect: Dialect) -> str:
    return f"least({dialect.write('quotient', value, f'(size * {unit // across})')}, {across - 1})"
