"""Tails of the privacy loss of Gaussian noise, accurate on the logarithmic scale."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FAR = 1e8
"""Standard deviations beyond which Mills' ratio is ``1/x`` to the last digit of the logarithm."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def log_gaussian_small(near: Floats, mu: float) -> Floats:
    """For ``mu <= 1``: ``phi(a) int_0^inf e^{-a s - s^2/2} (1 - e^{-mu s}) ds`` with ``a = eps/mu - mu/2``.

    It is ``Phi(-a) - e^eps Phi(-a-mu)`` by ``e^eps phi(a+mu) = phi(a)`` and Mills' ratio as a Laplace transform; the
    integrand is positive. It is cut where the exponent reaches 45; 64 Gauss-Legendre points leave 1e-15.
    """
    reach = 90.0 / (near + np.sqrt(near * near + 90.0))
    points = reach[:, None] * (0.5 + 0.5 * _NODES)
    integrand = np.exp(-points * (near[:, None] + 0.5 * points)) * -np.expm1(-mu * points)
    return np.asarray(_log_density(near) + np.log(0.5 * reach * (integrand @ _WEIGHTS)))


def log_gaussian_large(near: Floats, mu: float) -> Floats:
    """For ``mu > 1`` the difference of Mills' ratios loses no digits; below the mean the complement is small."""
    upper = _mills(near + mu)
    above = near > 0
    result = np.empty(near.shape)
    result[above] = _log_density(near[above]) + np.log(_mills(near[above]) - upper[above])
    below = near[~above]
    result[~above] = np.log1p(-(scipy.special.ndtr(below) + np.exp(_log_density(below)) * upper[~above]))
    return result


def _mills(x: Floats) -> Floats:
    """``Phi(-x)/phi(x)``."""
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2)))


def _log_density(x: Floats) -> Floats:
    return np.asarray(-0.5 * x * x - 0.5 * math.log(2 * math.pi))


def best_order(epsilon: Floats, rho: float) -> Floats:
    """The t = a - 1 that solves ``(2t+1) rho - eps = ln(1 + 1/t)``.

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
