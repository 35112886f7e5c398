"""The database under the ledger: its transactions, which are the same for every kind of database.

The tables are in `everhold.ledger.schema`. JSON is stored as canonical text, not in a JSON column, because the hash
chain is over bytes. The differences between databases are in `everhold.ledger.address` and in the classes of
`everhold.databases`.
"""

from __future__ import annotations

import contextlib
import copy
import os
import re
import sqlite3
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from everhold.errors import AuthError, EverholdError, HoldoutNotFound, IntegrityError, Unavailable
from everhold.ledger.schema import CURRENT_REVISION, VERSION_TABLE, create_tables, entries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from everhold.ledger.acts import Head
    from everhold.ledger.chain import EntryIndex

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
    """Base of the databases under a ledger. Safe to share between threads, and to use after a fork.

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
        self._lines: dict[str, WriterQueue] = {}
        _open_databases.add(self)

    @property
    @abstractmethod
    def url(self) -> str:
        """The complete address. It may hold a password."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The address without secrets, for messages."""

    @abstractmethod
    def damage(self, connection: sa.Connection) -> tuple[str, ...]:
        """Return the faults that the database itself finds in its storage, in words. Empty if all is well."""

    def weaknesses(self, connection: sa.Connection) -> tuple[str, ...]:
        """Return texts that say why the database may refuse answers, or lose some in a crash. Empty if all is well."""
        return ()

    @abstractmethod
    def _connect(self) -> sa.Engine:
        """Create a pool of connections."""

    @abstractmethod
    def _begin(self, connection: sa.Connection, *, writing: bool, turn: str) -> None:
        """Begin a transaction. A writer waits until no other writer with the same `turn` writes.

        `writing` is true if the transaction writes.
        """

    def close(self) -> None:
        """Close all idle connections, which are opened again when needed."""
        self._engine.dispose()

    @contextlib.contextmanager
    def transaction(self, *, writing: bool = False, turn: str = "") -> Iterator[sa.Connection]:
        """Context with a connection in a transaction, which is committed unless the block raises.

        A reader sees the database as of its first statement.

        Args:
            writing: Whether something will be written. Writers take turns, and each sees what those before it wrote.
            turn: Writers with the same turn wait for each other. On SQLite all writers do.
        """
        if writing:
            with self.group(turn, alone=True) as group:
                yield group.connection
        else:
            with self._transaction(writing=False, turn=turn) as connection:
                yield connection

    @contextlib.contextmanager
    def group(self, turn: str, *, alone: bool = False) -> Iterator[Group]:
        """Context in which this thread may write. Threads that wait at the same moment share one transaction.

        The group's parts are written and committed before the context ends. A block that raises an error must not have
        added its part. The parts of other threads are committed all the same.

        Args:
            turn: Writers with the same turn wait for each other. On SQLite all writers do.
            alone: Whether the transaction is shared with no other thread. The block may then write directly, and its
                writes are undone if it raises.
        """
        line, writer = self.line(turn), Writer(self, alone)
        failed: BaseException | None = None
        try:
            line.enter(writer, self.patience)  # the other threads first: they need no connection to wait
            if writer.group is None:
                end, until = contextlib.ExitStack(), time.monotonic() + _LONGEST
                connection = end.enter_context(self._transaction(writing=True, turn=turn))
                writer.group = Group(connection, end, writer, until)
            yield writer.group
        except BaseException as fault:
            if not line.leave(writer):
                raise
            failed = fault
        group, undone = writer.group, failed if alone else None
        if group is None:
            line.call_next()
        elif undone is not None or not line.call_next(group):
            try:
                with contextlib.ExitStack() as stack:
                    stack.callback(line.call_next)
                    stack.push(group.end)
                    if undone is not None:
                        raise undone
                    group.write()
                group.committed()
            except BaseException as fault:
                group.fault = fault if isinstance(fault, EverholdError) else _unknown()
                if failed is None:
                    raise
            finally:
                group.done.set()
        elif failed is None:
            group.done.wait()
            if group.fault is not None:
                raise copy.copy(group.fault)
        if failed is not None:
            raise failed
        if group is not None and turn in group.faults:
            raise copy.copy(group.faults[turn])

    @property
    def connections(self) -> int:
        """Number of connections in use."""
        pool = self._engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    def lines(self) -> Collection[WriterQueue]:
        """Return the queues of all turns of writers in this process."""
        return [*self._lines.values()]

    def line(self, turn: str) -> WriterQueue:
        """Return the queue of this process's writers with the same turn, which must not write concurrently."""
        return self._lines.setdefault(turn, WriterQueue())

    @contextlib.contextmanager
    def _transaction(self, *, writing: bool, turn: str) -> Iterator[sa.Connection]:
        """Context with a connection in a transaction, which is committed unless the block raises.

        Args:
            writing: Whether the transaction writes.
            turn: Turn that a writer waits for.
        """
        pool = self._engine.pool
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(_in_transaction())
                with database_errors():
                    for pooled in (True, False):  # once more, because only use shows that a server restarted
                        connection = stack.enter_context(self._engine.connect())
                        try:
                            self._begin(connection, writing=writing, turn=turn)
                        except DBAPIError as error:
                            if not (pooled and error.connection_invalidated):
                                raise
                        else:
                            break
                try:
                    yield connection
                except BaseException:
                    with contextlib.suppress(DBAPIError):  # the connection may be what was lost
                        connection.rollback()
                    raise
                with database_errors(committing=writing):
                    connection.commit()
        finally:
            if pool is not self._engine.pool:  # it was closed meanwhile
                pool.dispose()

    def revision(self) -> str | None:
        """Return the schema revision of the ledger's tables, or None if there are no tables.

        Raises:
            IntegrityError: If the table of the revision was altered.
        """
        with self.transaction() as connection, database_errors():
            return _revision(connection)

    def migrate(self, *, create: bool) -> str | None:
        """Check that the tables have this version's schema. If there are no tables and `create` is True, create them.

        Returns:
            The revision that was found; None if there were no tables.

        Raises:
            HoldoutNotFound: If there are no tables of everhold and `create` is false.
            EverholdError: If another version of everhold wrote the tables.
        """
        revision = self.revision()
        if revision == CURRENT_REVISION:
            return revision
        if revision is None and not create:
            raise HoldoutNotFound(
                "The database is not a ledger of everhold. Check the address, or create a holdout there first."
            )
        if revision is not None:
            raise EverholdError(
                f"The ledger has revision {revision}, not {CURRENT_REVISION}: a later version of everhold wrote it, or "
                "a development version before 0.1.0. Update everhold, or seal the rows anew."
            )
        with self.transaction(writing=True) as connection, database_errors():
            if _revision(connection) is None:  # no other process was faster
                self._check_usable(connection)
                create_tables(connection)
        return revision

    def _check_usable(self, connection: sa.Connection) -> None:  # noqa: B027  # not all databases can refuse
        """Raise an error if the database cannot hold a ledger's tables."""

    def _after_fork_in_child(self) -> None:
        # SQLite counts locks per process: a child that used inherited files would take the parent's locks for its own.
        # A server would take what a child says for the parent's words.
        _left_to_parent.append(self._engine)
        self._engine, self._lines = self._connect(), {}
        weakref.finalize(self, self._engine.dispose)


_open_databases: weakref.WeakSet[LedgerDatabase] = weakref.WeakSet()
_left_to_parent: list[sa.Engine] = []  # never closed in a child: closing would touch the parent's files

# A fork waits for the transactions of all threads. A child that is forked while another thread is within SQLite, or
# within a database driver, would wait for ever for a lock that the other thread held.

_PATIENCE_AT_FORK = 1.0  # seconds: the forking thread may be within a transaction itself


class _Transactions:
    """Number of transactions of this process, and whether a fork waits for their end."""

    def __init__(self) -> None:
        self.changed, self.running, self.forking = threading.Condition(), 0, False


_transactions, _forked_within_one = _Transactions(), False


@contextlib.contextmanager
def _in_transaction() -> Iterator[None]:
    """Context of one transaction, which begins after a fork that is under way and is waited for by later forks."""
    if _forked_within_one:
        raise EverholdError(
            "This process was forked while the ledger was in use, so it cannot use the ledger safely. Start "
            "processes with the method 'spawn' or 'forkserver'."
        )
    of_process = _transactions
    with of_process.changed:
        while of_process.forking and of_process.changed.wait(_PATIENCE_AT_FORK):
            pass
        of_process.running += 1
    try:
        yield
    finally:
        with of_process.changed:
            of_process.running -= 1
            of_process.changed.notify_all()


def _before_fork() -> None:
    with _transactions.changed:
        _transactions.forking = True
        _transactions.changed.wait_for(lambda: not _transactions.running, _PATIENCE_AT_FORK)
    for database in list(_open_databases):
        database.close()


def _after_fork_in_parent() -> None:
    with _transactions.changed:
        _transactions.forking = False
        _transactions.changed.notify_all()


def _after_fork_in_child() -> None:
    global _transactions, _forked_within_one
    _forked_within_one |= _transactions.running > 0
    _transactions = _Transactions()
    for database in list(_open_databases):
        database._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def queries_in_order(connection: sa.Connection, holdout: str, after: int, last: int) -> Iterator[str]:
    """Yield the fingerprints of the queries of a range of entries in order.

    The database joins many into one long text.
    """
    for start in range(after, last, _QUERIES_AT_ONCE):
        part = {"holdout": holdout, "after": start, "last": min(start + _QUERIES_AT_ONCE, last)}
        yield connection.scalar(_IN_ONE_TEXT, part) or ""


def _revision(connection: sa.Connection) -> str | None:
    """Return the schema revision of the ledger's tables, or None if there are no tables.

    Raises:
        IntegrityError: If the table of the revision exists but does not hold one revision.
    """
    if not connection.dialect.has_table(connection, VERSION_TABLE):
        return None
    found = connection.execute(sa.text(f"SELECT * FROM {VERSION_TABLE}")).all()
    if len(found) != 1 or len(found[0]) != 1 or not _REVISION.fullmatch(str(found[0][0])):
        raise IntegrityError(f"The table {VERSION_TABLE} of the ledger was altered or is damaged. Restore a backup.")
    return str(found[0][0])


# Groups of writers: threads that wait for each other share one transaction, and one commit.
#
# Writers take turns. One that has done its part hands the open transaction to the next in the line and waits; the last
# one writes and commits what all of them did. So none goes on before that is on the disk, and the disk is waited for
# once. Nothing is written before the end: a writer that fails leaves nothing of its own and spoils nothing of others.

_LONGEST = 0.05  # seconds in which writers may join: the first of them waits for all
_SOON = 0.008  # seconds in which another writer comes if it comes with the others


class SharedWork(Protocol):
    """Protocol of changes that several writers of a group commit together."""

    def write(self, connection: sa.Connection) -> None:
        """Write the changes just before the commit, or raise an `EverholdError`."""

    def committed(self) -> None:
        """Update state after the commit, before any writer of the group continues."""


@dataclass(eq=False, slots=True)
class Group:
    """Writers that share a transaction.

    Attributes:
        connection: Connection in the transaction.
        end: Stack that ends the transaction.
        opener: First writer, who opened the transaction.
        until: Latest time at which a writer may join, on the clock of `time.monotonic`.
        writers: Number of writers that shared it so far.
        parts: Work of the writers, by their turn.
        faults: By turn, why a part was not written. Only the writers of that turn are told.
        fault: Reason why nothing was committed, or why it is unknown whether anything was committed. None if neither
            has happened.
        done: Event that is set when all writers may go on.
    """

    connection: sa.Connection
    end: contextlib.ExitStack
    opener: Writer
    until: float
    writers: int = 1
    parts: dict[str, SharedWork] = field(default_factory=dict)
    faults: dict[str, EverholdError] = field(default_factory=dict)
    fault: EverholdError | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def takes(self, writer: Writer) -> bool:
        """Return whether a writer may join."""
        alike = writer.database is self.opener.database and not (writer.alone or self.opener.alone)
        return alike and time.monotonic() < self.until

    def write(self) -> None:
        """Write the changes of all parts.

        If there are several, a part that fails is rolled back and the others are kept.
        """
        for turn, part in self.parts.items():
            saved = self.connection.begin_nested() if len(self.parts) > 1 else None
            try:
                part.write(self.connection)
            except EverholdError as fault:
                if saved is None:
                    raise
                self.faults[turn] = fault
            if saved is not None:
                with database_errors():  # one that lost the transaction has lost all parts
                    saved.rollback() if turn in self.faults else saved.commit()

    def committed(self) -> None:
        """Update the state of each written part after the commit."""
        for turn in self.parts.keys() - self.faults.keys():
            try:
                self.parts[turn].committed()
            except EverholdError as fault:
                self.faults[turn] = fault


@dataclass(eq=False, slots=True)
class Writer:
    """A thread that writes to a database, or waits to write.

    Attributes:
        database: Database of the writer.
        alone: Whether the writer shares its transaction with no other writer.
        group: Open transaction that an earlier writer handed on. None if there is none.
        called: Lock that is held until it is the writer's turn.
    """

    database: Any
    alone: bool
    group: Group | None = None
    called: threading.Lock = field(default_factory=threading.Lock)


@dataclass(eq=False, slots=True)
class WriterQueue:
    """Queue of a process's threads that write to the same database. One writes, and the others wait in order."""

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _waiting: deque[Writer] = field(default_factory=deque)
    _writer: Writer | None = None
    _expected: int = 1  # writers of the next transaction

    def __len__(self) -> int:
        return len(self._waiting)

    def locked(self) -> bool:
        """Return whether a thread is writing."""
        return self._writer is not None

    def enter(self, writer: Writer, patience: float) -> None:
        """Wait until a writer may write.

        Writers that shared the latest transaction mostly come back together. So before it opens the next transaction, a
        writer waits while others come one soon after the other, until there are as many.

        Raises:
            Unavailable: If the writer's turn does not come within `patience` seconds.
        """
        with self._changed:
            if self._writer is None:
                self._writer = writer
            else:
                writer.called.acquire()
                self._waiting.append(writer)
                self._changed.notify()
        if writer.called.locked():
            writer.called.acquire(timeout=patience)
            if self._writer is not writer and not self.leave(writer):
                raise Unavailable(BUSY)
        if writer.group is None and not writer.alone:
            until = time.monotonic() + _LONGEST
            with self._changed:
                while len(self._waiting) + 1 < self._expected and time.monotonic() < until:
                    if not self._changed.wait(_SOON):
                        break

    def leave(self, writer: Writer) -> bool:
        """Remove a writer from the queue, and return whether it may write now."""
        with self._changed:
            if writer in self._waiting:
                self._waiting.remove(writer)
            return self._writer is writer

    def call_next(self, group: Group | None = None) -> bool:
        """Let the next writer write, and return whether there is one.

        If a group's transaction is open, only a writer that can join the group is called.
        """
        with self._changed:
            if group is not None:
                if not (self._waiting and group.takes(self._waiting[0])):
                    if not group.opener.alone:
                        self._expected = max(group.writers, self._expected - 1)
                    return False
                group.writers += 1
            self._writer = self._waiting.popleft() if self._waiting else None
            if self._writer is not None:
                self._writer.group = group
                self._writer.called.release()
            return True


# The errors of the drivers in plain words; nothing of the original is kept, because it may quote data.

BUSY = "The ledger is busy: another process has locked it. Nothing was charged, so try again."

_UNWRITABLE = "The ledger cannot be opened for writing. Check the permissions of {}."
_FAILING = "The ledger cannot be written: the disk is full or fails. Nothing was charged. Free some space."
DAMAGED = "The ledger's {} is damaged, altered or not a ledger. Restore a backup."
_LOST = (
    "The ledger's database cannot be reached, or the connection was lost. Nothing was "
    "charged. Check that it runs and that its address is right, then try again."
)
_UNKNOWN = (
    "The connection to the ledger, or its disk, failed while the answer was written, so "
    "the answer may have been charged. Ask the same query again: it is then charged only "
    "once. A holdout that was being created exists if it is listed."
)


@contextlib.contextmanager
def database_errors(*, committing: bool = False) -> Iterator[None]:
    """Replace errors of the database driver by everhold's errors in a context.

    Args:
        committing: Whether a commit is under way. If the connection is lost meanwhile, it is unknown whether it was
            committed.
    """
    try:
        yield
    except DBAPIError as error:
        raise _in_words(error.orig, committing=committing) from None
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from names in a damaged file
        raise _in_words(error, committing=committing) from None
    except SQLAlchemyError:  # what it says may quote data, too
        raise EverholdError("The ledger's database failed. Nothing was charged, so try again.") from None


def is_busy(error: object) -> bool:
    """Return whether an SQLite error says that another connection has locked the file."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _in_words(error: object, *, committing: bool) -> EverholdError:
    if isinstance(error, (sqlite3.Error, UnicodeDecodeError)):
        return _of_sqlite(error, committing=committing)
    state: str | None = getattr(error, "sqlstate", None)
    return _refused(error) if state is None and not committing else _of_postgres(state, committing=committing)


_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
_NOT_OPEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_NO_SPACE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}


def _primary_code(error: object) -> int | None:
    code: Any = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _of_sqlite(error: object, *, committing: bool) -> EverholdError:
    code = _primary_code(error)
    if committing and code == sqlite3.SQLITE_IOERR:  # what was written may be found there after a crash
        return _unknown()
    if is_busy(error):
        return Unavailable(BUSY)
    if code in _NOT_OPEN:
        return EverholdError(_UNWRITABLE.format("its file and folder"))
    if code in _NO_SPACE:
        return EverholdError(_FAILING)
    if code is None or code in _CORRUPT or code == sqlite3.SQLITE_ERROR:
        return IntegrityError(DAMAGED.format("file"))
    return EverholdError(f"The ledger's database failed (SQLite code {code}). Nothing was charged, so try again.")


_LOCKED = ("55P03", "40P01", "40001", "57014", "53300")  # locked, deadlock, conflict, timed out, too many connections
_READ_ONLY = ("42501", "25006", "0A000")  # also a transaction that wants to write, on a standby
_ALTERED = ("23", "42", "22", "XX001", "XX002")  # constraints, other tables or columns, other types, damaged pages
_GONE = ("08", "57P", "25P")  # the connection, or the server, which stops, starts, crashed or waited for too long
_FULL = ("53", "58", "XX")  # resources, input and output, internal


def _refused(error: object) -> EverholdError:
    """Return the error for a connection that failed, chosen by the text of the driver's error."""
    said = str(error)
    if "invalid connection option" in said or "invalid URI" in said:
        return EverholdError(
            "The database's address has options that PostgreSQL does not know. Use only "
            "options of PostgreSQL, and rows=."
        )
    if "password" in said or "authentication" in said:
        return _of_postgres("28000", committing=False)
    if "does not exist" in said:
        return _of_postgres("3D000", committing=False)
    return Unavailable(_LOST)


def _unknown() -> Unavailable:
    return Unavailable(_UNKNOWN, may_be_recorded=True)


def _of_postgres(state: str | None, *, committing: bool) -> EverholdError:
    """Return the error for an SQLSTATE of PostgreSQL. Without an error code, the connection failed or was lost.

    `committing` is true if a commit was under way. Then it is unknown after a lost connection whether it was committed.
    """
    if state is None or state.startswith(_GONE):
        return _unknown() if committing else Unavailable(_LOST)
    if state in _LOCKED:
        return Unavailable(BUSY)
    if state.startswith("28"):
        return AuthError(
            "The ledger's database does not accept this user or password. Give those of its owner in the address, "
            "in the environment (PGUSER, PGPASSWORD) or in ~/.pgpass."
        )
    if state == "3D000":
        return EverholdError(
            "The server has no database, or no user, of that name. Create it first, for example with createdb."
        )
    if state in _READ_ONLY:
        return EverholdError(_UNWRITABLE.format("the database's user, and that the server is not a read-only standby"))
    if state.startswith(_ALTERED):
        return IntegrityError(DAMAGED.format("database"))
    if state.startswith(_FULL):
        return EverholdError(_FAILING)
    return EverholdError(f"The ledger's database failed (SQLSTATE {state}). Nothing was charged, so try again.")
