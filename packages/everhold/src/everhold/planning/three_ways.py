"""Three ways to use a holdout, with their widths beside what people use without one.

What do you know before you ask, and do you steer by the answers? Queries that are known beforehand are declared.
Queries that come up during the work, but whose answers are read at its end, are silent. Answers that are told as you go
steer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.display import Display, at_most
from everhold.mechanisms import GuessAndCheck
from everhold.mechanisms.declared import SHARE
from everhold.planning.request import USUAL_VALUE
from everhold.planning.widths import half_within, width_at

if TYPE_CHECKING:
    from everhold.mechanisms import Mechanism

__all__ = ["ThreeWays", "Way", "three_ways"]


@dataclass(frozen=True, slots=True)
class Way:
    """Half-width of one way to ask, for a yes-or-no query.

    Attributes:
        way: Its name.
        when: When answers are told, or what the comparison is.
        within: The half-width, as a part of [0, 1].
    """

    way: str
    when: str
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWays(Display):
    """Half-widths of the three ways for one study, the narrowest way first, and of two usual intervals.

    Attributes:
        rows: Sealed rows.
        queries: Number of queries that are planned.
        surprises: Number of surprises that are planned.
        confidence: Probability with which all intervals hold at once.
        at: Population's value of the yes-or-no query.
        lines: Declared, silent, steered without a surprise and after all that are planned; then one query at the same
            confidence, and as many fixed ones by Bonferroni.
    """

    rows: int
    queries: int
    surprises: int
    confidence: float
    at: float
    lines: tuple[Way, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """One table row for each line."""
        return [{"way": line.way, "when": line.when, "within": line.within} for line in self.lines]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data."""
        named = {name: getattr(self, name) for name in ("rows", "queries", "surprises", "confidence", "at")}
        return {**named, "lines": self.to_rows()}

    def within(self, way: str) -> float:
        """The half-width of a line by its name."""
        return next(line.within for line in self.lines if line.way == way)

    def explain(self) -> str:
        """Which way serves whom, in words."""
        declared, silent, steered = (at_most(self.within(way)) for way in ("declared", "silent", "steered"))
        fixed = self.within("Bonferroni")
        said = (
            f"Do you know your queries before you ask? Declare them: within {declared} around {self.at:g}, for ever. "
            f"Do they come up as you work, and can their answers wait? Ask silently and unseal at the end: {silent}. "
            f"Do you steer by the answers? They are told as you go: {steered} while guesses hold. "
            f"Queries that are all fixed beforehand need no holdout for their width: Bonferroni has {at_most(fixed)}. "
            "It does not hold for queries that were chosen by earlier answers."
        )
        if self.within("steered") >= min(self.at, 1.0 - self.at) / 2.0:
            said += " With these rows, told answers say little: declare, ask silently, or plan for fewer queries."
        return said

    def __str__(self) -> str:
        return self.to_text()

    def _headline(self) -> str:
        return self.explain()


def three_ways(mechanism: Mechanism | None, *, at: float = USUAL_VALUE, alike: float | None = None) -> ThreeWays | None:
    """The three ways of a tuned mechanism; None of one that rests on noise.

    Args:
        mechanism: Its rows, queries, surprises, confidence and dependence.
        at: Population's value of a yes-or-no query, in [0, 1].
        alike: See `everhold.mechanisms.base.Mechanism.expected_radius`.
    """
    if not isinstance(mechanism, GuessAndCheck):
        return None
    beta, queries = 1.0 - mechanism.confidence, mechanism.queries
    most = min(mechanism.surprises, queries - 1)
    first, last = (width_at(mechanism, at, surprises, alike) for surprises in (0, most))

    def fixed(level: float) -> float:
        nats = -math.log(level)
        return half_within(*mechanism.quotes.yes_no_at(at, nats, alike).expected(at, nats))

    lines = (
        Way("declared", f"{queries:,} fixed beforehand; exact, for ever", fixed(beta * SHARE / queries)),
        Way("silent", "asked during the work; exact, when the study is unsealed", first.unsealed),
        Way("steered", "told as you go, while guesses hold", first.confirmed),
        Way("steered, after surprises", f"told as you go, after {most:,} surprises", last.confirmed),
        Way("one query", f"a single {100.0 * mechanism.confidence:g} % interval, no other query", fixed(beta)),
        Way("Bonferroni", f"{queries:,} fixed beforehand, without everhold", fixed(beta / queries)),
    )
    return ThreeWays(
        rows=mechanism.rows, queries=queries, surprises=most, confidence=mechanism.confidence, at=at, lines=lines
    )
