"""The ledger in an SQLite file, for the processes of one machine."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from typing import TYPE_CHECKING

import sqlalchemy as sa

from everhold.errors import EverholdError, HoldoutNotFound, HoldoutRejected, IntegrityError, Unavailable
from everhold.ledger.database import VERSION_TABLE, LedgerDatabase
from everhold.ledger.faults import DAMAGED, database_errors, is_busy
from everhold.private_files import create_private, make_private

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS_BETWEEN_TRIES = 0.02
_MAGIC, _HEADER, _MARK_AT = b"SQLite format 3\0", 100, 68  # of SQLite's file format
_MARK = int.from_bytes(b"evhd", "big")
"""SQLite's application id of a ledger: it is in the file before anything else."""

_ours: set[tuple[Path, int, int]] = set()
"""Files that this process knows to be ledgers: path, device and number."""

_writers: dict[tuple[Path, int], threading.Lock] = {}
"""Held by the thread that writes to a file, by the file and the process: a forked child begins without any."""

_FILE = "file"


class SQLite(LedgerDatabase):
    """A SQLite file.

    Args:
        path: The file; it is created readable by its owner alone, or made so if it is a ledger.
        patience: Seconds to wait for another writer.
        create: Whether a missing or an empty file becomes a ledger.

    Raises:
        HoldoutNotFound: If the file is missing, empty or another program's and `create` is false.
        HoldoutRejected: If it is another program's database and `create` is true. It was not changed.
        IntegrityError: If it is no database. It was not changed.
        EverholdError: If it cannot be opened.
    """

    def __init__(self, path: Path, *, patience: float, create: bool = True) -> None:
        self.path = path
        # A file that is a ledger or may become one is closed to others only then.
        try:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.close(create_private(path))
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise EverholdError(
                    f"{path} is no file, so it cannot hold a ledger. Choose another path for the storage."
                )
            if (path, found.st_dev, found.st_ino) not in _ours:  # reading it would end the locks of our connections
                with path.open("rb") as file:
                    header = file.read(_HEADER)
                if header or not create:
                    _check_header(path, header, create=create)
                _ours.add((path, found.st_dev, found.st_ino))
        except FileNotFoundError as error:
            if create:
                raise _no_file(error) from None
            raise HoldoutNotFound(
                f"There is no ledger at {path}. Check the address, or create a holdout there."
            ) from None
        except OSError as error:
            raise _no_file(error) from None
        for suffix in ("", "-wal", "-shm"):  # SQLite makes these with the permissions that the file has then
            make_private(path.with_name(path.name + suffix))
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

    def _turn(self, turn: str) -> threading.Lock:  # all take turns: SQLite itself would let them sleep up to .1 s
        return _writers.setdefault((self.path, os.getpid()), threading.Lock())

    def _begin(self, connection: sa.Connection, *, writing: bool, turn: str) -> None:
        # The driver's own BEGIN is deferred: two readers that both want to write would fail as "locked".
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    def _connect(self) -> sa.Engine:
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
            _prepare_file(connection, patience)

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


def _check_header(path: Path, header: bytes, *, create: bool) -> None:
    """Check that a file begins as a ledger, or has its tables."""
    if header and not header.startswith(_MAGIC):
        raise IntegrityError(DAMAGED.format("file"))
    if header[_MARK_AT : _MARK_AT + 4] == _MARK.to_bytes(4, "big"):
        return
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection, database_errors():
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name = ?", [VERSION_TABLE]).fetchall()
    if not tables:
        if create:
            raise HoldoutRejected(f"{path} is a database of another program. Choose another path for the storage.")
        raise HoldoutNotFound(f"{path} is no ledger of everhold. Check the address, or create a holdout elsewhere.")


def _no_file(error: OSError) -> EverholdError:
    return EverholdError(
        f"The ledger cannot be opened ({error.strerror}). Check that its folder exists, and the permissions."
    )


def _prepare_file(connection: sqlite3.Connection, patience: float) -> None:
    """Mark a new file as a ledger and switch it to write-ahead logging, which SQLite's busy time-out does not cover."""
    deadline = time.monotonic() + patience
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
                    connection.execute(f"PRAGMA application_id = {_MARK}")
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
        else:
            return
