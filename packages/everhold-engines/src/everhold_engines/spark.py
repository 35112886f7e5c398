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
import hashlib
import json
import os
import re
import secrets
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlsplit

from everhold.errors import EverholdError
from everhold.sealing.time_limits import TimeLimits
from everhold.values.expressions import ColumnKind
from everhold_engines.arrays import arrow_array, plain
from everhold_engines.remote import PIECES, Remote
from everhold_engines.spark_sessions import ABSENT, Quiet, address_of, is_connect, is_stopped, own_session, session_at
from everhold_engines.sql.dialects import SPARK, Dialect
from everhold_engines.table_names import known_path, name_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Spark"]

_NUMBERS = re.compile(r"^(tinyint|smallint|int|bigint|float|double|decimal\(.*\))$")
_STRINGS = re.compile(r"^(string( collate \w+)?|char\(\d+\)|varchar\(\d+\))$")
_NESTED = re.compile(r"^(struct|array|map)<")
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_LIMITS = TimeLimits()
_AGAIN = 0.2  # seconds between attempts to end a statement
_MICROSECONDS = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)


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

    kind: ClassVar[str] = "spark"
    title: ClassVar[str] = "Spark"
    _elsewhere: ClassVar = {**Remote._elsewhere, "_given": None, "_copy": None}

    def __init__(self, session: Any, table: str, *, max_seconds: float = 600.0, **arrives: str | None) -> None:
        super().__init__(str(table), max_seconds=max_seconds, **arrives)
        self._given, self._copy = session, None
        self._address = ABSENT if session is None else address_of(session)
        self._is_mine = False
        self._pinned: tuple[str | None] | None = None
        _ = self._named

    @classmethod
    def from_url(cls, url: str, table: str) -> Self:
        """The table in the Spark at an address: ``local[2]``, ``spark://host:port``, ``sc://host:port``.

        ``spark`` is the session that is active in this process.
        """
        engine = cls(None, table)
        engine._address = url
        return engine

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of the engine."""
        return SPARK

    @property
    def place(self) -> str:
        """Its address without tokens."""
        found = urlsplit(self._address)
        return f"sc://{found.netloc.rpartition('@')[2]}" if found.scheme == "sc" else self._address

    @property
    def snapshot(self) -> str | None:
        """The snapshot of an Iceberg table, or the version of a Delta table, that is read."""
        if self.watermark is not None:  # an earlier state would never have the rows that arrive
            return None
        if self._pinned is None:
            with self._hidden(self._missing):
                self._pinned = (self._newest(),)
        return self._pinned[0]

    @property
    def _stored(self) -> str:
        """SQL that follows FROM for the table."""
        if self._is_path:
            return self._view
        return self._named if self.snapshot is None else f"{self._named} VERSION AS OF {int(self.snapshot)}"

    @property
    def _is_path(self) -> bool:
        return "/" in re.sub(r'`[^`]*`|"[^"]*"', "", self.table)

    def _begin_anew(self) -> None:
        self._pinned = None
        _ = self._named
        if self._is_path:
            with self._hidden(self._missing):
                self._refresh()

    @property
    def _view(self) -> str:
        """The name, in its own session, of the files at a path: their columns are looked up once."""
        return f"everhold_{hashlib.sha256(self.table.encode()).hexdigest()[:24]}"

    def pinned(self, facts: Mapping[str, Any]) -> Self:
        """The same table as it was at an earlier snapshot."""
        if facts.get("snapshot") is None:
            self._pinned = (None,)
            return self._until(facts)
        earlier = type(self)(self._given, self.table, max_seconds=self._max_seconds)
        earlier._address, earlier._pinned = self._address, (str(int(facts["snapshot"])),)
        return earlier

    def interrupt(self) -> None:
        """End what runs now."""
        for tag in list(self._running):
            threading.Thread(target=self._end, args=(tag,), name="everhold interrupt", daemon=True).start()

    def _end(self, tag: str) -> None:
        """End a statement, again and again, as its jobs may not have begun."""
        while tag in self._running and (session := self._copy) is not None:
            with contextlib.suppress(Exception):
                if is_connect(session):
                    session.interruptTag(tag)
                else:  # its own interruptTag does not reach the jobs of statements
                    session.sparkContext.cancelJobsWithTag(tag)
            time.sleep(_AGAIN)

    def close(self) -> None:
        """Let go of its session, and of the one below it if that was made from an address."""
        with self._lock:
            copy, given, self._copy = self._copy, self._given, None
            with contextlib.suppress(Exception):
                if copy is not None and copy is not given and is_connect(copy):
                    copy.client.release_session()
                    copy.client.close()
            if self._is_mine and given is not None:
                given.stop()
                self._given, self._is_mine = None, False

    def _hidden(self, instead: Any = None) -> Any:
        return Quiet(super()._hidden(instead))

    @property
    def _named(self) -> str:
        """A table without its snapshot."""
        if not self._is_path:
            return ".".join(map(SPARK.quoted, name_parts(self.table)))
        if _PATTERN.search(self.table) or not (Path(self.table).is_absolute() or urlsplit(self.table).scheme):
            raise ValueError(
                f"{self.table!r} is not the whole path of one folder; expected one such as /data/flights or "
                "s3a://bucket/flights, without signs that Spark takes for a pattern; nothing was created"
            )
        return self._view

    def _newest(self) -> str | None:
        """The snapshot of now of a table that keeps earlier ones."""
        if self._is_path:
            return None
        facts = dict(row[:2] for row in self._said(f"DESCRIBE TABLE EXTENDED {self._named}"))
        provider = str(facts.get("Provider", "")).lower()
        statement = _newest_sql(provider, self._named)
        if statement is None:
            return None
        found = self._table(statement, max_seconds=self._max_seconds)
        return str(int(found.column(0)[0].as_py())) if found.num_rows else None

    def _types(self) -> list[tuple[str, str]]:
        fields = self._connected().sql(f"SELECT * FROM {self._stored}").schema.fields
        return [(field.name, field.dataType.simpleString()) for field in fields]

    def _kind(self, data_type: str) -> ColumnKind:
        if _STRINGS.match(data_type):
            return ColumnKind.STRING
        if data_type == "boolean":
            return ColumnKind.BOOLEAN
        if data_type in ("date", "timestamp", "timestamp_ntz"):
            return ColumnKind.TIME
        return ColumnKind.NUMBER if _NUMBERS.match(data_type) else ColumnKind.OTHER

    def _guarded(self, column: str, data_type: str) -> str | None:
        """Texts by their signs, whatever a collation takes for equal."""
        return f"CAST({column} AS STRING)" if data_type.startswith("string collate") else None

    def _said(self, statement: str) -> list[tuple[Any, ...]]:
        found = self._table(statement, max_seconds=self._max_seconds)
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def _run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        found = self._table(statement, max_seconds=max_seconds)
        yield found.column_names, found.columns

    def _table(self, statement: str, *, max_seconds: float | None) -> Any:
        """An Arrow table."""
        session = self._connected()
        jobs = session if is_connect(session) else session.sparkContext
        add, remove = (jobs.addTag, jobs.removeTag) if jobs is session else (jobs.addJobTag, jobs.removeJobTag)
        limit = contextlib.nullcontext() if max_seconds is None else _LIMITS.at_most(max_seconds, self.interrupt)
        tag = f"everhold-{secrets.token_hex(8)}"
        add(tag)
        self._running.add(tag)
        try:
            with limit:
                return session.sql(statement).toArrow()
        finally:
            self._running.discard(tag)
            with contextlib.suppress(Exception):
                remove(tag)

    def _array(self, column: Any) -> NDArray[Any]:
        return arrow_array(column)

    def _values(self, column: Any) -> list[Any]:
        return list(map(plain, column.to_pylist()))

    def _digest_sql(self, types: Sequence[tuple[str, str]], key: str) -> str:
        texts = ", ".join([SPARK.literal(key), *(_as_text(name, data_type) for name, data_type in types)])
        sums = ", ".join(
            f"sum(CAST(conv(substring(h, {place}, 15), 16, 10) AS DECIMAL(38, 0))) AS p{place}" for place in PIECES
        )
        return f"SELECT count(*) AS n, {sums} FROM (SELECT sha2(concat({texts}), 256) AS h FROM {self._window} AS t)"

    def _known_as(self) -> set[str]:
        if self._is_path:
            return known_path(self.table)
        facts = dict(row[:2] for row in self._said(f"DESCRIBE TABLE EXTENDED {self._named}"))
        if facts.get("Type", "VIEW") == "VIEW":  # views of a session have none
            return set()
        named = json.dumps([facts.get("Catalog"), facts.get("Database"), facts.get("Table")])
        return {named} | known_path(str(facts.get("Location") or named))

    def _state(self) -> object:
        """The files of the rows: Spark never writes into one that is there."""
        if self.snapshot is not None:
            return None
        session = self._connected()
        if self._is_path:
            rows = session.read.schema(session.table(self._view).schema).parquet(self.table)
        else:
            self._refresh()
            rows = session.table(self._named)
        return tuple(sorted(rows.inputFiles())) or None

    def _refresh(self) -> None:
        """Have files looked for anew, which Spark remembers."""
        session = self._connected()
        if self._is_path:
            session.read.parquet(self.table).createOrReplaceTempView(self._view)
            return
        with contextlib.suppress(Exception):  # of views, there is nothing to look for
            session.catalog.refreshTable(self._named)

    def _connected(self) -> Any:
        with self._lock:
            if self._pid != os.getpid():
                raise EverholdError(
                    "a session of Spark does not survive the fork of a process; expected a process that was started "
                    "anew; nothing was charged; start workers by 'spawn', or open the holdout there with a session of "
                    "its own"
                )
            if self._copy is not None and is_stopped(self._copy) and self._is_mine:
                self._given = self._copy = None
            if self._copy is None:
                if self._given is None:
                    self._given, self._is_mine = session_at(self._address)
                self._copy = own_session(self._given, is_mine=self._is_mine)
                if self._is_path:
                    self._refresh()
            return self._copy

    def _is_unreachable(self, error: Exception) -> bool:
        names = {kind.__name__ for kind in type(error).__mro__}
        said = str(error)
        return (
            super()._is_unreachable(error)
            or bool(names & {"Py4JNetworkError", "RetriesExceeded"})
            or ("SparkConnectGrpcException" in names and "UNAVAILABLE" in said)
            or "stopped SparkContext" in said
            or (self._copy is not None and is_stopped(self._copy))
        )


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
