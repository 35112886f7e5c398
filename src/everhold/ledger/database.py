"""The database under the ledger: address, connections, transactions, migrations, and errors in plain words."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError

from everhold.errors import EverholdError, HoldoutNotFound, IntegrityError
from everhold.ledger.schema import CURRENT_REVISION, VERSION_TABLE
from everhold.private_files import create_private, make_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

__all__ = ["connect", "database_errors", "database_path", "migrate"]

_SECONDS_BETWEEN_TRIES = 0.02


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
        parsed = make_url(url)
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


def connect(path: Path, *, patience: float) -> Engine:
    """An engine on the file at `path`, which is created readable by its owner alone, or made so if it is there.

    Args:
        path: The SQLite file.
        patience: Seconds to wait for another writer.
    """
    _create_private(path)
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": patience, "isolation_level": None},
        max_overflow=-1,  # a thread waits for other writers in SQLite, with its clear error, and not for a connection
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        _use_write_ahead_log(connection, patience)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The driver's own BEGIN is deferred: two readers that both want to write would fail as "locked".
        connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

    return engine


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


def migrate(engine: Engine, *, create: bool) -> None:
    """Bring the tables to the current revision; does nothing, and does not load Alembic, if they are there already.

    Raises:
        HoldoutNotFound: If there are no tables yet and `create` is false: the file belongs to another program.
    """
    with database_errors():
        with engine.connect() as connection:
            revision = _revision(connection)
        if revision == CURRENT_REVISION:
            return
        if revision is None and not create:
            raise HoldoutNotFound(
                "the file is no ledger of everhold; check the address, or create a holdout there first"
            )
        with engine.execution_options(begin="BEGIN IMMEDIATE").begin() as connection:
            if _revision(connection) != CURRENT_REVISION:
                _upgrade(connection)


def _revision(connection: Connection) -> str | None:
    if not connection.dialect.has_table(connection, VERSION_TABLE):
        return None
    revisions = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
    if len(revisions) != 1 or not str(revisions[0]).isalnum():
        raise IntegrityError(
            "the ledger does not say which version of everhold wrote it; expected one revision as everhold wrote it; "
            "restore a backup"
        )
    return str(revisions[0])


def _upgrade(connection: Connection) -> None:
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
