"""One private choice, released once: permute-and-flip, and the bin of a quantile with its promise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import roots_legendre

from everhold.mechanisms.base import MOST_GRID_STEPS
from everhold.privacy.curves import PureCurve
from everhold.randomness import below_exponential, uniform_below
from everhold_privacy.guarantees import permute_and_flip_exceedance, transfer_radius, transferred_interval
from everhold_privacy.mechanisms.selection import (
    MARGIN,
    ExponentialMechanism,
    QuantileBins,
    chances_of,
    gaps_of,
    words_of,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.privacy.curves import PrivacyCurve
    from everhold.randomness import Noise

__all__ = ["PermuteAndFlip", "QuantileBin", "QuantileBound", "QuantileRelease"]

_LARGEST_LAW = 2**12
"""Candidates up to which the law of permute-and-flip is written down: the work grows with their square."""

_TINY = np.finfo(np.float64).tiny


class PermuteAndFlip(ExponentialMechanism):
    """Takes candidates in random order, each with chance ``exp(-epsilon (loss_k - least loss) / (2 Delta))``.

    Parameters are those of the exponential mechanism.

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
        """Return the chance of each candidate, ``p_k int_0^1 prod_{j != k} (1 - p_j + p_j t) dt``, by quadrature."""
        chances = chances_of(gaps_of(losses), self.slope)
        if len(chances) > _LARGEST_LAW:
            raise ValueError(
                f"There are {len(chances)} candidates, more than the limit of {_LARGEST_LAW}. Draw instead."
            )
        nodes, weights = roots_legendre(len(chances) // 2 + 1)
        law = np.zeros(len(chances))
        for t, weight in zip((1.0 + nodes) / 2.0, weights / 2.0, strict=True):
            factors = 1.0 - chances + chances * t
            law += weight * chances * np.exp(np.log(factors).sum() - np.log(factors))
        return law

    def choose(self, losses: NDArray[np.int64], noise: Noise, *, stream: str = "selection") -> int:
        """Return the index of a chosen candidate, in 0.1 s for a million candidates."""
        gaps = gaps_of(losses)
        heads = np.flatnonzero(_heads(gaps, self.slope, noise, stream))
        return int(heads[uniform_below(len(heads), words_of(noise, stream))])

    def curve(self) -> PureCurve:  # type: ignore[override]  # another law has another curve
        """Return the privacy curve of one choice, of pure epsilon."""
        return PureCurve(self.epsilon)

    def exceedance(self, alpha: float, *, candidates: int, steps: int) -> float:
        """See `permute_and_flip_exceedance`."""
        return permute_and_flip_exceedance(alpha=alpha, scale=self.scale(steps), candidates=candidates)


def _heads(gaps: NDArray[np.int64], slope: Fraction, noise: Noise, stream: str) -> NDArray[np.bool_]:
    """Flip one coin for each candidate, heads with probability ``exp(-slope gap)``.

    A coin is heads when a uniform number is below its probability; 64 digits of it nearly always decide.
    """
    digits = noise.words(len(gaps), stream=stream)
    chances = chances_of(gaps, slope) * 2.0**64
    uniform = digits.astype(np.float64)
    best = gaps == 0
    heads = best | (uniform + 1.0 <= chances * (1.0 - MARGIN))
    words = words_of(noise, stream)
    for k in np.flatnonzero(~heads & (uniform < chances * (1.0 + MARGIN) + _TINY)):
        heads[k] = below_exponential(int(digits[k]), words, exponent=int(gaps[k]) * slope, factor=Fraction(1))
    return np.asarray(heads)


@dataclass(frozen=True, slots=True)
class QuantileBin:
    """The bin that was chosen for a quantile.

    Attributes:
        low: Its lower edge, which belongs to it; minus infinity for the first bin.
        high: Its upper edge, which belongs to the next bin; infinity for the last bin.
    """

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class QuantileBound:
    """What a chosen bin promises about the population, with F its distribution function.

    Attributes:
        radius: e, in units of probability: ``F(low-) - e <= q <= F(high-) + e`` (S1).
        least: No less than this share of the population lies below the upper edge (S2).
        most: No more than this share of the population lies below the lower edge (S2).
        confidence: Probability with which that holds.
        statement: The statement that proves it.
    """

    radius: float
    least: float
    most: float
    confidence: float
    statement: str = "S1"


@dataclass(frozen=True, kw_only=True)
class QuantileRelease(QuantileBins):
    """Releases one quantile of a column, up to the width of a bin, by any private choice.

    Attributes:
        selection: How a bin is chosen; its sensitivity is one row, `unit`.

    Raises:
        ValueError: If an attribute is out of its range or the bins are too narrow for floating-point numbers.

    Examples:
        >>> delays = np.random.default_rng(1).normal(10.0, 5.0, size=2000)
        >>> pick = PermuteAndFlip(0.1)
        >>> from everhold.randomness import SeededNoise
        >>> median = QuantileRelease(quantile=0.5, low=-60, high=60, bins=120, rows=2000, selection=pick)
        >>> median.choose(median.below(delays), SeededNoise(2))
        QuantileBin(low=9.0, high=10.0)
    """

    selection: ExponentialMechanism

    def __post_init__(self) -> None:
        for name in ("bins", "rows", "unit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} is {value!r}. Pass a whole number of at least 1.")
        if self.steps > MOST_GRID_STEPS:
            raise ValueError(f"rows is {self.rows}. Pass at most {MOST_GRID_STEPS // self.unit} with this grid.")
        super().__post_init__()
        if self.selection.sensitivity < self.unit:
            raise ValueError(
                f"The selection's sensitivity is {self.selection.sensitivity}, and one row "
                f"moves a loss by {self.unit}. Pass at least {self.unit}."
            )

    def below(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return the number of rows below each inner edge in grid units, shape (bins - 1,).

        Args:
            values: The column, shape (rows,), real numbers; nan lies below no edge.

        Raises:
            ValueError: If their number is not `rows`.
        """
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (self.rows,):
            raise ValueError(f"The column has the shape {column.shape}. Pass shape ({self.rows},).")
        return np.searchsorted(np.sort(column), self.edges[1:-1], side="left").astype(np.int64) * int(self.unit)

    def law(self, below: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of each bin, shape (bins,). Takes and raises the same as `losses`."""
        return self.selection.law(self.losses(below))

    def choose(self, below: NDArray[np.int64], noise: Noise, *, stream: str = "quantile") -> QuantileBin:
        """Return a bin drawn by the exact law. Takes and raises the same as `losses`."""
        chosen = self.selection.choose(self.losses(below), noise, stream=stream)
        return QuantileBin(*self.bin(chosen))

    def curve(self) -> PrivacyCurve:
        """Return the hockey-stick curve of one choice for one replaced row."""
        return self.selection.curve()

    def exceedance(self, alpha: float) -> float:
        """Return the greatest ``E(loss / n - alpha)_+`` (the r of S1)."""
        return self.selection.exceedance(alpha, candidates=self.bins, steps=self.steps)

    def bound(self, leakage: PrivacyCurve | None = None, *, confidence: float = 0.95) -> QuantileBound:
        """Return what the chosen bin promises about the population (S1 and S2).

        Args:
            leakage: Hockey-stick curve of the whole transcript about one row, averaged over rows; without it that of
                this one choice on independent rows.
            confidence: 1 - beta, in (0, 1).

        Raises:
            ValueError: If `confidence` is outside (0, 1).

        Examples:
            >>> selection = PermuteAndFlip(0.05)
            >>> query = QuantileRelease(quantile=0.9, low=0, high=100, bins=100, rows=20_000, selection=selection)
            >>> query.bound()
            QuantileBound(radius=0.02..., least=0.8..., most=0.9..., confidence=0.95, statement='S1')
        """
        curve = self.curve() if leakage is None else leakage
        bound = transfer_radius(self.exceedance, curve, confidence=confidence)
        rounding = 1.0 / self.steps
        margin = bound.alpha + bound.excess + rounding
        ends = transferred_interval(float(self.quantile), margin=margin, epsilon=bound.epsilon)
        return QuantileBound(bound.radius + rounding, float(ends[0]), float(ends[1]), confidence)
