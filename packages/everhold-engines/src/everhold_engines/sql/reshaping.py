"""Rows made from columns, and texts made from rows, in the dialect of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold_engines.sql.dialects import Dialect


def spread(dialect: Dialect, rows: str, kept: Sequence[str], columns: Sequence[str]) -> str:
    """Rows ``place, value`` and those kept, from rows with one value in each of some columns."""
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
    """Of each part of some rows the texts in each column, in the order of others, with commas between them.

    Where the engine can, sorted once for all columns. No two rows of a part have the same text in ``by``.
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
