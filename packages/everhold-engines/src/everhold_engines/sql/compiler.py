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

if TYPE_CHECKING:
    from everhold.values.expressions.tree import Node
    from everhold_engines.sql.sheet import Faces, Part

__all__ = [
    "cells_sql", "group_kinds_sql", "pair_kinds_sql", "part_totals_sql", "row_values_sql",
    "totals_sql",
]  # fmt: skip

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
    draft, rows = dialect.draft(source)
    statement = _rows(values, rows, position=position, unit=unit, dialect=draft, counted=False, names=names)
    return dialect.finished(statement, source)


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
    draft, rows = dialect.draft(source)
    sums = ", ".join(f"coalesce({total}, 0) AS v{place}" for place, total in enumerate(_totals(values, unit, draft)))
    return dialect.finished(f"SELECT {sums} FROM {_counted(values, rows, None, unit, draft)}", source)


def part_totals_sql(
    values: Sequence[AnyValue], source: str, *,
    parts: int, position: str = _POSITION, unit: int = UNIT, dialect: Dialect = DUCKDB,
) -> str:  # fmt: skip
    """Sums of ``parts`` disjoint parts: rows ``part, v0, v1, ...`` in the order of parts; empty parts are left out.

    A row belongs to part ``position modulo parts``, with positions from 0; other arguments as for `row_values_sql`.
    """
    draft, rows = dialect.draft(source)
    part, sums = draft.rest.format("p", int(parts)), _sums(values, unit, draft)
    counted = _counted(values, rows, position, unit, draft)
    return dialect.finished(f"SELECT {part} AS part, {sums} FROM {counted} GROUP BY part ORDER BY part", source)


def cells_sql(values: Sequence[AnyValue], source: str, *, unit: int = UNIT, dialect: Dialect = DUCKDB) -> str:
    """Histograms of row values: rows ``place, cell, count, sum`` for each row value, by its place, in any order.

    The cell of v is ``v * 256 / unit`` rounded down and 255 at the most, as in `everhold.sealing.sums.cells_of`; empty
    cells are left out. Its time may depend on the values.
    """
    draft, rows = dialect.draft(source)
    grids = _rows(values, rows, position=None, unit=unit, dialect=draft, counted=False, names="g")
    cell = f"least({draft.divided(f'(value * {_CELLS})', int(unit))}, {_CELLS - 1})"
    return dialect.finished(
        f"SELECT place, cell, count(*) AS count, {draft.total('value', unit=unit, condition=False)} AS sum "
        f"FROM (SELECT place, {cell} AS cell, value FROM ({draft.spread(f'({grids})', [], _names(values))}) AS s) AS c "
        "GROUP BY place, cell",
        source,
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
    draft, rows = dialect.draft(source)
    totals = ", ".join(f"{total} AS h{place}" for place, total in enumerate(_totals(values, unit, draft)))
    groups = f"(SELECT {draft.size} AS size, {totals} FROM {_counted(values, rows, group_by, unit, draft)} GROUP BY p)"
    kinds = draft.spread(groups, ["size"], _names(values, "h"))
    statement = f"SELECT place, size, value AS sum, count(*) AS count FROM ({kinds}) AS s GROUP BY place, size, value"
    return dialect.finished(statement, source)


def pair_kinds_sql(
    numerator: AnyValue, denominator: AnyValue, source: str, *,
    group_by: str | None = None, unit: int = UNIT, dialect: Dialect = DUCKDB,
) -> str:  # fmt: skip
    """SQL for the number of rows or groups with each pair of sums: ``size, numerator, denominator, count``.

    The numerator of a row is the smaller of both row values; a row by itself has size 1. Arguments as for
    `group_kinds_sql`; None for no groups.
    """
    draft, place = dialect.draft(source)
    rows = _rows(
        [numerator, denominator], place, position=group_by, unit=unit, dialect=draft, counted=False, names="g"
    )  # fmt: skip
    if group_by is None:
        units = f"(SELECT {draft.integer.format(1)} AS size, least(g0, g1) AS h0, g1 AS h1 FROM ({rows}) AS r)"
    else:
        pairs = f"(SELECT p, least(g0, g1) AS k0, g1 AS k1 FROM ({rows}) AS r)"
        sums = [draft.total(name, unit=unit, condition=False) for name in ("k0", "k1")]
        units = f"(SELECT {draft.size} AS size, {sums[0]} AS h0, {sums[1]} AS h1 FROM {pairs} AS u GROUP BY p)"
    counted = "SELECT size, h0 AS numerator, h1 AS denominator, count(*) AS count"
    return dialect.finished(f"{counted} FROM {units} AS n GROUP BY size, h0, h1", source)


def _rows(
    values: Sequence[AnyValue], source: str, *,
    position: str | None, unit: int, dialect: Dialect, counted: bool, names: str = "v",
) -> str:  # fmt: skip
    """The row values; of what is counted, a condition for what is one."""
    sheet = SqlCompiler(dialect)
    faces: dict[Node, Faces] = {}
    results: list[Part] = []
    for own, value in [(each, leaf) for each in values for leaf in each.leaves]:
        expression = sheet.prepared(value.expression)
        for node in expression.nodes:
            if node not in faces:
                faces[node] = sheet.faces(node, list(map(faces.__getitem__, node.operands)))
        if counted and _is_condition(own):
            results.append(sheet.condition(value, faces[expression.root]))
        else:
            results.append(sheet.grid(value, faces[expression.root], unit))
    if all(isinstance(value, RowValue) for value in values):
        return sheet.select(results, source, position, names=names)
    leaves = sheet.select(results, source, position, names="l")
    columns, before = map("l{}".format, range(len(results))), "" if position is None else "p, "
    joined = ", ".join(f"{_joined(value, columns, unit, dialect)} AS {names}{n}" for n, value in enumerate(values))
    return f"SELECT {before}{joined} FROM ({leaves}) AS j"


def _joined(value: AnyValue, columns: Iterator[str], unit: int, dialect: Dialect) -> str:
    """The grid integer of a value that is made of columns, one for each of its leaves."""
    if isinstance(value, RowValue):
        return next(columns)
    first, second = (_joined(part, columns, unit, dialect) for part in (value.first, value.second))
    if value.how == "within":
        return f"least({first}, {second})"
    if value.how == "outside":
        return f"least({first}, {int(unit)} - {second})"
    return dialect.divided(f"({int(unit)} + {first} - {second})", 2)


def _is_condition(value: AnyValue) -> bool:
    return isinstance(value, RowValue) and value.expression.kind is ColumnKind.BOOLEAN


def _counted(values: Sequence[AnyValue], source: str, position: str | None, unit: int, dialect: Dialect) -> str:
    """A sub-select with what `_totals` adds up; its names are not those of the sums, which some engines mix up."""
    rows = _rows(values, source, position=position, unit=unit, dialect=dialect, counted=True, names="g")
    return f"({rows}) AS r"


def _names(values: Sequence[AnyValue], letter: str = "g") -> list[str]:
    return [f"{letter}{place}" for place in range(len(values))]


def _totals(values: Sequence[AnyValue], unit: int, dialect: Dialect) -> list[str]:
    return [
        dialect.total(name, unit=unit, condition=_is_condition(value))
        for name, value in zip(_names(values), values, strict=True)
    ]


def _sums(values: Sequence[AnyValue], unit: int, dialect: Dialect) -> str:
    return ", ".join(f"{total} AS v{place}" for place, total in enumerate(_totals(values, unit, dialect)))
