"""Metrics that are means over rows: accuracy, error, Brier score, losses, and counts of outcomes.

Each is a mean of row values. So engines can compute it, every mechanism can answer it, it can be declared, and `choose`
can use it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.guarantees.intervals.gains import RATIOS
from everhold.queries.code import behaviour_digest, content_digest, observed
from everhold.queries.metrics.label_query import (
    ESTIMATOR,
    ONE,
    ZERO,
    LabelQuery,
    as_number,
    between,
    codes_of,
    finite,
    label_column,
    rule_root,
    subject_of,
)
from everhold.queries.metrics.score_parts import LOSSES, Loss, named_values
from everhold.queries.predictions.arrays import check_known, known_classes
from everhold.queries.query import CompileContext, QuerySpec
from everhold.sealing.rows.code_trials import EstimatedValues, sealed_values
from everhold.values.base import BoundQuery, RowFunction, Schema, Table
from everhold.values.evaluation import other_class, to_grid
from everhold.values.expressions import ColumnKind, Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.metrics.registry import Outputs
    from everhold.sealing.rows.table import StoredRows

_BRIER = "brier"


@dataclass(frozen=True, slots=True, eq=False)
class AccuracyQuery(LabelQuery):
    """A query for the share of rows whose label is predicted or missed, made by `accuracy` and `error`.

    Attributes:
        predictions: The predictions, in a form that `LabelQuery` takes.
        training: Predictions for the training rows, in a form that `LabelQuery` takes.
        missed: True if the answer is the share of rows whose label is missed; False if it is that of rows whose label
            is predicted. Both are one query with one identity.
    """

    yes_no: ClassVar[bool] = True
    outputs_are: ClassVar[Outputs] = "classes"  # type: ignore[misc]  # of each such query

    predictions: Any
    training: Any = None
    missed: bool = False

    @property
    def score(self) -> str:
        """The name of the metric, ``"accuracy"`` or ``"error"``."""
        return "error" if self.missed else "accuracy"

    title = score

    @property
    def greater(self) -> bool:
        """Whether a higher number is better."""
        return not self.missed

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        return QuerySpec(self.score, self.predictions, {"training": self.training})

    def _check_labels(self, schema: Schema) -> None:
        if schema.label is None:
            raise QueryRejected(
                f"{self.score.capitalize()} needs a label column, and this holdout has none. Create the holdout with "
                "label=..."
            )
        check_known(schema)

    def _identity(self, schema: Schema) -> dict[str, Any]:
        return {"kind": "accuracy"}  # of an error, too: it is told the other way round

    def _ends(self, schema: Schema) -> tuple[float, float]:
        return (1.0, 0.0) if self.missed else (0.0, 1.0)

    def _of_rule(self, text: str, schema: Schema) -> RowValue:
        rule, label = rule_root(text, schema), label_column(schema)
        if label.kind is ColumnKind.STRING:
            raise QueryRejected(
                "The labels are texts, and a rule gives numbers or conditions. Pass predictions or an estimator."
            )
        classes = schema.label_classes
        if rule.kind is ColumnKind.BOOLEAN:  # it predicts 1 or 0
            if classes is not None and not {0.0, 1.0} <= set(classes):
                raise QueryRejected(
                    f"The rule {brief(text)} is a condition, which predicts 1 or 0. {known_classes(schema)[0]} Write "
                    f"a rule such as case when ... then {classes[-1]:g} else {classes[0]:g} end."
                )
            boolean = label.kind is ColumnKind.BOOLEAN
            one = label if boolean else Node.of(Operation.EQUAL, label, ONE)
            zero = Node.of(Operation.NOT, label) if boolean else Node.of(Operation.EQUAL, label, ZERO)
            return RowValue(Expression(Node.of(Operation.CASE, rule, one, zero)))
        if unknown := [] if classes is None else [value for value in _spelled(rule) if value not in classes]:
            said = " ".join(known_classes(schema))
            raise QueryRejected(f"The rule {brief(text)} gives {brief(unknown[0])}, which is no label. {said}")
        if rule.kind is not label.kind:
            raise QueryRejected(
                f"The rule {brief(text)} gives a {rule.kind.value}, and the labels are {label.kind.value}s. Write a "
                f"rule that gives a {label.kind.value}."
            )
        return RowValue(Expression(Node.of(Operation.EQUAL, rule, label)))

    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue:
        """Return the row value that is true where prediction and label are equal, for the engine to compute."""
        return RowValue(Expression(Node.of(Operation.EQUAL, prediction, label)))

    def _against(self, predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(predictions == labels)


def _spelled(node: Node) -> list[Any]:
    """Return the numbers that are written in a rule as its results, or an empty list if the rule computes numbers."""
    if node.operation is Operation.NUMBER:
        return [node.value]
    if node.operation is not Operation.CASE:
        return []
    return [value for result in (*node.operands[1:-1:2], node.operands[-1]) for value in _spelled(result)]


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeQuery(LabelQuery):
    """A query for the mean of a number that depends on whether a prediction is true or false, positive or not.

    Attributes:
        kind: Name of the counted quantity in the query's description.
        title: The number as people read it.
        values: The number that a true negative, a false positive, a false negative and a true positive have, in this
            order. The first three add up to the fourth, or only the fourth is not 0.
        predictions: The predictions, in a form that `LabelQuery` takes.
        training: Predictions for the training rows, in a form that `LabelQuery` takes.
        positive: The positive class; None for label 1.
    """

    outputs_are: ClassVar[Outputs] = "classes"  # type: ignore[misc]  # of each such query

    kind: tuple[str, str]
    title: str
    values: Sequence[float]
    predictions: Any
    training: Any = None
    positive: Any = None

    @classmethod
    def codes(cls, score: str, predictions: Any, training: Any = None, positive: Any = None) -> OutcomeQuery:
        """Build the query whose row values are ``code / 4``, where the codes number `gains.OUTCOMES`.

        Args:
            score: Name of the metric by which the models are compared.
            predictions: The predictions, in a form that `LabelQuery` takes.
            training: Predictions for the training rows, in a form that `LabelQuery` takes.
            positive: The class that counts as positive.
        """
        return cls((score, ""), score, (0.25, 0.5, 0.75, 1.0), predictions, training, positive)

    @classmethod
    def counts(cls, rate: str, predictions: Any, training: Any, positive: Any) -> tuple[OutcomeQuery, OutcomeQuery]:
        """Build the queries for the numerator and the denominator of a rate of `RATIOS`."""
        part, whole = (
            cls(("count", counted), title, of[1:], predictions, training, positive=positive)
            for counted, title, of in zip(("hits", rate), ("true positives", _COUNTED[rate]), RATIOS[rate], strict=True)
        )
        return part, whole

    def _check_labels(self, schema: Schema) -> None:
        if schema.label_kind != "binary" and self.positive is None:
            raise QueryRejected(
                "Precision, recall, F1 and comparisons by outcomes need labels 0 and 1, and this holdout has other "
                "labels or none. Name the positive class with pos_label=..., or ask for a metric of any classes."
            )

    def _identity(self, schema: Schema) -> dict[str, Any]:
        kind, counted = self.kind
        return {"kind": kind, **({"of": counted} if counted else {})}

    @property
    def yes_no(self) -> bool:  # type: ignore[override]
        """Whether each row value is 0 or 1."""
        return set(self.values) <= {0.0, 1.0}

    def _of_rule(self, text: str, schema: Schema) -> RowValue:
        label = self._label_node(schema)
        rule = rule_root(text, schema)
        if rule.kind is ColumnKind.BOOLEAN:
            return self.in_engine(as_number(rule), label, schema)
        if label.operation is not Operation.COLUMN and schema.label_kind != "binary":
            raise QueryRejected(f"The rule {brief(text)} gives no yes or no for the positive class. Write a condition.")
        wrong = Node.of(Operation.CASE, Node.of(Operation.EQUAL, label, ONE), ZERO, ONE)  # if it gives neither 0 nor 1
        says_0 = Node.of(Operation.CASE, Node.of(Operation.EQUAL, rule, ZERO), ZERO, wrong)
        predicted = Node.of(Operation.CASE, Node.of(Operation.EQUAL, rule, ONE), ONE, says_0)
        return self.in_engine(predicted, label, schema)

    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue:
        """Return the row value by the outcome of each row, for the engine to compute."""
        both = [Node.of(Operation.EQUAL, node, Node.literal(1.0)) for node in (prediction, label)]
        nothing, alarm, miss, _ = self.values
        if not (nothing or alarm or miss):
            return RowValue(Expression(Node.of(Operation.AND, *both)))
        parts = [(positive, value - nothing) for positive, value in zip(both, (alarm, miss), strict=True)]
        weighted = [(positive, weight) for positive, weight in parts if weight]
        if self.yes_no:
            ((positive, _),) = weighted
            return RowValue(Expression(positive))
        nodes = [Node.of(Operation.CASE, positive, Node.literal(weight), Node.literal(0.0)) for positive, weight in
                 weighted]  # fmt: skip
        total = Node.of(Operation.ADD, *nodes)
        return RowValue(Expression(Node.of(Operation.ADD, total, Node.literal(nothing)) if nothing else total))

    def _of_failing(self, labels: NDArray[Any], schema: Schema) -> NDArray[Any]:
        return self._against(other_class(labels), labels)

    def _against(self, predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        values = np.array(self.values, dtype=bool if self.yes_no else float)
        return np.asarray(values[np.asarray(predictions == 1) + 2 * np.asarray(labels == 1)])


_COUNTED = {"precision": "predicted positives", "recall": "actual positives",
            "f1": "half of predicted and actual positives"}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class LossQuery(LabelQuery):
    """A query for the mean loss over rows, made by `risk`, and by `brier` for the Brier score.

    Attributes:
        loss: ``"absolute"``, ``"squared"``, ``"log"``, ``"brier"``, or a function of predictions and labels.
        predictions: The predictions, in a form that `LabelQuery` takes.
        low: Losses below count as this.
        high: Losses above count as this, and so do nan and rows on which a model or a loss fails. None for the largest
            possible loss, if the loss has one.
        training: Predictions for the training rows, in a form that `LabelQuery` takes.
        name: Name of a loss that is a function. Two functions of the same name and code are one loss. Without a name
            every new function is a new query.
        positive: The positive class; None for label 1.
    """

    _at_fault: ClassVar[float] = 1.0
    greater: ClassVar[bool] = False

    loss: str | Loss
    predictions: Any
    low: float = 0.0
    high: float | None = None
    training: Any = None
    name: str | None = None
    positive: Any = None
    _token: str = field(default_factory=lambda: secrets.token_hex(16), init=False, repr=False)

    @property
    def score(self) -> str:
        """The name of the metric: ``"brier"``, or ``"risk"`` for any other loss."""
        return _BRIER if self.loss == _BRIER else "risk"

    def spec(self) -> QuerySpec:
        """Return the kind and arguments from which the query can be built again."""
        if not isinstance(self.loss, str):
            return LabelQuery.spec(self)
        ranged = {} if self.loss == _BRIER else {"loss": self.loss, "low": self.low, "high": self.high}
        return QuerySpec(self.score, self.predictions, {**ranged, "training": self.training})

    def _check_labels(self, schema: Schema) -> None:
        if self.outputs_are == "probability" and self.positive is None and schema.label_kind != "binary":
            name = "The Brier score" if self.loss == _BRIER else "The logarithmic loss"
            found = f"the column {schema.label!r} holds others" if schema.label else "this holdout has no label"
            raise QueryRejected(
                f"{name} needs labels 0 and 1, and {found}. Ask for accuracy or another loss, or name the positive "
                "class with pos_label=..."
            )
        if schema.label is None or (schema.label_kind == "string" and self.positive is None):
            raise QueryRejected(
                "A risk needs a label column of numbers, and this holdout has none. Create the holdout with "
                "label=..., or ask for accuracy where labels are texts."
            )
        if not isinstance(self.loss, str) and not isinstance(self.predictions, str):
            _try_on_made_up_rows(self.loss)

    def _identity(self, schema: Schema) -> dict[str, Any]:
        if self.loss == _BRIER:
            return {"kind": _BRIER}
        low, high = self._ends(schema)
        if isinstance(self.loss, str):
            return {"kind": "risk", "loss": self.loss, "low": low, "high": high}
        named = {"name": self.name} if self.name is not None else {"token": self._token}
        predictions, labels = (axis.ravel() for axis in np.meshgrid(np.linspace(-3.0, 3.0, 25), [0.0, 1.0, 2.5]))
        values, content = _losses(self.loss, predictions, labels), content_digest(self.loss) or self._token
        function = {**named, "content": content, "on_made_up_rows": behaviour_digest([values])}
        return {"kind": "risk", "function": function, "low": low, "high": high}

    @property
    def title(self) -> str:  # type: ignore[override]
        """The loss as people read it, such as ``"log loss"``."""
        if self.loss == _BRIER:
            return _BRIER
        return f"{self.loss} loss" if isinstance(self.loss, str) else f"loss {self.name or 'without a name'}"

    def _ends(self, schema: Schema) -> tuple[float, float]:
        high = self.high
        if high is None and schema.label_kind == "binary" and self.loss in ("absolute", "squared"):
            high = 1.0
        if high is None:
            raise QueryRejected("The loss has no known range. Pass high=..., at which the losses of rows are clipped.")
        return float(self.low) + 0.0, float(high) + 0.0

    @property
    def _bounded(self) -> bool:  # type: ignore[override]
        return self.outputs_are == "probability"

    @property
    def outputs_are(self) -> Outputs:  # type: ignore[override]
        """The form of the predictions: probabilities of label 1, or numbers."""
        return "probability" if self.loss in ("log", _BRIER) else "numbers"

    def _training_values(self, training: RowFunction, schema: Schema) -> RowFunction:
        low, high = self._ends(schema)
        return training if self.loss == _BRIER else _judged(training, low=low, high=high)

    def _of_rule(self, text: str, schema: Schema) -> RowValue | None:
        if not isinstance(self.loss, str):
            return None
        return self.in_engine(as_number(rule_root(text, schema)), self._label_node(schema), schema)

    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue | None:
        """Return the row value of a named loss, for the engine to compute, or None for a loss function."""
        if not isinstance(self.loss, str):
            return None
        apart = Node.of(Operation.SUBTRACT, prediction, label)
        if self.loss == _BRIER:
            return RowValue(Expression(_known_or(Node.of(Operation.MULTIPLY, apart, apart), 1.0)))
        low, high = self._ends(schema)
        if self.loss == "log":
            other = Node.of(Operation.SUBTRACT, Node.literal(1.0), prediction)
            chance = Node.of(Operation.CASE, Node.of(Operation.EQUAL, label, Node.literal(1.0)), prediction, other)
            loss = Node.of(Operation.NEGATE, Node.of(Operation.LOGARITHM, chance))
        elif self.loss == "squared":
            loss = Node.of(Operation.MULTIPLY, apart, apart)
        else:
            loss = Node.of(Operation.ABSOLUTE, apart)
        return RowValue(Expression(_known_or(loss, high)), low, high)

    def meant(self, prediction: Node, schema: Schema) -> tuple[Node, str, str]:
        """Return a condition that valid predictions in the engine meet, and two texts for an error message."""
        if self.outputs_are == "probability":
            return between(prediction, 0.0, 1.0), "are not all in [0, 1]", "Pass probabilities of label 1."
        return finite(prediction), "are not all finite", "Pass a number for each row."

    def _against(self, predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        loss, low, high = self.loss, float(self.low), float(1.0 if self.high is None else self.high)
        if isinstance(loss, str):
            values_of = named_values({"kind": self.score, "loss": loss, "low": low, "high": high})
            assert values_of is not None
            return values_of(predictions, labels)
        losses = _losses(loss, predictions.astype(np.float64), np.asarray(labels, dtype=np.float64))
        return (losses - low) / (high - low)


def _known_or(loss: Node, worst: float) -> Node:
    """Return the node of a loss, with the worst loss in place of a missing one."""
    known = Node.of(Operation.NOT, Node.of(Operation.IS_NULL, loss))
    return Node.of(Operation.CASE, known, loss, Node.literal(worst))


def _losses(loss: Loss, predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return losses, with nan on each row on which the function fails.

    Training rows with a nan are refused; sealed ones count as the upper end, because a report would be a free answer.
    """
    try:
        losses = np.asarray(loss(predictions, labels))
        if losses.shape == labels.shape and losses.dtype.kind in "biuf":
            return losses.astype(np.float64)
    except Exception:  # the function may raise anything here
        pass
    if len(labels) <= 1:
        return np.full(labels.shape, np.nan)
    middle = len(labels) // 2
    parts = (slice(None, middle), slice(middle, None))
    return np.concatenate([_losses(loss, predictions[part], labels[part]) for part in parts])


def _judged(function: RowFunction, *, low: float, high: float) -> RowFunction:
    """Return the row function for training rows with a check that no loss is outside the declared range."""

    def values(table: Table) -> NDArray[Any]:
        found = function(table)
        to_grid(found, losses=(low, high))
        return found

    return values


def _try_on_made_up_rows(loss: Loss) -> None:
    """Raise QueryRejected unless a loss maps arrays to one number per row that depends on this row alone."""
    predictions, labels = np.array([0.0, 1.0, 0.25, 0.5]), np.array([0.0, 1.0, 1.0, 1.0])
    try:
        with np.errstate(all="ignore"):
            whole = np.asarray(loss(predictions, labels), dtype=np.float64)
            backwards = np.asarray(loss(predictions[::-1], labels[::-1]), dtype=np.float64)[::-1]
            halves = [np.asarray(loss(predictions[p], labels[p]), dtype=np.float64) for p in (slice(2), slice(2, 4))]
    except Exception as fault:
        raise QueryRejected(
            f"The loss fails on made-up rows with {type(fault).__name__}: {fault}. Pass a function of two arrays of "
            "floats, predictions and labels, that returns one number per row."
        ) from fault
    joined = np.concatenate([np.atleast_1d(half) for half in halves])
    if any(array.shape != labels.shape for array in (whole, backwards, joined)):
        raise QueryRejected(
            f"The loss gives an array of the shape {whole.shape} for {len(labels)} rows. Return one number per row "
            "and not their mean."
        )
    if not all(np.allclose(whole, other, rtol=0.0, atol=1e-9, equal_nan=True) for other in (backwards, joined)):
        raise QueryRejected(
            "The loss of a row changes with the other rows. Compute it from that row's prediction and label alone."
        )


def risk(
    predictions: Any,
    loss: str | Loss = "squared",
    *,
    low: float = 0.0,
    high: float | None = None,
    training: Any = None,
    name: str | None = None,
) -> LossQuery:
    """Build the query for the mean loss of predictions, for a loss with a declared range.

    On sealed rows, losses outside the range are clipped to it and never refused, because a refusal would reveal them at
    no cost. On training rows they are refused.

    Args:
        predictions: Shape (rows,), one prediction per sealed row in the order of the rows; a table with row ids, as for
            `accuracy`; a fitted estimator with ``predict``, for the logarithmic loss with ``predict_proba``; or a rule
            such as ``"0.5 * x"``, for a loss by name, which is clipped on training rows, too.
        loss: ``"absolute"``, ``"squared"``, ``"log"`` (labels 0 and 1, natural logarithm), or a vectorised function of
            predictions and labels.
        low: Lower end of the range: smaller losses count as this.
        high: Upper end of the range: larger losses count as this; may be left out for the absolute and squared loss of
            labels 0 and 1.
        training: Predictions for the training rows, which make the guess of the answer: shape (training rows,), or a
            table.
        name: Name of a loss that is a function. Functions of one name that do the same are one loss.

    Raises:
        ValueError: If the loss is unknown, or its range is missing or not valid.

    Examples:
        >>> risk([0.2, 0.9, 0.4], "log", high=5).high
        5
    """
    if not (callable(loss) or loss in LOSSES):
        raise ValueError(f"loss is {loss!r}. Pass {', '.join(map(repr, LOSSES))} or a function.")
    ends = (low, 1.0 if high is None else high)
    if not all(isinstance(end, (int, float, np.integer, np.floating)) for end in ends):
        raise ValueError(f"low is {low!r} and high is {high!r}. Pass two numbers, the range of the loss.")
    if not (ends[0] < ends[1] and math.isfinite(float(ends[1]) - float(ends[0]))):
        raise ValueError(f"low is {low} and high is {high}. Pass two finite numbers, the smaller one as low.")
    return LossQuery(loss, predictions, low, high, training, name)


def accuracy(predictions: Any, *, training: Any = None) -> AccuracyQuery:
    """Build the query for the accuracy of predictions: the share of rows whose label is predicted right.

    Args:
        predictions: Shape (rows,), one prediction per sealed row in the order of the rows; a table (a data frame, an
            Arrow table or a mapping from names to arrays) with the column of row ids and one of predictions, in any
            order; a fitted estimator with ``predict``, which also makes the training estimate; or a rule, an
            expression over the features such as ``"dep_delay > 10"``, which says label 1 where it is true.
        training: Predictions for the training rows, which make the guess of the answer: shape (training rows,), or a
            table. For an estimator that was fitted on these rows, predictions by cross-validation make a better guess;
            see `Holdout.evaluate`.

    Examples:
        >>> accuracy([1, 0, 1]).score
        'accuracy'
    """
    return AccuracyQuery(predictions, training)


def error(predictions: Any, *, training: Any = None) -> AccuracyQuery:
    """Build the query for the share of rows with a wrong prediction, which is 1 less the `accuracy`.

    Args:
        predictions: The predictions, as for `accuracy`.
        training: Predictions for the training rows, as for `accuracy`.
    """
    return AccuracyQuery(predictions, training, missed=True)


def brier(probabilities: Any, *, training: Any = None) -> LossQuery:
    """Build the query for the mean squared distance between a probability and a label of 0 or 1.

    Args:
        probabilities: Predicted probabilities of label 1: shape (rows,), or a table, as for `accuracy`; a fitted
            estimator with ``predict_proba``; or a rule that gives a number.
        training: Probabilities for the training rows, which make the guess of the answer: shape (training rows,), or a
            table.
    """
    return LossQuery(_BRIER, probabilities, 0.0, 1.0, training)


MEANS: Mapping[str, Callable[..., LabelQuery]] = {"accuracy": accuracy, "error": error, "brier": brier}
"""Functions that build the queries for the metrics that are means of row values, by the metric's name."""

# Predictions and labels of all rows, from which metrics that are no means are computed.


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRows(LabelQuery):
    """Predictions of a model for all rows, in the form that a metric reads.

    Attributes:
        outputs_are: The form of predictions that the metric reads.
        predictions: Shape (rows,), or (rows, classes) of probabilities of each class in the order in which classes
            were declared; a table with row ids; or a fitted estimator.
        training: Predictions of the model for the training rows, in the same form.
        positive: The class that counts as label 1; None for label 1 itself.
    """

    outputs_are: Outputs
    predictions: Any
    training: Any = None
    positive: Any = None

    def bind(self, schema: Schema) -> BoundQuery:
        """Return a bound query whose row values are the predictions, shown as the name of the model."""
        identity, sealed, training, reads = self._row_values(schema)
        ((kind, digest),) = identity.items()
        positive = {} if self.positive is None else {"positive": self.positive}
        return BoundQuery(
            {"label": schema.label, **positive, **identity, **dict(schema.about)},
            subject_of(self.predictions, kind, digest), sealed=sealed, training=training, reads=reads,
            by_position=kind != ESTIMATOR,
        )  # fmt: skip

    def judge(self, predictions: NDArray[Any], table: Table, schema: Schema) -> NDArray[np.float64]:
        """Return checked predictions as numbers for the metric: the number of the class, or the number itself."""
        if self.outputs_are != "classes":
            return np.asarray(predictions, dtype=np.float64)
        if self._are_truth_values(predictions):
            return predictions.astype(np.float64)
        codes = codes_of(predictions, schema.label_classes or ())
        if self.positive is not None:
            codes = np.where(codes < 0.0, codes, np.asarray(predictions) == self.positive)
        return np.where(codes < 0.0, np.nan, codes)

    def _of_failing(self, labels: NDArray[Any], schema: Schema) -> NDArray[Any]:
        width = (len(schema.label_classes or ()),) if self.outputs_are == "probabilities" else ()
        return np.full((len(labels), *width), np.nan)


@dataclass(frozen=True, slots=True)
class BoundRows:
    """The predictions of one model, bound to the rows of one holdout.

    Attributes:
        bound: Query with the identity of the predictions, and with functions from a table to the predictions of its
            rows.
        reads: Columns from which the predictions and their labels are read.
        width: Shape of the prediction of one row.
    """

    bound: BoundQuery
    reads: tuple[str, ...]
    width: tuple[int, ...]

    @classmethod
    def of(cls, rows: ScoredRows, compiler: CompileContext) -> BoundRows:
        """Bind predictions to the rows of one holdout. An estimator is first tried on public rows."""
        schema = compiler.schema
        bound = rows.placed(compiler).bind(schema)
        reads = bound.reads or ()
        if isinstance(function := bound.sealed, EstimatedValues):
            outputs, _ = observed(function, reads, compiler)
            bound = replace(bound, description={**bound.description, "on_public_rows": behaviour_digest(outputs)})
        return cls(bound, reads, (len(schema.label_classes or ()),) if rows.outputs_are == "probabilities" else ())

    def read(self, rows: StoredRows, *, sealed: bool) -> NDArray[np.float64]:
        """Return the predictions for all rows, nan where an estimator fails. They are secret if the rows are sealed.

        `sealed` is False for the training rows, for which the predictions then have to be known.
        """
        function = self.bound.sealed if sealed else self.bound.training
        assert function is not None
        if sealed and not self.bound.by_position:
            return np.asarray(rows.code.values(function, self.reads, self.width), dtype=np.float64)
        return np.asarray(sealed_values(function, rows.table(self.reads), rows.rows, self.width), dtype=np.float64)

    def public(self) -> NDArray[np.float64] | None:
        """Return the predictions for sealed rows if they were passed as an array, or None for an estimator."""
        if not self.bound.by_position or self.bound.sealed is None:
            return None
        return np.asarray(self.bound.sealed({}), dtype=np.float64)
