"""The budget of a holdout on its pages: remaining counts and widths of the next answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everhold.display import at_most

_OUTLOOK = 2  # widths of a confirmed guess: now and later


@dataclass(frozen=True, slots=True)
class Budget:
    """Remaining budget and its worth.

    Attributes:
        planned: What was there, by name; None for analysts without an allotment.
    """

    status: Mapping[str, Any]
    planned: Mapping[str, int] | None

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Remaining and planned count of each part; none for analysts without an allotment."""
        planned, left = self.planned, self.status["remaining"]
        if planned is None:
            return []
        return [{"name": name, "left": left[name], "planned": planned[name]} for name in left]

    @property
    def explained(self) -> str:
        """Explanation of the budget, in words."""
        if self.status.get("competition"):
            counted = "Each submission, final score and comparison of two teams counts as a query."
        else:
            counted = "Every new query counts; asking the same again is free."
        surprises = any(part["name"] == "surprises" for part in self.parts)
        return counted + " A surprise is an answer that had to correct its guess." * surprises

    @property
    def worth(self) -> list[dict[str, Any]]:
        """Half-widths of the next answers by kind of query; none of a competition, whose answers are scores."""
        return [] if self.status.get("competition") else self.status.get("worth", [])

    @property
    def widest(self) -> float:
        """The largest of these half-widths."""
        return max((half for row in self.worth for half in (row["now"], row["later"]) if half), default=0.5)

    @property
    def undeclared(self) -> str:
        """Widths of the next confirmed guess, in a sentence; empty where nothing is to be said."""
        outlook = [at_most(half) for half in self.status.get("outlook", {}).values()]
        if len(outlook) != _OUTLOOK:
            return ""
        return f"A confirmed guess is within {outlook[0]} now, and within {outlook[1]} after five more surprises."
