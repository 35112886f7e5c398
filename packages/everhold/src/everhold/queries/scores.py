"""Scores by the names of scikit-learn, each one question of a holdout that checks guesses.

`SCORES` is the registry. A score is told with scikit-learn's sign: ``"neg_log_loss"`` is never positive. What cannot be
promised is refused by name, with what comes nearest (`REFUSED`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.dependence import Groups, Independent
from everhold.errors import QueryRejected
from everhold.mechanisms.evaluations import Evaluations
from everhold.queries.area import check_split
from everhold.queries.made_up_scores import made_up
from everhold.queries.means import OneMean, Prepared
from everhold.queries.procedures import takes_statistics
from everhold.queries.question import Query, QueryPlan, QuerySpec, paying
from everhold.queries.rule_kinds import rule_kinds
from everhold.queries.score_kinds import Judged, ScoreKind, Setting, Sized, kinds
from everhold.queries.scored_rows import BoundRows, ScoredRows, codes_of
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.mechanisms import Mechanism
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.table import StoredRows
    from everhold.values.base import Schema

__all__ = ["REFUSED", "SCORES", "ScoreQuery", "metric", "score_names", "scored"]

SCORES: Mapping[str, ScoreKind] = {kind.name: kind for kind in (*kinds(), *rule_kinds())}
"""Scores that have a procedure of their own, by name."""

_NEAREST = {
    "recall_macro": "balanced_accuracy",
    "f1_micro precision_micro recall_micro recall_weighted": "accuracy",
    "f1_samples jaccard jaccard_macro jaccard_micro jaccard_samples jaccard_weighted": "f1, because jaccard is f1 / (2 - f1)",
    "precision_macro precision_weighted": "f1_macro",
    "precision_samples recall_samples": "precision or recall of one label",
    "roc_auc_ovr roc_auc_ovo roc_auc_ovr_weighted roc_auc_ovo_weighted": "roc_auc of one class against the others",
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

_LOG_CLIP = math.log(1_000.0)
_NUMBERS = ("low", "high", "clip", "bins", "rate")


def score_names() -> tuple[str, ...]:
    """All names that `metric` takes.

    Examples:
        >>> "roc_auc" in score_names(), "r2" in score_names(), "top_k_accuracy" in score_names()
        (True, True, False)
    """
    return tuple(sorted({*SCORES, *_plain()}))


def _plain() -> Mapping[str, Callable[..., Any]]:
    """Scores that are questions of the library by themselves."""
    from everhold.queries.metrics import accuracy, brier, error
    from everhold.queries.ranking_scores import auc
    from everhold.queries.rates import f1_ratio, precision, recall

    return {
        "accuracy": accuracy, "error": error, "brier": brier, "f1": f1_ratio, "precision": precision,
        "recall": recall, "roc_auc": auc,
    }  # fmt: skip


def metric(
    name: str, predictions: Any, *, training: Any = None, low: float | None = None, high: float | None = None,
    clip: float | None = None, bins: int | None = None, rate: float | None = None,
) -> Any:  # fmt: skip
    """A score of predictions by its name in scikit-learn, with the sign that it has there.

    Args:
        name: Such as ``"roc_auc"``, ``"f1_macro"`` or ``"neg_log_loss"``; `score_names` lists all.
        predictions: What the score needs, one for each sealed row in the order of the rows: classes, probabilities of
            label 1, scores or numbers, shape (rows,); for ``"neg_log_loss"`` of several classes shape (rows, classes)
            in the order of the classes. Or a table with row ids, as for `accuracy`; or a fitted estimator.
        training: The same for the training rows, for the guess.
        low: Of numbers: smaller labels and predictions count as this; by default the least training label.
        high: Of numbers: larger labels and predictions count as this; by default the largest training label.
        clip: Larger losses of a row count as this; by default ln 1000 for ``"neg_log_loss"``, and the largest loss
            between ``low`` and ``high`` for others.
        bins: Number of equal bins of probabilities, for ``"expected_calibration_error"``; 10 by default.
        rate: The false positive rate of ``"recall_at_fpr"``; .05 by default.

    Raises:
        QueryRejected: If there is no such score, or it is not promised. Nothing is charged.

    Examples:
        >>> metric("f1_macro", [0, 1, 1]).kind.name
        'f1_macro'
        >>> metric("top_k_accuracy", [0, 1, 1])
        Traceback (most recent call last):
        everhold.errors.QueryRejected: 'top_k_accuracy' is not promised; the nearest score is accuracy; nothing was charged
    """
    numbers = {"low": low, "high": high, "clip": clip, "bins": bins, "rate": rate}
    given = {option: value for option, value in numbers.items() if value is not None}
    plain = _plain().get(name) if isinstance(name, str) else None
    kind = None if plain is not None else _kind(name)
    if unused := sorted(set(given) - set(() if kind is None else kind.settings)):
        raise QueryRejected(
            f"{name} takes no {unused[0]}; expected "
            f"{', '.join(kind.settings) if kind is not None and kind.settings else 'predictions alone'}; nothing was "
            "charged"
        )
    if plain is not None:
        return plain(predictions, training=training)
    assert kind is not None
    return ScoreQuery(kind, ScoredRows(kind.outputs, predictions, training), given)


def _kind(name: object) -> ScoreKind:
    if isinstance(name, str) and name in SCORES:
        return SCORES[name]
    if isinstance(name, str) and name in REFUSED:
        raise QueryRejected(
            f"{name!r} is not promised; the nearest score is {REFUSED[name]}; nothing was charged",
            nearest=REFUSED[name],
        )
    raise QueryRejected(
        f"there is no score {brief(name)}; expected one of {', '.join(score_names())}; nothing was charged",
        known=[*score_names()],
    )


def scored(name: str) -> Callable[..., Any]:
    """From a model, or predictions, to the question about it.

    Raises:
        QueryRejected: If there is no such score. Nothing is charged.
    """
    if name not in _plain():
        _kind(name)
    return lambda model, training=None: metric(name, model, training=training)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreQuery(Query["Answer"]):
    """A score of predictions; made by `metric`.

    Attributes:
        kind: The score.
        rows: Predictions.
        given: Numbers that define it, as far as they were given.
    """

    kind: ScoreKind
    rows: ScoredRows
    given: Mapping[str, float]

    def spec(self) -> QuerySpec:
        """See `Query.spec`."""
        numbers = {name: self.given.get(name) for name in self.kind.settings}
        return QuerySpec(
            "metric", self.rows.predictions, {"name": self.kind.name, "training": self.rows.training, **numbers}
        )  # fmt: skip

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """One question with its guess.

        Raises:
            QueryRejected: If nothing is promised. Nothing is charged.
        """
        mechanism, schema = compiler.mechanism, compiler.schema
        self.check_labels(schema)
        _check(self.kind, mechanism)
        if tolerance is not None:
            paying(mechanism)
        setting = self.setting(schema, _open_labels(compiler))
        seen = BoundRows.of(self.rows, compiler)
        unlike = seen.bound.by_position or schema.features_public
        if self.kind.by_rank:
            check_split(self.kind.name, schema, by_rank=unlike)
        zero, one = self.kind.ends(setting)
        numbers = {name: float(getattr(setting, name)) for name in self.kind.settings}
        bound = BoundQuery(
            {"kind": "score", "name": self.kind.name, **numbers, **seen.described},
            self._shown(seen.whose(self.rows.predictions), numbers),
            zero, one, reads=seen.names, by_position=seen.bound.by_position,
        )  # fmt: skip
        look = ScoreLook(self.kind, setting, seen, mechanism.dependence.group_column, schema.label_classes)
        known, procedure = self._planned(
            compiler, look, None if guess is None else bound.to_mean(as_float(guess)), unlike
        )
        prepared = compiler.of_statistic(bound, guess, known, procedure)
        return OneScore([prepared], schema, mechanism, look)

    def _planned(
        self, compiler: QueryCompiler, look: ScoreLook, guess: float | None, unlike: bool
    ) -> tuple[Fraction | None, Any]:
        """The score of the training rows, and the procedure; made-up rows stand in where nobody knows predictions."""
        schema, mechanism, training = compiler.schema, compiler.mechanism, compiler.training
        opened = look.seen.open(training)
        if opened is None:
            at = 0.5 if guess is None else min(max(guess, 0.0), 1.0)
            rows = made_up(self.kind, look.setting, at, look.coded(labels) if (labels := _open_labels(compiler)) is not None
                           else None)  # fmt: skip
        else:
            column = mechanism.dependence.group_column
            groups = None if column is None or training is None else training.group_index(column)
            rows = look.judged(*opened, groups)
        largest = _largest(mechanism)
        if rows.groups is not None:
            largest = max(largest, float(np.bincount(rows.groups).max()))
        seen = self.kind.see(rows, look.setting, largest)
        own = guess is not None or opened is None
        sized = Sized(
            schema.rows, schema.rows if own else max(schema.training_rows, 1), len(rows.labels), _largest(mechanism),
            unlike,
        )  # fmt: skip
        known = None if opened is None else Fraction(float(seen.score))
        return known, self.kind.procedure(seen, look.setting, sized)

    def score(self, outputs: NDArray[Any], labels: NDArray[Any], schema: Schema) -> float:
        """The score of open rows, in its own units.

        Args:
            outputs: Predictions, shape (rows,) or (rows, classes).
            labels: Shape (rows,).
            schema: What is known of the holdout's rows.
        """
        setting = self.setting(schema, np.asarray(labels))
        rows = replace(self.rows, classes=schema.label_classes)
        judged = Judged(
            np.asarray(rows._against(np.asarray(outputs), "")({}), dtype=np.float64), _coded(self.kind, labels, schema.label_classes)
        )  # fmt: skip
        zero, one = self.kind.ends(setting)
        return zero + (one - zero) * float(self.kind.see(judged, setting).score)

    def check_labels(self, schema: Schema) -> None:
        """Refuse label columns of another kind, and unknown classes.

        Raises:
            QueryRejected: Nothing is charged.
        """
        name, outputs = self.kind.name, self.kind.outputs
        if schema.label_kind not in self.kind.labels:
            wanted = "labels 0 and 1" if self.kind.labels == ("binary",) else "a label column"
            raise QueryRejected(
                f"{name} needs {wanted}, and this holdout has {schema.label_kind or 'none'}; expected another score, "
                "or a holdout with such a label=...; nothing was charged"
            )
        if outputs in ("classes", "probabilities") and not schema.label_classes:
            raise QueryRejected(
                f"{name} needs the classes of the label {schema.label!r}, and they are not known; expected a holdout that "
                "was created with classes=[...] (--classes); nothing was charged"
            )

    def setting(self, schema: Schema, labels: NDArray[Any] | None) -> Setting:
        """The numbers that define the score for one holdout, from public facts.

        Raises:
            QueryRejected: If one is missing or cannot be used. Nothing is charged.
        """
        given = {name: as_float(value) for name, value in self.given.items()}
        if not all(map(math.isfinite, given.values())):
            raise QueryRejected(
                f"{self.kind.name} got {brief(dict(self.given))}; expected numbers; nothing was charged"
            )
        made = Setting(classes=len(schema.label_classes or ()))
        if "low" in self.kind.settings:
            low, high = _range(self.kind.name, given, schema, labels)
            centre = 0.5 if labels is None else float(np.mean(np.clip(labels, low, high)) - low) / (high - low)
            centre = float(f"{centre:.6g}")
            squared = self.kind.name.endswith("squared_error")
            made = replace(made, low=low, high=high, centre=centre, clip=(high - low) ** (2 if squared else 1))
        if self.kind.outputs == "probabilities":
            made = replace(made, clip=_LOG_CLIP)
        made = replace(made, **{name: given[name] for name in ("clip", "rate") if name in given})
        if not made.clip > 0.0 or not 0.0 < made.rate < 1.0 or not 1 <= given.get("bins", 10) <= 100:
            raise QueryRejected(
                f"{self.kind.name} got {brief(dict(self.given))}; expected clip above 0, rate inside (0, 1), and 1 to "
                "100 bins; nothing was charged"
            )
        return replace(made, bins=int(given.get("bins", 10)))

    def _shown(self, whose: str, numbers: Mapping[str, float]) -> str:
        by = ", ".join(f"{name} {number:g}" for name, number in numbers.items())
        return f"{self.kind.name} of {whose}{f' ({by})' if by else ''}"


def _range(name: str, given: Mapping[str, float], schema: Schema, labels: NDArray[Any] | None) -> tuple[float, float]:
    """The range of labels and predictions."""
    if schema.label_kind == "binary":
        known: tuple[float, float] | None = (0.0, 1.0)
    else:
        finite = (
            np.zeros(0) if labels is None else np.asarray(labels)[np.isfinite(np.asarray(labels, dtype=np.float64))]
        )
        known = (float(finite.min()), float(finite.max())) if len(finite) else None
    low, high = (
        given.get("low", None if known is None else known[0]),
        given.get("high", None if known is None else known[1]),
    )
    if low is None or high is None or not low < high:
        raise QueryRejected(
            f"{name} needs the range of labels, low < high, and it is [{low}, {high}]; expected low=... and high=..., "
            "because one row must not be able to move the score at will; nothing was charged"
        )
    return float(low), float(high)


def _open_labels(compiler: QueryCompiler) -> NDArray[Any] | None:
    """Labels of the training rows; None where there are none."""
    schema, training = compiler.schema, compiler.training
    if training is None or schema.label is None:
        return None
    return training.table((schema.label,))[schema.label]


def _coded(kind: ScoreKind, labels: NDArray[Any], classes: Sequence[str | float] | None) -> NDArray[np.float64]:
    """Labels as a score reads them: classes by their number, or numbers."""
    if kind.outputs in ("classes", "probabilities"):
        return codes_of(np.asarray(labels), tuple(classes or ()))
    return np.asarray(labels, dtype=np.float64)


def _largest(mechanism: Mechanism) -> float:
    dependence = mechanism.dependence
    return float(max(size for size, _ in dependence.counts)) if isinstance(dependence, Groups) else 1.0


def _check(kind: ScoreKind, mechanism: Mechanism) -> None:
    """Refuse mechanisms and rows for which nothing is promised.

    Raises:
        QueryRejected: Nothing is charged.
    """
    if not takes_statistics(mechanism) or mechanism.parameters().get("slack"):
        raise QueryRejected(
            f"{kind.name} is for mechanism='guess_and_check' without a slack, and this is {mechanism.name}; expected "
            "accuracy, error, brier, risk, precision, recall or f1; nothing was charged"
        )
    grouped = kind.takes_groups and isinstance(mechanism.dependence, Groups)
    if not isinstance(mechanism.dependence, Independent) and not (grouped and mechanism.dependence.group_column):
        rows = "independent rows or groups that a column names" if kind.takes_groups else "independent rows"
        raise QueryRejected(
            f"{kind.name} is promised for {rows}, and these rows were declared to depend on each other in another way; "
            "expected accuracy or a loss; nothing was charged"
        )


@dataclass(frozen=True, slots=True)
class ScoreLook:
    """How a score looks at rows; public.

    Attributes:
        kind: The score.
        setting: Numbers that define it.
        seen: Predictions.
        group_column: Names groups of rows; None of independent ones.
        classes: Of the label.
    """

    kind: ScoreKind
    setting: Setting
    seen: BoundRows
    group_column: str | None
    classes: Sequence[str | float] | None

    def coded(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Labels as the score reads them."""
        return _coded(self.kind, labels, self.classes)

    def judged(self, outputs: NDArray[np.float64], labels: NDArray[Any], groups: NDArray[np.int64] | None) -> Judged:
        """Predictions and labels; what is no class is -1."""
        if self.kind.outputs == "classes":
            outputs = np.nan_to_num(outputs, nan=-1.0)
        return Judged(outputs, self.coded(labels), groups)


@dataclass(frozen=True)
class OneScore(OneMean):
    """A score that is held against its guess.

    Attributes:
        look: At the sealed rows.
    """

    look: ScoreLook

    def evaluate(self, sealed: StoredRows, places: Sequence[int]) -> tuple[Evaluations, list[Prepared]]:
        """The score of the sealed rows, and what its procedure needs."""
        (mean,), column = self.prepared, self.look.group_column
        if mean.procedure is None:
            raise TypeError("a score has no procedure; expected one that was prepared")
        groups = None if column is None else sealed.group_index(column)
        rows = self.look.judged(*self.look.seen.sealed(sealed), groups)
        seen = self.look.kind.see(rows, self.look.setting, _largest(self.mechanism))
        evaluations = Evaluations(
            totals=np.array([[math.floor(seen.score * self.mechanism.steps)]], dtype=np.int64),
            guesses=np.array([mean.guess], dtype=np.int64),
            rows=self.schema.rows,
            unit=self.mechanism.unit,
            procedures=[mean.procedure],
            seen=[seen],
            silent=self.silent,
        )
        return evaluations, [mean]
