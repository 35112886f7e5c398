"""Reads rows from files, data frames and Arrow tables into one DuckDB relation, and writes them to Parquet files.

The number of rows is limited before anything is read, because a small compressed file can unpack to more than a machine
holds. `everhold.sealing.intake.delimited` says what the texts of CSV and TSV files mean.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from everhold.arguments import as_whole
from everhold.errors import HoldoutRejected
from everhold.private_files import create_private
from everhold.sealing.intake.delimited import DelimitedFile, create_views
from everhold.sealing.intake.duckdb_files import column_kinds, copy_rows, file_pattern, hold_rows, view_files
from everhold.sealing.rows.embedded import errors_hidden
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.expressions import ColumnKind

RowSource = Any
"""A path to a Parquet, CSV or TSV file; a pandas frame; a Polars frame, also a lazy one; an Arrow table; a mapping from
names to arrays.
"""

MOST_ROWS = 2**26
"""Rows of a table unless `Holdout.create` is told otherwise; a column of so many takes half a gigabyte of memory."""

MOST_COLUMNS = 2**14
"""Columns of a table, the parts of nested ones counted too."""

_CHUNK = 2**22  # bytes; the engine takes no line half as long

_CAST = {"TIMESTAMP_NS": "::TIMESTAMP", "TIMESTAMP_S": "::TIMESTAMP", "TIMESTAMP_MS": "::TIMESTAMP",
         "TIMESTAMPTZ_NS": "::TIMESTAMPTZ"}  # fmt: skip
"""Types of times, each as the one that the engine computes with."""

_READABLE = re.compile(r"\.(parquet|csv|tsv|csv\.gz|tsv\.gz)$", re.IGNORECASE)


def reading_errors_hidden(what: str) -> errors_hidden:
    """Context in which every foreign error becomes a `HoldoutRejected`.

    Args:
        what: Name of the rows in messages, "holdout" or "training".

    Examples:
        >>> with reading_errors_hidden("holdout"):
        ...     raise duckdb.ConversionException("row 17 holds a secret")
        Traceback (most recent call last):
        everhold.errors.HoldoutRejected: The holdout rows cannot be read. Pass a table ...
    """
    return errors_hidden(
        lambda error: HoldoutRejected(
            f"The {what} rows cannot be read{_place(error)}. Pass a table with named columns, each of one plain type. "
            "Check that another program opens the file and that the disk has room."
        )
    )


def _place(error: Exception) -> str:
    """Return a text with the line number of a fault in a CSV file. It does not quote the line."""
    line = re.search(r"CSV Error on Line: (\d+)\b", str(error)) if isinstance(error, duckdb.Error) else None
    return f": line {line[1]} or the line before is faulty" if line else ""


class _ArrowStream:
    """Wrapper that exposes only a table's Arrow stream, so that reading it needs no other library."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def read_rows(
    connection: duckdb.DuckDBPyConnection,
    source: RowSource,
    *,
    name: str,
    what: str,
    most_rows: int = MOST_ROWS,
    kinds: Mapping[str, ColumnKind] | None = None,
) -> None:
    """Create the view ``name`` on a source in a connection. A source that is a stream can be read only once.

    Args:
        connection: A connection of the steward's own, not a locked one.
        source: The rows, in any form of `RowSource`.
        name: Name of the view to make.
        what: Name of the rows in messages, "holdout" or "training".
        most_rows: Largest number of rows that is read.
        kinds: Kinds of the columns that are sealed already. None if no rows are sealed yet.

    Raises:
        HoldoutRejected: If the source cannot be read or is too large. Nothing was created.
    """
    with reading_errors_hidden(what):
        file = _opened(connection, source, name=name, what=what, most_rows=most_rows)
        if file is not None:
            create_views(connection, {name: file}, kinds or {})


def read_together(
    connection: duckdb.DuckDBPyConnection, sources: Mapping[str, RowSource], *, most_rows: int = MOST_ROWS
) -> None:
    """Create views on several sources, in which a column has the same type in all of them.

    Args:
        connection: A connection of the steward's own, not a locked one.
        sources: The rows by the name that messages use. The name of a view is that name followed by ``_source``.
        most_rows: Largest number of rows that is read from one source.

    Raises:
        HoldoutRejected: If a source cannot be read or is too large. Nothing was created.
    """
    files: dict[str, DelimitedFile] = {}
    kinds: dict[str, ColumnKind] = {}
    for what, source in sources.items():
        name = f"{what}_source"
        with reading_errors_hidden(what):
            file = _opened(connection, source, name=name, what=what, most_rows=most_rows)
            if file is None:
                kinds |= column_kinds(connection.view(name))
            else:
                files[name] = file
    with reading_errors_hidden(" and ".join(sources)):
        create_views(connection, files, kinds)


def collected(source: RowSource, most_rows: int, *, what: str) -> RowSource:
    """Return a Polars lazy frame as a frame of at most one row more than allowed.

    Other sources are returned as they are.

    Raises:
        HoldoutRejected: If it cannot be collected. Unlike the message of Polars, this message quotes no cell.
    """
    kind = type(source)
    if kind.__name__ != "LazyFrame" or not kind.__module__.startswith("polars"):
        return source
    fault = f"The lazy frame of the {what} rows cannot be collected. Call its collect() to see why."
    with errors_hidden(lambda _: HoldoutRejected(fault)):
        return source.head(most_rows + 1).collect()


def _opened(
    connection: duckdb.DuckDBPyConnection, source: RowSource, *, name: str, what: str, most_rows: int
) -> DelimitedFile | None:
    """Create a view on a source. For a CSV or TSV file, return the opened file instead."""
    source = collected(source, most_rows, what=what)
    if hasattr(source, "to_frame"):  # a series, whose name is that of its column
        source = source.to_frame()
    if isinstance(source, (str, Path)):
        path = Path(source)
        ending = _ending(path, what=what)
        if ending != "parquet":
            _check_delimited_size(path, packed=ending.endswith("gz"), most_rows=most_rows, what=what)
            file = DelimitedFile.open(connection, path, ending, what=what)
            _check_names(file.names, what=what)
            return file
        pattern = file_pattern(path)
        # A Parquet file is judged by its footer, before a row is read. The table is a part of its schema, too.
        counted = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata($1)", [pattern]).fetchall()
        schema = connection.execute("SELECT name, num_children FROM parquet_schema($1)", [pattern]).fetchall()
        check_size(rows=int(counted[0][0]), columns=len(schema) - 1, most_rows=most_rows, what=what)
        names, inside = [], 0  # of the outermost columns, from the depth-first list of the schema
        for column, children in schema[1:]:
            if inside == 0:
                names.append(str(column))
            inside = max(inside - 1, 0) + (children or 0)
        _check_names(names, what=what)
        connection.read_parquet(pattern, hive_partitioning=False).create_view(f"{name}_given")
    else:
        rows, columns = _size(source)
        check_size(rows=rows, columns=columns, most_rows=most_rows, what=what)
        _register(connection, f"{name}_given", source, what=what)
    view = connection.view(f"{name}_given")
    listed = ", ".join(
        f"{quoted(column)}{_CAST.get(str(kind), '')} AS {quoted(column)}"
        for column, kind in zip(view.columns, view.types, strict=True)
    )
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS SELECT {listed} FROM {quoted(name + '_given')}")
    return None


def _register(connection: duckdb.DuckDBPyConnection, name: str, source: Any, *, what: str) -> None:
    """Make a table in memory readable under a name in a DuckDB connection.

    Raises:
        HoldoutRejected: If the object is not a table of rows, or a column cannot be read.
    """
    if isinstance(source, Mapping):
        table: Any = _arrays(source, what=what)
        names = list(table)
    elif hasattr(source, "__dataframe__") and type(source).__module__.startswith("pandas"):
        table = _with_index(source)  # DuckDB reads pandas itself, without pyarrow
        names = [str(column) for column in table.columns]
    elif hasattr(source, "__arrow_c_stream__"):
        table = _ArrowStream(source)
        stated = (getattr(source, "columns", None), getattr(getattr(source, "schema", None), "names", None))
        listed = (each for each in stated if isinstance(each, list) and all(isinstance(name, str) for name in each))
        names = next(listed, [])
    else:
        raise HoldoutRejected(
            f"The {what} rows are of type {type(source).__name__}. Pass a path to a Parquet or CSV file, a pandas or "
            "Polars frame, an Arrow table or a mapping from names to arrays."
        )
    _check_names(names, what=what)
    try:
        connection.register(name, table)
        column_kinds(connection.view(name))
    except duckdb.Error:
        for place, column in enumerate(names if hasattr(table, "iloc") or hasattr(source, "select") else ()):
            try:
                part = table.iloc[:, [place]] if hasattr(table, "iloc") else _ArrowStream(source.select([column]))
                connection.register("one_column", part)
                column_kinds(connection.view("one_column"))
            except duckdb.Error:
                schema = table.dtypes if hasattr(table, "iloc") else source.schema
                kind = schema.field(column).type if hasattr(schema, "field") else schema[column]
                raise HoldoutRejected(
                    f"The {what} column {column!r} is of type {kind}. Convert it to numbers, "
                    "texts, booleans or times, for example with .astype(str), or leave it out.",
                    column=column,
                ) from None
        raise


def _with_index(frame: Any) -> Any:
    """Return a pandas frame with its index as columns: times, and levels that have a name.

    Whole numbers without a name only count the rows.
    """
    levels = range(frame.index.nlevels)
    told = [
        level for level in levels
        if frame.index.names[level] is not None or frame.index.get_level_values(level).dtype.kind not in "iu"
    ]  # fmt: skip
    if not told:
        return frame
    names = ["index" if frame.index.names[level] is None else str(frame.index.names[level]) for level in told]
    if {*names} & {*map(str, frame.columns)}:
        return frame
    index = frame.index.set_names([names[told.index(level)] if level in told else None for level in levels])
    return frame.set_axis(index, axis="index").reset_index(level=told)


def _size(source: Any) -> tuple[int | None, int | None]:
    """Return the numbers of rows and columns of a table in memory, None where the object does not state them."""
    if isinstance(source, Mapping):
        return None, len(source)
    shape = getattr(source, "shape", None)  # of frames and Arrow tables; a stream has none
    known = isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(size, int) for size in shape)
    return shape if known else (None, None)  # type: ignore[return-value]


def _check_names(names: Sequence[str], *, what: str) -> None:
    """Raise HoldoutRejected for column names that are empty, or equal up to upper and lower case."""
    counts = Counter(name.casefold() for name in names)
    faulty = [name for name in names if not name or counts[name.casefold()] > 1]
    if faulty:
        raise HoldoutRejected(
            f"Some columns of the {what} rows have no name, or names that are equal up to "
            f"case: {', '.join(map(repr, faulty))}. Rename them.",
            columns=faulty,
        )


def _arrays(source: Mapping[Any, Any], *, what: str) -> dict[str, NDArray[Any]]:
    """Return the columns of a mapping as arrays that the engine reads: contiguous, native, and text as objects."""
    columns = {str(name): np.ma.asanyarray(values) for name, values in source.items()}
    for name, column in columns.items():
        if column.ndim != 1 or column.dtype.kind in "cV":
            raise HoldoutRejected(
                f"The {what} column {name!r} has shape {column.shape} and type "
                f"{column.dtype}. Pass one plain value for each row."
            )
    if not columns:
        raise HoldoutRejected(f"The {what} rows have no columns. Pass a table with at least one.")
    if len({len(column) for column in columns.values()}) > 1 or len(columns) < len(source):
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise HoldoutRejected(
            f"The {what} columns have different lengths or equal names ({lengths}). Pass "
            "columns with different names and one value for each row."
        )
    return {name: _readable(column) for name, column in columns.items()}


def _readable(masked: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """Return an array of a type and a layout that the engine reads, with the same mask."""
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


def _ending(path: Path, *, what: str) -> str:
    """Return the ending of a readable file, in lower case.

    Raises:
        HoldoutRejected: If there is no such file.
    """
    if path.exists() and not path.is_file():
        raise HoldoutRejected(
            f"The {what} file {str(path)!r} is a folder, a pipe or a device. Write the "
            "rows to a plain file, which can be read more than once."
        )
    readable = _READABLE.search(path.name)
    if readable is None:
        raise HoldoutRejected(
            f"The {what} file {path.name!r} ends in {path.suffix!r}. Pass a .parquet, .csv, .tsv or gzipped .csv file."
        )
    if not path.is_file():
        raise HoldoutRejected(f"There is no {what} file {str(path)!r}. Check the path.")
    return readable[1].lower()


def check_most_rows(most_rows: int) -> int:
    """Return the requested limit of rows, after a check that it is a whole number of at least 1.

    Raises:
        ValueError: If ``most_rows`` is not a whole number of at least 1.
    """
    number = as_whole(most_rows)
    if number is None or number < 1:
        raise ValueError(f"most_rows is {most_rows!r:.100}. Pass a whole number of at least 1.")
    return number


def check_size(*, rows: int | None, columns: int | None, most_rows: int, what: str) -> None:
    """Raise HoldoutRejected for a table with too many rows or columns. None means that the number is unknown.

    Raises:
        HoldoutRejected: If there are too many rows or columns. Nothing was created.
    """
    if columns is not None and columns > MOST_COLUMNS:
        raise HoldoutRejected(
            f"The {what} table has {columns:,} columns, more than the limit of "
            f"{MOST_COLUMNS:,}. Keep only the columns that queries need.",
            columns=columns,
            most_columns=MOST_COLUMNS,
        )
    if rows is not None and rows > most_rows:
        raise HoldoutRejected(
            f"The {what} table has {rows:,} rows or more, above the limit of {most_rows:,}. Pass a random sample of "
            "them, or raise most_rows (--most-rows) if each of its columns fits in memory.",
            rows=rows,
            most_rows=most_rows,
        )


def _check_delimited_size(path: Path, *, packed: bool, most_rows: int, what: str) -> None:
    """Check the number of lines and columns of a CSV or TSV file before it is parsed.

    `packed` says whether the file is compressed by gzip.

    Raises:
        HoldoutRejected: If it has too many lines or columns, or a line that is no row. Nothing was created.
    """
    ends, first, decoder = 0, True, codecs.getincrementaldecoder("utf-8")()
    with gzip.open(path) if packed else path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            try:
                decoder.decode(chunk, final=len(chunk) < _CHUNK)
            except UnicodeDecodeError as fault:
                raise HoldoutRejected(
                    f"The {what} file is not UTF-8 text: line {ends + 1 + chunk[: fault.start].count(10):,} cannot be "
                    "decoded. Save it as UTF-8, or read it with its own encoding and pass the frame."
                ) from None
            if first:
                names = re.split(rb"[\r\n]", chunk, maxsplit=1)[0]
                columns = 1 + max(names.count(sign) for sign in (b",", b";", b"\t", b"|"))
                check_size(rows=None, columns=columns, most_rows=most_rows, what=what)
            found = chunk.count(b"\n") or chunk.count(b"\r")
            if not found and len(chunk) == _CHUNK:
                raise HoldoutRejected(
                    f"A line of the {what} file is longer than {_CHUNK // 2**20} MiB. Check that every quotation mark "
                    "is closed and that each row has its own line."
                )
            ends, first = ends + found, False
            check_size(rows=ends - 1, columns=None, most_rows=most_rows, what=what)  # names stand in one line


def write_rows(connection: duckdb.DuckDBPyConnection, what: str, columns: dict[str, ColumnKind], path: Path) -> int:
    """Write one side of the rows to a Parquet file, and return their number. The source is read once.

    Returns:
        The number of rows; they are the view ``holdout`` or ``training`` from now on.

    Raises:
        HoldoutRejected: If the rows cannot be read, or the table is empty.
    """
    names = ", ".join(map(quoted, columns))  # both files get the holdout's order of columns
    salt = secrets.token_hex(32)  # the fingerprint is public: without it, guessed rows could be checked against it
    with reading_errors_hidden(what):
        os.close(create_private(path))  # the engine would create it as the umask says
        rows = copy_rows(
            connection, f"SELECT {names} FROM {what}_source", path, metadata=f"{{everhold_salt: '{salt}'}}"
        )
        path.chmod(0o400)
        hold_rows(connection, path, cells=rows * len(columns))
        view_files(connection, what, path)
    if rows == 0:
        raise HoldoutRejected(f"The {what} table is empty. Pass at least one row.")
    return rows
