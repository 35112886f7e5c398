"""Common parts of pages: templates, fields of forms, and errors as people read them.

Templates escape all values, and contain no styles and no scripts. A missing value is an error. Each field of a form is
checked before it is used. If a program would get a problem document, a browser gets a page with the same message.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request

from everhold.arguments import brief
from everhold.display import at_least, at_most, left_in_words, printable, printable_lines, rounded
from everhold.errors import EverholdError, QueryRejected
from everhold_competitions.leaderboard import moment_in_words
from everhold_server.api.contract import warned_of
from everhold_server.audit import noted
from everhold_server.problems import PROBLEM
from everhold_server.uploads import Brought

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from everhold.holdout import Holdout
    from everhold.operations.operation import HoldoutOperation, Parameter
    from everhold_server.uploads import RequestContent

HERE = Path(__file__).parent
STATIC = HERE / "static"

_SHORT_HASH = 12
_MINUTES = len("2026-01-31T23:59")


def place(*parts: str) -> str:
    """Return the path of a page from its parts, which are quoted.

    Examples:
        >>> place("holdouts", "a/../b?c", "ask")
        '/holdouts/a%2F..%2Fb%3Fc/ask'
    """
    return "/" + "/".join(quote(part, safe="") for part in parts)


def page(request: Request, template: str, *, status: int = 200, **facts: Any) -> HTMLResponse:
    """Return the response with a page, or with a part of one, made from a template.

    Args:
        request: Request for the page. The sender's rights decide what the page's head shows.
        template: A file in ``templates``.
        status: HTTP status of the response.
        facts: Values for the template. Every name in the template must have one.
    """
    state = request.state
    known = {
        "path": request.url.path,
        "principal": getattr(state, "principal", None),
        "csrf": getattr(state, "csrf", None) or "",
    }
    text = _ENVIRONMENT.get_template(template).render(**{**known, **facts})
    return HTMLResponse(text, status)


def performed(
    request: Request, asked: Callable[[], tuple[Holdout, HoldoutOperation[Any]]]
) -> tuple[Any, str, list[str]]:  # fmt: skip
    """Run a form's operation, and return its result, the reason of a refusal, and the warnings.

    Args:
        request: Request of the page.
        asked: Function that returns the holdout and the operation of the form. It raises an error if the form is not
            valid.
    """
    try:
        with warned_of() as warned:
            holdout, operation = asked()
            done = holdout.perform(operation)
    except EverholdError as fault:
        return None, fault.told, []
    noted(request, operation.act, **operation.facts(done))
    return done, "", [str(warning) for warning in warned]


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    counts = isinstance(value, int) or (value.is_integer() and abs(value) >= 1_000)
    return f"{int(value):,}" if counts else rounded(value)


def _percent(share: float) -> str:
    return f"{100.0 * share:.8g} %"


def _moment(text: str) -> str:
    return text[:_MINUTES].replace("T", " ")


def _interval(row: Any) -> str:
    low, high = row["low"], row["high"]
    return "–" if low is None or high is None else f"{at_least(low)} to {at_most(high)}"


_ARGUMENT = re.compile(r"^(\w+)(?= (?:is|has|limits|says|gives)\b)|\b(\w+)=(?:True\b|\.\.\.)?(?=[ ,.]|$)")


def _in_labels(message: str, labels: Mapping[str, str]) -> str:
    """Return an error message in which names of arguments are replaced by labels of the form."""
    return _ARGUMENT.sub(
        lambda found: repr(labels[name]) if (name := found[1] or found[2]) in labels else found[0], message
    )


def _kind(each: Parameter) -> str:
    """Return how a form shows a setting: as a list, a text, a checkbox, a whole number or a number."""
    if each.several or each.holds(str):
        return "list" if each.several else "text"
    return next(
        (kind for kind, held in (("tick", bool), ("whole", int), ("number", float)) if each.holds(held)), "text"
    )


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "number": _shown, "percent": _percent, "moment": _moment, "interval": _interval, "at_most": at_most,
        "at_least": at_least, "printable": printable, "left": left_in_words, "short": lambda text: text[:_SHORT_HASH],
        "in_labels": _in_labels, "sentence": lambda text: text[:1].upper() + text[1:],
    }  # fmt: skip
    made.filters |= {"printable_lines": printable_lines, "in_words": moment_in_words, "kind": _kind}
    made.globals |= {"place": place}
    return made


_ENVIRONMENT = _environment()


Chosen = Annotated[str, Query(max_length=2_000)]
"""A team, a model or a number that a form sends in the address of its page."""

ENDINGS = ".csv,.tsv,.parquet,.arrow"
"""File name endings that a browser offers for a table; the kind of a file is seen in the file."""


_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a form, which is always sent as multipart.

    Attributes:
        received: Content of the request. None for an empty form.
    """

    received: RequestContent | None = None

    def text(self, name: str) -> str:
        """Return the text of a form field without surrounding blanks, empty if the field is missing."""
        written = None if self.received is None else self.received.text(name)
        return (written or "").strip()

    def some(self, name: str) -> str | None:
        """Return the text of a form field, or None if it is empty or missing."""
        return self.text(name) or None

    def ticked(self, name: str) -> bool:
        """Return whether the checkbox of this name was ticked."""
        return bool(self.text(name))

    def number(self, name: str, otherwise: float | None = None) -> float | None:
        """Return a form field as a number, or ``otherwise`` if it is empty. Commas may only separate thousands."""
        written = self.text(name)
        if not written:
            return otherwise
        try:
            value = float(written.replace(",", "") if _THOUSANDS.fullmatch(written) else written)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise QueryRejected(f"{name} is {brief(written)}. Pass a number, with a point before its decimals.")
        return value

    def whole(self, name: str, otherwise: int | None = None) -> int | None:
        """Return a form field as a whole number, or ``otherwise`` if it is empty."""
        value = self.number(name)
        if value is None:
            return otherwise
        if value != int(value):
            raise QueryRejected(f"{name} is {value:g}. Pass a whole number.")
        return int(value)

    def value(self, each: Parameter) -> Any:
        """Return the field of a setting in the setting's type, or None if it is empty."""
        kind = _kind(each)
        if kind == "list":
            return [part.strip() for part in self.text(each.name).split(",") if part.strip()] or None
        if kind == "tick":
            return self.ticked(each.name) or None
        if kind == "whole":
            return self.whole(each.name)
        return self.number(each.name) if kind == "number" else self.some(each.name)

    def file(self, name: str) -> Path | None:
        """Return the path of a chosen file, or None, also for the empty file that browsers send."""
        path = self.files.get(name)
        return None if path is None or not path.stat().st_size else path

    @property
    def files(self) -> Mapping[str, Path]:
        """Paths of all files by the names of their fields."""
        return {} if self.received is None else self.received.files

    @property
    def chosen(self) -> RequestContent:
        """Content of the form without the empty fields that browsers send."""
        assert self.received is not None
        return replace(
            self.received,
            files={name: path for name in self.files if (path := self.file(name)) is not None},
            texts={name: text for name, text in self.received.texts.items() if text.strip()},
        )


async def _sent(brought: Brought) -> Fields:
    return Fields(brought)


Form = Annotated[Fields, Depends(_sent)]
"""The form of a request; a route names its principal first, so that nothing is read of who may not send it."""


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
    """Middleware that shows errors to browsers as HTML pages, and sends unknown visitors to the login page.

    Args:
        app: The application with all other middleware, so that refusals of any of them become pages.
        api: Path of the API, below which errors stay problem documents.
    """

    def __init__(self, app: ASGIApp, api: str) -> None:
        self.app, self.api = app, api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an ASGI request. Errors are shown as HTML pages if the client is a browser."""
        wanted = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        if wanted and scope["path"] != self.api and not scope["path"].startswith(f"{self.api}/"):
            send = _Turned(scope, send)
        await self.app(scope, receive, send)


class _Turned:
    """Sends a response unchanged, or an HTML page instead of a problem document."""

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
        made = _fault_page(Request(self._scope), start["status"], json.loads(self._body))
        kept = MutableHeaders(raw=list(start["headers"]))
        for name in _OF_THE_DOCUMENT:
            del kept[name]
        for name, value in made.headers.items():
            kept[name] = value
        await self._send({**start, "status": made.status_code, "headers": kept.raw})
        await self._send({"type": "http.response.body", "body": bytes(made.body)})


def _fault_page(request: Request, status: int, document: dict[str, Any]) -> Response:
    detail = str(document.get("detail", ""))
    if request.headers.get("hx-request") == "true":  # for a part of a page that is there already
        return page(request, "fault_part.html", status=status, detail=detail, login=status == 401)
    if status == 401 and request.method == "GET":
        return RedirectResponse("/login", 303)
    title = _TITLES.get(status, "This did not work")
    return page(request, "fault.html", status=status, title=title, detail=detail)
