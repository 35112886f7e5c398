"""Outcomes of predicted labels as one row value, by which gates compare precision, recall and F1 (Lemma R)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.metrics import LabelQuery, subject_of
from everhold.queries.predictions import check_classes
from everhold.queries.question import QuerySpec
from everhold.queries.rules import label_node, rule_node
from everhold.queries.texts import in_one_line
from everhold.values.base import BoundQuery, RowFunction, Schema
from everhold.values.expressions import Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OutcomeQuery"]

_TRUE_NEGATIVE, _PREDICTED, _ACTUAL = 0.25, 0.25, 0.5  # code / 4; a positive prediction or label adds its part


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeQuery(LabelQuery):
    """The outcome of each row, as ``code / 4`` in the order of `everhold.guarantees.intervals.ratio_gain.OUTCOMES`.

    Attributes:
        score: The ratio that is compared, in the description of the query.
        predictions: As for `everhold.queries.rates.CountQuery`.
        training: The same.
    """

    score: str
    predictions: Any
    training: Any = None

    def spec(self) -> QuerySpec:
        """See `Question.made`."""
        return QuerySpec(self.score, self.predictions, {"training": self.training})

    def bind(self, schema: Schema) -> BoundQuery:
        """The question about the labels of this schema."""
        if schema.label_kind != "binary":
            raise QueryRejected(
                f"a gate compares {self.score} of labels 0 and 1, and this holdout has none; expected a label column "
                "of 0 and 1; compare by accuracy; nothing was charged"
            )
        if isinstance(self.predictions, str):
            row_value = self.in_engine(rule_node(self.predictions, schema), label_node(schema), schema)
            rule = row_value.expression.canonical()
            return BoundQuery(
                description={"kind": self.score, "label": schema.label, "rule": rule},
                shown=f"{self.score} of the rule {in_one_line(self.predictions)}",
                row_value=row_value,
            )
        description, sealed, training, reads = self._row_values(schema)
        ((kind, digest),) = description.items()
        return BoundQuery(
            description={"kind": self.score, "label": schema.label, **description},
            shown=f"{self.score} of {subject_of(self.predictions, kind, digest)}",
            sealed=sealed,
            training=training,
            reads=reads,
            by_position=self._by_position,
        )

    @property
    def _of_probabilities(self) -> bool:
        return False

    def _check(self, predictions: NDArray[Any], schema: Schema, *, what: str) -> None:
        check_classes(predictions, schema, what=what)

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
