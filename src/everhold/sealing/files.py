"""Sealing: rows are checked, written once to Parquet, and fingerprinted."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.errors import HoldoutRejected
from everhold.private_files import create_private
from everhold.progress import progress
from everhold.sealing.duckdb_files import file_pattern, spilling_into
from everhold.sealing.engines.base import POSITION
from everhold.sealing.equal_rows import check_equal_rows
from everhold.sealing.fingerprints import fingerprint
from everhold.sealing.reading import (
    MOST_ROWS,
    RowSource,
    check_size,
    column_kinds,
    read_rows,
    reading_errors_hidden,
)
from everhold.values.expressions.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import duckdb

    from everhold.values.expressions import ColumnKind

__all__ = ["HOLDOUT_FILE", "TRAINING_FILE", "SealedFiles", "is_missing", "seal_rows"]

HOLDOUT_FILE = "holdout.parquet"
TRAINING_FILE = "training.parquet"
_ROWS_OF_A_CLASS = 10  # training rows, on average, from which on labels are classes and no open texts or measurements
_MOST_CLASSES = 1_000


@dataclass(frozen=True, slots=True)
class SealedFiles:
    """What was written, in public facts.

    Attributes:
        rows: Number of sealed rows.
        training_rows: Number of training rows; 0 without a training set.
        columns: Kind of each column, by name.
        label_kind: ``"binary"``, ``"number"`` or ``"string"``; None without a label.
        label_classes: Different labels of the training rows, where they are so few that they are classes; else None.
        fingerprint: SHA-256 of the holdout's file.
        training_fingerprint: SHA-256 of the training file; None without a training set.
    """

    rows: int
    training_rows: int
    columns: dict[str, ColumnKind]
    label_kind: str | None
    label_classes: tuple[str | float, ...] | None
    fingerprint: str
    training_fingerprint: str | None


def seal_rows(
    folder: Path,
    *,
    holdout: RowSource,
    training: RowSource | None,
    label: str | None,
    row_id: str | None,
    most_rows: int = MOST_ROWS,
    equal_rows: bool = False,
) -> SealedFiles:
    """Check the rows and write them to an existing, private folder.

    Args:
        folder: Where the Parquet files go.
        holdout: The rows to seal.
        training: Open rows of the same columns.
        label: Column that holds the truth, for accuracy and the like.
        row_id: Column that names rows, each of them once; holdout and training rows may share no id.
        most_rows: The most rows that either table may have.
        equal_rows: Whether equal rows on both sides are meant to be there, and are no copies.

    Raises:
        HoldoutRejected: If the rows cannot be sealed as they stand.
    """
    with spilling_into(folder) as connection, progress("writing and checking rows", 5) as line:
        read_rows(connection, holdout, name="holdout_source", what="holdout", most_rows=most_rows)
        columns = column_kinds(connection.view("holdout_source"))
        _check_names(columns)
        sets = ["holdout"]
        if training is not None:
            read_rows(connection, training, name="training_source", what="training", most_rows=most_rows)
            _check_same_columns(columns, column_kinds(connection.view("training_source")))
            sets.append("training")
        counts = {}
        for done, what in enumerate(sets, 1):
            counts[what] = _write(connection, what, columns, folder / f"{what}.parquet")
            line(done)
        label_kind = None if label is None else _label_kind(connection, label, columns, sets)
        classes = None if label is None or training is None else _classes(connection, label, label_kind)
        for what, rows in counts.items():
            check_size(rows=rows, columns=None, most_rows=most_rows, what=what)  # a stream does not say it before
        line(3)
        if row_id is not None:
            _check_row_ids(connection, row_id, columns, has_training=training is not None)
        line(4)
        if training is not None and not equal_rows:
            with reading_errors_hidden("training"):
                check_equal_rows(connection, columns, row_id=row_id)
    return SealedFiles(
        rows=counts["holdout"],
        training_rows=counts.get("training", 0),
        columns=columns,
        label_kind=label_kind,
        label_classes=classes,
        fingerprint=fingerprint(folder / HOLDOUT_FILE),
        training_fingerprint=None if training is None else fingerprint(folder / TRAINING_FILE),
    )


def _scalar(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    row = connection.execute(sql).fetchall()[0]
    return row[0]


def is_missing(name: str, columns: Mapping[str, ColumnKind]) -> str:
    """SQL that says whether a column that exists has no value in a row; nan is none."""
    column = quoted(name)
    return f"{column} IS NULL" + (f" OR isnan({column}::DOUBLE)" if columns[name].value == "number" else "")


def _check_names(columns: dict[str, ColumnKind]) -> None:
    if POSITION in map(str.lower, columns):
        raise HoldoutRejected(
            f"a column is called {POSITION!r}, a name the engine needs; rename it; nothing was created"
        )


def _check_same_columns(holdout: dict[str, ColumnKind], training: dict[str, ColumnKind]) -> None:
    if holdout == training:
        return
    missing = [name for name in holdout if name not in training]
    added = [name for name in training if name not in holdout]
    other = [name for name in holdout if name in training and holdout[name] != training[name]]
    faults = [
        f"{fault} {', '.join(map(repr, names))}"
        for fault, names in (("training lacks", missing), ("holdout lacks", added), ("types differ for", other))
        if names
    ]
    raise HoldoutRejected(
        f"holdout and training have different columns ({'; '.join(faults)}); expected the same names and types; "
        "nothing was created",
        missing=missing,
        added=added,
        different=other,
    )


def _check_column(name: str, columns: dict[str, ColumnKind], *, what: str) -> None:
    if name not in columns:
        raise HoldoutRejected(
            f"the {what} column {name!r} does not exist; expected one of {', '.join(columns)}; nothing was created"
        )


def _label_kind(
    connection: duckdb.DuckDBPyConnection, label: str, columns: dict[str, ColumnKind], sets: Sequence[str]
) -> str:
    _check_column(label, columns, what="label")
    column = quoted(label)
    kind = columns[label].value
    if kind in ("time", "other"):
        raise HoldoutRejected(
            f"the label column {label!r} holds neither numbers nor text nor booleans; nothing was created"
        )
    missing = is_missing(label, columns)
    for what in sets:
        if _scalar(connection, f"SELECT count(*) FROM {what} WHERE {missing}"):
            raise HoldoutRejected(
                f"the label column {label!r} has missing values in the {what} rows; expected a label in every row; "
                "drop those rows; nothing was created"
            )
    if kind == "string":
        return "string"
    kinds = {
        what: "binary" if _scalar(connection, f"SELECT bool_and({column}::DOUBLE IN (0, 1)) FROM {what}") else "number"
        for what in sets
    }
    if len(set(kinds.values())) > 1:  # analysts see the kind: it must not tell more than the training rows do
        raise HoldoutRejected(
            f"the label column {label!r} holds only 0 and 1 in one of holdout and training, but not in the other; "
            "expected the same labels in both; nothing was created"
        )
    return kinds["holdout"]


def _classes(
    connection: duckdb.DuckDBPyConnection, label: str, label_kind: str | None
) -> tuple[str | float, ...] | None:
    """The classes that the training labels have: of the sealed ones nothing may be told."""
    if label_kind == "binary":
        return None
    column = quoted(label)
    distinct, rows = connection.execute(f"SELECT count(DISTINCT {column}), count(*) FROM training").fetchall()[0]
    if distinct > min(rows // _ROWS_OF_A_CLASS, _MOST_CLASSES):
        return None
    kind = "VARCHAR" if label_kind == "string" else "DOUBLE"
    found = connection.execute(f"SELECT DISTINCT {column}::{kind} FROM training ORDER BY 1").fetchall()
    return tuple(value for (value,) in found)


def _check_row_ids(
    connection: duckdb.DuckDBPyConnection, row_id: str, columns: dict[str, ColumnKind], *, has_training: bool
) -> None:
    _check_column(row_id, columns, what="row id")
    column = quoted(row_id)
    missing = is_missing(row_id, columns)
    for what in ("holdout", "training")[: 1 + has_training]:
        rows, different = connection.execute(
            f"SELECT count(*), count(DISTINCT CASE WHEN {missing} THEN NULL ELSE {column} END) FROM {what}"
        ).fetchall()[0]
        if different < rows:
            raise HoldoutRejected(
                f"the column {row_id!r} has {different:,} different row ids for {rows:,} {what} rows; expected one for "
                "each row and none missing, because predictions are joined by it; name another column or none; nothing "
                "was created"
            )
    if not has_training:
        return
    sql = f"SELECT count(DISTINCT {column}) FROM holdout WHERE {column} IN (SELECT {column} FROM training)"
    with reading_errors_hidden("holdout"):
        shared = _scalar(connection, sql)
    if shared:
        raise HoldoutRejected(
            f"{shared} row ids of column {row_id!r} are in the holdout and in the training set; expected none; "
            "a holdout that was trained on proves nothing: remove them from one of the two; nothing was created",
            shared=shared,
        )


def _write(connection: duckdb.DuckDBPyConnection, what: str, columns: dict[str, ColumnKind], path: Path) -> int:
    """Write the source of these rows, which is read this once; a view of the file replaces it. Returns their number."""
    names = ", ".join(map(quoted, columns))  # both files get the holdout's order of columns
    escaped = str(path).replace("'", "''")
    salt = secrets.token_hex(32)  # the fingerprint is public: without it, guessed rows could be checked against it
    with reading_errors_hidden(what):
        os.close(create_private(path))  # the engine would create it as the umask says
        connection.execute(
            f"COPY (SELECT {names} FROM {what}_source) TO '{escaped}' "
            f"(FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, KV_METADATA {{everhold_salt: '{salt}'}})"
        )
        path.chmod(0o400)
        connection.read_parquet(file_pattern(path), hive_partitioning=False).create_view(what)
        rows = int(_scalar(connection, f"SELECT count(*) FROM {what}"))
    if rows == 0:
        raise HoldoutRejected(f"the {what} table is empty; expected at least one row; nothing was created")
    return rows
