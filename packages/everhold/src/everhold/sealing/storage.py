"""Where a holdout is stored: database, name, private folder of the rows, and the steward's key."""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import secrets
import shutil
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from everhold.arguments import brief
from everhold.errors import AuthError, EverholdError, HoldoutRejected, Unavailable
from everhold.ledger.address import rows_beside
from everhold.private_files import check_private, create_private, in_use, is_in_use, private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

DEFAULT_STORAGE = "sqlite:///everhold.db"
HOLDOUT_FILE, TRAINING_FILE = "holdout.parquet", "training.parquet"  # in a holdout's folder
ROOM = ".everhold-"  # begins the name of a folder in which a backup or a restore works
_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
_FOLDERS = re.compile(rf"{_NAMES.pattern}-[0-9a-f]{{8}}")


def storage_url(storage: str | Path) -> str:
    """Return a storage as a URL. A plain path is an SQLite file.

    Examples:
        >>> storage_url("flights.db")
        'sqlite:///flights.db'
    """
    if not isinstance(storage, (str, os.PathLike)):
        raise ValueError(f"The storage is {brief(storage)}. Pass a path or a URL such as sqlite:///study.db.")
    text = os.fspath(storage)
    return text if "://" in text else f"sqlite:///{text}"


def check_name(name: str) -> None:
    """Check that a holdout may have this name."""
    if not isinstance(name, str) or not _NAMES.fullmatch(name):
        raise HoldoutRejected(
            f"The name {brief(name)} cannot be used. Pass up to 64 letters (a to z, A to Z), digits, "
            "spaces, dots, dashes and underscores, beginning with a letter or digit."
        )


def rows_folder(storage: str | Path) -> Path:
    """Return the folder with the private folders of a storage's holdouts.

    Raises:
        ValueError: If the address cannot be used, or if it must name the folder and does not.
    """
    return rows_beside(storage_url(storage))


def is_folder_name(folder: str) -> bool:
    """Return whether a text has the form of a folder name that `new_folder` makes, without path separators."""
    return _FOLDERS.fullmatch(folder) is not None


def check_name_is_free(name: str, names: Sequence[str]) -> None:
    """Check that no other holdout has the name."""
    if name in names:
        raise HoldoutRejected(
            f"A holdout named {name!r} exists. Open it, or pass a new name. Holdout.create opens it with exist_ok=True "
            "(--exist-ok) if rows and settings are the same.",
            name=name,
        )


def make_rows_folder(rows: Path) -> None:
    """Create the folder with the holdouts' private folders, or restrict an existing one to its owner.

    Raises:
        HoldoutRejected: If the folder around it is missing, or other files are in it and others can open it.
        OSError: If it cannot be made.
    """
    if not rows.parent.is_dir():
        raise HoldoutRejected(f"The folder {str(rows.parent)!r} of the storage does not exist. Create it first.")
    try:
        private_folder(rows, ours=_is_ours)
    except FileExistsError:
        raise HoldoutRejected(
            f"{str(rows)!r}, where the sealed rows would go, is a file, or a folder with other files in it that others "
            "can open. Choose another path for the storage."
        ) from None


def leftovers(rows: Path, folders: Callable[[], Collection[str]]) -> list[Path]:
    """Return the folders that an interrupted creation, backup or restore left behind.

    Args:
        rows: The folder of the private folders.
        folders: Function that returns the folders that the ledger names. It is called last, because a creation may end
            meanwhile.
    """
    there = [path for path in sorted(rows.iterdir()) if _is_ours(path.name) and path.is_dir() and not is_in_use(path)]
    known = folders()
    return [path for path in there if path.name not in known]


def _is_ours(name: str) -> bool:
    return name.startswith(ROOM) or is_folder_name(name)


@contextlib.contextmanager
def new_folder(rows: Path, name: str) -> Iterator[Path]:
    """Return a context with a new private folder for one holdout.

    After an error it is removed, if nothing was recorded.

    Args:
        rows: Folder with the private folders of all holdouts of the storage. It is made if it is missing, but its
            parent must exist.
        name: Name of the holdout.

    Raises:
        HoldoutRejected: If it cannot be made.
    """
    folder = rows / f"{name}-{secrets.token_hex(4)}"
    try:
        make_rows_folder(rows)  # mkdir(parents=True) would make this one as the umask says
        private_folder(folder)
    except OSError as fault:
        raise HoldoutRejected(
            f"The folder for the rows, {rows.name!r}, cannot be made ({fault.strerror}). Check its permissions."
        ) from None
    try:
        with in_use(folder):
            yield folder
    except BaseException as fault:
        if isinstance(fault, Unavailable) and fault.data.get("may_be_recorded"):
            raise
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other holdouts live there
            folder.parent.rmdir()
        if isinstance(fault, OSError) and not isinstance(fault, EverholdError):
            raise HoldoutRejected(
                f"The rows cannot be sealed in {rows.name!r}: {fault.strerror or type(fault).__name__}. Check that the "
                "disk has room, and create the holdout again."
            ) from None
        raise


KEY_FILE = "steward.key"


@dataclass(frozen=True)
class StewardKey:
    """Ed25519 key of a holdout's steward, from which the holdout's other keys are derived."""

    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def create(cls, path: Path) -> StewardKey:
        """Generate a key, and write it to a file that only its owner can read."""
        private = Ed25519PrivateKey.generate()
        content = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with os.fdopen(create_private(path, mode=0o400), "wb") as file:
            file.write(content)
        return cls(private)

    @classmethod
    def load(cls, path: Path, *, public_key: str) -> StewardKey:
        """Read the key of a holdout from its file.

        Args:
            path: File that `create` wrote.
            public_key: Public key, in hex, that was recorded when the holdout was created.

        Raises:
            AuthError: If the file is missing, unreadable, open to other users or holds another key.
        """
        check_private(path)
        try:
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, TypeError, ValueError, UnsupportedAlgorithm):
            raise AuthError(
                f"The steward's key {path.name} beside the sealed rows cannot be read. Restore the file, or name the "
                "folder that the rows are in."
            ) from None
        if not isinstance(private, Ed25519PrivateKey) or cls(private).public_key != public_key:
            raise AuthError(
                f"The file {path.name} is the key of another holdout. Restore the key that "
                "was made when this holdout was sealed."
            )
        return cls(private)

    @property
    def public_key(self) -> str:
        """The public half of the key, 32 bytes in hex."""
        return self._private.public_key().public_bytes_raw().hex()

    @cached_property
    def seal_key(self) -> bytes:
        """Key of the ledger's seals, derived from the private half."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold ledger seal", "sha256")

    @property
    def order_key(self) -> bytes:
        """Key of the secret order in which code meets the sealed rows."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold order of rows", "sha256")

    @property
    def fingerprint_key(self) -> bytes:
        """Secret key for the fingerprint of rows in an engine."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold fingerprint of a table", "sha256")

    @property
    def rows_key(self) -> str:
        """Key in hex that statements to an engine add to the text of each row before its fingerprint is computed."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold rows of a table", "sha256").hex()

    @property
    def notes_key(self) -> bytes:
        """Key for the notes beside the rows: for the hashes of rows in them, and for the files' digests."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold notes about rows", "sha256")

    def sign(self, message: bytes) -> str:
        """Return the Ed25519 signature of a message, in hex."""
        return self._private.sign(message).hex()


def signature_holds(message: bytes, *, signature: str, public_key: str) -> bool:
    """Return whether an Ed25519 signature fits a message and a public key, both in hex."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
