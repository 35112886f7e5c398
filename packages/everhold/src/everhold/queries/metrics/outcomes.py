"""Outcomes of predicted labels as one row value, by which two models are compared (docs/theory/gates.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import as_float
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.pairs.gains import GainDifference, counts_of_pairs, likely_pairs, outcome_codes
from everhold.queries.means.mean import among, condition, rows_that_meet, share_that_meets
from everhold.queries.metrics.area import share_of_label
from everhold.queries.metrics.rates import BinaryLabelQuery
from everhold.queries.metrics.registry import METRICS
from everhold.queries.procedures import check_confirms_statistics, check_independent
from everhold.queries.query import QueryPlan, QuerySpec, paying
from everhold.queries.statistic import OneNumber
from everhold.values.base import BoundQuery, RowFunction, Schema
from everhold.values.expressions import Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.guarantees.intervals.base import Cells
    from everhold.queries.metrics.query import MetricQuery
    from everhold.queries.query_compiler import QueryCompiler
    from everhold.sealing.rows.table import StoredRows

_TRUE_NEGATIVE, _PREDICTED, _ACTUAL = 0.25, 0.25, 0.5  # code / 4; a positive prediction or label adds its part


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeQuery(BinaryLabelQuery):
    """The outcome of each row, as ``code / 4`` in the order of `everhold.guarantees.intervals.pairs.gains.OUTCOMES`.

    Attributes:
        score: The score that is compared, in the description of the query.
        predictions: As for `everhold.queries.metrics.rates.CountQuery`.
        training: The same.
    """

    score: str
    predictions: Any
    training: Any = None

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        return QuerySpec(self.score, self.predictions, {"training": self.training})

    def as_metric(self) -> MetricQuery:
        """See `Query.as_metric`."""
        from everhold.queries.metrics.query import MetricQuery

        return MetricQuery.of(METRICS[self.score], self.predictions, self.training)

    def bind(self, schema: Schema) -> BoundQuery:
        """See `LabelQuery.bind`."""
        if schema.label_kind != "binary":
            raise QueryRejected(
                f"{self.score} compares models by labels 0 and 1, and this holdout has other ones; expected such a "
                "label column, or accuracy"
            )
        return BinaryLabelQuery.bind(self, schema)

    @property
    def _identity(self) -> dict[str, str]:
        return {"kind": self.score}

    @property
    def _title(self) -> str:
        return self.score

    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue:
        """See `LabelQuery.in_engine`."""
        zero = Node.literal(0.0)
        parts = [
            Node.of(Operation.CASE, Node.of(Operation.EQUAL, node, Node.literal(1.0)), Node.literal(part), zero)
            for node, part in ((prediction, _PREDICTED), (label, _ACTUAL))
        ]
        code = Node.of(Operation.ADD, Node.of(Operation.ADD, *parts), Node.literal(_TRUE_NEGATIVE))
        return RowValue(Expression(code))

    def _against(self, predictions: NDArray[Any], label: str) -> RowFunction:
        predicted = _TRUE_NEGATIVE + _PREDICTED * (predictions == 1)
        return lambda table: np.asarray(predicted + _ACTUAL * (table[label] == 1))


def difference_of_outcomes(
    query: MetricQuery, compiler: QueryCompiler, *, guess: float | None, tolerance: float | None
) -> QueryPlan[Answer]:
    """The difference of two models in a rate or an average of rates, by the pairs of outcomes of independent rows.

    Raises:
        QueryRejected: If nothing is promised. Nothing is charged.
    """
    mechanism, schema, where, score = compiler.mechanism, compiler.schema, query.where, query.metric.name
    name, instead = f"a difference in {score}", "a difference in accuracy"
    check_confirms_statistics(mechanism, name, instead=instead)
    check_independent(mechanism, name, instead=instead)
    if tolerance is not None:
        paying(mechanism)
    placed = [compiler.placed(OutcomeQuery(score, model.predictions, model.training)) for model in query.models]
    both = [compiler.bind(each) for each in placed]
    inside = None if where is None else condition(where, schema)
    training = [_open_codes(compiler, found, inside) for found in both]
    counting = schema.rows * share_that_meets(compiler.training, inside)
    known, procedure = None, GainDifference(score, max(round(counting), 1), _planned(placed, compiler))
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
    bound = among(bound, inside, where, schema)
    if training[0] is not None and training[1] is not None and bound.by_position:
        bound = replace(bound, training_values=np.concatenate([training[0], training[1]]))
    own = None if guess is None else bound.to_mean(as_float(guess))
    prepared = compiler.planner.of_statistic(bound, guess, known if own is None else None, procedure)

    def sealed(rows: StoredRows) -> tuple[Fraction, Cells]:
        codes = [_codes(rows, found, inside, unit=mechanism.unit) for found in both]
        seen = procedure.cells(codes[0], codes[1])
        return Fraction(1 + procedure.gain(seen)) / 2, seen

    return OneNumber([prepared], schema, mechanism, sealed)


def _planned(both: Sequence[OutcomeQuery], compiler: QueryCompiler) -> tuple[float, ...] | None:
    """The likely outcomes of predictions that are public; None of others."""
    first, second = (query.given(compiler.schema) for query in both)
    if first is None or second is None:
        return None
    return likely_pairs(first == 1, second == 1, None if compiler.training is None else share_of_label(compiler))


def _open_codes(compiler: QueryCompiler, bound: BoundQuery, inside: BoundQuery | None) -> NDArray[np.int64] | None:
    """Codes of the outcomes of the training rows that count; None where they are unknown, or none counts."""
    if compiler.training is None or not bound.trained:
        return None
    found = _codes(compiler.training, bound, inside, unit=compiler.mechanism.unit)
    return found if len(found) else None


def _codes(rows: StoredRows, bound: BoundQuery, inside: BoundQuery | None, *, unit: int) -> NDArray[np.int64]:
    """Codes of the outcomes of the rows that count. No bet is made on others."""
    codes = outcome_codes(rows.row_values(bound, unit=unit), unit)
    return codes if inside is None else codes[rows_that_meet(rows, inside)]
