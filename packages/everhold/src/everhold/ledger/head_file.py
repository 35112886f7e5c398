"""The newest head, kept outside the database, because a database that was set back does not know its later answers.

The file lies beside the steward's key. It is written after every commit and before an answer leaves, and never replaced
by an older head. It has two places of fixed length, each with its own seal, that are written in turn. If a write is cut
short, the other place still holds the head before. Then the database is newer than the file, which is no fault.
"""

from __future__ import annotations

import hmac
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everhold.errors import EverholdError, IntegrityError
from everhold.private_files import create_private, keep_others_out
from everhold.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everhold.ledger.acts import Head

HEAD_FILE = "ledger.head"

_PLACE = 512  # bytes: one sector, which disks write whole
_MOST_CHECKED = 16
_BINARY = getattr(os, "O_BINARY", 0)
_sync = getattr(os, "fdatasync", os.fsync)  # the file keeps its length, so its content is all that has to be durable
RECOVER = "Restore the newest backup, or run 'everhold ledger recover', which counts what was lost as spent."


@dataclass(frozen=True, slots=True, order=True)
class Reached:
    """Public facts about a ledger's newest head. Heads compare by generation and sequence.

    Attributes:
        generation: Number of times that the ledger was set back and recovered, lost recoveries included.
        sequence: Number of the last entry.
        entry_hash: Hash of that head.
        asked: Different queries asked so far.
        charged: Sum of all charges.
        closed: Whether the study was unsealed, and nothing may be asked any more.
        labels: Cost of all labels so far for later queries, in millionths of a nat.
        places: Number of the mechanism's planned queries that are used so far. An open challenge uses one, and so does
            its verdict.
    """

    generation: int
    sequence: int
    entry_hash: str = field(compare=False)
    asked: int = field(compare=False)
    charged: int = field(compare=False)
    closed: bool = field(default=False, compare=False)
    labels: int = field(default=0, compare=False)
    places: int = field(default=0, compare=False)

    @classmethod
    def of(cls, head: Head) -> Reached:
        """Return the public facts about a head."""
        accounts, state = head.accounts, head.state.get("mechanism", {})
        asked = accounts.queries_among(head.sequence)
        return cls(
            accounts.lost.generation, head.sequence, head.entry_hash, asked, head.charged, accounts.closed,
            state.get("labels", 0), state.get("asked", 0),
        )  # fmt: skip

    def check(self, found: Reached, hash_here: Callable[[], str | None]) -> None:
        """Check that a database has this head among its entries, so that it was not set back.

        Args:
            found: The database's newest head. It has to be read after this file, or while no other process can write.
            hash_here: Function that returns the hash of the database's entry with this head's number, for a database
                with later entries.

        Raises:
            IntegrityError: If the database was set back, or has another entry with this number.
        """
        if found < self:
            raise IntegrityError(
                f"The ledger was set back: it ends at entry {found.sequence}, and it had "
                f"reached entry {self.sequence}. {RECOVER}",
                sequence=found.sequence, newest=self.sequence,
            )  # fmt: skip
        if found.generation > self.generation:  # a recovery that was cut short before it could say so here
            return
        if (found.entry_hash if found.sequence == self.sequence else hash_here()) != self.entry_hash:
            raise IntegrityError(
                f"The ledger diverged: its entry {self.sequence} is not the last entry "
                "recorded on this machine. Restore the newest backup of database and "
                "folder together."
            )


_NOTHING = Reached(-1, -1, "", 0, 0)  # what an altered place, or one that was never written, says


@dataclass(frozen=True)
class HeadFile:
    """File with the newest head of one holdout. Safe to use from many threads and processes.

    Attributes:
        path: Path of the file.
        holdout: Identifier of the holdout.
    """

    path: Path
    holdout: str
    _key: bytes = field(repr=False)
    _checked: dict[bytes, Reached] = field(
        default_factory=dict, repr=False, compare=False
    )  # places, once their seals are

    @classmethod
    def of(cls, folder: Path, seal_key: bytes, holdout: str) -> HeadFile:
        """Return the head file in a holdout's private folder. Nothing is read or written yet."""
        return cls(folder / HEAD_FILE, holdout, hmac.digest(seal_key, b"everhold head file", "sha256"))

    def create(self, reached: Reached) -> None:
        """Write the first head to a new file that only its owner can read.

        Raises:
            EverholdError: If it cannot be written.
        """
        try:
            descriptor = create_private(self.path)
            try:
                os.write(descriptor, self._place(reached) + bytes(_PLACE))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if sys.platform != "win32":  # where folders cannot be opened
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)  # makes the new file's name durable
                finally:
                    os.close(folder)
        except OSError as fault:
            raise _in_words(fault) from None

    def replace(self, reached: Reached) -> None:
        """Replace the file by a new one. Only a recovery does this."""
        self.path.unlink(missing_ok=True)
        self.create(reached)

    def find(self) -> Reached | None:
        """Return the newest head in the file, or None if the file is missing, altered or of another holdout."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return None
        found = max(self._opened(content))
        return None if found is _NOTHING else found

    def advance(self, reached: Reached) -> None:
        """Write the head to the file durably, unless the file has a newer head.

        Raises:
            EverholdError: If it cannot be written. The answers are in the ledger by then, and can be read by asking
                again.
        """
        try:
            descriptor = os.open(self.path, os.O_RDWR | _BINARY)
            try:
                keep_others_out(descriptor)
                content = os.read(descriptor, 2 * _PLACE)
                first, second = self._opened(content)
                if max(first, second) < reached:
                    os.lseek(descriptor, 0 if first < second else _PLACE, os.SEEK_SET)  # the older one
                    os.write(descriptor, written := self._place(reached))
                    _sync(descriptor)
                    self._checked[written] = reached
            finally:
                os.close(descriptor)
        except OSError as fault:
            raise _in_words(fault) from None

    def _place(self, stored: Reached | str) -> bytes:
        """Return the bytes of one of the two places, for a head or its JSON text: the text and its seal, padded."""
        text = stored
        if isinstance(stored, Reached):
            text = canonical({name: getattr(stored, name) for name in Reached.__slots__})
        seal = hmac.digest(self._key, f"{self.holdout}\n{text}".encode(), "sha256").hex()
        return f"{text}\n{seal}\n".encode().ljust(_PLACE)

    def _opened(self, content: bytes) -> list[Reached]:
        """Return both heads stored in the file. For a place without a valid seal, an empty head is returned."""
        both = []
        if len(self._checked) > _MOST_CHECKED:
            self._checked.clear()
        for place in (content[:_PLACE], content[_PLACE : 2 * _PLACE]):
            if (found := self._checked.get(place)) is None:
                text = place.split(b"\n", 1)[0].decode(errors="replace")
                sealed = hmac.compare_digest(place, self._place(text))
                found = Reached(**json.loads(text)) if sealed else _NOTHING  # it is what was written
                self._checked[place] = found
            both.append(found)
        return both


def asked_by(folder: Path) -> int:
    """Return the number of queries that a folder's head file says were asked, 0 without such a file.

    The seals are not checked, because this is for folders whose ledger, and so whose keys, are unknown.
    """
    try:
        content = (folder / HEAD_FILE).read_bytes()
    except OSError:
        return 0
    asked = [0]
    for place in (content[:_PLACE], content[_PLACE:]):
        with suppress(ValueError, TypeError, AttributeError):
            asked.append(int(json.loads(place.split(b"\n", 1)[0])["asked"]))
    return max(asked)


def _in_words(fault: OSError) -> EverholdError:
    return EverholdError(
        f"{HEAD_FILE} beside the steward's key cannot be written: {fault.strerror}. Check "
        "that the folder is writable and has room, and ask again. The answer is stored "
        "and is charged only once."
    )
