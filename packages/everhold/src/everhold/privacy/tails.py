"""Tails of privacy losses on the logarithmic scale: of Gaussian noise, and of pure mechanisms in a row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FAR = 1e8
"""Standard deviations beyond which Mills' ratio is ``1/x`` to the last digit of the logarithm."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def log_gaussian_small(near: Floats, mu: float) -> Floats:
    """Return ln of ``phi(a) int_0^inf e^{-a s - s^2/2} (1 - e^{-mu s}) ds``, ``a = eps/mu - mu/2``, ``mu <= 1``.

    It is ``Phi(-a) - e^eps Phi(-a-mu)`` by ``e^eps phi(a+mu) = phi(a)`` and Mills' ratio as a Laplace transform; the
    integrand is positive. It is cut where the exponent reaches 45; 64 Gauss-Legendre points leave 1e-15.
    """
    reach = 90.0 / (near + np.sqrt(near * near + 90.0))
    points = reach[:, None] * (0.5 + 0.5 * _NODES)
    integrand = np.exp(-points * (near[:, None] + 0.5 * points)) * -np.expm1(-mu * points)
    return np.asarray(log_density(near) + np.log(0.5 * reach * (integrand @ _WEIGHTS)))


def log_gaussian_large(near: Floats, mu: float) -> Floats:
    """Return the same for ``mu > 1``, by Mills' ratios above the mean, and by the small complement below it."""
    upper = _mills(near + mu)
    above = near > 0
    result = np.empty(near.shape)
    result[above] = log_density(near[above]) + np.log(_mills(near[above]) - upper[above])
    below = near[~above]
    result[~above] = np.log1p(-(scipy.special.ndtr(below) + np.exp(log_density(below)) * upper[~above]))
    return result


def _mills(x: Floats) -> Floats:
    """Return Mills' ratio ``Phi(-x)/phi(x)``."""
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2)))


def log_density(x: Floats) -> Floats:
    """Return the logarithm of the standard normal density."""
    return np.asarray(-0.5 * x * x - 0.5 * math.log(2 * math.pi))


def best_order(epsilon: Floats, rho: float) -> Floats:
    """Return the t = a - 1 that solves ``(2t+1) rho - eps = ln(1 + 1/t)``.

    The difference of the sides is concave and increasing, so Newton climbs from the left without overshooting. Left of
    the root lie ``(eps-rho)/(2 rho)`` and, since ``ln(1 + 1/t) <= 1/t``, also ``1/expm1((rho-eps)_+ + sqrt(2 rho))``.
    Any t gives a valid bound.
    """
    exponent = np.minimum(np.maximum(rho - epsilon, 0.0) + math.sqrt(2 * rho), 700.0)
    order = np.maximum((epsilon - rho) / (2 * rho), 1 / np.expm1(exponent))
    for _ in range(30):
        deficit = np.log1p(1 / order) + epsilon - (2 * order + 1) * rho
        before, order = order, order + np.maximum(deficit, 0.0) / (2 * rho + 1 / (order * (order + 1)))
        if np.array_equal(before, order):  # it climbs no more
            break
    return order


# The exact curve of B pure mechanisms in a row (Kairouz, Oh, Viswanath 2015), to 1e-12 relative.
#
# With ``w_l = C(B,l) e^{l e0} / (1+e^{e0})^B`` and ``d_l = (2l-B) e0 - eps`` the curve is
# ``sum_{l>=k} w_l (1 - e^{-d_l})``, k the first index with ``d_k > 0``. With ``r = e^{-2 e0}`` and each
# factor split at k,
#
#     delta = A_k (1 - e^{-d_k}) + e^{-d_k} B_k,   A_k = sum_{l>=k} w_l,   B_k = sum_{l>k} w_l (1 - r^{l-k}),
#
# and ``B_k = r B_{k+1} + (1-r) A_{k+1}``: only positive terms, so nothing cancels however small e0 or eps is. A and B
# are
# tabulated once per (e0, B) around the mode; indices far out in the tail are summed from their own first term.

Integers = NDArray[np.int64]

SMALLEST_WEIGHT = 1e-278
"""Relative weight down to which the table keeps the terms that matter after it away from underflow."""


def log_delta_pure(epsilon: Floats, level: float, times: int) -> Floats:
    """Return the logarithm of ``sum_l C(B,l) [e^{l e0} - e^{eps+(B-l) e0}]_+ / (1+e^{e0})^B``.

    Args:
        epsilon: Shape (points,), non-negative.
        level: e0 of one mechanism, non-negative and finite.
        times: B, the number of mechanisms.

    Returns:
        Shape (points,), -inf from ``B e0`` on.
    """
    result = np.full(epsilon.shape, -np.inf)
    inside = epsilon < times * level
    if inside.any():
        inner = epsilon[inside]
        first = _first_index(inner, level, times)
        inner_result = np.full(inner.shape, -np.inf)
        reached = first <= times
        inner_result[reached] = _sum_from(first[reached], inner[reached], level, times)
        result[inside] = inner_result
    return result


def _sum_from(first: Integers, epsilon: Floats, level: float, times: int) -> Floats:
    table = _table(level, times)
    start = np.maximum(first, table.lower)
    gap = _loss_minus_epsilon(start, epsilon, level, times)
    known = start <= table.last
    result = np.empty(epsilon.shape)
    at = start[known] - table.lower
    result[known] = table.log_unit + np.log(_split(table.above[at], table.beyond[at], gap[known]))
    for point in np.flatnonzero(~known):
        result[point] = _far_tail(int(start[point]), float(gap[point]), level, times)
    return np.minimum(result, 0.0)


def _split(above: Floats, beyond: Floats, gap: Floats) -> Floats:
    """Return ``A (1 - e^{-d}) + e^{-d} B``."""
    return np.asarray(-above * np.expm1(-gap) + np.exp(-gap) * beyond)


def _first_index(epsilon: Floats, level: float, times: int) -> Integers:
    """Return the smallest l with ``(2l-B) e0 > eps``. The rounded quotient may be one off."""
    first = np.floor((times + epsilon / level) / 2).astype(np.int64) + 1
    first -= _loss_minus_epsilon(first - 1, epsilon, level, times) > 0
    first += _loss_minus_epsilon(first, epsilon, level, times) <= 0
    return first


def _loss_minus_epsilon(index: Integers, epsilon: Floats, level: float, times: int) -> Floats:
    """Return ``(2l-B) e0 - eps`` with the product's rounding error put back (Dekker's exact product)."""
    count = (2 * index - times).astype(np.float64)
    product = count * level
    # 2l-B needs at most 53-27 bits up to B = 6e7, so that splitting e0 alone makes both partial products exact
    high = math.ldexp(float(round(math.ldexp(math.frexp(level)[0], 26))), math.frexp(level)[1] - 26)
    error = (count * high - product) + count * (level - high)
    return np.asarray((product - epsilon) + error)


@dataclass(frozen=True, slots=True)
class _Table:
    """Tail sums from index `lower` to index `last`, in units of ``exp(log_unit)``."""

    lower: int
    last: int
    log_unit: float
    log_last: float
    above: Floats
    beyond: Floats


@lru_cache(maxsize=256)
def _table(level: float, times: int) -> _Table:
    ratio_up, mode = math.exp(min(level, 700.0)), _mode(level, times)
    lower = max(0, mode - _reach(times, 60.0))
    upper = min(times, mode + _reach(times, 700.0))
    rising = np.arange(mode, upper, dtype=np.float64)
    falling = np.arange(mode, lower, -1, dtype=np.float64)
    with np.errstate(under="ignore"):
        right = np.cumprod((times - rising) / (rising + 1) * ratio_up)
        left = np.cumprod(falling / (times - falling + 1) * math.exp(-level))
        weights = np.concatenate([left[::-1], [1.0], right])
        above = np.cumsum(weights[::-1])[::-1]
        beyond = _beyond(above, level)
    last = lower + int(np.flatnonzero(weights >= SMALLEST_WEIGHT)[-1])
    log_unit = -math.log(float(above[0]))
    return _Table(lower, last, log_unit, math.log(float(weights[last - lower])), above, beyond)


def _beyond(above: Floats, level: float) -> Floats:
    """Return B from A by ``B_k - r B_{k+1} = (1-r) A_{k+1}``, a bidiagonal system solved backwards."""
    bands = np.ones((2, len(above)))
    bands[0] = -math.exp(-2 * level)
    right_side = np.append(-math.expm1(-2 * level) * above[1:], 0.0)
    return np.asarray(scipy.linalg.solve_banded((0, 1), bands, right_side))


def _far_tail(first: int, gap: float, level: float, times: int) -> float:
    """Return the log of the sum from its first term on, where the table's weights underflow."""
    table = _table(level, times)
    way = np.arange(table.last, first, dtype=np.float64)
    log_first = table.log_unit + table.log_last + float(np.sum(np.log((times - way) / (way + 1)) + level))
    index = np.arange(first, min(times, first + _reach(times, 60.0)), dtype=np.float64)
    weights = np.append(1.0, np.cumprod((times - index) / (index + 1) * math.exp(min(level, 700.0))))
    total = float(weights @ -np.expm1(-(gap + 2 * level * np.arange(len(weights)))))
    return log_first + math.log(total) if total > 0 else -math.inf


def _mode(level: float, times: int) -> int:
    return min(times, int((times + 1) / (1 + math.exp(-level))))


def _reach(times: int, decades: float) -> int:
    """Return the steps from the mode after which the log-concave weight has fallen by ``exp(-decades)``.

    ``ln w_{l-1} - 2 ln w_l + ln w_{l+1} <= -4/(B+2)``, so j steps cost at least ``2 j (j-1)/(B+2)``.
    """
    return math.ceil(math.sqrt(decades * (times + 2) / 2)) + 2
