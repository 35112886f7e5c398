"""DuckDB settings for a steward's own files: private temporary files, safe paths, kinds of columns."""

from __future__ import annotations

import contextlib
import re
import secrets
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POSITION = "file_row_number"
"""Column with the position of a row in its file, from 0; of a table elsewhere where its rows are numbered."""

DOUBLE = "CASE WHEN typeof({0}) LIKE 'DECIMAL(%,0)' THEN {0}::VARCHAR::DOUBLE ELSE {0}::DOUBLE END"
"""SQL for a number as the nearest double: DuckDB rounds a whole number beyond 2^64 twice when it casts it."""

SECONDS = (  # of a time with a zone, `epoch` is not the nearest double
    "CASE typeof({0}) WHEN 'TIMESTAMP WITH TIME ZONE' THEN epoch_us({0}) / 1e6 ELSE epoch({0}) END"
)
"""SQL for a date or time as seconds since 1970 in UTC, rounded once from whole microseconds. Null if infinite."""

_MEGABYTES, _MEGABYTES_OF_A_COLUMN = 512, 8  # a group of rows that is being written takes one of each column and thread
_LIMITED_COLUMNS = 256

_NUMBERS = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|FLOAT|DOUBLE|DECIMAL\(.*\))$")
_TIMES = re.compile(r"^(DATE|TIMESTAMP.*)$")


_SHORT = 2**20  # cells of a file that is held in memory between the checks of its rows


@dataclass(frozen=True, slots=True)
class _Engine:
    """An open engine: the folder of its temporary files, its connections, and its tables of files held in memory."""

    folder: Path
    connections: list[duckdb.DuckDBPyConnection]
    held: dict[Path, str] = field(default_factory=dict)


_open: ContextVar[_Engine | None] = ContextVar("_open", default=None)


@contextlib.contextmanager
def spilling_into(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Context with an in-memory DuckDB connection whose temporary files stay in a private folder.

    By default DuckDB would write rows that do not fit into memory to the working folder, where others may read them.
    Inside another such context of the same folder, the connection is to an empty database of the same engine, because
    opening an engine takes longer than most statements.
    """
    outer = _open.get()
    if outer is not None and outer.folder == folder:
        name = f"inner_{secrets.token_hex(8)}"
        with outer.connections[0].cursor() as connection:
            connection.execute(f"ATTACH ':memory:' AS {name}; USE {name}")
            outer.connections.append(connection)
            yield connection
        outer.connections.remove(connection)
        outer.connections[0].execute(f"DETACH {name}")
        return
    with duckdb.connect(":memory:", config={"temp_directory": str(folder / "spilled")}) as connection:
        without_progress_bar(connection)
        token = _open.set(_Engine(folder, [connection]))
        try:
            yield connection
        finally:
            _open.reset(token)


def without_progress_bar(connection: duckdb.DuckDBPyConnection) -> None:
    """Turn off DuckDB's progress bar on a connection.

    In a notebook without the package that draws the bar, the engine has no bar and refuses this setting, so nothing is
    done.
    """
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")


def limit_memory(connection: duckdb.DuckDBPyConnection, columns: int) -> None:
    """Set a connection's memory limit by the number of columns, independent of the number of rows.

    Data beyond the limit goes to temporary files. For very wide tables DuckDB's default limit stays, which is most of
    the machine's memory.
    """
    if columns <= _LIMITED_COLUMNS:
        connection.execute(f"SET memory_limit = '{_MEGABYTES + _MEGABYTES_OF_A_COLUMN * columns}MB'")


def file_pattern(path: Path) -> str:
    """Return a path for DuckDB with its wildcard characters escaped.

    Examples:
        >>> import pathlib
        >>> file_pattern(pathlib.Path("rows[1].csv"))
        'rows[[]1].csv'
    """
    return re.sub(r"[\[*?]", lambda sign: f"[{sign[0]}]", str(path))


def view_files(connection: duckdb.DuckDBPyConnection, name: str, *paths: Path, positions: bool = False) -> None:
    """Create or replace a view of the rows of several Parquet files, if asked with the column `POSITION`.

    A file that `hold_rows` read into the memory of this engine is read from there. An SQL statement is used, because it
    takes half the time of DuckDB's method for relations.

    Args:
        connection: Connection in which the view is made.
        name: Name of the view.
        paths: The Parquet files, in the order of their rows.
        positions: Whether the view has the column `POSITION`.
    """
    columns, rows, engine = "*", files_in_sql(*paths, positions=positions), _open.get()
    held = engine.held if engine is not None and connection in engine.connections and len(paths) == 1 else {}
    if (path := paths[0].resolve()) in held:
        columns, rows = "*" if positions else f"* EXCLUDE ({POSITION})", f"memory.main.{held[path]}"
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT {columns} FROM {rows}")


def files_in_sql(*paths: Path, positions: bool) -> str:
    """Return SQL that reads the rows of Parquet files. Folder names such as ``day=5`` do not become columns.

    If `positions` is true, the column `POSITION` is added.
    """
    files = ", ".join("'" + file_pattern(path).replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{files}], hive_partitioning = false{f', {POSITION} = true' if positions else ''})"


def hold_rows(connection: duckdb.DuckDBPyConnection, path: Path, *, cells: int) -> None:
    """Read a file of few `cells` into memory. Later views in the same engine then read it in half the time."""
    engine = _open.get()
    if engine is not None and connection in engine.connections and cells <= _SHORT:
        engine.held[path.resolve()] = name = f"rows_{len(engine.held)}"
        connection.execute(f"CREATE TABLE memory.main.{name} AS SELECT * FROM {files_in_sql(path, positions=True)}")


def copy_rows(connection: duckdb.DuckDBPyConnection, query: str, path: Path, *, metadata: str = "") -> int:
    """Write the result of a query to a Parquet file, and return the number of rows.

    An existing file keeps its permissions.

    Args:
        connection: Connection in which the tables of the query exist.
        query: A SELECT statement.
        path: The new file.
        metadata: Further keys of the file, as DuckDB writes a struct, such as ``{salt: 'ab'}``; none by default.
    """
    escaped, keys = str(path).replace("'", "''"), f", KV_METADATA {metadata}" if metadata else ""
    options = f"FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false{keys}"
    return int(connection.execute(f"COPY ({query}) TO '{escaped}' ({options})").fetchall()[0][0])


def column_kinds(relation: duckdb.DuckDBPyRelation) -> dict[str, ColumnKind]:
    """Return the kind of each column of a relation, by name and in order."""
    return {name: _kind(str(data_type)) for name, data_type in zip(relation.columns, relation.types, strict=True)}


def _kind(data_type: str) -> ColumnKind:
    """Return the kind of a column from the engine's name of its type."""
    if data_type == "BOOLEAN":
        return ColumnKind.BOOLEAN
    if data_type == "VARCHAR" or data_type.startswith("ENUM"):
        return ColumnKind.STRING
    if _TIMES.match(data_type):
        return ColumnKind.TIME
    return ColumnKind.NUMBER if _NUMBERS.match(data_type) else ColumnKind.OTHER
