"""Ratios of two sums in one question: conditional means, precision, recall, F1, rates by arm (S8).

``theta = sum E u / sum E v`` with ``0 <= u <= v <= 1`` in every row. At the true theta the sum of ``u - theta v`` has
mean 0, so the bets of `capital` work as they stand, with the random denominators as sizes: no unit's denominator is
larger than its number of rows. Where no sealed row is in the denominator, nothing is excluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from everhold.guarantees.intervals.base import Needs, PairCells, Pairs
from everhold.guarantees.intervals.betting import Bets, Prediction, refuse_larger
from everhold.guarantees.intervals.capital import Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GroupRatioBetting", "RatioBetting"]


@dataclass(frozen=True)
class RatioBetting(Bets):
    """Bets on the ratio of two sums over independent rows, whose laws may differ.

    Attributes:
        rows: Sealed rows.
        training: Pairs of the training rows, or squares of pairs.
    """

    rows: int
    training: Pairs | PairCells

    name: ClassVar[str] = "ratio_betting"
    title: ClassVar[str] = "betting on a ratio of two sums"
    needs: ClassVar[Needs] = "pairs"
    why: ClassVar[str] = "a fair bet against the true ratio gains that much with this probability at most"

    def _units(self, seen: Pairs | PairCells) -> Units:
        return _corners(seen) if isinstance(seen, PairCells) else _pairs(seen, 1.0)

    @cached_property
    def prediction(self) -> Prediction:
        """See `Bets.prediction`."""
        total = int(np.sum(self.training.counts))
        return Prediction.of(self._units(self.training), scale=self.rows / max(total, 1))


@dataclass(frozen=True)
class GroupRatioBetting(Bets):
    """The same for independent groups of rows; rows of one group may depend on each other in any way.

    Attributes:
        sizes: Pairs of a size and the number of sealed groups of that size; public.
        training: Pairs of the training groups.
    """

    sizes: tuple[tuple[int, int], ...]
    training: Pairs

    name: ClassVar[str] = "group_ratio_betting"
    title: ClassVar[str] = "betting on a ratio of two sums over groups"
    needs: ClassVar[Needs] = "group_pairs"
    why: ClassVar[str] = "a fair bet against the true ratio gains that much with this probability at most"

    @property
    def rows(self) -> int:
        """Sealed rows."""
        return sum(size * number for size, number in self.sizes)

    @cached_property
    def _largest(self) -> float:
        return float(max(size for size, _ in self.sizes))

    def _units(self, seen: Pairs) -> Units:
        return _pairs(seen, self._largest)

    @cached_property
    def prediction(self) -> Prediction:
        """See `Bets.prediction`; sealed groups are taken to spread as training groups do, in proportion to rows."""
        total = int(np.sum(self.training.sizes * self.training.counts))
        largest = float(np.max(self.training.sizes, initial=self._largest))
        return Prediction.of(_pairs(self.training, largest), scale=self.rows / max(total, 1))


def _pairs(pairs: Pairs, largest: float) -> Units:
    """Exact pairs; those without a denominator say nothing."""
    refuse_larger(pairs.sizes, largest)
    within = pairs.denominators > 0
    sizes = pairs.denominators[within] / pairs.unit
    values = np.minimum(pairs.numerators[within] / pairs.unit, sizes)
    return Units(sizes, values, pairs.counts[within].astype(np.float64), largest)


def _corners(squares: PairCells) -> Units:
    """Each row as a lottery over corners of its square with the same mean pair.

    A square cut by the diagonal u = v holds rows in one triangle only, and a mean in a triangle is one lottery over its
    corners. In the others only the means of u and of v are known, not how rows combine them, so the lottery must be the
    least favourable one with these means: it pairs large u with small v as far as it can, because the logarithm of an
    affine function of ``theta v - u`` is supermodular in (u, v). No corner leaves ``0 <= u <= v <= 1``.
    """
    counts = squares.counts.astype(np.float64)
    u = _within(squares.numerators, squares.across, squares)
    v = _within(squares.denominators, squares.along, squares)
    diagonal = squares.across >= squares.along
    u = np.where(diagonal, np.minimum(u, v), u)
    both = np.where(diagonal, u, np.maximum(u + v - counts, 0.0))
    masses = {(0, 0): counts - u - v + both, (1, 0): u - both, (0, 1): v - both, (1, 1): both}
    side = squares.cells + 1
    table = sum(
        np.bincount((squares.across + i) * side + squares.along + j, np.maximum(mass, 0.0), side * side)
        for (i, j), mass in masses.items()
    )
    filled = np.flatnonzero(table)
    across, along = np.divmod(filled, side)
    inside = along > 0
    return Units(
        along[inside] / squares.cells,
        np.minimum(across, along)[inside] / squares.cells,
        np.asarray(table)[filled][inside],
        1.0,
    )


def _within(sums: NDArray[np.int64], cells: NDArray[np.int64], squares: PairCells) -> NDArray[np.float64]:
    """How many rows of each square a lottery puts on the upper edge; exact for units that cells divide."""
    if squares.unit % squares.cells == 0:
        step = squares.unit // squares.cells
        beyond = (sums - cells * squares.counts * step) / step
    else:
        beyond = sums / squares.unit * squares.cells - cells * squares.counts
    return np.asarray(np.clip(beyond, 0.0, squares.counts), dtype=np.float64)
