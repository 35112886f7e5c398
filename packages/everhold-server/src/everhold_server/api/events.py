"""A holdout's ledger as a feed of events, without values: what happened after a cursor, and what is left now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from everhold.ledger.acts import PROMOTED, UNSEALING
from everhold_server.api.contract import HoldoutName, refusals, result, said
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst, Role

if TYPE_CHECKING:
    from everhold.asking.reports.holdout_ledger import LedgerEvent
    from everhold_server.principals import Principal

router = APIRouter(prefix="/holdouts/{name}", tags=["events"])

_KINDS = {"holdout": "answer.released", PROMOTED: "leader.changed", UNSEALING: "study.unsealed"}
_OTHER = "entry.added"
_EVENT = {"sequence": 7, "event": "answer.released", "at": "2026-01-31T12:00:00.000000+00:00", "query": "5a0c...",
          "analyst": "reports", "gate": None}  # fmt: skip
_COUNT = {"name": "queries", "left": 193, "of": 200, "analyst": "reports"}


@router.get(
    "/events", summary="The events of a ledger",
    responses={200: said("Events after the cursor, the oldest first.", {
        "events": [_EVENT], "next": 7, "remaining": [_COUNT], "closed": False, "warnings": [],
    }), **refusals(404)},
)  # fmt: skip
def events(
    name: HoldoutName, principal: Analyst, holdouts: Holdouts,
    after: Annotated[int, Query(ge=0, le=2**53, description="The `next` of the response before; 0 for the start.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="The most entries that are read.")] = 100,
) -> JSONResponse:  # fmt: skip
    """Events after a cursor, for a program that follows a study: poll with `after` set to the last `next`.

    Stewards see every entry, analysts their own entries and the unsealing. No event has a value: read an
    answer at `/answers/{sequence}`. `event` is `answer.released` (from the sealed rows), `leader.changed`,
    `study.unsealed` or `entry.added`. `remaining` is the budget now: of the whole for stewards, and of allotments.
    """
    steward = principal.role is Role.STEWARD
    if not steward:
        holdouts.asked_by(name, principal)  # an analyst without an allotment follows nothing
    news = holdouts.whole(name, principal).ledger.events(after, limit=limit)
    counts = [count for count in news.counts if steward or count.analyst == principal.name]
    return result(
        {
            "events": [_event(each) for each in news.events if steward or _is_for(each, principal)],
            "next": news.sequence,
            "remaining": [{"name": c.name, "left": c.left, "of": c.whole, "analyst": c.analyst} for c in counts],
            "closed": news.closed,
        }
    )


def _is_for(each: LedgerEvent, principal: Principal) -> bool:
    return each.analyst == principal.name or each.source == UNSEALING


def _event(each: LedgerEvent) -> dict[str, Any]:
    return {
        "sequence": each.sequence,
        "event": _KINDS.get(each.source, _OTHER),
        "at": each.at,
        "query": each.query,
        "analyst": each.analyst,
        "gate": each.gate,
    }
