"""A DuckDB connection that can read one sealed file and nothing else.

The lock-down is a second wall: no analyst's text reaches the engine anyway. It does not protect the sealed file from
being written (`COPY ... TO` the allowed path works in DuckDB 2.0); the fingerprint shows that. Neither the time limit
nor the memory limit of DuckDB is hard; a service that needs hard ones runs this in a worker process with RLIMIT_CPU
and RLIMIT_AS.

Rewriting is switched off too. DuckDB's optimizer merges nested sub-selects, so that a branch of a ``case`` is computed
only for the rows that take it (visible in the timing) and shared parts are repeated (2**15 times in one test); it turns
``in`` into joins, and it may drop a test for nan on the word of the file's statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from everhold.errors import EverholdError, HoldoutRejected
from everhold.sealing.reading import file_pattern

if TYPE_CHECKING:
    import pathlib
    from types import TracebackType

__all__ = ["POSITION", "SEALED", "engine_errors_hidden", "locked_connection", "spilling_into"]

SEALED = "sealed"
"""Name of the view of the sealed rows."""

_KEPT_OPTIMIZERS = ("column_lifetime", "common_subexpressions", "unused_columns")

POSITION = "file_row_number"
"""Column of that view with the position of a row in the file, from 0."""


def spilling_into(folder: pathlib.Path) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB of the steward's own, whose temporary files stay in a private folder.

    Left alone it would write rows that do not fit into memory to the working folder, as open as the umask says.
    """
    return duckdb.connect(":memory:", config={"temp_directory": str(folder / "spilled")})


def locked_connection(
    path: pathlib.Path, *, threads: int | None = None, memory_limit: str = "4GB", max_seconds: float = 60.0
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB whose only readable file is the sealed Parquet file, seen as the view `SEALED`.

    Args:
        path: The sealed Parquet file; none of its columns may be called `POSITION`.
        threads: Threads of the engine; its own choice by default.
        memory_limit: Soft limit, in DuckDB's notation.
        max_seconds: Soft limit for one statement.

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
        "max_execution_time": str(max(1, round(max_seconds * 1000))),
        "enable_external_access": "false",
    }
    with engine_errors_hidden():
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


class engine_errors_hidden:  # noqa: N801  a context manager reads like a function
    """Context in which every error becomes one fixed `EverholdError`, because engines quote data in theirs.

    Examples:
        >>> with engine_errors_hidden():
        ...     raise ValueError("row 17 holds a secret")
        Traceback (most recent call last):
        everhold.errors.EverholdError: the engine could not evaluate the sealed rows; expected a sealed file that is
        readable and enough memory and time; ask the steward to look at the server
    """

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Replace an error; interrupts and errors of everhold pass."""
        if not isinstance(error, Exception) or isinstance(error, EverholdError):
            return
        hidden = EverholdError(
            "the engine could not evaluate the sealed rows; expected a sealed file that is readable and enough "
            "memory and time; ask the steward to look at the server"
        )
        try:
            raise hidden from None
        finally:
            hidden.__context__ = None  # `from None` hides the engine's error from print only


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
