"""Address of a storage: an SQLite file or another database, and a folder for the sealed rows.

A distribution adds a kind of database by an entry point of the group ``everhold.databases`` with its scheme, such as
``postgresql``. It names a class as `DatabaseKind` describes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from everhold.extensions import Registry, extra_for
from everhold.ledger.sqlite import SQLite

if TYPE_CHECKING:
    from everhold.ledger.database import LedgerDatabase

ROWS_VARIABLE = "EVERHOLD_ROWS"
"""Environment variable: the folder of the sealed rows, where the address of a database that is no file names none."""

_FILE = "expected the address of an SQLite file such as sqlite:///study.db or sqlite:////folder/study.db"
_OWN = ("sqlite", "sqlite+pysqlite")


class DatabaseKind(Protocol):
    """A kind of database that is no file: a subclass of `everhold.ledger.database.LedgerDatabase`.

    Attributes:
        drivers: Schemes of its addresses, with and without a driver.
        example: What messages say that is expected, with an address.
    """

    drivers: tuple[str, ...]
    example: str

    def __call__(self, address: sa.URL, *, patience: float) -> LedgerDatabase:
        """Connect; waits so many seconds for another writer."""


def _check(_: str, kind: Any) -> str:
    lacking = [name for name in ("drivers", "example", "__call__") if not hasattr(kind, name)]
    return f"it has no {lacking[0]}" if lacking else ""


_DATABASES: Registry[DatabaseKind] = Registry("everhold.databases", {}, _check)


def check_address(url: str) -> None:
    """Check that a storage can have this address; nothing is opened.

    Raises:
        ValueError: If not; the message quotes nothing of it, as it may hold a password.

    Examples:
        >>> check_address("sqlite:///study.db")
        >>> check_address("mysql://host/study")
        Traceback (most recent call last):
        ...
        ValueError: storage of the kind 'mysql' is not supported; expected the address of an SQLite file such as
        sqlite:///study.db or sqlite:////folder/study.db, or of a PostgreSQL database such as
        postgresql://user@host/database
    """
    rows_beside(url)


def connected(url: str, *, create: bool, patience: float) -> LedgerDatabase:
    """The database at an address, its tables not looked at yet.

    Args:
        url: The address.
        create: Whether a missing file is created.
        patience: Seconds to wait while another process writes.

    Raises:
        ValueError: If it is no address, or of no kind that is installed.
        HoldoutNotFound: If the file is missing and `create` is false.
        EverholdError: If the file cannot be opened.
        ModuleNotFoundError: If the driver of the database is not installed.
    """
    address = _parsed(url)
    if address.drivername not in _OWN:
        return _DATABASES[address.get_backend_name()](address, patience=patience)
    return SQLite(_file_of(address), patience=patience, create=create)


def rows_beside(url: str) -> Path:
    """Folder of the private folders of a storage's holdouts: beside an SQLite file, or as the address says.

    Raises:
        ValueError: If the address cannot be used, or names no folder where it has to.

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
            "sealed rows stay in files, and the address of the database does not say where; expected one folder with "
            "its whole path, such as ?rows=/srv/everhold/rows at the end of the address, the same for all processes; "
            f"add it, or set {ROWS_VARIABLE}"
        )
    return Path(named)


def _parsed(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError(f"the storage is not a database URL; {_expected()}") from None
    if address.drivername in _OWN:
        return address
    scheme, _, _ = address.drivername.partition("+")
    kind = _DATABASES.get(scheme)
    if kind is None or address.drivername not in kind.drivers:
        extra = extra_for(_DATABASES.group, scheme) if kind is None else None
        remedy = f"install it: pip install 'everhold[{extra}]'" if extra else _expected()
        raise ValueError(f"storage of the kind {address.drivername!r} is not supported; {remedy}")
    if not address.database:
        raise ValueError(f"the address names no database; {_expected()}")
    return address


def _expected() -> str:
    return ", or of ".join((_FILE, *(kind.example for kind in _DATABASES.values())))


def _file_of(address: sa.URL) -> Path:
    """The absolute path of an SQLite file."""
    if not address.database or address.database == ":memory:" or address.database.startswith("file:"):
        raise ValueError(f"the ledger must outlive the process, so it needs a file; {_FILE}")
    if address.host or address.query:
        raise ValueError(f"an SQLite address has no host and no options; {_FILE}")
    path = Path(address.database).absolute()
    try:
        os.fsencode(path)
        path.exists()
    except (OSError, ValueError):  # too long for the file system, or with signs that it has no bytes for
        raise ValueError(f"the storage is no path that this file system takes; {_FILE}") from None
    return path
