"""Request log: one line of JSON for each request, without anything that was sent or answered.

A line has the time, the request's id, method, route as it is written in the code, status, milliseconds, the public part
of the token, and how many bytes came and went. It has no path, query, header, cookie or body. For an uncaught error it
has the class and the place in everhold's own code, because its message and variables could quote sealed rows. Lines of
other libraries are logged without their messages, for the same reason.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request

from everhold.errors import EverholdError
from everhold_server.authentication import SAFE
from everhold_server.middleware import HttpMiddleware, security_headers
from everhold_server.problems import UNEXPECTED, place_of, problem, problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from everhold_server.health import Metrics
    from everhold_server.settings import Settings

REQUESTS = logging.getLogger("everhold_server.requests")
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class JsonLines(logging.Formatter):
    """Log formatter that writes one JSON object for each line, and messages only of everhold's loggers."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as a line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": at, "level": record.levelname.lower(), "logger": record.name}
        if isinstance(getattr(record, "facts", None), dict):
            line |= record.facts  # type: ignore[attr-defined]
        if record.exc_info and record.exc_info[1] is not None:
            line |= place_of(record.exc_info[1])
        return json.dumps(line)


def write_logs() -> None:
    """Configure the process's logging to stderr. Only warnings and errors of other libraries are logged."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
    logging.getLogger("everhold_server").setLevel(logging.INFO)


def route_of(scope: Scope) -> str:
    """Return the route pattern of a request, such as ``/api/v1/holdouts/{name}``, or ``"none"``."""
    path = getattr(scope.get("route"), "path", None) or scope.get("state", {}).get("route")
    if path is None:
        return "none"
    prefix = "/api/v1" if scope["path"].startswith("/api/v1/") and not path.startswith("/api/") else ""
    return prefix + str(path)


class RequestLogMiddleware(HttpMiddleware):
    """Middleware that numbers and times requests, writes their lines, and answers uncaught errors with a fixed text.

    It adds the security headers to every response.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings) -> None:
        self.app, self.metrics, self.wait = app, metrics, settings.answers_wait_for
        self._headers = security_headers(settings)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an ASGI request, and log its route, status and duration."""
        seen = _Seen(scope, receive, send, self.wait, self._headers)
        with self.metrics.in_flight.track_inprogress():
            try:
                await self.app(scope, seen.receive, seen.send)
            except Exception as fault:
                own = isinstance(fault, EverholdError)
                if seen.status or not own:
                    seen.fault = fault
                if not seen.status:
                    told = problem_of(Request(scope), fault) if own else problem(500, "UnexpectedFault", UNEXPECTED)
                    await told(scope, receive, seen.send)
        self._write(scope, seen)

    def _write(self, scope: Scope, seen: _Seen) -> None:
        state, took = scope["state"], time.perf_counter() - seen.begun
        method = scope["method"] if scope["method"] in _METHODS else "other"  # a method is a text of the client's own
        route, principal = route_of(scope), state.get("principal")
        self.metrics.requests.labels(method, route, seen.status).inc()
        self.metrics.seconds.labels(method, route).observe(took)
        outcome = state.get("act", {}).get("facts", {}).get("outcome")
        if state.get("act", {}).get("act") == "ask" and isinstance(outcome, str):
            self.metrics.asks.labels(outcome).inc()
        fault = state.get("fault") or (place_of(seen.fault) if seen.fault is not None else {})
        facts = {
            "request": state["request_id"], "method": method, "route": route, "status": seen.status,
            "ms": round(took * 1_000, 1), "token": None if principal is None else principal.token,
            "received": seen.received, "sent": seen.sent, **fault,
        }  # fmt: skip
        REQUESTS.log(logging.ERROR if seen.status >= 500 else logging.INFO, "request", extra={"facts": facts})


class _Seen:
    """Counts and times of one request while it is handled."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, wait: float, headers: list[tuple[bytes, bytes]]
    ) -> None:  # fmt: skip
        self._receive, self._send, self._headers = receive, send, headers
        self._waits = wait if scope["method"] not in SAFE else 0.0
        self.begun, self.status, self.received, self.sent = time.perf_counter(), 0, 0, 0
        self.fault: Exception | None = None
        self._id = scope.setdefault("state", {})["request_id"] = secrets.token_hex(8)

    async def receive(self) -> Message:
        message = await self._receive()
        self.received += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = {name.lower() for name, _ in message["headers"]}
            usual = [each for each in self._headers if each[0] not in own]
            message["headers"] = [*message["headers"], *usual, (b"x-request-id", self._id.encode())]
            if self._waits:
                took = time.perf_counter() - self.begun
                await anyio.sleep(math.ceil(took / self._waits) * self._waits - took)
        self.sent += len(message.get("body", b""))
        await self._send(message)
