"""What answers from random rows promise: how far they stray, and how much they tell about the sealed rows.

A draw takes a random row and shows a bit that is 1 with the row's value as probability; or, with a small or large
probability, it tosses a fair coin instead. An answer is the share of ones among k draws, with the coins taken out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import rel_entr

from everhold.guarantees.exceedance import gaussian_exceedance

__all__ = ["InformationBound", "draws_exceedance", "information_per_draw", "information_radius"]

_SCANNED = 2**12  # numbers of ones up to which the information is computed; beyond, it is bounded in closed form
_TRIALS = 60
_LARGEST_DEVIATION = 40.0


def draws_exceedance(*, deviations: float, draws: int, coins: float, answers: int) -> tuple[float, float]:
    """Alpha and r(alpha) for m answers of k draws each (S1).

    For every p, ``P[Bin(k, p) >= k (p + x)] <= Phi(-2 sqrt(k) (x - 1/k))``, so the share of ones strays no further than
    Gaussian noise of scale ``1 / (2 sqrt(k))`` and one draw more; taking out the coins divides by ``1 - coins``.

    Args:
        deviations: z >= 0; alpha is z standard deviations and one draw.
        draws: k.
        coins: Probability with which a draw tosses a coin, in [0, 1).
        answers: m.

    Source: docs/theory, subsampling; Zubkov, Serov 2013, with ``kl(x || p) >= 2 (x - p)^2``.
    """
    scale, kept = 0.5 / math.sqrt(draws), 1.0 - coins
    excess = gaussian_exceedance(alpha=deviations * scale, scale=scale, answers=answers)
    return (deviations * scale + 1.0 / draws) / kept, excess / kept


@dataclass(frozen=True, slots=True)
class InformationBound:
    """A half-width that holds for all answers at once.

    Attributes:
        radius: ``alpha + sqrt(budget / (2 n beta))``.
        alpha: Sampling error that is allowed for in full.
        information: Bound on the mutual information of rows and transcript, in nats.
        budget: The information with what sampling errors beyond alpha add to it.
    """

    radius: float
    alpha: float
    information: float
    budget: float


def information_radius(*, rows: int, answers: int, draws: int, coins: float, beta: float) -> InformationBound:
    """Half-width for independent rows, from the information in all answers together (S6); no noise is needed.

    With probability at least 1 - beta, ``max_j |a_j - f_j(P)| <= alpha + sqrt(T / (2 n beta))``, where
    ``T = I + 2 sqrt(2 n T / beta) r(alpha)`` and I bounds the mutual information of rows and transcript.

    Args:
        rows: n.
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

    best = minimize_scalar(
        lambda z: bound(z).radius, bounds=(0.0, _LARGEST_DEVIATION), method="bounded", options={"xatol": 1e-6}
    )
    return bound(float(best.x))


@lru_cache(maxsize=256)
def information_per_draw(rows: int, coins: float) -> float:
    """Bound on what one draw adds to the information about all rows, in nats: about ``1/(2n)`` with coins.

    ``max sum_i kl(p || q_i)`` over all values of the rows, p their mean and q_i a guess at it from the other rows; both
    with the coins mixed in. The sum is convex in the values, so its maximum is at zeros and ones. The guess is
    ``(sum of the others + t) / (n - 1 + 2t)``; any t gives a bound, and the best of a few is taken. Without coins t has
    to be positive, and the bound is about ``ln(n)/(2n)``.

    Args:
        rows: n.
        coins: Probability with which a draw tosses a coin, in [0, 1).

    Source: docs/theory, subsampling; after Feldman, Steinke 2018 (average leave-one-out stability).
    """
    if rows == 1:
        return math.log(2.0) * (1.0 - coins)  # a bit, unless it is a coin
    trials = np.geomspace(min(0.01 / rows, 0.25), 0.5, _TRIALS).tolist()
    return min(_information_with(rows, coins, extra) for extra in trials)


def _information_with(rows: int, coins: float, extra: float) -> float:
    """``max_s s kl(s/n || q(s-1)) + (n-s) kl(s/n || q(s))`` for one t; s and n - s give the same."""
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
    """Bound for more than `_SCANNED` ones and as many zeros, from ``kl(p || q) <= (p-q)^2 / (2 min x(1-x))``.

    With p the share of ones, at most 1/2: ``|p - q|`` is at most ``(1-p)/N`` for a one and ``(p+t)/N`` for a zero,
    ``N = n - 1 + 2t``, ``t <= 1/2``. What comes out is linear in p, so that its ends suffice.
    """
    least, divisor = _SCANNED, rows - 1 + 2.0 * extra
    slack = (1.0 + 2.0 / (rows - 2)) * (rows / divisor) ** 2
    ends = max(least / (least - 1.0) / divisor, slack / rows)
    return 0.5 * (ends + slack * (2.0 * extra / rows + extra * extra / least))


def _kl(mean: NDArray[np.float64], guess: NDArray[np.float64], coins: float) -> NDArray[np.float64]:
    """Divergence of two bits with the coins mixed in."""
    p, q = (coins / 2.0 + (1.0 - coins) * x for x in (mean, guess))
    return np.asarray(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))
