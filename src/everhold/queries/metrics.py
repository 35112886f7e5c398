"""How good are these predictions? Accuracy, error and Brier score of arrays or of fitted estimators."""

from __future__ import annotations

import hashlib
import pickle
import secrets
from abc import abstractmethod
from dataclasses import dataclass
from enum import Enum
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.base import BoundQuery, Query, RowFunction, Schema, Table, same_length

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["LabelQuery", "PredictionQuery", "accuracy", "brier", "error"]


class Metric(Enum):
    """How a prediction is held against the label, one row at a time."""

    ACCURACY = "accuracy"
    BRIER = "brier"


class LabelQuery(Query):
    """Predictions, held against the label row by row.

    Attributes:
        predictions: One prediction per sealed row, in the order of the rows, or a fitted estimator.
        training: One prediction per training row, for the guess; an estimator needs none.
    """

    __slots__ = ()

    predictions: Any
    training: ArrayLike | None

    @property
    @abstractmethod
    def _of_probabilities(self) -> bool:
        """Whether predictions are probabilities of label 1."""

    @property
    def _by_position(self) -> bool:
        """Whether there is one prediction for each sealed row, and no estimator that makes them."""
        return not hasattr(self.predictions, "predict")

    @abstractmethod
    def _against(self, predictions: NDArray[Any], label: str) -> RowFunction:
        """The row values of checked predictions."""

    def _row_values(
        self, schema: Schema
    ) -> tuple[dict[str, str], RowFunction, RowFunction | None, tuple[str, ...] | None]:
        """Identity of the predictions, row values of sealed and of training rows, and the columns that are read."""
        return self._of_estimator(schema) if hasattr(self.predictions, "predict") else self._of_arrays(schema)

    def _of_arrays(self, schema: Schema) -> tuple[dict[str, str], RowFunction, RowFunction | None, tuple[str, ...]]:
        label = schema.label or ""
        sealed = self._checked(self.predictions, schema.rows, schema, what="the predictions")
        training: RowFunction | None = None
        if self.training is not None and schema.training_rows:
            known = self._checked(self.training, schema.training_rows, schema, what="the training predictions")
            training = self._against(known, label)
        return {"predictions": _digest(sealed)}, self._against(sealed, label), training, (label,)

    def _of_estimator(self, schema: Schema) -> tuple[dict[str, str], RowFunction, RowFunction, tuple[str, ...] | None]:
        label, estimator = schema.label or "", self.predictions
        named = getattr(estimator, "feature_names_in_", None)
        features = schema.features if named is None else tuple(str(name) for name in named)
        unknown = [name for name in features if name not in schema.columns]
        if unknown:
            raise QueryRejected(
                f"the estimator was fitted on {unknown[0]!r}, which is no column of this holdout; expected some of "
                f"{', '.join(schema.features)}; fit it on those; nothing was charged"
            )
        width = getattr(estimator, "n_features_in_", len(features))
        if width != len(features):
            raise QueryRejected(
                f"the estimator was fitted on {width} features without names and this holdout has {len(features)}; "
                f"expected exactly {', '.join(schema.features)}, in this order; fit it on those, or on a data frame; "
                "nothing was charged"
            )
        if label in features:
            raise QueryRejected(
                f"the estimator was fitted on the label {label!r} itself; expected features only; nothing was charged"
            )
        reads = tuple(dict.fromkeys((*features, label)))

        def values(table: Table) -> NDArray[Any]:
            predicted = self._predict(_matrix(table, features, framed=named is not None))
            checked = self._checked(predicted, len(table[label]), schema, what="the estimator's predictions")
            return self._against(checked, label)(table)

        return {"estimator": _pickled_digest(estimator)}, values, values, reads

    def _predict(self, features: Any) -> Any:
        if self._of_probabilities:
            return np.asarray(self.predictions.predict_proba(features))[:, 1]
        return self.predictions.predict(features)

    def _checked(self, predictions: Any, rows: int, schema: Schema, *, what: str) -> NDArray[Any]:
        array = _plain(same_length(predictions, rows, what=what))
        numeric = array.dtype.kind in "biuf"
        if numeric == (schema.label_kind == "string") or not (numeric or array.dtype.kind == "U"):
            raise QueryRejected(
                f"{what} are of type {array.dtype} and the labels are of kind {schema.label_kind}; expected the same "
                "kind, numbers or text, and none missing; nothing was charged"
            )
        if self._of_probabilities and not bool(np.all((array >= 0) & (array <= 1))):
            raise QueryRejected(f"{what} are not all in [0, 1]; expected probabilities of label 1; nothing was charged")
        return array


@dataclass(frozen=True, slots=True, eq=False)
class PredictionQuery(LabelQuery):
    """The mean of a metric over rows; made by `accuracy`, `error` and `brier`.

    Attributes:
        metric: How a prediction is held against the label.
        predictions: One prediction per sealed row, in the order of the rows, or a fitted estimator.
        training: One prediction per training row, for the guess; an estimator needs none.
        complement: Whether the answer is 1 minus the mean.
    """

    metric: Metric
    predictions: Any
    training: ArrayLike | None = None
    complement: bool = False

    def bind(self, schema: Schema) -> BoundQuery:
        """The question about the labels of this schema."""
        if schema.label is None:
            raise QueryRejected(
                f"{self.metric.value} needs a label column and this holdout has none; expected one named at creation; "
                "create the holdout with label=...; nothing was charged"
            )
        if self.metric is Metric.BRIER and schema.label_kind != "binary":
            raise QueryRejected(
                f"the Brier score needs labels 0 and 1 and column {schema.label!r} was not sealed as such; "
                "ask for accuracy or error instead; nothing was charged"
            )
        description, sealed, training, reads = self._row_values(schema)
        ((kind, digest),) = description.items()
        ends = (1.0, 0.0) if self.complement else (0.0, 1.0)
        return BoundQuery(
            description={"kind": self.metric.value, "label": schema.label, **description},
            shown=f"{self.metric.value} of {kind} {digest[:8]}",
            at_zero=ends[0],
            at_one=ends[1],
            sealed=sealed,
            training=training,
            reads=reads,
            by_position=self._by_position,
        )

    @property
    def _of_probabilities(self) -> bool:
        return self.metric is Metric.BRIER

    def _against(self, predictions: NDArray[Any], label: str) -> RowFunction:
        if self.metric is Metric.BRIER:
            return lambda table: (predictions.astype(np.float64) - table[label]) ** 2
        return lambda table: np.asarray(predictions == table[label])


def _matrix(table: Table, features: tuple[str, ...], *, framed: bool) -> Any:
    """Features as the estimator saw them when it was fitted: a data frame, or a plain matrix."""
    if not framed:
        return np.column_stack([table[name] for name in features])
    import pandas as pd  # the extra [sklearn]; whoever fitted on a data frame has it

    return pd.DataFrame({name: table[name] for name in features}, copy=False)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Objects of one kind as numbers or text; anything else stays what it is, to be refused."""
    if array.dtype.kind not in "OT":
        return array
    items = array.tolist()
    if all(isinstance(item, str) for item in items):
        return np.array(items, dtype=str)
    return np.array(items) if all(isinstance(item, (Real, np.bool_)) for item in items) else array


def _digest(array: NDArray[Any]) -> str:
    """SHA-256 of predictions: equal numbers give equal digests whatever their type."""
    if array.dtype.kind == "U":
        content = "text" + "".join(f"{len(text)}:{text}" for text in array.tolist())
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    numbers = np.ascontiguousarray(array, dtype="<f8") + 0.0  # + 0.0 makes -0.0 the same as 0.0
    digest = hashlib.sha256(b"numbers" + numbers.tobytes())
    if array.dtype.kind in "iu" and bool(np.any(np.abs(numbers) >= 2.0**53)):  # doubles do not tell these apart
        digest.update(np.ascontiguousarray(array, dtype="<i8" if array.dtype.kind == "i" else "<u8").tobytes())
    return digest.hexdigest()


def _pickled_digest(estimator: Any) -> str:
    """Identity of a fitted estimator; one that cannot be pickled by value is a new question."""
    try:
        content = pickle.dumps(estimator, protocol=5)
    except Exception:  # an estimator may raise anything here, and none of it matters
        return secrets.token_hex(32)
    if b"__main__" in content:  # pickled by reference: the class may mean something else the next time
        return secrets.token_hex(32)
    return hashlib.sha256(content).hexdigest()


def accuracy(predictions: Any, *, training: ArrayLike | None = None) -> PredictionQuery:
    """The share of rows whose label is predicted.

    Args:
        predictions: Shape (rows,), one prediction per sealed row in the order of the rows; or a fitted estimator with
            ``predict``, which also makes the training estimate.
        training: Shape (training rows,), predictions for the training rows, for the guess.

    Examples:
        >>> accuracy([1, 0, 1]).metric
        <Metric.ACCURACY: 'accuracy'>
    """
    return PredictionQuery(Metric.ACCURACY, predictions, training)


def error(predictions: Any, *, training: ArrayLike | None = None) -> PredictionQuery:
    """The share of rows whose label is missed: the same question as `accuracy`, answered the other way round.

    Args:
        predictions: As for `accuracy`.
        training: As for `accuracy`.
    """
    return PredictionQuery(Metric.ACCURACY, predictions, training, complement=True)


def brier(probabilities: Any, *, training: ArrayLike | None = None) -> PredictionQuery:
    """The mean squared distance between a probability and a label of 0 or 1.

    Args:
        probabilities: Shape (rows,), probabilities of label 1; or a fitted estimator with ``predict_proba``.
        training: Shape (training rows,), probabilities for the training rows, for the guess.
    """
    return PredictionQuery(Metric.BRIER, probabilities, training)
