"""Sessions of Spark: a copy with everhold's settings, and quiet logs."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from everhold.errors import HoldoutRejected, Unavailable

if TYPE_CHECKING:
    pass

__all__ = ["ABSENT", "Quiet", "address_of", "is_connect", "is_stopped", "own_session", "session_at"]

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false", "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false", "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.variable.substitute": "false",  # of signs in names
}  # fmt: skip
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
ABSENT = "spark"
"""The place of a session that cannot be made again from an address."""


class Quiet(contextlib.AbstractContextManager[None]):
    """Context in which PySpark logs nothing of a statement that failed, and the errors are those of another context.

    Args:
        errors: The other one.
    """

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
