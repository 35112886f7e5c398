"""The registry of metrics: their names, what they read, and for which models and rows an interval is promised.

This is the only list of metrics. A new one is one entry here, or one `Metric` that a distribution adds by an entry
point of ``everhold.metrics``; command line, service, boards, gates and docs read the rest from it. The computations
are in `everhold.queries.metrics.measures` and are imported when a metric is first asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from everhold.extensions import Registry

if TYPE_CHECKING:
    from everhold.queries.metrics.score_parts import Setting

Outputs: TypeAlias = Literal["classes", "probability", "probabilities", "scores", "numbers"]
"""Forms of predictions: predicted classes, probabilities of label 1 or of each class, any scores, or numbers."""

Rows: TypeAlias = Literal["any", "independent", "none"]
"""Rows for which something is promised: independent ones and groups that a column names; independent ones; none."""

LOG_CLIP = math.log(1_000.0)
"""Larger logarithmic losses of a row count as this, in ``"neg_log_loss"``."""


def _unit(_: Setting) -> tuple[float, float]:
    """Return the ends of the scale of a share."""
    return 0.0, 1.0


def _signed(_: Setting) -> tuple[float, float]:
    """Return the ends of the scale of a correlation."""
    return -1.0, 1.0


def _cost(setting: Setting) -> tuple[float, float]:
    """Return the ends of the scale of a loss, which is better the lower it is: 0 and its clip."""
    return 0.0, setting.clip


def _benefit(setting: Setting) -> tuple[float, float]:
    """Return the ends of the scale of a net benefit: minus the odds of the threshold, and 1."""
    return -setting.threshold / (1.0 - setting.threshold), 1.0


def _loss(setting: Setting) -> tuple[float, float]:
    """Return the ends of the scale of a negated loss: 0 and minus its clip."""
    return 0.0, -setting.clip


@dataclass(frozen=True, slots=True)
class Metric:
    """An entry of the registry: one number that says how good predictions are.

    Attributes:
        name: Name of the metric, the same as in scikit-learn if the metric is there.
        outputs: The kind of predictions that the metric reads.
        labels: Kinds of label columns that it takes.
        measure_at: Place of the metric's computation, as ``"module:function"``. The function takes this metric and
            returns its `Measure`. By default it is the function of the metric's name in
            `everhold.queries.metrics.measures`.
        ends: Function from the setting to the analyst's numbers for 0 and 1 of the scale [0, 1].
        settings: Names of the numbers of `Setting` that an analyst may give.
        greater: True if a higher number is better; False if a lower one is.
        ordered: False if 0 is the best value, between worse ones, so that the metric does not order models.
        unbounded: Two flags: whether the metric can be below the scale that `ends` gives, and whether it can be above.
        mean: True if the metric is a mean over rows, so that engines and every mechanism answer it.
            `everhold.queries.metrics.row_scores.MEANS` has the function that makes the query.
        rate: Name of the metric in a sentence, such as ``"a recall"``, if it is a ratio of counts of outcomes, which
            engines and every mechanism answer as well; else empty.
        like: A mean over rows that gives models the same order: the name of a metric, or arguments of `everhold.risk`.
        one: Rows for which one model has an interval. Means have one for rows of every kind.
        slices: Largest number of models, 0 to 2, for which an interval is promised about some rows alone.
        two: Rows for which the difference of two models has an interval.
        gain: Rows for which a gate compares versions by the metric.
        outcomes: Name in `everhold.guarantees.intervals.gains.GAINS` of the number by which two models are compared,
            from the pairs of outcomes of independent rows with labels 0 and 1; empty if models are not compared by
            outcomes.
        nearest: A metric to compare two models by, if this metric cannot compare them.
        title: Name of the metric in queries as people read them; by default `name`.
        common: Name of the metric on boards; by default `name` without ``neg_`` and in words.
        instead: Metrics to ask for instead, with rows and mechanisms for which this metric has no interval.
    """

    name: str
    outputs: Outputs
    labels: tuple[str, ...] = ("binary", "number", "string")
    measure_at: str = ""
    ends: Callable[[Setting], tuple[float, float]] = _unit
    settings: tuple[str, ...] = ()
    greater: bool = True
    ordered: bool = True
    unbounded: tuple[bool, bool] = (False, False)
    mean: bool = False
    rate: str = ""
    like: str | Mapping[str, Any] | None = field(default=None, hash=False)
    one: Rows = "any"
    slices: int = 2
    two: Rows = "any"
    gain: Rows = "any"
    outcomes: str = ""
    nearest: str = "accuracy"
    title: str = ""
    common: str = ""
    instead: str = "accuracy, error, brier, risk, precision, recall or f1"

    @property
    def takes_positive(self) -> bool:
        """Whether the metric is about two classes, so that one class can be named as the positive one."""
        return self.labels == _TWO

    @property
    def as_mean(self) -> str | Mapping[str, Any] | None:
        """A mean of row values that equals the metric or orders models in the same way, or None if there is none."""
        if self.mean or isinstance(self.like, str):
            return self.name if self.mean else self.like
        return self.like if self.like is not None and "high" in self.like else None


_TWO, _NUMBERS, _RANGE = ("binary",), ("binary", "number"), ("low", "high", "clip")

_OWN = (
    Metric("accuracy", "classes", mean=True),
    Metric("error", "classes", ends=lambda _: (1.0, 0.0), greater=False, mean=True, common="error rate"),
    Metric("brier", "probability", _TWO, greater=False, mean=True, common="Brier score"),
    Metric("neg_brier_score", "probability", _TWO, ends=_loss, like="brier"),
    Metric("neg_log_loss", "probabilities", ends=_loss, settings=("clip",),
           like={"loss": "log", "high": LOG_CLIP}),
    Metric("balanced_accuracy", "classes", outcomes="balanced"),
    Metric("f1", "classes", _TWO, rate="an F1", gain="independent", outcomes="f1",
           common="F1"),
    Metric("f1_macro", "classes", gain="independent", outcomes="macro", common="macro F1"),
    Metric("f1_weighted", "classes", two="none", gain="independent", nearest="f1_macro or accuracy",
           common="weighted F1"),
    Metric("precision", "classes", _TWO, rate="a precision", gain="independent", outcomes="precision"),
    Metric("recall", "classes", _TWO, rate="a recall", gain="independent", outcomes="recall"),
    Metric("matthews_corrcoef", "classes", _TWO, ends=_signed, common="Matthews correlation"),
    Metric("roc_auc", "scores", _TWO, "everhold.queries.metrics.ranking:roc_auc", slices=1, title="AUC",
           common="AUC"),
    Metric("roc_auc_ovr", "probabilities", measure_at="everhold.queries.metrics.ranking:roc_auc_ovr", slices=1,
           gain="none", nearest="roc_auc", title="macro AUC", common="macro AUC"),
    Metric("r2", "numbers", _NUMBERS, ends=_signed, settings=_RANGE, unbounded=(True, False), two="none",
           nearest="neg_mean_squared_error", common="R²"),
    Metric("neg_mean_absolute_error", "numbers", _NUMBERS, ends=_loss, settings=_RANGE, like={"loss": "absolute"},
           common="MAE"),
    Metric("neg_mean_squared_error", "numbers", _NUMBERS, ends=_loss, settings=_RANGE, like={"loss": "squared"},
           common="MSE"),
    Metric("neg_root_mean_squared_error", "numbers", _NUMBERS, ends=lambda setting: (0.0, -math.sqrt(setting.clip)),
           settings=_RANGE, common="RMSE"),
    Metric("neg_median_absolute_error", "numbers", _NUMBERS, ends=_loss, settings=_RANGE, slices=1, two="none",
           gain="none", nearest="neg_mean_absolute_error"),
    Metric("mape", "numbers", _NUMBERS, ends=_cost, settings=(*_RANGE, "floor"), greater=False, common="MAPE"),
    Metric("net_benefit", "probability", _TWO, ends=_benefit, settings=("threshold",)),
    Metric("calibration_in_the_large", "probability", _TWO, ends=_signed, ordered=False, two="none", gain="none",
           nearest="neg_brier_score"),
    Metric("expected_calibration_error", "probability", _TWO, settings=("bins",), greater=False, one="independent",
           slices=0, two="none", gain="none", nearest="neg_brier_score", common="calibration error"),
    Metric("recall_at_fpr", "scores", _TWO, settings=("rate",), one="independent", slices=0, two="none",
           gain="none", nearest="roc_auc", common="recall at a false positive rate"),
    Metric("failing_rows", "classes", greater=False),
)  # fmt: skip

_NEAREST = {
    "recall_macro": "balanced_accuracy",
    "f1_micro precision_micro recall_micro recall_weighted": "accuracy",
    "f1_samples jaccard jaccard_macro jaccard_micro jaccard_samples jaccard_weighted": "f1",
    "precision_macro precision_weighted": "f1_macro",
    "precision_samples recall_samples": "precision or recall of one label",
    "roc_auc_ovo roc_auc_ovr_weighted roc_auc_ovo_weighted": "roc_auc_ovr",
    "average_precision": "roc_auc, or recall_at_fpr",
    "calibration_slope": "calibration_in_the_large",
    "top_k_accuracy": "accuracy",
    "explained_variance d2_absolute_error_score": "r2",
    "d2_log_loss_score": "neg_log_loss",
    "d2_brier_score": "neg_brier_score",
    "max_error neg_max_error": "quantile of the error, as a column",
    "neg_mean_absolute_percentage_error": "mape, with a floor under the labels",
    "neg_mean_squared_log_error neg_root_mean_squared_log_error "
    "neg_mean_poisson_deviance neg_mean_gamma_deviance": "risk with a loss function and its range",
    "positive_likelihood_ratio neg_negative_likelihood_ratio": "recall and precision",
    "adjusted_mutual_info_score adjusted_rand_score completeness_score fowlkes_mallows_score homogeneity_score "
    "mutual_info_score normalized_mutual_info_score rand_score v_measure_score": "balanced_accuracy",
}  # fmt: skip
REFUSED: Mapping[str, str] = {name: nearest for names, nearest in _NEAREST.items() for name in names.split()}
"""Names of scikit-learn's scores that are not promised, and what comes nearest."""

REASONS: Mapping[str, str] = {
    "average_precision": "It weights each row by a precision that depends on all other rows, and no interval for "
    "finitely many rows is proved",
    "calibration_slope": "It is the root of a likelihood equation without bounded terms, and no interval for finitely "
    "many rows is proved",
    "f1_weighted": "The share of each class is a further unknown, and no interval for their difference is proved",
    "neg_median_absolute_error": "The difference of two medians is no median of the differences of rows",
}
"""Reasons why some scores, or differences of two models in them, are not promised, by name."""

REFUSED_FUNCTIONS: Mapping[str, str] = {"fbeta_score": "f1", "average_precision_score": "roc_auc", "auc": "roc_auc"}
"""Functions of scikit-learn that stand behind no score's name, and what comes nearest."""


def _wrong_with(name: str, metric: Any) -> str:
    """Return in words why an extension's metric cannot be used, or an empty text if it can be used."""
    if not isinstance(metric, Metric):
        return "It is no everhold.queries.metrics.registry.Metric."
    if metric.name != name:
        return f"Its name is {metric.name!r}. Give it that of its entry point."
    if metric.measure_at.count(":") != 1:
        return f"measure_at is {metric.measure_at!r}. Name its computation as 'package.module:function'."
    if metric.mean or metric.rate or metric.outcomes:
        return "A mean, rate or comparison of outcomes is everhold's own. Leave mean, rate and outcomes out."
    return ""


class MetricRegistry(Mapping[str, Metric]):
    """All metrics by name: first those of everhold, then those of extensions.

    The metadata of installed distributions are read when another name is first looked up, and not before.

    Attributes:
        own: Metrics that come with everhold.
        extensions: Metrics of other distributions.
    """

    def __init__(self, own: tuple[Metric, ...]) -> None:
        self.own = {metric.name: metric for metric in own}
        self.extensions: Registry[Metric] = Registry("everhold.metrics", dict.fromkeys(self.own, ""), _wrong_with)

    def __getitem__(self, name: str) -> Metric:
        return self.own[name] if name in self.own else self.extensions[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self.extensions.added()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def compared(self) -> tuple[str, ...]:
        """The names of everhold's metrics by which two models can be compared."""
        return tuple(name for name, metric in self.own.items() if metric.two != "none")

    @property
    def of_gates(self) -> tuple[str, ...]:
        """The names of everhold's metrics by which gates about rows can compare."""
        return tuple(name for name, metric in self.own.items() if metric.gain != "none")


METRICS = MetricRegistry(_OWN)
"""The registry of all metrics."""
