"""The curve of mechanisms whose privacy losses lie close together, such as the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from everhold.privacy.curves import Floats, PrivacyCurve, non_negative, whole

__all__ = ["BoundedRangeCurve"]


@dataclass(frozen=True, slots=True, repr=False, init=False)
class BoundedRangeCurve(PrivacyCurve):
    """Exact worst case of a mechanism whose privacy losses about a row span at most ``epsilon``.

    For neighbours ``x, x'`` all of ``ln M(x)(y)/M(x')(y)`` lie in one interval of length epsilon, which then contains
    0. That is less than pure epsilon-privacy allows, where they span ``2 epsilon``: the curve starts at
    ``tanh(epsilon/4)`` instead of ``tanh(epsilon/2)``. Several in a row are composed by privacy loss distributions.

    Args:
        epsilon: Width of the range, non-negative and finite.

    Raises:
        ValueError: If `epsilon` is negative or infinite.

    Source: docs/theory, selection; Durfee, Rogers 2019 (bounded range); Dong, Durfee, Rogers 2020 (the worst laws).

    Examples:
        >>> from everhold.privacy import PureCurve
        >>> round(BoundedRangeCurve(1.0).delta(0.0), 4), round(PureCurve(1.0).delta(0.0), 4)
        (0.2449, 0.4621)
        >>> BoundedRangeCurve(1.0).epsilon(0.0)
        1.0
    """

    kind: ClassVar[str] = "bounded-range"

    width: float

    def __init__(self, epsilon: float) -> None:
        object.__setattr__(self, "width", non_negative(epsilon, "epsilon"))

    def _log_delta(self, epsilon: Floats) -> Floats:
        """``(1 - e^{-(w - eps)/2})^2 / (1 - e^{-w})``."""
        left = np.maximum(self.width - epsilon, 0.0)
        with np.errstate(divide="ignore"):
            within = 2.0 * np.log(-np.expm1(-left / 2.0))
        return within - math.log(-math.expm1(-self.width)) if self.width > 0 else within

    def group(self, rows: int) -> BoundedRangeCurve:
        """Step by step from row to row the ranges add up; exact."""
        return BoundedRangeCurve(whole(rows, "rows") * self.width)

    def _largest_loss(self) -> float:
        return self.width

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": self.width}
