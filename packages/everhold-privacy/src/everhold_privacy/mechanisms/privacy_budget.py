"""Mechanism with one budget for means, vectors and choices, each as precise as its price allows (S1)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy

from everhold.mechanisms.accounting import Accounting
from everhold.mechanisms.base import REFUSED, Quote, Replies, Source, State, Traits
from everhold.mechanisms.records import Presentation
from everhold_privacy.curves import ZeroConcentratedCurve
from everhold_privacy.guarantees import gaussian_exceedance, gaussian_norm_allowance
from everhold_privacy.mechanisms.additive import GaussianNoise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms.records import Evaluations
    from everhold.randomness import Noise


CREDITS = 100
"""Price of a mean at the planned scale."""

_MOST_CREDITS = 10**6  # for one answer

SHRINKAGE = 2.0**-38
"""Relative shortening of every vector, larger than the rounding error in the length of 10,000 numbers."""


class CreditAccounting(Accounting["PrivacyBudget"]):
    """Accounting of a budget of credits, in which each answer has its own price."""

    def reachable(self, state: State) -> bool:
        """Return whether a state can occur, with no more queries and credits used than planned."""
        return state.asked <= self.mechanism.queries and state.charged <= self.mechanism.credits

    def losable(self, *, queries: int, charges: int) -> bool:
        """Return whether lost answers can have cost these charges: at most all credits."""
        return charges <= self.mechanism.credits

    def charges_left(self, state: State) -> int:
        """Return the number of remaining credits."""
        return self.mechanism.credits - state.charged

    @staticmethod
    def mispriced(*, charged: int, taken: int, lost: int, queries: int) -> Iterator[str]:
        """Yield a text for each contradiction between the recorded credits and the number of answers.

        An answer costs at least one credit.
        """
        if not taken + lost <= charged <= CREDITS * queries:
            yield "the credits that were charged are fewer than the answers, or more than there were"
        if not taken and charged != lost:
            yield "credits were charged, and no answer was taken from the sealed rows"


@dataclass(frozen=True, kw_only=True)
class PrivacyBudget(GaussianNoise):
    """Mechanism whose privacy budget is spent in credits, on means of any requested accuracy and on choices.

    The budget is one of zero-concentrated differential privacy, and a credit is a small equal part of it.

    The planned m means at the scale sigma cost `CREDITS` each and use the whole budget ``rho = m / (2 n^2 sigma^2)``. A
    mean at another scale s costs ``(sigma/s)^2`` as much. A choice by the exponential mechanism of loss eps is
    ``eps^2/8``-zero-concentrated. Credits are spent before the answer leaves and never exceed the budget (a filter), so
    the transcript is rho-zero-concentrated however scales and queries depend on earlier answers.

    Every query may add ``r_0`` to the exceedance r of Statement S1 (docs/theory), the expected amount by which noise
    goes beyond an allowance, and at most m are answered. A mean at the scale s has its
    own ``alpha_s`` with ``r_s(alpha_s) = r_0``. S1's proof, applied to the query whose error exceeds its own alpha
    most, gives ``|a - f(P)| <= alpha_s + tanh(eps/4) + (m r_0 + leak(eps))/beta`` for all of them at once. A choice is
    the query ``(1 + l_chosen - l_best)/2`` with the answer 1/2: twice that bounds its regret.

    Attributes:
        scale: Noise scale sigma of a mean that costs ``CREDITS``.

    Source: Rogers et al. 2016 and Feldman, Zrnic 2021 for filters of zero-concentrated privacy; docs/theory, budget.

    Examples:
        >>> mechanism = PrivacyBudget.tuned(rows=50_000, queries=1_000)
        >>> round(mechanism.promise().radius, 4), mechanism.credits_for(mechanism.scale_for(0.2))
        (0.0899, 9)
    """

    name: ClassVar[str] = "privacy_budget"
    presentation: ClassVar[Presentation] = Presentation(
        page="one budget for many kinds of queries",
        colour="#e69f00",
        explanation=(
            "Every query is paid from one budget of credits. The answer to a mean is the average over the sealed "
            "rows with fresh Gaussian noise: the sharper it has to be, the more credits it costs. At the planned "
            "sharpness it costs 100. A choice among candidates prefers those that do well on the sealed rows, at "
            "random, and the more so the more credits are paid. A scan for the first query above a threshold "
            "compares with noise on both sides, and a synthetic table is learned from noisy answers: each is one "
            "query with one price, however many it speaks about. What is charged is counted in credits."
        ),
        theorem=(
            "Because of the noise, what anybody sees can hardly depend on a single sealed row. Every query has "
            "an alpha of its own, fixed before it is answered, beyond which its answer is expected to stray from "
            "the sealed rows by the same small amount; the amounts of all queries together are r. With "
            "probability at least 1 - beta, every mean is within its own alpha + tanh(epsilon/4) + excess of the "
            "population's value, and every choice is worse than the best candidate by at most its own alpha + 2 "
            "(tanh(epsilon/4) + excess); the levels of quantiles, the verdicts of scans and all the queries "
            "that a synthetic table was made for are as means are. A gradient is within twice its clipping length "
            "times the same, with an alpha of its own for its Euclidean length, and a statistic of independent "
            "rows within n times its sensitivity times the same. Here excess = (r + leak(epsilon)) / beta, and "
            "leak(epsilon) bounds what all answers give away about a single row beyond a factor of exp(epsilon). "
            "The alpha that is stated is that of a mean at the planned sharpness."
        ),
        sentence=(
            "Until {queries} or the credits are used up, every mean at the planned sharpness is {reach} and "
            "every other answer within what was stated with it, all of them at once, {holds}."
        ),
    )
    traits: ClassVar[Traits] = replace(
        GaussianNoise.traits,
        charged_in="credits",
        most_charged=CREDITS,
        sells_tolerances=True,
        statistics="everhold_privacy.queries.low_sensitivity:bought",
    )

    accounting: ClassVar[type[Accounting[Any]]] = CreditAccounting

    @cached_property
    def credits(self) -> int:
        """Total number of credits in the budget."""
        return CREDITS * self.queries

    @property
    def beyond_curve(self) -> float:
        """Upper bound on how far the privacy loss epsilon of discrete noise exceeds that of continuous noise.

        Bounds that use only the zero-concentrated loss do not need it.
        """
        return self.rounding + self._beyond_continuous(least_steps(self))

    def curve(self) -> ZeroConcentratedCurve:
        """Return the privacy loss of the whole budget, if all credits are spent."""
        return ZeroConcentratedCurve(self.queries * self.unit**2 / (2.0 * float(self.scale_on_grid(self.scale)) ** 2))

    def loss_of(self, charged: int) -> float:
        """Return the zero-concentrated privacy loss rho of ``charged`` credits. A planned mean costs 100 credits."""
        return self.curve().rho * charged / self.credits

    def spent_curve(self, state: State) -> ZeroConcentratedCurve:
        """Return the privacy loss of the answers so far, from the credits (units of the budget) that they cost."""
        return ZeroConcentratedCurve(self.loss_of(state.charged))

    @property
    def own_exceedance(self) -> float:
        """r_0, the part of the exceedance r of Statement S1 (docs/theory) that each query may add."""
        return self._sampling()[1] / self.queries

    def radius_at(self, scale: float) -> float:
        """Return the half-width of a mean's interval for noise of this scale, in units of a mean over [0, 1]."""
        return self.reach(_allowance_of(self, self.drawn_scale(scale)))

    def reach(self, alpha: float) -> float:
        """Return the half-width of an answer, in units of a mean over [0, 1], by Statement S1 of docs/theory.

        Args:
            alpha: The answer's allowance: the part of the half-width that is for its noise.
        """
        return alpha + self.bound.radius - self.bound.alpha + self.rounding

    def scale_for(self, tolerance: float) -> float:
        """Return the largest noise scale with which a mean has a half-width within the tolerance.

        Args:
            tolerance: Requested half-width, in units of a mean over [0, 1].

        Raises:
            ValueError: If noise that is small enough costs more than the whole budget.
        """
        return largest_scale(self, tolerance, self.radius_at)

    def credits_for(self, scale: float) -> int:
        """Return the price of a mean with noise of this scale, in credits, rounded up; 100 at the planned scale."""
        drawn = max(self.scale_on_grid(scale), 1)
        return -(-CREDITS * self.scale_on_grid(self.scale) ** 2 // drawn**2)

    def affords(self, state: State, price: int) -> int:
        """Return how many further queries at this price, in credits, the budget can answer."""
        return max(min(self.queries - state.asked, self.accounts.charges_left(state) // price), 0)

    def charge(self, state: State, price: int) -> State:
        """Return the state after one answer at this price, in credits: the privacy filter before each draw.

        A holdout refuses beforehand what its budget cannot pay.

        Raises:
            ValueError: If the remaining queries or credits do not cover the price.
        """
        if not self.affords(state, price):
            raise ValueError(f"price is {price}, more than the budget can pay. Pass a smaller price.")
        return state.after(charged=price)

    def surely_answers(
        self, state: State, most: int, procedures: Sequence[Procedure] | None = (), *, silent: bool = False
    ) -> int:
        """Return how many further means with the planned noise, at most ``most``, the budget can answer."""
        return min(most, self.affords(state, CREDITS))

    def answer_many(self, state: State, evaluations: Evaluations, noise: Noise) -> tuple[State, Replies]:
        """Return the state after a batch of means, and their replies.

        A reply is the sealed mean plus noise of the scale that its tolerance needs. Means are refused if credits or
        planned queries are used up.

        Args:
            state: State before the batch: what was asked and charged so far.
            evaluations: Values of the queries on the sealed rows.
            noise: Source of the random noise.
        """
        replies = Replies.refused(len(evaluations.totals))
        if evaluations.tolerances is None:
            count = self.surely_answers(state, len(replies.values))
            return self._answer(state, evaluations, slice(0, count), self.scale, noise, replies), replies
        for position, tolerance in enumerate(evaluations.tolerances.tolist()):
            scale = self.scale if math.isnan(tolerance) else self.scale_for(tolerance)
            if self.affords(state, self.credits_for(scale)):
                state = self._answer(state, evaluations, slice(position, position + 1), scale, noise, replies)
        return state, replies

    def _answer(
        self, state: State, evaluations: Evaluations, where: slice, scale: float, noise: Noise, replies: Replies
    ) -> State:
        """Add noise of one scale to the sums of a batch of means, and return the state after the charge.

        The caller has checked that the credits suffice.
        """
        count, price, steps = where.stop - where.start, self.credits_for(scale), self.scale_on_grid(scale)
        values = (evaluations.totals[where, 0] + noise.gaussian(steps, count, stream="answer")) / self.steps
        interval = self.interval(values, _allowance_of(self, steps / self.steps))
        replies.put(where, values, interval, Source.HOLDOUT)
        replies.charged[where] = price
        return state.after(asked=count, charged=count * price)

    def quote_at(self, state: State, tolerance: float) -> Quote:
        """Return the price, in credits, of a mean with a requested half-width, or a refusal if the budget cannot pay.

        Args:
            state: State after the answers so far.
            tolerance: Requested half-width, in units of a mean over [0, 1].
        """
        scale = self.scale_for(tolerance)
        price = self.credits_for(scale)
        if not self.affords(state, price):
            return REFUSED
        radius = self.radius_at(scale)
        return Quote(radius, radius, price, price, refused=False)

    def remaining(self, state: State) -> dict[str, int]:
        """Return how many planned queries, and how many credits (units of the privacy budget), are left, by name."""
        left = max(self.accounts.charges_left(state), 0)
        return {"queries": max(self.queries - state.asked, 0) if left else 0, "credits": left}


def least_steps(budget: PrivacyBudget) -> int:
    """Return the smallest noise scale, in grid steps, whose privacy loss the budget can cover."""
    most = min(budget.credits, _MOST_CREDITS)
    return math.isqrt(-(-CREDITS * budget.scale_on_grid(budget.scale) ** 2 // most) - 1) + 1  # rounded up


def allowance(budget: PrivacyBudget, scale: float) -> float:
    """Return ``alpha_s``, the part of a mean's half-width that is for its noise of scale s."""
    wanted = budget.own_exceedance / scale  # in standard deviations
    return scale * deviations(lambda z: gaussian_exceedance(alpha=z, scale=1.0, answers=1) - wanted)


def largest_scale(budget: PrivacyBudget, tolerance: float, radius_at: Callable[[float], float]) -> float:
    """Return the largest noise scale, at most 1, whose half-width is within the tolerance.

    Args:
        budget: Privacy budget that pays for the noise.
        tolerance: Requested half-width, in the units that `radius_at` returns.
        radius_at: Increasing function from a noise scale to the half-width.

    Raises:
        ValueError: If no noise that the budget can pay is small enough.
    """
    least = least_steps(budget) / budget.steps
    if radius_at(least) > tolerance:
        raise ValueError(
            f"tolerance is {tolerance:.4g}, and the budget cannot pay for less than {radius_at(least):.4g}. Pass a "
            "larger tolerance, seal more rows or plan for fewer queries."
        )
    if radius_at(1.0) <= tolerance:
        return 1.0
    if radius_at(math.exp(math.log(least))) >= tolerance:
        return least
    above = scipy.optimize.brentq(
        lambda log_scale: radius_at(math.exp(log_scale)) - tolerance, math.log(least), 0.0, xtol=1e-9
    )
    return max(math.exp(float(above)) * (1.0 - 1e-8), least)


def release(
    budget: PrivacyBudget, state: State, sums: NDArray[np.int64], noise: Noise, *, scale: float
) -> tuple[State, NDArray[np.int64]]:
    """Return the new state and a vector of sums with noise.

    Args:
        budget: Privacy budget that pays for the release.
        state: The state before.
        sums: Sums over the sealed rows in grid units, shape (dimension,). One row moves them by at most ``unit`` in
            Euclidean length.
        noise: Source of randomness.
        scale: Noise scale of every coordinate, in the units of a mean.

    Raises:
        ValueError: If the budget cannot pay for it.

    Source: Canonne, Kamath, Steinke 2020, Theorem 14, for the vector as one query.
    """
    after = budget.charge(state, budget.credits_for(scale))
    return after, sums + noise.gaussian(budget.scale_on_grid(scale), len(sums), stream="answer")


@lru_cache(maxsize=256)
def _allowance_of(mechanism: PrivacyBudget, scale: float) -> float:
    planned = scale == mechanism.drawn_scale(mechanism.scale)
    return mechanism.bound.alpha if planned else allowance(mechanism, scale)


def deviations(missing: Callable[[float], float]) -> float:
    """Return the number of standard deviations at which the decreasing function `missing` reaches 0, rounded up."""
    if missing(0.0) <= 0.0:
        return 0.0
    return float(scipy.optimize.brentq(missing, 0.0, 40.0, xtol=1e-12)) + 1e-10


@dataclass(frozen=True, slots=True)
class NoisyVector:
    """A released vector with noise, whose coordinates are mapped to means over [0, 1], with 0 at 1/2.

    Attributes:
        values: Released coordinates, shape (dimension,); with noise, they may lie outside [0, 1].
        lows: Lower ends of the coordinates, in [0, 1].
        highs: Upper ends, in [0, 1].
        within: Half-width of the whole in Euclidean length.
    """

    values: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    within: float
    charged: int


@dataclass(frozen=True)
class VectorNoise:
    """Releases means of vectors of length at most 1/2, in any dimension, for the price of one mean.

    One row moves the sums by at most ``unit`` in Euclidean length, so independent discrete Gaussian noise on every
    coordinate is as private as it is on one mean. In every direction the answer is a mean over [0, 1]: S1's proof,
    applied to the direction of the error, bounds its Euclidean length; applied to the coordinates it bounds each of
    them. Both are promised, and each may add half of what a query may add to the exceedance r.

    Attributes:
        dimension: Number of coordinates d.

    Source: docs/theory, vectors and low sensitivity.
    """

    budget: PrivacyBudget
    dimension: int

    @property
    def rounding(self) -> float:
        """Euclidean length that rounding and shortening the rows' vectors adds to the error."""
        return float(np.sqrt(self.dimension)) / self.budget.unit + SHRINKAGE

    def length_allowance(self, scale: float) -> float:
        """Return the alpha of the noise's Euclidean length."""
        exceedance = 0.5 * self.budget.own_exceedance
        return gaussian_norm_allowance(exceedance=exceedance, scale=scale, dimension=self.dimension)

    def coordinate_allowance(self, scale: float) -> float:
        """Return the alpha of each single coordinate."""
        wanted = 0.5 * self.budget.own_exceedance / (self.dimension * scale)
        return scale * deviations(lambda z: gaussian_exceedance(alpha=z, scale=1.0, answers=1) - wanted)

    def radius_at(self, scale: float) -> float:
        """Return the half-width in Euclidean length with noise of this scale."""
        return _radius_of(self, self.budget.drawn_scale(scale))

    def answer(self, state: State, sums: NDArray[np.int64], noise: Noise, *, scale: float) -> tuple[State, NoisyVector]:
        """Return the new state and the noisy mean vector. Raises the error of `release`.

        Args:
            state: The state before.
            sums: Sums of the rows' vectors in grid units, of at most ``unit / 2`` for one row, shape (dimension,).
            noise: Source of randomness.
            scale: Noise scale of every coordinate, in the units of a mean.
        """
        after, drawn = release(self.budget, state, sums, noise, scale=scale)
        values = 0.5 + drawn / self.budget.steps
        lows, highs = self.budget.interval(values, self.coordinate_allowance(self.budget.drawn_scale(scale)))
        lows = np.maximum(lows - self.budget.row_step - SHRINKAGE, 0.0)  # rows were rounded towards 1/2, up or down
        highs = np.minimum(highs + SHRINKAGE, 1.0)
        return after, NoisyVector(values, lows, highs, self.radius_at(scale), after.charged - state.charged)


@lru_cache(maxsize=256)
def _radius_of(vector: VectorNoise, scale: float) -> float:
    return vector.budget.reach(vector.length_allowance(scale)) + vector.rounding
