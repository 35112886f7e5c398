"""Regret of a choice among candidates on the population (S1 for minimisation); on the sealed rows: `exceedance`.

Losses are means over rows in [0, 1]; scales, alpha and regrets are in the same units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import minimize_scalar
from scipy.special import erfc

from everhold.privacy.curves import PrivacyCurve
from everhold_privacy.guarantees.transfer import leakage_bound

Exceedance = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class RegretBound:
    """Largest loss of the chosen candidate against the best on the population.

    Attributes:
        radius: The regret that is not exceeded, in the units of the loss.
        alpha: Regret on the sealed rows that is allowed for in full.
        epsilon: Privacy loss that is allowed for in full.
        form: ``"any candidates"``, or ``"fixed candidates"`` where the sharper bound for these was the smaller one.
    """

    radius: float
    alpha: float
    epsilon: float
    form: str
    statement: str = "S1"


def minimisation_radius(
    exceedance: Exceedance, leakage: PrivacyCurve, *, confidence: float, fixed_rows: float | None = None
) -> RegretBound:
    """Regret on the population of what was chosen on the sealed rows (S1, S2 for minimisation).

    With probability at least 1 - beta it is at most ``alpha + 2 tanh(eps/4) + (r(alpha) + 2 leak(eps)) / beta``. The
    asymmetric form S2 of that is computed, which is never larger: ``1 - 2 s``, where s solves ``s + g(s) = (1 - m)/2``
    for ``m = alpha + (r + 2 leak)/beta``. Rows may depend on each other, and candidates may be chosen adaptively.

    If candidates were fixed before, the population's best is the same whatever the rows are. Then its loss
    concentrates, and ``alpha + gamma + tanh(eps/4) + (r(alpha) + c(gamma) + leak(eps)) / beta`` holds as well, with
    ``c(gamma) = int_gamma^inf e^{-2 n s^2} ds``; the smaller bound is returned.

    Args:
        exceedance: r(alpha), at least ``E(L(X, chosen) - min L(X, .) - alpha)_+``; convex. For several choices the sum
            of theirs; then the bound holds for all of them at once.
        leakage: Hockey-stick curve of the whole transcript about one row, averaged over rows.
        confidence: 1 - beta, in (0, 1).
        fixed_rows: Effective number of independent rows, for a single choice whose candidates were fixed without any
            look at the sealed rows and at rows that depend on them; None if that is not so.

    Raises:
        ValueError: If `confidence` is outside (0, 1) or `fixed_rows` is not positive.

    Source: docs/theory, selection.

    Examples:
        >>> from everhold_privacy.guarantees.exceedance import permute_and_flip_exceedance
        >>> from everhold.privacy import PureCurve
        >>> def exceedance(alpha: float) -> float:
        ...     return permute_and_flip_exceedance(alpha=alpha, scale=2 / (0.05 * 20_000), candidates=100)
        >>> round(minimisation_radius(exceedance, PureCurve(0.05), confidence=0.95).radius, 4)
        0.0387
        >>> round(minimisation_radius(exceedance, PureCurve(0.05), confidence=0.95, fixed_rows=20_000).radius, 4)
        0.0362
    """
    leak = leakage_bound(leakage, confidence=confidence)  # refuses a confidence outside (0, 1)
    beta = 1.0 - confidence
    fine = minimize_scalar(
        lambda alpha: alpha + exceedance(alpha) / beta, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}
    )
    alpha = float(fine.x)
    on_rows = alpha + exceedance(alpha) / beta
    radius, form = _asymmetric(on_rows + 2.0 * leak.delta / beta, leak.epsilon), "any candidates"
    if fixed_rows is not None:
        fixed = on_rows + leak.total + _fixed_loss(fixed_rows, beta)
        if fixed < radius:
            radius, form = fixed, "fixed candidates"
    return RegretBound(radius=radius, alpha=alpha, epsilon=leak.epsilon, form=form)


def _asymmetric(margin: float, epsilon: float) -> float:
    """Greatest D in [0, 1] with ``D - 2 g((1-D)/2) <= margin`` (S2)."""
    share = max((1.0 - margin) / 2.0, 0.0)  # s + g(s) = s v / (1 + s (v - 1)) for v = e^eps
    shrink = math.exp(-epsilon)
    return 1.0 - 2.0 * share * shrink / (1.0 - share * (1.0 - shrink))


def _fixed_loss(rows: float, beta: float) -> float:
    """``gamma + c(gamma) / beta`` at its least, where ``e^{-2 n gamma^2} = beta``."""
    if not 0.0 < rows < math.inf:
        raise ValueError(f"fixed_rows is {rows}; expected a positive number of effective rows, or None")
    gamma = math.sqrt(-math.log(beta) / (2.0 * rows))
    return gamma + math.sqrt(math.pi / (8.0 * rows)) * float(erfc(gamma * math.sqrt(2.0 * rows))) / beta
