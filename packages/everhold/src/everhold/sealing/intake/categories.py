"""Categories of categorical columns: estimators such as LightGBM need the type that they were fitted on.

The sealed file holds texts and numbers. The categories are those of the training table, which is public, so a sealed
value that is none of them reaches an estimator as a missing one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from everhold.sealing.intake.duckdb_files import file_pattern
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from everhold.sealing.intake.reading import RowSource

__all__ = ["Categories", "training_categories"]

Categories: TypeAlias = "dict[str, list[str | int | float | bool]]"

_MOST_CATEGORIES = 10_000


def training_categories(connection: duckdb.DuckDBPyConnection, training: RowSource) -> Categories:
    """Categories of each categorical column of the training table, in their order.

    A Parquet file that pandas wrote says which columns are categorical; their categories are the sorted values. A
    column with more than 10,000 categories, or with others than texts, numbers and truth values, is left out.

    Args:
        connection: Holds the training rows as the view ``training``.
        training: The table as it was handed in; see `RowSource`.
    """
    is_file = isinstance(training, (str, Path))
    found = _of_file(connection, Path(training)) if is_file else _of_frame(training)
    return {name: values for name, values in found.items() if _usable(values)}


def _usable(values: Sequence[object]) -> bool:
    plain = all(isinstance(value, (str, int, float)) for value in values)
    return plain and len({type(value) for value in values}) == 1 and len(values) <= _MOST_CATEGORIES


def _of_frame(training: RowSource) -> Categories:
    import narwhals.stable.v1 as nw

    frame = nw.from_native(training, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return {}
    kinds = frame.schema.items()
    categorical = [name for name, kind in kinds if isinstance(kind, (nw.Categorical, nw.Enum))]
    return {str(name): frame[name].cat.get_categories().drop_nulls().to_list() for name in categorical}


def _of_file(connection: duckdb.DuckDBPyConnection, path: Path) -> Categories:
    if path.suffix.lower() != ".parquet":
        return {}
    wrote = connection.execute(
        "SELECT decode(value) FROM parquet_kv_metadata($1) WHERE decode(key) = 'pandas'", [file_pattern(path)]
    ).fetchall()
    columns = json.loads(wrote[0][0]).get("columns", []) if wrote else []
    names = [str(column["name"]) for column in columns if column.get("pandas_type") == "categorical"]
    return {name: _values(connection, name) for name in names if name in connection.view("training").columns}


def _values(connection: duckdb.DuckDBPyConnection, name: str) -> list[str | int | float | bool]:
    column = quoted(name)
    found = connection.execute(
        f"SELECT DISTINCT {column} FROM training WHERE {column} IS NOT NULL ORDER BY 1 LIMIT {_MOST_CATEGORIES + 1}"
    ).fetchall()
    return [value for (value,) in found]
