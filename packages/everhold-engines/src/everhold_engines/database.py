"""PostgreSQL, or any other database that SQLAlchemy reaches, as an engine; needs its driver, of PostgreSQL the extra.

PostgreSQL is tested. For Snowflake, BigQuery and Trino statements are written by sqlglot and nobody here has run them:
they are refused unless the conformance suite finds every integer as it should be. In PostgreSQL each statement is a
transaction of its own that may only read, ends by a limit of its time, and writes numbers, times and bytes in one way,
however the database is set. A server that logs statements (``log_statement``) logs these, too.
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
from everhold_engines.arrays import array_of, plain
from everhold_engines.remote import PIECES, Remote
from everhold_engines.sql.dialects import POSTGRESQL, Dialect, dialect_named
from everhold_engines.table_names import name_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


__all__ = ["Database"]

_ROWS_AT_ONCE = 2**16
_AT_ONCE = {"no_parameters": True}  # several statements in one message, and no sign of a statement is a parameter
_READING = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {limit}; "
    "SET LOCAL TIME ZONE 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'iso_8601'; "
    "SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 3; "
    "SET LOCAL standard_conforming_strings = on"
)
_STORED = (
    "SELECT c.oid::text, c.relkind IN ('r', 'm') AND NOT (c.relispartition OR c.relhassubclass OR c.relrowsecurity) "
    "FROM pg_class c WHERE c.oid = to_regclass({table})"
)
_USUAL = {
    "application_name": "everhold", "client_encoding": "utf8", "keepalives_idle": "30", "connect_timeout": "30",
}  # fmt: skip
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
_GENERIC = (
    (sa.Boolean, ColumnKind.BOOLEAN), (sa.Numeric, ColumnKind.NUMBER), (sa.Integer, ColumnKind.NUMBER),
    (sa.Float, ColumnKind.NUMBER), (sa.String, ColumnKind.STRING), (sa.Date, ColumnKind.TIME),
    (sa.DateTime, ColumnKind.TIME),
)  # fmt: skip
_TOO_LARGE, _TOO_SMALL = f"{2**1024 - 2**970}::numeric", f"'{5**1075}e-1075'::numeric"  # 2^-1075
"""Values that round to infinity, and values that round to 0; PostgreSQL raises where either happens."""
_NUMERIC = 1700
_ARRAYS = {20: "int64", 21: "int64", 23: "int64", _NUMERIC: "int64", 16: "bool", 700: "float64", 701: "float64",
           1082: "datetime64[us]", 1114: "datetime64[us]", 1184: "datetime64[us]"}  # fmt: skip
"""Types of arrays by PostgreSQL's numbers of types."""


class Database(Remote):
    """A table or view of a database.

    Args:
        where: An address of SQLAlchemy, such as ``"postgresql://user@host/database"``, which may hold a password, or an
            engine of SQLAlchemy, which stays the caller's.
        table: Its name, with its schema where that is not the first of the search path: ``"study.flights"``.
        max_seconds: Limit for each statement.
        **arrives: ``arrived`` and ``until`` of a table to which rows arrive, as for `Remote`.

    Raises:
        ValueError: If the address or the name is none.

    Examples:
        >>> flights = Database("postgresql://steward:secret@db/study?sslmode=require", "study.flights")
        >>> flights.to_dict()["place"], flights.source
        ('postgresql://steward@db/study', '"study"."flights"')
    """

    kind: ClassVar[str] = "database"
    title: ClassVar[str] = "the database"
    _elsewhere: ClassVar = {**Remote._elsewhere, "_engine": None}

    def __init__(
        self, where: str | sa.URL | sa.Engine, table: str, *, max_seconds: float = 600.0, **arrives: str | None
    ) -> None:
        super().__init__(table, max_seconds=max_seconds, **arrives)
        self._address = _address(where)
        self._is_mine = not isinstance(where, sa.Engine)
        self._engine: Any = where if isinstance(where, sa.Engine) else None
        self._types_of: dict[str, Any] = {}
        if self._is_postgres:
            self.kind, self.title = "postgresql", "PostgreSQL"  # type: ignore[misc]
        name_parts(table)

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""
        return POSTGRESQL if self._is_postgres else dialect_named(self._address.get_backend_name())

    @property
    def place(self) -> str:
        """Its address without password and options."""
        at = self._address
        scheme = "postgresql" if self._is_postgres else at.drivername
        known = sa.URL.create(scheme, username=at.username, host=at.host, port=at.port, database=at.database)
        return known.render_as_string()

    @property
    def _stored(self) -> str:
        """SQL that follows FROM for the table."""
        return ".".join(map(self.dialect.quoted, name_parts(self.table)))

    @property
    def _is_postgres(self) -> bool:
        return self._address.get_backend_name() == "postgresql"

    @property
    def _install(self) -> str:
        if self._is_postgres:
            return "pip install 'everhold[postgres]'"
        return "install the driver that SQLAlchemy names for this database"

    def interrupt(self) -> None:
        """End what runs now, where the driver can."""
        for driver in list(self._running):
            with contextlib.suppress(Exception):
                getattr(driver, "cancel_safe", driver.cancel)()

    def close(self) -> None:
        """Let go of connections of its own."""
        with self._lock:
            if self._is_mine and self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _types(self) -> list[tuple[str, str]]:
        if not self._is_postgres:
            return [(name, kind.value) for name, kind in self._generic_kinds().items()]
        found = self._said(_TYPES.format(table=POSTGRESQL.literal(self._stored)))
        self._types_of = {data_type: kind for _, data_type, kind in found}
        return [(str(name), str(data_type)) for name, data_type, _ in found]

    def _kind(self, data_type: str) -> ColumnKind:
        if not self._is_postgres:
            return ColumnKind(data_type)
        if self._types_of.get(data_type) == _ENUM:
            return ColumnKind.STRING
        name, bracket, rest = data_type.partition("(")
        if bracket and not data_type.endswith("]"):  # numeric(10,2), timestamp(3) with time zone
            name += rest.partition(")")[2]
        return _POSTGRES.get(name, ColumnKind.OTHER)

    def _guarded(self, column: str, data_type: str) -> str | None:
        """Texts by code points and without the blanks that fill a ``char``, whatever their language takes for equal.

        Decimals of any size: PostgreSQL fails to make doubles of those that are too large or too small.
        """
        if not self._is_postgres:
            return None
        if self._kind(data_type) is ColumnKind.STRING:
            return POSTGRESQL.write("text", column)
        if not _is_unbounded(data_type):
            return None
        return (
            f"CASE WHEN {column} = 'NaN' THEN {column} WHEN abs({column}) >= {_TOO_LARGE} THEN sign({column}) * "
            f"'Infinity'::numeric WHEN abs({column}) <= {_TOO_SMALL} THEN 0 ELSE {column} END"
        )

    def _generic_kinds(self) -> dict[str, ColumnKind]:
        *schema, name = name_parts(self.table)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sa.exc.SAWarning)  # of types that it does not know: they are OTHER
            columns = sa.inspect(self._connected()).get_columns(name, schema=".".join(schema) or None)
        kinds = ((column["name"], column["type"]) for column in columns)
        return {
            name: next((kind for known, kind in _GENERIC if isinstance(found, known)), ColumnKind.OTHER)
            for name, found in kinds
        }

    def _said(self, statement: str) -> list[tuple[Any, ...]]:
        return [
            values
            for _, columns in self._run(statement, max_seconds=self._max_seconds)
            for values in zip(*(values for values, _ in columns), strict=True)
        ]

    def _run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """Each column is its values and the type of its array if all are missing."""
        with self._connected().connect() as connection:
            driver = connection.connection.driver_connection
            self._running.add(driver)
            try:
                self._begin(connection, max_seconds)
                options = {**_AT_ONCE, "stream_results": True, "max_row_buffer": _ROWS_AT_ONCE}
                found = connection.exec_driver_sql(statement, execution_options=options)
                names = list(found.keys())
                types = [_array_type(*one) if self._is_postgres else "O" for one in found.cursor.description]
                rows: Sequence[Any] = found.fetchmany(_ROWS_AT_ONCE)
                yield names, _columns(rows, types)
                while rows := found.fetchmany(_ROWS_AT_ONCE):
                    yield names, _columns(rows, types)
                found.close()
            finally:
                self._running.discard(driver)
                with contextlib.suppress(Exception):  # of a connection that is lost
                    connection.exec_driver_sql("ROLLBACK") if self._is_postgres else connection.rollback()

    def _begin(self, connection: sa.Connection, max_seconds: float | None) -> None:
        if self._is_postgres:
            limit = 0 if max_seconds is None else max(1, round(1000 * max_seconds))
            connection.exec_driver_sql(_READING.format(limit=limit), execution_options=_AT_ONCE)

    def _array(self, column: Any) -> NDArray[Any]:
        values, otherwise = column
        return array_of(values, otherwise=otherwise)

    def _values(self, column: Any) -> list[Any]:
        return list(map(plain, column[0]))

    def _digest_sql(self, types: Sequence[tuple[str, str]], key: str) -> str:
        texts = [POSTGRESQL.literal(key), *(_as_text(name, data_type) for name, data_type in types)]
        pieces = ", ".join(f"sum(('x' || substr(h, {place}, 15))::bit(60)::bigint)" for place in PIECES)
        digest = f"encode(sha256(convert_to({' || '.join(texts)}, 'UTF8')), 'hex')"
        return f"SELECT count(*), {pieces} FROM (SELECT {digest} AS h FROM {self._window} AS t) AS hashed"

    def _digest(self, types: Sequence[tuple[str, str]], key: str) -> list[int]:
        """Of other databases the rows are read and hashed here."""
        if self._is_postgres:
            return super()._digest(types, key)
        count, sums = 0, [0] * len(PIECES)
        for _, columns in self._run(f"SELECT * FROM {self._window} AS t", max_seconds=None):
            for row in zip(*(values for values, _ in columns), strict=True):
                texts = ("-" if value is None else f"{len(repr(value))}:{value!r}" for value in row)
                digest = hashlib.sha256((key + "".join(texts)).encode()).hexdigest()
                sums = [sum_ + int(digest[at - 1 : at + 14], 16) for sum_, at in zip(sums, PIECES, strict=True)]
                count += 1
        return [count, *sums]

    def _state(self) -> object:
        """PostgreSQL's own counts of what was written, which it tells within a second or so."""
        if not self._is_postgres:
            return None
        found = self._said(_TOUCHED.format(table=POSTGRESQL.literal(self._stored)))
        return found[0] if found else None

    def _known_as(self) -> set[str]:
        if self._is_postgres:
            found = self._said(_STORED.format(table=POSTGRESQL.literal(self._stored)))
            if not found:
                raise LookupError(self.table)
            return {number for number, stored in found if stored}
        *schema, name = name_parts(self.table)
        inspector, within = sa.inspect(self._connected()), ".".join(schema) or None
        stored = name in inspector.get_table_names(schema=within)
        return {json.dumps([within or inspector.default_schema_name, name])} if stored else set()

    def _connected(self) -> Any:
        with self._lock:
            if self._pid != os.getpid():  # connections stay with the parent
                if self._engine is not None:
                    self._engine.dispose(close=False)
                self._pid, self._running = os.getpid(), set()
            if self._engine is None:
                self._engine = self._connect()
            return self._engine

    def _connect(self) -> sa.Engine:
        if not self._is_postgres:
            return sa.create_engine(self._address, hide_parameters=True)
        address = self._address
        engine = sa.create_engine(
            address.set(drivername="postgresql+psycopg", query={}), connect_args={**_USUAL, **address.query},
            isolation_level="AUTOCOMMIT", hide_parameters=True, pool_pre_ping=True,
        )  # fmt: skip
        sa.event.listen(engine, "connect", _take_any_time)
        return engine

    def _is_refused(self, error: Exception) -> bool:
        """Of a connection that failed the driver says whether the server wanted a password, or got one."""
        failed = getattr(getattr(error, "orig", None), "pgconn", None)
        return failed is not None and bool(failed.needs_password or failed.used_password)

    def _is_unreachable(self, error: Exception) -> bool:
        if isinstance(error, sa.exc.DBAPIError):
            state = getattr(error.orig, "sqlstate", None)
            none = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.ProgrammingError)  # or an option is unknown
            lost = state is None and isinstance(error, none if self._is_postgres else none[:2])
            return error.connection_invalidated or lost or str(state).startswith(("08", "57P", "53"))
        return super()._is_unreachable(error)


def _is_unbounded(data_type: str) -> bool:
    """True if a type has decimals that no double is near to."""
    if data_type == "numeric":
        return True
    found = re.fullmatch(r"numeric\((\d+),(-?\d+)\)", data_type)
    return found is not None and (int(found[1]) - int(found[2]) > 308 or int(found[2]) > 323)


def _address(where: object) -> sa.URL:
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


def _array_type(_name: str, number: int, *facts: Any) -> str:
    """Of a column of PostgreSQL; decimals with digits behind the point are doubles, and others whole numbers."""
    *_, scale, _nullable = facts
    return "float64" if number == _NUMERIC and scale else _ARRAYS.get(number, "O")


def _columns(rows: Sequence[Any], types: Sequence[str]) -> list[Any]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    return list(zip(columns, types, strict=True))


def _as_text(name: str, data_type: str) -> str:
    """A text of a column that no other value has, with its length before it; floats as their bits."""
    column = POSTGRESQL.column(name)
    sent = {"double precision": "float8send", "real": "float4send"}.get(data_type)
    text = f"encode({sent}({column}), 'hex')" if sent else f"{column}::text"
    return f"CASE WHEN {column} IS NULL THEN '-' ELSE length({text}) || ':' || {text} END"
