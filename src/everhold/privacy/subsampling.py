"""A mechanism that looks at a secret random part of the rows reveals less about each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from everhold.privacy.curves import PrivacyCurve, whole

__all__ = ["Scheme", "SubsampledCurve"]

Floats = NDArray[np.float64]
Scheme = Literal["without replacement", "poisson"]


@dataclass(frozen=True, slots=True, repr=False)
class SubsampledCurve(PrivacyCurve):
    """``delta'(ln(1 + q(e^eps - 1))) = q delta(eps)``: the curve about one replaced row, for a secret sample of rate q.

    Neighbours replace one row, before and after sampling. Which relation `base` has to hold for depends on the scheme.

    *Without replacement* (m of n rows, ``q = m/n``): replacing one row of the sample. A sample that holds the row and
    one that does not can be coupled so that they differ by one replacement.

    *Poisson* (every row by itself with probability q): replacing one row and also adding or removing one. A sample with
    the row and the same sample without it differ by one removal. Sums of values in [0, 1] with noise that does not
    depend on the sample's size have one curve for all of these; averages divided by the sample's size do not.

    In both schemes the output's law is ``(1-q) M_0 + q M_1`` with the same ``M_0`` for both neighbours. By advanced
    joint convexity, with ``e^{eps'} = 1 + q(e^eps - 1)`` and ``b = e^{eps'-eps}``, its divergence at ``eps'`` is
    ``q E_{e^eps}(M_1 || (1-b) M_0 + b M_1')``, and by convexity each of the two parts is at most ``delta(eps)``.

    Args:
        base: Curve of the mechanism on the sample.
        rate: q in (0, 1].
        scheme: "without replacement" or "poisson".

    Raises:
        ValueError: If `rate` or `scheme` is not as above.

    Source: Balle, Barthe, Gaboardi 2018, Theorem 2 (joint convexity) and Theorem 9 (without replacement).

    Examples:
        >>> from everhold.privacy.curves import PureCurve
        >>> round(SubsampledCurve(PureCurve(1.0), 0.01).epsilon(0.0), 6)
        0.017037
    """

    kind: ClassVar[str] = "subsampled"

    base: PrivacyCurve
    rate: float
    scheme: Scheme = "without replacement"

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is {self.rate}; expected a number in (0, 1]")
        if self.scheme not in get_args(Scheme):
            raise ValueError(f"scheme is {self.scheme!r}; expected one of {', '.join(map(repr, get_args(Scheme)))}")

    def _log_delta(self, epsilon: Floats) -> Floats:
        small = np.minimum(epsilon, 1.0)
        inner = np.where(
            epsilon <= 1.0,
            np.log1p(np.expm1(small) / self.rate),
            epsilon - math.log(self.rate) + np.log1p(-(1.0 - self.rate) * np.exp(-epsilon)),
        )
        return math.log(self.rate) + self.base.log_delta(inner)

    def group(self, rows: int) -> PrivacyCurve:
        """The same argument: the sample meets the h rows with probability ``<= h q`` (Poisson: ``1 - (1-q)^h``)."""
        rows = whole(rows, "rows")
        if self.scheme == "poisson":
            met = -math.expm1(rows * math.log1p(-self.rate)) if self.rate < 1 else 1.0
        else:
            met = min(1.0, rows * self.rate)
        return SubsampledCurve(self.base.group(rows), met, self.scheme)

    def _largest_loss(self) -> float:
        largest = self.base._largest_loss()
        if largest > 1.0:
            return largest + math.log(self.rate) + math.log1p((1.0 / self.rate - 1.0) * math.exp(-largest))
        return math.log1p(self.rate * math.expm1(largest))

    def _log_delta_at_infinity(self) -> float:
        return math.log(self.rate) + self.base._log_delta_at_infinity()

    def _parameters(self) -> dict[str, Any]:
        return {"base": self.base, "rate": self.rate, "scheme": self.scheme}

    def to_dict(self) -> dict[str, Any]:
        """The curve as plain data, with its base."""
        return {"kind": self.kind, "base": self.base.to_dict(), "rate": self.rate, "scheme": self.scheme}
