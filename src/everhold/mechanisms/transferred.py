"""What mechanisms share that promise one half-width for all answers by the sharp transfer theorem (S1, S2)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from everhold.guarantees.transfer import TransferBound, leakage_bound
from everhold.mechanisms.base import Mechanism, Promise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.privacy.curves import PrivacyCurve

__all__ = ["TransferredPromise", "cached_bound"]


@dataclass(frozen=True, kw_only=True)
class TransferredPromise(Mechanism):
    """A curve and an exceedance, and what S1 makes of them."""

    reads_leakage: ClassVar[bool] = True
    _privacy_delta: ClassVar[float]  # at which the certificate states epsilon

    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """Hockey-stick curve of the whole transcript for one replaced row."""

    @abstractmethod
    def _sampling(self) -> tuple[float, float]:
        """The best alpha and r(alpha) there."""

    def _bound(self, curve: PrivacyCurve | None = None) -> TransferBound:
        """S1 with this curve; by default with the mechanism's own."""
        alpha, exceedance = self._sampling()
        leakage = self.dependence.leakage(self.curve() if curve is None else curve, self.rows)
        leak = leakage_bound(leakage, confidence=self.statement_confidence)
        excess = (exceedance + leak.delta) / self.beta
        return TransferBound(radius=alpha + leak.bias + excess, alpha=alpha, epsilon=leak.epsilon, excess=excess)

    def _interval(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        bound = cached_bound(self)
        return self.transferred(values, margin=bound.alpha + bound.excess, epsilon=bound.epsilon)

    def promise(self) -> Promise:
        """S1 with the curve of all answers together."""
        bound = cached_bound(self)
        return Promise(
            statement=bound.statement,
            radius=bound.radius + self.rounding,
            confidence=self.confidence,
            assumptions=(self.dependence.describe(),),
            details={"alpha": bound.alpha, "epsilon": bound.epsilon, "excess": bound.excess},
            privacy=(_cached_epsilon(self), self._privacy_delta),
        )


@lru_cache(maxsize=256)
def cached_bound(mechanism: TransferredPromise) -> TransferBound:
    """S1 with the mechanism's own curve; costly, and wanted for every answer."""
    return mechanism._bound()


@lru_cache(maxsize=256)
def _cached_epsilon(mechanism: TransferredPromise) -> float:
    """Epsilon of the whole transcript; costly, too, and part of every quote."""
    return mechanism.curve().epsilon(mechanism._privacy_delta)
