"""Curves that no mechanism of the product has: approximate privacy, its composition, and amplification by sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from everhold.privacy.curves import PrivacyCurve, non_negative, whole
from everhold.privacy.tails import Floats, log_delta_pure

Scheme = Literal["without replacement", "poisson"]


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


def basic_composition(parts: Sequence[tuple[float, float]]) -> ApproximateCurve:
    """Return the basic composition, in which epsilons and deltas add up.

    Args:
        parts: Pairs ``(epsilon, delta)``, one for each mechanism.

    Returns:
        The curve of one ``(sum epsilon, sum delta)``-private mechanism.

    Raises:
        ValueError: If a parameter is out of range.

    Source: Dwork, Roth 2014, Theorem 3.16.

    Examples:
        >>> basic_composition([(0.1, 0.0), (0.2, 1e-6)])
        ApproximateCurve(epsilon=0.3..., delta=1e-06, times=1)
    """
    checked = [ApproximateCurve(epsilon, delta) for epsilon, delta in parts]
    failure = math.fsum(part.failure for part in checked)
    return ApproximateCurve(math.fsum(part.level for part in checked), min(1.0, failure))


@dataclass(frozen=True, slots=True, repr=False, init=False)
class AdvancedCompositionCurve(PrivacyCurve):
    """Advanced composition with the constants of the book, as a curve; for comparison, `ApproximateCurve` is exact.

    For every ``d > 0``, k mechanisms that are (e, f)-private are together private with
    ``(sqrt(2k ln(1/d)) e + k e (e^e - 1), k f + d)``; from ``k e`` on basic composition takes over.

    Args:
        epsilon: e, non-negative and finite.
        delta: f, in [0, 1].
        times: k.

    Raises:
        ValueError: If an argument is out of range.

    Source: Dwork, Roth 2014, Theorem 3.20.

    Examples:
        >>> from everhold.privacy.curves import PureCurve
        >>> AdvancedCompositionCurve(0.1, times=100).delta(4.0) > PureCurve(0.1, times=100).delta(4.0)
        True
    """

    kind: ClassVar[str] = "advanced"

    level: float
    failure: float
    times: int

    def __init__(self, epsilon: float, delta: float = 0.0, times: int = 1) -> None:
        single = ApproximateCurve(epsilon, delta, times)
        object.__setattr__(self, "level", single.level)
        object.__setattr__(self, "failure", single.failure)
        object.__setattr__(self, "times", single.times)

    def _log_delta(self, epsilon: Floats) -> Floats:
        drift = self.times * self.level * math.expm1(min(self.level, 700.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            deviations = np.maximum(epsilon - drift, 0.0) / self.level
        slack = np.where(epsilon >= self.times * self.level, -np.inf, -(deviations**2) / (2 * self.times))
        return np.minimum(np.logaddexp(self._log_delta_at_infinity(), slack), 0.0)

    def group(self, rows: int) -> AdvancedCompositionCurve:
        """Return the advanced composition of the mechanisms' group parameters."""
        single = ApproximateCurve(self.level, self.failure).group(rows)
        return AdvancedCompositionCurve(single.level, single.failure, self.times)

    def _largest_loss(self) -> float:
        return self.level * self.times

    def _log_delta_at_infinity(self) -> float:
        return math.log(min(1.0, self.times * self.failure)) if self.failure > 0 else -math.inf

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": self.level, "delta": self.failure, "times": self.times}


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
            raise ValueError(f"rate is {self.rate}. Pass a number above 0 and at most 1.")
        if self.scheme not in get_args(Scheme):
            raise ValueError(f"scheme is {self.scheme!r}. Pass one of {', '.join(map(repr, get_args(Scheme)))}.")

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
        """Return the curve as plain data, with its base."""
        return {"kind": self.kind, "base": self.base.to_dict(), "rate": self.rate, "scheme": self.scheme}


def _log1mexp(x: float) -> float:
    """Return ``ln(1 - e^x)`` for ``x <= 0``."""
    if x == 0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -math.log(2) else math.log1p(-math.exp(x))
