"""The database under the ledger: tables and transactions, whichever database it is.

`everhold.ledger.schema` makes the tables. JSON is stored as canonical text, not as a JSON column: the hash chain is
over bytes. What differs between the databases is in `everhold.ledger.sqlite` and in the classes of
`everhold.databases`.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError, Unavailable
from everhold.ledger.faults import BUSY, database_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everhold.ledger.chain import EntryIndex
    from everhold.ledger.records import Head

__all__ = [
    "COUNT",
    "CURRENT_REVISION",
    "TEXT",
    "VERSION_TABLE",
    "LedgerDatabase",
    "checkpoints",
    "database_errors",
    "entries",
    "head",
    "holdouts",
    "metadata",
    "queries_in_order",
]

CURRENT_REVISION = "0100"
"""What a database says that has these tables."""

VERSION_TABLE = "everhold_version"
"""Table of the revision."""

metadata = sa.MetaData()

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Text whose order, and so whose indexes, no update of the operating system changes."""

COUNT = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
"""A whole number of 64 bits on every database."""

holdouts = sa.Table(
    "holdouts",
    metadata,
    sa.Column("id", TEXT, primary_key=True),
    sa.Column("name", TEXT, nullable=False, unique=True),
    sa.Column("created", TEXT, nullable=False),
    sa.Column("configuration", TEXT, nullable=False),
    sqlite_strict=True,
)

head = sa.Table(
    "head",
    metadata,
    sa.Column("holdout_id", TEXT, sa.ForeignKey("holdouts.id"), primary_key=True),
    sa.Column("sequence", COUNT, nullable=False),
    sa.Column("charged", COUNT, nullable=False),
    sa.Column("state", TEXT, nullable=False),
    sa.Column("entry_hash", TEXT, nullable=False),
    sa.Column("queries_hash", TEXT, nullable=False),
    sa.Column("head_seal", TEXT, nullable=False),
    sqlite_strict=True,
)

entries = sa.Table(
    "entries",
    metadata,
    sa.Column("holdout_id", TEXT, sa.ForeignKey("holdouts.id"), primary_key=True),
    sa.Column("sequence", COUNT, primary_key=True, autoincrement=False),
    sa.Column("query", TEXT, nullable=False),
    sa.Column("description", TEXT, nullable=False),
    sa.Column("answer", TEXT, nullable=False),
    sa.Column("charged", COUNT, nullable=False),
    sa.Column("asked_at", TEXT, nullable=False),
    sa.Column("state_seal", TEXT, nullable=False),
    sa.Column("previous_hash", TEXT, nullable=False),
    sa.Column("entry_hash", TEXT, nullable=False),
    sa.Column("entry_seal", TEXT, nullable=False),
    sa.UniqueConstraint("holdout_id", "query"),
    sa.Index("entries_in_order", "holdout_id", "sequence", "query"),  # all queries can be read without their answers
    sqlite_strict=True,
)

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("holdout_id", TEXT, sa.ForeignKey("holdouts.id"), primary_key=True),
    sa.Column("sequence", COUNT, nullable=False),
    sa.Column("content", TEXT, nullable=False),
    sa.Column("seal", TEXT, nullable=False),
    sqlite_strict=True,
)

_QUERIES = (
    sa.select(entries.c.query)
    .where(
        entries.c.holdout_id == sa.bindparam("holdout"),
        entries.c.sequence > sa.bindparam("after"),
        entries.c.sequence <= sa.bindparam("last"),
    )
    .order_by(entries.c.sequence)
    .subquery()
)
_IN_ONE_TEXT = sa.select(sa.func.aggregate_strings(_QUERIES.c.query, ""))
_QUERIES_AT_ONCE = 50_000

_REVISION = re.compile("[0-9a-f]{4,12}")


class LedgerDatabase(ABC):
    """One database, safe to share between threads, and to use after a fork.

    Args:
        patience: Seconds to wait for another writer.

    Attributes:
        indexes: The queries of each holdout that this process knows, by the holdout's identifier.
        heads: The newest head of each holdout that this process has seen; secret.
    """

    def __init__(self, *, patience: float) -> None:
        self.patience = patience
        self.indexes: dict[str, EntryIndex] = {}
        self.heads: dict[str, Head] = {}
        self._engine = self._connect()
        weakref.finalize(self, self._engine.dispose)
        self._turns: dict[str, threading.Lock] = {}
        self._in_use = False
        self._busy_at_fork = False
        _open_databases.add(self)

    @property
    @abstractmethod
    def url(self) -> str:
        """The address, complete; it may hold a password."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The address as people may see it."""

    @abstractmethod
    def damage(self, connection: sa.Connection) -> tuple[str, ...]:
        """Faults that the database itself finds in its storage, in words; empty if all is well."""

    def weaknesses(self, connection: sa.Connection) -> tuple[str, ...]:
        """Why it may take no answers, or lose some in a crash, in words; empty if all is well."""
        return ()

    @abstractmethod
    def _connect(self) -> sa.Engine:
        """A pool of connections."""

    @abstractmethod
    def _begin(self, connection: sa.Connection, *, writing: bool, turn: str) -> None:
        """Begin a transaction, for a writer once it is its turn."""

    def close(self) -> None:
        """Close all idle connections; new ones are opened when needed."""
        self._engine.dispose()

    @contextlib.contextmanager
    def transaction(self, *, writing: bool = False, turn: str = "") -> Iterator[sa.Connection]:
        """A connection within a transaction, which is committed if nothing is raised inside.

        A reader sees one moment, that of its first statement.

        Args:
            writing: Whether something will be written. Writers take turns, and each sees what those before it wrote.
            turn: Only writers that name the same are kept apart; on SQLite it is always all of them.
        """
        if self._busy_at_fork:
            raise EverholdError(
                "this process was forked while the ledger was in use, so it cannot use it safely; "
                "expected a spawned process; use the start method 'spawn' or 'forkserver'"
            )
        with contextlib.ExitStack() as stack:
            stack.callback(self._leave, self._engine.pool)
            if writing:
                mine = self._turn(turn)  # the other threads first: they need no connection to wait for it
                if not mine.acquire(timeout=self.patience):
                    raise Unavailable(BUSY)
                stack.callback(mine.release)
            with database_errors():
                connection = self._begun(stack, writing=writing, turn=turn)
            try:
                yield connection
            except BaseException:
                with contextlib.suppress(DBAPIError):  # the connection may be what was lost
                    connection.rollback()
                raise
            with database_errors(committing=writing):
                connection.commit()

    def _turn(self, turn: str) -> threading.Lock:
        """The lock of the writers of this process that name the same."""
        return self._turns.setdefault(turn, threading.Lock())

    def _leave(self, pool: sa.Pool) -> None:
        """Close what came back to a pool that was closed meanwhile."""
        if pool is not self._engine.pool:
            pool.dispose()

    def _begun(self, stack: contextlib.ExitStack, *, writing: bool, turn: str) -> sa.Connection:
        """A connection with a transaction; a server that was restarted is only found out by using a connection."""
        for pooled in (True, False):
            connection = stack.enter_context(self._engine.connect())
            try:
                self._begin(connection, writing=writing, turn=turn)
            except DBAPIError as error:
                if not (pooled and error.connection_invalidated):
                    raise
            else:
                break
        return connection

    def revision(self) -> str | None:
        """The revision of the tables; None if there are none.

        Raises:
            IntegrityError: If what says so was altered.
        """
        with self.transaction() as connection, database_errors():
            return _revision(connection)

    def migrate(self, *, create: bool) -> str | None:
        """Check that the tables are those of this version, and make them where there are none.

        Returns:
            The revision that was found; None if there were no tables.

        Raises:
            HoldoutNotFound: If there are no tables yet and `create` is false: it belongs to another program.
            EverholdError: If they are those of another version.
        """
        revision = self.revision()
        if revision == CURRENT_REVISION:
            return revision
        if revision is None and not create:
            raise HoldoutNotFound(
                "the database is no ledger of everhold; check the address, or create a holdout there first"
            )
        if revision is not None:
            raise EverholdError(
                f"The ledger has revision {revision}, not {CURRENT_REVISION}: a later version of everhold wrote it, or "
                "a development version before 0.1.0. Update everhold, or seal the rows anew."
            )
        from everhold.ledger.schema import create_tables

        with self.transaction(writing=True) as connection, database_errors():
            if _revision(connection) is None:  # no other process was faster
                self._check_usable(connection)
                create_tables(connection)
        return revision

    def _check_usable(self, connection: sa.Connection) -> None:  # noqa: B027  # not all databases can refuse
        """Check that the tables can be made here."""

    def _before_fork(self) -> None:
        # SQLite counts locks per process: a child that inherited open files would take the parent's locks for its own.
        # A server would take what a child says for the parent's words.
        pool = self._engine.pool
        self._in_use = isinstance(pool, QueuePool) and pool.checkedout() > 0
        self._engine.dispose()

    def _after_fork_in_child(self) -> None:
        self._busy_at_fork |= self._in_use
        _left_to_parent.append(self._engine)
        self._engine, self._turns = self._connect(), {}
        weakref.finalize(self, self._engine.dispose)


_open_databases: weakref.WeakSet[LedgerDatabase] = weakref.WeakSet()
_left_to_parent: list[sa.Engine] = []  # never closed in a child: closing would touch the parent's files


def _before_fork() -> None:
    for database in list(_open_databases):
        database._before_fork()


def _after_fork_in_child() -> None:
    for database in list(_open_databases):
        database._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def queries_in_order(connection: sa.Connection, holdout: str, after: int, last: int) -> Iterator[str]:
    """The fingerprints of the entries after one up to another, joined by the database in long texts."""
    for start in range(after, last, _QUERIES_AT_ONCE):
        part = {"holdout": holdout, "after": start, "last": min(start + _QUERIES_AT_ONCE, last)}
        yield connection.scalar(_IN_ONE_TEXT, part) or ""


def _revision(connection: sa.Connection) -> str | None:
    """The revision of the tables; None if there are none.

    Raises:
        IntegrityError: If the table of the revision is there, and holds none or something else.
    """
    if not connection.dialect.has_table(connection, VERSION_TABLE):
        return None
    found = connection.execute(sa.text(f"SELECT * FROM {VERSION_TABLE}")).all()
    if len(found) != 1 or len(found[0]) != 1 or not _REVISION.fullmatch(str(found[0][0])):
        raise IntegrityError(
            f"the table {VERSION_TABLE} of the ledger does not hold one revision; expected it as everhold wrote it; "
            "restore a backup"
        )
    return str(found[0][0])
