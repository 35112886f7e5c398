"""PostgreSQL, or any other database that SQLAlchemy reaches, as an engine; needs its driver, of PostgreSQL the extra.

PostgreSQL is tested. For Snowflake, BigQuery and Trino statements are written by sqlglot and nobody here has run them:
they are refused unless the conformance suite finds every integer as it should be. In PostgreSQL each statement is a
transaction of its own that may only read, ends by a limit of its time, and writes numbers, times and bytes in one way,
however the database is set. A server that logs statements (``log_statement``) logs these, too.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa

from everhold.values.expressions import ColumnKind
from everhold_engines.database_connections import DatabaseConnection, PostgresConnection, address_of
from everhold_engines.postgresql import PostgresTable
from everhold_engines.remote import Remote
from everhold_engines.sql.dialects import Dialect, dialect_named
from everhold_engines.stored_tables import PIECES, StoredTable
from everhold_engines.table_names import name_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

_GENERIC = (
    (sa.Boolean, ColumnKind.BOOLEAN), (sa.Numeric, ColumnKind.NUMBER), (sa.Integer, ColumnKind.NUMBER),
    (sa.Float, ColumnKind.NUMBER), (sa.String, ColumnKind.STRING), (sa.Date, ColumnKind.TIME),
    (sa.DateTime, ColumnKind.TIME),
)  # fmt: skip


class DatabaseTable(StoredTable[DatabaseConnection]):
    """A table or view of any database, as SQLAlchemy knows it."""

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
        """The kind of each column, as a type."""
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
        """See `StoredTable.column_kind`."""
        return ColumnKind(data_type)

    def digest_sql(self, window: str, types: Sequence[tuple[str, str]], key: str) -> str:
        """The rows themselves."""
        return f"SELECT * FROM {window} AS t"

    def digest(self, window: str, types: Sequence[tuple[str, str]], key: str) -> list[int]:
        """The rows are read and hashed here."""
        count, sums = 0, [0] * len(PIECES)
        for _, columns in self.connection.run(self.digest_sql(window, types, key), max_seconds=None):
            for row in zip(*(values for values, _ in columns), strict=True):
                texts = ("-" if value is None else f"{len(repr(value))}:{value!r}" for value in row)
                digest = hashlib.sha256((key + "".join(texts)).encode()).hexdigest()
                sums = [sum_ + int(digest[at - 1 : at + 14], 16) for sum_, at in zip(sums, PIECES, strict=True)]
                count += 1
        return [count, *sums]

    def identities(self) -> set[str]:
        """See `StoredTable.identities`."""
        *schema, name = name_parts(self.name)
        inspector, within = sa.inspect(self.connection.engine()), ".".join(schema) or None
        stored = name in inspector.get_table_names(schema=within)
        return {json.dumps([within or inspector.default_schema_name, name])} if stored else set()


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
