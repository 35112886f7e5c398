"""A hedge over fixed stakes: intervals that adapt to the spread of the sealed values (S8, several stakes).

The capital of `capital` is fair for every fixed stake, so a weighted average of such capitals is fair as well. Half of
the weight lies on the stake that a public guess of the spread names. The other half is spread evenly over `FRACTIONS`
of the largest rate that is possible at the value that is bet against. A good guess of the spread costs ln 2 nats, and
no guess costs more than ln 32 nats beyond the best of the fractions.

*Valid.* At the true value every capital has expectation at most 1, so their average does; Markov's inequality.
*Monotone.* Every capital grows with theta, so the average does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.intervals.bets.capital import CAP, doubt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.bets.capital import Units

FRACTIONS = 0.9 * 2.0 ** -np.arange(16.0)
"""Fixed stakes l_k, as shares of the rate at which one unit could lose everything; shape (16,)."""

MOST_PAID = math.log(2.0 * len(FRACTIONS))
"""Nats that each of the fractions pays for standing beside other stakes: ln 32."""

_LOG_WEIGHTS = np.log(np.append(0.5, np.full(len(FRACTIONS), 0.5 / len(FRACTIONS))))
_KINDS_AT_ONCE = 2**14  # bounds the memory for very many kinds of groups
_BELOW_ONE = math.nextafter(1.0, 0.0)
_STEPS, _BISECTED = 80, 5  # every fifth step halves the bracket


def hedged_capital(units: Units, theta: float, stake: float) -> tuple[float, float]:
    """Logarithm of the averaged capital at ``theta < 1``, less what rounding may have added, and its slope.

    Args:
        units: The sealed units.
        theta: The value that is bet against.
        stake: The stake of a public guess of the spread; it has half of the weight.
    """
    room = (1.0 - theta) * units.largest
    own_is_capped = stake * room > CAP
    rates = np.append(CAP / room if own_is_capped else stake, FRACTIONS / room)
    gains, slopes = np.zeros(len(rates)), np.zeros(len(rates))
    for start in range(0, len(units.sizes), _KINDS_AT_ONCE):
        some = slice(start, start + _KINDS_AT_ONCE)
        sizes, values, counts = units.sizes[some], units.values[some], units.counts[some]
        factors = 1.0 + rates[:, None] * (theta * sizes - values)
        gains += np.log(factors) @ counts
        weights = counts / factors
        slopes += weights @ ((sizes - values) / (1.0 - theta))
        if not own_is_capped:
            slopes[0] += float(weights[0] @ (sizes - (sizes - values) / (1.0 - theta)))
    gains += _LOG_WEIGHTS - doubt(units, rates)
    total = _log_of_sum(gains)
    return total, float(np.exp(gains - total) @ (rates * slopes))


def _log_of_sum(logs: NDArray[np.float64]) -> float:
    """``ln sum e^l`` of finite numbers, as `scipy.special.logsumexp` adds them, in a tenth of the time."""
    most = logs.max()
    largest = logs == most
    count = largest.sum()
    others = np.exp(np.where(largest, -np.inf, logs) - most).sum() / count
    return float(np.log1p(others) + np.log(count) + most)


def hedged_end(units: Units, stake: float, nats: float, *, tolerance: float = 1e-9) -> float:
    """The value from which on all values are excluded, rounded up; 1 where none is excluded.

    Newton's steps inside a bracket, each a little beyond the expected root, so that both ends of the bracket close in.
    The returned end was itself tried, and its capital suffices.

    Args:
        units: The sealed units.
        stake: Positive and fixed before the look; see `hedged_capital`.
        nats: ln(1 / level) of this side.
        tolerance: By how much of its distance from the mean the end may lie too far out.
    """
    mean = units.mean
    if not mean < 1.0:
        return 1.0
    inside, outside = mean, 1.0
    wide = (math.sqrt(2.0 * nats * units.spread()) + nats * units.largest) / units.total
    theta = min(mean + min(wide, 0.9 * (1.0 - mean)), _BELOW_ONE)
    for step in range(1, _STEPS):
        value, slope = hedged_capital(units, theta, stake)
        inside, outside = (theta, outside) if value < nats else (inside, theta)
        if outside - inside <= tolerance * (outside - mean) + 1e-15:
            break
        beyond = math.copysign(0.25 * tolerance * (theta - mean), nats - value)
        following = theta + (nats - value) / max(slope, 1e-300) + beyond
        if step % _BISECTED == 0 or not inside < following < outside:
            following = (inside + outside) / 2.0
        theta = min(following, _BELOW_ONE)
    return outside
