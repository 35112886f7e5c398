"""Metrics by their names in scikit-learn (`everhold.queries.metrics.registry`), each one query.

A score has the same sign as in scikit-learn: ``"neg_log_loss"`` is never positive. A metric without a promised interval
is refused, and the message names the nearest metric that has one.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from everhold.arguments import advice_for, as_float, brief, items_of, names_keywords
from everhold.errors import QueryRejected
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.metrics.registry import METRICS, REASONS, REFUSED, REFUSED_FUNCTIONS, Metric
from everhold.queries.metrics.row_scores import ScoredRows, risk
from everhold.queries.predictions.arrays import first_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ScoreSettings(TypedDict, total=False):
    """The arguments of `metric` that only some metrics have."""

    low: float | None
    high: float | None
    clip: float | None
    bins: int | None
    rate: float | None
    threshold: float | None
    floor: float | None


@names_keywords(ScoreSettings)
def metric(
    name: str, predictions: Any, *, training: Any = None, where: str | None = None, pos_label: Any = None,
    weight: str | None = None, weight_cap: float | None = None, **settings: Unpack[ScoreSettings],
) -> Any:  # fmt: skip
    """Build the query for a metric of predictions, by its name in scikit-learn and with the sign that it has there.

    Args:
        name: Name of the metric, such as ``"roc_auc"``, ``"f1_macro"`` or ``"neg_log_loss"``; all names are in
            `everhold.queries.metrics.registry.METRICS`.
        predictions: What the metric needs, one for each sealed row in the order of the rows: classes, probabilities of
            label 1, scores or numbers, shape (rows,); for ``"neg_log_loss"`` of several classes shape (rows, classes)
            in the order of the classes. Or a table with row ids, as for `accuracy`; or a fitted estimator.
        training: Predictions for the training rows, in the same form, from which the guess is made.
        where: A condition, such as ``"region = 'N'"``: the score of the rows that meet it.
        pos_label: The positive class, for metrics of labels 0 and 1: any class of the label against the rest. By
            default label 1. Probabilities and scores are those of this class.
        weight: How much a row counts, as a number of its columns, such as ``"1 / visits"``; for metrics that are made
            of means. Missing weights count as 0.
        weight_cap: The largest weight, a public number. Larger weights of sealed rows count as this.
        **settings: ``low`` and ``high``: labels and predictions beyond them count as these, by default the least and
            the largest training label. ``clip``: larger losses of a row count as this, by default ln 1000 for
            ``"neg_log_loss"``; for numbers the largest loss of a prediction that equals the mean training label.
            ``bins``: equal bins of probabilities for ``"expected_calibration_error"``, 10 by default. ``rate``: the
            false positive rate of ``"recall_at_fpr"``, .05 by default. ``threshold``: the probability of
            ``"net_benefit"``, .5 by default. ``floor``: the smallest number by which ``"mape"`` divides an error.

    Raises:
        QueryRejected: If the name is unknown, or the metric has no interval. Nothing is charged.

    Examples:
        >>> metric("f1_macro", [0, 1, 1]).metric.name
        'f1_macro'
        >>> metric("d2_log_loss_score", [0, 1, 1])
        Traceback (most recent call last):
        everhold.errors.QueryRejected: 'd2_log_loss_score' has no guarantee. The nearest metric is neg_log_loss.
    """
    kind = metric_named(name)
    given: dict[str, Any] = {option: value for option, value in settings.items() if value is not None}
    if unused := sorted(set(given) - set(kind.settings)):
        raise QueryRejected(f"{name} takes no {unused[0]}. Pass {', '.join(kind.settings) or 'predictions alone'}.")
    if pos_label is not None and not kind.takes_positive:
        takers = ", ".join(each for each, metric in METRICS.own.items() if metric.takes_positive)
        raise QueryRejected(f"{name} takes no pos_label. Leave it out, or ask for one of {takers}.")
    positive = pos_label.item() if isinstance(pos_label, np.generic) else pos_label
    if not isinstance(positive, (str, int, float, NoneType)):
        raise QueryRejected(f"pos_label is {brief(pos_label)}. Pass one class, a text or a number.")
    if isinstance(positive, (int, float)) and positive % 1 == 0:
        positive = int(positive)  # True, 1 and 1.0 are one class, and one query
    if (weight is None) is not (weight_cap is None):
        raise QueryRejected(f"weight is {brief(weight)} and weight_cap is {brief(weight_cap)}. Pass both, or neither.")
    if weight_cap is not None and not 0.0 < (cap := as_float(weight_cap)) < math.inf:
        raise QueryRejected(
            f"weight_cap is {brief(weight_cap)}. Pass the largest weight of a row, such as 1 for '1 / visits'."
        )
    asked = MetricQuery.of(kind, predictions, training, given, where, positive)
    return asked.simplest if weight is None else replace(asked, weight=weight, cap=cap)


@dataclass(frozen=True)
class AtThreshold:
    """A classifier that predicts the positive class where a model's score is at least a threshold.

    Attributes:
        model: The fitted estimator whose scores are compared with the threshold.
        threshold: Threshold of the probability of the positive class, or of the decision function.
        positive: The positive class; None for label 1 of labels 0 and 1.
    """

    model: Any
    threshold: float
    positive: Any = None

    def predict(self, features: Any) -> NDArray[Any]:
        """Return classes 0 and 1, or whether each row is of the positive class."""
        said = np.asarray(ScoredRows("scores", self.model, positive=self.positive).outputs(features)) >= self.threshold
        return said.astype(np.int64) if self.positive is None else said

    def predict_proba(self, features: Any) -> NDArray[np.float64]:
        """Return the predicted classes as probabilities 0 and 1, shape (rows, 2)."""
        said = np.asarray(self.predict(features), dtype=np.float64)
        return np.column_stack([1.0 - said, said])

    def __getattr__(self, name: str) -> Any:
        if name in ("feature_names_in_", "n_features_in_"):
            return getattr(self.model, name)
        raise AttributeError(name)


def at_thresholds(
    name: str, scores: Any, thresholds: Sequence[float], *, training: Any = None, where: str | None = None,
    pos_label: Any = None, **settings: Unpack[ScoreSettings],
) -> list[Any]:  # fmt: skip
    """Build queries for a metric of classes, one for each threshold of scores, from which `choose` tells the best.

    Args:
        name: A metric of predicted classes, such as ``"f1"``; or ``"net_benefit"``, whose weight of false positives
            follows from its own setting ``threshold=``, the same for all candidates and .5 by default.
        scores: Shape (rows,): numbers for the sealed rows in their order; or a fitted estimator.
        thresholds: A row whose score reaches the threshold is predicted to be of the positive class.
        training: Scores for the training rows, which make the guess of each answer; an estimator makes its own.
        where: A condition: only rows that meet it count.
        pos_label: The positive class, such as ``"yes"`` of texts; by default label 1. It must be left out for
            metrics that treat all classes alike, such as accuracy.
        **settings: Further settings of the metric, as for `metric`.

    Raises:
        QueryRejected: If the metric is not one of predicted classes, or a threshold or a score is not a number. Nothing
            is charged.

    Examples:
        >>> [query.metric.name for query in at_thresholds("f1", [0.2, 0.9], [0.3, 0.5])]
        ['f1', 'f1']
    """
    cuts, kind = [as_float(cut) for cut in items_of(thresholds) or ()], metric_named(name)
    if not cuts or not all(map(math.isfinite, cuts)):
        raise QueryRejected(f"thresholds is {brief(thresholds)}. Pass a list of numbers.")
    if kind.outputs != "classes" and "threshold" not in kind.settings:
        raise QueryRejected(
            f"{name} is a metric of {kind.outputs}, which no threshold turns into classes. Pass a metric of classes."
        )
    if pos_label is not None and not kind.takes_positive:
        raise QueryRejected(
            f"{name} treats all classes alike, and pos_label={brief(pos_label)} does not say which class other rows "
            "are predicted to have. Ask for f1, precision, recall or matthews_corrcoef, or pass predicted labels "
            f"for each threshold, such as metric({name!r}, np.where(scores >= 0.5, {brief(pos_label)}, other))."
        )

    def said(given: Any, cut: float) -> Any:
        if given is None or hasattr(given, "predict"):
            return given if given is None else AtThreshold(given, cut, pos_label)
        try:
            numbers = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise QueryRejected(
                f"The scores are {brief(given)}. Pass an array of numbers, or a fitted model."
            ) from None
        if bool(np.isnan(numbers).any()):
            raise QueryRejected(
                f"Some rows have no score: {first_of(np.isnan(numbers), numbers)}. Pass a number for each row."
            )
        return (numbers >= cut).astype(np.int64) if pos_label is None else numbers >= cut

    return [
        metric(name, said(scores, cut), training=said(training, cut), where=where, pos_label=pos_label, **settings)
        for cut in cuts
    ]


def metric_named(name: object) -> Metric:
    """Return the metric with this name.

    Raises:
        QueryRejected: If there is no metric of this name, or everhold promises no interval for it. Nothing is charged.
    """
    if isinstance(name, str) and (found := METRICS.get(name)) is not None:
        return found
    if isinstance(name, str) and name in REFUSED:
        raise QueryRejected(
            f"{name!r} has no guarantee. The nearest metric is {REFUSED[name]}."
            + (f" {REASONS[name]}." if name in REASONS else ""),
            nearest=REFUSED[name],
        )
    known = sorted(METRICS)
    said = name.removesuffix("_score") if isinstance(name, str) else name  # as scikit-learn's functions are called
    likely = [each for each in known if said in (each, "".join(word[0] for word in each.split("_") if word != "neg"))]
    raise QueryRejected(
        f"There is no metric {brief(name)}. {advice_for(likely[0] if likely else name, known)}", known=known
    )


@names_keywords(ScoreSettings)
def metric_of(
    predictions: Any, *, name: str, training: Any = None, where: str | None = None, pos_label: Any = None,
    weight: str | None = None, weight_cap: float | None = None, **settings: Unpack[ScoreSettings],
) -> Any:  # fmt: skip
    """Build the query of `metric`, with the predictions as first argument for commands and requests.

    Examples:
        >>> metric_of([0, 1, 1], name="f1_macro").spec().kind
        'metric'
    """
    return metric(
        name, predictions, training=training, where=where, pos_label=pos_label, weight=weight, weight_cap=weight_cap,
        **settings,
    )  # fmt: skip


def precision(predictions: Any, *, training: Any = None) -> MetricQuery:
    """Build the query for the precision: of the rows that are predicted 1, the share whose label is 1.

    It is one query if the holdout checks guesses and predictions for the training rows are known. Otherwise it is two.

    Args:
        predictions: Predicted labels, 0 or 1: shape (rows,), or a table, an estimator or a rule, as for `accuracy`.
        training: Predictions for the training rows, which make the guess of the answer: shape (training rows,), or a
            table.

    Examples:
        >>> precision([1, 0, 1]).metric.rate
        'a precision'
    """
    return MetricQuery.of(METRICS["precision"], predictions, training)


def recall(predictions: Any, *, training: Any = None) -> MetricQuery:
    """Build the query for the recall: of the rows whose label is 1, the share that is predicted 1.

    It is one query if the holdout checks guesses and predictions for the training rows are known. Otherwise it is two.

    Args:
        predictions: The predictions, as for `precision`.
        training: Predictions for the training rows, as for `precision`.
    """
    return MetricQuery.of(METRICS["recall"], predictions, training)


def maker_of(given: Any) -> Any:
    """Return the function that builds the query for a metric from a model or from predictions.

    Args:
        given: A name that `metric` takes, such as ``"accuracy"``, ``"roc_auc"`` or ``"neg_log_loss"``; a scorer or a
            function of scikit-learn; the arguments of `everhold.risk` by name; or already such a function, such as
            ``functools.partial(eh.risk, loss="absolute", high=60)``. Anything else is returned unchanged.

    Raises:
        QueryRejected: If the scorer of scikit-learn has no interval. Nothing is charged.
    """
    if isinstance(given, Mapping):
        return partial(risk, **given)
    named = as_metric(given)
    return partial(metric, named) if isinstance(named, str) else named


def as_metric(metric: Any) -> Any:
    """Return the name of the metric that a scikit-learn scorer or function stands for, or other values unchanged.

    Args:
        metric: A scorer or a function of scikit-learn, such as ``get_scorer("roc_auc")``, ``make_scorer(fbeta_score,
            beta=1)`` or ``accuracy_score``; other values are returned unchanged.

    Raises:
        QueryRejected: If the metric is one of scikit-learn for which everhold promises no interval. Nothing is charged.
    """
    function = getattr(metric, "_score_func", None)
    given: tuple[Any, int, dict[str, Any], tuple[str, ...] | None]
    if function is not None:
        given = (function, metric._sign, dict(metric._kwargs), _responses(metric))
    elif inspect.isfunction(metric) and metric.__module__.startswith("sklearn.metrics."):
        function, given = metric, (metric, 1, {}, None)
    else:
        return metric
    from sklearn.metrics import get_scorer, get_scorer_names

    known = {name: get_scorer(name) for name in get_scorer_names()}
    same = [name for name, scorer in known.items() if _is(scorer, *given)]
    for name in same:
        if name in METRICS:
            return name
    name = getattr(function, "__name__", repr(function))
    if name == "fbeta_score" and {"average": "binary", "pos_label": 1, **given[2]} == {
        "average": "binary", "pos_label": 1, "beta": 1,
    }:  # fmt: skip
        return "f1"
    settings = ", ".join(f"{key}={value!r}" for key, value in given[2].items())
    alike = [each for each, scorer in known.items() if scorer._score_func is function and each in METRICS]
    nearest = [REFUSED[each] for each in same if each in REFUSED] or alike or [REFUSED_FUNCTIONS.get(name, "")]
    if given[:2] == (function, 1) and alike and known[alike[0]]._sign < 0:
        why = f"{name} is a loss, and here its largest value would be the best one"
    elif name == "roc_auc_score" and "predict" in (given[3] or ()):
        why = f"This scorer of {name} ranks predicted classes. Make it with response_method='predict_proba'"
    else:
        why = f"{name}({settings}) has no guarantee"
    raise QueryRejected(f"{why}. {f'The nearest metric is {nearest[0]}.' if nearest[0] else _listed()}")


def _listed() -> str:
    return f"Pass one of {', '.join(sorted(METRICS))}."


def _is(
    scorer: Any, function: Callable[..., Any], sign: int, settings: Mapping[str, Any], responses: tuple[str, ...] | None
) -> bool:
    """Return whether a scikit-learn scorer has this function, sign and settings, and reads these outputs."""
    if scorer._score_func is not function or scorer._sign != sign:
        return False
    usual = {
        name: each.default
        for name, each in inspect.signature(function).parameters.items() if each.default is not inspect.Parameter.empty
    }  # fmt: skip
    wanted, own = ({**usual, **each} for each in (settings, scorer._kwargs))
    if own.get("average") in ("macro", "weighted"):
        wanted["pos_label"] = own["pos_label"] = None  # scikit-learn does not read it
    return wanted == own and (responses is None or set(responses) <= set(_responses(scorer)))


def _responses(scorer: Any) -> tuple[str, ...]:
    """Return the names of the methods of a model that a scorer may read."""
    found = scorer._response_method
    return (found,) if isinstance(found, str) else tuple(found)
