"""The best noise for Thresholdout: three scales under one privacy loss, and the slack x of the comparison (S1).

The costly part of S1, what the transcript leaks, depends on the scales only through the loss of one epoch. So it is
tabulated at a few losses and interpolated, while the scales are searched jointly with the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import minimize

from everhold.guarantees.exceedance import comparison_exceedance, laplace_exceedance, wrong_side_exceedance

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Scales", "best_scales"]

_NODES = {2: np.array([-1.0, 0.0, 1.0]), 4: np.array([-1.0, -0.7, 0.0, 0.7, 1.0])}
_MOST_ROUNDS = 12
_WIDTHS = (0.5, 0.1, 0.02)


@dataclass(frozen=True, slots=True)
class Scales:
    """Noise scales of Thresholdout in the units of a mean, and how often they are drawn.

    Attributes:
        threshold: s1, of the noise on the threshold.
        comparison: s3, of the noise on each comparison.
        answer: s2, of the noise on each release.
        queries: m.
        overfits: B.
    """

    threshold: float
    comparison: float
    answer: float
    queries: int
    overfits: int

    @classmethod
    def sharing(
        cls, loss: float, comparison_weight: float, answer_weight: float, *, rows: int, queries: int, overfits: int
    ) -> Self:
        """Scales whose epoch loses ``(1/s1 + 2/s3 + 1/s2)/n``, shared as 1 : comparison_weight : answer_weight."""
        unit = (1.0 + comparison_weight + answer_weight) / (rows * loss)
        return cls(unit, 2.0 * unit / comparison_weight, unit / answer_weight, queries, overfits)

    def exceedance(self, *, excess: float, threshold: float, two_sided: bool) -> float:
        """r at alpha = T + x; two-sided, it covers needless spending too and is infinite unless ``T - x >= s2`` (S1)."""
        comparison = {
            "excess": excess,
            "threshold_scale": self.threshold,
            "comparison_scale": self.comparison,
            "queries": self.queries,
            "overfits": self.overfits,
        }
        passed = comparison_exceedance(**comparison)  # type: ignore[arg-type]
        released = laplace_exceedance(alpha=threshold + excess, scale=self.answer, answers=self.overfits)
        if not two_sided:
            return passed + released
        if threshold - excess < self.answer:
            return math.inf
        side = wrong_side_exceedance(threshold=threshold, answer_scale=self.answer, **comparison)  # type: ignore[arg-type]
        return 2.0 * passed + released + side  # a comparison can fail towards release as well as towards the guess

    def least_threshold(self, *, excess: float, leak: float, beta: float, ratio: float, start: float) -> float:
        """The least T of at least ``ratio (x + leak + r/beta)``, by iteration: r barely depends on T."""
        floor = (excess + self.answer) * (1.0 + 1e-12)  # the wrong-side term needs T - x >= s2
        before, threshold = math.inf, max(start, floor)
        for _ in range(20):
            exceedance = self.exceedance(excess=excess, threshold=threshold, two_sided=True)
            before, threshold = threshold, max(ratio * (excess + leak + exceedance / beta), floor)
            if abs(before - threshold) <= 1e-10 * threshold:
                break
        return max(before, threshold)


def best_scales(
    leak: Callable[[float], float], *, rows: int, queries: int, overfits: int, confidence: float, ratio: float
) -> Scales:
    """The scales with the least threshold, and so with the least radius.

    Args:
        leak: ``tanh(eps/4) + leak(eps)/beta`` at its least, for the pure loss of one epoch.
        rows: Number of sealed rows n.
        queries: m.
        overfits: B.
        confidence: 1 - beta.
        ratio: ``(1+c)/(1-c)`` for slack c: the threshold is so many times the error beyond it.
    """
    beta = 1.0 - confidence
    threshold = 1.0

    def scales(point: NDArray[np.float64]) -> tuple[Scales, float]:
        loss, comparison, answer, excess = np.exp(np.minimum(point, 50.0)).tolist()
        chosen = Scales.sharing(loss, comparison, answer, rows=rows, queries=queries, overfits=overfits)
        return chosen, excess / (rows * loss)

    def search(center: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        log_leak = _interpolated(leak, float(center[0]), width)

        def log_threshold(point: NDArray[np.float64]) -> float:
            off = max(abs(point[0] - center[0]) - width, 0.0)  # the interpolation says nothing out there
            if off > width:
                return math.inf
            chosen, excess = scales(point)
            least = chosen.least_threshold(
                excess=excess, leak=math.exp(log_leak(point[0])), beta=beta, ratio=ratio, start=threshold
            )
            return math.log(least) + off

        simplex = center + np.vstack([np.zeros(4), 0.6 * width * np.eye(4)])
        options = {"initial_simplex": simplex, "xatol": 1e-3 * width, "fatol": 1e-10, "maxiter": 400}
        found = minimize(log_threshold, center, method="Nelder-Mead", options=options)
        return np.asarray(found.x, dtype=np.float64)

    spread = math.log(4.0 * queries * overfits / beta)
    loss = math.sqrt(12.0 * spread / (rows * math.sqrt(overfits)))  # balances the leak with the noise, roughly
    point = np.array([math.log(loss), 0.5, -0.3, math.log(6.0 * spread)])
    widths = list(_WIDTHS)
    for _ in range(_MOST_ROUNDS):
        before, point = point, search(point, widths[0])
        chosen, excess = scales(point)
        threshold = chosen.least_threshold(
            excess=excess, leak=leak(math.exp(point[0])), beta=beta, ratio=ratio, start=threshold
        )
        if abs(point[0] - before[0]) < 0.9 * widths[0]:  # else the optimum lies further on: look there as widely
            widths.pop(0)
        if not widths:
            break
    return chosen


def _interpolated(leak: Callable[[float], float], center: float, width: float) -> Callable[[float], float]:
    """ln leak as a polynomial in ln loss around a centre."""
    nodes = _NODES[4 if width == _WIDTHS[0] else 2]
    values = [math.log(leak(math.exp(center + width * node))) for node in nodes]
    fit = Polynomial.fit(nodes, values, deg=len(nodes) - 1, domain=[-1, 1], window=[-1, 1])
    coefficients = fit.coef.tolist()

    def log_leak(log_loss: float) -> float:
        at, total = (log_loss - center) / width, 0.0
        for coefficient in reversed(coefficients):
            total = total * at + coefficient
        return total

    return log_leak
