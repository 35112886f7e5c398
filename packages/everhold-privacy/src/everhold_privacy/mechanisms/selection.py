"""Choices of one of many with noise: the candidate with the least loss, or the bin of a quantile.

All are drawn exactly. Values are integers (sums over the sealed rows in grid units), epsilon is the rational number
that a float is, and every coin is decided as if its probability were known to all digits. Floating point decides what
it can decide for certain; anything within its error is decided with as many digits as needed. So the probabilities are
exactly those of the formulas, and the time hardly depends on the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import positive, whole
from everhold.randomness import WORD, uniform_below
from everhold.values.evaluation import UNIT
from everhold_privacy.curves import BoundedRangeCurve
from everhold_privacy.guarantees import exponential_exceedance, least_allowance
from everhold_privacy.mechanisms.privacy_budget import CREDITS, PrivacyBudget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms.base import State
    from everhold.randomness import Noise


MARGIN = 2.0**-36
"""Relative error allowed to a floating-point exponential; up to exponent 745 the true one is below 2**-40."""

_BITS = 61  # of the sum of all integer weights of the exponential mechanism


@dataclass(frozen=True)
class ExponentialMechanism:
    """Chooses candidate k with chance proportional to ``exp(-epsilon loss_k / (2 Delta))`` (P11 bounds its regret).

    Its privacy losses lie in a range of width epsilon. So many choices together are far more private than the epsilon
    of each suggests (`BoundedRangeCurve`): a choice is ``epsilon^2/8``-zero-concentrated.

    Attributes:
        epsilon: Privacy loss of one choice, positive and finite.
        sensitivity: How much one replaced row moves a loss at most, in grid units.

    Raises:
        ValueError: If an attribute is not as described.

    Examples:
        >>> mechanism = ExponentialMechanism(1.0, sensitivity=1)
        >>> mechanism.law(np.array([0, 2, 2])).round(3)
        array([0.576, 0.212, 0.212])
    """

    epsilon: float
    sensitivity: int = UNIT

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        whole(self.sensitivity, "sensitivity")

    @property
    def slope(self) -> Fraction:
        """The exact fraction ``epsilon / (2 Delta)`` per grid unit."""
        return Fraction(float(self.epsilon)) / (2 * int(self.sensitivity))

    def law(self, losses: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of each candidate, to about 13 digits, for tests, simulations and pictures.

        Args:
            losses: Losses of the candidates, shape (candidates,), integers of at least 0 in grid units. The least is
                best.

        Raises:
            ValueError: If there is no candidate or the losses are not such integers.
        """
        weights = chances_of(gaps_of(losses), self.slope)
        return np.asarray(weights / weights.sum())

    def choose(self, losses: NDArray[np.int64], noise: Noise, *, stream: str = "selection") -> int:
        """Return the index of a candidate drawn by the exact law. Takes and raises the same as `law`.

        A candidate is proposed by integer weights just above the exact ones, and accepted by a coin that corrects the
        difference. This takes 30 ms for a million candidates.
        """
        gaps = gaps_of(losses)
        words = words_of(noise, stream)
        bits = _BITS - len(gaps).bit_length()  # all weights together stay inside 64 bits
        ceilings = np.floor(chances_of(gaps, self.slope) * (2.0**bits * (1.0 + MARGIN))).astype(np.int64) + 1
        cumulative = np.cumsum(ceilings)
        while True:
            chosen = int(np.searchsorted(cumulative, uniform_below(int(cumulative[-1]), words), side="right"))
            above = Fraction(int(ceilings[chosen]), 2**bits)
            exponent = int(gaps[chosen]) * self.slope
            if below_exponential(next(words), words, exponent=exponent, factor=above):
                return chosen

    def curve(self) -> BoundedRangeCurve:
        """Return the privacy curve of one choice, the supremum over all data sets that differ in one row."""
        return BoundedRangeCurve(self.epsilon)

    def exceedance(self, alpha: float, *, candidates: int, steps: int) -> float:
        """Return the greatest ``E(L(X, chosen) - min L(X, .) - alpha)_+`` (the r of S1).

        Args:
            alpha: Allowance alpha, in the units of a mean loss.
            candidates: Number of candidates.
            steps: Grid units of a sum that make a mean of 1, ``rows * unit``.
        """
        return exponential_exceedance(alpha=alpha, scale=self.scale(steps), candidates=candidates)

    def scale(self, steps: int) -> float:
        """Return ``2 Delta / epsilon`` in the units of a mean."""
        return float(1 / (self.slope * steps))


def gaps_of(losses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how much worse than the best each candidate is, in grid units.

    Losses are secret and never quoted.
    """
    array = np.asarray(losses)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"losses has the shape {array.shape}. Pass one loss for each of at least 1 candidate.")
    if array.dtype.kind not in "iu":
        raise ValueError(f"losses has the type {array.dtype}. Pass whole numbers in grid units.")
    if bool(np.any(array < 0)) or bool(np.any(array > np.iinfo(np.int64).max)):
        raise ValueError("A loss is negative or beyond 64 bits. Pass sums of row losses, each from 0 to unit.")
    whole = array.astype(np.int64)
    return np.asarray(whole - whole.min())


def chances_of(gaps: NDArray[np.int64], slope: Fraction) -> NDArray[np.float64]:
    """Return ``exp(-slope gap)`` of each gap, within a relative `MARGIN` or below the least normal float."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-gaps * float(slope)))


def words_of(noise: Noise, stream: str) -> Iterator[int]:
    """Yield uniform random words without end."""
    while True:
        yield int(noise.words(1, stream=stream)[0])


@dataclass(frozen=True, kw_only=True)
class QuantileBins:
    """Bins in which a quantile of a column is searched. The first and last also take all values outside.

    They are chosen without the sealed rows, of which only the numbers of rows below each inner edge are read. The loss
    of a bin is by how many rows the number below its lower edge exceeds ``q n``, or the number below its upper edge
    falls short of it. Some bin always has the loss 0, and one replaced row moves each loss by at most 1 row.

    Attributes:
        quantile: q, in [0, 1]; 0.5 is the median.
        low: Lower end of the first bin.
        high: Upper end of the last bin.
        bins: Number of bins, at least 1, all of equal width.
        rows: Number of sealed rows n.
        unit: Grid steps of one row.

    Raises:
        ValueError: If the quantile or an end is out of its range, or bins are too narrow for floating-point numbers.
    """

    quantile: float
    low: float
    high: float
    bins: int
    rows: int
    unit: int = UNIT

    def __post_init__(self) -> None:
        if not 0.0 <= self.quantile <= 1.0:
            raise ValueError(f"quantile is {self.quantile}. Pass a number from 0 to 1, such as 0.5 for the median.")
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"low is {self.low} and high is {self.high}. Pass finite numbers with low below high.")
        whole(self.bins, "bins")
        if not bool(np.all(np.diff(self.edges) > 0.0)):
            raise ValueError(
                f"bins is {self.bins}, with which some intervals would be empty. Pass fewer bins, or a wider range."
            )

    @property
    def edges(self) -> NDArray[np.float64]:
        """Edges of all bins, increasing, shape (bins + 1,)."""
        return np.linspace(self.low, self.high, self.bins + 1)

    def bin(self, index: int) -> tuple[float, float]:
        """Return both ends of a bin. Values beyond the range are in the first or last bin, nan in the last.

        The lower end belongs to the bin, the upper one to the next.
        """
        edges = self.edges
        low = -math.inf if index == 0 else float(edges[index])
        return low, math.inf if index == self.bins - 1 else float(edges[index + 1])

    @property
    def steps(self) -> int:
        """Grid units of a count of all rows."""
        return int(self.rows) * int(self.unit)

    @property
    def target(self) -> int:
        """The number of rows below the quantile, ``q n``, in grid units and rounded.

        It does not depend on the values of the rows.
        """
        return round(Fraction(float(self.quantile)) * self.steps)

    def losses(self, below: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the loss of each bin in grid units, shape (bins,).

        Args:
            below: Number of rows below each inner edge in grid units, shape (bins - 1,).

        Raises:
            ValueError: If the array has another shape or does not hold integers.
        """
        inner = np.asarray(below)
        if inner.shape != (self.bins - 1,) or inner.dtype.kind not in "iu":
            raise ValueError(
                f"The argument below has the shape {inner.shape} and type {inner.dtype}. Pass whole "
                f"numbers of shape ({self.bins - 1},)."
            )
        counts = np.concatenate([[0], inner.astype(np.int64), [self.steps]])
        return np.asarray(np.maximum(np.maximum(counts[:-1] - self.target, self.target - counts[1:]), 0))


@dataclass(frozen=True, slots=True)
class ChosenCandidate:
    """Index of a chosen candidate with its price and the bound on its regret.

    Attributes:
        index: Position of the chosen candidate in the list of candidates.
        regret: Bound on how much worse it is than the best candidate for the population, in the units of a mean over
            [0, 1]. It holds together with all other answers.
    """

    index: int
    regret: float
    charged: int


@dataclass(frozen=True)
class PaidSelection:
    """Chooses one of several candidates for a number of credits of a privacy budget.

    Attributes:
        budget: Privacy budget from which the credits are taken.
        price: Credits that the choice costs, a whole number. With a higher price the regret is smaller.

    Raises:
        ValueError: If the price is below 1 or no whole number.

    Examples:
        >>> budget = PrivacyBudget.tuned(rows=50_000, queries=1_000)
        >>> PaidSelection(budget, 400).regret(20) < PaidSelection(budget).regret(20)
        True
    """

    budget: PrivacyBudget
    price: int = CREDITS

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", whole(self.price, "price"))

    @cached_property
    def mechanism(self) -> ExponentialMechanism:
        """The exponential mechanism that costs this many credits."""
        rho = self.price / self.budget.credits * self.budget.curve().rho
        return ExponentialMechanism(math.sqrt(8.0 * rho) * (1.0 - 1e-12), sensitivity=self.budget.unit)

    def choose(self, state: State, losses: NDArray[np.int64], noise: Noise) -> tuple[State, ChosenCandidate]:
        """Return the new state, and a candidate whose loss is close to the smallest.

        Args:
            state: The state before.
            losses: Sums of the candidates' losses over the sealed rows in grid units, shape (candidates,).
            noise: Source of randomness.

        Raises:
            ValueError: If there is no candidate, the losses are no whole numbers, or the budget cannot pay the price.
        """
        after = self.budget.charge(state, self.price)
        chosen = self.mechanism.choose(losses, noise)
        return after, ChosenCandidate(chosen, self.regret(len(losses)), self.price)

    def regret(self, candidates: int) -> float:
        """Return the largest regret of a chosen candidate against the best one in the population (S1)."""
        alpha, bound = self._allowance(candidates, 2.0 * self.budget.own_exceedance), self.budget.bound
        return min(alpha + 2.0 * (bound.radius - bound.alpha) + self.budget.rounding, 1.0)

    def level_error(self, bins: int) -> float:
        """Return how far the level of a chosen quantile bin can be off in the population (S1)."""
        alpha, bound = self._allowance(bins, self.budget.own_exceedance), self.budget.bound
        return min(alpha + bound.radius - bound.alpha + self.budget.rounding, 1.0)

    def _allowance(self, candidates: int, exceedance: float) -> float:
        """Return the least alpha for which the expected excess of the regret over alpha is at most the exceedance."""

        def missing(alpha: float) -> float:
            return self.mechanism.exceedance(alpha, candidates=candidates, steps=self.budget.steps) - exceedance

        return least_allowance(missing)


_SPARE_DIGITS = 40


def below_exponential(revealed: int, words: Iterator[int], *, exponent: Fraction, factor: Fraction) -> bool:
    """Return whether ``u * factor < exp(-exponent)``, for a uniform u whose first 64 binary digits are `revealed`.

    ``-ln(u * factor)`` is enclosed between the logarithms of both ends of what u may still be; further words are drawn
    until the exponent lies outside. Python's decimal logarithm is correctly rounded, so each enclosure is certain.

    Args:
        revealed: The first word of u, in [0, 2**64).
        words: Iterator of independent uniform 64-bit words, of which more than one is rarely needed.
        exponent: Exponent of the bound, at least 0.
        factor: At least ``exp(-exponent)``, so that the probability is at most 1.
    """
    known, bits = revealed, WORD
    while True:
        least = _minus_log((known + 1) * factor.numerator, factor.denominator << bits)
        if least[0] >= exponent:
            return True
        if known and _minus_log(known * factor.numerator, factor.denominator << bits)[1] <= exponent:
            return False
        known, bits = known << WORD | next(words), bits + WORD


def _minus_log(numerator: int, denominator: int) -> tuple[Fraction, Fraction]:
    """Return a lower and an upper bound of ``ln(denominator / numerator)``."""
    context = Context(prec=_SPARE_DIGITS + denominator.bit_length() // 3)
    above, below = (Decimal(number).ln(context) for number in (denominator, numerator))
    error = (Fraction(abs(above)) + Fraction(abs(below))) / 10 ** (context.prec - 1)  # over twice the roundings
    difference = Fraction(above) - Fraction(below)
    return difference - error, difference + error
