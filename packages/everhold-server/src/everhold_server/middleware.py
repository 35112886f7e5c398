"""Middleware of every request: limits of hosts, bodies, requests and work at once, and the headers of every response.

Limits are checked before anything is looked up, and each process counts for itself: two processes together allow twice
as much. The limit of failures applies only to wrong tokens, so that a program with a revoked token does not lock out
others at the same address. It reduces load; against guessing, a token has 256 random bits. The headers let browsers
run, load, frame and keep only what comes from the service.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import TYPE_CHECKING

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware

from everhold.errors import EverholdError
from everhold_server.problems import problem
from everhold_server.untrusted.worker import sender

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from everhold_server.health import Metrics
    from everhold_server.settings import Settings

PROBES = ("/healthz", "/readyz")
"""Asked by whatever watches the process, under any name."""

_MOST_BUCKETS = 100_000
_MINUTE = 60.0
_MOST_OF_STRANGERS = 2**16  # bytes; an unknown sender has nothing to send but a token
_MOST_AT_ONCE = 8  # requests of one token, of the 40 threads that endpoints share
_MOST_WAITING = 100


class TooMany(EverholdError):
    """A sender makes too many requests in a time, or asks for too much work at once. Nothing was changed or charged.

    Its data has `wait`, the seconds until the next try.
    """

    exit_code = 6
    http_status = 429


class RateLimiter:
    """Token buckets, one for each name, that are full at first and refill within a period.

    Args:
        size: Number of tokens in a full bucket. 0 means that there is no limit.
        clock: Function that returns a time in seconds, which never goes back.
        period: Seconds in which an empty bucket becomes full.

    Examples:
        >>> buckets = RateLimiter(2, clock=lambda: 0.0)
        >>> [buckets.take("a") for _ in range(3)]
        [0.0, 0.0, 30.0]
        >>> buckets.take("b")
        0.0
    """

    def __init__(self, size: int, clock: Callable[[], float] = time.monotonic, *, period: float = _MINUTE) -> None:
        self.size, self._clock, self._period = size, clock, period
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Take one token from a bucket, and return 0, or the seconds to wait if the bucket is empty."""
        level, moment = self._level(name), self._clock()
        wait = 0.0 if level >= 1 or not self.size else (1 - level) * self._period / self.size
        self._levels[name] = (level if wait else level - 1, moment)
        self._levels.move_to_end(name)
        while len(self._levels) > _MOST_BUCKETS:  # the longest unused, which are full again or nearly so
            self._levels.popitem(last=False)
        return wait

    def left(self, name: str) -> int:
        """Return the number of whole tokens in a bucket now."""
        return int(self._level(name))

    def _level(self, name: str) -> float:
        level, moment = self._levels.get(name, (float(self.size), 0.0))
        return min(self.size, level + max(0.0, self._clock() - moment) * self.size / self._period)


class HostMiddleware(TrustedHostMiddleware):
    """Middleware that checks the header Host against DNS rebinding, except for health probes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request. Health probes are not checked for their host."""
        handle = self.app if scope["type"] == "http" and scope["path"] in PROBES else super().__call__
        await handle(scope, receive, send)


class HttpMiddleware(ABC):
    """Base of middleware for HTTP requests. Other messages of ASGI pass unchanged."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request, and pass on any other message."""
        await (self.handle if scope["type"] == "http" else self.app)(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request."""


class BodyLimitMiddleware(HttpMiddleware):
    """Middleware that refuses requests whose body is too large, too slow, or has contradictory lengths.

    An unknown sender may send only a small body on any route, because a body may be read before the sender is checked.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an ASGI request whose body is read within limits of size and time."""
        headers = Headers(scope=scope)
        in_parts = headers.get("content-type", "").lower().startswith("multipart/form-data")
        most = self.settings.most_bytes if in_parts else self.settings.most_bytes_in_memory
        body = _Body(scope, receive, send, most, self.settings)
        if "content-length" in headers and "transfer-encoding" in headers:
            await body.refusal(400)(scope, receive, send)
            return
        declared = headers.get("content-length", "0")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > most:
            await body.refusal(413, most)(scope, receive, send)  # before authentication
            return
        with contextlib.ExitStack() as until_over:
            scope.setdefault("state", {})["until_over"] = until_over  # files of the body, for example
            with contextlib.suppress(_Stopped):  # whether or not it was caught on its way
                await self.app(scope, body.receive, body.send)
        if body.refused and not body.started:
            await body.refusal(body.refused)(scope, receive, send)


class _Stopped(Exception):
    """Raised in an endpoint that goes on reading a body after the body was refused."""


class _Body:
    """Counts the body of a request while it is read, and replaces the response by a refusal if a limit is exceeded."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, most: int, settings: Settings) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._most, self._settings = most, settings
        self._begun: float | None = None
        self._bytes, self._whole = 0, False
        self.refused, self.started = 0, False

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        message = await self._in_time()
        self._bytes += len(message.get("body", b""))
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        if self._bytes > self._at_most():
            self._refuse(413)
        return message

    def _at_most(self) -> int:
        known = self._scope.get("state", {}).get("principal") is not None
        return self._most if known else min(self._most, _MOST_OF_STRANGERS)

    async def _in_time(self) -> Message:
        settings = self._settings
        if self._begun is None:  # a sender that waits for a turn is not slow
            self._begun = anyio.current_time()
        late = self._begun + settings.patience + self._bytes / settings.slowest - anyio.current_time()
        with anyio.move_on_after(max(0.0, min(settings.patience, late))):
            return await self._receive()
        self._refuse(408)
        raise AssertionError  # the line before has raised

    def _refuse(self, status: int) -> None:
        self.refused = status
        raise _Stopped

    async def send(self, message: Message) -> None:
        if self.refused and not self.started:
            return
        self.started = True
        await self._send(message)

    def refusal(self, status: int, at_most: int | None = None) -> ASGIApp:
        """Return the refusal that is sent instead of the response, after which the connection ends."""
        most = f"{self._at_most() if at_most is None else at_most:,} bytes"
        said = {
            400: (
                "AmbiguousBody",
                "The request has both headers Content-Length and Transfer-Encoding, so "
                "that a proxy could take it for two requests. Send one of them.",
            ),
            413: ("BodyTooLarge", f"The body of the request is too large. Send at most {most}."),
            408: ("BodyTooSlow", "The body of the request did not come in time. Send it faster."),
        }
        response = problem(status, *said[status])
        response.headers["connection"] = "close"
        return response


class RateLimitMiddleware(HttpMiddleware):
    """Middleware that limits the requests for each token in a minute, and for each address without a token."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self._known, self._strangers = RateLimiter(settings.requests_a_minute), RateLimiter(settings.strangers_a_minute)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an ASGI request, or refuse it if its token or address sends too many."""
        principal = scope["state"].get("principal")
        buckets, name = (
            (self._strangers, client_of(scope)) if principal is None else (self._known, principal.limited_as)
        )
        if scope["path"] in PROBES or not buckets.size:
            await self.app(scope, receive, send)
            return
        wait = buckets.take(name)
        limits = {
            "RateLimit-Policy": f'"requests";q={buckets.size};w={int(_MINUTE)}',
            "RateLimit": f'"requests";r={buckets.left(name)};t={math.ceil(_MINUTE / buckets.size)}',
        }

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(limits)
            await send(message)

        await (too_many(wait) if wait else self.app)(scope, receive, telling)


class ConcurrencyLimitMiddleware:
    """Middleware that limits the concurrent requests of one token. Further requests wait without a thread.

    So a program that sends many slow requests does not take the threads of all others.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics
        self._lines: dict[str, _WaitingLine] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an ASGI request when its token has a free place, or refuse it if too many wait."""
        principal = scope.get("state", {}).get("principal") if scope["type"] == "http" else None
        if principal is None:
            await self.app(scope, receive, send)
            return
        line = self._lines.setdefault(principal.limited_as, _WaitingLine())
        if line.length >= _MOST_AT_ONCE + _MOST_WAITING:
            await too_many(1.0)(scope, receive, send)
            return
        line.length += 1
        try:
            with self.metrics.waiting.track_inprogress():
                await line.turns.acquire()
            try:
                sender.set(principal.limited_as)  # each request is a task of its own
                await self.app(scope, receive, send)
            finally:
                line.turns.release()
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[principal.limited_as]


class _WaitingLine:
    """Number of requests of one token that are handled or wait, and a semaphore for them."""

    def __init__(self) -> None:
        self.length, self.turns = 0, anyio.Semaphore(_MOST_AT_ONCE, fast_acquire=True)


def too_many(wait: float) -> ASGIApp:
    """Return the refusal of a request beyond the rate limit, with the seconds to wait."""
    seconds = max(1, math.ceil(wait))
    detail = f"There were too many requests. Wait {seconds} s."
    response = problem(429, "TooManyRequests", detail, retry_after=seconds)
    response.headers["retry-after"] = str(seconds)
    return response


def client_of(scope: Scope) -> str:
    """Return the address of a request's client, for IPv6 the network, since a client can use all its addresses.

    Examples:
        >>> client_of({"client": ("2001:db8::17:1", 80)})
        '2001:db8::/64'
    """
    host = (scope.get("client") or ("", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((int(address), 64), strict=False))


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Content-Security-Policy of every response that has none of its own; data: is for pictures inside style sheets."""

_ALWAYS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all, browsers would not say where a form comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-store",  # what is for everybody, such as a style sheet, says so itself
}
_YEAR = 365 * 24 * 3600


def security_headers(settings: Settings) -> list[tuple[bytes, bytes]]:
    """Return the security headers for responses that do not set them."""
    secure = {"strict-transport-security": f"max-age={_YEAR}"} if settings.secure else {}
    return [(name.encode(), value.encode()) for name, value in {**_ALWAYS, **secure}.items()]
