"""Connections to Spark: a session with everhold's settings, a copy of the one that was handed in, and quiet logs."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from everhold.errors import EverholdError, HoldoutRejected, Unavailable
from everhold.sealing.rows.embedded import TimeLimits
from everhold_engines.arrays import arrow_array, plain
from everhold_engines.connections import EngineConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Context in which PySpark logs nothing of a statement that failed, and the errors are those of another context."""

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
    """A session of PySpark.

    Args:
        session: A session, which stays the caller's; None for the one that is active, or that is made at the address.

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
        """Its address without tokens."""
        found = urlsplit(self.address)
        return f"sc://{found.netloc.rpartition('@')[2]}" if found.scheme == "sc" else self.address

    def run(self, statement: str, *, max_seconds: float | None) -> Iterator[tuple[list[str], list[Any]]]:
        """See `EngineConnection.run`."""
        found = self.table(statement, max_seconds=max_seconds)
        yield found.column_names, found.columns

    def table(self, statement: str, *, max_seconds: float | None) -> Any:
        """The result of a statement as an Arrow table."""
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
        """See `EngineConnection.array`."""
        return arrow_array(column)

    def values(self, column: Any) -> list[Any]:
        """See `EngineConnection.values`."""
        return list(map(plain, column.to_pylist()))

    def interrupt(self) -> None:
        """End what runs now."""
        for tag in list(self.running):
            threading.Thread(target=self._end, args=(tag,), name="everhold interrupt", daemon=True).start()

    def _end(self, tag: str) -> None:
        """End a statement, again and again, as its jobs may not have begun."""
        while tag in self.running and (session := self._copy) is not None:
            with contextlib.suppress(Exception):
                if is_connect(session):
                    session.interruptTag(tag)
                else:  # its own interruptTag does not reach the jobs of statements
                    session.sparkContext.cancelJobsWithTag(tag)
            time.sleep(_AGAIN)

    def close(self) -> None:
        """Let go of its session, and of the one below it if that was made from an address."""
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
        """See `EngineConnection.hidden`; PySpark logs nothing meanwhile."""
        return Quiet(super().hidden(table, missing=missing))

    def session(self) -> Any:
        """A session of its own, opened."""
        with self.lock:
            if self.pid != os.getpid():
                raise EverholdError(
                    "a session of Spark does not survive the fork of a process; expected a process that was started "
                    "anew; nothing was charged; start workers by 'spawn', or open the holdout there with a session of "
                    "its own"
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
        """See `EngineConnection.is_unreachable`."""
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
    """True for a session of Spark Connect."""
    return "connect" in type(session).__module__


def is_stopped(session: Any) -> bool:
    """True if a session was stopped."""
    return bool(session.is_stopped) if is_connect(session) else session.sparkContext._jsc is None


def own_session(session: Any, *, is_mine: bool) -> Any:
    """A copy of a session with everhold's settings; itself if it is not shared.

    Raises:
        HoldoutRejected: If it cannot be copied and has other settings.
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
                f"the session of Spark has other settings than everhold counts with; expected {wanted}; nothing was "
                "created; set them, or take PySpark 4.1 or later, whose sessions can be copied"
            )
        copy = session
    for name, value in _other_settings(copy).items():
        copy.conf.set(name, value)
    return copy


def _other_settings(session: Any) -> dict[str, str]:
    """Required settings that are missing; Spark warns of some that have no effect."""
    return {name: value for name, value in _SETTINGS.items() if session.conf.get(name).lower() != value.lower()}


def address_of(session: Any) -> str:
    """Address of a session; for a cluster manager only the word that stands for it."""
    if is_connect(session):
        return f"sc://{session.client.host}:{urlsplit('//' + session.client._builder.endpoint).port}"
    master = str(session.sparkContext.master)
    return master if master.startswith(("local", "spark://")) else ABSENT


def session_at(address: str) -> tuple[Any, bool]:
    """The active session if there is one, or a new one, and whether it is new."""
    from pyspark.sql import SparkSession

    if urlsplit(address).scheme == "sc":
        return SparkSession.builder.remote(address).create(), True
    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    if address == ABSENT:
        raise Unavailable(
            "no session of Spark is active in this process; expected one; nothing was charged; make one, or hand it in "
            "when the holdout is opened: engine=everhold_engines.Spark(session, table)"
        )
    builder = SparkSession.builder.master(address).config("spark.ui.showConsoleProgress", "false")
    return builder.getOrCreate(), True
