"""Arrays in a file beside the sealed rows, for its owner alone: durable, and found out if they are altered."""

from __future__ import annotations

import hmac
import io
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import IntegrityError
from everhold.private_files import create_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["packed", "read_arrays", "unpacked", "write_durably"]

_SEAL_BYTES = 32


def packed(arrays: Mapping[str, NDArray[Any] | None], *, key: bytes, bound_to: bytes) -> bytes:
    """Arrays by name, without those that are None, after a keyed digest of what they are and whose.

    Args:
        arrays: Numbers or text, no objects.
        key: Only who has it can make the digest.
        bound_to: To what they belong: the same bytes open them.
    """
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **{name: a for name, a in arrays.items() if a is not None})
    return hmac.digest(key, bound_to + content.getvalue(), "sha256") + content.getvalue()


def unpacked(content: bytes, *, key: bytes, bound_to: bytes) -> dict[str, NDArray[Any]] | None:
    """The inverse of `packed`; None if anything was altered or belongs to something else."""
    seal, inside = content[:_SEAL_BYTES], content[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, hmac.digest(key, bound_to + inside, "sha256")):
        return None
    try:
        with np.load(io.BytesIO(inside), allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, zipfile.BadZipFile):  # never, as it carries the seal
        return None


def read_arrays(
    path: Path, *, key: bytes, bound_to: bytes, needed: str, whose: str, done: str
) -> dict[str, NDArray[Any]]:
    """The arrays of a file that `packed` made.

    Args:
        path: The file.
        key: As for `packed`.
        bound_to: As for `packed`.
        needed: Name of an array that has to be there.
        whose: What the file is of, in words for an error.
        done: What surely was not done, in words for an error.

    Raises:
        IntegrityError: If the file is missing or was altered.
    """
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    arrays = unpacked(content, key=key, bound_to=bound_to)
    if arrays is None or needed not in arrays:
        what = "was altered" if content else "is missing"
        raise IntegrityError(
            f"the file {path.name} of {whose} beside the sealed rows {what}; expected it as it was written; "
            f"nothing was {done} or charged; restore the backup of the folder"
        )
    return arrays


def write_durably(path: Path, content: bytes) -> None:
    """A new file that only its owner can read, on the disk before this returns.

    Raises:
        OSError: If it cannot be written.
    """
    with os.fdopen(create_private(path), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
