"""PostgreSQL as an engine (extra ``postgres``), or any database whose driver SQLAlchemy can use.

PostgreSQL is tested. For Snowflake, BigQuery and Trino, statements are translated by sqlglot and have not been tested.
Such a database is refused unless the conformance test finds every integer correct. In PostgreSQL each statement is its
own read-only transaction with a time limit. Its numbers, times and bytes have the same form for all settings of the
database. A server that logs statements (``log_statement``) logs these too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa

from everhold.values.expressions import ColumnKind
from everhold_engines.base import EngineConnection, array_of, plain
from everhold_engines.remote import PIECES, Remote, StoredTable, name_parts
from everhold_engines.sql.dialects import POSTGRESQL, Dialect, dialect_named

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
    """Connection to a database through SQLAlchemy.

    Args:
        where: An address of SQLAlchemy, or an engine of SQLAlchemy, which everhold does not close.
    """

    title: ClassVar[str] = "the database"
    install: ClassVar[str] = "pip install the driver that SQLAlchemy names for this database"
    scheme: ClassVar[str | None] = None
    """Of the address that is told, whatever the driver; None for that of the address itself."""
    lost: ClassVar[tuple[type[Exception], ...]] = (sa.exc.OperationalError, sa.exc.InterfaceError)
    """Errors that say, where the database gives no reason, that it could not be reached."""

    def __init__(self, where: str | sa.URL | sa.Engine) -> None:
        super().__init__(address_of(where), where if isinstance(where, sa.Engine) else None)

    @property
    def place(self) -> str:
        """The address without password and options."""
        at = self.address
        scheme = self.scheme or at.drivername
        known = sa.URL.create(scheme, username=at.username, host=at.host, port=at.port, database=at.database)
        return known.render_as_string()

    def run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """Run a statement, and yield the names of its columns, and for each column its values and its array type.

        The array type is used if a column has no values.
        """
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
        """Prepare the connection for a statement. The base class does nothing."""

    def end(self, connection: sa.Connection) -> None:
        """Finish after a statement by a rollback."""
        connection.rollback()

    def array_type(self, _name: str, number: Any, *facts: Any) -> str:
        """Return the array type of a column of the result, from the driver's description."""
        return "O"

    def array(self, column: Any) -> NDArray[Any]:
        """Return a result column of `run` as an array."""
        values, otherwise = column
        return array_of(values, otherwise=otherwise)

    def values(self, column: Any) -> list[Any]:
        """Return a result column of `run` as Python values."""
        return list(map(plain, column[0]))

    def interrupt(self) -> None:
        """Cancel the running statement if the driver can."""
        for driver in list(self.running):
            with contextlib.suppress(Exception):
                getattr(driver, "cancel_safe", driver.cancel)()

    def close(self) -> None:
        """Close the connections that were opened here."""
        with self.lock:
            if self.is_mine and self.opened is not None:
                self.opened.dispose()
                self.opened = None

    def engine(self) -> Any:
        """Return the engine of SQLAlchemy, created if necessary."""
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
        """Return whether a failed connection has an error about a missing or wrong password."""
        failed = getattr(getattr(error, "orig", None), "pgconn", None)
        return failed is not None and bool(failed.needs_password or failed.used_password)

    def is_unreachable(self, error: Exception) -> bool:
        """Return whether an error says that the database cannot be reached."""
        if isinstance(error, sa.exc.DBAPIError):
            state = getattr(error.orig, "sqlstate", None)
            lost = state is None and isinstance(error, self.lost)
            return error.connection_invalidated or lost or str(state).startswith(("08", "57P", "53"))
        return super().is_unreachable(error)


class PostgresConnection(DatabaseConnection):
    """Connection to PostgreSQL, where statements can only read and end by their time limit."""

    title: ClassVar[str] = "PostgreSQL"
    install: ClassVar[str] = "pip install 'everhold[postgres]'"
    scheme: ClassVar[str | None] = "postgresql"
    lost: ClassVar[tuple[type[Exception], ...]] = (*DatabaseConnection.lost, sa.exc.ProgrammingError)  # or an option

    def begin(self, connection: sa.Connection, max_seconds: float | None) -> None:
        """Begin a transaction that can only read."""
        limit = 0 if max_seconds is None else max(1, round(1000 * max_seconds))
        connection.exec_driver_sql(_READING.format(limit=limit), execution_options=_AT_ONCE)

    def end(self, connection: sa.Connection) -> None:
        """End the transaction."""
        connection.exec_driver_sql("ROLLBACK")

    def array_type(self, _name: str, number: Any, *facts: Any) -> str:
        """Return float64 for decimals with digits behind the point, and whole numbers for others."""
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
    """Return the address of a database as a URL of SQLAlchemy."""
    if isinstance(where, sa.Engine):
        return where.url
    try:
        return sa.make_url(where)  # type: ignore[arg-type]
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(
            "Not an engine URL. Use for example postgresql://user@host/database, or an engine of SQLAlchemy."
        ) from None


def _take_any_time(connection: Any, _record: object) -> None:
    """Make the driver read times that Python cannot represent as missing."""
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


_STORED = (
    "SELECT c.oid::text, c.relkind IN ('r', 'm') AND NOT (c.relispartition OR c.relhassubclass OR c.relrowsecurity) "
    "FROM pg_class c WHERE c.oid = to_regclass({table})"
)
_TYPES = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), y.typtype::text "
    "FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid "
    "WHERE a.attrelid = to_regclass({table}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
_TOUCHED = (
    "SELECT pg_relation_filenode(c.oid)::text, pg_relation_size(c.oid)::text, pg_stat_get_tuples_inserted(c.oid)::text,"
    " pg_stat_get_tuples_updated(c.oid)::text, pg_stat_get_tuples_deleted(c.oid)::text "
    "FROM pg_class c WHERE c.oid = to_regclass({table}) AND c.relkind = 'r'"
)
_POSTGRES = {
    **dict.fromkeys(("smallint", "integer", "bigint", "numeric", "real", "double precision"), ColumnKind.NUMBER),
    **dict.fromkeys(("text", "character varying", "character", "name", "citext"), ColumnKind.STRING),
    **dict.fromkeys(("date", "timestamp with time zone", "timestamp without time zone"), ColumnKind.TIME),
    "boolean": ColumnKind.BOOLEAN,
}
_ENUM = "e"
_TOO_LARGE, _TOO_SMALL = f"{2**1024 - 2**970}::numeric", f"'{5**1075}e-1075'::numeric"  # 2^-1075
"""Values that round to infinity, and values that round to 0; PostgreSQL raises where either happens."""


class PostgresTable(StoredTable[PostgresConnection]):
    """A table or view of PostgreSQL."""

    kind: ClassVar[str] = "postgresql"

    def __init__(self, name: str, connection: PostgresConnection, max_seconds: float) -> None:
        super().__init__(name, connection, max_seconds)
        self._types_of: dict[str, str] = {}

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""
        return POSTGRESQL

    @property
    def sql(self) -> str:
        """SQL that follows FROM for the table."""
        return ".".join(map(POSTGRESQL.quoted, name_parts(self.name)))

    def types(self) -> list[tuple[str, str]]:
        """Return the name and PostgreSQL type of each column, empty if the table does not exist."""
        found = self.said(_TYPES.format(table=POSTGRESQL.literal(self.sql)))
        self._types_of = {data_type: kind for _, data_type, kind in found}
        return [(str(name), str(data_type)) for name, data_type, _ in found]

    def column_kind(self, data_type: str) -> ColumnKind:
        """Return the kind of value that a PostgreSQL type has in everhold's expressions."""
        if self._types_of.get(data_type) == _ENUM:
            return ColumnKind.STRING
        name, bracket, rest = data_type.partition("(")
        if bracket and not data_type.endswith("]"):  # numeric(10,2), timestamp(3) with time zone
            name += rest.partition(")")[2]
        return _POSTGRES.get(name, ColumnKind.OTHER)

    def guarded(self, column: str, data_type: str) -> str | None:
        """Return SQL that compares texts by code points, without the blanks that fill a ``char``.

        Decimals that are too large or too small for a double are guarded too, because PostgreSQL fails to convert them.
        """
        if self.column_kind(data_type) is ColumnKind.STRING:
            return POSTGRESQL.write("text", column)
        if not _is_unbounded(data_type):
            return None
        return (
            f"CASE WHEN {column} = 'NaN' THEN {column} WHEN abs({column}) >= {_TOO_LARGE} THEN sign({column}) * "
            f"'Infinity'::numeric WHEN abs({column}) <= {_TOO_SMALL} THEN 0 ELSE {column} END"
        )

    def digest_sql(self, window: str, types: Sequence[tuple[str, str]], key: str) -> str:
        """Return a statement for the number of rows and the sums of pieces of the rows' SHA-256."""
        texts = [POSTGRESQL.literal(key), *(_as_text(name, data_type) for name, data_type in types)]
        pieces = ", ".join(f"sum(('x' || substr(h, {place}, 15))::bit(60)::bigint)" for place in PIECES)
        digest = f"encode(sha256(convert_to({' || '.join(texts)}, 'UTF8')), 'hex')"
        return f"SELECT count(*), {pieces} FROM (SELECT {digest} AS h FROM {window} AS t) AS hashed"

    def identities(self) -> set[str]:
        """Return names that identify the stored table, empty for a view."""
        found = self.said(_STORED.format(table=POSTGRESQL.literal(self.sql)))
        if not found:
            raise LookupError(self.name)
        return {number for number, stored in found if stored}

    def state(self) -> object:
        """Return PostgreSQL's counts of writes to the table, which lag by about a second."""
        found = self.said(_TOUCHED.format(table=POSTGRESQL.literal(self.sql)))
        return found[0] if found else None


def _is_unbounded(data_type: str) -> bool:
    """Return whether a type has decimals that are too large or too fine for a double."""
    if data_type == "numeric":
        return True
    found = re.fullmatch(r"numeric\((\d+),(-?\d+)\)", data_type)
    return found is not None and (int(found[1]) - int(found[2]) > 308 or int(found[2]) > 323)


def _as_text(name: str, data_type: str) -> str:
    """Return SQL that converts a column to text injectively. Floats are written as their bits."""
    column = POSTGRESQL.column(name)
    sent = {"double precision": "float8send", "real": "float4send"}.get(data_type)
    text = f"encode({sent}({column}), 'hex')" if sent else f"{column}::text"
    return f"CASE WHEN {column} IS NULL THEN '-' ELSE length({text}) || ':' || {text} END"


_GENERIC = (
    (sa.Boolean, ColumnKind.BOOLEAN), (sa.Numeric, ColumnKind.NUMBER), (sa.Integer, ColumnKind.NUMBER),
    (sa.Float, ColumnKind.NUMBER), (sa.String, ColumnKind.STRING), (sa.Date, ColumnKind.TIME),
    (sa.DateTime, ColumnKind.TIME),
)  # fmt: skip


class DatabaseTable(StoredTable[DatabaseConnection]):
    """A table or view of any database, described by SQLAlchemy."""

    kind: ClassVar[str] = "database"

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""
        return dialect_named(self.connection.address.get_backend_name())

    @property
    def sql(self) -> str:
        """SQL that follows FROM for the table."""
        return ".".join(map(self.dialect.quoted, name_parts(self.name)))

    def types(self) -> list[tuple[str, str]]:
        """Return name and kind of each column, with the kind as its type."""
        *schema, name = name_parts(self.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sa.exc.SAWarning)  # of types that it does not know: they are OTHER
            columns = sa.inspect(self.connection.engine()).get_columns(name, schema=".".join(schema) or None)
        kinds = ((column["name"], column["type"]) for column in columns)
        return [
            (name, next((kind for known, kind in _GENERIC if isinstance(found, known)), ColumnKind.OTHER).value)
            for name, found in kinds
        ]

    def column_kind(self, data_type: str) -> ColumnKind:
        """Return the kind of value that a column type has in everhold's expressions."""
        return ColumnKind(data_type)

    def digest_sql(self, window: str, types: Sequence[tuple[str, str]], key: str) -> str:
        """Return a statement that selects all rows, which `digest` then hashes in this process."""
        return f"SELECT * FROM {window} AS t"

    def digest(self, window: str, types: Sequence[tuple[str, str]], key: str) -> list[int]:
        """Read and hash the rows here, and return their number and the sums of the hashes' pieces."""
        count, sums = 0, [0] * len(PIECES)
        for _, columns in self.connection.run(self.digest_sql(window, types, key), max_seconds=None):
            for row in zip(*(values for values, _ in columns), strict=True):
                texts = ("-" if value is None else f"{len(repr(value))}:{value!r}" for value in row)
                digest = hashlib.sha256((key + "".join(texts)).encode()).hexdigest()
                sums = [sum_ + int(digest[at - 1 : at + 14], 16) for sum_, at in zip(sums, PIECES, strict=True)]
                count += 1
        return [count, *sums]

    def identities(self) -> set[str]:
        """Return names that identify the stored table, empty for a view."""
        *schema, name = name_parts(self.name)
        inspector, within = sa.inspect(self.connection.engine()), ".".join(schema) or None
        stored = name in inspector.get_table_names(schema=within)
        return {json.dumps([within or inspector.default_schema_name, name])} if stored else set()


class Database(Remote):
    """A table or view of a database as an engine.

    Args:
        where: A URL of SQLAlchemy, such as ``"postgresql://user@host/database"``, which may hold a password, or an
            engine of SQLAlchemy, which everhold does not close.
        table: Name of the table, such as ``"study.flights"``. The schema may be left out if it is the first of the
            search path.
        max_seconds: Largest number of seconds for one statement.
        **arrives: ``arrived`` and ``until`` of a table to which rows arrive, as for `Remote`.

    Raises:
        ValueError: If the address or the name of the table cannot be used.

    Examples:
        >>> flights = Database("postgresql://steward:secret@db/study?sslmode=require", "study.flights")
        >>> flights.to_dict()["place"], flights.source
        ('postgresql://steward@db/study', '"study"."flights"')
    """

    def __init__(
        self, where: str | sa.URL | sa.Engine, table: str, *, max_seconds: float = 600.0, **arrives: str | None
    ) -> None:
        stored: StoredTable[Any]
        if address_of(where).get_backend_name() == "postgresql":
            stored = PostgresTable(table, PostgresConnection(where), max_seconds)
        else:
            stored = DatabaseTable(table, DatabaseConnection(where), max_seconds)
        super().__init__(stored, **arrives)
        name_parts(table)
