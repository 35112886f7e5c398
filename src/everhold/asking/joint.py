"""Questions that are made of questions: whether the budget is enough for all of them, and what they cost together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.answers import Answer, QuotedPrice, Shares
from everhold.questions.derived import Estimate
from everhold.questions.histogram import summed_to_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from everhold.ledger import Committed
    from everhold.mechanisms import Mechanism, State
    from everhold.questions.derived import BoundDerived

__all__ = [
    "BudgetEndsBetween",
    "KnownPart",
    "joint_answer",
    "joint_quote",
    "joint_shares",
    "stored_estimate",
]

_BY_WEIGHT = ("refused", "holdout", "standing", "guess", "training")


class BudgetEndsBetween(Exception):
    """Raised, also inside a transaction, to leave it without a trace.

    To wait and see whether the budget ends, and to take everything back if it does, would tell for nothing that a
    guess was wrong. So all parts have to be sure of an answer before the first one is looked at.
    """


@dataclass(frozen=True, slots=True)
class KnownPart:
    """What is known of a part before it is asked.

    Attributes:
        question: SHA-256 of the part.
        stored: The stored answer as a mean in [0, 1]; None if there is none yet.
        guess: The public guess as a mean in [0, 1]; None if there is none.
    """

    question: str
    stored: Estimate | None
    guess: float | None


def joint_answer(bound: BoundDerived, entries: Sequence[Committed], draft: Answer) -> Answer:
    """The answer that follows from those to the parts.

    Args:
        bound: The derived question.
        entries: The entries of its parts, in their order; none if it was refused.
        draft: A refusal, with everything that all answers of the holdout share.
    """
    sources = [entry.answer["source"] for entry in entries] or ["refused"]
    known = replace(
        draft,
        source=next(source for source in _BY_WEIGHT if source in sources),
        charged=sum(entry.charged for entry in entries),
        repeated=bool(entries) and all(entry.repeated for entry in entries),
    )
    if "refused" in sources:
        return known
    whole = bound.combine([stored_estimate(entry.answer) for entry in entries])
    return replace(known, value=whole.value, low=whole.low, high=whole.high)


def stored_estimate(answer: Mapping[str, Any]) -> Estimate:
    """A stored answer as a mean in [0, 1] with its interval."""
    return Estimate(answer["value"], answer["low"], answer["high"])


def joint_shares(names: Iterable[str], answers: Sequence[Answer], *, missing: bool) -> Shares:
    """The shares of a histogram, with intervals made narrower by what they sum to."""
    lows = [0.0 if answer.low is None else answer.low for answer in answers]
    highs = [1.0 if answer.high is None else answer.high for answer in answers]
    ends = summed_to_one(lows, highs, missing=missing)
    return Shares(
        {
            name: answer
            if answer.value is None
            else replace(answer, value=min(max(answer.value, low), high), low=low, high=high)
            for name, answer, (low, high) in zip(names, answers, ends, strict=True)
        }
    )


def joint_quote(
    bound: BoundDerived, parts: Sequence[KnownPart], *, mechanism: Mechanism, state: State, together: bool
) -> QuotedPrice:
    """The price of a derived question: the sum over its new parts, and the half-width around their guesses.

    Args:
        bound: The question.
        parts: What is known of its parts.
        mechanism: The mechanism that would answer.
        state: The public state.
        together: Whether it is refused as a whole if the budget might end between its parts.
    """
    order = list(dict.fromkeys(part.question for part in parts if part.stored is None))
    prices, worst, quiet, unlucky = [], [], state, state
    for _ in order:
        prices.append(mechanism.quote(quiet))
        worst.append(mechanism.quote(unlucky))
        quiet = quiet.after(charged=prices[-1].charged_if_confirmed)
        unlucky = unlucky.after(charged=worst[-1].charged_at_most)
    if together:
        refused = mechanism.surely_answers(state, len(order)) < len(order)
    else:
        refused = bool(prices) and prices[0].refused
    radii = {question: price.radius for question, price in zip(order, prices, strict=True)}
    charged = {question: price.radius_if_charged for question, price in zip(order, worst, strict=True)}
    return QuotedPrice(
        question=bound.question,
        radius=None if refused else _half_width(bound, parts, radii),
        radius_if_charged=None if refused else _half_width(bound, parts, charged),
        charged_if_confirmed=0 if refused else sum(price.charged_if_confirmed for price in prices),
        charged_at_most=0 if refused else sum(price.charged_at_most for price in worst),
        refused=refused,
        answered_before=not order and not refused,
        remaining=mechanism.remaining(state),
    )


def _half_width(bound: BoundDerived, parts: Sequence[KnownPart], radii: Mapping[str, float | None]) -> float | None:
    """Half of the interval that follows from guesses that hold; None where there is no guess."""
    estimates = []
    for part in parts:
        radius = radii.get(part.question)
        if part.stored is not None:
            estimates.append(part.stored)
        elif part.guess is None or radius is None:
            return None
        else:
            estimates.append(Estimate(part.guess, max(part.guess - radius, 0.0), min(part.guess + radius, 1.0)))
    whole = bound.combine(estimates)
    return (whole.high - whole.low) / 2.0
