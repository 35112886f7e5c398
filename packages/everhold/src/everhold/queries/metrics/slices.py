"""Metrics in one slice of the rows or in each of several, and differences of two models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.answers import Answer
from everhold.arguments import brief
from everhold.display import Display
from everhold.errors import QueryRejected
from everhold.queries.makers import difference
from everhold.queries.means.batch import Batch, OneMean
from everhold.queries.means.mean import MeanQuery, check_where
from everhold.queries.means.shares import ShareQuery, WithinQuery
from everhold.queries.metrics.difference import DifferenceQuery
from everhold.queries.metrics.label_query import LabelQuery
from everhold.queries.metrics.models import Judge, cross_validated
from everhold.queries.metrics.query import MetricQuery, check_compared
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.row_scores import AccuracyQuery, LossQuery, risk
from everhold.queries.metrics.scores import as_metric, scored
from everhold.queries.query import Query, QueryPlan, RowwiseQuery
from everhold.queries.statistic import StatisticQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from everhold.queries.query import CompileContext

_MOST_SLICES = 1_000
_OF_SEVERAL = "Pass a metric that is a mean of rows ('accuracy', 'error', 'brier', or a loss with its range)"


@dataclass(frozen=True, slots=True)
class SliceAnswers(Display, Mapping[tuple[Any, ...], Answer]):
    """The answers of several slices, one for each by its values. All intervals hold at once.

    Attributes:
        by: Columns that name slices.
        answers: One for each slice, by the values of these columns.
    """

    by: tuple[str, ...]
    answers: Mapping[tuple[Any, ...], Answer] = field(repr=False)

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.answers)

    def __getitem__(self, slice_values: Any) -> Answer:
        """Return the answer for a slice, such as ``answers["N", "60+"]`` or ``answers["N"]``."""
        return self.answers[slice_values if isinstance(slice_values, tuple) else (slice_values,)]

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"by": [...], "rows": [{column: value, ..., "value", "low", "high", "source", "charged"}]}``."""
        return {"by": list(self.by), "rows": self.to_rows()}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary for each slice, for a table."""
        return [
            {**dict(zip(self.by, values, strict=True)), "value": answer.value, "low": answer.low, "high": answer.high,
             "source": answer.source, "charged": answer.charged}
            for values, answer in self.answers.items()
        ]  # fmt: skip


def metric_by(metric: Any) -> str | Callable[..., Any]:
    """Return a metric as `Judge` takes it, with ``{"loss": ..., "high": ...}`` turned into a function."""
    return partial(risk, **metric) if isinstance(metric, Mapping) else metric


def evaluation(
    compiler: CompileContext, estimator: Any, metric: Any, *, cv: Any, features: Sequence[str] | None, sliced: bool
) -> tuple[Any, float | None]:
    """Fit an estimator, and return the query about it with a guess if the query brings none itself.

    Args:
        compiler: What is known of the holdout.
        estimator: It is fitted in place.
        metric: See `metric_by`.
        cv: See `everhold.queries.metrics.models.splits_of`.
        features: Columns to fit on.
        sliced: Whether it is asked of slices, so that the guess needs one prediction for each training row.
    """
    query, guess = cross_validated(compiler, estimator, metric_by(metric), cv=cv, features=features)
    if compiler.is_declared(plain := Judge(metric_by(metric), compiler.schema).query(estimator)):
        return plain, None
    if sliced and guess is not None:
        raise QueryRejected(
            "The folds cv do not leave out each training row once, so they give no guess for a slice or a comparison. "
            "Pass a number of folds, or a splitter such as KFold."
        )
    return query, guess


def comparison(
    compiler: CompileContext, both: tuple[Any, Any], metric: Any, *, cv: Any, features: Sequence[str] | None
) -> DifferenceQuery | MetricQuery:
    """Build the query for the difference of two models or sets of predictions, row by row.

    Args:
        compiler: What is known of the holdout.
        both: Unfitted or fitted estimators, which are fitted in place; or rules, arrays, tables, or such queries as
            ``eh.accuracy(predictions, training=...)``.
        metric: See `metric_by`; not needed for queries.
        cv: See `everhold.queries.metrics.models.splits_of`.
        features: Columns to fit on.
    """
    if both[0] is both[1]:
        raise QueryRejected("Both models are the same object. Pass two models.")
    asked = []
    judge = Judge(metric_by(metric), compiler.schema)
    for each in both:
        if not isinstance(each, Query) and not (hasattr(each, "fit") and hasattr(each, "predict")):
            each = judge.query(each)
        _check_comparable(each if isinstance(each, Query) else judge.query(each))
        asked.append(each)
    queries: list[Any] = [
        each if isinstance(each, Query)
        else evaluation(compiler, each, metric, cv=cv, features=features, sliced=True)[0]
        for each in asked
    ]  # fmt: skip
    found: DifferenceQuery | MetricQuery = difference(*queries)
    plain = difference(*(each if isinstance(each, Query) else judge.query(each) for each in asked))
    return plain if compiler.is_declared(plain) else found


def of_predictions(metric: Any, predictions: Any) -> Any:
    """Build the query about predictions by a metric that can be compared, without a schema.

    Raises:
        QueryRejected: If it is no mean of rows. Nothing is charged.
    """
    if isinstance(predictions, LabelQuery | MetricQuery):
        return predictions
    metric = as_metric(metric_by(metric))
    make = scored(metric) if isinstance(metric, str) else metric
    made = make(predictions)
    _check_comparable(made)
    return made


def in_slice(query: Any, where: str | None, *, guessed: bool = False) -> Any:
    """Return the query among rows that meet a condition, or the query itself without one.

    Args:
        query: A metric, or a difference of two.
        where: The condition.
        guessed: Whether the analyst has an own guess, so that a difference has to be one query without training
            predictions, too.

    Raises:
        QueryRejected: If it cannot be asked of some rows alone. Nothing is charged.
    """
    if where is None:
        return query
    check_where(where)
    rows = MeanQuery(where)
    if guessed and isinstance(query, DifferenceQuery):
        if any(_as_metric(each) is None for each in (query.first, query.second)):
            raise QueryRejected(
                "A comparison in a slice takes its guess from training rows. Leave guess out, and pass models or "
                "predictions with training=..., or compare by a metric such as neg_mean_squared_error."
            )
        return difference(in_slice(query.first, where), in_slice(query.second, where))
    if (metric := _as_metric(query)) is not None:
        return metric.among(where)
    if isinstance(query, RowwiseQuery):
        return ShareQuery(query, rows)
    if isinstance(query, ShareQuery):
        part, whole = WithinQuery(query.part, rows), WithinQuery(query.whole, rows)
        return ShareQuery(part, whole, nested=True, name=query.name)
    raise QueryRejected(f"{_named(query)} cannot be asked of a slice. {_OF_SEVERAL}, or another metric by its name.")


def slices_of(compiler: CompileContext, by: Sequence[str]) -> list[tuple[tuple[Any, ...], str]]:
    """Return the slices in the training rows: values of the columns, and the condition that selects them.

    Raises:
        QueryRejected: If a column is missing or is no category, or there are too many slices. Nothing is charged.
    """
    schema, training = compiler.schema, compiler.training
    known = list(schema.features)
    if isinstance(by, str) or not by or not set(by) <= set(known) or len(set(by)) < len(by):
        raise QueryRejected(f"by is {brief(by)}. Pass a list of different columns, some of {', '.join(known)}.")
    if training is None:
        raise QueryRejected(
            "The values of slices come from training rows, and this holdout has none. Ask each slice with where=..."
        )
    table = training.table(tuple(by))
    columns = [np.asarray(table[name]) for name in by]
    values = [[each for each in dict.fromkeys(column.tolist()) if not _is_missing(each)] for column in columns]
    for name, found in zip(by, values, strict=True):
        if not found or len(found) > _MOST_SLICES:
            raise QueryRejected(
                f"The column {name!r} has {len(found):,} values in the training rows. Pass columns with 1 to "
                f"{_MOST_SLICES:,} values, such as categories or bands."
            )
    rows = set(zip(*(column.tolist() for column in columns), strict=True))
    found_slices = [each for each in product(*(sorted(found) for found in values)) if each in rows]
    if len(found_slices) > _MOST_SLICES:
        raise QueryRejected(
            f"The columns {', '.join(by)} give {len(found_slices):,} slices, more than {_MOST_SLICES:,}. Pass fewer "
            "columns, or columns with fewer values."
        )
    return [
        (each, " and ".join(f"{_column(name)} = {_literal(value)}" for name, value in zip(by, each, strict=True)))
        for each in found_slices
    ]


def plans_of_slices(
    compiler: CompileContext, queries: Mapping[str, Any], *, guess: float | None
) -> list[QueryPlan[Any]]:
    """Compile the queries of all slices before the first one is asked.

    Args:
        compiler: The compiler of the holdout.
        queries: By the condition of each slice.
        guess: The analyst's own, for slices whose training rows make none.
    """
    plans = []
    for where, query in queries.items():
        try:
            plan = compiler.compile(query, None, None)
        except QueryRejected as fault:
            if guess is None:
                raise QueryRejected(f"{fault.message} This was in the slice {brief(where)}.", **fault.data) from None
            plan = compiler.compile(query, guess, None)
        plans.append(plan)
    return plans


def as_one_step(compiler: CompileContext, queries: Sequence[Any], plans: Sequence[QueryPlan[Any]]) -> Batch | None:
    """Return queries of slices as one step (S9), or None for metrics that are asked one by one.

    Raises:
        QueryRejected: If one of them is not one query here. Nothing is charged.
    """
    if any(isinstance(plan, OneMean) and plan.is_number for plan in plans):
        return None
    if not all(isinstance(plan, OneMean) for plan in plans):
        raise QueryRejected(
            f"The mechanism {compiler.mechanism.name} cannot answer all slices together. Use "
            "mechanism='guess_and_check' with a model or with training=..., or ask one slice with where=..."
        )
    prepared = [plan.prepared[0] for plan in plans if isinstance(plan, OneMean)]
    return Batch(prepared, compiler.schema, compiler.mechanism, silent=compiler.silent)


def _as_metric(query: Any) -> MetricQuery | None:
    """Return a query as a named metric, or None if it is none."""
    if isinstance(query, AccuracyQuery | LossQuery) and query.score in METRICS.own:
        return MetricQuery.of(METRICS[query.score], query.predictions, query.training, positive=query.positive)
    return query if isinstance(query, MetricQuery) else None


def _check_comparable(query: Any) -> None:
    """Check that two models can be compared by this query."""
    if isinstance(query, MetricQuery):
        if not query.metric.outcomes:
            check_compared(query.metric)
        return
    if not isinstance(query, LabelQuery):
        raise QueryRejected(
            f"{_named(query)} does not compare two models row by row. {_OF_SEVERAL}, or precision, recall, f1 or "
            "roc_auc."
        )


def _named(query: Any) -> str:
    """Return the name of a query's metric for messages."""
    if isinstance(query, StatisticQuery):
        return "AUC with counts"
    return "A ratio such as precision" if isinstance(query, ShareQuery) else type(query).__name__


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(int(value)) if float(value).is_integer() else repr(value)
