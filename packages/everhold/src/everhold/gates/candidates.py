"""Champions and challengers of gates about rows, and the procedure of their gains, from public facts alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.gates.challenge import SCORE, gain_width, metric_in_words
from everhold.gates.records import Champion
from everhold.guarantees.intervals.betting import Betting
from everhold.guarantees.intervals.gains import ClassGains, OutcomeGain, SeenClasses, gain_of
from everhold.guarantees.intervals.in_order import betting_on
from everhold.guarantees.intervals.means import Chernoff, Hoeffding, SignTest
from everhold.queries.metrics import scores
from everhold.queries.metrics.label_query import LabelQuery, passed_predictions
from everhold.queries.metrics.measures import PartsMeasure, likely_labels, measure_of
from everhold.queries.metrics.query import MetricQuery, ModelsReader, dealt_by, largest_group
from everhold.queries.metrics.registry import METRICS, REFUSED
from everhold.queries.metrics.row_scores import MEANS, OutcomeQuery, risk
from everhold.queries.metrics.score_parts import Judged, Setting, Sized
from everhold.queries.query import Query
from everhold.sealing.rows.sums import cells_of
from everhold.values.base import BoundQuery
from everhold.values.evaluation import clip_to_grid
from everhold.values.units import GAIN_WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.mechanisms import Mechanism
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows


_OF_CANDIDATES = ("predictions", "estimator", "rule", "on_public_rows")
"""Fields of a query's description that are the candidate's; all others are the metric's."""


def why_no_gain(name: Any) -> str | None:
    """Return why gates do not support a metric, with the nearest one; None if gates support it or do not know the name.

    Examples:
        >>> why_no_gain("average_precision")
        "A gain in 'average_precision' has no guarantee. The nearest metric that gates support is roc_auc."
        >>> why_no_gain("roc_auc"), why_no_gain("height")
        (None, None)
    """
    if not isinstance(name, str):
        return None
    metric = METRICS.get(name)
    if (metric is None and name not in REFUSED) or (metric is not None and metric.gain != "none"):
        return None
    nearest = REFUSED[name].partition(",")[0] if metric is None else metric.nearest
    return (
        f"A gain in {name!r} has no guarantee. The nearest metric that gates support is "
        f"{nearest if nearest in METRICS and METRICS[nearest].gain != 'none' else 'accuracy'}."
    )


def named_metric(name: str, *, binary: bool = True) -> Callable[..., Any] | None:
    """Return the function that makes queries with a named metric, or None if gates do not support it.

    If ``binary`` is True, the labels are 0 and 1.
    """
    if name == "risk":
        return risk
    metric = METRICS.get(name)
    if metric is None or metric.gain == "none":
        return None
    mean = metric.as_mean
    if isinstance(mean, str):
        return MEANS[mean]
    return partial(scores.metric, name) if mean is None or not binary else partial(risk, **mean)


@dataclass(frozen=True, slots=True)
class GateMetric:
    """Metric of a gate.

    Attributes:
        make: Function from a candidate, and its predictions for the training rows as ``training=`` if there are any, to
            the query about the candidate.
        description: Public description of the metric in canonical form, before a candidate adds to it.
    """

    make: Callable[..., Any]
    description: Mapping[str, Any] | None = None

    def query(self, predictions: Any, training: Any) -> LabelQuery | MetricQuery:
        """Build the query about a candidate.

        Raises:
            QueryRejected: If the metric function fails, or returns no query that gates compare by. Nothing is charged.
        """
        try:
            query = self.make(predictions) if training is None else self.make(predictions, training=training)
        except QueryRejected:
            raise
        except ValueError as reason:
            raise QueryRejected(f"{reason}") from None
        except Exception as fault:  # the function is the analyst's own
            raise no_metric(f"a function that fails with {type(fault).__name__}: {fault}") from fault
        if not isinstance(query, LabelQuery | MetricQuery):
            raise no_metric(query)
        return query

    def described(self, bound: BoundQuery) -> dict[str, Any]:
        """Return the part of a query's description that is about the metric, not the candidate.

        Raises:
            QueryRejected: If the gate exists and compares by another metric. Nothing is charged.
        """
        described = {name: value for name, value in bound.description.items() if name not in _OF_CANDIDATES}
        if self.description is not None and described != self.description:
            raise QueryRejected(
                f"The gate compares by {metric_in_words(self.description)}, and the candidate has another metric. Pass "
                "the metric that the gate was opened with. Give a loss that is a function a name (name=...), so that "
                "it can be recognised."
            )
        return described


def metric_of(metric: Any, known: Mapping[str, Any] | None = None, *, binary: bool = True) -> GateMetric:
    """Return the gate's metric from the name or the function that an analyst passes.

    Args:
        metric: One of `METRICS.of_gates`, ``"risk"``, one of the functions `accuracy`, `error` and `brier`, or a
            function from a candidate to such a query or to a `metric`. None for the metric of an existing gate.
        known: The description of the gate's metric if the gate exists.
        binary: True if the labels are 0 and 1.
    """
    if metric is None and known is not None:
        kind, positive = str(known.get("kind")), known.get("positive")
        if kind == SCORE:
            settings = {each: known[each] for each in METRICS[str(known["name"])].settings if each in known}
            metric = partial(scores.metric, str(known["name"]), pos_label=positive, **settings)
        elif kind != "risk":
            metric = kind if positive is None else partial(scores.metric, kind, pos_label=positive)
        elif "loss" not in known:
            raise QueryRejected(
                "The metric of the gate is a loss function of its own, which the ledger does not store. Pass it again "
                "as the first argument, such as lambda model: eh.risk(model, loss, high=5, name='mine')."
            )
        else:
            metric = partial(risk, loss=known["loss"], low=known["low"], high=known["high"])
    metric = scores.as_metric(metric)
    make = named_metric(metric, binary=binary) if isinstance(metric, str) else metric
    if make is None or isinstance(make, Query) or not callable(make):
        raise no_metric(metric)
    return GateMetric(make, known)


def no_metric(thing: object) -> QueryRejected:
    """Return the error for something that gates cannot compare by."""
    if (reason := why_no_gain(thing)) is not None:
        return QueryRejected(reason)
    return QueryRejected(
        f"The metric of a gate is {brief(thing)}. Pass eh.accuracy, eh.error, eh.brier, a name such as 'roc_auc', or "
        "a function from a candidate to a query, such as lambda model: eh.risk(model, 'log', high=5)."
    )


# The gain of a challenger over a champion, row by row: what is looked at, and the procedure of its lower limit.


@dataclass(frozen=True, slots=True)
class Gained:
    """Gain on the sealed rows, on the scale ``(1 + gain) / 2``. Secret.

    Attributes:
        total: The sum of paired row values in grid units.
        seen: Input of the interval procedure; None if the procedure needs the total alone.
        mean: The gain as a share of the scale, if it does not follow from the total; else None.
    """

    total: int = field(repr=False)
    seen: Any = field(repr=False)
    mean: float | None = field(default=None, repr=False)

    @classmethod
    def of(cls, mean: float, seen: Any, mechanism: Mechanism) -> Gained:
        """Build a gain from its value as a share of the scale, computed from all rows together."""
        at = min(max(mean, 0.0), 1.0)
        return cls(math.floor(at * mechanism.steps), seen, at)


@dataclass(frozen=True)
class Gain(ABC):
    """How a gain is computed and bounded, decided by public facts before the evaluation.

    Attributes:
        procedure: Procedure of an interval whose lower end holds on one side, at half of the level of both sides.
    """

    procedure: Procedure

    @abstractmethod
    def evaluate(self, sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        """Return the gain on the sealed rows, from the stored values of challenger and champion on these rows."""


@dataclass(frozen=True)
class RowGain(Gain):
    """The gain of row values: the mean of paired differences, or for a score such as F1 a function of outcomes.

    Attributes:
        rises: True if higher row values are better; False if lower ones are.
        unit: Grid steps between 0 and 1.
        group_by: Column with the group of each row. None if rows are not in groups.
    """

    rises: bool
    unit: int
    group_by: str | None

    def evaluate(self, sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        """Return the gain on the sealed rows, from the stored values of challenger and champion on these rows."""
        procedure = self.procedure
        if isinstance(procedure, OutcomeGain):
            both = procedure.paired(challenger, champion, unit=self.unit)
        else:
            both = paired(challenger, champion, rises=self.rises, unit=self.unit)
        total, seen = sealed.summary(procedure.needs, both, group_by=self.group_by, unit=self.unit)
        return Gained(total, seen, (1.0 + procedure.gain(seen)) / 2.0 if isinstance(procedure, OutcomeGain) else None)


def paired(challenger: NDArray[np.int64], champion: NDArray[np.int64], *, rises: bool, unit: int) -> NDArray[np.int64]:
    """Return the row values ``(1 + gain) / 2`` of a challenger's gain over the champion, in grid units, rounded down.

    Args:
        challenger: Row values of the challenger in grid units, shape (rows,).
        champion: Row values of the champion in grid units, shape (rows,).
        rises: True if higher row values are better; False if lower ones are.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> paired(np.array([4, 0, 4]), np.array([0, 4, 4]), rises=True, unit=4)
        array([4, 0, 2])
    """
    gain = challenger - champion if rises else champion - challenger
    return np.asarray((unit + gain) // 2)


_FINE_GRID = 2**12  # steps with which a pair of outcomes lies well inside its cell


@dataclass(frozen=True, slots=True)
class Candidate:
    """A champion or challenger of a gate about rows, bound to the rows of a holdout.

    Attributes:
        metric: The metric's part of the query's description.
        predictions: Predictions for the sealed rows, shape (rows,), if they are an array; else None.
        training: Row value or prediction for each training row; None if unknown.
        outcomes: Name in `everhold.guarantees.intervals.gains.GAINS` of the number by which versions are compared, from
            the pairs of outcomes of each row; empty if they are compared by row values or predictions.
    """

    bound: BoundQuery
    metric: Mapping[str, Any]
    predictions: NDArray[Any] | None = field(repr=False)
    training: NDArray[Any] | None = field(repr=False)
    outcomes: str = field(default="", kw_only=True)

    @classmethod
    def prepared(cls, metric: GateMetric, predictions: Any, training: Any, compiler: QueryCompiler) -> Candidate:
        """Bind a candidate to the rows of a holdout. An estimator is tried on public rows.

        A score of outcomes, such as F1, is compared row by row if the proof for such a comparison applies.

        Raises:
            QueryRejected: If the candidate cannot be compared, or its metric differs from the gate's. Nothing is
                charged.
        """
        schema, mechanism, binary = compiler.schema, compiler.mechanism, compiler.schema.label_kind == "binary"
        query, outcomes = metric.query(predictions, training), ""
        if isinstance(query, MetricQuery):
            independent = mechanism.dependence.independent and mechanism.unit >= _FINE_GRID
            two_classes = binary or query.positive is not None
            if not (query.metric.outcomes and query.where is None and independent and two_classes):
                return OutputCandidate.of(query, metric, compiler)
            (model,), outcomes = query.models, query.metric.outcomes
            query = OutcomeQuery.codes(query.metric.name, model.predictions, model.training, query.positive)
        bound = query.bound_to(compiler)
        check_estimand([bound], schema, mechanism)
        if schema.about:
            bound = replace(bound, description=schema.without_arrival(bound.description))
        described, values = metric.described(bound), bound.training_values
        if values is None and bound.trained and compiler.training is not None:
            values = compiler.training.row_values(bound, unit=mechanism.unit)
        return cls(bound, described, passed_predictions(bound), values, outcomes=outcomes)

    @property
    def rises(self) -> bool:
        """Whether higher row values are better. A row on which the candidate fails gets the worst value."""
        return self.bound.at_fault == 0.0

    def as_champion(self, rows: StoredRows, *, unit: int) -> Champion:
        """Return the champion that the candidate becomes if it is promoted, with its row values for the sealed rows."""
        return Champion(self.bound.query, rows.row_values(self.bound, unit=unit), self.training, self.predictions)

    def against(self, champion: Champion, metric: GateMetric, compiler: QueryCompiler) -> Gain:
        """Return how the mean gain over a champion is computed and bounded, decided by public facts.

        If both are arrays of two classes, one of them is right on each row where they differ, so the exact sign test is
        used. Otherwise bets are used, and both candidates' values on the training rows predict how far gains spread. If
        these are unknown and both are arrays, the arrays predict it. If neither is available, only the range [-1, 1] of
        gains is known.

        Args:
            champion: The champion, of which only public facts are used.
            metric: The metric of the gate.
            compiler: Compiler of the holdout, which has the training rows.
        """
        mechanism, schema, opened = compiler.mechanism, compiler.schema, compiler.training
        dependence, unit, rises = mechanism.dependence, mechanism.unit, self.rises
        independent, of_accuracy = dependence.independent, self.metric["kind"] == "accuracy"
        group_by = None if independent else dependence.unit_column
        made = partial(RowGain, rises=rises, unit=unit, group_by=group_by)
        if self.outcomes:
            return made(gain_of(self.outcomes, schema.rows))
        arrays = independent and champion.predictions is not None and self.predictions is not None
        if arrays and of_accuracy and schema.label_kind == "binary":
            differing = int(np.count_nonzero(self.predictions != champion.predictions))
            return made(SignTest(rows=schema.rows, training=schema.rows, differing=differing))
        if opened is not None and champion.training is not None and self.training is not None:
            gains = paired(self.training, champion.training, rises=rises, unit=unit)
            if independent:
                return made(Betting(rows=mechanism.rows, training=cells_of(gains, unit=unit)))
            if group_by is not None:
                _, known = opened.summary("groups", gains, group_by=group_by, unit=unit)
                bets = betting_on(in_order=dependence.assumes_no_law)
                return made(bets(sizes=dependence.unit_counts, training=known))
        if arrays and (schema.label_kind == "binary" or of_accuracy):
            public = Candidate.prepared(metric, champion.predictions, None, compiler)
            extreme: list[Any] = [np.zeros(schema.rows), np.ones(schema.rows)]  # labels with the extreme gains
            if schema.label_kind != "binary":
                extreme = [public.predictions, self.predictions]
            gains = np.concatenate([
                paired(self._with_labels(labels, unit), public._with_labels(labels, unit), rises=rises, unit=unit)
                for labels in extreme
            ])  # fmt: skip
            return made(Betting(rows=mechanism.rows, training=cells_of(gains, unit=unit)))
        rows = mechanism.effective_rows(schema.rows)
        return made((Chernoff if independent else Hoeffding)(rows=rows, training=rows))

    def _with_labels(self, labels: NDArray[Any], unit: int) -> NDArray[np.int64]:
        """Return the candidate's row values, in grid units, for given labels of the sealed rows."""
        assert self.bound.sealed is not None
        assert self.bound.reads is not None
        (label,) = self.bound.reads
        return clip_to_grid(np.asarray(self.bound.sealed({label: labels})), unit=unit, fault=self.bound.at_fault)


def checked_margin(margin: Any, metric: Mapping[str, Any]) -> float:
    """Return the margin of a gate in units of row values, after checking that a gain in its metric can exceed it.

    Raises:
        QueryRejected: If no gain can reach the margin, or the margin is negative. Nothing is charged.
    """
    value, width = as_float(margin), gain_width(metric)
    if not 0.0 <= value < width:
        raise QueryRejected(
            f"margin is {brief(margin)}. Pass a number from 0 to below {width:g}, by which a challenger has to be "
            "better."
        )
    return value / width


# Candidates of gates that compare by a metric of all rows: outputs are kept for each row, and labels are read anew.
#
# The gain is that of the query that compares two models (`everhold.difference`), one-sided (docs/theory/gates.md).


@dataclass(frozen=True, slots=True)
class OutputCandidate(Candidate):
    """A candidate for which the gate stores predictions, because its metric is not a mean of row values."""

    reader: ModelsReader

    @classmethod
    def of(cls, query: MetricQuery, metric: GateMetric, compiler: QueryCompiler) -> OutputCandidate:
        """Bind a candidate to the rows of a holdout.

        Raises:
            QueryRejected: If the candidate cannot be compared, or its metric differs from the gate's. Nothing is
                charged.
        """
        if query.where is not None or query.weight is not None or len(query.models) > 1:
            raise QueryRejected(
                "The score has where= or weight= or more than one model, and a gate "
                "compares one model on all rows. Leave these out."
            )
        reader = query.reader(compiler)
        scored, measure = query.metric, measure_of(query.metric)
        proved = measure.compares or (isinstance(measure, PartsMeasure) and measure.of_classes is not None)
        proved = proved and scored.gain == "independent" and compiler.mechanism.dependence.independent
        if not proved and scored.gain != "any":
            unpromised = scored.gain == "none"
            rows = "" if unpromised else " of rows that depend on each other"
            nearest = next(name for name, each in METRICS.own.items() if each.outcomes and each.gain == "any")
            raise QueryRejected(
                f"A gain in {scored.name}{rows} has no guarantee. The nearest metric that gates support is "
                f"{scored.nearest if unpromised else nearest}."
            )
        (model,) = reader.models
        seen = model.bound
        zero, one = query.metric.ends(reader.setting)
        width = {} if abs(one - zero) == 1.0 else {GAIN_WIDTH: abs(one - zero)}
        own = compiler.schema.without_arrival(seen.description)
        bound = BoundQuery(
            {"kind": SCORE, "name": query.metric.name, **reader.numbers, **width, **own},
            f"{query.metric.title or query.metric.name} of {seen.shown}", zero, one, reads=seen.reads,
            by_position=seen.by_position, unbounded=query.metric.unbounded,
        )  # fmt: skip
        check_estimand([bound], compiler.schema, compiler.mechanism)
        described, opened = metric.described(bound), None
        if compiler.training is not None and seen.training is not None:
            opened = model.read(compiler.training, sealed=False)
        return cls(bound, described, seen.predictions, opened, reader)

    @property
    def rises(self) -> bool:
        """Whether a higher number on the scale [0, 1] is a better score."""
        return (self.bound.at_one > self.bound.at_zero) is self.reader.query.metric.greater

    def as_champion(self, rows: StoredRows, *, unit: int) -> Champion:
        """Return the champion that the candidate becomes if it is promoted, with its predictions for the sealed rows.

        The predictions have the shape (rows,) or (rows, classes), and are secret.
        """
        return Champion(
            self.bound.query, self.reader.models[0].read(rows, sealed=True), self.training, self.predictions
        )

    def against(self, champion: Champion, metric: GateMetric, compiler: QueryCompiler) -> Gain:
        """Return how the gain is computed and bounded, planned from training rows or public predictions."""
        mechanism, schema, reader = compiler.mechanism, compiler.schema, self.reader
        measure, setting, largest = measure_of(reader.query.metric), reader.setting, largest_group(mechanism)
        if isinstance(measure, PartsMeasure) and measure.of_classes is not None:
            return ClassScoreGain(measure.of_classes(schema.rows), reader, mechanism)
        if measure.by_rank:
            known = self.bound.by_position or champion.by_position or schema.features_public
            title = f"a gain in {reader.query.metric.title or reader.query.metric.name}"
            setting = replace(setting, dealt=dealt_by(title, schema, mechanism.dependence.group_column, known=known))
        told = None
        if champion.predictions is not None and self.predictions is not None:
            public = Candidate.prepared(metric, champion.predictions, None, compiler)
            assert isinstance(public, OutputCandidate)
            told = self._ordered(reader.models[0].public(), public.reader.models[0].public())
        reach = 1.0 if told is None else measure.reach(*told, setting)
        kept, opened = self._ordered(self.training, champion.training), None
        if kept is not None and compiler.training is not None:
            opened = [reader.judged(outputs, compiler.training) for outputs in kept]
        if opened is None and told is not None and measure.needs_rows:
            made = likely_labels(reader.query.metric, *told, reader.labels)
            opened = [Judged(outputs, made) for outputs in told]
        planned, rows = None, schema.rows
        if opened is not None and (measure.needs_rows or measure.is_known(opened[0], None)):
            group = largest_group(mechanism, opened[0])
            first, second = opened
            planned, rows = measure.see_difference(first, second, setting, group, reach=reach), len(first.labels)
        elif isinstance(measure, PartsMeasure):
            planned = measure.see_difference(*2 * (measure.no_rows(setting),), setting, largest)
        sized = Sized(schema.rows, schema.rows, rows, largest)
        procedure = measure.procedure(planned, setting, sized, reach=reach)
        return ScoreGain(procedure, reader, mechanism, setting, self.rises, reach)

    def _ordered(self, own: NDArray[Any] | None, champion: NDArray[Any] | None) -> tuple[Any, Any] | None:
        """Return the outputs of both models, first the model that needs the higher score. None if an output is unknown.

        The challenger needs the higher score if higher scores are better. Otherwise the champion needs it.
        """
        if own is None or champion is None:
            return None
        return (own, champion) if self.rises else (champion, own)


@dataclass(frozen=True)
class ScoreGain(Gain):
    """The gain in a score of all rows, computed like the query that compares two models.

    Attributes:
        reader: Reader of the labels and predictions.
        mechanism: The mechanism that answers.
        setting: The numbers that define the metric in this holdout.
        rises: True if a higher number on the scale [0, 1] is a better score.
        reach: The most that one row can move the gain, as a share of the range; public.
    """

    reader: ModelsReader
    mechanism: Mechanism
    setting: Setting
    rises: bool
    reach: float

    def evaluate(self, sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        """Return the gain on the sealed rows, from the stored predictions of challenger and champion."""
        measure, pair = measure_of(self.reader.query.metric), [challenger, champion]
        first, second = (
            self.reader.judged(np.asarray(outputs), sealed, dealt=True) for outputs in pair[:: 1 if self.rises else -1]
        )
        largest = largest_group(self.mechanism)
        seen = measure.see_difference(first, second, self.setting, largest, reach=self.reach)
        return Gained.of(float(seen.score), seen, self.mechanism)


@dataclass(frozen=True)
class ClassScoreGain(Gain):
    """The gain in a score that averages over classes, for independent rows."""

    reader: ModelsReader
    mechanism: Mechanism

    def evaluate(self, sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        """Return the gain on the sealed rows, from the stored predictions of challenger and champion."""
        procedure = self.procedure
        assert isinstance(procedure, ClassGains)
        own, other = (self.reader.judged(outputs, sealed) for outputs in (challenger, champion))
        seen = SeenClasses.of(own.labels, own.outputs, other.outputs, self.reader.setting.classes)
        return Gained.of((1.0 + procedure.gain(seen)) / 2.0, seen, self.mechanism)
