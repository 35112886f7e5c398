"""Address of a storage: an SQLite file or another database, and a folder for the sealed rows.

A distribution adds a kind of database by an entry point of the group ``everhold.databases`` with its scheme, such as
``postgresql``. The entry point names a class that follows `DatabaseKind`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from everhold.errors import EverholdError, HoldoutNotFound, HoldoutRejected, IntegrityError, Unavailable
from everhold.extensions import Registry, extra_for
from everhold.ledger.database import DAMAGED, LedgerDatabase, WriterQueue, database_errors, is_busy
from everhold.ledger.schema import VERSION_TABLE
from everhold.private_files import create_private, make_private

if TYPE_CHECKING:
    from collections.abc import Collection

ROWS_VARIABLE = "EVERHOLD_ROWS"
"""Environment variable: the folder of the sealed rows, where the address of a database that is no file names none."""

_FILE = "Pass the address of an SQLite file such as sqlite:///study.db or sqlite:////folder/study.db"
_OWN = ("sqlite", "sqlite+pysqlite")


class DatabaseKind(Protocol):
    """Protocol of a database other than SQLite: a subclass of `everhold.ledger.database.LedgerDatabase`.

    Attributes:
        drivers: Schemes of its addresses, such as ``postgresql`` and, with a driver, ``postgresql+psycopg``.
        example: Words with an example of an address, for messages that say what was expected.
    """

    drivers: tuple[str, ...]
    example: str

    def __call__(self, address: sa.URL, *, patience: float) -> LedgerDatabase:
        """Connect to the database at an address. ``patience`` is the seconds to wait for another writer."""


def _check(_: str, kind: Any) -> str:
    lacking = [name for name in ("drivers", "example", "__call__") if not hasattr(kind, name)]
    return f"it has no {lacking[0]}" if lacking else ""


_DATABASES: Registry[DatabaseKind] = Registry("everhold.databases", {}, _check)


def check_address(url: str) -> None:
    """Check that a text can be the address of a storage. Nothing is opened.

    Raises:
        ValueError: If the address cannot be used. The message does not quote the address, because it may hold a
            password.

    Examples:
        >>> check_address("sqlite:///study.db")
        >>> check_address("mysql://host/study")
        Traceback (most recent call last):
        ...
        ValueError: Storage of the kind 'mysql' is not supported. Pass the address of an SQLite file such as
        sqlite:///study.db or sqlite:////folder/study.db, or of a PostgreSQL database such as
        postgresql://user@host/database.
    """
    rows_beside(url)


def connected(url: str, *, create: bool, patience: float) -> LedgerDatabase:
    """Connect to the database at an address. Its tables are not checked.

    Args:
        url: URL of the database.
        create: Whether a missing file is created.
        patience: Seconds to wait while another process writes.

    Raises:
        ValueError: If the address is malformed, or no installed package handles its kind of database.
        HoldoutNotFound: If the file is missing and `create` is false.
        EverholdError: If the file cannot be opened.
        ModuleNotFoundError: If the driver of the database is not installed.
    """
    address = _parsed(url)
    if address.drivername not in _OWN:
        return _DATABASES[address.get_backend_name()](address, patience=patience)
    return SQLite(_file_of(address), patience=patience, create=create)


def rows_beside(url: str) -> Path:
    """Return the folder with the private folders of a storage's holdouts, given the storage's address.

    Raises:
        ValueError: If the address cannot be used, or if it must name a folder and does not.

    Examples:
        >>> rows_beside("sqlite:////srv/study.db").as_posix()
        '/srv/study.rows'
        >>> rows_beside("postgresql://host/study?rows=/srv/rows").as_posix()
        '/srv/rows'
    """
    address = _parsed(url)
    if address.drivername in _OWN:
        return _file_of(address).with_suffix(".rows")
    named = address.query.get("rows") or os.environ.get(ROWS_VARIABLE)
    if not isinstance(named, str) or not Path(named).is_absolute():
        raise ValueError(
            "The database's address does not say in which folder the files of sealed rows are. Add an absolute "
            f"path, such as ?rows=/srv/everhold/rows, or set {ROWS_VARIABLE}. All processes must use the same folder."
        )
    return Path(named)


def _parsed(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError(f"The storage is not a database URL. {_expected()}") from None
    if address.drivername in _OWN:
        return address
    scheme, _, _ = address.drivername.partition("+")
    kind = _DATABASES.get(scheme)
    if kind is None or address.drivername not in kind.drivers:
        extra = extra_for(_DATABASES.group, scheme) if kind is None else None
        remedy = f"Install it: pip install 'everhold[{extra}]'." if extra else _expected()
        raise ValueError(f"Storage of the kind {address.drivername!r} is not supported. {remedy}")
    if not address.database:
        raise ValueError(f"The address names no database. {_expected()}")
    return address


def _expected() -> str:
    return ", or of ".join((_FILE, *(kind.example for kind in _DATABASES.values()))) + "."


def _file_of(address: sa.URL) -> Path:
    """Return the absolute path of an SQLite file from its address."""
    if not address.database or address.database == ":memory:" or address.database.startswith("file:"):
        raise ValueError(f"The ledger must outlive the process, so it needs a file. {_FILE}.")
    if address.host or address.query:
        raise ValueError(f"An SQLite address has no host and no options. {_FILE}.")
    path = Path(address.database).absolute()
    try:
        os.fsencode(path)
        path.exists()
    except (OSError, ValueError):  # too long for the file system, or with signs that it has no bytes for
        raise ValueError(f"The file system does not accept the storage's path. {_FILE}.") from None
    return path


# The ledger in an SQLite file, for the processes of one machine.

_SECONDS_BETWEEN_TRIES = 0.02
_MAGIC, _HEADER, _MARK_AT = b"SQLite format 3\0", 100, 68  # of SQLite's file format
_MARK = int.from_bytes(b"evhd", "big")
"""SQLite's application id of a ledger: it is in the file before anything else."""

_ours: set[tuple[Path, int, int]] = set()
"""Files that this process knows to be ledgers: path, device and number."""

_writers: dict[tuple[Path, int], WriterQueue] = {}
"""Queue of the threads that write to a file, by the file and the process: a forked child begins without any."""

_OPENED_FILE = "file"


class SQLite(LedgerDatabase):
    """Ledger database in an SQLite file.

    Args:
        path: The file. A new file, or an existing ledger, becomes readable by its owner only.
        patience: Seconds to wait for another writer.
        create: Whether a missing or an empty file becomes a ledger.

    Raises:
        HoldoutNotFound: If `create` is false and the file is missing, empty or of another program.
        HoldoutRejected: If `create` is true and the file is another program's database. The file was not changed.
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
        """The file's path."""
        return str(self.path)

    def damage(self, connection: sa.Connection) -> tuple[str, ...]:
        """Return the faults that SQLite finds in the file, in words."""
        found = tuple(connection.scalars(sa.text("PRAGMA integrity_check(10)")))
        return () if found == ("ok",) else found

    def line(self, turn: str) -> WriterQueue:
        """Return the queue of all writers to the file.

        Without the queue, SQLite lets waiting writers sleep up to 0.1 s.
        """
        return _writers.setdefault((self.path, os.getpid()), WriterQueue())

    def lines(self) -> Collection[WriterQueue]:
        """Return the only queue of writers to the file."""
        return [self.line("")]

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
            record.info[_OPENED_FILE] = _identity(path)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            _prepare_file(connection, patience)

        @sa.event.listens_for(engine, "checkout")
        def check_file(_: sqlite3.Connection, record: sa.pool.ConnectionPoolEntry, _proxy: object) -> None:
            if record.info[_OPENED_FILE] != _identity(path):  # what is written to the old one would be lost with it
                raise sa.exc.DisconnectionError

        return engine


def _identity(path: Path) -> tuple[int, int]:
    """Return the device and inode of a file, which stay the same when it is renamed.

    Raises:
        Unavailable: If the file is gone. Connecting would make an empty file.
    """
    try:
        found = path.stat()
    except OSError:
        raise Unavailable(f"The ledger's file {path.name!r} is missing. Put it back where it was.") from None
    return found.st_dev, found.st_ino


def _check_header(path: Path, header: bytes, *, create: bool) -> None:
    """Check that a file begins like a ledger, or has a ledger's tables.

    `create` is true if the caller would create tables. It decides which error is raised for a file of another program.
    """
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
    """Mark a new file as a ledger and switch it to write-ahead logging. While the file is busy, this is tried again."""
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
