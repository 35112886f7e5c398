"""Checks that a sealed file is the one that was sealed: by fingerprint at opening, by file state at each reading."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

from everhold.errors import IntegrityError
from everhold.sealing.intake.duckdb_files import file_pattern, spilling_into

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def check_fingerprint(path: Path, expected: str, *, what: str) -> None:
    """Check that a sealed file is byte for byte the one that was sealed.

    Raises:
        IntegrityError: If it is missing or differs.
    """
    if not path.is_file():
        raise IntegrityError(
            f"The file {path.name} of the sealed {what} rows is missing. Restore it beside the database."
        )
    if fingerprint(path) != expected:
        raise IntegrityError(
            f"The sealed {what} rows were altered: the fingerprint of {path.name} is not "
            "the recorded one. Restore the original file."
        )


def same_table(first: Path, second: Path) -> bool:
    """Return whether two Parquet files with as many rows have the same rows in the same order. Secret if sealed."""
    with spilling_into(first.parent) as connection:
        tables = [connection.read_parquet(file_pattern(path), file_row_number=True) for path in (first, second)]
        return tables[0].except_(tables[1]).limit(1).fetchall() == []


class UnchangedFile:
    """Sealed file with a checked fingerprint, which is checked again around each reading if the file changed.

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

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Context in which the file is read. A file that changed is reported in place of the reader's error."""
        if _state(self._path) != self._checked:
            self._checked = self._check()
        try:
            yield
        finally:
            if _state(self._path) != self._checked:
                raise self._changed("read", "verify the ledger, then ask again") from None

    def _check(self) -> tuple[int, ...]:
        before = _state(self._path)
        check_fingerprint(self._path, self._expected, what=self._what)
        if _state(self._path) != before:
            raise self._changed("checked", "try again")
        return before

    def _changed(self, while_it_was: str, then: str) -> IntegrityError:
        return IntegrityError(
            f"The file {self._path.name} of the sealed {self._what} rows was changed while it was {while_it_was}. "
            f"Leave it alone, and {then}."
        )


def _state(path: Path) -> tuple[int, ...]:
    """Return numbers that change when a file is written, replaced or renamed, or nothing if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
