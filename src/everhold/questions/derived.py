"""Parameters that follow from a few plain questions: the intervals of the parts give an interval of the whole.

A derived question costs what its parts cost and reveals what they reveal. All intervals of a holdout hold together, so
whatever follows from the intervals of the parts by arithmetic holds with them and needs no further probability.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everhold.values.base import Query, Schema

__all__ = ["BoundDerived", "DerivedQuery", "Estimate", "estimate_between", "ratio"]

_COUNTS = {1: "one question", 2: "two questions", 3: "three questions", 4: "four questions", 5: "five questions"}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with the interval that is promised to contain the population's one.

    Attributes:
        value: The estimate.
        low: Lower end.
        high: Upper end.
    """

    value: float
    low: float
    high: float


Combine = Callable[[Sequence[Estimate]], Estimate]


@dataclass(frozen=True, slots=True)
class BoundDerived:
    """A derived question about rows of a known schema.

    Attributes:
        name: What kind of parameter it is, with its article.
        description: Public and canonical, together with those of the parts.
        parts: The plain questions, in the order in which they are asked.
        combine: From the means of the parts' row values, each in [0, 1], to the parameter; pure.
        schema: The schema of the rows.
    """

    name: str
    description: dict[str, Any]
    parts: tuple[Query, ...]
    combine: Combine
    schema: Schema

    @property
    def question(self) -> str:
        """SHA-256 of the description and the parts' questions, in hex."""
        parts = [part.bind(self.schema).question for part in self.parts]
        text = json.dumps({**self.description, "parts": parts}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def counted(self) -> str:
        """How many questions it is, in words."""
        return _COUNTS.get(len(self.parts), f"{len(self.parts)} questions")


class DerivedQuery(ABC):
    """A parameter that is a function of the means of a few plain questions."""

    __slots__ = ()

    @abstractmethod
    def bind(self, schema: Schema) -> BoundDerived:
        """The question about rows of this schema.

        Raises:
            QueryRejected: If it cannot be asked of such rows. Nothing is charged.
        """

    def parts(self, schema: Schema) -> tuple[Query, ...]:
        """The plain questions; whoever has asked them all with guesses of his own gets this one for nothing.

        Raises:
            QueryRejected: If it cannot be asked of such rows. Nothing is charged.
        """
        return self.bind(schema).parts


def estimate_between(value: float, low: float, high: float, *, least: float, most: float, slack: float) -> Estimate:
    """An interval with its ends moved outwards by a rounding error, kept in a range that always holds.

    Args:
        value: The estimate; moved into the interval where it is outside.
        low: Lower end.
        high: Upper end; ends that contradict each other give the whole range.
        least: Smallest possible value of the parameter.
        most: Largest possible value of the parameter.
        slack: At least what rounding may have done to the ends.
    """
    if not low - slack <= high + slack:  # also for nan: the parts cannot all hold, so nothing is known
        low, high = least, most
    low, high = max(low - slack, least), min(high + slack, most)
    if low > high:
        low, high = least, most
    return Estimate(min(max(value, low), high), low, high)


def ratio(part: Estimate, whole: Estimate) -> Estimate:
    """The share that a part has of the whole that contains it: all quotients of values in both intervals, up to 1.

    Examples:
        >>> ratio(Estimate(0.2, 0.1, 0.3), Estimate(0.5, 0.4, 0.6)).value
        0.4
    """
    value = min(part.value / whole.value, 1.0) if whole.value > 0.0 else 0.0
    low = max(part.low, 0.0) / whole.high if whole.high > 0.0 else 0.0
    high = part.high / whole.low if whole.low > 0.0 else 1.0
    return estimate_between(value, math.nextafter(min(low, 1.0), 0.0), math.nextafter(min(high, 1.0), 2.0),
                            least=0.0, most=1.0, slack=0.0)  # fmt: skip
