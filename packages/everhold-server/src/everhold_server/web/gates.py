"""The page of a holdout's gates: promotions, a new gate, a challenge, values of a champion for new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from everhold.errors import QueryRejected
from everhold.operations.gates import ChallengeChampion, Complete, OpenGate, SendResults
from everhold.queries.metrics.registry import METRICS
from everhold_server.api.contract import check_predictions_allowed
from everhold_server.untrusted.files import read_untrusted_results
from everhold_server.web.pages import ENDINGS, Fields, Form, page, performed
from everhold_server.web.views import SAID_OF, AnalystView, StewardView, View, ViewerView

if TYPE_CHECKING:
    from everhold.holdout import Holdout

router = APIRouter()

_FILE, _TRAINING, _RESULTS = "predictions", "training", "results"
_LATEST = 30


@router.get("/holdouts/{name}/gates")
def gates(request: Request, view: ViewerView) -> Response:
    """Return the page with all gates, and with what each promotion proves."""
    return _page(request, view)


@router.post("/holdouts/{name}/gates")
def open_gate(request: Request, view: StewardView, fields: Form) -> Response:
    """Open a gate with the first champion that the form describes, and return the page of gates."""
    _, fault, _ = performed(
        request,
        lambda: (view.whole, OpenGate(
            name=fields.text("gate") or "gate", metric=fields.text("metric") or "accuracy",
            champion=_candidate(view, fields), margin=fields.number("margin", 0.0) or 0.0,
            challenges=fields.whole("challenges"),
        )),
    )  # fmt: skip
    return _page(request, view.anew(), fault=fault)


@router.post("/holdouts/{name}/gates/challenge")
def challenge(request: Request, view: AnalystView, fields: Form) -> Response:
    """Let the model of the form challenge the champion of a gate, and return the page with the verdict."""
    gate = fields.text("gate") or "gate"
    verdict, fault, _ = performed(
        request,
        lambda: (
            view.asking(), ChallengeChampion(gate=gate, candidate=_candidate(view, fields))
        ),
    )  # fmt: skip
    return _page(request, view.anew(), fault=fault, verdict=verdict)


@router.post("/holdouts/{name}/gates/results")
def challenge_with_results(request: Request, view: AnalystView, fields: Form) -> Response:
    """Let a version, by the file of its results, challenge the champion of a gate about cases."""
    gate = fields.text("gate")

    def sent() -> tuple[Holdout, SendResults]:
        asked = view.asking()
        missing = asked.gate(name=gate).status().get("missing", "refuse")
        return asked, SendResults(
            gate=gate, results=_results(fields, missing), challenger=fields.some("challenger")
        )  # fmt: skip

    verdict, fault, _ = performed(request, sent)
    return _page(request, view.anew(), fault=fault, verdict=verdict)


@router.post("/holdouts/{name}/gates/champion")
def complete(request: Request, view: StewardView, fields: Form) -> Response:
    """Give a champion's values for rows that arrived."""
    gate = fields.text("gate")
    _, fault, _ = performed(
        request,
        lambda: (view.whole, Complete(
            gate=gate, champion=_candidate(view, fields),
            training=fields.chosen.tables(view.whole.schema).get(_TRAINING),
        )),
    )  # fmt: skip
    completed = "" if fault else gate
    return _page(request, view.anew(), fault=fault, completed=completed)


def _results(fields: Fields, missing: str) -> dict[str, list[Any]]:
    """Return the results of cases in a form's file, as columns."""
    file = fields.file(_RESULTS)
    if file is None:
        raise QueryRejected("There is no file of results. Choose a file of JUnit XML, promptfoo JSON or CSV.")
    return read_untrusted_results(file.rename(file.with_name("results")), name="the file", missing=missing)


def _candidate(view: View, fields: Fields) -> Any:
    """Return the proposal of a form: a rule, or a table of predictions."""
    schema, rule, chosen = view.whole.schema, fields.some("rule"), fields.chosen
    check_predictions_allowed(schema, view.principal, *({"file": name} for name in chosen.files))
    table = chosen.tables(schema).get(_FILE)
    if (rule is None) == (table is None):
        found = "neither a rule nor a file" if rule is None else "both a rule and a file"
        raise QueryRejected(f"The form has {found}. Pass one of them.")
    return rule if table is None else table


def _page(request: Request, view: View, *, fault: str = "", verdict: Any = None, completed: str = "") -> Response:
    found = view.gates()
    return page(
        request, "gates.html", status=422 if fault else 200, view=view, gates=found, fault=fault,
        verdict=verdict, completed=completed, said_of=SAID_OF, endings=ENDINGS,
        metrics=METRICS.of_gates, challenges=view.named(view.challenges()[:_LATEST]), tab="gates",
    )  # fmt: skip
