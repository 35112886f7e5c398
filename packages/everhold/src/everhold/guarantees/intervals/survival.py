"""Survival at a time, and the mean time up to it, of rows that may be censored (docs/theory/survival.md, S19).

A row has a time X: that of its event, or the end of its follow-up if that comes first. Edges ``t_1 < ... < t_m`` are
fixed beforehand. Interval j is after ``t_(j-1)`` and up to ``t_j``; the first one holds all times up to ``t_1``. In
this interval n rows are at risk (X is in it or later), d rows have the event, and a rows are known to be alive at its
end. Let q be the chance that a row which survived all intervals before survives this one. If censoring is independent
of events, q is

    at least E a / E (a + d)   and at most   E (n - d) / E n ,

and these are equal if all times are edges. Survival at ``t_j`` is the product of the chances up to j.

For independent rows, n is known when an interval begins. So bets on all intervals, with stakes ``min(lambda / n,
cap)``, share one capital, which is fair at the true chances after every interval. For a claim about the product, the
capital is bounded from below over all chances in a box: by chords if its logarithm is concave, by tangents if it is
convex. Then the least value is found by filling intervals in the order of their slopes. For groups only the box is
used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from everhold.guarantees.intervals.joint import FRACTIONS, Units, doubt_of, log_of_sum
from everhold.guarantees.intervals.means import ClopperPearson
from everhold.guarantees.intervals.parts import OfScore, PartBets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_BOX = 1.0 / 8.0  # of the level, for the limits of single intervals, beside bets on all of them
_CAP = 0.9  # of the stake with which one row could lose everything
_HALVINGS, _ROUNDING = 45, 1e-12
_LEAST_CHANCE = 1e-300  # whose logarithm is taken for that of 0
_EVEN = -math.log(len(FRACTIONS))


@dataclass(frozen=True, slots=True, eq=False)
class SeenSurvival:
    """Numbers of rows at risk, events and survivors in each interval of time, for each unit or for all rows together.

    Attributes:
        at_risk: Number of rows at risk in each interval, shape (intervals, units).
        events: Number of rows with the event in the interval, in the same shape.
        alive: Number of rows known to be alive at the end of the interval, in the same shape.
        counts: Number of equal units, shape (units,).
        widths: Widths of the intervals as shares of the last edge, shape (intervals,), for the mean time up to this
            edge; None for survival at the edge.
    """

    at_risk: Numbers = field(repr=False)
    events: Numbers = field(repr=False)
    alive: Numbers = field(repr=False)
    counts: Numbers = field(repr=False)
    widths: Numbers | None = None

    @classmethod
    def expected(cls, intervals: int, *, rows: float, largest: float, widths: Numbers | None) -> SeenSurvival:
        """Return units to plan with if nothing is known: half survive, at a constant rate, and no row is censored.

        Args:
            intervals: Number of intervals of time.
            rows: Number of sealed rows.
            largest: Rows of the largest group, which all groups are expected to have.
            widths: Widths of the intervals of time, as in the attribute `widths`.
        """
        ends = np.arange(intervals)[:, None], np.arange(intervals + 1)[None]
        left = 0.5 ** (np.arange(intervals + 1) / intervals)
        chances = np.append(left[:-1] - left[1:], left[-1])
        events, alive = (largest * found.astype(np.float64) for found in (ends[0] == ends[1], ends[0] < ends[1]))
        return cls(events + alive, events, alive, chances * rows / largest, widths)

    @property
    def totals(self) -> tuple[Numbers, Numbers, Numbers]:
        """Rows at risk, events and rows alive at the end, of all units; shape (intervals,) each."""
        return self.at_risk @ self.counts, self.events @ self.counts, self.alive @ self.counts

    @property
    def curve(self) -> Numbers:
        """Estimated survival at each edge, shape (intervals,): a row censored within an interval counts as half."""
        at_risk, events, alive = self.totals
        followed = (at_risk + alive + events) / 2.0
        return _product(np.where(followed > 0.0, 1.0 - events / np.maximum(followed, _LEAST_CHANCE), 1.0))

    @property
    def score(self) -> float:
        """The estimated survival at the last edge, or mean time up to it as a share of that edge."""
        return sum(self.share(curve := self.curve, curve)) / 2.0

    def share(self, low: Numbers, high: Numbers) -> tuple[float, float]:
        """Return the least and the largest score for survival curves between ``low`` and ``high``."""
        if self.widths is None:
            return float(low[-1]), float(high[-1])
        before = np.append(1.0, high[:-1])  # survival never rises, so within an interval it is between its ends
        return float(self.widths @ low), float(self.widths @ before)

    def times(self, scale: float) -> SeenSurvival:
        """Return the same units with every count multiplied by ``scale``."""
        return replace(self, counts=self.counts * scale)

    def parts(self, largest: float) -> tuple[list[Units], list[Units]]:
        """Return for each interval of time the units of a ratio below, and of one above, the chance to survive it."""
        below = [(alive, alive + events) for alive, events in zip(self.alive, self.events, strict=True)]
        above = [(risk - events, risk) for risk, events in zip(self.at_risk, self.events, strict=True)]
        each = [[Units(size, value, self.counts, largest) for value, size in side] for side in (below, above)]
        return each[0], each[1]


@dataclass(frozen=True, eq=False)
class Survival(OfScore):
    """Interval procedure of survival at the last edge, or of the mean time up to it as a share of that edge (S19).

    Attributes:
        planned: Units of the training rows. Without training rows, those of `SeenSurvival.expected`.
        scale: Sealed rows for each planned row.
        largest: Rows of the largest group; None for independent rows.
    """

    planned: SeenSurvival
    scale: float
    rows: int
    largest: float | None

    widened: ClassVar[float] = _ROUNDING
    name: ClassVar[str] = "survival"
    title: ClassVar[str] = "betting on survival through intervals of time"
    why: ClassVar[str] = (
        "if censoring is independent of events, a fair bet against the true chances gains that much with this "
        "probability at most"
    )

    def _ends(self, seen: SeenSurvival, nats: float) -> tuple[float, float]:
        return seen.share(*self.curves(seen, nats))

    def curves(self, seen: SeenSurvival, nats: float) -> tuple[Numbers, Numbers]:
        """Return lower and upper limits of survival, valid at all edges at once; shape (intervals,) each."""
        if self.largest is not None:
            each = nats + math.log(len(seen.events))
            planned, units = (one.parts(self.largest) for one in (self.planned, seen))
            low, high = (
                [
                    PartBets(plan, self.scale).interval(unit, each)[end]
                    for plan, unit in zip(planned[end], units[end], strict=True)
                ]
                for end in (0, 1)
            )
            return _product(np.array(low)), _product(np.array(high))
        box, side = nats - math.log(_BOX), nats - math.log((1.0 - _BOX) / 2.0)
        most, least = (-np.log(np.maximum(each, _LEAST_CHANCE)) for each in _chances(seen, box))
        edges = range(1, len(least) + 1) if seen.widths is not None else [len(least)]
        lower, upper = (
            [math.exp(-_hazard(lines, least, most, side, edge, above=above)) for edge in edges]
            for lines, above in ((_concave(seen, least, most), True), (_convex(seen, least, most), False))
        )
        return np.array(lower), np.array(upper)

    def _planned_ends(self, nats: float) -> tuple[float, float]:
        return self.interval(self.planned.times(self.scale), nats)

    @property
    def _error(self) -> float:
        """Greenwood's standard error. For groups, the rows of a group are taken to be all alike."""
        at_risk, events, _ = self.planned.totals
        left = np.maximum(at_risk - events, 1.0)
        variance = np.cumsum(events / (np.maximum(at_risk, 1.0) * left)) * (1.0 + 1.0 / self.scale)
        errors = self.planned.curve * np.sqrt(variance * (self.largest or 1.0))
        return float(errors[-1] if self.planned.widths is None else self.planned.widths @ errors)


def _product(chances: Numbers) -> Numbers:
    """Return survival at each edge from the chances to survive each interval."""
    return np.asarray(np.cumprod(chances), dtype=np.float64)


def _chances(seen: SeenSurvival, nats: float) -> tuple[Numbers, Numbers]:
    """Return exact binomial limits of the chance to survive each interval, valid for all intervals at once."""
    at_risk, events, alive = seen.totals
    each = nats + math.log(len(events))
    sides = [(alive, alive + events, 0, 0.0), (at_risk - events, at_risk, 1, 1.0)]
    low, high = (
        [
            ClopperPearson(rows=rows, training=rows).interval(min(part / rows, 1.0), each)[end] if rows >= 1.0 else none
            for part, rows in zip(parts, whole, strict=True)
        ]
        for parts, whole, end, none in sides
    )
    return np.array(low), np.array(high)


Lines = tuple["Numbers", "Numbers"]
"""Of each bet the least gain of every interval at the least hazard of the box, and its slope; (stakes, intervals)."""


def _stakes(at_risk: Numbers) -> Numbers:
    """Return the stakes of bets in each interval, shape (stakes, intervals), from the numbers of rows at risk.

    A stake depends only on the number of rows at risk when its interval begins, so it is fixed before the bet.
    """
    return np.asarray(np.minimum(FRACTIONS[:, None] * at_risk[0] / np.maximum(at_risk, 1.0), _CAP))


def _concave(seen: SeenSurvival, least: Numbers, most: Numbers) -> Lines:
    """Return straight lines (chords) below the log capital of bets that more rows survive than is claimed."""
    at_risk, events, alive = seen.totals
    stakes = _stakes(at_risk)

    def gains(hazard: Numbers) -> Numbers:
        chance = np.exp(-hazard)
        return np.asarray(alive * np.log1p(stakes * (1.0 - chance)) + events * np.log1p(-stakes * chance))

    room = most - least
    return gains(least), (gains(most) - gains(least)) / np.where(room > 0.0, room, 1.0)


def _convex(seen: SeenSurvival, least: Numbers, most: Numbers) -> Lines:
    """Return straight lines (tangents) below the log capital of bets that fewer rows survive than is claimed."""
    at_risk, events, _ = seen.totals
    stakes, left = _stakes(at_risk), at_risk - events
    touch = np.clip(-np.log(np.maximum(left / np.maximum(at_risk, 1.0), _LEAST_CHANCE)), least, most)
    chance = np.exp(-touch)
    gains = left * np.log1p(-stakes * (1.0 - chance)) + events * np.log1p(stakes * chance)
    slopes = -stakes * chance * (left / (1.0 - stakes * (1.0 - chance)) + events / (1.0 + stakes * chance))
    return gains + slopes * (least - touch), slopes


def _hazard(lines: Lines, least: Numbers, most: Numbers, nats: float, edge: int, *, above: bool) -> float:
    """Return the bound of a hazard (minus log survival up to an edge) beyond which all hazards are excluded.

    Args:
        lines: Straight lines below the log capital of each bet in each interval.
        least: The least possible hazard in each interval.
        most: The largest possible hazard in each interval.
        nats: ln(1 / level) of this side.
        edge: Number of intervals up to the edge.
        above: True if larger hazards are excluded; False if smaller ones are.
    """
    start, room = float(least[:edge].sum()), (most - least)[:edge]
    paid = nats + float(doubt_of(1e9, np.array(2.0)))
    filled = []
    for begins, slopes in zip(*lines, strict=True):
        order = np.argsort(slopes[:edge])  # the hazard goes where the capital gains least
        within = np.append(0.0, np.cumsum(room[order]))
        filled.append((within, np.append(0.0, np.cumsum((room * slopes[:edge])[order])) + begins[:edge].sum()))

    def is_excluded(hazard: float) -> bool:
        gains = np.array([np.interp(hazard - start, *line) for line in filled])
        return float(log_of_sum(gains + _EVEN, axis=0)) >= paid

    ends = start, start + float(room.sum())
    excluded, inside = ends[::-1] if above else ends
    if not is_excluded(excluded):
        return excluded
    for _ in range(_HALVINGS):
        middle = (excluded + inside) / 2.0
        excluded, inside = (middle, inside) if is_excluded(middle) else (excluded, middle)
    return excluded
