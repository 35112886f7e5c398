"""The least and the largest score, or gain in a score, if each of its parts lies in an interval (Statement C1).

Each function takes lower and upper ends of the parts, shape (parts,), and returns two numbers. Where both ends are
equal, both numbers are the score of these parts. Extremes of scores are exact, by monotony or in closed form. Parts of
gains are paired: those of two models on the same rows. Signed parts are in [-1, 1].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ends = NDArray[np.float64]
    Span = tuple[Ends, Ends]

_CELLS, _PIECES = 12, 4  # of each of three parts, and of the way from one model to the other


def itself(low: Ends, high: Ends) -> tuple[float, float]:
    """Return the bounds of a score that is equal to its only part."""
    return float(low[0]), float(high[0])


def root(low: Ends, high: Ends) -> tuple[float, float]:
    """Return the least and the greatest square root of the one part of a score, from the ends of its interval."""
    return math.sqrt(max(float(low[0]), 0.0)), math.sqrt(max(float(high[0]), 0.0))


def average(low: Ends, high: Ends) -> tuple[float, float]:
    """Return the bounds of the average of all parts.

    Examples:
        >>> average(np.array([0.25, 0.5]), np.array([0.5, 1.0]))
        (0.375, 0.75)
    """
    return float(np.mean(low)), float(np.mean(high))


def weighted_average(low: Ends, high: Ends) -> tuple[float, float]:
    """Return the bounds of ``sum w_k s_k``. The arrays hold k scores, then their weights, which add up to 1.

    For fixed weights the sum grows with each score. For fixed scores it is linear in the weights, and its extremes over
    a box that is cut by ``sum w = 1`` are reached by filling up weights in the order of the scores.

    Examples:
        >>> weighted_average(np.array([0.0, 1.0, 0.5, 0.25]), np.array([0.0, 1.0, 0.75, 0.5]))
        (0.25, 0.5)
    """
    count = len(low) // 2
    least = _filled(low[:count], low[count:], high[count:])
    most = -_filled(-high[:count], low[count:], high[count:])
    if math.isnan(least) or math.isnan(most):
        return min(float(low[:count].min()), 0.0), float(high[:count].max())
    return least, most


def _filled(scores: Ends, least: Ends, most: Ends) -> float:
    """Return the least ``sum w s`` with ``least <= w <= most`` and ``sum w = 1``, or nan if no weights fit."""
    least, most = np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)
    left = 1.0 - float(np.sum(least))
    if left < -1e-9 or float(np.sum(most)) < 1.0 - 1e-9:
        return math.nan
    weights = least.copy()
    for place in np.argsort(scores):
        added = min(float(most[place] - least[place]), max(left, 0.0))
        weights[place] += added
        left -= added
    return float(weights @ scores)


def correlation_of_classes(low: Ends, high: Ends) -> tuple[float, float]:
    """Return the bounds of Matthews' correlation, from the share of label 1 and two rates of predictions 1.

    ``sqrt(p (1 - p)) (a - b) / sqrt(q (1 - q))`` with ``q = p a + (1 - p) b``. It grows with a, and falls with b. In p
    its square has one maximum, at ``sqrt(B) / (sqrt(A) + sqrt(B))`` with ``A = a (1 - a)`` and ``B = b (1 - b)``.

    Examples:
        >>> correlation_of_classes(np.array([0.5, 0.8, 0.2]), np.array([0.5, 0.8, 0.2]))
        (0.6000000000000001, 0.6000000000000001)
    """
    (p, a, b), (p_high, a_high, b_high) = np.clip(low, 0.0, 1.0)[..., None], np.clip(high, 0.0, 1.0)[..., None]
    least = float(_least_correlation(p, p_high, a, b_high)[0])
    return max(least, -1.0), min(float(_largest_correlation(p, p_high, a_high, b)[0]), 1.0)


def explained(low: Ends, high: Ends, *, centre: float, scale: float = 1.0) -> tuple[float, float]:
    """Return the bounds of R2, cut off below -1.

    Parts: the mean squared error, in units of ``scale``, over the mean square V of labels less a public centre; the
    mean label; and V. All are on the scale [0, 1] of labels. ``R2 = 1 - scale ratio / (1 - (mean - centre)^2 / V)``
    falls with the ratio and with the distance of the mean from the centre, and grows with V.

    Examples:
        >>> explained(np.array([0.25, 0.5, 0.1]), np.array([0.25, 0.5, 0.1]), centre=0.5)
        (0.75, 0.75)
    """
    ends = float(low[1]) - centre, float(high[1]) - centre
    nearest = 0.0 if ends[0] <= 0.0 <= ends[1] else min(abs(ends[0]), abs(ends[1]))
    farthest = max(abs(ends[0]), abs(ends[1]))
    least = _explained(scale * float(high[0]), farthest, float(low[2]))
    return least, max(_explained(scale * float(low[0]), nearest, float(high[2])), least)


def _explained(ratio: float, apart: float, square: float) -> float:
    """Return R2 from relative error, distance of the mean label from the centre, and mean square; at least -1."""
    room = 1.0 - apart * apart / square if square > 0.0 else 0.0
    return max(1.0 - ratio / room, -1.0) if room > 0.0 and math.isfinite(ratio) else -1.0


def root_gain(low: Ends, high: Ends) -> tuple[float, float]:
    """Return the bounds of ``sqrt(A) - sqrt(A - D)``, from the difference D of two means and the first mean A.

    The value grows with D. For D above 0 it falls with A, and for D below 0 it grows with A.

    Examples:
        >>> root_gain(np.array([0.11, 0.36]), np.array([0.11, 0.36]))
        (0.09999999999999998, 0.09999999999999998)
    """
    apart, first = (float(low[0]), float(high[0])), (max(float(low[1]), 0.0), max(float(high[1]), 0.0))
    return _roots(apart[0], first[1] if apart[0] > 0.0 else first[0]), _roots(
        apart[1], first[0] if apart[1] > 0.0 else first[1]
    )


def _roots(apart: float, first: float) -> float:
    """Return ``sqrt(A) - sqrt(A - D)`` from the difference D and the first mean A."""
    first = max(first, apart)
    return math.sqrt(first) - math.sqrt(max(first - apart, 0.0))


def explained_gain(low: Ends, high: Ends, *, centre: float, scale: float = 1.0) -> tuple[float, float]:
    """Return the bounds of the gain in R2: the difference of two mean squared errors over the labels' variance.

    Parts: the first mean squared error less the second one, in units of ``scale``; the mean label; the mean square of
    labels less a public centre. All but the unit are on the scale [0, 1] of labels. A gain of more than 2 counts as 2.

    Examples:
        >>> explained_gain(np.array([-0.025, 0.5, 0.125]), np.array([-0.025, 0.5, 0.125]), centre=0.5)
        (0.2, 0.2)
    """
    ends = float(low[1]) - centre, float(high[1]) - centre
    nearest = 0.0 if ends[0] <= 0.0 <= ends[1] else min(abs(ends[0]), abs(ends[1]))
    farthest = max(abs(ends[0]), abs(ends[1]))
    variances = float(low[2]) - farthest**2, float(high[2]) - nearest**2
    least, most = -scale * float(high[0]), -scale * float(low[0])
    return (
        _over(least, variances[1] if least > 0.0 else variances[0]),
        _over(most, variances[0] if most > 0.0 else variances[1]),
    )


def _over(gained: float, variance: float) -> float:
    """Return a gain divided by a variance, clipped to [-2, 2]."""
    if gained == 0.0:
        return 0.0
    return min(max(gained / variance, -2.0), 2.0) if variance > 0.0 else math.copysign(2.0, gained)


def correlation_gain(low: Ends, high: Ends) -> tuple[float, float]:
    """Return the bounds of the gain in Matthews' correlation.

    Parts: by how much the first model's rate of predictions 1 is above the second one's among labels 1, and among
    labels 0; the share p of label 1; and both rates of the second model. The correlation ``r(p, a, b)`` grows with a
    and falls with b, so the ends of both differences decide. Over p and the rates, the least gain is bounded from below
    in each of many cells: by the least and the largest correlation there, and by the mean slope on the way from the
    second model to the first one.

    Examples:
        >>> ends = np.array([0.1, -0.05, 0.4, 0.6, 0.3])
        >>> tuple(round(end, 9) for end in correlation_gain(ends, ends))
        (0.147518626, 0.147518626)
    """
    low, high = (
        np.concatenate([np.clip(low[:2], -1.0, 1.0), np.clip(low[2:], 0.0, 1.0)]),
        np.concatenate([np.clip(high[:2], -1.0, 1.0), np.clip(high[2:], 0.0, 1.0)]),
    )
    least = _least_gain(float(low[0]), float(high[1]), low[2:], high[2:])
    # with labels 0 and 1 exchanged in the predictions of both models, correlations change their signs
    most = -_least_gain(-float(high[0]), -float(low[1]), _turned(low, high), _turned(high, low))
    return least, max(most, least)


def _turned(least: Ends, most: Ends) -> Ends:
    """Return ends of the share of label 1 and of both rates, after predictions 0 and 1 are exchanged."""
    return np.array([least[2], 1.0 - most[3], 1.0 - most[4]])


def _least_gain(up: float, down: float, low: Ends, high: Ends) -> float:
    """Return a lower bound of ``r(p, a + up, b + down) - r(p, a, b)`` over a box of p, a and b."""
    count = [_CELLS if least < most else 1 for least, most in zip(low, high, strict=True)]
    edges = [np.linspace(least, most, cells + 1) for least, most, cells in zip(low, high, count, strict=True)]
    lower = np.stack([each.ravel() for each in np.meshgrid(*(edge[:-1] for edge in edges), indexing="ij")])
    upper = np.stack([each.ravel() for each in np.meshgrid(*(edge[1:] for edge in edges), indexing="ij")])
    (p, a, b), (p_high, a_high, b_high) = lower, upper
    shifted = np.clip(a + up, 0.0, 1.0), np.clip(b_high + down, 0.0, 1.0)
    direct = _least_correlation(p, p_high, *shifted) - _largest_correlation(p, p_high, a_high, b)
    if all(cells == 1 for cells in count):
        return float(direct[0])
    inside = (a + min(up, 0.0) >= 0.0) & (a_high + max(up, 0.0) <= 1.0)
    inside &= (b + min(down, 0.0) >= 0.0) & (b_high + max(down, 0.0) <= 1.0)
    slopes = np.zeros(len(p))
    for piece in range(_PIECES):
        start, end = piece / _PIECES, (piece + 1) / _PIECES
        ups, downs = sorted((up * start, up * end)), sorted((down * start, down * end))
        of_a, of_b = _slopes((p, p_high), (a + ups[0], a_high + ups[1]), (b + downs[0], b_high + downs[1]))
        slopes += (_times_least(up, of_a) + _times_least(down, of_b)) / _PIECES
    return float(np.min(np.where(inside, np.maximum(direct, slopes), direct)))


def _times_least(number: float, span: Span) -> Ends:
    """Return the least product of a number and a value between the ends of each interval."""
    if number == 0.0:
        return np.zeros(len(span[0]))
    return number * (span[0] if number > 0.0 else span[1])


def _slopes(p: Span, a: Span, b: Span) -> tuple[Span, Span]:
    """Return intervals that contain the derivatives of the correlation by a and by b, by interval arithmetic.

    With ``q = p a + (1 - p) b``, ``S = q (1 - q)`` and ``t = (1 - 2 q) (a - b) / (2 S)``, the derivatives are ``sqrt(p
    (1 - p) / S) (1 - p t)`` and ``-sqrt(p (1 - p) / S) (1 + (1 - p) t)``. The first is never negative, and the second
    is never positive.
    """
    other = 1.0 - p[1], 1.0 - p[0]
    q = p[0] * a[0] + other[1] * b[0], p[1] * a[1] + other[0] * b[1]  # a at least b; else it is the hull
    q = np.minimum(q[0], p[1] * a[0] + other[0] * b[0]), np.maximum(q[1], p[0] * a[1] + other[1] * b[1])
    square = _product(q, (1.0 - q[1], 1.0 - q[0]))
    ends = (
        np.minimum(q[0] * (1.0 - q[0]), q[1] * (1.0 - q[1])),
        np.where((q[0] <= 0.5) & (q[1] >= 0.5), 0.25, np.maximum(q[0] * (1.0 - q[0]), q[1] * (1.0 - q[1]))),
    )
    square = np.maximum(square[0], ends[0]), np.minimum(square[1], ends[1])
    spread = (
        np.minimum(p[0] * other[1], p[1] * other[0]),
        np.where((p[0] <= 0.5) & (p[1] >= 0.5), 0.25, np.maximum(p[0] * other[1], p[1] * other[0])),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.sqrt(spread[0] / square[1]), np.sqrt(spread[1] / square[0])
        skew = _product((1.0 - 2.0 * q[1], 1.0 - 2.0 * q[0]), (a[0] - b[1], a[1] - b[0]))
        tilt = _product(skew, (0.5 / square[1], 0.5 / square[0]))
        of_a, of_b = _product(p, tilt), _product(other, tilt)
        slope_a = _product(factor, (np.maximum(1.0 - of_a[1], 0.0), np.maximum(1.0 - of_a[0], 0.0)))
        slope_b = _product(factor, (np.maximum(1.0 + of_b[0], 0.0), np.maximum(1.0 + of_b[1], 0.0)))
    known = np.isfinite(slope_a[1]) & np.isfinite(slope_b[1])
    infinite = np.inf
    return (
        (np.where(known, slope_a[0], 0.0), np.where(known, slope_a[1], infinite)),
        (np.where(known, -slope_b[1], -infinite), np.where(known, -slope_b[0], 0.0)),
    )


def _product(first: Span, second: Span) -> Span:
    """Return the interval of all products of a value in one interval and a value in the other."""
    products = [one * other for one in first for other in second]
    return np.minimum.reduce(products), np.maximum.reduce(products)


def _correlation(p: Ends, a: Ends, b: Ends) -> Ends:
    """Return Matthews' correlation for share p and rates a and b, or 0 if a class or a prediction never occurs."""
    q = p * a + (1.0 - p) * b
    square = q * (1.0 - q)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(square > 0.0, np.sqrt(p * (1.0 - p) / square) * (a - b), 0.0)


def _least_correlation(p: Ends, p_high: Ends, a: Ends, b: Ends) -> Ends:
    """Return the least Matthews' correlation for shares from ``p`` to ``p_high`` and rates a and b.

    The least correlation is minus the largest correlation with the two predictions exchanged.
    """
    return -_largest_correlation(1.0 - p_high, 1.0 - p, b, a)


def _largest_correlation(p: Ends, p_high: Ends, a: Ends, b: Ends) -> Ends:
    """Return the largest Matthews' correlation for shares from ``p`` to ``p_high`` and rates a and b.

    With b = 0 it falls in p from the limit ``sqrt(a)`` at 0. With a = 1 it grows to ``sqrt(1 - b)`` at 1. The
    correlation is 0 if a class never occurs, and is near the limit if a class is rare.
    """
    ends = np.maximum(_correlation(p, a, b), _correlation(p_high, a, b))
    limits = np.maximum(
        np.where((b == 0.0) & (p == 0.0) & (p < p_high), np.sqrt(a), -1.0),
        np.where((a == 1.0) & (p_high == 1.0) & (p < p_high), np.sqrt(1.0 - b), -1.0),
    )
    first, second = np.sqrt(a * (1.0 - a)), np.sqrt(b * (1.0 - b))
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(first + second > 0.0, second / (first + second), 0.5)
    inner = _correlation(np.clip(best, p, p_high), a, b)
    return np.where(a > b, np.maximum(np.maximum(ends, limits), inner), ends)
