"""Asking over HTTP: queries of a request, and what was asked before.

An answer that is stored is free for everybody who may ask, also if somebody else has paid for it: there is one ledger
and one promise, which holds whoever knows which answers, so a second copy of an answer weakens nothing. Whoever asks
the same learns only that it was asked before, and not by whom. What others have asked is listed for the steward alone.
"""

from __future__ import annotations

import csv
import io
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi import Path as PathParameter
from fastapi.responses import JSONResponse

from everhold.display import columns_of, csv_text, write_parquet
from everhold.errors import EverholdError, QueryRejected
from everhold.queries import KINDS, Form
from everhold_server.api.contract import (
    HoldoutName,
    arguments_checked,
    check_predictions_allowed,
    refusals,
    result,
    said,
)
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst
from everhold_server.wire.answers import told
from everhold_server.wire.reading import query_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.holdout import Holdout
    from everhold.queries.query import Query as AnyQuery
    from everhold_server.principals import Principal
    from everhold_server.uploads import RequestContent

router = APIRouter(prefix="/holdouts/{name}", tags=["asking"])

MOST_QUOTED, MOST_ASKED = 100_000, 400_000  # characters of all expressions together; reading one takes 30 us
_COUNTED_FOR_ONE = 20  # characters more for each of them
_PREDICTED = {
    kind.name: [name for name in ("of", "training_predictions") if name == "of" or name in kind.details]
    for kind in KINDS if kind.form is Form.PREDICTIONS
}  # fmt: skip
_ROW = {
    "sequence": 7, "asked_at": "2026-01-31T12:00:00.000000+00:00", "query": "5a0c...", "asked": "mean of delay > 15",
    "value": 0.2381, "low": 0.22, "high": 0.2566, "source": "holdout", "charged": 1,
}  # fmt: skip


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
    written: Sequence[Any], holdout: Holdout, principal: Principal, received: RequestContent, *, most: int
) -> list[AnyQuery[Any]]:
    """Queries of a request, checked; the files beside them are their predictions."""
    _check_predictions(written, holdout, principal)
    _check_expressions(written, most)
    tables = received.tables(holdout.schema)
    with arguments_checked():
        return [query_from(one, holdout.schema, tables) for one in written]


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
