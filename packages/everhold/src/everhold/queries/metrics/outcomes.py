"""Outcomes of predicted labels as one row value, by which two models are compared (docs/theory/gates.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.metrics.rates import BinaryLabelQuery
from everhold.queries.metrics.score_query import ScoreQuery
from everhold.queries.metrics.scored_rows import ScoredRows
from everhold.queries.query import QuerySpec
from everhold.values.base import BoundQuery, RowFunction, Schema
from everhold.values.expressions import Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TRUE_NEGATIVE, _PREDICTED, _ACTUAL = 0.25, 0.25, 0.5  # code / 4; a positive prediction or label adds its part


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeQuery(BinaryLabelQuery):
    """The outcome of each row, as ``code / 4`` in the order of `outcome_gain.OUTCOMES`.

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

    def by_name(self) -> ScoreQuery:
        """The same score of other labels, or of rows that depend on each other."""
        from everhold.queries.metrics.registry import METRICS

        kind = METRICS[self.score]
        return ScoreQuery(kind, ScoredRows(kind.outputs, self.predictions, self.training), {})

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
