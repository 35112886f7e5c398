"""Checks of a competition's metric before any submission, by queries about made-up predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.errors import HoldoutRejected, QueryRejected
from everhold.gates.candidates import metric_of
from everhold.queries.metrics.label_query import LabelQuery
from everhold.queries.metrics.measures import measure_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.row_scores import risk
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms import Mechanism
    from everhold.queries.metrics.query import MetricQuery
    from everhold.values.base import Schema


Score = tuple[str, dict[str, float]]
"""A score by its name, with its settings."""


def check_metric(metric: str | Mapping[str, Any], score: Score | None, schema: Schema) -> None:
    """Check that submissions can be scored by the metric, and raise HoldoutRejected if not.

    Raises:
        HoldoutRejected: If the metric does not suit the labels, or a range is missing. Nothing was created.
    """
    if isinstance(metric, Mapping) and metric.get("loss") == "log" and schema.label_kind != "binary":
        raise HoldoutRejected(
            "A logarithmic loss ranks a board of labels 0 and 1 alone. Rank by another metric of classes"
        )
    try:
        if score is None:
            mean_facts(metric, schema)
        else:
            _check_score(score, schema)
    except QueryRejected as reason:
        raise HoldoutRejected(reason.message) from None


def check_mechanism(score: Score | None, mechanism: Mechanism) -> None:
    """Check that a mechanism can answer queries about a score, given the dependence of the rows.

    Raises:
        HoldoutRejected: If nothing is promised of this metric for such rows. Nothing was created.
    """
    if score is None:
        return
    from everhold.queries.metrics.query import check_kind

    try:
        check_kind(METRICS[score[0]], mechanism)
    except QueryRejected as reason:
        raise HoldoutRejected(reason.message) from None


def of_gate(metric: str | Mapping[str, Any]) -> str | Callable[..., LabelQuery]:
    """Return the metric in the form that gates accept: its name, or a loss function with its settings."""
    return partial(risk, **metric) if isinstance(metric, Mapping) else metric


def mean_facts(metric: str | Mapping[str, Any], schema: Schema) -> BoundQuery:
    """Return the query about made-up predictions, which has the units and description that all submissions share."""
    made: LabelQuery = metric_of(of_gate(metric)).make(made_up("classes", schema, last=False), None)
    return made.bind(schema)


def _check_score(score: Score, schema: Schema) -> None:
    from everhold.queries.metrics.query import check_ordered

    asked = named(score, made_up(METRICS[score[0]].outputs, schema, last=False), None)
    check_ordered(asked.metric)
    asked.check_labels(schema)
    asked.setting(schema, None)
    if measure_of(asked.metric).by_rank:
        from everhold.queries.metrics.label_query import check_split

        check_split(asked.metric.title or asked.metric.name, schema, by_rank=True)


def named(score: Score, predictions: Any, training: Any) -> MetricQuery:
    """Return the query about a score, from its name and settings and a submission's predictions."""
    from everhold.queries.metrics.query import MetricQuery

    name, settings = score
    return MetricQuery.of(METRICS[name], predictions, training, settings)


def made_up(outputs: str, schema: Schema, *, last: bool) -> NDArray[Any]:
    """Return made-up predictions that are valid for a score, shape (rows,).

    With `last` they differ from those without it.
    """
    if outputs == "scores":
        return np.arange(schema.rows)[:: -1 if last else 1].astype(np.float64)
    if outputs in ("probability", "numbers"):
        return np.full(schema.rows, 1.0 if last else 0.0)
    classes = schema.label_classes
    place: Literal[-1, 0] = -1 if last else 0
    value = classes[place] if classes else str(last) if schema.label_kind == "string" else float(last)
    return np.full(schema.rows, value)
