"""Time-series models from training rows: estimates with radii that hold with a stated probability.

The radii hold however often the series visited each state; docs/theory/series.md has the proofs.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, xlog1py, xlogy
from scipy.stats import chi2

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "CorrelationSet",
    "TransitionSet",
    "as_text",
    "bound_correlation",
    "bound_transitions",
    "count_transitions",
    "in_order",
]

_OUTWARD = 1e-12  # added to every radius against rounding
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?")


@dataclass(frozen=True, slots=True)
class TransitionSet:
    """Chains that the training rows do not rule out.

    Attributes:
        transition: The centre of the set, shape (states, states).
        radii: L1 radius of every row, in [0, 2], shape (states,).
    """

    transition: NDArray[np.float64]
    radii: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CorrelationSet:
    """Correlations of neighbouring rows that the training rows do not rule out.

    Attributes:
        estimate: Least squares.
        least: Lower end.
        largest: Upper end.
    """

    estimate: float
    least: float
    largest: float


def count_transitions(series: Sequence[NDArray[Any]], states: Sequence[str]) -> NDArray[np.int64]:
    """How often each state follows each other one.

    Args:
        series: The states of every series in order, each of shape (rows,).
        states: All states, in the order of the counts.

    Returns:
        Shape (states, states): from the row's state to the column's.

    Raises:
        DependenceError: If a row has another state.
    """
    place = {state: index for index, state in enumerate(states)}
    counts = np.zeros((len(states), len(states)), dtype=np.int64)
    for rows in series:
        codes = np.array([place.get(state, -1) for state in rows], dtype=np.int64)
        if np.any(codes < 0):
            unknown = int(np.sum(codes < 0))
            raise DependenceError(
                f"{unknown} training rows are in none of the {len(states)} states; expected every state to be named; "
                "leave out `states` to take those that occur",
                rows=unknown,
            )
        np.add.at(counts, (codes[:-1], codes[1:]), 1)
    return counts


def bound_transitions(counts: ArrayLike, *, miss: float) -> TransitionSet:
    """A set that holds the true matrix with probability at least ``1 - miss``.

    The exits from a state, in order, are independent draws. For every set of states, the Krichevsky-Trofimov mixture
    over the true likelihood is a martingale, so Ville's inequality holds for the number k of exits whatever it is:
    ``|p^ - p|_1 <= sqrt(2 (ln(2^S - 2) + ln(S / miss) + ln(k)/2) / k)``. For two states the inequality is solved as
    it stands and gives an interval; its centre and width are returned.

    Args:
        counts: Number of transitions, shape (states, states).
        miss: Probability that a row of the true matrix is outside.

    Raises:
        DependenceError: If a state was never left.

    Source: docs/theory/series; Weissman et al. 2003 for the union over sets of states.

    Examples:
        >>> bound_transitions([[900, 100], [100, 900]], miss=0.01).radii.round(3)
        array([0.08, 0.08])
    """
    seen = np.asarray(counts, dtype=np.int64)
    exits = seen.sum(axis=1)
    states = len(seen)
    if np.any(exits == 0):
        raise DependenceError(
            f"{int(np.sum(exits == 0))} of {states} states were never left; expected at least one step from each; give "
            "more training rows or join rare states"
        )
    if states == 2:
        ends = np.array([_mixture_ends(int(row[0]), int(row.sum()), miss / 2.0) for row in seen])
        first = ends.mean(axis=1)
        return TransitionSet(np.column_stack([first, 1.0 - first]), ends[:, 1] - ends[:, 0] + _OUTWARD)
    choices = states * math.log(2.0) + math.log1p(-(2.0 ** (1 - states)))  # ln(2^S - 2)
    radii = np.sqrt(2.0 * (choices + math.log(states / miss) + np.log(exits) / 2.0) / exits)
    return TransitionSet(seen / exits[:, None], np.minimum(radii + _OUTWARD, 2.0))


def _mixture_ends(hits: int, trials: int, level: float) -> tuple[float, float]:
    """The chances of a hit whose likelihood is more than ``level`` times that of the mixture."""
    return _mixture_low(hits, trials, level), 1.0 - _mixture_low(trials - hits, trials, level)


def _mixture_low(hits: int, trials: int, level: float) -> float:
    if hits == 0:
        return 0.0
    least = float(betaln(hits + 0.5, trials - hits + 0.5) - betaln(0.5, 0.5)) + math.log(level)

    def lacking(chance: float) -> float:
        return least - float(xlogy(hits, chance) + xlog1py(trials - hits, -chance))

    return float(brentq(lacking, 1e-300, hits / trials, xtol=1e-14))


def bound_correlation(series: Sequence[NDArray[Any]], *, miss: float) -> CorrelationSet:
    """An interval that holds the correlation of neighbouring rows with probability at least ``1 - miss``.

    For ``x_t = c + r x_(t-1) + e_t`` with independent normal ``e_t`` of unknown variance. The first tenth of the steps
    only sets the scale V_0 of a self-normalised martingale bound ``S' (V_0 + G)^-1 S <= 2 v L``,
    ``L = ln(sqrt(det(V_0 + G)/det V_0) / level)``, and ``v <= sum e_t^2 / q`` for a low quantile q of chi-square. Both
    sides are quadratic in (c, r): the set is an ellipse.

    Args:
        series: Values of every series in order, each of shape (rows,).
        miss: Probability that the true correlation is outside.

    Raises:
        DependenceError: If the rows are too few to bound the correlation at all.

    Source: Abbasi-Yadkori, Pal, Szepesvari 2011, Theorem 1.
    """
    numbers = [_numbers(rows) for rows in series]
    before = np.concatenate([rows[:-1] for rows in numbers])
    after = np.concatenate([rows[1:] for rows in numbers])
    start = max(len(before) // 10, 3)
    if len(before) < start + 3:
        raise DependenceError(f"there are {len(before)} steps to learn from; expected at least 6, better hundreds")
    scale = float(np.std(before[:start]))
    if not scale > 0.0:
        raise DependenceError("the first training rows are all equal; expected values of a continuous column")
    middle = float(np.mean(before[:start]))
    regressors = np.column_stack([np.ones(len(before)), (before - middle) / scale])
    values = (after - middle) / scale
    initial = regressors[:start].T @ regressors[:start]
    gram = regressors[start:].T @ regressors[start:]
    theta, *_ = np.linalg.lstsq(regressors[start:], values[start:], rcond=None)
    residual = float(np.sum((values[start:] - regressors[start:] @ theta) ** 2))
    growth = (np.linalg.slogdet(initial + gram)[1] - np.linalg.slogdet(initial)[1]) / 2.0
    ratio = 2.0 * (growth - math.log(miss / 2.0)) / float(chi2.ppf(miss / 2.0, len(before) - start))
    shape = gram @ np.linalg.solve(initial + gram, gram) - ratio * gram
    shape = (shape + shape.T) / 2.0
    if np.linalg.eigvalsh(shape)[0] <= 0.0:
        raise DependenceError(
            f"{len(before)} steps are too few to bound the correlation; expected more training rows or less confidence"
        )
    width = math.sqrt(ratio * residual * float(np.linalg.inv(shape)[1, 1])) * (1.0 + 1e-9) + _OUTWARD
    estimate = float(theta[1])
    return CorrelationSet(estimate, estimate - width, estimate + width)


def _numbers(rows: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError):
        raise DependenceError("the state is not a number; expected a continuous column; name another column") from None


def in_order(table: Any, *, order_by: str, value: str, groups: str | None) -> list[NDArray[Any]]:
    """The values of a column, series by series, each in order.

    Args:
        table: Data frame that narwhals understands (pandas, Polars, Arrow, ...), or mapping of names to arrays.
        order_by: Column to sort by.
        value: Column to return.
        groups: Column whose equal values make a series; None for one series.

    Returns:
        One array per series, in the order of the groups' values.

    Raises:
        DependenceError: If a column does not exist, values are missing, or two rows of a series share a place.
    """
    wanted = [order_by, value] if groups is None else [order_by, value, groups]
    order, values, *rest = _columns(table, wanted)
    places = _codes(_comparable(order, order_by))
    series = _codes(rest[0]) if rest else np.zeros(len(order), dtype=np.int64)
    sorting = np.lexsort((places, series))
    same = np.diff(series[sorting]) == 0
    ties = int(np.sum(same & (np.diff(places[sorting]) == 0)))
    if ties:
        raise DependenceError(
            f"{ties} training rows share their place in column {order_by!r} with the row before; expected one row per "
            "step; name the column that tells series apart as `groups`, or thin the rows out",
            rows=ties,
        )
    return list(np.split(values[sorting], np.flatnonzero(~same) + 1))


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
    if isinstance(table, Mapping):
        held: dict[str, NDArray[Any]] = {str(name): np.asarray(column) for name, column in table.items()}
    else:
        frame = nw.from_native(table)
        eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        held = {name: eager[name].to_numpy() for name in names if name in eager.columns}
    absent = [name for name in names if name not in held]
    if absent:
        raise DependenceError(f"the training rows have no column {absent[0]!r}; expected {', '.join(names)}")
    for name in names:
        missing = _missing(held[name])
        if missing:
            raise DependenceError(
                f"{missing} training rows have no value in column {name!r}; expected every row of a series; fill the "
                "column or leave such series out",
                rows=missing,
            )
    return [held[name] for name in names]


def _missing(column: NDArray[Any]) -> int:
    if column.dtype.kind in "mM":
        return int(np.sum(np.isnat(column)))
    return int(np.sum([value is None or value != value for value in column.tolist()]))  # only not-a-number differs


def _comparable(order: NDArray[Any], name: str) -> NDArray[Any]:
    """An order column that sorts as it is meant: numbers, dates and times, or their ISO text; '10' comes before '9'."""
    if order.dtype.kind not in "OUT":
        return order
    values = order.tolist()
    if all(isinstance(value, datetime.date) for value in values):
        return order
    if all(isinstance(value, str) and _ISO.fullmatch(value) for value in values):
        return order.astype("datetime64[us]")
    raise DependenceError(
        f"the column {name!r} does not put rows in order: it holds text or mixed values, and '10' comes before '9'; "
        "expected numbers, dates or times; make a column of such a type"
    )


def _codes(column: NDArray[Any]) -> NDArray[np.int64]:
    """The rank of every value among the different ones."""
    return np.asarray(np.unique(column, return_inverse=True)[1], dtype=np.int64)
