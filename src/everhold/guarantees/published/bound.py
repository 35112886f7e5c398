"""The result type of the published statements, their uniform interface, and the checks they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["PublishedBound", "PublishedStatement", "SessionBound"]


@dataclass(frozen=True, slots=True)
class PublishedBound:
    """A published statement, evaluated.

    Attributes:
        statement: Name of the statement, e.g. ``zhao_theorem_2``.
        source: Authors, year and number in their paper.
        radius: Half-width in units of the query, in (0, 1); ``inf`` when no radius below 1 is promised.
        rows: Rows for which the radius holds, a whole number; ``inf`` when no number of rows will do.
        parameters: What the mechanism must be run with, and the free parameters at their optimum.
        proof_complete: False where the published proof has an open gap (theory, erratum 5).
        note: Why the bound is ``inf``, where that is not a matter of rows.
    """

    statement: str
    source: str
    radius: float
    rows: float
    parameters: Mapping[str, float] = field(default_factory=dict)
    proof_complete: bool = True
    note: str = ""


class SessionBound(Protocol):
    """A statement about a whole session, as the planner calls it.

    ``subject`` is the number of rows (then the radius is wanted) or the radius (then the rows are wanted).
    """

    def __call__(
        self, subject: float, /, *, queries: int, overfits: int, confidence: float, slack: float
    ) -> PublishedBound:
        """Evaluate the statement for `queries` adaptive questions, `overfits` of them above threshold."""


@dataclass(frozen=True, slots=True)
class PublishedStatement:
    """A statement about a whole session, in both directions.

    Attributes:
        name: Name of the statement, the key in ``STATEMENTS``.
        source: Authors, year and number in their paper.
        radius: ``radius(rows, *, queries, overfits, confidence, slack)``.
        rows_needed: ``rows_needed(radius, *, queries, overfits, confidence, slack)``.
    """

    name: str
    source: str
    radius: SessionBound
    rows_needed: SessionBound


def check_fraction(name: str, value: float) -> None:
    """Raise ValueError unless 0 < value < 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} is {value!r}, expected a number strictly between 0 and 1; pass e.g. 0.05")


def check_positive(name: str, value: float) -> None:
    """Raise ValueError unless value is positive and finite."""
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} is {value!r}, expected a positive finite number; pass a larger one")


def check_nonnegative(name: str, value: float) -> None:
    """Raise ValueError unless value is at least 0 (infinity is allowed: it makes the bound vacuous)."""
    if not value >= 0.0:
        raise ValueError(f"{name} is {value!r}, expected a number of at least 0; pass 0 for independent rows")


def check_count(name: str, value: float) -> None:
    """Raise ValueError unless value is a whole number of at least 1."""
    if not (value >= 1 and value == math.floor(value)):
        raise ValueError(f"{name} is {value!r}, expected a whole number of at least 1; pass e.g. 1000")


def check_session(*, queries: int, overfits: int, confidence: float, slack: float) -> None:
    """Raise ValueError unless the four arguments of a session make sense together."""
    check_count("queries", queries)
    check_count("overfits", overfits)
    check_fraction("confidence", confidence)
    if overfits > queries:
        raise ValueError(f"overfits is {overfits}, above queries = {queries}; allow at most one overfit per question")
    if not 0.0 <= slack < 1.0:
        raise ValueError(f"slack is {slack!r}, expected a number in [0, 1); pass e.g. 1/3")


def check_radius(radius: float) -> None:
    """Raise ValueError unless a wished radius lies in (0, 1)."""
    check_fraction("radius", radius)


def whole_rows(rows: float) -> float:
    """Round up to a whole number of rows, at least 1; infinity stays."""
    return rows if math.isinf(rows) else max(1, math.ceil(rows))


def smallest_radius(rows_for: Callable[[float], float], rows: float) -> float:
    """Invert a sample size: the smallest radius in (0, 1) whose rows suffice, ``inf`` if none does.

    Args:
        rows_for: Rows needed for a radius, falling in the radius.
        rows: Rows at hand.

    Returns:
        The radius, to a relative accuracy of 1e-12, on the side where `rows` is enough.
    """
    high = 1.0 - 1e-12
    if rows_for(high) > rows:
        return math.inf
    low = high / 2
    while rows_for(low) <= rows:
        low, high = low / 2, low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if rows_for(middle) <= rows else (middle, high)
    return high
