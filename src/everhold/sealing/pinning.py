"""Rows that stay in an engine, held to what they were: a fingerprint under the steward's key.

Everybody may see a file's fingerprint, because the file holds a secret salt. A table holds none, so whoever guesses its
rows could try the guess: what the engine computes goes through a key, and what is recorded tells nothing without it.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from everhold.errors import HoldoutRejected, IntegrityError
from everhold.progress import progress
from everhold.sealing.engines.connecting import ENGINE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.sealing.engines.base import Engine
    from everhold.sealing.keys import StewardKey

__all__ = ["check_pinned", "keyed_fingerprint"]


def keyed_fingerprint(engine: Engine, key: StewardKey) -> str:
    """HMAC-SHA256, in hex, of what changes with any row of the table; the engine reads all of it.

    Two keys: the one in the statements that the engine gets, and perhaps logs, keeps anybody from aiming at a digest;
    the other one never leaves this process, and without it the fingerprint tells nothing.
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
            f"the sealed table {table!r} cannot be found or read as it was; expected it where {engine.title} had it "
            f"when it was sealed, or at the engine that is handed in or named by {ENGINE_VARIABLE}; bring it back; no "
            "question is answered until then, and nothing was charged"
        ) from None
    if found is None or not hmac.compare_digest(found, configuration["fingerprint"]):
        raise IntegrityError(
            f"the table {table!r} is not the one that was sealed: its {'columns' if found is None else 'rows'} differ "
            "from what was fingerprinted then; expected the same rows, in any order; restore them in the engine, or "
            f"hand in or name by {ENGINE_VARIABLE} the engine that has them; no question is answered until then, and "
            "nothing was charged"
        )
