"""Candidates of gates that compare scores which are no means: outputs are kept for each row, and labels are read anew.

The gain is that of the query that compares two models (`everhold.difference`), one-sided (docs/theory/gates.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.estimand import check_estimand
from everhold.gates.candidates import Candidate, check_metric
from everhold.gates.gains import Gain, Gained
from everhold.gates.metrics import SCORE
from everhold.guarantees.intervals.pairs.gains import SeenClasses
from everhold.queries.means.units import GAIN_WIDTH
from everhold.queries.metrics.made_up_scores import likely_labels
from everhold.queries.metrics.measures import Parts
from everhold.queries.metrics.score_parts import Judged, Sized
from everhold.queries.metrics.score_query import ScoreQuery, ScoreReader, largest_group, open_labels
from everhold.values.base import BoundQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.gates.metrics import GateMetric
    from everhold.gates.stores import Champion
    from everhold.guarantees.intervals.pairs.gains import ClassGains
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows


@dataclass(frozen=True, slots=True)
class ScoreCandidate(Candidate):
    """A candidate that is compared by a score of predictions."""

    reader: ScoreReader

    @classmethod
    def of(cls, query: ScoreQuery, metric: GateMetric, compiler: QueryCompiler) -> ScoreCandidate:
        """A candidate for the rows of one holdout.

        Raises:
            QueryRejected: If it cannot be compared, or the metric is another one. Nothing is charged.
        """
        if query.where is not None:
            raise QueryRejected(
                "a gate compares all rows, and this score is that of some; expected it without where=..."
            )
        reader = query.reader(compiler)
        _check_compared(reader, compiler)
        about, (zero, one) = dict(compiler.schema.about), query.kind.ends(reader.setting)
        width = {} if abs(one - zero) == 1.0 else {GAIN_WIDTH: abs(one - zero)}
        described = {name: value for name, value in reader.seen.described.items() if name not in about}
        bound = BoundQuery(
            {"kind": SCORE, "name": query.kind.name, **reader.numbers, **width, **described},
            f"{query.kind.name} of {reader.whose(query)}", zero, one, reads=reader.seen.names,
            by_position=reader.seen.bound.by_position, unbounded=query.kind.unbounded,
        )  # fmt: skip
        check_estimand([bound], compiler.schema, compiler.mechanism)
        check_metric(bound, metric)
        opened = reader.seen.open(compiler.training)
        given = compiler.placed(query.rows).given(compiler.schema)
        return cls(bound, given, None if opened is None else opened[0], reader)

    @property
    def rises(self) -> bool:
        """True if a higher number on the scale [0, 1] is a better score."""
        return (self.bound.at_one > self.bound.at_zero) is self.reader.kind.greater

    def sealed_values(self, rows: StoredRows, *, unit: int) -> NDArray[Any]:
        """See `Candidate.sealed_values`: what it predicts, shape (rows,) or (rows, classes)."""
        return self.reader.seen.sealed(rows)[0]

    def against(self, champion: Champion, public: Candidate | None, compiler: QueryCompiler) -> Gain:
        """See `Candidate.against`."""
        measure = self.reader.kind.measure
        assert isinstance(measure, Parts)
        if measure.of_classes is not None:
            return _gain_of_classes(measure.of_classes(compiler.schema.rows), self.reader, compiler)
        told = None if public is None else self._both(self._public_outputs, public._public_outputs)  # type: ignore[attr-defined]
        return _gain_of_parts(self, self._opened(champion, compiler), told, compiler)

    @property
    def _public_outputs(self) -> NDArray[np.float64] | None:
        return self.reader.seen.public()

    def _both(self, own: NDArray[Any] | None, champion: NDArray[Any] | None) -> tuple[Any, Any] | None:
        """Outputs of the better side first, where both are known."""
        if own is None or champion is None:
            return None
        return (own, champion) if self.rises else (champion, own)

    def _opened(self, champion: Champion, compiler: QueryCompiler) -> tuple[Judged, Judged] | None:
        """The training rows as both predict them; None where unknown."""
        both = self._both(self.training, champion.training)
        if both is None or compiler.training is None:
            return None
        first, second = (self.reader.judged(outputs, compiler.training) for outputs in both)
        return first, second


def _check_compared(reader: ScoreReader, compiler: QueryCompiler) -> None:
    """Refuse scores, and rows, for which no gain is promised."""
    kind, independent = reader.kind, compiler.mechanism.dependence.binomial_tails
    by_class = kind.gain == "independent" and isinstance(kind.measure, Parts) and kind.measure.of_classes is not None
    if kind.gain == "any" or (by_class and independent):
        return
    unpromised = kind.gain == "none"
    rows = "" if unpromised else " of rows that depend on each other"
    raise QueryRejected(
        f"no gain in {kind.name}{rows} is promised; the nearest metric of a gate is "
        f"{kind.nearest if unpromised else 'balanced_accuracy'}"
    )


def _gain_of_parts(
    challenger: ScoreCandidate, opened: tuple[Judged, Judged] | None, told: tuple[Any, Any] | None,
    compiler: QueryCompiler,
) -> Gain:  # fmt: skip
    """The gain in a score that follows from parts, as far as public rows or public predictions show it.

    Args:
        challenger: The challenger.
        opened: Training rows as both predict them, the better side first; None where they are not known.
        told: Predictions for the sealed rows, where both are arrays.
        compiler: Knows the rows.
    """
    reader, mechanism, schema = challenger.reader, compiler.mechanism, compiler.schema
    kind, largest, rises = reader.kind.measure, largest_group(mechanism), challenger.rises
    assert isinstance(kind, Parts)
    reach = 1.0 if told is None else kind.reach(*told, reader.setting)
    if opened is None and told is not None:
        labels = open_labels(compiler)
        made = likely_labels(kind, *told, None if labels is None else reader.coded(labels))
        opened = Judged(told[0], made), Judged(told[1], made)
    if opened is None:
        planned, rows = kind.see_difference(*2 * (kind.no_rows(reader.setting),), reader.setting, largest), schema.rows
    else:
        planned = kind.see_difference(*opened, reader.setting, largest_group(mechanism, opened[0]), reach=reach)
        rows = len(opened[0].labels)
    procedure = kind.procedure(planned, reader.setting, Sized(schema.rows, schema.rows, rows, largest), reach=reach)

    def gain(sealed: StoredRows, own: NDArray[Any], champion: NDArray[Any]) -> Gained:
        first, second = (reader.judged(outputs, sealed) for outputs in ((own, champion) if rises else (champion, own)))
        seen = kind.see_difference(first, second, reader.setting, largest, reach=reach)
        return Gained.of(seen.score, seen, mechanism)

    return Gain(procedure, gain)


def _gain_of_classes(procedure: ClassGains, reader: ScoreReader, compiler: QueryCompiler) -> Gain:
    """The gain in an average over classes, of independent rows."""

    def gain(sealed: StoredRows, challenger: NDArray[Any], champion: NDArray[Any]) -> Gained:
        own, other = (reader.judged(outputs, sealed) for outputs in (challenger, champion))
        seen = SeenClasses.of(own.labels, own.outputs, other.outputs, reader.setting.classes)
        return Gained.of((1.0 + procedure.gain(seen)) / 2.0, seen, compiler.mechanism)

    return Gain(procedure, gain)
