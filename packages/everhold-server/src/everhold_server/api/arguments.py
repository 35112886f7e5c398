"""Reads the arguments of requests: queries, declared families, predictions, metrics and results of cases."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, WithJsonSchema

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.families.protocol import family_from
from everhold.gates.candidates import named_metric, why_no_gain
from everhold.operations.operation import AnyModel
from everhold.queries import KINDS, Form
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.row_scores import risk
from everhold.queries.metrics.scores import metric_of
from everhold_server.api.contract import (
    Plain,
    arguments_checked,
    check_predictions_allowed,
)
from everhold_server.principals import Principal, Role
from everhold_server.wire.queries import FILE
from everhold_server.wire.reading import query_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everhold.display import Facts
    from everhold.holdout import Holdout
    from everhold.operations.operation import Parameter
    from everhold.queries.query import Query as AnyQuery
    from everhold_server.uploads import RequestContent

MOST_QUOTED, MOST_ASKED = 100_000, 400_000  # characters of all expressions together; reading one takes 30 us
_COUNTED_FOR_ONE = 20  # characters more for each of them
_PREDICTED = {
    kind.name: [name for name in ("of", "training_predictions") if name == "of" or name in kind.details]
    for kind in KINDS if kind.form is Form.PREDICTIONS
}  # fmt: skip


def _check_predictions(written: Sequence[Any], holdout: Holdout, principal: Principal) -> None:
    """Reject a request with predictions that this principal may not use, before any file is read."""
    left = list(written)
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            handed_in = [one.get(name) for name in _PREDICTED.get(str(one.get("kind")), ())]
            check_predictions_allowed(holdout.schema, principal, *handed_in)
            left += [value for value in one.values() if isinstance(value, (dict, list))]


def _check_expressions(written: Sequence[Any], most: int) -> None:
    """Reject a request whose expressions are too long in total, before any expression is parsed."""
    found, left = 0, list(written)
    while left:
        one = left.pop()
        if isinstance(one, str):
            found += len(one) + _COUNTED_FOR_ONE
        elif isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            predicted = _PREDICTED.get(str(one.get("kind")), ())
            left += [value for name, value in one.items() if name not in predicted or isinstance(value, str)]
    if found > most:
        raise QueryRejected(
            f"The expressions of the request have {found:,} characters, counting {_COUNTED_FOR_ONE} for each "
            f"expression. Send at most {most:,}: shorter expressions, or fewer at once."
        )


def queries_of(
    written: Sequence[Any], holdout: Holdout, principal: Principal, received: RequestContent, *, most: int
) -> list[AnyQuery[Any]]:
    """Return the checked queries of a request. Predictions are read from the files of the request."""
    _check_predictions(written, holdout, principal)
    _check_expressions(written, most)
    tables = received.tables(holdout.schema)
    with arguments_checked():
        return [query_from(one, holdout.schema, tables) for one in written]


_MOST_FAMILIES, _MOST_LISTED = 100, 1_000
FAMILIES: dict[str, Any] = {
    "description": "Families by name, each as in a protocol: listed with weights, subgroups with of, or texts with "
    "bits.",
    "examples": [{
        "end points": {"listed": ["late", {"mean": "delay", "low": -60, "high": 180}]},
        "carriers": {"subgroups": ["carrier", "origin"], "of": "delay > 15"},
        "texts": {"texts": 40},
    }],
    "min_length": 1,
    "json_schema_extra": {"additionalProperties": {"type": "object", "anyOf": [
        {"required": ["listed"]}, {"required": ["subgroups", "of"]}, {"required": ["texts"]}, {"required": ["members"]},
    ]}},
}  # fmt: skip
"""Documentation of a field with families."""


def families_of(given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the declared families of a request, after a check of their number.

    Raises:
        QueryRejected: If one of the entries is not a family, or there are too many families. Nothing was changed.
    """
    listed = sum(len(each["listed"]) for each in given.values() if isinstance(each.get("listed"), list))
    if len(given) > _MOST_FAMILIES or listed > _MOST_LISTED:
        raise QueryRejected(
            f"The request has {len(given):,} families with {listed:,} listed queries. Send at most {_MOST_FAMILIES} "
            f"families with {_MOST_LISTED:,} listed queries, or declare more where the storage is."
        )
    return {name: family_from(table, what=f"Family {name!r}") for name, table in given.items()}


_OF_RISK, _OF_SCORE = {"loss", "low", "high"}, {"name", "low", "high", "clip"}
_RESULTS = (
    "An object from case id to its runs: a list of objects of metrics, null where a run crashed. Or a list of pairs of "
    "an id and its runs."
)
_EXAMPLE = {"t1": [{"accuracy": 1, "cost": 0.2}], "t2": [{"accuracy": 0, "cost": 0.3}]}
_RUN = {"anyOf": [{"type": "object"}, {"type": ["number", "string", "boolean", "null"]}]}
_RUNS = {"anyOf": [{"type": "array", "minItems": 1, "items": _RUN}, _RUN]}
_PAIR = {
    "type": "array", "prefixItems": [{"type": ["string", "integer"]}, _RUNS], "minItems": 2, "maxItems": 2,
}  # fmt: skip
_FORMS: list[dict[str, Any]] = [
    {"type": "object", "minProperties": 1, "additionalProperties": _RUNS},
    {"type": "array", "minItems": 1, "items": _PAIR},
]
CaseResults = Annotated[Plain, WithJsonSchema({"anyOf": _FORMS}), Field(description=_RESULTS, examples=[_EXAMPLE])]
Metrics = Annotated[
    str | dict[str, str | float],
    Field(examples=["accuracy", {"name": "r2", "low": 0, "high": 60}, {"loss": "absolute", "high": 60}]),
]


def shown_gates(gates: list[Facts], principal: Principal) -> list[Facts]:
    """Return gates without the open challenges that a principal may not see: only its analyst and stewards may."""
    for gate in gates:
        own = principal.role is Role.ANALYST and gate.get("open_challenge", {}).get("analyst") == principal.name
        if not (own or principal.role is Role.STEWARD):
            gate.pop("open_challenge", None)
    return gates


def metric_from(metric: str | dict[str, str | float]) -> str | Callable[..., Any]:
    """Return the metric of a request as gates accept it: a name, or a function with its parameters set."""
    if isinstance(metric, str) and metric != "risk" and named_metric(metric) is not None:
        return metric
    if isinstance(metric, dict) and metric.keys() <= _OF_SCORE and named_metric(str(metric.get("name"))) is not None:
        return partial(metric_of, **metric)  # type: ignore[arg-type]  # what does not fit is refused there
    if not isinstance(metric, dict) or not metric.keys() <= _OF_RISK:
        raise QueryRejected(
            f"{why_no_gain(metric) or 'Gates do not support this metric.'} Send one of {', '.join(METRICS.of_gates)}, "
            'or a loss with its range, such as {"loss": "absolute", "low": 0, "high": 60}.'
        )
    return partial(risk, **metric)  # type: ignore[arg-type]  # what does not fit is refused there


def with_fields(received: RequestContent, fields: Sequence[Parameter]) -> RequestContent:
    """Return a form request with its JSON document completed from text, number and file fields.

    Raises:
        QueryRejected: If a field is not a number, or the form has a part that is not used, such as a misspelled one.
    """
    if "" in received.texts or not any(each.holds(AnyModel) for each in fields):
        return received
    plain: dict[str, Any] = {}
    column = received.text("column")
    for each in fields:
        if each.holds(AnyModel) and each.name in received.files:
            plain[each.name] = {FILE: each.name} | ({} if column is None else {"column": column})
        elif (text := received.text(each.name)) and not each.holds(AnyModel):
            plain[each.name] = _number_in(text, each.name) if each.holds(float) else text
    written = received.written()
    try:
        document = json.loads(written)
    except ValueError:
        return received  # it is refused where it is read
    if not isinstance(document, dict):
        return received
    document = plain | {name: value for name, value in document.items() if value is not None}
    named = {each.name: each.holds(AnyModel) for each in fields}
    files = {value[FILE] for value in document.values() if isinstance(value, dict) and isinstance(value.get(FILE), str)}
    for given, known, what in (
        (received.files, {*files, *(name for name in named if named[name])}, "file"),
        (received.texts, {"column", *(name for name in named if not named[name])}, "field"),
    ):
        for name in sorted({*given} - known - {"", "request", "csrf", "act"}):
            near = get_close_matches(name, sorted(known), n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else f"Send only {', '.join(sorted(known))}."
            raise QueryRejected(f"The form has the {what} {name!r}, which is not used here. {remedy}")
    return replace(received, texts={"": json.dumps(document).encode()})


def _number_in(text: str, name: str) -> float:
    with suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise QueryRejected(f"{name} is {brief(text)}. Send a number, such as 0.8, or leave it out.")
