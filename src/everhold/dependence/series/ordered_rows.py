"""Training rows as series: columns of any table, put in order and cut where rows are missing."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ONE_STEP", "as_text", "in_order", "ordered_runs"]

ONE_STEP = 0.1
"""By which share of itself a step may differ from the usual one: 28 days are within a tenth of 31."""

_FEWEST_STEPS = 0.5  # of the pairs of neighbours that are one step apart
_MICROSECOND = datetime.timedelta(microseconds=1)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?")


def in_order(table: Any, *, order_by: str, value: str, groups: str | None) -> list[NDArray[Any]]:
    """The runs alone of `ordered_runs`, with its arguments and errors."""
    return ordered_runs(table, order_by=order_by, value=value, groups=groups)[0]


def ordered_runs(
    table: Any, *, order_by: str, value: str, groups: str | None
) -> tuple[list[NDArray[Any]], float | None]:
    """The values of a column in runs of rows that follow each other by one step, and how long a step is.

    A step is the median distance of neighbours in the order, up to a tenth. Series are cut where rows are missing, for
    a longer step tells of less dependence. Where they are cut depends on the order column only. The usual step that is
    returned is the mean of those that count, which for months is 30.4 days, whatever the months.

    Args:
        table: Data frame that narwhals understands (pandas, Polars, Arrow, ...), or mapping of names to arrays.
        order_by: Column to sort by.
        value: Column to return.
        groups: Column whose equal values make a series; None for one series.

    Returns:
        One array per run, in the order of the groups' values and then of the rows; and the usual step in units of the
        order column, seconds for times, None without any.

    Raises:
        DependenceError: If a column does not exist, values are missing, two rows of a series share a place, or most
            neighbours are not one step apart.
    """
    wanted = [order_by, value] if groups is None else [order_by, value, groups]
    order, values, *rest = _columns(table, wanted)
    places, unit = _comparable(order, order_by)
    series = _codes(rest[0], str(groups)) if rest else np.zeros(len(order), dtype=np.int64)
    sorting = np.lexsort((places, series))
    same = np.diff(series[sorting]) == 0
    steps = np.diff(places[sorting]).astype(np.float64)  # whatever the unit of time
    ties = int(np.sum(same & (steps == 0.0)))
    if ties:
        raise DependenceError(
            f"{ties} training rows share their place in column {order_by!r} with the row before; expected one row per "
            "step; name the column that tells series apart as `groups`, or thin the rows out",
            rows=ties,
        )
    counted = same & _one_step(steps, same, order_by)
    runs = np.split(values[sorting], np.flatnonzero(~counted) + 1)
    return list(runs), float(np.mean(steps[counted])) * unit if counted.any() else None


def _one_step(steps: NDArray[np.float64], same: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    """Which neighbours are one usual step apart; one of the steps themselves is the median."""
    inside = np.sort(steps[same])
    if not len(inside):
        return np.zeros(len(steps), dtype=bool)
    usual = float(inside[(len(inside) - 1) // 2])
    near = np.asarray(np.abs(steps - usual) <= ONE_STEP * usual)
    share = float(np.mean(near[same]))
    if share < _FEWEST_STEPS:
        raise DependenceError(
            f"only {share:.0%} of the training rows follow the row before by one usual step in column {name!r}; "
            "expected even steps, at least half of them; order the rows by a column that counts the steps"
        )
    return near


def as_text(values: NDArray[Any]) -> NDArray[Any]:
    """States as text: whole numbers without a point, truth values in lower case.

    Raises:
        DependenceError: If values are not text, whole numbers or truth values.
    """
    return np.array([_text(value) for value in values.tolist()], dtype=object)


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise DependenceError(
        f"a state is of type {type(value).__name__}; expected text, whole numbers or truth values; cut a continuous "
        "column into a few classes first"
    )


def _columns(table: Any, names: list[str]) -> list[NDArray[Any]]:
    held, known = _held(table, names)
    absent = [name for name in names if name not in held]
    if absent:
        raise DependenceError(
            f"the training rows have no column {absent[0]!r}; expected one of {', '.join(map(repr, known)) or 'none'}"
        )
    columns = [held[name] for name in names]
    lengths = {name: column.shape for name, column in zip(names, columns, strict=True)}
    if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} {shape}" for name, shape in lengths.items())
        raise DependenceError(f"the columns have the shapes {told}; expected as many values in each, one per row")
    for name, column in zip(names, columns, strict=True):
        missing = _missing(column)
        if missing:
            raise DependenceError(
                f"{missing} training rows have no value in column {name!r}; expected every row of a series; fill the "
                "column or leave such series out",
                rows=missing,
            )
    return columns


def _held(table: Any, names: list[str]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """The named columns as far as they exist, and the names of all columns."""
    if isinstance(table, Mapping):
        held = {str(name): column for name, column in table.items()}
        return {name: _array(name, held[name]) for name in names if name in held}, list(held)
    try:
        frame = nw.from_native(table)
    except TypeError:
        raise DependenceError(
            f"the training rows are of type {type(table).__name__}; expected a data frame, or a mapping of names to "
            "columns"
        ) from None
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return {name: eager[name].to_numpy() for name in names if name in eager.columns}, eager.columns


def _array(name: str, column: Any) -> NDArray[Any]:
    """An array that keeps what it holds: NumPy would turn numbers among text into text."""
    try:
        made = np.asarray(column)
    except ValueError:
        raise DependenceError(
            f"the column {name!r} holds lists of different lengths; expected one value per row"
        ) from None
    if made.dtype.kind in "US" and not isinstance(column, np.ndarray):
        return np.array(list(column), dtype=object)
    return made


def _missing(column: NDArray[Any]) -> int:
    if column.dtype.kind in "mM":
        return int(np.sum(np.isnat(column)))
    if column.dtype.kind in "iub":
        return 0
    return sum(map(_absent, column.tolist()))


def _absent(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # not-a-number differs from itself
    except TypeError:  # and nobody knows whether pandas.NA does
        return True


def _comparable(order: NDArray[Any], name: str) -> tuple[NDArray[Any], float]:
    """An order column as numbers or times, and its unit: 1 for numbers, seconds for times.

    Text is refused, for '10' comes before '9', unless it is an ISO time.
    """
    if order.dtype.kind == "f" and np.isinf(order).any():
        raise DependenceError(
            f"{int(np.isinf(order).sum())} training rows have an infinite value in column {name!r}; expected finite"
        )
    if order.dtype.kind in "iuf":
        return order, 1.0
    if order.dtype.kind in "mM":
        return order.astype(f"{'datetime64' if order.dtype.kind == 'M' else 'timedelta64'}[us]"), 1e-6
    values = order.tolist()
    if all(isinstance(value, str) and _ISO.fullmatch(value) for value in values):
        return np.array(values, dtype="datetime64[us]"), 1e-6
    aware = {getattr(value, "tzinfo", None) is not None for value in values}
    if len(aware) == 1 and all(isinstance(value, datetime.date) for value in values):
        return np.array([_microseconds(value) for value in values], dtype=np.int64), 1e-6
    raise DependenceError(
        f"the column {name!r} does not put rows in order: it holds text or mixed values, and '10' comes before '9'; "
        "expected numbers, dates or times; make a column of such a type"
    )


def _microseconds(when: datetime.date) -> int:
    """Time since 1970, of a date or time with or without a zone."""
    if not isinstance(when, datetime.datetime):
        return (when.toordinal() - datetime.date(1970, 1, 1).toordinal()) * 86_400_000_000
    return (when - datetime.datetime(1970, 1, 1, tzinfo=when.tzinfo and datetime.UTC)) // _MICROSECOND


def _codes(column: NDArray[Any], name: str) -> NDArray[np.int64]:
    """The rank of every value among the different ones."""
    try:
        return np.asarray(np.unique(column, return_inverse=True)[1], dtype=np.int64)
    except TypeError:
        raise DependenceError(
            f"the column {name!r} holds values of different kinds; expected one kind, such as text only"
        ) from None
