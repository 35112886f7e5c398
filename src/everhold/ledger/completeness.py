"""Is every question that was ever asked still there? Otherwise one that was taken away would be answered anew."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.errors import IntegrityError
from everhold.ledger import statements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from everhold.ledger.records import Head

__all__ = ["AllQuestions"]

_REMEMBERED = "everhold: all questions"


@dataclass(frozen=True, slots=True)
class AllQuestions:
    """All questions of a holdout as the database holds them, in one digest.

    A connection remembers it. As long as nobody else has written to the file, which SQLite knows, nothing is read
    again: then an answer takes as long after a hundred thousand questions as after the first.

    Attributes:
        version: SQLite's ``data_version``, which changes when another connection has written.
        digest: The running SHA-256.
    """

    version: int
    digest: Any

    @classmethod
    def checked(cls, connection: Connection, holdout_id: str, head: Head) -> AllQuestions:
        """The questions up to a head; within the transaction that writes, or reads, them.

        Raises:
            IntegrityError: If one is missing, added or another one.
        """
        version = connection.exec_driver_sql("PRAGMA data_version").scalar_one()
        remembered: AllQuestions | None = connection.info.get(_REMEMBERED, {}).get(holdout_id)
        if remembered is not None and (remembered.version, remembered.hash) == (version, head.questions_hash):
            return remembered
        rows = connection.execute(statements.ALL_QUESTIONS, {"holdout": holdout_id}).all()
        found = cls(version, hashlib.sha256()).and_then(question for _, question in rows)
        in_order = all(sequence == expected for expected, (sequence, _) in enumerate(rows, 1))
        if found.hash != head.questions_hash or len(rows) != head.sequence or not in_order:
            raise IntegrityError(
                f"the ledger does not hold the {head.sequence:,} entries that were written: some are missing, added or "
                "about other questions; expected all of them; nothing was answered or charged; verify the ledger and "
                "restore a backup"
            )
        found.remember(connection, holdout_id)
        return found

    @property
    def hash(self) -> str:
        """The digest, in hex."""
        return str(self.digest.hexdigest())

    def and_then(self, questions: Iterable[str]) -> AllQuestions:
        """The digest with more questions, by fingerprint."""
        digest = self.digest.copy()
        digest.update("".join(questions).encode())
        return AllQuestions(self.version, digest)

    def remember(self, connection: Connection, holdout_id: str) -> None:
        """Keep it for the next transaction. If this one fails, the head differs and all is read again."""
        connection.info.setdefault(_REMEMBERED, {})[holdout_id] = self
