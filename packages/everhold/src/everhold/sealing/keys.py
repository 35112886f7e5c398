"""The steward's key: signs certificates, and seals the mechanism's state in the ledger."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from everhold.errors import AuthError
from everhold.private_files import check_private, create_private

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KEY_FILE", "StewardKey", "signature_holds"]

KEY_FILE = "steward.key"


@dataclass(frozen=True)
class StewardKey:
    """An Ed25519 key that stays with the steward."""

    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def create(cls, path: Path) -> StewardKey:
        """Make a new key and write it to a file that only its owner can read."""
        private = Ed25519PrivateKey.generate()
        content = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with os.fdopen(create_private(path, mode=0o400), "wb") as file:
            file.write(content)
        return cls(private)

    @classmethod
    def load(cls, path: Path, *, public_key: str) -> StewardKey:
        """Read the key of a holdout.

        Args:
            path: File that `create` wrote.
            public_key: The public key that the holdout was created with, in hex.

        Raises:
            AuthError: If the file is missing, unreadable, open to other users or holds another key.
        """
        check_private(path)
        try:
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, TypeError, ValueError, UnsupportedAlgorithm):
            raise AuthError(
                f"the steward's key cannot be read; expected {path.name} beside the sealed rows; restore it"
            ) from None
        if not isinstance(private, Ed25519PrivateKey) or cls(private).public_key != public_key:
            raise AuthError(
                f"{path.name} is the key of another holdout; expected the one made when this one was sealed"
            )
        return cls(private)

    @property
    def public_key(self) -> str:
        """The public half, 32 bytes in hex."""
        return self._private.public_key().public_bytes_raw().hex()

    @cached_property
    def seal_key(self) -> bytes:
        """A key for message authentication, derived from the private half."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold ledger seal", "sha256")

    @property
    def order_key(self) -> bytes:
        """A key for the secret order in which code meets the sealed rows."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold order of rows", "sha256")

    @property
    def fingerprint_key(self) -> bytes:
        """A key for the fingerprint of rows that stay in an engine; it never leaves this process."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold fingerprint of a table", "sha256")

    @property
    def rows_key(self) -> str:
        """A key that goes into the text of every such row, in hex; statements to the engine hold it."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold rows of a table", "sha256").hex()

    @property
    def notes_key(self) -> bytes:
        """A key for what is noted about rows beside them: their hashes, and the seals of the files that hold notes."""
        return hmac.digest(self._private.private_bytes_raw(), b"everhold notes about rows", "sha256")

    def sign(self, message: bytes) -> str:
        """Ed25519 signature in hex."""
        return self._private.sign(message).hex()


def signature_holds(message: bytes, *, signature: str, public_key: str) -> bool:
    """True if an Ed25519 signature belongs to a message and a public key, both in hex."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
