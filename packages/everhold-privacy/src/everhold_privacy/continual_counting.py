"""Continual observation: a count that is told after every arrival (Dwork et al. 2010; Chan, Shi and Song 2011).

Arrivals 1, ..., T are the leaves of a binary tree. Each node has the sum of its leaves with noise of its own, drawn
once. The count after t arrivals is the sum of the nodes that the binary digits of t name, so it has as much noise as t
has ones. One arrival is in one node of each level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.arguments import as_float, as_whole
from everhold.privacy.curves import PureCurve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.randomness import Noise

__all__ = ["ContinualCounter", "CounterState", "published_counting_error"]

_FAR_OUT = 60.0  # scales; the law beyond has less than e^-60


@dataclass(frozen=True, slots=True)
class CounterState:
    """What a counter keeps; secret.

    Attributes:
        time: Arrivals so far.
        sums: By level: the sum of the last node of the level that is not yet part of a larger one.
        noisy: By level: the same with noise.
    """

    time: int
    sums: tuple[int, ...]
    noisy: tuple[int, ...]


@dataclass(frozen=True)
class ContinualCounter:
    """The binary mechanism with exact integer noise.

    Args:
        horizon: T, the most arrivals.
        epsilon: Privacy loss about one arrival whose value moves by at most 1, over all counts together.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> ContinualCounter(horizon=1_000, epsilon=1.0).scale
        10
    """

    horizon: int
    epsilon: float

    def __post_init__(self) -> None:
        if (as_whole(self.horizon) or 0) < 1:
            raise ValueError(f"horizon is {self.horizon}. Give at least 1 arrival.")
        if not 0.0 < as_float(self.epsilon) < math.inf:
            raise ValueError(f"epsilon is {self.epsilon}. Give a positive number.")

    @property
    def levels(self) -> int:
        """Number of nodes that an arrival is in at most."""
        return int(self.horizon).bit_length()

    @property
    def scale(self) -> int:
        """Scale of the discrete Laplace noise of a node."""
        return math.ceil(self.levels / self.epsilon)

    @property
    def curve(self) -> PureCurve:
        """What all counts together reveal of an arrival: one node of each level moves by 1."""
        return PureCurve(1.0 / self.scale, times=self.levels)

    @property
    def start(self) -> CounterState:
        """Before the first arrival."""
        return CounterState(0, (0,) * self.levels, (0,) * self.levels)

    def step(self, state: CounterState, value: int, noise: Noise) -> tuple[CounterState, int]:
        """The state after an arrival, and the noisy count of all arrivals so far.

        Args:
            state: Before.
            value: 0 or 1, or any whole number that one person moves by at most 1.
            noise: Source of the noise.

        Raises:
            ValueError: If the horizon was reached.
        """
        time = state.time + 1
        if time > self.horizon:
            raise ValueError(f"{self.horizon} arrivals were planned, and this is one more.")
        level = (time & -time).bit_length() - 1  # the node that ends here takes up all smaller ones
        sums, noisy = list(state.sums), list(state.noisy)
        sums[level] = sum(sums[:level]) + value
        noisy[level] = sums[level] + int(noise.laplace(self.scale, 1, stream="node")[0])
        sums[:level] = noisy[:level] = [0] * level
        told = sum(noisy[each] for each in range(self.levels) if time >> each & 1)
        return CounterState(time, tuple(sums), tuple(noisy)), told

    def counts(self, values: Sequence[int], noise: Noise) -> NDArray[np.int64]:
        """The noisy counts after every arrival, shape (arrivals,)."""
        state, told = self.start, np.zeros(len(values), dtype=np.int64)
        for place, value in enumerate(values):
            state, told[place] = self.step(state, int(value), noise)
        return told

    def exceeded(self, error: int, nodes: int) -> float:
        """Probability that the noise of so many nodes is larger than an error in absolute value; exact."""
        law = self._laws[nodes - 1]
        middle = len(law) // 2
        return float(min(2.0 * law[middle + error + 1 :].sum(), 1.0)) if error + 1 < middle else 0.0

    @cached_property
    def _laws(self) -> list[NDArray[np.float64]]:
        """Laws of the noise of 1, 2, ... nodes."""
        reach = math.ceil(_FAR_OUT * self.scale)
        one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / self.scale)
        laws = [one / one.sum()]
        for _ in range(self.levels - 1):
            longer = np.maximum(scipy.signal.fftconvolve(laws[-1], laws[0]), 0.0)
            laws.append(longer[len(longer) // 2 - reach : len(longer) // 2 + reach + 1])
        return laws

    def radius(self, *, confidence: float = 0.95) -> int:
        """Error that no count exceeds: at each time the exact law of its nodes, and a union over times."""
        times = np.bincount([time.bit_count() for time in range(1, self.horizon + 1)], minlength=self.levels + 1)

        def missed(error: int) -> float:
            return sum(int(times[nodes]) * self.exceeded(error, nodes) for nodes in range(1, self.levels + 1))

        low, high = 0, 1
        while missed(high) > 1.0 - confidence:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if missed(middle) > 1.0 - confidence else (low, middle)
        return high


def published_counting_error(horizon: int, *, epsilon: float, failure: float) -> float:
    """Error of one count by Chan, Shi and Song 2011: Lemma 2.8 for as many continuous Laplace numbers as levels.

    Args:
        horizon: T.
        epsilon: Of all counts.
        failure: Probability that the count is further off.

    Examples:
        >>> round(published_counting_error(1_000, epsilon=1.0, failure=0.05))
        172
    """
    levels = horizon.bit_length()
    root = math.sqrt(math.log(2.0 / failure))
    return math.sqrt(8.0) * root * (levels / epsilon) * max(math.sqrt(levels), root)
