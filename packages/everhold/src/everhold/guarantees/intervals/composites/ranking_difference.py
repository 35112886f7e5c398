"""The difference of two AUCs: blocks of two models' scores, or ranks of two lists of known scores (docs/theory/auc.md).

Values are on the scale [0, 1]: a difference d of two AUCs stands at ``(1 + d) / 2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.special

from everhold.guarantees.intervals.bets.betting import Bets
from everhold.guarantees.intervals.bets.prediction import Prediction
from everhold.guarantees.intervals.composites.parts import units_of
from everhold.guarantees.intervals.composites.ranking import RankBets, ScoreBets, SeenScores

if TYPE_CHECKING:
    from everhold.guarantees.intervals.bets.joint import Units

_PLANNED, _LIKELY_SPREAD = 64, 0.05


@dataclass(frozen=True)
class BlockDifference(ScoreBets):
    """Bets on differences of block averages of two models' scores (Statement A3)."""

    name: ClassVar[str] = "block_difference_betting"
    title: ClassVar[str] = "betting on differences of two models on blocks of rows"
    why: ClassVar[str] = (
        "given the labels of rows of one law, blocks are independent and each has the difference of the AUCs as its "
        "mean, and a fair bet against the true value gains that much with this probability at most"
    )

    @cached_property
    def prediction(self) -> Prediction:
        """See `Bets.prediction`: without training units those of two models that are much alike."""
        if self.training is None or not len(self.training.units):
            at = 0.5 if self.guess is None else self.guess
            levels, likely = (np.arange(_PLANNED) + 0.5) / _PLANNED, max(self.expected_units, 1.0)
            values = np.clip(at + _LIKELY_SPREAD * scipy.special.ndtri(levels), 0.0, 1.0)
            return Prediction.of(units_of(values, np.ones(_PLANNED)), scale=likely / _PLANNED)
        units = units_of(self.training.units, np.ones(len(self.training.units)))
        return Prediction.of(units, scale=max(self.expected_units, 1.0) / units.total)

    def _units(self, seen: SeenScores) -> Units:
        return units_of(seen.units, np.ones(len(seen.units)))


@dataclass(frozen=True)
class RankDifference(BlockDifference, RankBets):
    """Bets on differences of ranks among known scores, and on the share of the class (Statement A4).

    Units are ``(1 + D / reach) / 2`` for differences D of the two ranks of a row.

    Attributes:
        reach: The largest difference of two ranks of a row; public.
    """

    reach: float

    name: ClassVar[str] = "rank_difference_betting"
    title: ClassVar[str] = "betting on differences of ranks in the rarer class"
    why: ClassVar[str] = (
        "the difference of the AUCs follows from the mean difference of ranks and the share of a class, and a fair bet "
        "against either true value gains that much with this probability at most"
    )

    def _not_excluded(self, seen: SeenScores, nats: float) -> tuple[float, float]:
        ends = Bets.interval(self, seen, self._nats_of_ranks(nats))
        return difference_from_ranks(ends, self._of_share(seen.share, nats), self.reach, *seen.failing)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`."""
        shares = self._of_share(self.expected_share, nats)
        ends = Bets.expected(self, self._at(guess), self._nats_of_ranks(nats))
        low, high = difference_from_ranks(ends, shares, self.reach)
        return min(low, guess), max(high, guess)

    def standard_error(self, guess: float) -> float:
        """See `Procedure.standard_error`."""
        return self.reach * Bets.standard_error(self, self._at(guess)) / (1.0 - self.expected_share)

    def _at(self, guess: float) -> float:
        """The mean unit where the difference stands at the guess."""
        mean = (2.0 * guess - 1.0) * (1.0 - self.expected_share) / self.reach
        return min(max((1.0 + mean) / 2.0, 0.0), 1.0)


def difference_from_ranks(
    units: tuple[float, float], shares: tuple[float, float], reach: float, first: float = 0.0, second: float = 0.0
) -> tuple[float, float]:
    """The least and the largest ``mean D / (1 - share)`` on the scale [0, 1]; monotone in the mean and in the share.

    Args:
        units: Ends of the mean unit.
        shares: Ends of the share of the class.
        reach: As in `RankDifference`.
        first: The share of rows on which the first model fails.
        second: The same of the second one.

    Examples:
        >>> difference_from_ranks((0.5, 1.0), (0.0, 0.5), 0.25)
        (0.5, 0.75)
    """
    if shares[1] >= 1.0:
        return 0.0, 1.0
    low, high = reach * (2.0 * units[0] - 1.0) - second, reach * (2.0 * units[1] - 1.0) + first
    least = min(low / (1.0 - share) for share in shares)
    most = max(high / (1.0 - share) for share in shares)
    return max((1.0 + least) / 2.0, 0.0), min((1.0 + most) / 2.0, 1.0)
