"""From what the ledger holds to what the analyst gets: units, rounding, and what dependence costs in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from everhold.answers import Answer
from everhold.mechanisms import Mechanism, Source

if TYPE_CHECKING:
    from everhold.ledger import Committed
    from everhold.values.base import BoundQuery

__all__ = ["answer_from", "refusal_of", "source_name"]


def answer_from(
    bound: BoundQuery,
    entry: Committed,
    mechanism: Mechanism,
    *,
    remaining: dict[str, int],
    statement: str,
    about: str | None,
    analyst: str | None = None,
) -> Answer:
    """The committed answer in the question's own units.

    Args:
        bound: The question.
        entry: What the ledger holds, in the units of a mean over [0, 1].
        mechanism: The mechanism that answered.
        remaining: What is left of the budget, by name.
        statement: The statement that the interval rests on.
        about: What the interval is about; None for the population.
        analyst: On whose behalf it was asked.
    """
    value, low, high = (
        None if mean is None else bound.from_mean(mean)
        for mean in (entry.answer["value"], entry.answer["low"], entry.answer["high"])
    )
    if low is not None and high is not None:
        low, high = _outwards(bound, min(low, high), max(low, high))  # an error rate turns an accuracy round
    return Answer(
        value=value,
        low=low,
        high=high,
        source=entry.answer["source"],
        charged=entry.charged,
        remaining=remaining,
        question=bound.question,
        repeated=entry.repeated,
        statement=statement,
        confidence=mechanism.confidence,
        adaptive=mechanism.adaptive,
        rows_worth=mechanism.rows_worth(),
        analyst=analyst,
        about=about,
    )


def refusal_of(
    question: str, mechanism: Mechanism, *, remaining: dict[str, int], statement: str, about: str | None,
    analyst: str | None = None,
) -> Answer:  # fmt: skip
    """A refused question that the ledger does not hold."""
    return Answer(
        None, None, None, "refused", 0, remaining, question, False, statement,
        mechanism.confidence, mechanism.adaptive, mechanism.rows_worth(), analyst, about,
    )  # fmt: skip


def source_name(source: int, *, from_training: bool) -> str:
    """Where an answer comes from, as analysts read it."""
    return "training" if source == Source.GUESS and from_training else Source(source).name.lower()


def _outwards(bound: BoundQuery, low: float, high: float) -> tuple[float, float]:
    """An interval in the analyst's units, rounded outwards where the change of units may have rounded inwards."""
    least, most = sorted((bound.at_zero, bound.at_one))
    if (least, most) == (0.0, 1.0):
        return low, high
    step = 4.0 * max(math.ulp(least), math.ulp(most))
    return max(low - step, least), min(high + step, most)
