"""From noisy answers to the population: their distance from sealed averages (r), the transfer theorem (S1), and S2."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from everhold.arguments import fraction, positive, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from everhold_privacy.curves import PrivacyCurve


_CELLS, _ROUNDS = 1024, 4
_BEYOND = 50.0  # scales past the point where a candidate is rare: nothing left to find


def laplace_exceedance(*, alpha: float, scale: float, answers: int) -> float:
    """Return ``m b e^{-alpha/b}``, the exceedance of m answers with Laplace noise of scale b (S1)."""
    return answers * scale * math.exp(-alpha / scale)


def gaussian_exceedance(*, alpha: float, scale: float, answers: int) -> float:
    """Return ``2 m sigma (phi(z) - z Phi(-z))``, ``z = alpha / sigma``, for m answers with Gaussian noise (S1)."""
    z = alpha / scale
    density = float(np.exp(-z * z / 2.0)) / math.sqrt(2.0 * math.pi)  # scipy.stats takes 100 times as long
    return float(2.0 * answers * scale * (density - z * scipy.special.ndtr(-z)))


def comparison_exceedance(
    *, excess: float, threshold_scale: float, comparison_scale: float, queries: int, surprises: int
) -> float:
    """Return the expected excess over ``T + x`` of a training answer that noise let pass (S1, Thresholdout).

    The training answer is released when ``|f(X) - f(D)| + Lap(s3) <= T + Lap(s1)``. The smaller of the union over all
    B m pairs (epoch, query), ``B m (s1^3 e^{-x/s1} - s3^3 e^{-x/s3}) / (2 (s1^2 - s3^2))``, and the split bound
    ``B s1 e^{-x1/s1} / 2 + m s3 e^{-x2/s3} / 2`` minimised over ``x1 + x2 = x``. One-sided.
    """
    s1, s3 = threshold_scale, comparison_scale
    first = (excess / s3 + math.log(surprises / queries)) / (1.0 / s1 + 1.0 / s3)  # where both derivatives agree
    x1 = min(max(first, 0.0), excess)
    return min(
        queries * surprises * _pair_mean_excess(excess, s1, s3),
        surprises * s1 * math.exp(-x1 / s1) / 2.0 + queries * s3 * math.exp(-(excess - x1) / s3) / 2.0,
    )


def _pair_mean_excess(x: float, s1: float, s3: float) -> float:
    """Return ``E(L1 + L3 - x)_+`` for independent Laplace variables of scales s1, s3 and x >= 0."""
    if math.isclose(s1, s3, rel_tol=1e-6):
        s = max(s1, s3)  # monotone in the scales, so rounding up is safe; the limit of the quotient
        return (3.0 * s + x) * math.exp(-x / s) / 4.0
    return (s1**3 * math.exp(-x / s1) - s3**3 * math.exp(-x / s3)) / (2.0 * (s1**2 - s3**2))


def laplace_pair_tail(*, excess: float, threshold_scale: float, comparison_scale: float) -> float:
    """Return ``t(x) = P[L1 + L3 > x]`` for independent Laplace variables and x >= 0."""
    x, s1, s3 = excess, threshold_scale, comparison_scale
    if math.isclose(s1, s3, rel_tol=1e-6):
        s = max(s1, s3)
        return (2.0 + x / s) * math.exp(-x / s) / 4.0
    return (s1**2 * math.exp(-x / s1) - s3**2 * math.exp(-x / s3)) / (2.0 * (s1**2 - s3**2))


def wrong_side_exceedance(*, distance: float, tail: float, answer_scale: float, queries: int, surprises: int) -> float:
    """Return the increase of r if a released answer may fall on the wrong side of the guess (S1, no false spending).

    ``B (T-x) e^{-(T-x)/s2} + (s2/e) B m t(x)``.

    Args:
        distance: T - x, from the excess to the threshold.
        tail: t(x), see `laplace_pair_tail`. A tail is not convex, so on a grid it is taken one step earlier.
        answer_scale: Scale s2 of the noise on a released answer.
        queries: Planned number m of queries.
        surprises: Planned number B of surprises.

    Raises:
        ValueError: If the distance is below the answer's scale: the bound needs it.
    """
    if distance < answer_scale:
        raise ValueError(
            f"threshold - excess is {distance:.3g}, less than the answer's scale "
            f"{answer_scale:.3g}. Raise the threshold or lower the scales."
        )
    crossing = surprises * distance * math.exp(-distance / answer_scale)
    return crossing + answer_scale / math.e * surprises * queries * tail


def gaussian_norm_exceedance(*, alpha: float, scale: float, dimension: int) -> float:
    """Return a bound on ``E(||Y|| - alpha)_+`` for d independent, also discrete, Gaussians of scale sigma (S1).

    ``sigma y/(y^2 - d) e^{-(y^2 - d)/2} (y^2/d)^{d/2}`` where ``(y^2 - d)(y - z) = y``, ``z = alpha / sigma``,
    ``y > sqrt(d)``; it uses nothing of the law but that its moment generating function is at most the Gaussian one.

    Source: docs/theory, vectors and low sensitivity.

    Examples:
        >>> round(gaussian_norm_exceedance(alpha=13.0, scale=1.0, dimension=100), 6)
        1.7e-05
    """
    z = alpha / scale
    least = max(z, math.sqrt(dimension))
    y = float(scipy.optimize.brentq(lambda y: (y - dimension / y) * (y - z) - 1.0, least, least + 2.0, xtol=1e-13))
    return math.inf if y * y <= dimension else scale * math.exp(_log_norm_exceedance(y, dimension))


def gaussian_norm_allowance(*, exceedance: float, scale: float, dimension: int) -> float:
    """Return an alpha for which ``E (||Y|| - alpha)_+``, for d Gaussians Y, is at most the exceedance (S1).

    It is the inverse of `gaussian_norm_exceedance`, rounded up.
    """
    wanted, root = exceedance / scale, math.sqrt(dimension)
    if wanted >= root:  # E ||Y|| itself is no more
        return 0.0
    y = scipy.optimize.brentq(lambda y: _log_norm_exceedance(y, dimension) - math.log(wanted), root + 1e-6, root + 36.0)
    return max(scale * (y - y / (y * y - dimension) + 1e-8), 0.0)


def _log_norm_exceedance(y: float, dimension: int) -> float:
    """Return the logarithm of the bound for ``alpha = y - y/(y^2 - d)``, in units of the standard deviation."""
    beyond = y * y - dimension
    return math.log(y / beyond) - 0.5 * (beyond - dimension * math.log1p(beyond / dimension))


# Choices: regret on the sealed rows, where losses are means over rows in [0, 1] ---------------------------------------


def exponential_exceedance(*, alpha: float, scale: float, candidates: int) -> float:
    """Return the greatest ``E(regret - alpha)_+`` of the exponential mechanism, ``b W((R-1) e^{-alpha/b-1})`` (S1).

    The regret is that on the sealed rows, W the inverse of ``w e^w``. All losses are covered, and some attain it: all
    candidates but the best equally bad. It is below the integral of the tail of P11, ``R b e^{-alpha/b}``.

    Args:
        alpha: Regret that is not counted, at least 0.
        scale: ``b = 2 Delta / epsilon``, in the units of the loss.
        candidates: Number R of candidates, of which one is chosen.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> round(exponential_exceedance(alpha=0.0, scale=0.01, candidates=1000), 4)
        0.0442
    """
    _check(alpha, scale, candidates)
    return scale * float(scipy.special.lambertw((candidates - 1) * math.exp(-alpha / scale - 1.0)).real)


def permute_and_flip_exceedance(*, alpha: float, scale: float, candidates: int) -> float:
    """Return the greatest ``E(regret - alpha)_+`` of permute-and-flip (S1), rounded up slightly.

    ``max over p <= e^{-alpha/b} of (-b ln p - alpha) (1 - (1 - (1-p)^R) / (R p))``: all candidates but the best are
    equally bad, each comes up with probability p. Never above that of the exponential mechanism, in the tail half of
    it. The search encloses the maximum: on each cell the first factor is taken at one end, the second at the other.

    Arguments and errors are those of `exponential_exceedance`.

    Examples:
        >>> round(permute_and_flip_exceedance(alpha=0.0, scale=0.01, candidates=1000), 4)
        0.0427
    """
    _check(alpha, scale, candidates)
    first = low = alpha / scale
    high = max(first, math.log(candidates)) + _BEYOND
    most = 0.0
    for _ in range(_ROUNDS):
        edges = np.linspace(low, high, _CELLS + 1)
        p = np.exp(-edges)  # the best is missed with the chance 1 - (1 - (1-p)^R) / (R p), rounded up
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            taken = -np.expm1(candidates * np.log1p(-p)) / (candidates * p)
            exact = np.where(p > 0.0, 1.0 - taken + 4e-16, 0.0)
        missed = np.minimum(exact, (candidates - 1) * p / 2.0)  # as 1/(1+k) >= 1 - k/2 for whole k
        upper = (edges[1:] - first) * missed[:-1]
        most = float(upper.max())
        promising = np.flatnonzero(upper >= float(((edges - first) * missed).max()))
        low, high = float(edges[promising[0]]), float(edges[promising[-1] + 1])
    return scale * most


def _check(alpha: float, scale: float, candidates: int) -> None:
    if not 0.0 <= alpha < math.inf:
        raise ValueError(f"alpha is {alpha}. Pass a finite number of at least 0.")
    positive(scale, "scale")
    whole(candidates, "candidates")


Exceedance = Callable[[float], float]
_EPSILONS = np.geomspace(1e-9, 60.0, 220)  # tanh(60/4) is 1 to within 1e-12: nothing lies beyond
_LOOKS, _CLOSER = 4, 65  # ends within 4e-6 of the best eps, where the bound is flat; odd, to keep the best so far


@dataclass(frozen=True, slots=True)
class LeakageBound:
    """Increase of a half-width because answers depend on single rows: ``tanh(eps/4) + leak(eps) / beta``.

    Attributes:
        epsilon: The eps at which the bound is least.
        delta: ``leak(eps)``, which `total` divides by beta.
        bias: tanh(eps / 4).
        total: bias + leak(eps) / beta.
    """

    epsilon: float
    delta: float
    bias: float
    total: float


@dataclass(frozen=True, slots=True)
class TransferBound:
    """A half-width that holds for all answers simultaneously, with the terms of which it is the sum.

    Attributes:
        radius: alpha + tanh(eps/4) + (r(alpha) + leak(eps)) / beta, in the units of the query.
        alpha: Allowance for the sampling error: errors up to it cost only themselves, larger ones are part of r.
        epsilon: Allowance for the privacy loss: losses up to it enter by ``tanh(eps/4)``, larger ones by leak(eps).
        excess: (r(alpha) + leak(eps)) / beta.
    """

    radius: float
    alpha: float
    epsilon: float
    excess: float
    statement: str = "S1"


def leakage_bound(leakage: PrivacyCurve, *, confidence: float) -> LeakageBound:
    """Return the least of ``tanh(eps/4) + leak(eps)/beta`` over eps >= 0 (second half of S1).

    Args:
        leakage: Hockey-stick curve of the transcript about one row, averaged over rows.
        confidence: 1 - beta, in (0, 1).
    """
    beta = 1.0 - fraction(confidence, "confidence")

    def cost(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.tanh(epsilon / 4.0) + np.asarray(leakage.delta(epsilon)) / beta, dtype=np.float64)

    # the sum of a concave and a convex function may have two valleys: look at all first, then closer and closer
    points = _EPSILONS
    for _ in range(_LOOKS):
        best = int(np.argmin(cost(points)))
        epsilon = float(points[best])
        points = np.geomspace(points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)], _CLOSER)
    delta, bias = float(leakage.delta(epsilon)), math.tanh(epsilon / 4.0)
    return LeakageBound(epsilon=epsilon, delta=delta, bias=bias, total=bias + delta / beta)


def transfer_radius(exceedance: Exceedance, leakage: PrivacyCurve, *, confidence: float) -> TransferBound:
    """Return a half-width that holds for all answers at once (statement S1).

    With probability at least 1 - beta, ``max_j |a_j - f_j(P)| <= alpha + tanh(eps/4) + (r(alpha) + leak(eps)) / beta``,
    minimised over alpha and eps. The two halves do not meet, so each is minimised alone.

    Args:
        exceedance: r(alpha), the expected excess of the worst sampling error over alpha; convex.
        leakage: Hockey-stick curve of the transcript about one row, averaged over rows.
        confidence: 1 - beta, in (0, 1).

    Raises:
        ValueError: If ``confidence`` is outside (0, 1).

    Source: docs/theory, S1; improves the transfer theorem of Jung et al. 2020 (P7).

    Examples:
        >>> from everhold_privacy.guarantees import gaussian_exceedance
        >>> from everhold_privacy.curves import GaussianCurve
        >>> def exceedance(alpha: float) -> float:
        ...     return gaussian_exceedance(alpha=alpha, scale=0.01, answers=100)
        >>> bound = transfer_radius(exceedance, GaussianCurve(mu=0.2), confidence=0.95)
        >>> round(bound.radius, 3)
        0.17
    """
    beta = 1.0 - fraction(confidence, "confidence")
    fine = scipy.optimize.minimize_scalar(
        lambda alpha: alpha + exceedance(alpha) / beta, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}
    )
    alpha = float(fine.x)
    leak = leakage_bound(leakage, confidence=confidence)
    excess = (exceedance(alpha) + leak.delta) / beta
    return TransferBound(radius=alpha + leak.bias + excess, alpha=alpha, epsilon=leak.epsilon, excess=excess)


def transferred_interval(
    answers: ArrayLike, *, margin: float, epsilon: float, rounded_down: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of intervals for the population values of released answers (statement S2).

    Upward errors obey ``a - q <= margin + g(q)`` with ``g(q) = q(1-q)(v-1)/(1+q(v-1))``, ``v = e^eps``, downward errors
    the mirror image. As ``q + g(q) = q v / (1 + q (v - 1))`` increases in q, both ends have closed forms.

    Args:
        answers: Released answers, shape (...).
        margin: alpha + (r(alpha) + leak(eps)) / beta.
        epsilon: The eps of the bound; fixed before any answer was seen.
        rounded_down: By how much rounding may have put every row's value below the true one. The population value that
            obeys S2 is that of the rounded rows, so the upper end moves by this much after the inversion, which may
            shrink whatever is added to the margin by up to ``e^-eps``.

    Returns:
        Lower and upper ends in [0, 1], each of shape (...); never wider than ``margin + tanh(eps/4)`` to either side,
        and ``rounded_down`` above.
    """
    values = np.asarray(answers, dtype=np.float64)
    high = 1.0 - untilted(1.0 - values - margin, epsilon)
    return untilted(values - margin, epsilon), np.minimum(high + rounded_down, 1.0)


def untilted(tilted: ArrayLike, epsilon: float) -> NDArray[np.float64]:
    """Return the q in [0, 1] with ``q v / (1 + q (v - 1)) = tilted``, ``v = e^epsilon``: the inverse of S2's shift."""
    level = np.clip(tilted, 0.0, 1.0)
    shrink = math.exp(-epsilon)
    return np.asarray(level * shrink / (1.0 - level * (1.0 - shrink)), dtype=np.float64)


def least_allowance(missing: Callable[[float], float]) -> float:
    """Return the alpha in [0, 1] at which the decreasing function `missing` reaches 0, rounded up."""
    if missing(0.0) <= 0.0:
        return 0.0
    return 1.0 if missing(1.0) > 0.0 else float(scipy.optimize.brentq(missing, 0.0, 1.0)) + 1e-9
