"""Reader of a sealed file: a DuckDB connection that can read this one file, unchanged, and nothing else.

The restriction is a second protection, because no analyst's text reaches the engine anyway. It does not protect the
sealed file from being written (`COPY ... TO` the allowed path works in DuckDB 2.0), but the fingerprint then differs.
Before DuckDB 2 a statement may print query plans to the screen, but to no file. Neither the time limit of a statement
nor DuckDB's memory limit is exact. A service that needs exact limits runs this in a worker process with RLIMIT_CPU and
RLIMIT_AS.

Analysts' expressions are not translated to SQL: `rows.table` reads columns here, and NumPy evaluates the expressions.
Most of DuckDB's optimiser is switched off, because it may drop a test for nan if the file's statistics name no nan.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import math
import os
import threading
import time
import weakref
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Self

import duckdb

from everhold.errors import EverholdError, EverholdWarning, HoldoutRejected, IntegrityError
from everhold.sealing.intake import duckdb_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    from everhold.values.expressions import ColumnKind

# A time limit for each statement of an engine, kept by one thread of the process.
#
# A timer of its own for each statement would start a thread for each. This thread sleeps until the first limit that it
# knows of; nearly always the statement is over by then.


class TimeLimits:
    """Time limits of running statements. Safe to share between threads, and to use after a fork.

    Examples:
        >>> limits, stopped = TimeLimits(), threading.Event()
        >>> with limits.at_most(0.01, stopped.set):
        ...     stopped.wait(60.0)
        True
    """

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Begin without limits and without a thread, as after a fork."""
        self._changed = threading.Condition()
        self._limits: dict[object, tuple[float, Callable[[], object]]] = {}
        self._awake_at = 0.0  # infinite while the thread waits for work
        self._thread: threading.Thread | None = None

    @contextmanager
    def at_most(self, seconds: float, stop: Callable[[], object]) -> Iterator[None]:
        """Return a context with a time limit, at which another thread calls ``stop``.

        After the context has ended, ``stop`` is never called.

        Args:
            seconds: Time limit in seconds.
            stop: Function that makes the block end soon. It must not wait.
        """
        until, key = time.monotonic() + seconds, object()
        with self._changed:
            self._limits[key] = until, stop
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="everhold time limits", daemon=True)
                self._thread.start()
            elif until < self._awake_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._limits.pop(key, None)

    def _watch(self) -> None:
        """Loop of the thread that stops statements when their limits have passed."""
        with self._changed:
            while True:
                self._changed.wait(self._stop_late_ones(time.monotonic()))  # waits without a name for any task

    def _stop_late_ones(self, now: float) -> float | None:
        """Stop the tasks whose time is up. Return the seconds until the next limit, or None if there is none."""
        for key, (until, stop) in list(self._limits.items()):
            if until <= now:
                del self._limits[key]
                stop()
        self._awake_at = min((until for until, _ in self._limits.values()), default=math.inf)
        return None if self._awake_at == math.inf else self._awake_at - now


SEALED = "sealed"
"""Name of the view of the sealed rows."""

_LIMITS = TimeLimits()
_CTRL_C = "Query interrupted"
_KEPT_OPTIMIZERS = ("column_lifetime", "common_subexpressions", "filter_pushdown", "unused_columns")


class Embedded:
    """DuckDB on one Parquet file, for statements that everhold wrote itself.

    Args:
        path: A file written by `everhold.sealing.intake.files.seal_rows`.
        fingerprint: SHA-256 that the file must have, now and at each reading. None for a file that is not checked.
        what: Name of the rows in messages, "holdout" or "training".

    Attributes:
        reading: Function that returns a context for reading rows. The state of the file is compared before and after.

    Raises:
        IntegrityError: If the file is missing, or does not have the fingerprint. Nothing is charged.
    """

    def __init__(self, path: Path, *, fingerprint: str | None = None, what: str = "holdout") -> None:
        self._path = path
        self.reading: Callable[[], AbstractContextManager[None]] = (
            nullcontext if fingerprint is None else UnchangedFile(path, fingerprint, what=what).reading
        )
        self._lock = threading.Lock()  # a DuckDB connection serves one thread at a time
        self._connection: duckdb.DuckDBPyConnection | None = None
        _engines.add(self)

    @classmethod
    @contextmanager
    def of_open_rows(cls, path: Path) -> Iterator[Self]:
        """Open an engine for training rows as a context.

        It uses the connection of a running creation, if there is one.
        """
        with duckdb_files.spilling_into(path.parent) as connection, closing(cls(path)) as engine:
            with engine_errors_hidden:
                duckdb_files.view_files(connection, SEALED, path, positions=True)
            engine._connection = connection
            yield engine

    @property
    def path(self) -> Path:
        """The file's path."""
        return self._path

    @property
    def source(self) -> str:
        """Name of the view of the rows, for use after FROM. It has the column `POSITION`."""
        return SEALED

    def columns(self) -> dict[str, ColumnKind]:
        """Kind of each column by name, in the order of the file."""
        with self._lock, engine_errors_hidden:
            kinds = duckdb_files.column_kinds(self._opened().table(SEALED))
        return {name: kind for name, kind in kinds.items() if name != duckdb_files.POSITION}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement's result. Whole numbers are exact ints."""
        with self._lock:
            found: list[tuple[Any, ...]] = fetched(self._opened(), statement)
        return found

    def arrays(self, statement: str) -> dict[str, NDArray[Any]]:
        """Return a statement's result as one array for each column, masked where a value is missing."""
        with self._lock:
            found: dict[str, NDArray[Any]] = fetched(self._opened(), statement, as_arrays=True)
        return found

    def interrupt(self) -> None:
        """Stop the statement that runs now, from any thread and without waiting."""
        if (connection := self._connection) is not None:
            connection.interrupt()

    def close(self) -> None:
        """Close the connection, which opens again when needed."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _close_at_exit(self) -> None:
        """Close the connection, unless a thread still works with it after one second."""
        self.interrupt()
        if self._lock.acquire(timeout=1.0):
            self._lock.release()
            self.close()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        """Return the DuckDB connection, and open it on first use."""
        if self._connection is None:
            self._connection = locked_connection(self._path)
        return self._connection

    def _after_fork_in_child(self) -> None:
        """Replace connection and lock, because the engine's threads stay with the parent."""
        self._lock = threading.Lock()
        _left_to_parent.append(self._connection)
        self._connection = None


_engines: weakref.WeakSet[Embedded] = weakref.WeakSet()
_left_to_parent: list[object] = []  # never closed in a child: that would wait for threads that it does not have


@atexit.register
def _close_at_exit() -> None:
    """Close all connections at exit, because DuckDB prints a warning for each object that is still open."""
    for engine in list(_engines):
        engine._close_at_exit()


def _after_fork_in_child() -> None:
    """Replace the connections of all engines, because their threads stay with the parent."""
    for engine in list(_engines):
        engine._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)


def locked_connection(path: Path, *, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB that can read only the sealed Parquet file, through the view `SEALED`.

    Args:
        path: The sealed Parquet file; none of its columns may be called `POSITION`.
        threads: Threads of the engine; its own choice by default.

    Returns:
        A connection whose configuration is locked; to be closed by the caller. Its cursors are locked too.

    Raises:
        HoldoutRejected: If column names differ in case only, which the engine cannot tell apart.
        EverholdError: If the file cannot be read or the connection cannot be restricted. The message does not quote the
            engine.
    """
    file, pattern = str(path.resolve()), duckdb_files.file_pattern(path.resolve())  # the engine looks a pattern up
    settings = {
        "python_enable_replacements": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
        "temp_directory": "''",
        "memory_limit": "'4GB'",  # a soft limit
        "preserve_insertion_order": "true",  # columns are read without their positions
        **({} if threads is None else {"threads": str(int(threads))}),
        "allowed_paths": f"[{', '.join(map(_text, sorted({file, pattern})))}]",
        "enable_external_access": "false",
    }
    with engine_errors_hidden:
        connection = duckdb.connect(":memory:")
        try:
            duckdb_files.without_progress_bar(connection)
            names = [str(name) for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
            rewriting = ",".join(name for name in names if name not in _KEPT_OPTIMIZERS)
            settings["disabled_optimizers"] = _text(rewriting)
            connection.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))
            connection.execute(
                f"CREATE VIEW {SEALED} AS SELECT * FROM {duckdb_files.files_in_sql(path.resolve(), positions=True)}"
            )
            connection.execute("SET lock_configuration = true")
            _check_names(connection, pattern)
        except BaseException:
            connection.close()
            raise
    return connection


def fetched(
    connection: duckdb.DuckDBPyConnection, sql: str, *, as_arrays: bool = False, max_seconds: float = 60.0
) -> Any:
    """Run one statement, and return its result as a list of rows or as arrays by column.

    Args:
        connection: A `locked_connection`, not in use elsewhere.
        sql: The SQL statement.
        as_arrays: Whether to return arrays.
        max_seconds: Time after which the engine is interrupted, which may take a while.

    Raises:
        EverholdError: If the engine fails or takes too long. The message does not quote the engine.
    """
    # DuckDB has a limit of its own from version 2 on only
    with engine_errors_hidden, _LIMITS.at_most(max_seconds, connection.interrupt):
        try:
            found = connection.execute(sql)
            return found.fetchnumpy() if as_arrays else found.fetchall()
        except RuntimeError as error:  # what DuckDB makes of Ctrl-C
            if str(error) != _CTRL_C:
                raise
    raise KeyboardInterrupt


def _check_names(connection: duckdb.DuckDBPyConnection, pattern: str) -> None:
    """Raise HoldoutRejected for a file in which DuckDB renamed columns, because queries would read other columns."""
    seen = {name for name, *_ in connection.execute(f"DESCRIBE {SEALED}").fetchall()} - {duckdb_files.POSITION}
    names = {name for (name,) in connection.execute(f"SELECT name FROM parquet_schema({_text(pattern)})").fetchall()}
    if not seen <= names:
        raise HoldoutRejected(
            "Two columns have names that differ only in case. Rename one of them and seal the rows again."
        )


def _text(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


# Errors of engines in words of everhold, never the engine's own, because engines quote rows.


class errors_hidden(contextlib.AbstractContextManager[None]):  # noqa: N801  a context manager reads like a function
    """Context that replaces exceptions of other packages by everhold errors, because engines may quote rows.

    Interrupts, and everhold's own errors and warnings, are not replaced.

    Args:
        instead: Function from an error to the error that replaces it.
    """

    def __init__(self, instead: Callable[[Exception], EverholdError]) -> None:
        self._instead = instead

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, (EverholdError, EverholdWarning)):
            return
        hidden = self._instead(error)
        try:
            raise hidden from None
        finally:
            hidden.__context__ = None  # `from None` hides the engine's error from print only


engine_errors_hidden = errors_hidden(
    lambda _: EverholdError(
        "The engine could not evaluate the sealed rows. Ask the steward to check that the "
        "server can read the sealed file and has enough memory and time."
    )
)


# Checks that a sealed file is the one that was sealed: by fingerprint at opening, by file state at each reading.


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
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
            f"The file {path.name} of the sealed {what} rows is missing. Restore it beside the database."
        )
    if fingerprint(path) != expected:
        raise IntegrityError(
            f"The sealed {what} rows were altered: the fingerprint of {path.name} is not "
            "the recorded one. Restore the original file."
        )


def same_table(first: Path, second: Path) -> bool:
    """Return whether two Parquet files of equal length have the same rows in the same order.

    For sealed rows the result is secret.
    """
    with duckdb_files.spilling_into(first.parent) as connection:
        tables = [
            connection.read_parquet(duckdb_files.file_pattern(path), file_row_number=True) for path in (first, second)
        ]
        return tables[0].except_(tables[1]).limit(1).fetchall() == []


class UnchangedFile:
    """Sealed file with a checked fingerprint, which is checked again around each reading if the file changed.

    The engine opens the file anew whenever it reads. So the file's position on the disk, its size and its times are
    compared before and after each reading. Only if they differ is the fingerprint computed again, because a backup may
    touch a file without changing it. Whoever can set the clock of the machine can deceive this check, but not the check
    at opening.

    Args:
        path: Path of the file.
        expected: Fingerprint of the file from the time at which it was sealed.
        what: Name of the rows in messages, "holdout" or "training".

    Raises:
        IntegrityError: If it is missing or differs, here and around each reading. Nothing is charged.
    """

    def __init__(self, path: Path, expected: str, *, what: str) -> None:
        self._path, self._expected, self._what = path, expected, what
        self._checked = self._check()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Context in which the file is read. A file that changed is reported in place of the reader's error."""
        if _state(self._path) != self._checked:
            self._checked = self._check()
        try:
            yield
        finally:
            if _state(self._path) != self._checked:
                raise self._changed("read", "verify the ledger, then ask again") from None

    def _check(self) -> tuple[int, ...]:
        """Check the file's fingerprint, and return the state of the file to which it applies."""
        before = _state(self._path)
        check_fingerprint(self._path, self._expected, what=self._what)
        if _state(self._path) != before:
            raise self._changed("checked", "try again")
        return before

    def _changed(self, while_it_was: str, then: str) -> IntegrityError:
        """Return the error for a file that another process changed while it was read."""
        return IntegrityError(
            f"The file {self._path.name} of the sealed {self._what} rows was changed while it was {while_it_was}. "
            f"Leave it alone, and {then}."
        )


def _state(path: Path) -> tuple[int, ...]:
    """Return numbers that change when a file is written, replaced or renamed, empty if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
