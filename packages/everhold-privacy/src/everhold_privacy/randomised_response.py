"""Local privacy: everybody perturbs their own answer, and nobody has to be trusted with it (Warner 1965).

Each of n people reports their own one of k classes with probability p and one of the others otherwise, each with
``q = (1 - p) / (k - 1)``. A report is ``ln(p / q)``-private whatever else is known. The share of reports of a class is
``q + (p - q) f`` on average, where f is its frequency, so ``(share - q) / (p - q)`` is unbiased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import as_float, as_whole
from everhold.guarantees.intervals.shares.means import ClopperPearson
from everhold.privacy.curves import PureCurve

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.randomness import Noise

__all__ = ["RandomisedResponse"]

_WORDS = 2**64


@dataclass(frozen=True, slots=True)
class FrequencyEstimate:
    """Frequencies of all classes, estimated from perturbed reports.

    Attributes:
        values: Shape (classes,): unbiased estimates; they may lie outside [0, 1].
        low: Shape (classes,): lower ends in [0, 1]; all intervals hold together.
        high: Shape (classes,): upper ends.
    """

    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class RandomisedResponse:
    """Perturbation of one's own class out of k.

    Args:
        classes: k, at least 2.
        epsilon: Privacy loss of a report, positive; the probabilities are rounded so that it is no larger.

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
        classes, epsilon = as_whole(self.classes) or 0, as_float(self.epsilon)
        if classes < 2:
            raise ValueError(f"classes is {self.classes}. Give at least 2.")
        if not 0.0 < epsilon <= 40.0:
            raise ValueError(f"epsilon is {self.epsilon}. Give a number above 0 and at most 40.")
        kept = min(math.floor(_WORDS / (1.0 + (classes - 1) * math.exp(-epsilon)) * (1.0 - 1e-15)), _WORDS - 1)
        object.__setattr__(self, "_kept", kept)

    @property
    def keep(self) -> float:
        """p, the probability of reporting one's own class."""
        return self._kept / _WORDS

    @property
    def other(self) -> float:
        """q, the probability of each other class."""
        return (_WORDS - self._kept) / _WORDS / (self.classes - 1)

    @cached_property
    def curve(self) -> PureCurve:
        """What a report reveals: the pure loss ``ln(p / q)``, exact for two classes."""
        return PureCurve(math.log(self.keep / self.other))

    def report(self, own: ArrayLike, noise: Noise) -> NDArray[np.int64]:
        """Reports of people, drawn with integers alone.

        Args:
            own: Shape (people,): classes from 0 to k - 1.
            noise: Source of the words.

        Raises:
            ValueError: If a class is none of these.
        """
        values = np.asarray(own, dtype=np.int64)
        if values.ndim != 1 or np.any((values < 0) | (values >= self.classes)):
            raise ValueError(f"the classes are not all whole numbers from 0 to {self.classes - 1}")
        kept = noise.words(len(values), stream="keep") < np.uint64(self._kept)
        others = self._below(self.classes - 1, int(np.sum(~kept)), noise)
        reports = values.copy()
        reports[~kept] = others + (others >= values[~kept])
        return reports

    @staticmethod
    def _below(bound: int, size: int, noise: Noise) -> NDArray[np.int64]:
        """Uniform numbers below a bound: words from the last, incomplete round of remainders are drawn again."""
        complete, drawn = _WORDS - _WORDS % bound, np.zeros(0, dtype=np.int64)
        while len(drawn) < size:
            words = noise.words(size - len(drawn), stream="other")
            fair = words if complete == _WORDS else words[words < np.uint64(complete)]
            drawn = np.append(drawn, (fair % np.uint64(bound)).astype(np.int64))
        return drawn

    def frequencies(self, reports: ArrayLike, *, confidence: float = 0.95) -> FrequencyEstimate:
        """Frequencies of all classes in the population that the people were drawn from, one independently of the other.

        The intervals are exact binomial ones of the reports, each class at its share of the level, carried over to the
        frequencies. No transfer theorem is needed, because reports of independent people are independent.

        Args:
            reports: Shape (people,).
            confidence: 1 - beta, with which all intervals hold together.
        """
        counts = np.bincount(np.asarray(reports, dtype=np.int64), minlength=self.classes)
        people, gap = int(counts.sum()), self.keep - self.other
        exact, nats = ClopperPearson(rows=people, training=people), math.log(self.classes / (1.0 - confidence))
        ends = np.array([exact.interval(count / people, nats) for count in counts])
        low, high = np.clip((ends - self.other) / gap, 0.0, 1.0).T
        return FrequencyEstimate((counts / people - self.other) / gap, low, high)

    def radius(self, people: int, *, confidence: float = 0.95) -> float:
        """Half-width of all frequencies together by Hoeffding: ``sqrt(ln(2 k / beta) / (2 n)) / (p - q)``."""
        level = math.log(2.0 * self.classes / (1.0 - confidence))
        return math.sqrt(level / (2.0 * people)) / (self.keep - self.other)

    def transferred_radius(self, people: int, *, confidence: float = 0.95) -> float:
        """The same by S1, which treats the reports as a transcript that reveals little of each person.

        It also holds for queries chosen by the reports, and is wider for the frequencies themselves.
        """
        from everhold_privacy.guarantees.transfer import transfer_radius

        steep = math.sqrt(2.0 * people) * (self.keep - self.other)

        def exceedance(alpha: float) -> float:
            return self.classes * math.sqrt(math.pi) / steep * math.erfc(steep * alpha)

        return transfer_radius(exceedance, self.curve, confidence=confidence).radius
