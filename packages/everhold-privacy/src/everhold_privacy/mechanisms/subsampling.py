"""Mechanisms that answer each query from random rows drawn for it alone (S1, S6).

Row values are rounded to bits at random, so that an answer's law depends on the sealed rows through their average
alone: the number of ones among k draws is binomial, and is drawn as such.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from everhold.arguments import below_one
from everhold.arguments import whole as whole_number
from everhold.dependence import Independent
from everhold.errors import DependenceError
from everhold.mechanisms.base import Mechanism, Promise, Replies, Source, State, Traits, whole
from everhold.mechanisms.records import Presentation
from everhold_privacy.curves import GaussianCurve, PrivacyCurve
from everhold_privacy.guarantees import gaussian_exceedance
from everhold_privacy.mechanisms.additive import TRANSFERRED, TransferredPromise

if TYPE_CHECKING:
    from everhold.mechanisms.records import Evaluations
    from everhold.randomness import Noise


_SCANNED = 2**12  # numbers of ones up to which the information is computed; beyond, it is bounded in closed form
_TRIALS = 60
_SMALL = 0.01  # up to which a series is more exact than a logarithm
_SERIES = [1.0 / (power * (power - 1)) for power in range(2, 10)]
_LARGEST_DEVIATION = 40.0
_LOG_MISSED = math.log(1e-13)  # probability with which more draws tell something than are counted
_TAIL_ERROR = 1e-9  # relative error of a binomial tail; measured to be below 1e-11 up to 1e10 draws


def draws_exceedance(*, deviations: float, draws: int, coins: float, answers: int) -> tuple[float, float]:
    """Return alpha and r(alpha) for m answers of k draws each (S1).

    For every p, ``P[Bin(k, p) >= k (p + x)] <= Phi(-2 sqrt(k) (x - 1/k))``, so the share of ones strays no further than
    Gaussian noise of scale ``1 / (2 sqrt(k))`` and one draw more; taking out the coins divides by ``1 - coins``.

    Args:
        deviations: z >= 0; alpha is z standard deviations and one draw.
        draws: Number k of rows drawn for each answer.
        coins: Probability with which a draw tosses a coin, in [0, 1).
        answers: Number m of answers.

    Source: docs/theory, subsampling; Zubkov, Serov 2013, with ``kl(x || p) >= 2 (x - p)^2``.
    """
    scale, kept = 0.5 / math.sqrt(draws), 1.0 - coins
    excess = gaussian_exceedance(alpha=deviations * scale, scale=scale, answers=answers)
    return (deviations * scale + 1.0 / draws) / kept, excess / kept


@dataclass(frozen=True, slots=True, repr=False)
class SubsampledBitsCurve(PrivacyCurve):
    """Privacy curve of many bits, each of one random row or of a fair coin, for adaptive queries.

    A draw tosses a fair coin with probability c; otherwise it takes a random row and shows a bit that is 1 with the
    row's value as probability. Neither the row nor the coin is shown. Replacing a share s of the rows moves the
    probability of a 1 by at most ``d = (1-c) s``, within ``[g, 1-g]``, ``g = c/2``. So one bit's curve is at most
    ``(g + d - e^eps g)_+``: that of a draw which tells nothing, except with probability ``2g + d``, when it is
    randomised response of loss ``ln(1 + d/g)``. Dominating laws compose: T draws are at most as many randomised
    responses as there are draws that tell something. More than N of them are counted as a loss of everything; N is so
    large (Bernstein) that this has probability 1e-13, or is T.

    Args:
        draws: T, the number of bits.
        coins: c in (0, 1].
        share: s in (0, 1]: one of n rows is ``1/n``.

    Raises:
        ValueError: If an argument is out of range.

    Source: docs/theory, subsampling; Zhu, Dong, Wang 2022 (dominating pairs); Kairouz, Oh, Viswanath 2015.

    Examples:
        >>> from everhold_privacy.curves import PureCurve
        >>> bits = SubsampledBitsCurve(1, coins=0.5, share=1.0)
        >>> round(bits.delta(0.3), 6) == round(PureCurve(math.log(3.0)).delta(0.3), 6)
        True
    """

    kind: ClassVar[str] = "subsampled bits"

    draws: int
    coins: float
    share: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", whole_number(self.draws, "draws"))
        for name in ("coins", "share"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}. Pass a number above 0 and at most 1.")

    def _log_delta(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.stats import binom  # slow to import, and needed here alone

        # More than `told` draws are informative with probability exp(log_missed) at most.
        rate = self.coins + (1.0 - self.coins) * self.share
        third = -_LOG_MISSED / 3.0
        excess = third + math.sqrt(third * third - 2.0 * _LOG_MISSED * self.draws * rate * (1.0 - rate))
        counted = math.floor(self.draws * rate + excess) + 1
        told, log_missed = (counted, _LOG_MISSED) if counted < self.draws else (self.draws, -math.inf)
        if self._loss == 0:
            return np.full(epsilon.shape, -np.inf)
        last = np.floor((told + epsilon / self._loss) / 2.0)  # the largest count of bits for which the loss is <= eps
        truth = 1.0 / (1.0 + math.exp(-self._loss))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_above = binom.logsf(last, told, truth)
            difference = -np.expm1(np.minimum(epsilon + binom.logsf(last, told, 1.0 - truth) - log_above, 0.0))
            error = _TAIL_ERROR * (1.0 + 1e-7 * math.sqrt(told))
            exact = log_above + np.log(np.nan_to_num(difference) + error)
        with_missed = np.logaddexp(np.where(epsilon < told * self._loss, exact, -np.inf), log_missed)
        return np.where(epsilon < self._largest_loss(), np.minimum(with_missed, 0.0), -np.inf)

    def gaussian_limit(self) -> GaussianCurve:
        """Return the Gaussian curve that many draws approach. Neither bounds the other."""
        rate = self.coins + (1.0 - self.coins) * self.share
        return GaussianCurve(self._loss * math.sqrt(self.draws * rate))

    @property
    def _loss(self) -> float:
        """``ln(1 + d/g)``, the loss of a bit that comes from the row in question."""
        return math.log1p(2.0 * (1.0 - self.coins) * self.share / self.coins)

    def group(self, rows: int) -> SubsampledBitsCurve:
        """Return the curve for a replacement of this many rows together, which receive a larger share of the draws."""
        return SubsampledBitsCurve(self.draws, self.coins, min(1.0, self.share * whole_number(rows, "rows")))

    def repeat(self, times: int) -> SubsampledBitsCurve:
        """Return the curve of this many times as many draws."""
        return SubsampledBitsCurve(self.draws * whole_number(times, "times"), self.coins, self.share)

    def _largest_loss(self) -> float:
        return self.draws * self._loss


@dataclass(frozen=True, slots=True)
class InformationBound:
    """A half-width that holds for all answers simultaneously, with the terms of which it is the sum.

    Attributes:
        radius: ``alpha + sqrt(budget / (2 n beta))``.
        alpha: Allowance for the sampling error: errors up to it cost only themselves.
        information: Bound on the mutual information of rows and transcript, in nats.
        budget: The information, plus what sampling errors beyond alpha add to it.
    """

    radius: float
    alpha: float
    information: float
    budget: float


def information_radius(*, rows: int, answers: int, draws: int, coins: float, beta: float) -> InformationBound:
    """Return the half-width for independent rows, from the information in all answers together (S6).

    With probability at least 1 - beta, ``max_j |a_j - f_j(P)| <= alpha + sqrt(T / (2 n beta))``, where
    ``T = I + 2 sqrt(2 n T / beta) r(alpha)`` and I bounds the mutual information of rows and transcript.

    Args:
        rows: Number n of sealed rows.
        answers: m, asked adaptively.
        draws: k for each answer.
        coins: Probability with which a draw tosses a coin, in [0, 1).
        beta: Probability of failure, in (0, 1).

    Source: docs/theory, subsampling.

    Examples:
        >>> bound = information_radius(rows=50_000, answers=1_000, draws=1_000, coins=0.0, beta=0.05)
        >>> round(bound.radius, 3)
        0.247
    """
    information = answers * draws * information_per_draw(rows, coins)

    def bound(deviations: float) -> InformationBound:
        alpha, excess = draws_exceedance(deviations=deviations, draws=draws, coins=coins, answers=answers)
        half = excess * math.sqrt(2.0 * rows / beta)
        budget = (half + math.sqrt(half * half + information)) ** 2
        return InformationBound(alpha + math.sqrt(budget / (2.0 * rows * beta)), alpha, information, budget)

    best = scipy.optimize.minimize_scalar(
        lambda z: bound(z).radius, bounds=(0.0, _LARGEST_DEVIATION), method="bounded", options={"xatol": 1e-6}
    )
    return bound(float(best.x))


@lru_cache(maxsize=256)
def information_per_draw(rows: int, coins: float) -> float:
    """Return a bound on the information of one draw about all rows, in nats, about ``1/(2n)``.

    ``max sum_i kl(p || q_i)`` over all values of the rows, p their mean and q_i a guess at it from the other rows; both
    with the coins mixed in. The sum is convex in the values, so its maximum is at zeros and ones. The guess is
    ``(sum of the others + t) / (n - 1 + 2t)``; any t gives a bound, and the best of a few is taken. Without coins t has
    to be positive, and the bound is about ``ln(n)/(2n)``.

    Args:
        rows: Number n of sealed rows.
        coins: Probability with which a draw tosses a coin, in [0, 1).

    Source: docs/theory, subsampling; after Feldman, Steinke 2018 (average leave-one-out stability).
    """
    if rows == 1:
        return math.log(2.0) * (1.0 - coins)  # a bit, unless it is a coin
    trials = np.geomspace(min(0.01 / rows, 0.25), 0.5, _TRIALS).tolist()
    return min(_information_with(rows, coins, extra) for extra in trials)


def _information_with(rows: int, coins: float, extra: float) -> float:
    """Return ``max_s s kl(s/n || q(s-1)) + (n-s) kl(s/n || q(s))``, where `extra` is the t of the guess q."""
    ones = np.arange(min(rows // 2, _SCANNED) + 1, dtype=np.float64)
    mean = ones / rows
    told = ones * _kl(mean, _guess(ones - 1.0, rows, extra), coins)
    told[0] = 0.0
    told += (rows - ones) * _kl(mean, _guess(ones, rows, extra), coins)
    largest = float(told.max())
    if rows // 2 > _SCANNED:
        largest = max(largest, (1.0 - coins) * _middle(rows, extra))
    return largest * (1.0 + 1e-9)


def _guess(others: NDArray[np.float64], rows: int, extra: float) -> NDArray[np.float64]:
    return np.asarray((np.maximum(others, 0.0) + extra) / (rows - 1 + 2.0 * extra))


def _middle(rows: int, extra: float) -> float:
    """Return the bound for more than `_SCANNED` ones and zeros, by ``kl(p || q) <= (p-q)^2 / (2 min x(1-x))``.

    With p the share of ones, at most 1/2: ``|p - q|`` is at most ``(1-p)/N`` for a one and ``(p+t)/N`` for a zero,
    ``N = n - 1 + 2t``, ``t <= 1/2``. What comes out is linear in p, so that its ends suffice.
    """
    least, divisor = _SCANNED, rows - 1 + 2.0 * extra
    slack = (1.0 + 2.0 / (rows - 2)) * (rows / divisor) ** 2
    ends = max(least / (least - 1.0) / divisor, slack / rows)
    return 0.5 * (ends + slack * (2.0 * extra / rows + extra * extra / least))


def _kl(mean: NDArray[np.float64], guess: NDArray[np.float64], coins: float) -> NDArray[np.float64]:
    """Return the Kullback-Leibler divergence of two bits, each mixed with fair coins, as a sum of two terms >= 0."""
    apart, one = (1.0 - coins) * (mean - guess), coins / 2.0 + (1.0 - coins) * guess
    return np.asarray(one * _excess(apart / one) + (1.0 - one) * _excess(-apart / (1.0 - one)))


def _excess(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``(1+t) ln(1+t) - t`` for t of at least -1, to about 1e-13 of itself."""
    series = share * share * np.polynomial.polynomial.polyval(-share, _SERIES)
    return np.where(np.abs(share) < _SMALL, series, scipy.special.xlog1py(1.0 + share, share) - share)


Words = Callable[[int], "NDArray[np.uint64]"]

MOST_DRAWS = 2**28
"""Draws for one answer that still take only a second."""

_TRIED_DRAWS = (2**20, 2**22, 2**24)
_MOSTLY_COINS = 0.9  # the leakage is then at most 3 percent above that of Gaussian noise
_LEAST_KEPT = 2.0**-15
_COINS_FOR_ALL_ROWS = 10.0


@dataclass(frozen=True, kw_only=True)
class FreshDraws(Mechanism):
    """Base of mechanisms that answer with the share of ones among k draws, corrected for the coins.

    Attributes:
        draws: k, the number of draws for each answer.
        coins: Probability with which a draw tosses a fair coin instead of taking a random row.
    """

    draws: int
    coins: float

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self, "draws")
        if self.draws > MOST_DRAWS:
            raise ValueError(f"draws is {self.draws}. Pass at most {MOST_DRAWS}.")

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Answer a batch with shares of ones among fresh draws, until the planned queries are used up."""
        count = min(len(evaluations), self.queries - state.asked)
        replies = Replies.refused(len(evaluations))
        values = np.array([self._drawn(total, noise) for total in evaluations.totals[:count, 0].tolist()])
        replies.put(slice(0, count), values, self._ends(values), Source.HOLDOUT)
        return state.after(asked=count, charged=count), replies

    def _drawn(self, total: int, noise: Noise) -> float:
        coins = Fraction(self.coins)
        chance = coins / 2 + (1 - coins) * Fraction(total, self.steps)
        ones = ones_among(self.draws, chance, lambda size: noise.words(size, stream="answer"))
        return (ones / self.draws - self.coins / 2.0) / (1.0 - self.coins)

    @abstractmethod
    def _ends(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...


@dataclass(frozen=True, kw_only=True)
class Subsampling(TransferredPromise, FreshDraws):
    """Mechanism that answers from a random sample of rows and fair coins. The sampling itself is the noise.

    The sampling gives differential privacy, from which the promise follows (Statement S1 of docs/theory). With more
    draws, and a larger share of coins, the radius (the guaranteed half-width) falls towards the Gaussian mechanism's.

    Attributes:
        draws: Number of draws for one answer.
        coins: Share of draws that are fair coins in place of rows.

    Examples:
        >>> mechanism = Subsampling.tuned(rows=50_000, queries=1_000)
        >>> round(mechanism.promise().radius, 4)
        0.0852
    """

    name: ClassVar[str] = "subsampling"
    presentation: ClassVar[Presentation] = TRANSFERRED(
        colour="#332288",
        explanation=(
            "Each answer comes from many draws made for it alone. A draw is a fair coin or a bit of a random sealed "
            "row, and which of the two is not shown. The answer is the share of ones with the coins taken out. "
            "Every query is charged."
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.coins < 1.0:
            raise ValueError(f"coins is {self.coins}. Pass a probability between 0 and 1, such as 0.9.")

    @classmethod
    def tuned(
        cls, *, rows: int, queries: int, confidence: float = 0.95, draws: int | None = None, **shared: Any
    ) -> Self:
        """Return the mechanism whose share of coins has the smallest radius (guaranteed half-width) for a request.

        With more ``draws`` for each answer the radius is smaller. The default is a million draws, and up to 16 times as
        many if this makes the radius smaller by more than about a percent.
        """
        request = {"rows": rows, "queries": queries, "confidence": confidence, **shared}
        tuned = cls(**request, draws=_TRIED_DRAWS[0] if draws is None else draws, coins=0.5)._with_best_coins()
        for tried in _TRIED_DRAWS[1:] if draws is None else ():
            if tuned.coins > _MOSTLY_COINS:
                break
            tuned = replace(tuned, draws=tried)._with_best_coins()
        return tuned

    def _with_best_coins(self) -> Self:
        """Return the mechanism with the best share of coins, searched by the Gaussian limit of its curve."""
        best = scipy.optimize.minimize_scalar(
            lambda log_kept: self._with_kept(log_kept)._gaussian_radius(),
            bounds=(math.log(_LEAST_KEPT), math.log1p(-_LEAST_KEPT)),
            method="bounded",
            options={"xatol": 1e-5},
        )
        return self._with_kept(float(best.x))

    def _ends(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.interval(values, self.bound.alpha)

    def _with_kept(self, log_kept: float) -> Self:
        return replace(self, coins=-math.expm1(log_kept))

    def _gaussian_radius(self) -> float:
        return self._bound(self.curve().gaussian_limit()).radius

    def curve(self) -> SubsampledBitsCurve:
        """Return the privacy loss of all planned answers together, with all their draws."""
        return SubsampledBitsCurve(self.draws * self.queries, coins=self.coins, share=1.0 / self.rows)

    def _sampling(self) -> tuple[float, float]:
        return draws_exceedance(deviations=self._deviations, draws=self.draws, coins=self.coins, answers=self.queries)


@dataclass(frozen=True, kw_only=True)
class RandomRows(FreshDraws):
    """Mechanism whose draws are nearly always random rows and seldom fair coins (S6).

    An answer may reveal the value of a single row, so there is no differential privacy. The rows must be independent.
    Without fair coins the mechanism works as well, but the radius is about twice as large.

    Examples:
        >>> round(RandomRows.tuned(rows=500_000, queries=1_000).promise().radius, 3)
        0.035
        >>> round(RandomRows.tuned(rows=500_000, queries=1_000, coins=0.0).promise().radius, 3)
        0.074
    """

    coins: float = 0.0

    name: ClassVar[str] = "random_rows"
    statement: ClassVar[str] = "S6"
    presentation: ClassVar[Presentation] = Presentation(
        page="fresh random rows",
        colour="#117733",
        explanation=(
            "Each answer is the average over sealed rows drawn at random for it alone, each value rounded to 0 or 1 "
            "at random. A few draws may be fair coins instead. No noise is added. Every query is charged."
        ),
        theorem=(
            "Each answer shows a few random rows only, so all answers together tell little about all sealed rows, "
            "though they may tell a single one. With probability at least 1 - beta, every answer is within alpha "
            "+ sqrt(budget / (2 n beta)) of the population's value. Here budget bounds, in nats, the mutual "
            "information of the n independent rows and everything that is answered, with what sampling errors "
            "beyond alpha add to it."
        ),
        no_privacy="random rows are shown, and hardly any coin is tossed",
    )
    traits: ClassVar[Traits] = Traits(independent_rows=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        below_one(self.coins, "coins")
        if not isinstance(self.dependence, Independent):
            raise DependenceError(
                f"A mechanism that reads random rows needs independent rows, and these are declared as "
                f"{self.dependence.to_dict()['kind']!r}. Choose another mechanism."
            )

    @classmethod
    def tuned(
        cls, *, rows: int, queries: int, confidence: float = 0.95, coins: float | None = None, **shared: Any
    ) -> Self:
        """Return the mechanism for a request, with the number of draws that gives the smallest radius.

        A draw is a fair coin with the probability ``coins`` in [0, 1), by default ``10 / rows``. A larger probability
        hardly makes the radius smaller.
        """
        request = {"rows": rows, "queries": queries, "confidence": confidence, **shared}
        start = cls(**request, draws=1, coins=min(_COINS_FOR_ALL_ROWS / max(rows, 1), 0.5) if coins is None else coins)

        best = scipy.optimize.minimize_scalar(
            lambda log_draws: start._with_draws(log_draws)._bound().radius,
            bounds=(0.0, math.log(MOST_DRAWS)),
            method="bounded",
            options={"xatol": 1e-4},
        )
        near = start._with_draws(float(best.x))
        return near if near._bound().radius < start._bound().radius else start

    def _with_draws(self, log_draws: float) -> Self:
        return replace(self, draws=round(math.exp(log_draws)))

    def _bound(self) -> InformationBound:
        return information_radius(
            rows=self.rows, answers=self.queries, draws=self.draws, coins=self.coins, beta=self.beta
        )

    def _ends(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        radius = self.promise().radius
        return values - radius, values + radius

    def promise(self) -> Promise:
        """Return the promise of S6, from the information in all draws together."""
        bound = _cached_information(self)
        details = {"alpha": bound.alpha, "information": bound.information, "budget": bound.budget}
        return self._promised(bound.radius + self.rounding, details)


@lru_cache(maxsize=256)
def _cached_information(mechanism: RandomRows) -> InformationBound:
    return mechanism._bound()


def ones_among(draws: int, chance: Fraction, words: Words) -> int:
    """Return one binomial number, exactly: how many of ``draws`` uniform numbers lie below ``chance``.

    The numbers are revealed digit by digit, all at once, and only as far as needed: of those that agree with ``chance``
    so far, a fair half has the digit 1. About two random bits for each draw are used.

    Args:
        draws: Number of draws.
        chance: Probability, a fraction in [0, 1].
        words: Function from a number to that many uniform 64-bit integers.
    """
    if chance == 1:
        return draws
    below, undecided, rest, unit = 0, draws, chance.numerator, chance.denominator
    while undecided and rest:
        digit, rest = divmod(2 * rest, unit)
        high = _fair_ones(undecided, words)
        if digit:
            below += undecided - high
        undecided = high if digit else undecided - high
    return below


def _fair_ones(coins: int, words: Words) -> int:
    """Return the number of ones among fair coins, drawn as bits of random words."""
    if coins <= 64:
        return (int(words(1)[0]) >> (64 - coins)).bit_count()
    tossed = np.array(words(-(-coins // 64)), dtype=np.uint64)
    tossed[-1] >>= np.uint64(-coins % 64)
    return int(np.bitwise_count(tossed).sum())
