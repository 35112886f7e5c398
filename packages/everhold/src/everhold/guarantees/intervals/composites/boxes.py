"""The least and the largest score over a box of its parts: exact, by monotony or in closed form (Statement C1).

Each function takes lower and upper ends of the parts, shape (parts,), and returns two numbers. Where both ends are
equal, both numbers are the score of these parts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ends = NDArray[np.float64]


def itself(low: Ends, high: Ends) -> tuple[float, float]:
    """The only part."""
    return float(low[0]), float(high[0])


def root(low: Ends, high: Ends) -> tuple[float, float]:
    """The square root of the only part."""
    return math.sqrt(max(float(low[0]), 0.0)), math.sqrt(max(float(high[0]), 0.0))


def average(low: Ends, high: Ends) -> tuple[float, float]:
    """The average of all parts.

    Examples:
        >>> average(np.array([0.25, 0.5]), np.array([0.5, 1.0]))
        (0.375, 0.75)
    """
    return float(np.mean(low)), float(np.mean(high))


def weighted_average(low: Ends, high: Ends) -> tuple[float, float]:
    """``sum w_k s_k`` for k scores, then their weights, which add up to 1.

    For fixed weights it grows with each score. For fixed scores it is linear in the weights, and its extremes over a
    box that is cut by ``sum w = 1`` are reached by filling up weights in the order of the scores.

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
    """The least ``sum w s`` with ``least <= w <= most`` and ``sum w = 1``; nan where there are no such weights."""
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
    """Matthews' correlation from the share p of label 1 and from the rates a and b of predictions 1 given 1 and 0.

    ``sqrt(p (1 - p)) (a - b) / sqrt(q (1 - q))`` with ``q = p a + (1 - p) b``. It grows with a, and falls with b. In p
    its square has one maximum, at ``sqrt(B) / (sqrt(A) + sqrt(B))`` with ``A = a (1 - a)`` and ``B = b (1 - b)``.

    Examples:
        >>> correlation_of_classes(np.array([0.5, 0.8, 0.2]), np.array([0.5, 0.8, 0.2]))
        (0.6000000000000001, 0.6000000000000001)
    """
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    share = float(low[0]), float(high[0])
    other = 1.0 - share[1], 1.0 - share[0]  # with classes exchanged, the correlation changes its sign
    least = -_largest_correlation(other, float(high[2]), float(low[1]))
    return max(least, -1.0), min(_largest_correlation(share, float(high[1]), float(low[2])), 1.0)


def _largest_correlation(share: tuple[float, float], a: float, b: float) -> float:
    """The largest value of ``sqrt(g(p)) (a - b)`` over an interval of p.

    With b = 0 it falls in p from the limit ``sqrt(a)`` at 0. With a = 1 it grows to ``sqrt(1 - b)`` at 1.
    """
    ends = [_correlation(p, a, b) for p in share]
    if a <= b:
        return max(ends)
    if share[0] < share[1]:  # a class that never occurs has the value 0, and rare ones come near the limit
        ends += [math.sqrt(a)] if b == share[0] == 0.0 else []
        ends += [math.sqrt(1.0 - b)] if a == share[1] == 1.0 else []
    first, second = math.sqrt(a * (1.0 - a)), math.sqrt(b * (1.0 - b))
    best = second / (first + second) if first + second > 0.0 else 0.5
    return max(*ends, _correlation(min(max(best, share[0]), share[1]), a, b))


def _correlation(p: float, a: float, b: float) -> float:
    """0 where a class or a prediction never occurs, as in scikit-learn."""
    q = p * a + (1.0 - p) * b
    square = q * (1.0 - q)
    return math.sqrt(p * (1.0 - p) / square) * (a - b) if square > 0.0 else 0.0


def explained(low: Ends, high: Ends, *, centre: float, scale: float = 1.0) -> tuple[float, float]:
    """R2 as ``max(R2, -1)``.

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
    room = 1.0 - apart * apart / square if square > 0.0 else 0.0
    return max(1.0 - ratio / room, -1.0) if room > 0.0 and math.isfinite(ratio) else -1.0
