"""Spark as an engine: a table, view or folder of Parquet files of a session, classic or Connect; the extra ``spark``.

Statements run in a session of their own, a copy of the one that was handed in, with its temporary views: its zone is
UTC and nothing raises because of a row's value, and the caller's session stays as it is. A table of Iceberg or Delta is
read as it was when it was sealed, by its snapshot (`VERSION AS OF`); this was written from their documentation and has
not been run here, where their libraries are not to be had.

PySpark logs the text of a failed statement with the row that it quotes; that is kept quiet while everhold asks. What
the driver and the executors log themselves, and Spark's history of statements, is for Spark's administrator to decide.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlsplit

from everhold.values.expressions import ColumnKind
from everhold_engines.remote import Remote
from everhold_engines.spark_sessions import SparkConnection
from everhold_engines.sql.dialects import SPARK, Dialect
from everhold_engines.stored_tables import PIECES, StoredTable
from everhold_engines.table_names import known_path, name_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NUMBERS = re.compile(r"^(tinyint|smallint|int|bigint|float|double|decimal\(.*\))$")
_STRINGS = re.compile(r"^(string( collate \w+)?|char\(\d+\)|varchar\(\d+\))$")
_NESTED = re.compile(r"^(struct|array|map)<")
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_MICROSECONDS = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)


class SparkTable(StoredTable[SparkConnection]):
    """A table or view of Spark, at a snapshot if it keeps some, or a folder of Parquet files."""

    kind: ClassVar[str] = "spark"

    def __init__(self, name: str, connection: SparkConnection, max_seconds: float) -> None:
        super().__init__(name, connection, max_seconds)
        self._pinned: tuple[str | None] | None = None
        _ = self.plain_sql
        if self.is_path:
            connection.views[name] = self._view

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""
        return SPARK

    @property
    def sql(self) -> str:
        """SQL that follows FROM for the table."""
        if self.is_path or self.snapshot is None:
            return self.plain_sql
        return f"{self.plain_sql} VERSION AS OF {int(self.snapshot)}"

    @property
    def is_path(self) -> bool:
        """True for a folder of files."""
        return "/" in re.sub(r'`[^`]*`|"[^"]*"', "", self.name)

    @property
    def _view(self) -> str:
        """The name, in its own session, of the files at a path: their columns are looked up once."""
        return f"everhold_{hashlib.sha256(self.name.encode()).hexdigest()[:24]}"

    @property
    def plain_sql(self) -> str:
        """A table without its snapshot."""
        if not self.is_path:
            return ".".join(map(SPARK.quoted, name_parts(self.name)))
        if _PATTERN.search(self.name) or not (Path(self.name).is_absolute() or urlsplit(self.name).scheme):
            raise ValueError(
                f"{self.name!r} is not the whole path of one folder; expected one such as /data/flights or "
                "s3a://bucket/flights, without signs that Spark takes for a pattern; nothing was created"
            )
        return self._view

    @property
    def snapshot(self) -> str | None:
        """The snapshot of an Iceberg table, or the version of a Delta table, that is read."""
        if self._pinned is None:
            with self.hidden(missing=True):
                self._pinned = (self._newest(),)
        return self._pinned[0]

    def pinned(self, facts: Mapping[str, Any]) -> Self:
        """The same table as it was at an earlier snapshot, or as it is now."""
        snapshot = facts.get("snapshot")
        pinned = (None if snapshot is None else str(int(snapshot)),)
        if pinned == self._pinned:
            return self
        other = copy.copy(self)
        other._pinned = pinned
        return other

    def named(self, name: str) -> Self:
        """Another table of the session, at its newest snapshot; files at a path become a view."""
        other = super().named(name)
        other._pinned = None
        _ = other.plain_sql
        if other.is_path:
            with other.hidden(missing=True):
                other.refresh()
            self.connection.views[name] = other._view
        return other

    def _newest(self) -> str | None:
        """The snapshot of now of a table that keeps earlier ones."""
        if self.is_path:
            return None
        facts = dict(row[:2] for row in self.said(f"DESCRIBE TABLE EXTENDED {self.plain_sql}"))
        provider = str(facts.get("Provider", "")).lower()
        statement = _newest_sql(provider, self.plain_sql)
        if statement is None:
            return None
        found = self.connection.table(statement, max_seconds=self.max_seconds)
        return str(int(found.column(0)[0].as_py())) if found.num_rows else None

    def types(self) -> list[tuple[str, str]]:
        """See `StoredTable.types`."""
        fields = self.connection.session().sql(f"SELECT * FROM {self.sql}").schema.fields
        return [(field.name, field.dataType.simpleString()) for field in fields]

    def column_kind(self, data_type: str) -> ColumnKind:
        """See `StoredTable.column_kind`."""
        if _STRINGS.match(data_type):
            return ColumnKind.STRING
        if data_type == "boolean":
            return ColumnKind.BOOLEAN
        if data_type in ("date", "timestamp", "timestamp_ntz"):
            return ColumnKind.TIME
        return ColumnKind.NUMBER if _NUMBERS.match(data_type) else ColumnKind.OTHER

    def guarded(self, column: str, data_type: str) -> str | None:
        """Texts by their signs, whatever a collation takes for equal."""
        return f"CAST({column} AS STRING)" if data_type.startswith("string collate") else None

    def digest_sql(self, window: str, types: Sequence[tuple[str, str]], key: str) -> str:
        """See `StoredTable.digest_sql`."""
        texts = ", ".join([SPARK.literal(key), *(_as_text(name, data_type) for name, data_type in types)])
        sums = ", ".join(
            f"sum(CAST(conv(substring(h, {place}, 15), 16, 10) AS DECIMAL(38, 0))) AS p{place}" for place in PIECES
        )
        return f"SELECT count(*) AS n, {sums} FROM (SELECT sha2(concat({texts}), 256) AS h FROM {window} AS t)"

    def identities(self) -> set[str]:
        """See `StoredTable.identities`."""
        if self.is_path:
            return known_path(self.name)
        facts = dict(row[:2] for row in self.said(f"DESCRIBE TABLE EXTENDED {self.plain_sql}"))
        if facts.get("Type", "VIEW") == "VIEW":  # views of a session have none
            return set()
        named = json.dumps([facts.get("Catalog"), facts.get("Database"), facts.get("Table")])
        return {named} | known_path(str(facts.get("Location") or named))

    def state(self) -> object:
        """The files of the rows: Spark never writes into one that is there."""
        if self.snapshot is not None:
            return None
        session = self.connection.session()
        if self.is_path:
            rows = session.read.schema(session.table(self._view).schema).parquet(self.name)
        else:
            self.refresh()
            rows = session.table(self.plain_sql)
        return tuple(sorted(rows.inputFiles())) or None

    def refresh(self) -> None:
        """Have files looked for anew, which Spark remembers."""
        session = self.connection.session()
        if self.is_path:
            session.read.parquet(self.name).createOrReplaceTempView(self._view)
            return
        with contextlib.suppress(Exception):  # of views, there is nothing to look for
            session.catalog.refreshTable(self.plain_sql)


class Spark(Remote):
    """A table of Spark.

    Args:
        session: A session of PySpark 4, classic or Connect; it stays the caller's.
        table: Name of a table or view, with its catalog and schema as Spark has them, or the path of a folder of
            Parquet files: what has a slash in it, unless it is in quotes, is a path.
        max_seconds: Limit for each statement.
        **arrives: ``arrived`` and ``until`` of a table to which rows arrive, as for `Remote`. Such a table is read as
            it is now, at no snapshot.
    """

    def __init__(self, session: Any, table: str, *, max_seconds: float = 600.0, **arrives: str | None) -> None:
        super().__init__(SparkTable(str(table), SparkConnection(session), max_seconds), **arrives)

    @classmethod
    def from_url(cls, url: str, table: str) -> Self:
        """The table in the Spark at an address: ``local[2]``, ``spark://host:port``, ``sc://host:port``.

        ``spark`` is the session that is active in this process.
        """
        engine = cls(None, table)
        engine.stored.connection.address = url
        return engine


def _newest_sql(provider: str, name: str) -> str | None:
    """The statement whose first column is the newest snapshot, of providers whose tables keep earlier ones.

    Examples:
        >>> _newest_sql("iceberg", "`lake`.`flights`")
        "SELECT snapshot_id FROM `lake`.`flights`.`refs` WHERE name = 'main'"
    """
    return {
        "iceberg": f"SELECT snapshot_id FROM {name}.`refs` WHERE name = 'main'",
        "delta": f"DESCRIBE HISTORY {name} LIMIT 1",
    }.get(provider)


def _as_text(name: str, data_type: str) -> str:
    """A text of a column that no other value has, with its length before it; floats by all of their digits."""
    column = SPARK.column(name)
    if data_type in ("float", "double"):
        text = f"format_string('%a', CAST({column} AS DOUBLE))"
    elif data_type == "timestamp":  # whatever the zone of the session
        text = f"CAST(unix_micros({column}) AS STRING)"
    elif data_type == "binary":
        text = f"hex({column})"
    else:
        text = f"to_json({column}, {_MICROSECONDS})" if _NESTED.match(data_type) else f"CAST({column} AS STRING)"
    return f"coalesce(concat(CAST(length({text}) AS STRING), ':', {text}), '-')"
