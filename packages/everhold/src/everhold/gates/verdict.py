"""Verdict of a gate on a challenge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.answers import estimand_in_words
from everhold.display import at_least, left_in_words
from everhold.gates.facts import compared_in_words, margin_of, most_gain
from everhold.gates.records import PROMOTED
from everhold.queries.results import QueryResult

if TYPE_CHECKING:
    from typing import Self

    from everhold.gates.records import GateAccount
    from everhold.queries.query import ExecutionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(QueryResult):
    """Verdict of a gate on a challenge; 1 is charged for a promotion, and for a stop for futility.

    Confidence is that of all promotions together with all answers of the holdout. Where challenges are limited, the
    gate's own ``challenges`` are among what remains.

    Attributes:
        promoted: Whether the challenger is proved to be better by more than the margin, and is the champion now.
        low: By more than this the challenger is better than the champion was, in the metric's units; None unless
            promoted.
        high: The most that there can be, the width of the metric's range; None unless promoted, and for R2.
        champion: SHA-256 of the query about the champion after the challenge.
        promotions: Promotions of the gate so far.
        challenges: Challenges that the gate has answered so far.
        statement: The statement that the promise rests on.
        gate: The gate's name.
        margin: By more than this a promoted challenger is better, in the metric's units.
        metric: What is compared, in words.
        refused: Whether it was refused because what is left may not cover it, or the gate's limit is reached.
        analyst: On whose behalf it was asked; None for the steward.
        challenger: Name of the challenger of a gate about cases; None elsewhere.
    """

    promoted: bool
    low: float | None
    high: float | None
    champion: str
    promotions: int
    challenges: int
    statement: str
    gate: str
    margin: float
    metric: str
    refused: bool
    analyst: str | None = None
    challenger: str | None = None

    @classmethod
    def of(
        cls, gate: GateAccount, result: ExecutionResult, *, query: str, shown: str, about: str | None, name: str | None,
        confidence: float, promoted: bool = False, charged: int = 0, repeated: bool = False, refused: bool = False,
    ) -> Self:  # fmt: skip
        """The verdict in the metric's units.

        Args:
            gate: The gate after the challenge.
            result: Of the challenge.
            query: SHA-256 of the challenge; of the version, where it is the first champion itself.
            shown: The challenge as people read it.
            about: What it is about, in words.
            name: Of the challenger.
            confidence: That of the holdout.
            promoted: As for the attribute; so are the others.
            charged: Surprises that it cost.
            repeated: Whether the challenge had been decided before.
            refused: Whether it was refused.
        """
        margin, own = margin_of(gate), {} if gate.limit is None else {"challenges": gate.left}
        return cls(
            promoted=promoted, low=margin if promoted else None, high=most_gain(gate.metric) if promoted else None,
            champion=gate.champion, promotions=gate.promotions, challenges=gate.challenges,
            remaining={**result.remaining, **own}, statement=result.statement, confidence=confidence, gate=gate.name,
            margin=margin, metric=compared_in_words(gate.metric), charged=charged, query=query, repeated=repeated,
            refused=refused, analyst=result.analyst, about=about, shown=shown, challenger=name,
        )  # fmt: skip

    def __bool__(self) -> bool:
        return self.promoted

    def to_dict(self) -> dict[str, Any]:
        """``verdict`` in a word, ``"promoted"``, ``"kept"`` or ``"refused"``, and the attributes by name."""
        word = "refused" if self.refused else PROMOTED if self.promoted else "kept"
        named = ("low", "high", "champion", "promotions", "challenges", "charged", "remaining", "query", "repeated")
        about = {} if self.about is None else {"about": self.about}
        some = {name: value for name in ("analyst", "challenger") if (value := getattr(self, name)) is not None}
        return {"verdict": word, "promoted": self.promoted, **{name: getattr(self, name) for name in named}, **about,
                **some}  # fmt: skip

    def __str__(self) -> str:
        left = left_in_words(self.remaining)
        if self.refused:
            return f"refused: what is left does not pay for it ({left} left)"
        stored = (
            f"stored verdict of {self.challenger}; these results were not read: "
            if self.repeated and self.challenger is not None
            else ""
        )
        if not self.promoted:
            return f"{stored}kept: nothing is proved, charged {self.charged}, {left} left"
        return (
            f"{stored}promoted: {self.metric} is better by more than {at_least(self.margin)} (proved), charged "
            f"{self.charged}, {left} left"
        )

    def explain(self) -> str:
        """In words: what is proved, and what is not."""
        if self.refused:
            return (
                "The challenge was refused because what is left of the budget, of the analyst's allotment or of the "
                "gate's own limit may not cover it. Nothing was charged, and the champion stays."
            )
        if not self.promoted:
            return (
                "The champion was kept. That promises nothing: the challenger may be worse, equal, or better by less "
                "than these rows can prove at this stage. "
                + (
                    "It was stopped early, for a surprise."
                    if self.charged
                    else "It cost nothing and told nothing else."
                )
            )
        return (
            f"With probability {100.0 * self.confidence:.8g}%, together with all other promotions and answers of this "
            f"holdout, the challenger's {self.metric} is better than that of the champion before by more than "
            f"{at_least(self.margin)}, however many challengers failed in between and however they were chosen "
            f"(statement {self.statement}). By how much was not told. {estimand_in_words(self.about)}"
        )
