"""Bringing rows in: files, data frames and Arrow tables become one DuckDB relation, without a detour.

How much is read at all is decided first: a small file can unpack to more than a machine holds, and says so before it is
read. CSV and TSV files are read as they are written: nothing is skipped, guessed away or swallowed by an open quotation
mark. The engine would rather read something than nothing: left alone it takes quotation marks for letters where one is
never closed, skips first lines that have another number of values, and takes a first row of values for names.
"""

from __future__ import annotations

import csv
import gzip
import io
import operator
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from everhold.errors import HoldoutRejected
from everhold.sealing.duckdb_files import file_pattern
from everhold.sealing.engines.errors import errors_hidden
from everhold.values.expressions import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "MOST_COLUMNS", "MOST_ROWS", "RowSource", "check_most_rows", "check_size", "column_kinds", "read_rows",
    "reading_errors_hidden",
]  # fmt: skip

RowSource = Any
"""A path to a Parquet, CSV or TSV file; a pandas or Polars frame; an Arrow table; a mapping from names to arrays."""

MOST_ROWS = 2**26
"""Rows of a table unless `Holdout.create` is told otherwise; a column of so many takes half a gigabyte of memory."""

MOST_COLUMNS = 2**14
"""Columns of a table, the parts of nested ones counted too."""

_CHUNK = 2**22  # bytes; the engine takes no line half as long

_AS_WRITTEN: dict[str, Any] = {
    "quotechar": '"', "escapechar": '"', "comment": "", "skiprows": 0, "null_padding": False,
    "hive_partitioning": False,
}  # fmt: skip
# strict_mode is on where it is not named; where it is, the engine finds no rows between line ends of Windows
_LEAST_NUMBERED = 3  # columns called 0, 1, 2, ..., as frames without names write them

_NUMBERS = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|FLOAT|DOUBLE|DECIMAL\(.*\))$")
_TIMES = re.compile(r"^(DATE|TIMESTAMP.*)$")
_READABLE = re.compile(r"\.(parquet|csv|tsv|csv\.gz|tsv\.gz)$", re.IGNORECASE)


def reading_errors_hidden(what: str) -> errors_hidden:
    """Context in which every foreign error becomes a `HoldoutRejected`.

    Args:
        what: How the message calls the rows, "holdout" or "training".

    Examples:
        >>> with reading_errors_hidden("holdout"):
        ...     raise duckdb.ConversionException("row 17 holds a secret")
        Traceback (most recent call last):
        everhold.errors.HoldoutRejected: the holdout rows cannot be read; expected ...
    """
    return errors_hidden(
        lambda error: HoldoutRejected(
            f"the {what} rows cannot be read; expected a table with named columns of plain types, each of one type "
            f"throughout; {_place(error)}check that the file opens elsewhere and that there is room on the disk; "
            "nothing was created"
        )
    )


def _place(error: Exception) -> str:
    """Position of a fault in a CSV file, as far as the engine says: a number, because the line itself holds values."""
    line = re.search(r"CSV Error on Line: (\d+)\b", str(error)) if isinstance(error, duckdb.Error) else None
    return f"line {line[1]} or the one before is at fault; " if line else ""


class _ArrowStream:
    """Hides everything of a table but its Arrow stream, so that no other library is needed to read it."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def read_rows(
    connection: duckdb.DuckDBPyConnection, source: RowSource, *, name: str, what: str, most_rows: int = MOST_ROWS
) -> None:
    """Make ``source`` readable in the connection as the view ``name``; a stream can be read once only.

    Args:
        connection: A connection of the steward's own, not a locked one.
        source: See `RowSource`.
        name: Name of the view to make.
        what: How messages call the rows, "holdout" or "training".
        most_rows: The most rows that are read.

    Raises:
        HoldoutRejected: If the source cannot be read or is too large. Nothing was created.
    """
    with reading_errors_hidden(what):
        if isinstance(source, (str, Path)):
            declared = _read_file(connection, Path(source), name=name, what=what, most_rows=most_rows)
            _check_names(declared, connection.view(name).columns, what=what)
            return
        rows, columns = _size(source)
        check_size(rows=rows, columns=columns, most_rows=most_rows, what=what)
        if isinstance(source, Mapping):
            arrays = _arrays(source, what=what)
            connection.register(name, arrays)
            declared = list(arrays)
        elif hasattr(source, "__dataframe__") and type(source).__module__.startswith("pandas"):
            connection.register(name, source)  # DuckDB reads pandas itself, without pyarrow
            declared = [str(column) for column in source.columns]
        elif hasattr(source, "__arrow_c_stream__"):
            connection.register(name, _ArrowStream(source))
            declared = _arrow_names(source, otherwise=connection.view(name).columns)
        else:
            raise HoldoutRejected(
                f"the {what} rows are a {type(source).__name__}; expected a path to a Parquet or CSV file, a pandas or "
                "Polars frame, an Arrow table or a mapping from names to arrays; nothing was created"
            )
        _check_names(declared, connection.view(name).columns, what=what)


def _size(source: Any) -> tuple[int | None, int | None]:
    """Rows and columns of a table in memory, as far as it says so."""
    if isinstance(source, Mapping):
        return None, len(source)
    shape = getattr(source, "shape", None)  # of frames and Arrow tables; a stream has none
    known = isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(size, int) for size in shape)
    return shape if known else (None, None)  # type: ignore[return-value]


def _check_names(declared: Sequence[str], read: Sequence[str], *, what: str) -> None:
    """Refuse names that the engine had to change: empty ones, repeated ones, ones that differ in case only."""
    if list(declared) == list(read):
        return
    counts = Counter(name.casefold() for name in declared)
    faulty = [name for name in declared if not name or counts[name.casefold()] > 1]
    raise HoldoutRejected(
        f"the {what} rows have columns without a name, of the same name or of names that differ in case only "
        f"({', '.join(map(repr, faulty))}); expected different names; rename them; nothing was created",
        columns=faulty,
    )


def _arrays(source: Mapping[Any, Any], *, what: str) -> dict[str, NDArray[Any]]:
    """The columns of a mapping as arrays that the engine reads: contiguous, native, and text as objects."""
    columns = {str(name): np.ma.asanyarray(values) for name, values in source.items()}
    for name, column in columns.items():
        if column.ndim != 1 or column.dtype.kind in "cV":
            raise HoldoutRejected(
                f"the {what} column {name!r} has the shape {column.shape} and the type {column.dtype}; expected one "
                "plain value per row; nothing was created"
            )
    if len({len(column) for column in columns.values()}) > 1 or len(columns) < max(len(source), 1):
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise HoldoutRejected(
            f"the {what} columns have different lengths or names ({lengths}); expected columns of different names "
            "with one value per row each; nothing was created"
        )
    return {name: _readable(column) for name, column in columns.items()}


def _readable(masked: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    column: NDArray[Any] = masked
    if column.dtype.kind in "UST":
        column = (column.astype(str) if column.dtype.kind == "S" else column).astype(object)
    elif column.dtype.kind == "M":
        column = column.astype("datetime64[us]")
    elif column.dtype.kind == "f" and column.dtype.itemsize > 8:
        column = column.astype(np.float64)
    plain = np.ascontiguousarray(np.ma.getdata(column), dtype=column.dtype.newbyteorder("="))
    mask = np.ma.getmask(column)
    return plain if mask is np.ma.nomask else np.ma.MaskedArray(plain, mask=mask)


def _arrow_names(source: Any, *, otherwise: Sequence[str]) -> list[str]:
    """The names as the table itself has them; the engine's own where the table does not say."""
    for names in (getattr(source, "columns", None), getattr(getattr(source, "schema", None), "names", None)):
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    return list(otherwise)


def _read_file(connection: duckdb.DuckDBPyConnection, path: Path, *, name: str, what: str, most_rows: int) -> list[str]:
    readable = _READABLE.search(path.name)
    if readable is None:
        raise HoldoutRejected(
            f"the {what} file {path.name!r} ends in {path.suffix!r}; expected .parquet, .csv, .tsv or a gzipped .csv; "
            "nothing was created"
        )
    if not path.is_file():
        raise HoldoutRejected(f"there is no {what} file {str(path)!r}; check the path; nothing was created")
    pattern, ending = file_pattern(path), readable[1].lower()
    if ending == "parquet":
        _check_parquet_size(connection, pattern, most_rows=most_rows, what=what)
        connection.read_parquet(pattern, hive_partitioning=False).create_view(name)
        return _parquet_names(connection, pattern)
    _check_delimited_size(path, packed=ending.endswith("gz"), most_rows=most_rows, what=what)
    return _read_delimited(connection, path, ending, name=name, what=what)


def _parquet_names(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    """Names of the outermost columns, from the depth-first list of all parts of the schema."""
    parts = connection.execute("SELECT name, num_children FROM parquet_schema($1)", [pattern]).fetchall()
    names, inside = [], 0
    for column, children in parts[1:]:
        if inside == 0:
            names.append(str(column))
        inside = max(inside - 1, 0) + (children or 0)
    return names


def check_most_rows(most_rows: int) -> int:
    """The requested limit as a plain whole number.

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
            f"the {what} table has {columns:,} columns; expected at most {MOST_COLUMNS:,}; keep those that queries "
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


def _check_parquet_size(connection: duckdb.DuckDBPyConnection, pattern: str, *, most_rows: int, what: str) -> None:
    """Refuse a Parquet file by its footer, before a row is read.

    Raises:
        HoldoutRejected: If it says that there are too many rows or columns. Nothing was created.
    """
    rows = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata($1)", [pattern]).fetchall()[0][0]
    parts = connection.execute("SELECT count(*) FROM parquet_schema($1)", [pattern]).fetchall()[0][0]
    check_size(rows=int(rows), columns=int(parts) - 1, most_rows=most_rows, what=what)  # the table is a part, too


def _check_delimited_size(path: Path, *, packed: bool, most_rows: int, what: str) -> None:
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


def _read_delimited(
    connection: duckdb.DuckDBPyConnection, path: Path, ending: str, *, name: str, what: str
) -> list[str]:
    """Make a CSV or TSV file readable as the view ``name``; returns the names of its columns as they are written.

    Quotation marks are ``"``, and twice where they stand for themselves; the first line holds the names.

    Raises:
        HoldoutRejected: If lines have different numbers of values, or there are no names. Nothing was created.
    """
    pattern = file_pattern(path)
    delimiter = "\t" if ending.startswith("tsv") else _delimiter(connection, pattern)
    names = _first_line(path, delimiter, packed=ending.endswith("gz"))
    if len(names) == 1 and re.search(r"[,;|\t]", names[0]):
        raise HoldoutRejected(
            f"the {what} file cannot be split into columns; expected the same number of values in every line, and "
            "every quotation mark closed; nothing was created"
        )
    read = connection.read_csv(
        pattern, header=True, delimiter=delimiter if len(names) > 1 else ",", sample_size=-1, **_AS_WRITTEN
    )
    read.create_view(name)
    _check_first_line(connection, names, list(map(str, read.types)), what=what)
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


def _check_first_line(connection: duckdb.DuckDBPyConnection, names: list[str], types: list[str], *, what: str) -> None:
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


def column_kinds(relation: duckdb.DuckDBPyRelation) -> dict[str, ColumnKind]:
    """The kind of each column of a relation, by name and in order."""
    return {name: _kind(str(data_type)) for name, data_type in zip(relation.columns, relation.types, strict=True)}


def _kind(data_type: str) -> ColumnKind:
    if data_type == "BOOLEAN":
        return ColumnKind.BOOLEAN
    if data_type == "VARCHAR" or data_type.startswith("ENUM"):
        return ColumnKind.STRING
    if _TIMES.match(data_type):
        return ColumnKind.TIME
    return ColumnKind.NUMBER if _NUMBERS.match(data_type) else ColumnKind.OTHER
