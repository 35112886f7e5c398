"""Scores computed from a few means or ratios, each with a share of the level (docs/theory/composites.md).

A part is a mean of row values, or a ratio of two such means. If part j misses with probability at most ``share_j``
times the level, and the shares add up to 1, then all parts hold at once with the level. The score lies between its
least and its largest value over all values of the parts that are not excluded (Statement C1).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from everhold.guarantees.intervals.base import Needs, Procedure
from everhold.guarantees.intervals.betting import Bets, Prediction, side_of
from everhold.guarantees.intervals.joint import FRACTIONS, JointBets, Units, first_excluded
from everhold.guarantees.intervals.means import ClopperPearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bounds = Callable[["NDArray[np.float64]", "NDArray[np.float64]"], tuple[float, float]]
"""From lower and upper ends of the parts, shape (parts,) each, to the least and the largest score in between."""

_MOST_KINDS = 2**10  # beyond them, values are lotteries over the ends of a cell, and the time hardly tells their number
_FINE = 2**10  # cells of [0, 1]
_MOST_RATIO = 1e12
_LEAST_ERROR, _ROUNDING = 1e-9, 1e-12


def units_of(
    numerators: NDArray[np.float64], denominators: NDArray[np.float64], *, counts: NDArray[Any] | None = None,
    largest: float = 1.0, public: bool = False,
) -> Units:  # fmt: skip
    """Return units of numerators and denominators, equal ones merged, without units in which both are 0.

    Args:
        numerators: Numerator of each unit, not negative, shape (units,).
        denominators: Denominator of each unit, shape (units,): 1 for the mean of single rows.
        counts: Number of units with each pair, shape (units,); None if each pair is one unit.
        largest: Number of rows that no unit exceeds.
        public: True if denominators are public, as sizes of groups are.
    """
    within = (denominators > 0.0) | (numerators > 0.0)
    pairs = np.asarray(numerators[within] + 1j * denominators[within])
    mass = np.ones(len(pairs)) if counts is None else counts[within].astype(np.float64)
    if mass.sum() > _MOST_KINDS and largest == 1.0 and bool(np.all(denominators[within] == 1.0)):
        # lotteries: each value is split between two neighbouring grid points, with the same mean
        place = np.clip(pairs.real, 0.0, 1.0) * _FINE
        cell = np.minimum(np.floor(place), _FINE - 1).astype(np.int64)
        up = np.bincount(cell + 1, (place - cell) * mass, _FINE + 1)
        split = up + np.bincount(cell, (1.0 - (place - cell)) * mass, _FINE + 1)
        filled = split > 0.0
        ends = np.linspace(0.0, 1.0, _FINE + 1)[filled]
        return Units(np.ones_like(ends), ends, np.asarray(split[filled], dtype=np.float64), 1.0)
    if counts is None:
        pairs, found = np.unique(pairs, return_counts=True)
        mass = found.astype(np.float64)
    return Units(pairs.imag.copy(), pairs.real.copy(), mass, largest, public)


@dataclass(frozen=True, slots=True, eq=False)
class SeenParts:
    """The evaluated parts of a score, each in the form that its interval procedure needs.

    Attributes:
        score: The score of all sealed rows.
        parts: For each part its units. For an AUC, its scores.
    """

    score: float = field(repr=False)
    parts: tuple[Any, ...] = field(repr=False)


class PartInterval(Protocol):
    """Protocol of the procedure that makes the interval of one part of a score, as a `Procedure` does."""

    def interval(self, seen: Any, nats: float) -> tuple[float, float]:
        """Return both ends of the interval at the level ``exp(-nats)`` of both sides together."""

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess from the sealed value of this part."""


@dataclass(frozen=True, eq=False)
class PartBets(Bets):
    """Bets on a mean, or on a ratio whose numerator is never larger than its denominator.

    Attributes:
        planned: Public units that show how far values spread: those of the training rows, or a guess at them.
        scale: Sealed units for each planned one.
    """

    planned: Units
    scale: float

    name: ClassVar[str] = "part"
    title: ClassVar[str] = "betting"
    needs: ClassVar[Needs] = "statistic"

    @cached_property
    def prediction(self) -> Prediction:
        """Prediction of the sealed units' spread from the planned units."""
        return Prediction.of(self.planned, scale=self.scale)

    def _units(self, seen: Units) -> Units:
        return seen


@dataclass(frozen=True, eq=False)
class CountedPart(ClopperPearson):
    """Exact binomial limits of a share of independent rows."""

    def interval(self, seen: Units, nats: float) -> tuple[float, float]:  # type: ignore[override]
        """Return both ends of the interval at the level ``exp(-nats)``, for rows whose mean is the sealed share."""
        return ClopperPearson.interval(self, seen.mean, nats)


@dataclass(frozen=True, eq=False)
class FreeRatio:
    """Bets on a ratio of two means of values in [0, 1], of which either may be the larger (Statement C2).

    Attributes:
        planned: Units from which stakes are planned, as for `PartBets`. Their sizes are the denominators.
    """

    planned: Units
    scale: float

    def interval(self, seen: Units, nats: float) -> tuple[float, float]:
        """Return both ends of the ratio's interval at the level ``exp(-nats)``. The upper end may be infinite."""
        turned = Units(seen.values, seen.sizes, seen.counts, seen.largest)
        inverse = free_ratio_end(turned, side_of(nats))
        return 0.0 if math.isinf(inverse) else 1.0 / inverse, free_ratio_end(seen, side_of(nats))

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess from the sealed ratio, by the delta method."""
        units, scale = self.planned, self.scale
        if not units.total > 0.0:
            return 1.0
        squares = float(np.sum(units.counts * (units.values - guess * units.sizes) ** 2))
        return math.sqrt(squares * (1.0 + 1.0 / scale)) / units.total


def free_ratio_end(units: Units, nats: float) -> float:
    """Return the least ratio that is excluded with all larger ratios, rounded up; infinity if none is (Statement C2).

    The capital at theta is the average over fixed stakes l of the products of ``1 + l (theta V - U) / N``, where N is
    the largest size. It grows with theta.

    Args:
        units: Sizes are denominators V, values are numerators U, both at most ``largest``.
        nats: ln(1 / level) of this side.
    """
    above, below = float(units.counts @ units.values), float(units.counts @ units.sizes)
    if not above < _MOST_RATIO * below:
        return math.inf
    mean, equal = above / below, np.full(len(FRACTIONS), -math.log(len(FRACTIONS)))
    moves = np.stack([-units.values, units.sizes], axis=-1)[None]
    bets = JointBets(moves, np.array([[units.largest, 0.0]]), units.counts, FRACTIONS, equal)
    spread = float(units.counts @ (units.values - mean * units.sizes) ** 2)
    start = mean + (math.sqrt(2.0 * nats * spread) + nats * units.largest) / below
    end = first_excluded(bets.at, nats, inside=mean, outside=_MOST_RATIO, start=start)
    return math.nextafter(end, math.inf) if end < _MOST_RATIO else math.inf


def around(score: float, ends: tuple[float, float], rounding: float = 0.0) -> tuple[float, float]:
    """Return an interval widened by `rounding`, within [0, 1], and extended so that it contains the sealed score.

    Examples:
        >>> around(0.5, (0.6, 0.9)), around(0.5, (0.0, 0.9), 0.25)
        ((0.5, 0.9), (0.0, 1.0))
    """
    low, high = ends
    return max(min(low, score) - rounding, 0.0), min(max(high, score) + rounding, 1.0)


class OfScore(Procedure):
    """Base of interval procedures of scores, which are planned from the score of public rows.

    Attributes:
        planned: The summary of public rows, which has their ``score``.
        rows: Number of sealed rows.
    """

    planned: Any
    rows: int

    needs: ClassVar[Needs] = "statistic"
    of_all_rows: ClassVar[bool] = False

    __eq__ = object.__eq__  # that of `Procedure` compares the fields of `Procedure`, of which there are none
    __hash__ = object.__hash__

    widened: ClassVar[float] = 0.0
    """Amount by which intervals are widened at either end, for what arithmetic rounds."""

    @abstractmethod
    def _ends(self, seen: Any, nats: float) -> tuple[float, float]:
        """Return the least and the largest score that is not excluded."""

    def interval(self, seen: Any, nats: float) -> tuple[float, float]:
        """Return both ends of the score's interval, which contains the score of the sealed rows."""
        return around(seen.score, self._ends(seen, nats), self.widened)

    def _planned_ends(self, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed rows are like the planned ones."""
        return self._ends(self.planned, nats)

    @property
    @abstractmethod
    def _error(self) -> float:
        """The expected distance of an honest guess from the sealed score."""

    def standard_error(self, guess: float) -> float:
        """Return the expected distance of an honest guess from the sealed score, the same for every guess."""
        return min(max(self._error, _LEAST_ERROR), 1.0)

    @property
    def worth(self) -> float:
        """Number of yes-or-no rows whose share would have the same standard error, at most all sealed rows."""
        return min(0.25 / max(self._error, _LEAST_ERROR) ** 2, float(self.rows))

    @cached_property
    def _expected(self) -> dict[float, tuple[float, float]]:
        return {}

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """Return the interval that results if the sealed rows are like the planned ones, shifted to the guess."""
        if nats not in self._expected:
            self._expected[nats] = self._planned_ends(nats)
        low, high = self._expected[nats]
        moved = guess - self.planned.score
        return max(min(low + moved, guess), 0.0), min(max(high + moved, guess), 1.0)


@dataclass(frozen=True, eq=False)
class Composite(OfScore):
    """Interval procedure of a score: its range over all values of its parts that are not excluded (Statement C1).

    Attributes:
        parts: The interval procedure of each part.
        shares: Share of the level of each part; they add up to 1 at most.
        bounds: Function from the ends of all parts to the least and the largest score.
        planned: The parts of the sealed rows as public facts predict them.
    """

    parts: tuple[PartInterval, ...]
    shares: tuple[float, ...]
    bounds: Bounds
    planned: SeenParts
    rows: int

    name: ClassVar[str] = "score_of_parts"
    title: ClassVar[str] = "intervals of the parts of a score, each with a share of the level"
    why: ClassVar[str] = (
        "all parts hold at once with this probability, and the score lies between its extremes over them"
    )

    def __post_init__(self) -> None:
        if not len(self.parts) == len(self.shares) or sum(self.shares) > 1.0 + 1e-12:
            raise ValueError(
                f"The shares of the level are {self.shares}. Pass one share for each part, which sum to at most 1."
            )

    def _ends(self, seen: SeenParts, nats: float) -> tuple[float, float]:
        """Return the least and the largest score over the intervals of all parts."""
        ends = [
            part.interval(units, nats - math.log(share))
            for part, units, share in zip(self.parts, seen.parts, self.shares, strict=True)
        ]
        low, high = np.array(ends, dtype=np.float64).T
        least, most = self.bounds(low, high)
        return least - _ROUNDING, most + _ROUNDING

    @cached_property
    def _error(self) -> float:
        """The standard error by the delta method, with independent errors of the parts."""
        means = np.array([part.score for part in self.planned.parts])
        moves = []
        for place, part in enumerate(self.parts):
            reach = np.zeros(len(means))
            reach[place] = part.standard_error(means[place])
            low, high = self.bounds(means - reach, means + reach)
            moves.append(max(high - low, 0.0) / 2.0)
        return math.hypot(*moves)
