"""Errors for people: where a program gets a problem document, a browser gets a page with the same words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request

from everhold_server.problems import PROBLEM
from everhold_server.web.rendering import page

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_TITLES = {
    400: "This cannot be read",
    401: "Please log in",
    403: "This is not for you",
    404: "There is nothing here",
    405: "This cannot be done here",
    413: "This is too large",
    422: "This cannot be used",
    429: "Too much at once",
    500: "Something broke",
}
_OF_THE_DOCUMENT = ("content-type", "content-length")


class FaultPages:
    """Turns problem documents into pages for browsers; a visitor who is not logged in is sent to the login.

    Args:
        app: What comes after it; of all it is the first, so that it sees what anybody refuses.
        api: Path below which nobody is shown a page.
    """

    def __init__(self, app: ASGIApp, api: str) -> None:
        self.app, self.api = app, api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        wanted = scope["type"] == "http" and self._wants_page(scope)
        await self.app(scope, receive, _Turned(scope, send) if wanted else send)

    def _wants_page(self, scope: Scope) -> bool:
        path = scope["path"]
        below = path == self.api or path.startswith(f"{self.api}/")
        return not below and "text/html" in Headers(scope=scope).get("accept", "")


class _Turned:
    """Sends a response, or a page in place of a problem document."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope, self._send = scope, send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and Headers(raw=message["headers"]).get("content-type") == PROBLEM:
            self._start = message
            return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            await self._turn(self._start)

    async def _turn(self, start: Message) -> None:
        made = _page(Request(self._scope), start["status"], json.loads(self._body))
        kept = MutableHeaders(raw=list(start["headers"]))
        for name in _OF_THE_DOCUMENT:
            del kept[name]
        for name, value in made.headers.items():
            kept[name] = value
        await self._send({**start, "status": made.status_code, "headers": kept.raw})
        await self._send({"type": "http.response.body", "body": bytes(made.body)})


def _page(request: Request, status: int, document: dict[str, Any]) -> Response:
    detail = str(document.get("detail", ""))
    if request.headers.get("hx-request") == "true":  # for a part of a page that is there already
        return page(request, "fault_part.html", status=status, detail=detail, login=status == 401)
    if status == 401 and request.method == "GET":
        return RedirectResponse("/login", 303)
    title = _TITLES.get(status, "This did not work")
    return page(request, "fault.html", status=status, title=title, detail=detail)
