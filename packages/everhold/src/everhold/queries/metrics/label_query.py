"""Queries that compare predictions with labels: arrays, tables, fitted estimators, and predictions in an engine."""

from __future__ import annotations

import hashlib
import secrets
import sys
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.code import content_digest
from everhold.queries.means.mean import in_one_line, parsed
from everhold.queries.predictions import arrays
from everhold.queries.predictions.columns import Placed, PredictionColumn
from everhold.queries.query import CompileContext, RowwiseQuery
from everhold.sealing.rows.code_trials import EstimatedValues
from everhold.values.base import (
    BoundQuery,
    GivenValues,
    Joined,
    JoinedColumn,
    LocatedPredictions,
    RowFunction,
    Schema,
    Table,
    same_length,
)
from everhold.values.expressions import ColumnKind, Expression, RowValue
from everhold.values.expressions.tree import Node, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from everhold.queries.metrics.registry import Outputs
    from everhold.sealing.rows.table import StoredRows

ESTIMATOR = "estimator"
"""Field of a query's description with the digest of a fitted estimator; other predictions belong to rows by place."""

_LONGEST_MODEL = 80  # characters of what an estimator shows of itself


class LabelQuery(RowwiseQuery):
    """A query that compares predictions with the label row by row.

    Attributes:
        predictions: One prediction per sealed row, in the order of the rows; a table of predictions with row ids; a
            fitted estimator; or, for accuracy, error and the Brier score, a rule.
        training: Predictions for the training rows, from which the guess is made. For an estimator, these are
            cross-validated predictions, or by default its own predictions. A rule needs none.
        outputs_are: The form of the predictions that are compared with labels.
        title: The metric as people read it.
        positive: The class that counts as label 1 if it is not label 1 itself. All other classes count as label 0.
        yes_no: True if every row value is 0 or 1.
    """

    __slots__ = ()

    predictions: Any
    training: Any
    outputs_are: Outputs
    title: str
    positive: Any = None
    _at_fault: ClassVar[float] = 0.0
    _bounded: ClassVar[bool] = True  # whether predictions are valid for every row; numbers can be infinite
    yes_no: ClassVar[bool] = False

    def bind(self, schema: Schema) -> BoundQuery:
        """Return the bound query about the labels of this schema."""
        self._check_labels(schema)
        (at_zero, at_one), told, named = self._ends(schema), {}, self.title
        if self.positive is not None:
            self.check_positive(schema)
            told, named = {"positive": self.positive}, f"{named} of {brief(self.positive)} against the rest,"
        common: dict[str, Any] = {
            "at_zero": at_zero, "at_one": at_one, "at_fault": self._at_fault, "yes_no": self.yes_no,
        }  # fmt: skip
        if isinstance(self.predictions, str) and (row_value := self._of_rule(self.predictions, schema)) is not None:
            described = {**self._identity(schema), "label": schema.label, **told}
            return BoundQuery(
                {**described, "rule": row_value.expression.canonical()},
                f"{named} of the rule {in_one_line(self.predictions)}", row_value=row_value, **common,
            )  # fmt: skip
        predictions, sealed, training, reads = self._row_values(schema)
        if training is not None and training is not sealed:
            training = self._training_values(training, schema)
        ((kind, digest),) = predictions.items()
        return BoundQuery(
            {**self._identity(schema), "label": schema.label, **told, **predictions},
            f"{named} of {subject_of(self.predictions, kind, digest)}", sealed=sealed, training=training,
            reads=reads, by_position=kind != ESTIMATOR, **common,
        )  # fmt: skip

    def _check_labels(self, schema: Schema) -> None:
        """Raise QueryRejected if the query does not suit the label column. By default no column is refused."""

    def check_positive(self, schema: Schema) -> None:
        """Check that the label has the positive class."""
        classes, positive = schema.label_classes, self.positive
        if positive is not None and (not classes or positive not in classes):
            known = (
                f"Pass one of {', '.join(map(repr, classes))}." if classes else "Create the holdout with classes=[...]."
            )
            raise QueryRejected(f"pos_label is {brief(positive)}, which is no class of {schema.label!r}. {known}")

    def _identity(self, schema: Schema) -> dict[str, Any]:
        """Return the description of the row value, without label and predictions."""
        raise NotImplementedError

    def _ends(self, schema: Schema) -> tuple[float, float]:
        """Return the analyst's numbers for row values of 0 and 1."""
        return 0.0, 1.0

    def _of_rule(self, text: str, schema: Schema) -> RowValue | None:
        """Return the row values of a rule, or None if this query takes no rules."""
        return None

    def _training_values(self, training: RowFunction, schema: Schema) -> RowFunction:
        """Return the row function for predictions of training rows. It checks the row values where this is needed."""
        return training

    def _label_node(self, schema: Schema) -> Node:
        """Return the node of the label, or of 1 for the positive class and 0 for the rest."""
        label = as_number(label_column(schema))
        return label if self.positive is None else one_if(label, self.positive)

    def judge(self, predictions: NDArray[Any], table: Table, schema: Schema) -> NDArray[Any]:
        """Return the row values of checked predictions for the rows of a table, which has the column of labels.

        With a positive class, labels and classes are read as 1 and 0.
        """
        labels = table[schema.label or ""]
        if self.positive is not None:
            labels = self._two_classes(labels)
            if self.outputs_are == "classes":
                predictions = self.says_positive(predictions) * 1.0
        return self._against(predictions, labels)

    def says_positive(self, predictions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for each of checked predictions of classes whether it is the positive class."""
        if self._are_truth_values(predictions):
            return predictions
        return np.asarray(predictions == (1 if self.positive is None else self.positive))

    def _are_truth_values(self, predictions: NDArray[Any]) -> bool:
        """Return whether predictions are truth values that say which rows are of the positive class.

        If this class is 0 or 1, truth values are these two classes, as they are in scikit-learn.
        """
        return predictions.dtype.kind == "b" and self.positive not in (None, 0, 1)

    def _two_classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return labels unchanged, or with a positive class as 1 for this class and 0 for all others."""
        return labels if self.positive is None else (np.asarray(labels) == self.positive).astype(np.float64)

    def bound_to(self, compiler: CompileContext, *, part: bool = False) -> BoundQuery:
        """Return the query bound to the holdout's rows, with predictions in the order of these rows."""
        bound = compiler.checked(self.placed(compiler).bind(compiler.schema), part=part)
        if isinstance(self.predictions, str) and compiler.training is not None:
            self._check_rule(self.predictions, compiler.schema, compiler.training)
        return bound

    def _check_rule(self, text: str, schema: Schema, training: StoredRows) -> None:
        """Check that a rule gives values on the training rows that are possible predictions for this metric."""
        given = as_number(rule_root(text, schema))
        possible, fault, advice = self.meant(given, schema)
        known = Node.of(Operation.NOT, Node.of(Operation.IS_NULL, given))
        wrong = Node.of(Operation.AND, known, Node.of(Operation.NOT, possible))
        test = BoundQuery({}, "", row_value=RowValue(Expression(wrong)), yes_no=True)
        if count := int(training.counting(test).totals([test], unit=1)[0, 0]):
            raise QueryRejected(
                f"The rule {brief(text)} gives values that {fault}, in {count:,} of {training.rows:,} training rows. "
                f"{advice}"
            )

    def placed(self, compiler: CompileContext) -> Self:
        """Return the query with tables and columns of predictions put in the order of the rows.

        Raises:
            QueryRejected: If the row ids of the predictions are not those of the rows. Nothing is charged.
        """
        schema, sealed, training, query = compiler.schema, compiler.sealed, compiler.training, self
        for given in (self.predictions, self.training):
            if isinstance(given, LocatedPredictions):
                (query,) = given.located([self], sealed, schema)
        ids = tuple if sealed is None or schema.row_id is None else partial(sealed.row_ids, schema.row_id)
        check = partial(query.checked, schema=schema)
        changes = {
            "predictions": _in_order(query.predictions, schema, ids, check, rows_are="sealed", span=compiler.span)
        }
        if training is not None:
            ids = tuple if schema.row_id is None else partial(training.row_ids, schema.row_id)
            check = partial(check, what="The training predictions")
            changes["training"] = _in_order(query.training, schema, ids, check, rows_are="training")
        placed: Self = replace(query, **changes)  # type: ignore[type-var]  # all of its kinds are dataclasses
        return placed

    def _against(self, predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        """Return the row values of checked predictions, given the labels of their rows."""
        raise NotImplementedError

    def _of_failing(self, labels: NDArray[Any], schema: Schema) -> NDArray[Any]:
        """Return the row values of rows on which the model fails, given their labels.

        By default it is the worst value.
        """
        return np.full(len(labels), self._at_fault)

    def _row_values(
        self, schema: Schema
    ) -> tuple[dict[str, str], RowFunction, RowFunction | None, tuple[str, ...] | None]:
        """Return the identity of predictions, the row functions for sealed and training rows, and columns read."""
        if isinstance(self.predictions, str):
            raise QueryRejected(
                f"The predictions are the text {brief(self.predictions)}, and this metric takes no rules. Pass an "
                "array, a table with row ids, or a fitted estimator."
            )
        if isinstance(self.predictions, type):
            raise QueryRejected(
                f"The predictions are the class {self.predictions.__name__}. Pass a fitted estimator, or predictions."
            )
        if not hasattr(self.predictions, "predict") and (
            callable(self.predictions) or hasattr(self.predictions, "predict_proba")
        ):
            raise QueryRejected(
                f"The predictions are a {type(self.predictions).__name__} without the method predict. Pass a fitted "
                "estimator that has it, or one prediction for each row."
            )
        label, given = schema.label or "", self.predictions
        sealed: RowFunction
        own: RowFunction | None = None
        reads: tuple[str, ...] = (label,)
        if isinstance(given, JoinedColumn):
            prediction = prediction_node(given)
            if self.positive is not None and self.outputs_are == "classes":
                prediction = one_if(prediction, self.positive)
            value = self.in_engine(prediction, self._label_node(schema), schema)
            if value is None:
                raise QueryRejected(
                    f"The predictions in {given.name!r} stay in a table of the engine, which cannot compute this "
                    "metric. Ask for accuracy, error, brier, precision, recall or risk with a loss by name, or pass "
                    "predictions_in(path, row_id=...)."
                )
            identity, sealed = {"joined": given.digest}, Joined(given, value)
        elif hasattr(given, "predict"):
            features = self._features(schema)
            content = content_digest(given) or secrets.token_hex(32)  # what cannot be told is a new query
            source = (content, self.outputs_are, self.positive)
            sealed = own = ModelValues(source, features, self._bounded, self, schema)
            identity, reads = {ESTIMATOR: content}, tuple(dict.fromkeys((*features, label)))
        else:
            checked, sealed = self._given(given, schema.rows, schema, what="The predictions")
            identity = {"predictions": _digest(checked)}
        if self.training is None or not schema.training_rows:
            return identity, sealed, own, reads
        _, training = self._given(self.training, schema.training_rows, schema, what="The training predictions")
        return identity, sealed, training, reads

    def in_engine(self, prediction: Node, label: Node, schema: Schema) -> RowValue | None:
        """Return an expression for the row values of predictions that stay in the engine, or None.

        Args:
            prediction: A number or a text, never missing.
            label: A number or a text, with truth values as numbers.
            schema: The public facts about the rows.
        """
        return None

    def meant(self, prediction: Node, schema: Schema) -> tuple[Node, str, str]:
        """Return a condition that valid predictions in the engine meet, and two texts for an error message.

        Returns:
            The condition, what is wrong with other predictions, and what to pass.
        """
        expected, advice = arrays.known_classes(schema)
        said = "are no labels", f"{expected} {advice}"
        if schema.label_classes is not None:
            return Node.of(Operation.MEMBER, prediction, *map(Node.literal, schema.label_classes)), *said
        if prediction.kind is ColumnKind.STRING:
            return Node.of(Operation.EQUAL, prediction, prediction), *said
        whole = Node.of(Operation.EQUAL, prediction, Node.of(Operation.FLOOR, prediction))
        return Node.of(Operation.AND, whole, finite(prediction)), *said

    def _given(
        self, predictions: Any, rows: int, schema: Schema, *, what: str
    ) -> tuple[NDArray[Any], RowFunction]:  # fmt: skip
        """Return predictions after all checks, with their row function, which leaves stored predictions on disk."""
        checked = self.checked(predictions, schema, rows=rows, what=what)
        alone: LabelQuery = replace(self, predictions=None, training=None)  # type: ignore[type-var]  # a dataclass
        judge = partial(alone.judge, schema=schema)
        if isinstance(predictions, Placed):
            return checked, predictions.until_asked(checked, judge)
        return checked, GivenValues(checked, judge)

    def _features(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that the fitted estimator reads, after checking that the holdout has them."""
        named = getattr(self.predictions, "feature_names_in_", None)
        features = schema.features if named is None else tuple(str(name) for name in named)
        if unknown := [name for name in features if name not in schema.asked]:
            raise QueryRejected(
                f"The estimator was fitted on {unknown[0]!r}, which is no column of this holdout. Fit it on some of "
                f"{', '.join(schema.features)}."
            )
        width = getattr(self.predictions, "n_features_in_", len(features))
        if width != len(features):
            raise QueryRejected(
                f"The estimator was fitted on {width} features without names, and this holdout has {len(features)}. "
                f"Fit it on {', '.join(schema.features)}, in this order, or on a data frame."
            )
        if schema.label in features:
            raise QueryRejected(
                f"The estimator was fitted on the label {schema.label!r} itself. Fit it on features only."
            )
        return features

    def outputs(self, features: Any, classes: Sequence[str | float] | None = None) -> Any:
        """Return the estimator's outputs to compare with labels: classes, probabilities, scores or numbers.

        Args:
            features: Features of the rows, as the estimator takes them.
            classes: Classes of the label in their order, for probabilities of each class.
        """
        model, positive = self.predictions, self.positive
        if self.outputs_are in ("probability", "probabilities") and not hasattr(model, "predict_proba"):
            raise QueryRejected(
                f"The metric takes probabilities, and a {type(model).__name__} has no method predict_proba. Pass an "
                "estimator that has it, such as one in CalibratedClassifierCV, or probabilities of all rows."
            )
        if self.outputs_are == "probabilities":
            return _of_each_class(model, features, tuple(classes or ()))
        if self.outputs_are == "probability" or (self.outputs_are == "scores" and hasattr(model, "predict_proba")):
            return arrays.probabilities(model, features, positive)
        if self.outputs_are != "scores":
            return model.predict(features)
        if hasattr(model, "decision_function"):
            found = np.asarray(model.decision_function(features))
            return found if positive is None else _of_class(found, model, positive)
        said = model.predict(features)
        return said if positive is None else np.asarray(said == positive, dtype=np.float64)

    def score_of(self, outputs: NDArray[Any], labels: NDArray[Any], schema: Schema) -> float:
        """Compute the metric on training rows, in its own units.

        Args:
            outputs: Predictions, shape (rows,).
            labels: Labels of the training rows, of shape (rows,).
            schema: The public facts about the holdout's rows.
        """
        asked: LabelQuery = replace(self, predictions=outputs, training=None)  # type: ignore[type-var]  # a dataclass
        bound = asked.bind(replace(schema, rows=len(outputs), training_rows=0))
        assert bound.sealed is not None
        values = np.asarray(bound.sealed({schema.label or "": labels}), dtype=np.float64)
        return bound.from_mean(float(np.mean(np.clip(values, 0.0, 1.0))))

    def checked(
        self, predictions: Any, schema: Schema, *, rows: int | None = None, what: str = "The predictions",
        known: bool = True,
    ) -> NDArray[Any]:  # fmt: skip
        """Return predictions as an array of numbers or texts, after checking that there is one for each row.

        Args:
            predictions: The predictions, or a column of a file, which messages then name.
            schema: The public facts about the rows.
            rows: Number of rows that the predictions are for; by default as many as there are predictions, which are
                then in the order in which they were handed in, so that a message names the row of a file.
            what: Name of the predictions in messages.
            known: False to let classes pass that the label does not have, as for sealed rows.

        Raises:
            QueryRejected: If a prediction is not a possible value for this metric. Nothing is charged.
        """
        if isinstance(predictions, Placed):
            predictions, what = predictions.values, predictions.what
        if isinstance(predictions, arrays.PredictionTable):
            raise TypeError("The table of predictions was not put in the order of the rows.")
        rows = len(predictions) if rows is None else rows
        if self.outputs_are == "probabilities":
            return _distributions(predictions, rows, schema, what=what)
        missing = int(np.count_nonzero(np.ma.getmaskarray(predictions))) if np.ma.isMaskedArray(predictions) else 0
        texts = sum(isinstance(item, str) for item in predictions) if isinstance(predictions, (list, tuple)) else 0
        if missing or 0 < texts < len(predictions):  # NumPy would turn all of them into texts
            fault = f"{what} lack {missing:,} rows" if missing else f"{what} mix texts with other values"
            raise QueryRejected(f"{fault}. Pass one prediction for each row, all of one type.")
        array = same_length(predictions, rows, what=what)
        if array.dtype.kind in "OT":  # objects of one kind become numbers or texts
            items = array.tolist()
            if all(isinstance(item, str) for item in items):
                arrays.check_lengths(items)
                array = np.array(items, dtype=str)
            elif all(isinstance(item, (Real, np.bool_)) for item in items):
                array = np.array(items)
        numeric, of_classes = array.dtype.kind in "biuf", self.outputs_are == "classes"
        if of_classes and self._are_truth_values(array):
            return array
        text_wanted = schema.label_kind == "string" and (of_classes or self.positive is None)
        if numeric == text_wanted or not (numeric or array.dtype.kind == "U"):
            others = {"U": "texts", "O": "of mixed types, or some are missing"}.get(array.dtype.kind)
            given = "numbers" if numeric else others or f"of type {array.dtype}"
            kinds = {"string": ("texts", "a text"), "binary": ("0 and 1", "0 or 1")}
            labels, one = kinds.get(schema.label_kind or "", ("numbers", "a number"))
            if not text_wanted and not of_classes:
                one = "a probability" if self.outputs_are == "probability" else "a number"
            raise QueryRejected(f"{what} are {given}, and the labels are {labels}. Pass {one} for each row.")
        if self.outputs_are == "probability" and (wrong := ~((array >= 0) & (array <= 1))).any():
            first = arrays.first_of(wrong, array)
            raise QueryRejected(f"{what} are not all in [0, 1]: {first}. Pass probabilities of label 1.")
        if self.outputs_are in ("scores", "numbers") and (wrong := ~np.isfinite(array)).any():
            raise QueryRejected(
                f"{what} are not all finite: {arrays.first_of(wrong, array)}. Pass a number for each row."
            )
        if of_classes and known:
            arrays.check_classes(array, schema, what=what)
        return array


@dataclass(frozen=True, slots=True)
class ModelValues(EstimatedValues):
    """Function from a table to the row values of a fitted estimator.

    Attributes:
        query: The query, with the estimator as its predictions.
        schema: Public facts about the rows.
    """

    query: LabelQuery
    schema: Schema

    def predict(self, table: Table, *, public: bool = False) -> NDArray[Any]:
        """Return one prediction for each row of a table. Classes are checked if the rows are public."""
        framed = getattr(self.query.predictions, "feature_names_in_", None) is not None
        rows = matrix_of(table, self.features, self.schema, framed=framed)
        try:
            predicted = self.query.outputs(rows, self.schema.label_classes)
        except Exception as fault:
            note_texts(fault, rows)
            raise
        count, what = len(table[self.schema.label or ""]), "The estimator's predictions"
        return self.query.checked(predicted, self.schema, rows=count, what=what, known=public)

    def judge(self, predictions: NDArray[Any], table: Table) -> NDArray[Any]:
        """Return the row values of predictions, compared with the labels in their table."""
        return self.query.judge(predictions, table, self.schema)

    def fails(self, predictions: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which predictions cannot be compared with labels, such as a class that the label does not have."""
        if self.query.outputs_are == "classes" and not self.query._are_truth_values(predictions):
            return arrays.are_no_class(predictions, self.schema)
        return np.zeros(len(predictions), dtype=bool)

    def failing(self, table: Table) -> NDArray[Any]:
        """Return the row values of rows on which the estimator fails."""
        return self.query._of_failing(self.query._two_classes(table[self.schema.label or ""]), self.schema)


def passed_predictions(bound: BoundQuery) -> NDArray[Any] | None:
    """Return the checked predictions that were passed for the sealed rows, or None for an estimator or a rule.

    Raises:
        QueryRejected: If the predictions are in a table of the engine. Nothing is charged.
    """
    if isinstance(bound.sealed, Joined):
        raise QueryRejected(
            "The predictions stay in a table of the engine, and gates and comparisons of outcomes need the prediction "
            "for each row. Pass an array, a table with row ids, or predictions_in(path, row_id=...)."
        )
    return bound.predictions


_SUM_OF_PROBABILITIES = 1e-3


def _of_class(found: NDArray[Any], model: Any, positive: Any) -> NDArray[Any]:
    """Return decision values for one class, from those of all classes or of two classes.

    Raises:
        QueryRejected: If the model does not know the class. Nothing is charged.
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


def codes_of(values: NDArray[Any], classes: Sequence[str | float]) -> NDArray[np.float64]:
    """Return the number of each value's class, counted from 0, or -1 for a value that is no class.

    Examples:
        >>> codes_of(np.array(["b", "a", "z"]), ("a", "b")).tolist()
        [1.0, 0.0, -1.0]
    """
    numbers = {name: float(place) for place, name in enumerate(classes)}
    return np.array([numbers.get(value, -1.0) for value in np.asarray(values).tolist()], dtype=np.float64)


def _of_each_class(model: Any, features: Any, classes: Sequence[str | float]) -> NDArray[Any]:
    """Return probabilities in the order of the classes, 0 for a class that the model does not know.

    Raises:
        QueryRejected: If the model knows classes that the label does not have. Nothing is charged.
    """
    found, own = np.asarray(model.predict_proba(features)), np.asarray(getattr(model, "classes_", ()))
    places = codes_of(own, classes).astype(np.int64)
    if found.ndim != 2 or found.shape[1] != len(places) or bool(np.any(places < 0)):
        raise QueryRejected(
            f"The estimator gives probabilities of the shape {found.shape}, which do not match the classes of the "
            "label. Pass one whose classes_ are classes of the label, with one column for each."
        )
    ordered = np.zeros((len(found), len(classes)))
    ordered[:, places] = found
    return ordered


def _distributions(predictions: Any, rows: int, schema: Schema, *, what: str) -> NDArray[np.float64]:
    """Return probabilities of all classes, shape (rows, classes), after checking the predictions."""
    arrays.check_known(schema)
    count = len(schema.label_classes or ())
    try:
        array = np.asarray(predictions, dtype=np.float64)
    except (TypeError, ValueError):
        raise QueryRejected(
            f"{what} are not a table of numbers. Pass a probability of each class for each row."
        ) from None
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
            f"{what} do not add up to 1 in each row: {arrays.first_of(wrong, array)}. Pass a probability from 0 to 1 "
            "for each class."
        )
    return array


def _in_order(
    predictions: Any, schema: Schema, ids: Callable[[], Sequence[Any]], check: Callable[..., object], *, rows_are: str,
    span: arrays.RowSpan | None = None,
) -> Any:  # fmt: skip
    if isinstance(predictions, PredictionColumn):
        return predictions.placed(schema, ids(), rows_are=rows_are, span=span, check=check)
    table, others = arrays.prediction_table(predictions), tuple if span is None else span.ids
    if table is not None:
        predictions = table.in_order(
            schema.row_id, ids(), rows_are=rows_are, others=others, numbers=schema.label_kind != "string",
            check=check,
        )  # fmt: skip
    return predictions if span is None else span.cut(predictions)


def matrix_of(table: Table, features: tuple[str, ...], schema: Schema, *, framed: bool) -> Any:
    """Return features in the form in which the estimator was fitted: a data frame or a plain matrix.

    The features are a pandas data frame if ``framed`` is True, else a matrix.
    """
    if not framed:
        return np.column_stack([table[name] for name in features])
    import pandas as pd  # the extra [sklearn]; needed to fit on a data frame

    columns: dict[str, Any] = {
        name: pd.Categorical(table[name], categories=list(schema.categories[name]))
        if name in schema.categories
        else table[name]
        for name in features
    }
    return pd.DataFrame(columns, copy=False)


def note_texts(fault: Exception, rows: Any) -> None:
    """Add a note to an estimator's error if columns of its data frame hold texts, which it may not support."""
    kinds: Any = getattr(getattr(rows, "dtypes", None), "items", dict)()
    if texts := [name for name, kind in kinds if kind.kind == "O" and kind.name != "category"]:
        fault.add_note(
            f"These columns hold texts: {', '.join(texts)}. Leave them out with features=..., or create the holdout "
            f"with rows=eh.Rows(categories={texts}) if the estimator needs categories."
        )


_NAMES: ContextVar[Mapping[int, str]] = ContextVar("names of models", default={})  # noqa: B039  # never changed


@contextmanager
def naming(models: Sequence[Any], facts: Sequence[Any] | None) -> Iterator[None]:
    """Return a context in which queries about the models are shown with the names that the analyst gave them.

    Args:
        models: The models, as the analyst handed them in.
        facts: Facts about each model that a tracker such as MLflow knows, as `tracked` returns them, or None.
    """
    named = zip(models, facts or (), strict=False)
    token = _NAMES.set({id(model): known["name"][:_LONGEST_MODEL] for model, known in named if "name" in known})
    try:
        yield
    finally:
        _NAMES.reset(token)


def subject_of(predictions: Any, kind: str, digest: str) -> str:
    """Return the subject of a query for people: a model's name or class and parameters, and the digest's start."""
    if (given := _NAMES.get().get(id(predictions))) is not None:
        return f"{given} {digest[:8]}"
    if isinstance(predictions, JoinedColumn):
        return f"{predictions.name!r} of {predictions.table.name!r}, predictions {digest[:8]}"
    if kind != ESTIMATOR:
        return f"{kind} {digest[:8]}"
    name = shown = type(predictions).__name__
    if hasattr(predictions, "get_params"):
        with suppress(Exception):  # a model of one's own may fail to show itself
            shown = " ".join(repr(predictions).split())
    if not shown.startswith(f"{name}("):
        shown = name
    elif len(shown) > _LONGEST_MODEL:
        shown = f"{shown[:_LONGEST_MODEL]}..."
    return f"{shown.removesuffix('()')} {digest[:8]}"


def _digest(array: NDArray[Any]) -> str:
    """Return the SHA-256 of predictions. Equal numbers have the same digest, whatever their types."""
    if array.dtype.kind == "U":
        content = "text" + "".join(f"{len(text)}:{text}" for text in array.tolist())
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    with np.errstate(invalid="ignore"):  # of numbers that fit no byte something is made, which is not equal to them
        small = array.astype(np.int8)
    if np.array_equal(small, array):  # whole numbers of a byte each are faster to hash
        return hashlib.sha256(b"bytes" + small.tobytes()).hexdigest()
    numbers = np.array(array, dtype="<f8", order="C")
    numbers += 0.0  # makes -0.0 the same as 0.0
    digest = hashlib.sha256(b"numbers")
    digest.update(numbers.data)
    if array.dtype.kind in "iu" and numbers.size and max(-numbers.min(), numbers.max()) >= 2.0**53:
        whole = np.ascontiguousarray(array, dtype="<i8" if array.dtype.kind == "i" else "<u8")
        digest.update(whole.data)  # doubles do not tell these apart
    return digest.hexdigest()


# Rules as models: expressions over features that predict the label, compared with it row by row.
#
# It is the one kind of model that can be taken from a stranger whatever the features are: it runs no code, and whoever
# wrote it need not have seen a single sealed row.

ZERO, ONE = Node.literal(0.0), Node.literal(1.0)


def one_if(node: Node, value: str | float) -> Node:
    """Return the node that is 1 where another node has a value, and 0 elsewhere."""
    return Node.of(Operation.CASE, Node.of(Operation.EQUAL, node, Node.literal(value)), ONE, ZERO)


def as_number(node: Node) -> Node:
    """Return a condition as a node that is 1 or 0, and any other node unchanged."""
    return Node.of(Operation.CASE, node, ONE, ZERO) if node.kind is ColumnKind.BOOLEAN else node


def prediction_node(column: JoinedColumn) -> Node:
    """Return the expression of a prediction that is joined in the engine, as a text or a number."""
    kind = ColumnKind.STRING if column.kind is ColumnKind.STRING else ColumnKind.NUMBER
    return Node(Operation.COLUMN, kind, value=column.alias)


def finite(node: Node) -> Node:
    """Return the condition that a number is neither missing nor infinite."""
    return between(node, -sys.float_info.max, sys.float_info.max)


def between(node: Node, low: float, high: float) -> Node:
    """Return the condition that a number lies in a range and is not missing."""
    below, above = (Node.of(Operation.LESS, *pair) for pair in ((node, Node.literal(low)), (Node.literal(high), node)))
    return Node.of(Operation.AND, Node.of(Operation.NOT, below), Node.of(Operation.NOT, above))


def rule_root(text: str, schema: Schema) -> Node:
    """Return the root node of a rule, after checking that the rule does not read the label."""
    expression = parsed(text, schema)
    if schema.label in expression.columns():
        raise QueryRejected(
            f"The rule {brief(text)} reads {schema.label!r}, the label that it has to predict. Write a rule over other "
            "columns, or ask about the label as a query."
        )
    return expression.root


def label_column(schema: Schema) -> Node:
    """Return the node of the label column."""
    assert schema.label is not None
    return Node(Operation.COLUMN, schema.columns[schema.label], value=schema.label)
