"""Routes that report on a holdout: transcript, answers, events and certificate, and the check of a certificate.

A stored answer is free for everybody who may ask, also if somebody else paid for it. The promise holds whoever knows
which answers, so telling an answer twice does not weaken it. An analyst who repeats somebody's query learns that it was
asked before, and not by whom. Only stewards can list the queries of others.
"""

from __future__ import annotations

import io
import re
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi import Path as PathParameter
from fastapi.responses import JSONResponse

from everhold.display import columns_of, write_csv
from everhold.errors import EverholdError, QueryRejected
from everhold.ledger.acts import PROMOTED, UNSEALING
from everhold.operations.reports import answers_in
from everhold_server.api.contract import (
    HoldoutName,
    arguments_checked,
    refusals,
    result,
    said,
    warned_of,
)
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst, Forbidden, Role, Viewer
from everhold_server.untrusted.files import report_on_untrusted
from everhold_server.uploads import BroughtFile
from everhold_server.wire.answers import told
from everhold_server.wire.files import PARQUET_TYPE, parquet_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

router = APIRouter(prefix="/holdouts/{name}", tags=["asking"])

_ROW = {
    "sequence": 7, "asked_at": "2026-01-31T12:00:00.000000+00:00", "query": "5a0c...", "asked": "mean of delay > 15",
    "value": 0.2381, "low": 0.22, "high": 0.2566, "source": "holdout", "charged": 1,
}  # fmt: skip


class TranscriptForm(StrEnum):
    """File format of a transcript."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@router.get(
    "/transcript", summary="What was asked and answered",
    responses={200: said("The answers, in order.", {"result": "transcript", "rows": []}, media_types={
        "text/csv": {"schema": {"type": "string"}},
        PARQUET_TYPE: {"schema": {"type": "string", "format": "binary"}},
    }), **refusals(404)},
)  # fmt: skip
def transcript(
    name: HoldoutName, principal: Analyst, holdouts: Holdouts,
    form: Annotated[TranscriptForm, Query(alias="format", description="Of the transcript.")] = TranscriptForm.JSON,
) -> Response:  # fmt: skip
    """Every query with its answer, in order: a steward sees all, an analyst those that they were first to ask.

    Values are means of row values between 0 and 1, as the ledger holds them.
    """
    entries = holdouts.asked_by(name, principal).transcript()
    if form is TranscriptForm.JSON:
        return JSONResponse(told(entries))
    rows = entries.to_rows()
    content, kind = (_csv(rows), "text/csv") if form is TranscriptForm.CSV else (_parquet(rows), PARQUET_TYPE)
    aside = {"Content-Disposition": f'attachment; filename="{name}.transcript.{form.value}"'}
    return Response(content, media_type=kind, headers=aside)


class AnswerNotFound(EverholdError, LookupError):
    """The answer does not exist, or the principal may not see it."""

    exit_code = 4
    http_status = 404


@router.get(
    "/answers", summary="The latest answers",
    responses={200: said("The answers, the newest first.", {"answers": [_ROW], "next": None, "warnings": []}),
               **refusals(404)},
)  # fmt: skip
def answers(
    name: HoldoutName, principal: Analyst, holdouts: Holdouts,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="Only answers with a smaller `sequence`.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="The most answers.")] = 100,
) -> JSONResponse:  # fmt: skip
    """The latest answers in the units of their queries: a steward sees all, an analyst those first asked by them.

    `next` is the value of `before` for the next page.
    """
    holdout = holdouts.asked_by(name, principal)
    rows = [row for row in holdout.transcript().rows if before is None or row["sequence"] < before]
    latest = rows[: -limit - 1 : -1]
    following = latest[-1]["sequence"] if len(latest) < len(rows) else None
    return result({"answers": latest, "next": following})


@router.get(
    "/answers/{sequence}", summary="One answer",
    responses={200: said("The answer.", {**_ROW, "warnings": []}), **refusals(404)},
)  # fmt: skip
def one_answer(
    name: HoldoutName, principal: Analyst, holdouts: Holdouts,
    sequence: Annotated[int, PathParameter(ge=1, le=2**53, description="Its number in the ledger.", examples=[7])],
) -> JSONResponse:  # fmt: skip
    """One answer by the number that its event has."""
    holdout = holdouts.asked_by(name, principal)
    rows = [row for row in holdout.transcript().rows if row["sequence"] == sequence]
    if not rows:
        raise AnswerNotFound(f"No answer {sequence} is visible to you. Send a 'sequence' from GET .../answers.")
    return result(rows[0])


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    written = io.StringIO()
    write_csv(written, rows, columns_of(rows) or ["sequence"])
    return written.getvalue().encode()


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    if not rows:
        raise QueryRejected("Nothing was asked yet, and a Parquet file needs a row. Send format=json or format=csv.")
    return parquet_bytes(rows)


followed = APIRouter(prefix="/holdouts/{name}", tags=["events"])

_EVENTS = {"holdout": "answer.released", PROMOTED: "leader.changed", UNSEALING: "study.unsealed"}
_OTHER = "entry.added"
_EVENT = {"sequence": 7, "event": "answer.released", "at": "2026-01-31T12:00:00.000000+00:00", "query": "5a0c...",
          "analyst": "reports", "gate": None}  # fmt: skip
_COUNT = {"name": "queries", "left": 193, "of": 200, "analyst": "reports"}


@followed.get(
    "/events", summary="The events of a ledger",
    responses={200: said("Events after the cursor, the oldest first.", {
        "events": [_EVENT], "next": 7, "remaining": [_COUNT], "closed": False, "warnings": [],
    }), **refusals(404)},
)  # fmt: skip
def events(
    name: HoldoutName, principal: Analyst, holdouts: Holdouts,
    after: Annotated[int, Query(ge=0, le=2**53, description="The `next` of the last response (0 for the start).")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="The most entries that are read.")] = 100,
) -> JSONResponse:  # fmt: skip
    """Events after a cursor, for a program that follows a study: poll with `after` set to the last `next`.

    Stewards see every entry, analysts their own entries and the unsealing. No event has a value: read an answer at
    `/answers/{sequence}`. `event` is `answer.released` (from the sealed rows), `leader.changed`, `study.unsealed` or
    `entry.added`. `remaining` is the present budget: the whole budget for stewards, the allotment for analysts.
    """
    steward = principal.role is Role.STEWARD
    if not steward:
        holdouts.asked_by(name, principal)  # an analyst without an allotment follows nothing
    news = holdouts.whole(name, principal).ledger.events(after, limit=limit)
    counts = [count for count in news.counts if steward or count.analyst == principal.name]
    return result(
        {
            "events": [
                {**facts, "event": _EVENTS.get(source, _OTHER)}
                for each in news.events
                if steward or each.analyst == principal.name or each.source == UNSEALING
                for facts in [asdict(each)]
                for source in [facts.pop("source")]
            ],
            "next": news.sequence,
            "remaining": [{"name": c.name, "left": c.left, "of": c.whole, "analyst": c.analyst} for c in counts],
            "closed": news.closed,
        }
    )


certified = APIRouter(tags=["certificates"])

_KEY = re.compile("[0-9a-fA-F]{64}")
_PAGE = {  # its styles stand in the page itself, which is one file
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
}
_REPORT = {"ok": True, "findings": [], "unchecked": [], "notes": ["..."], "promise": "...", "public_key": "..."}


class CertificateForm(StrEnum):
    """File format of a certificate."""

    JSON = "json"
    HTML = "html"


@certified.get(
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
        bool, Query(description="List all queries with their answers. For others than stewards they are left out.")
    ] = True,
) -> Response:  # fmt: skip
    """Certificate: promise, rows, reasons, and all queries and charges so far; signed with the holdout's key."""
    if answer and principal.role is not Role.STEWARD:
        raise Forbidden(
            "Only the steward decides which answers a certificate shows. Leave 'answer' out, or ask the steward."
        )
    listed = queries and principal.role is Role.STEWARD
    with warned_of(), arguments_checked():
        made = holdouts.whole(name, principal).certificate(answers_in(answer), queries=listed)
    if form is CertificateForm.JSON:
        return JSONResponse(made.to_dict())
    return Response(made.to_html(), media_type="text/html; charset=utf-8", headers=_PAGE)


@certified.post(
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
    """Check a certificate file, and return the findings as plain data of a `CertificateReport`.

    Raises:
        QueryRejected: If the public key cannot be used, or the file is too large or unreadable.
    """
    if public_key is not None and not _KEY.fullmatch(public_key.strip()):
        raise QueryRejected("The public key is no key. Pass 64 hexadecimal digits, as the steward gave them to you.")
    return report_on_untrusted(path, public_key=public_key)
