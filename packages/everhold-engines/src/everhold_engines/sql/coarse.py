"""Statements by which an engine counts units in cells of a coarse grid, where the different ones would be too many.

Units are rows or groups of rows. Which cells there are, and what becomes of them, says `everhold.sealing.rows.sums`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.values.evaluation import UNIT
from everhold_engines.sql.compiler import row_values_sql
from everhold_engines.sql.dialects import DUCKDB, Dialect
from everhold_engines.sql.reshaping import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.values.expressions.tree import AnyValue

_WIDEST = 2**56  # no sum is larger


def group_sizes_sql(source: str, *, group_by: str, dialect: Dialect = DUCKDB) -> str:
    """SQL for the number of groups of each size: rows ``size, count``, in any order."""
    size = dialect.write("size")
    sizes = f"SELECT {size} AS size FROM {source} AS {dialect.rows} GROUP BY {dialect.column(group_by)}"
    return f"SELECT size, count(*) AS count FROM ({sizes}) AS g GROUP BY size"


def group_cells_sql(
    values: Sequence[AnyValue], source: str, *, group_by: str, across: int, unit: int = UNIT, dialect: Dialect = DUCKDB
) -> str:
    """Groups by size and cell: rows ``place, size, cell, count, sum`` for each row value, in any order.

    Args:
        values: What to compute.
        source: What stands after FROM, in the dialect.
        group_by: Column whose equal values make a group.
        across: Cells of groups of one size; divides ``unit``.
        unit: Grid steps between 0 and 1.
        dialect: Whose text to write.
    """
    rows = _rows(values, source, group_by, unit, dialect)
    totals = ", ".join(f"{_whole_total(f'g{place}', unit, dialect)} AS h{place}" for place in range(len(values)))
    groups = f"(SELECT {dialect.write('size')} AS size, {totals} FROM ({rows}) AS r GROUP BY p)"
    each = spread(dialect, groups, ["size"], [f"h{place}" for place in range(len(values))])
    cell = _cell("value", across, unit, dialect)
    return (
        f"SELECT place, size, cell, count(*) AS count, {_whole_total('value', _WIDEST, dialect)} AS sum "
        f"FROM (SELECT place, size, {cell} AS cell, value FROM ({each}) AS s) AS c GROUP BY place, size, cell"
        f"{dialect.write('closing')}"
    )


def pair_cells_sql(
    both: Sequence[AnyValue], source: str, *, across: int, group_by: str | None = None, unit: int = UNIT,
    dialect: Dialect = DUCKDB,
) -> str:  # fmt: skip
    """Rows, or groups of them, by size and half of a square cell, in any order.

    Both values are the numerator and the denominator; the numerator of a row is the smaller of them. A row by itself
    has size 1. Other arguments as for `group_cells_sql`; None for no groups.

    Returns:
        Rows ``size, c0, c1, steep, count, numerator, denominator``: both cells, whether the numerator lies further
        inside its cell, units, and their sums.
    """
    rows = _rows(both, source, group_by, unit, dialect)
    if group_by is None:
        units = f"SELECT 1 AS size, least(g0, g1) AS h0, g1 AS h1 FROM ({rows}) AS r"
    else:
        pairs = f"SELECT p, least(g0, g1) AS k0, g1 AS k1 FROM ({rows}) AS r"
        named = ", ".join(f"{_whole_total(f'k{place}', unit, dialect)} AS h{place}" for place in (0, 1))
        units = f"SELECT {dialect.write('size')} AS size, {named} FROM ({pairs}) AS u GROUP BY p"
    cells = ", ".join(f"{_cell(f'h{place}', across, unit, dialect)} AS c{place}" for place in (0, 1))
    step = f"(size * {unit // across})"
    steep = f"CASE WHEN h0 - c0 * {step} > h1 - c1 * {step} THEN 1 ELSE 0 END"
    sums = [_whole_total(name, _WIDEST, dialect) for name in ("h0", "h1")]
    return (
        f"SELECT size, c0, c1, steep, count(*) AS count, {sums[0]} AS numerator, {sums[1]} AS denominator FROM "
        f"(SELECT size, c0, c1, {steep} AS steep, h0, h1 FROM (SELECT size, h0, h1, {cells} FROM ({units}) AS n) AS c) "
        f"AS d GROUP BY size, c0, c1, steep{dialect.write('closing')}"
    )


def _rows(values: Sequence[AnyValue], source: str, group_by: str | None, unit: int, dialect: Dialect) -> str:
    """Row values ``g0, g1, ...`` for a sub-select, which has no end of its own."""
    written = row_values_sql(values, source, position=group_by, unit=unit, dialect=dialect, names="g")
    return written.removesuffix(dialect.write("closing"))


def _whole_total(column: str, unit: int, dialect: Dialect) -> str:
    """An exact sum that is known to fit into 64 bits."""
    return f"CAST({dialect.total(column, unit=unit, condition=False)} AS BIGINT)"


def _cell(value: str, across: int, unit: int, dialect: Dialect) -> str:
    return f"least({dialect.write('quotient', value, f'(size * {unit // across})')}, {across - 1})"
