"""Pages on which queries are asked: the form of each kind, a quote, the answer, and two models compared."""

from __future__ import annotations

import re
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from everhold.arguments import as_numbers
from everhold.errors import EverholdError, QueryRejected
from everhold.operations.asking import Ask
from everhold.queries import DETAILS, KINDS, Kind
from everhold.queries import Form as Written
from everhold.queries.metrics.registry import METRICS
from everhold_server.api.contract import check_predictions_allowed, warned_of
from everhold_server.uploads import RequestContent
from everhold_server.web.pages import ENDINGS, Chosen, Fields, Form, page, performed
from everhold_server.web.views import SAID_OF, AnalystView, View, compared
from everhold_server.wire.reading import query_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.answers import QuotedPrice
    from everhold.holdout import Holdout
    from everhold.queries.predictions.arrays import PredictionTable
    from everhold.values.base import Schema

router = APIRouter()

_ASKABLE = tuple(kind for kind in KINDS if kind.form not in (Written.CODE, Written.CELLS))
_OPTIONS = re.compile(r" \([^()]*--[^()]*\)")
_LABELS = {"with_": "the other condition or number", "with_low": "its low end", "with_high": "its high end"}
_NUMBERS = (Written.NUMBER, Written.WHOLE)


@router.get("/holdouts/{name}/ask")
def form(request: Request, view: AnalystView, kind: str = "mean") -> Response:
    """Return the form for one kind of query."""
    return page(request, "ask.html", **_facts(view, Fields(), kind))


@router.post("/holdouts/{name}/ask")
def ask(request: Request, view: AnalystView, fields: Form) -> Response:
    """Ask the query of the form, and show the answer. A repeated query has the same answer, and is free."""
    kind = fields.text("kind") or "mean"

    def asked() -> tuple[Holdout, Ask]:
        holdout, tables = view.asking(), tables_of(view, fields)
        return holdout, Ask(
            query=query_from(_written(fields, tables), holdout.schema, tables), guess=fields.number("guess"),
            tolerance=fields.number("tolerance"), silent=fields.ticked("silent"),
        )  # fmt: skip

    answer, fault, warned = performed(request, asked)
    facts = _facts(view.anew(), fields, kind, answer=answer, fault=fault, warned=warned)
    return page(request, "ask.html", status=422 if fault else 200, **facts)


@router.post("/holdouts/{name}/quote")
def quote(request: Request, view: AnalystView, fields: Form) -> Response:
    """Show the price and width of the query in the form, without asking. The chosen file is not sent for this."""
    of_any = _kind(fields.text("kind")).form is Written.PREDICTIONS and not fields.text("rule")
    try:
        with warned_of():
            price = _price(view.asking(), fields, of_any=of_any)
    except EverholdError as fault:
        return page(request, "quote.html", price=None, fault=fault.told, of_any=of_any)
    return page(request, "quote.html", price=price, fault="", of_any=of_any)


def _price(asked: Holdout, fields: Fields, *, of_any: bool) -> QuotedPrice | None:
    """Return the price of the query in an incomplete form, or None if the form has no query yet.

    Args:
        asked: The holdout, opened for the analyst who asks.
        fields: Fields of the form.
        of_any: Whether to price any query with predictions, because the file with the predictions is not sent yet.
    """
    if of_any:
        return asked.quote()
    if not any(map(fields.text, ("of", "rule", "queries"))):
        return None
    query = query_from(_written(fields, {}), asked.schema, {})
    return asked.quote(query, guess=fields.number("guess"), tolerance=fields.number("tolerance"))


def tables_of(view: View, fields: Fields) -> dict[str, PredictionTable]:
    """Return the files of a form as tables of predictions, if the principal may send predictions."""
    schema, chosen = view.whole.schema, fields.chosen
    check_predictions_allowed(schema, view.principal, *({"file": name} for name in chosen.files))
    return chosen.tables(schema)


def _kind(name: str) -> Kind:
    found = next((kind for kind in _ASKABLE if kind.name == name), None)
    if found is None:
        listed = ", ".join(kind.name for kind in _ASKABLE)
        raise QueryRejected(f"There is no query of that kind. Choose one of {listed}.")
    return found


def _facts(
    view: View, fields: Fields, name: str, *, answer: Any = None, fault: str = "",
    warned: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    kind = _kind(name)
    return {
        "view": view, "kinds": _ASKABLE, "kind": kind, "about": _said(kind.help), "details": _inputs(kind),
        "fields": fields, "answer": answer, "rows": [] if answer is None else answer.to_rows(), "fault": fault,
        "endings": ENDINGS, "said_of": SAID_OF, "tab": "ask", "columns": _columns(view.whole.schema),
        "warned": warned,
    }  # fmt: skip


def _said(text: str) -> str:
    """Return the help text of an argument without its sentences about command line options and files, for a form."""
    return _OPTIONS.sub("", text).replace(" in a file", "")


def _inputs(kind: Kind) -> list[dict[str, Any]]:
    """Return the details of a kind of query as inputs of a form: name, label, help and allowed values."""
    arguments = signature(kind.make).parameters
    return [
        {
            "name": name, "label": _LABELS.get(name, name.replace("_", " ")), "help": _said(DETAILS[name].help),
            "form": "file" if DETAILS[name].form is Written.PREDICTIONS
            else "flag" if DETAILS[name].form is Written.FLAG
            else "number" if DETAILS[name].form in _NUMBERS else "text",
            "required": arguments[argument].default is Parameter.empty,
            "whole": DETAILS[name].form is Written.WHOLE,
        }
        for name, argument in kind.details.items()
    ]  # fmt: skip


def _columns(schema: Schema) -> list[tuple[str, str]]:
    return [(name, kind.value) for name, kind in schema.asked.items()]


def _written(fields: Fields, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query that a form describes, in its JSON form."""
    kind = _kind(fields.text("kind") or "mean")
    written: dict[str, Any] = {"kind": kind.name}
    for name in kind.details:
        if (value := _detail(fields, name, tables)) is not None:
            written[name] = value
    if kind.several:
        written["queries"] = [line.strip() for line in fields.text("queries").splitlines() if line.strip()]
    if kind.form is Written.PREDICTIONS:
        written["of"] = fields.some("rule") or file_of(fields, "predictions", tables)
    elif kind.form is Written.NUMBER:
        written["of"] = fields.number("of")
    elif kind.form is not Written.FLAG:
        written["of"] = fields.text("of")
    return {name: value for name, value in written.items() if value is not None}


def _detail(fields: Fields, name: str, tables: Mapping[str, Any]) -> Any:
    form = DETAILS[name].form
    if form is Written.PREDICTIONS:
        return file_of(fields, name, tables)
    if form is Written.NUMBER:
        return fields.number(name)
    if form is Written.FLAG:
        return {"yes": True, "no": False}.get(fields.text(name))
    if form is Written.WHOLE:
        return fields.whole(name)
    if form is Written.LIST and (listed := fields.some(name)) is not None:
        parts = [part.strip() for part in listed.split(",")]
        return as_numbers(parts) or parts
    return fields.some(name)


def file_of(fields: Fields, name: str, tables: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the JSON form of an uploaded file in a query, or None if the field has no file."""
    if name not in tables:
        return None
    column = fields.some("column")
    return {"file": name} if column is None else {"file": name, "column": column}


_SIDES = ("first", "second")


@router.get("/holdouts/{name}/compare")
def compare_form(
    request: Request, view: AnalystView, first: Chosen = "", second: Chosen = "", margin: Chosen = ""
) -> Response:
    """Return the form, and what stored answers say about two models that a tracker such as MLflow names. Free."""
    fault, rows = "", None
    fields = Fields(RequestContent({"margin": margin.encode()}, {}))
    try:
        rows = compared(view, first, second, fields.number("margin", 0.0) or 0.0) if first and second else None
    except EverholdError as wrong:
        fault = wrong.told
    return _compare_page(request, view, fields, fault=fault, chosen=(first, second), found=rows)


@router.post("/holdouts/{name}/compare")
def compare(request: Request, view: AnalystView, fields: Form) -> Response:
    """Ask how much better the first model is, and show the answer. A repeated query is free."""

    def asked() -> tuple[Holdout, Ask]:
        holdout, tables = view.asking(), tables_of(view, fields)
        query = query_from(_both_written(fields, tables), holdout.schema, tables)
        return holdout, Ask(query=query, guess=fields.number("guess", 0.0 if tables else None))

    answer, fault, warned = performed(request, asked)
    view = view.anew()
    return _compare_page(request, view, fields, answer=answer, fault=fault, warned=warned)


def _both_written(fields: Fields, tables: Any) -> dict[str, Any]:
    """Return the JSON form of the query that compares the two models of a form.

    Raises:
        QueryRejected: If one of the two models is missing, or the score does not exist. Nothing is charged.
    """
    metric = fields.text("metric")
    if metric not in METRICS or METRICS[metric].two == "none":
        known = METRICS.compared
        raise QueryRejected(f"There is no such score. Choose one of {', '.join(known)}.", known=[*known])
    where, sides = fields.some("where"), []
    for name in _SIDES:
        rule, file = fields.some(f"{name}_rule"), file_of(fields, name, tables)
        if (rule is None) is (file is None):
            raise QueryRejected(
                f"The {name} predictions are {'missing' if rule is None else 'a file and a rule'}. Pass a file or a "
                "rule for each."
            )
        of = file if rule is None else rule
        sides.append({"kind": "metric", "score": metric, "of": of, **({} if where is None else {"where": where})})
    return {"kind": "difference", "queries": sides}


def _compare_page(
    request: Request, view: View, fields: Fields, *, answer: Any = None, fault: str = "",
    warned: Sequence[str] = (), chosen: tuple[str, str] = ("", ""), found: Any = None,
) -> Response:  # fmt: skip
    models = dict.fromkeys(model for models, _ in view.tracked for model in models)
    return page(
        request, "compare.html", status=422 if fault else 200, view=view, models=[*models], chosen=chosen, found=found,
        fields=fields, metrics=METRICS.compared,
        answer=answer, rows=[] if answer is None else answer.to_rows(), fault=fault, endings=ENDINGS, said_of=SAID_OF,
        tab="compare", warned=warned,
    )  # fmt: skip
