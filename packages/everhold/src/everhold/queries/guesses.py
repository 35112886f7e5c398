"""Guesses that learn: what earlier surprises said of training estimates of the same kind corrects the next ones (S8).

A guess may be made of everything that was told before, so this needs no proof and spends nothing. Cross-validated
scores of one tuning loop are often off by about the same amount for all of its models: after a few surprises the next
guesses know. One surprise alone may be a model of its own, so it takes two that agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everhold.values.base import BoundQuery

__all__ = ["learned"]

_OF_MODELS = ("kind", "loss", "low", "high", "label")  # what scores have to share to be off in the same way
_SCORES = frozenset({"accuracy", "brier", "risk"})
_REMEMBERED = 5
_FEWEST = 2
_PRIOR = 1.0  # as if one more surprise had found the estimate right


def learned(
    estimate: int,
    bound: BoundQuery,
    surprises: Callable[[], Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]],
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
    kind = _kind(bound.description)
    found = [
        answer for description, answer in surprises()
        if _kind(description) == kind and answer.get("estimate") is not None and answer.get("value") is not None
    ][:_REMEMBERED]  # fmt: skip
    offs: list[float] = [answer["value"] - answer["estimate"] for answer in found]
    failed = any(answer.get("guess", answer["estimate"]) != answer["estimate"] for answer in found)
    if failed or len(offs) < _FEWEST or min(offs) <= 0.0 <= max(offs):
        return estimate
    shift = sum(offs) / (len(offs) + _PRIOR)
    return min(max(estimate + round(shift * steps), 0), steps)


def _kind(description: Mapping[str, Any]) -> list[Any]:
    return [description.get(name) for name in _OF_MODELS]
