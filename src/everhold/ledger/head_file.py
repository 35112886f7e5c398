"""The newest head, kept outside the database: a database that was set back does not know what it answered since.

The file lies beside the steward's key. It is written after every commit and before an answer leaves, only ever forward.
It has two places of fixed length, each with a seal of its own, that are written in turn: if a write is cut short, the
other place still holds the head before, and the database is newer, which is no fault.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from everhold.errors import EverholdError, IntegrityError
from everhold.ledger.chain import canonical
from everhold.private_files import create_private

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from everhold.ledger.records import Head

__all__ = ["HEAD_FILE", "HeadFile", "Reached"]

HEAD_FILE = "ledger.head"

_PLACE = 512  # bytes: one sector, which disks write whole
_PLACES = 2
_RECOVER = "restore the newest backup, or run 'everhold ledger recover', which counts what was lost as spent"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a ledger has come, in public facts.

    Attributes:
        generation: How many times it was set back and recovered, lost recoveries included.
        sequence: Number of the last entry.
        entry_hash: Its hash.
        asked: Different questions asked so far.
        charged: Sum of all charges.
    """

    generation: int
    sequence: int
    entry_hash: str
    asked: int
    charged: int

    @classmethod
    def of(cls, head: Head) -> Reached:
        """How far a head has come."""
        return cls(head.accounts.generation, head.sequence, head.entry_hash, head.asked, head.charged)

    def check(self, found: Reached, hash_here: Callable[[], str | None]) -> None:
        """Check that a database has come at least as far, on the same way.

        Args:
            found: How far the database has come. It has to be read after the file, or while nobody else can write.
            hash_here: The hash of the database's entry of this number, if it goes further.

        Raises:
            IntegrityError: If it was set back, or went another way.
        """
        if found.order < self.order:
            raise IntegrityError(
                f"the ledger was set back: it ends at entry {found.sequence}, and it had come to entry "
                f"{self.sequence}; expected the newest ledger; nothing was answered or charged; {_RECOVER}",
                sequence=found.sequence, newest=self.sequence,
            )  # fmt: skip
        if found.generation > self.generation:  # a recovery that was cut short before it could say so here
            return
        if (found.entry_hash if found.sequence == self.sequence else hash_here()) != self.entry_hash:
            raise IntegrityError(
                f"the ledger went another way: its entry {self.sequence} is not the one that was answered here; "
                "expected the ledger that this folder belongs to; nothing was answered or charged; restore the newest "
                "backup of database and folder together"
            )

    @property
    def order(self) -> tuple[int, int]:
        """What grows with every commit: a recovery goes beyond everything that was lost by it."""
        return self.generation, self.sequence


@dataclass(frozen=True)
class HeadFile:
    """The newest head of one holdout; safe to use from many threads and processes.

    Attributes:
        path: The file.
        holdout: Identifier of the holdout.
    """

    path: Path
    holdout: str
    _key: bytes

    @classmethod
    def of(cls, folder: Path, *, holdout: str, seal_key: bytes) -> HeadFile:
        """The head file of a holdout whose key lies in this folder; nothing is read or written yet."""
        return cls(folder / HEAD_FILE, holdout, hmac.digest(seal_key, b"everhold head file", "sha256"))

    def __repr__(self) -> str:
        return f"HeadFile({self.path.name!r})"

    def create(self, reached: Reached) -> None:
        """Write the first head to a new file that only its owner can read.

        Raises:
            EverholdError: If it cannot be written.
        """
        with _faults_in_words():
            descriptor = create_private(self.path)
            try:
                os.write(descriptor, self._sealed(reached) + bytes(_PLACE))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            _flush_folder(self.path.parent)

    def replace(self, reached: Reached) -> None:
        """Begin anew, whatever is there: only for a recovery."""
        self.path.unlink(missing_ok=True)
        self.create(reached)

    def read(self) -> Reached:
        """The newest head that is known.

        Raises:
            IntegrityError: If the file is missing, altered or another holdout's.
        """
        found = self.find()
        if found is None:
            raise IntegrityError(
                f"{self.path.name}, which says how far the ledger had come, is missing or was altered; expected it "
                f"beside the steward's key; nothing was answered or charged; {_RECOVER}"
            )
        return found

    def find(self) -> Reached | None:
        """The newest head that is known; None if the file is missing, altered or another holdout's."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return None
        return max(self._places(content), key=lambda place: place.order, default=None)

    def advance(self, head: Head) -> None:
        """Write the head durably, unless a newer one is there already.

        Raises:
            EverholdError: If it cannot be written. What was answered is in the ledger then, and can be asked again.
        """
        reached = Reached.of(head)
        with _faults_in_words():
            descriptor = os.open(self.path, os.O_RDWR | _BINARY)
            try:
                with _locked(descriptor):
                    content = os.read(descriptor, _PLACE * _PLACES)
                    orders = [None if place is None else place.order for place in self._each_place(content)]
                    if any(order is not None and order >= reached.order for order in orders):
                        return
                    worst = min(range(_PLACES), key=lambda place: orders[place] or (-1, -1))
                    os.lseek(descriptor, worst * _PLACE, os.SEEK_SET)
                    os.write(descriptor, self._sealed(reached))
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _places(self, content: bytes) -> list[Reached]:
        return [place for place in self._each_place(content) if place is not None]

    def _each_place(self, content: bytes) -> list[Reached | None]:
        padded = content.ljust(_PLACE * _PLACES, b"\0")
        return [self._opened(padded[place * _PLACE : (place + 1) * _PLACE]) for place in range(_PLACES)]

    def _sealed(self, reached: Reached) -> bytes:
        text = canonical(asdict(reached))
        return f"{text}\n{self._seal(text)}\n".encode().ljust(_PLACE)

    def _opened(self, place: bytes) -> Reached | None:
        text, _, rest = place.decode(errors="replace").partition("\n")
        if not hmac.compare_digest(rest.strip().encode(), self._seal(text).encode()):
            return None
        fields: dict[str, Any] = json.loads(text)  # the seal holds: it is what was written
        return Reached(**fields)

    def _seal(self, text: str) -> str:
        return hmac.digest(self._key, f"{self.holdout}\n{text}".encode(), "sha256").hex()


_BINARY = getattr(os, "O_BINARY", 0)


@contextlib.contextmanager
def _faults_in_words() -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise EverholdError(
            f"{HEAD_FILE} beside the steward's key cannot be written: {fault.strerror}; expected a writable folder "
            "with room; what was answered is kept and nothing more is charged for it; ask again"
        ) from None


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Keep out other processes, and other threads, which have descriptors of their own."""
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        yield  # closing unlocks
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _flush_folder(folder: Path) -> None:
    """Make a new file's name durable; on Windows folders cannot be opened."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
