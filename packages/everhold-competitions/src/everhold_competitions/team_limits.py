"""Limits the surprises that one team of a competition may cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.ledger import EntryDraft
from everhold.queries.query import QueryPlan, digest
from everhold_competitions.teams import TOLD_OF, Submissions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.answers import QuotedPrice
    from everhold.ledger import Entry, Outcome
    from everhold.ledger.acts import Accounts
    from everhold.mechanisms import State
    from everhold.queries.query import ExecutionResult, Pricing
    from everhold.randomness import Noise
    from everhold.sealing.rows.table import StoredRows

Result = TypeVar("Result", covariant=True)


def surprises_left(accounts: Accounts, team: str, share: int | None) -> int | None:
    """Return the number of further surprises that a team may cause, or None without a limit.

    Args:
        accounts: Accounts that the ledger keeps.
        team: Name of the team.
        share: Largest number of surprises of a team without an allotment. None if there is no limit.
    """
    part, known = accounts.parts.get(team), accounts.of(Submissions).teams.get(team)
    if part is not None:  # the steward's own limit replaces the share
        return part.charges - part.charged
    return None if share is None else max(share - (0 if known is None else known.charged), 0)


@dataclass(frozen=True)
class TeamLimited(QueryPlan[Result]):
    """Plan of a query about a submission, which is refused if its team has used up its surprises.

    The share is checked against public counts, before the sealed rows are looked at and again inside the transaction.
    It limits spending only: all teams share one tree of queries, so no interval depends on it.

    Attributes:
        team: The team's name.
        predictions: SHA-256 of the submitted predictions.
        share: Largest number of surprises of the team. None if there is no limit.
        apart: Whether the same query of two teams is two queries, as where each is answered by its own best.
    """

    ready: QueryPlan[Result] = field(repr=False)
    team: str
    predictions: str
    share: int | None
    apart: bool = False

    @cached_property
    def asked(self) -> Sequence[EntryDraft]:  # type: ignore[override]  # an attribute that is made when it is needed
        """The drafts of ledger entries for the query, each with its team and submission."""
        told_of = {"team": self.team, "predictions": self.predictions}
        return [
            EntryDraft(
                digest({"team": self.team, "query": line.fingerprint}) if self.apart else line.fingerprint,
                {**line.description, TOLD_OF: told_of},
            )
            for line in self.ready.asked
        ]

    @property
    def pricing(self) -> Pricing:  # type: ignore[override]
        """The pricing of the query inside."""
        return self.ready.pricing

    def capacity(self, state: State, accounts: Accounts, count: int) -> int:
        """Return how many of the query's entries can be answered, 0 once the team's surprises are used up."""
        left = surprises_left(accounts, self.team, self.share)
        return min(self.ready.capacity(state, accounts, count), count if left is None else left)

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> Any:
        """Return the evaluations of the query on the sealed rows. They are secret."""
        return self.ready.evaluate(sealed, places)

    def answer(self, state: State, seen: Any, rows: list[int], noise: Noise) -> tuple[State, list[Outcome]]:
        """Return the mechanism's answers to the query, and its new state."""
        return self.ready.answer(state, seen, rows, noise)

    def present(self, result: ExecutionResult) -> Result:
        """Return the result of the query from the executed entries."""
        return self.ready.present(result)

    def quote(self, state: State, stored: Sequence[Entry | None]) -> QuotedPrice:
        """Return the price of the query."""
        return self.ready.quote(state, stored)
