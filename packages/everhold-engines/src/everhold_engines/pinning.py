"""Fingerprint under the steward's key of rows that stay in an engine, so that changes are detected.

The fingerprint of a file is public, because the file holds a secret salt. A table holds no salt, so a guess of its rows
could be tested against a plain digest. The digest is therefore keyed, and the record reveals nothing without the key.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from everhold.errors import HoldoutRejected, IntegrityError
from everhold.progress import progress
from everhold.sealing.rows.row_store import ENGINE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.sealing.storage import StewardKey
    from everhold_engines.base import Engine


def keyed_fingerprint(engine: Engine, key: StewardKey) -> str:
    """HMAC-SHA256, in hex, of what changes with any row of the table; the engine reads all of it.

    There are two keys. The engine gets the first in its statements, and may log them; it prevents crafted collisions.
    The second never leaves this process, and without it the fingerprint reveals nothing.
    """
    contents = engine.contents(key.rows_key)
    return hmac.digest(key.fingerprint_key, contents.encode(), "sha256").hex()


def check_pinned(engine: Engine, configuration: Mapping[str, Any], key: StewardKey) -> None:
    """Check that a table holds the rows that were sealed, in the same columns; the engine reads all of it.

    Raises:
        IntegrityError: If it does not, or is not there any more.
        Unavailable: If the engine cannot be reached.
    """
    table = configuration["engine"]["table"]
    try:
        with progress("checking the table"):
            columns = [[name, kind.value] for name, kind in engine.columns().items()]
            found = keyed_fingerprint(engine, key) if columns == configuration["columns"] else None
    except HoldoutRejected:
        raise IntegrityError(
            f"Sealed table {table!r} not found in {engine.title}. Restore it, or set {ENGINE_VARIABLE} to its current "
            "location. Nothing was charged."
        ) from None
    if found is None or not hmac.compare_digest(found, configuration["fingerprint"]):
        raise IntegrityError(
            f"The table {table!r} is not the one that was sealed: its {'columns' if found is None else 'rows'} differ. "
            f"Restore them, in any order, or set {ENGINE_VARIABLE} to the engine that has them. Nothing was charged."
        )
