"""Claims of a gate about cases: one bet on each, at the full level on one side (Lemma M).

A claim says that a mean gain is above its floor. Gains lie in [-1, 1], in units of the metric's range. The capital of a
claim is a mixture of bets with constant stakes, so it holds for units of unlike laws, too. A challenger is promoted if
the capital of each claim reaches 1 / level: each claim has the full level, except successes, which share one level
because any one of them is enough (docs/theory/gates.md, S11).

*Ratios against another version (Lemma R).* Let x be the numerator and y the denominator, neither below 0. The other
version's ratio r solves ``E[x' - r y'] = 0``. If the claim that a version's ratio is above r by more than a floor is
false, the paired mean ``E[s(x - x') - s r (y - y') - floor y]`` is at most 0 there, with s = -1 where less is better.
Two bets on the equation and one on the paired mean make a fair game at the true r, which is one fixed number. So the
claim is proved if the capital reaches 1 / level at each r: in all cells of `JointBets`.

*Yes-or-no runs (Lemma Y).* Runs of both versions are independent given the cases, so the challenger's successes and
the other version's failures are independent events, whose chances have a mean of at most (1 + floor) / 2 if the claim
is false. Their number then has no heavier upper tail than a binomial number of that chance (Hoeffding 1956, theorem 4).
Where the runs of one version are known to disagree often, this tail replaces the bets of successes: they would pay for
several stakes to learn it.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import scipy

from everhold.guarantees.intervals.joint import JointBets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_STAKE = 0.95
"""Largest part of the capital that is bet on one unit; a unit with the gain -1 then leaves a twentieth of it."""

_RATIO = 0.6  # of neighbouring stakes: a bet loses little where the best stake lies between two
_ROUNDING = 1e-9
_HALVINGS = 40
_OCTAVES = 10  # of ratios above and below the ratio of the largest numerator to the largest denominator
_PATHS, _POINTS = 4, 5  # in an octave; in a path, whose bets share one loss, its ends included
_SHARES = np.log([[0.5], [0.25], [0.25]])  # of the paired mean, and of the equation from both sides


@dataclass(frozen=True, slots=True)
class GateClaim:
    """One claim of a gate about cases: a metric's mean gain is above a floor.

    Attributes:
        floor: The mean gain is claimed to be above this, in [-1, 1), in units of the metric's range.
        guard: True for a guard, which compares with the baseline; False for a success, which compares with the
            champion.
        fixed: True for a guard against a number: the floor is ``2 mean - 1`` of the metric in [0, 1].
        ratio: True if the metric is a ratio of means; then the floor is in its own units.
    """

    metric: str
    floor: float
    guard: bool = False
    fixed: bool = False
    ratio: bool = False

    @property
    def null(self) -> float:
        """The floor as a mean of values ``(1 + gain) / 2`` in (0, 1)."""
        return (1.0 + self.floor) / 2.0


class UnitValues(Protocol):
    """Protocol of the values from which one claim about cases is tested, one or more for each unit."""

    def first_look(self, claim: GateClaim, *, planned: int, nats: float, looks: Sequence[int]) -> int:
        """Return the index of the first look that proves the claim, or the number of looks if none does."""


@dataclass(frozen=True, slots=True)
class ClaimUnits:
    """The gains of one claim about cases, summed by unit, in the order in which units are tested.

    Attributes:
        sums: Shape (units,): sums of ``(1 + gain) / 2``, each from 0 to its size.
        sizes: Number of cases in each unit, shape (units,). It is 1 if a unit is a case or a run, and 0 if the unit is
            left out as a tie (Lemma N).
        largest: The largest size of all units of the suite, also of those that are not looked at yet.
        signs: True if units are independent, of one law, and each gain is -1, 0 or 1: then the exact sign test replaces
            the bet on a floor of 0. It is decided by public facts.
        tail: True if each unit is a run of a yes-or-no metric, and the runs of both versions are independent: then the
            binomial tail replaces the bet of a success. It is decided by public facts.
    """

    sums: NDArray[np.float64] = field(repr=False)
    sizes: NDArray[np.float64]
    largest: float = 1.0
    signs: bool = False
    tail: bool = False

    def first_look(self, claim: GateClaim, *, planned: int, nats: float, looks: Sequence[int]) -> int:
        """Return the index of the first look that proves the claim, or the number of looks if none does.

        Args:
            claim: The claim that is tested.
            planned: Number of units if all are evaluated.
            nats: ln(1 / level) of the proof.
            looks: Numbers of units after which the capital is compared, rising.
        """
        if self.signs and claim.floor == 0.0 and len(looks) == 1:
            looked_at = self.sums[self.sizes > 0.0]
            wins, losses = (float((looked_at == value).sum()) for value in (1.0, 0.0))
            return 0 if sign_nats(wins, losses) >= nats + _ROUNDING else 1
        if self.tail and not claim.guard and len(looks) == 1:
            events = round(float((2.0 * self.sums + 1.0 - self.sizes).sum()))
            return 0 if tail_nats(events, 2 * len(self.sums), claim.null) >= nats + _ROUNDING else 1
        return first_look(log_capital(self, claim.null, stakes_for(planned, nats), looks), nats)

    def proves(self, claim: GateClaim, nats: float) -> bool:
        """Return whether these units, tested once, prove a claim at the level ``exp(-nats)``."""
        units = len(self.sums)
        return self.first_look(claim, planned=units, nats=nats, looks=[units]) == 0


@dataclass(frozen=True, slots=True)
class RatioUnits:
    """Values of a claim about a ratio, unit by unit, in the order in which they are evaluated.

    Attributes:
        sums: Sums in each unit, shape (4, units): the challenger's numerator, the other version's numerator, and both
            denominators in this order.
        sizes: Number of cases in each unit, shape (units,). It is 1 if a unit is a case or a run.
        top: Range (low, high) of the numerator.
        lower: True if a lower ratio is better; False if a higher ratio is.
        largest: The largest size of all units of the suite.
        spent: Shape (units,): True for draws for which no run was left. They count as the worst result.
    """

    sums: NDArray[np.float64] = field(repr=False)
    sizes: NDArray[np.float64]
    top: tuple[float, float]
    bottom: tuple[float, float]
    lower: bool
    largest: float
    spent: NDArray[np.bool_]

    def first_look(self, claim: GateClaim, *, planned: int, nats: float, looks: Sequence[int]) -> int:
        """Return the index of the first look that proves the claim, or the number of looks if none does.

        Ratios that the other version may have can be excluded at different looks.

        Args:
            claim: The claim, with its floor in units of the ratio.
            planned: Number of units if all are evaluated.
            nats: ln(1 / level) of the proof.
            looks: Numbers of units after which the capital is compared, rising.
        """
        bets = self.bets(_looked_at(len(self.sizes), looks), stakes_for(planned, nats + math.log(2.0)), claim.floor)
        capital = bets.capital(self.paths(claim.floor))  # all cells are computed, so that the time tells nothing
        return max(first_look(each, nats) for each in capital)

    def bets(self, counts: NDArray[np.float64], stakes: NDArray[np.float64], most_floor: float) -> JointBets:
        """Return bets against points ``(a, b, a floor)``, where b / a is the ratio of the other version.

        Args:
            counts: Number of units of each kind, as for `JointBets`.
            stakes: Stakes of the bets, shape (stakes,), from `stakes_for`.
            most_floor: Floor with which the largest losses are computed. Then a proof of one floor also proves all
                lower floors.
        """
        own, other, below, below_other = self.sums
        sign, none = -1.0 if self.lower else 1.0, np.zeros(len(own))
        paired = np.stack([sign * (own - other), sign * (below_other - below), -below], axis=-1)
        equation = np.stack([other, -below_other, none], axis=-1)
        losses = np.zeros((3, 3))
        losses[0, 0] = self.top[1] - self.top[0] + max(most_floor, 0.0) * self.bottom[1]
        losses[0, 1], losses[1, 1], losses[2, 0] = self.bottom[1] - self.bottom[0], self.bottom[1], self.top[1]
        worst = -losses[:, None] * self.sizes[:, None]
        moves = np.where(self.spent[:, None], worst, np.stack([paired, equation, -equation]))
        return JointBets(moves, losses * self.largest, counts, stakes, _SHARES - math.log(len(stakes)))

    def paths(self, floor: float, *, all_ratios: bool = True) -> NDArray[np.float64]:
        """Return the points to bet against for all ratios from 0 to infinity, shape (paths, points, 3).

        Args:
            floor: The floor of the claim, as for `bets`.
            all_ratios: True if ratios above that of the largest numerator to the largest denominator can occur.
        """
        middle, numbers = self.top[1] / self.bottom[1], np.arange(-_OCTAVES * _PATHS, _OCTAVES * _PATHS + 1)
        edges = middle * 2.0 ** (numbers / _PATHS)
        b = np.vstack([np.linspace(0.0, edges[0], _POINTS), np.linspace(edges[:-1], edges[1:], _POINTS, axis=1)])
        a = np.ones_like(b)
        a = np.vstack([a, np.linspace(1.0 / edges[-1], 0.0, _POINTS)])
        b = np.vstack([b, np.ones(_POINTS)])
        points = np.stack([a, b, floor * a], axis=-1)
        return points if all_ratios else points[: 1 + _OCTAVES * _PATHS]


def stakes_for(units: int, nats: float) -> NDArray[np.float64]:
    """Return the stakes of a mixture of bets with equal weights, from public facts, shape (stakes,).

    The smallest stake is the best one for gains that spread as far as possible.

    Args:
        units: Number of units if all units are looked at.
        nats: ln(1 / level) of the proof.

    Examples:
        >>> stakes_for(100, 8.4).round(2)
        array([0.95, 0.57])
        >>> stakes_for(1600, 8.4).round(2)
        array([0.95, 0.57, 0.34, 0.21, 0.12])
    """
    least = math.sqrt(2.0 * nats / units)
    count = 1 + max(math.floor(math.log(least / MOST_STAKE) / math.log(_RATIO)), 0)
    return np.asarray(MOST_STAKE * _RATIO ** np.arange(count))


def log_capital(
    units: ClaimUnits, null: float, stakes: NDArray[np.float64], looks: Sequence[int]
) -> NDArray[np.float64]:
    """Return the log capital after each number of units in ``looks``, shape (looks,). The capital starts with 1.

    Each factor is ``1 + c (sum - size null) / (largest null)``. If the mean is at most the null, the expected product
    is at most 1: for independent units by the means of unlike laws, and for any order at a fixed number of units.

    Args:
        units: Values of the claim.
        null: The mean that is bet against, in (0, 1).
        stakes: Stakes of the bets, shape (stakes,), from `stakes_for`.
        looks: Numbers of units after which the capital is returned.

    Examples:
        >>> float(log_capital(ClaimUnits(np.ones(3), np.ones(3)), 0.5, np.array([0.95]), [3])[-1].round(3))
        2.003
    """
    moves, losses = np.stack([units.sums, -units.sizes], axis=-1)[None], np.array([[0.0, units.largest]])
    counts, weights = _looked_at(len(units.sums), looks), np.full(len(stakes), -math.log(len(stakes)))
    bets = JointBets(moves, losses, counts, stakes, weights)
    return np.asarray(bets.capital(np.array([[[1.0, null]]]))[0])


def first_look(capital: NDArray[np.float64], nats: float) -> int:
    """Return the first index at which the log capital is at least ``nats``, or its length if there is none."""
    return int(np.argmax(np.append(capital >= nats, True)))


def _looked_at(units: int, looks: Sequence[int]) -> NDArray[np.float64]:
    """Return 1 for units that were evaluated by a look and 0 for later ones, shape (units, looks)."""
    return (np.arange(units)[:, None] < np.asarray(looks)).astype(np.float64)


def first_proof(
    claims: Sequence[GateClaim], units: Sequence[UnitValues], *, planned: int, nats: float, looks: Sequence[int]
) -> int | None:
    """Return the index of the first look at which all claims are proved, or None.

    Different claims may reach their levels at different looks. All guards have to be proved, and at least one of the
    successes, which share the level.

    Args:
        claims: Guards and at least one success.
        units: Values of each claim, as far as they are known.
        planned: Number of units if all units are looked at; stakes follow from it.
        nats: ln(1 / level) of the proof.
        looks: Numbers of units after which the capital is compared, rising.
    """
    proved = [
        values.first_look(claim, planned=planned, nats=nats + extra_nats(claims, claim), looks=looks)
        for claim, values in zip(claims, units, strict=True)
    ]
    guards = [each for claim, each in zip(claims, proved, strict=True) if claim.guard]
    successes = [each for claim, each in zip(claims, proved, strict=True) if not claim.guard]
    at = max([min(successes), *guards])
    return None if at >= len(looks) else at


def extra_nats(claims: Sequence[GateClaim], claim: GateClaim) -> float:
    """Return ln(number of successes), which is added to the nats of a success because one is enough; 0 for a guard."""
    return 0.0 if claim.guard else math.log(sum(not each.guard for each in claims))


def sign_nats(wins: float, losses: float) -> float:
    """Return ln(1 / p) of the exact one-sided sign test for more wins than losses.

    Args:
        wins: Number of units that gain. Expected numbers, which need not be whole, are interpolated.
        losses: Number of units that lose.

    Examples:
        >>> round(sign_nats(18, 2), 2)
        8.51
    """
    return 0.0 if wins <= 0.0 else -math.log(max(scipy.special.betainc(wins, losses + 1.0, 0.5), sys.float_info.min))


def tail_nats(events: int, of: int, chance: float) -> float:
    """Return ln(1 / p), where p bounds the probability that ``events`` or more of independent events happen.

    Source: Hoeffding 1956, theorem 4, which holds from one event above the expected number on.

    Args:
        events: Number of events that happened.
        of: Number of all events, those that happened and those that did not.
        chance: Mean of their chances.

    Examples:
        >>> round(tail_nats(138, 240, 0.5), 2), tail_nats(120, 240, 0.5)
        (4.44, 0.0)
    """
    if events < of * chance + 1.0:
        return 0.0
    return float(-scipy.stats.binom.logsf(events - 1, of, chance))


def least_by_tail(units: int, floor: float, nats: float) -> float:
    """Return the smallest mean gain of yes-or-no runs that the binomial tail proves, above 1 if no gain is enough.

    Examples:
        >>> round(least_by_tail(300, 0.0, 3.74), 3), least_by_tail(2, 0.0, 3.74) > 1.0
        (0.083, True)
    """
    null = (1.0 + floor) / 2.0
    events = max(scipy.stats.binom.isf(math.exp(-nats), 2 * units, null) + 1.0, 2.0 * units * null + 1.0)
    return float(events) / units - 1.0


def least_gain(claim: GateClaim, best: ClaimUnits, nats: float, *, step: float = 0.0) -> float:
    """Return the smallest mean gain with which some results prove a claim, or a number above 1 if none do.

    Results that are spread over the units as evenly as they can be prove the most of all with one mean: the factor of
    every bet is log-concave in the gain of a unit, the most even signs are wins without a loss, and the binomial tail
    counts events alone. So these are tried, by the test that decides.

    Args:
        claim: A claim that is about no ratio.
        best: The units with the best results that there can be, and the flags of the test.
        nats: ln(1 / level), for a level below one half.
        step: Sums of ``(1 + gain) / 2`` of a unit are multiples of this; 0 if they are any numbers.

    Examples:
        >>> best, claim = ClaimUnits(np.ones(150), np.ones(150)), GateClaim("passed", 0.0)
        >>> round(least_gain(claim, best, 6.6), 3), round(least_gain(claim, best, 6.6, step=0.5), 3)
        (0.055, 0.08)
        >>> round(least_gain(claim, replace(best, signs=True), 6.6, step=0.5), 3)
        0.067
    """
    units, sizes = len(best.sums), best.sizes

    def even(level: float) -> NDArray[np.float64]:
        """Return each unit's sum at the null plus ``level``, at most its best possible sum, rounded down."""
        sums = np.clip(level + sizes * claim.null, 0.0, best.sums)
        return sums if step == 0.0 else step * np.floor(sums / step + _ROUNDING)

    def proved(sums: NDArray[np.float64]) -> bool:
        return replace(best, sums=sums).proves(claim, nats)

    if not best.proves(claim, nats):
        return math.inf
    low, high = 0.0, float(sizes.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if proved(even(middle)) else (middle, high)
    below, above = even(low), even(high)
    raised = np.cumsum(above > below) if step else np.full(units, 0)  # units that rise together, as few as are needed
    most = int(raised[-1])
    enough = bisect_left(range(1, most), True, key=lambda many: proved(np.where(raised <= many, above, below)))
    many = min(enough + 1, most)
    return float(2.0 * np.where(raised <= many, above, below).sum() / sizes.sum() - 1.0)
