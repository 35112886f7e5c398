"""The law of a Markov chain, or of all chains near one: couplings, forgetting, and prices of quilts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from everhold.dependence.series.coupling import ChainCoupling, UniformCoupling
from everhold.dependence.series.law import SeriesLaw
from everhold.dependence.series.mixing import Chain, Contraction
from everhold.errors import DependenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.dependence.series.coupling import Coupling

_QUILT_STEPS = 4096


@dataclass(frozen=True)
class ChainLaw(SeriesLaw):
    """Transition matrix, law of the first row, and how far each row of the matrix may be off; see `MarkovChain`."""

    transition: tuple[tuple[float, ...], ...]
    initial: Literal["stationary"] | tuple[float, ...]
    uncertainty: tuple[float, ...] | None

    @property
    def uncertain(self) -> bool:
        """True if the matrix is known only up to a set."""
        return self.uncertainty is not None

    @cached_property
    def chain(self) -> Chain:
        """The chain of the matrix."""
        return Chain(self.transition)

    @cached_property
    def contraction(self) -> Contraction:
        """Rate at which all chains of the set forget."""
        return Contraction(self.chain, np.array(self.uncertainty or (0.0,) * len(self.transition)))

    @property
    def known(self) -> bool:
        """True if the law of the series is known: the matrix, and that it starts in its stationary law."""
        return self.initial == "stationary" and self.contraction.exact

    def coupling(self) -> Coupling:
        """See `SeriesLaw.coupling`; one for all models of the same chain, so that its tails are computed once."""
        return _shared_coupling(self)

    def refuse_memory(self) -> None:
        """Refuse a chain that need not forget its first state."""
        if self.contraction.exact and self.chain.fault is not None:
            raise DependenceError(
                f"the chain never forgets its first state, for {self.chain.fault}; expected an irreducible, aperiodic "
                "chain; model the parts one by one, or declare Groups"
            )
        if not self.contraction.exact and self.contraction.rate >= 1.0:
            raise DependenceError(
                "the matrix is too uncertain to say that the chain forgets its first state; expected smaller radii; "
                "fit it to more rows, join rare states, or declare Groups"
            )

    def distance(self, steps: int) -> float:
        """``E_s TV(P^steps(s, .), law of that row)``; at most ``(1 - 1/S) d(steps)`` if the chain is not known."""
        if self.known and self.chain.fault is None:
            return self.chain.distance_to_stationary(steps)
        return float(self.contraction.at(steps, 2)[1]) * (1.0 - 1.0 / len(self.transition))

    @property
    def norm(self) -> float:
        """Norm of the kernel on mean-zero functions, at most."""
        if self.known:
            return self.chain.norm
        if self.initial == "stationary" and len(self.transition) == 2:
            # every chain of two states is reversible, and its one other eigenvalue is at most d(1) in absolute value
            return min(float(self.contraction.at(1, 2)[1]) * (1.0 + 1e-12), 1.0)
        return 1.0

    def bayesian_price(self, epsilon: float, longest: int) -> float:
        """``min over quilts {i-a, i+b} of (a+b-1)/(epsilon - 4 (ln-ratio of P^b + ln-ratio of P*^a))`` (P5).

        Rows are their states here, as in the paper. Near an end a side without quilt is cheaper, so rows far from both
        ends decide; the search is over all a and b up to 64 and coarser beyond, which can only raise the price.
        """
        worst = longest / epsilon
        if not self.known or self.chain.fault is not None:
            return worst
        steps = _quilt_steps(min(longest, _QUILT_STEPS))
        ahead, behind = (_influences(chain, steps) for chain in (self.chain, self.chain.reversal))
        left = epsilon - 4.0 * (ahead[:, None] + behind[None, :])
        size = np.minimum(steps[:, None] + steps[None, :] - 1, longest)
        prices = np.divide(size, left, out=np.full(left.shape, math.inf), where=left > 0.0)
        return float(min(prices.min(), worst))


@lru_cache(maxsize=16)
def _shared_coupling(law: ChainLaw) -> Coupling:
    law.refuse_memory()
    return ChainCoupling(law.chain) if law.known else UniformCoupling(law.contraction, len(law.transition))


def _quilt_steps(longest: int) -> NDArray[np.int64]:
    near = np.arange(1, min(longest, 64) + 1)
    return np.unique(np.concatenate([near, np.geomspace(near[-1], longest, 200).astype(np.int64)]))


def _influences(chain: Chain, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """``ln max P^h(x, y)/P^h(x', y)`` for every number of steps h; infinite where a zero meets a positive number."""
    result = np.full(len(steps), math.inf)
    power, done = np.eye(chain.states), 0
    for place, step in enumerate(steps.tolist()):
        power, done = power @ np.linalg.matrix_power(chain.transition, step - done), step
        least, most = power.min(axis=0), power.max(axis=0)
        if np.all(least > 0.0):
            result[place] = math.log(float(np.max(most / least)))
    return result
