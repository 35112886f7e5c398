"""AUC without public class counts: blocks of a model's scores, or ranks of scores that are known (docs/theory/auc.md).

The rarer class counts: with more positives than negatives both classes change places and scores change their sign,
which leaves the AUC as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.special

from everhold.guarantees.intervals.base import Needs
from everhold.guarantees.intervals.bets.betting import Bets
from everhold.guarantees.intervals.bets.joint import Units
from everhold.guarantees.intervals.bets.prediction import Prediction
from everhold.guarantees.intervals.shares.means import ClopperPearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLANNED = 64  # quantiles of a law that stands for training units where there are none
_SHARE_OF_CLASSES = 8.0  # one part in so many of the level is for the share of the class


@dataclass(frozen=True, slots=True, eq=False)
class SeenScores:
    """One number in [0, 1] for each row of the class that counts.

    Attributes:
        units: Shape (units,): averages of blocks, or ranks.
        share: Rows of that class, as a share of all rows.
        failing: Of each model whose scores are known, the share of rows on which it fails.
    """

    area: float = field(repr=False)
    units: NDArray[np.float64] = field(repr=False)
    share: float = field(repr=False)
    failing: tuple[float, ...] = field(default=(0.0, 0.0), repr=False)


def block_averages(
    scores: NDArray[np.float64], positive: NDArray[np.bool_], order: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Averages of ``1[s+ > s-]`` (1/2 for ties) over disjoint blocks, one for each row of the smaller class.

    The j-th row of the larger class in the given order is dealt to the row number ``j mod m`` of the smaller class. So
    all rows take part, and blocks differ by one row at most.

    Args:
        scores: Shape (rows,), no nan.
        positive: Shape (rows,).
        order: Shape (rows,): a permutation that depends on no score and no place.

    Returns:
        Shape (m,); empty where a class is.

    Source: docs/theory/auc.md, Statement A1.

    Examples:
        >>> block_averages(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, False, False, False]), np.arange(4))
        array([1.])
    """
    upper, lower = scores[order[positive[order]]], scores[order[~positive[order]]]
    if min(len(upper), len(lower)) == 0:
        return np.zeros(0)
    if len(upper) > len(lower):
        upper, lower = -lower, -upper
    dealt = np.arange(len(lower)) % len(upper)
    met = upper[dealt]
    won = (met > lower) + 0.5 * (met == lower)
    return np.asarray(np.bincount(dealt, won) / np.bincount(dealt))


def public_ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of all rows with a lower score (ties and the row itself 1/2), shape (rows,).

    Args:
        scores: Shape (rows,). Rows on which the model fails have nan: they are below no row, and their rank is 0.

    Examples:
        >>> public_ranks(np.array([0.9, 0.4, 0.4, 0.1]))
        array([0.875, 0.5  , 0.5  , 0.125])
        >>> public_ranks(np.array([0.9, np.nan]))
        array([0.25, 0.  ])
    """
    from scipy.stats import rankdata  # it takes longer to load than all else of an ask about a mean

    known = ~np.isnan(scores)
    ranks = np.zeros(len(scores))
    ranks[known] = (rankdata(scores[known]) - 0.5) / len(scores)
    return ranks


def area_from_ranks(rank: float, share: float) -> float:
    """``(rank - share / 2) / (1 - share)``, clipped: the AUC from the mean rank and the share of a class."""
    if share >= 1.0:
        return 0.5
    return min(max((rank - share / 2.0) / (1.0 - share), 0.0), 1.0)


def rank_from_area(area: float, share: float) -> float:
    """The mean rank of a class from the AUC and the share of the class: the inverse of `area_from_ranks`."""
    return area * (1.0 - share) + share / 2.0


@dataclass(frozen=True)
class ScoreBets(Bets):
    """Bets on one number for each row of a class.

    Attributes:
        expected_units: Planned number of sealed rows of that class, from public facts.
        training: Such numbers of the training rows; None where unknown, and then a law of the guess stands in.
    """

    expected_units: float
    training: SeenScores | None = field(compare=False)

    needs: ClassVar[Needs] = "statistic"
    of_all_rows: ClassVar[bool] = False

    @cached_property
    def prediction(self) -> Prediction:
        """See `Bets.prediction`: without training units those of a beta law whose parameters add up to 2."""
        if self.training is None or not len(self.training.units):
            at = min(max(0.5 if self.guess is None else self.guess, 0.01), 0.99)
            levels, likely = (np.arange(_PLANNED) + 0.5) / _PLANNED, max(self.expected_units, 1.0)
            units = _single(scipy.special.betaincinv(2.0 * at, 2.0 * (1.0 - at), levels), likely / _PLANNED)
        else:
            units = _single(self.training.units)
        return Prediction.of(units, scale=max(self.expected_units, 1.0) / units.total)

    def _units(self, seen: SeenScores) -> Units:
        return _single(seen.units)

    def interval(self, seen: SeenScores, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; the value of all pairs is always inside."""
        if not len(seen.units):
            return 0.0, 1.0
        low, high = self._not_excluded(seen, nats)
        return min(low, seen.area), max(high, seen.area)

    def _not_excluded(self, seen: SeenScores, nats: float) -> tuple[float, float]:
        """What the bets leave, of rows of both classes."""
        return Bets.interval(self, seen, nats)


@dataclass(frozen=True)
class RankBets(ScoreBets):
    """Bets on ranks of a class among scores that are known, and on the share of the class.

    Attributes:
        expected_share: Planned share of the class.
    """

    rows: int
    expected_share: float

    def _of_share(self, share: float, nats: float) -> tuple[float, float]:
        """Shares of the class that are not excluded."""
        procedure = ClopperPearson(rows=self.rows, training=self.rows)
        return procedure.interval(share, nats + math.log(_SHARE_OF_CLASSES))

    def _nats_of_ranks(self, nats: float) -> float:
        """ln(1 / level) that the share of the class leaves to the ranks."""
        return nats - math.log1p(-1.0 / _SHARE_OF_CLASSES)


@dataclass(frozen=True)
class BlockBetting(ScoreBets):
    """Bets on the averages of disjoint blocks of a model's scores (Statement A1).

    Given the labels, blocks are independent, and each has the AUC as its mean. So the bets are fair whatever number of
    rows the classes have, and nothing of that number is told but by the label of a surprise.
    """

    name: ClassVar[str] = "hedged_block_betting"
    title: ClassVar[str] = "betting on blocks of one row of the rarer class and a share of the other rows"
    why: ClassVar[str] = (
        "given the labels of rows of one law, blocks are independent and each has the AUC as its mean, and a fair bet "
        "against the true value gains that much with this probability at most"
    )


@dataclass(frozen=True)
class RankBetting(RankBets):
    """Bets on the mean rank of a class among scores that are known, and on the share of the class (Statement A2)."""

    name: ClassVar[str] = "hedged_rank_betting"
    title: ClassVar[str] = "betting on the ranks of the rarer class"
    why: ClassVar[str] = (
        "the AUC follows from the mean rank and the share of a class, and a fair bet against either true value gains "
        "that much with this probability at most"
    )

    def _not_excluded(self, seen: SeenScores, nats: float) -> tuple[float, float]:
        ranks = Bets.interval(self, seen, self._nats_of_ranks(nats))
        return _areas(ranks, self._of_share(seen.share, nats), seen.failing[0])

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`."""
        ranks = Bets.expected(self, rank_from_area(guess, self.expected_share), self._nats_of_ranks(nats))
        low, high = _areas(ranks, self._of_share(self.expected_share, nats))
        return min(low, guess), max(high, guess)

    def standard_error(self, guess: float) -> float:
        """By the delta method, from the errors of the mean rank and of the share."""
        rank, share = rank_from_area(guess, self.expected_share), self.expected_share
        of_rank = Bets.standard_error(self, rank) / (1.0 - share)
        of_share = abs(rank - 0.5) / (1.0 - share) ** 2 * math.sqrt(2.0 * share * (1.0 - share) / self.rows)
        return math.hypot(of_rank, of_share)


def _single(values: NDArray[np.float64], count: float = 1.0) -> Units:
    """Units of the size 1, so many of each value."""
    ones = np.ones(len(values))
    return Units(ones, np.asarray(np.clip(values, 0.0, 1.0), dtype=np.float64), count * ones, 1.0)


def _areas(ranks: tuple[float, float], shares: tuple[float, float], failing: float = 0.0) -> tuple[float, float]:
    """The least and the greatest AUC: it grows with the rank, and at each rank it is monotone in the share.

    How many rows of the class are failing ones is not known, so above they count as all of them.
    """
    if shares[1] >= 1.0:
        return 0.0, 1.0
    low = min(area_from_ranks(ranks[0], share) for share in shares)
    high = max(area_from_ranks(ranks[1] + failing, share) for share in shares)
    return math.nextafter(low, 0.0), math.nextafter(high, 1.0)
