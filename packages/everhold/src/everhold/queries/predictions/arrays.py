"""Checks of the predictions of analysts, and their order by row ids.

The checks use public facts, so a refusal costs nothing. Row ids are public, too: analysts need them to predict, so
messages may say what is wrong with them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief, listed
from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.base import Schema

MOST_CHARACTERS = 1_000
"""Longest predicted text: an array of texts takes as much memory for each one as for the longest."""

_NOT_COUNTED = (
    "The predictions have an index that does not count the rows, so they may be in another order. Pass "
    "predictions.to_numpy() if they are in the order of the rows, or else a table with row ids."
)
_SHOWN = 3
_MOST_CLASSES = 5
_MOST_LISTED = 10
_LONGEST_CLASS = 40


@dataclass(frozen=True, slots=True, eq=False)
class PredictionTable:
    """A table of predictions, usually with a column of row ids.

    Attributes:
        columns: Values by name, all equally many.
        name: Name of the table in messages.
        column: Name of the column of predictions, if there are several columns besides the ids.
        counted: False if the index of a data frame is not 0, 1, 2 and so on: its rows may be in another order.
    """

    columns: Mapping[str, Any]
    name: str = "The table of predictions"
    column: str | None = None
    counted: bool = True

    def in_order(
        self, row_id: str | None, ids: Sequence[Any], *, rows_are: str, others: Callable[[], Sequence[Any]] = tuple,
        numbers: bool = False, check: Callable[[NDArray[Any]], object] | None = None,
    ) -> Any:  # fmt: skip
        """Return the predictions, one for each row in the order of the rows.

        Args:
            row_id: Name of the column of ids; None if the rows have no ids. The table then has to be in the order of
                the rows.
            ids: Public ids of the rows, numbers or text, each once; not needed without a name.
            rows_are: The name of the rows in messages, "sealed" or "training".
            others: Function that reads the ids of other rows, whose predictions are left out.
            numbers: True if all predictions have to be numbers.
            check: Function that checks predictions in the order of the table, so that a message names the row of the
                table.

        Raises:
            QueryRejected: If an id is missing, there twice or unknown, if the column of predictions cannot be told from
                others, or if a prediction is missing or not a number where it has to be. Nothing is charged.
        """
        self._check_named(row_id)
        if row_id is None and not self.counted:
            raise QueryRejected(_NOT_COUNTED)
        column = self._values_column(row_id)
        values = self.columns[column]
        values = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        self._check_cells(column, values, numbers=numbers)
        if row_id is None:
            return values
        order, count = self.order(row_id, ids, rows_are=rows_are, others=others), len(self.columns[row_id])
        if values.shape != (count,):
            raise QueryRejected(
                f"{self.name} has {count:,} ids and predictions of the shape {values.shape}. Pass one prediction for "
                f"each id, as in {_example(row_id)}."
            )
        if order is None:
            return values
        if check is not None:
            check(values)
        return values[order]

    def order(
        self, row_id: str, ids: Sequence[Any], *, rows_are: str, others: Callable[[], Sequence[Any]] = tuple
    ) -> NDArray[np.intp] | None:
        """Return the position in the table of each row's prediction, or None if the order is the same.

        Raises:
            QueryRejected: If an id is missing, there twice or unknown. Nothing is charged.
        """
        self._check_named(row_id)
        given = self._ids(row_id, text=bool(ids) and isinstance(ids[0], str))
        if given == ids:
            return None
        known = dict(zip(ids, range(len(ids)), strict=True))
        places = np.fromiter(map(known.get, given, repeat(-1)), dtype=np.intp, count=len(given))
        mine, unknown = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        if len(unknown) and (further := frozenset(others())):
            unknown = unknown[[given[place] not in further for place in unknown.tolist()]]
        counts = np.bincount(places[mine], minlength=len(ids))
        doubles, lacking = np.flatnonzero(counts > 1), np.flatnonzero(counts == 0)
        faults = ids_refused(
            [(len(unknown), [given[place] for place in unknown[:_SHOWN].tolist()]),
             (len(doubles), [ids[place] for place in doubles[:_SHOWN].tolist()]),
             (len(lacking), [ids[place] for place in lacking[:_SHOWN].tolist()])],
            name=self.name, row_id=row_id, rows=len(ids), rows_are=rows_are,
        )  # fmt: skip
        if faults is not None:
            raise faults
        order = np.empty(len(ids), dtype=np.intp)
        order[places[mine]] = mine
        return order

    def _check_named(self, row_id: str | None) -> None:
        if row_id is not None and row_id not in self.columns:
            raise QueryRejected(
                f"{self.name} has the columns {listed(self.columns)} and no {row_id!r}, which names this holdout's "
                f"rows. Pass {_example(row_id)}."
            )

    def _values_column(self, row_id: str | None) -> str:
        """Return the name of the column of predictions: the named one, or the only one besides the ids."""
        others = [name for name in self.columns if name != row_id]
        if self.column is not None:
            if self.column not in others:
                raise QueryRejected(
                    f"{self.name} has no predictions in a column {self.column!r}. Name one of {listed(others)}."
                )
            return self.column
        if len(others) == 1:
            return others[0]
        unnamed = (
            "" if row_id is not None else ", and this holdout was created without row_id=, so that no ids are used"
        )
        raise QueryRejected(
            f"{self.name} has the columns {listed(self.columns)}{unnamed}. Pass one column of predictions, as in "
            f"{_example(row_id)}, or name it with --column."
        )

    def _check_cells(self, column: str, values: NDArray[Any], *, numbers: bool) -> None:
        """Raise QueryRejected if a prediction is missing, or is not a number where it must be one.

        Raises:
            QueryRejected: If a prediction is missing, or not a number where it has to be. The message names its row in
                the table, and quotes it.
        """
        given, kind = np.ma.getdata(values), values.dtype.kind
        wrong = missing = np.ma.getmaskarray(values)
        if kind in "OTU" and values.ndim == 1:
            items = given.tolist()
            wrong = missing = missing | np.array([_is_missing(item) for item in items], dtype=bool)
            if numbers:
                wrong = missing | np.array([not _is_finite(item) for item in items], dtype=bool)
        if values.ndim == 1 and wrong.any():
            place = int(np.argmax(wrong))
            found = "no prediction" if missing[place] else brief(given[place].item() if kind == "U" else given[place])
            raise QueryRejected(
                f"{self.name} has {found} in row {place + 1:,} of the column {column!r}. Pass "
                f"{'a number' if numbers else 'a prediction'} in each row.",
                row=place + 1,
            )

    def _ids(self, row_id: str, *, text: bool) -> list[Any]:
        """Return the ids as text or as numbers. As numbers 7 and 7.0 are equal; as text "7" and "07" differ."""
        column = self.columns[row_id]
        missing = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else np.zeros(0, dtype=bool)
        array = np.asarray(column)
        given: list[Any] = array.tolist() if array.ndim == 1 else []
        kinds_given = set(map(type, given))
        absent = int(missing.sum()) or (0 if kinds_given <= {int, str} else sum(map(_is_missing, given)))
        if array.ndim != 1 or absent:
            fault = f"{absent:,} empty ids" if array.ndim == 1 else f"ids of the shape {array.shape}"
            raise QueryRejected(f"{self.name} has {fault}. Pass one id in each row, as in {_example(row_id)}.")
        if bool in kinds_given or not all(issubclass(kind, str if text else Number) for kind in kinds_given):
            kinds = ("text", "numbers") if text else ("numbers", "not numbers")
            raise QueryRejected(
                f"{self.name} has ids that are {kinds[1]}, and the ids of this holdout are {kinds[0]}. Pass ids of the "
                f"same kind{', with all their zeros' if text else ''}, as in {_example(row_id)}."
            )
        return given


def ids_refused(
    found: Sequence[tuple[int, Sequence[Any]]], *, name: str, row_id: str, rows: int, rows_are: str
) -> QueryRejected | None:
    """Return the error about wrong ids, or None if all are right.

    Args:
        found: Three pairs of a number and the first ids that it counts: ids that no row has, ids that occur more than
            once, and ids of rows without a prediction.
        name: The name of the table in messages.
        row_id: Name of the column of ids.
        rows: Number of rows for which predictions are needed.
        rows_are: The name of the rows in messages, "sealed" or "training".
    """
    what = (f"ids that no {rows_are} row has", "ids more than once", f"of the {rows_are} rows' ids not at all")
    faults = [
        f"{count:,} {said} ({', '.join(brief(each, longest=40) for each in some)}"
        f"{', ...' if count > len(some) else ''})"
        for said, (count, some) in zip(what, found, strict=True) if count
    ]  # fmt: skip
    if not faults:
        return None
    return QueryRejected(
        f"{name} has {' and '.join(faults)} in column {row_id!r}. Pass each of the {rows:,} ids of the {rows_are} "
        f"rows once, in any order, as in {_example(row_id)}."
    )


def prediction_table(predictions: object) -> PredictionTable | None:
    """Return predictions as a `PredictionTable` if they have columns, or None for arrays.

    Raises:
        QueryRejected: If two columns have one name. Nothing is charged.
    """
    if predictions is None or isinstance(predictions, (PredictionTable, np.ndarray, type)):
        return predictions if isinstance(predictions, PredictionTable) else None
    source: Any = predictions
    # Labels of rows that say nothing but their order; lists have a method of that name.
    index = getattr(source, "index", None)
    counted = index is None or callable(index) or np.array_equal(np.asarray(index), np.arange(len(index)))
    if isinstance(source, Mapping):
        return _table(list(source), source.__getitem__)
    if hasattr(source, "index") and hasattr(source, "to_numpy") and not hasattr(source, "columns"):  # a pandas series
        if source.index.name is not None and not counted:
            columns = {str(source.index.name): source.index, "prediction": source.to_numpy()}
            return _table(list(columns), columns.__getitem__)
        if not counted:
            raise QueryRejected(_NOT_COUNTED)
        return None
    if hasattr(source, "column_names") and hasattr(source, "column"):  # Arrow
        return _table(source.column_names, source.column)
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):  # pandas and Polars
        return replace(_table(list(source.columns), source.__getitem__), counted=counted)
    return None


def _table(names: Sequence[Any], column: Any) -> PredictionTable:
    if len({str(name) for name in names}) < len(names):
        raise QueryRejected("The predictions have two columns of the same name. Rename one of them.")
    return PredictionTable({str(name): column(name) for name in names})


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _is_finite(value: object) -> bool:
    """Return whether a value is a finite number, or a text that spells one."""
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _example(row_id: str | None) -> str:
    """Return an example of a file of predictions in words."""
    if row_id is None:
        return 'a column "prediction" with "1", "0", ... in the order of the rows'
    return f'a table such as "{row_id},prediction", "17,1", "18,0"'


def first_of(wrong: NDArray[np.bool_], predictions: NDArray[Any]) -> str:
    """Return words that name the first wrong prediction and its row, from 1 in the order in which they were passed.

    Examples:
        >>> first_of(np.array([False, True]), np.array([0.0, np.nan]))
        'row 2 has nan'
    """
    place = int(np.argmax(wrong))
    found = np.atleast_1d(predictions)[place].tolist()
    return f"row {place + 1:,} has {_shown(found)}"


def check_classes(predictions: NDArray[Any], schema: Schema, *, what: str) -> None:
    """Check, by public facts, that all predictions name classes of the label.

    A text must be equal to a class character by character, including case and blanks. Numbers are compared as numbers,
    so 1 and 1.0 are the same class. Truth values are the classes 0 and 1 only if these are the two classes. If labels
    are declared open, any value except a number with decimals may be a class.

    Raises:
        QueryRejected: If a prediction is no class of the label, or no class is known. Nothing is charged.
    """
    check_known(schema)
    floats = predictions.dtype.kind == "f"
    if floats and not bool(np.all(np.isfinite(predictions))):
        raise QueryRejected(
            f"{what} hold nan or infinite numbers: {first_of(~np.isfinite(predictions), predictions)}. Pass a label "
            "for each row."
        )
    if predictions.dtype.kind == "b" and schema.label_kind != "binary":
        expected, hint = known_classes(schema)
        raise QueryRejected(
            f"{what} are true or false, and the classes of the label are not 0 and 1. {expected} {hint}"
        )
    if strange := predictions[is_strange := are_no_class(predictions, schema)].tolist():
        classes, (expected, hint) = schema.label_classes, known_classes(schema)
        unknown = [each for each, _ in Counter(strange).most_common(_MOST_CLASSES)]
        more = ", ..." if len(set(strange)) > len(unknown) else ""
        every = f". {len(strange):,} are such as {', '.join(map(_shown, unknown))}{more}" if len(strange) > 1 else ""
        raise QueryRejected(
            f"{what} are no labels: {first_of(is_strange, predictions)}{every}. {expected} "
            f"{_look_alike(unknown, classes) or hint}",
            unknown=[_plain(each) for each in unknown],
            known=[_plain(each) for each in (classes or ())[:_MOST_LISTED]],
        )


def are_no_class(predictions: NDArray[Any], schema: Schema) -> NDArray[np.bool_]:
    """Return which predictions name no class of the label, shape (rows,)."""
    if schema.label_classes is not None:
        classes = np.array(schema.label_classes, dtype=str if predictions.dtype.kind == "U" else np.float64)
        return np.asarray(~np.isin(predictions, classes), dtype=np.bool_)
    if predictions.dtype.kind != "f":
        return np.zeros(len(predictions), dtype=bool)
    return np.asarray(~np.isfinite(predictions) | (predictions != np.floor(predictions)), dtype=np.bool_)


def check_known(schema: Schema) -> None:
    """Raise QueryRejected if the classes of the label are unknown, so that no class can be compared with them.

    Raises:
        QueryRejected: If no class of the label is known. Nothing is charged.
    """
    if schema.label_classes == ():
        raise QueryRejected(
            f"The classes of the label {schema.label!r} are not known, because none were declared and the training "
            "rows do not show them. Create the holdout with classes=[...] (--classes), or ask risk(...) about "
            "measured numbers."
        )


def known_classes(schema: Schema) -> tuple[str, str]:
    """Return two sentences for a message: which classes are expected, and what to do about other values."""
    classes, hint = schema.label_classes, "Check their spelling."
    if classes is None:
        expected = "Pass a class for each row, a whole number or a text."
    else:
        some, more = ", ".join(map(_shown, classes[:_MOST_LISTED])), ", ..." if len(classes) > _MOST_LISTED else ""
        where = "" if schema.label_kind == "binary" else ", the classes of the label,"
        expected = f"Pass one of {some}{more}{where} for each row."
    if schema.label_kind in ("binary", "number"):
        hint = (
            "Ask brier(...) about probabilities." if schema.label_kind == "binary" else "Ask risk(...) about numbers."
        )
    return expected, hint


def _look_alike(unknown: Sequence[Any], classes: Sequence[Any] | None) -> str:
    """Return advice if an unknown class differs from a known one only in case or blanks, else an empty text."""
    alike = {each.strip().casefold(): each for each in classes or () if isinstance(each, str)}
    for text in unknown:
        known = alike.get(text.strip().casefold()) if isinstance(text, str) else None
        if known is not None:
            return f"{_shown(text)} is not {_shown(known)}. Check case and blanks."
    return ""


def check_lengths(texts: Iterable[str]) -> None:
    """Raise QueryRejected if a text is too long to be a prediction, before an array is made of the texts."""
    longest = max(map(len, texts), default=0)
    if longest > MOST_CHARACTERS:
        raise QueryRejected(f"A prediction has {longest:,} characters, more than {MOST_CHARACTERS:,}. Shorten it.")


def _shown(value: object) -> str:
    return brief(_plain(value), longest=_LONGEST_CLASS)


def _plain(value: Any) -> Any:
    """Return a class as people write it, with 1 for 1.0. A long text is shortened."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value[: 2 * _LONGEST_CLASS] if isinstance(value, str) else value


def probabilities(estimator: Any, features: Any, positive: Any = None) -> NDArray[Any]:
    """Return the estimator's probabilities of label 1, or of another class.

    Args:
        estimator: A fitted estimator with ``predict_proba``.
        features: Features of the rows, as the estimator takes them.
        positive: The class whose probabilities are returned, if it is not label 1. Then the estimator must name its
            classes.

    Raises:
        QueryRejected: If the estimator does not know these classes. Nothing is charged.
    """
    found, classes = np.asarray(estimator.predict_proba(features)), getattr(estimator, "classes_", None)
    if positive is not None:
        known = [] if classes is None else np.asarray(classes).tolist()
        if positive in known and found.shape == (len(found), len(known)):
            return np.asarray(found[:, known.index(positive)])
        raise QueryRejected(
            f"The estimator gives probabilities of the shape {found.shape} for the classes {_shown(known)}, and none "
            f"of {_shown(positive)}. Pass an estimator with classes_ that was fitted on rows of this class."
        )
    if found.ndim != 2 or found.shape[1] != 2 or (classes is not None and np.asarray(classes).tolist() != [0, 1]):
        told = "" if classes is None else f" for the classes {_shown(np.asarray(classes).tolist())}"
        raise QueryRejected(
            f"The estimator gives probabilities of the shape {found.shape}{told}. Pass one that was fitted on labels "
            "0 and 1, so that it gives two columns."
        )
    return np.asarray(found[:, 1])


# Rows of a query among all sealed rows, where rows arrived: predictions for all of them are cut to those of the query.
#
# The tree that answers follows from public facts and may be about the latest rows alone (S13). An analyst has
# predictions for every sealed row, and need not know which tree answers.


@dataclass(frozen=True, slots=True)
class RowSpan:
    """The position of a query's rows among all sealed rows, in order of arrival. It is public.

    Attributes:
        start: Number of sealed rows before the query's rows; negative if some of these are retired.
        rows: Number of rows of the query.
        total: Number of all sealed rows.
        ids: Function that reads the public ids of all rows ever sealed; empty if rows have no ids.
    """

    start: int
    rows: int
    total: int
    ids: Callable[[], Sequence[Any]]

    def cut(self, predictions: Any, *, what: str = "The predictions") -> Any:
        """Return the predictions for the query's rows, selected from those for all sealed rows.

        Args:
            predictions: An array, a list or a series. Other objects, and predictions for the query's rows alone, are
                returned unchanged.
            what: The name of the predictions in messages.

        Raises:
            QueryRejected: If the number of predictions is neither that of the query's rows nor that of all rows.
                Nothing is charged.
        """
        if isinstance(predictions, str | type) or hasattr(predictions, "predict"):
            return predictions
        try:
            count = len(predictions)
        except TypeError:
            return predictions
        if count == self.rows or self.rows == self.total:
            return predictions
        if count != self.total or self.start < 0:
            expected = f"{self.total:,} for all sealed rows, or {self.rows:,} for those that this query is about"
            raise QueryRejected(f"{what} are {count:,}. Pass {expected}, in the order of their arrival.")
        given = predictions if isinstance(predictions, (list, tuple, np.ndarray)) else np.asarray(predictions)
        return given[self.start : self.start + self.rows]
