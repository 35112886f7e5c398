"""Intervals of a difference of two public arrays of predictions, from the rows on which they differ (Statement D1).

Both arrays are known before the look, and the promise is about labels drawn anew on these rows. Where two predictions
are equal, so are their row values, whatever the label is. So n - d rows add exactly 0 to the difference, and the d
other rows are independent units of their own. Their gains lie within a public reach c, which is often much smaller
than the range of the metric, so they are bet on after division by c.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from everhold.guarantees.intervals.base import Cells, Needs, Procedure
from everhold.guarantees.intervals.betting import Betting, side_of
from everhold.guarantees.intervals.means import SignTest

_ROUNDING = 1e-15


@dataclass(frozen=True)
class OfDisagreement(Procedure):
    """Base of intervals that use only the rows on which two public arrays differ.

    Means are those of ``(1 + D) / 2`` over all n rows, where D is a gain as a share of the metric's range. Shares are
    those of ``(1 + D / c) / 2`` over the d differing rows. With ``s = c d / n`` a share v is the mean
    ``1 / 2 + s (v - 1 / 2)``.

    Attributes:
        rows: Sealed rows n.
        differing: Sealed rows d with different predictions; public.
        reach: c in (0, 1]: no gain is larger, whatever the labels are; public.
        training: Training rows that the guess was made from; 0 for the analyst's own guess.
    """

    rows: int
    differing: int
    reach: float
    training: int = field(default=0, kw_only=True)

    needs: ClassVar[Needs] = "apart"

    @property
    def scale(self) -> float:
        """The factor s between shares and means."""
        return self.reach * self.differing / self.rows

    def share(self, mean: float) -> float:
        """Return the share of differing rows that a mean stands for, clipped to [0, 1]."""
        return min(max(0.5 + (mean - 0.5) / self.scale, 0.0), 1.0) if self.differing else 0.5

    def _means(self, shares: tuple[float, float]) -> tuple[float, float]:
        """Return both ends as means, rounded outwards, or exactly 1/2 where no row differs."""
        if not self.differing:
            return 0.5, 0.5
        low, high = (0.5 + self.scale * (share - 0.5) for share in shares)
        return max(low - _ROUNDING, 0.0), min(high + _ROUNDING, 1.0)

    @property
    def frame(self) -> tuple[float, float]:
        """See `Procedure.frame`: all shares."""
        return 0.5 - self.scale / 2.0, 0.5 + self.scale / 2.0

    @abstractmethod
    def _variance(self, share: float) -> float:
        """Return the variance of an honest guess of the share around the sealed share."""

    def standard_error(self, guess: float) -> float:
        """See `Procedure.standard_error`. It also covers the number of differing rows if training rows guess."""
        if not self.differing:
            return 0.0
        share, part = self.share(guess), self.differing / self.rows
        moved = 2.0 * self.reach * (share - 0.5)
        counted = part * (1.0 - part) / self.training if self.training else 0.0
        return math.sqrt(self.scale**2 * self._variance(share) + 0.25 * moved**2 * counted)

    @property
    def worth(self) -> float:
        """See `Procedure.worth`: the other rows are known to be ties."""
        sealed = self.scale**2 * self._variance(0.5) / 2.0 if self.differing else 0.0
        return 0.25 / max(sealed, 1e-300)

    def stakes(self, nats: float) -> dict[str, float]:
        """See `Procedure.stakes`: the public numbers d and c."""
        return {"differing": float(self.differing), "reach": self.reach}


@dataclass(frozen=True)
class DisagreementBetting(OfDisagreement):
    """Hedged bets on the differing rows, whose differences are divided by the reach.

    Attributes:
        bets: On the shares of the differing rows.
    """

    bets: Betting

    name: ClassVar[str] = "hedged_disagreement_betting"
    title: ClassVar[str] = "betting on the rows where the predictions differ"
    why: ClassVar[str] = (
        "rows with equal predictions add nothing to the difference whatever their labels are, and on the others a fair "
        "bet against the true value gains that much with this probability at most"
    )

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; what is seen are the shares of the differing rows."""
        return self._means(self.bets.interval(seen, nats) if self.differing else (0.5, 0.5))

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`."""
        return self._means(self.bets.expected(self.share(guess), nats) if self.differing else (0.5, 0.5))

    def roughly(self, nats: float) -> float:
        """Return about the half-width of a mean (Bernstein), to choose between procedures before a stake."""
        side, spread = side_of(nats) + math.log(2.0), self.bets.prediction.spread(self.bets.prediction.mean)
        scattered = spread * self.bets.prediction.scale
        return self.scale * (math.sqrt(2.0 * side * scattered) + side / 3.0) / self.differing

    def widest(self, nats: float) -> float:
        """See `Procedure.widest`: no gain is beyond the reach either."""
        return self.scale * self.bets.widest(nats) if self.differing else 0.0

    def _variance(self, share: float) -> float:
        return self.bets.standard_error(share) ** 2

    def stakes(self, nats: float) -> dict[str, float]:
        """See `Procedure.stakes`: those of the bets as well."""
        found = OfDisagreement.stakes(self, nats)
        return {**found, **self.bets.stakes(nats)} if self.differing else found


@dataclass(frozen=True)
class DisagreementSigns(OfDisagreement):
    """Exact sign test for accuracies of two public predictions of two classes. Labels are places and widths.

    A surprise of `SignTest` would be told as a cell of all means in [0, 1], which is coarse beside such an interval.
    """

    name: ClassVar[str] = "disagreement_signs"
    title: ClassVar[str] = SignTest.title
    why: ClassVar[str] = SignTest.why

    @property
    def _test(self) -> SignTest:
        return SignTest(rows=self.rows, training=self.training or self.rows, differing=self.differing)

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; what is seen are the wins among the differing rows."""
        wins = float(seen.sums.sum()) / seen.unit
        return self._test.interval(0.5 + (wins - self.differing / 2.0) / self.rows, nats)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`."""
        return self._test.interval(self._means((self.share(guess),) * 2)[0], nats)

    def widest(self, nats: float) -> float:
        """See `Procedure.widest`: Hoeffding's half-width for the share, which binomial tails never exceed by a row."""
        if not self.differing:
            return 0.0
        return self.scale * min(math.sqrt(side_of(nats) / (2.0 * self.differing)) + 1.0 / self.differing, 0.5)

    def _variance(self, share: float) -> float:
        guessed = self.differing * (self.training or self.rows) / self.rows
        spread = max(share * (1.0 - share), 0.25 / max(self.differing, 1))
        return spread * (1.0 / self.differing + 1.0 / guessed) if self.differing else 0.0


@dataclass(frozen=True)
class RowRanges(OfDisagreement):
    """Interval by Hoeffding's bound with a range for each row, whatever its label is.

    Attributes:
        squares: Sum of ``r_i^2``, where the row value ``(1 + D_i) / 2`` of a differing row lies in an interval of
            length r_i; public.
    """

    squares: float

    name: ClassVar[str] = "row_ranges"
    title: ClassVar[str] = "Hoeffding's bound with the range of each row where the predictions differ"
    why: ClassVar[str] = (
        "two predictions and the label decide a row's gain, and sums of gains with such ranges are this unlikely to be "
        "further off"
    )
    width_is_known: ClassVar[bool] = True

    def _half(self, nats: float) -> float:
        return math.sqrt(side_of(nats) * self.squares / 2.0) / self.rows

    def _around(self, mean: float, nats: float) -> tuple[float, float]:
        half = self._half(nats)
        return max(mean - half - _ROUNDING, 0.0), min(mean + half + _ROUNDING, 1.0)

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`."""
        if not self.differing:
            return 0.5, 0.5
        return self._around(self._means((float(seen.sums.sum()) / seen.unit / self.differing,) * 2)[0], nats)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`."""
        return self._around(guess, nats) if self.differing else (0.5, 0.5)

    def widest(self, nats: float) -> float:
        """See `Procedure.widest`: it is always as wide."""
        return min(self._half(nats) + 2.0 * _ROUNDING, 0.5) if self.differing else 0.0

    def _variance(self, share: float) -> float:
        """Return an upper bound of the variance, because no row value's variance is above ``r_i^2 / 4``."""
        most = self.squares / 4.0 / (self.rows * self.scale) ** 2
        guessed = self.rows / self.training if self.training else 1.0
        return most * (1.0 + guessed)
