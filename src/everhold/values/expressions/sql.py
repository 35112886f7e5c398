"""DuckDB text for row values, written by us from the tree.

The terms of `branchless` do work that does not depend on the values. Those that are used twice are columns of a
sub-select before they are used, so the text stays linear in the tree. On connections of `everhold.sealing.engine` no
optimizer undoes that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from everhold.values.evaluation import UNIT
from everhold.values.expressions.branchless import Term, grid_terms, quoted, terms_in_order
from everhold.values.expressions.tree import RowValue

__all__ = [
    "part_totals_sql", "positioned_values_sql", "quoted", "row_values_sql", "stretch_totals_sql", "totals_sql",
]  # fmt: skip

_SHORT = 30  # characters of a literal that is written where it is used


def row_values_sql(values: Sequence[RowValue], table: str, *, unit: int = UNIT) -> str:
    """One BIGINT column ``v0, v1, ...`` for each row value, in ``[0, unit]``.

    Args:
        values: What to compute.
        table: Name of a table or view; quoted here.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> import duckdb
        >>> from everhold.values.expressions import ColumnKind, RowValue, parse
        >>> with duckdb.connect() as engine:
        ...     _ = engine.execute("create table flights as select unnest([10, 90, null]) as delay")
        ...     late = RowValue(parse("delay > 60", {"delay": ColumnKind.NUMBER}))
        ...     engine.execute(row_values_sql([late], "flights", unit=4)).fetchall()
        [(0,), (4,), (0,)]
    """
    return _query(values, table, unit=unit, position=None)


def totals_sql(values: Sequence[RowValue], table: str, *, unit: int = UNIT) -> str:
    """One row of exact integer sums over all rows, one HUGEINT column ``v0, v1, ...`` for each row value."""
    sums = ", ".join(f"coalesce(sum(v{place}), 0) AS v{place}" for place in range(len(values)))
    return f"SELECT {sums} FROM ({row_values_sql(values, table, unit=unit)})"


def part_totals_sql(
    values: Sequence[RowValue], table: str, *, parts: int, position: str = "file_row_number", unit: int = UNIT
) -> str:
    """Sums of ``parts`` disjoint parts: rows ``part, v0, v1, ...`` in the order of parts; empty parts are left out.

    Args:
        values: What to compute.
        table: Name of a table or view; quoted here.
        parts: Number of parts; a row belongs to part ``position modulo parts``.
        position: Column with the position of a row, from 0.
        unit: Grid steps between 0 and 1.
    """
    sums = ", ".join(f"sum(v{place}) AS v{place}" for place in range(len(values)))
    rows = _query(values, table, unit=unit, position=position)
    return f"SELECT p % {int(parts)} AS part, {sums} FROM ({rows}) GROUP BY part ORDER BY part"


def stretch_totals_sql(
    values: Sequence[RowValue], table: str, *, bits: int, position: str = "file_row_number", unit: int = UNIT
) -> str:
    """Sums over stretches of ``2**bits`` rows: rows ``stretch, v0, v1, ...`` in any order, which saves time.

    Args:
        values: What to compute.
        table: Name of a table or view; quoted here.
        bits: The stretch of a row is its position without so many of the last bits.
        position: Column with the position of a row, from 0.
        unit: Grid steps between 0 and 1.
    """
    sums = ", ".join(f"sum(v{place}) AS v{place}" for place in range(len(values)))
    inner = _query(values, table, unit=unit, position=position)
    return f"SELECT p >> {int(bits)} AS stretch, {sums} FROM ({inner}) GROUP BY stretch"


def positioned_values_sql(
    values: Sequence[RowValue], table: str, *, position: str = "file_row_number", unit: int = UNIT
) -> str:
    """The values ``v0, v1, ...`` of each row with its position ``p``, in any order; arguments as before."""
    return _query(values, table, unit=unit, position=position)


def _query(values: Sequence[RowValue], table: str, *, unit: int, position: str | None) -> str:
    """Sub-selects from the columns of the table up to the grid values."""
    grids = grid_terms(values, unit=unit)
    terms = terms_in_order(grids)
    uses = Counter(part for term in terms for part in term.inputs)
    names = {
        term: f"s{place}"
        for place, term in enumerate(terms)
        if term.stored or (uses[term] > 1 and (term.inputs or len(str(term.parts[0])) > _SHORT))
    }
    texts: dict[Term, str] = {}
    level: dict[Term, int] = {}
    layers: list[list[str]] = [[]]
    for term in terms:
        texts[term] = "".join(part if isinstance(part, str) else names.get(part) or texts[part] for part in term.parts)
        level[term] = max((level[part] + (part in names) for part in term.inputs), default=0)
        if term in names:
            layers.extend([] for _ in range(level[term] + 1 - len(layers)))
            layers[level[term]].append(f"{texts[term]} AS {names[term]}")
    first = ([f"t.{quoted(position)} AS p"] if position else []) + layers[0]
    source = f"(SELECT {', '.join(first or ['1 AS one'])} FROM {quoted(table)} AS t)"
    for layer in layers[1:]:
        source = f"(SELECT *, {', '.join(layer)} FROM {source})"
    last = [f"{names.get(grid) or texts[grid]} AS v{place}" for place, grid in enumerate(grids)]
    return f"SELECT {', '.join((['p'] if position else []) + last)} FROM {source}"
