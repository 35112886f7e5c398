"""Allotments over HTTP: which analyst may spend how much of a holdout's budget."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from everhold_server.api.contract import AnalystName, HoldoutName, Strict, json_of, refusals, result, said, warned_of
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Steward
from everhold_server.uploads import document_of

router = APIRouter(prefix="/holdouts/{name}/allotments", tags=["allotments"])

_PART = {"result": "allotment", "analyst": "reports", "asked": 0, "queries": 200, "charged": 0, "charges": 5}


class Limits(Strict):
    """Limits of an analyst's spending."""

    queries: int = Field(description="Most new queries that may be answered.", ge=0, examples=[200])
    charges: int | None = Field(
        None, ge=0, examples=[5],
        description="Most that may be charged: credits, surprises, otherwise answers; by default what so many "
        "queries can cost.",
    )  # fmt: skip


@router.get(
    "", summary="What analysts may spend",
    responses={200: said("The parts of all analysts.", {
        "result": "allotments", "parts": [_PART], "not_allotted": {"queries": 800, "surprises": 5}, "acts": [],
        "warnings": [],
    }), **refusals(404)},
)  # fmt: skip
def allotments(name: HoldoutName, principal: Steward, holdouts: Holdouts) -> JSONResponse:
    """Allotments of analysts, their spending, and the acts by which the steward set them."""
    return result(holdouts.whole(name, principal).allotments())


@router.put(
    "/{analyst}", summary="Let an analyst spend a part", openapi_extra=json_of(Limits),
    responses={200: said("The analyst's part.", {**_PART, "warnings": []}), **refusals(404, 415)},
)  # fmt: skip
def allot(
    name: HoldoutName, analyst: AnalystName, request: Request, principal: Steward, holdouts: Holdouts,
    limits: Annotated[Limits, Depends(document_of(Limits))],
) -> JSONResponse:  # fmt: skip
    """Let an analyst spend a part of the budget, and no more. The limits replace earlier ones of the same analyst."""
    with warned_of() as warned:
        part = holdouts.whole(name, principal).allot(analyst, queries=limits.queries, charges=limits.charges)
    noted(request, "allot", analyst=analyst, queries=part.queries, charges=part.charges)
    return result(part, warned)
