"""Exact laws of the integer noise: probabilities, to enumerate mechanisms with, and expected exceedances.

The discrete Laplace of scale t has ``P[x] = tanh(1/(2t)) e^{-|x|/t}``, the discrete Gaussian of scale s has
``P[x] = e^{-x^2/(2 s^2)} / sum_y e^{-y^2/(2 s^2)}`` (Canonne, Kamath, Steinke 2020).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everhold.arguments import positive

__all__ = [
    "discrete_gaussian_exceedance",
    "discrete_gaussian_pmf",
    "discrete_laplace_exceedance",
    "discrete_laplace_pmf",
]


def discrete_laplace_pmf(scale: float, support: ArrayLike) -> NDArray[np.float64]:
    """Probabilities of the discrete Laplace law at the integers `support`.

    Args:
        scale: Positive scale t, in units of the grid.
        support: Integers, any shape.

    Returns:
        ``tanh(1/(2t)) e^{-|x|/t}``, in the shape of `support`.

    Raises:
        ValueError: If `scale` is not positive or `support` holds a value that is not an integer.

    Examples:
        >>> float(discrete_laplace_pmf(2, range(-100, 101)).sum())
        1.0
    """
    points = _integers(support)
    return np.asarray(math.tanh(0.5 / positive(scale, "scale")) * np.exp(-np.abs(points) / scale))


def discrete_gaussian_pmf(scale: float, support: ArrayLike) -> NDArray[np.float64]:
    """Probabilities of the discrete Gaussian law at the integers `support`.

    Args:
        scale: Positive scale s, in units of the grid (the standard deviation is slightly smaller).
        support: Integers, any shape.

    Returns:
        ``e^{-x^2/(2 s^2)}`` over its sum, in the shape of `support`.

    Raises:
        ValueError: If `scale` is not positive or `support` holds a value that is not an integer.

    Examples:
        >>> discrete_gaussian_pmf(1, [-1, 0, 1]).round(4)
        array([0.242 , 0.3989, 0.242 ])
    """
    points = _integers(support)
    return np.asarray(np.exp(-0.5 * (points / positive(scale, "scale")) ** 2) / _gaussian_mass(scale))


def discrete_laplace_exceedance(scale: float, threshold: ArrayLike) -> NDArray[np.float64]:
    """Expected exceedance ``E (X - a)_+`` of the discrete Laplace law, for real thresholds.

    At an integer ``a >= 0`` it is ``e^{-a/t} / (2 sinh(1/t))``, between integers it is linear, and
    ``E (X + a)_+ = a + E (X - a)_+`` by symmetry. It never exceeds the continuous ``(t/2) e^{-a/t}``: let ``E, E'`` be
    independent exponentials of mean t. By lack of memory the integer part of E is geometric and independent of its
    fractional part F, so ``X = floor(E) - floor(E')`` is the discrete Laplace, ``L = E - E'`` the continuous one, and
    ``L = X + (F - F')`` with ``F - F'`` independent of X and of mean zero. Hence ``E[L | X] = X`` and Jensen gives
    ``E g(X) <= E g(L)`` for every convex g: the discrete law is below the continuous one in the convex order. The order
    survives sums of independent terms, so exceedances of sums of Laplaces (the r of S1) hold on the grid as well.

    Args:
        scale: Positive scale t, in units of the grid.
        threshold: Real thresholds a, any shape, in units of the grid.

    Returns:
        Expected exceedances, in the shape of `threshold` and in units of the grid.

    Raises:
        ValueError: If `scale` is not positive.

    Examples:
        >>> discrete_laplace_exceedance(1.0, [0.0, 0.5, 1.0]).round(4)
        array([0.4255, 0.291 , 0.1565])
    """
    above = np.abs(np.asarray(threshold, dtype=np.float64))
    first = np.floor(above)
    at_first = np.exp(-first / positive(scale, "scale")) / _twice_sinh(1.0 / scale)
    value = at_first * (1.0 + (above - first) * math.expm1(-1.0 / scale))
    return np.asarray(value + np.maximum(-np.asarray(threshold, dtype=np.float64), 0.0))


def discrete_gaussian_exceedance(scale: float, threshold: float) -> float:
    """Expected exceedance ``E (X - a)_+`` of the discrete Gaussian law, by summation, for scales up to about 1e6.

    Unlike the Laplace, the discrete Gaussian is not below its continuous namesake in the convex order: halfway between
    two integers its exceedance is larger, by about 1/24 of the density there. At integers it is smaller (checked
    numerically), so the chord between the continuous values at the neighbouring integers is a bound everywhere.

    Args:
        scale: Positive scale s, in units of the grid.
        threshold: Real threshold a, in units of the grid.

    Returns:
        Expected exceedance, in units of the grid.

    Raises:
        ValueError: If `scale` is not positive.

    Examples:
        >>> round(discrete_gaussian_exceedance(1.0, 0.0), 4)
        0.3638
    """
    first = math.floor(threshold) + 1
    points = np.arange(max(first, -math.ceil(40 * positive(scale, "scale"))), max(first, math.ceil(40 * scale)) + 1)
    return float(np.sum((points - threshold) * discrete_gaussian_pmf(scale, points)))


def _gaussian_mass(scale: float) -> float:
    """Sum of ``e^{-x^2/(2 s^2)}`` over the integers; Poisson summation from scale 1 on, where two terms suffice."""
    if scale >= 1:
        ripple = sum(math.exp(-2.0 * (math.pi * scale * k) ** 2) for k in (1, 2))
        return math.sqrt(2.0 * math.pi) * scale * (1.0 + 2.0 * ripple)
    return 1.0 + 2.0 * sum(math.exp(-0.5 * (x / scale) ** 2) for x in range(1, 41))


def _twice_sinh(x: float) -> float:
    """``2 sinh(x)``, infinite where it overflows."""
    return 2.0 * math.sinh(x) if x < 700 else math.inf


def _integers(support: ArrayLike) -> NDArray[Any]:
    points = np.asarray(support)
    if points.dtype.kind not in "iu" and np.any(points != np.floor(points)):
        raise ValueError("support holds a value that is not an integer; pass integers, for example range(-10, 11)")
    return points
