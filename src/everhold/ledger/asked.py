"""What a process remembers of the questions of a ledger, so that none can be taken away from it unnoticed.

A question that is gone from the database would be answered anew. The head of the ledger holds a digest of all questions
under the steward's seal; a process that has checked it once reads only the questions that came later. That takes as
long after a hundred thousand questions as after the first, whoever else writes to the database.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.ledger.records import Head

__all__ = ["Asked"]

_LENGTH = 64  # of a fingerprint, in hexadecimal digits


@dataclass(frozen=True, slots=True)
class Asked:
    """All questions up to one entry, by fingerprint; nothing is ever taken out.

    Attributes:
        sequence: Number of that entry.
        digest: Running SHA-256 of the fingerprints in order.
    """

    sequence: int = 0
    digest: Any = field(default_factory=hashlib.sha256, repr=False)
    _questions: set[bytes] = field(default_factory=set, repr=False)

    def __contains__(self, fingerprint: str) -> bool:
        return bytes.fromhex(fingerprint) in self._questions

    def up_to(self, head: Head, later: Sequence[tuple[int, str]]) -> Asked | None:
        """The questions up to a head; None if they are not those that it was written for.

        Args:
            head: A head that carries the steward's seal.
            later: Numbers and fingerprints of all entries that the database has after this one.
        """
        digest = self.digest.copy()
        digest.update("".join(str(question) for _, question in later).encode())
        in_order = [sequence for sequence, _ in later] == list(range(self.sequence + 1, head.sequence + 1))
        whole = all(len(str(question)) == _LENGTH for _, question in later)  # or two of them could be split anew
        if not (in_order and whole) or digest.hexdigest() != head.questions_hash:
            return None
        self._questions.update(bytes.fromhex(question) for _, question in later)
        return Asked(head.sequence, digest, self._questions)
