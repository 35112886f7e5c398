"""The log of acts, for stewards."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from everhold_server.api.contract import refusals, said
from everhold_server.principals import Steward

router = APIRouter(tags=["people"])


_ACT = {
    "number": 7, "at": "2026-01-31T12:00:00.000000+00:00", "request": "0f4c...", "name": "reports", "token": "5f2c...",
    "act": "ask", "holdout": "flights", "outcome": "guess", "facts": {"status": 200, "query": "5a0c..."},
}  # fmt: skip


@router.get(
    "/audit",
    summary="Who did what",
    responses={200: said("The acts, newest first.", {"acts": [_ACT], "next": None}), **refusals()},
)
def audit(
    request: Request,
    principal: Steward,
    before: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Only acts with a smaller number.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="The most acts.")] = 100,
) -> dict[str, Any]:
    """Audit log: actor, act, time and outcome; newest first. `next` is the value of `before` for the next page."""
    acts = request.app.state.audit.page(principal, before=before, limit=limit)
    return {"acts": acts, "next": acts[-1]["number"] if len(acts) == limit else None}
