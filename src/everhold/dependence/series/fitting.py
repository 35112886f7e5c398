"""Time-series models from training rows: estimates with radii that hold with a stated probability.

The radii hold however often the series visited each state; docs/theory/series.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    "bound_correlation",
    "bound_transitions",
    "continuous",
    "count_transitions",
    "missed",
]

_OUTWARD = 1e-12  # added to every radius against rounding
_FEWEST_VALUES, _MOST_EQUAL = 20, 0.1


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
    before = np.concatenate([rows[:-1] for rows in series])
    after = np.concatenate([rows[1:] for rows in series])
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


def missed(confidence: float) -> float:
    """What a confidence lacks to 1.

    Raises:
        ValueError: If it is outside (0, 1).
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}; expected a number strictly between 0 and 1, such as 0.99")
    return 1.0 - confidence


def continuous(series: Sequence[NDArray[Any]], *, name: str) -> list[NDArray[np.float64]]:
    """Values as numbers that hardly repeat, as those of a continuous column.

    Args:
        series: Values of every series in order, each of shape (rows,).
        name: Of the column, for messages.

    Raises:
        DependenceError: If they are no numbers, infinite, or classes.
    """
    try:
        numbers = [rows.astype(np.float64) for rows in series]
    except (TypeError, ValueError):
        raise DependenceError(
            f"the column {name!r} is not a number; expected a continuous column; for classes use MarkovChain"
        ) from None
    values = np.concatenate(numbers)
    infinite = int(np.sum(np.isinf(values)))
    if infinite:
        raise DependenceError(
            f"{infinite} training rows have an infinite value in column {name!r}; expected finite numbers; leave such "
            "series out, or cut the column into classes for MarkovChain",
            rows=infinite,
        )
    counts = np.unique(values, return_counts=True)[1]
    if len(counts) < min(_FEWEST_VALUES, len(values)) or counts.max() > max(_MOST_EQUAL * len(values), 1.0):
        raise DependenceError(
            f"the values of column {name!r} repeat: {len(counts)} different ones in {len(values):,} training rows, the "
            f"most common in {counts.max() / len(values):.0%} of them; expected a continuous column; for classes use "
            "MarkovChain"
        )
    return numbers
