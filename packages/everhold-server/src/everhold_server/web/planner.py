"""The planner: how wide answers will be, before there are rows."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from everhold.errors import EverholdError
from everhold.families.protocol import from_toml, protocol_from
from everhold.families.study import plan_study
from everhold_server.api.arguments import families_of
from everhold_server.api.contract import warned_of
from everhold_server.planners import Planner
from everhold_server.principals import Viewer
from everhold_server.web.pages import page

router = APIRouter()

_LINES = 6
_MOST = {"rows": 7, "queries": 6, "surprises": 3}  # powers of ten


class _StudyForm(BaseModel):
    rows: int = Field(20_000, ge=1, le=10**9)
    queries: int = Field(1_000, ge=1, le=10**7)
    surprises: int = Field(10, ge=1, le=10**6)
    confidence: float = Field(95.0, ge=1, lt=100)  # in percent

    def asked(self) -> dict[str, Any]:
        """Return the arguments of the planner."""
        surprises, confidence = min(self.surprises, self.queries), round(self.confidence / 100.0, 6)
        return {"rows": self.rows, "queries": self.queries, "surprises": surprises, "confidence": confidence}


@router.get("/plan")
async def planner(request: Request, _: Viewer, planners: Planner, study: Annotated[_StudyForm, Query()]) -> Response:
    """Return the page with a plan, or only the part below the sliders if a slider was moved."""
    asked, fault, found, lines = study.asked(), "", None, list[dict[str, Any]]()
    try:
        found = await planners.plan(request, asked)
    except ValueError as reason:
        fault = str(reason)
    else:
        every = [{**line, "note": found["notes"][line["mechanism"]]} for line in found["plan"]["lines"]]
        known = [line for line in every if line["radius"] is not None]
        lines = sorted(known, key=lambda line: math.inf if line["expected"] is None else line["expected"])[:_LINES]
    part = request.headers.get("hx-request") == "true"
    return page(
        request, "plan_part.html" if part else "plan.html", study=asked, most=_MOST, sliders=_sliders(asked),
        fault=fault, plan=found, lines=lines, warned=[] if found is None else found["warnings"],
    )  # fmt: skip


_EXAMPLE = """\
[families."end points"]
members = 30

[families.carriers]
members = 200

[families.texts]
texts = 40
"""
_MOST_WRITTEN = 4_000


@router.get("/plan/protocol")
def study(
    request: Request, _: Viewer, rows: Annotated[int, Query(ge=1, le=10**9)] = 20_000,
    protocol: Annotated[str, Query(max_length=_MOST_WRITTEN)] = _EXAMPLE,
) -> Response:  # fmt: skip
    """Return the page with the widths of a study protocol in TOML."""
    made, fault = None, ""
    try:
        said = from_toml(protocol)
        families = said.get("families")
        if isinstance(families, dict) and all(isinstance(each, dict) for each in families.values()):
            families_of(families)  # refuses too many of them
        with warned_of():
            made = plan_study(protocol_from(said), rows=rows)
    except (EverholdError, ValueError) as reason:
        fault = reason.told if isinstance(reason, EverholdError) else str(reason)
    return page(
        request, "plan_protocol.html", status=422 if fault else 200, rows=rows, protocol=protocol, fault=fault,
        lines=[] if made is None else made.to_rows(), explanation="" if made is None else made.explain(),
    )  # fmt: skip


def _sliders(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the numbers of the form, each with the place of its slider at hundredths of a power of ten."""
    labels = {"rows": "sealed rows", "queries": "adaptive queries", "surprises": "surprises"}
    return [
        {"name": name, "label": label, "value": (value := asked[name]), "most": 100 * _MOST[name],
         "at": min(round(100 * math.log10(value)), 100 * _MOST[name])}
        for name, label in labels.items()
    ]  # fmt: skip
