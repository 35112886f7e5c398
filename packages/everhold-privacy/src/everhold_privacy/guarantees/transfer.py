"""From sealed averages to the population: the sharp transfer theorem (S1) and its asymmetric form (S2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.arguments import fraction

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.privacy.curves import PrivacyCurve

Exceedance = Callable[[float], float]
_EPSILONS = np.geomspace(1e-9, 60.0, 220)  # tanh(60/4) is 1 to within 1e-12: nothing lies beyond
_LOOKS, _CLOSER = 4, 65  # ends within 4e-6 of the best eps, where the bound is flat; odd, to keep the best so far


@dataclass(frozen=True, slots=True)
class LeakageBound:
    """Price of the transcript's memory of a row: ``tanh(eps/4) + leak(eps) / beta`` at its least.

    Attributes:
        epsilon: The eps that attains it.
        delta: leak(eps).
        bias: tanh(eps / 4).
        total: bias + leak(eps) / beta.
    """

    epsilon: float
    delta: float
    bias: float
    total: float


@dataclass(frozen=True, slots=True)
class TransferBound:
    """A half-width that holds for all answers at once.

    Attributes:
        radius: alpha + tanh(eps/4) + (r(alpha) + leak(eps)) / beta, in the units of the query.
        alpha: Sampling error that is allowed for in full.
        epsilon: Privacy loss that is allowed for in full.
        excess: (r(alpha) + leak(eps)) / beta.
    """

    radius: float
    alpha: float
    epsilon: float
    excess: float
    statement: str = "S1"


def leakage_bound(leakage: PrivacyCurve, *, confidence: float) -> LeakageBound:
    """The least of ``tanh(eps/4) + leak(eps)/beta`` over eps >= 0 (second half of S1).

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
    """Half-width that holds for all answers at once (statement S1).

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
        >>> from everhold_privacy.guarantees.exceedance import gaussian_exceedance
        >>> from everhold.privacy.curves import GaussianCurve
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
    """Population values consistent with released answers (statement S2).

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
    high = 1.0 - _untilted(1.0 - values - margin, epsilon)
    return _untilted(values - margin, epsilon), np.minimum(high + rounded_down, 1.0)


def _untilted(tilted: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """The q with ``q v / (1 + q (v - 1)) = tilted``, clipped to [0, 1]."""
    level = np.clip(tilted, 0.0, 1.0)
    shrink = math.exp(-epsilon)
    return np.asarray(level * shrink / (1.0 - level * (1.0 - shrink)), dtype=np.float64)
