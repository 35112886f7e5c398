"""Requests to the planner, checks of their sense, and each mechanism at its best for them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from everhold.arguments import as_float, as_whole, brief
from everhold.dependence import DependenceModel, Groups, Independent
from everhold.errors import DependenceError
from everhold.mechanisms import MECHANISMS, Mechanism
from everhold.mechanisms.base import MOST_ROWS
from everhold.values.evaluation import UNIT

__all__ = [
    "LEAST_RADIUS",
    "MOST_QUERIES",
    "MOST_ROWS",
    "USUAL_VALUE",
    "PlanRequest",
    "best_mechanism",
    "check_radius",
    "check_value",
    "expected_likeness",
    "tuned_for",
    "tuned_mechanism",
]

MOST_QUERIES = 10**9
"""End of the planner's search."""

LEAST_RADIUS = 2.0 / UNIT
"""Half-width that rounding alone adds (theory, section 6)."""


USUAL_VALUE = 0.9
"""The population's value at which mechanisms are compared by what a well-behaved analyst can expect of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A session that is being planned.

    Attributes:
        rows: Number of sealed rows n.
        queries: Number of adaptive questions m.
        overfits: Answers B that may come from the holdout, for mechanisms that check guesses.
        confidence: 1 - beta, in (0, 1).
        slack: c in [0, 1); no budget is spent on guesses closer than c times the radius to the population's value.
        dependence: How the rows depend on each other.
        training_rows: Rows that guesses are made from; 0 if unknown, and then as many as are sealed.
        alike: As for `Mechanism.expected_radius`: the expected correlation of two rows of one group; None where sums
            of groups are not bet on.

    Raises:
        ValueError: If the wish is not valid.
    """

    rows: int
    queries: int
    overfits: int = 10
    confidence: float = 0.95
    slack: float = 0.0
    dependence: DependenceModel = field(default_factory=Independent)
    training_rows: int = 0
    alike: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.dependence, DependenceModel):
            raise ValueError(
                f"dependence is a {type(self.dependence).__name__}; expected a model such as eh.Groups(5) or "
                "eh.Independent()"
            )
        _check_count("rows", self.rows, MOST_ROWS)
        _check_count("queries", self.queries, MOST_QUERIES)
        _check_count("overfits", self.overfits, MOST_QUERIES)
        if self.overfits > self.queries:
            raise ValueError(
                f"overfits is {self.overfits} and queries is {self.queries}; expected at most one overfit for each; "
                "ask for fewer overfits or more questions"
            )
        if not 0.0 < as_float(self.confidence) < 1.0:
            raise ValueError(
                f"confidence is {brief(self.confidence)}; expected a number strictly between 0 and 1, such as 0.95"
            )
        if not 0.0 <= as_float(self.slack) < 1.0:
            raise ValueError(f"slack is {brief(self.slack)}; expected a number in [0, 1), such as 1/3")
        if (-1 if (training := as_whole(self.training_rows)) is None else training) < 0:
            raise ValueError(f"training_rows is {brief(self.training_rows)}; expected a whole number of at least 0")
        if self.alike is not None and not 0.0 <= as_float(self.alike) <= 1.0:
            raise ValueError(f"alike is {brief(self.alike)}; expected a correlation in [0, 1], or None")
        plain_types = {
            "rows": int, "queries": int, "overfits": int, "confidence": float, "slack": float, "training_rows": int,
        }  # fmt: skip
        for name, plain in plain_types.items():
            object.__setattr__(self, name, plain(getattr(self, name)))  # NumPy's numbers overflow and are no JSON

    def with_rows(self, rows: int) -> Self:
        """The same wish for another number of rows."""
        return replace(self, rows=rows)

    def with_queries(self, queries: int) -> Self:
        """The same wish for another number of questions; at most one overfit for each of them."""
        return replace(self, queries=queries, overfits=min(self.overfits, queries))


def expected_likeness(
    dependence: DependenceModel | None, training_rows: int | None, alike: float | None
) -> float | None:
    """Correlation of rows of one group that is planned with; None where no procedure bets on sums of groups.

    Sizes alone are planned as if a column names the groups when rows are sealed.

    Args:
        dependence: How the rows depend on each other.
        training_rows: Their number; None for as many as are sealed.
        alike: What the planner expects; None for rows that are all alike.
    """
    if not isinstance(dependence, Groups) or training_rows == 0:
        return None
    return 1.0 if alike is None else alike


def check_radius(radius: float) -> float:
    """A wished radius as a plain float.

    Raises:
        ValueError: If no number of rows could reach it.
    """
    if not 0.0 < as_float(radius) < 1.0:
        raise ValueError(f"radius is {brief(radius)}; expected a half-width strictly between 0 and 1, such as 0.05")
    if radius <= LEAST_RADIUS:
        raise ValueError(
            f"radius is {radius}; no number of rows reaches it, as rounding rows to the grid alone costs "
            f"{LEAST_RADIUS:.3g}; wish for a larger one"
        )
    return float(radius)


def check_value(at: float) -> float:
    """A population's value as a plain float.

    Raises:
        ValueError: If it is not in [0, 1].
    """
    if not 0.0 <= as_float(at) <= 1.0:
        raise ValueError(f"at is {brief(at)}; expected a value in [0, 1] that a mean may have, such as 0.9")
    return float(at)


def _check_count(name: str, value: int, most: int) -> None:
    if (as_whole(value) or 0) < 1:
        raise ValueError(f"{name} is {brief(value)}; expected a whole number of at least 1")
    if value > most:
        raise ValueError(f"{name} is {brief(value)}; expected at most {most}")


def tuned_mechanism(
    name: str,
    *,
    rows: int,
    queries: int,
    overfits: int,
    confidence: float,
    slack: float = 0.0,
    dependence: DependenceModel | None = None,
    training_rows: int = 0,
) -> Mechanism:
    """The named mechanism with its best parameters for a wish.

    Raises:
        ValueError: If there is no mechanism of that name or the wish is not valid for it.
    """
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ValueError(f"there is no mechanism {brief(name)}; expected one of {', '.join(sorted(MECHANISMS))}")
    return MECHANISMS[name].for_wish(
        rows=rows, queries=queries, overfits=overfits, confidence=confidence, slack=slack,
        dependence=dependence or Independent(), training_rows=training_rows,
    )  # fmt: skip


def tuned_for(name: str, wish: PlanRequest) -> Mechanism | str:
    """The named mechanism with its best parameters for a checked wish, or the reason why it cannot serve the wish."""
    try:
        wished = {each.name: getattr(wish, each.name) for each in fields(wish) if each.name != "alike"}
        return tuned_mechanism(name, **wished)
    except ValueError as reason:
        return str(reason)


def best_mechanism(
    *,
    rows: int,
    queries: int,
    overfits: int,
    confidence: float,
    slack: float = 0.0,
    dependence: DependenceModel | None = None,
    training_rows: int = 0,
    with_guesses: bool = True,
    alike: float | None = None,
) -> Mechanism:
    """The adaptive mechanism whose answers a well-behaved analyst can expect to be the narrowest.

    Never one that needs rows of one law. What can be expected is `Mechanism.expected_radius` at `USUAL_VALUE`: of
    mechanisms that check guesses, the half-width of a confirmed guess; of the others, their radius.

    Args:
        rows: Number of sealed rows.
        queries: Number of adaptive questions.
        overfits: Answers that may come from the holdout, for mechanisms that check guesses.
        confidence: 1 - beta, in (0, 1).
        slack: No budget is spent on guesses closer than slack times the radius to the population's value.
        dependence: How the rows depend on each other; independent by default.
        training_rows: Rows that guesses are made from; 0 if unknown, and then as many as are sealed.
        with_guesses: Whether every question comes with a guess, such as a training estimate.
        alike: As for `Mechanism.expected_radius`.

    Raises:
        ValueError: If the wish is not valid.
        DependenceError: If no mechanism can serve rows that depend on each other in this way.
    """
    wish: dict[str, Any] = {
        "rows": rows, "queries": queries, "overfits": overfits, "confidence": confidence, "slack": slack,
        "dependence": dependence, "training_rows": training_rows,
    }  # fmt: skip
    tuned: list[Mechanism] = []
    refused: list[DependenceError] = []
    for name, kind in MECHANISMS.items():
        if kind.recommendable() and (with_guesses or not kind.traits.needs_guess):
            try:
                tuned.append(tuned_mechanism(name, **wish))
            except DependenceError as reason:
                refused.append(reason)
    if not tuned:
        raise refused[0]
    return min(tuned, key=lambda each: (each.expected_radius(USUAL_VALUE, alike), each.promise().radius))
