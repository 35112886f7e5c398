"""Groups of rows that arrive: each group is whole in one batch, and none is known from sealed or training rows.

One part of a group that spans an arrival is among the old rows, and the rest is not independent of it. So no tree
could be about the new rows alone (S13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everhold.errors import HoldoutRejected
from everhold.sealing.intake.checks import count_respelled, is_missing, same_id
from everhold.sealing.intake.duckdb_files import file_pattern
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import duckdb

    from everhold.values.base import Schema

__all__ = ["arriving_groups", "check_no_larger"]

_DONE = "nothing was appended"


def arriving_groups(
    connection: duckdb.DuckDBPyConnection, sides: Sequence[str], schema: Schema, column: str, *,
    sealed: Sequence[Path], training: Sequence[Path],
) -> tuple[tuple[int, int], ...]:  # fmt: skip
    """Check groups of rows that arrive, and count them.

    Args:
        connection: Has a view for each side that arrives.
        sides: ``"holdout"``, ``"training"`` or both.
        schema: Of the holdout.
        column: Its equal values make a group.
        sealed: Files of rows that are sealed already.
        training: Files of training rows.

    Returns:
        Pairs (size, number of groups of that size) of the sealed rows that arrive.

    Raises:
        HoldoutRejected: If a group is not new, or not whole. Nothing was appended.
    """
    for what in sides:
        if _count(connection, f"SELECT count(*) FROM {what} WHERE {is_missing(column, schema.columns)}"):
            raise HoldoutRejected(
                f"the column {column!r} of the groups has missing values in the {what} rows that arrive; expected a "
                f"value in every row; drop those rows; {_DONE}"
            )
    text = schema.columns[column] is ColumnKind.STRING
    if text and count_respelled(connection, column, sides):
        raise HoldoutRejected(
            f"ids of column {column!r} are spelled in two or more ways that differ only in case, spaces or leading "
            f"zeros; expected one spelling of each group; {_DONE}"
        )
    known = {"sealed rows": sealed, "training rows": training}
    for what in sides:
        there = known if what == "holdout" else {"sealed rows": sealed}  # training groups may go on as training rows
        for said, files in there.items():
            if shared := _shared(connection, what, files, column, schema):
                raise _spanning(shared, column, said)
    if len(sides) > 1:
        value = _value(column, schema)
        sql = f"SELECT count(DISTINCT {value}) FROM holdout WHERE {value} IN (SELECT {value} FROM training)"
        if shared := _count(connection, sql):
            raise _spanning(shared, column, "training rows")
    if "holdout" not in sides:
        return ()
    sizes = f"SELECT count(*) AS size FROM holdout GROUP BY {quoted(column)}"
    found = connection.execute(f"SELECT size, count(*) FROM ({sizes}) GROUP BY size ORDER BY size").fetchall()
    return tuple((int(size), int(number)) for size, number in found)


def check_no_larger(groups: Sequence[tuple[int, int]], largest: int | None) -> None:
    """Check that no group is larger than those that bets on groups were fixed for; sizes are public.

    Args:
        groups: Pairs (size, number of groups of that size).
        largest: Rows that no group may exceed; None for no such number.

    Raises:
        HoldoutRejected: If one is. Nothing was appended.
    """
    larger = [(size, number) for size, number in groups if largest is not None and size > largest]
    if larger:
        count = sum(number for _, number in larger)
        raise HoldoutRejected(
            f"{count:,} groups that arrive have up to {larger[-1][0]:,} rows; expected at most {largest:,}, the "
            "largest_group of this holdout, for which the bets of its declared families were fixed; leave these groups "
            f"out; {_DONE}",
            larger=count,
        )


def _spanning(shared: int, column: str, said: str) -> HoldoutRejected:
    return HoldoutRejected(
        f"{shared:,} groups of column {column!r} that arrive have {said} already; expected whole, new groups, because "
        f"rows of one group tell about each other; leave these groups out; {_DONE}",
        shared=shared,
    )


def _shared(
    connection: duckdb.DuckDBPyConnection, what: str, files: Sequence[Path], column: str, schema: Schema
) -> int:
    if not files:
        return 0
    value = _value(column, schema)
    connection.read_parquet([file_pattern(path) for path in files], hive_partitioning=False).create_view(
        "known_groups", replace=True
    )
    sql = f"SELECT count(DISTINCT {value}) FROM {what} WHERE {value} IN (SELECT {value} FROM known_groups)"
    return _count(connection, sql)


def _value(column: str, schema: Schema) -> str:
    """An id as it is meant, in whatever type a file has it."""
    kind = schema.columns[column]
    if kind is ColumnKind.STRING:
        return same_id(column)
    return f"{quoted(column)}::DOUBLE" if kind is ColumnKind.NUMBER else f"{quoted(column)}::VARCHAR"


def _count(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(connection.execute(sql).fetchall()[0][0])
