"""Each mechanism with its best parameters for a wish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.dependence import DependenceModel, Independent
from everhold.errors import DependenceError
from everhold.mechanisms import MECHANISMS, Mechanism

if TYPE_CHECKING:
    from everhold.planning.wish import Wish

__all__ = ["best_mechanism", "recommendable", "tuned_for", "tuned_mechanism"]


def recommendable(kind: type[Mechanism]) -> bool:
    """Whether a mechanism may be taken by default: for adaptive questions of any kind, and rows of any laws."""
    return kind.adaptive and not kind.one_sided and not kind.one_law


def tuned_mechanism(
    name: str,
    *,
    rows: int,
    queries: int,
    overfits: int,
    confidence: float,
    slack: float = 0.0,
    dependence: DependenceModel | None = None,
) -> Mechanism:
    """The named mechanism with its best parameters for a wish.

    Raises:
        ValueError: If there is no mechanism of that name or the wish makes no sense for it.
    """
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ValueError(f"there is no mechanism {brief(name)}; expected one of {', '.join(sorted(MECHANISMS))}")
    kind = MECHANISMS[name]
    wish: dict[str, Any] = {"rows": rows, "queries": queries, "confidence": confidence}
    if kind.needs_guess:
        wish |= {"overfits": overfits, "slack": slack}
    tuned: Mechanism = kind.tuned(**wish, dependence=dependence or Independent())
    return tuned


def tuned_for(name: str, wish: Wish) -> Mechanism | str:
    """The named mechanism with its best parameters for a checked wish, or the reason why it cannot serve the wish."""
    try:
        return tuned_mechanism(
            name, rows=wish.rows, queries=wish.queries, overfits=wish.overfits,
            confidence=wish.confidence, slack=wish.slack, dependence=wish.dependence,
        )  # fmt: skip
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
    with_guesses: bool = True,
) -> Mechanism:
    """The adaptive mechanism with the smallest radius for a wish, among those that do not need rows of one law.

    Args:
        rows: Number of sealed rows.
        queries: Number of adaptive questions.
        overfits: Answers that may come from the holdout, for mechanisms that check guesses.
        confidence: 1 - beta, in (0, 1).
        slack: No budget is spent on guesses closer than slack times the radius to the population's value.
        dependence: How the rows depend on each other; independent by default.
        with_guesses: Whether every question comes with a guess, such as a training estimate.

    Raises:
        ValueError: If the wish makes no sense.
        DependenceError: If no mechanism can serve rows that depend on each other in this way.
    """
    wish: dict[str, Any] = {
        "rows": rows, "queries": queries, "overfits": overfits, "confidence": confidence, "slack": slack,
        "dependence": dependence,
    }  # fmt: skip
    tuned: list[Mechanism] = []
    refused: list[DependenceError] = []
    for name, kind in MECHANISMS.items():
        if recommendable(kind) and (with_guesses or not kind.needs_guess):
            try:
                tuned.append(tuned_mechanism(name, **wish))
            except DependenceError as reason:
                refused.append(reason)
    if not tuned:
        raise refused[0]
    return min(tuned, key=lambda mechanism: mechanism.promise().radius)
