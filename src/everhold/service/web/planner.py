"""The planner: how wide answers will be, before anybody owns a row."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from everhold.errors import warnings_collected
from everhold.planning import plan
from everhold.service.api.plans import PLANNING
from everhold.service.visitors import Viewer
from everhold.service.web.holdouts import figure
from everhold.service.web.pictures import Gallery, Sketch
from everhold.service.web.rendering import page

if TYPE_CHECKING:
    from everhold.planning import Plan

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
def planner(
    request: Request,
    _: Viewer,
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
    return page(request, "plan_part.html" if part else "plan.html", **_planned(pictures, wish))


def _planned(pictures: Any, wish: _Wish) -> dict[str, Any]:
    shared: dict[str, Any] = {"wish": wish, "against": _AGAINST, "most": _MOST, "sliders": _sliders(wish)}
    asked = {"rows": wish.rows, "queries": wish.queries, "overfits": wish.overfits, "confidence": wish.confidence}
    try:
        found, warned = _plan(wish._replace(against=""))
    except ValueError as fault:
        return {**shared, "fault": str(fault), "plan": None, "lines": [], "picture": None, "warned": []}
    sketch = Sketch(
        "plan", f"Half-width against {_AGAINST[wish.against]}", _alt(found, wish),
        "Every line is one way to answer; dashed lines are what published statements would promise.",
        lambda: {"against": wish.against, **asked},
    )  # fmt: skip
    at = "/plan/picture?" + "&".join(f"{name}={value}" for name, value in wish._asdict().items())
    lines = sorted((line for line in found.lines if line.radius is not None), key=_width)[:_LINES]
    return {
        **shared, "fault": "", "plan": found, "lines": lines, "picture": figure(pictures, wish, sketch, at),
        "warned": warned,
    }  # fmt: skip


@lru_cache(maxsize=256)
def _plan(wish: _Wish) -> tuple[Plan, list[str]]:
    """A plan, which takes a while, and what it warns of."""
    with PLANNING, warnings_collected() as warned:
        found = plan(rows=wish.rows, queries=wish.queries, overfits=wish.overfits, confidence=wish.confidence)
    return found, [str(warning) for warning in warned]


@router.get("/plan/picture")
def picture(
    request: Request,
    _: Viewer,
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
    return page(request, "figure.html", figure=_planned(pictures, wish)["picture"])


def _width(line: Any) -> float:
    return math.inf if line.expected is None else float(line.expected)


def _alt(found: Plan, wish: _Wish) -> str:
    best = found.best
    told = "" if best.expected is None else f", {best.expected:.3g} with {best.mechanism} if guesses hold"
    return f"Half-width of answers against {_AGAINST[wish.against]}, on logarithmic scales{told} for your plan."


def _sliders(wish: _Wish) -> list[dict[str, Any]]:
    """Numbers, each with where its slider stands: at hundredths of a power of ten."""
    labels = {"rows": "sealed rows", "queries": "adaptive questions", "overfits": "surprises"}
    return [
        {"name": name, "label": label, "value": (value := getattr(wish, name)), "most": 100 * _MOST[name],
         "at": min(round(100 * math.log10(value)), 100 * _MOST[name])}
        for name, label in labels.items()
    ]  # fmt: skip
