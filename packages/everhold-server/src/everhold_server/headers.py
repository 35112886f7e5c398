"""Headers of every response: browsers run, load, frame and keep nothing but the service's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from everhold_server.settings import Settings

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


class SecurityHeadersMiddleware:
    """Adds them to every response that does not say otherwise."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        secure = {"strict-transport-security": f"max-age={_YEAR}"} if settings.secure else {}
        self._headers = {**_ALWAYS, **secure}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, sending if scope["type"] == "http" else send)
