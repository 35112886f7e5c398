"""Tables as files that travel beside a request or its response."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from everhold.display import write_parquet
from everhold.queries.makers import refuse
from everhold.sealing.intake.reading import read_rows, reading_errors_hidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from everhold.queries.predictions.arrays import PredictionTable
    from everhold.sealing.intake.reading import RowSource
    from everhold_server.wire.connection import Part


@contextmanager
def row_files(**sources: RowSource | None) -> Iterator[dict[str, Part]]:
    """Return a context with the row files of a request by part name. Tables in memory are written to a private folder.

    Args:
        **sources: Rows by the name of their part; those that are None are left out.

    Raises:
        HoldoutRejected: If a source cannot be read as a table. Nothing was sent.
    """
    with tempfile.TemporaryDirectory(prefix="everhold-") as folder:
        paths = {
            what: Path(source) if isinstance(source, str | Path) else _as_parquet(source, Path(folder), what)
            for what, source in sources.items()
            if source is not None
        }
        yield {what: partial(_opened, path) for what, path in paths.items()}


def _opened(path: Path, stack: ExitStack) -> Any:
    return stack.enter_context(path.open("rb"))


def _as_parquet(source: RowSource, folder: Path, what: str) -> Path:
    path = folder / f"{what}.parquet"
    with duckdb.connect() as connection:
        read_rows(connection, source, name="source", what=what)
        with reading_errors_hidden(what):
            connection.view("source").write_parquet(str(path))
    return path


PARQUET_TYPE = "application/vnd.apache.parquet"
"""Media type of Parquet files."""


def parquet_of(table: PredictionTable, row_id: str | None) -> bytes:
    """Return a table of predictions as the bytes of a Parquet file.

    Args:
        table: The table of predictions.
        row_id: Name of the holdout's column of row ids. None if rows have no ids.

    Raises:
        QueryRejected: If the columns have different lengths, or values that predictions cannot have. Nothing is
            charged.
    """
    columns = {name: _values(column) for name, column in table.columns.items()}
    if len({len(values) for values in columns.values()}) != 1 or not next(iter(columns.values())):
        refuse(
            f"{table.name} has columns of different lengths, or no row",
            "a table with one id and one prediction in each row",
        )
    if row_id is None and not table.counted:
        refuse(f"{table.name} has an index that does not count its rows", "predictions in the order of the rows")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    try:
        return parquet_bytes(rows)
    except (TypeError, ValueError, OverflowError):
        refuse(f"{table.name} has values that are neither numbers nor texts", "ids and predictions as numbers or texts")


def parquet_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as the content of a Parquet file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, rows)
        return path.read_bytes()


def _values(column: Any) -> list[Any]:
    array = column if isinstance(column, np.ma.MaskedArray) else np.asarray(column)
    if array.ndim != 1:
        refuse(f"A column has the shape {array.shape}", "an array of one dimension")
    return list(array.tolist())
