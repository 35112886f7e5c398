"""Statements about row values, in the dialect of the engine that runs them.

Each takes the `source` of the rows: what stands after FROM, a quoted name or a sub-select in brackets. The rules of the
values are those of the package; `branching` writes the pieces of text that follow them. Every sum is exact, however
many rows there are. Embedded rows need no SQL: `everhold.values.expressions.arrays` evaluates them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from everhold.values.evaluation import UNIT
from everhold.values.expressions.tree import AnyValue, ColumnKind, RowValue
from everhold_engines.sql.branching import SqlCompiler
from everhold_engines.sql.dialects import DUCKDB, Dialect
from everhold_engines.sql.reshaping import spread

if TYPE_CHECKING:
    from everhold.values.expressions.tree import Node
    from everhold_engines.sql.fragments import CompiledParts, Part

_CELLS = 256
_POSITION = "file_row_number"


def row_values_sql(
    values: Sequence[AnyValue], source: str, *,
    position: str | None = None, unit: int = UNIT, dialect: Dialect = DUCKDB, names: str = "v",
) -> str:  # fmt: skip
    """One BIGINT column ``v0, v1, ...`` for each row value, in ``[0, unit]``.

    Args:
        values: What to compute.
        source: What stands after FROM, in the dialect.
        position: Column with the position of a row, which comes first and is called ``p``; None for no such column.
        unit: Grid steps between 0 and 1, less than 2^54.
        dialect: Whose text to write.
        names: What stands before the numbers in the names of the columns.

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
    """One row of exact integer sums over all rows, one column ``v0, v1, ...`` for each row value.

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
    """Sums of ``parts`` disjoint parts: rows ``part, v0, v1, ...`` in the order of parts; empty parts are left out.

    A row belongs to part ``position modulo parts``, with positions from 0; other arguments as for `row_values_sql`.
    """
    draft = _Draft(values, source, unit, dialect)
    part = draft.dialect.write("rest", "p", int(parts))
    sums = ", ".join(f"{total} AS v{place}" for place, total in enumerate(draft.totals()))
    return draft.finished(f"SELECT {part} AS part, {sums} FROM {draft.counted(position)} GROUP BY part ORDER BY part")


def cells_sql(values: Sequence[AnyValue], source: str, *, unit: int = UNIT, dialect: Dialect = DUCKDB) -> str:
    """Histograms of row values: rows ``place, cell, count, sum`` for each row value, by its place, in any order.

    The cell of v is ``v * 256 / unit`` rounded down and 255 at the most, as in `sums.cells_of`; empty
    cells are left out. Its time may depend on the values.
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
    """SQL for the number of groups of each size and sum: rows ``place, size, sum, count``, in any order.

    Args:
        values: What to compute.
        source: What stands after FROM, in the dialect.
        group_by: Column whose equal values make a group.
        unit: Grid steps between 0 and 1.
        dialect: Whose text to write.
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
    """SQL for the number of rows or groups with each pair of sums: ``size, numerator, denominator, count``.

    The numerator of a row is the smaller of both row values; a row by itself has size 1. Arguments as for
    `group_kinds_sql`; None for no groups.
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
    """A statement about some row values, in the dialect in which it is written first."""

    def __init__(self, values: Sequence[AnyValue], source: str, unit: int, dialect: Dialect) -> None:
        self._values, self._unit, self._for, self._source = values, unit, dialect, source
        self.dialect, self._rows = dialect.draft(source)

    def finished(self, statement: str) -> str:
        """The statement as the engine gets it."""
        return self._for.finished(statement, self._source)

    def rows(self, position: str | None, *, names: str, counted: bool = False) -> str:
        """The row values; of what is counted, a condition for what is one."""
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
        """A sub-select with what `totals` adds up; its names are not those of the sums, which some engines mix up."""
        return f"({self.rows(position, names='g', counted=True)}) AS r"

    def names(self, letter: str = "g") -> list[str]:
        """Names of columns, one for each row value."""
        return [f"{letter}{place}" for place in range(len(self._values))]

    def totals(self) -> list[str]:
        """The sum of each row value over `counted` rows."""
        pairs = zip(self.names(), self._values, strict=True)
        return [self.dialect.total(name, unit=self._unit, condition=_is_condition(value)) for name, value in pairs]


def _joined(value: AnyValue, columns: Iterator[str], unit: int, dialect: Dialect) -> str:
    """The grid integer of a value that is made of columns, one for each of its leaves."""
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
