"""Rows that stay in an engine, as a `RowStore` whose sums, counts and groups the engine computes.

So only counts leave the engine. It returns rows only for Python code: in the order of arrival and row id, and at most
`MOST_CELLS` numbers at once. Public facts alone decide which of the two is done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from everhold.errors import QueryRejected
from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Pairs
from everhold.progress import progress
from everhold.sealing.intake.duckdb_files import POSITION
from everhold.sealing.rows.embedded import engine_errors_hidden
from everhold.sealing.rows.evaluated_rows import RowStore, across_of, is_known, ratio_of_sums
from everhold.sealing.rows.sums import group_lotteries, named, pair_lotteries, parts_of_ratio
from everhold.values.evaluation import UNIT
from everhold.values.expressions.tree import ColumnKind, CombinedValue
from everhold_engines.prediction_tables import evaluate_with_predictions, reads_predictions
from everhold_engines.sql.compiler import (
    cells_sql,
    group_cells_sql,
    group_kinds_sql,
    group_sizes_sql,
    pair_cells_sql,
    pair_kinds_sql,
    part_totals_sql,
    row_values_sql,
    totals_sql,
)
from everhold_engines.watermark import window_numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Needs
    from everhold.values.base import BoundQuery, Schema, Table
    from everhold.values.expressions import RowValue
    from everhold.values.expressions.tree import AnyValue
    from everhold_engines.base import Engine
    from everhold_engines.sql.dialects import Dialect
    from everhold_engines.watermark import Watermark

    Fetch = Callable[[str], dict[str, NDArray[Any]]]
    """From a statement to what the engine says, as arrays."""


@dataclass(frozen=True, slots=True)
class EngineCounts:
    """Counts, groups and pairs of row values, computed by an engine.

    Attributes:
        source: SQL that follows FROM.
        unit: Grid steps between 0 and 1.
        dialect: SQL dialect of the engine.
    """

    fetch: Fetch
    source: str
    unit: int
    dialect: Dialect

    def cells(self, values: Sequence[AnyValue]) -> list[tuple[int, Cells]]:
        """Return each row value's total and histogram, as defined by `everhold.sealing.rows.sums.cells_of`."""
        found = self._whole(cells_sql(values, self.source, unit=self.unit, dialect=self.dialect))
        counts, sums = np.zeros((2, len(values), CELLS), dtype=np.int64)
        where = found["place"], found["cell"]
        counts[where], sums[where] = found["count"], found["sum"]
        return [(int(own.sum()), Cells(count, own, self.unit)) for count, own in zip(counts, sums, strict=True)]

    def groups(self, values: Sequence[AnyValue], *, group_by: str, across: int) -> list[tuple[int, GroupSums]]:
        """Return for each row value its total, and its sums by group with the number of groups that have each sum.

        Args:
            values: Row values to compute.
            group_by: Column whose equal values make a group.
            across: Number of bins for sums of groups, from `everhold.sealing.rows.sums.cells_across`; 0 for no bins.
        """
        how: Any = {"group_by": group_by, "unit": self.unit, "dialect": self.dialect}
        if across:
            sql = group_cells_sql(values, self.source, across=across, **how)
            found = _ordered(self._whole(sql), "place", "size", "cell")
        else:
            found = _ordered(self._whole(group_kinds_sql(values, self.source, **how)), "place", "size", "sum")
        return [self._groups(_of_place(found, place), across) for place in range(len(values))]

    def _groups(self, found: dict[str, NDArray[np.int64]], across: int) -> tuple[int, GroupSums]:
        sizes, sums, counts = found["size"], found["sum"], found["count"]
        if across:
            lotteries = group_lotteries(sizes, found["cell"], counts, sums, across=across, unit=self.unit)
            return int(sums.sum()), lotteries
        return int((sums * counts).sum()), GroupSums(sizes, sums, counts, self.unit)

    def pairs(
        self, numerator: AnyValue, denominator: AnyValue, *, group_by: str | None, across: int
    ) -> tuple[int, int, Pairs]:
        """Return the totals of numerator and denominator, and how often each pair of their values occurs.

        Args:
            numerator: Row value of the numerator. If it is larger than that of the denominator, the denominator's value
                counts instead.
            denominator: Row value of the denominator.
            group_by: Column whose equal values make a group. None to count pairs of rows.
            across: Number of bins along either axis, from `everhold.sealing.rows.sums.cells_across`; 0 for no bins.
        """
        how: Any = {"group_by": group_by, "unit": self.unit, "dialect": self.dialect}
        if not across:
            sql = pair_kinds_sql(numerator, denominator, self.source, **how)
            found = _ordered(self._whole(sql), "size", "denominator", "numerator")
            sums, counts = (found["numerator"], found["denominator"]), found["count"]
            part, whole = (int((own * counts).sum()) for own in sums)
            return part, whole, Pairs(found["size"], *sums, counts, self.unit)
        sql = pair_cells_sql([numerator, denominator], self.source, across=across, **how)
        found = _ordered(self._whole(sql), "size", "c0", "c1", "steep")
        sums, cells = (found["numerator"], found["denominator"]), (found["c0"], found["c1"])
        pairs = pair_lotteries(found["size"], cells, found["count"], sums, across=across, unit=self.unit)
        return int(sums[0].sum()), int(sums[1].sum()), pairs

    def _whole(self, sql: str) -> dict[str, NDArray[np.int64]]:
        """Return the result of a statement as int64 columns. The caller ensures that numbers are below 2^57."""
        return {name: np.ma.getdata(column).astype(np.int64) for name, column in self.fetch(sql).items()}


def _ordered(found: dict[str, NDArray[np.int64]], *names: str) -> dict[str, NDArray[np.int64]]:
    """Return columns sorted by some of them. The first named column is the primary key."""
    order = np.lexsort([found[name] for name in reversed(names)])
    return {name: column[order] for name, column in found.items()}


def _of_place(found: dict[str, NDArray[np.int64]], place: int) -> dict[str, NDArray[np.int64]]:
    begin, end = np.searchsorted(found["place"], [place, place + 1])
    return {name: column[begin:end] for name, column in found.items()}


Found = TypeVar("Found")

_PATIENCE = 5.0  # seconds for an engine to end what was interrupted


def heard_while(run: Callable[[], Found], interrupt: Callable[[], None]) -> Found:
    """Call ``run`` such that Ctrl-C interrupts it at once and cancels the statement in the engine.

    The clients of most engines wait in code that Python cannot interrupt. Signals arrive in the main thread only, so in
    other threads ``run`` is called without this protection.

    Args:
        run: Function that waits for an engine.
        interrupt: Function that makes the statement end soon. It must not wait.

    Raises:
        KeyboardInterrupt: After the statement was cancelled.

    Examples:
        >>> heard_while(lambda: 42, lambda: None)
        42
    """
    if threading.current_thread() is not threading.main_thread():
        return run()
    found: Future[Found] = Future()
    threading.Thread(target=_keep, args=(run, found), name="everhold engine", daemon=True).start()
    try:
        return found.result()
    except KeyboardInterrupt:
        interrupt()
        with suppress(Exception, KeyboardInterrupt):  # whatever came of it
            found.exception(_PATIENCE)
        raise


def _keep(run: Callable[[], Found], found: Future[Found]) -> None:
    try:
        found.set_result(run())
    except BaseException as error:
        found.set_exception(error)


MOST_CELLS = 2**27
"""So many cells, rows by columns, are read from an engine at once: 1 GB of numbers."""

_COLUMNS_AT_ONCE = 8  # of row values that are held in memory


class RemoteRows(RowStore):
    """The rows of a table in an engine, evaluated as exact integer sums.

    Args:
        engine: The engine of the table.
        schema: Schema of the rows, as for `RowStore`. Its column of row ids gives their order.
        windows: Windows in which the rows arrived, if there are several. Rows are ordered by their window first.
        **facts: Arguments of `RowStore`.
    """

    reads_ahead: ClassVar[bool] = True

    def __init__(self, engine: Engine, schema: Schema, *, windows: Sequence[Watermark] = (), **facts: Any) -> None:
        super().__init__(schema, **facts)
        self.engine, self._windows, self._facts = engine, windows, facts
        self.at_once = engine.most_expressions
        self._group_sizes: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def close(self) -> None:
        """Close the engine, which opens again when needed."""
        self.engine.close()

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which rows are read. A change of the rows is detected."""
        return self.engine.reading()

    def together(self, parts: Sequence[RemoteRows], schema: Schema) -> RemoteRows:
        """Return the rows of several successive windows of a table."""
        table: Any = parts[0].engine
        windows = [part.engine.watermark for part in parts]  # type: ignore[attr-defined]  # `Remote`
        engine = table.between(windows[0].since, windows[-1].until, [part.engine for part in parts])
        engine.columns()
        return RemoteRows(engine, self._schema, windows=windows, **{**self._facts, "rows": schema.rows})

    def on(self, engine: Engine) -> RemoteRows:
        """Return the same rows read by another engine, which has more columns."""
        return RemoteRows(engine, self._schema, windows=self._windows, **self._facts)

    def totals(self, queries: Sequence[BoundQuery], *, parts: int = 1, unit: int = UNIT) -> NDArray[np.int64]:
        """Return exact sums of row values over each part of the rows. Row i belongs to part i modulo ``parts``."""
        if self._sealed and any(map(reads_predictions, queries)):
            return self.evaluate(queries, ["total"] * len(queries), parts=parts, unit=unit)[0]
        return super().totals(queries, parts=parts, unit=unit)

    def evaluate(
        self,
        queries: Sequence[BoundQuery],
        needs: Sequence[Needs],
        *,
        parts: int = 1,
        group_by: str | None = None,
        unit: int = UNIT,
    ) -> tuple[NDArray[np.int64], list[Any]]:
        """Return totals and statistics for interval procedures. Predictions stored in tables are joined to the rows."""
        if self._sealed and any(map(reads_predictions, queries)):
            return evaluate_with_predictions(
                self, self.engine, self.on, queries, needs, parts=parts, group_by=group_by, unit=unit
            )
        return super().evaluate(queries, needs, parts=parts, group_by=group_by, unit=unit)

    def _value(self, query: BoundQuery) -> AnyValue | None:
        if is_known(query, sealed=self._sealed):
            return None
        if query.row_value is not None or query.pair is None or query.pair.how == "ratio":
            return query.row_value
        first, second = self._value(query.pair.first), self._value(query.pair.second)
        return None if first is None or second is None else CombinedValue(query.pair.how, first, second)

    def _expression_totals(self, values: Sequence[AnyValue], *, parts: int, unit: int) -> NDArray[np.int64]:
        totals = np.zeros((len(values), parts), dtype=np.int64)
        source = self.engine.source if parts == 1 else self._in_order()
        with progress("reading rows", len(values)) as line:
            for start in range(0, len(values), self.at_once):
                some = slice(start, start + self.at_once)
                if parts == 1:
                    totals[some, 0] = self._fetch(
                        totals_sql(values[some], source, unit=unit, dialect=self.engine.dialect)
                    )[0]
                else:
                    sql = part_totals_sql(
                        values[some], source, parts=parts, position=POSITION, unit=unit, dialect=self.engine.dialect
                    )
                    for part, *sums in self._fetch(sql):
                        totals[some, int(part)] = sums
                line(min(some.stop, len(values)))
        return totals

    def _expression_grids(self, values: Sequence[RowValue], *, unit: int) -> Iterator[NDArray[np.int64]]:
        _check_cells(self.rows, len(values))
        for start in range(0, len(values), _COLUMNS_AT_ONCE):
            some = values[start : start + _COLUMNS_AT_ONCE]
            sql = row_values_sql(some, self._in_order(), position=POSITION, unit=unit, dialect=self.engine.dialect)
            found = self._fetch_arrays(sql)
            positions = np.ma.getdata(found["p"])
            for place in range(len(some)):
                grid = np.empty(self.rows, dtype=np.int64)
                grid[positions] = np.ma.getdata(found[f"v{place}"])
                yield grid

    def _counted(
        self, queries: Sequence[BoundQuery], needs: Sequence[Needs], group_by: str | None, unit: int
    ) -> dict[int, tuple[int, Any]]:
        """Return totals and statistics that the engine computes, by index of the query.

        Queries with code are left out.
        """
        alike: dict[tuple[Needs, int], list[int]] = {}
        for place, need in enumerate(needs):
            parts = parts_of_ratio(queries[place]) or (queries[place],)
            across = across_of(self, need, [part.yes_no for part in parts], group_by, unit)
            alike.setdefault((need, across), []).append(place)
        counted: dict[int, tuple[int, Any]] = {}
        for (need, across), places in sorted(alike.items()):
            counted |= self._counted_alike(places, queries, need, group_by, across, unit)
        return counted

    def _counted_alike(
        self,
        places: Sequence[int],
        queries: Sequence[BoundQuery],
        need: Needs,
        group_by: str | None,
        across: int,
        unit: int,
    ) -> dict[int, tuple[int, Any]]:
        counts = EngineCounts(self._fetch_arrays, self.engine.source, unit, self.engine.dialect)
        if need in ("pairs", "group_pairs"):
            shown: dict[int, tuple[int, Any]] = {}
            for place in places:
                numerator, denominator = map(self._value, parts_of_ratio(queries[place]))
                if numerator is not None and denominator is not None:
                    by = group_by if need == "group_pairs" else None
                    part, whole, pairs = counts.pairs(numerator, denominator, group_by=by, across=across)
                    shown[place] = ratio_of_sums(self.rows, part, whole, unit), pairs
            return shown
        values = {place: value for place in places if (value := self._value(queries[place])) is not None}
        if not values:
            return {}
        if need == "cells":
            return dict(zip(values, counts.cells(list(values.values())), strict=True))
        groups = counts.groups(list(values.values()), group_by=named(group_by), across=across)
        return dict(zip(values, groups, strict=True))

    def _sizes_of_groups(self, group_by: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if group_by not in self._group_sizes:
            sql = group_sizes_sql(self.engine.source, group_by=group_by, dialect=self.engine.dialect)
            found = np.array(self._fetch(sql), dtype=np.int64)
            self._group_sizes[group_by] = found[:, 0], found[:, 1]
        return self._group_sizes[group_by]

    def _index_of_groups(self, column: str) -> NDArray[np.int64]:
        _check_cells(self.rows, 1)
        of = self.engine.dialect
        group = f"dense_rank() OVER (ORDER BY {of.column(column)}) - 1"
        found = self._fetch_arrays(
            f"SELECT {of.rows}.{POSITION} AS p, {group} AS g FROM {self._in_order()} AS {of.rows}"
        )  # fmt: skip
        index = np.empty(self.rows, dtype=np.int64)
        index[np.ma.getdata(found["p"])] = np.ma.getdata(found["g"])
        return index

    def table(self, names: Sequence[str]) -> Table:
        """Return columns as arrays. Columns that were read before are dropped if memory is short.

        Raises:
            QueryRejected: If more cells are requested than may be read at once. Nothing is charged.
        """
        _check_cells(self.rows, len(names))
        if len({*self._arrays, *names}) * self.rows > MOST_CELLS:
            self._arrays.clear()
        return super().table(names)

    def _column_arrays(self, names: Sequence[str]) -> Mapping[str, Any]:
        of = self.engine.dialect
        listed = ", ".join(map(of.column, names))
        return self._fetch_arrays(f"SELECT {listed} FROM {self._in_order()} AS {of.rows} ORDER BY {of.rows}.{POSITION}")

    def _row_ids(self, name: str) -> list[Any]:
        _check_cells(self.rows, 1)
        of, kind = self.engine.dialect, self.engine.columns()[name]
        column = of.column(name)
        exact = column if kind in (ColumnKind.NUMBER, ColumnKind.STRING) else of.write("shown", column)
        source = self._in_order()
        found = self._fetch_arrays(f"SELECT {exact} AS name FROM {source} AS {of.rows} ORDER BY {of.rows}.{POSITION}")
        ids: list[Any] = np.ma.getdata(found["name"]).tolist()
        return ids

    def _in_order(self) -> str:
        """SQL for the rows after FROM, numbered in the order of arrival and then of row id.

        Predictions by position and the stored values of a champion are in the order of arrival.

        Raises:
            QueryRejected: If there are no row ids. Nothing is charged.
        """
        if self._schema.row_id is None:
            raise QueryRejected(
                "This query needs the rows in an order, and a table in an engine has no order. Use a holdout that "
                "was created with row_id=..., or ask an expression with a mechanism that needs no order."
            )
        of = self.engine.dialect
        keys = ", ".join((*window_numbers(self._windows, of), of.column(self._schema.row_id)))
        number = f"row_number() OVER (ORDER BY {keys}) - 1"
        return f"(SELECT {of.rows}.*, {number} AS {POSITION} FROM {self.engine.source} AS {of.rows})"

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with engine_errors_hidden:  # a second wall
            return heard_while(partial(self.engine.rows, sql), self.engine.interrupt)

    def _fetch_arrays(self, sql: str) -> dict[str, NDArray[Any]]:
        with engine_errors_hidden:
            return heard_while(partial(self.engine.arrays, sql), self.engine.interrupt)


def _check_cells(rows: int, columns: int) -> None:
    """Reject a query that would read more than the allowed number of values out of the engine."""
    if rows * columns > MOST_CELLS:
        raise QueryRejected(
            f"This query needs {columns} columns of {rows:,} rows outside the engine, more "
            f"than the limit of {MOST_CELLS:,} values. Ask an expression, which the engine "
            "evaluates, or name the columns that the function reads."
        )
