"""Arguments of gates as a request has them: models, metrics and results of cases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, WithJsonSchema

from everhold.errors import QueryRejected
from everhold.gates.metrics import named_metric, why_no_gain
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.row_scores import risk
from everhold.queries.metrics.scores import metric_of
from everhold_server.api.contract import Plain
from everhold_server.principals import Principal, Role

if TYPE_CHECKING:
    from everhold.display import Facts

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
    """Gates as this principal may know them: an open challenge is that of its analyst and the steward alone."""
    for gate in gates:
        own = principal.role is Role.ANALYST and gate.get("open_challenge", {}).get("analyst") == principal.name
        if not (own or principal.role is Role.STEWARD):
            gate.pop("open_challenge", None)
    return gates


def metric_from(metric: str | dict[str, str | float]) -> str | Callable[..., Any]:
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
