"""The ledger in an SQLite file, for the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING

import sqlalchemy as sa

from everhold.errors import EverholdError, Unavailable
from everhold.ledger.database import LedgerDatabase
from everhold.ledger.faults import is_busy
from everhold.private_files import create_private, make_private

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SQLite"]

_SECONDS_BETWEEN_TRIES = 0.02
_FILE = "file"


class SQLite(LedgerDatabase):
    """A SQLite file.

    Args:
        path: The file; it is created readable by its owner alone, or made so if it is there.
        patience: Seconds to wait for another writer.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self.path = path
        super().__init__(patience=patience)

    @property
    def url(self) -> str:
        """The address with an absolute path."""
        return f"sqlite:///{self.path}"

    @property
    def shown(self) -> str:
        """The path."""
        return str(self.path)

    def damage(self, connection: sa.Connection) -> tuple[str, ...]:
        """Faults that SQLite finds in the file."""
        found = tuple(connection.scalars(sa.text("PRAGMA integrity_check(10)")))
        return () if found == ("ok",) else found

    def _begin(self, connection: sa.Connection, *, writing: bool, turn: str) -> None:  # all take turns
        # The driver's own BEGIN is deferred: two readers that both want to write would fail as "locked".
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    def _connect(self) -> sa.Engine:
        _create_private(self.path)
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.path)),
            connect_args={"timeout": self.patience, "isolation_level": None},
            max_overflow=-1,  # a thread waits for other writers in SQLite, with its clear error, not for a connection
            hide_parameters=True,
        )
        patience, path = self.patience, self.path

        @sa.event.listens_for(engine, "connect")
        def prepare(connection: sqlite3.Connection, record: sa.pool.ConnectionPoolEntry) -> None:
            record.info[_FILE] = _identity(path)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            _use_write_ahead_log(connection, patience)

        @sa.event.listens_for(engine, "checkout")
        def check_file(_: sqlite3.Connection, record: sa.pool.ConnectionPoolEntry, _proxy: object) -> None:
            if record.info[_FILE] != _identity(path):  # what is written to the old one would be lost with it
                raise sa.exc.DisconnectionError

        return engine


def _identity(path: Path) -> tuple[int, int]:
    """Identity of the file, whatever its name.

    Raises:
        Unavailable: If it is gone; a connection would make an empty one.
    """
    try:
        found = path.stat()
    except OSError:
        raise Unavailable(
            f"the ledger's file {path.name!r} is gone; expected it where it was when it was opened; put it back; "
            "nothing was answered or charged"
        ) from None
    return found.st_dev, found.st_ino


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
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
        else:
            return
