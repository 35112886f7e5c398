"""MWEM: multiplicative weights taught by the queries that are answered worst (Hardt, Ligett, McSherry 2012)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.privacy.curves import ZeroConcentratedCurve
from everhold.randomness import LARGEST_SCALE
from everhold.values.evaluation import UNIT
from everhold.values.universe import checked_histogram
from everhold_privacy.mechanisms.selection import ExponentialMechanism
from everhold_privacy.synthetic.base import Synthesizer, checked_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.randomness import Noise

EXCESSES = np.geomspace(1e-4, 1e4, 240)
"""The v at which ``E(V - v)_+`` is looked at, in units of the squared scale of a measurement."""

_DELTA = 1e-6  # of the (epsilon, delta) that is quoted
_LEAST = 1e-290
_TILTS = np.concatenate([np.geomspace(1e-4, 0.5, 40), 1.0 - np.geomspace(0.49, 1e-4, 30)])[:, None]


def mean_under(weights: NDArray[np.float64], query: NDArray[np.float64]) -> float:
    """The mean of a query with values in [0, 1] under weights that sum to 1; both of shape (cells,)."""
    return min(max(float(np.einsum("i,i->", query, weights)), 0.0), 1.0)


def taught(weights: NDArray[np.float64], query: NDArray[np.float64], released: float) -> NDArray[np.float64]:
    """Public weights after an answer that came from the sealed rows: times ``exp(4 (a - guess) q(c))`` in cell c.

    If the sealed average is ``q(x) = a - e``, the relative entropy from the sealed histogram to the weights falls by
    at least ``2 ((q(x) - guess)^2 - e^2)``.

    Source: Hardt, Rothblum 2010; the constants: docs/theory, synthetic data.
    """
    step = 4.0 * (min(max(released, 0.0), 1.0) - mean_under(weights, query))
    grown = np.maximum(weights * np.exp(step * query), _LEAST)  # no weight becomes 0 for ever
    return np.asarray(grown / grown.sum())


@dataclass(frozen=True, kw_only=True)
class MWEM(Synthesizer):
    """T rounds: the exponential mechanism picks a badly answered query, it is measured, the weights learn it.

    The table is the average of the weights before each round. Its largest error on the sealed rows is at most
    ``sqrt(ln N / (2T) + mean e_t^2) + mean regret_t``, with e_t the errors of the measurements and regret_t what the
    choices miss the worst query by: `sampling` turns that into the r of S1.

    Attributes:
        rounds: T.
        choice_epsilon: Privacy loss of each choice; one row moves the error of a query by one unit.
        scale: Scale of the Gaussian noise of each measurement, in the units of a mean.

    Raises:
        ValueError: If an attribute is out of its range.

    Examples:
        >>> from everhold.randomness import SeededNoise
        >>> from everhold_privacy.synthetic import ListedColumn, Universe
        >>> universe = Universe((ListedColumn("colour", ("red", "green", "blue"), rest="blue"),))
        >>> family = universe.marginals(1)
        >>> mwem = MWEM.concentrated(rho=0.01, rounds=40, rows=2_000_000, universe=universe, queries=family)
        >>> mwem.learned(mwem.release([1_000_000, 600_000, 400_000], SeededNoise(1))).round(1)
        array([0.5, 0.3, 0.2])
    """

    rounds: int
    choice_epsilon: float
    scale: float

    method: ClassVar[str] = "mwem"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_count("rounds", self.rounds)
        if not 0.0 < self.choice_epsilon < math.inf:
            raise ValueError(f"choice_epsilon is {self.choice_epsilon}; expected a positive finite number")
        if not 0.0 < self.scale <= LARGEST_SCALE / self.steps:
            raise ValueError(
                f"scale is {self.scale}; expected a positive number up to {LARGEST_SCALE / self.steps:.3g}"
            )

    @classmethod
    def concentrated(cls, *, rho: float, rounds: int, rows: int, **others: Any) -> Self:
        """Choices and measurements that share rho-zero-concentrated privacy equally.

        Args:
            rho: Zero-concentrated privacy loss of the whole run.
            rounds: T.
            rows: n.
            **others: As in the constructor.
        """
        if not 0.0 < rho < math.inf:
            raise ValueError(f"rho is {rho}; expected a positive finite number")
        checked_count("rounds", rounds)
        checked_count("rows", rows)
        share = rho / (2 * rounds)
        return cls(
            rounds=rounds, rows=rows, choice_epsilon=math.sqrt(8.0 * share),
            scale=1.0 / (rows * math.sqrt(2.0 * share)), **others,
        )  # fmt: skip

    @property
    def selection(self) -> ExponentialMechanism:
        """The mechanism of each choice."""
        return ExponentialMechanism(self.choice_epsilon)

    @property
    def candidates(self) -> int:
        """Number of queries."""
        return len(self.queries)

    @property
    def steps(self) -> int:
        """Grid units of a sum that make a mean of 1."""
        return int(self.rows) * UNIT

    @property
    def scale_on_grid(self) -> int:
        """Scale of the noise of a measured sum, in grid units."""
        return math.ceil(self.scale * self.steps)

    def curve(self) -> PrivacyCurve:
        """Choices are ``epsilon^2/8``-zero-concentrated, measurements ``1/(2 s^2)``, with s their noise in rows."""
        noise = self.scale_on_grid / UNIT
        return ZeroConcentratedCurve(self.rounds * (self.choice_epsilon**2 / 8.0 + 0.5 / noise**2))

    def privacy(self) -> tuple[float, float]:
        """With ``delta = 1e-6``."""
        return self.curve().epsilon(_DELTA), _DELTA

    def _apart(self, beta: float) -> tuple[float, float]:
        """``E(sqrt(a + V) - sqrt(a + v))_+ <= E(V - v)_+ / (2 sqrt(a + v))``, ``a = ln N/(2T)``, V the mean e_t^2."""
        drawn = self.scale_on_grid / self.steps
        alpha = np.sqrt(math.log(self.universe.cells) / (2.0 * self.rounds) + drawn**2 * EXCESSES)
        exceedance = drawn**2 * self.excess() / (2.0 * alpha)
        best = int(np.argmin(alpha + exceedance / beta))
        return float(alpha[best]), float(exceedance[best])

    def excess(self) -> NDArray[np.float64]:
        """``E(V - v)_+`` in units of the squared scale, for v of `EXCESSES`."""
        return _gaussian_excess(self.rounds)

    def measured(self, noise: Noise) -> int:
        """The noise of one measurement, in grid units."""
        return int(noise.gaussian(self.scale_on_grid, 1, stream="measurement")[0])

    def release(self, histogram: ArrayLike, noise: Noise) -> list[list[int]]:
        """Of each round the number of the chosen query and its noisy sum in grid units."""
        totals = self.queries.totals(checked_histogram(histogram, cells=self.universe.cells, rows=self.rows))
        released = []

        def ask(weights: NDArray[np.float64]) -> tuple[int, int]:
            public = np.rint(self.queries.means(weights) * self.steps).astype(np.int64)
            losses = self.steps - np.abs(totals - np.minimum(public, self.steps))
            chosen = self.selection.choose(losses, noise, stream="choice")
            released.append([chosen, int(totals[chosen]) + self.measured(noise)])
            return chosen, released[-1][1]

        self._learn(ask)
        return released

    def learned(self, released: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """The average of the weights before each round.

        Raises:
            ValueError: If there is not one pair for each round.
        """
        if len(released) != self.rounds:
            raise ValueError(f"there are {len(released)} pairs; expected one for each of {self.rounds} rounds")
        pairs = iter(released)
        return self._learn(lambda _: next(pairs))

    def _learn(self, ask: Callable[[NDArray[np.float64]], Sequence[int]]) -> NDArray[np.float64]:
        weights, average = np.full(self.universe.cells, 1.0 / self.universe.cells), np.zeros(self.universe.cells)
        weights /= weights.sum()
        for _ in range(self.rounds):
            average += weights
            chosen, total = ask(weights)
            weights = taught(weights, self.queries.vector(chosen), total / self.steps)
        return np.asarray(average / average.sum())


@lru_cache(maxsize=64)
def _gaussian_excess(rounds: int) -> NDArray[np.float64]:
    """Chernoff with the best of some tilts.

    A discrete Gaussian is sub-Gaussian with its own scale, so ``E e^{u T V / 2} <= (1 - u)^{-T/2}``; and
    ``(z)_+ <= e^{k z - 1} / k`` for every k.
    """
    exponent = -0.5 * rounds * (np.log1p(-_TILTS) + _TILTS * EXCESSES)
    with np.errstate(over="ignore"):
        bounds = 2.0 / (math.e * _TILTS * rounds) * np.exp(exponent)
    return np.asarray(np.minimum(bounds.min(axis=0), 1.0))  # E V <= 1
