"""Which of these candidates is best: the exponential mechanism and permute-and-flip, drawn exactly.

Losses are integers (sums over the sealed rows in grid units), epsilon is the rational number that a float is, and every
coin is decided as if its probability were known to all digits. Floating point only says quickly what is certain; what
lies within its error is decided with as many digits as it takes. So the laws are those of the formulas, and
the work hardly depends on the losses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import roots_legendre

from everhold.guarantees.exceedance import exponential_exceedance, permute_and_flip_exceedance
from everhold.privacy.curves import BoundedRangeCurve, PureCurve
from everhold.privacy.exact import below_exponential, uniform_below
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.privacy.noise import Noise

__all__ = ["ExponentialMechanism", "PermuteAndFlip", "Selection"]

_MARGIN = 2.0**-36
"""Relative error allowed to a floating-point exponential; up to exponent 745 the true one is below 2**-40."""

_BITS = 61
"""Binary digits of the sum of all integer weights of the exponential mechanism."""

_LARGEST_LAW = 2**12
"""Candidates up to which the law of permute-and-flip is written down: the work grows with their square."""

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Selection(ABC):
    """A private choice of the candidate with the least loss.

    Attributes:
        epsilon: Privacy loss of one choice, positive and finite.
        sensitivity: How much one replaced row moves a loss at most, in grid units.

    Raises:
        ValueError: If they are not as described.
    """

    epsilon: float
    sensitivity: int = UNIT

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon is {self.epsilon}; expected a positive finite number, such as 0.1")
        whole = isinstance(self.sensitivity, (int, np.integer)) and not isinstance(self.sensitivity, bool)
        if not whole or self.sensitivity < 1:
            raise ValueError(f"sensitivity is {self.sensitivity}; expected a whole number of grid units, at least 1")

    @property
    def slope(self) -> Fraction:
        """``epsilon / (2 Delta)`` per grid unit, exactly."""
        return Fraction(float(self.epsilon)) / (2 * int(self.sensitivity))

    @abstractmethod
    def law(self, losses: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probability of each candidate, to about 13 digits; for tests, simulations and pictures.

        Args:
            losses: Shape (candidates,), integers of at least 0 in grid units; the least is the best.

        Raises:
            ValueError: If there is no candidate or the losses are not such integers.
        """

    @abstractmethod
    def choose(self, losses: NDArray[np.int64], noise: Noise, *, stream: str = "selection") -> int:
        """Index of a candidate drawn by the exact law; arguments and errors as for `law`."""

    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """Hockey-stick curve of one choice for one replaced row."""

    @abstractmethod
    def exceedance(self, alpha: float, *, candidates: int, steps: int) -> float:
        """``E(L(X, chosen) - min L(X, .) - alpha)_+`` at its greatest (the r of S1).

        Args:
            alpha: In the units of a mean loss.
            candidates: Their number.
            steps: Grid units of a sum that make a mean of 1, ``rows * unit``.
        """

    def scale(self, steps: int) -> float:
        """``2 Delta / epsilon`` in the units of a mean."""
        return float(1 / (self.slope * steps))


class ExponentialMechanism(Selection):
    """``P[k]`` proportional to ``exp(-epsilon loss_k / (2 Delta))`` (McSherry, Talwar 2007; P11 bounds its regret).

    Its privacy losses span only epsilon, so that it is far more private than any epsilon-private mechanism where many
    choices are made (`BoundedRangeCurve`; it is ``epsilon^2/8``-zero-concentrated).

    Examples:
        >>> mechanism = ExponentialMechanism(1.0, sensitivity=1)
        >>> mechanism.law(np.array([0, 2, 2])).round(3)
        array([0.576, 0.212, 0.212])
    """

    def law(self, losses: NDArray[np.int64]) -> NDArray[np.float64]:
        """The softmax of the losses."""
        weights = _chances(_gaps(losses), self.slope)
        return np.asarray(weights / weights.sum())

    def choose(self, losses: NDArray[np.int64], noise: Noise, *, stream: str = "selection") -> int:
        """By integers just above the weights, and a last coin for the difference; 30 ms for a million candidates."""
        gaps = _gaps(losses)
        words = _words(noise, stream)
        bits = _BITS - len(gaps).bit_length()  # all weights together stay inside 64 bits
        ceilings = np.floor(_chances(gaps, self.slope) * (2.0**bits * (1.0 + _MARGIN))).astype(np.int64) + 1
        cumulative = np.cumsum(ceilings)
        while True:
            chosen = int(np.searchsorted(cumulative, uniform_below(int(cumulative[-1]), words), side="right"))
            above = Fraction(int(ceilings[chosen]), 2**bits)
            exponent = int(gaps[chosen]) * self.slope
            if below_exponential(next(words), words, exponent=exponent, factor=above):
                return chosen

    def curve(self) -> BoundedRangeCurve:
        """The privacy losses span epsilon; exact for the family of all losses."""
        return BoundedRangeCurve(self.epsilon)

    def exceedance(self, alpha: float, *, candidates: int, steps: int) -> float:
        """See `exponential_exceedance`."""
        return exponential_exceedance(alpha=alpha, scale=self.scale(steps), candidates=candidates)


class PermuteAndFlip(Selection):
    """Candidates in random order, each taken with ``exp(-epsilon (loss_k - least loss) / (2 Delta))``.

    At the same epsilon its regret is never larger than the exponential mechanism's, often half of it. It is pure
    epsilon-private, no more: for many choices in a row the exponential mechanism's curve is the better one.

    Source: McKenna, Sheldon 2020. That the first head in random order is a uniform one among all heads, so that nothing
    has to be permuted: docs/theory, selection.

    Examples:
        >>> mechanism = PermuteAndFlip(1.0, sensitivity=1)
        >>> mechanism.law(np.array([0, 2, 2])).round(3)
        array([0.677, 0.161, 0.161])
    """

    def law(self, losses: NDArray[np.int64]) -> NDArray[np.float64]:
        """``p_k int_0^1 prod_{j != k} (1 - p_j + p_j t) dt``, a polynomial that Gauss-Legendre integrates exactly."""
        chances = _chances(_gaps(losses), self.slope)
        if len(chances) > _LARGEST_LAW:
            raise ValueError(f"there are {len(chances)} candidates; expected at most {_LARGEST_LAW}; draw instead")
        nodes, weights = roots_legendre(len(chances) // 2 + 1)
        law = np.zeros(len(chances))
        for t, weight in zip((1.0 + nodes) / 2.0, weights / 2.0, strict=True):
            factors = 1.0 - chances + chances * t
            law += weight * chances * np.exp(np.log(factors).sum() - np.log(factors))
        return law

    def choose(self, losses: NDArray[np.int64], noise: Noise, *, stream: str = "selection") -> int:
        """Flip all coins, then take one of the heads; 0.1 s for a million candidates."""
        gaps = _gaps(losses)
        heads = np.flatnonzero(_heads(gaps, self.slope, noise, stream))
        return int(heads[uniform_below(len(heads), _words(noise, stream))])

    def curve(self) -> PureCurve:
        """Pure epsilon."""
        return PureCurve(self.epsilon)

    def exceedance(self, alpha: float, *, candidates: int, steps: int) -> float:
        """See `permute_and_flip_exceedance`."""
        return permute_and_flip_exceedance(alpha=alpha, scale=self.scale(steps), candidates=candidates)


def _gaps(losses: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much worse than the best each candidate is, in grid units; losses are secret and never quoted."""
    array = np.asarray(losses)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"the losses have the shape {array.shape}; expected one loss for each of at least 1 candidate")
    if array.dtype.kind not in "iu":
        raise ValueError(f"the losses are {array.dtype}; expected integers in grid units, without nan")
    if bool(np.any(array < 0)) or bool(np.any(array > np.iinfo(np.int64).max)):
        raise ValueError("a loss is negative or beyond 64 bits; expected sums of row losses, each in [0, unit]")
    whole = array.astype(np.int64)
    return np.asarray(whole - whole.min())


def _chances(gaps: NDArray[np.int64], slope: Fraction) -> NDArray[np.float64]:
    """``exp(-slope gap)``, within a relative `_MARGIN` or below the least normal float."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-gaps * float(slope)))


def _heads(gaps: NDArray[np.int64], slope: Fraction, noise: Noise, stream: str) -> NDArray[np.bool_]:
    """One coin for each candidate, heads with probability ``exp(-slope gap)``.

    A coin is heads when a uniform number is below its probability; 64 digits of it nearly always decide.
    """
    digits = noise.words(len(gaps), stream=stream)
    chances = _chances(gaps, slope) * 2.0**64
    uniform = digits.astype(np.float64)
    best = gaps == 0
    heads = best | (uniform + 1.0 <= chances * (1.0 - _MARGIN))
    words = _words(noise, stream)
    for k in np.flatnonzero(~heads & (uniform < chances * (1.0 + _MARGIN) + _TINY)):
        heads[k] = below_exponential(int(digits[k]), words, exponent=int(gaps[k]) * slope, factor=Fraction(1))
    return np.asarray(heads)


def _words(noise: Noise, stream: str) -> Iterator[int]:
    """Endless uniform words, one at a time."""
    while True:
        yield int(noise.words(1, stream=stream)[0])
