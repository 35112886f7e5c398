"""Scores by the names of scikit-learn, each one query of a holdout that checks guesses.

`SCORES` is the registry. A score is told with scikit-learn's sign: ``"neg_log_loss"`` is never positive. What cannot be
promised is refused by name, with what comes nearest (`REFUSED`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from everhold.arguments import brief, names_keywords
from everhold.errors import QueryRejected
from everhold.queries.metrics.rule_kinds import rule_kinds
from everhold.queries.metrics.score_kinds import kinds
from everhold.queries.metrics.score_query import ScoreQuery
from everhold.queries.metrics.scored_rows import ScoredRows

if TYPE_CHECKING:
    from everhold.queries.metrics.score_kinds import ScoreKind

SCORES: Mapping[str, ScoreKind] = {kind.name: kind for kind in (*kinds(), *rule_kinds())}
"""Scores that have a procedure of their own, by name."""

_NEAREST = {
    "recall_macro": "balanced_accuracy",
    "f1_micro precision_micro recall_micro recall_weighted": "accuracy",
    "f1_samples jaccard jaccard_macro jaccard_micro jaccard_samples jaccard_weighted": "f1",
    "precision_macro precision_weighted": "f1_macro",
    "precision_samples recall_samples": "precision or recall of one label",
    "roc_auc_ovr roc_auc_ovo roc_auc_ovr_weighted roc_auc_ovo_weighted": "roc_auc of one class against the others",
    "average_precision": "roc_auc, or recall_at_fpr",
    "top_k_accuracy": "accuracy",
    "explained_variance d2_absolute_error_score": "r2",
    "d2_log_loss_score": "neg_log_loss",
    "d2_brier_score": "neg_brier_score",
    "max_error neg_max_error": "quantile of the error, as a column",
    "neg_median_absolute_error": "quantile of the error, as a column",
    "neg_mean_absolute_percentage_error neg_mean_squared_log_error neg_root_mean_squared_log_error "
    "neg_mean_poisson_deviance neg_mean_gamma_deviance": "risk with a loss function and its range",
    "positive_likelihood_ratio neg_negative_likelihood_ratio": "recall and precision",
    "adjusted_mutual_info_score adjusted_rand_score completeness_score fowlkes_mallows_score homogeneity_score "
    "mutual_info_score normalized_mutual_info_score rand_score v_measure_score": "balanced_accuracy",
}  # fmt: skip
REFUSED: Mapping[str, str] = {name: nearest for names, nearest in _NEAREST.items() for name in names.split()}
"""Names of scikit-learn's scores that are not promised, and what comes nearest."""


def score_names() -> tuple[str, ...]:
    """All names that `metric` takes.

    Examples:
        >>> "roc_auc" in score_names(), "r2" in score_names(), "top_k_accuracy" in score_names()
        (True, True, False)
    """
    return tuple(sorted({*SCORES, *_plain()}))


def _plain() -> Mapping[str, Callable[..., Any]]:
    """Scores that are queries of the library by themselves."""
    from everhold.queries.metrics.accuracy import accuracy, brier, error
    from everhold.queries.metrics.ranking_scores import auc
    from everhold.queries.metrics.rates import f1_ratio, precision, recall

    return {
        "accuracy": accuracy, "error": error, "brier": brier, "f1": f1_ratio, "precision": precision,
        "recall": recall, "roc_auc": auc,
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
        name: Such as ``"roc_auc"``, ``"f1_macro"`` or ``"neg_log_loss"``; `score_names` lists all.
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
        >>> metric("f1_macro", [0, 1, 1]).kind.name
        'f1_macro'
        >>> metric("d2_log_loss_score", [0, 1, 1])
        Traceback (most recent call last):
        everhold.errors.QueryRejected: 'd2_log_loss_score' is not promised; the nearest score is neg_log_loss; ...
    """
    given: dict[str, Any] = {option: value for option, value in settings.items() if value is not None}
    plain = _plain().get(name) if isinstance(name, str) else None
    kind = None if plain is not None else _kind(name)
    if unused := sorted(set(given) - set(() if kind is None else kind.settings)):
        raise QueryRejected(
            f"{name} takes no {unused[0]}; expected "
            f"{', '.join(kind.settings) if kind is not None and kind.settings else 'predictions alone'}"
        )
    if plain is None:
        assert kind is not None
        return ScoreQuery(kind, ScoredRows(kind.outputs, predictions, training), given, where)
    if where is None:
        return plain(predictions, training=training)
    from everhold.queries.metrics.slices import in_slice

    return in_slice(plain(predictions, training=training), where)


def _kind(name: object) -> ScoreKind:
    if isinstance(name, str) and name in SCORES:
        return SCORES[name]
    if isinstance(name, str) and name in REFUSED:
        raise QueryRejected(
            f"{name!r} is not promised; the nearest score is {REFUSED[name]}",
            nearest=REFUSED[name],
        )
    raise QueryRejected(
        f"there is no score {brief(name)}; expected one of {', '.join(score_names())}",
        known=[*score_names()],
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
    if name not in _plain():
        _kind(name)
    return lambda model, training=None: metric(name, model, training=training)
