"""Names, fingerprints and readers of a holdout's sealed files.

The files of the creation are bound by the holdout's configuration, and those of an arrival by its entry in the ledger.
Notes about rows, such as their hashes, are bound by a seal in their last line, made with the steward's key.
Whoever opens, checks, backs up or restores a holdout takes its files from here.
"""

from __future__ import annotations

import hmac
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.errors import IntegrityError
from everhold.sealing.fingerprints import check_fingerprint
from everhold.sealing.rows.embedded import Embedded
from everhold.sealing.sealed_arrays import write_durably
from everhold.sealing.storage import HOLDOUT_FILE, TRAINING_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_NOTES = re.compile(r"(?:content|study|parts|open-cases|(?:compared|arrival)(?:-[0-9]{6})?)\.json|known-.*")
_SEAL = 65  # bytes: a line of 64 hexadecimal digits


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file of rows, and the fingerprint it has to have.

    Attributes:
        path: Where it is.
        fingerprint: SHA-256 of its content, in hex.
        what: How messages call its rows, "holdout" or "training".
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
    """Return the files of the creation or of one arrival, by side. Sealed rows in an engine have no file.

    Args:
        folder: Private folder of the holdout.
        configuration: Of the holdout.
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
    """Write a note about rows durably, with its seal, readable by its owner alone.

    Args:
        path: Its name is sealed, too.
        content: Of the note.
        key: The steward's `notes_key`.
        replace: Whether a note that is there gives way; else it stays, and nothing is written.
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
    """Return the content of a note without a check of its seal, because other holdouts' keys are not at hand.

    Raises:
        OSError: If there is none.
    """
    return path.read_bytes()[:-_SEAL]


def sealed_note(path: Path, *, key: bytes) -> bytes | None:
    """Return the content of a note of the holdout itself, or None if there is none.

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
    """Yield in words what is wrong with the notes in a folder."""
    for path in sorted(folder.iterdir()):
        if _NOTES.fullmatch(path.name):
            try:
                sealed_note(path, key=key)
            except IntegrityError as fault:
                yield fault.message


def _seal(path: Path, content: bytes, key: bytes) -> bytes:
    return b"\n" + hmac.digest(key, path.name.encode() + b"\n" + content, "sha256").hex().encode()
