"""Tables as the files that travel beside a query, and beside its response."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.display import write_parquet
from everhold.queries.scalars import refuse

if TYPE_CHECKING:
    from everhold.queries.predictions.arrays import PredictionTable

PARQUET_TYPE = "application/vnd.apache.parquet"
"""Media type of Parquet files."""


def parquet_of(table: PredictionTable, row_id: str | None) -> bytes:
    """A table of predictions as a Parquet file.

    Args:
        table: Of predictions.
        row_id: The column of row ids of the holdout; None where rows have none.

    Raises:
        QueryRejected: If its columns are not equally long, or hold what no prediction can be. Nothing is charged.
    """
    columns = {name: _values(column) for name, column in table.columns.items()}
    if len({len(values) for values in columns.values()}) != 1 or not next(iter(columns.values())):
        refuse(f"{table.name} has columns of different lengths, or no row", "one id and one prediction in each row")
    if row_id is None and not table.counted:
        refuse(f"{table.name} has an index that does not count its rows", "predictions in the order of the rows")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.parquet"
        try:
            write_parquet(path, rows)
        except (TypeError, ValueError, OverflowError):
            refuse(f"{table.name} holds values that are neither numbers nor texts", "ids and predictions")
        return path.read_bytes()


def _values(column: Any) -> list[Any]:
    array = column if isinstance(column, np.ma.MaskedArray) else np.asarray(column)
    if array.ndim != 1:
        refuse(f"a column has the shape {array.shape}", "one value in each row")
    return list(array.tolist())
