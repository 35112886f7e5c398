"""Measure of a mean, for readers: accuracy of a model, a share of rows, an average, a loss.

It is no part of a query's identity. The ledger keeps it beside the query, so that a number can be read later,
when the query is not at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.values.base import BoundQuery, Pair

__all__ = ["DIFFERENCE_OF_MEANS", "DIFFERENCE_OF_RATES", "MEASURES", "POINTS", "RATES", "measure_of", "mirrored"]

DIFFERENCE_OF_MEANS, DIFFERENCE_OF_RATES = "difference of arms", "difference of arms in a rate"
"""Kinds of queries that compare two arms."""

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
"""All there are: ``"value"`` is a number of which no more is known."""


def measure_of(bound: BoundQuery) -> str:
    """Measure of the number, in the direction of its units: an error is an accuracy turned round.

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
    """Measure of the number told the other way round; None if there is none.

    Which of two models is subtracted may have been turned round, or whether both are right or wrong: of a difference no
    more is known then than that it is one.
    """
    return _MIRRORED.get(measure)
