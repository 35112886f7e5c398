"""Sealing: rows are checked, written once to Parquet, and fingerprinted."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.arguments import brief
from everhold.errors import HoldoutRejected
from everhold.private_files import create_private
from everhold.progress import progress
from everhold.sealing.configuration import Categories, SealedFiles
from everhold.sealing.intake.checks import (
    FileSide,
    check_names,
    check_not_shared,
    check_row_ids,
    check_same_columns,
    label_facts,
    warn_of_texts,
)
from everhold.sealing.intake.duckdb_files import (
    column_kinds,
    copy_rows,
    file_pattern,
    hold_rows,
    limit_memory,
    spilling_into,
    view_files,
)
from everhold.sealing.intake.reading import check_size, read_together, reading_errors_hidden
from everhold.sealing.rows.embedded import fingerprint
from everhold.sealing.splits import check_equal_rows
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from everhold.sealing.intake.reading import RowSource
    from everhold.sealing.intake.request import SealRequest


def _first_text(connection: duckdb.DuckDBPyConnection, name: str, kind: ColumnKind, open_kind: ColumnKind) -> str:
    """Return a sentence about the first value that is not a number, empty if none is found.

    It quotes training rows and never sealed rows.
    """
    if {kind, open_kind} != {ColumnKind.NUMBER, ColumnKind.STRING}:
        return ""
    is_open = open_kind is ColumnKind.STRING
    rows = connection.view("training_source" if is_open else "holdout_source")
    numbered = rows.project(f"row_number() OVER () AS place, {quoted(name)} AS cell")
    found = numbered.filter("cell IS NOT NULL AND try_cast(cell AS DOUBLE) IS NULL").limit(1).fetchall()
    if not found:
        return ""
    ((place, cell),) = found
    shown = brief(cell) if is_open else "no number"
    return f"Row {place:,} of the {'training rows' if is_open else 'rows to seal'} has {shown} in {name!r}. "


def seal_rows(folder: Path, request: SealRequest) -> SealedFiles:
    """Check the rows and write them to an existing, private folder.

    Args:
        folder: Folder for the Parquet files.
        request: The rows, as files or tables that can be copied. Holdout and training rows may share no row id.

    Raises:
        HoldoutRejected: If the rows cannot be sealed as they stand.
    """
    training, row_id, most_rows = request.training, request.rows.row_id, request.rows.most_rows
    with spilling_into(folder) as connection, progress("writing and checking rows", 5) as line:
        sources = {"holdout": request.holdout} | ({} if training is None else {"training": training})
        read_together(connection, sources, most_rows=most_rows)
        columns = column_kinds(connection.view("holdout_source"))
        check_names(columns)
        limit_memory(connection, len(columns))
        if training is not None:
            open_columns = column_kinds(connection.view("training_source"))
            check_same_columns(
                columns, open_columns, lambda name: _first_text(connection, name, columns[name], open_columns[name])
            )
        sets = list(sources)
        counts = {}
        for done, what in enumerate(sets, 1):
            counts[what] = write_rows(connection, what, columns, folder / f"{what}.parquet")
            line(done)
        sides = [FileSide(connection, what, columns) for what in sets]
        kind, known = label_facts(request.label, columns, sides, declared=request.rows.classes)
        for what, rows in counts.items():
            check_size(rows=rows, columns=None, most_rows=most_rows, what=what)  # a stream does not say it before
        line(3)
        if row_id is not None:
            check_row_ids(row_id, columns, sides)
            if training is not None:
                with reading_errors_hidden("holdout"):
                    check_not_shared(connection, row_id)
        line(4)
        categories: Categories = {}
        if training is not None:
            with reading_errors_hidden("training"):
                categories = training_categories(connection, training)
                categories |= declared_categories(connection, request)
                warn_of_texts(connection, columns, row_id=row_id)
                if not request.rows.equal_rows:
                    check_equal_rows(connection, columns, row_id=row_id)
    return SealedFiles(
        rows=counts["holdout"],
        training_rows=counts.get("training", 0),
        columns=columns,
        label_kind=kind,
        label_classes=known,
        fingerprint=fingerprint(folder / HOLDOUT_FILE),
        training_fingerprint=None if training is None else fingerprint(folder / TRAINING_FILE),
        categories=categories,
    )


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


# Categories of categorical columns: estimators such as LightGBM need the type that they were fitted on.
#
# The sealed file holds texts and numbers. The categories are those of the training table, which is public, so a sealed
# value that is none of them reaches an estimator as a missing one.

_MOST_CATEGORIES = 10_000


def training_categories(connection: duckdb.DuckDBPyConnection, training: RowSource) -> Categories:
    """Return the categories of each categorical column of the training table, in their order.

    A Parquet file that pandas wrote says which columns are categorical; their categories are the sorted values. A
    column with more than 10,000 categories, or with others than texts, numbers and truth values, is left out.

    Args:
        connection: Holds the training rows as the view ``training``.
        training: The training table that the caller passed, see `RowSource`.
    """
    is_file = isinstance(training, (str, Path))
    found = _of_file(connection, Path(training)) if is_file else _of_frame(training)
    return {name: values for name, values in found.items() if _usable(values)}


def declared_categories(connection: duckdb.DuckDBPyConnection, request: SealRequest) -> Categories:
    """Return the training values of each column that the steward declared to hold categories, in order.

    Raises:
        HoldoutRejected: If such a column is not there, is the label or the row id, or cannot hold categories.
    """
    found: Categories = {}
    for name in request.rows.categories:
        known = name in connection.view("training").columns and name not in (request.label, request.rows.row_id)
        values = _values(connection, name) if known else []
        if not values or not _usable(values):
            raise HoldoutRejected(
                f"{name!r:.100} cannot hold categories. Name a feature with 1 to {_MOST_CATEGORIES:,} different "
                "training values that are texts, numbers or truth values."
            )
        found[name] = values
    return found


def _usable(values: Sequence[object]) -> bool:
    """Return whether the values of a column are few and of one plain type, so that they can be categories."""
    plain = all(isinstance(value, (str, int, float)) for value in values)
    return plain and len({type(value) for value in values}) == 1 and len(values) <= _MOST_CATEGORIES


def _of_frame(training: RowSource) -> Categories:
    """Return the categories of the categorical columns of a frame."""
    import narwhals.stable.v1 as nw

    frame = nw.from_native(training, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return {}
    kinds = frame.schema.items()
    categorical = [name for name, kind in kinds if isinstance(kind, (nw.Categorical, nw.Enum))]
    return {str(name): frame[name].cat.get_categories().drop_nulls().to_list() for name in categorical}


def _of_file(connection: duckdb.DuckDBPyConnection, path: Path) -> Categories:
    """Return the values of the columns that were categorical when pandas wrote a Parquet file."""
    if path.suffix.lower() != ".parquet":
        return {}
    wrote = connection.execute(
        "SELECT decode(value) FROM parquet_kv_metadata($1) WHERE decode(key) = 'pandas'", [file_pattern(path)]
    ).fetchall()
    columns = json.loads(wrote[0][0]).get("columns", []) if wrote else []
    names = [str(column["name"]) for column in columns if column.get("pandas_type") == "categorical"]
    return {name: _values(connection, name) for name in names if name in connection.view("training").columns}


def _values(connection: duckdb.DuckDBPyConnection, name: str) -> list[str | int | float | bool]:
    """Return the different values of a training column in order, at most one more than the limit."""
    column = quoted(name)
    found = connection.execute(
        f"SELECT DISTINCT {column} FROM training WHERE {column} IS NOT NULL ORDER BY 1 LIMIT {_MOST_CATEGORIES + 1}"
    ).fetchall()
    return [value for (value,) in found]
