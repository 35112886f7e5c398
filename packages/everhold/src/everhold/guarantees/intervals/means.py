"""Intervals that are a function of the sealed mean alone: exact binomial tails, Chernoff's, Hoeffding's (S8).

The ends of these intervals grow with the mean, so the intervals of its least and its greatest mean give that of a cell
of means. They are computed for arrays of queries at once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from everhold.guarantees.description_length import binomial_interval, hoeffding_radius
from everhold.guarantees.intervals.base import Cells, Needs, Procedure
from everhold.guarantees.intervals.betting import Betting, side_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_MOST_NATS = 450.0  # beyond them the inverse of the tail is not reliable; for tiny n it may fail before, with nan
_FEWEST_NATS = math.log(2.0)  # each tail of at most 1/4, as the proof for unlike rows needs
_OUTWARDS, _ROUNDING = 1e-10, 1e-15  # of an end's distance from the mean, for the inverse of the tail; of the end

Ends = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


@dataclass(frozen=True)
class OfMeans(Procedure):
    """Base of interval procedures that depend on the sealed mean alone.

    Attributes:
        rows: Effective number n of independent sealed rows.
        training: Effective number of rows from which an honest guess was made. If it is unknown, the number of sealed
            rows.
    """

    rows: float
    training: float

    needs: ClassVar[Needs] = "total"
    width_is_known: ClassVar[bool] = True
    of_counts: ClassVar[bool] = False  # of yes-or-no values alone, so the sealed mean is a whole number of rows

    @abstractmethod
    def span(self, low: ArrayLike, high: ArrayLike, nats: ArrayLike) -> Ends:
        """Return the ends of the union of the intervals for all sealed means from ``low`` to ``high``."""

    def interval(self, seen: float, nats: float) -> tuple[float, float]:
        """Return both ends of the interval at the level ``exp(-nats)``, for the sealed mean ``seen``."""
        low, high = self.span(seen, seen, nats)
        return float(low), float(high)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed mean equals the guess."""
        return self.interval(guess, nats)

    def honest(self, guesses: ArrayLike, errors: float) -> Ends:
        """Return both ends of the sealed means within ``errors`` standard errors of each guess (Wilson's form).

        Values in [0, 1] with the mean g have a standard deviation of at most ``sqrt(g (1 - g))``. Near 0 and 1 the
        corrections allow for the error of the guess itself.
        """
        g, v = np.asarray(guesses, dtype=np.float64), 1.0 / self.rows + 1.0 / self.training
        shrunk = errors * errors * v / 4.0
        inside = np.minimum(np.maximum(g + shrunk * (1.0 - 2.0 * g), 0.0), 1.0)  # np.clip takes five times as long
        reach = errors * np.sqrt(inside * (1.0 - inside) * v) + shrunk
        low, high = np.minimum(np.maximum([g - reach, g + reach], 0.0), 1.0)
        return low, high

    def standard_error(self, guess: float) -> float:
        """Return ``sqrt(g (1 - g) (1/n + 1/n_t))``, the largest expected distance of a guess g from the sealed mean."""
        return math.sqrt(guess * (1.0 - guess) * (1.0 / self.rows + 1.0 / self.training))

    @property
    def worth(self) -> float:
        """The effective number n of independent sealed rows."""
        return self.rows


@dataclass(frozen=True)
class Hoeffding(OfMeans):
    """Interval ``mean ± sqrt(ln(2 / level) / (2 n))`` for n effective rows (P9, S5)."""

    name: ClassVar[str] = "hoeffding"
    title: ClassVar[str] = "Hoeffding's bound for rows that depend on each other"
    why: ClassVar[str] = "the average of a fixed query over such rows concentrates as over fewer, independent ones"

    def span(self, low: ArrayLike, high: ArrayLike, nats: ArrayLike) -> Ends:
        """Return the ends of the union of the intervals for all sealed means from ``low`` to ``high``."""
        reach = hoeffding_radius(rows=self.rows, log_inverse_level=nats)
        return np.clip(np.asarray(low) - reach, 0.0, 1.0), np.clip(np.asarray(high) + reach, 0.0, 1.0)


@dataclass(frozen=True)
class Chernoff(OfMeans):
    """Interval for values in [0, 1] of unknown spread: q is excluded when ``n kl(mean || q) > ln(2 / level)``."""

    name: ClassVar[str] = "chernoff"
    title: ClassVar[str] = "the Chernoff bound for values in [0, 1]"
    why: ClassVar[str] = "no law of independent values in [0, 1] strays further than coins with the same mean"

    def span(self, low: ArrayLike, high: ArrayLike, nats: ArrayLike) -> Ends:
        """Return the ends of the union of the intervals for all sealed means from ``low`` to ``high``."""
        return binomial_interval(low, high, rows=self.rows, log_inverse_level=nats)


@dataclass(frozen=True)
class ClopperPearson(OfMeans):
    """Interval by exact binomial tails, for yes-or-no values of independent rows.

    They hold as well for rows that are not identically distributed (Hoeffding 1956, Theorem 5) with two repairs: with
    one yes the lower limit is ``a / n``, with one no the upper one ``1 - a / n``, where a, the level of a tail, is at
    most 1/4. With the repairs every outcome that a limit excludes is at least one yes away from the mean, where no sum
    of unlike coins has a heavier tail than the binomial (docs/theory, intervals).

    Examples:
        >>> low, high = ClopperPearson(rows=20_000, training=20_000).interval(0.5, 11.4)
        >>> round(low, 4), round(high, 4)
        (0.4844, 0.5156)
    """

    name: ClassVar[str] = "clopper_pearson"
    of_counts: ClassVar[bool] = True
    title: ClassVar[str] = "exact binomial tails (Clopper-Pearson)"
    why: ClassVar[str] = "for a yes-or-no query so unusual a count is this unlikely, whatever the chance of each row"

    def span(self, low: ArrayLike, high: ArrayLike, nats: ArrayLike) -> Ends:
        """Return the ends of the union of the intervals for all sealed means from ``low`` to ``high``.

        Means that are no whole number of rows are rounded outwards.
        """
        n = self.rows
        low, high, nats = np.broadcast_arrays(low, high, np.asarray(nats, dtype=np.float64))
        ones = np.array([n - np.floor(low * n + 1e-9), np.ceil(high * n - 1e-9)])  # the first are noes
        tail = np.exp(-np.maximum(nats, _FEWEST_NATS)) / 2.0
        inner = np.minimum(np.maximum(ones, 0.0), n - 1.0)
        exact = 1.0 - scipy.special.betaincinv(n - inner, inner + 1.0, tail)
        exact = np.where(ones >= n - 1.0, np.where(ones >= n, 1.0, 1.0 - tail / n), exact)
        far = (nats > _MOST_NATS) | np.isnan(exact)
        if far.any():
            exact = np.where(far, binomial_interval(ones / n, ones / n, rows=n, log_inverse_level=nats)[1], exact)
        upper = np.minimum(exact + _OUTWARDS * (exact - ones / n) + _ROUNDING, 1.0)
        return 1.0 - upper[0], upper[1]  # the lower limit is an upper one, counted in noes


@dataclass(frozen=True)
class SignTest(OfMeans):
    """Interval of a difference by Clopper-Pearson on the M rows where the public predictions differ.

    There are two classes, so on each of these rows exactly one of the two predictions is right. The number W of rows on
    which the first one is right is a sum of M independent coins of different chances. With limits p of their mean
    chance, the difference of the accuracies is between the values of ``(2 p - 1) M / n``. Row values are
    ``(1 + d) / 2`` for a difference d of -1, 0 or 1. The promise is about labels drawn anew for these features.

    Attributes:
        rows: Number n of sealed rows.
        training: Number of rows from which an honest guess was made.
        differing: Number M of sealed rows with different predictions; public.

    Examples:
        >>> test = SignTest(rows=20_000, training=20_000, differing=1_000)
        >>> low, high = test.interval(0.5 + (600 - 400) / 40_000, 11.4)  # 600 wins, 400 losses
        >>> round(2 * low - 1, 4), round(2 * high - 1, 4)
        (0.003, 0.0167)
    """

    differing: int

    name: ClassVar[str] = "sign_test"
    title: ClassVar[str] = "exact sign test on the rows where the predictions differ"
    why: ClassVar[str] = "on rows where two predictions differ one of them is right, and so many wins are this unlikely"

    @property
    def _coins(self) -> ClopperPearson:
        return ClopperPearson(rows=self.differing, training=self.training * self.differing / self.rows)

    def _wins(self, means: ArrayLike) -> NDArray[np.float64]:
        """Return the share of differing rows on which the first prediction is right, for means of ``(1 + d) / 2``."""
        wins = self.rows * (np.asarray(means, dtype=np.float64) - 0.5) + self.differing / 2.0
        whole = np.rint(wins)
        wins = np.where(np.abs(wins - whole) < 1e-6, whole, wins)
        return np.clip(wins, 0.0, self.differing) / self.differing

    def _means(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.5 + (shares - 0.5) * (self.differing / self.rows)

    def span(self, low: ArrayLike, high: ArrayLike, nats: ArrayLike) -> Ends:
        """Return the ends of the union of the intervals for all sealed means from ``low`` to ``high``.

        Without a differing row both are 1/2, because the difference is 0 for certain.
        """
        if self.differing == 0:
            half = np.full(np.broadcast_shapes(np.shape(low), np.shape(high), np.shape(nats)), 0.5)
            return half, half.copy()
        least, greatest = self._coins.span(self._wins(low), self._wins(high), nats)
        return (
            np.clip(self._means(least) - _ROUNDING, 0.0, 1.0),
            np.clip(self._means(greatest) + _ROUNDING, 0.0, 1.0),
        )

    def honest(self, guesses: ArrayLike, errors: float) -> Ends:
        """Return both ends of the sealed means within ``errors`` standard errors of each guess.

        Only the differing rows vary.
        """
        if self.differing == 0:
            half = np.full(np.shape(guesses), 0.5)
            return half, half.copy()
        low, high = self._coins.honest(self._wins(guesses), errors)
        return self._means(low), self._means(high)

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess: the standard error of the share of wins, times M / n."""
        if self.differing == 0:
            return 0.0
        return self._coins.standard_error(float(self._wins(guess))) * self.differing / self.rows

    @property
    def worth(self) -> float:
        """Number of yes-or-no rows with the same standard error: ``n^2 / M``, because all other rows are ties."""
        return self.rows**2 / max(self.differing, 1)


# Intervals of statistics of all rows that no single row can move far, by McDiarmid's inequality (S8).


@dataclass(frozen=True)
class BoundedDifferences(Procedure):
    """Interval ``statistic ± sqrt(ln(2 / level) n c^2 / 2)`` for n independent rows that move it by at most c.

    The interval is about the statistic's expectation over sealed sets of this size. The sensitivity must hold for
    every data set that could have been sealed, not only for this one.

    Attributes:
        rows: Number n of independent sealed rows. For independent groups of k rows it is ``sum k^2``, because each
            group moves the statistic by at most k c.
        sensitivity: c, the most that replacing one row can change the statistic; public.
        training: Number of rows from which an honest guess was made, in the same units. If it is unknown, the number of
            sealed rows.
        spread: Public guess at the standard deviation of the sealed statistic, for example from a bootstrap of the
            training rows. Without a guess, the largest possible one, ``c sqrt(n) / 2``.

    Examples:
        >>> low, high = BoundedDifferences(rows=20_000, sensitivity=1e-4, training=20_000).interval(0.8, math.log(20))
        >>> round(low, 4), round(high, 4)
        (0.7808, 0.8192)
    """

    rows: int
    sensitivity: float
    training: int
    spread: float | None = None

    name: ClassVar[str] = "bounded_differences"
    title: ClassVar[str] = "McDiarmid's bound for statistics that no row can move far"
    needs: ClassVar[Needs] = "statistic"
    why: ClassVar[str] = "each row moves the statistic by a bounded amount, and so many independent moves rarely add up"
    width_is_known: ClassVar[bool] = True
    of_all_rows: ClassVar[bool] = False

    def interval(self, seen: float, nats: float) -> tuple[float, float]:
        """Return both ends of the interval at the level ``exp(-nats)``, for the sealed statistic ``seen``."""
        reach = self.reach(nats)
        return max(seen - reach, 0.0), min(seen + reach, 1.0)

    def reach(self, nats: float) -> float:
        """Return the half-width of every interval at this level, before its ends are clipped to [0, 1]."""
        return self.sensitivity * math.sqrt((nats + math.log(2.0)) * self.rows / 2.0) + _ROUNDING

    def widest(self, nats: float) -> float:
        """Return the half-width of every interval at the level ``exp(-nats)``, at most 1/2."""
        return min(self.reach(nats), 0.5)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed statistic equals the guess."""
        return self.interval(guess, nats)

    def standard_error(self, guess: float) -> float:
        """Return ``sd sqrt(1 + n / n_t)``, the expected distance of an honest guess from the sealed statistic."""
        most = self.sensitivity * math.sqrt(self.rows) / 2.0
        deviation = most if self.spread is None else min(self.spread, most)
        return deviation * math.sqrt(1.0 + self.rows / self.training)

    def stakes(self, nats: float) -> dict[str, float]:
        """Return the sensitivity by its name, which a verifier needs to compute the interval again."""
        return {"sensitivity": self.sensitivity}

    @property
    def worth(self) -> float:
        """Number of rows for which Hoeffding's inequality gives the same half-width as McDiarmid's."""
        return 1.0 / (self.rows * self.sensitivity**2)


# Intervals of a difference of two public arrays of predictions, from the rows on which they differ (Statement D1).
#
# Both arrays are known before the look, and the promise is about labels drawn anew on these rows. Where two predictions
# are equal, so are their row values, whatever the label is. So n - d rows add exactly 0 to the difference, and the d
# other rows are independent units of their own. Their gains lie within a public reach c, which is often much smaller
# than the range of the metric, so they are bet on after division by c.


@dataclass(frozen=True)
class OfDisagreement(Procedure):
    """Base of intervals that use only the rows on which two public arrays differ.

    Means are those of ``(1 + D) / 2`` over all n rows, where D is a gain as a share of the metric's range. Shares are
    those of ``(1 + D / c) / 2`` over the d differing rows. With ``s = c d / n`` a share v is the mean
    ``1 / 2 + s (v - 1 / 2)``.

    Attributes:
        rows: Number n of sealed rows.
        differing: Number d of sealed rows with different predictions; public.
        reach: c in (0, 1], the largest gain of a row for any labels; public.
        training: Number of training rows from which the guess was made; 0 for the analyst's own guess.
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
        """Return the share of differing rows that corresponds to a mean over all rows, clipped to [0, 1]."""
        return min(max(0.5 + (mean - 0.5) / self.scale, 0.0), 1.0) if self.differing else 0.5

    def _means(self, shares: tuple[float, float]) -> tuple[float, float]:
        """Return both shares as means over all rows, rounded outwards, or 1/2 if no row differs."""
        if not self.differing:
            return 0.5, 0.5
        low, high = (0.5 + self.scale * (share - 0.5) for share in shares)
        return max(low - _ROUNDING, 0.0), min(high + _ROUNDING, 1.0)

    @property
    def frame(self) -> tuple[float, float]:
        """The least and the greatest possible mean: those of the shares 0 and 1."""
        return 0.5 - self.scale / 2.0, 0.5 + self.scale / 2.0

    @abstractmethod
    def _variance(self, share: float) -> float:
        """Return the variance of an honest guess of the share around the sealed share."""

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess from the sealed mean.

        If the guess is made from training rows, it includes the error of the number of differing rows.
        """
        if not self.differing:
            return 0.0
        share, part = self.share(guess), self.differing / self.rows
        moved = 2.0 * self.reach * (share - 0.5)
        counted = part * (1.0 - part) / self.training if self.training else 0.0
        return math.sqrt(self.scale**2 * self._variance(share) + 0.25 * moved**2 * counted)

    @property
    def worth(self) -> float:
        """Number of yes-or-no rows with the same standard error, where rows with equal predictions count as ties."""
        sealed = self.scale**2 * self._variance(0.5) / 2.0 if self.differing else 0.0
        return 0.25 / max(sealed, 1e-300)

    def stakes(self, nats: float) -> dict[str, float]:
        """Return by name the public numbers d and c, which a verifier needs to compute the interval again."""
        return {"differing": float(self.differing), "reach": self.reach}


@dataclass(frozen=True)
class DisagreementBetting(OfDisagreement):
    """Hedged bets on the differing rows, whose differences are divided by the reach.

    Attributes:
        bets: The bets on ``(1 + D / c) / 2`` of the differing rows.
    """

    bets: Betting

    name: ClassVar[str] = "hedged_disagreement_betting"
    title: ClassVar[str] = "betting on the rows where the predictions differ"
    why: ClassVar[str] = (
        "rows with equal predictions add nothing to the difference whatever their labels are, and on the others a fair "
        "bet against the true value gains that much with this probability at most"
    )

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """Return both ends of the interval of the mean, from the histogram of the differing rows' shares."""
        return self._means(self.bets.interval(seen, nats) if self.differing else (0.5, 0.5))

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed mean equals the guess."""
        return self._means(self.bets.expected(self.share(guess), nats) if self.differing else (0.5, 0.5))

    def roughly(self, nats: float) -> float:
        """Estimate the half-width by Bernstein's bound, to choose a procedure before stakes are computed."""
        side, spread = side_of(nats) + math.log(2.0), self.bets.prediction.spread(self.bets.prediction.mean)
        scattered = spread * self.bets.prediction.scale
        return self.scale * (math.sqrt(2.0 * side * scattered) + side / 3.0) / self.differing

    def widest(self, nats: float) -> float:
        """Return the largest possible half-width of a mean: that of the bets, multiplied by `scale`."""
        return self.scale * self.bets.widest(nats) if self.differing else 0.0

    def _variance(self, share: float) -> float:
        return self.bets.standard_error(share) ** 2

    def stakes(self, nats: float) -> dict[str, float]:
        """Return by name the public numbers d and c, and the stakes of the bets if any row differs."""
        found = OfDisagreement.stakes(self, nats)
        return {**found, **self.bets.stakes(nats)} if self.differing else found


@dataclass(frozen=True)
class DisagreementSigns(OfDisagreement):
    """Exact sign test of the accuracies of two public predictions of two classes. A surprise tells a place and a width.

    The surprise of a `SignTest` tells one cell among all means in [0, 1], which is coarse beside such an interval.
    """

    name: ClassVar[str] = "disagreement_signs"
    title: ClassVar[str] = SignTest.title
    why: ClassVar[str] = SignTest.why

    @property
    def _test(self) -> SignTest:
        return SignTest(rows=self.rows, training=self.training or self.rows, differing=self.differing)

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """Return both ends of the interval of the mean, from the number of wins among the differing rows."""
        wins = float(seen.sums.sum()) / seen.unit
        return self._test.interval(0.5 + (wins - self.differing / 2.0) / self.rows, nats)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed mean equals the guess."""
        return self._test.interval(self._means((self.share(guess),) * 2)[0], nats)

    def widest(self, nats: float) -> float:
        """Return Hoeffding's half-width and one row more, which no interval by binomial tails exceeds."""
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
        """Return both ends of the interval of the mean, by Hoeffding's bound around the sealed mean."""
        if not self.differing:
            return 0.5, 0.5
        return self._around(self._means((float(seen.sums.sum()) / seen.unit / self.differing,) * 2)[0], nats)

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed mean equals the guess."""
        return self._around(guess, nats) if self.differing else (0.5, 0.5)

    def widest(self, nats: float) -> float:
        """Return the half-width of every interval at the level ``exp(-nats)``, at most 1/2."""
        return min(self._half(nats) + 2.0 * _ROUNDING, 0.5) if self.differing else 0.0

    def _variance(self, share: float) -> float:
        """Return an upper bound of the variance of an honest guess. No row value has a variance above ``r_i^2 / 4``."""
        most = self.squares / 4.0 / (self.rows * self.scale) ** 2
        guessed = self.rows / self.training if self.training else 1.0
        return most * (1.0 + guessed)
