"""Authenticates requests, by a program's token or by the session of a browser.

`request.state.principal` is a `Principal` or None. `request.state.csrf` is the token that forms of a session carry, or
None without a session. A wrong token is refused at once. A wrong cookie is treated as no cookie, since browsers keep
cookies of ended sessions.

Unsafe requests of browsers are accepted only from the service's own pages. The headers Sec-Fetch-Site and Origin, which
no page can change, say from which site they come. A session also has to send its CSRF token, as the header
``X-CSRF-Token`` or as ``csrf``, the first field of a multipart form. A request with a program's token in the header
Authorization needs no CSRF token, because no browser adds that header by itself.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from everhold_server.middleware import HttpMiddleware, RateLimiter, client_of, too_many
from everhold_server.problems import problem
from everhold_server.sessions import Sessions, cookie_name, csrf_of
from everhold_server.tables import BatchedWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from everhold_server.settings import Settings
    from everhold_server.token_store import Token

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER, CSRF_FIELD = "x-csrf-token", "csrf"

_MOST_OF_FORM = 2**20  # bytes that are read to find the field
_MOST_OF_FIRST_PART = 2**12


class AuthenticationMiddleware(HttpMiddleware):
    """Middleware that sets the principal of each request, and refuses requests forged by other sites."""

    def __init__(self, app: ASGIApp, sessions: Sessions, failures: RateLimiter, settings: Settings) -> None:
        self.app, self.sessions, self.settings = app, sessions, settings
        self._failures = failures
        self._authenticated: BatchedWork[str, Token | None] = BatchedWork(
            lambda texts: sessions.token_store.authenticate_all(texts)
        )

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate an ASGI request by token, session or proxy, and pass it on or refuse it."""
        state = scope.setdefault("state", {})
        state.update(principal=None, csrf=None)
        headers = Headers(scope=scope)
        sent = headers.getlist("authorization")
        refusal: ASGIApp | None
        if sent:
            refusal = await self._program(scope, sent)
        else:
            await self._browser(scope, headers)
            refusal, receive = await self._forged(scope, headers, receive)
        await (self.app if refusal is None else refusal)(scope, receive, send)

    async def _program(self, scope: Scope, sent: Sequence[str]) -> ASGIApp | None:
        kind, _, text = sent[0].partition(" ")
        token: Token | None = None
        if len(sent) == 1 and kind.lower() == "bearer":
            token, store = await self._authenticated.of(text.strip()), self.sessions.token_store
            if token is not None and not store.is_noted(token):
                token = await asyncio.to_thread(store.noting_use, token)
        if token is not None:
            scope["state"]["principal"] = token.principal()
            return None
        wait = self._failures.take(client_of(scope)) if self._failures.size else 0.0
        if wait:
            return too_many(wait)
        response = problem(
            401,
            "AuthError",
            "The token is invalid, expired or revoked. Check that it is whole, or ask the steward for a new one.",
        )
        response.headers["www-authenticate"] = "Bearer"
        return response

    async def _browser(self, scope: Scope, headers: Headers) -> None:
        secret = cookie_parser("; ".join(headers.getlist("cookie"))).get(cookie_name(self.settings))
        session = None if not secret else await asyncio.to_thread(self.sessions.find, secret)
        if session is not None and (subject := session.token.subject) is not None:
            way = self.settings.sign_in
            session = session if way is not None and way.vouches_for(subject, headers) else None
        if secret is not None and session is not None:
            scope["state"].update(principal=session.token.principal(session.id), csrf=csrf_of(secret))

    async def _forged(self, scope: Scope, headers: Headers, receive: Receive) -> tuple[ASGIApp | None, Receive]:
        """Return a refusal, or None unless another site forged the request, and a `receive` that yields the body."""
        if scope["method"] in SAFE:
            return None, receive
        site, origin = headers.get("sec-fetch-site", "same-origin"), headers.get("origin")
        if site != "same-origin" or (origin is not None and origin.lower() not in self.settings.origins):
            return _refused("it was sent by a page of another site"), receive
        expected = scope["state"]["csrf"]
        if expected is None:
            return None, receive
        given, receive = headers.get(CSRF_HEADER), receive
        if given is None:
            given, receive = await _field(headers, receive)
        if not hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode()):
            return _refused("it does not carry the token of its session"), receive
        return None, receive


def _refused(why: str) -> ASGIApp:
    detail = f"The request may be forged: {why}. Load the page again, and send the form from there."
    return problem(403, "ForgedRequest", detail)


async def _field(headers: Headers, receive: Receive) -> tuple[str, Receive]:
    """Return a form's token against forgery, empty if it has none, and a `receive` that gives the body anew."""
    kind = headers.get("content-type", "")
    boundary = re.search(r'^multipart/form-data;.*\bboundary="?([^";,]{1,70})"?', kind, re.IGNORECASE)
    if boundary is not None:
        read, whole, receive = await _peek(receive, _MOST_OF_FIRST_PART)
        opening = re.escape(f"--{boundary[1]}\r\n".encode())
        first = re.match(opening + rb'[^\r]*;\s*name="csrf"\r\n\r\n([0-9a-f]{64})\r\n', read, re.IGNORECASE)
        return ("" if first is None else first[1].decode()), receive
    if not kind.lower().startswith("application/x-www-form-urlencoded"):
        return "", receive
    read, whole, receive = await _peek(receive, _MOST_OF_FORM)
    try:
        fields = parse_qsl(read.decode("ascii"), max_num_fields=1_000) if whole else []
    except ValueError:
        fields = []
    given = [value for name, value in fields if name == CSRF_FIELD]
    return (given[0] if len(given) == 1 else ""), receive


async def _peek(receive: Receive, most: int) -> tuple[bytes, bool, Receive]:
    """Return the beginning of a request body, whether it is complete, and a `receive` that starts from it again."""
    messages: list[Message] = []
    read, more = b"", True
    while more and len(read) < most:
        message = await receive()
        messages.append(message)
        read += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return read, not more, again
