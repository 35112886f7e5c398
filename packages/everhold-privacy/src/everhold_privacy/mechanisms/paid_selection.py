"""Choices among candidates by the exponential mechanism, paid from a `PrivacyBudget` (S1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import scipy

from everhold_privacy.mechanisms.privacy_budget import CREDITS, PrivacyBudget
from everhold_privacy.mechanisms.selection import ExponentialMechanism

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from everhold.mechanisms.base import State
    from everhold.randomness import Noise


@dataclass(frozen=True, slots=True)
class ChosenCandidate:
    """A candidate that was chosen.

    Attributes:
        index: Its position among the candidates; -1 where the query was refused.
        regret: How much worse it is, at most, than the best candidate for the population, in the units of a mean over
            [0, 1]; holds together with all other answers. nan where refused.
    """

    index: int
    regret: float
    charged: int


@dataclass(frozen=True)
class PaidSelection:
    """Choice of one of several candidates, for a number of credits.

    Attributes:
        budget: Pays.
        price: Credits that the choice costs; more of them choose better.

    Examples:
        >>> budget = PrivacyBudget.tuned(rows=50_000, queries=1_000)
        >>> PaidSelection(budget, 400).regret(20) < PaidSelection(budget).regret(20)
        True
    """

    budget: PrivacyBudget
    price: int = CREDITS

    @cached_property
    def mechanism(self) -> ExponentialMechanism:
        """The exponential mechanism that costs so many credits."""
        rho = self.price / self.budget.credits * self.budget.curve().rho
        return ExponentialMechanism(math.sqrt(8.0 * rho) * (1.0 - 1e-12), sensitivity=self.budget.unit)

    def choose(self, state: State, losses: NDArray[np.int64], noise: Noise) -> tuple[State, ChosenCandidate]:
        """The candidate with about the least loss.

        Args:
            state: The state before.
            losses: Sums of the candidates' losses over the sealed rows in grid units, shape (candidates,).
            noise: Source of randomness.

        Raises:
            ValueError: If there is no candidate or the price is below 1.
        """
        if self.price < 1 or not len(losses):
            raise ValueError(
                f"there are {len(losses)} candidates for {self.price} credits; expected at least one of each"
            )
        if not self.budget.affords(state, self.price):
            return state, ChosenCandidate(-1, math.nan, 0)
        chosen = self.mechanism.choose(losses, noise)
        return state.after(charged=self.price), ChosenCandidate(chosen, self.regret(len(losses)), self.price)

    def regret(self, candidates: int) -> float:
        """Largest regret of a chosen candidate against the best one for the population (S1)."""
        alpha, bound = self._allowance(candidates, 2.0 * self.budget.own_exceedance), self.budget.bound
        return min(alpha + 2.0 * (bound.radius - bound.alpha) + self.budget.rounding, 1.0)

    def level_error(self, bins: int) -> float:
        """By how much the level of a chosen quantile bin is off, at most, for the population (S1)."""
        alpha, bound = self._allowance(bins, self.budget.own_exceedance), self.budget.bound
        return min(alpha + bound.radius - bound.alpha + self.budget.rounding, 1.0)

    def _allowance(self, candidates: int, exceedance: float) -> float:
        """The alpha with which a choice adds no more than this exceedance."""

        def missing(alpha: float) -> float:
            return self.mechanism.exceedance(alpha, candidates=candidates, steps=self.budget.steps) - exceedance

        if missing(0.0) <= 0.0:
            return 0.0
        return 1.0 if missing(1.0) > 0.0 else float(scipy.optimize.brentq(missing, 0.0, 1.0)) + 1e-9
