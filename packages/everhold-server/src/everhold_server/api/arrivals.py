"""Rows that arrive, over HTTP: append, list and retire them, ask one query of each window, and look for drift."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from everhold.asking.arrivals.appending import Arrived
from everhold.errors import HoldoutRejected
from everhold.ledger import LedgerStore
from everhold.sealing.duplicates.resealing import Sealer, sealing_for, untold_matches
from everhold.sealing.storage import rows_folder, storage_url
from everhold_server.api.asking import Guess, queries_of
from everhold_server.api.contract import Asking, HoldoutName, Strict, body_of, refusals, result, said, warned_of
from everhold_server.api.holdouts import named_by_content, one_more_sealing
from everhold_server.audit import AuditLog, noted
from everhold_server.open_holdouts import Holdouts, OpenHoldouts
from everhold_server.principals import Analyst, Principal, Steward, Viewer
from everhold_server.uploads import Brought, Unusable
from everhold_server.wire.table_parts import PARQUET_TYPE

if TYPE_CHECKING:
    from everhold_server.uploads import RequestContent

router = APIRouter(prefix="/holdouts/{name}", tags=["arrivals"])

_ACT = "append rows"
_ARRIVAL = {
    "moment": "arrival 1", "arrival": 1, "until": "2026-02-01", "rows": 2_000, "training_rows": 0, "total": 4_000,
    "tree": 2, "queries": 50, "surprises": 1, "within_before": 0.1256, "within": 0.0991,
}  # fmt: skip
_APPENDED = {
    "result": "arrived", "arrival": 1, "rows": 2_000, "training_rows": 0, "total": 4_000, "tree": 2,
    "within_before": 0.1256, "within": 0.0991, "warnings": [],
}  # fmt: skip
_WINDOWS = {
    "result": "over_time", "asked": "mean of delay > 15",
    "rows": [{"window": "2026-02", "rows": 2_000, "value": 0.41, "low": 0.35, "high": 0.47, "source": "training",
              "charged": 0}],
    "changed": [], "warnings": [],
}  # fmt: skip


_DRIFT = {
    "result": "drift", "arrival": 1,
    "rows": [{"asked": "mean of delay >= 12", "before_low": 0.47, "before_high": 0.53, "since_low": 0.58,
              "since_high": 0.66, "changed": True}],
    "warnings": [],
}  # fmt: skip


class ArrivalSettings(Strict):
    """Settings of `everhold.Holdout.append`, without the rows."""

    until: str | None = Field(
        None, description="When the rows had come; never before an earlier one.", max_length=100,
        examples=["2026-12-01"],
    )  # fmt: skip


class Windows(Strict):
    """One query, and the windows of which it is asked."""

    query: Asking
    by: Annotated[
        Literal["arrival", "day", "month", "year"] | Annotated[int, Field(ge=1, le=10_000)],
        Field(description="Windows: by arrival, by a number of arrivals, or by day, month or year of 'until'."),
    ] = "arrival"
    law: Literal["windows", "one"] = Field(
        "windows", description="'one' if all rows have one law; then each window narrows what the others leave."
    )
    guess: Guess = None


class ComparedArrival(Strict):
    """An arrival, and the queries by which it is compared with all rows before it."""

    arrival: int | None = Field(None, description="Its number; by default the latest one with sealed rows.", ge=1)
    columns: Annotated[
        list[Annotated[str, Field(max_length=200)]] | None,
        Field(description="Columns to compare; by default the label and at most 19 others.", max_length=100),
    ] = None
    also: Annotated[
        list[Asking], Field(description="Further queries with one answer each.", max_length=100, default_factory=list)
    ]


class Retirement(Strict):
    """An arrival at which a tree opened."""

    before: int = Field(description="Rows that arrived earlier are opened.", ge=1)


@router.get(
    "/arrivals", summary="Rows that arrived",
    responses={200: said("The creation, each arrival, and now.", {"arrivals": [_ARRIVAL], "warnings": []}),
               **refusals(404)},
)  # fmt: skip
def list_arrivals(name: HoldoutName, principal: Viewer, holdouts: Holdouts) -> JSONResponse:
    """Rows at creation, at each arrival and now, with the budget spent and the half-width of the next answer.

    All of it is public. A half-width of null is one at which queries are refused. Empty where no rows arrived.
    """
    return result({"arrivals": arrivals_of(holdouts, name, principal)})


def arrivals_of(holdouts: OpenHoldouts, name: str, principal: Principal) -> list[dict[str, Any]]:
    """The timeline of a holdout, with None for widths that are infinite."""
    whole = holdouts.whole(name, principal)
    whole.status()  # sees rows that another process appended
    rows: list[dict[str, Any]] = whole.arrivals.timeline()
    return [{key: _finite(value) for key, value in row.items()} for row in rows]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@router.post(
    "/arrivals", summary="Append rows", status_code=201, dependencies=[Depends(one_more_sealing)],
    openapi_extra=body_of(ArrivalSettings, part="settings", files={
        "rows": "The rows to seal: Parquet, or CSV with named columns in UTF-8.",
        "training": "Open rows of the same columns; they make guesses.",
    }, needed=("settings",)),
    responses={201: said("The arrival, with half-widths before and after.", _APPENDED), **refusals(404, 415)},
)  # fmt: skip
def append(
    name: HoldoutName, request: Request, principal: Steward, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Seal more rows: old answers stay true, new ones are narrower, and the budget refills where trees open.

    Arrivals may depend on all answers, and on nothing else of the sealed rows. Asking again afterwards is a new query.
    The same request of the same token again changes nothing. Appends count against the same limit as sealings. A token
    for some holdouts that did not seal this one appends at least 1,000 rows of each kind at once.
    """
    settings = received.document(ArrivalSettings, part="settings")
    with warned_of() as warned:
        arrived = append_rows(request, holdouts, (name, principal), settings.until, received)
    return result(arrived, warned, status=201)


def append_rows(
    request: Request,
    holdouts: OpenHoldouts,
    asked_by: tuple[str, Principal],
    until: str | None,
    received: RequestContent,
) -> Arrived:
    """Append the rows that a request brought; the same request of the same token again changes nothing.

    Args:
        request: The request.
        holdouts: All that are open.
        asked_by: Name of the holdout, and the steward.
        until: As for `Holdout.append`.
        received: Files ``rows`` and ``training``; at least one of them.

    Raises:
        HoldoutRejected: If the rows do not fit or are there already. Nothing was changed.
        QueryRejected: If this holdout cannot grow. Nothing was changed.
        Unusable: If there are other files, or a file is packed. Nothing was changed.
    """
    name, principal = asked_by
    whole = holdouts.whole(name, principal)
    if unknown := received.files.keys() - {"rows", "training", "settings", "request"}:
        raise Unusable(f"the form has the file {min(unknown)!r}; expected rows and training; nothing was appended")
    secret = request.headers.get("authorization") or request.headers.get("cookie", "")
    content = received.digest(ArrivalSettings(until=until), key=secret)
    sources = {what: _opened(received, what) for what in ("rows", "training")}
    log: AuditLog = request.app.state.audit
    with holdouts.being_made(name):  # a request that was sent again waits for the first one
        done = log.facts_of(principal, name, act=_ACT, content=content)
        if done is not None and (before := _arrived(whole.arrivals.timeline(), int(done["arrival"]))) is not None:
            noted(request, "append rows again", holdout=name)
            return before
        sealer = None if principal.holdouts is None else Sealer(principal.token, principal.holdouts)
        with sealing_for(sealer):
            arrived = whole.append(sources["rows"], training=sources["training"], until=until)
        noted(request, _ACT, holdout=name, content=content, arrival=arrived.arrival, rows=arrived.rows)
        log.insert_now(request.scope, 201)
    if sealer is not None:
        with LedgerStore.open(storage_url(holdouts.storage), create=False) as store:
            untold = untold_matches(rows_folder(holdouts.storage), store.record(name), arrival=arrived.arrival)
        # written whatever was found: the duration must not tell
        log.insert_act("compare rows", request.state.request_id, principal, sealed=name, same_rows=untold or [])
    return arrived


def _opened(received: RequestContent, what: str) -> Any:
    try:
        return named_by_content(received.files[what], what) if what in received.files else None
    except HoldoutRejected as fault:
        raise HoldoutRejected(str(fault).replace("nothing was created", "nothing was appended")) from None


def _arrived(rows: list[dict[str, Any]], number: int) -> Arrived | None:
    """An arrival that was there already; None if the ledger lost it."""
    row = next((row for row in rows if row["arrival"] == number), None)
    return None if row is None else Arrived.of(row)


@router.post(
    "/over-time", summary="Ask one query of each window", openapi_extra=body_of(Windows),
    responses={200: said("One answer for each window, and pairs that do not meet.", _WINDOWS),
               **refusals(404, 415)},
)  # fmt: skip
def over_time(
    name: HoldoutName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Ask one query of the rows of each window of arrivals. Each is a query of its own, and free when asked again.

    All intervals hold at once. So windows whose intervals do not meet prove that the population changed.
    """
    asked = received.document(Windows)
    holdout = holdouts.asked_by(name, principal)
    (query,) = queries_of([asked.query], holdout, principal, received)
    with warned_of() as warned:
        found = holdout.over_time(query, by=asked.by, law=asked.law, guess=asked.guess)
    noted(request, "ask over time", windows=len(found))
    return result(found, warned)


@router.post(
    "/drift", summary="Compare an arrival with all rows before it", openapi_extra=body_of(ComparedArrival),
    responses={200: said("Intervals before and since, by query.", _DRIFT), **refusals(404, 415)},
)  # fmt: skip
def drift(
    name: HoldoutName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Compare the rows of an arrival with all before it: the label, the columns, and queries of the sender.

    Each comparison is two queries and is charged like them. Intervals that do not meet prove that the population
    changed.
    """
    asked = received.document(ComparedArrival)
    holdout = holdouts.asked_by(name, principal)
    also = queries_of(asked.also, holdout, principal, received)
    with warned_of() as warned:
        found = holdout.drift(asked.arrival, columns=asked.columns, also=also)
    noted(request, "compare arrivals", arrival=found.arrival, queries=len(found))
    return result(found, warned)


@router.post(
    "/retire", summary="Open the rows before an arrival", openapi_extra=body_of(Retirement),
    responses={200: {"description": "The rows, as a Parquet file.", "content": {PARQUET_TYPE: {}}},
               **refusals(404, 415)},
)  # fmt: skip
def retire(name: HoldoutName, request: Request, principal: Steward, holdouts: Holdouts, received: Brought) -> Response:
    """End the trees about rows before an arrival, and open those rows; for stewards.

    Answers that were given stay true. The rows are training rows from now on. The same request again returns the rows
    and changes nothing.
    """
    from pyarrow import BufferOutputStream, parquet

    asked, out = received.document(Retirement), BufferOutputStream()
    opened = holdouts.whole(name, principal).retire(asked.before)
    noted(request, "retire rows", holdout=name, before=asked.before, rows=opened.num_rows)
    parquet.write_table(opened, out)
    return Response(out.getvalue().to_pybytes(), media_type=PARQUET_TYPE)
