"""Bets on units in order of time, whose dependence is unknown (S15).

Units k = 1, ..., K, such as days, follow each other. Given the past, unit k has the value Y_k in [0, n_k] with the mean
mu_k. The answer is about ``theta = sum mu_k / n``, which is random. The bets of `joint` have the factors ``1 + lambda
(theta n_k - Y_k)``, which are fair only if theta is fixed beforehand. In this module the bet is against a public centre
c, and theta appears only in an exponent. With ``lambda = u / ((1 - c) N)`` and ``0 < u < 1``

    exp K(theta) = exp(lambda n (theta - c)) prod (1 + lambda (c n_k - Y_k))

has an expectation of at most 1, for given the past the factor of unit k has the mean
``(1 + lambda (c n_k - mu_k)) exp(lambda (mu_k - c n_k)) <= 1``. A weighted average over several u is fair as well, and
grows with theta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy

from everhold.guarantees.intervals.base import GroupSums, Procedure
from everhold.guarantees.intervals.betting import Betting, GroupBetting, OfGroups, RatioBetting, side_of
from everhold.guarantees.intervals.joint import FRACTIONS, MOST_PAID, Units, first_excluded, log_of_sum, ratio_bets
from everhold.guarantees.intervals.means import ClopperPearson, Ends, OfMeans

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_INSIDE = 1e-3
"""Centres are this far from 0 and 1 at least: any centre is valid, and none may make the stake infinite."""


@dataclass(frozen=True)
class OrderedBetting(GroupBetting):
    """Bets on sums of units in order of time, each of which may have any law given the units before it."""

    name: ClassVar[str] = "hedged_ordered_betting"
    title: ClassVar[str] = "betting on sums of units in order of time with stakes that are fixed before the look"
    why: ClassVar[str] = (
        "a bet that is fair for every unit given the units before, whatever they were, gains that much with this "
        "probability at most"
    )

    @cached_property
    def centre(self) -> float:
        """C, the analyst's guess or else the training mean, kept a little away from 0 and 1. Public."""
        expected = self.prediction.mean if self.guess is None else self.guess
        return min(max(expected, _INSIDE), 1.0 - _INSIDE)

    def farthest_end(self, seen: Any, nats: float, *, upper: bool, known: float | None) -> float | None:
        """Return the upper or the lower end of the interval, or None if that end lies no farther out than ``known``."""
        units, stake = self._units(seen), self._stake(nats, upper=upper)
        if upper:
            end = _upper_end(units, self.centre, stake, side_of(nats))
        else:
            end = 1.0 - _upper_end(units.mirrored, 1.0 - self.centre, stake, side_of(nats))
        beyond = known is None or (end > known if upper else end < known)
        return end if beyond else None

    def _ends(self, units: Units, nats: float, *, tolerance: float) -> tuple[float, float]:
        """Return the least and the greatest mean that bets on these units do not exclude at ``exp(-nats)``."""
        side, (low, high) = side_of(nats), self._stakes(nats)
        return (
            1.0 - _upper_end(units.mirrored, 1.0 - self.centre, low, side, tolerance=tolerance),
            _upper_end(units, self.centre, high, side, tolerance=tolerance),
        )

    def widest(self, nats: float) -> float:
        """Return the half-width if all values are as far from the centre as possible: ``ln(1 + x) >= x - psi x^2``."""
        sizes, numbers = (np.array(each, dtype=np.float64) for each in zip(*self.sizes, strict=True))
        total, psi = float(np.sum(numbers * sizes)), (-FRACTIONS - np.log1p(-FRACTIONS)) / FRACTIONS**2
        farthest = max(self.centre, 1.0 - self.centre) ** 2 * float(np.sum(numbers * sizes**2))
        reach = 0.0
        for centre in (self.centre, 1.0 - self.centre):
            rates = FRACTIONS / ((1.0 - centre) * self._largest)
            reach = max(reach, float(np.min((side_of(nats) + MOST_PAID + psi * rates**2 * farthest) / rates)))
        return min(reach / total, 0.5)


def _upper_end(units: Units, centre: float, stake: float, nats: float, *, tolerance: float = 1e-9) -> float:
    """Return the least mean that is excluded with all larger means, rounded up, or 1 if no mean is excluded.

    The log capital of each bet is a line in theta: at the centre it is that of `ratio_bets`, and its slope is ``lambda
    n``.
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
    """Return `OrderedBetting` for units in order with unknown dependence if ``in_order``, else `GroupBetting`."""
    return OrderedBetting if in_order else GroupBetting


# Intervals that hold at all numbers of rows at once, for rows that arrive (S14).
#
# The capital of a bet whose stakes were fixed beforehand is a test supermartingale over the batches in order, if the
# population's value is the same for all of them. So by Ville's inequality it reaches ``1 / level`` at any time with
# probability at most the level. When batches end may depend on everything that was told of the rows before.

_BISECTIONS = 60
_DOUBT, _DOUBT_BY_ROW = 1e-9, 1e-14  # nats that floating point may add to the capital; generously
_BELOW_ONE = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class CoinMixture(OfMeans):
    """Interval procedure for yes-or-no values: likelihood ratios of coins, mixed by a beta prior.

    After S ones among n rows, the capital against theta is ``B(S + c theta, n - S + c (1 - theta))`` over
    ``B(c theta, c (1 - theta)) theta^S (1 - theta)^(n - S)``, where c is the concentration. Its logarithm is convex in
    theta, so the values that it does not exclude are an interval.

    Attributes:
        concentration: c > 0, the rows that the prior is worth; fixed when the query was declared.

    Examples:
        >>> low, high = CoinMixture(rows=20_000, training=20_000, concentration=114.0).interval(0.5, 17.5)
        >>> round(low, 4), round(high, 4)
        (0.4775, 0.5225)
    """

    concentration: float = 1.0

    name: ClassVar[str] = "coin_mixture"
    of_counts: ClassVar[bool] = True
    title: ClassVar[str] = "a mixture of likelihood ratios, at all numbers of rows at once"
    why: ClassVar[str] = (
        "a fair bet against the true value ever gains that much with this probability at most, however many rows "
        "arrive and whenever, if the value is the same for all of them"
    )

    @classmethod
    def declared(cls, procedure: OfMeans, *, first_rows: int, nats: float) -> CoinMixture:
        """Return the procedure at the level ``exp(-nats)`` for a holdout that was created with ``first_rows`` rows.

        The concentration of its stakes is about the best one from ``first_rows`` to some twelve times as many rows.
        """
        concentration = first_rows / max(nats, 1.0)
        return cls(rows=procedure.rows, training=procedure.training, concentration=concentration)

    def span(self, low: ArrayLike, high: ArrayLike, nats: ArrayLike) -> Ends:
        """Return the ends of the union of the intervals for all sealed means from ``low`` to ``high``."""
        low, high, nats = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (low, high, nats)))
        return 1.0 - self._upper(1.0 - low, nats), self._upper(high, nats)

    def _upper(self, mean: NDArray[np.float64], nats: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the least excluded value above each mean, rounded up, or 1 if no value is excluded."""
        mean = np.clip(mean, 0.0, 1.0)
        nats = nats + _DOUBT + _DOUBT_BY_ROW * self.rows
        inside, outside = mean, np.ones_like(mean)
        for _ in range(_BISECTIONS):
            middle = np.minimum((inside + outside) / 2.0, _BELOW_ONE)
            excluded = self._capital(mean * self.rows, middle) >= nats
            inside, outside = np.where(excluded, inside, middle), np.where(excluded, middle, outside)
        return outside

    def _capital(self, ones: NDArray[np.float64], theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log capital against each theta in (0, 1), after ``ones`` ones among all rows."""
        special, zeros = scipy.special, self.rows - ones
        yes, no = self.concentration * theta, self.concentration * (1.0 - theta)
        mixed = special.betaln(ones + yes, zeros + no) - special.betaln(yes, no)
        return np.asarray(mixed - special.xlogy(ones, theta) - special.xlog1py(zeros, -theta))


def groups_at_all_sizes(procedure: Procedure, *, sizes: tuple[tuple[int, float], ...], largest: int) -> OfGroups | None:
    """Return bets on groups whose interval holds at all numbers of rows at once, or None for other procedures.

    Args:
        procedure: The interval procedure for the present rows.
        sizes: Pairs of a size and the number of sealed groups of that size.
        largest: Number of rows that no group exceeds, neither among the sealed rows nor among those that will arrive.
    """
    if isinstance(procedure, OfGroups):
        return replace(procedure, fixed_stakes=True, largest_group=largest)
    if not isinstance(procedure, OfMeans):
        return None
    nothing = np.zeros(0, dtype=np.int64)  # no stake follows from training rows, so a mean needs none
    training = GroupSums(nothing, nothing, nothing, 1)
    return GroupBetting(sizes=sizes, training=training, fixed_stakes=True, largest_group=largest)


def at_all_sizes(procedure: Procedure, *, first_rows: int, nats: float) -> Procedure | None:
    """Return the procedure of the same query that holds at all numbers of rows at once, or None if there is none.

    The result depends on the query and on what was fixed when it was declared, not on the present rows.

    Args:
        procedure: Procedure for the present rows.
        first_rows: Number of rows that were sealed first.
        nats: ln(1 / level) of the query.
    """
    if isinstance(procedure, ClopperPearson):
        return CoinMixture.declared(procedure, first_rows=first_rows, nats=nats)
    if isinstance(procedure, Betting | RatioBetting):
        return replace(procedure, fixed_stakes=True)
    return None
