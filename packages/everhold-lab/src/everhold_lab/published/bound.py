"""Published statements about whole sessions: their protocol, their results and common checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from everhold.arguments import below_one, fraction


@dataclass(frozen=True, slots=True)
class BoundOfSource:
    """Result of evaluating a published statement.

    Attributes:
        statement: Name of the statement, e.g. ``zhao_theorem_2``.
        radius: Half-width in units of the query, in (0, 1); ``inf`` when no radius below 1 is promised.
        rows: Rows for which the radius holds, a whole number; ``inf`` when no number of rows will do.
        parameters: Parameters that the mechanism must be run with, and the free parameters at their best values.
        proof_complete: False where the published proof has an open gap (theory, erratum 5).
        note: Reason why the bound is ``inf``, if more rows would not change that.
    """

    statement: str
    radius: float
    rows: float
    parameters: Mapping[str, float] = field(default_factory=dict)
    proof_complete: bool = True
    note: str = ""


class SessionBound(Protocol):
    """Protocol of a published bound for a session of adaptive queries, in the form that the planner calls."""

    def __call__(
        self, subject: float, /, *, queries: int, surprises: int, confidence: float, slack: float
    ) -> BoundOfSource:
        """Evaluate the statement.

        Args:
            subject: Number n of rows, for a function that returns a radius; or the radius tau in (0, 1), in units of
                the query, for one that returns rows.
            queries: m or k, the adaptive queries, at least `surprises`.
            surprises: B, the number of queries above threshold. Not used by statements in which every answer has its
                own noise or rows.
            confidence: 1 - beta, in (0, 1).
            slack: c, in [0, 1): budget is not spent while the training set is off by less than ``c tau``. Only
                Thresholdout has it.

        Returns:
            The radius for the rows, or the rows for the radius, and the parameters that attain it.

        Raises:
            ValueError: If an argument is out of its range.
        """


@dataclass(frozen=True, slots=True)
class StatementOfSource:
    """A published statement about a whole session, with its radius for given rows and its rows for a given radius.

    Attributes:
        name: Name of the statement, the key in ``STATEMENTS``.
        source: Authors, year and number in their paper.
        radius: Function from a number of rows to the radius.
        rows_needed: Function from a radius to the number of rows.
        colour: Colour in charts, muted beside the colours of mechanisms.
        dependent: The same two functions for dependent rows, with the price of noise as the argument ``price``. None
            if the statement is for independent rows only.
    """

    name: str
    source: str
    radius: SessionBound
    rows_needed: SessionBound
    colour: str
    dependent: tuple[Callable[..., BoundOfSource], Callable[..., BoundOfSource]] | None = None


def check_nonnegative(name: str, value: float) -> None:
    """Raise ValueError unless the value is at least 0. Infinity is allowed and makes the bound vacuous."""
    if not value >= 0.0:
        raise ValueError(f"{name} is {value!r}. Pass a number of at least 0.")


def check_count(name: str, value: float) -> None:
    """Raise ValueError unless value is a whole number of at least 1."""
    if not (value >= 1 and value == math.floor(value)):
        raise ValueError(f"{name} is {value!r}. Pass a whole number of at least 1, such as 1000.")


def check_session(
    *, queries: int, surprises: int, confidence: float, slack: float, rows: float = 1, radius: float = 0.5
) -> None:
    """Raise ValueError unless the arguments of a statement about a session make sense together."""
    check_count("rows", rows)
    fraction(radius, "radius")
    check_count("queries", queries)
    check_count("surprises", surprises)
    fraction(confidence, "confidence")
    if surprises > queries:
        raise ValueError(
            f"surprises is {surprises}, above queries = {queries}. Pass at most one surprise for each query."
        )
    below_one(slack, "slack")


def whole_rows(rows: float) -> float:
    """Return a number of rows rounded up to a whole number of at least 1. Infinity stays infinite."""
    return rows if math.isinf(rows) else max(1, math.ceil(rows))


def smallest_radius(rows_for: Callable[[float], float], rows: float) -> float:
    """Return the smallest radius in (0, 1) for which the rows suffice, or ``inf``.

    To a relative accuracy of 1e-12, on the side where `rows` is enough.
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
