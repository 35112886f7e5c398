"""The planner: how wide answers will be, before anybody owns a row."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from everhold.service.planners import Planner, Planners
from everhold.service.visitors import Viewer
from everhold.service.web.holdouts import figure
from everhold.service.web.pictures import Gallery, Sketch
from everhold.service.web.rendering import page

__all__ = ["router"]

router = APIRouter()

_AGAINST = {"queries": "questions", "rows": "sealed rows", "values": "true values"}
_LINES = 6
_MOST = {"rows": 7, "queries": 6, "overfits": 3}  # powers of ten


class _Wish(NamedTuple):
    rows: int
    queries: int
    overfits: int
    confidence: float
    against: str


@router.get("/plan")
async def planner(
    request: Request,
    _: Viewer,
    planners: Planner,
    pictures: Gallery,
    rows: Annotated[int, Query(ge=1, le=10**9)] = 20_000,
    queries: Annotated[int, Query(ge=1, le=10**7)] = 1_000,
    overfits: Annotated[int, Query(ge=1, le=10**6)] = 10,
    confidence: Annotated[float, Query(gt=0, lt=100)] = 95.0,
    against: str = "queries",
) -> Response:
    """The plan for a wish; the part below the sliders alone where they are moved."""
    against = against if against in _AGAINST else "queries"
    wish = _Wish(rows, queries, min(overfits, queries), round(confidence / 100.0, 6), against)
    part = request.headers.get("hx-request") == "true"
    return page(request, "plan_part.html" if part else "plan.html", **await _planned(request, planners, pictures, wish))


async def _planned(request: Request, planners: Planners, pictures: Any, wish: _Wish) -> dict[str, Any]:
    shared: dict[str, Any] = {"wish": wish, "against": _AGAINST, "most": _MOST, "sliders": _sliders(wish)}
    asked = {"rows": wish.rows, "queries": wish.queries, "overfits": wish.overfits, "confidence": wish.confidence}
    try:
        found = await planners.plan(request, asked)
    except ValueError as fault:
        return {**shared, "fault": str(fault), "plan": None, "lines": [], "picture": None, "warned": []}
    notes, best = found["notes"], found["best"]
    every = [{**line, "note": notes[line["mechanism"]]} for line in found["plan"]["lines"]]
    recommended = next(line for line in every if line["mechanism"] == best)
    sketch = Sketch(
        "plan", f"Half-width against {_AGAINST[wish.against]}", _alt(recommended, wish),
        "Every line is one way to answer; dashed lines are what published statements would promise.",
        lambda: {"against": wish.against, **asked},
    )  # fmt: skip
    at = "/plan/picture?" + "&".join(f"{name}={value}" for name, value in wish._asdict().items())
    lines = sorted((line for line in every if line["radius"] is not None), key=_width)[:_LINES]
    return {
        **shared, "fault": "", "plan": found, "lines": lines, "picture": figure(pictures, wish, sketch, at),
        "warned": found["warnings"],
    }  # fmt: skip


@router.get("/plan/picture")
async def picture(
    request: Request,
    _: Viewer,
    planners: Planner,
    pictures: Gallery,
    rows: Annotated[int, Query(ge=1, le=10**9)],
    queries: Annotated[int, Query(ge=1, le=10**7)],
    overfits: Annotated[int, Query(ge=1, le=10**6)],
    confidence: Annotated[float, Query(gt=0, lt=1)],
    against: str,
) -> Response:
    """The picture alone, for the page that waits for it."""
    against = against if against in _AGAINST else "queries"
    wish = _Wish(rows, queries, min(overfits, queries), confidence, against)
    return page(request, "figure.html", figure=(await _planned(request, planners, pictures, wish))["picture"])


def _width(line: dict[str, Any]) -> float:
    return math.inf if line["expected"] is None else float(line["expected"])


def _alt(best: dict[str, Any], wish: _Wish) -> str:
    expected = best["expected"]
    told = "" if expected is None else f", {expected:.3g} with {best['mechanism']} if guesses hold"
    return f"Half-width of answers against {_AGAINST[wish.against]}, on logarithmic scales{told} for your plan."


def _sliders(wish: _Wish) -> list[dict[str, Any]]:
    """Numbers, each with where its slider stands: at hundredths of a power of ten."""
    labels = {"rows": "sealed rows", "queries": "adaptive questions", "overfits": "surprises"}
    return [
        {"name": name, "label": label, "value": (value := getattr(wish, name)), "most": 100 * _MOST[name],
         "at": min(round(100 * math.log10(value)), 100 * _MOST[name])}
        for name, label in labels.items()
    ]  # fmt: skip
