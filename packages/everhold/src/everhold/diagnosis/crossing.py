"""Test whether units declared independent are alike where they share a value of a column.

A unit is what the declared dependence takes as independent: a row, or a declared group. The claimed variance of a total
is the sum of the squared unit totals. Rows of different units with a common value add the products of their totals.
Independent units have products that cancel. The sum of all products is compared with the law that it has when the sign
of every unit is tossed: a quadratic form with known second and third cumulants, taken as a shifted gamma law (Pearson's
type III). Its tail is an approximation, so no p-value is limited by a number of simulations.

Source: Imhof 1961 and Pearson 1959 for quadratic forms; the cumulants are sums over ``A``, ``A A`` and ``A A A``, where
``A`` has the products of two units off its diagonal and 0 on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from everhold.dependence.blocks import block_of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_DENSE = 2_000_000  # entries of a matrix that is multiplied as a dense one
_LENGTHS, _FEWEST_BLOCKS = 8, 8
_NO_SKEW, _MOST_SKEW = 1e-6, math.sqrt(8.0)  # of a normal law, and of the square of one


@dataclass(frozen=True, slots=True)
class Shared:
    """The part of a total's variance that is common to several units.

    Attributes:
        claimed: Sum of the squared unit totals.
        added: What units with a common value add to it; about 0 where units are independent.
        p_value: Chance of so much where units are independent.
    """

    claimed: float
    added: float
    p_value: float

    @property
    def ratio(self) -> float:
        """The variance of the total divided by the variance claimed for independent units."""
        return 1.0 + self.added / self.claimed if self.claimed > 0.0 else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The pairs of a unit and a column value that occur together, for values shared by several units.

    Attributes:
        rows: Rows that lie in one of the cells, shape (some rows,).
        of_row: The cell of each of these rows.
        units: The unit of each cell, numbered from 0; shape (cells,).
        codes: The value of each cell, numbered from 0; shape (cells,).
        sizes: Rows of each cell.
    """

    rows: NDArray[np.int64]
    of_row: NDArray[np.int64]
    units: NDArray[np.int64]
    codes: NDArray[np.int64]
    sizes: NDArray[np.float64]


class Crossing:
    """A table of rows by unit and by the value of a column, built once to test many outcomes.

    Args:
        codes: Shape (rows,): value of each row as a number from 0; -1 where it is missing.
        units: Shape (rows,): unit of each row as a number from 0; None if every row is a unit.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> school = np.repeat(np.arange(30), 400)
        >>> crossing = Crossing(school, np.arange(12_000) // 25)  # classes are declared
        >>> effects, noise = rng.normal(size=30)[school], rng.normal(size=12_000)
        >>> crossing.shared(noise - noise.mean()).p_value > 0.01
        True
        >>> crossing.shared(effects + noise - (effects + noise).mean()).ratio > 5.0
        True
    """

    def __init__(self, codes: NDArray[np.int64], units: NDArray[np.int64] | None = None) -> None:
        self._rows = len(codes)
        self._units = units
        rows = np.flatnonzero(codes >= 0)
        own = rows if units is None else units[rows].astype(np.int64)
        width = int(codes.max(initial=0)) + 1
        keys, of_row = np.unique(own * width + codes[rows], return_inverse=True)
        cell_units, cell_codes = np.divmod(keys, width)
        shared = np.bincount(cell_codes, minlength=width)[cell_codes] > 1
        place = np.where(shared, np.cumsum(shared) - 1, -1)
        kept = place[of_row] >= 0
        self._cells = _Cells(
            rows[kept],
            place[of_row][kept],
            np.unique(cell_units[shared], return_inverse=True)[1],
            np.unique(cell_codes[shared], return_inverse=True)[1],
            np.bincount(place[of_row][kept], minlength=int(shared.sum())).astype(np.float64),
        )

    @property
    def crossed(self) -> bool:
        """Whether any value is shared by several units."""
        return len(self._cells.units) > 0

    @cached_property
    def _nested(self) -> bool:
        return len(self._cells.units) == int(self._cells.units.max(initial=-1)) + 1

    @cached_property
    def _centring(self) -> tuple[float, float]:
        """The share of the claimed variance that products lose by centring, and the factor of what is left.

        Rows are at the mean together, so two units of n and m rows have the expected product
        ``- claimed * n m / rows^2``.
        """
        cells = self._cells
        whole = np.bincount(cells.codes, weights=cells.sizes)
        squares = float(np.sum(whole**2))
        lost = (squares - float(np.sum(cells.sizes**2))) / self._rows**2
        return lost, max(1.0 - squares / self._rows**2, 1e-9)

    @cached_property
    def _usual(self) -> tuple[float, float]:
        """Both traces expected if each cell held its share, by number of rows, of a claimed variance of 1.

        Where an outcome is rare, the rows in the cells may show none of its variance.
        """
        return _nested_traces(np.sqrt(self._cells.sizes / self._rows), self._cells.codes)

    def shared(self, values: NDArray[np.float64]) -> Shared:
        """Measure the variance that units have in common, from values with mean 0 and shape (rows,).

        Units that have several values of the column are compared within units as well: what a unit has in all its rows
        would hide what its values add.
        """
        totals = values if self._units is None else np.bincount(self._units, weights=values)
        claimed = float(np.sum(totals**2))
        if not self.crossed or not claimed > 0.0:
            return Shared(claimed, 0.0, 1.0)
        found = self._products(values, claimed, float(np.mean(totals**3)) if self._nested else None)
        if self._nested or self._units is None:
            return found
        sizes = np.maximum(np.bincount(self._units), 1)
        inside = values - (totals / sizes)[self._units]
        inner = self._products(inside, float(np.sum(inside**2)), None)
        best = min(found, inner, key=lambda each: each.p_value)
        return Shared(claimed, max(found.added, inner.added), min(2.0 * best.p_value, 1.0))

    def _products(self, values: NDArray[np.float64], claimed: float, third: float | None) -> Shared:
        """Measure shared variance by products of units, given the third moment of a unit (None: of a cell)."""
        cells = self._cells
        found = np.bincount(cells.of_row, weights=values[cells.rows], minlength=len(cells.units))
        sums = np.asarray(found, dtype=np.float64)
        whole = float(np.sum(np.bincount(cells.codes, weights=sums) ** 2))
        lost, left = self._centring
        products = whole - float(np.sum(sums**2)) + lost * claimed
        seen = _nested_traces(sums, cells.codes) if self._nested else self._crossed_traces(sums)
        square, cube = max(seen[0], self._usual[0] * claimed**2), max(seen[1], self._usual[1] * claimed**3)
        numbers = np.bincount(cells.codes).astype(np.float64)
        lopsided = float(np.mean(sums**3)) if third is None else third
        cumulant = 8.0 * cube + 4.0 * lopsided**2 * float(np.sum(numbers * (numbers - 1.0)))
        return Shared(claimed, products / left, _tail(products, 2.0 * square, cumulant))

    def _crossed_traces(self, sums: NDArray[np.float64]) -> tuple[float, float]:
        """Return the traces of ``A A`` and ``A A A`` where some units have several values of the column."""
        cells = self._cells
        made: Any = scipy.sparse.csr_array((sums, (cells.units, cells.codes)))
        if made.shape[0] * made.shape[1] <= _MOST_DENSE:
            made = made.toarray()
        own = np.bincount(cells.units, weights=sums**2)
        by_unit, by_code = (float(np.sum(np.bincount(each) ** 2.0)) for each in (cells.units, cells.codes))
        if by_unit <= by_code:
            product = made.T @ made
            weighted = float(((made.T * own) @ made * product).sum())
        else:
            product = made @ made.T
            weighted = float(own @ (product * product).sum(axis=1))
        square = float((product * product).sum()) - float(np.sum(own**2))
        cube = float(((product @ product) * product).sum())
        return square, cube - 3.0 * weighted + 2.0 * float(np.sum(own**3))


def along(totals: NDArray[np.float64]) -> Shared:
    """Measure what ordered unit totals, with mean 0 and shape (units,), have in common with their neighbours.

    Blocks of several lengths are tried, and the one that shows most counts; its p-value is that of all lengths.
    """
    found = [crossing.shared(totals) for crossing in _lengths(len(totals))]
    claimed = float(np.sum(totals**2))
    if not found:
        return Shared(claimed, 0.0, 1.0)
    best = min(found, key=lambda each: each.p_value)
    return Shared(claimed, best.added, min(best.p_value * len(found), 1.0))


@lru_cache(maxsize=8)
def _lengths(units: int) -> tuple[Crossing, ...]:
    """Return partitions of ordered units into blocks, each with blocks twice as long as the one before."""
    block = block_of_rows(units)
    return tuple(
        Crossing(block >> bits) for bits in range(_LENGTHS)
        if _FEWEST_BLOCKS <= (int(block[-1]) >> bits) + 1 < units
    )  # fmt: skip


def _nested_traces(sums: NDArray[np.float64], codes: NDArray[np.int64]) -> tuple[float, float]:
    """Return the traces of ``A A`` and ``A A A`` where every unit has one value of the column."""
    second, fourth, sixth = (np.bincount(codes, weights=sums**power) for power in (2, 4, 6))
    return float(np.sum(second**2 - fourth)), float(np.sum(second**3 - 3.0 * second * fourth + 2.0 * sixth))


def _tail(seen: float, variance: float, third: float) -> float:
    """Return the chance of a value of at least `seen` by a shifted gamma law with mean 0 and these cumulants."""
    if not variance > 0.0:
        return 1.0
    spread = math.sqrt(variance)
    skew, deviation = third / (variance * spread), seen / spread
    # a law that is more skewed than one square has most of its mass below the mean: both are looked at
    return max(_gamma_tail(min(skew, _MOST_SKEW), deviation), _gamma_tail(skew, deviation))


def _gamma_tail(skew: float, deviation: float) -> float:
    if skew < _NO_SKEW:
        return float(scipy.special.ndtr(-deviation))
    shape = 4.0 / skew**2
    return float(scipy.special.gammaincc(shape, max(shape + deviation * math.sqrt(shape), 0.0)))
