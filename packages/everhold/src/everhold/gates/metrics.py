"""Metrics that gates about rows compare by: read, described, and told in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.gains import OutcomeGain
from everhold.queries.metrics.registry import METRICS, REFUSED
from everhold.queries.metrics.row_scores import risk
from everhold.queries.metrics.scores import as_metric
from everhold.queries.query import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import Mechanism
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

_OF_CANDIDATES = ("predictions", "estimator", "rule", "on_public_rows")
"""Fields of a query's description that are the candidate's; all others are the metric's."""

SCORE = "score"


def why_no_gain(name: Any) -> str | None:
    """Return why gates do not support a metric, with the nearest one, or None if they do or it is unknown.

    Examples:
        >>> why_no_gain("average_precision")
        "A gain in 'average_precision' has no guarantee. The nearest metric that gates support is roc_auc."
        >>> why_no_gain("roc_auc"), why_no_gain("height")
        (None, None)
    """
    if not isinstance(name, str):
        return None
    metric = METRICS.get(name)
    if (metric is None and name not in REFUSED) or (metric is not None and metric.gain != "none"):
        return None
    nearest = REFUSED[name].partition(",")[0] if metric is None else metric.nearest
    return (
        f"A gain in {name!r} has no guarantee. The nearest metric that gates support is "
        f"{nearest if nearest in METRICS and METRICS[nearest].gain != 'none' else 'accuracy'}."
    )


def named_metric(name: str) -> Callable[..., Any] | None:
    """Return the function that makes queries with a named metric, or None if gates do not support it."""
    if name == "risk":
        return risk
    metric = METRICS.get(name)
    if metric is None or metric.gain == "none":
        return None
    mean = metric.as_mean
    if isinstance(mean, str):
        return partial(_scored, mean)
    return partial(_scored, name) if mean is None else partial(risk, **mean)


def _scored(name: str, predictions: Any, *, training: Any = None, **numbers: Any) -> Any:
    from everhold.queries.metrics.scores import metric

    return metric(name, predictions, training=training, **numbers)


@dataclass(frozen=True, slots=True)
class GateMetric:
    """Metric of a gate.

    Attributes:
        make: From a candidate, and its predictions for the training rows or None, to the query about it.
        make_of_classes: The same for labels other than 0 and 1, where that is another query; else None.
        description: Public and canonical, as far as it is known before there is a candidate.
    """

    make: Callable[[Any, Any], Any]
    description: Mapping[str, Any] | None = None
    make_of_classes: Callable[[Any, Any], Any] | None = None

    def asked(self, predictions: Any, training: Any, schema: Schema) -> Any:
        """Build the query about a candidate for the labels of a holdout."""
        several = self.make_of_classes is not None and schema.label_kind != "binary"
        make = self.make_of_classes if several and self.make_of_classes is not None else self.make
        return make(predictions, training)


def metric_of(metric: Any, known: Mapping[str, Any] | None = None) -> GateMetric:
    """Return the gate's metric from the name or the function that an analyst passes.

    Args:
        metric: One of `METRICS.of_gates`, ``"risk"``, one of the functions `accuracy`, `error` and `brier`, or a
            function from a candidate to such a query or to a `metric`. None for the metric of an existing gate.
        known: The description of the gate's metric if the gate exists.
    """
    if metric is None and known is not None:
        metric = _maker_of(known)
    metric = as_metric(metric)
    make = named_metric(metric) if isinstance(metric, str) else metric
    if make is None or isinstance(make, Query) or not callable(make):
        raise no_metric(metric)
    known_metric = METRICS.get(metric) if isinstance(metric, str) else None
    several = None
    if known_metric is not None and isinstance(known_metric.as_mean, Mapping):  # a loss of labels 0 and 1 alone
        several = _made(partial(_scored, known_metric.name))
    return GateMetric(_made(make), known, several)


def _made(make: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return a metric function whose errors are raised as QueryRejected."""

    def made(predictions: Any, training: Any) -> Any:
        try:
            return make(predictions) if training is None else make(predictions, training=training)
        except QueryRejected:
            raise
        except ValueError as reason:
            raise QueryRejected(f"{reason}") from None
        except Exception as fault:  # the function is the analyst's own
            raise no_metric(f"a function that fails with {type(fault).__name__}: {fault}") from fault

    return made


def _maker_of(description: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function that makes queries with the metric of a description.

    Raises:
        QueryRejected: If it is a function of the analyst's own, which no description can hold.
    """
    if description.get("kind") == SCORE:
        name = str(description["name"])
        settings = METRICS[name].settings
        return partial(
            _scored, name, pos_label=description.get("positive"),
            **{each: description[each] for each in settings if each in description},
        )  # fmt: skip
    if description.get("kind") != "risk":
        return partial(_scored, str(description["kind"]), pos_label=description.get("positive"))
    if "loss" not in description:
        raise QueryRejected(
            "The metric of the gate is a loss function of its own, which the ledger does "
            "not store. Pass it again as the first argument, such as lambda model: "
            "eh.risk(model, loss, high=5, name='mine')."
        )
    loss, low, high = description["loss"], description["low"], description["high"]
    return lambda predictions, training=None: risk(predictions, loss, low=low, high=high, training=training)


def no_metric(thing: object) -> QueryRejected:
    """Return the error for something that gates cannot compare by."""
    if (reason := why_no_gain(thing)) is not None:
        return QueryRejected(reason)
    return QueryRejected(
        f"The metric of a gate is {brief(thing)}. Pass eh.accuracy, eh.error, eh.brier, a "
        "name such as 'roc_auc', or a function from a candidate to a query, such as "
        "lambda model: eh.risk(model, 'log', high=5)."
    )


def metric_description(bound: BoundQuery) -> dict[str, Any]:
    """Return the part of a query's description that is about the metric, not the candidate."""
    return {name: value for name, value in bound.description.items() if name not in _OF_CANDIDATES}


def metric_in_words(description: Mapping[str, Any]) -> str:
    """Describe a metric in words.

    Examples:
        >>> metric_in_words({"kind": "accuracy", "label": "late"})
        'accuracy'
        >>> metric_in_words({"kind": "risk", "loss": "log", "low": 0.0, "high": 5.0, "label": "late"})
        'log loss, from 0 to 5 for a row'
        >>> metric_in_words({"kind": "score", "name": "roc_auc", "label": "late"})
        'roc_auc'
    """
    kind = description.get("kind")
    if kind == "brier":
        return "Brier score"
    if kind == SCORE:
        return str(description["name"])
    if kind != "risk":
        return str(kind)
    function = description.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    loss = f"{description['loss']} loss" if "loss" in description else f"loss {brief(name)}" if name else "loss"
    return f"{loss}, from {description['low']:g} to {description['high']:g} for a row"


# The gain of a challenger over a champion, row by row: what is looked at, and the procedure of its lower limit.


@dataclass(frozen=True, slots=True)
class Gained:
    """Gain on the sealed rows, on the scale ``(1 + gain) / 2``. Secret.

    Attributes:
        total: The sum of paired row values in grid units.
        seen: Input of the procedure; None where that is the total.
        mean: The number itself, where the total does not tell it.
    """

    total: int = field(repr=False)
    seen: Any = field(repr=False)
    mean: float | None = field(default=None, repr=False)

    @classmethod
    def of(cls, mean: float, seen: Any, mechanism: Mechanism) -> Gained:
        """Build a gain from its value as a share of the scale, computed from all rows together."""
        at = min(max(mean, 0.0), 1.0)
        return cls(math.floor(at * mechanism.steps), seen, at)


@dataclass(frozen=True, slots=True)
class Gain:
    """How a gain is computed and bounded, decided by public facts before the evaluation.

    Attributes:
        procedure: Procedure of an interval whose lower end holds on one side, at half of the level of both sides.
        evaluate: From the sealed rows, and the values kept of challenger and champion, to the gain on these rows.
    """

    procedure: Procedure
    evaluate: Callable[[StoredRows, NDArray[Any], NDArray[Any]], Gained]


def gain_of_means(procedure: Procedure, mechanism: Mechanism, *, rises: bool) -> Gain:
    """Build the gain as the mean of paired differences of row values. With ``rises``, higher values are better."""

    def evaluate(sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        both = paired(challenger, champion, rises=rises, unit=mechanism.unit)
        return Gained(*_summary(sealed, procedure, both, mechanism))

    return Gain(procedure, evaluate)


def gain_of_outcomes(procedure: OutcomeGain, mechanism: Mechanism) -> Gain:
    """Return how a gain in a score of labels 0 and 1, such as F1, is computed from outcomes of rows."""

    def evaluate(sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        both = procedure.paired(challenger, champion, unit=mechanism.unit)
        total, seen = _summary(sealed, procedure, both, mechanism)
        return Gained(total, seen, (1.0 + procedure.gain(seen)) / 2.0)

    return Gain(procedure, evaluate)


def _summary(
    sealed: StoredRows, procedure: Procedure, both: NDArray[np.int64], mechanism: Mechanism
) -> tuple[int, Any]:  # fmt: skip
    """Return the exact sum of paired row values, and the statistics that the procedure needs."""
    return sealed.summary(procedure.needs, both, group_by=mechanism.dependence.unit_column, unit=mechanism.unit)


def paired(challenger: NDArray[np.int64], champion: NDArray[np.int64], *, rises: bool, unit: int) -> NDArray[np.int64]:
    """Return the row values ``(1 + gain) / 2`` of a challenger's gain over the champion, in grid units, rounded down.

    Args:
        challenger: Shape (rows,), in grid units.
        champion: Shape (rows,), in grid units.
        rises: Whether higher row values are better.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> paired(np.array([4, 0, 4]), np.array([0, 4, 4]), rises=True, unit=4)
        array([4, 0, 2])
    """
    gain = challenger - champion if rises else champion - challenger
    return np.asarray((unit + gain) // 2)
