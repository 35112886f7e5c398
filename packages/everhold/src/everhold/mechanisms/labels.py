"""Labels, which are what surprises and released results tell: their forms and their prices (S8, S9).

Each label has a public prior probability, and every later query pays ``ln(1 / prior)`` for it. Priors depend on
training rows and on earlier answers, and never on sealed rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure


_STEP = 0.2  # of places, in half-widths that are told
_RATIO = 1.125  # of neighbouring half-widths that are told; told at most _RATIO / (1 - _STEP / 2) = 1.25 sealed ones
_USUAL = 1.16  # expected half-widths that are told of a sealed interval as wide as expected
_NEAR = 40  # places on either side of the guess that are told as near ones
_TIMES = 6  # half-widths told as about the expected one: up to 2 times wider or narrower
_LEAST_STEP = 2.0**-20  # no expected half-width is taken to be less
_WIDEST, _FINENESS = 0.625, 56  # every interval lies within .625 of a place; 56 steps below, .00085 is the narrowest
_SHARE_NEAR, _SHARE_ALONG, _SHARE_ANYWHERE = 0.5, 0.25, 0.25  # of the prior, for the three kinds of labels

WIDENING = _RATIO / (1.0 - _STEP / 2.0)
"""A told interval has at most so many times the length of the sealed one, unless that is less than 1/1000."""

DEAREST = 12.3
"""No label of `Offsets` costs more nats; there are about 54,000 labels that can be told anywhere."""

CHEAPEST = 4.3
"""No label of `Offsets` costs fewer."""


_FAILING_TOLD = 1e-3  # of the prior: that the label of a surprise tells the share of failing rows, too


def in_millionths(nats: float) -> int:
    """Return nats as a whole number of millionths, rounded up."""
    return math.ceil(nats * 1e6)


def failing_rows_cost(*, told: bool) -> int:
    """Return the cost of a label that tells a share of failing rows, or that confirms its guess (S16).

    It is in millionths of a nat.

    Args:
        told: Whether the label tells the share. If not, it confirms the guess.
    """
    return in_millionths(-math.log(_FAILING_TOLD) if told else -math.log1p(-_FAILING_TOLD))


@dataclass(frozen=True)
class ArcsineCells:
    """Parts of [0, 1], called cells, one of which is told as the label of a surprise about a mean.

    All cells have the same prior probability. Their widths are proportional to the standard deviation of yes-or-no
    values.

    Attributes:
        grid: Number G of cells; cell i starts at the mean ``sin^2(i pi / (2 G))`` and ends where the next one starts.
        steps: Grid steps of a sum that make a mean of 1.
    """

    grid: int
    steps: int

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        shares = np.sin(np.arange(self.grid + 1) * (math.pi / 2.0 / self.grid)) ** 2
        edges: NDArray[np.int64] = np.ceil(shares * self.steps).astype(np.int64)
        edges[0], edges[-1] = 0, self.steps + 1
        return edges

    def released(self, total: int) -> tuple[float, float]:
        """Return the least and the greatest mean of the cell that contains a sum over the rows."""
        cell = int(np.searchsorted(self._edges, total, side="right")) - 1
        return float(self._edges[cell]) / self.steps, float(self._edges[cell + 1] - 1) / self.steps

    @property
    def cost(self) -> int:
        """Cost ``ln G`` of telling a cell, in millionths of a nat."""
        return in_millionths(math.log(self.grid))


@dataclass(frozen=True, slots=True)
class Offsets:
    """Labels of a sealed interval: a place and a half-width of a slightly wider interval, which is told.

    The half-width r is one of ``r_0 1.125^t``, and places are ``r / 5`` apart. The told interval is place plus or minus
    r, for the first r at which it contains the sealed interval. There are three kinds of labels, and the first kind is
    used whose told interval is at most `WIDENING` times as long as the sealed interval:

    - *near*, half of the prior: ``|t| <= 6`` steps from the expected half-width, and at most 40 places from the guess;
    - *along*, a quarter: the same half-widths, at any place in [0, 1];
    - *anywhere*, a quarter: any half-width from 1/1000 to the whole range, at any place; all labels are equally likely.

    The prior of t is proportional to ``2^-|t|``. The expected half-width decides what a label costs, and not how wide
    the told interval is. Places and half-widths are shares of a public frame that no value can leave: [0, 1] for most
    queries.

    Attributes:
        guess: The public guess, as a share of the frame.
        half: The half-width that was expected, as a share of the frame.
        frame: The least and the greatest possible value, in units of a mean.
    """

    guess: float
    half: float
    frame: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of(cls, procedure: Procedure, guess: float, nats: float) -> Self:
        """Return the labels of a query with this procedure, guess and level."""
        low, high = procedure.expected(guess, nats)
        least, most = procedure.frame
        if not most > least:
            least, most = 0.0, 1.0
        size = most - least
        return cls(
            min(max((guess - least) / size, 0.0), 1.0), max((high - low) / 2.0 / size, _LEAST_STEP), (least, most)
        )  # fmt: skip

    def released(self, low: float, high: float) -> tuple[float, tuple[float, float], int]:
        """Return the label of a sealed interval: its place, the wider interval that it tells, and its cost.

        Args:
            low: Lower end of the sealed interval.
            high: Upper end of the sealed interval.

        Returns:
            The place, an interval around it that contains the sealed one, and the cost in millionths of a nat.
        """
        least, size = self.frame[0], self.frame[1] - self.frame[0]
        low, high = (min(max((end - least) / size, 0.0), 1.0) for end in (low, high))
        fitting = list(self._fitting(low, high))
        enough = WIDENING * (high - low) / 2.0 * (1.0 + 1e-12)
        place, half, share = next((label for label in fitting if label[1] <= enough), min(fitting, key=lambda x: x[1]))
        cost = in_millionths(-math.log(share))
        if place - half <= 0.0 and place + half >= 1.0:
            place, half = 0.5, 0.5
        return least + size * place, (least + size * (place - half), least + size * (place + half)), cost

    def _fitting(self, low: float, high: float) -> Iterator[tuple[float, float, float]]:
        """Yield place, half-width and prior probability of the narrowest fitting label of each kind."""
        widths = range(-_TIMES, _TIMES + 1)
        near = _first_around(low, high, self.guess, map(self._half_width, widths), most=_NEAR)
        if near is not None:
            place, half, number = near
            yield place, half, _SHARE_NEAR * _share_of_width(number - _TIMES) / (2 * _NEAR + 1)
        along = _first_around(low, high, 0.0, map(self._half_width, widths))
        if along is not None:
            place, half, number = along
            share = _SHARE_ALONG * _share_of_width(number - _TIMES) / _places(half)
            if share >= _SHARE_ANYWHERE / _LABELS:
                yield place, half, share
        halves = (_WIDEST * _RATIO**-width for width in range(_FINENESS, -1, -1))
        anywhere = _first_around(low, high, 0.0, halves)
        if anywhere is None:
            raise ValueError("An interval has no label. Pass ends in order that meet [0, 1].")  # they are secret
        yield anywhere[0], anywhere[1], _SHARE_ANYWHERE / _LABELS

    def _half_width(self, width: int) -> float:
        return _USUAL * self.half * _RATIO**width

    @property
    def usual(self) -> float:
        """Half-width of the interval that is told if the sealed interval is as wide as expected."""
        return self._half_width(0) * (self.frame[1] - self.frame[0])


_CELLS = 64


def told_value(value: float, low: float, high: float) -> tuple[float, int]:
    """Return the middle of the one of 64 equal parts of [low, high] that contains a value, and its label's cost.

    Examples:
        >>> told_value(0.5101, 0.4, 0.6)
        (0.5109375, 4158884)
    """
    cell = min(max(int((value - low) / (high - low) * _CELLS), 0), _CELLS - 1) if high > low else 0
    return low + (high - low) * (cell + 0.5) / _CELLS, in_millionths(math.log(_CELLS))


_TURNS = 3  # of the search for the value whose interval has its middle at a place
_FINE = 1e-4  # of a scale, below which an exponential law is as good as uniform


def likeliest_in(low: float, high: float, *, guess: float | None, error: float) -> float:
    """Return the value to answer for a sealed number if only its cell, a range, is revealed.

    It is the mean of Laplace's law around the guess within the cell. The guess and the error of honest guesses are
    public. Two queries with one label never get values in the opposite order of their guesses.

    Args:
        low: Smallest number of the cell.
        high: Largest number of the cell.
        guess: The guess, in the same units; None without a guess.
        error: Standard error of an honest guess.

    Examples:
        >>> likeliest_in(0.25, 0.75, guess=None, error=0.1), likeliest_in(0.25, 0.75, guess=0.25, error=0.1) < 0.5
        (0.5, True)
    """
    if guess is None or not 0.0 < error < math.inf or not high > low:
        return (low + high) / 2.0

    def beyond(reach: float) -> tuple[float, float]:
        """Return mass and first moment of one side of Laplace's law, up to the distance ``reach``."""
        if reach < _FINE * error:
            return reach, reach * reach * (0.5 - reach / (3.0 * error))
        mass = -error * math.expm1(-reach / error)
        return mass, error * (mass - reach * math.exp(-reach / error))

    at = min(max(guess, low), high)  # beyond the cell the law within it is the same for all guesses
    (above, up), (below, down) = beyond(high - at), beyond(at - low)
    return min(max(at + (up - down) / (above + below), low), high)


def likeliest_sealed(
    procedure: Procedure, place: float, interval: tuple[float, float], *, guess: float | None, nats: float,
    rounding: float,
) -> float:  # fmt: skip
    """Return the value of an answer that reveals only the label of its sealed interval.

    The label gives the middle of the sealed interval. If values are skewed, the sealed value is not in the middle.
    Public rows show which value has its interval around that middle (`Procedure.expected`). The distance between the
    sealed value and the middle is about proportional to the square of the width, so it is smaller if the label tells a
    narrower interval than expected. This matters for an array of predictions, which shows nothing about its errors on
    other rows.

    Args:
        procedure: Interval procedure of the query.
        place: Middle of the interval, as the label gives it.
        interval: Both ends of the interval, as the label gives them.
        guess: Guess in units of a mean. None if there is no guess.
        nats: ln(1 / level).
        rounding: Amount by which the sealed interval is wider on either side because of the grid.
    """
    (low, high), (least, most) = interval, procedure.frame
    size = most - least if most > least else 1.0
    farthest = widest_released(procedure.widest_if_honest(nats) + rounding, size)  # an end is that far at most (quotes)
    if not low < high or 2.0 * farthest <= high - low:
        return place
    if most > least:
        low, high = max(low, least), min(high, most)
    least, most = max(low, interval[1] - farthest), min(high, interval[0] + farthest)
    told, near = interval[1] - interval[0], min(max(place, least), most)
    for _ in range(_TURNS):
        ends = procedure.expected(near, nats)
        narrower = told / max(ends[1] - ends[0], told)
        near = min(max(place + narrower**2 * (near - (ends[0] + ends[1]) / 2.0), least), most)
    within = _STEP * (high - low) / 4.0  # half of the distance of two places
    return likeliest_in(
        max(near - within, least), min(near + within, most), guess=guess,
        error=procedure.standard_error(near),
    )  # fmt: skip


def widest_released(half: float, size: float = 1.0) -> float:
    """Return a bound of the distance from an answer's value to an end of its interval.

    Args:
        half: The largest half-width of a sealed interval.
        size: Length of the frame; see `Offsets`.
    """
    return min(max(WIDENING * half, _WIDEST * _RATIO**-_FINENESS * size), _WIDEST * size)


def _first_around(
    low: float, high: float, origin: float, halves: Iterable[float], *, most: float = math.inf
) -> tuple[float, float, int] | None:
    """Return middle, half-width and index of the first half-width with a fitting interval on the grid, or None."""
    for number, half in enumerate(halves):
        step = _STEP * half
        steps = round(((low + high) / 2.0 - origin) / step)
        place = origin + steps * step
        if place - half <= low and high <= place + half and abs(steps) <= most:
            return place, half, number
    return None


def _places(half: float) -> int:
    """Return an upper bound of the number of places with this half-width along [0, 1]."""
    return math.ceil(1.0 / (_STEP * half)) + 2


_LABELS = sum(_places(_WIDEST * _RATIO**-width) for width in range(_FINENESS + 1))


def _share_of_width(width: int) -> float:
    """Return the prior probability of a half-width near the expected one."""
    total: float = 3.0 - 2.0 ** (1 - _TIMES)
    return float(2.0 ** -abs(width)) / total


# Prices of results that are always told: which candidate is the best, and its rounded interval (S9).
#
# Each prior sums to at most 1 over all labels, so a prior that expects the wrong thing costs nats and no validity.


_FORCED_STEP = 0.125  # of places, in half-widths that are told
RATIO = 1.1  # of neighbouring half-widths
_MOST_STEPS = 100  # of half-widths, in either direction
_PLACES, _WIDTHS = 3.0, 0.5  # scales of the priors, in steps

WIDENED = RATIO / (1.0 - _FORCED_STEP / 2.0)
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

    The candidates are drawn one after the other. Half of the prior of each draw is uniform over the remaining
    candidates. The other half gives the probability ``1 / (r (r + 1))`` to the candidate with the r-th largest training
    estimate among them.

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
        above: Whether each candidate is above the threshold, shape (candidates,).
        chances: Public probability that each candidate is above it, shape (candidates,), in (0, 1).
        first: Whether only the first candidate above the threshold is told. Then half of the prior is uniform over all
            positions and "none".
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
        least = max(wanted / (1.0 - _FORCED_STEP / 2.0), self.half * RATIO**-_MOST_STEPS)
        width = math.floor(math.log(least / self.half) / math.log(RATIO)) - 1
        while True:
            half = self.half * RATIO**width
            steps = round((middle - self.place) / (_FORCED_STEP * half))
            at = self.place + steps * _FORCED_STEP * half
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
