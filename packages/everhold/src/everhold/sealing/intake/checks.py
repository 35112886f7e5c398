"""Checks of rows before sealing: columns, labels and row ids, of files and of tables in an engine alike.

A refusal tells only counts of sealed rows, and never a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from everhold.arguments import advice_for, as_float, brief
from everhold.errors import ColumnWarning, HoldoutRejected, warn_caller
from everhold.sealing.intake.duckdb_files import POSITION, spilling_into, view_files
from everhold.sealing.storage import TRAINING_FILE
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

OPEN: Literal["open"] = "open"
"""Declares that labels are free texts or numbers, so that any prediction may be right."""

Classes = Sequence[str | float] | Literal["open"]

_ROWS_OF_A_CLASS = 10  # training rows, on average, from which on labels are classes and no open texts or measurements
_MOST_CLASSES = 1_000


class Side(Protocol):
    """Protocol for the sealed rows or the training rows, with the counts that checks need.

    Attributes:
        what: Name of the rows in messages, "holdout" or "training".
        rows: Number of rows of this side.
    """

    @property
    def what(self) -> str:
        """How messages call the rows, "holdout" or "training"."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def missing(self, name: str) -> int:
        """Return the number of rows without a value in a column. A nan counts as missing."""

    def different(self, name: str) -> int:
        """Return the number of different values of a column."""

    def is_binary(self, name: str) -> bool:
        """Return whether a column of numbers or booleans contains only 0 and 1."""

    def values(self, name: str) -> list[Any]:
        """Return the different values of a column in order, as texts or doubles."""


_AT_ONCE = 256  # columns


@dataclass(frozen=True, slots=True)
class FileSide:
    """Sealed or training rows in DuckDB, as a view named "holdout" or "training"."""

    connection: duckdb.DuckDBPyConnection
    what: str
    columns: Mapping[str, ColumnKind]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self._one("count(*)"))

    def missing(self, name: str) -> int:
        """Return the number of rows without a value in a column. A nan counts as missing."""
        return int(self._one(f"count(*) FILTER ({is_missing(name, self.columns)})"))

    def different(self, name: str) -> int:
        """Return the number of different values of a column."""
        there = f"CASE WHEN {is_missing(name, self.columns)} THEN NULL ELSE {quoted(name)} END"
        return int(self._one(f"count(DISTINCT {there})"))

    def is_binary(self, name: str) -> bool:
        """Return whether a column of numbers or booleans contains only 0 and 1."""
        return bool(self._one(f"bool_and({quoted(name)}::DOUBLE IN (0, 1))"))

    def values(self, name: str) -> list[Any]:
        """Return the different values of a column in order, as texts or doubles."""
        read_as = "VARCHAR" if self.columns[name] is ColumnKind.STRING else "DOUBLE"
        found = self.connection.execute(f"SELECT DISTINCT {quoted(name)}::{read_as} FROM {self.what}").fetchall()
        return sorted(value for (value,) in found)

    def _one(self, aggregate: str) -> Any:
        return self.connection.execute(f"SELECT {aggregate} FROM {self.what}").fetchall()[0][0]


def same_id(column: str) -> str:
    """Return SQL for one spelling of an id: lower case, without outer spaces, leading zeros or ``.0`` of a number."""
    text = f"lower(upper(nfc_normalize(trim(regexp_replace({quoted(column)}::VARCHAR, '[\\s\\pZ]+', ' ', 'g')))))"
    return f"regexp_replace({text}, '^0*([0-9]+)([.]0*)?$', '\\1')"


def count_respelled(connection: duckdb.DuckDBPyConnection, column: str, sets: Sequence[str]) -> int:
    """Return the number of ids in a text column that occur in several spellings in the given views."""
    name = quoted(column)
    ids = " UNION ".join(f"SELECT DISTINCT {name} FROM {what} WHERE {name} IS NOT NULL" for what in sets)
    meant = f"SELECT {same_id(column)} AS id FROM ({ids}) GROUP BY 1 HAVING count(*) > 1"
    return int(connection.execute(f"SELECT count(*) FROM ({meant})").fetchall()[0][0])


def is_missing(name: str, columns: Mapping[str, ColumnKind]) -> str:
    """Return SQL for whether a column has no value in a row. A nan counts as missing."""
    column = quoted(name)
    return f"{column} IS NULL" + (f" OR isnan({column}::DOUBLE)" if columns[name].value == "number" else "")


def lacking_columns(
    rows_of: Callable[[str], Sequence[Sequence[Any]]], columns: Mapping[str, ColumnKind], source: str
) -> frozenset[str]:
    """Return the columns that have no value in some row.

    Args:
        rows_of: Function that runs a statement of DuckDB and returns its rows.
        columns: Kind of each column, by name.
        source: SQL that follows FROM.
    """
    names, found = list(columns), list[bool]()
    for start in range(0, len(names), _AT_ONCE):
        tests = ", ".join(f"bool_or({is_missing(name, columns)})" for name in names[start : start + _AT_ONCE])
        found += rows_of(f"SELECT {tests} FROM {source}")[0]
    return frozenset(name for name, missing in zip(names, found, strict=True) if missing)


def check_names(columns: Mapping[str, ColumnKind]) -> None:
    """Refuse a column with the name that the engine uses for the positions of rows.

    Raises:
        HoldoutRejected: If a column has this name.
    """
    if POSITION in map(str.lower, columns):
        raise HoldoutRejected(f"A column is named {POSITION!r}, which is reserved. Rename that column.")


def check_same_columns(
    holdout: Mapping[str, ColumnKind], training: Mapping[str, ColumnKind],
    cell_of: Callable[[str], str] = lambda _: "",
) -> None:  # fmt: skip
    """Check that sealed and training rows have the same columns, in any order.

    Args:
        holdout: Kinds of the columns of the rows to seal.
        training: Kinds of the columns of the training rows.
        cell_of: Function from the name of a column, text on one side and number on the other, to a sentence about its
            first cell that is no number.

    Raises:
        HoldoutRejected: If the columns differ.
    """
    if holdout == training:
        return
    missing = [name for name in holdout if name not in training]
    added = [name for name in training if name not in holdout]
    other = [name for name in holdout if name in training and holdout[name] != training[name]]
    differ = [f"{name!r} ({holdout[name].value} and {training[name].value})" for name in other]
    faults = [
        f"{fault} {', '.join(names)}"
        for fault, names in (
            ("training lacks", [*map(repr, missing)]),
            ("holdout lacks", [*map(repr, added)]),
            ("types differ for", differ),
        )
        if names
    ]
    raise HoldoutRejected(
        "The holdout rows and the training rows have different columns: "
        f"{' and '.join(faults)}. {''.join(map(cell_of, other[:1]))}Give both the same names and types.",
        missing=missing,
        added=added,
        different=other,
    )


def _check_column(name: str, columns: Mapping[str, ColumnKind], *, what: str) -> None:
    """Check that a named column exists."""
    if name not in columns:
        raise HoldoutRejected(f"The {what} column {name!r} does not exist. {advice_for(name, columns)}")


def label_facts(
    label: str | None, columns: Mapping[str, ColumnKind], sides: Sequence[Side], *, declared: Classes | None
) -> tuple[str | None, tuple[str | float, ...] | None]:
    """Return the kind of the labels, and the classes that a prediction may name. Both are None without a label.

    Args:
        label: The label column.
        columns: Kind of each column.
        sides: The sealed rows, and the training rows if there are any.
        declared: Declared classes, as `checked_classes` returns them.

    Raises:
        HoldoutRejected: If the labels cannot be used, or are not the declared ones.
    """
    if label is None:
        return None, None
    kind = _label_kind(label, columns, sides, declared=declared)
    return kind, _classes_of(label, kind, sides, declared=declared)


def _label_kind(
    label: str, columns: Mapping[str, ColumnKind], sides: Sequence[Side], *, declared: Classes | None
) -> str:
    """Return the kind of the labels: ``"binary"``, ``"number"`` or ``"string"``.

    If classes are declared, they decide whether the labels are 0 and 1, because the rows may lack a class.

    Raises:
        HoldoutRejected: If labels are of another kind, if a label is missing, or if sealed and training labels are of
            different kinds.
    """
    _check_column(label, columns, what="label")
    kind = columns[label].value
    if kind in ("time", "other"):
        raise HoldoutRejected(
            f"The label column {label!r} has neither numbers nor text nor booleans. Convert its values."
        )
    for side in sides:
        if side.missing(label):
            raise HoldoutRejected(
                f"The label column {label!r} has missing values in the {side.what} rows. Drop those rows."
            )
    if kind == "string":
        return "string"
    if declared is not None and declared != OPEN:
        return "binary" if _as_numbers(declared) == {0.0, 1.0} else "number"
    kinds = {"binary" if side.is_binary(label) else "number" for side in sides}
    if len(kinds) > 1:  # analysts see the kind: it must not tell more than the training rows do
        raise HoldoutRejected(
            f"The label column {label!r} has only 0 and 1 in one of the two tables, and other values in the other one. "
            "Code the labels alike in the holdout rows and the training rows."
        )
    return kinds.pop()


def _classes_of(
    label: str, kind: str, sides: Sequence[Side], *, declared: Classes | None
) -> tuple[str | float, ...] | None:
    """Return the classes that a prediction may name, from public facts alone, or None if it may name any class.

    These are the declared classes. Without a declaration they are the training labels, if there are few enough
    different ones to be classes. Sealed labels are never used. Without declared classes and few enough training labels,
    labels that are numbers have no known classes: they may be measurements, and a query that needs classes is refused.

    Raises:
        HoldoutRejected: If labels are not among the declared classes, or labels are texts whose classes are unknown.
    """
    if declared == OPEN:
        return None
    if declared is not None:
        return _among_labels(label, kind, sides, declared)
    if kind == "binary":
        return None
    training = sides[1] if len(sides) > 1 else None
    different = 0 if training is None else training.different(label)
    if training is not None and different <= min(training.rows // _ROWS_OF_A_CLASS, _MOST_CLASSES):
        return tuple(training.values(label))
    if kind == "string":
        known = "there are no training rows" if training is None else f"training has {different:,} different labels"
        raise HoldoutRejected(
            f"The classes of the label {label!r} are not known: {known}. Pass rows=eh.Rows(classes=[...]) (--classes "
            "A,B), or classes='open' (--classes open) if labels are free text."
        )
    return ()


def _among_labels(
    label: str, kind: str, sides: Sequence[Side], declared: Sequence[str | float]
) -> tuple[str | float, ...] | None:
    """Return declared classes in the type of the labels, after a check that they cover all labels. None for 0 and 1."""
    classes: set[Any] | None = set(declared)
    if kind != "string":
        classes = _as_numbers(declared)
    elif any(not isinstance(each, str) for each in declared):
        classes = None
    if classes is None:
        expected = "texts, as in classes=['1', '2']" if kind == "string" else "numbers, as in classes=[1, 2]"
        raise HoldoutRejected(
            f"The declared classes are not of the type of the labels in column {label!r}. Pass {expected}."
        )
    for side in sides:
        unknown = side.different(label)
        if unknown <= len(classes):
            unknown = sum(each not in classes for each in side.values(label))
        if unknown:
            raise HoldoutRejected(
                f"The {side.what} rows have {unknown:,} different labels in column "
                f"{label!r}, and some of them are none of the {len(classes):,} declared "
                "classes. Declare every label in classes=, with the same case and spaces."
            )
    return None if kind == "binary" else tuple(sorted(classes))


def _as_numbers(declared: Sequence[str | float]) -> set[float] | None:
    """Return declared classes as numbers, or None if a class is neither a number nor the text of a number."""
    try:
        return {float(each) for each in declared}
    except ValueError:
        return None


def checked_classes(classes: Any) -> Classes | None:
    """Check declared classes, and return them as plain texts and numbers.

    Raises:
        ValueError: If ``classes`` is not a list of at least two different texts or numbers.
    """
    if classes is None or (isinstance(classes, str) and classes == OPEN):
        return classes
    given = None if isinstance(classes, (str, Mapping)) or not isinstance(classes, Iterable) else list(classes)
    plain = [_plain_class(each) for each in given or []]
    if not 2 <= len(plain) <= _MOST_CLASSES or None in plain or len({*plain}) < len(plain):
        raise ValueError(
            f"classes is {brief(classes)}. Pass 2 to {_MOST_CLASSES:,} different texts or numbers, each the exact "
            f"value of a label, or {OPEN!r} if labels are free text."
        )
    return tuple(each for each in plain if each is not None)


def _plain_class(value: Any) -> str | float | None:
    """Return a class as a text or a number, or None for another type. 1 and 1.0 are the same class, '1' is not."""
    if isinstance(value, str):
        return str(value)
    number = as_float(value)
    return number if math.isfinite(number) else None


def check_row_ids(row_id: str, columns: Mapping[str, ColumnKind], sides: Sequence[Side]) -> None:
    """Check that row ids are unique among the sealed rows and among the training rows.

    Raises:
        HoldoutRejected: If an id is missing or occurs twice.
    """
    _check_column(row_id, columns, what="row id")
    for side in sides:
        rows, different = side.rows, side.different(row_id)
        if side.missing(row_id) or different < rows:
            raise HoldoutRejected(
                f"The row id column {row_id!r} has {min(different, rows):,} different values in {rows:,} {side.what} "
                "rows. Pass a column with a different value in every row, or no row_id."
            )


def check_not_shared(connection: duckdb.DuckDBPyConnection, row_id: str) -> None:
    """Check that no row id is in both of the views ``holdout`` and ``training``.

    Raises:
        HoldoutRejected: If a row id is in both tables.
    """
    column = quoted(row_id)
    types = connection.execute(f"SELECT DISTINCT typeof({column}) FROM holdout").fetchall()
    if types == [("VARCHAR",)]:
        column = same_id(row_id)
    sql = f"SELECT count(DISTINCT {column}) FROM holdout WHERE {column} IN (SELECT {column} FROM training)"
    shared = int(connection.execute(sql).fetchall()[0][0])
    if shared:
        raise HoldoutRejected(
            f"{shared:,} row ids of column {row_id!r} are in both the holdout rows and the training rows. Remove these "
            "rows from one of the two. Ids that differ only in case, spaces or leading zeros count as equal.",
            shared=shared,
        )


# Columns of texts that may not mean what they say: numbers with a few other texts, and words for missing values.
#
# The training rows alone are looked at. The steward is told which columns lack values in sealed rows alone.

_MOSTLY = 0.99  # share of numbers among the texts of a column from which on it seems to be one of numbers
_TEXTS_AT_ONCE = 25
_MISSING = ("na", "n/a", "#n/a", "<na>", "nan", "null")  # 'none' and '-' may be categories
_NUMBER = r"[-+]?(\d+|\d{1,3}([.,]\d{3})+)?([.,]\d*)?([eE][-+]?\d+)?"


def warn_of_texts(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, ColumnKind], *, row_id: str | None
) -> None:
    """Warn about text columns that are nearly all numbers, or that hold words for missing values.

    Args:
        connection: Connection with the view ``training``.
        columns: Kind of each column, by name.
        row_id: Column that names rows, of which nobody is warned.

    Warns:
        ColumnWarning: If there are such columns.
    """
    names = [name for name, kind in columns.items() if kind is ColumnKind.STRING and name != row_id]
    words = ", ".join(map(repr, _MISSING))
    for start in range(0, len(names), _TEXTS_AT_ONCE):
        some = names[start : start + _TEXTS_AT_ONCE]
        counted = []
        for name in some:
            text = f"trim({quoted(name)}::VARCHAR)"
            missing = f"lower({text}) IN ({words})"
            known = f"({text} <> '' AND NOT {missing})"
            bare = f"regexp_replace({text}, '[\\s\\pZ$€£¥%]', '', 'g')"
            number = f"(regexp_full_match({bare}, '{_NUMBER}') AND regexp_matches({text}, '\\d'))"
            counted += [
                f"count(*) FILTER ({known})", f"count(*) FILTER ({missing})",
                f"count(*) FILTER ({known} AND {number})",
                f"count(*) FILTER ({known} AND regexp_full_match({text}, '0\\d+'))",
                f"min({text}) FILTER ({known} AND NOT {number})",
            ]  # fmt: skip
        found = connection.execute(f"SELECT {', '.join(counted)}, count(*) FROM training").fetchall()[0]
        rows = found[-1]
        for place, name in enumerate(some):
            texts, absent, numbers, codes, other = found[5 * place : 5 * place + 5]
            if texts and numbers >= _MOSTLY * texts and not codes:
                share = "all" if numbers == texts else f"{1_000 * numbers // texts / 10:g}%"
                warn_caller(ColumnWarning(
                    f"The column {name!r} holds text, and {share} of its training values are numbers"
                    f"{'' if other is None else f', but not {brief(other)}'}. Write numbers without other signs, and "
                    "leave out what is missing, if it is meant as a number."
                ))  # fmt: skip
            elif absent:
                warn_caller(ColumnWarning(
                    f"The column {name!r} holds text, and {absent:,} of {rows:,} training rows hold a word such as "
                    "'NA', which is a text like others. Leave the value out, if it is meant as missing."
                ))  # fmt: skip


def warn_of_missing(names: Collection[str], *, of: str = "Sealed rows") -> None:
    """Warn about columns that have missing values only in sealed rows. Queries that read such a column are refused.

    Args:
        names: The columns, in their order.
        of: Name of the rows in the warning.

    Warns:
        ColumnWarning: If there are such columns.
    """
    if found := list(names):
        named = ", ".join(map(repr, found[:5])) + (" and others" if len(found) > 5 else "")
        warn_caller(ColumnWarning(
            f"{of} lack values of {named}, and training rows do not show it. Queries that read one are refused, unless "
            f"they ask about rows that have a value, as with given={brief(f'{quoted(found[0])} is not null')}, or the "
            "holdout is created with rows=eh.Rows(missing=...) (--missing), which says what counts."
        ))  # fmt: skip


def lacking_rows(folder: Path, columns: Mapping[str, ColumnKind]) -> dict[str, int]:
    """Return the number of training rows with a missing value, for each column that has missing values.

    Args:
        folder: Folder with the file of the training rows.
        columns: Kind of each column, by name.
    """
    names, found = list(columns), dict[str, int]()
    with spilling_into(folder) as connection:
        view_files(connection, "training", folder / TRAINING_FILE)
        for start in range(0, len(names), _TEXTS_AT_ONCE):
            some = names[start : start + _TEXTS_AT_ONCE]
            counted = ", ".join(f"count(*) FILTER ({is_missing(name, columns)})" for name in some)
            counts = connection.execute(f"SELECT {counted} FROM training").fetchall()[0]
            found |= dict(zip(some, counts, strict=True))
    return {name: int(count) for name, count in found.items() if count}
