"""The capital of a bet against a population value, and the value from which on it is excluded (S8).

Units k = 1, 2, ... are independent: rows, or groups of rows. Each has a value Y_k with ``0 <= Y_k <= n_k``, and the
population value is ``theta = sum E Y_k / sum E n_k``; the sizes n_k may be public or themselves random, as long as no
unit can be larger than a public size N. A bet that theta is smaller than claimed, with a public stake s and

    lambda(theta) = min(s, u / ((1 - theta) N)),        u < 1,

has the capital ``exp K(theta)`` with ``K(theta) = sum ln(1 + lambda(theta) (theta n_k - Y_k))``.

*Valid.* Every factor is at least ``1 - u``, since ``Y_k - theta n_k <= (1 - theta) n_k``. At the true theta the
expected capital is ``prod (1 + lambda (theta E n_k - E Y_k)) <= exp(lambda sum (theta E n_k - E Y_k)) = 1``, so by
Markov's inequality ``K >= L`` has probability at most ``exp(-L)``. No equal means, no variances, no identical laws.

*Monotone.* K grows with theta, so the values that are not excluded reach up to the first root. Where lambda is the
stake, each ``theta n_k - Y_k`` grows. Where the cap binds, a term has ``u (theta n_k - Y_k) / ((1 - theta) N)``, whose
derivative ``u (n_k - Y_k) / ((1 - theta)^2 N)`` is not negative. The cap grows with theta, so the parts meet once.

*Summaries.* The logarithm is concave, so replacing a unit by a lottery over (size, value) with the same mean can only
lower the capital: still valid, only wider. This is how histograms are read, and very many groups or pairs: those of one
cell as lotteries over its ends, or over the three corners of the half of a square in which (n_k, Y_k) lies. The weights
of three corners are linear in the point between them, so for all units of a half together they follow from its sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CAP = 0.95  # u: one unit as large as can be costs at most ln 20 of the capital
_MULTIPLES = np.array([0.35, 0.5, 0.62, 0.75, 0.87, 1.0, 1.15, 1.35, 1.7, 2.5, 5.0, 15.0, 100.0, 1e4])
_STEPS, _ROUNDS = 80, 6
_BELOW_ONE = math.nextafter(1.0, 0.0)
_DOUBT, _DOUBT_BY_UNIT = 1e-9, 1e-14  # what floating point may add to the capital, in nats; generously


_Rate = TypeVar("_Rate", float, "NDArray[np.float64]")


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Independent units, counted by kind.

    Attributes:
        sizes: Shape (kinds,): n_k; for ratios the denominators.
        values: Shape (kinds,): Y_k in [0, n_k].
        counts: Shape (kinds,): how many units are of the kind; lotteries make parts of units.
        largest: No unit can be larger, seen or not; public.
    """

    sizes: NDArray[np.float64] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    counts: NDArray[np.float64] = field(repr=False)
    largest: float

    @property
    def total(self) -> float:
        """Sum of the sizes."""
        return float(np.sum(self.counts * self.sizes))

    @property
    def mean(self) -> float:
        """Sum of the values by sum of the sizes; nan where there are none."""
        total = self.total
        return min(float(np.sum(self.counts * self.values)) / total, 1.0) if total > 0.0 else math.nan

    @property
    def mirrored(self) -> Units:
        """With values counted from the other end, so that a lower end becomes an upper one."""
        return Units(self.sizes, self.sizes - self.values, self.counts, self.largest)

    def spread(self) -> float:
        """Sum of squared distances of values from what the mean predicts, V."""
        return float(np.sum(self.counts * (self.values - self.mean * self.sizes) ** 2))


def capital(units: Units, theta: float, stake: float) -> tuple[float, float]:
    """K in nats at ``theta < 1``, less what floating point may have added, and its slope."""
    room = (1.0 - theta) * units.largest
    capped = stake * room > CAP
    rate = CAP / room if capped else stake
    factors = 1.0 + rate * (theta * units.sizes - units.values)
    moving = (units.sizes - units.values) / (1.0 - theta) if capped else units.sizes
    value = float(np.sum(units.counts * np.log(factors)))
    return value - doubt(units, rate), rate * float(np.sum(units.counts * moving / factors))


def doubt(units: Units, rate: _Rate) -> _Rate:
    """Nats that floating point may have added to K, at one rate or at each of several.

    The factors are at least 1/20, each with a few roundings.
    """
    return _DOUBT + _DOUBT_BY_UNIT * float(np.sum(units.counts)) * (1.0 + rate * units.largest)


def upper_end(units: Units, stake: float, nats: float, *, tolerance: float = 1e-9) -> float:
    """The value from which on all are excluded, rounded up; 1 where none is.

    Newton's steps inside a bracket. What is returned was itself tried, and its capital suffices.

    Args:
        units: What was seen.
        stake: Positive, and decided before.
        nats: L, ln(1 / level) of this side.
        tolerance: By how much of its distance from the mean the end may lie too far out.
    """
    mean = units.mean
    if not mean < 1.0:
        return 1.0
    inside, outside = mean, 1.0
    closed_form = (nats / stake + stake * units.spread() / 2.0) / units.total
    theta = min(mean + min(closed_form, 0.9 * (1.0 - mean)), _BELOW_ONE)
    near = math.sqrt(tolerance) / 4.0  # the last step squares the error
    for _ in range(_STEPS):
        value, slope = capital(units, theta, stake)
        inside, outside = (theta, outside) if value < nats else (inside, theta)
        following = theta + (nats - value) / max(slope, 1e-300)
        if not inside < following < outside:
            following = (inside + outside) / 2.0
        theta, moved = min(following, _BELOW_ONE), abs(following - theta)
        if moved <= near * (theta - mean):
            break
    step = tolerance * (theta - mean) + 1e-15
    return _rounded_outwards(
        lambda value: capital(units, value, stake)[0] >= nats, theta=theta, inside=inside, outside=outside, step=step
    )


def _rounded_outwards(
    suffices: Callable[[float], bool], *, theta: float, inside: float, outside: float, step: float
) -> float:
    """The first value whose capital suffices, at most ``step`` too far out; ``outside`` if it is the last.

    Growing steps from ``theta`` find the bracket, and halving narrows it where Newton's steps ended early.
    """
    far, outwards = step, not suffices(theta)
    inside, outside = (theta, outside) if outwards else (inside, theta)
    while inside < (value := theta + far if outwards else theta - far) < min(outside, _BELOW_ONE):
        enough, far = suffices(value), far * 16.0
        inside, outside = (inside, value) if enough else (value, outside)
        if enough == outwards:
            break
    while outside - inside > step and inside < (middle := (inside + outside) / 2.0) < outside:
        inside, outside = (inside, middle) if suffices(middle) else (middle, outside)
    return outside


def best_stake(predicted: Units, nats: float) -> float:
    """The stake that makes the upper end least if the sealed units are as predicted; six digits.

    Near ``sqrt(2 L / V)`` where the central limit theorem rules, and more or less for skewed values and rare levels.
    """
    stakes = math.sqrt(2.0 * nats / predicted.spread()) * _MULTIPLES
    best = int(np.flatnonzero(_MULTIPLES == 1.0)[0])
    for _ in range(_ROUNDS):
        end = min(upper_end(predicted, float(stakes[best]), nats, tolerance=1e-4), _BELOW_ONE)
        rates = np.minimum(stakes, CAP / ((1.0 - end) * predicted.largest))
        factors = 1.0 + rates[:, None] * (end * predicted.sizes - predicted.values)
        gains = np.sum(predicted.counts * np.log(factors), axis=1)
        if int(np.argmax(gains)) == best:
            break
        best = int(np.argmax(gains))  # its capital suffices there already, so its end is less
    return float(f"{stakes[best]:.6g}")
