"""The errors of the drivers in plain words; nothing of the original is kept, because it may quote data."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from everhold.errors import AuthError, EverholdError, IntegrityError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """True if an error of SQLite's driver says that another process keeps the file locked."""
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
    """Why there is no connection: the driver tells it in words alone, which may be of another language."""
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
    """Meaning of an SQLSTATE; without one the connection was never made, or was lost."""
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
