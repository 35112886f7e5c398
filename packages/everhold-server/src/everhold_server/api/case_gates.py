"""Gates about cases over HTTP: a steward opens one, analysts send results, all at once or as cases are handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, WithJsonSchema

from everhold.errors import QueryRejected
from everhold_server.api.contract import (
    NAME,
    GateName,
    HoldoutName,
    Plain,
    Strict,
    body_of,
    gate_at,
    refusals,
    result,
    said,
    warned_of,
)
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst, Steward
from everhold_server.uploads import Brought
from everhold_server.wire.case_results import results_from

if TYPE_CHECKING:
    from everhold.gates.cases.open_challenge import OpenChallenge
    from everhold.gates.gate import Gate
    from everhold_server.principals import Principal

router = APIRouter(prefix="/holdouts/{name}", tags=["gates"])

_RESULTS = (
    "An object from case id to its runs: a list of objects of metrics, null where a run crashed. Or a list of pairs of "
    "an id and its runs."
)
_EXAMPLE = {"t1": [{"accuracy": 1, "cost": 0.2}], "t2": [{"accuracy": 0, "cost": 0.3}]}
_VERDICT = {
    "result": "verdict", "promoted": True, "charged": 1, "repeated": False, "champion": "7b11...", "challenges": 13,
    "promotions": 3, "remaining": {"queries": 180, "surprises": 3}, "warnings": [],
}  # fmt: skip
_CASES = {"cases": ["t7", "t2"], "verdict": None, "warnings": []}
_REFUSED = refusals(404, 415)

_RUN = {"anyOf": [{"type": "object"}, {"type": ["number", "string", "boolean", "null"]}]}
_RUNS = {"anyOf": [{"type": "array", "minItems": 1, "items": _RUN}, _RUN]}
_PAIR = {
    "type": "array", "prefixItems": [{"type": ["string", "integer"]}, _RUNS], "minItems": 2, "maxItems": 2,
}  # fmt: skip
_FORMS: list[dict[str, Any]] = [
    {"type": "object", "minProperties": 1, "additionalProperties": _RUNS},
    {"type": "array", "minItems": 1, "items": _PAIR},
]
Results = Annotated[Plain, WithJsonSchema({"anyOf": _FORMS}), Field(description=_RESULTS, examples=[_EXAMPLE])]
NewResults = Annotated[
    Plain, WithJsonSchema({"anyOf": [*_FORMS, {"type": "null"}]}),
    Field(default=None, description=f"New runs in place of the stored ones. {_RESULTS}"),
]  # fmt: skip
Challenger = Annotated[
    str, Field(description="Name of the challenger, such as a commit.", min_length=1, max_length=100, pattern=NAME)
]
Ends = Annotated[list[float], Field(min_length=2, max_length=2)]


class OpenedCaseGate(Strict):
    """A gate about cases that is opened with the results of its first champion."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["better"]}, {"required": ["any_of"]}]})

    champion: Results
    name: str = Field("gate", description="The gate's name.", min_length=1, max_length=100, pattern=NAME)
    better: str | None = Field(None, description="The metric that has to get better.")
    any_of: list[str] | None = Field(None, description="In place of it: metrics of which any one has to.")
    not_worse: dict[str, float] = Field(default_factory=dict, description="Guards: the slack of each metric.")
    at_most: dict[str, float] = Field(default_factory=dict, description="Guards against numbers, also of a ratio.")
    at_least: dict[str, float] = Field(default_factory=dict, description="The same, from below.")
    margin: float = Field(0.0, description="A challenger has to be better by more than this.")
    units: Literal["cases", "runs"] = Field("cases", description="New cases, or new runs of these cases.")
    ranges: dict[str, Ends] = Field(default_factory=dict, description="Range of each metric; 0 to 1 if none.")
    lower: list[str] | None = Field(None, description="Metrics of which less is better.")
    challenges: int | None = Field(None, description="Most challenges; by default as many as the budget pays.")
    baseline: NewResults


class ReportedResults(Strict):
    """Results of an open challenge."""

    challenger: Challenger
    results: Results
    champion: NewResults
    baseline: NewResults


class SentResults(ReportedResults):
    """Results of a challenger."""

    challenger: Challenger | None = None  # type: ignore[assignment]


class NamedChallenge(Strict):
    """A challenge by the name of its challenger."""

    challenger: Challenger
    batch: int | None = Field(None, description="Cases to hand out at a time.")
    futility: bool = Field(False, description="Also stop where nothing will hardly be proved, for a surprise.")


class MissingResults(Strict):
    """Results that the champion does not have yet."""

    results: Results
    baseline: NewResults


@router.post(
    "/case-gates", summary="Open a gate about cases", openapi_extra=body_of(OpenedCaseGate),
    responses={200: said("The gate, also if it was open already.", {"gate": "main", "cases": 300}), **_REFUSED},
)  # fmt: skip
def open_gate(
    name: HoldoutName, request: Request, principal: Steward, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Open a gate with the results of its first champion; the same again changes nothing."""
    requested = received.document(OpenedCaseGate)
    if requested.better is None and requested.any_of is None:
        raise QueryRejected("No metric is named. Send better, or any_of.")
    with warned_of() as warned:
        gate = holdouts.asked_by(name, principal).gate(
            name=requested.name, better=requested.better, any_of=requested.any_of, not_worse=requested.not_worse,
            margin=requested.margin, units=requested.units, lower=requested.lower, challenges=requested.challenges,
            ranges={metric: _range(metric, ends) for metric, ends in requested.ranges.items()},
            at_most=requested.at_most, at_least=requested.at_least, champion=results_from(requested.champion),
            baseline=_new(requested.baseline),
        )  # fmt: skip
        status = gate.status()
    noted(request, "open a gate", gate=requested.name)
    return result(status, warned)


@router.post(
    "/gates/{gate}/results", summary="Challenge with the results of all cases", openapi_extra=body_of(SentResults),
    responses={200: said("Promoted, kept or refused.", _VERDICT), **_REFUSED},
)  # fmt: skip
def challenge(
    name: HoldoutName, gate: GateName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Compare a challenger with the champion and the baseline.

    Promoted is proved and costs a surprise; kept promises nothing and costs one of the planned queries. Which claim
    failed is never told. The same name against the same champion has the same verdict, for nothing.
    """
    requested = received.document(SentResults)
    with warned_of() as warned:
        verdict = _gate(holdouts, name, principal, gate).challenge(
            results_from(requested.results), challenger=requested.challenger, champion=_new(requested.champion),
            baseline=_new(requested.baseline),
        )  # fmt: skip
    noted(request, "challenge", gate=gate, outcome=verdict.to_dict()["verdict"], query=verdict.query)
    return result(verdict, warned)


@router.post(
    "/gates/{gate}/open", summary="Open a challenge", openapi_extra=body_of(NamedChallenge),
    responses={200: said("The first cases to run.", _CASES), **_REFUSED},
)  # fmt: skip
def open_challenge(
    name: HoldoutName, gate: GateName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Open a challenge that ends as early as is proved; it costs two queries, and a surprise if it is promoted.

    The analyst's allotment pays for all of that now, and gets the surprise back unless it is charged. Only this analyst
    and the steward read the challenge, report for it or withdraw it. Opened again under the same name, it goes on where
    it is. The status of the gate names the one that is open.
    """
    requested = received.document(NamedChallenge)
    with warned_of() as warned:
        opened = _gate(holdouts, name, principal, gate).open(
            requested.challenger, batch=requested.batch, futility=requested.futility
        )
        told = _cases(opened)
    noted(request, "open a challenge", gate=gate)
    return result(told, warned)


@router.get(
    "/gates/{gate}/open", summary="Cases to run next",
    responses={200: said("The same ones until they are reported; none after the end.", _CASES), **refusals(404)},
)  # fmt: skip
def next_cases(
    name: HoldoutName, gate: GateName, principal: Analyst, holdouts: Holdouts,
    challenger: Annotated[
        str, Query(description="Name of the challenger.", min_length=1, max_length=100, pattern=NAME)
    ],
) -> JSONResponse:  # fmt: skip
    """Say which cases of an open challenge to run next. Free."""
    with warned_of() as warned:
        told = _cases(_opened(holdouts, name, principal, gate, challenger))
    return result(told, warned)


@router.post(
    "/gates/{gate}/reports", summary="Report results of an open challenge", openapi_extra=body_of(ReportedResults),
    responses={200: said("Go on, promoted or kept.", {"result": "progress", "reported": 40, "cases": 300}), **_REFUSED},
)  # fmt: skip
def report(
    name: HoldoutName, gate: GateName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Report the results of exactly the cases that were handed out last."""
    requested = received.document(ReportedResults)
    with warned_of() as warned:
        reply = _opened(holdouts, name, principal, gate, requested.challenger).report(
            results_from(requested.results), champion=_new(requested.champion), baseline=_new(requested.baseline)
        )
    told = reply.verdict
    noted(request, "report", gate=gate, outcome="go on" if told is None else told.to_dict()["verdict"])
    return result(reply, warned)


@router.post(
    "/gates/{gate}/withdrawals", summary="Withdraw an open challenge", openapi_extra=body_of(NamedChallenge),
    responses={200: said("Kept.", {**_VERDICT, "promoted": False, "charged": 0}), **_REFUSED},
)  # fmt: skip
def withdraw(
    name: HoldoutName, gate: GateName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """End a challenge; the champion is kept. Its two queries stay spent, and the reserved surprise comes back."""
    requested = received.document(NamedChallenge)
    with warned_of() as warned:
        verdict = _opened(holdouts, name, principal, gate, requested.challenger).withdraw()
    noted(request, "withdraw a challenge", gate=gate)
    return result(verdict, warned)


@router.get(
    "/gates/{gate}/missing", summary="Cases that the champion has no results for",
    responses={200: said("Cases to run before the next challenge.", _CASES), **refusals(404)},
)  # fmt: skip
def cases_left(name: HoldoutName, gate: GateName, principal: Analyst, holdouts: Holdouts) -> JSONResponse:
    """List the cases that a champion has left to run, as it was promoted early or cases were added. Free.

    For the analyst who promoted it, and the steward.
    """
    return result({"cases": _gate(holdouts, name, principal, gate).cases_left()})


@router.post(
    "/gates/{gate}/missing", summary="Add missing results of the champion", openapi_extra=body_of(MissingResults),
    responses={200: said("What is left.", {"cases": [], "warnings": []}), **_REFUSED},
)  # fmt: skip
def complete(
    name: HoldoutName, gate: GateName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Add the champion's results on the cases that are left; a gate answers no challenge before.

    For the analyst who promoted it, and the steward.
    """
    requested = received.document(MissingResults)
    with warned_of() as warned:
        found = _gate(holdouts, name, principal, gate)
        found.complete(results_from(requested.results), baseline=_new(requested.baseline))
        left = found.cases_left()
    noted(request, "complete results", gate=gate)
    return result({"cases": left}, warned)


def _gate(holdouts: Holdouts, name: str, principal: Principal, gate: str) -> Gate:
    found = gate_at(holdouts.asked_by(name, principal), gate)
    if not found.about_cases:
        raise QueryRejected(f"gate {gate!r} is not about cases; expected a candidate at its address /challenges")
    return found  # type: ignore[no-any-return]


def _opened(holdouts: Holdouts, name: str, principal: Principal, gate: str, challenger: str) -> OpenChallenge:
    """A challenge that is open, or was; none is opened here."""
    found = _gate(holdouts, name, principal, gate).find_open(challenger)
    if found is None:
        raise QueryRejected("no such challenge is or was open; expected one to be opened first")
    return found


def _cases(opened: OpenChallenge) -> dict[str, Any]:
    verdict = opened.verdict
    return {"cases": opened.next_cases(), "verdict": None if verdict is None else verdict.to_dict()}


def _new(written: Any) -> Any:
    return None if written is None else results_from(written)


def _range(metric: str, ends: list[float]) -> tuple[float, float]:
    if len(ends) != 2:  # low and high
        raise QueryRejected(
            f"the range of {metric!r} has {len(ends)} numbers; expected [low, high]; nothing was changed"
        )
    return ends[0], ends[1]
