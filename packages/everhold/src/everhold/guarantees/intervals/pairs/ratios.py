"""Ratios of two sums in one query: conditional means, precision, recall, F1, rates by arm (S8).

``theta = sum E u / sum E v`` with ``0 <= u <= v <= 1`` in every row. At the true theta the sum of ``u - theta v`` has
mean 0, so the bets of `joint` work as they stand, with the random denominators as sizes: no unit's denominator is
larger than its number of rows. Where no sealed row is in the denominator, nothing is excluded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from everhold.guarantees.intervals.base import Needs, Pairs
from everhold.guarantees.intervals.bets.betting import NO_STAKE, Bets, OfGroups, refuse_larger, side_of
from everhold.guarantees.intervals.bets.joint import Units, upper_end
from everhold.guarantees.intervals.bets.prediction import Prediction

_HONEST_ERRORS = 4.0  # standard errors of the number of rows that count


@dataclass(frozen=True)
class _RatioBets(Bets):
    """Bets on pairs whose row values were rounded down: each side takes the true ones where they hurt it most."""

    of_all_rows: ClassVar[bool] = False  # of however few are in the denominator

    @property
    def _largest(self) -> float:
        """Rows of the largest unit."""
        return 1.0

    def _units(self, seen: Pairs) -> Units:
        return _pairs(seen, self._largest)

    def interval(self, seen: Pairs, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`."""
        less = _pairs(seen, self._largest, denominators=1)
        more = _pairs(seen, self._largest, numerators=1)
        side, (low, high) = side_of(nats), self._stakes(nats)
        return 1.0 - upper_end(less.mirrored, low, side), upper_end(more, high, side)


@dataclass(frozen=True)
class RatioBetting(_RatioBets):
    """Bets on the ratio of two sums over independent rows, whose laws may differ.

    Attributes:
        training: Pairs of the training rows.
    """

    rows: int
    training: Pairs

    name: ClassVar[str] = "hedged_ratio_betting"
    title: ClassVar[str] = "betting on a ratio of two sums"
    needs: ClassVar[Needs] = "pairs"
    why: ClassVar[str] = "a fair bet against the true ratio gains that much with this probability at most"

    @cached_property
    def prediction(self) -> Prediction:
        """See `Bets.prediction`."""
        total = round(float(np.sum(self.training.counts)))
        return Prediction.of(self._units(self.training), scale=self.rows / max(total, 1))

    def widest_if_honest(self, nats: float) -> float:
        """See `Procedure.widest_if_honest`.

        Row by row the capital is least for numerators that are 0 or all of the denominator, and then for denominators
        of 1 with the same sum. Of those, half ones have the widest interval.
        """
        predicted = self.prediction
        expected = predicted.total * predicted.scale
        rows = expected - _HONEST_ERRORS * math.sqrt(expected * (1.0 + predicted.scale))
        if rows < 1.0:
            return 0.5
        halves = Units(np.ones(2), np.array([0.0, 1.0]), np.full(2, rows / 2.0), 1.0)
        return min(upper_end(halves, NO_STAKE, side_of(nats), tolerance=1e-4) - 0.5, 0.5)


@dataclass(frozen=True)
class GroupRatioBetting(OfGroups, _RatioBets):
    """The same for independent groups of rows.

    Attributes:
        training: Pairs of the training groups.
    """

    training: Pairs

    name: ClassVar[str] = "hedged_group_ratio_betting"
    title: ClassVar[str] = "betting on a ratio of two sums over groups"
    needs: ClassVar[Needs] = "group_pairs"
    why: ClassVar[str] = "a fair bet against the true ratio gains that much with this probability at most"

    @cached_property
    def prediction(self) -> Prediction:
        """See `Bets.prediction`."""
        return self._predicted(self.training, _pairs)


def _pairs(pairs: Pairs, largest: float, *, numerators: int = 0, denominators: int = 0) -> Units:
    """Exact pairs, with so many grid steps more for each row; those without a denominator say nothing."""
    refuse_larger(pairs.sizes, largest)
    sizes = (pairs.denominators + denominators * pairs.sizes) / pairs.unit
    values = (pairs.numerators + numerators * pairs.sizes) / pairs.unit
    sizes = np.maximum(sizes, values)  # a numerator is no larger than its denominator, also before both were rounded
    within = sizes > 0.0
    return Units(sizes[within], values[within], pairs.counts[within].astype(np.float64), largest)
