"""Errors for people: in a browser a page in everhold's own words; whoever wants none gets the problem document."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

from fastapi.responses import RedirectResponse

from everhold.service.web.rendering import page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI, Request, Response

__all__ = ["add_fault_pages"]

_TITLES = {
    400: "This cannot be read",
    403: "This is not for you",
    404: "There is nothing here",
    405: "This cannot be done here",
    413: "This is too large",
    422: "This cannot be used",
    429: "Too much at once",
    500: "Something broke",
}


def add_fault_pages(app: FastAPI, *, api: str) -> None:
    """Let browsers see pages where programs see problem documents.

    Args:
        app: With its handlers of errors.
        api: Path below which nobody is shown a page.
    """
    for kind, handler in list(app.exception_handlers.items()):
        app.exception_handlers[kind] = _shown(handler, api)


def _shown(handler: Callable[..., Any], api: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def shown(request: Request, fault: Exception) -> Response:
        response = handler(request, fault)
        response = await response if inspect.isawaitable(response) else response
        return _as_page(request, response) if _wants_page(request, api) else response

    return shown


def _wants_page(request: Request, api: str) -> bool:
    path = request.url.path
    return "text/html" in request.headers.get("accept", "") and path != api and not path.startswith(f"{api}/")


def _as_page(request: Request, response: Response) -> Response:
    """A problem document as a page; whoever is not logged in is sent to where one can."""
    status = response.status_code
    if status == 401 and request.method == "GET":
        return RedirectResponse("/login", 303)
    try:
        said = json.loads(bytes(response.body)).get("detail", "")
    except ValueError:
        return response
    made = page(request, "fault.html", status=status, title=_TITLES.get(status, "This did not work"), detail=said)
    for name in ("retry-after", "www-authenticate", "allow"):
        if name in response.headers:
            made.headers[name] = response.headers[name]
    return made
