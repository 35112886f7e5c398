"""Errors as problem documents (RFC 9457). The messages of errors that are not everhold's own are not shown."""

from __future__ import annotations

import math
import re
import traceback
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount

from everhold.display import printable
from everhold.errors import EverholdError, is_of_everhold

if TYPE_CHECKING:
    from fastapi import FastAPI

PROBLEM = "application/problem+json"
_RETRY = 2  # seconds
_MOST_PLACES, _LONGEST_PLACE = 20, 100
_EXPECTED = "Input should be "
_FAULTS = {
    "extra_forbidden": "There is no such field",
    "missing": "This field is missing",
    "repeated": "It is there twice",
    "string_pattern_mismatch": "It has characters that cannot be used here",
    "string_too_long": "It is too long",
    "string_too_short": "It is too short",
}
_OF_HTTP = {
    404: (
        "NoSuchAddress", "There is nothing at this address. Use an address that /api/v1/docs lists, or a "
        "page of the service.",
    ),
    405: (
        "NoSuchMethod", "This method is not possible at this address. Use a method from the header Allow, "
        "as listed in /api/v1/docs.",
    ),
}  # fmt: skip
UNEXPECTED = (
    "everhold stopped because of an error in everhold, which is not shown because it could quote sealed rows. What "
    "was charged is in the ledger. Ask the same again: what was answered already is free."
)


def problem(status: int, name: str, detail: str, /, **facts: Any) -> JSONResponse:
    """Return a response with a problem document of RFC 9457.

    Args:
        status: HTTP status of the response.
        name: Name of the error, such as ``"QueryRejected"``.
        detail: Message of the error: what was wrong, what was expected and what to do.
        facts: Public facts about the error.
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    document = {
        **facts, "type": f"urn:everhold:problem:{words.replace(' ', '-')}", "title": words, "status": status,
        "detail": detail,
    }  # fmt: skip
    return JSONResponse(document, status, media_type=PROBLEM)


def add_problems(app: FastAPI) -> None:
    """Register handlers that turn every error of an application into a problem document."""
    app.add_exception_handler(EverholdError, problem_of)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _unexpected)


def problem_of(request: Request, fault: Exception) -> JSONResponse:
    """Return the problem document for an error of everhold."""
    assert isinstance(fault, EverholdError)
    if fault.http_status >= 500:
        request.state.fault = place_of(fault)  # for the log
    response = problem(fault.http_status, type(fault).__name__, fault.told, **_plain(fault.data))
    if fault.http_status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if fault.http_status == 503:
        response.headers["Retry-After"] = str(_RETRY)
    if fault.http_status == 429 and "wait" in fault.data:
        response.headers["Retry-After"] = str(max(1, math.ceil(fault.data["wait"])))
    return response


def _malformed(_: Request, fault: Exception) -> JSONResponse:
    assert isinstance(fault, RequestValidationError)
    found: dict[str, str] = {}
    for error in fault.errors():
        place = printable(".".join(map(str, error["loc"])))[:_LONGEST_PLACE]
        expected = (
            error["msg"] if error["msg"].startswith(_EXPECTED) else "Wrong value"
        )  # of the schema, not the sender
        found.setdefault(place, _FAULTS.get(error["type"], expected))
    listed = list(found.items())[:_MOST_PLACES]  # the sender has chosen names and number
    detail = (
        f"The request cannot be used. {' '.join(f'{place}: {fault}.' for place, fault in listed)} Send what the "
        "API's page (/api/v1/docs) describes. Nothing was charged."
    )
    return problem(422, "MalformedRequest", detail, places=[place for place, _ in listed])


def _of_http(request: Request, fault: Exception) -> JSONResponse:
    assert isinstance(fault, HTTPException)
    response = problem(fault.status_code, *_OF_HTTP.get(fault.status_code, ("HTTPError", str(fault.detail))))
    response.headers.update(fault.headers or {})
    if fault.status_code == 405:  # the framework names only the methods of the first route that matches
        scope = {"type": "http", "path": request.url.path, "root_path": "", "headers": []}
        routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
        methods = [
            method for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
            if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
        ]  # fmt: skip
        response.headers["Allow"] = ", ".join(methods or ["GET", "HEAD"])  # those of files, which are mounted
    return response


def _unexpected(_: Request, __: Exception) -> JSONResponse:
    return problem(500, "UnexpectedFault", UNEXPECTED)


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if isinstance(value, (str, int, float, bool, list, type(None)))}


def place_of(fault: BaseException) -> dict[str, Any]:
    """Return the class of an exception, and its stack frames inside everhold as ``module:line``."""
    places = [
        f"{frame.f_globals['__name__']}:{line}"
        for frame, line in traceback.walk_tb(fault.__traceback__)
        if is_of_everhold(frame)
    ]
    return {"fault": type(fault).__name__, "places": places}
