"""Distance of the average of one fixed query from its population value (P9, S5).

All bounds take ``log_inverse_level = ln(1 / level)``: description lengths make levels far too small for a float.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_BISECTIONS = 60  # each halves the bracket; 2^-60 is below one step of the grid


def hoeffding_radius(*, rows: float, log_inverse_level: ArrayLike) -> NDArray[np.float64]:
    """Two-sided Hoeffding half-width ``sqrt(ln(2 / level) / (2 n))`` (P9, S5).

    Args:
        rows: Effective number of independent rows n.
        log_inverse_level: ln(1 / level), shape (...).

    Returns:
        The half-width for a query with values in [0, 1], shape (...).

    Examples:
        >>> round(float(hoeffding_radius(rows=20_000, log_inverse_level=math.log(1 / 0.05))), 6)
        0.009603
    """
    if rows <= 0:
        raise ValueError(f"rows is {rows}; expected a positive number of effective rows")
    return np.sqrt((math.log(2.0) + np.asarray(log_inverse_level, dtype=np.float64)) / (2.0 * rows))


def binomial_interval(
    low_mean: ArrayLike, high_mean: ArrayLike, *, rows: float, log_inverse_level: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Population values that a sealed mean in ``[low_mean, high_mean]`` does not exclude (S3, binomial-KL form).

    A value q is excluded when ``n kl(mean || q) > ln(2 / level)`` for every mean in the range. Valid for the average of
    independent rows with values in [0, 1], identically distributed or not (Hoeffding 1963, Theorem 1). Never wider than
    the Hoeffding interval, and far narrower near 0 and 1. The ends are rounded outwards.

    Args:
        low_mean: Least possible sealed mean, shape (...); clipped to [0, 1].
        high_mean: Greatest possible sealed mean, shape (...); clipped to [0, 1].
        rows: Number of independent rows n.
        log_inverse_level: ln(1 / level), shape (...).

    Returns:
        Lower and upper ends, each of shape (...).

    Examples:
        >>> low, high = binomial_interval(0.0, 0.0, rows=1000, log_inverse_level=math.log(1 / 0.05))
        >>> float(low), round(float(high), 5)
        (0.0, 0.00368)
    """
    budget = (math.log(2.0) + np.asarray(log_inverse_level, dtype=np.float64)) / rows
    low = np.clip(np.asarray(low_mean, dtype=np.float64), 0.0, 1.0)
    high = np.clip(np.asarray(high_mean, dtype=np.float64), 0.0, 1.0)
    return 1.0 - _upper_end(1.0 - low, budget), _upper_end(high, budget)


def _upper_end(mean: NDArray[np.float64], budget: NDArray[np.float64]) -> NDArray[np.float64]:
    """The greatest q >= mean with kl(mean || q) <= budget, rounded up."""
    mean, budget = np.broadcast_arrays(mean, budget)
    inside, outside = mean.copy(), np.minimum(mean + np.sqrt(budget / 2.0), 1.0)  # Pinsker: the end is below
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2.0
        within = bernoulli_divergence(mean, middle) <= budget
        inside = np.where(within, middle, inside)
        outside = np.where(within, outside, middle)
    return outside


def bernoulli_divergence(mean: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """kl(mean || other) between two Bernoulli laws."""
    return np.asarray(scipy.special.rel_entr(mean, other) + scipy.special.rel_entr(1.0 - mean, 1.0 - other))
