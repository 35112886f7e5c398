"""Recall at a fixed false positive rate: a quantile of negatives, and a share of positives (docs/theory/composites.md).

A rule says 1 for the rows with the largest scores. The value is the largest recall of all rules whose false positive
rate is at most r. Rules are nested, so the limits of both rates grow from rule to rule, and only one rule, which is
fixed by the population, can make either limit miss (Statement C4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from everhold.guarantees.intervals.bets.betting import side_of
from everhold.guarantees.intervals.bets.joint import Units, best_stake, upper_end
from everhold.guarantees.intervals.composites.parts import OfScore
from everhold.guarantees.intervals.shares.means import ClopperPearson

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_ROUNDING = 1e-12


class ClassLimit(Protocol):
    """Protocol of a limit of a share, from the number of rows that count."""

    def __call__(self, count: int, *, upper: bool) -> float:
        """Return the upper or the lower limit."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenRules:
    """Counts of positives and negatives that each rule calls 1, from the strictest rule to the laxest.

    Attributes:
        score: Recall at the rate of these rows.
        hits: Shape (rules,): positive rows that a rule calls 1; rising.
        alarms: Shape (rules,): negative rows that it calls 1; rising.
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
    """Count for all rules that call rows 1 by a threshold of the score.

    Args:
        scores: Shape (rows,), no nan.
        positive: Shape (rows,).
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
        planned: What public rows say.
        training: Rows that guesses are made from.
        rate: r.
        unlike: Whether scores are known and labels are drawn anew on them; else rows are of one law.
    """

    planned: SeenRules
    rows: int
    training: int
    rate: float
    unlike: bool

    name: ClassVar[str] = "operating_point"
    title: ClassVar[str] = "limits of the false positive rate and of the recall of nested rules"
    why: ClassVar[str] = "only the best rule of the population can make either limit miss"

    def interval(self, seen: SeenRules, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; the recall of the sealed rows is always inside."""
        if not (seen.positives and seen.negatives):
            return 0.0, 1.0
        low, high = self._ends(seen, nats)
        return max(min(low, seen.score) - _ROUNDING, 0.0), min(max(high, seen.score) + _ROUNDING, 1.0)

    def _ends(self, seen: SeenRules, nats: float) -> tuple[float, float]:
        """Return both ends. Each side has two events, and each event a quarter of the level."""
        side = nats + math.log(2.0)
        alarms, recall = self._limit(seen.negatives, side), self._limit(seen.positives, side)
        surely = _last(seen.alarms, lambda count: alarms(count, upper=True) <= self.rate)
        maybe = _last(seen.alarms, lambda count: alarms(count, upper=False) <= self.rate)
        low = 0.0 if surely < 0 else recall(int(seen.hits[surely]), upper=False)
        return low, recall(int(seen.hits[maybe]), upper=True)

    def _limit(self, total: int, nats: float) -> ClassLimit:
        """Return the function from a count of rows that a rule calls 1 to a limit of their share of a class.

        Both limits grow with the number. Rows of one law: exact tails, given the labels. Labels of unlike laws: bets on
        a ratio, with stakes that are fixed by public facts.
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
        """See `Procedure.expected`; nothing is expected of a class that is probably empty."""
        likely = self._likely
        return OfScore.expected(self, guess, nats) if likely.positives and likely.negatives else (0.0, 1.0)

    @cached_property
    def _likely(self) -> SeenRules:
        """The planned rules with as many rows as are sealed."""
        scale = self.rows / max(self._planned_rows, 1)
        hits, alarms = (np.rint(counts * scale).astype(np.int64) for counts in (self.planned.hits, self.planned.alarms))
        return SeenRules(self.planned.score, hits, alarms)

    def _planned_ends(self, nats: float) -> tuple[float, float]:
        return self._ends(self._likely, nats)

    def standard_error(self, guess: float) -> float:
        """See `Procedure.standard_error`: of a share of the positives, twice as far as allowance for the quantile."""
        share = max(self.planned.positives / max(self._planned_rows, 1), 1e-9)
        spread = max(guess * (1.0 - guess), 0.25 / max(self.planned.positives, 1))
        return min(1.5 * math.sqrt(spread * (1.0 / (share * self.rows) + 1.0 / (share * self.training))), 1.0)

    @property
    def _error(self) -> float:
        return self.standard_error(0.5)


def _counted(ones: float, total: float) -> Units:
    """Return units in which so many rows of a class have the value 1."""
    return Units(np.ones(2), np.array([0.0, 1.0]), np.array([total - ones, ones]), 1.0)


def _last(counts: NDArray[np.int64], allowed: Callable[[int], bool]) -> int:
    """Return the last rule whose count is allowed, where allowed counts come first, or -1 if none is."""
    low, high = -1, len(counts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(int(counts[middle])) else (low, middle)
    return low
