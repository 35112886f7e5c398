"""Names, fingerprints and readers of a holdout's sealed files.

The files of the creation are bound by the holdout's configuration, and those of an arrival by its entry in the ledger.
Notes about rows, such as their hashes, are bound by a seal in their last line, made with the steward's key.
Whoever opens, checks, backs up or restores a holdout takes its files from here.
"""

from __future__ import annotations

import hmac
import io
import os
import re
import secrets
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.errors import EverholdError, IntegrityError
from everhold.private_files import create_private
from everhold.sealing.rows.embedded import Embedded, check_fingerprint
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_NOTES = re.compile(r"(?:content|study|parts|open-cases|(?:compared|opened|arrival)(?:-[0-9]{6})?)\.json|known-.*")
_SEAL = 65  # bytes: a line of 64 hexadecimal digits


@dataclass(frozen=True, slots=True)
class SealedFile:
    """Path and expected fingerprint of a file of rows.

    Attributes:
        path: Path of the file.
        fingerprint: SHA-256 of its content, in hex.
        what: Name of the file's rows in messages, "holdout" or "training".
    """

    path: Path
    fingerprint: str
    what: str

    def check(self) -> None:
        """Check that the file is byte for byte what was sealed.

        Raises:
            IntegrityError: If it is missing or differs.
        """
        check_fingerprint(self.path, self.fingerprint, what=self.what)

    def opened(self) -> Embedded:
        """Open the file, and return its reader.

        Raises:
            IntegrityError: If it is missing or differs.
        """
        return Embedded(self.path, fingerprint=self.fingerprint, what=self.what)


def rows_file(folder: Path, number: int) -> Path:
    """Return the path of the file with an arrival's sealed rows. Number 0 is the holdout's creation."""
    return folder / (f"arrival-{number:06}.parquet" if number else HOLDOUT_FILE)


def training_file(folder: Path, number: int) -> Path:
    """Return the path of the file with an arrival's training rows. Number 0 is the holdout's creation."""
    return folder / (f"arrived-training-{number:06}.parquet" if number else TRAINING_FILE)


def sealed_files(
    folder: Path, configuration: Mapping[str, Any], arrival: Mapping[str, Any] | None = None
) -> dict[str, SealedFile]:
    """Return the files of the creation or of one arrival, by ``"holdout"`` and ``"training"``.

    Sealed rows in an engine have no file.

    Args:
        folder: Private folder of the holdout.
        configuration: Settings of the holdout.
        arrival: Description in the ledger's entry of the arrival; None for the creation.
    """
    facts, number = (configuration, 0) if arrival is None else (arrival, int(arrival["arrival"]))
    files = {}
    if configuration.get("engine") is None and facts["fingerprint"] is not None:
        files["holdout"] = SealedFile(rows_file(folder, number), facts["fingerprint"], "holdout")
    if facts["training_fingerprint"] is not None:
        files["training"] = SealedFile(training_file(folder, number), facts["training_fingerprint"], "training")
    return files


def write_note(path: Path, content: bytes, *, key: bytes, replace: bool = True) -> None:
    """Write a note file with a keyed digest durably, readable only by its owner.

    Args:
        path: Path of the note. The digest also covers the file's name.
        content: Content of the note.
        key: The steward's `notes_key`.
        replace: Whether to replace an existing note. If not, an existing note stays and nothing is written.
    """
    new = path.with_name(f"{secrets.token_hex(8)}.new")  # others may open the holdout meanwhile
    try:
        write_durably(new, content + _seal(path, content, key))
        new.chmod(0o400)
        if replace:
            new.replace(path)
        else:
            with suppress(FileExistsError):
                path.hardlink_to(new)
            new.unlink()
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def note_in(path: Path) -> bytes:
    """Return the content of a note file without a check of its keyed digest.

    Notes of other holdouts are read like this, because their keys are not available.

    Raises:
        OSError: If there is no such note.
    """
    return path.read_bytes()[:-_SEAL]


def sealed_note(path: Path, *, key: bytes) -> bytes | None:
    """Return the content of a note file after a check of its keyed digest, or None if the file is missing.

    Raises:
        IntegrityError: If it was altered.
    """
    try:
        written = path.read_bytes()
    except FileNotFoundError:
        return None
    if not hmac.compare_digest(written[-_SEAL:], _seal(path, written[:-_SEAL], key)):
        raise IntegrityError(
            f"The file {path.name} beside the sealed rows was altered. Restore the backup of the folder."
        )
    return written[:-_SEAL]


def altered_notes(folder: Path, *, key: bytes) -> Iterator[str]:
    """Yield a text for each altered note file in a folder."""
    for path in sorted(folder.iterdir()):
        if _NOTES.fullmatch(path.name):
            try:
                sealed_note(path, key=key)
            except IntegrityError as fault:
                yield fault.message


def _seal(path: Path, content: bytes, key: bytes) -> bytes:
    """Return the last line of a note file: a keyed digest of the file's name and content."""
    return b"\n" + hmac.digest(key, path.name.encode() + b"\n" + content, "sha256").hex().encode()


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read, and flush it to the disk.

    Raises:
        OSError: If it cannot be written.
    """
    with os.fdopen(create_private(path), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# Files of arrays beside the sealed rows: private to their owner, durable, and protected against alteration.


_SEAL_BYTES = 32


@dataclass(frozen=True, slots=True)
class ArrayFiles:
    """Directory of files with arrays, for one holdout. A keyed digest binds each file to its content, name and holdout.

    Attributes:
        folder: Private folder of the holdout's rows.
        holdout: Identifier of the holdout.
    """

    folder: Path
    holdout: str
    _key: bytes = field(repr=False)

    purpose: ClassVar[bytes]
    """Makes their key of the holdout's."""

    prefix: ClassVar[str]
    """Of the names of files."""

    array: ClassVar[str]
    """Name of the array that each file has."""

    whose: ClassVar[str]
    """What a file is of, in words for an error."""

    called: ClassVar[str]
    remedy: ClassVar[str]
    """Words for an error: what cannot be kept, and what to do."""

    @classmethod
    def of(cls, folder: Path, *, holdout: str, seal_key: bytes, **more: Any) -> Self:
        """Return the store of the files in a folder. Nothing is read or written yet."""
        return cls(folder, holdout, hmac.digest(seal_key, cls.purpose, "sha256"), **more)

    def written(self, name: str, arrays: Mapping[str, NDArray[Any] | None]) -> Path:
        """Write arrays under a random name durably, readable only by their owner, and return the path of the file.

        Args:
            name: Name to which the keyed digest binds the arrays, in hexadecimal digits and hyphens. The caller renames
                the file to it.
            arrays: Numbers or text by name, no objects. Arrays that are None are left out.

        Raises:
            EverholdError: If they cannot be written.
        """
        path, content = self.folder / f"{secrets.token_hex(8)}.new", io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **{key: a for key, a in arrays.items() if a is not None})
        try:
            write_durably(path, self._seal(name, content.getvalue()) + content.getvalue())
        except OSError as fault:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise self.not_kept(fault) from None
        return path

    def keep(self, name: str, values: NDArray[Any]) -> None:
        """Write an array under a name durably, readable only by its owner, and replace an earlier array.

        Args:
            name: Hexadecimal digits and hyphens.
            values: Numbers or text, no objects.

        Raises:
            EverholdError: If it cannot be written.
        """
        new = self.written(name, {self.array: values})
        try:
            new.replace(self._path(name))
        except OSError as fault:
            new.unlink(missing_ok=True)
            raise self.not_kept(fault) from None

    def not_kept(self, fault: OSError) -> EverholdError:
        """Return the error for an array that cannot be written."""
        return EverholdError(
            f"{self.called.capitalize()} cannot be written beside the sealed rows: {fault.strerror}. Check that the "
            f"folder is writable and has room, and {self.remedy}."
        )

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays that were written under a name.

        Raises:
            IntegrityError: If their file is missing or was altered. Nothing is charged.
        """
        path, content, found = self._path(name), b"", dict[str, Any]()
        with suppress(OSError):
            content = path.read_bytes()
        seal, inside = content[:_SEAL_BYTES], content[_SEAL_BYTES:]
        if hmac.compare_digest(seal, self._seal(name, inside)):
            with suppress(ValueError, zipfile.BadZipFile), np.load(io.BytesIO(inside), allow_pickle=False) as arrays:
                found = dict(arrays)  # what is suppressed never happens, as the content carries the seal
        if self.array not in found:
            what = "was altered" if content else "is missing"
            raise IntegrityError(
                f"The file {path.name} of {self.whose} beside the sealed rows {what}. Restore the folder from its "
                "backup."
            )
        return found

    def find(self, name: str) -> NDArray[Any]:
        """Return the array that was written under a name.

        Raises:
            IntegrityError: If its file is missing or was altered. Nothing is charged.
        """
        return self.arrays(name)[self.array]

    def has(self, name: str) -> bool:
        """Return whether an array is stored under a name."""
        return self._path(name).exists()

    def _seal(self, name: str, content: bytes) -> bytes:
        return hmac.digest(self._key, self._bound_to(name) + content, "sha256")

    def _path(self, name: str) -> Path:
        return self.folder / f"{self.prefix}-{name}"

    def _bound_to(self, name: str) -> bytes:
        return f"{self.holdout}\n{name}\n".encode()
