"""Candidates of gates that compare by a metric of all rows: outputs are kept for each row, and labels are read anew.

The gain is that of the query that compares two models (`everhold.difference`), one-sided (docs/theory/gates.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.gates.candidates import Candidate, check_metric
from everhold.gates.gains import Gain, Gained
from everhold.gates.metrics import SCORE
from everhold.guarantees.intervals.pairs.gains import SeenClasses
from everhold.queries.metrics.made_up_scores import likely_labels
from everhold.queries.metrics.measures import PartsMeasure
from everhold.queries.metrics.query import MetricQuery, ModelsReader, largest_group, open_labels
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.score_parts import Judged, Sized
from everhold.values.base import BoundQuery
from everhold.values.units import GAIN_WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.gates.metrics import GateMetric
    from everhold.gates.stores import Champion
    from everhold.guarantees.intervals.pairs.gains import ClassGains
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows


@dataclass(frozen=True, slots=True)
class OutputCandidate(Candidate):
    """A candidate of which the outputs are kept."""

    reader: ModelsReader

    @classmethod
    def of(cls, query: MetricQuery, metric: GateMetric, compiler: QueryCompiler) -> OutputCandidate:
        """A candidate for the rows of one holdout.

        Raises:
            QueryRejected: If it cannot be compared, or the metric is another one. Nothing is charged.
        """
        if query.where is not None or len(query.models) > 1:
            raise QueryRejected(
                "a gate compares all rows, and this score is that of some; expected it without where=..."
            )
        reader = query.reader(compiler)
        _check_compared(reader, compiler)
        (seen,), about = reader.models, dict(compiler.schema.about)
        zero, one = query.metric.ends(reader.setting)
        width = {} if abs(one - zero) == 1.0 else {GAIN_WIDTH: abs(one - zero)}
        described = {name: value for name, value in seen.described.items() if name not in about}
        bound = BoundQuery(
            {"kind": SCORE, "name": query.metric.name, **reader.numbers, **width, **described},
            f"{query.metric.title or query.metric.name} of {reader.whose[0]}", zero, one, reads=seen.names,
            by_position=seen.bound.by_position, unbounded=query.metric.unbounded,
        )  # fmt: skip
        check_estimand([bound], compiler.schema, compiler.mechanism)
        check_metric(bound, metric)
        opened = seen.open(compiler.training)
        given = compiler.placed(query.models[0]).given(compiler.schema)
        return cls(bound, given, None if opened is None else opened[0], reader)

    @property
    def rises(self) -> bool:
        """True if a higher number on the scale [0, 1] is a better score."""
        return (self.bound.at_one > self.bound.at_zero) is self.reader.metric.greater

    def sealed_values(self, rows: StoredRows, *, unit: int) -> NDArray[Any]:
        """See `Candidate.sealed_values`: what it predicts, shape (rows,) or (rows, classes)."""
        return self.reader.models[0].sealed(rows)[0]

    def against(self, champion: Champion, public: Candidate | None, compiler: QueryCompiler) -> Gain:
        """See `Candidate.against`."""
        measure = self.reader.metric.measure
        if isinstance(measure, PartsMeasure) and measure.of_classes is not None:
            return _gain_of_classes(measure.of_classes(compiler.schema.rows), self.reader, compiler)
        own, other = self.reader.models[0].public(), None
        if isinstance(public, OutputCandidate):
            other = public.reader.models[0].public()
        return self._gain_of_all(champion, self._ordered(own, other), compiler)

    def _ordered(self, own: NDArray[Any] | None, champion: NDArray[Any] | None) -> tuple[Any, Any] | None:
        """Outputs of the better side first, where both are known."""
        if own is None or champion is None:
            return None
        return (own, champion) if self.rises else (champion, own)

    def _gain_of_all(self, champion: Champion, told: tuple[Any, Any] | None, compiler: QueryCompiler) -> Gain:
        """The gain, as far as public rows or public predictions show it.

        Args:
            champion: The champion.
            told: Predictions for the sealed rows, where both are arrays, the better side first.
            compiler: Knows the rows.
        """
        mechanism, schema, reader = compiler.mechanism, compiler.schema, self.reader
        measure, setting, largest = reader.metric.measure, reader.setting, largest_group(mechanism)
        if measure.by_rank:
            from everhold.queries.metrics.label_query import check_split

            known = self.by_position or champion.by_position or schema.features_public
            check_split(f"a gain in {reader.metric.title or reader.metric.name}", schema, by_rank=known)
            setting = replace(setting, ranked=known)
        reach = 1.0 if told is None else measure.reach(*told, setting)
        kept, opened = self._ordered(self.training, champion.training), None
        if kept is not None and compiler.training is not None:
            opened = [reader.judged(outputs, compiler.training) for outputs in kept]
        if opened is None and told is not None and measure.needs_rows:
            labels = open_labels(compiler)
            made = likely_labels(measure, *told, None if labels is None else reader.coded(labels))
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
            return Gained.of(measure.value(seen), seen, mechanism)

        return Gain(procedure, gain)


def _check_compared(reader: ModelsReader, compiler: QueryCompiler) -> None:
    """Refuse metrics, and rows, for which no gain is promised."""
    metric, independent = reader.metric, compiler.mechanism.dependence.independent
    by_class = isinstance(metric.measure, PartsMeasure) and metric.measure.of_classes is not None
    if metric.gain == "any" or (metric.gain == "independent" and independent and (by_class or metric.measure.compares)):
        return
    unpromised = metric.gain == "none"
    rows = "" if unpromised else " of rows that depend on each other"
    raise QueryRejected(
        f"no gain in {metric.name}{rows} is promised; the nearest metric of a gate is "
        f"{metric.nearest if unpromised else _of_any_rows()}"
    )


def _of_any_rows() -> str:
    return next(name for name, metric in METRICS.own.items() if metric.outcomes and metric.gain == "any")


def _gain_of_classes(procedure: ClassGains, reader: ModelsReader, compiler: QueryCompiler) -> Gain:
    """The gain in an average over classes, of independent rows."""

    def gain(sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        own, other = (reader.judged(outputs, sealed) for outputs in (challenger, champion))
        seen = SeenClasses.of(own.labels, own.outputs, other.outputs, reader.setting.classes)
        return Gained.of((1.0 + procedure.gain(seen)) / 2.0, seen, compiler.mechanism)

    return Gain(procedure, gain)
