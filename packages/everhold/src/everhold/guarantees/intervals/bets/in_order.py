"""Bets on units in order of time, whose dependence is unknown (S15).

Units k = 1, ..., K follow each other. Given the past, unit k has the value Y_k in [0, n_k] with the mean mu_k, and the
answer is about ``theta = sum mu_k / n``, which depends on how the days went. The capital of `joint` multiplies
``1 + lambda (theta n_k - Y_k)``, which is fair only for a theta that is known before. Here the bet is against a public
centre c, and theta stands in an exponent alone: with ``lambda = u / ((1 - c) N)`` and ``0 < u < 1``

    exp K(theta) = exp(lambda n (theta - c)) prod (1 + lambda (c n_k - Y_k))

has an expectation of at most 1, for given the past the factor of unit k has the mean
``(1 + lambda (c n_k - mu_k)) exp(lambda (mu_k - c n_k)) <= 1``. A weighted average over several u is fair as well, and
grows with theta.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.guarantees.intervals.bets.betting import GroupBetting, side_of
from everhold.guarantees.intervals.bets.joint import FRACTIONS, MOST_PAID, first_excluded, log_of_sum, ratio_bets

if TYPE_CHECKING:
    from everhold.guarantees.intervals.bets.joint import Units

_INSIDE = 1e-3
"""Centres are this far from 0 and 1 at least: any centre is valid, and none may make the stake infinite."""


@dataclass(frozen=True)
class OrderedBetting(GroupBetting):
    """Bets on the sums of units in order of time. Given their past they may have any law."""

    name: ClassVar[str] = "hedged_ordered_betting"
    title: ClassVar[str] = "betting on sums of units in order of time with stakes that are fixed before the look"
    why: ClassVar[str] = (
        "a bet that is fair for every unit given the units before, whatever they were, gains that much with this "
        "probability at most"
    )

    @cached_property
    def centre(self) -> float:
        """C, the analyst's guess or the training mean. Public."""
        expected = self.prediction.mean if self.guess is None else self.guess
        return min(max(expected, _INSIDE), 1.0 - _INSIDE)

    def farthest_end(self, seen: Any, nats: float, *, upper: bool, known: float | None) -> float | None:
        """See `Bets.farthest_end`."""
        units, stake = self._units(seen), self._stake(nats, upper=upper)
        if upper:
            end = _upper_end(units, self.centre, stake, side_of(nats))
        else:
            end = 1.0 - _upper_end(units.mirrored, 1.0 - self.centre, stake, side_of(nats))
        beyond = known is None or (end > known if upper else end < known)
        return end if beyond else None

    def _ends(self, units: Units, nats: float, *, tolerance: float) -> tuple[float, float]:
        side, (low, high) = side_of(nats), self._stakes(nats)
        return (
            1.0 - _upper_end(units.mirrored, 1.0 - self.centre, low, side, tolerance=tolerance),
            _upper_end(units, self.centre, high, side, tolerance=tolerance),
        )

    def widest(self, nats: float) -> float:
        """See `Procedure.widest`: of values as far from the centre as they can be, by ``ln(1 + x) >= x - psi x^2``."""
        sizes, numbers = (np.array(each, dtype=np.float64) for each in zip(*self.sizes, strict=True))
        total, psi = float(np.sum(numbers * sizes)), (-FRACTIONS - np.log1p(-FRACTIONS)) / FRACTIONS**2
        farthest = max(self.centre, 1.0 - self.centre) ** 2 * float(np.sum(numbers * sizes**2))
        reach = 0.0
        for centre in (self.centre, 1.0 - self.centre):
            rates = FRACTIONS / ((1.0 - centre) * self._largest)
            reach = max(reach, float(np.min((side_of(nats) + MOST_PAID + psi * rates**2 * farthest) / rates)))
        return min(reach / total, 0.5)


def _upper_end(units: Units, centre: float, stake: float, nats: float, *, tolerance: float = 1e-9) -> float:
    """Return the value from which on all values are excluded, rounded up, or 1 where none is.

    Each bet's K is a line in theta: that of `ratio_bets` at the centre, and beyond it the slope ``lambda n``.
    """
    mean = units.mean
    if not mean < 1.0:
        return 1.0
    bets = ratio_bets(units, stake)
    gains = bets.gains(np.array([[[1.0, centre]]]))[0, 0, 0, :, 0]
    slopes = np.minimum(bets.stakes / ((1.0 - centre) * units.largest), bets.rates) * units.total
    likely = float(np.min((nats - gains) / slopes))
    return first_excluded(
        lambda theta: float(log_of_sum(gains + slopes * (theta - centre), axis=0)), nats, inside=mean, outside=1.0,
        start=centre + likely, tolerance=tolerance,
    )  # fmt: skip


def betting_on(*, in_order: bool) -> type[GroupBetting]:
    """Return the class of bets on sums of units: independent ones, or ones in order with unknown dependence."""
    return OrderedBetting if in_order else GroupBetting
