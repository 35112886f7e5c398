"""Finds predictions in tables of the engine of the sealed rows, and checks them there.

Faults of the predictions are found from public facts before anything is charged, and reported like those of files of
predictions. The table is read with the rights of the holdout's own connection. So the name of a table is not sent to a
service, and no service accepts one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everhold.arguments import advice_for, brief, listed
from everhold.errors import QueryRejected
from everhold.progress import progress
from everhold.queries.metrics.label_query import LabelQuery, prediction_node
from everhold.queries.predictions.arrays import ids_refused
from everhold.queries.predictions.columns import parts_of
from everhold.queries.query import Query
from everhold.values.base import LocatedPredictions
from everhold.values.expressions import ColumnKind, Expression, RowValue
from everhold.values.expressions.tree import Node, Operation
from everhold_engines.prediction_tables import JoinedTable
from everhold_engines.remote_rows import RemoteRows

if TYPE_CHECKING:
    from everhold.sealing.rows.evaluated_rows import RowStore
    from everhold.values.base import JoinedColumn, Schema

_USABLE = (ColumnKind.NUMBER, ColumnKind.STRING, ColumnKind.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Predictions(LocatedPredictions):
    """A column of predictions in a table of the engine, which queries take in place of an array.

    Args:
        table: Name of the table in the engine.
        column: The column of predictions.
        row_id: Column of row ids in that table. The default is the name of the sealed rows' column of row ids.

    Examples:
        >>> Predictions("predictions", "model_17").row_id is None
        True
    """

    table: str
    column: str
    row_id: str | None = None

    def located(self, queries: Sequence[Any], rows: Any, schema: Schema) -> list[Any]:
        """Return the queries with each `Predictions` replaced by a checked column, joined to the sealed rows."""
        return with_located_predictions(queries, rows, schema)


def with_located_predictions(queries: Sequence[Any], rows: RowStore, schema: Schema) -> list[Any]:
    """Return the queries with their predictions in tables found, checked and identified by digest.

    Args:
        queries: The queries. Those without such predictions are returned unchanged.
        rows: The sealed rows.
        schema: Public facts about the sealed rows.

    Raises:
        QueryRejected: If a table, its ids or one of its columns cannot be used. Nothing is charged.
    """
    wanted = list(dict.fromkeys(found for query in queries for found in _wanted(query)))
    known: dict[Predictions, JoinedColumn] = {}
    with progress("checking predictions"):
        for name, row_id in dict.fromkeys((given.table, given.row_id) for given, _ in wanted):
            table = _table(name, row_id, rows, schema)
            own = [(given, query) for given, query in wanted if (given.table, given.row_id) == (name, row_id)]
            known |= _checked(table, own, schema)
    return [_placed(query, known) for query in queries]


def _wanted(query: Any) -> Iterator[tuple[Predictions, LabelQuery]]:
    for role, value in parts_of(query):
        if isinstance(value, Predictions):
            if role != "predictions":
                raise QueryRejected(
                    "The predictions for the training rows are in a table of the engine. Pass an array, a table "
                    "with row ids, predictions_in(path, row_id=...), or your own guess."
                )
            yield value, query
        elif isinstance(value, Query):
            yield from _wanted(value)


def _placed(query: Any, known: Mapping[Predictions, JoinedColumn]) -> Any:
    changes: dict[str, Any] = {}
    for role, value in parts_of(query):
        if isinstance(value, Predictions):
            changes[role] = known[value]
        elif isinstance(value, Query):
            changes[role] = _placed(value, known)
    return replace(query, **changes) if changes else query


def _table(name: str, row_id: str | None, rows: RowStore, schema: Schema) -> JoinedTable:
    """Return a table of predictions, after a check that its ids match those of the sealed rows."""
    if schema.row_id is None:
        raise QueryRejected(
            "Predictions in a table are matched by row id, and the rows of this holdout "
            "have none. Use a holdout that was created with row_id=...."
        )
    if not isinstance(rows, RemoteRows):
        raise QueryRejected(
            f"The sealed rows are in a file, and the table {name!r} is in an engine. Pass "
            "predictions_in('predictions.parquet', row_id=...)."
        )
    own = schema.row_id if row_id is None else row_id
    table = JoinedTable.of(rows.engine, name, row_id=schema.row_id, own_id=own)
    if own not in table.kinds:
        raise QueryRejected(
            f"The columns of {table.called} are {listed(table.kinds)}, without the row id "
            f"{own!r}. Pass row_id=... with the name of the id's column."
        )
    text = schema.columns[schema.row_id] is not ColumnKind.NUMBER
    if table.kinds[own] is not (ColumnKind.STRING if text else ColumnKind.NUMBER):
        kinds = ("text", "no text") if text else ("numbers", "no numbers")
        raise QueryRejected(
            f"The ids of this holdout are {kinds[0]}, and those of {table.called} are {kinds[1]}. Convert the ids to "
            f"the same type{', with all their zeros' if text else ''}."
        )
    _check_ids(table, schema)
    return table


def _check_ids(table: JoinedTable, schema: Schema) -> None:
    if (faults := table.id_faults()) is None:
        return
    if faults.empty:
        raise QueryRejected(f"{faults.empty:,} ids in {table.called} are empty. Give each row an id.")
    found = [faults.unknown, faults.doubled, faults.lacking]
    refused = ids_refused(found, name=table.called, row_id=table.own_id, rows=schema.rows, rows_are="sealed")
    assert refused is not None
    raise refused


def _checked(
    table: JoinedTable, wanted: Sequence[tuple[Predictions, LabelQuery]], schema: Schema
) -> dict[Predictions, JoinedColumn]:
    """Return the requested columns of a table with their digests, after checking that all values are valid."""
    columns = {given: _column(table, given, schema) for given, _ in wanted}
    tests: dict[tuple[str, str], tuple[JoinedColumn, RowValue, str, str]] = {}
    for given, query in wanted:
        column, node = columns[given], prediction_node(columns[given])
        there = Node.of(Operation.NOT, Node.of(Operation.IS_NULL, node))
        for condition, fault, expected in ((there, "", ""), query.meant(node, schema)):
            tests[column.alias, condition.digest] = column, RowValue(Expression(condition)), fault, expected
    counts = table.counts([(column, value) for column, value, _, _ in tests.values()])
    for (column, value, fault, expected), count in zip(tests.values(), counts, strict=True):
        if count != schema.rows:
            raise _refused(table, column, value, schema.rows - count, fault, expected)
    every = list(dict.fromkeys(columns.values()))
    digests = dict(zip(every, table.digests(every), strict=True))
    return {given: replace(column, digest=digests[column]) for given, column in columns.items()}


def _refused(
    table: JoinedTable, column: JoinedColumn, value: RowValue, count: int, fault: str, expected: str
) -> QueryRejected:
    what = f"The predictions in column {column.name!r} of {table.called}"
    if not fault:
        return QueryRejected(f"{what} lack {count:,} rows. Pass a prediction for each row, all of one type.")
    example = table.example(column, value)
    shown = brief(int(example) if isinstance(example, float) and example.is_integer() else example, longest=40)
    return QueryRejected(
        f"{what} {fault}: {count:,} are such as {shown}. {expected[:1].upper()}{expected[1:].removesuffix('.')}."
    )


def _column(table: JoinedTable, given: Predictions, schema: Schema) -> JoinedColumn:
    if given.column not in table.kinds or given.column == table.own_id:
        others = [name for name in table.kinds if name != table.own_id]
        raise QueryRejected(
            f"There is no column {given.column!r} of predictions in {table.called}. {advice_for(given.column, others)}"
        )
    kind = table.kinds[given.column]
    if kind not in _USABLE or (kind is ColumnKind.STRING) != (schema.label_kind == "string"):
        raise QueryRejected(
            f"The predictions in column {given.column!r} of {table.called} are of type {kind.value}, and the labels "
            f"are of type {schema.label_kind}. Pass predictions of the type of the labels, without missing values."
        )
    return table.column(given.column)
