"""The append-only record of questions, answers and spending (on SQLite or PostgreSQL)."""

from __future__ import annotations

from everhold.ledger.ledger import Ledger
from everhold.ledger.records import Committed, Entry, EntryDraft, Head, HoldoutRecord, Outcome
from everhold.ledger.store import LedgerStore
from everhold.ledger.verify import LedgerFinding, VerificationReport, verify

__all__ = [
    "Committed",
    "Entry",
    "EntryDraft",
    "Head",
    "HoldoutRecord",
    "Ledger",
    "LedgerFinding",
    "LedgerStore",
    "Outcome",
    "VerificationReport",
    "verify",
]
