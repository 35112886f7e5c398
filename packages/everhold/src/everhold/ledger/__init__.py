"""The append-only record of queries, answers and spending (on SQLite or PostgreSQL)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.ledger.acts import Head
from everhold.ledger.chain import Committed, Entry, EntryDraft, HoldoutRecord, Outcome
from everhold.ledger.ledger import Ledger
from everhold.ledger.store import LedgerStore

if TYPE_CHECKING:
    from everhold.ledger.verification import LedgerFinding, VerificationReport, verify

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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import names of the verification on first use, because asking queries does not need them."""
        if name not in {"LedgerFinding", "VerificationReport", "verify"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from everhold.ledger import verification

        return getattr(verification, name)
