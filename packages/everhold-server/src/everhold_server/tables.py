"""Database tables of the service beside the ledger: tokens, sessions and the audit log.

These tables are not part of the ledger's chain of hashes. Somebody who can write to the database can let anybody in,
but cannot forge an answer of the ledger. Only the SHA-256 of a secret is stored. Times are texts (UTC, to the second)
that sort by time.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from everhold.ledger.database import database_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import sqlalchemy as sa

    from everhold.ledger.database import LedgerDatabase


Item = TypeVar("Item")
Found = TypeVar("Found")


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
            turn: Writers with the same turn wait for each other. On SQLite, all writers do.
        """
        with self.database.transaction(writing=True, turn=turn) as connection, database_errors():
            yield connection


class BatchedWork(Generic[Item, Found]):
    """Does the same work for concurrent requests together: all items that wait at one moment share a thread.

    Args:
        work: Function from several items to one result for each, in order.
    """

    def __init__(self, work: Callable[[list[Item]], Sequence[Found]]) -> None:
        self._work = work
        self._waiting: list[tuple[Item, asyncio.Future[Found]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def of(self, item: Item) -> Found:
        """Return the result for one item.

        The work on it begins after this call. An exception of the work is raised again.
        """
        done: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work_all())
        return await done

    async def _work_all(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                found: Sequence[Found] = ()
                fault: Exception | None = None
                try:
                    found = await asyncio.to_thread(self._work, [item for item, _ in together])
                except Exception as failed:
                    fault = failed
                for place, (_, done) in enumerate(together):
                    if done.cancelled():
                        continue
                    if fault is None:
                        done.set_result(found[place])
                    else:
                        done.set_exception(fault)
        finally:
            self._worker = None
