"""Seals a table that stays in an engine, with the checks that `intake.files` makes of files.

The engine computes the counts that are about one table alone. A comparison with training rows needs columns of both
tables in one place, where `everhold_engines.column_copies` puts them. If there are many rows, copied rows are looked
for in a random part of them. This is valid, because the probability of equal rows on both sides has the same form for a
random part of the sealed rows, and for the rows of both tables with some values of a column.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from everhold.dependence import DependenceModel, Independent
from everhold.errors import HoldoutRejected, IntegrityError, QueryRejected
from everhold.progress import progress
from everhold.sealing.configuration import SealedFiles
from everhold.sealing.intake.checks import (
    FileSide,
    check_names,
    check_not_shared,
    check_row_ids,
    check_same_columns,
    label_facts,
)
from everhold.sealing.intake.duckdb_files import column_kinds, spilling_into
from everhold.sealing.intake.reading import check_size, read_rows, reading_errors_hidden, write_rows
from everhold.sealing.intake.structure import FileStructure
from everhold.sealing.resealing import Content
from everhold.sealing.rows.embedded import fingerprint
from everhold.sealing.rows.row_store import ENGINE_VARIABLE, SealedRows, is_table
from everhold.sealing.splits import check_equal_rows, distinguishing_column
from everhold.sealing.storage import TRAINING_FILE
from everhold.values.expressions.tree import quoted
from everhold_engines.column_copies import ColumnCopies, TableSide, row_count, share_of_values
from everhold_engines.conformance import conformance
from everhold_engines.sql.compiler import group_sizes_sql
from everhold_engines.watermark import keyed_fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from everhold.dependence.base import SeriesFacts
    from everhold.sealing.intake.checks import Side
    from everhold.sealing.intake.request import SealRequest
    from everhold.sealing.rows.row_store import SealableTable
    from everhold.sealing.storage import StewardKey
    from everhold.values.expressions import ColumnKind
    from everhold_engines.base import Engine


class TableStructure(FileStructure):
    """Dependence structure of the rows of an engine's table, computed from copied columns."""

    def __init__(self, copies: ColumnCopies, sealed: SealedFiles) -> None:
        self._sealed, self._copies, self._connection = sealed, copies, copies.connection
        self._types = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing, because the caller closes the copied columns."""

    @cached_property
    def lacking(self) -> tuple[frozenset[str], frozenset[str]]:
        """The columns that lack values in sealed rows, and those that lack values in training rows."""
        sides = self._copies.sides
        somewhere = frozenset[str]().union(*(side.lacking() for side in sides.values()))
        if not self.training_rows or "training" not in sides:
            return somewhere, self._lacking("training") if self.training_rows else frozenset()
        self._bring(*sorted(somewhere))
        return somewhere, self._lacking("training", somewhere)

    def group_sizes(self, column: str) -> dict[int, int]:
        """Return the number of groups of each size, counted by the engine."""
        self._ids(column)
        engine = self._copies.engine
        found = engine.rows(group_sizes_sql(engine.source, group_by=column, dialect=engine.dialect))
        return {int(size): int(number) for size, number in sorted(found)}

    def apart(self) -> frozenset[str]:
        """Return the columns that have no value in common between training rows and sealed rows.

        For long tables only columns that may be ids of groups of training rows are returned.
        """
        self._copies.bring_some()
        some = [column for column in self._copies.comparable if self._is_apart(column)]
        if self._copies.all_whole:
            return frozenset(some)
        return frozenset(column for column in list(filter(self._repeats, some)) if self._still_apart(column))

    def _repeats(self, column: str) -> bool:
        """Return whether two training rows have the same value of a column."""
        if (side := self._copies.sides.get("training")) is not None:
            return side.different(column) < side.rows - side.missing(column)
        name = quoted(column)
        return self._count(f"SELECT count({name}) - count(DISTINCT {name}) FROM training") > 0

    def _still_apart(self, column: str) -> bool:
        """Return whether training and sealed rows share no value of a column, compared over all rows."""
        self._copies.distinct(column)
        return self._is_apart(column)

    def whole_groups(self, apart: Collection[str], declared: Sequence[str]) -> tuple[str, ...]:
        """Return the columns in which no group has both sealed and training rows, empty if some rows are not copied."""
        if not self._copies.all_whole or not self.training_rows:
            return ()
        self._bring(*apart, *declared[:1])
        return super().whole_groups(apart, declared)

    def series(self, order_by: str, *, within: str | None) -> SeriesFacts:
        """Return the facts about series in order of a column, see `FileStructure`."""
        self._bring(order_by, *([] if within is None else [within]))
        return super().series(order_by, within=within)

    def _column(self, column: str) -> str:
        self._bring(column)
        return super()._column(column)

    def _bring(self, *columns: str) -> None:
        if all(column in self._sealed.columns for column in columns):  # else it is said elsewhere that they are not
            self._copies.bring(columns)


MOST_COPIED = 100_000
"""About so many training rows of a table are copied at most."""

_AT_MOST = 4  # times as many, of whole groups


def table_beside(engine: Engine, training: SealableTable) -> Engine:
    """Return a table of training rows in the engine of the sealed rows, read through the same connection.

    Raises:
        HoldoutRejected: If the table is in another engine, is the sealed table itself, or is a view without rows of its
            own.
    """
    theirs, ours = training.to_dict(), engine.to_dict()
    if any(theirs[name] != ours[name] for name in ("kind", "place")):
        raise HoldoutRejected(
            f"The training rows are a table in another engine ({training.title}) than the sealed rows "
            f"({engine.title}), or have another address. Copy one of the tables, or pass the training rows as a file."
        )
    try:
        return engine.beside(str(theirs["table"]))
    except QueryRejected as refused:  # of a view, or of the sealed rows
        raise HoldoutRejected(refused.message) from None


def rows_copied(training: TableSide, sealed: Engine, declared: DependenceModel | None, *, row_id: str | None) -> str:
    """Return which rows of a training table to copy, as SQL that follows FROM and the table.

    Args:
        training: The table of the training rows.
        sealed: The table of the sealed rows.
        declared: Declared dependence between rows. None if none was declared.
        row_id: Column of row ids, which also gives the order of the copied rows. None if rows have no ids.

    Raises:
        HoldoutRejected: If groups are so large that no sample has whole ones.
    """
    in_order = "" if row_id is None else f" ORDER BY {training.engine.dialect.column(row_id)}"
    if training.rows <= MOST_COPIED:
        return in_order
    model = Independent() if declared is None else declared
    columns = [name for name in model.sorting_columns if name in training.columns]
    if model.group_column is None and len(columns) == 1:
        of = training.engine.dialect
        name = of.column(columns[0])
        last = f"(SELECT max({name}) FROM {training.engine.source} AS {of.rows})"
        first = f"(SELECT min({name}) FROM {sealed.source} AS {of.rows})"
        ((before,),) = training.engine.rows(f"SELECT CASE WHEN {last} < {first} THEN 1 ELSE 0 END AS told")
        return f" ORDER BY {name} {'DESC' if before else 'ASC'} LIMIT {MOST_COPIED}"
    share = MOST_COPIED / training.rows
    some = (
        _whole_groups(training, columns[0], share)
        if columns
        else f"{training.engine.dialect.write('random')} < {share!r}"
    )
    return f" WHERE {some}{in_order}"


def _whole_groups(training: TableSide, column: str, share: float) -> str:
    """Return a condition for all rows of some groups, the same groups at every call."""
    found = 0
    while not found and share < 1.0:
        some = share_of_values(training.engine.dialect, column, training.columns[column], share)
        found, share = training.count(some), 2.0 * share
    if not 0 < found <= _AT_MOST * MOST_COPIED:
        raise HoldoutRejected(
            f"The groups of column {column!r} in the training table are so large that no "
            f"{MOST_COPIED:,} rows are whole groups. Pass some training rows as a file."
        )
    return some


def check_training_table(engine: Engine, facts: Mapping[str, Any], columns: Mapping[str, Any]) -> Engine:
    """Return the current training table, after a check of its columns and number of rows.

    Changed values of training rows are not noticed. They may make guesses wrong, which costs surprises, but they break
    no promise, as long as nobody writes information from the sealed rows into this table.

    Raises:
        IntegrityError: If the table has other columns, or another number of rows, or is missing.
        Unavailable: If the engine cannot be reached.
    """
    fault = None
    try:
        table = engine.beside(str(facts["table"])).pinned(facts)
        if table.columns() != columns:
            fault = "its columns differ"
        elif (rows := row_count(table)) != facts["rows"]:
            fault = f"it has {rows:,} rows"
    except (HoldoutRejected, QueryRejected):
        fault = "it cannot be read, or is no plain table"
    if fault is not None:
        raise IntegrityError(
            f"The training table {facts['table']!r} is not the one that was there when the rows were sealed: "
            f"{fault}. Restore its {facts['rows']:,} rows in the same columns, and add new rows to another table."
        )
    return table


_SECRET = re.compile(r"://[^/@\s]*:[^/@\s]*@|(password|passwd|token|secret)\s*=", re.IGNORECASE)


@contextmanager
def sealing(folder: Path, engine: Engine, request: SealRequest, *, key: StewardKey) -> Iterator[SealedRows]:
    """Return a context that seals an engine's table, see `SealableTable.sealing`."""
    with copied_table(folder, engine, request, key=key) as (sealed, copies):
        yield SealedRows(
            sealed,
            TableStructure(copies, sealed),
            partial(content_of, copies),
            partial(check_still, engine, sealed, key),
        )


def content_of(copies: ColumnCopies, key: str | None) -> Content:
    """Return a sketch of a table's content. If the table is small, the sketch is made from its copied rows."""
    told = f"{copies.engine.kind}:{copies.contents}"
    digest = Content.of_digest(told, rows=copies.rows, key=key)
    if not copies.is_whole:
        return digest
    copies.bring(copies.columns, of=["holdout"])
    with reading_errors_hidden("holdout"):
        copies.connection.execute(
            "CREATE OR REPLACE TEMP VIEW rows AS SELECT *, row_number() OVER () - 1 AS file_row_number FROM holdout"
        )
    return replace(Content.of_view(copies.connection, copies.columns, key=digest.key), table=digest.table)


@contextmanager
def copied_table(
    folder: Path, engine: Engine, request: SealRequest, *, key: StewardKey
) -> Iterator[tuple[SealedFiles, ColumnCopies]]:  # fmt: skip
    """Return a context that checks a table and writes its training rows to an existing, private folder.

    Args:
        folder: Folder for the training file, and for the temporary files of the checks.
        engine: The table whose rows are sealed.
        request: The training rows and the declarations. If the training rows are in a table, some of them are copied as
            the declared dependence requires. Such a table may have any number of rows.
        key: Key of the steward, for the fingerprint.

    Yields:
        Facts about the sealed files, and the private database into which more columns can be copied.

    Raises:
        HoldoutRejected: If the rows cannot be sealed as they stand.
        Unavailable: If the engine cannot be reached.
    """
    training, row_id, most_rows = request.training, request.rows.row_id, request.rows.most_rows
    facts = engine.to_dict()
    check_public(facts)
    columns = dict(engine.columns())  # first: whether there is such a table, and a way in, is known at once
    check_names(columns)
    if (watermark := getattr(engine, "watermark", None)) is not None:
        watermark.check(columns)
    check_size(rows=None, columns=len(columns), most_rows=most_rows, what="holdout")
    tried = conformance(engine)
    if not tried.agrees:
        told = "; ".join(line.strip() for line in str(tried).splitlines())
        raise HoldoutRejected(
            f"{engine.title} computes other sums than everhold expects, so its answers could not be trusted: {told}. "
            "Use another version or other settings of the engine."
        )
    with progress("checking the table", 5) as line:
        pinned = keyed_fingerprint(engine, key)
        rows = row_count(engine)
        if not rows:
            raise HoldoutRejected("The holdout table is empty. Pass at least one row.")
        line(1)
        tables = [TableSide(engine, columns, rows)]
        if is_table(training):
            tables.append(_training_side(engine, training, columns))
        with ColumnCopies(folder, columns, tables) as copies:
            sides: list[Side] = [*tables]
            if is_table(training):
                which = rows_copied(tables[1], engine, request.dependence, row_id=row_id)
                expected = min(copies.sides["training"].rows, MOST_COPIED)
                copies.stream("training_source", list(copies.columns), which, rows=expected, side="training")
                write_rows(copies.connection, "training", copies.columns, folder / TRAINING_FILE)
            elif training is not None:
                with spilling_into(folder) as connection:
                    read_rows(
                        connection,
                        training,
                        name="training_source",
                        what="training",
                        most_rows=most_rows,
                        kinds=columns,
                    )
                    check_same_columns(columns, column_kinds(connection.view("training_source")))
                    written = write_rows(connection, "training", columns, folder / TRAINING_FILE)
                check_size(rows=written, columns=None, most_rows=most_rows, what="training")
                sides.append(FileSide(copies.connection, "training", columns))
            copied = 0
            if training is not None:
                copies.show_training()
                copied = FileSide(copies.connection, "training", columns).rows
            line(2)
            kind, known = label_facts(request.label, columns, sides, declared=request.rows.classes)
            line(3)
            if row_id is not None:
                check_row_ids(row_id, columns, sides)
            if training is not None:
                alike = None
                if "training" in copies.sides and not copies.all_whole:
                    alike = distinguishing_column(copies.connection, copies.comparable, row_id=row_id)
                if row_id is not None:
                    copies.bring([row_id])
                    with reading_errors_hidden("holdout"):
                        check_not_shared(copies.connection, row_id)
                if not request.rows.equal_rows and copies.comparable:
                    copies.bring_some(alike)
                    with reading_errors_hidden("training"):
                        check_equal_rows(copies.connection, copies.comparable, row_id=row_id)
            line(4)
            yield (
                SealedFiles(
                    rows=rows,
                    training_rows=copied,
                    columns=columns,
                    label_kind=kind,
                    label_classes=known,
                    fingerprint=pinned,
                    training_fingerprint=None if training is None else fingerprint(folder / TRAINING_FILE),
                    engine=facts,
                    training_table=_facts_of(tables[1]) if is_table(training) else None,
                ),
                copies,
            )


def check_still(engine: Engine, sealed: SealedFiles, key: StewardKey) -> None:
    """Check that a table's fingerprint is the same as at the start of the sealing.

    Raises:
        HoldoutRejected: If the table was changed meanwhile.
    """
    if keyed_fingerprint(engine, key) != sealed.fingerprint:
        raise HoldoutRejected(
            "The holdout table was changed while it was being sealed. Seal a copy or a snapshot of it."
        )


def _training_side(engine: Engine, training: SealableTable, columns: dict[str, ColumnKind]) -> TableSide:
    """Return the table of training rows, after a check that it has the same columns and at least one row."""
    table = table_beside(engine, training)
    check_same_columns(columns, table.columns())
    rows = row_count(table)
    if not rows:
        raise HoldoutRejected("The training table is empty. Pass at least one row.")
    return TableSide(table, columns, rows, "training")


def _facts_of(training: TableSide) -> dict[str, Any]:
    """Return public facts by which the table of training rows is found again."""
    facts = training.engine.to_dict()
    return {"table": facts["table"], "snapshot": facts["snapshot"], "rows": training.rows}


def check_public(facts: dict[str, Any]) -> None:
    """Raise HoldoutRejected if facts for the ledger seem to contain credentials.

    Raises:
        HoldoutRejected: If a fact seems to contain credentials. The message quotes none of the facts.
    """
    if any(isinstance(value, str) and _SECRET.search(value) for value in facts.values()):
        raise HoldoutRejected(
            "The engine's address seems to have a password in an unexpected place, and it would stay in the ledger. "
            f"Put user and password before the host, or in {ENGINE_VARIABLE}."
        )
