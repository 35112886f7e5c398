"""The end of a study over HTTP: what would lose its promise, and then everything is told."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from everhold.errors import EverholdWarning, QueryRejected
from everhold_server.api.contract import (
    HoldoutName,
    Strict,
    json_of,
    refusals,
    result,
    said,
    warned_of,
)
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Steward
from everhold_server.uploads import document_of

router = APIRouter(prefix="/holdouts/{name}/unseal", tags=["unsealing"])


class Confirmed(Strict):
    """The name once more: it cannot be undone."""

    confirm: str = Field(description="The holdout's name.", max_length=64, examples=["flights"])


@router.get(
    "", summary="What would lose its promise",
    responses={200: said("In sentences; none if nothing.", {"affected_holdouts": [], "warnings": []}),
               **refusals(404)},
)  # fmt: skip
def losing(name: HoldoutName, principal: Steward, holdouts: Holdouts) -> JSONResponse:
    """Losses of other holdouts of this storage if this one were unsealed; nothing is told or changed."""
    texts = holdouts.whole(name, principal).affected_holdouts()
    return result({"affected_holdouts": [holdouts.shown_to(principal, text) for text in texts]})


@router.post(
    "", summary="End the study and tell everything", openapi_extra=json_of(Confirmed),
    responses={200: said("Every sealed number, with its interval.", {"result": "unsealed", "rows": [], "warnings": []}),
               **refusals(404, 415)},
)  # fmt: skip
def unseal(
    name: HoldoutName, request: Request, principal: Steward, holdouts: Holdouts,
    confirmed: Annotated[Confirmed, Depends(document_of(Confirmed))],
) -> JSONResponse:  # fmt: skip
    """Tell what the sealed rows say to every query that was asked, and answer no new query ever after.

    It cannot be undone; unsealing again tells the same.
    """
    holdout = holdouts.whole(name, principal)
    if confirmed.confirm != name:
        raise QueryRejected(
            f"'confirm' is not the holdout's name; expected {name!r}, because unsealing cannot be undone; nothing was "
            "told or changed"
        )
    with warned_of() as warned:
        unsealed = holdout.unseal()
    noted(request, "unseal")
    return result(unsealed, [EverholdWarning(holdouts.shown_to(principal, str(warning))) for warning in warned])
