"""Predictions and labels of all rows, from which metrics of a model are computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.code import behaviour_digest, observed
from everhold.queries.metrics.label_query import LabelQuery, subject_of
from everhold.queries.predictions.arrays import are_no_class, check_classes, check_known, first_of, probabilities
from everhold.sealing.rows.code_trials import sealed_values
from everhold.values.base import BoundQuery, RowFunction, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from everhold.queries.metrics.registry import Outputs
    from everhold.queries.query import CompileContext
    from everhold.sealing.rows.table import StoredRows

_SUM_OF_PROBABILITIES = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRows(LabelQuery):
    """Predictions of all rows in the form that a metric reads.

    Attributes:
        outputs_are: The kind of predictions that the metric reads.
        predictions: Shape (rows,), or (rows, classes) of probabilities of each class in the order in which classes
            were declared; a table with row ids; or a fitted estimator.
        training: The same for the training rows.
        classes: The classes of the label, where they matter.
        positive: The class that counts as label 1; None for label 1 itself.
    """

    outputs_are: Outputs
    predictions: Any
    training: Any = None
    classes: tuple[str | float, ...] | None = None
    positive: Any = None

    @property
    def _of_probabilities(self) -> bool:
        return self.outputs_are == "probability"

    @property
    def _of_numbers(self) -> bool:
        return self.outputs_are != "classes"

    def bind(self, schema: Schema) -> BoundQuery:
        """Return a bound query that identifies the predictions and computes them from a table."""
        known = replace(self, classes=schema.label_classes)
        identity, sealed, training, reads = known._row_values(schema)
        return BoundQuery(
            description=identity, shown=self.outputs_are, sealed=sealed, training=training, reads=reads,
            by_position=self._by_position,
        )  # fmt: skip

    def outputs(self, features: Any) -> Any:
        """See `LabelQuery.outputs`."""
        model = self.predictions
        if self.outputs_are == "probability":
            return probabilities(model, features, self.positive)
        if self.outputs_are == "probabilities":
            return _of_each_class(model, features, self.classes)
        if self.outputs_are == "scores":
            if hasattr(model, "predict_proba"):
                return probabilities(model, features, self.positive)
            if not hasattr(model, "decision_function"):
                said = model.predict(features)
                return said if self.positive is None else np.asarray(said == self.positive, dtype=np.float64)
            found = np.asarray(model.decision_function(features))
            return found if self.positive is None else _of_class(found, model, self.positive)
        return model.predict(features)

    def _checked(self, predictions: Any, rows: int, schema: Schema, *, what: str) -> NDArray[Any]:
        if self.outputs_are == "probabilities":
            return _distributions(predictions, rows, schema, what=what)
        array = LabelQuery._checked(self, predictions, rows, schema, what=what)
        if self.outputs_are in ("scores", "numbers") and not bool(np.all(np.isfinite(array))):
            raise QueryRejected(
                f"{what} are not all finite{first_of(~np.isfinite(array))}. Pass a number for each row."
            )
        return array

    def _check(self, predictions: NDArray[Any], schema: Schema, *, what: str) -> None:
        if self.outputs_are == "classes" and not self._says_positive(predictions):
            check_classes(predictions, schema, what=what)

    def _fails(self, predictions: NDArray[Any], schema: Schema) -> NDArray[np.bool_]:
        if self.outputs_are == "classes" and not self._says_positive(predictions):
            return are_no_class(predictions, schema)
        return LabelQuery._fails(self, predictions, schema)

    def coded(self, predictions: NDArray[Any]) -> NDArray[np.float64]:
        """Return checked predictions as metrics read them: numbers of classes, or the numbers themselves."""
        if self.outputs_are != "classes":
            return np.asarray(predictions, dtype=np.float64)
        if self._says_positive(predictions):
            return predictions.astype(np.float64)
        codes = codes_of(predictions, self.classes or ())
        if self.positive is not None:
            codes = np.where(codes < 0.0, codes, np.asarray(predictions) == self.positive)
        return np.where(codes < 0.0, np.nan, codes)

    def _row_function(self, predictions: NDArray[Any], label: str) -> RowFunction:
        numbers = self.coded(predictions)
        return lambda table: numbers

    _against = _row_function

    def _of_failing(self, labels: NDArray[Any]) -> NDArray[Any]:
        width = (len(self.classes or ()),) if self.outputs_are == "probabilities" else ()
        return np.full((len(labels), *width), np.nan)


def codes_of(values: NDArray[Any], classes: tuple[str | float, ...]) -> NDArray[np.float64]:
    """Return the number of each value's class, from 0, or -1 for a value that is no class.

    Examples:
        >>> codes_of(np.array(["b", "a", "z"]), ("a", "b")).tolist()
        [1.0, 0.0, -1.0]
    """
    numbers = {name: float(place) for place, name in enumerate(classes)}
    return np.array([numbers.get(value, -1.0) for value in np.asarray(values).tolist()], dtype=np.float64)


def _of_class(found: NDArray[Any], model: Any, positive: Any) -> NDArray[Any]:
    """Return the decision values for one class, from those of all classes or of two.

    Raises:
        QueryRejected: If the model does not know it. Nothing is charged.
    """
    classes = np.asarray(getattr(model, "classes_", ())).tolist()
    if positive not in classes:
        raise QueryRejected(
            f"The model knows the classes {classes!r:.200}, and {positive!r} is none of them. Fit it on rows of this "
            "class."
        )
    if found.ndim == 1:
        return found if classes.index(positive) == 1 else -found
    return np.asarray(found[:, classes.index(positive)])


def _of_each_class(model: Any, features: Any, classes: tuple[str | float, ...] | None) -> NDArray[Any]:
    """Return probabilities in the order of the classes, 0 for a class that the model does not know.

    Raises:
        QueryRejected: If the model knows other classes. Nothing is charged.
    """
    found, own = np.asarray(model.predict_proba(features)), np.asarray(getattr(model, "classes_", ()))
    places = codes_of(own, classes or ()).astype(np.int64)
    if found.ndim != 2 or found.shape[1] != len(places) or bool(np.any(places < 0)):
        raise QueryRejected(
            f"The estimator gives probabilities of the shape {found.shape}, which do not match the classes of the "
            "label. Pass one whose classes_ are classes of the label, with one column for each."
        )
    ordered = np.zeros((len(found), len(classes or ())))
    ordered[:, places] = found
    return ordered


def _distributions(predictions: Any, rows: int, schema: Schema, *, what: str) -> NDArray[np.float64]:
    """Check and return probabilities of each class, shape (rows, classes)."""
    check_known(schema)
    count = len(schema.label_classes or ())
    try:
        array = np.asarray(predictions, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim == 1 and count == 2 and len(array) == rows:
        array = np.column_stack([1.0 - array, array])
    if array.shape != (rows, count):
        raise QueryRejected(
            f"{what} have the shape {array.shape}. Pass the shape ({rows}, {count}), a probability of each class in "
            f"the order {list(schema.label_classes or ())!r:.200}."
        )
    right = np.all((array >= 0.0) & (array <= 1.0), axis=1)
    if (wrong := ~(right & (np.abs(array.sum(axis=1) - 1.0) <= _SUM_OF_PROBABILITIES))).any():
        raise QueryRejected(
            f"{what} do not add up to 1 in each row{first_of(wrong)}. Pass a probability from 0 to 1 for each class."
        )
    return array


@dataclass(frozen=True, slots=True)
class BoundRows:
    """Predictions bound to the rows of one holdout.

    Attributes:
        bound: Identity, and functions from a table to predictions.
        width: Shape of the prediction of one row.
    """

    bound: BoundQuery
    names: tuple[str, ...]
    described: Mapping[str, Any]
    label: str
    width: tuple[int, ...]

    @classmethod
    def of(cls, rows: ScoredRows, compiler: CompileContext) -> BoundRows:
        """Bind predictions to the rows of one holdout. An estimator is first tried on public rows."""
        schema = compiler.schema
        placed = rows.placed(compiler)
        bound = placed.bind(schema)
        names = tuple(schema.asked) if bound.reads is None else bound.reads
        if (function := bound.sealed) is None:
            raise TypeError("The predictions have no values of single rows to compare with labels.")
        told = {} if rows.positive is None else {"positive": rows.positive}
        described = {"label": schema.label, **told, **bound.description, **dict(schema.about)}
        if hasattr(rows.predictions, "predict"):
            outputs, _ = observed(function, names, compiler)
            described["on_public_rows"] = behaviour_digest(outputs)
        width = (len(schema.label_classes or ()),) if rows.outputs_are == "probabilities" else ()
        return cls(bound, names, described, schema.label or "", width)

    def whose(self, predictions: Any) -> str:
        """Return a name of the predictions for messages."""
        ((kind, digest),) = self.bound.description.items()
        return subject_of(predictions, kind, digest)

    def sealed(self, rows: StoredRows) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return predictions, nan where an estimator fails, and labels of the sealed rows. Secret."""
        assert self.bound.sealed is not None
        if self.bound.by_position:
            found = sealed_values(self.bound.sealed, rows.table(self.names), rows.rows, self.width)
        else:
            found = rows.code.values(self.bound.sealed, self.names, self.width)
        return np.asarray(found, dtype=np.float64), rows.table((self.label,))[self.label]

    def public(self) -> NDArray[np.float64] | None:
        """Return the predictions for sealed rows if they were handed in as an array, or None for an estimator."""
        if not self.bound.by_position or self.bound.sealed is None:
            return None
        return np.asarray(self.bound.sealed({}), dtype=np.float64)

    def open(self, training: StoredRows | None) -> tuple[NDArray[np.float64], NDArray[Any]] | None:
        """Return predictions and labels of the training rows, or None if they are unknown."""
        if self.bound.training is None or training is None:
            return None
        table = training.table(self.names)
        found = sealed_values(self.bound.training, table, training.rows, self.width)
        return np.asarray(found, dtype=np.float64), training.table((self.label,))[self.label]
