"""Predictions that an analyst hands in as a file: one column, one line for each row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

__all__ = ["read_predictions"]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_predictions(path: Path, *, column: str | None, as_text: bool) -> NDArray[Any]:
    """Read predictions from a CSV, TSV or Parquet file.

    Args:
        path: The file; the analyst's own, so what is wrong with it may be told.
        column: The column to read; None if there is one only.
        as_text: Whether a text file's entries are names, even where they look like numbers.

    Returns:
        Shape (rows,), in the order of the file.

    Raises:
        QueryRejected: If there is no such file or column, or a prediction is missing.
    """
    import duckdb
    import numpy as np

    if not path.is_file():
        raise _rejected(f"there is no file {str(path)!r}", "check the path")
    with duckdb.connect(":memory:") as connection:
        try:
            relation = _relation(connection, path, as_text=as_text)
            name = _column(relation.columns, column, path)
            values: NDArray[Any] = relation.project('"' + name.replace('"', '""') + '"').fetchnumpy()[name]
        except duckdb.Error:
            raise _rejected(
                f"{path.name} cannot be read as predictions",
                "expected one prediction of one type in each line, below the column's name",
            ) from None
    missing = int(np.ma.getmaskarray(values).sum())
    if missing:
        raise _rejected(f"{path.name} lacks {missing:,} of its predictions", "fill them in")
    return np.ma.getdata(values)


def _relation(connection: duckdb.DuckDBPyConnection, path: Path, *, as_text: bool) -> duckdb.DuckDBPyRelation:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return connection.read_parquet(str(path))
    if suffix not in _DELIMITERS:
        raise _rejected(f"{path.name} ends in {path.suffix!r}", "expected .csv, .tsv or .parquet")
    return connection.read_csv(str(path), delimiter=_DELIMITERS[suffix], all_varchar=as_text)


def _column(columns: list[str], wanted: str | None, path: Path) -> str:
    if wanted is None and len(columns) == 1:
        return columns[0]
    if wanted is None:
        raise _rejected(f"{path.name} has {len(columns)} columns", f"choose one with --column: {', '.join(columns)}")
    if wanted not in columns:
        raise _rejected(f"{path.name} has no column {wanted!r}", f"choose one of {', '.join(columns)}")
    return wanted


def _rejected(problem: str, advice: str) -> QueryRejected:
    return QueryRejected(f"{problem}; {advice}; nothing was charged")
