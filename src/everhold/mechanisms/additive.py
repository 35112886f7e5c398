"""Mechanisms that answer a fixed number of adaptive questions by adding noise to each sealed average."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from everhold.guarantees.exceedance import gaussian_exceedance, laplace_exceedance
from everhold.mechanisms.base import Replies, Source, State, usable_scales
from everhold.mechanisms.transferred import TransferredPromise
from everhold.privacy.curves import GaussianCurve, PureCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.privacy.noise import Noise
    from everhold.values.evaluation import Evaluations

__all__ = ["GaussianMechanism", "LaplaceMechanism"]


_MOST_USEFUL_SCALE = 16.0  # of a mean in [0, 1]
_FAR_OUT = 40.0  # standard deviations, beyond which lies less than e^-799
_RANGE, _LOOKS = 1e7, 17  # a factor 2.7 from look to look


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise(TransferredPromise):
    """Common steps of the Gaussian and the Laplace mechanism.

    Attributes:
        scale: Scale of the noise on each mean.
    """

    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        usable_scales(self, "scale")

    @classmethod
    def tuned(cls, *, rows: int, queries: int, confidence: float = 0.95, **shared: Any) -> Self:
        """The scale with the smallest radius for the wish.

        Args:
            rows: Number of sealed rows.
            queries: Number of adaptive questions.
            confidence: 1 - beta, in (0, 1).
            **shared: ``dependence`` and ``unit``, as in the constructor.
        """
        start = cls(rows=rows, queries=queries, confidence=confidence, scale=1.0, **shared)
        least = min(math.sqrt(math.sqrt(queries)) / rows / 10.0, 0.1)  # smaller scales tell too much, larger drown all
        ends = math.log(least), math.log(min(least * _RANGE, _MOST_USEFUL_SCALE))

        def radius(log_scale: float) -> float:
            return replace(start, scale=math.exp(log_scale))._bound().radius

        # among dependent rows all small scales may tell everything, and be equally useless: look everywhere first
        steps = np.linspace(*ends, num=_LOOKS)
        step = int(np.argmin([radius(float(tried)) for tried in steps]))
        around = float(steps[max(step - 1, 0)]), float(steps[min(step + 1, _LOOKS - 1)])
        best = minimize_scalar(radius, bounds=around, method="bounded", options={"xatol": 1e-5})
        return replace(start, scale=math.exp(float(best.x)))

    @abstractmethod
    def _noise(self, noise: Noise, size: int) -> NDArray[np.int64]: ...

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Each sealed sum plus fresh noise, until the planned number of questions is used up."""
        count = min(len(evaluations), self.queries - state.asked)
        replies = Replies.refused(len(evaluations))
        answered = slice(0, count)
        values = (evaluations.totals[answered, 0] + self._noise(noise, count)) / self.steps
        replies.put(answered, values, self._interval(values), Source.HOLDOUT)
        return replace(state, asked=state.asked + count, overfits=state.overfits + count), replies


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(AdditiveNoise):
    """What all mechanisms with Gaussian noise share: how it is drawn and how far m answers stray."""

    _privacy_delta: ClassVar[float] = 1e-6  # at which the certificate states epsilon

    def _noise(self, noise: Noise, size: int) -> NDArray[np.int64]:
        return noise.gaussian(self.scale_on_grid(self.scale), size, stream="answer")

    def _beyond_continuous(self, scale: int) -> float:
        """By how much the eps of m discrete Gaussians may exceed that of continuous ones (docs/theory, the grid).

        ``m (1/8 + (40 + R/s)^2 / 24) / s^2`` for the scale s and the full range R of a sum, both in grid steps: so far
        may the sum of a neighbour be shifted when rows depend on each other, and out there the two laws differ most.
        """
        reach = _FAR_OUT + self.steps / scale
        return self.queries * (0.125 + reach**2 / 24.0) / scale**2

    def _sampling(self) -> tuple[float, float]:
        z = max(float(norm.isf(self.beta / (2.0 * self.queries))), 0.0)  # where d/dalpha (alpha + r/beta) = 0
        scale = self.drawn_scale(self.scale)
        return z * scale, gaussian_exceedance(alpha=z * scale, scale=scale, answers=self.queries)


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism(GaussianNoise):
    """Gaussian noise on every answer; m adaptive answers are exactly ``sqrt(m)/(n sigma)``-GDP together (S1).

    Examples:
        >>> mechanism = GaussianMechanism.tuned(rows=50_000, queries=1_000)
        >>> round(mechanism.promise().radius, 4)
        0.0841
    """

    name: ClassVar[str] = "gaussian"

    @property
    def rounding(self) -> float:
        """Also what the discrete Gaussian's curve may exceed the continuous one's by (docs/theory, the grid)."""
        return super().rounding + self._beyond_continuous(self.scale_on_grid(self.scale))

    def curve(self) -> GaussianCurve:
        """Gaussian differential privacy of all m answers."""
        return GaussianCurve(mu=math.sqrt(self.queries) * self.unit / self.scale_on_grid(self.scale))


@dataclass(frozen=True, kw_only=True)
class LaplaceMechanism(AdditiveNoise):
    """Laplace noise on every answer; m answers are the m-fold composition of a pure ``1/(n b)`` (S1).

    Examples:
        >>> mechanism = LaplaceMechanism.tuned(rows=50_000, queries=10)
        >>> mechanism.promise().statement
        'S1'
    """

    name: ClassVar[str] = "laplace"
    _privacy_delta: ClassVar[float] = 0.0

    def _noise(self, noise: Noise, size: int) -> NDArray[np.int64]:
        return noise.laplace(self.scale_on_grid(self.scale), size, stream="answer")

    def _sampling(self) -> tuple[float, float]:
        scale = self.drawn_scale(self.scale)
        alpha = scale * math.log(self.queries / self.beta)  # where d/dalpha (alpha + r/beta) = 0
        return alpha, laplace_exceedance(alpha=alpha, scale=scale, answers=self.queries)

    def curve(self) -> PureCurve:
        """m-fold composition of the exact pure loss of one answer."""
        return PureCurve(self.unit / self.scale_on_grid(self.scale), times=self.queries)
