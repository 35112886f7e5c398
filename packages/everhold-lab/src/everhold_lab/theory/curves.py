"""The curve of approximate privacy, which no mechanism of the product has and published comparisons need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from everhold_privacy.curves import Floats, PrivacyCurve, log_delta_pure, non_negative, whole


@dataclass(frozen=True, slots=True, repr=False, init=False)
class ApproximateCurve(PrivacyCurve):
    """Exact worst case of `times` mechanisms in a row, each (`epsilon`, `delta`)-private.

    Args:
        epsilon: Privacy loss of one mechanism, non-negative and finite.
        delta: Probability that one mechanism fails to keep it, in [0, 1].
        times: Number of mechanisms, chosen adaptively.

    Raises:
        ValueError: If an argument is out of range.

    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3: ``1 - (1-delta)^B (1 - pure(eps))``.

    Examples:
        >>> round(ApproximateCurve(0.1, 1e-6).delta(0.1), 12)
        1e-06
    """

    kind: ClassVar[str] = "approximate"

    level: float
    failure: float
    times: int

    def __init__(self, epsilon: float, delta: float, times: int = 1) -> None:
        if not 0 <= delta <= 1:
            raise ValueError(f"delta is {delta}. Pass a number from 0 to 1.")
        object.__setattr__(self, "level", non_negative(epsilon, "epsilon"))
        object.__setattr__(self, "failure", float(delta))
        object.__setattr__(self, "times", whole(times, "times"))

    def _log_delta(self, epsilon: Floats) -> Floats:
        log_kept = self._log_kept()
        return np.logaddexp(_log1mexp(log_kept), log_kept + log_delta_pure(epsilon, self.level, self.times))

    def group(self, rows: int) -> ApproximateCurve:
        """Return the curve about h rows, ``(h epsilon, delta (e^{h epsilon}-1)/(e^epsilon-1))`` for each."""
        rows = whole(rows, "rows")
        steps = np.arange(rows) * self.level
        with np.errstate(over="ignore"):
            failure = min(1.0, self.failure * float(np.exp(steps).sum())) if self.failure > 0 else 0.0
        return ApproximateCurve(rows * self.level, failure, self.times)

    def repeat(self, times: int) -> ApproximateCurve:
        """Return the exact curve of `times` as many mechanisms."""
        return ApproximateCurve(self.level, self.failure, self.times * whole(times, "times"))

    def _family(self, times: int) -> tuple[Any, ApproximateCurve, int]:
        single = ApproximateCurve(self.level, self.failure)
        return single, single, self.times * times

    def _log_kept(self) -> float:
        """Logarithm of the probability that no mechanism fails."""
        return self.times * math.log1p(-self.failure) if self.failure < 1 else -math.inf

    def _largest_loss(self) -> float:
        return self.level * self.times

    def _log_delta_at_infinity(self) -> float:
        return _log1mexp(self._log_kept())

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": self.level, "delta": self.failure, "times": self.times}


def _log1mexp(x: float) -> float:
    """Return ``ln(1 - e^x)`` for ``x <= 0``."""
    if x == 0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -math.log(2) else math.log1p(-math.exp(x))
