"""Index of a ledger's queries in a process, so that none can be taken away from it unnoticed.

A query that is gone from the database would be answered anew. The head of the ledger holds a digest of all queries
under the steward's seal; a process that has checked it once reads only the queries that came later. That takes as
long after a million queries as after the first, also if others write to the database. The first check of a process
reads 64 bytes of every entry, and what it remembers of each is 32.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.ledger.records import Head

__all__ = ["EntryIndex"]

_LENGTH = 64  # of a fingerprint, in hexadecimal digits
_KIND = f"S{_LENGTH // 2}"
_MANY = 50_000  # that are sorted anew; fewer of them wait in a set, which takes four times as much memory


@dataclass(frozen=True, slots=True)
class EntryIndex:
    """All queries up to one entry, by fingerprint; nothing is ever taken out.

    Attributes:
        sequence: Number of that entry.
        digest: Running SHA-256 of the fingerprints in order.
    """

    sequence: int = 0
    digest: Any = field(default_factory=hashlib.sha256, repr=False)
    _sorted: NDArray[np.bytes_] = field(default_factory=lambda: np.empty(0, _KIND), repr=False)
    _latest: set[bytes] = field(default_factory=set, repr=False)

    def __contains__(self, fingerprint: str) -> bool:
        wanted = np.array([bytes.fromhex(fingerprint)], _KIND)
        place = int(self._sorted.searchsorted(wanted)[0])
        return bytes.fromhex(fingerprint) in self._latest or bool(np.any(self._sorted[place : place + 1] == wanted))

    def up_to(self, head: Head, later: str) -> EntryIndex | None:
        """The queries up to a head; None if they are not those that it was written for.

        Args:
            head: A head that carries the steward's seal.
            later: The fingerprints of all entries that the database has after this one, in order, with nothing in
                between. If their digest is the head's they are what was written, however the database splits them.
        """
        if not later and self.sequence == head.sequence:
            return self if self.digest.hexdigest() == head.queries_hash else None
        digest = self.digest.copy()
        digest.update(later.encode(errors="replace"))
        if len(later) != _LENGTH * (head.sequence - self.sequence) or digest.hexdigest() != head.queries_hash:
            return None
        added = np.frombuffer(bytes.fromhex(later), _KIND)
        if len(added) + len(self._latest) < _MANY:
            self._latest.update(each.ljust(_LENGTH // 2, b"\0") for each in added.tolist())  # NumPy drops zeros
            return EntryIndex(head.sequence, digest, self._sorted, self._latest)
        latest = np.array([*self._latest], _KIND)
        return EntryIndex(head.sequence, digest, np.sort(np.concatenate([self._sorted, latest, added])))
