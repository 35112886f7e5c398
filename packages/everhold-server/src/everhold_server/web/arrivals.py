"""Pages about rows that arrive: the timeline of a holdout, the form to append, and one query over time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from everhold.errors import EverholdError
from everhold.operations.arrivals import Append, AskOverTime, ListArrivals
from everhold_server.api.contract import warned_of
from everhold_server.api.holdouts import append_rows, one_more_sealing
from everhold_server.web.pages import ENDINGS, Fields, Form, page, performed, place
from everhold_server.web.views import SAID_OF, AnalystView, StewardView, View, ViewerView
from everhold_server.wire.reading import query_from

if TYPE_CHECKING:
    from everhold.holdout import Holdout
    from everhold.operations.arrivals import Law

router = APIRouter()

_SHOWN = 24
_BY = ("arrival", "day", "month", "year")


@router.get("/holdouts/{name}/arrivals")
def timeline(request: Request, view: ViewerView) -> Response:
    """Return the page with the rows that arrived, and the budget and widths around each arrival."""
    return _timeline(request, view, Fields())


@router.post("/holdouts/{name}/arrivals", dependencies=[Depends(one_more_sealing)])
def append(request: Request, view: StewardView, fields: Form) -> Response:
    """Append the rows of the form to the holdout, and return the next page."""
    try:
        with warned_of():
            asked = Append(until=fields.some("until"))
            append_rows(request, view.holdouts, view.principal, view.name, asked, fields.chosen)
    except EverholdError as fault:
        return _timeline(request, view, fields, fault=fault.told)
    return RedirectResponse(place("holdouts", view.name, "arrivals"), 303)


def _timeline(request: Request, view: View, fields: Fields, *, fault: str = "") -> Response:
    rows = view.whole.perform(ListArrivals())
    shown = rows[-_SHOWN:]
    return page(
        request, "arrivals.html", status=422 if fault else 200, view=view, tab="arrivals", rows=shown[::-1],
        hidden=len(rows) - len(shown), picture=sawtooth(shown), fields=fields, fault=fault, endings=ENDINGS,
    )  # fmt: skip


@router.get("/holdouts/{name}/over-time")
def windows(request: Request, view: AnalystView) -> Response:
    """Return the form for one query about each window of arrivals."""
    return _windows(request, view, Fields())


@router.post("/holdouts/{name}/over-time")
def ask_windows(request: Request, view: AnalystView, fields: Form) -> Response:
    """Ask the query of the form about each window of arrivals. A repeated query has the same answers, and is free."""

    def asked() -> tuple[Holdout, AskOverTime]:
        holdout, by = view.asking(), fields.some("by") or "arrival"
        ends = {end: value for end in ("low", "high") if (value := fields.number(end)) is not None}
        query = query_from({"kind": "mean", "of": fields.text("of"), **ends}, holdout.schema, {})
        law: Law = "one" if fields.ticked("one_law") else "windows"
        return holdout, AskOverTime(query=query, by=by, law=law, guess=fields.number("guess"))  # type: ignore[arg-type]

    found, fault, _ = performed(request, asked)
    return _windows(request, view.anew(), fields, found=found, fault=fault)


def _windows(request: Request, view: View, fields: Fields, *, found: Any = None, fault: str = "") -> Response:
    rows = [] if found is None else found.to_rows()
    return page(
        request, "windows.html", status=422 if fault else 200, view=view, tab="over-time", fields=fields, by=_BY,
        found=found, rows=rows, picture=intervals(rows), fault=fault, said_of=SAID_OF,
        columns=[(name, kind.value) for name, kind in view.whole.schema.asked.items()],
    )  # fmt: skip


_WIDE, _LEFT, _RIGHT = 360.0, 40.0, 350.0
_TOP, _BOTTOM, _BARS = 12.0, 112.0, 160.0  # of the line, and the foot of the bars
_LABELS = 4


def sawtooth(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the coordinates of a chart of half-widths before and after each arrival.

    Returns:
        Coordinates of the chart, or None if there is nothing to draw.
    """
    widths = [value for row in rows for value in (row["within_before"], row["within"]) if value is not None]
    if len(rows) < 2 or not widths:
        return None
    most, across = max(widths), _across(len(rows))
    corners: list[tuple[float, float]] = []
    for at, row in zip(across, rows, strict=True):
        for value in (row["within_before"], row["within"]):
            if value is not None and (at, (height := _height(value, 0.0, most))) not in corners:
                corners.append((at, height))
    asked = [(new["queries"] - old["queries"], new["surprises"] - old["surprises"])
             for old, new in itertools.pairwise(rows)]  # fmt: skip
    tallest = max([queries for queries, _ in asked] + [1])
    step, scale = across[1] - across[0], (_BARS - _BOTTOM - 12.0) / tallest
    bars = [
        {"x": _place(at + 0.15 * step), "width": _place(0.7 * step), "queries": queries, "surprises": surprises,
         **_bar("all", queries * scale), **_bar("told", surprises * scale)}
        for at, (queries, surprises) in zip(across, asked, strict=False)
    ]  # fmt: skip
    return {
        "points": " ".join(f"{_place(x)},{_place(y)}" for x, y in corners), "bars": bars,
        "marks": [_place(at) for at, row in zip(across, rows, strict=True) if row["arrival"]],
        "trees": [_place(at) for at, row in zip(across, rows, strict=True) if row["tree"]],
        "labels": _labels([row["until"] or row["moment"] for row in rows], across),
        "ticks": [(_place(_height(value, 0.0, most)), f"{value:.3g}") for value in (0.0, most / 2, most)],
        "tallest": tallest,
    }  # fmt: skip


def intervals(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the coordinates of a chart with one interval for each window.

    Returns:
        Coordinates of the chart, or None if there is nothing to draw.
    """
    told = [row for row in rows if row["low"] is not None]
    if not told:
        return None
    least, most = min(row["low"] for row in told), max(row["high"] for row in told)
    across = _across(len(told))
    lines = [
        {"x": _place(at), "value": _place(_height(row["value"], least, most)), "source": row["source"],
         "low": _place(_height(row["low"], least, most)), "high": _place(_height(row["high"], least, most))}
        for at, row in zip(across, told, strict=True)
    ]  # fmt: skip
    ticks = [(_place(_height(value, least, most)), f"{value:.3g}") for value in (least, (least + most) / 2, most)]
    return {"lines": lines, "labels": _labels([str(row["window"]) for row in told], across), "ticks": ticks}


def _across(count: int) -> list[float]:
    if count == 1:
        return [(_LEFT + _RIGHT) / 2]
    inner = 14.0
    return [_LEFT + inner + (_RIGHT - _LEFT - 2 * inner) * place / (count - 1) for place in range(count)]


def _height(value: float, least: float, most: float) -> float:
    share = (value - least) / (most - least) if most > least else 0.5
    return _BOTTOM - (_BOTTOM - _TOP) * share


def _bar(name: str, height: float) -> dict[str, str]:
    return {f"{name}_y": _place(_BARS - height), f"{name}_height": _place(height)}


def _labels(texts: Sequence[str], across: Sequence[float]) -> list[tuple[str, str, str]]:
    """Return position, text anchor and text of the axis labels: the first, the last, and some between."""
    every = max(1, -(-(len(texts) - 1) // (_LABELS - 1)))
    chosen = sorted({*range(0, len(texts) - 1, every), len(texts) - 1})
    if len(chosen) > 1 and chosen[-1] - chosen[-2] < every:
        chosen.pop(-2)
    anchors = {0: "start", len(texts) - 1: "end"} if len(texts) > 1 else {}
    return [(_place(across[place]), anchors.get(place, "middle"), texts[place]) for place in chosen]


def _place(value: float) -> str:
    return f"{value:.1f}"
