"""CSV and TSV files, read as they are written: nothing is skipped, guessed away or swallowed by an open quotation mark.

The engine would rather read something than nothing: left alone it takes quotation marks for letters where one is never
closed, skips first lines that have another number of values, and takes a first row of values for names.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from typing import TYPE_CHECKING, Any

from everhold.errors import HoldoutRejected

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

__all__ = ["read_delimited"]

_AS_WRITTEN: dict[str, Any] = {
    "quotechar": '"', "escapechar": '"', "comment": "", "skiprows": 0, "null_padding": False,
    "hive_partitioning": False,
}  # fmt: skip
# strict_mode is on where it is not named; where it is, the engine finds no rows between line ends of Windows
_LEAST_NUMBERED = 3  # columns called 0, 1, 2, ..., as frames without names write them


def read_delimited(
    connection: duckdb.DuckDBPyConnection, path: Path, pattern: str, *, name: str, tabs: bool, packed: bool, what: str
) -> list[str]:
    """Make a CSV or TSV file readable as the view ``name``; returns the names of its columns as they are written.

    Quotation marks are ``"``, and twice where they stand for themselves; the first line holds the names.

    Raises:
        HoldoutRejected: If lines have different numbers of values, or there are no names. Nothing was created.
    """
    delimiter = "\t" if tabs else _delimiter(connection, pattern)
    names = _first_line(path, delimiter, packed=packed)
    if len(names) == 1 and re.search(r"[,;|\t]", names[0]):
        raise HoldoutRejected(
            f"the {what} file cannot be split into columns; expected the same number of values in every line, and "
            "every quotation mark closed; nothing was created"
        )
    read = connection.read_csv(
        pattern, header=True, delimiter=delimiter if len(names) > 1 else ",", sample_size=-1, **_AS_WRITTEN
    )
    read.create_view(name)
    _check_names_are_none_of_the_rows(connection, names, list(map(str, read.types)), what=what)
    return names


def _first_line(path: Path, delimiter: str, *, packed: bool) -> list[str]:
    """The names as they are written; the engine's own would have repetitions numbered."""
    with gzip.open(path) if packed else path.open("rb") as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        return next(csv.reader(text, delimiter=delimiter, strict=True), [])


def _delimiter(connection: duckdb.DuckDBPyConnection, pattern: str) -> str:
    """The sign between values that splits all lines alike."""
    found = connection.execute(
        "SELECT Delimiter FROM sniff_csv($1, header = true, quote = '\"', escape = '\"', comment = '', skip = 0)",
        [pattern],
    ).fetchall()
    return str(found[0][0])


def _check_names_are_none_of_the_rows(
    connection: duckdb.DuckDBPyConnection, names: list[str], types: list[str], *, what: str
) -> None:
    """Names that are values of their columns are a first row without names, which would become public."""
    valued = [(written, kind) for written, kind in zip(names, types, strict=False) if kind != "VARCHAR"]
    counted = len(names) >= _LEAST_NUMBERED and names == [str(number) for number in range(len(names))]
    if not valued or counted:
        return
    casts = ", ".join(f"TRY_CAST(${place} AS {kind}) IS NOT NULL" for place, (_, kind) in enumerate(valued, start=1))
    if all(connection.execute(f"SELECT {casts}", [written for written, _ in valued]).fetchall()[0]):
        raise HoldoutRejected(
            f"the first line of the {what} file holds values and no names of columns; expected names there; write "
            "them into a first line, or rename columns that are called like numbers; nothing was created"
        )
