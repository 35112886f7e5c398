"""Champions and challengers of gates about rows, and the procedure of their gains, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float, brief
from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.gates.records import Champion
from everhold.guarantees.intervals.betting import Betting
from everhold.guarantees.intervals.gains import OutcomeGain, SeenClasses, gain_of
from everhold.guarantees.intervals.in_order import betting_on
from everhold.guarantees.intervals.means import Chernoff, Hoeffding, SignTest
from everhold.queries.metrics import scores
from everhold.queries.metrics.label_query import LabelQuery
from everhold.queries.metrics.measures import PartsMeasure, likely_labels, measure_of
from everhold.queries.metrics.query import MetricQuery, ModelsReader, dealt_by, largest_group
from everhold.queries.metrics.registry import METRICS, REFUSED
from everhold.queries.metrics.row_scores import OutcomeQuery, risk
from everhold.queries.metrics.score_parts import Judged, Sized
from everhold.queries.query import Query
from everhold.sealing.rows.sums import cells_of
from everhold.values.base import BoundQuery
from everhold.values.evaluation import clip_to_grid
from everhold.values.units import GAIN_WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure
    from everhold.guarantees.intervals.gains import ClassGains
    from everhold.mechanisms import Mechanism
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import Schema


_OF_CANDIDATES = ("predictions", "estimator", "rule", "on_public_rows")
"""Fields of a query's description that are the candidate's; all others are the metric's."""

SCORE = "score"


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


def named_metric(name: str) -> Callable[..., Any] | None:
    """Return the function that makes queries with a named metric, or None if gates do not support it."""
    if name == "risk":
        return risk
    metric = METRICS.get(name)
    if metric is None or metric.gain == "none":
        return None
    mean = metric.as_mean
    if isinstance(mean, str):
        return partial(scores.metric, mean)
    return partial(scores.metric, name) if mean is None else partial(risk, **mean)


@dataclass(frozen=True, slots=True)
class GateMetric:
    """Metric of a gate.

    Attributes:
        make: Function from a candidate, and its predictions for the training rows or None, to the query about the
            candidate.
        make_of_classes: The same as ``make``, for labels other than 0 and 1 whose metric is another query; None if
            there is no other query.
        description: Public description of the metric in canonical form, before a candidate adds to it.
    """

    make: Callable[[Any, Any], Any]
    description: Mapping[str, Any] | None = None
    make_of_classes: Callable[[Any, Any], Any] | None = None

    def query(self, predictions: Any, training: Any, compiler: QueryCompiler) -> LabelQuery | MetricQuery:
        """Build the query about a candidate as gates compare it: for some metrics, by the outcome of each row."""
        binary = compiler.schema.label_kind == "binary"
        query = (self.make if binary or self.make_of_classes is None else self.make_of_classes)(predictions, training)
        if not isinstance(query, LabelQuery | MetricQuery):
            raise no_metric(query)
        if isinstance(query, LabelQuery):
            return query
        mechanism = compiler.mechanism
        independent = mechanism.dependence.independent and mechanism.unit >= _FINE_GRID
        two_classes = binary or query.positive is not None
        if query.metric.outcomes and query.where is None and independent and two_classes:
            (model,) = query.models
            return OutcomeQuery.codes(query.metric.name, model.predictions, model.training, query.positive)
        return query


def metric_of(metric: Any, known: Mapping[str, Any] | None = None) -> GateMetric:
    """Return the gate's metric from the name or the function that an analyst passes.

    Args:
        metric: One of `METRICS.of_gates`, ``"risk"``, one of the functions `accuracy`, `error` and `brier`, or a
            function from a candidate to such a query or to a `metric`. None for the metric of an existing gate.
        known: The description of the gate's metric if the gate exists.
    """
    if metric is None and known is not None:
        metric = _maker_of(known)
    metric = scores.as_metric(metric)
    make = named_metric(metric) if isinstance(metric, str) else metric
    if make is None or isinstance(make, Query) or not callable(make):
        raise no_metric(metric)
    known_metric = METRICS.get(metric) if isinstance(metric, str) else None
    several = None
    if known_metric is not None and isinstance(known_metric.as_mean, Mapping):  # a loss of labels 0 and 1 alone
        several = _made(partial(scores.metric, known_metric.name))
    return GateMetric(_made(make), known, several)


def _made(make: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return a metric function whose errors are raised as QueryRejected."""

    def made(predictions: Any, training: Any) -> Any:
        try:
            return make(predictions) if training is None else make(predictions, training=training)
        except QueryRejected:
            raise
        except ValueError as reason:
            raise QueryRejected(f"{reason}") from None
        except Exception as fault:  # the function is the analyst's own
            raise no_metric(f"a function that fails with {type(fault).__name__}: {fault}") from fault

    return made


def _maker_of(description: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function that makes queries with the metric of a description.

    Raises:
        QueryRejected: If the metric is a function of the analyst's own, which no description can hold.
    """
    if description.get("kind") == SCORE:
        name = str(description["name"])
        settings = METRICS[name].settings
        return partial(
            scores.metric, name, pos_label=description.get("positive"),
            **{each: description[each] for each in settings if each in description},
        )  # fmt: skip
    if description.get("kind") != "risk":
        return partial(scores.metric, str(description["kind"]), pos_label=description.get("positive"))
    if "loss" not in description:
        raise QueryRejected(
            "The metric of the gate is a loss function of its own, which the ledger does not store. Pass it again "
            "as the first argument, such as lambda model: eh.risk(model, loss, high=5, name='mine')."
        )
    loss, low, high = description["loss"], description["low"], description["high"]
    return lambda predictions, training=None: risk(predictions, loss, low=low, high=high, training=training)


def no_metric(thing: object) -> QueryRejected:
    """Return the error for something that gates cannot compare by."""
    if (reason := why_no_gain(thing)) is not None:
        return QueryRejected(reason)
    return QueryRejected(
        f"The metric of a gate is {brief(thing)}. Pass eh.accuracy, eh.error, eh.brier, a name such as 'roc_auc', or "
        "a function from a candidate to a query, such as lambda model: eh.risk(model, 'log', high=5)."
    )


def metric_description(bound: BoundQuery) -> dict[str, Any]:
    """Return the part of a query's description that is about the metric, not the candidate."""
    return {name: value for name, value in bound.description.items() if name not in _OF_CANDIDATES}


def metric_in_words(description: Mapping[str, Any]) -> str:
    """Describe a metric in words.

    Examples:
        >>> metric_in_words({"kind": "accuracy", "label": "late"})
        'accuracy'
        >>> metric_in_words({"kind": "risk", "loss": "log", "low": 0.0, "high": 5.0, "label": "late"})
        'log loss, from 0 to 5 for a row'
        >>> metric_in_words({"kind": "score", "name": "roc_auc", "label": "late"})
        'roc_auc'
    """
    kind = description.get("kind")
    if kind == "brier":
        return "Brier score"
    if kind == SCORE:
        return str(description["name"])
    if kind != "risk":
        return str(kind)
    function = description.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    loss = f"{description['loss']} loss" if "loss" in description else f"loss {brief(name)}" if name else "loss"
    return f"{loss}, from {description['low']:g} to {description['high']:g} for a row"


# The gain of a challenger over a champion, row by row: what is looked at, and the procedure of its lower limit.


@dataclass(frozen=True, slots=True)
class Gained:
    """Gain on the sealed rows, on the scale ``(1 + gain) / 2``. Secret.

    Attributes:
        total: The sum of paired row values in grid units.
        seen: Input of the interval procedure; None if the procedure needs the total alone.
        mean: The number itself, where the total does not tell it.
    """

    total: int = field(repr=False)
    seen: Any = field(repr=False)
    mean: float | None = field(default=None, repr=False)

    @classmethod
    def of(cls, mean: float, seen: Any, mechanism: Mechanism) -> Gained:
        """Build a gain from its value as a share of the scale, computed from all rows together."""
        at = min(max(mean, 0.0), 1.0)
        return cls(math.floor(at * mechanism.steps), seen, at)


@dataclass(frozen=True, slots=True)
class Gain:
    """How a gain is computed and bounded, decided by public facts before the evaluation.

    Attributes:
        procedure: Procedure of an interval whose lower end holds on one side, at half of the level of both sides.
        evaluate: Function from the sealed rows, and the stored values of challenger and champion, to the gain on these
            rows.
    """

    procedure: Procedure
    evaluate: Callable[[StoredRows, NDArray[Any], NDArray[Any]], Gained]


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
        predictions: Predictions for the sealed rows, shape (rows,), if they are an array; else None.
        training: Row value or prediction for each training row; None if unknown.
    """

    bound: BoundQuery
    predictions: NDArray[Any] | None = field(repr=False)
    training: NDArray[Any] | None = field(repr=False)

    @classmethod
    def prepared(cls, metric: GateMetric, predictions: Any, training: Any, compiler: QueryCompiler) -> Candidate:
        """Bind a candidate to the rows of a holdout. An estimator is tried on public rows.

        Raises:
            QueryRejected: If the candidate cannot be compared, or its metric differs from the gate's. Nothing is
                charged.
        """
        query = metric.query(predictions, training, compiler)
        if isinstance(query, MetricQuery):
            return OutputCandidate.of(query, metric, compiler)
        query = query.placed(compiler)
        bound = of_any_rows(compiler.bind(query), compiler.schema)
        check_metric(bound, metric)
        values = bound.training_values
        if values is None and bound.trained and compiler.training is not None:
            values = compiler.training.row_values(bound, unit=compiler.mechanism.unit)
        return cls(bound, query.given(compiler.schema), values)

    @property
    def metric(self) -> dict[str, Any]:
        """The metric's part of the candidate's description."""
        return metric_description(self.bound)

    @property
    def width(self) -> float:
        """Width of a row value of 1 in the metric's units."""
        return abs(self.bound.at_one - self.bound.at_zero)

    @property
    def rises(self) -> bool:
        """Whether higher row values are better. A row on which the candidate fails gets the worst value."""
        return self.bound.at_fault == 0.0

    def with_labels(self, labels: NDArray[Any], *, unit: int) -> NDArray[np.int64]:
        """Return row values in grid units as if the labels were the given ones. It reads no sealed label."""
        assert self.bound.sealed is not None
        assert self.bound.reads is not None
        (label,) = self.bound.reads
        return clip_to_grid(np.asarray(self.bound.sealed({label: labels})), unit=unit, fault=self.bound.at_fault)

    def sealed_values(self, rows: StoredRows, *, unit: int) -> NDArray[Any]:
        """Return the candidate's row values for the gate's file, one for each sealed row. Secret."""
        return rows.row_values(self.bound, unit=unit)

    def against(self, champion: Champion, public: Candidate | None, compiler: QueryCompiler) -> Gain:
        """Return how the gain over a champion is computed and bounded, decided by public facts.

        Args:
            champion: The gate's present champion, to which the candidate is compared.
            public: The champion as a candidate, if both are arrays of predictions; else None.
            compiler: Compiler of the holdout, which has the training rows.
        """
        procedure, mechanism = procedure_for_gain(self, champion, public, compiler), compiler.mechanism
        rises, unit, group_by = self.rises, mechanism.unit, mechanism.dependence.unit_column

        def evaluate(sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
            if isinstance(procedure, OutcomeGain):  # of a score such as F1, which is no mean of paired differences
                both = procedure.paired(challenger, champion, unit=unit)
                total, seen = sealed.summary(procedure.needs, both, group_by=group_by, unit=unit)
                return Gained(total, seen, (1.0 + procedure.gain(seen)) / 2.0)
            both = paired(challenger, champion, rises=rises, unit=unit)
            return Gained(*sealed.summary(procedure.needs, both, group_by=group_by, unit=unit))

        return Gain(procedure, evaluate)

    def as_champion(self, values: NDArray[Any]) -> Champion:
        """Build the champion that a promoted challenger becomes."""
        return Champion(self.bound.query, values, self.training, self.predictions)


def of_any_rows(bound: BoundQuery, schema: Schema) -> BoundQuery:
    """Return the query without the arrival in its description, so that it is the same at all arrivals."""
    own = {name: value for name, value in bound.description.items() if name not in dict(schema.about)}
    return replace(bound, description=own) if schema.about else bound


def check_metric(bound: BoundQuery, metric: GateMetric) -> None:
    """Check that a query is about the metric of a gate.

    Raises:
        QueryRejected: If the query is about another metric. Nothing is charged.
    """
    if metric.description is not None and metric_description(bound) != metric.description:
        raise QueryRejected(
            f"The gate compares by {metric_in_words(metric.description)}, and the candidate has another metric. Pass "
            "the metric that the gate was opened with. Give a loss that is a function a name (name=...), so that it "
            "can be recognized."
        )


def procedure_for_gain(
    challenger: Candidate, champion: Champion, public: Candidate | None, compiler: QueryCompiler
) -> Procedure:
    """Return the interval procedure of the mean gain, chosen from public facts.

    Of two public arrays for two classes one is right wherever they differ: the exact sign test. Otherwise both
    candidates' values on the training rows say how far gains spread; where there are none, but both are public arrays,
    these do. If not, nothing is known but that gains lie in [-1, 1].

    Args:
        challenger: The candidate that challenges the champion.
        champion: The champion, of which only public facts are used.
        public: The champion as a candidate, where it is an array of predictions; else None.
        compiler: The compiler of the holdout.
    """
    mechanism, schema = compiler.mechanism, compiler.schema
    dependence, unit, rises = mechanism.dependence, mechanism.unit, challenger.rises
    independent, group_by = dependence.independent, dependence.unit_column
    score = METRICS.get(challenger.metric["kind"])
    if score is not None and score.outcomes:
        return gain_of(score.outcomes, schema.rows)
    of_accuracy = challenger.metric["kind"] == "accuracy" and schema.label_kind == "binary"
    if independent and public is not None and of_accuracy and challenger.predictions is not None:
        differing = int(np.count_nonzero(challenger.predictions != public.predictions))
        return SignTest(rows=schema.rows, training=schema.rows, differing=differing)
    if compiler.training is not None and champion.training is not None and challenger.training is not None:
        gains = paired(challenger.training, champion.training, rises=rises, unit=unit)
        if independent:
            return Betting(rows=mechanism.rows, training=cells_of(gains, unit=unit))
        if group_by is not None:
            _, known = compiler.training.summary("groups", gains, group_by=group_by, unit=unit)
            return betting_on(in_order=dependence.assumes_no_law)(sizes=dependence.unit_counts, training=known)
    if independent and public is not None and challenger.predictions is not None:
        possible = _labels_that_matter(challenger, public, schema)
        if possible:
            gains = np.concatenate([
                paired(challenger.with_labels(labels, unit=unit), public.with_labels(labels, unit=unit), rises=rises,
                       unit=unit)
                for labels in possible
            ])  # fmt: skip
            return Betting(rows=mechanism.rows, training=cells_of(gains, unit=unit))
    rows = mechanism.effective_rows(schema.rows)
    return (Chernoff if independent else Hoeffding)(rows=rows, training=rows)


def _labels_that_matter(challenger: Candidate, champion: Candidate, schema: Schema) -> list[NDArray[Any]]:
    """Return labels of all rows that give the extreme gains, or an empty list if the labels are unknown."""
    if schema.label_kind == "binary":
        return [np.zeros(schema.rows), np.ones(schema.rows)]
    if challenger.metric["kind"] != "accuracy":
        return []
    assert challenger.predictions is not None
    assert champion.predictions is not None
    return [champion.predictions, challenger.predictions]


def checked_margin(margin: Any, candidate: Candidate) -> float:
    """Return the margin of a gate in units of row values, after checking that a gain can exceed it.

    Raises:
        QueryRejected: If no gain can reach the margin, or the margin is negative. Nothing is charged.
    """
    value = as_float(margin)
    if not 0.0 <= value < candidate.width:
        raise QueryRejected(
            f"margin is {brief(margin)}. Pass a number from 0 to below "
            f"{candidate.width:g}, by which a challenger has to be better."
        )
    return value / candidate.width


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
        _check_compared(reader, compiler)
        (model,), about = reader.models, dict(compiler.schema.about)
        seen = model.bound
        zero, one = query.metric.ends(reader.setting)
        width = {} if abs(one - zero) == 1.0 else {GAIN_WIDTH: abs(one - zero)}
        described = {name: value for name, value in seen.description.items() if name not in about}
        bound = BoundQuery(
            {"kind": SCORE, "name": query.metric.name, **reader.numbers, **width, **described},
            f"{query.metric.title or query.metric.name} of {seen.shown}", zero, one, reads=seen.reads,
            by_position=seen.by_position, unbounded=query.metric.unbounded,
        )  # fmt: skip
        check_estimand([bound], compiler.schema, compiler.mechanism)
        check_metric(bound, metric)
        opened = None
        if compiler.training is not None and seen.training is not None:
            opened = model.read(compiler.training, sealed=False)
        given = query.models[0].placed(compiler).given(compiler.schema)
        return cls(bound, given, opened, reader)

    @property
    def rises(self) -> bool:
        """Whether a higher number on the scale [0, 1] is a better score."""
        return (self.bound.at_one > self.bound.at_zero) is self.reader.query.metric.greater

    def sealed_values(self, rows: StoredRows, *, unit: int) -> NDArray[Any]:
        """Return the candidate's predictions for sealed rows, shape (rows,) or (rows, classes). Secret."""
        return self.reader.models[0].read(rows, sealed=True)

    def against(self, champion: Champion, public: Candidate | None, compiler: QueryCompiler) -> Gain:
        """Return how the gain over a champion is computed and bounded, decided by public facts."""
        measure = measure_of(self.reader.query.metric)
        if isinstance(measure, PartsMeasure) and measure.of_classes is not None:
            return _gain_of_classes(measure.of_classes(compiler.schema.rows), self.reader, compiler)
        own, other = self.reader.models[0].public(), None
        if isinstance(public, OutputCandidate):
            other = public.reader.models[0].public()
        return self._gain_of_all(champion, self._ordered(own, other), compiler)

    def _ordered(self, own: NDArray[Any] | None, champion: NDArray[Any] | None) -> tuple[Any, Any] | None:
        """Return both outputs, those of the side with the higher score first, or None if one is unknown."""
        if own is None or champion is None:
            return None
        return (own, champion) if self.rises else (champion, own)

    def _gain_of_all(self, champion: Champion, told: tuple[Any, Any] | None, compiler: QueryCompiler) -> Gain:
        """Return the gain in a metric over all rows, planned from training rows or public predictions.

        Args:
            champion: The gate's present champion, to which the candidate is compared.
            told: Predictions for the sealed rows, where both are arrays, the better side first.
            compiler: The compiler of the holdout.
        """
        mechanism, schema, reader = compiler.mechanism, compiler.schema, self.reader
        measure, setting, largest = measure_of(reader.query.metric), reader.setting, largest_group(mechanism)
        if measure.by_rank:
            known = self.bound.by_position or champion.by_position or schema.features_public
            title = f"a gain in {reader.query.metric.title or reader.query.metric.name}"
            setting = replace(setting, dealt=dealt_by(title, schema, mechanism.dependence.group_column, known=known))
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

        def gain(sealed: StoredRows, own: NDArray[Any], other: NDArray[Any]) -> Gained:
            pair = (own, other) if self.rises else (other, own)
            first, second = (reader.judged(np.asarray(outputs), sealed, dealt=True) for outputs in pair)
            seen = measure.see_difference(first, second, setting, largest, reach=reach)
            return Gained.of(float(seen.score), seen, mechanism)

        return Gain(procedure, gain)


def _check_compared(reader: ModelsReader, compiler: QueryCompiler) -> None:
    """Refuse metrics and rows for which no gain is promised."""
    metric, independent = reader.query.metric, compiler.mechanism.dependence.independent
    measure = measure_of(metric)
    by_class = isinstance(measure, PartsMeasure) and measure.of_classes is not None
    if metric.gain == "any" or (metric.gain == "independent" and independent and (by_class or measure.compares)):
        return
    unpromised = metric.gain == "none"
    rows = "" if unpromised else " of rows that depend on each other"
    of_any_rows = next(name for name, each in METRICS.own.items() if each.outcomes and each.gain == "any")
    raise QueryRejected(
        f"A gain in {metric.name}{rows} has no guarantee. The nearest metric that gates support is "
        f"{metric.nearest if unpromised else of_any_rows}."
    )


def _gain_of_classes(procedure: ClassGains, reader: ModelsReader, compiler: QueryCompiler) -> Gain:
    """Return the procedure for the gain in a score that averages over classes, for independent rows."""

    def gain(sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        own, other = (reader.judged(outputs, sealed) for outputs in (challenger, champion))
        seen = SeenClasses.of(own.labels, own.outputs, other.outputs, reader.setting.classes)
        return Gained.of((1.0 + procedure.gain(seen)) / 2.0, seen, compiler.mechanism)

    return Gain(procedure, gain)
