"""Mechanisms that answer a fixed number of adaptive queries by adding noise to each sealed average (S1)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy

from everhold.mechanisms.base import Mechanism, Promise, Replies, Source, State, Traits, usable_scales
from everhold.mechanisms.records import Presentation
from everhold_privacy.curves import GaussianCurve, PureCurve
from everhold_privacy.guarantees import (
    TransferBound,
    gaussian_exceedance,
    laplace_exceedance,
    leakage_bound,
    transferred_interval,
)
from everhold_privacy.leakage import leakage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms.records import Evaluations
    from everhold.randomness import Noise
    from everhold_privacy.curves import PrivacyCurve

_MOST_USEFUL_SCALE = 16.0  # of a mean in [0, 1]
_FAR_OUT = 40.0  # standard deviations, beyond which lies less than e^-799
_RANGE, _LOOKS = 1e7, 17  # a factor 2.7 from look to look


LEAKED = "everhold_privacy.leakage:leaked"
TRANSFERRED = partial(Presentation, page="transfer", theorem=(
    "Because of the noise, what anybody sees can hardly depend on a single sealed row. Then answers that are close "
    "to the averages over the sealed rows are close to the population's values too, however the queries were "
    "chosen. With probability at least 1 - beta, every answer is within alpha + tanh(epsilon/4) + excess of the "
    "population's value. Here excess = (r(alpha) + leak(epsilon)) / beta. The term r(alpha) bounds by how much the "
    "worst answer is expected to be further than alpha from its sealed average, and leak(epsilon) bounds what the "
    "answers give away about a single row beyond a factor of exp(epsilon)."
))  # fmt: skip
"""Words about mechanisms whose intervals follow from privacy (S1)."""


@dataclass(frozen=True, kw_only=True)
class Transferred(Mechanism):
    """Base of mechanisms whose privacy curve leads to intervals for the population (S1 and S2)."""

    traits: ClassVar[Traits] = Traits(leakage=LEAKED)

    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """Return the hockey-stick curve of all planned answers for one replaced row."""

    @abstractmethod
    def spent_curve(self, state: State) -> PrivacyCurve:
        """Return the hockey-stick curve of the answers so far, valid however the queries were chosen."""

    @property
    def beyond_curve(self) -> float:
        """Upper bound on how far the epsilon of the drawn noise, which is discrete, exceeds that of `curve`."""
        return self.rounding

    def loss_of(self, charged: int) -> float | None:
        """Return the zero-concentrated loss of an answer with this charge, or None if all answers cost the same."""
        return None

    def scale_on_grid(self, scale: float) -> int:
        """Return the noise scale of a mean as a whole number of grid steps of the sum, rounded up."""
        return int(np.ceil(scale * self.steps))

    def drawn_scale(self, scale: float) -> float:
        """Return the noise scale of a mean that is drawn: the requested one, rounded up to the grid."""
        return self.scale_on_grid(scale) / self.steps

    def transferred(
        self, values: NDArray[np.float64], *, margin: float, epsilon: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return intervals for the population values of released answers (S2), widened by the grid at both ends.

        Args:
            values: Released answers, shape (...).
            margin: ``alpha + (r(alpha) + leak(eps)) / beta``, without rounding.
            epsilon: The eps of the bound.
        """
        step = self.row_step
        margin += self.rounding - step  # the noise is rounded before the inversion, the rows are after it
        return transferred_interval(values, margin=margin, epsilon=epsilon, rounded_down=step)


@dataclass(frozen=True, kw_only=True)
class TransferredPromise(Transferred):
    """Base of mechanisms whose half-width follows by S1 from a privacy curve and a bound on the noise."""

    _privacy_delta: ClassVar[float] = 1e-6  # at which the certificate states epsilon

    @abstractmethod
    def _sampling(self) -> tuple[float, float]:
        """Return an alpha and the exceedance r(alpha), chosen for the smallest ``alpha + r(alpha) / beta``."""

    @property
    def _deviations(self) -> float:
        """Number z of standard deviations with the least ``alpha + r(alpha) / beta`` for m Gaussian errors."""
        return max(float(-scipy.special.ndtri(self.beta / (2.0 * self.queries))), 0.0)

    def _bound(self, curve: PrivacyCurve | None = None) -> TransferBound:
        """Return the bound of S1 for a privacy curve, by default that of this mechanism."""
        alpha, exceedance = self._sampling()
        about_a_row = leakage(self.dependence, self.curve() if curve is None else curve, self.rows)
        leak = leakage_bound(about_a_row, confidence=self.statement_confidence)
        excess = (exceedance + leak.delta) / self.beta
        return TransferBound(radius=alpha + leak.bias + excess, alpha=alpha, epsilon=leak.epsilon, excess=excess)

    @cached_property
    def bound(self) -> TransferBound:
        """The bound of S1 for the privacy curve of this mechanism, computed once because every answer needs it."""
        return _bound_of(self)

    def interval(self, values: NDArray[np.float64], alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both ends of the intervals (S2) of released answers whose allowance for noise is this alpha."""
        return self.transferred(values, margin=alpha + self.bound.excess, epsilon=self.bound.epsilon)

    def promise(self) -> Promise:
        """Return the promise of S1, from the curve of all answers together."""
        bound = self.bound
        details = {"alpha": bound.alpha, "epsilon": bound.epsilon, "excess": bound.excess}
        privacy = (_epsilon_of(self), self._privacy_delta)
        return self._promised(bound.radius + self.rounding, details, privacy=privacy)

    def spent_curve(self, state: State) -> PrivacyCurve:
        """Return the curve of as many answers as were given so far."""
        return replace(self, queries=state.asked).curve() if state.asked else PureCurve(0.0)


@lru_cache(maxsize=256)
def _bound_of(mechanism: TransferredPromise) -> TransferBound:
    return mechanism._bound()


@lru_cache(maxsize=256)
def _epsilon_of(mechanism: TransferredPromise) -> float:
    """Return the epsilon of all planned answers, cached because it is costly and part of every quote."""
    return mechanism.curve().epsilon(mechanism._privacy_delta)


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise(TransferredPromise):
    """Base of the Gaussian and the Laplace mechanism, which add fresh noise to each sealed sum.

    Attributes:
        scale: Scale of the noise on each mean.
    """

    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        usable_scales(self, "scale")

    @classmethod
    def tuned(cls, *, rows: int, queries: int, confidence: float = 0.95, **shared: Any) -> Self:
        """Return the mechanism whose noise scale has the smallest radius for a request."""
        start = cls(rows=rows, queries=queries, confidence=confidence, scale=1.0, **shared)
        least = min(math.sqrt(math.sqrt(queries)) / rows / 10.0, 0.1)  # smaller scales tell too much, larger drown all
        ends = math.log(least), math.log(min(least * _RANGE, _MOST_USEFUL_SCALE))

        def radius(log_scale: float) -> float:
            return replace(start, scale=math.exp(log_scale))._bound().radius

        # among dependent rows all small scales may tell everything, and be equally useless: look everywhere first
        steps = np.linspace(*ends, num=_LOOKS)
        step = int(np.argmin([radius(float(tried)) for tried in steps]))
        around = float(steps[max(step - 1, 0)]), float(steps[min(step + 1, _LOOKS - 1)])
        best = scipy.optimize.minimize_scalar(radius, bounds=around, method="bounded", options={"xatol": 1e-5})
        return replace(start, scale=math.exp(float(best.x)))

    @abstractmethod
    def _noise(self, noise: Noise, size: int) -> NDArray[np.int64]: ...

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Answer a batch with sealed sums plus fresh noise, until the planned queries are used up."""
        size, bound = len(evaluations.totals), self.bound
        replies, count = Replies.refused(size), min(size, self.queries - state.asked)
        values = (evaluations.totals[:count, 0] + self._noise(noise, count)) / self.steps
        ends = self.transferred(values, margin=bound.alpha + bound.excess, epsilon=bound.epsilon)
        replies.put(slice(0, count), values, ends, Source.HOLDOUT)
        return state.after(asked=count, charged=count), replies


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(AdditiveNoise):
    """Base of mechanisms that add Gaussian noise, with the draw of the noise and a bound on the largest of m errors."""

    def _noise(self, noise: Noise, size: int) -> NDArray[np.int64]:
        return noise.gaussian(self.scale_on_grid(self.scale), size, stream="answer")

    def _beyond_continuous(self, scale: int) -> float:
        """Return a bound on the epsilon of m discrete Gaussians minus that of continuous ones (docs/theory, the grid).

        ``m (1/8 + (40 + R/s)^2 / 24) / s^2`` for the scale s and the full range R of a sum, both in grid steps: so far
        may the sum of a neighbour be shifted when rows depend on each other, and out there the two laws differ most.
        """
        reach = _FAR_OUT + self.steps / scale
        return self.queries * (0.125 + reach**2 / 24.0) / scale**2

    def _sampling(self) -> tuple[float, float]:
        z, scale = self._deviations, self.drawn_scale(self.scale)
        return z * scale, gaussian_exceedance(alpha=z * scale, scale=scale, answers=self.queries)


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism(GaussianNoise):
    """Mechanism that adds Gaussian noise to every answer.

    With n rows and noise of scale sigma, m answers together have Gaussian differential privacy (GDP) with the parameter
    ``sqrt(m)/(n sigma)``. From that follows the promise (Statement S1 of docs/theory).

    Attributes:
        scale: Standard deviation sigma of the noise, in the units of a mean over [0, 1].

    Examples:
        >>> mechanism = GaussianMechanism.tuned(rows=50_000, queries=1_000)
        >>> round(mechanism.promise().radius, 4)
        0.0841
    """

    name: ClassVar[str] = "gaussian"
    presentation: ClassVar[Presentation] = TRANSFERRED(
        colour="#0072b2",
        explanation=(
            "Each answer is the average over the sealed rows with fresh Gaussian noise. Every query is charged."
        ),
    )

    @property
    def rounding(self) -> float:
        """What is added to the half-width: the rounding to a grid, and what discrete noise adds to continuous noise."""
        return 2.0 * self.row_step + self._beyond

    @cached_property
    def _beyond(self) -> float:
        return self._beyond_continuous(self.scale_on_grid(self.scale))

    def curve(self) -> GaussianCurve:
        """Return the privacy loss of all planned answers together, as a Gaussian differential privacy curve."""
        return GaussianCurve(mu=math.sqrt(self.queries) * self.unit / self.scale_on_grid(self.scale))


@dataclass(frozen=True, kw_only=True)
class LaplaceMechanism(AdditiveNoise):
    """Mechanism that adds Laplace noise to every answer.

    With n rows and noise of scale b, an answer has the pure differential privacy loss ``1/(n b)``, and the losses of m
    answers are composed. From that follows the promise (Statement S1 of docs/theory).

    Attributes:
        scale: Scale b of the noise, in the units of a mean over [0, 1].

    Examples:
        >>> mechanism = LaplaceMechanism.tuned(rows=50_000, queries=10)
        >>> mechanism.promise().statement
        'S1'
    """

    name: ClassVar[str] = "laplace"
    presentation: ClassVar[Presentation] = TRANSFERRED(
        colour="#56b4e9",
        explanation=(
            "Each answer is the average over the sealed rows with fresh Laplace noise. Every query is charged."
        ),
    )
    _privacy_delta: ClassVar[float] = 0.0

    def _noise(self, noise: Noise, size: int) -> NDArray[np.int64]:
        return noise.laplace(self.scale_on_grid(self.scale), size, stream="answer")

    def _sampling(self) -> tuple[float, float]:
        scale = self.drawn_scale(self.scale)
        alpha = scale * math.log(self.queries / self.beta)  # where d/dalpha (alpha + r/beta) = 0
        return alpha, laplace_exceedance(alpha=alpha, scale=scale, answers=self.queries)

    def curve(self) -> PureCurve:
        """Return the privacy loss of all planned answers together: the exact pure loss of one, composed."""
        return PureCurve(self.unit / self.scale_on_grid(self.scale), times=self.queries)
