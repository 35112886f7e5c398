"""Pages about rows that arrive: the timeline of a holdout, the form to append, and one query over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from everhold.errors import EverholdError
from everhold.operations.arrivals import Append, ListArrivals
from everhold_server.api.arrivals import append_rows
from everhold_server.api.contract import HoldoutName, warned_of
from everhold_server.api.holdouts import one_more_sealing
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts, OpenHoldouts
from everhold_server.principals import Analyst, Steward, Viewer
from everhold_server.web.forms import ENDINGS, Fields, Form
from everhold_server.web.pictures import intervals, sawtooth
from everhold_server.web.rendering import page, place
from everhold_server.web.views import SAID_OF, View

if TYPE_CHECKING:
    from everhold.asking.arrivals.over_time import OverTime
    from everhold.operations.arrivals import Law
    from everhold_server.principals import Principal

router = APIRouter()

_SHOWN = 24
_BY = ("arrival", "day", "month", "year")


@router.get("/holdouts/{name}/arrivals")
def timeline(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Viewer) -> Response:
    """Rows that arrived, with the budget and the widths around each arrival."""
    return _timeline(request, holdouts, View.of(holdouts, name, principal), Fields())


@router.post("/holdouts/{name}/arrivals", dependencies=[Depends(one_more_sealing)])
def append(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Steward, fields: Form) -> Response:
    """Append rows."""
    view = View.of(holdouts, name, principal)
    try:
        with warned_of():
            append_rows(request, holdouts, principal, name, Append(until=fields.some("until")), fields.chosen)
    except EverholdError as fault:
        return _timeline(request, holdouts, view, fields, fault=fault.message)
    return RedirectResponse(place("holdouts", name, "arrivals"), 303)


def _timeline(request: Request, holdouts: OpenHoldouts, view: View, fields: Fields, *, fault: str = "") -> Response:
    rows = holdouts.whole(view.name, view.principal).perform(ListArrivals())
    shown = rows[-_SHOWN:]
    return page(
        request, "arrivals.html", status=422 if fault else 200, view=view, tab="arrivals", rows=shown[::-1],
        hidden=len(rows) - len(shown), picture=sawtooth(shown), fields=fields, fault=fault, endings=ENDINGS,
    )  # fmt: skip


@router.get("/holdouts/{name}/over-time")
def windows(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Analyst) -> Response:
    """The form for one query over windows of arrivals."""
    return _windows(request, View.of(holdouts, name, principal), Fields())


@router.post("/holdouts/{name}/over-time")
def over_time(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Analyst, fields: Form) -> Response:
    """Ask it of each window; asked again the answers are the same, and free."""
    try:
        with warned_of():
            found = _asked(holdouts, name, principal, fields)
    except EverholdError as fault:
        return _windows(request, View.of(holdouts, name, principal), fields, fault=fault.message)
    noted(request, "ask over time", windows=len(found))
    return _windows(request, View.of(holdouts, name, principal), fields, found=found)


def _asked(holdouts: OpenHoldouts, name: str, principal: Principal, fields: Fields) -> OverTime:
    from everhold_server.wire.reading import query_from

    asked = holdouts.asked_by(name, principal)
    ends = {end: fields.number(end) for end in ("low", "high")}
    written: dict[str, Any] = {"kind": "mean", "of": fields.text("of"), **ends}
    query = query_from({key: value for key, value in written.items() if value is not None}, asked.schema, {})
    by: Any = fields.some("by") or "arrival"
    law: Law = "one" if fields.ticked("one_law") else "windows"
    return asked.over_time(query, by=by, law=law, guess=fields.number("guess"))


def _windows(
    request: Request, view: View, fields: Fields, *, found: OverTime | None = None, fault: str = ""
) -> Response:
    rows = [] if found is None else found.to_rows()
    return page(
        request, "over_time.html", status=422 if fault else 200, view=view, tab="over-time", fields=fields, by=_BY,
        found=found, rows=rows, picture=intervals(rows), fault=fault, said_of=SAID_OF,
        columns=[(name, kind.value) for name, kind in view.whole.schema.asked.items()],
    )  # fmt: skip
