"""Which events follow from what is in a ledger, and what is told with them: ids and counts, never a value.

The value of an answer belongs to whoever asked, and a webhook goes to somebody else. So an event says that there is an
answer, by its number and the hash of its question; whoever may read it asks the service for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from everhold.ledger.allotments import UNSEALING
from everhold.ledger.gates import PROMOTED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from everhold.asking.news import Count, Happening, News

__all__ = ["TEST", "Event", "Kind", "events_of"]


class Kind(StrEnum):
    """What a webhook can be told of."""

    ANSWER = "answer.released"
    LEADER = "leader.changed"
    LOW = "budget.low"
    SPENT = "budget.spent"
    UNSEALED = "study.unsealed"


TEST = "webhook.test"
"""Told when a steward asks for it, to see whether it arrives."""

_BY_SOURCE = {"holdout": Kind.ANSWER, PROMOTED: Kind.LEADER, UNSEALING: Kind.UNSEALED}
_LOW = 10  # a tenth


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        kind: What: a `Kind`, or `TEST`.
        at: When the ledger's entry was written; None for now.
        facts: Ids and counts.
    """

    kind: str
    at: str | None
    facts: dict[str, Any]


def events_of(holdout: str, news: News, *, told: Collection[str]) -> tuple[list[Event], list[str]]:
    """The events of some news, and which counts are low or spent now.

    A count is told of when it gets low, and again only after it was raised in between. So it does not matter how many
    entries are read at once.

    Args:
        holdout: Its name.
        news: What was read from the ledger.
        told: The second result, as it was the last time.
    """
    happened = [_event(holdout, kind, each) for each in news.happenings if (kind := _BY_SOURCE.get(each.source))]
    if news.closed:  # nothing is left of a study that is over, which is no budget spent
        return happened, list(told)
    reached = {f"{kind} {count.name} {count.analyst or ''}": (kind, count) for kind, count in _reached(news.counts)}
    fresh = [
        Event(kind, None, {"holdout": holdout, "count": each.name, "left": each.left, "of": each.whole, **_of(each)})
        for name, (kind, each) in reached.items() if name not in told
    ]  # fmt: skip
    return happened + fresh, list(reached)


def _reached(counts: Iterable[Count]) -> Iterable[tuple[Kind, Count]]:
    for count in counts:
        if count.left * _LOW <= count.whole:
            yield Kind.LOW, count
        if count.left <= 0:
            yield Kind.SPENT, count


def _event(holdout: str, kind: Kind, each: Happening) -> Event:
    facts = {"holdout": holdout, "sequence": each.sequence, "question": each.question, **_of(each)}
    return Event(kind, each.at, facts if each.gate is None else {**facts, "gate": each.gate})


def _of(each: Happening | Count) -> dict[str, str]:
    return {} if each.analyst is None else {"analyst": each.analyst}
