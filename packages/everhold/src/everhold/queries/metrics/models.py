"""Cross-validation of a model on training rows, which gives its guess, and metrics in slices of the rows.

The query itself compares predictions out of fold with the labels, so the guess is about the same quantity as the
answer. A model's own predictions for the rows on which it was fitted are too good, so a guess made from them is often
wrong and costs a surprise.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from everhold.answers import Answer, answer_rows
from everhold.arguments import brief
from everhold.display import Display
from everhold.errors import DependenceWarning, QueryRejected
from everhold.queries.makers import difference
from everhold.queries.means.combined import DifferenceQuery, ShareQuery, WithinQuery
from everhold.queries.means.contrast import has_value
from everhold.queries.means.mean import MeanQuery, StatisticalQuery, check_where
from everhold.queries.means.plans import Batch, OneMean
from everhold.queries.metrics.label_query import LabelQuery, matrix_of, note_texts
from everhold.queries.metrics.query import MetricQuery, check_compared, check_ordered
from everhold.queries.metrics.ranking import RankingQuery
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.row_scores import AccuracyQuery, LossQuery
from everhold.queries.metrics.scores import maker_of
from everhold.queries.query import CompileContext, Query, QueryPlan, RowwiseQuery
from everhold.queries.statistic import StatisticQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.base import BoundQuery, Schema

ModelQuery: TypeAlias = LabelQuery | RankingQuery | MetricQuery


def model_query(make: Any, model: Any, training: Any = None) -> Any:
    """Build the query for a metric of a model.

    Args:
        make: Function from predictions to the query, from `maker_of`.
        model: The fitted estimator.
        training: Predictions for the training rows, each by a model that was not fitted on this row; None for
            predictions of ``model``.

    Raises:
        QueryRejected: If the metric cannot make a query from predictions. Nothing is charged.
    """
    try:
        made = make(model) if callable(make) else None
    except QueryRejected:
        raise
    except Exception as fault:
        raise QueryRejected(
            f"The metric fails on a model with {type(fault).__name__}: {fault}. Pass a metric by its name, or a "
            "function from a model to a query about its predictions."
        ) from fault
    if training is None and isinstance(made, StatisticalQuery | ModelQuery):
        return made
    if not isinstance(made, ModelQuery):
        raise QueryRejected(
            f"The metric is {brief(make)}. Pass one of {', '.join(sorted(METRICS))}, or a function from a "
            "model to a query, such as partial(eh.risk, loss='absolute', high=60)."
        )
    if isinstance(made, RankingQuery):
        return replace(made, model=replace(made.model, training=training))
    if isinstance(made, MetricQuery):
        return replace(made, models=tuple(replace(model, training=training) for model in made.models))
    return replace(made, training=training)  # type: ignore[type-var]  # all of its kinds are dataclasses


def outputs_of(query: Any, features: Any, schema: Schema) -> NDArray[Any]:
    """Return the outputs of a query's model that the metric compares with labels, for rows with these features."""
    if isinstance(query, StatisticalQuery):
        raise QueryRejected(
            "The metric is the mean of a function of whole rows, which compares no predictions with labels. Fit the "
            "model yourself and pass that mean to ask()."
        )
    rows = query.models[0] if isinstance(query, MetricQuery) else query
    rows = rows.model if isinstance(rows, RankingQuery) else rows
    return np.asarray(rows.outputs(features, schema.label_classes))


def greater_is_better(make: Any, schema: Schema) -> bool:
    """Return whether a higher value of the metric is better.

    Args:
        make: Function from predictions to the query, from `maker_of`.
        schema: The public facts about the rows.

    Raises:
        QueryRejected: If the metric does not suit the labels, or does not order models. Nothing is charged.
    """
    nothing = np.zeros(0, dtype="U1" if schema.label_kind == "string" else np.float64)
    if isinstance(asked := model_query(make, nothing), MetricQuery):
        asked.check_labels(schema)
        check_ordered(asked.metric)
        return asked.metric.greater
    if isinstance(asked, RankingQuery):
        return True
    bound: BoundQuery = asked.bind(replace(schema, rows=0, training_rows=0))
    return (bound.at_fault == 0.0) == (bound.at_zero < bound.at_one)


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """A model fitted on all training rows, with the predictions and scores of cross-validation.

    Attributes:
        outputs: Predictions out of fold, shape (rows,); None unless each row was left out of exactly one fit.
        scores: The metric of each fold, in its own units; nan for folds that were not scored.
        sizes: Rows of each fold.
        fit_seconds: Seconds to fit each fold.
        score_seconds: Seconds to score each fold.
        refit_seconds: Seconds of the fit on all rows.
    """

    model: Any
    outputs: NDArray[Any] | None = field(repr=False)
    scores: tuple[float, ...]
    sizes: tuple[int, ...]
    fit_seconds: tuple[float, ...]
    score_seconds: tuple[float, ...]
    refit_seconds: float

    @property
    def score(self) -> float:
        """The average of the folds' scores, weighted by their numbers of rows."""
        return float(np.average(self.scores, weights=self.sizes))


Splits: TypeAlias = "Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]"


def splits_of(cv: Any, estimator: Any, features: Any, labels: Any, *, groups: Any = None) -> Splits:
    """Return the folds of a cross-validation, made by scikit-learn. Groups are kept whole if they are given.

    Args:
        cv: A number of folds, a splitter, pairs of arrays, or None for five folds.
        estimator: The estimator. For a classifier, each fold has the classes in proportion.
        features: Features of the rows.
        labels: Labels of the rows.
        groups: The group of each row.
    """
    from sklearn.base import is_classifier
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

    try:
        classifier = bool(is_classifier(estimator))
    except AttributeError:  # an estimator of another library, without tags
        classifier = hasattr(estimator, "classes_") or hasattr(estimator, "predict_proba")
    if groups is not None and (cv is None or isinstance(cv, int)):
        cv = (StratifiedGroupKFold if classifier else GroupKFold)(n_splits=5 if cv is None else cv)
    return list(check_cv(cv, labels, classifier=classifier).split(features, labels, groups))


def cross_validate(
    estimator: Any, makes: Sequence[Any], schema: Schema, features: Any, labels: Any, splits: Splits, *,
    fit: Mapping[str, Any] | None = None, scored: bool = True,
) -> list[CrossValidated]:  # fmt: skip
    """Fit clones of an estimator on all folds, score them by each metric, and fit the estimator itself on all rows.

    Args:
        estimator: Unfitted; it is fitted in place.
        makes: Function from predictions to the query for each metric, from `maker_of`.
        schema: The public facts about the holdout's rows.
        features: A data frame, an array or a sparse matrix, shape (rows, features).
        labels: Labels of the rows, of shape (rows,).
        splits: Row numbers to fit on and to predict, for each fold.
        fit: More arguments of ``fit``; those with one entry for each row are cut like the rows.
        scored: False to score the folds only if they do not leave out each row exactly once.
    """
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing as taken

    more, rows = dict(fit or {}), len(labels)
    found: list[Any] = [[] for _ in makes]
    by_row = {
        name for name, given in more.items()
        if hasattr(given, "__len__") and not isinstance(given, str | dict) and len(given) == rows
    }  # fmt: skip
    places = np.concatenate([np.arange(rows)[outside] for _, outside in splits])
    partition = len(places) == rows == len(np.unique(places))
    for inside, outside in splits:
        arguments = {name: taken(given, inside) if name in by_row else given for name, given in more.items()}
        start = time.perf_counter()
        model = clone(estimator, safe=False)  # a copy of what does not come from scikit-learn
        try:
            model.fit(taken(features, inside), taken(labels, inside), **arguments)
        except Exception as fault:
            note_texts(fault, features)
            raise
        fit_seconds = time.perf_counter() - start
        for make, folds in zip(makes, found, strict=True):
            start = time.perf_counter()
            query, score = model_query(make, model), math.nan
            outputs = outputs_of(query, taken(features, outside), schema)
            if scored or not partition:
                score = query.score_of(outputs, np.asarray(taken(labels, outside)), schema)
            folds.append((outputs, score, len(outputs), fit_seconds, time.perf_counter() - start))
    start = time.perf_counter()
    estimator.fit(features, labels, **more)
    refit_seconds, validated = time.perf_counter() - start, []
    for folds in found:
        told, scores, sizes, fits, scorings = zip(*folds, strict=True)
        out_of_fold = None
        if partition:
            said = np.concatenate(told)
            out_of_fold = np.empty_like(said)
            out_of_fold[places] = said
        validated.append(CrossValidated(estimator, out_of_fold, scores, sizes, fits, scorings, refit_seconds))
    return validated


def open_rows(compiler: CompileContext, features: Sequence[str] | None = None) -> tuple[Any, NDArray[Any]]:
    """Return the features of the training rows as a data frame, and their labels.

    Args:
        compiler: The compiler of the holdout.
        features: Columns to return. None for all except the label, the row ids and the columns of groups and of order.

    Raises:
        QueryRejected: If the holdout has no training rows, no labels or not these columns.
    """
    schema, training = compiler.schema, compiler.training
    if training is None or schema.label is None:
        lacking = "label column" if schema.label is None else "training rows"
        raise QueryRejected(
            f"This holdout has no {lacking}, so it cannot fit the estimator. Fit it yourself and pass a guess of your "
            "own, as in ask(accuracy(model), guess=0.8)."
        )
    group = compiler.mechanism.dependence.unit_column
    known = tuple(name for name in schema.features if name != group)
    names = known if features is None else tuple(features)
    if isinstance(features, str) or not names or not set(names) <= set(schema.features):
        raise QueryRejected(f"features is {brief(features)}. Pass a list of some of {', '.join(schema.features)}.")
    table = training.table((*names, schema.label))
    return matrix_of(table, names, schema, framed=True), table[schema.label]


@contextmanager
def no_false_alarms() -> Iterator[None]:
    """Context without warnings of dependence, which differences between models would cause needlessly.

    Dependence that the columns show was already reported when the rows were sealed; see `Holdout.diagnose`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        yield


def require_sklearn(who: str) -> None:
    """Check that scikit-learn is installed."""
    if find_spec("sklearn") is None:
        raise ModuleNotFoundError(
            f"{who} needs scikit-learn. Install it with: pip install 'everhold[sklearn]'", name="sklearn"
        )


# Metrics in one slice of the rows or in each of several, and differences of two models.

_MOST_SLICES = 1_000
_OF_SEVERAL = "Pass a metric that is a mean of rows ('accuracy', 'error', 'brier', or a loss with its range)"


@dataclass(frozen=True, slots=True)
class SliceAnswers(Display, Mapping[tuple[Any, ...], Answer]):
    """The answers about several slices, which are subsets of the rows. All intervals hold at once.

    Attributes:
        by: Names of the columns whose values define the slices.
        answers: Answer of each slice, by the values of the columns in ``by``.
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
        """Return one dictionary for each slice, for a table, with unsealed numbers if there are any."""
        named = ((dict(zip(self.by, values, strict=True)), answer) for values, answer in self.answers.items())
        return answer_rows(named)


def evaluation(
    compiler: CompileContext, estimator: Any, metrics: Sequence[Any], terms: Mapping[str, Any], *, sliced: bool
) -> list[tuple[Any, float | None]]:
    """Fit an estimator, and return the query for each metric with a guess, or None if the query has its own guess.

    Args:
        compiler: The compiler of the holdout.
        estimator: The estimator, which is fitted in place.
        metrics: The metrics, each in a form that `maker_of` takes. Several metrics are given by their names.
        terms: Keywords: ``cv``, as for `splits_of`; ``features``, as for `open_rows`; and ``fit``, more arguments of
            the estimator's ``fit``, as for `cross_validate`.
        sliced: True if the query is asked about slices, so that the guess needs one prediction for each training row.
    """
    require_sklearn("evaluating an estimator")
    makes = [maker_of(metric) for metric in metrics]
    rows, labels = open_rows(compiler, _features_of(estimator, compiler.schema, terms["features"]))
    fit = {} if terms["fit"] is None else terms["fit"]
    if not isinstance(fit, Mapping) or not all(isinstance(name, str) for name in fit):
        raise QueryRejected(
            f"fit is {brief(fit)}. Pass arguments of the estimator's fit by name, as in "
            "fit={'sample_weight': weights}."
        )
    queries = [model_query(make, estimator) for make in makes]
    if not hasattr(estimator, "fit"):
        raise QueryRejected(
            f"{type(estimator).__name__} has no method fit, and an evaluation fits its model on the training rows. Ask "
            "about a model as it is with ask(eh.metric('accuracy', model))."
        )
    for query in queries:
        if isinstance(query, MetricQuery):
            query.check_labels(compiler.schema)  # before the estimator is fitted
        if isinstance(query, StatisticalQuery):
            estimator.fit(rows, labels, **fit)
            return [(model_query(makes[0], estimator), None)]
    column, training = compiler.mechanism.dependence.unit_column, compiler.training
    groups = None if column is None or training is None else training.table((column,))[column]
    splits = splits_of(terms["cv"], estimator, rows, labels, groups=groups)
    validated = cross_validate(estimator, makes, compiler.schema, rows, labels, splits, fit=fit, scored=False)
    found: list[tuple[Any, float | None]] = []
    for make, each in zip(makes, validated, strict=True):
        if compiler.is_declared(plain := model_query(make, estimator)):
            found.append((plain, None))
            continue
        if sliced and each.outputs is None:
            raise QueryRejected(
                "The folds cv do not leave out each training row once, so they give no guess for a slice or a "
                "comparison. Pass a number of folds, or a splitter such as KFold."
            )
        guess = each.score if each.outputs is None else None
        found.append((model_query(make, estimator, each.outputs), guess))
    return found


def _features_of(estimator: Any, schema: Schema, features: Sequence[str] | None) -> Sequence[str] | None:
    """Return the columns to fit an estimator on. One that is fitted keeps its columns unless others are named."""
    fitted = getattr(estimator, "feature_names_in_", None)
    if features is not None or not hasattr(estimator, "n_features_in_"):
        return features
    if fitted is None and estimator.n_features_in_ != len(schema.features):
        raise QueryRejected(
            f"{type(estimator).__name__} was fitted on {estimator.n_features_in_} columns without names, and the rows "
            f"have {len(schema.features)}. Pass features=[...], the columns to fit it on."
        )
    return None if fitted is None or not {*fitted} <= {*schema.features} else [str(name) for name in fitted]


def comparison(
    compiler: CompileContext, both: tuple[Any, Any], metric: Any, terms: Mapping[str, Any]
) -> DifferenceQuery | MetricQuery:
    """Build the query for the difference of two models or sets of predictions, row by row.

    Args:
        compiler: The compiler of the holdout.
        both: Unfitted or fitted estimators, which are fitted in place; or rules, arrays, tables, or such queries as
            ``eh.accuracy(predictions, training=...)``.
        metric: The metric, in a form that `maker_of` takes; not needed if both are queries.
        terms: Keywords of the evaluation, as for `evaluation`.
    """
    if both[0] is both[1]:
        raise QueryRejected("Both models are the same object. Pass two models.")
    asked = []
    make = maker_of(metric)
    for each in both:
        if not isinstance(each, Query) and not (hasattr(each, "fit") and hasattr(each, "predict")):
            each = model_query(make, each)
        _check_comparable(each if isinstance(each, Query) else model_query(make, each))
        asked.append(each)
    queries: list[Any] = [
        each if isinstance(each, Query)
        else evaluation(compiler, each, [metric], terms, sliced=True)[0][0]
        for each in asked
    ]  # fmt: skip
    found: DifferenceQuery | MetricQuery = difference(*queries)
    plain = difference(*(each if isinstance(each, Query) else model_query(make, each) for each in asked))
    return plain if compiler.is_declared(plain) else found


def of_predictions(metric: Any, predictions: Any) -> Any:
    """Build the query about predictions by a metric that can be compared, without a schema.

    Raises:
        QueryRejected: If the metric is not a mean over rows. Nothing is charged.
    """
    if isinstance(predictions, LabelQuery | MetricQuery):
        return predictions
    made = maker_of(metric)(predictions)
    _check_comparable(made)
    return made


def in_slice(query: Any, where: str | None, *, guessed: bool = False) -> Any:
    """Return the query limited to rows that meet a condition.

    Args:
        query: A metric of one model, or a difference of two models.
        where: Condition for the rows of the slice. None for all rows.
        guessed: True if the analyst has an own guess. A difference then has to be one query even if there are no
            training predictions.

    Raises:
        QueryRejected: If the query cannot be limited to some rows. Nothing is charged.
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
    """Return the slices that occur in the training rows: the values of the columns, and the condition for each.

    Raises:
        QueryRejected: If a column is missing or does not hold categories, or there are too many slices. Nothing is
            charged.
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
        (each, " and ".join(has_value(name, value, schema) for name, value in zip(by, each, strict=True)))
        for each in found_slices
    ]


def plans_of(
    compiler: CompileContext, queries: Mapping[str, tuple[Any, float | None]], *, guess: float | None
) -> list[QueryPlan[Any]]:
    """Compile several queries about one model, so that none is asked if one cannot be compiled.

    Args:
        compiler: The compiler of the holdout.
        queries: Each query with its own guess, by its name for messages.
        guess: The analyst's guess for queries to which the training rows give none.
    """
    plans = []
    for name, (query, own) in queries.items():
        try:
            plan = compiler.compile(query, own, None)
        except QueryRejected as fault:
            if guess is None:
                raise QueryRejected(f"{fault.message} This was in {name}.", **fault.data) from None
            plan = compiler.compile(query, guess, None)
        plans.append(plan)
    return plans


def as_one_step(compiler: CompileContext, plans: Sequence[QueryPlan[Any]]) -> Batch:
    """Return the queries of several plans as one batch (S9).

    Raises:
        QueryRejected: If one of the plans does not consist of one query for this holdout. Nothing is charged.
    """
    if not all(isinstance(plan, OneMean) for plan in plans):
        raise QueryRejected(
            f"The mechanism {compiler.mechanism.name} cannot answer all slices together. Use "
            "mechanism='guess_and_check' with a model or with training=..., or ask one slice with where=..."
        )
    prepared = [plan.prepared[0] for plan in plans if isinstance(plan, OneMean)]
    return Batch(prepared, compiler.schema, compiler.mechanism, silent=compiler.silent)


def _as_metric(query: Any) -> MetricQuery | None:
    """Return a query as a `MetricQuery`, or None if it is not about a named metric."""
    if isinstance(query, AccuracyQuery | LossQuery) and query.score in METRICS.own:
        return MetricQuery.of(METRICS[query.score], query.predictions, query.training, positive=query.positive)
    return query if isinstance(query, MetricQuery) else None


def _check_comparable(query: Any) -> None:
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
    if isinstance(query, StatisticQuery):
        return "AUC with counts"
    return "A ratio such as precision" if isinstance(query, ShareQuery) else type(query).__name__


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
