"""Metrics of predictions: accuracy, error and Brier score of arrays, of fitted estimators or of rules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.means.mean import in_one_line
from everhold.queries.metrics.label_query import LabelQuery, subject_of
from everhold.queries.metrics.rules import between, distance_of, rule_is_right, squared_distance
from everhold.queries.predictions.arrays import are_no_class, check_classes, check_known
from everhold.queries.query import QuerySpec
from everhold.values.base import BoundQuery, RowFunction, Schema
from everhold.values.expressions import Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LabelQuery", "PredictionQuery", "accuracy", "brier", "error"]


class RowMetric(Enum):
    """Comparison of a prediction with the label, one row at a time."""

    ACCURACY = "accuracy"
    BRIER = "brier"


@dataclass(frozen=True, slots=True, eq=False)
class PredictionQuery(LabelQuery):
    """The mean of a metric over rows; made by `accuracy`, `error` and `brier`.

    Attributes:
        metric: How a prediction is held against the label.
        predictions: One prediction per sealed row, in the order of the rows, or a fitted estimator.
        training: One prediction per training row, for the guess; by default the estimator's own.
        complement: Whether the answer is 1 minus the mean.
    """

    metric: RowMetric
    predictions: Any
    training: Any = None
    complement: bool = False

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        return QuerySpec(self.score, self.predictions, {"training": self.training})

    @property
    def score(self) -> str:
        """Its name, as `everhold.metric` takes it."""
        of_labels = "error" if self.complement else "accuracy"
        return "brier" if self.metric is RowMetric.BRIER else of_labels

    @property
    def _named(self) -> str:
        """Name of the number: an error is asked as an accuracy, and told as an error."""
        return "error" if self.complement else self.metric.value

    def bind(self, schema: Schema) -> BoundQuery:
        """The query about the labels of this schema."""
        if schema.label is None:
            raise QueryRejected(
                f"{self.metric.value} needs a label column and this holdout has none; expected one named at creation; "
                "create the holdout with label=..."
            )
        if self.metric is RowMetric.BRIER and schema.label_kind != "binary":
            raise QueryRejected(
                f"the Brier score needs labels 0 and 1 and column {schema.label!r} was not sealed as such; ask for "
                "accuracy or error instead"
            )
        if self.metric is RowMetric.ACCURACY:
            check_known(schema)
        ends = (1.0, 0.0) if self.complement else (0.0, 1.0)
        if isinstance(self.predictions, str):
            return self._of_rule(self.predictions, schema, ends)
        description, sealed, training, reads = self._row_values(schema)
        ((kind, digest),) = description.items()
        return BoundQuery(
            description={"kind": self.metric.value, "label": schema.label, **description},
            shown=f"{self._named} of {subject_of(self.predictions, kind, digest)}",
            at_zero=ends[0],
            at_one=ends[1],
            sealed=sealed,
            training=training,
            reads=reads,
            at_fault=float(self.metric is RowMetric.BRIER),  # a loss
            by_position=self._by_position,
            yes_no=self.metric is RowMetric.ACCURACY,
        )

    def _of_rule(self, text: str, schema: Schema, ends: tuple[float, float]) -> BoundQuery:
        of_labels = self.metric is RowMetric.ACCURACY
        row_value = (rule_is_right if of_labels else squared_distance)(text, schema)
        rule = row_value.expression.canonical()
        return BoundQuery(
            description={"kind": self.metric.value, "label": schema.label, "rule": rule},
            shown=f"{self._named} of the rule {in_one_line(text)}",
            at_zero=ends[0],
            at_one=ends[1],
            row_value=row_value,
            at_fault=float(not of_labels),
            yes_no=of_labels,
        )

    @property
    def _of_probabilities(self) -> bool:
        return self.metric is RowMetric.BRIER

    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue:
        """See `LabelQuery.in_engine`."""
        if self.metric is RowMetric.BRIER:
            return distance_of(prediction, label)
        return RowValue(Expression(Node.of(Operation.EQUAL, prediction, label)))

    def meant(self, prediction: Node, schema: Schema) -> tuple[Node, str, str]:
        """See `LabelQuery.meant`."""
        if self.metric is not RowMetric.BRIER:
            return LabelQuery.meant(self, prediction, schema)
        return between(prediction, 0.0, 1.0), "are not all in [0, 1]", "expected probabilities of label 1"

    def _check(self, predictions: NDArray[Any], schema: Schema, *, what: str) -> None:
        if self.metric is RowMetric.ACCURACY:
            check_classes(predictions, schema, what=what)

    def _of_failing(self, labels: NDArray[Any]) -> NDArray[Any]:
        return np.full(len(labels), float(self.metric is RowMetric.BRIER))

    def _fails(self, predictions: NDArray[Any], schema: Schema) -> NDArray[np.bool_]:
        if self.metric is RowMetric.BRIER:
            return LabelQuery._fails(self, predictions, schema)
        return are_no_class(predictions, schema)

    def _against(self, predictions: NDArray[Any], label: str) -> RowFunction:
        if self.metric is RowMetric.BRIER:
            return lambda table: (predictions.astype(np.float64) - table[label]) ** 2
        return lambda table: np.asarray(predictions == table[label])


def accuracy(predictions: Any, *, training: Any = None) -> PredictionQuery:
    """The share of rows whose label is predicted.

    Args:
        predictions: Shape (rows,), one prediction per sealed row in the order of the rows; a table (a data frame, an
            Arrow table or a mapping from names to arrays) with the column of row ids and one of predictions, in any
            order; a fitted estimator with ``predict``, which also makes the training estimate; or a rule, an
            expression over the features such as ``"dep_delay > 10"``, which says label 1 where it is true.
        training: Predictions for the training rows, for the guess: shape (training rows,), or a table. Of an estimator
            that was fitted on these rows those of cross-validation are the better guess; see `Holdout.evaluate`.

    Examples:
        >>> accuracy([1, 0, 1]).metric
        <RowMetric.ACCURACY: 'accuracy'>
    """
    return PredictionQuery(RowMetric.ACCURACY, predictions, training)


def error(predictions: Any, *, training: Any = None) -> PredictionQuery:
    """The share of rows whose label is missed: the same query as `accuracy`, answered the other way round.

    Args:
        predictions: As for `accuracy`.
        training: As for `accuracy`.
    """
    return PredictionQuery(RowMetric.ACCURACY, predictions, training, complement=True)


def brier(probabilities: Any, *, training: Any = None) -> PredictionQuery:
    """The mean squared distance between a probability and a label of 0 or 1.

    Args:
        probabilities: Probabilities of label 1: shape (rows,), or a table, as for `accuracy`; a fitted estimator
            with ``predict_proba``; or a rule that gives a number.
        training: Probabilities for the training rows, for the guess: shape (training rows,), or a table.
    """
    return PredictionQuery(RowMetric.BRIER, probabilities, training)
