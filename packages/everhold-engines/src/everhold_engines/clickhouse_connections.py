"""Connections to ClickHouse, embedded (chDB) or a server; both are reached through clickhouse-connect."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from everhold.errors import EverholdError, Unavailable
from everhold_engines.arrays import array_of
from everhold_engines.connections import EngineConnection
from everhold_engines.sql.dialects import CLICKHOUSE

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """A client, of a server or of what is embedded in this process.

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
        """Its address without password and options."""
        found = urlsplit(self.address)
        user = f"{found.username}@" if found.username else ""
        port = f":{found.port}" if found.port else ""
        return f"{found.scheme}://{user}{found.hostname or ''}{port}{found.path}"

    @property
    def is_embedded(self) -> bool:
        """True if it runs in this process."""
        return bool(urlsplit(self.address).scheme == "chdb")

    def run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """See `EngineConnection.run`."""
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
        """See `EngineConnection.array`."""
        return array_of(column)

    def interrupt(self) -> None:
        """End what runs on a server; the embedded one ends by its limit of time."""
        for query in list(self.running):
            threading.Thread(target=self._kill, args=(query,), daemon=True).start()

    def close(self) -> None:
        """Let go of a client of its own."""
        with self.lock:
            if self.is_mine and self.opened is not None:
                self.opened.close()
                self.opened = None

    def client(self) -> Any:
        """The client of clickhouse-connect, opened."""
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
                "an embedded ClickHouse does not survive the fork of a process; expected a process that was started "
                "anew; nothing was charged; start workers by 'spawn'"
            )
        self.opened, self.is_mine, self.pid = None, True, os.getpid()

    def _kill(self, query: str) -> None:
        with contextlib.suppress(Exception):
            if not self.is_embedded:
                self.client().command(f"KILL QUERY WHERE query_id = {CLICKHOUSE.literal(query)} ASYNC")

    def is_refused(self, error: Exception) -> bool:
        """See `EngineConnection.is_refused`."""
        return getattr(error, "code", None) in _KEPT_OUT

    def is_unreachable(self, error: Exception) -> bool:
        """See `EngineConnection.is_unreachable`."""
        from clickhouse_connect.driver.exceptions import OperationalError

        code = getattr(error, "code", None)
        return super().is_unreachable(error) or code in _GONE or (isinstance(error, OperationalError) and not code)


def _names(client: Any, statement: str) -> list[str]:
    """Names of the columns of a statement, which an empty answer lacks."""
    return list(client.query(f"DESCRIBE ({statement})").result_columns[0])


def _embedded_client(path: str) -> Any:
    import clickhouse_connect
    from clickhouse_connect.driver.exceptions import ProgrammingError

    try:
        return clickhouse_connect.get_client(interface="chdb", path=path)
    except ProgrammingError:  # so it says
        raise Unavailable(
            "this process has an embedded ClickHouse open on another folder, and can have one; expected that to be "
            "closed, or a process of its own; nothing was charged; close the other holdout or client, then try again"
        ) from None


def _known(client: Any) -> dict[str, str]:
    """The settings of every statement that this version of ClickHouse knows."""
    return {name: value for name, value in _SETTINGS.items() if name in client.server_settings}


def _address(where: str | os.PathLike[str]) -> str:
    """An address, also of a folder.

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
    """The address of a client that was handed in, without its password."""
    if str(getattr(client, "uri", "")).startswith("chdb:"):
        return "chdb://" + ("" if client.path == ":memory:" else str(Path(client.path).resolve()))
    found = urlsplit(getattr(client, "url", ""))
    if not found.hostname:
        raise TypeError(
            f"{type(client).__name__} is no client of clickhouse-connect; expected one, an address or a folder"
        )
    scheme = "clickhouses" if found.scheme == "https" else "clickhouse"
    return f"{scheme}://{found.netloc}/{client.database or ''}"
