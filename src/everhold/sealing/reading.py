"""Bringing rows in: files, data frames and Arrow tables become one DuckDB relation, without a detour."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from everhold.errors import EverholdError, HoldoutRejected
from everhold.sealing.delimited import read_delimited
from everhold.sealing.limits import MOST_ROWS, check_delimited_size, check_parquet_size, check_size
from everhold.values.expressions import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from numpy.typing import NDArray

__all__ = ["RowSource", "column_kinds", "file_pattern", "read_rows", "reading_errors_hidden"]

RowSource = Any
"""A path to a Parquet, CSV or TSV file; a pandas or Polars frame; an Arrow table; a mapping from names to arrays."""

_NUMBERS = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|FLOAT|DOUBLE|DECIMAL\(.*\))$")
_READABLE = re.compile(r"\.(parquet|csv|tsv|csv\.gz|tsv\.gz)$", re.IGNORECASE)


class reading_errors_hidden:  # noqa: N801  a context manager reads like a function
    """Context in which every foreign error becomes a `HoldoutRejected`, because engines quote rows in theirs.

    Args:
        what: How the message calls the rows, "holdout" or "training".

    Examples:
        >>> with reading_errors_hidden("holdout"):
        ...     raise duckdb.ConversionException("row 17 holds a secret")
        Traceback (most recent call last):
        everhold.errors.HoldoutRejected: the holdout rows cannot be read; expected ...
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Replace an error; interrupts and errors of everhold pass."""
        if not isinstance(error, Exception) or isinstance(error, EverholdError):
            return
        hidden = HoldoutRejected(
            f"the {self._what} rows cannot be read; expected a table with named columns of plain types, each of one "
            f"type throughout; {_place(error)}check that the file opens elsewhere and that there is room on the disk; "
            "nothing was created"
        )
        try:
            raise hidden from None
        finally:
            hidden.__context__ = None  # `from None` hides the engine's error from print only


def _place(error: Exception) -> str:
    """Where a CSV file is at fault, as far as the engine says: a number, because the line itself holds values."""
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


def file_pattern(path: Path) -> str:
    """A path as DuckDB has to get it: its signs for patterns stand for themselves.

    Examples:
        >>> file_pattern(Path("rows[1].csv"))
        'rows[[]1].csv'
    """
    return re.sub(r"[\[*?]", lambda sign: f"[{sign[0]}]", str(path))


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
        check_parquet_size(connection, pattern, most_rows=most_rows, what=what)
        connection.read_parquet(pattern, hive_partitioning=False).create_view(name)
        return _parquet_names(connection, pattern)
    packed, tabs = ending.endswith("gz"), ending.startswith("tsv")
    check_delimited_size(path, packed=packed, most_rows=most_rows, what=what)
    return read_delimited(connection, path, pattern, name=name, tabs=tabs, packed=packed, what=what)


def _parquet_names(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    """Names of the outermost columns, from the depth-first list of all parts of the schema."""
    parts = connection.execute("SELECT name, num_children FROM parquet_schema($1)", [pattern]).fetchall()
    names, inside = [], 0
    for column, children in parts[1:]:
        if inside == 0:
            names.append(str(column))
        inside = max(inside - 1, 0) + (children or 0)
    return names


def column_kinds(relation: duckdb.DuckDBPyRelation) -> dict[str, ColumnKind]:
    """The kind of each column of a relation, by name and in order."""
    return {name: _kind(str(data_type)) for name, data_type in zip(relation.columns, relation.types, strict=True)}


def _kind(data_type: str) -> ColumnKind:
    if data_type == "BOOLEAN":
        return ColumnKind.BOOLEAN
    if data_type == "VARCHAR" or data_type.startswith("ENUM"):
        return ColumnKind.STRING
    return ColumnKind.NUMBER if _NUMBERS.match(data_type) else ColumnKind.OTHER
