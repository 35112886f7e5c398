"""ClickHouse as an engine, embedded (chDB) on a folder or on Parquet files, or a server; the extra ``clickhouse``.

Every statement goes out with ``readonly = 2`` and a limit of its time, and
with UTC as its zone, so a user's profile has to let these be set. A server writes statements into ``system.query_log``;
everhold asks it not to (``log_queries = 0``), and its administrator may decide otherwise.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from everhold.errors import HoldoutRejected
from everhold.values.expressions import ColumnKind
from everhold_engines.clickhouse_connections import ClickHouseConnection
from everhold_engines.remote import Remote
from everhold_engines.sql.dialects import CLICKHOUSE, Dialect
from everhold_engines.stored_tables import PIECES, StoredTable
from everhold_engines.table_names import known_path, name_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        """True for Parquet files."""
        return "/" in self.name or self.name.endswith(".parquet")

    def types(self) -> list[tuple[str, str]]:
        """See `StoredTable.types`."""
        return [(name, data_type) for name, data_type, *_ in self.said(f"DESCRIBE TABLE {self.sql}")]

    def column_kind(self, data_type: str) -> ColumnKind:
        """See `StoredTable.column_kind`."""
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
        """See `StoredTable.digest_sql`."""
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
        """Times from the year 1 to 9999: of others it fails to change the unit, and Python has none."""
        while wrapped := _WRAPPED.match(data_type):
            data_type = wrapped[1]
        if not data_type.startswith("DateTime64"):
            return None
        known = f"toInt64({column}) BETWEEN {_YEARS[0]} AND {_YEARS[1]}"
        within = f"if({known}, {column}, CAST(0 AS {data_type}))"  # what is missing has a value below, too
        return f"if({known}, {within}, NULL)"

    def identities(self) -> set[str]:
        """See `StoredTable.identities`."""
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
        """The parts of a table, or the files."""
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
    """A table of ClickHouse.

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
        """See `Engine.columns`."""
        found = super().columns()
        if taken := [name for name in found if _TAKEN.match(name)]:
            raise HoldoutRejected(
                f"a column is called {taken[0]!r}, as statements of everhold call the table, so that ClickHouse would "
                "read parts of that column for others; expected another name; rename it in a view, and seal that"
            )
        return found


def _as_text(name: str, data_type: str) -> str:
    """A text of a column that no other value has, with its length before it; floats, times and bytes as they are."""
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
