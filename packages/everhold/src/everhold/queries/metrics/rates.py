"""Precision and recall of predicted labels, and F1 as a ratio: positive is label 1."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.guarantees.intervals.pairs.gains import RATIOS
from everhold.queries.means.mean import MeanQuery, in_one_line
from everhold.queries.means.shares import ShareQuery, WithinQuery
from everhold.queries.metrics.label_query import LabelQuery, subject_of
from everhold.queries.metrics.registry import METRICS
from everhold.queries.metrics.rules import class_node, label_node
from everhold.queries.predictions.arrays import are_no_class, check_classes
from everhold.queries.procedures import takes_ratios
from everhold.queries.query import QueryPlan, QuerySpec
from everhold.values.base import BoundQuery, RowFunction, Schema
from everhold.values.evaluation import other_class
from everhold.values.expressions import Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.answers import Answer
    from everhold.queries.metrics.query import MetricQuery
    from everhold.queries.query_compiler import QueryCompiler

_SHOWN = {"hits": "true positives", "precision": "predicted positives", "recall": "actual positives",
          "f1": "half of predicted and actual positives"}  # fmt: skip


class BinaryLabelQuery(LabelQuery):
    """Predicted labels 0 and 1 held against labels 0 and 1, by a row value that `in_engine` gives for rules, too."""

    __slots__ = ()

    @property
    @abstractmethod
    def _identity(self) -> dict[str, str]:
        """Description of the row value, without label and predictions."""

    @property
    @abstractmethod
    def _title(self) -> str:
        """The row value as people read it."""

    @property
    def _yes_no(self) -> bool:
        """True if every row value is 0 or 1."""
        return False

    @abstractmethod
    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue:
        """See `LabelQuery.in_engine`; there always is one."""

    def bind(self, schema: Schema) -> BoundQuery:
        """The query about the labels of this schema."""
        if schema.label_kind != "binary":
            raise QueryRejected(
                "precision, recall and F1 are those of label 1, and need labels 0 and 1, which this holdout lacks. "
                "Seal a label column that is 1 for the positive class and else 0, or ask about f1_macro, "
                "balanced_accuracy or accuracy, which take any classes. Nothing was charged"
            )
        described = {**self._identity, "label": schema.label}
        if isinstance(self.predictions, str):
            row_value = self.in_engine(class_node(self.predictions, schema), label_node(schema), schema)
            return BoundQuery(
                description={**described, "rule": row_value.expression.canonical()},
                shown=f"{self._title} of the rule {in_one_line(self.predictions)}",
                row_value=row_value,
                yes_no=self._yes_no,
            )
        predictions, sealed, training, reads = self._row_values(schema)
        ((kind, digest),) = predictions.items()
        return BoundQuery(
            description={**described, **predictions},
            shown=f"{self._title} of {subject_of(self.predictions, kind, digest)}",
            sealed=sealed,
            training=training,
            reads=reads,
            by_position=self._by_position,
            yes_no=self._yes_no,
        )

    @property
    def _of_probabilities(self) -> bool:
        return False

    def _check(self, predictions: NDArray[Any], schema: Schema, *, what: str) -> None:
        check_classes(predictions, schema, what=what)

    def _fails(self, predictions: NDArray[Any], schema: Schema) -> NDArray[np.bool_]:
        return are_no_class(predictions, schema)

    def _of_failing(self, labels: NDArray[Any]) -> NDArray[Any]:
        return self._against(other_class(labels), "label")({"label": labels})


@dataclass(frozen=True, slots=True, eq=False)
class CountQuery(BinaryLabelQuery):
    """The share of rows that count when predicted labels are held against the labels 0 and 1.

    Attributes:
        counted: ``"hits"``, rows that are predicted 1 and are; or the rate whose denominator it is: those predicted 1
            (``"precision"``), those that are 1 (``"recall"``), or half of both together (``"f1"``), as `RATIOS` says.
        predictions: One prediction per sealed row, in the order of the rows; a table with row ids; an estimator; or a
            rule.
        training: One prediction per training row, for the guess; by default the estimator's own.
    """

    counted: str
    predictions: Any
    training: Any = None

    @property
    def _identity(self) -> dict[str, str]:
        return {"kind": "count", "of": self.counted}

    @property
    def _title(self) -> str:
        return _SHOWN[self.counted]

    @property
    def _weights(self) -> tuple[float, float]:
        """What a false positive and a false negative count; a hit counts 1, or nothing is a hit."""
        return (0.0, 0.0) if self.counted == "hits" else RATIOS[self.counted][1][2:4]

    @property
    def _yes_no(self) -> bool:
        return set(self._weights) <= {0.0, 1.0}

    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue:
        """See `LabelQuery.in_engine`."""
        both = [Node.of(Operation.EQUAL, node, Node.literal(1.0)) for node in (prediction, label)]
        if self.counted == "hits":
            return RowValue(Expression(Node.of(Operation.AND, *both)))
        weighted = [(positive, weight) for positive, weight in zip(both, self._weights, strict=True) if weight]
        if self._yes_no:
            ((positive, _),) = weighted
            return RowValue(Expression(positive))
        none = Node.literal(0.0)
        parts = [Node.of(Operation.CASE, positive, Node.literal(weight), none) for positive, weight in weighted]
        return RowValue(Expression(Node.of(Operation.ADD, *parts)))

    def _against(self, predictions: NDArray[Any], label: str) -> RowFunction:
        predicted, (alarms, misses) = predictions == 1, self._weights
        if self.counted == "hits":
            return lambda table: predicted & (table[label] == 1)
        if self._yes_no:
            return lambda table: np.array(predicted) if alarms else np.asarray(table[label] == 1)
        return lambda table: alarms * predicted + misses * (table[label] == 1)


@dataclass(frozen=True, slots=True, eq=False)
class ScoredShare(ShareQuery):
    """A share that is a score of predictions: one query also with a guess and no predictions for training rows.

    Attributes:
        score: Its name, as `everhold.metric` takes it.
        predictions: One prediction per sealed row, or what makes them.
        training: The same for the training rows.
        where: A condition: the score of the rows that meet it. None for all rows.
    """

    score: str = ""
    predictions: Any = None
    training: Any = None
    where: str | None = None

    def compile(
        self, compiler: QueryCompiler, *, guess: float | None = None, tolerance: float | None = None
    ) -> QueryPlan[Answer]:
        """As any share; with a guess and no predictions for training rows it is one query, too."""
        if guess is None or isinstance(self.predictions, str) or not takes_ratios(compiler.mechanism):
            return ShareQuery.compile(self, compiler, guess=guess, tolerance=tolerance)
        if self.placed(compiler).as_one(compiler) is not None:
            return ShareQuery.compile(self, compiler, guess=guess, tolerance=tolerance)
        return self.as_metric().compile(compiler, guess=guess, tolerance=tolerance)

    def as_metric(self) -> MetricQuery:
        """See `Query.as_metric`."""
        from everhold.queries.metrics.query import MetricQuery

        return MetricQuery.of(METRICS[self.score], self.predictions, self.training, where=self.where)

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        details = {"name": self.score, "training": self.training, "where": self.where}
        return QuerySpec("metric", self.predictions, details)


@dataclass(frozen=True, slots=True, eq=False)
class RateQuery(ScoredShare):
    """A share of counts of predicted labels; made by `precision`, `recall` and `f1`."""

    def among(self, where: str) -> ScoredShare:
        """The same rate of the rows that meet a condition."""
        rows = MeanQuery(where)
        return ScoredShare(
            WithinQuery(self.part, rows), WithinQuery(self.whole, rows), nested=True, name=self.name,
            shown=f"{self.shown} among rows with {where}", score=self.score, predictions=self.predictions,
            training=self.training, where=where,
        )  # fmt: skip

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        return QuerySpec(self.score, self.predictions, {"training": self.training})


def _share(name: str, predictions: Any, training: Any) -> RateQuery:
    what = name.partition(" ")[2]
    hits, whole = (CountQuery(counted, predictions, training) for counted in ("hits", what.lower()))
    return RateQuery(
        hits, whole, nested=True, name=name, shown=f"{what} of predicted labels", score=what.lower(),
        predictions=predictions, training=training,
    )  # fmt: skip


def precision(predictions: Any, *, training: Any = None) -> ShareQuery:
    """The share of the rows predicted 1 whose label is 1.

    One query of a holdout that confirms guesses, if the predictions for training rows are known; else two.

    Args:
        predictions: Labels, 0 or 1: shape (rows,), or a table, an estimator or a rule, as for `accuracy`.
        training: Predictions for the training rows, for the guess: shape (training rows,), or a table.

    Examples:
        >>> precision([1, 0, 1]).name
        'a precision'
    """
    return _share("a precision", predictions, training)


def recall(predictions: Any, *, training: Any = None) -> ShareQuery:
    """The share of the rows with label 1 that are predicted 1.

    One query of a holdout that confirms guesses, if the predictions for training rows are known; else two.

    Args:
        predictions: As for `precision`.
        training: As for `precision`.
    """
    return _share("a recall", predictions, training)


def f1_ratio(predictions: Any, *, training: Any = None) -> ShareQuery:
    """F1 of the population, ``sum tp / sum (tp + (fp + fn) / 2)``: as for `precision`, without a floor."""
    return _share("an F1", predictions, training)
