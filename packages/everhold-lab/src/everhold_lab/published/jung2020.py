"""Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi, Shenfeld 2020, A New Analysis of Differential Privacy's Generalization.

Their transfer theorem (P7) in both versions, with every free parameter optimised. Statement S1 improves it; the
planner shows it for comparison. Rows must be independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from everhold.arguments import fraction, positive
from everhold_lab.published.bound import (
    BoundOfSource,
    StatementOfSource,
    check_count,
    check_nonnegative,
    check_session,
    whole_rows,
)
from everhold_privacy.curves import GaussianCurve, PrivacyCurve

Floats = NDArray[np.float64]

SampleFailure = Callable[[float], float]
"""alpha to ``P[max_j |a_j - f_j(X)| >= alpha]``: how often an answer is that far from the sealed rows' average."""

_NAME = "jung_2020"
_POINTS = 61
_ZOOM_POINTS = 21
_ZOOMS = 4
_LEAST = 1e-9
_SEARCH = [(-3.0, 4.0), (-30.0, 0.0), (-2.0, 3.5)]


def gaussian_sample_failure(scale: float, *, answers: int) -> SampleFailure:
    """Return the failure of k answers with Gaussian noise: ``alpha -> min(1, 2 k Phi(-alpha/sigma))``.

    Raises:
        ValueError: If the scale is not positive or `answers` is below 1.
    """
    positive(scale, "scale")
    check_count("answers", answers)
    return lambda alpha: min(1.0, 2.0 * answers * float(scipy.special.ndtr(-alpha / scale)))


def laplace_sample_failure(scale: float, *, answers: int) -> SampleFailure:
    """Return the failure of k answers with Laplace noise: ``alpha -> min(1, k exp(-alpha/b))``.

    Raises:
        ValueError: If the scale is not positive or `answers` is below 1.
    """
    positive(scale, "scale")
    check_count("answers", answers)
    return lambda alpha: min(1.0, answers * math.exp(-alpha / scale))


def jung_radius(sample_failure: SampleFailure, curve: PrivacyCurve, confidence: float) -> BoundOfSource:
    """Return the radius ``alpha + (e^eps - 1) + c + 2d`` that fails with at most ``beta_s/c + delta/d`` (P7).

    The best c and d for given alpha and eps are ``c = sqrt(beta_s) t``, ``d = sqrt(delta/2) t`` with
    ``t = (sqrt(beta_s) + sqrt(2 delta)) / beta``, so that ``c + 2d = beta t^2``. Alpha and eps are searched on a
    logarithmic grid that is refined around its minimum; every point of it is a valid radius.

    Args:
        sample_failure: beta_s(alpha) of the whole session, non-increasing.
        curve: Hockey-stick curve of the whole session about one row.
        confidence: 1 - beta, in (0, 1).

    Returns:
        The radius (``inf`` from 1 on) and the alpha, eps, c and d that attain it; `rows` is nan, it is not known here.

    Raises:
        ValueError: If `confidence` is outside (0, 1).

    Source: Jung et al. 2020, transfer theorem; Lecture 23.

    Examples:
        >>> failure = gaussian_sample_failure(0.01, answers=100)
        >>> round(jung_radius(failure, GaussianCurve(0.01), 0.95).radius, 3)
        0.078
    """
    beta = 1.0 - fraction(confidence, "confidence")

    def radii(alphas: Floats, epsilons: Floats) -> Floats:
        lost = np.sqrt([sample_failure(alpha) for alpha in alphas])
        leaked = np.sqrt(2.0 * curve.delta(epsilons))
        straight = np.add.outer(alphas, np.expm1(epsilons))
        return np.asarray(straight + np.add.outer(lost, leaked) ** 2 / beta)

    least, alpha, epsilon = _refined_minimum(radii)
    lost, leaked = math.sqrt(sample_failure(alpha)), math.sqrt(2.0 * curve.delta(epsilon))
    step = (lost + leaked) / beta
    parameters = {"alpha": alpha, "epsilon": epsilon, "c": lost * step, "d": leaked * step / 2.0}
    return _bound(least, math.nan, parameters)


def jung_pure_radius(sample_failure: SampleFailure, *, epsilon: float, rows: int, confidence: float) -> BoundOfSource:
    """Return ``alpha + (e^eps - 1) + sqrt(2 ln(1/eta)/n)``, which fails with at most ``beta_s + eta`` (P7).

    Args:
        sample_failure: beta_s(alpha) of the whole session, non-increasing.
        epsilon: Pure privacy loss of the whole session about one row.
        rows: n, independent and identically distributed.
        confidence: 1 - beta, in (0, 1).

    Returns:
        The radius (``inf`` from 1 on) and the alpha and eta = beta - beta_s(alpha) that attain it.

    Raises:
        ValueError: If an argument is out of its range.

    Source: Jung et al. 2020, the version for pure differential privacy; Lecture 23.
    """
    check_nonnegative("epsilon", epsilon)
    check_count("rows", rows)
    beta = 1.0 - fraction(confidence, "confidence")
    bias = math.expm1(min(epsilon, 1.0))

    def radii(alphas: Floats, _: Floats) -> Floats:
        eta = np.maximum(beta - np.array([sample_failure(alpha) for alpha in alphas]), 0.0)
        with np.errstate(divide="ignore"):
            sampled = np.sqrt(-2.0 * np.log(eta) / rows)
        return np.asarray((alphas + bias + sampled)[:, None])

    least, alpha, _ = _refined_minimum(radii)
    return _bound(least, rows, {"alpha": alpha, "epsilon": epsilon, "eta": beta - sample_failure(alpha)})


def _refined_minimum(radii: Callable[[Floats, Floats], Floats]) -> tuple[float, float, float]:
    """Return the least ``radii(alphas, epsilons)`` for alpha and eps in [1e-9, 1], with both arguments."""
    alphas = epsilons = np.geomspace(_LEAST, 1.0, _POINTS)
    step = alphas[1] / alphas[0]
    best = (math.inf, 1.0, 1.0)
    for _ in range(_ZOOMS + 1):
        table = radii(alphas, epsilons)
        i, j = np.unravel_index(int(np.argmin(table)), table.shape)
        best = min(best, (float(table[i, j]), float(alphas[i]), float(epsilons[j])))
        alphas = np.geomspace(best[1] / step, best[1] * step, _ZOOM_POINTS)
        epsilons = np.geomspace(best[2] / step, best[2] * step, _ZOOM_POINTS)
        step = alphas[1] / alphas[0]
    return best


def jung_2020(rows: float, /, *, queries: int, surprises: int, confidence: float, slack: float) -> BoundOfSource:
    """Return the radius of P7 for k answers with Gaussian noise, with all parameters optimised.

    With ``mu = sqrt(k)/(n sigma)`` and ``z = alpha/sigma`` the radius to minimise over z, eps and mu is
    ``z sqrt(k)/(n mu) + (e^eps - 1) + (sqrt(beta_s(z)) + sqrt(2 delta(eps; mu)))^2 / beta``.

    Arguments and errors are those of every `SessionBound`; rows are independent.

    Source: Jung et al. 2020, transfer theorem; Gaussian mechanism.
    """
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, rows=rows)
    noise = math.sqrt(queries) / rows

    def log_radius(point: Floats) -> float:
        z, epsilon, mu = _from_logs(point)
        return math.log(noise * z / mu + _bias_and_losses(z, epsilon, mu, queries, 1.0 - confidence))

    least, point = _nelder_mead(log_radius, queries, noise)
    return _bound(math.exp(least), rows, _gaussian_parameters(point, noise))


def jung_2020_rows(radius: float, /, *, queries: int, surprises: int, confidence: float, slack: float) -> BoundOfSource:
    """Return the number of rows for a radius: the least ``z sqrt(k) / (mu (tau - rest))``.

    The rest is the sum of all other terms of :func:`jung_2020`.
    """
    check_session(queries=queries, surprises=surprises, confidence=confidence, slack=slack, radius=radius)

    def log_rows(point: Floats) -> float:
        z, epsilon, mu = _from_logs(point)
        rest = _bias_and_losses(z, epsilon, mu, queries, 1.0 - confidence)
        if rest >= radius:
            return 100.0 + math.log(rest)
        return math.log(z * math.sqrt(queries) / (mu * (radius - rest)))

    least, point = _nelder_mead(log_rows, queries, radius**2 / 100.0)
    rows = whole_rows(math.exp(least))
    return BoundOfSource(_NAME, radius, rows, _gaussian_parameters(point, math.sqrt(queries) / rows))


def _bias_and_losses(z: float, epsilon: float, mu: float, queries: int, beta: float) -> float:
    lost = math.sqrt(min(1.0, queries * math.erfc(z / math.sqrt(2.0))))
    leaked = math.sqrt(2.0 * GaussianCurve(mu).delta(epsilon))
    return math.expm1(epsilon) + (lost + leaked) ** 2 / beta


def _nelder_mead(objective: Callable[[Floats], float], queries: int, noise: float) -> tuple[float, Floats]:
    """Return the least value of an objective over (ln z, ln eps, ln eps/mu), and the minimising point."""
    z = math.sqrt(2.0 * math.log(1e4 * queries))
    start = np.log([z, min(0.7, math.sqrt(5.0 * z * noise)), 5.0])
    found = scipy.optimize.minimize(
        objective, start, method="Nelder-Mead", bounds=_SEARCH, options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 600}
    )
    return float(found.fun), np.asarray(found.x, dtype=np.float64)


def _from_logs(point: Floats) -> tuple[float, float, float]:
    z, epsilon, ratio = np.exp(point).tolist()
    return z, epsilon, epsilon / ratio


def _gaussian_parameters(point: Floats, noise: float) -> dict[str, float]:
    z, epsilon, mu = _from_logs(point)
    scale = noise / mu
    return {"scale": scale, "alpha": z * scale, "epsilon": epsilon}


def _bound(radius: float, rows: float, parameters: dict[str, float]) -> BoundOfSource:
    if radius < 1.0:
        return BoundOfSource(_NAME, radius, rows, parameters)
    return BoundOfSource(_NAME, math.inf, rows)


JUNG_2020 = StatementOfSource(
    _NAME, "Jung et al. 2020 (P7), Gaussian mechanism", jung_2020, jung_2020_rows, colour="#8c6bb1"
)
