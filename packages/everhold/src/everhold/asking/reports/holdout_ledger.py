"""`holdout.ledger`: facts of a holdout's ledger besides answers. Reading them costs no budget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.ledger.acts import ANALYST, GATE, VERDICTS
from everhold.ledger.store import all_entries
from everhold.values.tracked_models import MODELS, model_in_words
from everhold.values.units import MeanUnits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from everhold.asking.query_executor import QueryExecutor
    from everhold.ledger import Entry


class HoldoutLedger:
    """Facts of a holdout's ledger besides answers. Made by `Holdout.ledger`.

    Args:
        executor: Executor of the open holdout.
        names: Function from entries to the names of the models in them.
    """

    def __init__(
        self, executor: QueryExecutor, names: Callable[[Sequence[Entry]], Mapping[str, str]]
    ) -> None:  # fmt: skip
        """Use `Holdout.ledger` instead."""
        self._executor, self._names = executor, names

    def __repr__(self) -> str:
        return f"HoldoutLedger({self._executor.record.name!r})"

    def events(self, after: int = 0, *, limit: int = 1_000) -> EventFeed:
        """Return the events after an entry of the ledger, and the remaining budget, without any value.

        Args:
            after: Number of the last entry that is known already.
            limit: Largest number of entries to read.
        """
        return event_feed(self._executor, after, limit=limit)

    def readings(self, rows: Sequence[Mapping[str, Any]]) -> list[MeanUnits | None]:
        """Return the units of each row of the transcript, or None for a row without one number, such as a choice."""
        return list(map(MeanUnits.kept, self._descriptions(rows)))

    def models(self, rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """Return for each row of the transcript texts with name, version and run of its models in a tracking tool."""
        return [list(map(model_in_words, each.get(MODELS, ()))) for each in self._descriptions(rows)]

    def _descriptions(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return for each row of the transcript the description of its query in the ledger, or an empty one."""
        numbers = [row["sequence"] for row in rows] or [1]
        found = self._executor.ledger.entries(min(numbers) - 1, max(numbers) - min(numbers) + 1)
        kept = {each.sequence: each.description for each in found}
        return [kept.get(row["sequence"], {}) for row in rows]

    def model_names(self, *, asked_by: str | None = None) -> dict[str, str]:
        """Return the names of the models of gates and extensions, by their SHA-256.

        Args:
            asked_by: Name of an analyst, for the models that this analyst proposed. By default for all models.
        """
        entries = all_entries(self._executor.ledger)
        own = [entry for entry in entries if asked_by is None or entry.description.get(ANALYST) == asked_by]
        return dict(self._names(own))


# Event feed: entries of a ledger after a given one, and the remaining budget, for an observer outside.
#
# Nothing here is a value: what an answer says belongs to its analyst.


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """Public summary of one ledger entry, without its values.

    Attributes:
        sequence: Number of the entry.
        query: SHA-256 of the query.
        at: Time at which the entry was written; UTC, ISO 8601.
        source: Source of the answer, or name of the act.
        analyst: Name of the analyst who asked; None for the steward.
        gate: Name of the gate that the entry is about, or None.
    """

    sequence: int
    query: str
    at: str
    source: str
    analyst: str | None
    gate: str | None


@dataclass(frozen=True, slots=True)
class Count:
    """One counted part of a budget: how much there was, and how much is left.

    Attributes:
        name: Name of the part of the budget, such as ``"queries"``.
        left: Number that is left.
        whole: Number at the beginning.
        analyst: Name of the analyst whose allotment it is; None for the whole budget.
    """

    name: str
    left: int
    whole: int
    analyst: str | None = None


@dataclass(frozen=True, slots=True)
class EventFeed:
    """The events after some entry of the ledger, and the budget that is left.

    Attributes:
        sequence: Number of the last entry that was read. The next call starts after it.
        events: The events in order.
        counts: The budget that is left, of the whole holdout and of each allotment.
        closed: Whether the study is over.
    """

    sequence: int
    events: Sequence[LedgerEvent]
    counts: Sequence[Count]
    closed: bool


def event_feed(executor: QueryExecutor, after: int, *, limit: int) -> EventFeed:
    """Return the events after an entry, up to a number of entries.

    Raises:
        IntegrityError: If the ledger was altered.
    """
    head = executor.ledger.head()
    read = [
        LedgerEvent(
            entry.sequence, entry.query, entry.asked_at, entry.answer["source"], entry.description.get(ANALYST),
            entry.description.get("gate"),
        )
        for entry in executor.ledger.entries(after, min(limit, max(head.sequence - after, 0)))
    ]  # fmt: skip
    left, whole, accounts = executor.remaining(head), executor.whole_budget(head), head.accounts
    counts = [Count(name, count, whole[name]) for name, count in left.items()]
    for part in accounts.parts.values():
        counts.append(Count("queries", part.queries - part.asked, part.queries, part.analyst))
        counts.append(Count("charges", part.charges - part.charged, part.charges, part.analyst))
    return EventFeed(max([after, *(each.sequence for each in read)]), read, counts, accounts.closed)


# Names of models in place of hashes: from the entries of the ledger that say what a champion was.

_GATE = re.compile(
    r"gate (?:'.*?'|\".*?\"): \S.*? of (?P<model>.+?)(?: is the champion| against champion [0-9a-f]{8})?", re.DOTALL
)
_HASHED = re.compile(r"\b(?P<what>predictions|against champion) (?P<hash>[0-9a-f]{8})\b")
_SHORT = 8  # digits of a hash in the text of a query


def model_names(entries: Iterable[Entry], known: Mapping[str, str]) -> dict[str, str]:
    """Return names of models, by the SHA-256 of the query about each: those of gates, added to known names.

    Args:
        entries: Entries of the ledger in order. Models of gates get their names from these.
        known: Names by the SHA-256 of predictions, such as those of submissions.
    """
    models: dict[str, str] = {}
    for entry in entries:
        source, description = entry.answer["source"], entry.description
        if source == GATE or source in VERDICTS:
            digest = description["champion" if source == GATE else "challenger"]
            if (said := _GATE.fullmatch(description["shown"])) is not None:
                models.setdefault(digest, said["model"])
    return {**known, **{digest: with_names(model, known) for digest, model in models.items()}}


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Replace the short hashes of predictions and champions in a query's text by names.

    Args:
        text: Text of a query, such as ``"accuracy of predictions 0f1e2d3c"``.
        names: Names by hash, as `model_names` returns them.

    Examples:
        >>> with_names("accuracy of predictions 0f1e2d3c", {"0f1e2d3c" + 56 * "0": "submission 2 of larks"})
        'accuracy of submission 2 of larks'
    """
    short = {digest[:_SHORT]: name for digest, name in names.items()}

    def named(found: re.Match[str]) -> str:
        name = short.get(found["hash"])
        if name is None:
            return found[0]
        return name if found["what"] == "predictions" else f"against the champion, {name}"

    return _HASHED.sub(named, text)
