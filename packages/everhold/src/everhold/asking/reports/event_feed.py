"""Event feed: entries of a ledger after a given one, and the remaining budget, for an observer outside.

Nothing here is a value: what an answer says belongs to its analyst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.asking.accounts.budget import whole_budget
from everhold.ledger.allotments import ANALYST, Accounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger import Entry

__all__ = ["Count", "EventFeed", "LedgerEvent", "event_feed"]


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """One entry of a ledger, without what it says.

    Attributes:
        sequence: Its number.
        query: SHA-256 of the query.
        at: When it was written; UTC, ISO 8601.
        source: Where the answer comes from, or what act it is.
        analyst: On whose behalf it was asked; None for the steward.
        gate: The gate that it is about, if it is about one.
    """

    sequence: int
    query: str
    at: str
    source: str
    analyst: str | None
    gate: str | None


@dataclass(frozen=True, slots=True)
class Count:
    """Remaining amount of something that is counted.

    Attributes:
        name: Such as ``"queries"``.
        left: What is left.
        whole: What there was at the beginning.
        analyst: Whose allotment it is of; None for the whole budget.
    """

    name: str
    left: int
    whole: int
    analyst: str | None = None


@dataclass(frozen=True, slots=True)
class EventFeed:
    """Events after an entry.

    Attributes:
        sequence: The last entry that was read: where to go on.
        events: In order.
        counts: What is left now, of the whole and of each allotment.
        closed: Whether the study is over.
    """

    sequence: int
    events: Sequence[LedgerEvent]
    counts: Sequence[Count]
    closed: bool


def event_feed(executor: QueryExecutor, after: int, *, limit: int) -> EventFeed:
    """Events after an entry, at most so many entries.

    Raises:
        IntegrityError: If the ledger is not what was written.
    """
    head = executor.ledger.head()
    read = [_event(entry) for entry in executor.ledger.entries(after, min(limit, max(head.sequence - after, 0)))]
    left, whole = executor.remaining(head.state), whole_budget(executor, head.state)
    accounts = Accounts.from_state(head.state)
    counts = [Count(name, count, whole[name]) for name, count in left.items()]
    for part in accounts.parts.values():
        counts.append(Count("queries", part.queries - part.asked, part.queries, part.analyst))
        counts.append(Count("charges", part.charges - part.charged, part.charges, part.analyst))
    return EventFeed(max([after, *(each.sequence for each in read)]), read, counts, accounts.closed)


def _event(entry: Entry) -> LedgerEvent:
    public: dict[str, Any] = entry.description
    analyst, gate = (public.get(name) for name in (ANALYST, "gate"))
    return LedgerEvent(entry.sequence, entry.query, entry.asked_at, entry.answer["source"], analyst, gate)
