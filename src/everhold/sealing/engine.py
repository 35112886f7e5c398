"""A sealed file and the engine on it: a DuckDB connection that can read this file, unchanged, and nothing else.

The lock-down is a second wall: no analyst's text reaches the engine anyway. It does not protect the sealed file from
being written (`COPY ... TO` the allowed path works in DuckDB 2.0); the fingerprint shows that. Before DuckDB 2 a
statement may print query plans to the screen, though to no file. Neither the time limit of a statement nor DuckDB's
memory limit is hard; a service that needs hard ones runs this in a worker process with RLIMIT_CPU and RLIMIT_AS.

Rewriting is switched off too. DuckDB's optimizer merges nested sub-selects, so that a branch of a ``case`` is computed
only for the rows that take it (visible in the timing) and shared parts are repeated (2**15 times in one test); it turns
``in`` into joins, and it may drop a test for nan on the word of the file's statistics.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from typing import TYPE_CHECKING, Any

import duckdb

from everhold.errors import EverholdError, HoldoutRejected, IntegrityError
from everhold.sealing.time_limits import TimeLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

__all__ = [
    "POSITION", "SEALED", "UnchangedFile", "check_fingerprint", "engine_errors_hidden", "errors_hidden", "fetched",
    "file_pattern", "fingerprint", "limit_memory", "locked_connection", "spilling_into",
]  # fmt: skip

SEALED = "sealed"
"""Name of the view of the sealed rows."""

_LIMITS = TimeLimits()
_MEGABYTES, _MEGABYTES_OF_A_COLUMN = 512, 8  # a group of rows that is being written takes one of each column and thread
_LIMITED_COLUMNS = 256
_KEPT_OPTIMIZERS = ("column_lifetime", "common_subexpressions", "unused_columns")

POSITION = "file_row_number"
"""Column of that view with the position of a row in the file, from 0."""


def spilling_into(folder: Path) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB of the steward's own, whose temporary files stay in a private folder.

    Left alone it would write rows that do not fit into memory to the working folder, as open as the umask says.
    """
    return duckdb.connect(":memory:", config={"temp_directory": str(folder / "spilled")})


def limit_memory(connection: duckdb.DuckDBPyConnection, columns: int) -> None:
    """Let a connection of `spilling_into` hold as much as a table of so many columns needs, whatever its rows.

    The rest goes to its temporary files. Very wide tables keep the engine's own limit, most of the machine.
    """
    if columns <= _LIMITED_COLUMNS:
        connection.execute(f"SET memory_limit = '{_MEGABYTES + _MEGABYTES_OF_A_COLUMN * columns}MB'")


def locked_connection(
    path: Path, *, threads: int | None = None, memory_limit: str = "4GB"
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB whose only readable file is the sealed Parquet file, seen as the view `SEALED`.

    Args:
        path: The sealed Parquet file; none of its columns may be called `POSITION`.
        threads: Threads of the engine; its own choice by default.
        memory_limit: Soft limit, in DuckDB's notation.

    Returns:
        A connection whose configuration is locked; to be closed by the caller. Its cursors are locked too.

    Raises:
        HoldoutRejected: If column names differ in case only, which the engine cannot tell apart.
        EverholdError: If the file cannot be read or the lock-down fails; without the engine's words.
    """
    file = str(path.resolve())
    settings = {
        "python_enable_replacements": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
        "temp_directory": "''",
        "memory_limit": _text(memory_limit),
        **({} if threads is None else {"threads": str(int(threads))}),
        "allowed_paths": f"[{_text(file)}]",
        "enable_external_access": "false",
    }
    with engine_errors_hidden:
        connection = duckdb.connect(":memory:")
        try:
            for name, value in settings.items():
                connection.execute(f"SET {name} = {value}")
            connection.execute(f"SET disabled_optimizers = {_text(_rewriting(connection))}")
            # refuses a file with a column of that name; a folder called delay=5 is no column
            rows = f"read_parquet({_text(file_pattern(path.resolve()))}, {POSITION} = true, hive_partitioning = false)"
            connection.execute(f"CREATE VIEW {SEALED} AS SELECT * FROM {rows}")
            connection.execute("SET lock_configuration = true")
            _check_names(connection, file)
        except BaseException:
            connection.close()
            raise
    return connection


class errors_hidden(contextlib.AbstractContextManager[None]):  # noqa: N801  a context manager reads like a function
    """Context in which every foreign error becomes one of everhold's, because engines quote rows in theirs.

    Interrupts and errors of everhold pass.

    Args:
        instead: From an error to the one that replaces it.
    """

    def __init__(self, instead: Callable[[Exception], EverholdError]) -> None:
        self._instead = instead

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Replace an error."""
        if not isinstance(error, Exception) or isinstance(error, EverholdError):
            return
        hidden = self._instead(error)
        try:
            raise hidden from None
        finally:
            hidden.__context__ = None  # `from None` hides the engine's error from print only


engine_errors_hidden = errors_hidden(
    lambda _: EverholdError(
        "the engine could not evaluate the sealed rows; expected a sealed file that is readable and enough "
        "memory and time; ask the steward to look at the server"
    )
)


def fetched(
    connection: duckdb.DuckDBPyConnection, sql: str, *, as_arrays: bool = False, max_seconds: float = 60.0
) -> Any:
    """What the engine says to one statement: a list of rows, or an array for each column by name.

    Args:
        connection: A `locked_connection`, in use by nobody else.
        sql: The statement.
        as_arrays: Whether to return arrays.
        max_seconds: Soft limit; the engine is interrupted then.

    Raises:
        EverholdError: If the engine fails or takes too long; without its words.
    """
    # DuckDB has a limit of its own from version 2 on only
    with engine_errors_hidden, _LIMITS.at_most(max_seconds, connection.interrupt):
        found = connection.execute(sql)
        return found.fetchnumpy() if as_arrays else found.fetchall()


def file_pattern(path: Path) -> str:
    """A path as DuckDB has to get it: its signs for patterns stand for themselves.

    Examples:
        >>> import pathlib
        >>> file_pattern(pathlib.Path("rows[1].csv"))
        'rows[[]1].csv'
    """
    return re.sub(r"[\[*?]", lambda sign: f"[{sign[0]}]", str(path))


def fingerprint(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def check_fingerprint(path: Path, expected: str, *, what: str) -> None:
    """Check that a sealed file is byte for byte the one that was sealed.

    Raises:
        IntegrityError: If it is missing or differs.
    """
    if not path.is_file():
        raise IntegrityError(
            f"the sealed {what} rows are missing; expected {path.name} beside the database; restore it"
        )
    if fingerprint(path) != expected:
        raise IntegrityError(
            f"the sealed {what} rows are not the ones that were sealed: the fingerprint of {path.name} differs; "
            "restore the original file; no question is answered until then"
        )


class UnchangedFile:
    """A sealed file whose fingerprint was checked; finds out around each reading if it was changed since.

    The engine opens the file anew whenever it reads. So what tells one state of a file from another, its place on the
    disk, its size and its times, is compared before and after; only where it differs is the fingerprint computed again,
    because a backup may touch a file without changing it. Who can set the clock of the machine can deceive this check,
    and not the one at opening.

    Args:
        path: The file.
        expected: Its fingerprint when it was sealed.
        what: How messages call the rows, "holdout" or "training".

    Raises:
        IntegrityError: If it is missing or differs, here and around each reading. Nothing is charged.
    """

    def __init__(self, path: Path, expected: str, *, what: str) -> None:
        self._path, self._expected, self._what = path, expected, what
        self._checked = self._check()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Context in which the file is read; also where that fails, a file that is gone is the better explanation."""
        if _state(self._path) != self._checked:
            self._checked = self._check()
        try:
            yield
        except Exception:
            self._check_since(self._checked, "read")
            raise
        self._check_since(self._checked, "read")

    def _check(self) -> tuple[int, ...]:
        before = _state(self._path)
        check_fingerprint(self._path, self._expected, what=self._what)
        self._check_since(before, "checked")
        return before

    def _check_since(self, before: tuple[int, ...], done: str) -> None:
        if _state(self._path) != before:
            then = "verify the ledger, then ask again" if done == "read" else "try again"
            raise IntegrityError(
                f"the sealed {self._what} rows were changed while they were {done}; expected {self._path.name} to be "
                f"left alone; nothing was charged; {then}"
            ) from None


def _state(path: Path) -> tuple[int, ...]:
    """What changes when a file is written, replaced or renamed; empty where there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _check_names(connection: duckdb.DuckDBPyConnection, file: str) -> None:
    """Refuses a file some of whose columns the engine has renamed, because names would then mean other columns."""
    seen = {name for name, *_ in connection.execute(f"DESCRIBE {SEALED}").fetchall()} - {POSITION}
    names = {name for (name,) in connection.execute(f"SELECT name FROM parquet_schema({_text(file)})").fetchall()}
    if not seen <= names:
        raise HoldoutRejected(
            "two columns have names that differ in case only; expected names that differ otherwise; "
            "rename one of them and seal the rows again"
        )


def _rewriting(connection: duckdb.DuckDBPyConnection) -> str:
    """All optimizers but the few that only save columns and repeated work."""
    names = [str(name) for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    return ",".join(name for name in names if name not in _KEPT_OPTIMIZERS)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
