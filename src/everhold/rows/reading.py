"""Bringing rows in: files, data frames and Arrow tables become one DuckDB relation, without a detour."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from everhold.errors import HoldoutRejected
from everhold.queries.expressions import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RowSource", "column_kinds", "read_rows"]

RowSource = Any
"""A path to a Parquet, CSV or TSV file; a pandas or Polars frame; an Arrow table; a mapping from names to arrays."""

_NUMBERS = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|FLOAT|DOUBLE|DECIMAL\(.*\))$")


class _ArrowStream:
    """Hides everything of a table but its Arrow stream, so that no other library is needed to read it."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def read_rows(connection: duckdb.DuckDBPyConnection, source: RowSource, *, name: str, what: str) -> None:
    """Make ``source`` readable in the connection as the table ``name``.

    Args:
        connection: A connection of the steward's own, not a locked one.
        source: See `RowSource`.
        name: Name of the view to make.
        what: How messages call the rows, "holdout" or "training".

    Raises:
        HoldoutRejected: If the source cannot be read. Nothing was created.
    """
    try:
        if isinstance(source, (str, Path)):
            _read_file(connection, Path(source), name=name, what=what)
        elif isinstance(source, Mapping):
            connection.register(name, dict(source))
        elif hasattr(source, "__dataframe__") and type(source).__module__.startswith("pandas"):
            connection.register(name, source)  # DuckDB reads pandas itself, without pyarrow
        elif hasattr(source, "__arrow_c_stream__"):
            connection.register(name, _ArrowStream(source))
        else:
            raise HoldoutRejected(
                f"the {what} rows are a {type(source).__name__}; expected a path to a Parquet or CSV file, a pandas or "
                "Polars frame, an Arrow table or a mapping from names to arrays; nothing was created"
            )
    except duckdb.Error:
        raise HoldoutRejected(
            f"the {what} rows cannot be read; expected a table with named columns of plain types; "
            "check that the file opens elsewhere; nothing was created"
        ) from None


def _read_file(connection: duckdb.DuckDBPyConnection, path: Path, *, name: str, what: str) -> None:
    readers: dict[str, Callable[[str], duckdb.DuckDBPyRelation]] = {
        ".parquet": connection.read_parquet,
        ".csv": connection.read_csv,
        ".tsv": connection.read_csv,
    }
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in readers:
        raise HoldoutRejected(
            f"the {what} file {path.name!r} ends in {path.suffix!r}; expected .parquet, .csv, .tsv or a gzipped .csv; "
            "nothing was created"
        )
    if not path.is_file():
        raise HoldoutRejected(f"there is no {what} file {str(path)!r}; check the path; nothing was created")
    readers[suffix.lower()](str(path)).create_view(name)


def column_kinds(relation: duckdb.DuckDBPyRelation) -> dict[str, ColumnKind]:
    """The kind of each column of a relation, by name and in order."""
    return {name: _kind(str(data_type)) for name, data_type in zip(relation.columns, relation.types, strict=True)}


def _kind(data_type: str) -> ColumnKind:
    if data_type == "BOOLEAN":
        return ColumnKind.BOOLEAN
    if data_type == "VARCHAR" or data_type.startswith("ENUM"):
        return ColumnKind.STRING
    return ColumnKind.NUMBER if _NUMBERS.match(data_type) else ColumnKind.OTHER
