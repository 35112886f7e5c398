"""Guesses that learn: what earlier surprises said of training estimates of the same kind corrects the next ones (S8).

A guess may be made of everything that was told before, so this needs no proof and spends nothing. Cross-validated
scores of one tuning loop are often off by about the same amount for all of its models: after a few surprises the next
guesses know. One surprise alone may be a model of its own, so it takes two that agree.

Where surprises stay frequent, guesses scatter by more than rows explain. Then the told interval reaches further: it is
wider and confirmed, in place of surprises that widen all later ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everhold.values.base import BoundQuery

__all__ = ["AskedBefore", "learned", "worth_of_guesses"]

Surprises: TypeAlias = "Callable[[], Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]]"

_OF_MODELS = ("kind", "loss", "low", "high", "label")  # what scores have to share to be off in the same way
_SCORES = frozenset({"accuracy", "brier", "risk"})
_REMEMBERED = 5
_FEWEST = 2
_PRIOR = 1.0  # as if one more surprise had found the estimate right
_FREQUENT = 50  # entries of the ledger within which so many surprises are many
_FURTHEST = 2.5  # times the reach of honest guesses


def _never(question: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class AskedBefore:
    """Knowledge of earlier queries.

    Attributes:
        answered: Whether a question, by its fingerprint, has been answered before; reads the ledger.
        remembered: Whether this process knows that it was; nothing is read.
        surprises: Reads the latest surprises, newest first: descriptions and answers.
    """

    answered: Callable[[str], bool] = _never
    remembered: Callable[[str], bool] = _never
    surprises: Surprises = tuple


def learned(
    estimate: int,
    bound: BoundQuery,
    surprises: Surprises,
    steps: int,
) -> int:
    """The guess that a training estimate becomes, in grid units.

    It adds the mean of ``released - estimate`` over the last surprises of the same kind, shrunk towards 0, if there are
    two at least, all have the same sign, and none of them was a guess that had been corrected already: a correction
    that fails is given up.

    Args:
        estimate: The training estimate in grid units of a sum over the sealed rows.
        bound: The question.
        surprises: Reads the latest surprises, newest first: public descriptions and answers.
        steps: Grid units of a sum that make a mean of 1.
    """
    if bound.description.get("kind") not in _SCORES:
        return estimate
    found = _latest(bound, surprises)
    offs: list[float] = [answer["value"] - answer["estimate"] for answer in found]
    failed = any(answer.get("guess", answer["estimate"]) != answer["estimate"] for answer in found)
    if failed or len(offs) < _FEWEST or min(offs) <= 0.0 <= max(offs):
        return estimate
    shift = sum(offs) / (len(offs) + _PRIOR)
    return min(max(estimate + round(shift * steps), 0), steps)


def worth_of_guesses(bound: BoundQuery, surprises: Surprises, *, rows: float, training: float, reach: float) -> float:
    """Number of independent rows that guesses of this kind are worth: the training rows, or fewer where they scatter.

    If the last five surprises of the kind came within 50 entries of the ledger, the reach of honest guesses becomes the
    median distance of these guesses, and at most 2.5 times as far.

    Args:
        bound: The question.
        surprises: Reads the latest surprises, newest first: public descriptions and answers with their numbers.
        rows: Effective number of sealed rows.
        training: Effective number of training rows.
        reach: How far a sealed mean may be from an honest guess now.
    """
    if bound.description.get("kind") not in _SCORES or reach <= 0.0:
        return training
    found = _latest(bound, surprises)
    numbers = [answer["sequence"] for answer in found if "sequence" in answer]
    if len(numbers) < _REMEMBERED or numbers[0] - numbers[-1] > _FREQUENT:
        return training
    missed: list[float] = sorted(abs(answer["value"] - answer.get("guess", answer["estimate"])) for answer in found)
    wider = min(max(missed[len(missed) // 2] / reach, 1.0), _FURTHEST)
    return 1.0 / ((1.0 / rows + 1.0 / training) * wider * wider - 1.0 / rows)


def _latest(bound: BoundQuery, surprises: Surprises) -> list[Mapping[str, Any]]:
    """Answers to the last few surprises of the same kind, newest first."""
    kind = _kind(bound.description)
    return [
        answer for description, answer in surprises()
        if _kind(description) == kind and answer.get("estimate") is not None and answer.get("value") is not None
    ][:_REMEMBERED]  # fmt: skip


def _kind(description: Mapping[str, Any]) -> list[Any]:
    return [description.get(name) for name in _OF_MODELS]
