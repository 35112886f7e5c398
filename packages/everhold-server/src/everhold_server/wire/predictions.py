"""Wire format of predictions: with their row ids, in the order of the rows, as a rule, or as the name of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.predictions.arrays import PredictionTable, check_lengths, prediction_table
from everhold.queries.predictions.columns import PredictionColumn
from everhold.queries.scalars import a_text, a_truth, refuse
from everhold.values.base import LocatedPredictions

if TYPE_CHECKING:
    from everhold.values.base import Schema

FILE = "file"
"""Names the table that predictions are in; beside it only the column may be named."""

Tables: TypeAlias = Mapping[str, PredictionTable]
"""Tables that travel beside a query, by name."""

_IN_ORDER = "in_order"
_MOST_INLINE = 10_000  # predictions; more are a table of their own

_FORMS = (
    'an object from row ids to predictions such as {"17": 1, "18": 0}, a list in the order of the rows, a rule such as '
    '"dep_delay > 10", or {"file": "NAME"} and a file of that name beside it'
)


def predictions_from(written: Any, schema: Schema, tables: Tables) -> Any:
    """Predictions as a maker of queries takes them.

    Args:
        written: A rule as a text, a list, an object from row ids to predictions, or ``{"file": name}``, with
            ``"column"`` where that table has several, or ``"in_order": true`` where its one column has no ids beside it
            because its rows are in the order of the sealed ones.
        schema: What is known of the rows.
        tables: By name.

    Raises:
        QueryRejected: If they are none of this, or far too many. Nothing is charged.
    """
    if isinstance(written, str):
        return a_text(written, "the rule")
    if isinstance(written, dict) and FILE in written and written.keys() <= {FILE, "column", _IN_ORDER}:
        return _of_file(written, tables)
    if not isinstance(written, (dict, list)):
        refuse(f"the predictions are {brief(written)}", _FORMS)
    most = 2 * schema.rows + schema.training_rows
    if len(written) > most:
        refuse(f"there are {len(written):,} predictions", f"one for each of {schema.rows:,} rows")
    values = list(written.values()) if isinstance(written, dict) else written
    if strange := [value for value in values if isinstance(value, (dict, list))]:
        refuse(f"a prediction is {brief(strange[0])}", _FORMS)
    check_lengths(value for value in values if isinstance(value, str))
    return values if isinstance(written, list) else _by_id(written, values, schema)


def _in_order(table: PredictionTable, sure: bool) -> Any:
    """The one column of a table whose rows are in the order of the sealed ones, as its sender says."""
    if not sure:
        return table
    if len(table.columns) != 1:
        refuse(f"{table.name} has {len(table.columns)} columns", "one, where predictions are in the order of the rows")
    return next(iter(table.columns.values()))


def _of_file(written: Mapping[str, Any], tables: Tables) -> Any:
    name = a_text(written[FILE], "the name of the file")
    if name not in tables:
        sent = ", ".join(map(brief, tables)) or "no file"
        refuse(f"the predictions are in the file {brief(name)}, and {sent} was sent", "a file of that name")
    if written.get(_IN_ORDER) is not None:
        return _in_order(tables[name], a_truth(written[_IN_ORDER], _IN_ORDER))
    if written.get("column") is None:
        return tables[name]
    return replace(tables[name], column=a_text(written["column"], "the column"))


def _by_id(written: Mapping[str, Any], values: list[Any], schema: Schema) -> PredictionTable:
    if schema.row_id is None:
        refuse("the rows of this holdout have no ids", "a list of predictions in the order of the rows")
    numbers = schema.columns[schema.row_id].value == "number"
    ids = [_number(name) for name in written] if numbers else list(written)
    prediction = "prediction" if schema.row_id != "prediction" else "predicted"
    return PredictionTable({schema.row_id: ids, prediction: values}, name="the object of predictions")


def _number(name: str) -> int | float:
    try:
        return int(name) if name.lstrip("-").isdecimal() and len(name) < 20 else float(name)
    except ValueError:
        refuse(f"an id is {brief(name)}", "ids that are numbers, as those of this holdout")


def written_predictions(predictions: Any, tables: dict[str, PredictionTable]) -> Any:
    """The inverse of `predictions_from`: what is written, and tables that travel beside it.

    Raises:
        QueryRejected: If it is an estimator, which does not travel. Nothing is charged.
    """
    if isinstance(predictions, str):
        return predictions
    if hasattr(predictions, "predict"):
        raise QueryRejected(
            "an estimator does not travel: unpacking one runs whatever code is in it, beside the sealed rows; expected "
            "its predictions with their row ids, where features are public, or a rule as a text, such as "
            "accuracy('dep_delay > 10'); or ask where the rows are"
        )
    if isinstance(predictions, PredictionColumn | LocatedPredictions):
        refuse(
            "a column of a file or of an engine's table is read where the rows are",
            "a table with row ids, as a data frame",
        )
    if (table := prediction_table(predictions)) is not None:
        name = f"predictions-{len(tables) + 1}"
        tables[name] = table
        return {FILE: name} if table.column is None else {FILE: name, "column": table.column}
    if np.ndim(predictions) == 0:
        refuse(f"the predictions are {brief(predictions)}", "one for each row, as an array or a table with row ids")
    items = predictions.tolist() if hasattr(predictions, "tolist") else list(predictions)
    if len(items) <= _MOST_INLINE:
        return [_plain(item) for item in items]
    name = f"predictions-{len(tables) + 1}"
    tables[name] = PredictionTable({"prediction": predictions})
    return {FILE: name, _IN_ORDER: True}


def _plain(item: Any) -> Any:
    """A prediction as JSON writes it; what is missing is null."""
    value = item.tolist() if hasattr(item, "tolist") else item
    return None if isinstance(value, float) and not math.isfinite(value) else value
