"""Metrics by the names of scikit-learn (`everhold.queries.metrics.registry`), each one query.

A score is told with scikit-learn's sign: ``"neg_log_loss"`` is never positive. What cannot be
promised is refused by name, with what comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from everhold.arguments import brief, names_keywords
from everhold.errors import QueryRejected
from everhold.queries.metrics.query import MetricQuery
from everhold.queries.metrics.registry import METRICS, REFUSED

if TYPE_CHECKING:
    from everhold.queries.metrics.registry import Metric


def _plain() -> Mapping[str, Callable[..., Any]]:
    """Scores that are queries of the library by themselves."""
    from everhold.queries.metrics.accuracy import accuracy, brier, error
    from everhold.queries.metrics.rates import f1_ratio, precision, recall

    return {
        "accuracy": accuracy, "error": error, "brier": brier, "f1": f1_ratio, "precision": precision,
        "recall": recall,
    }  # fmt: skip


class ScoreSettings(TypedDict, total=False):
    """Settings that some scores have; see `metric`."""

    low: float | None
    high: float | None
    clip: float | None
    bins: int | None
    rate: float | None


@names_keywords(ScoreSettings)
def metric(
    name: str, predictions: Any, *, training: Any = None, where: str | None = None, **settings: Unpack[ScoreSettings]
) -> Any:
    """A score of predictions by its name in scikit-learn, with the sign that it has there.

    Args:
        name: Such as ``"roc_auc"``, ``"f1_macro"`` or ``"neg_log_loss"``; all are in
            `everhold.queries.metrics.registry.METRICS`.
        predictions: What the score needs, one for each sealed row in the order of the rows: classes, probabilities of
            label 1, scores or numbers, shape (rows,); for ``"neg_log_loss"`` of several classes shape (rows, classes)
            in the order of the classes. Or a table with row ids, as for `accuracy`; or a fitted estimator.
        training: The same for the training rows, for the guess.
        where: A condition, such as ``"region = 'N'"``: the score of the rows that meet it.
        **settings: ``low`` and ``high``: labels and predictions beyond them count as these, by default the least and
            the largest training label. ``clip``: larger losses of a row count as this, by default ln 1000 for
            ``"neg_log_loss"``, and for numbers the largest loss that the mean training label can have between them.
            ``bins``: equal bins of probabilities for ``"expected_calibration_error"``, 10 by default. ``rate``: the
            false positive rate of ``"recall_at_fpr"``, .05 by default.

    Raises:
        QueryRejected: If there is no such score, or it is not promised. Nothing is charged.

    Examples:
        >>> metric("f1_macro", [0, 1, 1]).metric.name
        'f1_macro'
        >>> metric("d2_log_loss_score", [0, 1, 1])
        Traceback (most recent call last):
        everhold.errors.QueryRejected: 'd2_log_loss_score' is not promised; the nearest score is neg_log_loss; ...
    """
    kind = metric_named(name)
    given: dict[str, Any] = {option: value for option, value in settings.items() if value is not None}
    if unused := sorted(set(given) - set(kind.settings)):
        raise QueryRejected(f"{name} takes no {unused[0]}; expected {', '.join(kind.settings) or 'predictions alone'}")
    plain = _plain().get(name)
    if plain is None:
        return MetricQuery.of(kind, predictions, training, given, where)
    if where is None:
        return plain(predictions, training=training)
    from everhold.queries.metrics.slices import in_slice

    return in_slice(plain(predictions, training=training), where)


def metric_named(name: object) -> Metric:
    """A metric by its name.

    Raises:
        QueryRejected: If there is none, or it is not promised. Nothing is charged.
    """
    if isinstance(name, str) and name in METRICS:
        return METRICS[name]
    if isinstance(name, str) and name in REFUSED:
        raise QueryRejected(
            f"{name!r} is not promised; the nearest score is {REFUSED[name]}",
            nearest=REFUSED[name],
        )
    raise QueryRejected(
        f"there is no score {brief(name)}; expected one of {', '.join(sorted(METRICS))}",
        known=sorted(METRICS),
    )


@names_keywords(ScoreSettings)
def metric_of(
    predictions: Any, *, name: str, training: Any = None, where: str | None = None, **settings: Unpack[ScoreSettings]
) -> Any:
    """`metric` with the predictions first, as a command or a request writes it.

    Examples:
        >>> metric_of([0, 1, 1], name="f1_macro").spec().kind
        'metric'
    """
    return metric(name, predictions, training=training, where=where, **settings)


def scored(name: str) -> Callable[..., Any]:
    """From a model, or predictions, to the query about it.

    Raises:
        QueryRejected: If there is no such score. Nothing is charged.
    """
    metric_named(name)
    return lambda model, training=None: metric(name, model, training=training)
