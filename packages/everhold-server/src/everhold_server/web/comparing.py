"""The page on which two files of predictions, or two rules, are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from everhold.errors import EverholdError, QueryRejected
from everhold.queries.metrics.registry import METRICS
from everhold_server.api.contract import HoldoutName, warned_of
from everhold_server.audit import noted
from everhold_server.open_holdouts import Holdouts
from everhold_server.principals import Analyst
from everhold_server.web.asking import file_of, tables_of
from everhold_server.web.forms import ENDINGS, Fields, Form
from everhold_server.web.rendering import page
from everhold_server.web.views import SAID_OF, View
from everhold_server.wire.reading import query_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.errors import EverholdWarning

router = APIRouter()

_SIDES = ("first", "second")


@router.get("/holdouts/{name}/compare")
def form(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Analyst) -> Response:
    """The form."""
    return _page(request, View.of(holdouts, name, principal), Fields())


@router.post("/holdouts/{name}/compare")
def compare(request: Request, name: HoldoutName, holdouts: Holdouts, principal: Analyst, fields: Form) -> Response:
    """Ask how much better the first one is, and show the answer; asked again it is the same answer, free."""
    view = View.of(holdouts, name, principal)
    try:
        with warned_of() as warned:
            asked, tables = holdouts.asked_by(name, principal), tables_of(view, fields)
            query = query_from(_written(fields, tables), asked.schema, tables)
            answer = asked.ask(query, guess=fields.number("guess", 0.0 if tables else None))
    except EverholdError as fault:
        return _page(request, view, fields, fault=fault.message)
    noted(request, "ask", outcome=answer.source, query=answer.query)
    return _page(request, View.of(holdouts, name, principal), fields, answer=answer, warned=warned)


def _written(fields: Fields, tables: Any) -> dict[str, Any]:
    """The query as it would travel.

    Raises:
        QueryRejected: If one is missing, or there is no such score. Nothing is charged.
    """
    metric = fields.text("metric")
    if metric not in METRICS or METRICS[metric].two == "none":
        known = METRICS.compared
        raise QueryRejected(f"there is no such score; expected one of {', '.join(known)}", known=[*known])
    where, sides = fields.some("where"), []
    for name in _SIDES:
        rule, file = fields.some(f"{name}_rule"), file_of(fields, name, tables)
        if (rule is None) is (file is None):
            raise QueryRejected(
                f"the {name} predictions are {'missing' if rule is None else 'a file and a rule'}; expected a file or "
                "a rule for each"
            )
        of = file if rule is None else rule
        sides.append({"kind": "metric", "score": metric, "of": of, **({} if where is None else {"where": where})})
    return {"kind": "difference", "queries": sides}


def _page(
    request: Request, view: View, fields: Fields, *, answer: Any = None, fault: str = "",
    warned: Sequence[EverholdWarning] = (),
) -> Response:  # fmt: skip
    return page(
        request, "compare.html", status=422 if fault else 200, view=view, fields=fields, metrics=METRICS.compared,
        answer=answer, rows=[] if answer is None else answer.to_rows(), fault=fault, endings=ENDINGS, said_of=SAID_OF,
        tab="compare", warned=[str(warning) for warning in warned],
    )  # fmt: skip
