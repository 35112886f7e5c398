"""Prices of results that are always revealed: which candidate is the best, and its rounded interval (S9).

A label has a public prior, and every later query pays ``ln(1 / prior)`` for it. Priors follow from training rows and
from what was told before, and never from sealed rows. Each one here sums to at most 1 over all labels, so a prior that
expects the wrong thing costs nats and no validity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_STEP = 0.125  # of places, in half-widths that are told
RATIO = 1.1  # of neighbouring half-widths
_MOST_STEPS = 100  # of half-widths, in either direction
_PLACES, _WIDTHS = 3.0, 0.5  # scales of the priors, in steps

WIDENED = RATIO / (1.0 - _STEP / 2.0)
"""A told interval has at most so many times the length of the sealed one."""


def steps_nats(steps: int, *, scale: float) -> float:
    """Return ln(1 / prior) of an integer number of steps, under a discrete Cauchy law around 0.

    Examples:
        >>> round(steps_nats(0, scale=3.0), 2), round(steps_nats(-30, scale=3.0), 2)
        (2.24, 6.86)
    """
    mass = math.pi * scale / math.tanh(math.pi * scale)  # of 1 / (1 + (s / scale)^2) over all whole numbers s
    return math.log(mass) + math.log1p((steps / scale) ** 2)


def order_nats(chosen: Sequence[int], estimates: NDArray[np.float64]) -> float:
    """Return ln(1 / prior) of the best few candidates in their order.

    One is drawn after the other. Half of the prior of each draw is uniform over the candidates that are left. The other
    half gives the one with the r-th largest training estimate among them ``1 / (r (r + 1))``.

    Args:
        chosen: Positions, the best first.
        estimates: Training estimates, where larger is better, shape (candidates,). nan if a candidate has no estimate.

    Examples:
        >>> round(order_nats([7], np.linspace(0, 1, 8)), 2), round(order_nats([0], np.linspace(0, 1, 8)), 2)
        (1.16, 2.67)
    """
    nats, left = 0.0, list(range(len(estimates)))
    values = np.where(np.isnan(estimates), -np.inf, estimates)
    for index in chosen:
        rank = 1 + sum((values[other], -other) > (values[index], -index) for other in left)
        if len(left) > 1:
            nats -= math.log(0.5 / len(left) + 0.5 / (rank * (rank + 1)))
        left.remove(index)
    return nats


def set_nats(above: NDArray[np.bool_], chances: NDArray[np.float64], *, first: bool) -> float:
    """Return ln(1 / prior) of the set of candidates above a threshold.

    Args:
        above: Which ones are, shape (candidates,).
        chances: Public chances that they are, shape (candidates,), in (0, 1).
        first: Whether only the first of them is told. Then half of the prior is uniform over all places and "none".
    """
    likely = np.where(above, np.log(chances), np.log1p(-chances))
    if not first:
        return -float(np.sum(likely))
    end = int(np.argmax(above)) + 1 if np.any(above) else len(above)
    uniform = -math.log(len(above) + 1.0)
    return math.log(2.0) - float(np.logaddexp(uniform, np.sum(likely[:end])))


@dataclass(frozen=True, slots=True)
class Around:
    """Labels of an interval: a middle and a half-width. Labels far from the expected middle and half-width cost more.

    Half-widths are ``half * 1.1^t``, and places are an eighth of the half-width apart. The told interval is the first
    that contains the sealed one, so it has at most `WIDENED` times its length, whatever was expected.

    Attributes:
        place: The expected middle.
        half: The expected half-width, above 0.

    Examples:
        >>> low, high, nats = Around(0.5, 0.02).released(0.481, 0.519)
        >>> round(low, 4), round(high, 4), round(nats, 1)
        (0.48, 0.52, 2.8)
    """

    place: float
    half: float

    def released(self, low: float, high: float) -> tuple[float, float, float]:
        """Return both ends of the interval that is answered, which contains the sealed one, and ln(1 / prior)."""
        middle, wanted = (low + high) / 2.0, (high - low) / 2.0
        least = max(wanted / (1.0 - _STEP / 2.0), self.half * RATIO**-_MOST_STEPS)
        width = math.floor(math.log(least / self.half) / math.log(RATIO)) - 1
        while True:
            half = self.half * RATIO**width
            steps = round((middle - self.place) / (_STEP * half))
            at = self.place + steps * _STEP * half
            if at - half <= low and high <= at + half:
                nats = steps_nats(steps, scale=_PLACES) + steps_nats(width, scale=_WIDTHS)
                return at - half, at + half, nats
            width += 1

    def released_above(self, value: float) -> tuple[float, float]:
        """Return the smallest ``half * 1.1^t`` that is at least ``value``, and ln(1 / prior) of this label."""
        least = max(value, self.half * RATIO**-_MOST_STEPS)
        width = math.floor(math.log(least / self.half) / math.log(RATIO)) - 1
        while self.half * RATIO**width < value:
            width += 1
        return self.half * RATIO**width, steps_nats(width, scale=_WIDTHS)
