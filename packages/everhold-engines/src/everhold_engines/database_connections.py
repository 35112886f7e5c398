"""Connections to databases by SQLAlchemy, and how PostgreSQL is kept from writing and from words of its own."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa

from everhold_engines.arrays import array_of, plain
from everhold_engines.connections import EngineConnection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_ROWS_AT_ONCE = 2**16
_AT_ONCE = {"no_parameters": True}  # several statements in one message, and no sign of a statement is a parameter
_READING = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {limit}; "
    "SET LOCAL TIME ZONE 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'iso_8601'; "
    "SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 3; "
    "SET LOCAL standard_conforming_strings = on"
)
_USUAL = {
    "application_name": "everhold", "client_encoding": "utf8", "keepalives_idle": "30", "connect_timeout": "30",
}  # fmt: skip
_NUMERIC = 1700
_ARRAYS = {20: "int64", 21: "int64", 23: "int64", _NUMERIC: "int64", 16: "bool", 700: "float64", 701: "float64",
           1082: "datetime64[us]", 1114: "datetime64[us]", 1184: "datetime64[us]"}  # fmt: skip
"""Types of arrays by PostgreSQL's numbers of types."""


class DatabaseConnection(EngineConnection):
    """A database that SQLAlchemy reaches.

    Args:
        where: An address of SQLAlchemy, or an engine, which stays the caller's.
    """

    title: ClassVar[str] = "the database"
    install: ClassVar[str] = "install the driver that SQLAlchemy names for this database"
    scheme: ClassVar[str | None] = None
    """Of the address that is told, whatever the driver; None for that of the address itself."""
    lost: ClassVar[tuple[type[Exception], ...]] = (sa.exc.OperationalError, sa.exc.InterfaceError)
    """Errors that say, where the database gives no reason, that it could not be reached."""

    def __init__(self, where: str | sa.URL | sa.Engine) -> None:
        super().__init__(address_of(where), where if isinstance(where, sa.Engine) else None)

    @property
    def place(self) -> str:
        """Its address without password and options."""
        at = self.address
        scheme = self.scheme or at.drivername
        known = sa.URL.create(scheme, username=at.username, host=at.host, port=at.port, database=at.database)
        return known.render_as_string()

    def run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """Each column is its values and the type of its array if all are missing."""
        with self.engine().connect() as connection:
            driver = connection.connection.driver_connection
            self.running.add(driver)
            try:
                self.begin(connection, max_seconds)
                options = {**_AT_ONCE, "stream_results": True, "max_row_buffer": _ROWS_AT_ONCE}
                found = connection.exec_driver_sql(statement, execution_options=options)
                names = list(found.keys())
                types = [self.array_type(*one) for one in found.cursor.description]
                rows: Sequence[Any] = found.fetchmany(_ROWS_AT_ONCE)
                yield names, _columns(rows, types)
                while rows := found.fetchmany(_ROWS_AT_ONCE):
                    yield names, _columns(rows, types)
                found.close()
            finally:
                self.running.discard(driver)
                with contextlib.suppress(Exception):  # of a connection that is lost
                    self.end(connection)

    def begin(self, connection: sa.Connection, max_seconds: float | None) -> None:
        """Prepare a statement."""

    def end(self, connection: sa.Connection) -> None:
        """Finish a statement."""
        connection.rollback()

    def array_type(self, _name: str, number: Any, *facts: Any) -> str:
        """The type of the array of a column that the driver describes."""
        return "O"

    def array(self, column: Any) -> NDArray[Any]:
        """See `EngineConnection.array`."""
        values, otherwise = column
        return array_of(values, otherwise=otherwise)

    def values(self, column: Any) -> list[Any]:
        """See `EngineConnection.values`."""
        return list(map(plain, column[0]))

    def interrupt(self) -> None:
        """End what runs now, where the driver can."""
        for driver in list(self.running):
            with contextlib.suppress(Exception):
                getattr(driver, "cancel_safe", driver.cancel)()

    def close(self) -> None:
        """Let go of connections of its own."""
        with self.lock:
            if self.is_mine and self.opened is not None:
                self.opened.dispose()
                self.opened = None

    def engine(self) -> Any:
        """The engine of SQLAlchemy."""
        with self.lock:
            if self.pid != os.getpid():  # connections stay with the parent
                if self.opened is not None:
                    self.opened.dispose(close=False)
                self.pid, self.running = os.getpid(), set()
            if self.opened is None:
                self.opened = self._created()
            return self.opened

    def _created(self) -> sa.Engine:
        return sa.create_engine(self.address, hide_parameters=True)

    def is_refused(self, error: Exception) -> bool:
        """Of a connection that failed the driver says whether the server wanted a password, or got one."""
        failed = getattr(getattr(error, "orig", None), "pgconn", None)
        return failed is not None and bool(failed.needs_password or failed.used_password)

    def is_unreachable(self, error: Exception) -> bool:
        """See `EngineConnection.is_unreachable`."""
        if isinstance(error, sa.exc.DBAPIError):
            state = getattr(error.orig, "sqlstate", None)
            lost = state is None and isinstance(error, self.lost)
            return error.connection_invalidated or lost or str(state).startswith(("08", "57P", "53"))
        return super().is_unreachable(error)


class PostgresConnection(DatabaseConnection):
    """PostgreSQL: each statement may only read, ends by its limit, and writes values in one way."""

    title: ClassVar[str] = "PostgreSQL"
    install: ClassVar[str] = "pip install 'everhold[postgres]'"
    scheme: ClassVar[str | None] = "postgresql"
    lost: ClassVar[tuple[type[Exception], ...]] = (*DatabaseConnection.lost, sa.exc.ProgrammingError)  # or an option

    def begin(self, connection: sa.Connection, max_seconds: float | None) -> None:
        """Begin a transaction that may only read."""
        limit = 0 if max_seconds is None else max(1, round(1000 * max_seconds))
        connection.exec_driver_sql(_READING.format(limit=limit), execution_options=_AT_ONCE)

    def end(self, connection: sa.Connection) -> None:
        """End the transaction."""
        connection.exec_driver_sql("ROLLBACK")

    def array_type(self, _name: str, number: Any, *facts: Any) -> str:
        """Decimals with digits behind the point are doubles, and others whole numbers."""
        *_, scale, _nullable = facts
        return "float64" if number == _NUMERIC and scale else _ARRAYS.get(number, "O")

    def _created(self) -> sa.Engine:
        engine = sa.create_engine(
            self.address.set(drivername="postgresql+psycopg", query={}), connect_args={**_USUAL, **self.address.query},
            isolation_level="AUTOCOMMIT", hide_parameters=True, pool_pre_ping=True,
        )  # fmt: skip
        sa.event.listen(engine, "connect", _take_any_time)
        return engine


def address_of(where: object) -> sa.URL:
    """The address of a database."""
    if isinstance(where, sa.Engine):
        return where.url
    try:
        return sa.make_url(where)  # type: ignore[arg-type]
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(
            "Not an engine URL. Use for example postgresql://user@host/database, or an engine of SQLAlchemy."
        ) from None


def _take_any_time(connection: Any, _record: object) -> None:
    """Times that Python does not have, infinite ones and those before the year 1, are missing rather than an error."""
    import psycopg
    from psycopg.types import datetime as times

    def taking(loader: type[Any]) -> type[Any]:
        class Taking(loader):  # type: ignore[misc]
            def load(self, data: Any) -> Any:
                try:
                    return super().load(data)
                except psycopg.DataError:
                    return None

        return Taking

    loaders = {"date": times.DateLoader, "timestamp": times.TimestampLoader, "timestamptz": times.TimestamptzLoader}
    for name, loader in loaders.items():
        connection.adapters.register_loader(name, taking(loader))


def _columns(rows: Sequence[Any], types: Sequence[str]) -> list[Any]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    return list(zip(columns, types, strict=True))
