"""Asking over HTTP: the price of a query, its answer, many answers at once, and what was asked before.

An answer that is stored is free for everybody who may ask, also if somebody else has paid for it: there is one ledger
and one promise, which holds whoever knows which answers, so a second copy of an answer weakens nothing. Whoever asks
the same learns only that it was asked before, and not by whom. What others have asked is listed for the steward alone.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import JSONResponse
from pydantic import Field

from everhold.display import csv_text
from everhold.errors import EverholdError, QueryRejected
from everhold.queries import KINDS, Form
from everhold.table_files import columns_of, write_parquet
from everhold_server.api.contract import (
    Asking,
    HoldoutName,
    Strict,
    arguments_checked,
    body_of,
    check_predictions_allowed,
    refusals,
    result,
    said,
    warned_of,
)
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst
from everhold_server.uploads import Brought
from everhold_server.wire.answers import told
from everhold_server.wire.reading import query_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.holdout import Holdout
    from everhold.queries.query import Query as AnyQuery
    from everhold_server.principals import Principal
    from everhold_server.uploads import RequestContent

router = APIRouter(prefix="/holdouts/{name}", tags=["asking"])

_MOST_AT_ONCE = 10_000
_MOST_QUOTED, _MOST_ASKED = 100_000, 400_000  # characters of all expressions together; reading one takes 30 us
_COUNTED_FOR_ONE = 20  # characters more for each of them
_PREDICTED = {
    kind.name: [name for name in ("of", "training_predictions") if name == "of" or name in kind.details]
    for kind in KINDS if kind.form is Form.PREDICTIONS
}  # fmt: skip
_ANSWER = {
    "result": "answer", "value": 0.2381, "low": 0.22, "high": 0.2566, "source": "holdout", "charged": 1,
    "remaining": {"queries": 997, "surprises": 9}, "query": "5a0c...", "repeated": False, "warnings": [],
}  # fmt: skip
_ROW = {
    "sequence": 7, "asked_at": "2026-01-31T12:00:00.000000+00:00", "query": "5a0c...", "asked": "mean of delay > 15",
    "value": 0.2381, "low": 0.22, "high": 0.2566, "source": "holdout", "charged": 1,
}  # fmt: skip

Guess = Annotated[
    float | None,
    Field(
        description="What you expect, computed on rows of your own, in the query's units. A guess that holds is "
        "confirmed and costs none of the surprises; by default the training rows make it."
    ),
]
Tolerance = Annotated[
    float | None,
    Field(description="Half-width requested; sharper costs more. Only where the mechanism is privacy_budget."),
]
Silent = Annotated[bool, Field(description="Only register it: nothing is told before the study is unsealed.")]


class Quoted(Strict):
    """A query whose price is wanted."""

    query: Annotated[Asking, Field(default=None)]
    guess: Guess = None
    tolerance: Tolerance = None


class Whole(Strict):
    """One query."""

    query: Asking
    guess: Guess = None
    tolerance: Tolerance = None
    silent: Silent = False
    as_of: int | None = Field(
        None, description="Number of an arrival: the stored answer about the rows that had come with it. Free.", ge=0,
        le=2**31,
    )  # fmt: skip


class Several(Strict):
    """Queries that do not depend on each other's answers."""

    queries: Annotated[list[Asking], Field(max_length=_MOST_AT_ONCE, examples=[["delay > 15", "delay > 30"]])]
    guesses: Annotated[
        list[float | None] | None, Field(max_length=_MOST_AT_ONCE, description="One guess or null for each query.")
    ] = None
    silent: Silent = False
    reveal: Annotated[Literal["checked", "all"], Field(description='"all" to tell everything, without surprises.')] = (
        "checked"
    )


class TranscriptForm(StrEnum):
    """In which form a transcript is told."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def _check_predictions(written: Sequence[Any], holdout: Holdout, principal: Principal) -> None:
    """Refuse predictions that are not taken, before a file is read."""
    left = list(written)
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            handed_in = [one.get(name) for name in _PREDICTED.get(str(one.get("kind")), ())]
            check_predictions_allowed(holdout.schema, principal, *handed_in)
            left += [value for value in one.values() if isinstance(value, (dict, list))]


def _check_expressions(written: Sequence[Any], most: int) -> None:
    """Refuse expressions that are too long altogether, before one of them is read."""
    found, left = 0, list(written)
    while left:
        one = left.pop()
        if isinstance(one, str):
            found += len(one) + _COUNTED_FOR_ONE
        elif isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            predicted = _PREDICTED.get(str(one.get("kind")), ())
            left += [value for name, value in one.items() if name not in predicted or isinstance(value, str)]
    if found > most:
        raise QueryRejected(
            f"the expressions of the request are too long: {found:,} characters, with {_COUNTED_FOR_ONE} more for each "
            f"of them; expected at most {most:,}; send shorter expressions, or fewer at once"
        )


def queries_of(
    written: Sequence[Any], holdout: Holdout, principal: Principal, received: RequestContent, *, most: int = _MOST_ASKED
) -> list[AnyQuery[Any]]:
    """Queries of a request, checked; the files beside them are their predictions."""
    _check_predictions(written, holdout, principal)
    _check_expressions(written, most)
    tables = received.tables(holdout.schema)
    with arguments_checked():
        return [query_from(one, holdout.schema, tables) for one in written]


@router.post(
    "/quote", summary="The price of a query", openapi_extra=body_of(Quoted),
    responses={200: said("The price.", {
        "result": "quoted_price", "radius": 0.018, "radius_if_charged": 0.018, "charged_if_confirmed": 0,
        "charged_at_most": 1, "refused": False, "answered_before": False, "remaining": {"queries": 997},
        "warnings": [],
    }), **refusals(404, 415)},
)  # fmt: skip
def quote(name: HoldoutName, principal: Analyst, holdouts: Holdouts, received: Brought) -> JSONResponse:
    """Say what a query would cost and how wide its interval would be. Free, and nothing is asked.

    Without a query it is the price of any new one, for a mean between 0 and 1.
    """
    asked = received.document(Quoted)
    holdout = holdouts.asked_by(name, principal)
    query = None
    if asked.query is not None:
        (query,) = queries_of([asked.query], holdout, principal, received, most=_MOST_QUOTED)
    with warned_of() as warned:
        price = holdout.quote(query, guess=asked.guess, tolerance=asked.tolerance)
    return result(price, warned)


@router.post(
    "/ask", summary="Ask one query", openapi_extra=body_of(Whole),
    responses={200: said("The answer, committed to the ledger before it leaves.", _ANSWER),
               **refusals(404, 415)},
)  # fmt: skip
def ask(name: HoldoutName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought) -> JSONResponse:
    """Ask one query of any kind.

    The interval holds for the population, together with those of all other answers ever given, however the query
    depends on them. What was asked before, by anybody, is answered again and is free; so an analyst who did not hear an
    answer asks the same again. After rows arrived that is a new query, and `as_of` finds the old answer. When what
    is left may not cover it, the answer says `"source": "refused"` and has no value. Queries that hold
    predictions name their files: a form has the JSON document in the part `request`, and each file in a part of its
    own name. Python code is never taken.
    """
    asked = received.document(Whole)
    holdout = holdouts.asked_by(name, principal)
    (query,) = queries_of([asked.query], holdout, principal, received)
    with warned_of() as warned:
        answer = holdout.ask(
            query, guess=asked.guess, tolerance=asked.tolerance, silent=asked.silent, as_of=asked.as_of
        )
    noted(request, "ask", outcome=_outcome(answer), query=getattr(answer, "query", None))
    return result(answer, warned)


@router.post(
    "/ask-many", summary="Ask several queries at once", openapi_extra=body_of(Several),
    responses={200: said("The answers, in order.", {"answers": [_ANSWER], "warnings": []}),
               **refusals(404, 415)},
)  # fmt: skip
def ask_many(
    name: HoldoutName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Ask queries that do not depend on each other's answers, in order for as long as the budget pays.

    If one of them cannot be asked, none is. Queries that are made of several, or have a price of their own, are asked
    one by one.
    """
    asked = received.document(Several)
    holdout = holdouts.asked_by(name, principal)
    queries = queries_of(asked.queries, holdout, principal, received)
    with warned_of() as warned:
        answers = holdout.ask_many(
            queries,  # type: ignore[arg-type]  # what is made of several is refused there
            guesses=asked.guesses,
            silent=asked.silent,
            reveal=asked.reveal,
        )
    noted(request, "ask many", outcomes=dict(Counter(map(_outcome, answers))))
    return result({"answers": [told(answer) for answer in answers]}, warned)


def _outcome(answer: Any) -> str:
    """Outcome of a query, in a word."""
    told_as = "refused" if answer.refused else "answered"
    return str(getattr(answer, "source", told_as))


@router.get(
    "/transcript", summary="What was asked and answered",
    responses={200: said("The answers, in order.", {"result": "transcript", "rows": []}, media_types={
        "text/csv": {"schema": {"type": "string"}},
        "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
    }), **refusals(404)},
)  # fmt: skip
def transcript(
    name: HoldoutName, principal: Analyst, holdouts: Holdouts,
    form: Annotated[TranscriptForm, Query(alias="format", description="Of the transcript.")] = TranscriptForm.JSON,
) -> Response:  # fmt: skip
    """Every query with its answer, in order: a steward sees all, an analyst what was new of theirs.

    Values are means of row values between 0 and 1, as the ledger holds them.
    """
    entries = holdouts.asked_by(name, principal).transcript()
    if form is TranscriptForm.JSON:
        return JSONResponse(told(entries))
    rows = entries.to_rows()
    content, kind = (
        (_csv(rows), "text/csv") if form is TranscriptForm.CSV else (_parquet(rows), "application/vnd.apache.parquet")
    )
    aside = {"Content-Disposition": f'attachment; filename="{name}.transcript.{form.value}"'}
    return Response(content, media_type=kind, headers=aside)


class AnswerNotFound(EverholdError, LookupError):
    """There is no such answer, or it is not for this principal."""

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
    """The latest answers in the units in which they were asked: a steward sees all, an analyst what was new of theirs.

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
    """One answer by its number, as an event has it."""
    holdout = holdouts.asked_by(name, principal)
    rows = [row for row in holdout.transcript().rows if row["sequence"] == sequence]
    if not rows:
        raise AnswerNotFound(
            f"there is no answer {sequence} for you; expected a 'sequence' of GET .../answers; nothing was charged"
        )
    return result(rows[0])


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """As CSV; a text that a spreadsheet would take for a formula has an apostrophe in front."""
    written, names = io.StringIO(), columns_of(rows) or ["sequence"]
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(map(csv_text, names))
    writer.writerows([[_cell(row.get(name)) for name in names] for row in rows])
    return written.getvalue().encode()


def _cell(value: Any) -> Any:
    return csv_text(value) if isinstance(value, str) else value


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    if not rows:
        raise QueryRejected(
            "nothing was asked yet, and a Parquet file needs a row; expected format=json or format=csv; nothing was "
            "charged"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transcript.parquet"
        write_parquet(path, rows)
        return path.read_bytes()
