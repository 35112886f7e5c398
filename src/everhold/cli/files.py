"""Files that an analyst hands in: predictions, the cells of a synthetic table, Python functions.

They are the analyst's own, so what is wrong with them may be told.
"""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.errors import QueryRejected
from everhold.values.expressions.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    from everhold.questions.predictions import PredictionTable
    from everhold.synthetic import Universe
    from everhold.values.base import Schema

__all__ = ["read_function", "read_predictions", "read_universe"]

_MOST_BYTES = 10_000_000
_MOST_COLUMNS = 1_000
_MOST_OF_A_LINE = 10_000  # bytes of a prediction with its id, on average; and no file is too large below _MOST_BYTES
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "BIT")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_predictions(path: Path, schema: Schema, *, column: str | None) -> PredictionTable:
    """Read predictions from a CSV, TSV or Parquet file.

    Args:
        path: The file; the analyst's own, so what is wrong with it may be told.
        schema: Whether rows have ids, and whether ids and labels are text, which is read as it is written.
        column: The column of the predictions; None if there is one only, apart from the ids.

    Raises:
        QueryRejected: If there is no such file, or it cannot be read; nobody has looked at the sealed rows.
    """
    import duckdb

    from everhold.questions.predictions import PredictionTable

    if not path.is_file():
        raise _rejected(f"there is no file {str(path)!r}", "check the path")
    _check_size(path, schema)
    with duckdb.connect(":memory:") as connection:
        try:
            relation = _relation(connection, path, schema)
            _check_texts(relation, path)
            columns = relation.limit(most := 2 * schema.rows + schema.training_rows + 1).fetchnumpy()
        except duckdb.Error:
            raise _rejected(
                f"{path.name} cannot be read as predictions",
                "expected text in UTF-8, with one prediction of one type in each line below the column's name",
            ) from None
    if any(len(column) == most for column in columns.values()):
        raise _rejected(
            f"{path.name} has more than {most - 1:,} lines", f"expected one for each of {schema.rows:,} rows"
        )
    return PredictionTable(columns, name=path.name, column=column)


def _check_size(path: Path, schema: Schema) -> None:
    """Refuse what can be no predictions before it is read.

    Raises:
        QueryRejected: If the file is far larger than one line for each row, or has far too many columns.
    """
    if (size := path.stat().st_size) > (most := _most_bytes(schema)):
        raise _rejected(f"{path.name} has {size:,} bytes", f"expected at most {most:,} for so many rows")
    if path.suffix.lower() in _DELIMITERS:
        with path.open("rb") as file:
            head = file.readline(_MOST_BYTES)
        if head.count(_DELIMITERS[path.suffix.lower()].encode()) >= _MOST_COLUMNS:
            raise _rejected(
                f"{path.name} has more than {_MOST_COLUMNS:,} columns", "expected row ids and one column of predictions"
            )


def _most_bytes(schema: Schema) -> int:
    return max(_MOST_BYTES, _MOST_OF_A_LINE * (schema.rows + schema.training_rows))


def _check_texts(relation: duckdb.DuckDBPyRelation, path: Path) -> None:
    """Refuse what takes far more memory than its file, before it is read: one long text, repeated in every row.

    Raises:
        QueryRejected: If a column holds such texts, or lists and the like.
    """
    from everhold.questions.predictions import MOST_CHARACTERS

    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    if nested := [name for name, kind in kinds.items() if kind.endswith("]") or kind.startswith(_NESTED)]:
        raise _rejected(f"{path.name} has lists or the like in {nested[0]!r}", "expected numbers or texts")
    lengths = ", ".join(f"max(length({quoted(name)}))" for name, kind in kinds.items() if kind == "VARCHAR")
    found = relation.aggregate(lengths).fetchall() if lengths else [()]
    longest = max((length for length in found[0] if length is not None), default=0)
    if longest > MOST_CHARACTERS:
        raise _rejected(f"{path.name} has a text of {longest:,} characters", f"expected at most {MOST_CHARACTERS:,}")


def _relation(connection: duckdb.DuckDBPyConnection, path: Path, schema: Schema) -> duckdb.DuckDBPyRelation:
    from everhold.sealing.engine import file_pattern

    suffix, pattern = path.suffix.lower(), file_pattern(path)
    if suffix == ".parquet":
        counted = "SELECT count(*) FROM parquet_schema(?) WHERE num_children IS NULL"
        sized = "SELECT coalesce(sum(total_uncompressed_size), 0) FROM parquet_metadata(?)"
        columns, size = (connection.execute(text, [pattern]).fetchall()[0][0] for text in (counted, sized))
        if size > (most := _most_bytes(schema)):
            raise _rejected(f"{path.name} unpacks to {size:,} bytes", f"expected at most {most:,} for so many rows")
        if columns > _MOST_COLUMNS:
            raise _rejected(f"{path.name} has {columns:,} columns", "expected row ids and one column of predictions")
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


def read_universe(path: Path) -> Universe:
    """Read the cells of a synthetic table from a JSON file.

    Raises:
        QueryRejected: If the file does not hold a universe.
        OSError: If it cannot be read.
    """
    from everhold.wire.cells import universe_from

    return universe_from(_parsed(path), called=path.name)


def _parsed(path: Path) -> Any:
    if path.stat().st_size > _MOST_BYTES:
        raise _rejected(f"{path.name} is too large for a universe", f"expected at most {_MOST_BYTES:,} bytes")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def read_function(place: str) -> Callable[..., Any]:
    """The function of this name in a Python file, which is run.

    Args:
        place: Such as ``pulls.py:pull``.

    Raises:
        QueryRejected: If there is no such file or function, or the file fails.
    """
    path, _, name = place.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        raise _rejected(
            f"{place!r} names no function", "expected a Python file and a name in it, such as pulls.py:pull"
        )
    spec = spec_from_file_location(f"everhold_code_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the module of their own
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        raise _rejected(f"{Path(path).name} fails with {type(fault).__name__}: {fault}", "correct the file") from fault
    function = getattr(module, name, None)
    if not callable(function):
        raise _rejected(f"{Path(path).name} has no function {name!r}", "expected the name of one of its functions")
    called: Callable[..., Any] = function
    return called


def _rejected(problem: str, advice: str) -> QueryRejected:
    return QueryRejected(f"{problem}; {advice}; nothing was charged")
