"""The append-only record of questions, answers and spending (on SQLite or PostgreSQL)."""

from __future__ import annotations

from everhold.ledger.ledger import Ledger
from everhold.ledger.records import Committed, Entry, Head, HoldoutRecord, Outcome, Question
from everhold.ledger.store import LedgerStore
from everhold.ledger.verify import Finding, VerificationReport, verify

__all__ = [
    "Committed",
    "Entry",
    "Finding",
    "Head",
    "HoldoutRecord",
    "Ledger",
    "LedgerStore",
    "Outcome",
    "Question",
    "VerificationReport",
    "verify",
]
