"""Competitions over HTTP: submit predictions, check them first, choose the final ones, and read the leaderboard.

A sender hands in for the team of their own name, which their token proves; so no team can spend another's
submissions, or replace its final one. The steward may hand in for any team.
"""

from __future__ import annotations

import math
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold_server.api.contract import (
    HoldoutName,
    Predictions,
    Strict,
    body_of,
    refusals,
    result,
    said,
    warned_of,
)
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst, Forbidden, Role, Viewer
from everhold_server.uploads import Brought
from everhold_server.wire.predictions import FILE, predictions_from

if TYPE_CHECKING:
    from everhold.values.base import Schema
    from everhold_server.open_holdouts import OpenHoldouts
    from everhold_server.principals import Principal
    from everhold_server.uploads import RequestContent

router = APIRouter(prefix="/holdouts/{name}", tags=["competitions"])

_PREDICTIONS, _TRAINING = "predictions", "training"
_FILES = {
    _PREDICTIONS: "Row ids and predictions: CSV, TSV, Parquet or Arrow, told by its content; in any order.",
    _TRAINING: "The same model's predictions for the training rows, if there are some.",
}
_TEXT = {"type": "string", "maxLength": 1_000}
_FIELDS = {
    "team": {**_TEXT, "description": "In place of the JSON document."},
    "guess": {**_TEXT, "description": "Likewise, a number."},
    "column": {**_TEXT, "description": "Likewise: the column of the predictions, where the file has several."},
}
_OF_EVERY_FORM = {"", "request", "csrf", "act"}  # the document, and what pages add
_RECEIVED = {
    "result": "submission",
    "team": "owls",
    "feedback": "none",
    "number": 1,
    "left": 19,
    "final": True,
    "repeated": False,
    "leads": None,
    "answer": None,
    "refused": False,
    "predictions": "9f1c...",
    "warnings": [],
}
_LINE = {
    "sequence": 7, "received_at": "2026-01-31T12:00:00.000000+00:00", "team": "owls", "number": 1,
    "predictions": "9f1c...", "final": True,
}  # fmt: skip


class HandedIn(Strict):
    """Predictions of a team."""

    predictions: Annotated[Predictions, Field(default=None)]
    team: str | None = Field(None, description="Your own name, for an analyst; that is the default.", max_length=1_000)
    guess: float | None = Field(
        None, description="Where scores are told: your own guess. A first submission needs it, or `training`."
    )
    training: Annotated[Predictions, Field(default=None)]


class FinalChoice(Strict):
    """One of a team's submissions."""

    number: int = Field(description="Of the submission, from 1, in the order of the team's own.", ge=1)
    team: str | None = Field(None, description="Your own name, for an analyst; that is the default.", max_length=1_000)


@router.get(
    "/submissions",
    summary="Submissions so far",
    responses={
        200: said("In the order in which they were received.", {"submissions": [_LINE], "warnings": []}),
        **refusals(404),
    },
)
def submissions(name: HoldoutName, principal: Analyst, holdouts: Holdouts) -> JSONResponse:
    """Submissions of your team; a steward sees those of all teams. Free."""
    return result({"submissions": submissions_of(name, principal, holdouts)})


def submissions_of(name: str, principal: Principal, holdouts: OpenHoldouts) -> list[dict[str, Any]]:
    """Submissions that a principal may see."""
    rows: list[dict[str, Any]] = holdouts.whole(name, principal).competition.submissions()
    return [row for row in rows if principal.role is Role.STEWARD or row["team"] == principal.name]


@router.post(
    "/submissions/final",
    summary="Choose the final submission",
    openapi_extra=body_of(FinalChoice),
    responses={
        200: said("The team's submissions.", {"submissions": [_LINE], "warnings": []}),
        **refusals(404, 415),
    },
)
def choose(
    name: HoldoutName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Make an earlier submission of your team its final one, until the team submits again. Free."""
    requested = received.document(FinalChoice)
    choose_final(request, (name, principal), holdouts, requested.team, requested.number)
    return result({"submissions": submissions_of(name, principal, holdouts)})


def choose_final(
    request: Request, asked_by: tuple[str, Principal], holdouts: OpenHoldouts, team: str | None, number: int
) -> None:
    """Make a submission the final one of its team.

    Raises:
        Forbidden: If it is another's team. Nothing was changed.
        QueryRejected: If there is no such submission, or the competition is over. Nothing was changed.
    """
    name, principal = asked_by
    team = _own_team(team, principal)
    holdouts.whole(name, principal).competition.choose(team=team, number=number)
    noted(request, "choose a submission", team=team, number=number)


@router.post(
    "/submissions",
    summary="Hand in predictions",
    openapi_extra=body_of(HandedIn, files=_FILES, fields=_FIELDS),
    responses={
        200: said("What the host chose that a submission is told.", _RECEIVED),
        **refusals(404, 415),
    },
)
def submit(
    name: HoldoutName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Hand in a team's predictions; they are checked before anything is received or charged.

    A team's last submission is final. The same predictions again, right after each other, are received once. In a form
    the part `predictions` is the file, and `team`, `guess` and `column` may be plain fields.
    """
    with warned_of() as warned:
        handed_in = submission_of(name, principal, holdouts, received)
        told = holdouts.whole(name, principal).competition.submit(**handed_in)
    noted(request, "submit", team=told.team, number=told.number)
    return result(told, warned)


@router.post(
    "/submissions/check",
    summary="Try whether predictions would be received",
    openapi_extra=body_of(HandedIn, files=_FILES, fields=_FIELDS),
    responses={
        200: said(
            "What the file holds.",
            {
                "result": "format_report",
                "rows": 20_000,
                "joined_by": "flight",
                "metric": "accuracy",
                "values": {"0": 15_000, "1": 5_000},
                "team": "owls",
                "left": 20,
                "warnings": [],
            },
        ),
        **refusals(404, 415),
    },
)
def check(name: HoldoutName, principal: Analyst, holdouts: Holdouts, received: Brought) -> JSONResponse:
    """True if predictions would be received; nothing is received, and no label is looked at."""
    with warned_of() as warned:
        handed_in = submission_of(name, principal, holdouts, received)
        report = holdouts.whole(name, principal).competition.check(handed_in["predictions"], team=handed_in["team"])
    return result(report, warned)


def submission_of(name: str, principal: Principal, holdouts: OpenHoldouts, received: RequestContent) -> dict[str, Any]:
    """Submission in a request, as `holdout.competition.submit` takes it.

    Raises:
        Forbidden: If it is for another's team.
        QueryRejected: If a part of the form is none of a submission's, the guess is no number, or the predictions
            cannot be read.
    """
    handed_in, schema = received.document(HandedIn), holdouts.whole(name, principal).schema
    _check_parts(received, handed_in)
    return {
        "team": _own_team(handed_in.team or received.text("team"), principal),
        "guess": _guess(received.text("guess")) if handed_in.guess is None else handed_in.guess,
        "predictions": _predictions(handed_in.predictions, _PREDICTIONS, schema, received),
        "training": _predictions(handed_in.training, _TRAINING, schema, received),
    }


def _own_team(team: str | None, principal: Principal) -> str:
    """The sender's team; a steward may name any.

    Raises:
        Forbidden: If an analyst names another one.
    """
    team = team or principal.name
    if principal.role is not Role.STEWARD and team != principal.name:
        raise Forbidden(
            f"you hand in as {principal.name!r}, and not for another team; expected your own name, or none; nothing "
            "was received or charged"
        )
    return team


def _predictions(written: Any, part: str, schema: Schema, received: RequestContent) -> Any:
    """Predictions that are written, or a file in the part of that name."""
    if written is None and part in received.files:
        written = {"file": part} | ({} if (column := received.text("column")) is None else {"column": column})
    if written is None:
        if part == _TRAINING:
            return None
        raise QueryRejected(
            "there are no predictions; expected a file in the part 'predictions', or predictions in the document; "
            "nothing was received or charged"
        )
    return predictions_from(written, schema, received.tables(schema))


def _check_parts(received: RequestContent, handed_in: HandedIn) -> None:
    """Refuse a part that would not be read, such as a misspelled one."""
    written = (handed_in.predictions, handed_in.training)
    named = {part[FILE] for part in written if isinstance(part, dict) and isinstance(part.get(FILE), str)}
    for given, known in ((received.files, {*_FILES, *named}), (received.texts, {*_FIELDS})):
        for name in sorted({*given} - known - _OF_EVERY_FORM):
            near = get_close_matches(name, sorted(known), n=1)
            remedy = f"did you mean {near[0]!r}" if near else f"expected {', '.join(sorted(known))}"
            raise QueryRejected(
                f"the form has the {'file' if given is received.files else 'field'} {name!r}, which a submission does "
                f"not read; {remedy}; nothing was received or charged"
            )


def _guess(text: str | None) -> float | None:
    if not text:
        return None
    with suppress(ValueError):
        if math.isfinite(guess := float(text)):
            return guess
    raise QueryRejected(
        f"the guess is {brief(text)}; expected a number, such as 0.8, or no guess; nothing was received or charged"
    )


@router.get(
    "/leaderboard",
    summary="Where the teams stand",
    responses={
        200: said(
            "The teams, the best first.",
            {
                "result": "leaderboard",
                "holdout": "contest",
                "metric": "accuracy",
                "final": True,
                "standings": [{"team": "owls", "score": 0.81, "low": 0.79, "high": 0.83, "rank": 1, "submissions": 3}],
                "warnings": [],
            },
        ),
        **refusals(404),
    },
)
def leaderboard(name: HoldoutName, principal: Viewer, holdouts: Holdouts) -> JSONResponse:
    """Places of the teams of a competition. Free.

    A team's rank is one more than the number of teams that are proved to be better; teams that the rows cannot tell
    apart share a place.
    """
    board = holdouts.whole(name, principal).competition.leaderboard()
    return result(board)
