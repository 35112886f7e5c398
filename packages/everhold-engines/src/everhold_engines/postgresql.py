"""Tables of PostgreSQL, by its own catalogue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from everhold.values.expressions import ColumnKind
from everhold_engines.database_connections import PostgresConnection
from everhold_engines.sql.dialects import POSTGRESQL, Dialect
from everhold_engines.stored_tables import PIECES, StoredTable
from everhold_engines.table_names import name_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        """See `StoredTable.types`."""
        found = self.said(_TYPES.format(table=POSTGRESQL.literal(self.sql)))
        self._types_of = {data_type: kind for _, data_type, kind in found}
        return [(str(name), str(data_type)) for name, data_type, _ in found]

    def column_kind(self, data_type: str) -> ColumnKind:
        """See `StoredTable.column_kind`."""
        if self._types_of.get(data_type) == _ENUM:
            return ColumnKind.STRING
        name, bracket, rest = data_type.partition("(")
        if bracket and not data_type.endswith("]"):  # numeric(10,2), timestamp(3) with time zone
            name += rest.partition(")")[2]
        return _POSTGRES.get(name, ColumnKind.OTHER)

    def guarded(self, column: str, data_type: str) -> str | None:
        """Texts by code points and without the blanks that fill a ``char``, whatever their language takes for equal.

        Decimals of any size: PostgreSQL fails to make doubles of those that are too large or too small.
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
        """See `StoredTable.digest_sql`."""
        texts = [POSTGRESQL.literal(key), *(_as_text(name, data_type) for name, data_type in types)]
        pieces = ", ".join(f"sum(('x' || substr(h, {place}, 15))::bit(60)::bigint)" for place in PIECES)
        digest = f"encode(sha256(convert_to({' || '.join(texts)}, 'UTF8')), 'hex')"
        return f"SELECT count(*), {pieces} FROM (SELECT {digest} AS h FROM {window} AS t) AS hashed"

    def identities(self) -> set[str]:
        """See `StoredTable.identities`."""
        found = self.said(_STORED.format(table=POSTGRESQL.literal(self.sql)))
        if not found:
            raise LookupError(self.name)
        return {number for number, stored in found if stored}

    def state(self) -> object:
        """PostgreSQL's own counts of what was written, which it tells within a second or so."""
        found = self.said(_TOUCHED.format(table=POSTGRESQL.literal(self.sql)))
        return found[0] if found else None


def _is_unbounded(data_type: str) -> bool:
    """True if a type has decimals that no double is near to."""
    if data_type == "numeric":
        return True
    found = re.fullmatch(r"numeric\((\d+),(-?\d+)\)", data_type)
    return found is not None and (int(found[1]) - int(found[2]) > 308 or int(found[2]) > 323)


def _as_text(name: str, data_type: str) -> str:
    """A text of a column that no other value has, with its length before it; floats as their bits."""
    column = POSTGRESQL.column(name)
    sent = {"double precision": "float8send", "real": "float4send"}.get(data_type)
    text = f"encode({sent}({column}), 'hex')" if sent else f"{column}::text"
    return f"CASE WHEN {column} IS NULL THEN '-' ELSE length({text}) || ':' || {text} END"
