"""The database under the ledger: its transactions, whichever database it is.

Its tables are in `everhold.ledger.schema`. JSON is stored as canonical text, not as a JSON column: the hash chain is
over bytes. What differs between the databases is in `everhold.ledger.address` and in the classes of
`everhold.databases`.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from everhold.errors import AuthError, EverholdError, HoldoutNotFound, HoldoutRejected, IntegrityError, Unavailable
from everhold.ledger.schema import CURRENT_REVISION, VERSION_TABLE, create_tables, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

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
        self._turns: dict[str, threading.Lock] = {}
        self._in_use = False
        self._busy_at_fork = False
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
        """Return why the database may take no answers, or lose some in a crash. Empty if all is well."""
        return ()

    @abstractmethod
    def _connect(self) -> sa.Engine:
        """Create a pool of connections."""

    @abstractmethod
    def _begin(self, connection: sa.Connection, *, writing: bool, turn: str) -> None:
        """Begin a transaction. A writer waits for its turn."""

    def close(self) -> None:
        """Close all idle connections. New ones are opened when needed."""
        self._engine.dispose()

    @contextlib.contextmanager
    def transaction(self, *, writing: bool = False, turn: str = "") -> Iterator[sa.Connection]:
        """Context with a connection in a transaction, which is committed unless the block raises.

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
        """Return the lock that writers of this process with the same turn share."""
        return self._turns.setdefault(turn, threading.Lock())

    def _leave(self, pool: sa.Pool) -> None:
        """Close connections that came back to a pool which was closed meanwhile."""
        if pool is not self._engine.pool:
            pool.dispose()

    def _begun(self, stack: contextlib.ExitStack, *, writing: bool, turn: str) -> sa.Connection:
        """Return a connection in a transaction. It reconnects once, because only use shows that a server restarted."""
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
        """Return the revision of the tables, or None if there are no tables.

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
    """Yield the fingerprints of the entries after one up to another, joined into long texts by the database."""
    for start in range(after, last, _QUERIES_AT_ONCE):
        part = {"holdout": holdout, "after": start, "last": min(start + _QUERIES_AT_ONCE, last)}
        yield connection.scalar(_IN_ONE_TEXT, part) or ""


def _revision(connection: sa.Connection) -> str | None:
    """Return the revision of the tables, or None if there are no tables.

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


# The errors of the drivers in plain words; nothing of the original is kept, because it may quote data.

BUSY = "the ledger is busy: another process kept it locked; nothing was charged; try again"

_UNWRITABLE = "the ledger cannot be opened for writing; check the permissions of {}"
_FAILING = "the ledger cannot be written: the disk is full or fails; nothing was charged"
DAMAGED = (
    "the ledger's {} is damaged, altered or not a ledger; expected tables as everhold wrote them; restore a backup"
)
_LOST = (
    "the database of the ledger cannot be reached, or the connection to it was lost; nothing was charged; check that "
    "it runs and that its address is right, then ask again"
)
_UNKNOWN = (
    "the ledger's database was lost, or its disk failed, while the answer was written, so it may have been recorded "
    "and charged, once; nothing is lost: ask the same query again, which is free if it was; a holdout that was "
    "being created is there if it is listed"
)


@contextlib.contextmanager
def database_errors(*, committing: bool = False) -> Iterator[None]:
    """Turn the errors of a driver into everhold's own.

    Args:
        committing: Whether something is being committed: nobody knows what became of it if the connection is lost.
    """
    try:
        yield
    except DBAPIError as error:
        raise _in_words(error.orig, committing=committing) from None
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from names in a damaged file
        raise _in_words(error, committing=committing) from None
    except SQLAlchemyError:  # what it says may quote data, too
        raise EverholdError("the ledger's database failed; nothing was charged; try again") from None


def is_busy(error: object) -> bool:
    """Return whether an SQLite error says that another process keeps the file locked."""
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
    return EverholdError(f"the ledger's database failed (SQLite code {code}); nothing was charged; try again")


_LOCKED = ("55P03", "40P01", "40001", "57014", "53300")  # locked, deadlock, conflict, timed out, too many connections
_READ_ONLY = ("42501", "25006", "0A000")  # also a transaction that wants to write, on a standby
_ALTERED = ("23", "42", "22", "XX001", "XX002")  # constraints, other tables or columns, other types, damaged pages
_GONE = ("08", "57P", "25P")  # the connection, or the server, which stops, starts, crashed or waited for too long
_FULL = ("53", "58", "XX")  # resources, input and output, internal


def _refused(error: object) -> EverholdError:
    """Return the error that explains a failed connection from the driver's words."""
    said = str(error)
    if "invalid connection option" in said or "invalid URI" in said:
        return EverholdError(
            "the address of the database has options that PostgreSQL does not know; expected only its own beside rows="
        )
    if "password" in said or "authentication" in said:
        return _of_postgres("28000", committing=False)
    if "does not exist" in said:
        return _of_postgres("3D000", committing=False)
    return Unavailable(_LOST)


def _unknown() -> Unavailable:
    return Unavailable(_UNKNOWN, may_be_recorded=True)


def _of_postgres(state: str | None, *, committing: bool) -> EverholdError:
    """Return the meaning of an SQLSTATE as an error. Without one, the connection failed or was lost."""
    if state is None or state.startswith(_GONE):
        return _unknown() if committing else Unavailable(_LOST)
    if state in _LOCKED:
        return Unavailable(BUSY)
    if state.startswith("28"):
        return AuthError(
            "the database of the ledger does not take this user or password; expected those of its owner; give them "
            "in the address, the environment (PGUSER, PGPASSWORD) or ~/.pgpass; nothing was charged"
        )
    if state == "3D000":
        return EverholdError("the server has no database, or no user, of that name; create it first, as with createdb")
    if state in _READ_ONLY:
        return EverholdError(_UNWRITABLE.format("the database's user; a standby takes no answers"))
    if state.startswith(_ALTERED):
        return IntegrityError(DAMAGED.format("database"))
    if state.startswith(_FULL):
        return EverholdError(_FAILING)
    return EverholdError(f"the ledger's database failed (SQLSTATE {state}); nothing was charged; try again")


# All tables of one database copied into another, of either kind, as of one moment.

_AT_ONCE = 500  # rows


def own_tables(database: LedgerDatabase) -> set[str]:
    """Return the names of a ledger's tables, as a new database shows them."""
    with database.transaction() as connection, database_errors():
        return {*sa.inspect(connection).get_table_names()} - {VERSION_TABLE}


def count_rows(database: LedgerDatabase, name: str) -> int:
    """Return the number of rows of a table, or 0 if there is no such table."""
    with database.transaction() as connection, database_errors():
        if not sa.inspect(connection).has_table(name):
            return 0
        return int(connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one())


def copy_tables(
    source: LedgerDatabase, target: LedgerDatabase, names: Collection[str], *, then: Callable[[], object] = lambda: None
) -> None:
    """Copy tables into a database where they are empty. The source is read as of one moment and not blocked.

    Args:
        source: Where they are.
        target: Where they go; its tables are there already.
        names: Of the tables.
        then: Called before the copy is committed; if it raises, nothing is copied.

    Raises:
        HoldoutRejected: If the target holds anything already.
        IntegrityError: If the source has other tables than these.
    """
    with source.transaction() as reading, target.transaction(writing=True) as writing:
        with database_errors():
            found, made = sa.MetaData(), sa.MetaData()
            found.reflect(reading, only=lambda name, _: name in names)
            made.reflect(writing, only=lambda name, _: name in names)
            _check_same(found, made)
            for table in made.sorted_tables:
                if writing.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first() is not None:
                    raise HoldoutRejected(
                        "the storage is not empty; expected one without holdouts and people; nothing was restored; "
                        "give another address"
                    )
            for table in made.sorted_tables:
                _copy(found.tables[table.name], table, reading, writing)
        then()


def _check_same(found: sa.MetaData, made: sa.MetaData) -> None:
    for name, table in made.tables.items():
        if name not in found.tables or {*table.columns.keys()} != {*found.tables[name].columns.keys()}:
            raise IntegrityError(
                "the tables are not those of a ledger of this version; expected them as everhold wrote them; nothing "
                "was copied"
            )


def _copy(source: sa.Table, target: sa.Table, reading: sa.Connection, writing: sa.Connection) -> None:
    columns = [source.columns[name] for name in target.columns.keys()]  # noqa: SIM118  # a collection, not a mapping
    rows = reading.execute(sa.select(*columns).execution_options(yield_per=_AT_ONCE))
    for part in rows.mappings().partitions():
        writing.execute(sa.insert(target), [dict(row) for row in part])
    if writing.dialect.name == "postgresql":
        # Let numbers that the database gives to new rows begin after those that were copied
        counted = [column for column in target.primary_key if isinstance(column.type, sa.Integer)]
        for column in counted:
            counter = sa.func.pg_get_serial_sequence(target.name, column.name)
            last = sa.select(sa.func.max(column)).scalar_subquery()
            writing.execute(sa.select(sa.func.setval(counter, last)).where(counter.is_not(None), last.is_not(None)))
