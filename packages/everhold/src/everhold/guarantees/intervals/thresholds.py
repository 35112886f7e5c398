"""Recall at a fixed false positive rate, the median loss, and the calibration error by bins.

The statements are in docs/theory/composites.md.

A rule says 1 for the rows with the largest scores. The value is the largest recall of all rules whose false positive
rate is at most r. Each rule predicts 1 for all rows of the stricter rules, so the limits of both rates grow from rule
to rule. The population determines the one rule for which a limit can miss (Statement C4).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from everhold.guarantees.intervals.betting import side_of
from everhold.guarantees.intervals.joint import Units, best_stake, first_excluded, log_of_sum, upper_end
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.parts import OfScore, PartInterval

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_ROUNDING = 1e-12


class ClassLimit(Protocol):
    """Protocol of a function that returns a confidence limit of a class's share from a count of its rows."""

    def __call__(self, count: int, *, upper: bool) -> float:
        """Return the upper or the lower limit of the share of rows counted."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenRules:
    """Numbers of positive and negative rows that each threshold rule predicts as 1, strictest rule first.

    Attributes:
        score: Recall of these rows at the largest allowed false positive rate.
        hits: Number of positive rows that each rule predicts as 1, rising, shape (rules,).
        alarms: Number of negative rows that each rule predicts as 1, rising, shape (rules,).
    """

    score: float = field(repr=False)
    hits: NDArray[np.int64] = field(repr=False)
    alarms: NDArray[np.int64] = field(repr=False)

    @property
    def positives(self) -> int:
        """Number of positive rows."""
        return int(self.hits[-1])

    @property
    def negatives(self) -> int:
        """Number of negative rows."""
        return int(self.alarms[-1])


def seen_rules(scores: NDArray[np.float64], positive: NDArray[np.bool_], rate: float) -> SeenRules:
    """Count the rows predicted as 1 by each rule "the score is at least a threshold".

    Args:
        scores: Scores of the rows without nan, shape (rows,).
        positive: True for rows of the positive class, shape (rows,).
        rate: r, the largest false positive rate.

    Examples:
        >>> seen_rules(np.array([0.9, 0.8, 0.4, 0.1]), np.array([True, False, True, False]), 0.1).score
        0.5
    """
    order = np.argsort(-scores, kind="stable")
    falls = np.flatnonzero(scores[order][1:] != scores[order][:-1])
    last = np.append(falls, len(order) - 1) if len(order) else np.zeros(0, np.intp)
    hits = np.append(0, np.cumsum(positive[order])[last]).astype(np.int64)
    alarms = np.append(0, np.cumsum(~positive[order])[last]).astype(np.int64)
    allowed = np.flatnonzero(alarms <= rate * alarms[-1])
    found = float(hits[allowed[-1]]) / float(hits[-1]) if hits[-1] else 0.0
    return SeenRules(found, hits, alarms)


@dataclass(frozen=True, eq=False)
class OperatingPoint(OfScore):
    """Interval procedure of the recall at a false positive rate.

    Attributes:
        planned: Numbers of rows of both labels beyond each threshold, as public facts predict them for the sealed rows.
        training: Number of rows from which guesses are made.
        rate: The false positive rate r.
        unlike: True if the promise is about labels drawn anew on rows with known scores. False if rows are identically
            distributed.
    """

    planned: SeenRules
    rows: int
    training: int
    rate: float
    unlike: bool

    widened: ClassVar[float] = _ROUNDING
    name: ClassVar[str] = "operating_point"
    title: ClassVar[str] = "limits of the false positive rate and of the recall of nested rules"
    why: ClassVar[str] = "only the best rule of the population can make either limit miss"

    def interval(self, seen: SeenRules, nats: float) -> tuple[float, float]:
        """Return both ends of the interval, which contains the recall of the sealed rows. Without a class 0 and 1."""
        return OfScore.interval(self, seen, nats) if seen.positives and seen.negatives else (0.0, 1.0)

    def _ends(self, seen: SeenRules, nats: float) -> tuple[float, float]:
        """Return both ends of the recall's interval. Each side has two events, each at a quarter of the level."""
        side = nats + math.log(2.0)
        alarms, recall = self._limit(seen.negatives, side), self._limit(seen.positives, side)
        surely, maybe = (
            bisect_right(seen.alarms, self.rate, key=lambda count: alarms(int(count), upper=upper)) - 1
            for upper in (True, False)
        )
        low = 0.0 if surely < 0 else recall(int(seen.hits[surely]), upper=False)
        return low, recall(int(seen.hits[maybe]), upper=True)

    def _limit(self, total: int, nats: float) -> ClassLimit:
        """Return the function from a count of rows predicted as 1 to a limit of their share of a class.

        Both limits grow with the count. For rows of one law they are exact tails, given the labels. For labels of
        unlike laws they are bets on a ratio, with stakes that are fixed by public facts.
        """
        if not self.unlike:
            exact = ClopperPearson(rows=total, training=total)
            return lambda count, *, upper: exact.interval(count / total, nats)[int(upper)]
        side = side_of(nats)
        planned = max(self.planned.positives * self.rows / max(self._planned_rows, 1), 1.0)
        stake = best_stake(_counted(planned / 2.0, planned), side)

        def limit(count: int, *, upper: bool) -> float:
            units = _counted(float(count), float(total))
            return upper_end(units, stake, side) if upper else 1.0 - upper_end(units.mirrored, stake, side)

        return limit

    @property
    def _planned_rows(self) -> int:
        return self.planned.positives + self.planned.negatives

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the planned interval shifted to the guess, or 0 and 1 if a class is probably empty."""
        likely = self._likely
        return OfScore.expected(self, guess, nats) if likely.positives and likely.negatives else (0.0, 1.0)

    @cached_property
    def _likely(self) -> SeenRules:
        """The planned rules, with counts scaled to the number of sealed rows."""
        scale = self.rows / max(self._planned_rows, 1)
        hits, alarms = (np.rint(counts * scale).astype(np.int64) for counts in (self.planned.hits, self.planned.alarms))
        return SeenRules(self.planned.score, hits, alarms)

    def _planned_ends(self, nats: float) -> tuple[float, float]:
        return self._ends(self._likely, nats)

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess: half as much again as that of a share of the positives."""
        share = max(self.planned.positives / max(self._planned_rows, 1), 1e-9)
        spread = max(guess * (1.0 - guess), 0.25 / max(self.planned.positives, 1))
        return min(1.5 * math.sqrt(spread * (1.0 / (share * self.rows) + 1.0 / (share * self.training))), 1.0)

    @property
    def _error(self) -> float:
        return self.standard_error(0.5)


def _counted(ones: float, total: float) -> Units:
    """Return units for ``total`` rows of a class, of which ``ones`` have the value 1 and the others 0."""
    return Units(np.ones(2), np.array([0.0, 1.0]), np.array([total - ones, ones]), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class SeenLosses:
    """Losses of rows, from which the interval of their median is made.

    Attributes:
        score: Median loss of the rows.
        edges: Losses that occur, in [0, 1] and rising, shape (edges,).
        up_to: Function from an edge to units, whose mean is the share of rows with at most this loss.
    """

    score: float = field(repr=False)
    edges: NDArray[np.float64] = field(repr=False)
    up_to: Callable[[float], Units] = field(repr=False)


@dataclass(frozen=True, eq=False)
class MedianOfLosses(OfScore):
    """Interval procedure of the median loss, by limits of the shares of rows up to each loss (Statement C5).

    Attributes:
        planned: Losses of public rows, with counts scaled to the number of sealed rows.
        share: The interval procedure of the share of rows with at most a given loss.
    """

    planned: SeenLosses
    rows: int
    share: PartInterval

    widened: ClassVar[float] = _ROUNDING
    name: ClassVar[str] = "median_of_losses"
    title: ClassVar[str] = "limits of the shares of rows up to each loss"
    why: ClassVar[str] = "shares of nested sets of rows grow, so only the share at the true median can make it miss"

    def _ends(self, seen: SeenLosses, nats: float) -> tuple[float, float]:
        """Return both ends of the median's interval, from intervals of the shares of rows up to each loss."""

        def leading(side: int, most: float) -> int:
            """Count the first edges for which one end of the share's interval is at most ``most``."""
            return bisect_right(seen.edges, most, key=lambda edge: self.share.interval(seen.up_to(edge), nats)[side])

        below, above = leading(1, math.nextafter(0.5, 0.0)), leading(0, 0.5)
        low = float(seen.edges[min(below, len(seen.edges) - 1)]) if below else 0.0
        return low, float(seen.edges[above]) if above < len(seen.edges) else 1.0

    @cached_property
    def _error(self) -> float:
        """Half of the distance between the planned losses one standard error of a share below and above 1/2."""
        edges, apart = self.planned.edges, self.share.standard_error(0.5)
        if not len(edges):
            return 1.0
        low, high = (
            edges[min(bisect_left(edges, at, key=lambda edge: self.planned.up_to(edge).mean), len(edges) - 1)]
            for at in (0.5 - apart, 0.5 + apart)
        )
        return float(high - low) / 2.0


# The expected calibration error by bins: a largest value over signs needs one level (docs/theory/composites.md).
#
# With bins b of probabilities p and labels y, ``ECE = sum_b |E (y - p) 1_b|`` is the largest ``E X_s`` over signs s,
# one for each bin, where ``X_s = s_b (y - p)`` in bin b. For fixed stakes, the capital of a bet on X_s is a product
# over bins. So all signs are looked at in one pass (Statement C3).

_HALF = 256  # cells of [0, 1]
_VALUES = np.arange(-_HALF, _HALF + 1) / _HALF
_STAKES = 0.9 * 2.0 ** (-np.arange(24) / 2.0)
_TOLERANCE, _STEPS = 1e-8, 34  # of the search for an end, which takes the same time for all rows
_DOUBT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class SeenBins:
    """Numbers of rows by the bin of the predicted probability and by the label minus the probability.

    Attributes:
        score: The calibration error of these rows.
        mass: Shape (bins + 1, values): rows, each split between two grid points of [-1, 1] with the same mean.
    """

    score: float = field(repr=False)
    mass: NDArray[np.float64] = field(repr=False)


def seen_bins(probabilities: NDArray[np.float64], labels: NDArray[np.float64], bins: int) -> SeenBins:
    """Count rows by bin of their probability and by label minus probability, and compute the calibration error.

    Args:
        probabilities: Probabilities of label 1, shape (rows,). Rows with nan have the distance 1 in a bin of their own.
        labels: 0 or 1, shape (rows,).
        bins: Number of bins of equal width in [0, 1].

    Examples:
        >>> round(seen_bins(np.array([0.1, 0.1, 0.9, 0.9]), np.array([0, 0, 1, 0]), 10).score, 3)
        0.25
    """
    faults = np.isnan(probabilities)
    told = np.where(faults, 0.0, probabilities)
    bin_of = np.where(faults, bins, np.minimum((told * bins).astype(np.int64), bins - 1))
    apart = np.where(faults, 1.0, labels - told)
    score = float(np.sum(np.abs(np.bincount(bin_of, apart, bins + 1)))) / max(len(apart), 1)
    place = (apart + 1.0) * _HALF
    cell = np.minimum(np.floor(place), 2 * _HALF - 1).astype(np.int64)
    mass = np.zeros((bins + 1, 2 * _HALF + 1))
    np.add.at(mass, (bin_of, cell), 1.0 - (place - cell))
    np.add.at(mass, (bin_of, cell + 1), place - cell)
    return SeenBins(min(score, 1.0), mass)


def calibration_ends(mass: NDArray[np.float64], nats: float) -> tuple[float, float]:
    """Return lower and upper limit of the calibration error, each at the level ``exp(-nats)`` (Statement C3).

    The errors of the bins have unknown signs. At the upper end an error is excluded if the capital is large enough for
    all signs, because the capital for the true signs is fair. At the lower end the capital is averaged over all signs.

    Args:
        mass: Numbers of rows by bin and by label minus probability, as in `SeenBins`.
        nats: ln(1 / level) of one side.
    """
    turned, doubt = mass[:, ::-1], _DOUBT + 1e-14 * float(mass.sum())

    def capital(at: float, *, above: bool) -> float:
        if above:
            steps = np.log1p(_STAKES[:, None] * (at - _VALUES) / (1.0 - at))
            logs = np.minimum(steps @ mass.T, steps @ turned.T).sum(axis=1)
        else:
            steps = np.log1p(_STAKES[:, None] * (_VALUES - at) / (1.0 + at))
            logs = (np.logaddexp(steps @ mass.T, steps @ turned.T) - math.log(2.0)).sum(axis=1)
        return float(log_of_sum(logs, axis=0)) - math.log(len(_STAKES)) - doubt

    find = partial(first_excluded, nats=nats, start=0.5, tolerance=_TOLERANCE, steps=_STEPS)
    low = find(partial(capital, above=False), inside=1.0, outside=0.0) if capital(0.0, above=False) >= nats else 0.0
    high = find(partial(capital, above=True), inside=0.0, outside=1.0)
    return low, high


@dataclass(frozen=True, eq=False)
class CalibrationBets(OfScore):
    """Interval procedure of a calibration error over independent rows, whose laws may differ.

    Attributes:
        planned: Counts of public rows.
        training: Number of rows from which guesses are made.
    """

    planned: SeenBins
    rows: int
    training: int

    widened: ClassVar[float] = _ROUNDING
    name: ClassVar[str] = "calibration_betting"
    title: ClassVar[str] = "betting on the calibration of all bins at once"
    why: ClassVar[str] = "the error is the largest mean over signs of bins, and one fair bet against it is enough"

    def _ends(self, seen: SeenBins, nats: float) -> tuple[float, float]:
        return calibration_ends(seen.mass, side_of(nats))

    def _planned_ends(self, nats: float) -> tuple[float, float]:
        scale = self.rows / max(float(self.planned.mass.sum()), 1.0)
        return calibration_ends(self.planned.mass * scale, side_of(nats))

    @cached_property
    def _error(self) -> float:
        """Standard error of the calibration error, from the independent means of the bins."""
        squares = self.planned.mass @ _VALUES**2 / max(float(self.planned.mass.sum()), 1.0)
        scatter = math.sqrt(float(squares.sum()) * (1.0 / self.rows + 1.0 / self.training))
        larger = abs(self.rows**-0.5 - self.training**-0.5) * float(np.sqrt(squares).sum())
        return float(min(scatter + larger, 1.0))
