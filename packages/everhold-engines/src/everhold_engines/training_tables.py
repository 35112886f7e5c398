"""Training rows that stay in the engine of the sealed rows: which table they are, and which of them are copied.

Whatever the engine can count it counts in all of them. What needs rows in this process, such as estimators and the
search for dependence, gets a public sample, which is kept as training rows from a file are: whole groups where rows are
grouped or make several series, the block nearest to the sealed rows where they are one series, and else rows drawn at
random. In a random sample of a long table neighbours and members of undeclared groups hardly ever meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everhold.dependence import DependenceModel, Independent
from everhold.errors import HoldoutRejected, IntegrityError, QueryRejected
from everhold_engines.column_copies import share_of_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everhold.sealing.rows.row_store import SealableTable
    from everhold_engines.base import Engine
    from everhold_engines.column_copies import TableSide

MOST_COPIED = 100_000
"""About so many training rows of a table are copied at most."""

_AT_MOST = 4  # times as many, of whole groups


def table_beside(engine: Engine, training: SealableTable) -> Engine:
    """A table of training rows, read with the connection of the sealed ones.

    Raises:
        HoldoutRejected: If it is in another engine, is the sealed table itself, or has no rows of its own.
    """
    theirs, ours = training.to_dict(), engine.to_dict()
    if any(theirs[name] != ours[name] for name in ("kind", "place")):
        raise HoldoutRejected(
            f"the training rows are a table in another engine ({training.title}) than the sealed rows "
            f"({engine.title}), or are reached by another address; expected two tables that one statement can read; "
            "copy one of them, or hand in training rows as a file"
        )
    try:
        return engine.beside(str(theirs["table"]))
    except QueryRejected:
        raise HoldoutRejected(
            f"the training table {theirs['table']!r} is a view, whose rows could depend on sealed ones, or has the "
            "rows that are sealed; expected a plain table of its own; write its rows to one"
        ) from None


def rows_copied(training: TableSide, sealed: Engine, declared: DependenceModel | None, *, row_id: str | None) -> str:
    """Rows of a table that are copied: SQL that follows FROM and the table.

    Args:
        training: The table.
        sealed: The table of the sealed rows.
        declared: How rows depend on each other, as far as it was declared.
        row_id: Column that names rows, and puts those that are copied in order.

    Raises:
        HoldoutRejected: If groups are so large that no sample has whole ones.
    """
    in_order = "" if row_id is None else f" ORDER BY {training.engine.dialect.column(row_id)}"
    if training.rows <= MOST_COPIED:
        return in_order
    model = Independent() if declared is None else declared
    columns = [name for name in model.sorting_columns if name in training.columns]
    if model.group_column is None and len(columns) == 1:
        return _nearest(training, sealed, columns[0])
    share = MOST_COPIED / training.rows
    some = (
        _whole_groups(training, columns[0], share)
        if columns
        else f"{training.engine.dialect.write('random')} < {share!r}"
    )
    return f" WHERE {some}{in_order}"


def _whole_groups(training: TableSide, column: str, share: float) -> str:
    """A condition for all rows of some groups, the same ones whenever it is asked."""
    found = 0
    while not found and share < 1.0:
        some = share_of_values(training.engine.dialect, column, training.columns[column], share)
        found, share = training.count(some), 2.0 * share
    if not 0 < found <= _AT_MOST * MOST_COPIED:
        raise HoldoutRejected(
            f"the groups of the column {column!r} are so large in the training table that no {MOST_COPIED:,} of its "
            "rows are whole groups; expected smaller ones, or rows drawn by hand; hand in some training rows as a file"
        )
    return some


def _nearest(training: TableSide, sealed: Engine, column: str) -> str:
    """The block of a series that is nearest to the sealed rows, on whichever side of them it lies."""
    of = training.engine.dialect
    name = of.column(column)
    last = f"(SELECT max({name}) FROM {training.engine.source} AS {of.rows})"
    first = f"(SELECT min({name}) FROM {sealed.source} AS {of.rows})"
    ((before,),) = training.engine.rows(f"SELECT CASE WHEN {last} < {first} THEN 1 ELSE 0 END AS told")
    return f" ORDER BY {name} {'DESC' if before else 'ASC'} LIMIT {MOST_COPIED}"


def check_training_table(engine: Engine, facts: Mapping[str, Any], columns: Mapping[str, Any]) -> Engine:
    """The table of training rows as it is now, after a look at its columns and the number of its rows.

    Rows that were changed in their place are not noticed: guesses are public, so they cost nothing but surprises
    whatever they are made of, as long as nothing is written into the table what only the sealed rows say.

    Raises:
        IntegrityError: If it has other columns, or more or fewer rows, or is not there.
        Unavailable: If the engine cannot be reached.
    """
    fault = None
    try:
        table = engine.beside(str(facts["table"])).pinned(facts)
        if table.columns() != columns:
            fault = "its columns differ"
        elif (rows := _count(table)) != facts["rows"]:
            fault = f"it has {rows:,} rows"
    except (HoldoutRejected, QueryRejected):
        fault = "it cannot be read, or is no plain table"
    if fault is not None:
        raise IntegrityError(
            f"the training table {facts['table']!r} is not the one that was there when the rows were sealed: {fault}; "
            f"expected {facts['rows']:,} rows in the same columns, because guesses are made from all of them; bring "
            "them back, and add new ones to another table; no query is answered until then, and nothing was charged"
        )
    return table


def _count(table: Engine) -> int:
    return int(table.rows(f"SELECT count(*) FROM {table.source} AS {table.dialect.rows}")[0][0])
