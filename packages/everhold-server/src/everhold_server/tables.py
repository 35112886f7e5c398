"""Database tables of the service beside the ledger: tokens, sessions and the audit log.

None of it is part of the chain: who may write to the database can let anybody in, and can answer nothing in the
ledger's name. Secrets are kept as their SHA-256 alone. Moments are texts (UTC, to the second), so that they sort.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from everhold.ledger.database import database_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from everhold.ledger.database import LedgerDatabase


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """Return a time as text in ISO format, in UTC to the second, as the database stores times.

    Examples:
        >>> from datetime import UTC, datetime
        >>> stamp(datetime(2026, 1, 31, 12, tzinfo=UTC))
        '2026-01-31T12:00:00+00:00'
    """
    return moment.astimezone(UTC).isoformat(timespec="seconds")


class Records:
    """Access to the service's tables in the database of a storage. Thread-safe."""

    def __init__(self, database: LedgerDatabase, clock: Callable[[], datetime] = now) -> None:
        self.database, self.clock = database, clock

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Return a context with a connection that reads one consistent state."""
        with self.database.transaction() as connection, database_errors():
            yield connection

    @contextlib.contextmanager
    def writing(self, turn: str = "") -> Iterator[sa.Connection]:
        """Return a context with a connection whose changes are committed at the end, or rolled back after an error.

        Args:
            turn: Only writers that name the same wait for each other, on SQLite always all of them.
        """
        with self.database.transaction(writing=True, turn=turn) as connection, database_errors():
            yield connection
