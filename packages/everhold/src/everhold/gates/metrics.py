"""Metrics that gates about rows compare by: read, described, and told in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.pairs.gain_difference import GAINS
from everhold.queries.metrics.accuracy import accuracy, brier, error
from everhold.queries.metrics.label_query import LabelQuery
from everhold.queries.metrics.outcomes import OutcomeQuery
from everhold.queries.metrics.risk import risk
from everhold.queries.metrics.score_means import MEANS
from everhold.queries.metrics.scorers import as_metric
from everhold.queries.query import Query

if TYPE_CHECKING:
    from everhold.values.base import BoundQuery, Schema

_OF_CANDIDATES = ("predictions", "estimator", "rule", "on_public_rows")
"""Fields of a query's description that are the candidate's; all others are the metric's."""

_NAMED: Mapping[str, Callable[..., LabelQuery]] = {
    "accuracy": accuracy, "error": error, "brier": brier, "risk": risk,
    **{name: partial(OutcomeQuery, name) for name in GAINS},
}  # fmt: skip

SCORE, _LOG_LOSS = "score", "neg_log_loss"

GAINS_OF_SCORES = (
    "roc_auc", "f1_weighted", "matthews_corrcoef", "r2", "neg_mean_absolute_error", "neg_mean_squared_error",
    "neg_root_mean_squared_error",
)  # fmt: skip
"""Scores that are no means of row values, or need the range of labels, by which gates compare (`everhold.metric`)."""

NEAREST_GAIN: Mapping[str, str] = {
    "recall_at_fpr": "roc_auc", "average_precision": "roc_auc", "expected_calibration_error": "neg_brier_score",
}  # fmt: skip
"""Scores whose gain is not promised, and the nearest metric of a gate."""


GATE_METRICS = (*MEANS, *GAINS, *GAINS_OF_SCORES)
"""Names of metrics that gates about rows compare by."""


def why_no_gain(name: Any) -> str | None:
    """Reason that a gate does not compare by a score of scikit-learn, and the nearest metric; None for no such name.

    Examples:
        >>> why_no_gain("average_precision")
        "no gain in 'average_precision' is promised; the nearest metric of a gate is roc_auc"
        >>> why_no_gain("roc_auc"), why_no_gain("height")
        (None, None)
    """
    from everhold.queries.metrics.scores import REFUSED, score_names

    if not isinstance(name, str) or name in GATE_METRICS or name not in (*score_names(), *REFUSED):
        return None
    nearest = NEAREST_GAIN.get(name, REFUSED.get(name, ""))
    return (
        f"no gain in {name!r} is promised; the nearest metric of a gate is "
        f"{nearest if nearest in GATE_METRICS else 'accuracy'}"
    )


def named_metric(name: str) -> Callable[..., LabelQuery] | None:
    """A metric by its name, also the one that scikit-learn has for it; None if gates do not compare by it."""
    if name in GAINS:
        return _NAMED[name]
    if name in GAINS_OF_SCORES:
        return partial(_scored, name)
    mean = MEANS.get(name, name)
    return _NAMED.get(mean) if isinstance(mean, str) else partial(risk, **mean)


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
        """The query about a candidate, for the labels of a holdout."""
        several = self.make_of_classes is not None and schema.label_kind != "binary"
        make = self.make_of_classes if several and self.make_of_classes is not None else self.make
        return make(predictions, training)


def metric_of(metric: Any, known: Mapping[str, Any] | None = None) -> GateMetric:
    """A metric as an analyst names it.

    Args:
        metric: One of `GATE_METRICS`, ``"risk"``, one of the functions `accuracy`, `error` and `brier`, or a function
            from a candidate to such a query or to a `metric`. None for the one that is known.
        known: The description of the gate's metric, where there is a gate already.
    """
    if metric is None and known is not None:
        metric = _maker_of(known)
    metric = as_metric(metric)
    make = named_metric(metric) if isinstance(metric, str) else metric
    if make is None or isinstance(make, Query) or not callable(make):
        raise no_metric(metric)
    several = _made(partial(_scored, metric)) if metric == _LOG_LOSS else None
    return GateMetric(_made(make), known, several)


def _made(make: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """From a candidate and its training predictions to the query, with refusals in place of other errors."""

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


def _maker_of(description: Mapping[str, Any]) -> Callable[..., LabelQuery]:
    """The metric that a description names.

    Raises:
        QueryRejected: If it is a function of the analyst's own, which no description can hold.
    """
    if description.get("kind") == SCORE:
        from everhold.queries.metrics.scores import SCORES

        name = str(description["name"])
        settings = SCORES[name].settings if name in SCORES else ()
        return partial(_scored, name, **{each: description[each] for each in settings if each in description})
    if description.get("kind") != "risk":
        return _NAMED[str(description["kind"])]
    if "loss" not in description:
        raise QueryRejected(
            "the gate's metric is a loss function of its own, which the ledger does not hold; expected it again as the "
            "gate's first argument, such as lambda model: eh.risk(model, loss, high=5, name='mine')"
        )
    loss, low, high = description["loss"], description["low"], description["high"]
    return lambda predictions, training=None: risk(predictions, loss, low=low, high=high, training=training)


def no_metric(thing: object) -> QueryRejected:
    """The refusal of something that gates do not compare by."""
    if (reason := why_no_gain(thing)) is not None:
        return QueryRejected(f"{reason}")
    return QueryRejected(
        f"the metric of a gate is {brief(thing)}; expected eh.accuracy, eh.error, eh.brier, their names, a name such "
        "as 'roc_auc', or a function from a candidate to such a query, as lambda model: eh.risk(model, 'log', "
        "high=5)"
    )


def metric_description(bound: BoundQuery) -> dict[str, Any]:
    """Description of the metric in a query about a candidate."""
    return {name: value for name, value in bound.description.items() if name not in _OF_CANDIDATES}


def metric_in_words(description: Mapping[str, Any]) -> str:
    """A metric as people read it.

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
