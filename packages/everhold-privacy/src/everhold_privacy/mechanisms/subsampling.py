"""Mechanisms that answer each query from fresh random rows, drawn anew for it.

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

from everhold.dependence import Independent
from everhold.errors import DependenceError
from everhold.mechanisms.base import Mechanism, Promise, Replies, Source, State, Traits, whole
from everhold.mechanisms.presentation import Presentation
from everhold_privacy.guarantees.subsampling import (
    InformationBound,
    SubsampledBitsCurve,
    draws_exceedance,
    information_radius,
)
from everhold_privacy.mechanisms.additive import TRANSFER_PAGE, TRANSFER_THEOREM, TransferredPromise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms.evaluations import Evaluations
    from everhold.randomness import Noise

Words = Callable[[int], "NDArray[np.uint64]"]

MOST_DRAWS = 2**28
"""Draws for one answer that still take only a second."""

_TRIED_DRAWS = (2**20, 2**22, 2**24)
_MOSTLY_COINS = 0.9  # the leakage is then at most 3 percent above that of Gaussian noise
_LEAST_KEPT = 2.0**-15
_COINS_FOR_ALL_ROWS = 10.0


@dataclass(frozen=True, kw_only=True)
class FreshDraws(Mechanism):
    """Common steps: k draws for each answer, their share of ones with the coins taken out.

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
            raise ValueError(f"draws is {self.draws}; expected at most {MOST_DRAWS}")

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """The share of ones among fresh draws, until the planned number of queries is used up."""
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
    """Fresh random rows among fair coins: sampling alone is the noise, and differential privacy comes with it (S1).

    With more draws, and more of them coins, it comes ever closer to the Gaussian mechanism, from above.

    Examples:
        >>> mechanism = Subsampling.tuned(rows=50_000, queries=1_000)
        >>> round(mechanism.promise().radius, 4)
        0.0852
    """

    name: ClassVar[str] = "subsampling"
    presentation: ClassVar[Presentation] = Presentation(
        page=TRANSFER_PAGE,
        colour="#332288",
        explanation=(
            "Each answer comes from many draws made for it alone. A draw is a fair coin or a bit of a random "
            "sealed row, and which of the two is not shown; the answer is the share of ones with the coins taken "
            "out. Every query is charged."
        ),
        theorem=TRANSFER_THEOREM,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.coins < 1.0:
            raise ValueError(f"coins is {self.coins}; expected a probability strictly between 0 and 1, such as 0.9")

    @classmethod
    def tuned(
        cls, *, rows: int, queries: int, confidence: float = 0.95, draws: int | None = None, **shared: Any
    ) -> Self:
        """The share of coins with the smallest radius for the request; see `Mechanism.tuned`.

        The more ``draws`` for each answer, the better; by default a million, and up to 16 times as many where that
        lowers the radius by more than about a percent.
        """
        request = {"rows": rows, "queries": queries, "confidence": confidence, **shared}
        tuned = cls(**request, draws=_TRIED_DRAWS[0] if draws is None else draws, coins=0.5)._with_best_coins()
        for tried in _TRIED_DRAWS[1:] if draws is None else ():
            if tuned.coins > _MOSTLY_COINS:
                break
            tuned = replace(tuned, draws=tried)._with_best_coins()
        return tuned

    def _with_best_coins(self) -> Self:
        """Searched with the Gaussian curve that the draws come close to; it is quick, and the least is flat."""
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
        """All draws for all m answers."""
        return SubsampledBitsCurve(self.draws * self.queries, coins=self.coins, share=1.0 / self.rows)

    def _sampling(self) -> tuple[float, float]:
        deviations = max(
            float(-scipy.special.ndtri(self.beta / (2.0 * self.queries))), 0.0
        )  # d/dalpha (alpha + r/beta) = 0
        return draws_exceedance(deviations=deviations, draws=self.draws, coins=self.coins, answers=self.queries)


@dataclass(frozen=True, kw_only=True)
class RandomRows(FreshDraws):
    """Fresh random rows and hardly a coin: no noise is needed, since little is told about all rows together (S6).

    A single row may be told whole, so there is no differential privacy; independent rows are needed. Without any coin
    it works, too, but the radius is about twice as large.

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
            "Each answer is the average over sealed rows drawn at random for it alone, each value rounded to 0 or "
            "1 at random; a few draws may be fair coins instead. No noise is added. Every query is charged."
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
        if not 0.0 <= self.coins < 1.0:
            raise ValueError(f"coins is {self.coins}; expected a probability of at least 0 and less than 1")
        if not isinstance(self.dependence, Independent):
            raise DependenceError(
                f"random rows have to be independent and they are {self.dependence.to_dict()['kind']!r}: what is told "
                "about rows that depend on each other does not add up; choose another mechanism"
            )

    @classmethod
    def tuned(
        cls, *, rows: int, queries: int, confidence: float = 0.95, coins: float | None = None, **shared: Any
    ) -> Self:
        """The number of draws with the smallest radius for the request; see `Mechanism.tuned`.

        A draw tosses a coin with the probability ``coins`` in [0, 1); by default ``10 / rows``, beyond which hardly
        anything is gained.
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
        """S6 with the information of all draws together."""
        bound = _cached_information(self)
        details = {"alpha": bound.alpha, "information": bound.information, "budget": bound.budget}
        return self._promised(bound.radius + self.rounding, details)


@lru_cache(maxsize=256)
def _cached_information(mechanism: RandomRows) -> InformationBound:
    return mechanism._bound()


def ones_among(draws: int, chance: Fraction, words: Words) -> int:
    """One binomial number: how many of ``draws`` uniform numbers lie below ``chance``; exact.

    The numbers are revealed digit by digit, all at once, and only as far as needed: of those that agree with ``chance``
    so far, a fair half has the digit 1. About two random bits for each draw are used.

    Args:
        draws: Number of draws.
        chance: Probability, a fraction in [0, 1].
        words: Gives that many uniform 64-bit integers.
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
    """Number of so many fair coins that show 1."""
    if coins <= 64:
        return (int(words(1)[0]) >> (64 - coins)).bit_count()
    tossed = np.array(words(-(-coins // 64)), dtype=np.uint64)
    tossed[-1] >>= np.uint64(-coins % 64)
    return int(np.bitwise_count(tossed).sum())
