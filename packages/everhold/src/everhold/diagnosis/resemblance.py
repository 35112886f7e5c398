"""Resemblance of rows of one group, or of neighbours in an order.

Everything is computed from ranks of values, scaled to mean 0 and variance 1, so that a few huge values cannot decide
alone. p-values are those of shuffled rows: the sum of squares of interest is compared with the Beta law that has its
mean and its variance under permutations (Box and Andersen 1955), which is exact enough for the strict levels used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Resemblance:
    """A correlation between rows, at most 1; its error for normal values; the chance of as much in shuffled rows."""

    correlation: float
    standard_error: float
    p_value: float


def scores(ranks: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Middle ranks of values, none missing, scaled to mean 0 and variance 1; None if there is only one value."""
    counts = np.bincount(ranks)
    middle = (np.cumsum(counts) - counts / 2.0)[ranks]
    spread = float(middle.std()) if len(middle) else 0.0
    return None if spread == 0.0 else (middle - middle.mean()) / spread


def within_groups(groups: NDArray[np.int64], values: NDArray[np.float64]) -> Resemblance | None:
    """The intra-class correlation of groups, none of which is empty, by one-way analysis of variance.

    None where there are no two groups, or no two rows in one. Values are those of `scores`.
    """
    sizes, means, within = _parts(groups, values)
    rows, number = len(values), len(sizes)
    if number < 2 or rows <= number:
        return None
    between = float(np.sum(sizes * (means - values.mean()) ** 2))
    usual = (rows - float(np.sum(sizes**2)) / rows) / (number - 1)
    leverage = float(np.sum(1.0 / sizes)) - (2 * number - 1) / rows
    inside = _Squares(within, rows - number)
    return _components(_Squares(between, number - 1), inside, usual, leverage, _kurtosis(values))


def between_neighbours(groups: NDArray[np.int64], values: NDArray[np.float64]) -> Resemblance | None:
    """The same for groups in order, where each is compared with the next one only: what changes slowly cancels.

    The value of an attribute, such as an age, predicts smoothly, and ages next to each other do the same. Households
    that were numbered differ from the next one by as much as from any other.
    """
    sizes, means, within = _parts(groups, values)
    left, right = sizes[:-1:2], sizes[1::2]
    if not len(right) or len(values) <= len(sizes):
        return None
    shared = left * right / (left + right)
    between = float(np.sum(shared * (means[:-1:2] - means[1::2]) ** 2))
    leverage = float(np.sum((right**2 / left + left**2 / right) / (left + right) ** 2))
    inside = _Squares(within, len(values) - len(sizes))
    usual = float(2.0 * shared.mean())
    return _components(_Squares(between, len(right)), inside, usual, leverage, _kurtosis(values))


def autocorrelation(values: NDArray[np.float64]) -> Resemblance | None:
    """Correlation of each value with the next one; None for fewer than three."""
    rows = len(values)
    if rows < 3:
        return None
    correlation = float(np.mean(values[:-1] * values[1:]))
    error = 1.0 / math.sqrt(rows)
    # shuffled rows have the mean -1/rows and about this error, whatever the values
    p_value = float(2.0 * scipy.special.ndtr(-abs(correlation + 1.0 / rows) / error))
    return Resemblance(min(correlation, 1.0), math.sqrt(max(1.0 - correlation**2, 0.0)) * error, p_value)


def _parts(
    groups: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Sizes and means of the groups, and the sum of squares inside them."""
    sizes = np.bincount(groups).astype(np.float64)
    means = np.bincount(groups, weights=values) / sizes
    return sizes, means, float(np.sum((values - means[groups]) ** 2))


def _kurtosis(values: NDArray[np.float64]) -> float:
    return float(np.mean(values**4))


class _Squares(NamedTuple):
    """A sum of squares with its degrees of freedom."""

    total: float
    dof: int

    @property
    def mean(self) -> float:
        return self.total / self.dof


def _components(between: _Squares, within: _Squares, size: float, leverage: float, kurtosis: float) -> Resemblance:
    """Correlation, its error and the p-value from the sum of squares of interest and that inside groups.

    `size` is the usual number of rows of a group, as the mean square of interest sees it; `leverage` the sum of the
    squared diagonal of the projection of interest; `kurtosis` the fourth moment of the values.
    """
    signal, noise = between.mean, within.mean
    variance = signal + (size - 1.0) * noise
    correlation = (signal - noise) / variance if variance > 0.0 else 0.0
    spread = abs(1.0 - correlation) * (1.0 + (size - 1.0) * correlation)
    error = spread * math.sqrt(2.0 / (size * max(size - 1.0, 1e-9) * between.dof))
    if not between.total + within.total > 0.0:  # nothing differs inside groups, nor from the next one
        return Resemblance(0.0, error, 1.0)
    total = between.dof + within.dof
    share, mean = between.total / (between.total + within.total), between.dof / total
    moment = (kurtosis - 3.0) * (leverage - between.dof**2 / total) + 2.0 * between.dof * within.dof / total
    moment = max(moment / total**2, 1e-12 * mean)
    precision = max(mean * (1.0 - mean) / moment - 1.0, 1e-6)
    p_value = float(scipy.special.betaincc(mean * precision, (1.0 - mean) * precision, share))
    return Resemblance(min(correlation, 1.0), abs(error), p_value)
