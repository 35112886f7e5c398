"""The database under the ledger: tables, address, connections, transactions, migrations, and errors in plain words.

The migrations create the tables. JSON is stored as canonical text, not as a JSON column: the hash chain is over bytes.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError
from everhold.private_files import create_private, make_private

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CURRENT_REVISION",
    "VERSION_TABLE",
    "Database",
    "database_errors",
    "database_path",
    "entries",
    "head",
    "holdouts",
    "metadata",
]

CURRENT_REVISION = "0002"
"""The newest migration: a database that says so is opened without loading Alembic."""

VERSION_TABLE = "everhold_version"
"""Where Alembic notes the revision; not its default name, so that a file may be shared with another program."""

metadata = sa.MetaData()

holdouts = sa.Table(
    "holdouts",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("configuration", sa.Text, nullable=False),
    sqlite_strict=True,
)

head = sa.Table(
    "head",
    metadata,
    sa.Column("holdout_id", sa.Text, sa.ForeignKey("holdouts.id"), primary_key=True),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("charged", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("entry_hash", sa.Text, nullable=False),
    sa.Column("questions_hash", sa.Text, nullable=False),
    sa.Column("head_seal", sa.Text, nullable=False),
    sqlite_strict=True,
)

entries = sa.Table(
    "entries",
    metadata,
    sa.Column("holdout_id", sa.Text, sa.ForeignKey("holdouts.id"), primary_key=True),
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("answer", sa.Text, nullable=False),
    sa.Column("charged", sa.Integer, nullable=False),
    sa.Column("asked_at", sa.Text, nullable=False),
    sa.Column("state_seal", sa.Text, nullable=False),
    sa.Column("previous_hash", sa.Text, nullable=False),
    sa.Column("entry_hash", sa.Text, nullable=False),
    sa.Column("entry_seal", sa.Text, nullable=False),
    sa.UniqueConstraint("holdout_id", "question"),
    sa.Index(
        "entries_in_order", "holdout_id", "sequence", "question"
    ),  # all questions can be read without their answers
    sqlite_strict=True,
)

_SECONDS_BETWEEN_TRIES = 0.02
_REVISION = re.compile("[0-9a-f]{4,12}")


def database_path(url: str) -> Path:
    """The absolute path of the SQLite file that `url` names.

    Raises:
        ValueError: If the address is not one of a SQLite file.

    Examples:
        >>> database_path("sqlite:///study.db").name
        'study.db'
    """
    expected = "expected the address of an SQLite file such as sqlite:///study.db or sqlite:////folder/study.db"
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError(f"the storage is not an address; {expected}") from None
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise ValueError(f"storage of the kind {parsed.drivername!r} is not supported yet; {expected}")
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise ValueError(f"the ledger must outlive the process, so it needs a file; {expected}")
    if parsed.host or parsed.query:
        raise ValueError(f"an SQLite address has no host and no options; {expected}")
    path = Path(parsed.database).absolute()
    try:
        os.fsencode(path)
        path.exists()
    except (OSError, ValueError):  # too long for the file system, or with signs that it has no bytes for
        raise ValueError(f"the storage is no path that this file system takes; {expected}") from None
    return path


class Database:
    """A SQLite file, safe to share between threads, and to use after a fork.

    Args:
        path: The file; it is created readable by its owner alone, or made so if it is there.
        patience: Seconds to wait for another writer.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self.path = path
        self.patience = patience
        self._engine = self._connect()
        self._in_use = False
        self._busy_at_fork = False
        _open_databases.add(self)

    def close(self) -> None:
        """Close all idle connections; new ones are opened when needed."""
        self._engine.dispose()

    @contextlib.contextmanager
    def transaction(self, *, writing: bool = False) -> Iterator[sa.Connection]:
        """A connection within a transaction, which is committed if nothing is raised inside.

        Writers take turns, and a reader sees one moment, that of its first statement.
        """
        if self._busy_at_fork:
            raise EverholdError(
                "this process was forked while the ledger was in use, so it cannot use it safely; "
                "expected a spawned process; use the start method 'spawn' or 'forkserver'"
            )
        with contextlib.ExitStack() as stack:
            with database_errors():
                connection = stack.enter_context(self._engine.connect())
                # The driver's own BEGIN is deferred: two readers that both want to write would fail as "locked".
                connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
            yield connection
            with database_errors():
                connection.commit()

    def migrate(self, *, create: bool) -> None:
        """Bring the tables to the current revision; loads Alembic only if they are not there already.

        Raises:
            HoldoutNotFound: If there are no tables yet and `create` is false: the file belongs to another program.
        """
        with self.transaction() as connection, database_errors():
            revision = _revision(connection)
        if revision == CURRENT_REVISION:
            return
        if revision is None and not create:
            raise HoldoutNotFound(
                "the file is no ledger of everhold; check the address, or create a holdout there first"
            )
        with self.transaction(writing=True) as connection, database_errors():
            if _revision(connection) != CURRENT_REVISION:
                _upgrade(connection)

    def _connect(self) -> sa.Engine:
        _create_private(self.path)
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.path)),
            connect_args={"timeout": self.patience, "isolation_level": None},
            max_overflow=-1,  # a thread waits for other writers in SQLite, with its clear error, not for a connection
            hide_parameters=True,
        )
        patience = self.patience

        @sa.event.listens_for(engine, "connect")
        def prepare(connection: sqlite3.Connection, _record: object) -> None:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            _use_write_ahead_log(connection, patience)

        weakref.finalize(self, engine.dispose)
        return engine

    def _before_fork(self) -> None:
        # SQLite counts locks per process: a child that inherited open files would take the parent's locks for its own.
        pool = self._engine.pool
        self._in_use = isinstance(pool, QueuePool) and pool.checkedout() > 0
        self._engine.dispose()

    def _after_fork_in_child(self) -> None:
        self._busy_at_fork |= self._in_use
        _left_to_parent.append(self._engine)
        self._engine = self._connect()


_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_left_to_parent: list[sa.Engine] = []  # never closed in a child: closing would touch the parent's files


def _before_fork() -> None:
    for database in list(_open_databases):
        database._before_fork()


def _after_fork_in_child() -> None:
    for database in list(_open_databases):
        database._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def _create_private(path: Path) -> None:
    try:
        os.close(create_private(path))
    except FileExistsError:
        for suffix in ("", "-wal", "-shm"):  # SQLite makes these with the permissions that the file has then
            make_private(path.with_name(path.name + suffix))
    except OSError as error:
        raise EverholdError(
            f"the ledger cannot be created: {error.strerror}; create the folder first and check that it is writable"
        ) from None


def _use_write_ahead_log(connection: sqlite3.Connection, patience: float) -> None:
    """Switch a new file to write-ahead logging; SQLite's own busy time-out does not cover this switch."""
    deadline = time.monotonic() + patience
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
        else:
            return


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


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "everhold.ledger:migrations")
    try:
        command.upgrade(config, "head")
    except CommandError:
        raise EverholdError(
            f"the ledger was written by another version of everhold; expected revision {CURRENT_REVISION} or older; "
            "update everhold"
        ) from None


@contextlib.contextmanager
def database_errors() -> Iterator[None]:
    """Turn driver errors into everhold's own; nothing of the original is kept, because it may quote data."""
    try:
        yield
    except DBAPIError as error:
        raise _in_words(error.orig) from None
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from names in a damaged file
        raise _in_words(error) from None


_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_FAILING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}


def _primary_code(error: object) -> int | None:
    code: Any = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _is_busy(error: object) -> bool:
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _in_words(error: object) -> EverholdError:
    code = _primary_code(error)
    if _is_busy(error):
        return EverholdError("the ledger is busy: another process kept it locked; nothing was charged; try again")
    if code in _UNWRITABLE:
        return EverholdError("the ledger cannot be opened for writing; check the permissions of its file and folder")
    if code in _FAILING:
        return EverholdError("the ledger cannot be written: the disk is full or fails; nothing was charged")
    if code is None or code in _CORRUPT or code == sqlite3.SQLITE_ERROR:
        return IntegrityError(
            "the ledger's file is damaged, altered or not a ledger; expected tables as everhold wrote them; "
            "restore a backup"
        )
    return EverholdError(f"the ledger's database failed (SQLite code {code}); nothing was charged; try again")
