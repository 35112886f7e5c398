"""What rows have to be before they are sealed: columns, labels and row ids, of files and of tables in an engine alike.

What is refused says no more of the sealed rows than it has to: counts, and never a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from everhold.errors import HoldoutRejected
from everhold.sealing.engines.base import POSITION
from everhold.values.expressions import ColumnKind, RowValue, parse, totals_sql
from everhold.values.expressions.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from everhold.sealing.engines.base import Engine

__all__ = [
    "FileSide", "Side", "TableSide", "check_names", "check_not_shared", "check_row_ids", "check_same_columns",
    "classes_of", "count_respelled", "is_missing", "label_kind", "same_id",
]  # fmt: skip

_ROWS_OF_A_CLASS = 10  # training rows, on average, from which on labels are classes and no open texts or measurements
_MOST_CLASSES = 1_000


class Side(Protocol):
    """The sealed or the training rows, to be counted.

    Attributes:
        what: How messages call the rows, "holdout" or "training".
        rows: Their number.
    """

    @property
    def what(self) -> str:
        """See above."""

    @property
    def rows(self) -> int:
        """See above."""

    def missing(self, name: str) -> int:
        """Number of rows without a value in a column; nan is none."""

    def different(self, name: str) -> int:
        """Number of different values of a column."""

    def is_binary(self, name: str) -> bool:
        """Whether a column of numbers or truth values holds nothing but 0 and 1."""

    def values(self, name: str) -> list[Any]:
        """The different values of a column in order, texts or doubles."""


@dataclass(frozen=True, slots=True)
class FileSide:
    """Rows of a view in DuckDB that is called as the side is."""

    connection: duckdb.DuckDBPyConnection
    what: str
    columns: Mapping[str, ColumnKind]

    @property
    def rows(self) -> int:
        """See `Side`."""
        return int(self._one("count(*)"))

    def missing(self, name: str) -> int:
        """See `Side`."""
        return int(self._one(f"count(*) FILTER ({is_missing(name, self.columns)})"))

    def different(self, name: str) -> int:
        """See `Side`."""
        there = f"CASE WHEN {is_missing(name, self.columns)} THEN NULL ELSE {quoted(name)} END"
        return int(self._one(f"count(DISTINCT {there})"))

    def is_binary(self, name: str) -> bool:
        """See `Side`."""
        return bool(self._one(f"bool_and({quoted(name)}::DOUBLE IN (0, 1))"))

    def values(self, name: str) -> list[Any]:
        """See `Side`."""
        read_as = "VARCHAR" if self.columns[name] is ColumnKind.STRING else "DOUBLE"
        found = self.connection.execute(f"SELECT DISTINCT {quoted(name)}::{read_as} FROM {self.what}").fetchall()
        return sorted(value for (value,) in found)

    def _one(self, aggregate: str) -> Any:
        return self.connection.execute(f"SELECT {aggregate} FROM {self.what}").fetchall()[0][0]


@dataclass(frozen=True, slots=True)
class TableSide:
    """Rows of a table in an engine, which counts; conditions are everhold's own expressions, as in questions."""

    engine: Engine
    columns: Mapping[str, ColumnKind]
    rows: int
    what: str = "holdout"

    def missing(self, name: str) -> int:
        """See `Side`."""
        if self.columns[name] is ColumnKind.OTHER:
            return int(self._one(f"count(*) - count({self.engine.dialect.column(name)})"))
        return self._where(f"{quoted(name)} is null")

    def different(self, name: str) -> int:
        """See `Side`; nan, which is no value, may be counted as one."""
        return int(self._one(f"count(DISTINCT {self.engine.dialect.column(name)})"))

    def is_binary(self, name: str) -> bool:
        """See `Side`."""
        column = quoted(name)
        return self.columns[name] is ColumnKind.BOOLEAN or self._where(f"{column} = 0 or {column} = 1") == self.rows

    def values(self, name: str) -> list[Any]:
        """See `Side`."""
        dialect, text = self.engine.dialect, self.columns[name] is ColumnKind.STRING
        value = (dialect.text if text else dialect.number).format(dialect.column(name))
        return sorted(value for (value,) in self.engine.rows(f"SELECT DISTINCT {value} AS v FROM {self._rows}"))

    def count(self, condition: str) -> int:
        """Number of rows with a condition in the engine's own words."""
        return int(self.engine.rows(f"SELECT count(*) FROM {self._rows} WHERE {condition}")[0][0])

    @property
    def _rows(self) -> str:
        return f"{self.engine.source} AS {self.engine.dialect.rows}"

    def _where(self, condition: str) -> int:
        value = RowValue(parse(condition, self.columns))
        statement = totals_sql([value], self.engine.source, unit=1, dialect=self.engine.dialect)
        return int(self.engine.rows(statement)[0][0])

    def _one(self, aggregate: str) -> Any:
        return self.engine.rows(f"SELECT {aggregate} FROM {self._rows}")[0][0]


def same_id(column: str) -> str:
    """SQL of an id as it is meant: without outer spaces, case, leading zeros of a number and its ``.0``."""
    text = f"lower(upper(nfc_normalize(trim(regexp_replace({quoted(column)}::VARCHAR, '[\\s\\pZ]+', ' ', 'g')))))"
    return f"regexp_replace({text}, '^0*([0-9]+)([.]0*)?$', '\\1')"


def count_respelled(connection: duckdb.DuckDBPyConnection, column: str, sets: Sequence[str]) -> int:
    """Number of ids of a column of text that are spelled in two or more ways in these views, taken together."""
    name = quoted(column)
    ids = " UNION ".join(f"SELECT {name} FROM {what} WHERE {name} IS NOT NULL" for what in sets)
    meant = f"SELECT {same_id(column)} AS id FROM ({ids}) GROUP BY 1 HAVING count(*) > 1"
    return int(connection.execute(f"SELECT count(*) FROM ({meant})").fetchall()[0][0])


def is_missing(name: str, columns: Mapping[str, ColumnKind]) -> str:
    """SQL that says whether a column that exists has no value in a row; nan is none."""
    column = quoted(name)
    return f"{column} IS NULL" + (f" OR isnan({column}::DOUBLE)" if columns[name].value == "number" else "")


def check_names(columns: Mapping[str, ColumnKind]) -> None:
    """Refuse a column that is called as the engine calls the places of rows.

    Raises:
        HoldoutRejected: If there is one.
    """
    if POSITION in map(str.lower, columns):
        raise HoldoutRejected(
            f"a column is called {POSITION!r}, a name the engine needs; rename it; nothing was created"
        )


def check_same_columns(holdout: Mapping[str, ColumnKind], training: Mapping[str, ColumnKind]) -> None:
    """Check that both sides have the same columns, in whatever order.

    Raises:
        HoldoutRejected: If not.
    """
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


def _check_column(name: str, columns: Mapping[str, ColumnKind], *, what: str) -> None:
    if name not in columns:
        raise HoldoutRejected(
            f"the {what} column {name!r} does not exist; expected one of {', '.join(columns)}; nothing was created"
        )


def label_kind(label: str, columns: Mapping[str, ColumnKind], sides: Sequence[Side]) -> str:
    """What the labels are: ``"binary"``, ``"number"`` or ``"string"``.

    Raises:
        HoldoutRejected: If they are nothing of that, are missing somewhere, or are not the same on both sides.
    """
    _check_column(label, columns, what="label")
    kind = columns[label].value
    if kind in ("time", "other"):
        raise HoldoutRejected(
            f"the label column {label!r} holds neither numbers nor text nor booleans; nothing was created"
        )
    for side in sides:
        if side.missing(label):
            raise HoldoutRejected(
                f"the label column {label!r} has missing values in the {side.what} rows; expected a label in every "
                "row; drop those rows; nothing was created"
            )
    if kind == "string":
        return "string"
    kinds = {"binary" if side.is_binary(label) else "number" for side in sides}
    if len(kinds) > 1:  # analysts see the kind: it must not tell more than the training rows do
        raise HoldoutRejected(
            f"the label column {label!r} holds only 0 and 1 in one of holdout and training, but not in the other; "
            "expected the same labels in both; nothing was created"
        )
    return kinds.pop()


def classes_of(training: Side, label: str, kind: str | None) -> tuple[str | float, ...] | None:
    """The classes that the training labels have, where they are so few that they are classes; else None.

    Of the sealed ones nothing may be told.
    """
    if kind == "binary" or training.different(label) > min(training.rows // _ROWS_OF_A_CLASS, _MOST_CLASSES):
        return None
    return tuple(training.values(label))


def check_row_ids(row_id: str, columns: Mapping[str, ColumnKind], sides: Sequence[Side]) -> None:
    """Check that every row has an id of its own, on each side.

    Raises:
        HoldoutRejected: If not.
    """
    _check_column(row_id, columns, what="row id")
    for side in sides:
        rows, different = side.rows, side.different(row_id)
        if side.missing(row_id) or different < rows:
            raise HoldoutRejected(
                f"the column {row_id!r} has {min(different, rows):,} different row ids for {rows:,} {side.what} rows; "
                "expected one for each row and none missing, because predictions are joined by it; name another "
                "column or none; nothing was created"
            )


def check_not_shared(connection: duckdb.DuckDBPyConnection, row_id: str) -> None:
    """Check that no row id is in both of the views ``holdout`` and ``training``.

    Raises:
        HoldoutRejected: If one is.
    """
    column = quoted(row_id)
    types = connection.execute(f"SELECT DISTINCT typeof({column}) FROM holdout").fetchall()
    if types == [("VARCHAR",)]:
        column = same_id(row_id)
    sql = f"SELECT count(DISTINCT {column}) FROM holdout WHERE {column} IN (SELECT {column} FROM training)"
    shared = int(connection.execute(sql).fetchall()[0][0])
    if shared:
        raise HoldoutRejected(
            f"{shared} row ids of column {row_id!r} are in the holdout and in the training set; expected none; "
            "a holdout that was trained on proves nothing: remove them from one of the two; ids that differ only in "
            "case, spaces or leading zeros count as the same; nothing was created",
            shared=shared,
        )
