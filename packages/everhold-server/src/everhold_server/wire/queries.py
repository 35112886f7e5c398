"""Writes queries as JSON, and reads and writes the predictions and results of cases in requests.

A query is a text, or an object with its kind, its subject and its details. The form follows from the registry in
`everhold.queries`, so a new kind is covered at once. Names of kinds and details are those of the command line.
`everhold_server.wire.reading` reads this form.

    >>> import everhold as eh
    >>> written(eh.choose(["delay > 15", "delay > 30"], best="highest", most=2))[0]
    {'kind': 'choose', 'of': 'highest', 'queries': ['delay > 15', 'delay > 30'], 'most': 2}
    >>> results_from({"t1": [{"passed": 1}]})
    {'t1': [{'passed': 1}]}
    >>> written_results({7: True, 8: float("nan")})
    [[7, [True]], [8, ['nan']]]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from everhold import queries as registry
from everhold.arguments import brief
from everhold.errors import CaseRejected, QueryRejected
from everhold.gates.results import runs_by_case
from everhold.queries import DETAILS, Form, Kind
from everhold.queries.makers import SCALARS, a_text, a_truth, plain, refuse, spelled
from everhold.queries.predictions.arrays import PredictionTable, check_lengths, prediction_table
from everhold.queries.predictions.columns import PredictionColumn
from everhold.queries.query import Query
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
    """Return predictions from their JSON form, as the functions that build queries take them.

    Args:
        written: A rule as a text, a list, an object from row ids to predictions, or ``{"file": name}``, with
            ``"column"`` if that table has several columns, or ``"in_order": true`` if it has one column without ids,
            whose rows are in the order of the sealed rows.
        schema: Schema of the rows.
        tables: Tables of predictions by file name.

    Raises:
        QueryRejected: If the predictions have none of these forms, or are far too many. Nothing is charged.
    """
    if isinstance(written, str):
        return a_text(written, "the rule")
    if isinstance(written, dict) and FILE in written and written.keys() <= {FILE, "column", _IN_ORDER}:
        name = a_text(written[FILE], "the name of the file")
        if name not in tables:
            sent = ", ".join(map(brief, tables)) or "no file"
            refuse(f"The predictions are in the file {brief(name)}, and {sent} was sent", "a file of that name")
        if (ordered := written.get(_IN_ORDER)) is not None and a_truth(ordered, _IN_ORDER):
            columns = tables[name].columns
            if len(columns) != 1:
                refuse(
                    f"{tables[name].name} has {len(columns)} columns",
                    "one column of predictions in the order of the rows",
                )
            return next(iter(columns.values()))
        if ordered is not None or written.get("column") is None:
            return tables[name]
        return replace(tables[name], column=a_text(written["column"], "the column"))
    if not isinstance(written, (dict, list)):
        refuse(f"The predictions are {brief(written)}", _FORMS)
    most = 2 * schema.rows + schema.training_rows
    if len(written) > most:
        refuse(f"There are {len(written):,} predictions", f"one for each of {schema.rows:,} rows")
    values: Any = list(written.values()) if isinstance(written, dict) else written
    if strange := [value for value in values if isinstance(value, (dict, list))]:
        refuse(f"A prediction is {brief(strange[0])}", _FORMS)
    texts = [value for value in values if isinstance(value, str)]
    check_lengths(texts)
    if 0 < len(texts) < len(values):
        values = np.array(values, dtype=object)  # else 1 would become "1"
    if isinstance(written, list):
        return values
    if schema.row_id is None:
        refuse("The rows of this holdout have no ids", "a list of predictions in the order of the rows")
    numbers = schema.columns[schema.row_id].value == "number"
    # As objects, texts take the memory of the texts. As an array of texts each would take that of the longest.
    ids = [_number(name) for name in written] if numbers else np.array(list(written), dtype=object)
    prediction = "prediction" if schema.row_id != "prediction" else "predicted"
    return PredictionTable({schema.row_id: ids, prediction: values}, name="the object of predictions")


def _number(name: str) -> int | float:
    try:
        return int(name) if name.lstrip("-").isdecimal() and len(name) < 20 else float(name)
    except ValueError:
        refuse(f"An id is {brief(name)}", "numbers as ids, as in this holdout")


def written_predictions(predictions: Any, tables: dict[str, PredictionTable]) -> Any:
    """Return predictions as JSON data, the inverse of `predictions_from`, and add tables to ``tables``.

    Raises:
        QueryRejected: If the predictions are an estimator, which cannot be sent. Nothing is charged.
    """
    if isinstance(predictions, str):
        return predictions
    if hasattr(predictions, "predict"):
        raise QueryRejected(
            "An estimator is not sent to a service, because unpacking it there could run "
            "any code. Pass its predictions with row ids if the features are public, or a "
            "rule as a text such as accuracy('dep_delay > 10')."
        )
    if isinstance(predictions, PredictionColumn | LocatedPredictions):
        refuse(
            "Predictions in a file or a table of an engine cannot be sent to a service",
            "a data frame with row ids",
        )
    if (table := prediction_table(predictions)) is not None:
        name = f"predictions-{len(tables) + 1}"
        tables[name] = table
        return {FILE: name} if table.column is None else {FILE: name, "column": table.column}
    if np.ndim(predictions) == 0:
        refuse(f"The predictions are {brief(predictions)}", "one for each row, as an array or a table with row ids")
    items = predictions.tolist() if hasattr(predictions, "tolist") else list(predictions)
    if len(items) <= _MOST_INLINE:
        return [_prediction(item) for item in items]
    name = f"predictions-{len(tables) + 1}"
    tables[name] = PredictionTable({"prediction": predictions})
    return {FILE: name, _IN_ORDER: True}


def _prediction(item: Any) -> Any:
    """Return a prediction as a JSON value, null if it is missing or not finite."""
    value = item.tolist() if hasattr(item, "tolist") else item
    return None if isinstance(value, float) and not math.isfinite(value) else value


_PAIR = 2


def results_from(written: Any) -> dict[Any, list[Any]]:
    """Return results of cases from their JSON form: the runs of each case."""
    pairs = list(written.items()) if isinstance(written, dict) else written
    if not isinstance(pairs, list) or not all(isinstance(pair, (list, tuple)) and len(pair) == _PAIR for pair in pairs):
        raise QueryRejected(
            f"The results are {brief(written)}. Send an object from case id to runs, or a list of pairs."
        )
    found: dict[Any, list[Any]] = {}
    for case, runs in pairs:
        if not isinstance(case, (str, int)):
            raise QueryRejected(f"A case id is {brief(case)}. Send a text or a number.")
        if case in found:
            raise CaseRejected(
                f"The case {brief(case)} is there twice. Give its runs as one list, and other cases other names.",
                case=case, fault="doubled",
            )  # fmt: skip
        found[case] = runs if isinstance(runs, list) else [runs]
    return found


def written_results(results: Any) -> list[list[Any]]:
    """Return results of cases as JSON data, from any form that `Gate.challenge` accepts."""
    return [
        [
            _scalar(case),
            [
                {str(name): _scalar(value) for name, value in run.items()} if isinstance(run, dict) else _scalar(run)
                for run in runs
            ],
        ]
        for case, runs in runs_by_case(results).items()
    ]


def _scalar(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return str(plain)
    return plain if plain is None or isinstance(plain, (str, int, float)) else str(plain)


def written(
    query: Query[Any] | str, tables: dict[str, PredictionTable] | None = None
) -> tuple[Any, dict[str, PredictionTable]]:
    """Return a query as plain JSON data, and collect its tables of predictions.

    Args:
        query: A query of any kind that contains no code.
        tables: Tables of other queries of the same request, by name. Those of this query are added.

    Raises:
        QueryRejected: If the query contains a Python function or an estimator, which cannot be sent. Nothing is
            charged.
    """
    tables = {} if tables is None else tables
    return _Writing(tables).query(query), tables


def kind_of(name: Any) -> Kind:
    """Return the registered kind of query with this name. Kinds that run code are rejected.

    Raises:
        QueryRejected: If there is no kind of this name, or the kind runs code. Nothing is charged.
    """
    found = registry.KINDS.named(name) if isinstance(name, str) else None
    if found is None:
        names = ", ".join(kind.name for kind in registry.KINDS if kind.form is not Form.CODE)
        refuse(f"The kind of query is {brief(name)}", f"one of {names}")
    if found.form is Form.CODE:
        raise QueryRejected(
            f"{found.name} needs a Python function, and the service accepts none, because it would run beside the "
            "sealed rows. Ask another kind of query, or ask where the rows are."
        )
    return found


@dataclass(frozen=True, slots=True)
class _Writing:
    tables: dict[str, PredictionTable]

    def query(self, query: Any) -> Any:
        if isinstance(query, str):
            return query
        if not isinstance(query, Query):
            refuse(f"The query is {brief(query)}", "a text or a query such as mean(...)")
        made = query.spec()
        kind = kind_of(made.kind)
        details = {
            spelled(option): self._value(DETAILS[option].form, made.details[argument], option)
            for option, argument in kind.details.items() if made.details.get(argument) is not None
        }  # fmt: skip
        if kind.name == "mean" and not details:
            return a_text(made.of, "of")
        if kind.several:
            details = {"queries": [self.query(each) for each in _each(made.of)], **details}
        if kind.form is not Form.FLAG:
            subject = made.details.get(kind.several) if kind.several else made.of
            details = {"of": self._value(kind.form, subject, "of"), **details}
        return {"kind": kind.name, **details}

    def _value(self, form: Form, value: Any, name: str) -> Any:
        if form in SCALARS:
            return plain(value, SCALARS[form], name)
        if form is Form.PREDICTIONS:
            return written_predictions(value, self.tables)
        if form is Form.CELLS:
            if not hasattr(value, "to_dict"):
                refuse(f"The universe is {brief(value)}", "Universe((ListedColumn(...), ...))")
            return plain_data({"columns": value.to_dict()["columns"]})
        return self.query(value)


def _each(queries: Any) -> Iterable[Any]:
    if isinstance(queries, str) or not isinstance(queries, Iterable):
        refuse(f"The queries are {brief(queries)}", "a list of queries")
    return queries


def plain_data(value: Any) -> Any:
    """Convert NumPy numbers into Python numbers and sequences into lists, also inside mappings."""
    if isinstance(value, Mapping):
        return {name: plain_data(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain_data(each) for each in value]
    return value.item() if hasattr(value, "item") else value
