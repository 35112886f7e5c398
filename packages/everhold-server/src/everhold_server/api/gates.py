"""Gates over HTTP: a champion, and challengers of which only a proved improvement is promoted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from everhold.errors import QueryRejected
from everhold.gates.metrics import named_metric, why_no_gain
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.risk import risk
from everhold.queries.metrics.scores import metric_of
from everhold_server.api.contract import (
    NAME,
    GateName,
    HoldoutName,
    Predictions,
    Strict,
    body_of,
    check_predictions_allowed,
    gate_at,
    refusals,
    result,
    said,
    warned_of,
)
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst, Role, Steward, Viewer
from everhold_server.uploads import Brought
from everhold_server.wire.answers import told
from everhold_server.wire.predictions import predictions_from

if TYPE_CHECKING:
    from everhold.values.base import Schema
    from everhold_server.principals import Principal
    from everhold_server.uploads import RequestContent

router = APIRouter(prefix="/holdouts/{name}/gates", tags=["gates"])

_OF_RISK, _OF_SCORE = {"loss", "low", "high"}, {"name", "low", "high", "clip"}
_GATE = {"gate": "gate", "metric": "accuracy", "margin": 0.0, "champion": "5a0c...", "challenges": 12, "promotions": 2,
         "limit": None}  # fmt: skip


class OpenedGate(Strict):
    """A gate that is opened with its first champion."""

    champion: Annotated[Predictions, Field(default=None)]
    name: str = Field("gate", description="The gate's name.", min_length=1, max_length=100, pattern=NAME)
    metric: str | dict[str, str | float] = Field(
        "accuracy",
        description="What is compared: a name, a score with the range of its labels, or a loss with its range.",
        examples=["accuracy", {"name": "r2", "low": 0, "high": 60}, {"loss": "absolute", "high": 60}],
    )  # fmt: skip
    margin: float = Field(0.0, description="A challenger has to be better by more than this.")
    challenges: int | None = Field(None, description="Most challenges; by default as many as the budget pays.")
    training: Annotated[Predictions, Field(default=None)]


class Challenged(Strict):
    """A model that wants to be the champion."""

    candidate: Predictions
    training: Annotated[Predictions, Field(default=None)]


class CompletedChampion(Strict):
    """The champion, for rows that arrived."""

    champion: Predictions
    training: Annotated[Predictions, Field(default=None)]


@router.get(
    "", summary="The gates of a holdout",
    responses={200: said("The gates.", {"gates": [_GATE], "warnings": []}), **refusals(404)},
)  # fmt: skip
def list_gates(name: HoldoutName, principal: Viewer, holdouts: Holdouts) -> JSONResponse:
    """Champion of each gate, and the number of its challenges."""
    holdout = holdouts.whole(name, principal)
    named = [gate["gate"] for gate in holdout.status().get("gates", [])]
    found = [holdout.gate(name=gate).status() for gate in named]
    for gate in found:  # an open challenge is that of its analyst and the steward alone
        own = principal.role is Role.ANALYST and gate.get("open_challenge", {}).get("analyst") == principal.name
        if not (own or principal.role is Role.STEWARD):
            gate.pop("open_challenge", None)
    return result({"gates": [told(gate) for gate in found]})


@router.get(
    "/{gate}/history", summary="The champions of a gate",
    responses={200: said("All champions, each with the interval of its gain.", {
        "result": "gate_history", "gate": "main", "promotions": 1, "challenges": 13,
        "champions": [{"number": 1, "entry": 9, "low": 0.0, "high": 1.0, "since_first": 0.0}], "warnings": [],
    }), **refusals(404)},
)  # fmt: skip
def history(name: HoldoutName, gate: GateName, principal: Viewer, holdouts: Holdouts) -> JSONResponse:
    """All champions of a gate, over whom each is proved to be better and by how much, and what was spent. Free."""
    return result(gate_at(holdouts.whole(name, principal), gate).history())


@router.post(
    "", summary="Open a gate", openapi_extra=body_of(OpenedGate),
    responses={200: said("The gate, also if it was open already.", _GATE), **refusals(404, 415)},
)  # fmt: skip
def open_gate(
    name: HoldoutName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Open a gate with its first champion, which only a steward can; the same again changes nothing.

    Without a champion it is the gate that is there already.
    """
    requested, holdout = received.document(OpenedGate), holdouts.asked_by(name, principal)
    with warned_of() as warned:
        champion, training = _models(requested.champion, requested.training, holdout.schema, principal, received)
        gate = holdout.gate(
            _metric(requested.metric), champion=champion, training=training, margin=requested.margin,
            challenges=requested.challenges, name=requested.name,
        )  # fmt: skip
        status = gate.status()
    noted(request, "open a gate", gate=requested.name)
    return result(status, warned)


@router.post(
    "/{gate}/challenges", summary="Challenge the champion", openapi_extra=body_of(Challenged),
    responses={200: said("Promoted, kept or refused.", {
        "result": "verdict", "promoted": True, "charged": 1, "repeated": False, "champion": "7b11...", "challenges": 13,
        "promotions": 3, "remaining": {"queries": 180, "surprises": 3}, "warnings": [],
    }), **refusals(404, 415)},
)  # fmt: skip
def challenge(
    name: HoldoutName, gate: GateName, request: Request, principal: Analyst, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Let a model try to beat the champion: keep or revert.

    Promoted is proved, however many failed before, and costs a surprise; kept promises nothing and costs one of the
    planned queries. No score is told. The same challenge of the same champion again is free.
    """
    requested, holdout = received.document(Challenged), holdouts.asked_by(name, principal)
    with warned_of() as warned:
        model, training = _models(requested.candidate, requested.training, holdout.schema, principal, received)
        verdict = gate_at(holdout, gate).challenge(model, training=training)
    noted(request, "challenge", gate=gate, outcome=verdict.to_dict()["verdict"], query=verdict.query)
    return result(verdict, warned)


@router.post(
    "/{gate}/champion", summary="Complete the champion", openapi_extra=body_of(CompletedChampion),
    responses={200: said("The gate.", {**_GATE, "rows_left": 0}), **refusals(404, 415)},
)  # fmt: skip
def complete(
    name: HoldoutName, gate: GateName, request: Request, principal: Steward, holdouts: Holdouts, received: Brought
) -> JSONResponse:
    """Give the champion's predictions for the rows that arrived alone, or the rule that it is.

    The gate answers no challenge before. Nothing is charged.
    """
    requested, holdout = received.document(CompletedChampion), holdouts.asked_by(name, principal)
    with warned_of() as warned:
        champion, training = _models(requested.champion, requested.training, holdout.schema, principal, received)
        found = gate_at(holdout, gate)
        if found.about_cases:
            raise QueryRejected(
                f"gate {gate!r} is about cases; expected results at its address /missing; nothing was changed"
            )
        found.complete(champion, training=training)
        status = found.status()
    noted(request, "complete a champion", gate=gate)
    return result(status, warned)


def _models(
    model: Any, training: Any, schema: Schema, principal: Principal, received: RequestContent
) -> tuple[Any, Any]:
    """A model's predictions for the sealed and for the training rows, or a rule."""
    check_predictions_allowed(schema, principal, model, training)
    tables = received.tables(schema)
    made = [None if written is None else predictions_from(written, schema, tables) for written in (model, training)]
    return made[0], made[1]


def _metric(metric: str | dict[str, str | float]) -> str | Callable[..., Any]:
    """Compared metric, with its loss where it is a risk."""
    if isinstance(metric, str) and metric != "risk" and named_metric(metric) is not None:
        return metric
    if isinstance(metric, dict) and metric.keys() <= _OF_SCORE and named_metric(str(metric.get("name"))) is not None:
        return partial(metric_of, **metric)  # type: ignore[arg-type]  # what does not fit is refused there
    if not isinstance(metric, dict) or not metric.keys() <= _OF_RISK:
        raise QueryRejected(
            f"{why_no_gain(metric) or 'the metric cannot be compared'}; expected one of {', '.join(METRICS.of_gates)}, "
            'or a loss with its range such as {"loss": "absolute", "low": 0, "high": 60}; nothing was changed'
        )
    return partial(risk, **metric)  # type: ignore[arg-type]  # what does not fit is refused there
