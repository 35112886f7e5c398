"""Whether the sealed file is the one that was sealed: when it is opened, and before and after it is read again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from everhold.errors import IntegrityError

if TYPE_CHECKING:
    import os
    from pathlib import Path
    from types import TracebackType

__all__ = ["UnchangedFile", "check_fingerprint", "fingerprint"]

_CHUNK = 2**20


def fingerprint(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check_fingerprint(path: Path, expected: str, *, what: str) -> None:
    """Check that a sealed file is byte for byte the one that was sealed.

    Raises:
        IntegrityError: If it is missing or differs.
    """
    if not path.is_file():
        raise IntegrityError(
            f"the sealed {what} rows are missing; expected {path.name} beside the database; restore it"
        )
    if fingerprint(path) != expected:
        raise IntegrityError(
            f"the sealed {what} rows are not the ones that were sealed: the fingerprint of {path.name} differs; "
            "restore the original file; no question is answered until then"
        )


class UnchangedFile:
    """A sealed file whose fingerprint was checked; a context around each reading finds out if it was changed since.

    The engine opens the file anew whenever it reads. So what tells one state of a file from another, its place on the
    disk, its size and its times, is compared before and after; only where it differs is the fingerprint computed again,
    because a backup may touch a file without changing it. Who can set the clock of the machine can deceive this check,
    and not the one at opening.

    Args:
        path: The file.
        expected: Its fingerprint when it was sealed.
        what: How messages call the rows, "holdout" or "training".

    Raises:
        IntegrityError: If it is missing or differs, here and around each reading. Nothing is charged.
    """

    def __init__(self, path: Path, expected: str, *, what: str) -> None:
        self._path, self._expected, self._what = path, expected, what
        self._checked = self._check()

    def __enter__(self) -> None:
        """Check before reading."""
        if self._state() != self._checked:
            self._checked = self._check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Check after reading, also where reading failed: a file that is gone is the better explanation."""
        if self._state() != self._checked and (error is None or isinstance(error, Exception)):
            raise IntegrityError(
                f"the sealed {self._what} rows were changed while they were read; expected {self._path.name} to be "
                "left alone; nothing was charged; verify the ledger, then ask again"
            ) from None

    def _check(self) -> tuple[int, ...]:
        before = self._state()
        check_fingerprint(self._path, self._expected, what=self._what)
        if self._state() != before:
            raise IntegrityError(
                f"the sealed {self._what} rows were changed while they were checked; expected {self._path.name} to be "
                "left alone; nothing was charged; try again"
            )
        return before

    def _state(self) -> tuple[int, ...]:
        """What changes when a file is written, replaced or renamed; empty where there is none."""
        try:
            found: os.stat_result = self._path.stat()
        except OSError:
            return ()
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
