"""Records of the service beside the ledger, in the same database: tokens, sessions and the audit log.

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
    """This moment."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """A moment as the tables hold it.

    Examples:
        >>> from datetime import UTC, datetime
        >>> stamp(datetime(2026, 1, 31, 12, tzinfo=UTC))
        '2026-01-31T12:00:00+00:00'
    """
    return moment.astimezone(UTC).isoformat(timespec="seconds")


class Records:
    """The database of a storage, for the tables of this module; safe to share between threads."""

    def __init__(self, database: LedgerDatabase, clock: Callable[[], datetime] = now) -> None:
        self.database, self.clock = database, clock

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection that sees one moment."""
        with self.database.transaction() as connection, database_errors():
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A connection whose changes are committed together, if nothing is raised."""
        with self.database.transaction(writing=True) as connection, database_errors():
            yield connection
