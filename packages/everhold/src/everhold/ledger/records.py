"""The values that go into the ledger and come out of it. State and answers are kept out of every repr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Numbers: TypeAlias = tuple[float, float, float]
"""The sealed mean and the lower and upper end of the query's own interval, means of row values in [0, 1]."""


def is_act(description: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Return whether an entry is an act, such as an allotment, rather than a query."""
    return "kind" in description and description["kind"] == answer.get("source")


@dataclass(frozen=True, slots=True)
class HoldoutRecord:
    """Stored record of one sealed holdout: its identifier, name, time of creation and settings.

    Attributes:
        id: Random identifier, 32 hexadecimal digits.
        name: Unique in its database.
        created: UTC, ISO 8601.
        configuration: Public facts: mechanism, rows, fingerprints, promise ...
    """

    id: str
    name: str
    created: str
    configuration: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class EntryDraft:
    """A query or an act before it becomes an entry of the ledger.

    Attributes:
        fingerprint: SHA-256 in 64 hexadecimal digits; the same fingerprint is the same query.
        description: Public description, plain JSON data.
    """

    fingerprint: str
    description: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mechanism's answer to one new query, and its charge.

    Attributes:
        answer: The exact answer, plain JSON data.
        charged: Charge for the entry, an integer >= 0 in the mechanism's own unit.
        sealed: Numbers that are revealed only when the study is unsealed; None without such numbers. Secret: the ledger
            keeps it in an envelope.
    """

    answer: dict[str, Any] = field(repr=False)
    charged: int
    sealed: Numbers | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Committed:
    """An answer that is stored on disk.

    Attributes:
        sequence: Number of its entry, from 1.
        answer: The exact answer; for a repeat, the one given the first time.
        charged: 0 for a repeat.
        repeated: Whether the query had been answered before, or earlier in the same batch.
        state_after: The mechanism's state after the whole batch (secret).
        sealed: What was told of it when the study was unsealed; None before, and where nothing of the kind is kept.
    """

    sequence: int
    answer: dict[str, Any] = field(repr=False)
    charged: int
    repeated: bool
    state_after: dict[str, Any] = field(repr=False)
    sealed: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the ledger.

    Attributes:
        sequence: Number of the entry, counted from 1 without gaps.
        query: Fingerprint of the query.
        description: Public description of the query.
        answer: The exact answer.
        charged: Charge of the entry, in the mechanism's own unit.
        asked_at: UTC, ISO 8601.
        state_seal: Keyed commitment to the state after the batch that contains the entry.
        previous_hash: Hash of the entry before.
        entry_hash: Hash of this entry.
        entry_seal: Keyed commitment to this entry.
    """

    sequence: int
    query: str
    description: dict[str, Any]
    answer: dict[str, Any] = field(repr=False)
    charged: int
    asked_at: str
    state_seal: str
    previous_hash: str
    entry_hash: str
    entry_seal: str

    @property
    def is_act(self) -> bool:
        """Whether the entry is an act, such as an allotment, rather than a query."""
        return is_act(self.description, self.answer)
