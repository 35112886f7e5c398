"""Spark as an engine (extra ``spark``): a table, view or folder of Parquet files, by a classic or Connect session.

Statements run in a copy of the caller's session with its temporary views. In the copy the zone is UTC, and no value of
a row raises an error. The caller's session is not changed. A table of Iceberg or Delta is read at the snapshot that was
sealed (`VERSION AS OF`). This was written from their documentation and has not been tested with their libraries.

PySpark logs the text of a failed statement, which may quote a row. This log is switched off while everhold runs a
statement. Spark's administrator decides what the driver and the executors log, and about Spark's history of statements.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import logging
import os
import re
import secrets
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlsplit

from everhold.errors import EverholdError, HoldoutRejected, Unavailable
from everhold.sealing.rows.embedded import TimeLimits
from everhold.values.expressions import ColumnKind
from everhold_engines.base import EngineConnection, arrow_array, plain
from everhold_engines.remote import PIECES, Remote, StoredTable, known_path, name_parts
from everhold_engines.sql.dialects import SPARK, Dialect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray


_LIMITS = TimeLimits()
_AGAIN = 0.2  # seconds between attempts to end a statement

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false", "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false", "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.variable.substitute": "false",  # of signs in names
}  # fmt: skip
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
ABSENT = "spark"
"""The place of a session that cannot be made again from an address."""


class Quiet(contextlib.AbstractContextManager[None]):
    """Context in which PySpark logs no failed statement. It also enters the context `errors`, which replaces errors."""

    _here = threading.local()

    def __init__(self, errors: contextlib.AbstractContextManager[None]) -> None:
        self._errors = errors

    def __enter__(self) -> None:
        with self._errors:  # without the package, too
            from pyspark.logger import PySparkLogger

        for name in _LOGGERS:
            logger = PySparkLogger.getLogger(name)  # as PySpark makes it, when it first has something to say
            if _is_heard not in logger.filters:
                logger.addFilter(_is_heard)
        self._here.depth = getattr(self._here, "depth", 0) + 1
        self._errors.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._here.depth -= 1
        self._errors.__exit__(*error)


class SparkConnection(EngineConnection):
    """Connection to Spark by a session of PySpark.

    Args:
        session: A session of the caller, which everhold does not stop. None for the active session, or for a new one at
            the address.

    Attributes:
        views: Names of temporary views by the paths of their files, which every session gets.
    """

    title: ClassVar[str] = "Spark"
    install: ClassVar[str] = "pip install 'everhold[spark]'"
    here: ClassVar[frozenset[str]] = frozenset({"opened", "_copy"})

    def __init__(self, session: Any) -> None:
        super().__init__(ABSENT if session is None else address_of(session), session)
        self.is_mine = False
        self._copy: Any = None
        self.views: dict[str, str] = {}

    @property
    def place(self) -> str:
        """The address without tokens."""
        found = urlsplit(self.address)
        return f"sc://{found.netloc.rpartition('@')[2]}" if found.scheme == "sc" else self.address

    def run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """Run a statement, and yield its column names and columns in one batch."""
        found = self.table(statement, max_seconds=max_seconds)
        yield found.column_names, found.columns

    def table(self, statement: str, *, max_seconds: float | None) -> Any:
        """Return the result of a statement as an Arrow table."""
        session = self.session()
        jobs = session if is_connect(session) else session.sparkContext
        add, remove = (jobs.addTag, jobs.removeTag) if jobs is session else (jobs.addJobTag, jobs.removeJobTag)
        limit = contextlib.nullcontext() if max_seconds is None else _LIMITS.at_most(max_seconds, self.interrupt)
        tag = f"everhold-{secrets.token_hex(8)}"
        add(tag)
        self.running.add(tag)
        try:
            with limit:
                return session.sql(statement).toArrow()
        finally:
            self.running.discard(tag)
            with contextlib.suppress(Exception):
                remove(tag)

    def array(self, column: Any) -> NDArray[Any]:
        """Return a result column of `run` as an array."""
        return arrow_array(column)

    def values(self, column: Any) -> list[Any]:
        """Return a result column of `run` as Python values."""
        return list(map(plain, column.to_pylist()))

    def interrupt(self) -> None:
        """Cancel the running statements."""
        for tag in list(self.running):
            threading.Thread(target=self._end, args=(tag,), name="everhold interrupt", daemon=True).start()

    def _end(self, tag: str) -> None:
        """Cancel a statement repeatedly, since its jobs may not have begun."""
        while tag in self.running and (session := self._copy) is not None:
            with contextlib.suppress(Exception):
                if is_connect(session):
                    session.interruptTag(tag)
                else:  # its own interruptTag does not reach the jobs of statements
                    session.sparkContext.cancelJobsWithTag(tag)
            time.sleep(_AGAIN)

    def close(self) -> None:
        """Release the copied session, and stop the session from which it was copied if it was created here."""
        with self.lock:
            copy, given, self._copy = self._copy, self.opened, None
            with contextlib.suppress(Exception):
                if copy is not None and copy is not given and is_connect(copy):
                    copy.client.release_session()
                    copy.client.close()
            if self.is_mine and given is not None:
                given.stop()
                self.opened, self.is_mine = None, False

    def hidden(self, table: str, *, missing: bool = False) -> contextlib.AbstractContextManager[None]:
        """Return a context that replaces Spark's errors by everhold's errors and silences PySpark's log.

        `missing` is true if an error may mean that the table does not exist.
        """
        return Quiet(super().hidden(table, missing=missing))

    def session(self) -> Any:
        """Return a session with everhold's settings, opened if necessary."""
        with self.lock:
            if self.pid != os.getpid():
                raise EverholdError(
                    "A Spark session does not survive the fork of a process. Start processes with the method "
                    "'spawn', or open the holdout there with another session."
                )
            if self._copy is not None and is_stopped(self._copy) and self.is_mine:
                self.opened = self._copy = None
            if self._copy is None:
                if self.opened is None:
                    self.opened, self.is_mine = session_at(self.address)
                self._copy = own_session(self.opened, is_mine=self.is_mine)
                for path, view in self.views.items():
                    self._copy.read.parquet(path).createOrReplaceTempView(view)
            return self._copy

    def is_unreachable(self, error: Exception) -> bool:
        """Return whether an error says that Spark cannot be reached."""
        names = {kind.__name__ for kind in type(error).__mro__}
        said = str(error)
        return (
            super().is_unreachable(error)
            or bool(names & {"Py4JNetworkError", "RetriesExceeded"})
            or ("SparkConnectGrpcException" in names and "UNAVAILABLE" in said)
            or "stopped SparkContext" in said
            or (self._copy is not None and is_stopped(self._copy))
        )


def _is_heard(_record: logging.LogRecord) -> bool:
    return not getattr(Quiet._here, "depth", 0)


def is_connect(session: Any) -> bool:
    """Return whether a session is one of Spark Connect."""
    return "connect" in type(session).__module__


def is_stopped(session: Any) -> bool:
    """Return whether a session was stopped."""
    return bool(session.is_stopped) if is_connect(session) else session.sparkContext._jsc is None


def own_session(session: Any, *, is_mine: bool) -> Any:
    """Return a copy of a session with everhold's settings, or the session itself if it is not shared.

    Raises:
        HoldoutRejected: If the session cannot be copied and has other settings than everhold needs.
    """
    if is_mine:
        copy = session
    elif not is_connect(session):
        copy = type(session)(session.sparkContext, session._jsparkSession.cloneSession())
    elif hasattr(session, "cloneSession"):  # from PySpark 4.1 on
        _ = session.version  # the server knows of a session when it is first used, and clones only those
        copy = session.cloneSession()
    else:
        if other := _other_settings(session):
            wanted = ", ".join(f"{name} = {value}" for name, value in other.items())
            raise HoldoutRejected(
                f"The Spark session has other settings than everhold needs. Set {wanted}, "
                "or use PySpark 4.1 or later, whose sessions can be copied."
            )
        copy = session
    for name, value in _other_settings(copy).items():
        copy.conf.set(name, value)
    return copy


def _other_settings(session: Any) -> dict[str, str]:
    """Return the required settings that differ in a session."""
    return {name: value for name, value in _SETTINGS.items() if session.conf.get(name).lower() != value.lower()}


def address_of(session: Any) -> str:
    """Return the address of a session, or a single word for a cluster manager."""
    if is_connect(session):
        return f"sc://{session.client.host}:{urlsplit('//' + session.client._builder.endpoint).port}"
    master = str(session.sparkContext.master)
    return master if master.startswith(("local", "spark://")) else ABSENT


def session_at(address: str) -> tuple[Any, bool]:
    """Return a Spark session for the address, and whether it was created here."""
    from pyspark.sql import SparkSession

    if urlsplit(address).scheme == "sc":
        return SparkSession.builder.remote(address).create(), True
    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    if address == ABSENT:
        raise Unavailable(
            "No Spark session is active in this process. Make one, or pass it when the "
            "holdout is opened: engine=everhold_engines.Spark(session, table)."
        )
    builder = SparkSession.builder.master(address).config("spark.ui.showConsoleProgress", "false")
    return builder.getOrCreate(), True


_NUMBERS = re.compile(r"^(tinyint|smallint|int|bigint|float|double|decimal\(.*\))$")
_STRINGS = re.compile(r"^(string( collate \w+)?|char\(\d+\)|varchar\(\d+\))$")
_NESTED = re.compile(r"^(struct|array|map)<")
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_MICROSECONDS = (
    "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)


class SparkTable(StoredTable[SparkConnection]):
    """A table or view of Spark, at a snapshot if it keeps any, or a folder of Parquet files."""

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
        """True if the name is the path of a folder of files."""
        return "/" in re.sub(r'`[^`]*`|"[^"]*"', "", self.name)

    @property
    def _view(self) -> str:
        """Name of the temporary view for the files at a path."""
        return f"everhold_{hashlib.sha256(self.name.encode()).hexdigest()[:24]}"

    @property
    def plain_sql(self) -> str:
        """SQL for the table without its snapshot."""
        if not self.is_path:
            return ".".join(map(SPARK.quoted, name_parts(self.name)))
        if _PATTERN.search(self.name) or not (Path(self.name).is_absolute() or urlsplit(self.name).scheme):
            raise ValueError(
                f"{self.name!r} is not the full path of one folder. Pass a path such as /data/flights or "
                "s3a://bucket/flights, without characters that Spark takes for a pattern."
            )
        return self._view

    @property
    def snapshot(self) -> str | None:
        """Snapshot of an Iceberg table or version of a Delta table that is read, None for other tables."""
        if self._pinned is None:
            with self.hidden(missing=True):
                self._pinned = (self._newest(),)
        return self._pinned[0]

    def pinned(self, facts: Mapping[str, Any]) -> Self:
        """Return the table at the snapshot named in the facts, or at its newest state if none is named."""
        snapshot = facts.get("snapshot")
        pinned = (None if snapshot is None else str(int(snapshot)),)
        if pinned == self._pinned:
            return self
        other = copy.copy(self)
        other._pinned = pinned
        return other

    def named(self, name: str) -> Self:
        """Return another table of the session at its newest snapshot, with files at a path as a view."""
        other = super().named(name)
        other._pinned = None
        _ = other.plain_sql
        if other.is_path:
            with other.hidden(missing=True):
                other.refresh()
            self.connection.views[name] = other._view
        return other

    def _newest(self) -> str | None:
        """Return the newest snapshot of the table, or None for a table without snapshots."""
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
        """Return the name and Spark type of each column."""
        fields = self.connection.session().sql(f"SELECT * FROM {self.sql}").schema.fields
        return [(field.name, field.dataType.simpleString()) for field in fields]

    def column_kind(self, data_type: str) -> ColumnKind:
        """Return the kind of value that a Spark type has in everhold's expressions."""
        if _STRINGS.match(data_type):
            return ColumnKind.STRING
        if data_type == "boolean":
            return ColumnKind.BOOLEAN
        if data_type in ("date", "timestamp", "timestamp_ntz"):
            return ColumnKind.TIME
        return ColumnKind.NUMBER if _NUMBERS.match(data_type) else ColumnKind.OTHER

    def guarded(self, column: str, data_type: str) -> str | None:
        """Return SQL that reads a text column with a collation as plain text, so that equality compares characters."""
        return f"CAST({column} AS STRING)" if data_type.startswith("string collate") else None

    def digest_sql(self, window: str, types: Sequence[tuple[str, str]], key: str) -> str:
        """Return a statement for the number of rows and the sums of pieces of the rows' SHA-256."""
        texts = ", ".join([SPARK.literal(key), *(_as_text(name, data_type) for name, data_type in types)])
        sums = ", ".join(
            f"sum(CAST(conv(substring(h, {place}, 15), 16, 10) AS DECIMAL(38, 0))) AS p{place}" for place in PIECES
        )
        return f"SELECT count(*) AS n, {sums} FROM (SELECT sha2(concat({texts}), 256) AS h FROM {window} AS t)"

    def identities(self) -> set[str]:
        """Return names that identify the stored table, empty for a view."""
        if self.is_path:
            return known_path(self.name)
        facts = dict(row[:2] for row in self.said(f"DESCRIBE TABLE EXTENDED {self.plain_sql}"))
        if facts.get("Type", "VIEW") == "VIEW":  # views of a session have none
            return set()
        named = json.dumps([facts.get("Catalog"), facts.get("Database"), facts.get("Table")])
        return {named} | known_path(str(facts.get("Location") or named))

    def state(self) -> object:
        """Return the names of the table's files, which Spark never changes after writing, None at a fixed snapshot."""
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
        """Make Spark look for the table's files again."""
        session = self.connection.session()
        if self.is_path:
            session.read.parquet(self.name).createOrReplaceTempView(self._view)
            return
        with contextlib.suppress(Exception):  # of views, there is nothing to look for
            session.catalog.refreshTable(self.plain_sql)


class Spark(Remote):
    """A table of Spark as an engine.

    Args:
        session: A session of PySpark 4, classic or Connect. everhold does not stop it.
        table: Name of a table or view, with its catalog and schema as in Spark, or the path of a folder of Parquet
            files. A name with a slash is a path, unless it is in quotes.
        max_seconds: Limit for each statement.
        **arrives: ``arrived`` and ``until`` of a table to which rows arrive, as for `Remote`. Such a table is read in
            its present state, not at a snapshot.
    """

    def __init__(self, session: Any, table: str, *, max_seconds: float = 600.0, **arrives: str | None) -> None:
        super().__init__(SparkTable(str(table), SparkConnection(session), max_seconds), **arrives)

    @classmethod
    def from_url(cls, url: str, table: str) -> Self:
        """Return a table in the Spark at an address: ``local[2]``, ``spark://host:port``, ``sc://host:port``.

        ``spark`` is the session that is active in this process.
        """
        engine = cls(None, table)
        engine.stored.connection.address = url
        return engine


def _newest_sql(provider: str, name: str) -> str | None:
    """Return a statement whose first column is the newest snapshot, None for a table format without snapshots.

    Examples:
        >>> _newest_sql("iceberg", "`lake`.`flights`")
        "SELECT snapshot_id FROM `lake`.`flights`.`refs` WHERE name = 'main'"
    """
    return {
        "iceberg": f"SELECT snapshot_id FROM {name}.`refs` WHERE name = 'main'",
        "delta": f"DESCRIBE HISTORY {name} LIMIT 1",
    }.get(provider)


def _as_text(name: str, data_type: str) -> str:
    """Return SQL that converts a column to text injectively. Floats are written in hexadecimal."""
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
