"""Certificates over HTTP: the promise as a signed document, and whether such a document is what it says."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from everhold.errors import QueryRejected
from everhold.untrusted import ReadingLimits, read_in_worker
from everhold_server.api.contract import HoldoutName, refusals, result, said, warned_of
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Forbidden, Role, Viewer
from everhold_server.uploads import BroughtFile

if TYPE_CHECKING:
    from pathlib import Path

router = APIRouter(tags=["certificates"])

_KEY = re.compile("[0-9a-fA-F]{64}")
_LIMITS = ReadingLimits(content=2**22, memory=2 * 2**30)

_SHORTEST_HASH = 8
_PAGE = {  # its styles stand in the page itself, which is one file
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
}
_REPORT = {"ok": True, "findings": [], "unchecked": [], "notes": ["..."], "promise": "...", "public_key": "..."}


class CertificateForm(StrEnum):
    """In which form a certificate is told."""

    JSON = "json"
    HTML = "html"


@router.get(
    "/holdouts/{name}/certificate", summary="The promise, signed",
    responses={200: said("The certificate.", {"signature": {}}, media_types={
        "text/html": {"schema": {"type": "string"}},
    }), **refusals(404)},
)  # fmt: skip
def certificate(
    name: HoldoutName, principal: Viewer, holdouts: Holdouts,
    form: Annotated[CertificateForm, Query(alias="format", description="Of the certificate.")] = CertificateForm.JSON,
    answer: Annotated[
        list[str],
        Query(description="ID=NAME: shows that answer on the first page, by 'sequence' or 'query' of the "
              "transcript. Several may be given. For stewards, whose signature it is.", max_length=50),
    ] = [],  # noqa: B006  FastAPI copies it
    queries: Annotated[
        bool, Query(description="List all queries with their answers; for others than stewards they are left out.")
    ] = True,
) -> Response:  # fmt: skip
    """Certificate: promise, rows, reasons, and all queries and charges so far; signed with the holdout's key."""
    if answer and principal.role is not Role.STEWARD:
        raise Forbidden(
            "which answers a certificate shows, and by which names, is for the steward to say, whose signature it is; "
            "leave 'answer' out, or ask the steward"
        )
    listed = queries and principal.role is Role.STEWARD
    with warned_of():
        made = holdouts.whole(name, principal).certificate(chosen(answer) or None, queries=listed)
    if form is CertificateForm.JSON:
        return JSONResponse(made.to_dict())
    return Response(made.to_html(), media_type="text/html; charset=utf-8", headers=_PAGE)


def chosen(answers: list[str]) -> dict[str, str | int]:
    """The answers of the first page by name, as they are given.

    Raises:
        QueryRejected: If one of them is not ID=NAME with a name of its own.
    """
    found: dict[str, str | int] = {}
    for given in answers:
        choice, sign, label = given.partition("=")
        if not (choice and sign and label) or label in found:
            raise QueryRejected(
                "an answer is not given as ID=NAME with a name of its own; expected such as answer=12=model%20B, where "
                "12 is the 'sequence' of the transcript, or its 'query'; nothing was signed"
            )
        found[label] = int(choice) if choice.isdecimal() and len(choice) < _SHORTEST_HASH else choice
    return found


@router.post(
    "/verify", summary="Check a certificate",
    openapi_extra={"requestBody": {"required": True, "content": {
        "application/json": {"schema": {}}, "text/html": {"schema": {}},
    }}},
    responses={200: said("What was found.", _REPORT), **refusals(415)},
)  # fmt: skip
def verify(
    principal: Viewer, received: BroughtFile,
    public_key: Annotated[
        str | None, Query(description="The steward's public key in hex, from a source that you trust.",
                         pattern=r"^\s*[0-9a-fA-F]{64}\s*$")
    ] = None,
) -> JSONResponse:  # fmt: skip
    """Check a certificate, JSON or HTML, as `everhold certificate verify` does.

    The signature shows that nothing was altered since; only a public key from elsewhere shows who signed. Check what
    this service signed on a machine of your own: the command works offline.
    """
    return result(report_on(received, public_key))


def report_on(path: Path, public_key: str | None) -> dict[str, Any]:
    """What is found in a stranger's certificate, as `CertificateReport.to_dict` says it.

    Raises:
        QueryRejected: If the key is none, or the file cannot be read within its limits.
    """
    if public_key is not None and not _KEY.fullmatch(public_key.strip()):
        raise QueryRejected("The public key is no key. Pass 64 hexadecimal digits, as the steward gave them to you.")
    found: dict[str, Any] = read_in_worker(
        "everhold.certificate.verification:listed_report", path, name="the certificate", limits=_LIMITS,
        advice="expected one that everhold wrote", refusal=QueryRejected, public_key=public_key,
    )  # fmt: skip
    return found
