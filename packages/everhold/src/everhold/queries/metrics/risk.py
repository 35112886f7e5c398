"""Cost of predictions: the mean of a loss with a declared range."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.code import behaviour_digest, content_digest
from everhold.queries.means.mean import in_one_line
from everhold.queries.metrics.label_query import LabelQuery, subject_of
from everhold.queries.metrics.rules import between, finite, known_or, label_node, rule_node
from everhold.queries.predictions.arrays import first_of
from everhold.queries.query import QuerySpec
from everhold.values.base import BoundQuery, RowFunction, Schema, Table
from everhold.values.expressions import Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

Loss = Callable[["NDArray[Any]", "NDArray[Any]"], "NDArray[Any]"]
"""From predictions and labels to one loss per row, each from its own row alone."""


def _absolute(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.abs(predictions - labels))


def _squared(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.square(predictions - labels))


def _log(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(divide="ignore"):  # a probability of 0 for what happened costs inf, which is clipped
        return np.asarray(-np.log(np.where(labels == 1, predictions, 1.0 - predictions)))


LOSSES: dict[str, Loss] = {"absolute": _absolute, "squared": _squared, "log": _log}
"""Losses by name."""


@dataclass(frozen=True, slots=True, eq=False)
class RiskQuery(LabelQuery):
    """The mean loss over rows; made by `risk`.

    Attributes:
        loss: ``"absolute"``, ``"squared"``, ``"log"``, or a function of predictions and labels.
        predictions: One prediction per sealed row, in the order of the rows; a table with row ids; or an estimator.
        low: Losses below count as this.
        high: Losses above count as this, nan and rows on which a model or a loss fails, too; None for the largest
            possible one, where there is one.
        training: One prediction per training row, for the guess; by default the estimator's own.
        name: Functions of one name that do the same are one loss. Without a name every new object is a new query.
    """

    loss: str | Loss
    predictions: Any
    low: float = 0.0
    high: float | None = None
    training: Any = None
    name: str | None = None
    _token: str = field(default_factory=lambda: secrets.token_hex(16), init=False, repr=False)

    def spec(self) -> QuerySpec:
        """See `Query.made`."""
        if not isinstance(self.loss, str):
            return LabelQuery.spec(self)
        given = {"loss": self.loss, "low": self.low, "high": self.high, "training": self.training}
        return QuerySpec("risk", self.predictions, given)

    def bind(self, schema: Schema) -> BoundQuery:
        """The query about the labels of this schema."""
        if schema.label is None or schema.label_kind == "string":
            raise QueryRejected(
                "a risk needs a label column of numbers and this holdout has none; expected one named at creation with "
                "label=...; ask for accuracy where labels are texts"
            )
        if self._of_probabilities and schema.label_kind != "binary":
            raise QueryRejected(
                f"the logarithmic loss needs labels 0 and 1 and column {schema.label!r} was not sealed as such; ask "
                "for another loss"
            )
        low, high = self._range(schema)
        if isinstance(self.predictions, str) and isinstance(self.loss, str):
            return self._of_rule(self.predictions, schema)
        if not isinstance(self.loss, str):
            _try_on_made_up_rows(self.loss)
        description, sealed, training, reads = self._row_values(schema)
        judged = training if training is None or training is sealed else _judged(training, low=low, high=high)
        ((kind, digest),) = description.items()
        loss = {"loss": self.loss} if isinstance(self.loss, str) else {"function": self._identity(self.loss)}
        return BoundQuery(
            description={"kind": "risk", **loss, "low": low, "high": high, "label": schema.label, **description},
            shown=f"{self._shown} of {subject_of(self.predictions, kind, digest)}",
            at_zero=low,
            at_one=high,
            sealed=sealed,
            training=judged,
            reads=reads,
            at_fault=1.0,
            by_position=self._by_position,
        )

    def _of_rule(self, text: str, schema: Schema) -> BoundQuery:
        low, high = self._range(schema)
        row_value = self.in_engine(rule_node(text, schema), label_node(schema), schema)
        assert row_value is not None
        rule = row_value.expression.canonical()
        return BoundQuery(
            description={
                "kind": "risk", "loss": self.loss, "low": low, "high": high, "label": schema.label, "rule": rule,
            },
            shown=f"{self._shown} of the rule {in_one_line(text)}",
            at_zero=low,
            at_one=high,
            row_value=row_value,
            at_fault=1.0,
        )  # fmt: skip

    def _identity(self, loss: Loss) -> dict[str, str]:
        named = {"name": self.name} if self.name is not None else {"token": self._token}
        predictions, labels = (axis.ravel() for axis in np.meshgrid(np.linspace(-3.0, 3.0, 25), [0.0, 1.0, 2.5]))
        found = _losses(loss, predictions, labels)
        content = content_digest(loss) or self._token
        return {**named, "content": content, "on_made_up_rows": behaviour_digest([found])}

    @property
    def _bounded(self) -> bool:
        return self._of_probabilities

    @property
    def _shown(self) -> str:
        return f"{self.loss} loss" if isinstance(self.loss, str) else f"loss {self.name or 'without a name'}"

    @property
    def _of_probabilities(self) -> bool:
        return self.loss == "log"

    def _range(self, schema: Schema) -> tuple[float, float]:
        high = self.high
        if high is None and schema.label_kind == "binary" and self.loss in ("absolute", "squared"):
            high = 1.0
        if high is None:
            raise QueryRejected(
                "the range of the loss is not known; expected high, at which losses are clipped, because one row must "
                "not be able to move the average at will"
            )
        return float(self.low) + 0.0, float(high) + 0.0

    def _checked(self, predictions: Any, rows: int, schema: Schema, *, what: str) -> NDArray[Any]:
        # super() does not work in a method of a class with slots that a decorator made anew
        array = LabelQuery._checked(self, predictions, rows, schema, what=what).astype(np.float64)
        if not bool(np.all(np.isfinite(array))):
            raise QueryRejected(
                f"{what} are not all finite{first_of(~np.isfinite(array))}; expected a number for each row"
            )
        return array

    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue | None:
        """See `LabelQuery.in_engine`; a function of one's own is not known to the engine."""
        if not isinstance(self.loss, str):
            return None
        low, high = self._range(schema)
        apart = Node.of(Operation.SUBTRACT, prediction, label)
        if self.loss == "log":
            other = Node.of(Operation.SUBTRACT, Node.literal(1.0), prediction)
            chance = Node.of(Operation.CASE, Node.of(Operation.EQUAL, label, Node.literal(1.0)), prediction, other)
            loss = Node.of(Operation.NEGATE, Node.of(Operation.LOGARITHM, chance))
        elif self.loss == "squared":
            loss = Node.of(Operation.MULTIPLY, apart, apart)
        else:
            loss = Node.of(Operation.ABSOLUTE, apart)
        return RowValue(Expression(known_or(loss, high)), low, high)

    def meant(self, prediction: Node, schema: Schema) -> tuple[Node, str, str]:
        """See `LabelQuery.meant`."""
        if self._of_probabilities:
            return between(prediction, 0.0, 1.0), "are not all in [0, 1]", "expected probabilities of label 1"
        return finite(prediction), "are not all finite", "expected a number for each row"

    def _of_failing(self, labels: NDArray[Any]) -> NDArray[Any]:
        return np.ones(len(labels))

    def _against(self, predictions: NDArray[Any], label: str) -> RowFunction:
        low, width = float(self.low), float(1.0 if self.high is None else self.high) - float(self.low)

        def values(table: Table) -> NDArray[Any]:
            labels = np.asarray(table[label], dtype=np.float64)
            if isinstance(self.loss, str):
                losses = LOSSES[self.loss](predictions, labels)
            else:
                losses = _losses(self.loss, predictions, labels)
            return (losses - low) / width

        return values


def _losses(loss: Loss, predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Losses whatever happens: nan on a row on which the function fails.

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
    """The same for training rows, where losses outside their range are told."""

    def values(table: Table) -> NDArray[Any]:
        found = function(table)
        if not bool(np.all((found >= 0.0) & (found <= 1.0))):  # also for nan
            least, most = (low + (high - low) * float(end) for end in (np.min(found), np.max(found)))
            raise QueryRejected(
                f"the losses of the training rows lie between {least:.6g} and {most:.6g}; expected them in the "
                f"declared range [{low:.6g}, {high:.6g}]; declare a wider one or clip the loss yourself"
            )
        return found

    return values


def _try_on_made_up_rows(loss: Loss) -> None:
    """Check that a loss takes arrays and gives one number per row, each from its own row alone."""
    predictions, labels = np.array([0.0, 1.0, 0.25, 0.5]), np.array([0.0, 1.0, 1.0, 1.0])
    try:
        with np.errstate(all="ignore"):
            whole = np.asarray(loss(predictions, labels), dtype=np.float64)
            backwards = np.asarray(loss(predictions[::-1], labels[::-1]), dtype=np.float64)[::-1]
            halves = [np.asarray(loss(predictions[p], labels[p]), dtype=np.float64) for p in (slice(2), slice(2, 4))]
    except Exception as fault:
        raise QueryRejected(
            f"the loss fails on made-up rows with {type(fault).__name__}: {fault}; expected a function of two arrays "
            "of floats, predictions and labels, to one number per row"
        ) from fault
    joined = np.concatenate([np.atleast_1d(half) for half in halves])
    if any(array.shape != labels.shape for array in (whole, backwards, joined)):
        raise QueryRejected(
            f"the loss gives an array of the shape {whole.shape} for {len(labels)} rows; expected one number per row "
            "and not their mean"
        )
    if not all(np.allclose(whole, other, rtol=0.0, atol=1e-9, equal_nan=True) for other in (backwards, joined)):
        raise QueryRejected(
            "the loss of a row changes with the other rows; expected a value computed from the row alone, because only "
            "averages of such values are promised anything"
        )


def risk(
    predictions: Any,
    loss: str | Loss = "squared",
    *,
    low: float = 0.0,
    high: float | None = None,
    training: Any = None,
    name: str | None = None,
) -> RiskQuery:
    """The mean loss of predictions, for a loss with a declared range.

    On sealed rows losses are clipped to the range and never refused, because a refusal would be a free answer; on
    training rows losses outside the range are refused.

    Args:
        predictions: Shape (rows,), one prediction per sealed row in the order of the rows; a table with row ids, as for
            `accuracy`; a fitted estimator with ``predict``, for the logarithmic loss with ``predict_proba``; or a rule
            such as ``"0.5 * x"``, for a loss by name, which is clipped on training rows, too.
        loss: ``"absolute"``, ``"squared"``, ``"log"`` (labels 0 and 1, natural logarithm), or a vectorised function of
            predictions and labels.
        low: Losses below count as this.
        high: Losses above count as this; may be left out for the absolute and squared loss of labels 0 and 1.
        training: Predictions for the training rows, for the guess: shape (training rows,), or a table.
        name: Of a loss that is a function: functions of one name that do the same are one loss.

    Raises:
        ValueError: If the loss or its range cannot be used.

    Examples:
        >>> risk([0.2, 0.9, 0.4], "log", high=5).high
        5
    """
    if not (callable(loss) or loss in LOSSES):
        raise ValueError(f"loss is {loss!r}; expected {', '.join(map(repr, LOSSES))} or a function")
    ends = (low, 1.0 if high is None else high)
    if not all(isinstance(end, (int, float, np.integer, np.floating)) for end in ends):
        raise ValueError("low and high are not numbers; expected the range of the loss")
    if not (ends[0] < ends[1] and math.isfinite(float(ends[1]) - float(ends[0]))):
        raise ValueError(f"the range of the loss is [{low}, {high}]; expected finite numbers with low < high")
    return RiskQuery(loss, predictions, low, high, training, name)
