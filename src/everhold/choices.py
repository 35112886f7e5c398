"""Choices on sealed rows: which candidate is best, and where a quantile lies, with what holds for the population."""

from __future__ import annotations

import hashlib
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.ledger.chain import canonical
from everhold.mechanisms.quantiles import QuantileSelection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from everhold.mechanisms.privacy_budget import PrivacyBudget
    from everhold.queries.base import BoundQuery

__all__ = ["BestCandidate", "Contest", "QuantileAnswer", "digest", "quantile_selection", "whole_price"]

_MOST_CANDIDATES = 100_000
_MOST_BINS = 10_000
_MOST_PRICE = 10**15
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class BestCandidate(Display):
    """The candidate that was chosen, and how much worse than the best one it is at most.

    Attributes:
        index: Its position among the candidates; None if the question was refused.
        candidate: The candidate as people read it; None if refused.
        regret: How much worse it is for the population than the best candidate, at most, in the candidates' units;
            holds together with all other answers. None if refused.
        charged: Credits that the choice cost; 0 for a refusal and a repeated question.
        remaining: What is left of the budget, by name.
        question: SHA-256 of the question.
        repeated: Whether it had been answered before.
        confidence: Probability with which all statements of the holdout hold together.
    """

    index: int | None
    candidate: str | None
    regret: float | None
    charged: int
    remaining: Mapping[str, int]
    question: str
    repeated: bool
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """``{"index", "candidate", "regret", "charged", "remaining", "question"}``."""
        names = ("index", "candidate", "regret", "charged", "remaining", "question")
        return {name: getattr(self, name) for name in names} | {"remaining": dict(self.remaining)}


@dataclass(frozen=True, slots=True)
class QuantileAnswer(Display):
    """The bin that a quantile was found in, and what holds for the population.

    Values beyond the range belong to the first and the last bin, which have no other end; missing ones to the last.

    Attributes:
        low: Lower end of the bin, minus infinity for the first one; None if the question was refused.
        high: Upper end of the bin, infinity for the last one; None if refused.
        quantile: q, the quantile that was asked for.
        error: e. Of the population at most ``q + e`` lies below ``low`` and at least ``q - e`` below ``high``; holds
            together with all other answers. None if refused.
        charged: Credits that it cost; 0 for a refusal and a repeated question.
        remaining: What is left of the budget, by name.
        question: SHA-256 of the question.
        repeated: Whether it had been answered before.
        confidence: Probability with which all statements of the holdout hold together.
    """

    low: float | None
    high: float | None
    quantile: float
    error: float | None
    charged: int
    remaining: Mapping[str, int]
    question: str
    repeated: bool
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """``{"low", "high", "quantile", "error", "charged", "remaining", "question"}``; an infinite end is None."""
        names = ("low", "high", "quantile", "error", "charged", "remaining", "question")
        ends = {
            name: end for name, end in (("low", self.low), ("high", self.high)) if end is None or math.isfinite(end)
        }
        plain = {name: getattr(self, name) for name in names} | {"low": None, "high": None, **ends}
        return plain | {"remaining": dict(self.remaining)}


@dataclass(frozen=True, slots=True)
class Contest:
    """Candidates that can be compared: means in the same units.

    Attributes:
        bound: The candidates as questions.
        best: Whether the "lowest" or the "highest" mean is best.
        price: Credits that the choice costs.

    Raises:
        QueryRejected: If they cannot be compared. Nothing is charged.
    """

    bound: tuple[BoundQuery, ...]
    best: Literal["lowest", "highest"]
    price: int

    def __post_init__(self) -> None:
        if self.best not in ("lowest", "highest"):
            raise QueryRejected(f"best is {self.best!r}; expected 'lowest' or 'highest'; nothing was charged")
        if not 1 <= len(self.bound) <= _MOST_CANDIDATES:
            raise QueryRejected(
                f"there are {len(self.bound)} candidates; expected 1 to {_MOST_CANDIDATES:,}; nothing was charged"
            )
        if len({(question.at_zero, question.at_one) for question in self.bound}) > 1:
            raise QueryRejected(
                "the candidates are means in different units; expected the same range for all of them; "
                "nothing was charged"
            )

    @property
    def width(self) -> float:
        """What a mean of 1 is worth in the candidates' units."""
        return abs(self.bound[0].at_one - self.bound[0].at_zero)

    @property
    def description(self) -> dict[str, Any]:
        """Public and canonical."""
        return {
            "kind": "choice",
            "least": "row values" if self._upwards else "their complements",  # an error is an accuracy turned round
            "price": self.price,
            "candidates": digest([question.question for question in self.bound]),
        }

    @property
    def _upwards(self) -> bool:
        """Whether the least sum of row values is the best."""
        return (self.bound[0].at_one > self.bound[0].at_zero) == (self.best == "lowest")

    @property
    def shown(self) -> str:
        """The choice as people read it."""
        named = "; ".join(question.shown for question in self.bound[:_MOST_SHOWN])
        more = "; ..." if len(self.bound) > _MOST_SHOWN else ""
        return f"the {self.best} of {len(self.bound):,}: {named}{more}"

    def losses(self, totals: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
        """Sums of losses in grid units, shape (candidates,): the least is the best."""
        return totals if self._upwards else steps - totals


def quantile_selection(
    mechanism: PrivacyBudget, *, quantile: float, low: float, high: float, bins: int, price: int
) -> QuantileSelection:
    """How a quantile is found with this budget.

    Raises:
        QueryRejected: If the numbers make no sense. Nothing is charged.
    """
    if not isinstance(bins, int) or not 1 <= bins <= _MOST_BINS:
        raise QueryRejected(f"bins is {bins!r}; expected a whole number from 1 to {_MOST_BINS:,}; nothing was charged")
    try:
        return QuantileSelection(
            quantile=quantile, low=low, high=high, bins=bins, rows=mechanism.rows,
            selection=mechanism.selection(price), unit=mechanism.unit,
        )  # fmt: skip
    except (ValueError, TypeError, OverflowError) as reason:
        raise QueryRejected(f"{reason}; nothing was charged") from None


def whole_price(price: int) -> int:
    """What a choice may cost, as a plain whole number."""
    try:
        number = 0 if isinstance(price, bool) else operator.index(price)
    except TypeError:
        number = 0
    if not 1 <= number <= _MOST_PRICE:
        raise QueryRejected(f"price is {price!r}; expected a whole number of credits; nothing was charged")
    return number


def digest(description: Mapping[str, Any] | Sequence[str]) -> str:
    """SHA-256 of a description, in hex."""
    return hashlib.sha256(canonical(description).encode()).hexdigest()
