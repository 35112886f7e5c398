"""Planning over HTTP: which mechanism, how many rows, how many queries, before there is any data."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from everhold.errors import EverholdWarning
from everhold.families.protocol import SHARE, protocol_from
from everhold.families.study import plan_study
from everhold_server.api.arguments import FAMILIES, families_of
from everhold_server.api.contract import Plain, Strict, arguments_checked, json_of, refusals, result, said, warned_of
from everhold_server.planners import Planner
from everhold_server.principals import Viewer
from everhold_server.uploads import document_of

router = APIRouter(tags=["planning"])

_MOST = 2**40


class PlanSettings(Strict):
    """A study that is planned, as `everhold plan` takes it."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["rows"]}, {"required": ["radius"]}]})

    queries: int = Field(description="Number of adaptive queries.", ge=1, le=_MOST, examples=[1_000])
    rows: int | None = Field(
        None, description="Number of sealed rows. May be left out with a radius.", ge=1, le=_MOST, examples=[50_000]
    )
    surprises: int | None = Field(None, description="Answers that may come from the holdout.", ge=0, le=_MOST)
    confidence: float = Field(0.95, description="Probability that all answers are within the radius.", gt=0, lt=1)
    slack: float = Field(0.0, description="No budget is spent on guesses closer than this share of the radius.")
    radius: float | None = Field(
        None, gt=0, description="A requested half-width: rows and queries for it are told, too."
    )
    training_rows: int | None = Field(None, description="Rows that guesses are made from.", ge=0, le=_MOST)
    at: float = Field(0.9, description="True value of a yes-or-no query at which mechanisms are compared.", ge=0, le=1)
    disagreement: float | None = Field(
        None, description="Share of the rows on which two models of a gate differ.", ge=0, le=1
    )
    dependence: Annotated[
        dict[str, Plain] | None,
        Field(description="How rows depend on each other.", examples=[{"kind": "groups", "column": None, "sizes": 5}]),
    ] = None


class StudySettings(Strict):
    """Fields of a request that plans a study protocol."""

    families: Annotated[dict[str, dict[str, Plain]], Field(**FAMILIES)]
    rows: int = Field(description="Number of sealed rows.", ge=1, le=_MOST, examples=[20_000])
    share: float = Field(SHARE, description="Part of the probability of failure that declared families have.")
    queries: int | None = Field(None, description="Planned queries that are not declared.", ge=0, le=_MOST)
    surprises: int | None = Field(None, description="Planned surprises among them.", ge=0, le=_MOST)
    training_rows: int | None = Field(None, description="Rows that guesses are made from (0 for none).", ge=0, le=_MOST)
    confidence: float = Field(0.95, description="Probability that all intervals hold at once.", gt=0, lt=1)


@router.post(
    "/plan/protocol", summary="Plan a study protocol", openapi_extra=json_of(StudySettings),
    responses={200: said("Half-widths of each family and of other queries.", {
        "rows": 20_000, "training_rows": 20_000, "confidence": 0.95, "share": 0.5,
        "lines": [{"queries": "end points", "members": 30, "bits": 4.9, "within_at_0.5": 0.0129,
                   "within_at_0.9": 0.0077}],
        "explanation": "With 20,000 sealed rows ...", "warnings": [],
    }), **refusals(415)},
)  # fmt: skip
def plan_protocol(
    principal: Viewer, study: Annotated[StudySettings, Depends(document_of(StudySettings))]
) -> JSONResponse:
    """Widths of declared families and of all other queries, before there are rows.

    A family may say the number of its members alone: `{"members": 30}`.
    """
    families_of(study.families)  # refuses too many of them
    names = ("families", "share", "queries", "surprises")
    given = {name: value for name in names if (value := getattr(study, name)) is not None}
    with arguments_checked(), warned_of() as warned:
        made = plan_study(
            protocol_from(given), rows=study.rows, confidence=study.confidence, training_rows=study.training_rows
        )
    return result({**made.to_dict(), "explanation": made.explain()}, warned)


@router.post(
    "/plan", summary="Plan a study", openapi_extra=json_of(PlanSettings),
    responses={200: said("All mechanisms, each at its best.", {
        "rows": 50_000, "queries": 1_000, "surprises": 10, "confidence": 0.95,
        "lines": [{"mechanism": "guess_and_check", "statement": "S8", "radius": 0.046, "expected": 0.013}],
        "explanation": "guess_and_check is recommended ...", "warnings": [],
    }), **refusals(415)},
)  # fmt: skip
async def plan(
    request: Request,
    principal: Viewer,
    planner: Planner,
    study: Annotated[PlanSettings, Depends(document_of(PlanSettings))],
) -> JSONResponse:
    """Compare all mechanisms, each at its best, for a study that is planned; there are no rows yet.

    A radius is the half-width that holds for all answers at once in the worst case. Answers whose guesses hold are
    narrower.

    A plan gets ten seconds of processor time, and a network 1,000 nodes of at most 32 states; plan larger ones with
    `everhold plan` on your own machine. The work ends if the client disconnects.
    """
    with arguments_checked():
        made = await planner.plan(request, study.model_dump())
    told = {**made["plan"], "explanation": made["explanation"]}
    return result(told, [EverholdWarning(text) for text in made["warnings"]])
