"""Fits of time-series models to training rows, with sets of parameters that hold with a stated probability.

Columns of any table are put in order and cut where rows are missing. The sets are valid however often the series
visited each state. Proofs are in docs/theory/series.md.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from everhold.arguments import advice_for
from everhold.dependence.base import ISO_TIME, ONE_STEP
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_FEWEST_STEPS = 0.5  # of the pairs of neighbours that are one step apart
_MICROSECOND = datetime.timedelta(microseconds=1)
_OUTWARD = 1e-12  # added to every radius against rounding
_FEWEST_VALUES, _MOST_EQUAL = 20, 0.1


def ordered_runs(
    table: Any, *, order_by: str, value: str, groups: str | None
) -> tuple[list[NDArray[Any]], float | None]:
    """Return the values of a column in runs of rows at regular steps, and the length of a step.

    Two neighbours are one step apart if their distance is within a tenth of the median distance. A series is cut where
    rows are missing, because a longer step shows less dependence. The order column alone decides the cuts. The returned
    step is the mean of the distances that count: for months it is 30.4 days.

    Args:
        table: Data frame that narwhals understands (pandas, Polars, Arrow, ...), or mapping of names to arrays.
        order_by: Name of the column by which the rows are sorted.
        value: Name of the column whose values are returned.
        groups: Column whose equal values make a series; None for one series.

    Returns:
        One array for each run, in the order of the groups' values and then of the rows; and the usual step in units of
            the order column (seconds for times), or None if no two rows are one step apart.

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
            f"{ties} training rows have the same value in column {order_by!r} as the row before. Name the column that "
            "tells series apart as groups=..., or keep one row per step.",
            rows=ties,
        )
    inside, near = np.sort(steps[same]), np.zeros(len(steps), dtype=bool)
    if len(inside):
        usual = float(inside[(len(inside) - 1) // 2])
        near = np.asarray(np.abs(steps - usual) <= ONE_STEP * usual)
        if (share := float(np.mean(near[same]))) < _FEWEST_STEPS:
            raise DependenceError(
                f"Only {share:.0%} of the training rows follow the row before by one usual step in column "
                f"{order_by!r}. Order the rows by a column that counts the steps."
            )
    counted = same & near
    runs = np.split(values[sorting], np.flatnonzero(~counted) + 1)
    return list(runs), float(np.mean(steps[counted])) * unit if counted.any() else None


def as_text(values: NDArray[Any]) -> NDArray[Any]:
    """Return states as texts: whole numbers without a decimal point, and truth values in lower case."""
    return np.array([_text(value) for value in values.tolist()], dtype=object)


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise DependenceError(
        f"A state is of type {type(value).__name__}. Use texts, whole numbers or truth values, and cut a continuous "
        "column into a few classes first."
    )


def _columns(table: Any, names: list[str]) -> list[NDArray[Any]]:
    """Return the named columns of a table, after checking that each has one value for every row."""
    if isinstance(table, Mapping):
        columns_of = {str(name): column for name, column in table.items()}
        held, known = {name: _array(name, columns_of[name]) for name in names if name in columns_of}, list(columns_of)
    else:
        import narwhals.stable.v1 as nw  # slow to import, and needed here alone

        try:
            frame = nw.from_native(table)
        except TypeError:
            raise DependenceError(
                f"The training rows are of type {type(table).__name__}. Pass a data frame, or a mapping of names to "
                "columns."
            ) from None
        eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        held, known = {name: eager[name].to_numpy() for name in names if name in eager.columns}, eager.columns
    absent = [name for name in names if name not in held]
    if absent:
        raise DependenceError(f"The training rows have no column {absent[0]!r}. {advice_for(absent[0], known)}")
    columns = [held[name] for name in names]
    lengths = {name: column.shape for name, column in zip(names, columns, strict=True)}
    if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} {shape}" for name, shape in lengths.items())
        raise DependenceError(f"The columns have the shapes {told}. Pass one value per row in each column.")
    for name, column in zip(names, columns, strict=True):
        missing = _missing(column)
        if missing:
            raise DependenceError(
                f"{missing} training rows have no value in column {name!r}. Fill the column, or leave such series out.",
                rows=missing,
            )
    return columns


def _array(name: str, column: Any) -> NDArray[Any]:
    """Return a column as an array. Numbers in a column that also has texts stay numbers."""
    try:
        made = np.asarray(column)
    except ValueError:
        raise DependenceError(
            f"The column {name!r} holds lists of different lengths. Pass one value per row."
        ) from None
    if made.dtype.kind in "US" and not isinstance(column, np.ndarray):
        return np.array(list(column), dtype=object)
    return made


def _missing(column: NDArray[Any]) -> int:
    if column.dtype.kind in "mM":
        return int(np.sum(np.isnat(column)))
    if column.dtype.kind in "iub":
        return 0
    missing = 0
    for value in column.tolist():
        try:
            missing += value is None or bool(value != value)  # not-a-number differs from itself
        except TypeError:  # and nobody knows whether pandas.NA does
            missing += 1
    return missing


def _comparable(order: NDArray[Any], name: str) -> tuple[NDArray[Any], float]:
    """Return an order column as numbers or times, and its unit: 1 for numbers, seconds for times.

    Texts are refused unless they are ISO times, because the text '10' comes before '9'.
    """
    if order.dtype.kind == "f" and np.isinf(order).any():
        raise DependenceError(
            f"{int(np.isinf(order).sum())} training rows have an infinite value in column {name!r}. Leave these rows "
            "out, or correct them."
        )
    if order.dtype.kind in "iuf":
        return order, 1.0
    if order.dtype.kind in "mM":
        return order.astype(f"{'datetime64' if order.dtype.kind == 'M' else 'timedelta64'}[us]"), 1e-6
    values = order.tolist()
    if all(isinstance(value, str) and re.fullmatch(ISO_TIME, value) for value in values):
        return np.array(values, dtype="datetime64[us]"), 1e-6
    aware = {getattr(value, "tzinfo", None) is not None for value in values}
    if len(aware) == 1 and all(isinstance(value, datetime.date) for value in values):
        since = []  # 1970, in microseconds, in UTC if there is a zone
        for value in values:
            if isinstance(value, datetime.datetime):
                start = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo and datetime.UTC)
                since.append((value - start) // _MICROSECOND)
            else:
                since.append((value - datetime.date(1970, 1, 1)) // _MICROSECOND)
        return np.array(since, dtype=np.int64), 1e-6
    raise DependenceError(
        f"The column {name!r} holds texts or values of several types, which do not put rows in order. Make it a "
        "column of numbers, dates or times."
    )


def _codes(column: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Return the rank of every value among the different values."""
    try:
        return np.asarray(np.unique(column, return_inverse=True)[1], dtype=np.int64)
    except TypeError:
        raise DependenceError(
            f"The column {name!r} holds values of different types. Use one type, such as texts only."
        ) from None


@dataclass(frozen=True, slots=True)
class TransitionSet:
    """The set of transition matrices that the training rows do not rule out.

    Attributes:
        transition: The centre of the set, shape (states, states).
        radii: L1 radius of every row, in [0, 2], shape (states,).
    """

    transition: NDArray[np.float64]
    radii: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CorrelationSet:
    """The interval of correlations of neighbouring rows that the training rows do not rule out."""

    estimate: float
    least: float
    largest: float


def count_transitions(series: Sequence[NDArray[Any]], states: Sequence[str]) -> NDArray[np.int64]:
    """Count transitions between states over ordered series, shape (states, states).

    Raises:
        DependenceError: If a row has a value that is not one of the states.
    """
    place = {state: index for index, state in enumerate(states)}
    counts = np.zeros((len(states), len(states)), dtype=np.int64)
    for rows in series:
        codes = np.array([place.get(state, -1) for state in rows], dtype=np.int64)
        if np.any(codes < 0):
            unknown = int(np.sum(codes < 0))
            raise DependenceError(
                f"{unknown} training rows are in none of the {len(states)} states. Name every state, or leave states "
                "out to take those that occur.",
                rows=unknown,
            )
        np.add.at(counts, (codes[:-1], codes[1:]), 1)
    return counts


def bound_transitions(counts: ArrayLike, *, miss: float) -> TransitionSet:
    """Return a set that holds the true matrix with probability at least ``1 - miss`` (docs/theory/series).

    For two states the inequality is solved exactly. The solution for each row is an interval: its centre is the centre
    of the set, and its length is the L1 radius.

    Args:
        counts: Number of transitions, shape (states, states).
        miss: Probability that a row of the true matrix is outside.

    Raises:
        DependenceError: If the counts have no transition out of a state.

    Source: Weissman et al. 2003 for the union over sets of states.

    Examples:
        >>> bound_transitions([[900, 100], [100, 900]], miss=0.01).radii.round(3)
        array([0.08, 0.08])
    """
    seen = np.asarray(counts, dtype=np.int64)
    exits = seen.sum(axis=1)
    states = len(seen)
    if np.any(exits == 0):
        raise DependenceError(
            f"{int(np.sum(exits == 0))} of {states} states have no next row in the training rows. Pass more training "
            "rows, or join rare states."
        )
    if states == 2:
        ends = np.array([_mixture_ends(int(row[0]), int(row.sum()), miss / 2.0) for row in seen])
        first = ends.mean(axis=1)
        return TransitionSet(np.column_stack([first, 1.0 - first]), ends[:, 1] - ends[:, 0] + _OUTWARD)
    choices = states * math.log(2.0) + math.log1p(-(2.0 ** (1 - states)))  # ln(2^S - 2)
    radii = np.sqrt(2.0 * (choices + math.log(states / miss) + np.log(exits) / 2.0) / exits)
    return TransitionSet(seen / exits[:, None], np.minimum(radii + _OUTWARD, 2.0))


def _mixture_ends(hits: int, trials: int, level: float) -> tuple[float, float]:
    """Return the interval of probabilities whose likelihood is above ``level`` times the mixture's likelihood."""
    return _mixture_low(hits, trials, level), 1.0 - _mixture_low(trials - hits, trials, level)


def _mixture_low(hits: int, trials: int, level: float) -> float:
    if hits == 0:
        return 0.0
    least = float(scipy.special.betaln(hits + 0.5, trials - hits + 0.5) - scipy.special.betaln(0.5, 0.5)) + math.log(
        level
    )

    def lacking(chance: float) -> float:
        return least - float(scipy.special.xlogy(hits, chance) + scipy.special.xlog1py(trials - hits, -chance))

    return float(scipy.optimize.brentq(lacking, 1e-300, hits / trials, xtol=1e-14))


def bound_correlation(series: Sequence[NDArray[Any]], *, miss: float) -> CorrelationSet:
    """Return an interval that holds neighbours' correlation with probability at least ``1 - miss``.

    It supposes ``x_t = c + r x_(t-1) + e_t`` with independent normal ``e_t`` of unknown variance. The first tenth of
    the steps is used only for the scale V_0 of a self-normalised martingale bound ``S' (V_0 + G)^-1 S <= 2 v L``, ``L =
    ln(sqrt(det(V_0 + G)/det V_0) / level)``, and ``v <= sum e_t^2 / q`` for a low quantile q of chi-square. Both sides
    are quadratic in (c, r): the set is an ellipse.

    Raises:
        DependenceError: If the rows are too few to bound the correlation at all.

    Source: Abbasi-Yadkori, Pal, Szepesvari 2011, Theorem 1.
    """
    before = np.concatenate([rows[:-1] for rows in series])
    after = np.concatenate([rows[1:] for rows in series])
    start = max(len(before) // 10, 3)
    if len(before) < start + 3:
        raise DependenceError(f"There are {len(before)} steps to learn from. Pass at least 6, better some hundreds.")
    scale = float(np.std(before[:start]))
    if not scale > 0.0:
        raise DependenceError("The first training rows are all equal. Pass a continuous column as state.")
    middle = float(np.mean(before[:start]))
    regressors = np.column_stack([np.ones(len(before)), (before - middle) / scale])
    values = (after - middle) / scale
    initial = regressors[:start].T @ regressors[:start]
    gram = regressors[start:].T @ regressors[start:]
    theta, *_ = np.linalg.lstsq(regressors[start:], values[start:], rcond=None)
    residual = float(np.sum((values[start:] - regressors[start:] @ theta) ** 2))
    growth = (np.linalg.slogdet(initial + gram)[1] - np.linalg.slogdet(initial)[1]) / 2.0
    ratio = (
        2.0
        * (growth - math.log(miss / 2.0))
        / float(2.0 * scipy.special.gammaincinv((len(before) - start) / 2.0, miss / 2.0))
    )
    shape = gram @ np.linalg.solve(initial + gram, gram) - ratio * gram
    shape = (shape + shape.T) / 2.0
    if np.linalg.eigvalsh(shape)[0] <= 0.0:
        raise DependenceError(
            f"{len(before)} steps are too few to bound the correlation. Pass more training rows or a smaller "
            "confidence."
        )
    width = math.sqrt(ratio * residual * float(np.linalg.inv(shape)[1, 1])) * (1.0 + 1e-9) + _OUTWARD
    estimate = float(theta[1])
    return CorrelationSet(estimate, estimate - width, estimate + width)


def missed(confidence: float) -> float:
    """Return 1 minus a confidence, after a check that the confidence lies strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}. Pass a number strictly between 0 and 1, such as 0.99.")
    return 1.0 - confidence


def continuous(series: Sequence[NDArray[Any]], *, name: str) -> list[NDArray[np.float64]]:
    """Return the values of every series as floats, after a check that they are finite and few repeat.

    Raises:
        DependenceError: If the values are not numbers, are infinite, or repeat as classes do.
    """
    try:
        numbers = [rows.astype(np.float64) for rows in series]
    except (TypeError, ValueError):
        raise DependenceError(
            f"The column {name!r} does not hold numbers. Pass a continuous column as state, or use MarkovChain for "
            "classes."
        ) from None
    values = np.concatenate(numbers)
    infinite = int(np.sum(np.isinf(values)))
    if infinite:
        raise DependenceError(
            f"{infinite} training rows have an infinite value in column {name!r}. Leave such series out, or cut the "
            "column into classes for MarkovChain.",
            rows=infinite,
        )
    counts = np.unique(values, return_counts=True)[1]
    if len(counts) < min(_FEWEST_VALUES, len(values)) or counts.max() > max(_MOST_EQUAL * len(values), 1.0):
        raise DependenceError(
            f"The values of column {name!r} repeat: {len(counts)} different ones in {len(values):,} training rows, "
            f"the most common in {counts.max() / len(values):.0%} of them. Pass a continuous column as state, or use "
            "MarkovChain for classes."
        )
    return numbers
