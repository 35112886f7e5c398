"""Predictions that an analyst hands in as a file: one line for each row, with its id where rows have ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from everhold.questions.prediction_tables import PredictionTable
    from everhold.values.base import Schema

__all__ = ["read_predictions"]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_predictions(path: Path, schema: Schema, *, column: str | None) -> PredictionTable:
    """Read predictions from a CSV, TSV or Parquet file.

    Args:
        path: The file; the analyst's own, so what is wrong with it may be told.
        schema: Whether rows have ids, and whether ids and labels are text, which is read as it is written.
        column: The column of the predictions; None if there is one only, apart from the ids.

    Raises:
        QueryRejected: If there is no such file, or it cannot be read.
    """
    import duckdb

    from everhold.questions.prediction_tables import PredictionTable

    if not path.is_file():
        raise _rejected(f"there is no file {str(path)!r}", "check the path")
    with duckdb.connect(":memory:") as connection:
        try:
            columns = _relation(connection, path, schema).fetchnumpy()
        except duckdb.Error:
            raise _rejected(
                f"{path.name} cannot be read as predictions",
                "expected one prediction of one type in each line, below the column's name",
            ) from None
    return PredictionTable(columns, name=path.name, column=column)


def _relation(connection: duckdb.DuckDBPyConnection, path: Path, schema: Schema) -> duckdb.DuckDBPyRelation:
    from everhold.sealing.engine import file_pattern

    suffix, pattern = path.suffix.lower(), file_pattern(path)
    if suffix == ".parquet":
        return connection.read_parquet(pattern, hive_partitioning=False)
    if suffix not in _DELIMITERS:
        raise _rejected(f"{path.name} ends in {path.suffix!r}", "expected .csv, .tsv or .parquet")
    written: dict[str, Any] = {"header": True, "delimiter": _DELIMITERS[suffix], "sample_size": -1}
    as_text = schema.label_kind == "string"
    names = connection.read_csv(pattern, all_varchar=True, **written).columns
    text = {name: "VARCHAR" for name in names if (_ids_are_text(schema) if name == schema.row_id else as_text)}
    return connection.read_csv(pattern, dtype=text, **written) if text else connection.read_csv(pattern, **written)


def _ids_are_text(schema: Schema) -> bool:
    return schema.row_id is not None and schema.columns[schema.row_id].value != "number"


def _rejected(problem: str, advice: str) -> QueryRejected:
    return QueryRejected(f"{problem}; {advice}; nothing was charged")
