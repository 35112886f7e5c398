"""Arrays in a file beside the sealed rows, for its owner alone: durable, and found out if somebody alters them."""

from __future__ import annotations

import hmac
import io
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.private_files import create_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["packed", "unpacked", "write_durably"]

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


def write_durably(path: Path, content: bytes) -> None:
    """A new file that only its owner can read, on the disk before this returns.

    Raises:
        OSError: If it cannot be written.
    """
    with os.fdopen(create_private(path), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
