"""Cross-validation of a model on training rows, which gives its guess, and metrics in slices of the rows.

Predictions out of fold are held against the labels by the query itself, so the guess means what the answer means. A
model's own predictions of the rows that it was fitted on are too good: a guess that costs a surprise.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from everhold.answers import Answer
from everhold.arguments import brief
from everhold.display import Display
from everhold.errors import DependenceWarning, QueryRejected
from everhold.queries.makers import difference
from everhold.queries.means.combined import DifferenceQuery, ShareQuery, WithinQuery
from everhold.queries.means.mean import MeanQuery, StatisticalQuery, check_where
from everhold.queries.means.plans import Batch, OneMean
from everhold.queries.metrics.label_query import LabelQuery, matrix_of, note_texts
from everhold.queries.metrics.query import MetricQuery, check_compared, check_ordered
from everhold.queries.metrics.ranking import RankingQuery
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.row_scores import AccuracyQuery, LossQuery, ScoredRows
from everhold.queries.metrics.scores import maker_of
from everhold.queries.query import Query, QueryPlan, RowwiseQuery
from everhold.queries.statistic import StatisticQuery
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.queries.query import CompileContext
    from everhold.values.base import BoundQuery, Schema

ModelQuery: TypeAlias = LabelQuery | RankingQuery | MetricQuery


@dataclass(frozen=True, slots=True)
class Judge:
    """A metric that is applied to models of one holdout's label.

    Attributes:
        metric: A name that `everhold.metric` takes, such as ``"accuracy"``, ``"roc_auc"`` or ``"neg_log_loss"``, or a
            function from a model to a query about its predictions, such as
            ``functools.partial(eh.risk, loss="absolute", high=60)``, or the arguments of `everhold.risk` by name.
    """

    metric: str | Callable[[Any], Any] | Mapping[str, Any]
    schema: Schema

    def query(self, model: Any, training: Any = None) -> Any:
        """Build the query about a model.

        Args:
            model: The fitted estimator.
            training: Predictions for the training rows, each by a model that was not fitted on this row; None for
                predictions of ``model``.

        Raises:
            QueryRejected: If the metric cannot make a query from predictions. Nothing is charged.
        """
        make = maker_of(self.metric)
        try:
            made = make(model) if callable(make) else None
        except QueryRejected:
            raise
        except Exception as fault:
            raise QueryRejected(
                f"The metric fails on a model with {type(fault).__name__}: {fault}. Pass a metric by its name, or a "
                "function from a model to a query about its predictions."
            ) from fault
        if isinstance(made, StatisticalQuery) and training is None:
            return made
        if not isinstance(made, ModelQuery):
            raise QueryRejected(
                f"The metric is {brief(self.metric)}. Pass one of {', '.join(sorted(METRICS))}, or a function from a "
                "model to a query, such as partial(eh.risk, loss='absolute', high=60)."
            )
        if training is None:
            return made
        if isinstance(made, RankingQuery):
            return replace(made, model=replace(made.model, training=training))
        if isinstance(made, MetricQuery):
            return replace(made, models=tuple(replace(model, training=training) for model in made.models))
        return replace(made, training=training)  # type: ignore[type-var]  # all of its kinds are dataclasses

    def outputs(self, model: Any, features: Any) -> NDArray[Any]:
        """Return the outputs of a model that the metric compares with labels."""
        query = _label_query(self.query(model))
        if isinstance(query, ScoredRows):
            query = replace(query, classes=self.schema.label_classes)
        return np.asarray(query.outputs(features))

    def score(self, outputs: NDArray[Any], labels: NDArray[Any]) -> float:
        """Return the metric on training rows in its own units, or nan if it is undefined there.

        Args:
            outputs: Predictions of the kind that `outputs` names, shape (rows,).
            labels: Labels of the training rows, of shape (rows,).
        """
        asked, table = self.query(outputs), {self.schema.label or "": np.asarray(labels)}
        _label_query(asked)
        if isinstance(asked, MetricQuery):
            return asked.score(outputs, labels, self.schema)
        schema = replace(self.schema, rows=len(outputs), training_rows=0)
        if isinstance(asked, RankingQuery):
            rows = replace(asked.model, classes=self.schema.label_classes)
            share = Fraction(len(outputs), self.schema.rows)
            return float(asked.of_rows(rows.coded(np.asarray(outputs)), np.asarray(labels), share))
        bound: BoundQuery = asked.bind(schema)
        assert bound.sealed is not None
        values = np.asarray(bound.sealed(table), dtype=np.float64)
        return bound.from_mean(float(np.mean(np.clip(values, 0.0, 1.0))))

    @property
    def greater_is_better(self) -> bool:
        """Whether a higher value of the metric is better."""
        nothing = np.zeros(0, dtype="U1" if self.schema.label_kind == "string" else np.float64)
        if isinstance(asked := self.query(nothing), MetricQuery):
            asked.check_labels(self.schema)
            check_ordered(asked.metric)
            return asked.metric.greater
        if isinstance(asked, RankingQuery):
            return True
        bound: BoundQuery = asked.bind(replace(self.schema, rows=0, training_rows=0))
        return (bound.at_fault == 0.0) == (bound.at_zero < bound.at_one)


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """A model fitted on all training rows, with the predictions and scores of cross-validation.

    Attributes:
        outputs: Predictions out of fold, shape (rows,); None unless each row was left out of exactly one fit.
        scores: The metric of each fold, in its own units.
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


def splits_of(cv: Any, features: Any, labels: Any, *, groups: Any = None, classifier: bool) -> Splits:
    """Return the folds of a cross-validation, made by scikit-learn. Groups are kept whole if they are given.

    Args:
        cv: A number of folds, a splitter, pairs of arrays, or None for five folds.
        features: Features of the rows.
        labels: Labels of the rows.
        groups: The group of each row.
        classifier: True if each fold has the classes in proportion; False for labels that are not classes.
    """
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

    if groups is not None and (cv is None or isinstance(cv, int)):
        cv = (StratifiedGroupKFold if classifier else GroupKFold)(n_splits=5 if cv is None else cv)
    return list(check_cv(cv, labels, classifier=classifier).split(features, labels, groups))


def cross_validate(
    estimator: Any, judge: Judge, features: Any, labels: Any, splits: Splits, *,
    fit: Mapping[str, Any] | None = None,
) -> CrossValidated:  # fmt: skip
    """Fit clones of an estimator on all folds, score them, and fit the estimator itself on all rows.

    Args:
        estimator: Unfitted; it is fitted in place.
        judge: The metric and how it reads predictions.
        features: A data frame, an array or a sparse matrix, shape (rows, features).
        labels: Labels of the rows, of shape (rows,).
        splits: Row numbers to fit on and to predict, for each fold.
        fit: More arguments of ``fit``; those with one entry for each row are cut like the rows.
    """
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing as taken

    more, rows, found, told = dict(fit or {}), len(labels), [], []
    by_row = {
        name for name, given in more.items()
        if hasattr(given, "__len__") and not isinstance(given, str | dict) and len(given) == rows
    }  # fmt: skip
    for inside, outside in splits:
        arguments = {name: taken(given, inside) if name in by_row else given for name, given in more.items()}
        start = time.perf_counter()
        model = clone(estimator, safe=False)  # a copy of what does not come from scikit-learn
        try:
            model.fit(taken(features, inside), taken(labels, inside), **arguments)
        except Exception as fault:
            note_texts(fault, features)
            raise
        fitted = time.perf_counter()
        outputs = judge.outputs(model, taken(features, outside))
        score = judge.score(outputs, np.asarray(taken(labels, outside)))
        told.append((outside, outputs))
        found.append((score, len(outputs), fitted - start, time.perf_counter() - fitted))
    start = time.perf_counter()
    estimator.fit(features, labels, **more)
    refit_seconds = time.perf_counter() - start
    scores, sizes, fits, scorings = zip(*found, strict=True)
    places, out_of_fold = np.concatenate([np.arange(rows)[outside] for outside, _ in told]), None
    if len(places) == rows == len(np.unique(places)):
        said = np.concatenate([outputs for _, outputs in told])
        out_of_fold = np.empty_like(said)
        out_of_fold[places] = said
    return CrossValidated(estimator, out_of_fold, scores, sizes, fits, scorings, refit_seconds)


def _label_query(asked: ModelQuery) -> LabelQuery:
    """Return the query that compares predictions with labels, of which a query about a model is made."""
    if isinstance(asked, StatisticalQuery):
        raise QueryRejected(
            "The metric is the mean of a function of whole rows, which compares no predictions with labels. Fit the "
            "model yourself and pass that mean to ask()."
        )
    if isinstance(asked, MetricQuery):
        return asked.models[0]
    return asked.model if isinstance(asked, RankingQuery) else asked


def open_rows(compiler: CompileContext, features: Sequence[str] | None = None) -> tuple[Any, NDArray[Any]]:
    """Return the features of the training rows as a data frame, and their labels.

    Args:
        compiler: The compiler of the holdout.
        features: Columns; None for all but the label, the row ids and what names groups or the order of rows.

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


def classifies(estimator: Any) -> bool:
    """Return whether an estimator, of scikit-learn or of another library, is a classifier."""
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(estimator))
    except AttributeError:  # it has no tags
        return hasattr(estimator, "classes_") or hasattr(estimator, "predict_proba")


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
        """Return one dictionary for each slice, for a table."""
        return [
            {**dict(zip(self.by, values, strict=True)), "value": answer.value, "low": answer.low, "high": answer.high,
             "source": answer.source, "charged": answer.charged}
            for values, answer in self.answers.items()
        ]  # fmt: skip


def evaluation(
    compiler: CompileContext, estimator: Any, metric: Any, terms: Mapping[str, Any], *, sliced: bool
) -> tuple[Any, float | None]:
    """Fit an estimator, and return the query for its metric with a guess, or None if the query has its own guess.

    Args:
        compiler: The compiler of the holdout.
        estimator: The estimator, which is fitted in place.
        metric: The metric, in a form that `Judge` takes.
        terms: Keywords: ``cv``, as for `splits_of`; ``features``, as for `open_rows`; and ``fit``, more arguments of
            the estimator's ``fit``, as for `cross_validate`.
        sliced: True if the query is asked about slices, so that the guess needs one prediction for each training row.
    """
    require_sklearn("evaluating an estimator")
    judge = Judge(metric, compiler.schema)
    rows, labels = open_rows(compiler, terms["features"])
    fit = {} if terms["fit"] is None else terms["fit"]
    if not isinstance(fit, Mapping) or not all(isinstance(name, str) for name in fit):
        raise QueryRejected(
            f"fit is {brief(fit)}. Pass arguments of the estimator's fit by name, as in "
            "fit={'sample_weight': weights}."
        )
    query, guess = judge.query(estimator), None
    if not hasattr(estimator, "fit"):
        raise QueryRejected(
            f"{type(estimator).__name__} has no method fit, and an evaluation fits its model on the training rows. Ask "
            "about a model as it is with ask(eh.metric('accuracy', model))."
        )
    if isinstance(query, StatisticalQuery):
        estimator.fit(rows, labels, **fit)
        query = judge.query(estimator)
    else:
        column, training = compiler.mechanism.dependence.unit_column, compiler.training
        groups = None if column is None or training is None else training.table((column,))[column]
        splits = splits_of(terms["cv"], rows, labels, groups=groups, classifier=classifies(estimator))
        found = cross_validate(estimator, judge, rows, labels, splits, fit=fit)
        query, guess = judge.query(found.model, found.outputs), None if found.outputs is not None else found.score
    if compiler.is_declared(plain := judge.query(estimator)):
        return plain, None
    if sliced and guess is not None:
        raise QueryRejected(
            "The folds cv do not leave out each training row once, so they give no guess for a slice or a comparison. "
            "Pass a number of folds, or a splitter such as KFold."
        )
    return query, guess


def comparison(
    compiler: CompileContext, both: tuple[Any, Any], metric: Any, terms: Mapping[str, Any]
) -> DifferenceQuery | MetricQuery:
    """Build the query for the difference of two models or sets of predictions, row by row.

    Args:
        compiler: The compiler of the holdout.
        both: Unfitted or fitted estimators, which are fitted in place; or rules, arrays, tables, or such queries as
            ``eh.accuracy(predictions, training=...)``.
        metric: The metric, in a form that `Judge` takes; not needed if both are queries.
        terms: Keywords of the evaluation, as for `evaluation`.
    """
    if both[0] is both[1]:
        raise QueryRejected("Both models are the same object. Pass two models.")
    asked = []
    judge = Judge(metric, compiler.schema)
    for each in both:
        if not isinstance(each, Query) and not (hasattr(each, "fit") and hasattr(each, "predict")):
            each = judge.query(each)
        _check_comparable(each if isinstance(each, Query) else judge.query(each))
        asked.append(each)
    queries: list[Any] = [
        each if isinstance(each, Query)
        else evaluation(compiler, each, metric, terms, sliced=True)[0]
        for each in asked
    ]  # fmt: skip
    found: DifferenceQuery | MetricQuery = difference(*queries)
    plain = difference(*(each if isinstance(each, Query) else judge.query(each) for each in asked))
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
    """Return the query limited to rows that meet a condition, or unchanged if ``where`` is None.

    Args:
        query: A metric of one model, or a difference of two models.
        where: Condition for the rows of the slice; None for all rows.
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
        (each, " and ".join(f"{quoted(name)} = {_literal(value)}" for name, value in zip(by, each, strict=True)))
        for each in found_slices
    ]


def plans_of(
    compiler: CompileContext, queries: Mapping[str, tuple[Any, float | None]], *, guess: float | None
) -> list[QueryPlan[Any]]:
    """Compile several queries about one model, so that none is asked if one cannot be compiled.

    Args:
        compiler: The compiler of the holdout.
        queries: Each query with its own guess, by its name for messages.
        guess: The analyst's guess for those to which the training rows give none.
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
    """Return whether a value is None or nan."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _literal(value: Any) -> str:
    """Return a value in the spelling of text expressions."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(int(value)) if float(value).is_integer() else repr(value)
