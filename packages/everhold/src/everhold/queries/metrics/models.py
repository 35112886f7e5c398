"""Cross-validation of a model on training rows, which gives the guess of its sealed score.

Predictions out of fold are held against the labels by the query itself, so the guess means what the answer means. A
model's own predictions of the rows that it was fitted on are too good: a guess that costs a surprise.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from everhold.arguments import brief
from everhold.errors import DependenceWarning, QueryRejected
from everhold.queries.means.mean import StatisticalQuery
from everhold.queries.metrics.label_query import LabelQuery, matrix_of
from everhold.queries.metrics.query import MetricQuery, check_ordered
from everhold.queries.metrics.ranking import RankingQuery
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.scored_rows import ScoredRows
from everhold.queries.metrics.scores import as_metric, scored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.queries.query import CompileContext
    from everhold.values.base import BoundQuery, Schema

ModelQuery: TypeAlias = LabelQuery | RankingQuery | MetricQuery


@dataclass(frozen=True, slots=True)
class Judge:
    """A metric applied to models, for the labels of one holdout.

    Attributes:
        metric: A name that `everhold.metric` takes, such as ``"accuracy"``, ``"roc_auc"`` or ``"neg_log_loss"``, or a
            function from a model to a query about its predictions, such as
            ``functools.partial(eh.risk, loss="absolute", high=60)``.
    """

    metric: str | Callable[[Any], Any]
    schema: Schema

    def query(self, model: Any, training: Any = None) -> Any:
        """Build the query about a model.

        Args:
            model: A fitted estimator.
            training: Predictions for the training rows, each by a model that was not fitted on this row; None for
                predictions of ``model``.

        Raises:
            QueryRejected: If the metric makes no query about predictions. Nothing is charged.
        """
        metric = as_metric(self.metric)
        make = scored(metric) if isinstance(metric, str) else metric
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
        """Compute the metric on training rows in its own units, nan if it has none, as a precision without positives.

        Args:
            outputs: Shape (rows,), as `outputs` gives them.
            labels: Shape (rows,).
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
        outputs: Shape (rows,): predictions out of fold; None where some row was left out more or less often than once.
        scores: The metric of each fold, in its own units.
        sizes: Rows of each fold.
        fit_seconds: Of each fold.
        score_seconds: Of each fold.
        refit_seconds: Of the fit on all rows.
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
        """The metric averaged over all rows that were left out, in its own units."""
        return float(np.average(self.scores, weights=self.sizes))


Splits: TypeAlias = "Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]"


def splits_of(cv: Any, features: Any, labels: Any, *, groups: Any = None, classifier: bool) -> Splits:
    """Return the folds as scikit-learn makes them, with whole groups if groups and a number of folds are given.

    Args:
        cv: A number of folds, a splitter, pairs of arrays, or None for five folds.
        features: Features of the rows.
        labels: Labels of the rows.
        groups: The group of each row.
        classifier: Whether classes are kept in proportion.
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
        labels: Shape (rows,).
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
        model.fit(taken(features, inside), taken(labels, inside), **arguments)
        fitted = time.perf_counter()
        outputs = judge.outputs(model, taken(features, outside))
        score = judge.score(outputs, np.asarray(taken(labels, outside)))
        told.append((outside, outputs))
        found.append((score, len(outputs), fitted - start, time.perf_counter() - fitted))
    start = time.perf_counter()
    estimator.fit(features, labels, **more)
    refit_seconds = time.perf_counter() - start
    scores, sizes, fits, scorings = zip(*found, strict=True)
    return CrossValidated(estimator, _in_order(told, rows), scores, sizes, fits, scorings, refit_seconds)


def _in_order(told: Sequence[tuple[NDArray[np.intp], NDArray[Any]]], rows: int) -> NDArray[Any] | None:
    """Return one out-of-fold prediction for each row, or None unless the folds hold each row once."""
    places = np.concatenate([np.arange(rows)[outside] for outside, _ in told])
    if len(places) != rows or len(np.unique(places)) != rows:
        return None
    outputs = np.concatenate([said for _, said in told])
    ordered = np.empty_like(outputs)
    ordered[places] = outputs
    return ordered


def _label_query(asked: ModelQuery) -> LabelQuery:
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
        compiler: What is known of the holdout.
        features: Columns; None for all but the label, the row ids and what names groups or the order of rows.

    Raises:
        QueryRejected: If there are no such rows, labels or columns.
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


def cross_validated(
    compiler: CompileContext, estimator: Any, metric: Any, *, cv: Any, features: Sequence[str] | None
) -> tuple[Any, float | None]:
    """Fit an estimator, and return the query about it with a guess if the query brings none itself.

    Args:
        compiler: What is known of the holdout.
        estimator: It is fitted in place.
        metric: See `Judge`.
        cv: See `splits_of`.
        features: See `open_rows`.
    """
    require_sklearn("evaluating an estimator")
    judge = Judge(metric, compiler.schema)
    rows, labels = open_rows(compiler, features)
    asked = judge.query(estimator)
    if not hasattr(estimator, "fit"):
        raise QueryRejected(
            f"{type(estimator).__name__} has no method fit, and an evaluation fits its model on the training rows. Ask "
            "about a model as it is with ask(eh.metric('accuracy', model))."
        )
    if isinstance(asked, StatisticalQuery):
        estimator.fit(rows, labels)
        return judge.query(estimator), None
    groups = groups_of(compiler)
    splits = splits_of(cv, rows, labels, groups=groups, classifier=classifies(estimator))
    found = cross_validate(estimator, judge, rows, labels, splits)
    return judge.query(found.model, found.outputs), None if found.outputs is not None else found.score


def classifies(estimator: Any) -> bool:
    """Return whether an estimator, of scikit-learn or of another library, is a classifier."""
    from sklearn.base import is_classifier

    try:
        return bool(is_classifier(estimator))
    except AttributeError:  # it has no tags
        return hasattr(estimator, "classes_") or hasattr(estimator, "predict_proba")


def groups_of(compiler: CompileContext) -> NDArray[Any] | None:
    """Return the group or unit of each training row, or None if the dependence names no column for it."""
    column = compiler.mechanism.dependence.unit_column
    return None if column is None or compiler.training is None else compiler.training.table((column,))[column]


@contextmanager
def no_false_alarms() -> Iterator[None]:
    """Silence warnings of dependence in a block, where differences between models would cause them.

    What the columns say of the rows themselves was told when they were sealed; see `Holdout.diagnose`.
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
