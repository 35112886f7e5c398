"""ClickHouse as an engine, embedded (chDB) on a folder or on Parquet files, or a server; the extra ``clickhouse``.

Every statement is sent with ``readonly = 2``, a time limit, and UTC as its zone, so the user's profile must allow these
settings. A server writes statements to ``system.query_log``. everhold asks it not to (``log_queries = 0``), but its
administrator may decide otherwise.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from everhold.errors import EverholdError, HoldoutRejected, Unavailable
from everhold.values.expressions import ColumnKind
from everhold_engines.base import EngineConnection, array_of
from everhold_engines.remote import PIECES, Remote, StoredTable, known_path, name_parts
from everhold_engines.sql.dialects import CLICKHOUSE, Dialect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


_SETTINGS = {
    "readonly": "2", "session_timezone": "UTC", "log_queries": "0", "max_query_size": str(2**27),
    "max_ast_elements": "2000000", "max_expanded_ast_elements": "20000000", "max_ast_depth": "100000",
    "max_parser_depth": "100000", "max_parser_backtracks": "0", "use_hive_partitioning": "0",
    "short_circuit_function_evaluation": "disable",
}  # fmt: skip
_GONE = (209, 210, 279, 1002)  # what a server says of sockets; without a number the connection was never made
_KEPT_OUT = (81, 192, 193, 194, 195, 516)  # an unknown database or user, or a wrong password
_TLS = ("clickhouses", "https")


class ClickHouseConnection(EngineConnection):
    """Client of a ClickHouse server, or of ClickHouse embedded in this process.

    Args:
        where: An address, a folder, or a client, which stays the caller's; see `ClickHouse`.
        max_seconds: Limit for each statement.
    """

    title: ClassVar[str] = "ClickHouse"
    install: ClassVar[str] = "pip install 'everhold[clickhouse]'"
    embedded_in: ClassVar[int | None] = None  # the process that started an embedded one; forks lack its threads

    def __init__(self, where: Any, *, max_seconds: float) -> None:
        text = isinstance(where, (str, os.PathLike))
        address = _address(where) if text else _address_of(where)
        super().__init__(address, None if text or urlsplit(address).scheme == "chdb" else where)
        self._max_seconds = max_seconds

    @property
    def place(self) -> str:
        """The address without password and options."""
        found = urlsplit(self.address)
        user = f"{found.username}@" if found.username else ""
        port = f":{found.port}" if found.port else ""
        return f"{found.scheme}://{user}{found.hostname or ''}{port}{found.path}"

    @property
    def is_embedded(self) -> bool:
        """True if ClickHouse runs in this process."""
        return bool(urlsplit(self.address).scheme == "chdb")

    def run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """Run a statement, and yield column names and columns in batches. An empty result yields one batch."""
        client, query = self.client(), f"everhold-{secrets.token_hex(12)}"
        limit = {"max_execution_time": "0" if max_seconds is None else str(max_seconds)}
        if self.is_embedded:  # while it streams it runs nothing else
            found = client.query(statement, settings=limit, tz_mode="aware")
            names = list(found.column_names) or _names(client, statement)
            yield names, list(found.result_columns) or [[] for _ in names]
            return
        self.running.add(query)
        try:
            stream = client.query_column_block_stream(
                statement, settings=_known(client) | limit | {"query_id": query}, tz_mode="aware"
            )
            with stream as blocks:
                names = list(stream.source.column_names) or _names(client, statement)
                yield names, list(next(blocks, [[] for _ in names]))
                for columns in blocks:
                    yield names, list(columns)
        finally:
            self.running.discard(query)

    def array(self, column: Any) -> NDArray[Any]:
        """Return a result column of `run` as an array."""
        return array_of(column)

    def interrupt(self) -> None:
        """Cancel the running statement of a server. The embedded one ends by its time limit."""
        for query in list(self.running):
            threading.Thread(target=self._kill, args=(query,), daemon=True).start()

    def close(self) -> None:
        """Close the client, unless the caller passed it in."""
        with self.lock:
            if self.is_mine and self.opened is not None:
                self.opened.close()
                self.opened = None

    def client(self) -> Any:
        """Return the client of clickhouse-connect, opened if necessary."""
        with self.lock:
            self._check_process()
            if self.opened is None:
                self.opened = self._connect()
            return self.opened

    def _connect(self) -> Any:
        import clickhouse_connect

        found = urlsplit(self.address)
        if found.scheme == "chdb":
            ClickHouseConnection.embedded_in = os.getpid()
            client = _embedded_client(found.path or ":memory:")
            for name, value in _known(client).items():  # for its parser they have to be known before a statement is
                client.set_client_setting(name, value)
            return client
        return clickhouse_connect.get_client(
            dsn=self.address, interface="https" if found.scheme in _TLS else None, autogenerate_session_id=False,
            send_receive_timeout=max(60, round(self._max_seconds) + 30), client_name="everhold",
        )  # fmt: skip

    def _check_process(self) -> None:
        if self.pid == os.getpid() and (not self.is_embedded or self.embedded_in in (None, self.pid)):
            return
        if self.is_embedded:
            raise EverholdError(
                "An embedded ClickHouse does not survive the fork of a process. Start "
                "processes with the method 'spawn'."
            )
        self.opened, self.is_mine, self.pid = None, True, os.getpid()

    def _kill(self, query: str) -> None:
        with contextlib.suppress(Exception):
            if not self.is_embedded:
                self.client().command(f"KILL QUERY WHERE query_id = {CLICKHOUSE.literal(query)} ASYNC")

    def is_refused(self, error: Exception) -> bool:
        """Return whether an error says that the engine rejected the user or password."""
        return getattr(error, "code", None) in _KEPT_OUT

    def is_unreachable(self, error: Exception) -> bool:
        """Return whether an error says that the engine cannot be reached."""
        from clickhouse_connect.driver.exceptions import OperationalError

        code = getattr(error, "code", None)
        return super().is_unreachable(error) or code in _GONE or (isinstance(error, OperationalError) and not code)


def _names(client: Any, statement: str) -> list[str]:
    """Return the column names of a statement's result, if the result has no rows."""
    return list(client.query(f"DESCRIBE ({statement})").result_columns[0])


def _embedded_client(path: str) -> Any:
    import clickhouse_connect
    from clickhouse_connect.driver.exceptions import ProgrammingError

    try:
        return clickhouse_connect.get_client(interface="chdb", path=path)
    except ProgrammingError:  # so it says
        raise Unavailable(
            "This process has an embedded ClickHouse open on another folder, and only one "
            "is possible. Close the other holdout or client, then try again."
        ) from None


def _known(client: Any) -> dict[str, str]:
    """Return those required settings that this version of ClickHouse supports."""
    return {name: value for name, value in _SETTINGS.items() if name in client.server_settings}


def _address(where: str | os.PathLike[str]) -> str:
    """Return a full ClickHouse address. A folder becomes an address of the embedded engine.

    Raises:
        ValueError: If there is no such kind of address.
    """
    text = os.fspath(where)
    if "://" not in text:
        return f"chdb://{Path(text).resolve()}"
    if urlsplit(text).scheme not in ("chdb", "clickhouse", "clickhousedb", "http", *_TLS):
        raise ValueError(
            "Not a ClickHouse URL. Use for example clickhouse://user@host:port/database, clickhouses:// for TLS, "
            "chdb:///folder, or a folder."
        )
    return text


def _address_of(client: Any) -> str:
    """Return the address, without a password, of a client that the caller passed."""
    if str(getattr(client, "uri", "")).startswith("chdb:"):
        return "chdb://" + ("" if client.path == ":memory:" else str(Path(client.path).resolve()))
    found = urlsplit(getattr(client, "url", ""))
    if not found.hostname:
        raise TypeError(
            f"{type(client).__name__} is not a client of clickhouse-connect. Pass such a "
            "client, an address or a folder."
        )
    scheme = "clickhouses" if found.scheme == "https" else "clickhouse"
    return f"{scheme}://{found.netloc}/{client.database or ''}"


_WRAPPED = re.compile(r"^(?:Nullable|LowCardinality)\((.*)\)$", re.DOTALL)
_NUMBERS = re.compile(r"^(U?Int\d+|B?Float\d+|Decimal\d*\(.*\))$")
_EXACT = {
    r"(?:Nullable\(|LowCardinality\()*(String|U?Int\d|Decimal|Date32|Date\b|Enum|Bool|UUID|IPv)": "toString({0})",
    r"(?:Nullable\(|LowCardinality\()*(B?Float\d|FixedString)": "hex({0})",
}
"""By type a text that no other value has; of others, such as times whose zone has hours twice, its bytes."""
_TIMES = re.compile(r"^(Date|Date32|DateTime(64)?(\(.*\))?)$")
_YEARS = (-62135596800, 253402300799)  # seconds since 1970 of the first and the last one that Python has
_TAKEN = re.compile(rf"{CLICKHOUSE.rows}(_\d+)?(\.|$)")


class ClickHouseTable(StoredTable[ClickHouseConnection]):
    """A table of ClickHouse, or Parquet files that it reads."""

    kind: ClassVar[str] = "clickhouse"

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""
        return CLICKHOUSE

    @property
    def sql(self) -> str:
        """SQL that follows FROM for the table."""
        if self.is_file:
            pattern = self.name if re.search(r"\.\w+$", self.name) else f"{self.name.rstrip('/')}/*.parquet"
            return f"file({CLICKHOUSE.literal(pattern)}, 'Parquet')"
        return ".".join(map(CLICKHOUSE.quoted, name_parts(self.name)))

    @property
    def is_file(self) -> bool:
        """True if the name is a path of Parquet files and not of a table."""
        return "/" in self.name or self.name.endswith(".parquet")

    def types(self) -> list[tuple[str, str]]:
        """Return the name and the engine's type of each column, empty if the table does not exist."""
        return [(name, data_type) for name, data_type, *_ in self.said(f"DESCRIBE TABLE {self.sql}")]

    def column_kind(self, data_type: str) -> ColumnKind:
        """Return the kind of value that a ClickHouse type has in everhold's expressions."""
        while wrapped := _WRAPPED.match(data_type):
            data_type = wrapped[1]
        if data_type == "String" or data_type.startswith("Enum"):
            return ColumnKind.STRING
        if data_type == "Bool":
            return ColumnKind.BOOLEAN
        if _TIMES.match(data_type):
            return ColumnKind.TIME
        return ColumnKind.NUMBER if _NUMBERS.match(data_type) else ColumnKind.OTHER

    def digest_sql(self, window: str, types: Sequence[tuple[str, str]], key: str) -> str:
        """Return a statement for the number of rows and the sums of pieces of the rows' SHA-256."""
        texts = [CLICKHOUSE.literal(key), *(_as_text(name, data_type) for name, data_type in types)]
        while len(texts) > 1:  # of many columns, in a tree
            texts = [f"concat({', '.join(texts[place : place + 100])}, '')" for place in range(0, len(texts), 100)]
        sums = ", ".join(
            f"sum(toUInt256(reinterpretAsUInt64(reverse(unhex(concat('0', substring(h, {place}, 15)))))))"
            for place in PIECES
        )
        rows = f"{window} AS {CLICKHOUSE.rows}"
        return f"SELECT count(), {sums} FROM (SELECT hex(SHA256({texts[0]})) AS h FROM {rows})"

    def guarded(self, column: str, data_type: str) -> str | None:
        """Return SQL that keeps times from year 1 to 9999, since ClickHouse and Python fail on others."""
        while wrapped := _WRAPPED.match(data_type):
            data_type = wrapped[1]
        if not data_type.startswith("DateTime64"):
            return None
        known = f"toInt64({column}) BETWEEN {_YEARS[0]} AND {_YEARS[1]}"
        within = f"if({known}, {column}, CAST(0 AS {data_type}))"  # what is missing has a value below, too
        return f"if({known}, {within}, NULL)"

    def identities(self) -> set[str]:
        """Return names that identify the stored table, empty for a view."""
        if self.is_file:
            return known_path(self.name)
        *database, name = name_parts(self.name)
        within = CLICKHOUSE.literal(database[0]) if database else "currentDatabase()"
        tables = (
            "SELECT concat(toString(length(database)), ':', database, '.', name), "
            "match(engine, '(MergeTree|Memory|Log)$') "
            f"FROM system.tables WHERE database = {within} AND name = {CLICKHOUSE.literal(name)}"
        )
        if not (found := self.said(tables)):
            raise LookupError(self.name)
        return {found[0][0]} if found[0][1] else set()

    def state(self) -> object:
        """Return a value that changes when the table's parts or files are written, None if it is not accessible."""
        if self.is_file:
            pattern = Path(self.name)
            return tuple(map(_touched, sorted(pattern.glob("*.parquet")) if pattern.is_dir() else [pattern])) or None
        *database, name = name_parts(self.name)
        within = CLICKHOUSE.literal(database[0]) if database else "currentDatabase()"
        parts = (
            "SELECT count(), hex(SHA256(toString(arraySort(groupArray(hash_of_all_files))))) FROM system.parts "
            f"WHERE active AND database = {within} AND table = {CLICKHOUSE.literal(name)}"
        )
        from clickhouse_connect.driver.exceptions import DatabaseError

        with contextlib.suppress(DatabaseError):  # without the right to see its parts
            ((count, found),) = self.said(parts)
            return found if count else None
        return None


class ClickHouse(Remote):
    """A table of ClickHouse as an engine.

    Args:
        where: ``"clickhouse://user@host:8123/database"`` (``clickhouses://`` with TLS), ``"chdb:///folder"`` or the
            folder of an embedded ClickHouse, ``"chdb://"`` where the table is Parquet files, or a client of
            clickhouse-connect, which stays the caller's.
        table: Name of a table, or the path of a Parquet file or of a folder of such files.
        max_seconds: Limit for each statement.
        **arrives: ``arrived`` and ``until`` of a table to which rows arrive, as for `Remote`.

    Examples:
        >>> ClickHouse("clickhouse://steward:secret@db/study", "flights").to_dict()["place"]
        'clickhouse://steward@db/study'
        >>> ClickHouse("chdb://", "/data/flights.parquet").source
        "file('/data/flights.parquet', 'Parquet')"
    """

    def __init__(self, where: Any, table: str, *, max_seconds: float = 600.0, **arrives: str | None) -> None:
        stored = ClickHouseTable(str(table), ClickHouseConnection(where, max_seconds=max_seconds), max_seconds)
        if stored.is_file and stored.connection.is_embedded:
            stored.name = str(Path(stored.name).absolute())  # another process may run in another folder
        _ = stored.sql  # is it a name?
        super().__init__(stored, **arrives)

    def columns(self) -> dict[str, ColumnKind]:
        """Return the kind of each column by name, in the table's order."""
        found = super().columns()
        if taken := [name for name in found if _TAKEN.match(name)]:
            raise HoldoutRejected(
                f"A column is named {taken[0]!r}, a name that everhold needs in statements "
                "to ClickHouse. Rename the column in a view, and seal the view."
            )
        return found


def _as_text(name: str, data_type: str) -> str:
    """Return SQL that converts a column to text injectively: different values give different texts."""
    column = CLICKHOUSE.column(name)
    form = next((form for known, form in _EXACT.items() if re.match(known, data_type)), "formatRow('RowBinary', {0})")
    text = f"ifNull({form.format(column)}, '')"
    return f"if(isNull({column}), '-', concat(toString(length({text})), ':', {text}))"


def _touched(path: Path) -> tuple[Any, ...]:
    try:
        found = path.stat()
    except OSError:
        return (str(path),)
    return (str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
