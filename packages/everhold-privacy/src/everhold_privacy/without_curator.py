"""Mechanisms without a trusted curator: randomised response (local), continual counting, and pan-private density.

In randomised response each of n people reports their own one of k classes with probability p and one of the others
otherwise, each with ``q = (1 - p) / (k - 1)``. A report is ``ln(p / q)``-private whatever else is known. The share of
reports of a class is ``q + (p - q) f`` on average, where f is its frequency, so ``(share - q) / (p - q)`` is unbiased.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy

from everhold.arguments import as_float, fraction, positive, whole
from everhold.guarantees.intervals.means import ClopperPearson
from everhold_privacy.curves import PureCurve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from everhold.randomness import Noise
    from everhold_privacy.curves import PrivacyCurve


_WORDS = 2**64
_LEAST_EPSILON = 1e-9  # far above the rounding of probabilities to multiples of 2**-64


@dataclass(frozen=True, slots=True)
class FrequencyEstimate:
    """Frequencies of all classes, estimated from perturbed reports.

    Attributes:
        values: Shape (classes,): unbiased estimates; they may lie outside [0, 1].
        low: Shape (classes,): lower ends of intervals for the frequencies, in [0, 1]. All intervals hold together.
        high: Shape (classes,): upper ends of the intervals.
    """

    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class RandomisedResponse:
    """Randomised response: each person reports the true class, or by chance another of k classes.

    Args:
        classes: Number k of classes, at least 2.
        epsilon: Privacy loss of a report, from 1e-9 to 40; the probabilities are rounded so that it is no larger.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> RandomisedResponse(classes=2, epsilon=1.0).keep
        0.731058...
    """

    classes: int
    epsilon: float
    _kept: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        classes, epsilon = whole(self.classes, "classes", least=2), as_float(self.epsilon)
        if not _LEAST_EPSILON <= epsilon <= 40.0:
            raise ValueError(f"epsilon is {self.epsilon}. Pass a number from {_LEAST_EPSILON:g} to 40.")
        kept = min(math.floor(_WORDS / (1.0 + (classes - 1) * math.exp(-epsilon)) * (1.0 - 1e-15)), _WORDS - 1)
        object.__setattr__(self, "_kept", kept)

    @property
    def keep(self) -> float:
        """p, the probability that a person reports the true class."""
        return self._kept / _WORDS

    @property
    def other(self) -> float:
        """q, the probability that a person reports a given class other than the true class."""
        return (_WORDS - self._kept) / _WORDS / (self.classes - 1)

    @cached_property
    def curve(self) -> PureCurve:
        """Return the privacy curve of one report: the pure loss ``ln(p / q)``, exact for two classes."""
        return PureCurve(math.log(self.keep / self.other))

    def report(self, own: ArrayLike, noise: Noise) -> NDArray[np.int64]:
        """Draw the reports of people with the given classes, using integers alone.

        Args:
            own: Shape (people,): classes from 0 to k - 1.
            noise: Source of the words.

        Raises:
            ValueError: If a class is not a whole number in this range.
        """
        values = self._numbers(own)
        kept = noise.words(len(values), stream="keep") < np.uint64(self._kept)
        bound = self.classes - 1
        size = int(np.sum(~kept))
        complete, drawn = _WORDS - _WORDS % bound, np.zeros(0, dtype=np.int64)
        while len(drawn) < size:
            words = noise.words(size - len(drawn), stream="other")
            fair = words if complete == _WORDS else words[words < np.uint64(complete)]
            drawn = np.append(drawn, (fair % np.uint64(bound)).astype(np.int64))
        others = drawn
        reports = values.copy()
        reports[~kept] = others + (others >= values[~kept])
        return reports

    def frequencies(self, reports: ArrayLike, *, confidence: float = 0.95) -> FrequencyEstimate:
        """Estimate the frequencies of all classes in the population of independent people.

        The intervals are exact binomial ones of the reports, each class at its share of the level, carried over to the
        frequencies. No transfer theorem is needed, because reports of independent people are independent.

        Args:
            reports: The people's reports as class numbers, shape (people,).
            confidence: 1 - beta, with which all intervals hold together.

        Raises:
            ValueError: If there is no report, a class is no whole number in the range, or confidence is not in (0, 1).
        """
        counts = np.bincount(self._numbers(reports), minlength=self.classes)
        people, gap = whole(int(counts.sum()), "The number of reports"), self.keep - self.other
        exact, nats = ClopperPearson(rows=people, training=people), math.log(self.classes / _beta(confidence))
        ends = np.array([exact.interval(count / people, nats) for count in counts])
        low, high = np.clip((ends - self.other) / gap, 0.0, 1.0).T
        return FrequencyEstimate((counts / people - self.other) / gap, low, high)

    def radius(self, people: int, *, confidence: float = 0.95) -> float:
        """Return Hoeffding's half-width of all frequencies: ``sqrt(ln(2 k / beta) / (2 n)) / (p - q)``."""
        level = math.log(2.0 * self.classes / _beta(confidence))
        return math.sqrt(level / (2.0 * whole(people, "people"))) / (self.keep - self.other)

    def _numbers(self, classes: ArrayLike) -> NDArray[np.int64]:
        """Return class numbers as an array, or raise ValueError unless each is a whole number from 0 to k - 1."""
        values = np.asarray(classes)
        fits = values.ndim == 1 and (values.dtype.kind in "iu" or not len(values))
        if not fits or bool(np.any((values < 0) | (values >= self.classes))):
            raise ValueError(f"A class is not a whole number from 0 to {self.classes - 1}. Number the classes from 0.")
        return values.astype(np.int64)

    def transferred_radius(self, people: int, *, confidence: float = 0.95) -> float:
        """Return the half-width by S1, which treats reports as a transcript that reveals little of each person.

        It also holds for queries chosen by the reports, and is wider for the frequencies themselves.
        """
        from everhold_privacy.guarantees import transfer_radius

        steep = math.sqrt(2.0 * whole(people, "people")) * (self.keep - self.other)

        def exceedance(alpha: float) -> float:
            return self.classes * math.sqrt(math.pi) / steep * math.erfc(steep * alpha)

        return transfer_radius(exceedance, self.curve, confidence=confidence).radius


def _beta(confidence: float) -> float:
    """Return the probability 1 - confidence, or raise ValueError unless confidence is in (0, 1)."""
    return 1.0 - fraction(confidence, "confidence")


_FAR_OUT = 60.0  # scales; the law beyond has less than e^-60


@dataclass(frozen=True, slots=True)
class CounterState:
    """Secret state of a continual counter.

    Attributes:
        time: Arrivals so far.
        sums: By level: the sum of the last node of the level that is not yet part of a larger one.
        noisy: By level: that sum with noise.
    """

    time: int
    sums: tuple[int, ...]
    noisy: tuple[int, ...]


@dataclass(frozen=True)
class ContinualCounter:
    """Counter that publishes a noisy count after every arrival, by the binary mechanism with integer noise.

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
        whole(self.horizon, "horizon")
        positive(self.epsilon, "epsilon")

    @property
    def levels(self) -> int:
        """Number of levels of the tree, which is the largest number of its nodes that count one arrival."""
        return int(self.horizon).bit_length()

    @property
    def scale(self) -> int:
        """Scale of the discrete Laplace noise of a node."""
        return math.ceil(self.levels / self.epsilon)

    @property
    def curve(self) -> PureCurve:
        """Return the privacy curve of all counts, for one arrival. It changes one node of each tree level by 1."""
        return PureCurve(1.0 / self.scale, times=self.levels)

    @property
    def start(self) -> CounterState:
        """Return the state before the first arrival."""
        return CounterState(0, (0,) * self.levels, (0,) * self.levels)

    def step(self, state: CounterState, value: int, noise: Noise) -> tuple[CounterState, int]:
        """Return the state after an arrival, and the noisy count of all arrivals so far.

        Args:
            state: State before the arrival.
            value: 0 or 1, or any whole number that one person moves by at most 1.
            noise: Source of the noise.

        Raises:
            ValueError: If the horizon was reached.
        """
        time = state.time + 1
        if time > self.horizon:
            raise ValueError(
                f"horizon is {self.horizon}, and that many arrivals were counted already. Plan a new counter with a "
                "larger horizon."
            )
        level = (time & -time).bit_length() - 1  # the node that ends here takes up all smaller ones
        sums, noisy = list(state.sums), list(state.noisy)
        sums[level] = sum(sums[:level]) + value
        noisy[level] = sums[level] + int(noise.laplace(self.scale, 1, stream="node")[0])
        sums[:level] = noisy[:level] = [0] * level
        told = sum(noisy[each] for each in range(self.levels) if time >> each & 1)
        return CounterState(time, tuple(sums), tuple(noisy)), told

    def counts(self, values: Sequence[int], noise: Noise) -> NDArray[np.int64]:
        """Return the noisy counts after every arrival, shape (arrivals,)."""
        state, told = self.start, np.zeros(len(values), dtype=np.int64)
        for place, value in enumerate(values):
            state, told[place] = self.step(state, int(value), noise)
        return told

    def exceeded(self, error: int, nodes: int) -> float:
        """Return the exact probability that the noise of this many nodes exceeds an error in absolute value."""
        law = self._laws[nodes - 1]
        middle = len(law) // 2
        return float(min(2.0 * law[middle + error + 1 :].sum(), 1.0)) if error + 1 < middle else 0.0

    @cached_property
    def _laws(self) -> list[NDArray[np.float64]]:
        """Return the distributions of the total noise of 1, 2, ... nodes."""
        reach = math.ceil(_FAR_OUT * self.scale)
        one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / self.scale)
        laws = [one / one.sum()]
        for _ in range(self.levels - 1):
            longer = np.maximum(scipy.signal.fftconvolve(laws[-1], laws[0]), 0.0)
            laws.append(longer[len(longer) // 2 - reach : len(longer) // 2 + reach + 1])
        return laws

    def radius(self, *, confidence: float = 0.95) -> int:
        """Return an error that no count exceeds, from the exact law at each time and a union over times."""
        beta = _beta(confidence)
        times = np.bincount([time.bit_count() for time in range(1, self.horizon + 1)], minlength=self.levels + 1)

        def holds(error: int) -> bool:
            exceeded = (int(times[nodes]) * self.exceeded(error, nodes) for nodes in range(1, self.levels + 1))
            return sum(exceeded) <= beta

        most = 1
        while not holds(most):
            most *= 2
        least = most // 2 + 1
        return least + bisect_left(range(least, most), True, key=holds)


def published_counting_error(horizon: int, *, epsilon: float, failure: float) -> float:
    """Return the error of a count by Chan, Shi and Song 2011, Lemma 2.8, with one Laplace variable for each level.

    Args:
        horizon: Largest number T of arrivals.
        epsilon: Privacy loss of all counts together.
        failure: Probability that the error of a count exceeds the returned value.

    Examples:
        >>> round(published_counting_error(1_000, epsilon=1.0, failure=0.05))
        172
    """
    levels = horizon.bit_length()
    root = math.sqrt(math.log(2.0 / failure))
    return math.sqrt(8.0) * root * (levels / epsilon) * max(math.sqrt(levels), root)


@dataclass(frozen=True)
class DensityEstimator:
    """Pan-private estimator of the share of items that occur, whose state may be seen once.

    Args:
        items: m, the number of possible items, or of those that were picked at random from all of them.
        epsilon: Privacy loss, from 1e-9 to 1. The bias of the coins is a quarter of it.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> estimator = DensityEstimator(items=10_000, epsilon=0.5)
        >>> round(estimator.curve.epsilon(0.0), 3)
        0.788
    """

    items: int
    epsilon: float

    def __post_init__(self) -> None:
        whole(self.items, "items")
        if not _LEAST_EPSILON <= as_float(self.epsilon) <= 1.0:
            raise ValueError(f"epsilon is {self.epsilon}. Pass a number from {_LEAST_EPSILON:g} to 1.")

    @property
    def _after(self) -> int:
        """Threshold below which a random word sets the bit of an arriving item to 1."""
        return _WORDS // 2 + math.floor(self.epsilon * 2**62)

    @property
    def seen(self) -> float:
        """Probability that the bit of an item is 1 after the item arrived."""
        return self._after / _WORDS

    @property
    def scale(self) -> int:
        """Scale of the noise that is added to the number of ones."""
        return math.ceil(1.0 / self.epsilon)

    @property
    def curve(self) -> PrivacyCurve:
        """Return the privacy curve, for one arrival, of a copy of the bits and the final estimate together.

        The bits have a privacy loss of at most ``ln(1 / (2 - 2 P[1]))``, and an item changes the number of ones by at
        most 1.
        """
        return PureCurve(-math.log(2.0 - 2.0 * self.seen)).compose(PureCurve(1.0 / self.scale))

    def start(self, noise: Noise) -> NDArray[np.bool_]:
        """Return the bits before the stream, fair coins of shape (items,)."""
        return np.asarray(noise.words(self.items, stream="start") < np.uint64(_WORDS // 2))

    def see(self, bits: NDArray[np.bool_], item: int, noise: Noise) -> NDArray[np.bool_]:
        """Return the bits after the arrival of an item, whose bit is drawn again.

        Raises:
            ValueError: If ``item`` is not a number of an item.
        """
        if not 0 <= item < self.items:
            raise ValueError(f"item is {item}. Pass a number from 0 to {self.items - 1}.")
        after = bits.copy()
        after[item] = noise.words(1, stream="see")[0] < np.uint64(self._after)
        return after

    def density(self, bits: NDArray[np.bool_], noise: Noise) -> float:
        """Return an unbiased estimate of the share of items that arrived, which may lie outside [0, 1]."""
        ones = int(bits.sum()) + int(noise.laplace(self.scale, 1, stream="density")[0])
        return (ones / self.items - 0.5) / (self.seen - 0.5)

    def radius(self, *, confidence: float = 0.95) -> float:
        """Return the error of the density among the items, by Hoeffding and the exact tail of the noise."""
        level = math.log(4.0 / _beta(confidence))
        bits = math.sqrt(level / (2.0 * self.items))
        # P[|noise| > t] = 2 e^(-(t + 1)/s) / (1 + e^(-1/s)) for whole t
        beyond = self.scale * (level - math.log1p(math.exp(-1.0 / self.scale)))
        return (bits + max(math.ceil(beyond) - 1, 0) / self.items) / (self.seen - 0.5)
