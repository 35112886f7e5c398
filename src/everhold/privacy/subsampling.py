"""A mechanism that looks at a secret random part of the rows reveals less about each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from everhold.privacy.curves import GaussianCurve, PrivacyCurve, whole

__all__ = ["Scheme", "SubsampledBitsCurve", "SubsampledCurve"]

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


_LOG_MISSED = math.log(1e-13)  # probability with which more draws tell something than are counted
_TAIL_ERROR = 1e-9  # relative error of a binomial tail; measured to be below 1e-11 up to 1e10 draws


@dataclass(frozen=True, slots=True, repr=False)
class SubsampledBitsCurve(PrivacyCurve):
    """Many bits, each of one random row or of a fair coin, asked for adaptively.

    A draw tosses a fair coin with probability c; otherwise it takes a random row and shows a bit that is 1 with the
    row's value as probability. Neither the row nor the coin is shown. Replacing a share s of the rows moves the
    probability of a 1 by at most ``d = (1-c) s``, within ``[g, 1-g]``, ``g = c/2``. So one bit's curve is at most
    ``(g + d - e^eps g)_+``: that of a draw which tells nothing, except with probability ``2g + d``, when it is
    randomised response of loss ``ln(1 + d/g)``. Dominating laws compose: T draws are at most as many randomised
    responses as there are draws that tell something. More than N of them are counted as a loss of everything; N is so
    large (Bernstein) that this has probability 1e-13, or is T.

    Args:
        draws: T, the number of bits.
        coins: c in (0, 1].
        share: s in (0, 1]: one of n rows is ``1/n``.

    Raises:
        ValueError: If an argument is out of range.

    Source: docs/theory, subsampling; Zhu, Dong, Wang 2022 (dominating pairs); Kairouz, Oh, Viswanath 2015.

    Examples:
        >>> from everhold.privacy.curves import PureCurve
        >>> bits = SubsampledBitsCurve(1, coins=0.5, share=1.0)
        >>> round(bits.delta(0.3), 6) == round(PureCurve(math.log(3.0)).delta(0.3), 6)
        True
    """

    kind: ClassVar[str] = "subsampled bits"

    draws: int
    coins: float
    share: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", whole(self.draws, "draws"))
        for name in ("coins", "share"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a number in (0, 1]")

    def _log_delta(self, epsilon: Floats) -> Floats:
        told, log_missed = self._told()
        if self._loss == 0:
            return np.full(epsilon.shape, -np.inf)
        last = np.floor((told + epsilon / self._loss) / 2.0)  # the largest count of bits for which the loss is <= eps
        truth = 1.0 / (1.0 + math.exp(-self._loss))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_above = binom.logsf(last, told, truth)
            difference = -np.expm1(np.minimum(epsilon + binom.logsf(last, told, 1.0 - truth) - log_above, 0.0))
            error = _TAIL_ERROR * (1.0 + 1e-7 * math.sqrt(told))
            exact = log_above + np.log(np.nan_to_num(difference) + error)
        with_missed = np.logaddexp(np.where(epsilon < told * self._loss, exact, -np.inf), log_missed)
        return np.where(epsilon < self._largest_loss(), np.minimum(with_missed, 0.0), -np.inf)

    def gaussian_limit(self) -> GaussianCurve:
        """The Gaussian curve that many draws come close to; neither bounds the other."""
        rate = self.coins + (1.0 - self.coins) * self.share
        return GaussianCurve(self._loss * math.sqrt(self.draws * rate))

    @property
    def _loss(self) -> float:
        """``ln(1 + d/g)``, the loss of a bit that tells something."""
        return math.log1p(2.0 * (1.0 - self.coins) * self.share / self.coins)

    def _told(self) -> tuple[int, float]:
        """Draws that are counted as telling something, and the logarithm of the probability that more do."""
        rate = self.coins + (1.0 - self.coins) * self.share
        third = -_LOG_MISSED / 3.0
        excess = third + math.sqrt(third * third - 2.0 * _LOG_MISSED * self.draws * rate * (1.0 - rate))
        counted = math.floor(self.draws * rate + excess) + 1
        return (counted, _LOG_MISSED) if counted < self.draws else (self.draws, -math.inf)

    def group(self, rows: int) -> SubsampledBitsCurve:
        """A share h times as large."""
        return SubsampledBitsCurve(self.draws, self.coins, min(1.0, self.share * whole(rows, "rows")))

    def repeat(self, times: int) -> SubsampledBitsCurve:
        """As many draws more."""
        return SubsampledBitsCurve(self.draws * whole(times, "times"), self.coins, self.share)

    def _largest_loss(self) -> float:
        return self.draws * self._loss

    def _parameters(self) -> dict[str, Any]:
        return {"draws": self.draws, "coins": self.coins, "share": self.share}
