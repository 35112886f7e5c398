"""The planner: how wide answers will be, before anybody owns a row."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from everhold_server.planners import Planner, Planners
from everhold_server.principals import Viewer
from everhold_server.web.rendering import page

__all__ = ["router"]

router = APIRouter()

_LINES = 6
_MOST = {"rows": 7, "queries": 6, "overfits": 3}  # powers of ten


class _Wish(NamedTuple):
    rows: int
    queries: int
    overfits: int
    confidence: float


@router.get("/plan")
async def planner(
    request: Request,
    _: Viewer,
    planners: Planner,
    rows: Annotated[int, Query(ge=1, le=10**9)] = 20_000,
    queries: Annotated[int, Query(ge=1, le=10**7)] = 1_000,
    overfits: Annotated[int, Query(ge=1, le=10**6)] = 10,
    confidence: Annotated[float, Query(gt=0, lt=100)] = 95.0,
) -> Response:
    """The plan for a wish; the part below the sliders alone where they are moved."""
    wish = _Wish(rows, queries, min(overfits, queries), round(confidence / 100.0, 6))
    part = request.headers.get("hx-request") == "true"
    return page(request, "plan_part.html" if part else "plan.html", **await _planned(request, planners, wish))


async def _planned(request: Request, planners: Planners, wish: _Wish) -> dict[str, Any]:
    shared: dict[str, Any] = {"wish": wish, "most": _MOST, "sliders": _sliders(wish)}
    asked = {"rows": wish.rows, "queries": wish.queries, "overfits": wish.overfits, "confidence": wish.confidence}
    try:
        found = await planners.plan(request, asked)
    except ValueError as fault:
        return {**shared, "fault": str(fault), "plan": None, "lines": [], "warned": []}
    notes = found["notes"]
    every = [{**line, "note": notes[line["mechanism"]]} for line in found["plan"]["lines"]]
    lines = sorted((line for line in every if line["radius"] is not None), key=_width)[:_LINES]
    return {
        **shared, "fault": "", "plan": found, "lines": lines, "warned": found["warnings"],
    }  # fmt: skip


def _width(line: dict[str, Any]) -> float:
    return math.inf if line["expected"] is None else float(line["expected"])


def _sliders(wish: _Wish) -> list[dict[str, Any]]:
    """Numbers, each with where its slider stands: at hundredths of a power of ten."""
    labels = {"rows": "sealed rows", "queries": "adaptive questions", "overfits": "surprises"}
    return [
        {"name": name, "label": label, "value": (value := getattr(wish, name)), "most": 100 * _MOST[name],
         "at": min(round(100 * math.log10(value)), 100 * _MOST[name])}
        for name, label in labels.items()
    ]  # fmt: skip
