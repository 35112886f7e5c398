"""Units and measures of means: how a number in [0, 1] is converted for readers, and what it measures.

A measure is, for example, the accuracy of a model, a share of rows, an average or a loss. Units and measure are not
part of a query's identity. The ledger stores both beside the query, so that its answer can be read later without the
query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.values.base import BoundQuery, Pair

DIFFERENCE_OF_MEANS, DIFFERENCE_OF_RATES = "difference of arms", "difference of arms in a rate"
"""Kinds of queries that compare two arms."""

SURVIVAL, MEAN_SURVIVAL = "survival", "restricted mean survival"
"""Kinds of queries about times that may be censored."""

RATES = frozenset({"right", "wrong", "share", "precision", "recall"})
"""Measures that are shares of rows, and read as per cent."""

POINTS = frozenset({"right more", "wrong more", "points"})
"""Measures that are differences of shares, and read as percentage points."""

_DIFFERENCES = {"right": "right more", "wrong": "wrong more", "share": "points", "loss": "loss more"}
_MIRRORED = {
    "right": "wrong", "wrong": "right", "right more": "points", "wrong more": "points", "points": "points",
    "loss more": "difference", "difference": "difference",
}  # fmt: skip

MEASURES = RATES | {*_DIFFERENCES.values(), "difference", "mean", "loss", "value"}
"""All measures, where ``"value"`` is a number of which no more is known."""


def measure_of(bound: BoundQuery) -> str:
    """Return the name of what a query measures, such as "right" or "wrong", an entry of `MEASURES`.

    Examples:
        >>> from everhold.values.base import BoundQuery
        >>> measure_of(BoundQuery({"kind": "accuracy"}, "accuracy of model", at_zero=1.0, at_one=0.0))
        'wrong'
    """
    if bound.pair is not None:
        return _of_pair(bound.pair, bound)
    kind = bound.description.get("kind")
    if kind == "accuracy":
        return "right" if bound.at_one > bound.at_zero else "wrong"
    if kind in ("brier", "risk"):
        return "loss"
    if kind == "score":
        return "value"
    if kind == "assisted mean":
        return "share" if (bound.at_zero, bound.at_one) == (0.0, 1.0) else "mean"
    if kind == SURVIVAL:
        return "share"
    if kind == DIFFERENCE_OF_RATES:
        return "points"
    if kind in ("auc difference", "score difference", DIFFERENCE_OF_MEANS):
        return "difference"
    return "share" if bound.yes_no else "mean"


def _of_pair(pair: Pair, bound: BoundQuery) -> str:
    first, second = measure_of(pair.first), measure_of(pair.second)
    if pair.how == "difference":
        if first != second:
            return "points" if {first, second} <= RATES else "difference"
        return _DIFFERENCES.get(first, "difference")
    if pair.how in ("within", "outside"):
        return "share" if bound.yes_no else "mean"
    if pair.first.description.get("of") == "hits" and pair.first.description.get("kind") == "count":
        rate = str(pair.second.description.get("of"))
        return rate if rate in RATES else "value"
    return "share" if first in RATES else "mean"


def mirrored(measure: str) -> str | None:
    """Return the measure of the opposite number, such as "wrong" for "right", or None if there is no opposite.

    The opposite of a difference is only called a difference, because it may be unknown which model is subtracted.
    """
    return _MIRRORED.get(measure)


_TOLD, _SEALED, _BARE = ("value", "low", "high"), ("sealed", "sealed_low", "sealed_high"), ("estimate", "guess")

_VECTORS, _BINS = "gradient", "quantile"  # kinds that keep their units in their own description

UNITS = "reads"
"""Name of the field of an entry's description that holds the query's units."""

GAIN_WIDTH = "width"
"""Name of the field of a challenge's description that holds what a gain of 1 is worth, unless that is 1."""

GAIN_OPEN = "unbounded"
"""Name of the field of a challenge's description that is true if gains can go beyond their scale."""

_Number = float | None


def with_open_ends(
    value: _Number, low: _Number, high: _Number, *, least: float, most: float, unbounded: tuple[bool, bool]
) -> tuple[_Number, _Number, _Number]:
    """Make a number and its interval infinite at ends of the scale beyond which values may lie.

    At an open end of the scale the number can be any value beyond it. So a number, or an end of its interval, that lies
    at an open end becomes infinite. A lower end of the interval at the upper end of the scale stays unchanged, because
    the number is at least that.

    Args:
        value: The number on the scale; None if no number is told.
        low: Lower end of its interval.
        high: Upper end of the number's interval.
        least: Lower end of the scale.
        most: Upper end of the scale.
        unbounded: Two flags: True if the number can be below ``least``, and True if it can be above ``most``.

    Examples:
        >>> with_open_ends(-1.0, -1.0, 0.25, least=-1.0, most=1.0, unbounded=(True, False))
        (-inf, -inf, 0.25)
        >>> with_open_ends(2.0, 1.5, 2.0, least=-2.0, most=2.0, unbounded=(True, True))
        (inf, 1.5, inf)
    """
    below, above = unbounded
    if value is not None:
        value = -math.inf if below and value <= least else math.inf if above and value >= most else value
    low = -math.inf if low is not None and below and low <= least else low
    high = math.inf if high is not None and above and high >= most else high
    return value, low, high


def in_own_units(row: Mapping[str, Any], description: Mapping[str, Any], *, row_step: float) -> dict[str, Any]:
    """Convert a row of a transcript or of an unsealed study to the numbers that `ask` returned.

    If the ledger stores no units for the entry, the numbers stay as they are, as means over [0, 1].

    Args:
        row: Numbers as the ledger holds them, by name.
        description: The description of the ledger entry.
        row_step: One step of the grid of row values.
    """
    reading = MeanUnits.kept(description)
    if reading is not None:
        return reading.of_row(row, row_step=row_step)
    kind = description.get("kind")
    if kind == _VECTORS and isinstance(row.get("value"), list):
        width = 2.0 * description["clip"]
        read = {name: [width * (mean - 0.5) for mean in row[name]] for name in _TOLD}
        return {**row, **read, "within": None if row["within"] is None else width * row["within"]}
    if kind == "challenge":
        # From gains in [0, 1] to the units of the metric, infinite at open ends
        width, is_open = float(description.get(GAIN_WIDTH, 1.0)), bool(description.get(GAIN_OPEN))
        shown = dict(row)
        for names in (_TOLD, _SEALED):
            gains = [None if row.get(name) is None else width * row[name] for name in names]
            told = with_open_ends(*gains, least=-width, most=width, unbounded=(is_open, is_open))
            shown |= {name: number for name, number in zip(names, told, strict=True) if name in row}
        return shown
    if kind == _BINS and row.get("value") is not None:
        edges = np.linspace(description["low"], description["high"], description["bins"] + 1)
        return {**row, "low": float(edges[row["value"]]), "high": float(edges[row["value"] + 1])}
    return dict(row)


@dataclass(frozen=True, slots=True)
class MeanUnits:
    """The units of a mean, which convert it between [0, 1] and the analyst's numbers.

    Attributes:
        at_zero: The analyst's number for a mean row value of 0.
        at_one: The analyst's number for a mean row value of 1; may be the smaller of the two.
        measure: Name of what the number measures, one of `everhold.values.units.MEASURES`.
        rounded_up: Largest number of grid steps by which the value of a row can exceed the exact one.
        unbounded: Two flags: True if the number can be below both of these numbers, and True if it can be above both.
            An end of the scale then bounds nothing on that side.
    """

    at_zero: float
    at_one: float
    measure: str
    rounded_up: float = 0.0
    unbounded: tuple[bool, bool] = (False, False)

    @classmethod
    def of(cls, bound: BoundQuery) -> MeanUnits:
        """Return the units of a bound query."""
        return cls(bound.at_zero, bound.at_one, measure_of(bound), bound.rounded_up, bound.unbounded)

    @classmethod
    def kept(cls, description: Mapping[str, Any]) -> MeanUnits | None:
        """Return the units stored in a ledger entry's description, or None if it stores no units."""
        found = description.get(UNITS)
        if not (isinstance(found, list) and len(found) == 5 and found[2] in MEASURES):
            return None
        at_zero, at_one, measure, rounded_up, (below, above) = found
        return cls(at_zero, at_one, measure, rounded_up, (bool(below), bool(above)))

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value in the analyst's units."""
        return min(self.at_zero, self.at_one), max(self.at_zero, self.at_one)

    def to_list(self) -> list[Any]:
        """Return the units as a list, as the ledger stores them."""
        return [float(self.at_zero), float(self.at_one), self.measure, float(self.rounded_up), [*self.unbounded]]

    def turned(self) -> MeanUnits | None:
        """Return the units of the opposite number, such as an error for an accuracy, or None if there is none."""
        measure = mirrored(self.measure)
        return None if measure is None else replace(self, at_zero=self.at_one, at_one=self.at_zero, measure=measure)

    def in_units(
        self, value: float | None, low: float | None, high: float | None, *, row_step: float
    ) -> tuple[float | None, float | None, float | None]:
        """Convert a mean and its interval to the analyst's units. A number that is not told stays None.

        An interval can be told without a value.
        """
        if low is None or high is None:
            return None, None, None
        width = self.at_one - self.at_zero  # negative where an error rate turns an accuracy round
        first, last = sorted((self.at_zero + width * low, self.at_zero + width * high))
        mean = None if value is None else self.at_zero + width * value
        least, most = sorted((self.at_zero, self.at_one))
        if (least, most) != (0.0, 1.0) or self.rounded_up:
            # Rounded outwards, as the change of units may have rounded inwards. Where row values may be above the true
            # ones, so may be the ends; by less than what that makes, in any units.
            step = 4.0 * max(math.ulp(least), math.ulp(most)) + self.rounded_up * row_step * (most - least)
            first, last = max(first - step, least), min(last + step, most)
        return self._opened(mean, first, last) if any(self.unbounded) else (mean, first, last)

    def radius(self, within: float | None, interval: tuple[float, float] | None) -> float | None:
        """Convert a half-width to the analyst's units, infinite if the interval reaches an open end.

        Args:
            within: Half-width in the units of a mean; None if there is no half-width.
            interval: The interval in the units of a mean; None if it is not known, and may end anywhere.
        """
        if within is None:
            return None
        _, low, high = self._opened(None, *sorted(map(self._from_mean, interval or (0.0, 1.0))))
        is_open = low == -math.inf or high == math.inf
        return math.inf if is_open else within * abs(self.at_one - self.at_zero)

    def of_row(self, row: Mapping[str, Any], *, row_step: float) -> dict[str, Any]:
        """Convert a row of a transcript, or of an unsealed study, to the analyst's units."""
        read = dict(row)
        for names in (_TOLD, _SEALED):
            if row.keys() >= set(names):
                numbers = self.in_units(*(row[name] for name in names), row_step=row_step)
                read.update(zip(names, numbers, strict=True))
        found = {name: self._from_mean(row[name]) for name in _BARE if row.get(name) is not None}
        bare = {name: self._opened(number, None, None)[0] for name, number in found.items()}
        if row.get("within") is not None:
            bare["within"] = row["within"] * abs(self.at_one - self.at_zero)
        return {**read, **bare}

    def _opened(self, value: _Number, low: _Number, high: _Number) -> tuple[_Number, _Number, _Number]:
        least, most = self.ends
        return with_open_ends(value, low, high, least=least, most=most, unbounded=self.unbounded)

    def _from_mean(self, mean: float) -> float:
        return self.at_zero + (self.at_one - self.at_zero) * mean
