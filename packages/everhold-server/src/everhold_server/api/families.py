"""Declared families over HTTP: which there are, and declaring more of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from everhold.errors import QueryRejected
from everhold.families.protocol import family_from
from everhold_server.api.contract import HoldoutName, Plain, Strict, json_of, refusals, result, said, warned_of
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Steward, Viewer
from everhold_server.uploads import document_of

router = APIRouter(prefix="/holdouts/{name}/families", tags=["families"])

_MOST, _MOST_LISTED = 100, 1_000
_FAMILY = {"name": "carriers", "holds": "delay > 15 in 9 subgroups of carrier, origin", "declared": "at creation",
           "bits": 3.2, "within": 0.0118}  # fmt: skip

FAMILIES: dict[str, Any] = {
    "description": "Families by name, each as in a protocol: listed with weights, subgroups with of, or texts with "
    "bits.",
    "examples": [{
        "end points": {"listed": ["late", {"mean": "delay", "low": -60, "high": 180}]},
        "carriers": {"subgroups": ["carrier", "origin"], "of": "delay > 15"},
        "texts": {"texts": 40},
    }],
    "min_length": 1,
    "json_schema_extra": {"additionalProperties": {"type": "object", "anyOf": [
        {"required": ["listed"]}, {"required": ["subgroups", "of"]}, {"required": ["texts"]}, {"required": ["members"]},
    ]}},
}  # fmt: skip
"""Documentation of a field with families."""


class Families(Strict):
    """Families to be declared."""

    families: Annotated[dict[str, dict[str, Plain]], Field(**FAMILIES)]


def families_of(given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Families from plain data, as `everhold.families.protocol.family_from` reads them.

    Raises:
        QueryRejected: If one of them is none, or there are too many. Nothing was changed.
    """
    listed = sum(len(each["listed"]) for each in given.values() if isinstance(each.get("listed"), list))
    if len(given) > _MOST or listed > _MOST_LISTED:
        raise QueryRejected(
            f"{len(given):,} families with {listed:,} listed queries are sent; expected at most {_MOST} and "
            f"{_MOST_LISTED:,}; declare more where the storage is; nothing was changed"
        )
    return {name: family_from(table, what=f"the family {name!r}") for name, table in given.items()}


@router.get(
    "", summary="Declared families",
    responses={200: said("The families of the holdout.", {"families": [_FAMILY], "warnings": []}),
               **refusals(404)},
)  # fmt: skip
def families(name: HoldoutName, principal: Viewer, holdouts: Holdouts) -> JSONResponse:
    """All declared families with the width of their members, which cost nothing. Free.

    `within` is the half-width of a share of rows that takes as many bits as the longest member.
    """
    return result(holdouts.whole(name, principal).declared.families().to_dict())


@router.post(
    "", summary="Declare families", status_code=201, openapi_extra=json_of(Families),
    responses={201: said("All families of the holdout.", {"families": [_FAMILY], "warnings": []}),
               **refusals(404, 415)},
)  # fmt: skip
def declare(
    name: HoldoutName, request: Request, principal: Steward, holdouts: Holdouts,
    requested: Annotated[Families, Depends(document_of(Families))],
) -> JSONResponse:  # fmt: skip
    """Declare families now; each takes one query of the budget, and all are checked before the first does.

    Families that are declared with the holdout have narrower answers: see `declared` when rows are sealed.
    """
    holdout = holdouts.whole(name, principal)
    with warned_of() as warned:
        holdout.declare_all(families_of(requested.families))
    noted(request, "declare", families=list(requested.families))
    return result(holdout.declared.families().to_dict(), warned, status=201)
