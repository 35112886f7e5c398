"""How much is read at all: a small file can unpack to more than a machine holds, and says so before it is read."""

from __future__ import annotations

import gzip
import operator
import re
from typing import TYPE_CHECKING

from everhold.errors import HoldoutRejected

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

__all__ = ["MOST_COLUMNS", "MOST_ROWS", "check_delimited_size", "check_most_rows", "check_parquet_size", "check_size"]

MOST_ROWS = 2**26
"""Rows of a table unless `Holdout.create` is told otherwise; a column of so many takes half a gigabyte of memory."""

MOST_COLUMNS = 2**14
"""Columns of a table, the parts of nested ones counted too."""

_CHUNK = 2**22  # bytes; the engine takes no line half as long


def check_most_rows(most_rows: int) -> int:
    """The wished limit as a plain whole number.

    Raises:
        ValueError: If it is none.
    """
    try:
        number = 0 if isinstance(most_rows, bool) else operator.index(most_rows)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"most_rows is {most_rows!r:.100}; expected a whole number of at least 1")
    return number


def check_size(*, rows: int | None, columns: int | None, most_rows: int, what: str) -> None:
    """Refuse a table that is too large; None stands for what is not known yet.

    Raises:
        HoldoutRejected: If there are too many rows or columns. Nothing was created.
    """
    if columns is not None and columns > MOST_COLUMNS:
        raise HoldoutRejected(
            f"the {what} table has {columns:,} columns; expected at most {MOST_COLUMNS:,}; keep those that questions "
            "need; nothing was created",
            columns=columns,
            most_columns=MOST_COLUMNS,
        )
    if rows is not None and rows > most_rows:
        raise HoldoutRejected(
            f"the {what} table has {rows:,} rows or more; expected at most {most_rows:,}; keep a random sample of "
            "them, or raise most_rows (--most-rows) where each column of them fits into memory; nothing was created",
            rows=rows,
            most_rows=most_rows,
        )


def check_parquet_size(connection: duckdb.DuckDBPyConnection, pattern: str, *, most_rows: int, what: str) -> None:
    """Refuse a Parquet file by its footer, before a row is read.

    Raises:
        HoldoutRejected: If it says that there are too many rows or columns. Nothing was created.
    """
    rows = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata($1)", [pattern]).fetchall()[0][0]
    parts = connection.execute("SELECT count(*) FROM parquet_schema($1)", [pattern]).fetchall()[0][0]
    check_size(rows=int(rows), columns=int(parts) - 1, most_rows=most_rows, what=what)  # the table is a part, too


def check_delimited_size(path: Path, *, packed: bool, most_rows: int, what: str) -> None:
    """Refuse a CSV or TSV file by its line ends, long before the engine has made sense of them.

    Raises:
        HoldoutRejected: If it has too many lines or columns, or a line that is no row. Nothing was created.
    """
    ends, first = 0, True
    with gzip.open(path) if packed else path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if first:
                names = re.split(rb"[\r\n]", chunk, maxsplit=1)[0]
                columns = 1 + max(names.count(sign) for sign in (b",", b";", b"\t", b"|"))
                check_size(rows=None, columns=columns, most_rows=most_rows, what=what)
            found = chunk.count(b"\n") or chunk.count(b"\r")
            if not found and len(chunk) == _CHUNK:
                raise HoldoutRejected(
                    f"a line of the {what} file is longer than {_CHUNK // 2**20} MiB; expected a row in each line; "
                    "check that every quotation mark is closed; nothing was created"
                )
            ends, first = ends + found, False
            check_size(rows=ends - 1, columns=None, most_rows=most_rows, what=what)  # names stand in one line
