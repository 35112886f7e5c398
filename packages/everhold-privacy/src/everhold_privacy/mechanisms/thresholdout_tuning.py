"""The best noise for Thresholdout: three scales under one privacy loss, and the slack x of the comparison (S1).

The costly part of S1, what the transcript leaks, depends on the scales only through the loss of one epoch. So it is
tabulated at a few losses and interpolated, while the scales are searched jointly with the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import scipy
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from everhold_privacy.guarantees.exceedance import (
    comparison_exceedance,
    laplace_exceedance,
    laplace_pair_tail,
    wrong_side_exceedance,
)

Point = NDArray[np.float64]

_THREE, _FIVE = np.array([-1.0, 0.0, 1.0]), np.array([-1.0, -0.7, 0.0, 0.7, 1.0])
_MOST_ROUNDS = 12
_VACUOUS = 1e6  # thresholds beyond are all alike
_WIDTHS = (0.5, 0.1, 0.02)
_USELESS = 0.5
_MOST_STEPS_DOWN = 12  # down to losses e^-11 times as large


@dataclass(frozen=True, slots=True)
class Scales:
    """Noise scales of Thresholdout in the units of a mean, and how often they are drawn.

    Attributes:
        threshold: s1, of the noise on the threshold.
        comparison: s3, of the noise on each comparison.
        answer: s2, of the noise on each release.
        queries: m.
        surprises: B.
        step: One step of the grid of sealed means.
    """

    threshold: float
    comparison: float
    answer: float
    queries: int
    surprises: int
    step: float = 0.0

    @classmethod
    def sharing(
        cls, loss: float, comparison_weight: float, answer_weight: float, *, rows: int, queries: int, surprises: int
    ) -> Self:
        """Scales whose epoch loses ``(1/s1 + 2/s3 + 1/s2)/n``, shared as 1 : comparison_weight : answer_weight."""
        unit = (1.0 + comparison_weight + answer_weight) / (rows * loss)
        return cls(unit, 2.0 * unit / comparison_weight, unit / answer_weight, queries, surprises)

    def exceedance(self, *, excess: float, threshold: float, two_sided: bool) -> float:
        """The exceedance r at alpha = T + x (S1).

        Two-sided, it covers needless spending too; then it is infinite unless ``T - x >= s2``.
        """
        asked = {"queries": self.queries, "surprises": self.surprises}
        scales = {"threshold_scale": self.threshold, "comparison_scale": self.comparison}
        passed = comparison_exceedance(excess=excess, **scales, **asked)  # type: ignore[arg-type]
        released = laplace_exceedance(alpha=threshold + excess, scale=self.answer, answers=self.surprises)
        if not two_sided:
            return passed + released
        if threshold - excess < self.answer:
            return math.inf
        tail = laplace_pair_tail(excess=max(excess - self.step, 0.0), **scales)  # one step of the grid earlier
        side = wrong_side_exceedance(distance=threshold - excess, tail=tail, answer_scale=self.answer, **asked)
        return 2.0 * passed + released + side  # a comparison can fail towards release as well as towards the guess

    def least_threshold(self, *, excess: float, leak: float, beta: float, ratio: float, start: float) -> float:
        """The least T of at least ``ratio (x + leak + r/beta)``, by iteration: r barely depends on T."""
        floor = (excess + self.answer) * (1.0 + 1e-12)  # the wrong-side term needs T - x >= s2
        before, threshold = 0.0, min(max(start, floor), _VACUOUS)
        for _ in range(20):
            exceedance = self.exceedance(excess=excess, threshold=threshold, two_sided=True)
            before, threshold = threshold, max(ratio * (excess + leak + exceedance / beta), floor)
            if threshold > _VACUOUS or abs(before - threshold) <= 1e-10 * threshold:
                break
        return min(max(before, threshold), _VACUOUS)


def best_scales(
    leak: Callable[[float], float], *, rows: int, queries: int, surprises: int, confidence: float, ratio: float
) -> Scales:
    """The scales with the least threshold, and so with the least radius.

    Args:
        leak: ``tanh(eps/4) + leak(eps)/beta`` at its least, for the pure loss of one epoch.
        rows: Number of sealed rows n.
        queries: m.
        surprises: B.
        confidence: 1 - beta.
        ratio: ``(1+c)/(1-c)`` for slack c: the threshold is so many times the error beyond it.
    """
    search = _Search(leak, rows=rows, queries=queries, surprises=surprises, beta=1.0 - confidence, ratio=ratio)
    point, threshold = search.start(), 1.0
    widths = list(_WIDTHS)
    for _ in range(_MOST_ROUNDS):
        before, point = point, search.around(point, widths[0], threshold)
        threshold = search.threshold(point, leak(math.exp(point[0])), threshold)
        if abs(point[0] - before[0]) < 0.9 * widths[0]:  # else the optimum lies further on: look there as widely
            widths.pop(0)
        if not widths:
            break
    return search.scales(point)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The least threshold over points ``ln (epoch's loss, weight of comparison, weight of answer, x n loss)``."""

    leak: Callable[[float], float] = field(kw_only=False)
    rows: int
    queries: int
    surprises: int
    beta: float
    ratio: float

    def start(self) -> Point:
        """A point of the right order of magnitude: the leak balances the noise.

        Where rows depend on each other the best loss may be hundreds of times smaller than for independent ones, and
        in between all thresholds are equally useless: go down by steps until the threshold rises again.
        """
        spread = math.log(4.0 * self.queries * self.surprises / self.beta)
        loss = math.sqrt(12.0 * spread / (self.rows * math.sqrt(self.surprises)))
        best, least = None, math.inf
        for step in range(_MOST_STEPS_DOWN):
            point = np.array([math.log(loss) - step, 0.5, -0.3, math.log(6.0 * spread)])
            threshold = self.threshold(point, self.leak(math.exp(point[0])), 1.0)
            if best is not None and threshold > least and least < _USELESS:
                break
            if threshold < least:
                best, least = point, threshold
        return point if best is None else best

    def scales(self, point: Point) -> tuple[Scales, float]:
        """The scales and x of a point."""
        loss, comparison, answer, excess = np.exp(np.minimum(point, 50.0)).tolist()
        chosen = Scales.sharing(
            loss, comparison, answer, rows=self.rows, queries=self.queries, surprises=self.surprises
        )  # fmt: skip
        return chosen, excess / (self.rows * loss)

    def threshold(self, point: Point, leak: float, start: float) -> float:
        """The least threshold at a point."""
        chosen, excess = self.scales(point)
        return chosen.least_threshold(excess=excess, leak=leak, beta=self.beta, ratio=self.ratio, start=start)

    def around(self, center: Point, width: float, start: float) -> Point:
        """The best point whose loss is within a factor ``e^width`` of the centre's, or somewhat beyond."""
        log_leak = _interpolated(self.leak, float(center[0]), width)

        def log_threshold(point: Point) -> float:
            off = max(abs(float(point[0] - center[0])) - width, 0.0)  # the interpolation says nothing out there
            if off > width:
                return 1e3
            return math.log(self.threshold(point, math.exp(log_leak(float(point[0]))), start)) + off

        simplex = center + np.vstack([np.zeros(4), 0.6 * width * np.eye(4)])
        found = scipy.optimize.minimize(
            log_threshold,
            center,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "xatol": 1e-3 * width, "fatol": 1e-10, "maxiter": 400},
        )
        return np.asarray(found.x, dtype=np.float64)


def _interpolated(leak: Callable[[float], float], center: float, width: float) -> Callable[[float], float]:
    """The logarithm of leak as a polynomial in ln loss around a centre."""
    nodes = _FIVE if width == _WIDTHS[0] else _THREE
    values = [math.log(leak(math.exp(center + width * node))) for node in nodes]
    fit = Polynomial.fit(nodes, values, deg=len(nodes) - 1, domain=[-1, 1], window=[-1, 1])
    coefficients = fit.coef.tolist()

    def log_leak(log_loss: float) -> float:
        at, total = (log_loss - center) / width, 0.0
        for coefficient in reversed(coefficients):
            total = total * at + coefficient
        return total

    return log_leak
