"""A quantile of a numeric column: the bin that holds it, chosen by a private selection.

Bins are given by the analyst before the rows are looked at. All that is read of the rows is how many lie below each
inner edge, and these are totals of statistical queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.transfer import transfer_radius, transferred_interval
from everhold.mechanisms.base import MOST_GRID_STEPS
from everhold.values.evaluation import UNIT

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from everhold.mechanisms.selection import Selection
    from everhold.privacy.curves import PrivacyCurve
    from everhold.privacy.noise import Noise

__all__ = ["QuantileBin", "QuantileBound", "QuantileSelection"]


@dataclass(frozen=True, slots=True)
class QuantileBin:
    """The bin that was chosen.

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
class QuantileSelection:
    """One quantile of a column, to the width of a bin; the first and the last bin are open to the outside.

    The loss of a bin is by how many rows the number below its lower edge exceeds ``q n``, or the number below its upper
    edge falls short of it. Some bin always has the loss 0, and one replaced row moves each loss by at most 1 row.

    Attributes:
        quantile: q, in [0, 1]; 0.5 is the median.
        low: Lower end of the first bin.
        high: Upper end of the last bin.
        bins: Their number; all are equally wide.
        rows: Number of sealed rows n.
        selection: How a bin is chosen; its sensitivity is one row, `unit`.
        unit: Grid steps of one row.

    Raises:
        ValueError: If an attribute is out of its range or the bins are too narrow for floating-point numbers.

    Examples:
        >>> from everhold.mechanisms.selection import PermuteAndFlip
        >>> from everhold.privacy import SeededNoise
        >>> delays = np.random.default_rng(1).normal(10.0, 5.0, size=2000)
        >>> pick = PermuteAndFlip(0.1)
        >>> median = QuantileSelection(quantile=0.5, low=-60, high=60, bins=120, rows=2000, selection=pick)
        >>> median.choose(median.below(delays), SeededNoise(2))
        QuantileBin(low=9.0, high=10.0)
    """

    quantile: float
    low: float
    high: float
    bins: int
    rows: int
    selection: Selection
    unit: int = UNIT

    def __post_init__(self) -> None:
        if not 0.0 <= self.quantile <= 1.0:
            raise ValueError(f"quantile is {self.quantile}; expected a number in [0, 1], such as 0.5 for the median")
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"low is {self.low} and high is {self.high}; expected finite numbers, low below high")
        for name in ("bins", "rows", "unit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")
        if self.steps > MOST_GRID_STEPS:
            raise ValueError(f"rows is {self.rows}; expected at most {MOST_GRID_STEPS // self.unit} with this grid")
        if self.selection.sensitivity < self.unit:
            raise ValueError(
                f"the selection's sensitivity is {self.selection.sensitivity}; one row moves a loss by {self.unit}; "
                "pass at least that"
            )
        if not bool(np.all(np.diff(self.edges) > 0.0)):
            raise ValueError(f"bins is {self.bins}; some would be empty intervals; expected fewer, or a wider range")

    @property
    def edges(self) -> NDArray[np.float64]:
        """Ends of all bins, increasing, shape (bins + 1,)."""
        return np.linspace(self.low, self.high, self.bins + 1)

    def bin(self, index: int) -> QuantileBin:
        """A bin with its true ends: values beyond the range belong to the first and the last bin, nan to the last."""
        edges = self.edges
        low = -math.inf if index == 0 else float(edges[index])
        return QuantileBin(low, math.inf if index == self.bins - 1 else float(edges[index + 1]))

    @property
    def steps(self) -> int:
        """All rows, in grid units."""
        return int(self.rows) * int(self.unit)

    @property
    def target(self) -> int:
        """``q n`` in grid units, to the nearest; the same whatever the rows are."""
        return round(Fraction(float(self.quantile)) * self.steps)

    def below(self, values: ArrayLike) -> NDArray[np.int64]:
        """Rows below each inner edge, in grid units, shape (bins - 1,): totals of the queries ``1[x < edge]``.

        Args:
            values: The column, shape (rows,), real numbers; nan lies below no edge.

        Raises:
            ValueError: If their number is not `rows`.
        """
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (self.rows,):
            raise ValueError(f"the column has the shape {column.shape}; expected ({self.rows},)")
        return np.searchsorted(np.sort(column), self.edges[1:-1], side="left").astype(np.int64) * int(self.unit)

    def losses(self, below: NDArray[np.int64]) -> NDArray[np.int64]:
        """The loss of each bin in grid units, shape (bins,).

        Args:
            below: Rows below each inner edge in grid units, shape (bins - 1,), as of `below`.

        Raises:
            ValueError: If the shape is another one or they are not integers.
        """
        inner = np.asarray(below)
        if inner.shape != (self.bins - 1,) or inner.dtype.kind not in "iu":
            raise ValueError(
                f"below has the shape {inner.shape} of {inner.dtype}; expected ({self.bins - 1},) integers"
            )
        counts = np.concatenate([[0], inner.astype(np.int64), [self.steps]])
        return np.asarray(np.maximum(np.maximum(counts[:-1] - self.target, self.target - counts[1:]), 0))

    def law(self, below: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probability of each bin, shape (bins,); see `losses` for argument and errors."""
        return self.selection.law(self.losses(below))

    def choose(self, below: NDArray[np.int64], noise: Noise, *, stream: str = "quantile") -> QuantileBin:
        """A bin drawn by the exact law; see `losses` for `below` and errors."""
        chosen = self.selection.choose(self.losses(below), noise, stream=stream)
        return self.bin(chosen)

    def curve(self) -> PrivacyCurve:
        """Hockey-stick curve of one choice for one replaced row."""
        return self.selection.curve()

    def exceedance(self, alpha: float) -> float:
        """``E(loss / n - alpha)_+`` at its greatest (the r of S1)."""
        return self.selection.exceedance(alpha, candidates=self.bins, steps=self.steps)

    def bound(self, leakage: PrivacyCurve | None = None, *, confidence: float = 0.95) -> QuantileBound:
        """What the chosen bin promises about the population (S1 and S2).

        Args:
            leakage: Hockey-stick curve of the whole transcript about one row, averaged over rows; without it that of
                this one choice on independent rows.
            confidence: 1 - beta, in (0, 1).

        Raises:
            ValueError: If `confidence` is outside (0, 1).

        Examples:
            >>> from everhold.mechanisms.selection import PermuteAndFlip
            >>> selection = PermuteAndFlip(0.05)
            >>> question = QuantileSelection(quantile=0.9, low=0, high=100, bins=100, rows=20_000, selection=selection)
            >>> question.bound()
            QuantileBound(radius=0.02..., least=0.8..., most=0.9..., confidence=0.95, statement='S1')
        """
        curve = self.curve() if leakage is None else leakage
        bound = transfer_radius(self.exceedance, curve, confidence=confidence)
        rounding = 1.0 / self.steps
        margin = bound.alpha + bound.excess + rounding
        ends = transferred_interval(float(self.quantile), margin=margin, epsilon=bound.epsilon)
        return QuantileBound(bound.radius + rounding, float(ends[0]), float(ends[1]), confidence)
