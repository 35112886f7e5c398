"""Queries for a metric of one model or the difference of two, compiled from public facts.

`MetricQuery` is compiled in the same way for every metric: `ModelsReader` has the public facts about the predictions,
the `Measure` of the metric summarises rows and makes the interval procedure, and training rows or made-up rows show
what to expect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everhold.arguments import as_float, brief
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.gains import GainDifference, counts_of_pairs, likely_pairs, outcome_codes
from everhold.queries.means.combined import SUBJECT, ShareQuery, WithinQuery
from everhold.queries.means.mean import MeanQuery, among, condition, is_condition, rows_that_meet, share_that_meets
from everhold.queries.means.plans import OneMean
from everhold.queries.metrics.label_query import LabelQuery, codes_of, passed_predictions
from everhold.queries.metrics.measures import likely_labels, made_up, measure_of, shuffled_within
from everhold.queries.metrics.registry import LOG_CLIP, REASONS, Metric
from everhold.queries.metrics.row_scores import MEANS, BoundRows, OutcomeQuery, ScoredRows
from everhold.queries.metrics.score_parts import Judged, Setting, Sized
from everhold.queries.procedures import check_confirms_statistics, paying, takes_ratios
from everhold.queries.query import CompileContext, Query, QueryPlan, QuerySpec, RowwiseQuery
from everhold.values.base import BoundQuery, Schema, with_clips

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.guarantees.intervals.base import Cells, Procedure
    from everhold.mechanisms import Mechanism
    from everhold.sealing.rows.table import StoredRows

_UNKNOWN_SHARE = 0.1  # planned share of the rarer class where no training rows show it
_WEIGHTS = 2**20  # steps of a weight, from 0 to its cap
_LIKELY_SCORE = 0.75  # of two models, where no public row shows how far they differ
_WIDEST = 1e150  # range of labels, so that squares of losses are finite


@dataclass(frozen=True, slots=True, eq=False)
class MetricQuery(Query["Answer"]):
    """A query for a metric of one model, or for the difference of two models, on all rows or on some of them.

    Attributes:
        models: Predictions of the model, or of both models.
        given: Numbers that define the metric, as far as the analyst gave them.
        where: A condition: the metric is computed from the rows that meet it. None for all rows.
        weight: A number of each row, from 0 to the cap, that says how much the row counts. None if all rows count
            alike.
        cap: The largest weight. Larger weights of sealed rows count as this.
    """

    metric: Metric
    models: tuple[ScoredRows, ...]
    given: Mapping[str, float] = field(default_factory=dict)
    where: str | None = None
    weight: str | None = None
    cap: float | None = None

    @classmethod
    def of(
        cls, metric: Metric, predictions: Any, training: Any = None, given: Mapping[str, float] | None = None,
        where: str | None = None, positive: Any = None,
    ) -> MetricQuery:  # fmt: skip
        """Build the query for a metric of one model."""
        rows = ScoredRows(metric.outputs, predictions, training, positive=positive)
        return cls(metric, (rows,), given or {}, where)

    @property
    def greater(self) -> bool:
        """Whether a higher number is better."""
        return self.metric.greater

    @property
    def positive(self) -> Any:
        """The class that counts as label 1, or None if the labels are 0 and 1."""
        return self.models[0].positive

    @property
    def simplest(self) -> MetricQuery | LabelQuery:
        """The query as a mean of row values if the metric is such a mean, else unchanged."""
        if not self.metric.mean or self.where is not None or self.weight is not None or len(self.models) > 1:
            return self
        (model,) = self.models
        mean = MEANS[self.metric.name](model.predictions, training=model.training)
        return mean if self.positive is None else replace(mean, positive=self.positive)  # type: ignore[type-var]

    def share(self) -> ShareQuery | None:
        """Return the query as a ratio of two means, which every mechanism answers, or None if it is not a ratio."""
        of_some = self.metric.mean and self.where is not None
        if len(self.models) > 1 or self.weight is not None or not (self.metric.rate or of_some):
            return None
        (model,), rows = self.models, None if self.where is None else MeanQuery(self.where)
        if rows is not None and self.metric.mean:
            mean = replace(self, where=None).simplest
            assert isinstance(mean, RowwiseQuery)
            return ShareQuery(mean, rows)
        part, whole = OutcomeQuery.counts(self.metric.name, model.predictions, model.training, self.positive)
        shown = f"{self.metric.rate.partition(' ')[2]} of {SUBJECT}"
        if self.positive is not None:
            shown = f"{shown}, {brief(self.positive)} against the rest"
        if rows is None:
            return ShareQuery(part, whole, nested=True, name=self.metric.rate, shown=shown)
        return ShareQuery(
            WithinQuery(part, rows), WithinQuery(whole, rows), nested=True, name=self.metric.rate,
            shown=f"{shown} among rows with {self.where}",
        )  # fmt: skip

    def minus(self, other: MetricQuery) -> MetricQuery:
        """Return the query for the difference of two models.

        Raises:
            QueryRejected: If the other query has another metric, or is about other rows. Nothing is charged.
        """
        if len(self.models) + len(other.models) > 2:
            raise QueryRejected("A difference of two differences cannot be asked. Compare two models.")
        own, others = (
            (each.metric, dict(each.given), each.where, each.positive, each.weight, each.cap) for each in (self, other)
        )
        if own != others:
            if self.metric != other.metric:
                raise QueryRejected(
                    f"One score is {self.metric.name} and the other {other.metric.name}. Compare models by one score."
                )
            raise QueryRejected(
                "The two scores have different ranges, rows, weights or positive classes. Give both the same settings."
            )
        return replace(self, models=(*self.models, *other.models))

    def among(self, where: str) -> MetricQuery:
        """Return the query limited to rows that also meet a condition."""
        return replace(self, where=where if self.where is None else f"({self.where}) and ({where})")

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        if len(self.models) > 1:
            return QuerySpec("difference", tuple(replace(self, models=(model,)) for model in self.models))
        (model,) = self.models
        numbers = {name: self.given.get(name) for name in self.metric.settings}
        details = {
            "name": self.metric.name, "training": model.training, "where": self.where, "pos_label": self.positive,
            "weight": self.weight, "weight_cap": self.cap, **numbers,
        }  # fmt: skip
        return QuerySpec("metric", model.predictions, details)

    def compile(
        self, compiler: CompileContext, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """Compile the metric, with its guess: as one query where possible, else by means.

        Raises:
            QueryRejected: If the metric has no interval for this holdout. Nothing is charged.
        """
        mechanism, schema, share = compiler.mechanism, compiler.schema, self.share()
        if share is not None:
            unguessed = guess is None and not compiler.silent
            as_means = unguessed or isinstance(self.models[0].predictions, str) or not takes_ratios(mechanism)
            if as_means or share.placed(compiler).as_one(compiler) is not None:
                return share.compile(compiler, guess=guess, tolerance=tolerance)
        two_classes = schema.label_kind == "binary" or self.positive is not None
        of_outcomes = len(self.models) > 1 and self.metric.outcomes and self.weight is None
        if of_outcomes and two_classes and mechanism.dependence.independent:
            return difference_of_outcomes(
                self.metric, self.models, self.where, compiler, guess=guess, tolerance=tolerance
            )
        reader = self.reader(compiler)
        if tolerance is not None:
            paying(mechanism)
        bound = reader.bound()
        known, procedure = reader.planned(None if guess is None else bound.to_mean(as_float(guess)))
        prepared = compiler.planner.of_statistic(bound, guess, known, procedure, reader.number)
        return OneMean([prepared], schema, mechanism)

    def _weights(self, weight: str, compiler: CompileContext) -> BoundQuery:
        """Return the query for each row's weight as a share of the cap.

        Raises:
            QueryRejected: If the column does not hold weights, or a training row has a weight above the cap. Nothing is
                charged.
        """
        cap, name = self.cap or 0.0, self.metric.title or self.metric.name
        if not measure_of(self.metric).weighs:
            raise QueryRejected(
                f"{name} takes no weights. Pass a metric that is made of means, such as accuracy or f1."
            )
        if is_condition(MeanQuery(weight), compiler.schema):
            raise QueryRejected(f"weight is {weight!r}, a condition. Pass where={weight!r}, or a number as weight.")
        for beyond in (f"({weight}) > {cap!r}", f"({weight}) < 0"):
            if compiler.training is not None and (
                count := int(np.count_nonzero(rows_that_meet(compiler.training, condition(beyond, compiler.schema))))
            ):
                raise QueryRejected(
                    f"The weights {weight!r} of {count:,} training rows are not from 0 to {cap:g}. Pass a larger "
                    "weight_cap, or weights that are not negative."
                )
        return MeanQuery(weight, 0.0, cap).bind(compiler.schema)

    def reader(self, compiler: CompileContext) -> ModelsReader:
        """Return the reader of predictions, labels and the condition in one holdout, after checks.

        Raises:
            QueryRejected: If no interval is proved for these models and rows. Nothing is charged.
        """
        metric, mechanism, schema = self.metric, compiler.mechanism, compiler.schema
        title = _title(metric, len(self.models))
        if len(self.models) > 1:
            check_compared(metric, weighted=self.weight is not None)
        self.check_labels(schema)
        check_kind(metric, mechanism, models=len(self.models))
        if self.where is not None and len(self.models) > metric.slices:
            raise QueryRejected(
                f"where= selects some rows, and {title} has a guarantee for all rows only. Leave where= out, or ask "
                "for a metric such as neg_brier_score or f1."
            )
        labels = open_labels(compiler)
        setting = self.setting(schema, labels)
        inside = None if self.where is None else condition(self.where, schema)
        models = tuple(BoundRows.of(model, compiler) for model in self.models)
        known = any(model.bound.by_position for model in models) or schema.features_public
        if measure_of(metric).by_rank:
            dealt = dealt_by(title, schema, mechanism.dependence.group_column, known=known)
            if dealt == "ranks" and inside is not None:
                raise QueryRejected(
                    f"{title} among some rows has a guarantee only if the scores of the rows are sealed. "
                    "Pass a fitted model of sealed features, or leave where= out."
                )
            shares = _shares(
                range(setting.classes) if metric.outputs == "probabilities" else [1],
                None if labels is None else self.coded(labels, schema),
                None if compiler.training is None or inside is None else rows_that_meet(compiler.training, inside),
            )
            setting = replace(setting, share=shares[0], shares=shares, dealt=dealt)
        reach = None
        if len(models) > 1:
            first, second = (model.public() for model in models)
            reach = 1.0 if first is None or second is None else measure_of(metric).reach(first, second, setting)
        weights = None if self.weight is None else self._weights(self.weight, compiler)
        return ModelsReader(self, compiler, setting, models, known, reach, largest_group(mechanism), inside, weights)

    def is_promised(self, compiler: CompileContext) -> bool:
        """Return whether the metric has an interval for a holdout's rows and mechanism, with any predictions."""
        schema = compiler.schema
        try:
            check_kind(self.metric, compiler.mechanism, models=len(self.models))
            if measure_of(self.metric).by_rank:
                models = (model.predictions for model in self.models)
                known = schema.features_public or not all(hasattr(model, "predict") for model in models)
                dealt_by(_title(self.metric, len(self.models)), schema, None, known=known)
        except QueryRejected:
            return False
        return True

    def score_of(self, outputs: NDArray[Any], labels: NDArray[Any], schema: Schema) -> float:
        """Compute the metric on training rows, in its own units.

        Args:
            outputs: Predictions, shape (rows,) or (rows, classes).
            labels: Labels of the training rows, of shape (rows,).
            schema: The public facts about the holdout's rows.
        """
        setting, measure = self.setting(schema, np.asarray(labels)), measure_of(self.metric)
        rows = Judged(self.models[0].judge(np.asarray(outputs), {}, schema), self.coded(labels, schema))
        zero, one = self.metric.ends(setting)
        seen = measure.see(rows, setting)
        if self.metric.rate and not measure.is_known(rows, seen):
            return math.nan
        return zero + (one - zero) * float(seen.score)

    def coded(self, labels: NDArray[Any], schema: Schema) -> NDArray[np.float64]:
        """Return labels as numbers for the metric.

        If a positive class is named, it is 1 and all others are 0. Else it is the number of the class if the metric is
        about classes, or the label itself.
        """
        if self.positive is not None:
            return np.asarray(np.asarray(labels) == self.positive, dtype=np.float64)
        if self.metric.outputs in ("classes", "probabilities"):
            return codes_of(np.asarray(labels), schema.label_classes or ())
        return np.asarray(labels, dtype=np.float64)

    def check_labels(self, schema: Schema) -> None:
        """Raise QueryRejected if the label column or its classes do not suit the metric."""
        name, outputs = self.metric.title or self.metric.name, self.metric.outputs
        if self.positive is not None and schema.label is not None:
            if not self.metric.takes_positive:
                raise QueryRejected(f"{name} treats all classes alike, so it takes no pos_label. Leave pos_label= out.")
            self.models[0].check_positive(schema)
            return
        if schema.label_kind not in self.metric.labels:
            wanted = "labels 0 and 1" if self.metric.labels == ("binary",) else "a label column"
            found = {"string": "texts", "number": "other numbers", "binary": "labels 0 and 1"}.get(
                schema.label_kind or "", "none"
            )
            named = f"eh.metric({self.metric.name!r}, ..., pos_label=...)"
            positive = f", or name the positive class: {named}" if wanted.startswith("labels") else ""
            raise QueryRejected(
                f"{name} needs {wanted}, and this holdout has {found}. Ask for another metric{positive}."
            )
        if outputs in ("classes", "probabilities") and not schema.label_classes:
            raise QueryRejected(
                f"{name} needs the classes of the label {schema.label!r}, and they are not known. Create the holdout "
                "with classes=[...] (--classes)."
            )

    def setting(self, schema: Schema, labels: NDArray[Any] | None) -> Setting:
        """Return the numbers that define the metric in one holdout, such as ranges, from public facts.

        Raises:
            QueryRejected: If a number that the metric needs is missing or cannot be used. Nothing is charged.
        """
        given = {name: as_float(value) for name, value in self.given.items()}
        if not all(map(math.isfinite, given.values())):
            raise QueryRejected(f"{self.metric.name} has the settings {brief(dict(self.given))}. Pass finite numbers.")
        made = Setting(classes=len(schema.label_classes or ()) if self.positive is None else 2)
        if "low" in self.metric.settings:
            low, high = _range(self.metric.name, given, schema, labels)
            centre = 0.5 if labels is None else float(np.mean(np.clip(labels, low, high)) - low) / (high - low)
            centre = float(f"{centre:.6g}")
            farthest = 1.0 if schema.label_kind == "binary" else (high - low) * max(centre, 1.0 - centre)
            clip = float(f"{farthest ** measure_of(self.metric).power:.6g}")
            made = replace(made, low=low, high=high, centre=centre, clip=clip)
        if self.metric.outputs == "probabilities":
            made = replace(made, clip=LOG_CLIP)
        if "floor" in self.metric.settings:
            if not given.get("floor", 0.0) > 0.0:
                raise QueryRejected(
                    f"{self.metric.name} needs floor. Pass the smallest number by which an error may be divided, such "
                    "as floor=1."
                )
            made = replace(made, clip=1.0, floor=given["floor"])
        if not 0.0 < given.get("threshold", made.threshold) < 1.0:
            raise QueryRejected(f"threshold is {given['threshold']:g}. Pass a probability between 0 and 1.")
        made = replace(
            made, clip=given.get("clip", made.clip), rate=given.get("rate", made.rate),
            threshold=given.get("threshold", made.threshold),
        )  # fmt: skip
        bins = as_float(given.get("bins", 10))
        if not made.clip > 0.0 or not 0.0 < made.rate < 1.0 or bins not in range(1, 101):
            raise QueryRejected(
                f"{self.metric.name} has the settings {brief(dict(self.given))}. Pass clip above 0, rate between 0 "
                "and 1, and bins from 1 to 100."
            )
        return replace(made, bins=int(bins))


def _range(name: str, given: Mapping[str, float], schema: Schema, labels: NDArray[Any] | None) -> tuple[float, float]:
    """Return the least and the largest label, as given, or else those of the training rows."""
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
    if low is not None and high is not None and not abs(high - low) < _WIDEST:
        raise QueryRejected(f"The range of {name} is [{low}, {high}], which is too wide to square. Use other units.")
    if low is None or high is None or not low < high:
        raise QueryRejected(
            f"{name} got low {low} and high {high}. Pass low=... and high=..., the range of the labels."
        )
    return float(low), float(high)


def open_labels(compiler: CompileContext) -> NDArray[Any] | None:
    """Return the labels of the training rows, or None without training rows or a label column."""
    schema, training = compiler.schema, compiler.training
    if training is None or schema.label is None:
        return None
    return training.table((schema.label,))[schema.label]


def _shares(
    classes: Sequence[int], labels: NDArray[Any] | None, counting: NDArray[Any] | None = None
) -> tuple[float, ...]:  # fmt: skip
    """Return the planned share of each class among the labels of training rows, never 0 or 1.

    Args:
        classes: The classes, as the labels have them.
        labels: Labels of the training rows; None if there are no training rows.
        counting: Whether each training row counts; None if all count. If none counts, the shares are those of all.
    """
    if labels is None:
        return (_UNKNOWN_SHARE,) * len(classes)
    if counting is not None and counting.any():
        labels = labels[counting]
    return tuple((int(np.count_nonzero(labels == each)) + 0.5) / (len(labels) + 1.0) for each in classes)


def largest_group(mechanism: Mechanism, rows: Judged | None = None) -> float:
    """Return the size of the largest group, declared or among the given rows; 1 for independent rows."""
    declared = float(mechanism.dependence.largest_unit)
    return declared if rows is None or rows.groups is None else max(declared, float(np.bincount(rows.groups).max()))


def _title(metric: Metric, models: int) -> str:
    """Return the name of a metric for messages; for two models, the name of the difference in the metric."""
    name = metric.title or metric.name
    return name if models == 1 else f"a difference of {name}s" if metric.title else f"a difference in {name}"


def dealt_by(
    name: str, schema: Schema, group_column: str | None, *, known: bool
) -> Literal["blocks", "ranks", "groups"]:  # fmt: skip
    """Return the units of an AUC's interval, after a check that the split left what the proof needs to chance.

    The units are blocks of groups if a column names groups, else ranks of known scores, or blocks of rows.

    The proof for known scores needs random labels, and a split by the label fixes shares of labels. Any other proof
    needs random rows, and a split by any other column fixes shares of rows.

    Args:
        name: The name of the metric for messages.
        schema: The public facts about the rows.
        group_column: Column with the group of each row; None for independent rows.
        known: True if the scores of the sealed rows are public.

    Raises:
        QueryRejected: If the split has fixed what the proof needs to be random. Nothing is charged.
    """
    if schema.stratified is not None and (schema.stratified == schema.label) is known:
        raise QueryRejected(
            f"The rows were split by {schema.stratified!r}, and {name} of {'known scores' if known else 'a model'} "
            f"needs {'labels' if known else 'rows'} that the split left to chance. Ask about "
            f"{'the model itself' if known else 'scores in an array'}, or AUC with counts."
        )
    return "groups" if group_column is not None else "ranks" if known else "blocks"


def check_kind(metric: Metric, mechanism: Mechanism, *, models: int = 1) -> None:
    """Check that the metric has an interval for the mechanism and the dependence of the rows.

    Raises:
        QueryRejected: If the metric has no interval for them. Nothing is charged.
    """
    title, rows = _title(metric, models), metric.one if models == 1 else metric.two
    check_confirms_statistics(mechanism, title, instead=metric.instead)
    dependence = mechanism.dependence
    if dependence.independent:
        return
    if rows != "any" or dependence.group_column is None:
        allowed, way = "independent rows only", ""
        if rows == "any":
            allowed, way = "independent rows or groups that a column names", " in another way"
        raise QueryRejected(
            f"These rows were declared to depend on each other{way}, and {title} is promised for {allowed}. Ask for "
            f"{metric.instead if metric.title else 'accuracy or a loss'}."
        )


def check_compared(metric: Metric, *, weighted: bool = False) -> None:
    """Check that two models can be compared by the metric.

    If ``weighted`` is True, the message says that rows have weights.

    Raises:
        QueryRejected: If the metric cannot compare two models. Nothing is charged.
    """
    if metric.two == "none" or not measure_of(metric).compares:
        why = f" {REASONS[metric.name]}." if metric.name in REASONS else ""
        raise QueryRejected(
            f"Two models cannot be compared by {metric.name}{' of weighted rows' if weighted else ''}.{why} Compare "
            f"them by {metric.nearest}, or ask for {metric.name} of each."
        )


def check_ordered(metric: Metric) -> None:
    """Raise QueryRejected for a metric that is best at 0, because it does not order models.

    Raises:
        QueryRejected: If the metric is best at 0. Nothing is charged.
    """
    if not metric.ordered:
        raise QueryRejected(
            f"The best value of {metric.name} is 0, between worse ones, so it does not order models. Order them by "
            f"{metric.nearest}."
        )


@dataclass(frozen=True, eq=False)
class ModelsReader:
    """Reads labels and the predictions of one or two models. The reader itself holds no sealed value.

    Attributes:
        query: The query for a metric of the models.
        compiler: The compiler of the holdout, which knows the public rows.
        setting: The numbers that define the metric in this holdout.
        models: Predictions of each model, bound to the rows.
        unlike: True if scores are known and the promise is about labels drawn anew on these rows.
        reach: A bound of how far one row can move the difference of two models; None for one model.
        largest: Rows of the largest group that is declared; 1 for independent rows.
        inside: The condition of rows that count; None for all rows.
        weights: Weight of each row as a share of the cap; None if all rows count equally.
    """

    query: MetricQuery
    compiler: CompileContext
    setting: Setting
    models: tuple[BoundRows, ...]
    unlike: bool
    reach: float | None
    largest: float
    inside: BoundQuery | None
    weights: BoundQuery | None

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers that define the metric, by name."""
        return {name: float(getattr(self.setting, name)) for name in self.query.metric.settings}

    @cached_property
    def trained(self) -> Sequence[Judged | None]:
        """The training rows with the predictions of each model, or None for a model with unknown predictions."""
        training = self.compiler.training
        if training is None:
            return [None] * len(self.models)
        return [
            None if model.bound.training is None else self.judged(model.read(training, sealed=False), training)
            for model in self.models
        ]

    @cached_property
    def labels(self) -> NDArray[np.float64] | None:
        """The labels of the training rows as numbers for the metric, or None without training rows."""
        labels = open_labels(self.compiler)
        return None if labels is None else self.query.coded(labels, self.compiler.schema)

    def bound(self) -> BoundQuery:
        """Return the bound query, with the condition and weights of rows and notes about clipped values."""
        query, schema, dealt = self.query, self.compiler.schema, self.setting.dealt
        metric, numbers, models = query.metric, self.numbers, [model.bound for model in self.models]
        described: dict[str, Any] = {"name": metric.name, **numbers}
        title, name = metric.title or metric.name, metric.name
        by_units = measure_of(metric).by_rank and bool(metric.title)
        if by_units:
            described["by"] = dealt
        if query.positive is not None:
            title = f"{title} of {brief(query.positive)} against the rest,"
        if by_units and dealt == "groups":
            title += f" between groups of {self.compiler.mechanism.dependence.group_column!r}"
        zero, one = metric.ends(self.setting)
        if len(models) == 1:
            by, (model,) = ", ".join(f"{each} {number:g}" for each, number in numbers.items()), models
            described, shown = {"kind": "score", **described, **model.description}, f"{title} of {model.shown}"
            shown, unbounded = shown + (f" ({by})" if by else ""), metric.unbounded
        else:
            described |= {"kind": "score difference", "of": [model.description for model in models]}
            shown = f"{title} of {models[0].shown} minus {models[1].shown}"
            zero, one, unbounded = zero - one, one - zero, (any(metric.unbounded), any(metric.unbounded))
        known = [rows.outputs.ravel() for rows, model in zip(self.trained, models, strict=True)
                 if rows is not None and model.by_position]  # fmt: skip
        reads = tuple(dict.fromkeys(column for model in self.models for column in model.reads))
        bound = BoundQuery(
            described, shown, zero, one, reads=reads, unbounded=unbounded,
            by_position=any(model.by_position for model in models),
            training_values=np.concatenate(known) if known else None,
        )  # fmt: skip
        if self.inside is not None:
            bound = among(bound, self.inside, query.where, schema)
        if self.weights is not None:
            bound = replace(
                bound, description={**bound.description, "weight": self.weights.description, "cap": query.cap},
                shown=f"{bound.shown} weighted by {query.weight} up to {query.cap:g}",
                reads=tuple(dict.fromkeys((*(bound.reads or ()), *(self.weights.reads or ())))),
            )  # fmt: skip
        if "clip" not in metric.settings:
            return bound
        clips = [clip for rows in self.trained for clip in measure_of(metric).clips(rows, self.labels, self.setting)]
        if any(clip.beyond for clip in clips):  # then the number is not scikit-learn's
            clipped = f"{name}_clipped" + (f"({self.setting.clip:.4g})" if len(clips) == 1 else "")
            bound = replace(bound, shown=bound.shown.replace(name, clipped))
        return with_clips(bound, clips)

    def judged(self, outputs: NDArray[np.float64], rows: StoredRows, *, dealt: bool = False) -> Judged:
        """Return predictions with the labels, groups and weights of these rows. A label of no class is -1.

        Args:
            outputs: Predictions of the model, one for each row.
            rows: Stored rows to which the predictions belong.
            dealt: True if the rows are sealed rows, which are assigned to blocks in a secret order.
        """
        schema, column = self.compiler.schema, self.compiler.mechanism.dependence.group_column
        label = schema.label or ""
        groups = None if column is None else rows.group_index(column)
        counting: Any = None if self.inside is None else rows_that_meet(rows, self.inside)
        if self.weights is not None:
            weights = rows.row_values(self.weights, unit=_WEIGHTS) / _WEIGHTS
            counting = weights if counting is None else weights * counting
        order = rows.code.dealing_order() if dealt and measure_of(self.query.metric).by_rank else None
        return Judged(outputs, self.query.coded(rows.table((label,))[label], schema), groups, counting, order)

    def see(self, rows: Sequence[Judged], largest: float) -> Any:
        """Return the summary of the rows for one model, or for the difference of two models.

        `largest` is the number of rows of the largest group.
        """
        measure = measure_of(self.query.metric)
        if len(rows) == 1:
            return measure.see(rows[0], self.setting, largest)
        first, second = rows
        return measure.see_difference(
            first, second, self.setting, largest, reach=1.0 if self.reach is None else self.reach
        )

    def number(self, rows: StoredRows) -> tuple[float, Any]:
        """Return the metric of the sealed rows as a share of its range, and their summary. Both are secret."""
        seen = self.see(
            [self.judged(each.read(rows, sealed=True), rows, dealt=True) for each in self.models], self.largest
        )
        return float(seen.score), seen

    def planned(self, guess: float | None) -> tuple[Fraction | None, Procedure]:
        """Return the metric of the training rows, or None, and the interval procedure.

        `guess` is the analyst's own guess, on the scale [0, 1], or None.

        Raises:
            QueryRejected: If no public row shows how far two models differ. Nothing is charged.
        """
        schema, training, measure = self.compiler.schema, self.compiler.training, measure_of(self.query.metric)
        meets = 1.0 if self.inside is None else share_that_meets(training, self.inside)
        found = [rows for rows in self.trained if rows is not None]
        opened = found if len(found) == len(self.models) else None
        each = [measure.see(rows, self.setting, largest_group(self.compiler.mechanism, rows)) for rows in found]
        known = opened is not None and all(map(measure.is_known, found, each))
        rows = opened if known else self._stand_in(opened, guess)
        counting, own = max(round(schema.rows * (1.0 if known else meets)), 1), guess is not None or not known
        seen: Any = None
        size = 0
        if rows is not None:
            alone = known and len(rows) == 1
            seen = each[0] if alone else self.see(rows, largest_group(self.compiler.mechanism, rows[0]))
            size = len(rows[0].labels)
            if opened is not None and not known and (self.inside is not None or self.reach is not None):
                seen, size = measure.thinned(seen, counting / size), counting  # as few count as training rows do
        at = None if guess is None else min(max(guess, 0.0), 1.0)
        sized = Sized(
            counting, schema.rows if own else max(schema.training_rows, 1), size, self.largest,
            self.unlike and self.reach is None, self.inside is not None or self.weights is not None,
            schema.rows * meets, at,
        )  # fmt: skip
        number = Fraction(float(seen.score)) if known else None
        return number, measure.procedure(seen, self.setting, sized, reach=self.reach)

    def _stand_in(self, opened: Sequence[Judged] | None, guess: float | None) -> Sequence[Judged] | None:
        """Return artificial or other public rows to plan with if no training row gives the spread, or None."""
        metric, measure = self.query.metric, measure_of(self.query.metric)
        if not measure.needs_rows:
            return None
        if len(self.models) == 1:
            at = 0.5 if guess is None else min(max(guess, 0.0), 1.0)
            return [
                self._in_groups(made_up(metric, self.setting, at, self.labels, measure.likely, self.models[0].public()))
            ]
        if opened is not None:
            return [replace(rows, counting=None) for rows in opened]
        told = [model.public() for model in self.models]
        if told[0] is None and told[1] is None:
            first = made_up(metric, self.setting, _LIKELY_SCORE, self.labels, measure.likely)
            return [first, replace(first, outputs=shuffled_within(first.labels, first.outputs))]
        if told[0] is None or told[1] is None:
            raise QueryRejected(
                "The two predictions cannot be compared on the same rows. Pass two models, two arrays, or arrays with "
                "training=..."
            )
        return [
            self._in_groups(Judged(each, likely_labels(metric, told[0], told[1], self.labels)))
            for each in told if each is not None
        ]  # fmt: skip

    def _in_groups(self, rows: Judged) -> Judged:
        """Return the rows in groups of the usual size if an AUC is of rows in groups, else unchanged."""
        if self.setting.dealt != "groups":
            return rows
        groups = sum(count for _, count in self.compiler.mechanism.dependence.unit_counts)
        size = max(round(self.compiler.schema.rows / max(groups, 1)), 1)
        return replace(rows, groups=np.arange(len(rows.labels)) // size)


# The difference of two models by pairs of outcomes of independent rows with labels 0 and 1.


def difference_of_outcomes(
    metric: Metric, models: Sequence[ScoredRows], where: str | None, compiler: CompileContext, *,
    guess: float | None, tolerance: float | None,
) -> QueryPlan[Answer]:  # fmt: skip
    """Compile the difference of two models in a rate, by pairs of outcomes of independent rows.

    Raises:
        QueryRejected: If no interval is proved for this difference. Nothing is charged.
    """
    mechanism, schema, score = compiler.mechanism, compiler.schema, metric.name
    check_confirms_statistics(
        mechanism, f"a difference in {score}", instead="a difference in accuracy", independent=True
    )
    if tolerance is not None:
        paying(mechanism)
    asked = [OutcomeQuery.codes(score, model.predictions, model.training, models[0].positive) for model in models]
    both = [compiler.bind(each) for each in asked]
    inside = None if where is None else condition(where, schema)
    training: list[NDArray[np.int64] | None] = [None, None]  # codes of training rows that count, where they are known
    if compiler.training is not None and all(found.trained for found in both):
        codes = [_codes(compiler.training, found, inside, unit=mechanism.unit) for found in both]
        training = [each if len(each) else None for each in codes]
    counting = schema.rows * (1.0 if inside is None else share_that_meets(compiler.training, inside))
    (first, second), likely = map(passed_predictions, both), None
    if first is not None and second is not None:  # two public arrays, so that pairs of outcomes can be expected
        labels = open_labels(compiler)
        share = None if labels is None else _shares([1 if (found := asked[0].positive) is None else found], labels)[0]
        likely = likely_pairs(asked[0].says_positive(first), asked[1].says_positive(second), share)
    known, procedure = None, GainDifference(metric.outcomes, max(round(counting), 1), likely)
    if training[0] is not None and training[1] is not None:
        seen = procedure.cells(training[0], training[1])
        known = Fraction(1 + procedure.gain(seen)) / 2
        procedure = replace(procedure, planned=tuple(counts_of_pairs(seen).astype(int).ravel().tolist()))
    bound = BoundQuery(
        {"kind": "score difference", "name": score, "of": [dict(found.description) for found in both]},
        f"{both[0].shown} minus {both[1].shown}", -1.0, 1.0,
        reads=tuple(dict.fromkeys(name for found in both for name in found.reads or schema.asked)),
        by_position=any(found.by_position for found in both),
    )  # fmt: skip
    bound = bound if inside is None else among(bound, inside, where, schema)
    if training[0] is not None and training[1] is not None and bound.by_position:
        bound = replace(bound, training_values=np.concatenate([training[0], training[1]]))

    def sealed(rows: StoredRows) -> tuple[Fraction, Cells]:
        codes = [_codes(rows, found, inside, unit=mechanism.unit) for found in both]
        seen = procedure.cells(codes[0], codes[1])
        return Fraction(1 + procedure.gain(seen)) / 2, seen

    known = known if guess is None else None
    return OneMean([compiler.planner.of_statistic(bound, guess, known, procedure, sealed)], schema, mechanism)


def _codes(rows: StoredRows, bound: BoundQuery, inside: BoundQuery | None, *, unit: int) -> NDArray[np.int64]:
    codes = outcome_codes(rows.row_values(bound, unit=unit), unit)
    return codes if inside is None else codes[rows_that_meet(rows, inside)]
