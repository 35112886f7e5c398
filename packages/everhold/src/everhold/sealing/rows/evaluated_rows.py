"""Stores of rows, which evaluate queries: functions, predictions and statistics.

A store of rows inherits `RowStore` and gives it the row values of expressions, columns, groups and row ids. All
decisions here depend only on public facts.
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from everhold.progress import progress
from everhold.sealing.rows.code_trials import EstimatedValues, predicted_once, public_values, sealed_values
from everhold.sealing.rows.sums import (
    COUNTED_ACROSS,
    apart_of,
    cells_across,
    cells_of,
    exact_sums,
    group_sums_of,
    named,
    pairs_of,
    parts_of_ratio,
    row_pairs_of,
)
from everhold.values.base import BoundQuery, GivenValues, Joined, RowFunction, Schema, StoredValues, Table
from everhold.values.evaluation import UNIT, clip_to_grid, to_grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Needs
    from everhold.values.expressions import RowValue
    from everhold.values.expressions.tree import AnyValue


class RowStore(ABC):
    """Base of stores of rows, which evaluate queries to exact integers. Safe to use from several threads.

    A row value is a whole number of grid units, from 0 to ``unit``. All stores return the same integers for the same
    rows. Errors of a store reveal nothing about sealed rows: errors of code and of engines are replaced. A subclass
    evaluates expressions and reads columns.

    Args:
        schema: Schema of the holdout. Its label has no missing values and keeps its own type.
        rows: Number of these rows.
        sealed: Whether faults of functions must go unreported, because a report would be a free answer.
        order_key: Key of the secret order in which code meets sealed rows. None for the rows' own order.

    Attributes:
        reads_ahead: Whether reading rows is so expensive that one reading serves several transactions of a batch.
    """

    reads_ahead: ClassVar[bool] = False
    at_once: int = 8
    """Expressions that one reading evaluates."""

    def __init__(self, schema: Schema, *, rows: int, sealed: bool, order_key: bytes | None = None) -> None:
        self.rows = rows
        self._schema = schema
        self._sealed = sealed
        self._order_key = order_key
        self._arrays: dict[str, NDArray[Any]] = {}
        self._ids: list[Any] | None = None
        self._group_indices: dict[str, NDArray[np.int64]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rows={self.rows})"

    @abstractmethod
    def close(self) -> None:
        """Release files and connections, which open again when needed."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Context in which rows are read. A change of the rows is detected.

        Raises:
            IntegrityError: If the rows are not those that were sealed. Nothing is charged.
        """

    @abstractmethod
    def _expression_totals(self, values: Sequence[AnyValue], *, parts: int, unit: int) -> NDArray[np.int64]:
        """Return sums of expressions over the parts of the rows, shape (values, parts)."""

    @abstractmethod
    def _expression_grids(self, values: Sequence[RowValue], *, unit: int) -> Iterator[NDArray[np.int64]]:
        """Yield for each expression the value of every row in grid units, shape (rows,)."""

    @abstractmethod
    def _column_arrays(self, names: Sequence[str]) -> Mapping[str, Any]:
        """Return columns in the order of the rows, shape (rows,), masked where a value is missing."""

    @abstractmethod
    def _index_of_groups(self, column: str) -> NDArray[np.int64]:
        """Return the group of each row by equal values of a column, from 0, shape (rows,)."""

    @abstractmethod
    def _sizes_of_groups(self, group_by: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the different sizes of groups, and how many groups have each size. Public if the column is."""

    @abstractmethod
    def _row_ids(self, name: str) -> list[Any]:
        """Read the column of row ids. Numbers are exact, other values are texts."""

    def _value(self, query: BoundQuery) -> AnyValue | None:
        """Return the expression that the subclass evaluates for a query, or None for code and combined queries."""
        return query.row_value if self._sealed or query.training_values is None else None

    def _counted(
        self, queries: Sequence[BoundQuery], needs: Sequence[Needs], group_by: str | None, unit: int
    ) -> dict[int, tuple[int, Any]]:
        """Return totals and statistics that a subclass computes in its engine, by index of the query."""
        return {}

    def counts(self, query: BoundQuery) -> bool:
        """Return whether all parts of a query are expressions that the store evaluates itself, not Python code."""
        return all(self._value(part) is not None for part in parts_of_ratio(query) or (query,))

    def totals(self, queries: Sequence[BoundQuery], *, parts: int = 1, unit: int = UNIT) -> NDArray[np.int64]:
        """Return exact sums of row values over each part of the rows. Row i belongs to part i modulo ``parts``.

        Returns:
            Shape (queries, parts), in grid units.

        Raises:
            QueryRejected: If these are public rows and a function fails on them.
        """
        totals = np.zeros((len(queries), parts), dtype=np.int64)
        written: dict[int, AnyValue] = {}
        with self.reading():  # also where all columns are in memory already
            for place, query in enumerate(queries):
                function = query.sealed if self._sealed else query.training
                if (value := self._value(query)) is not None:
                    written[place] = value
                elif query.pair is not None or is_known(query, sealed=self._sealed):
                    (grid,) = grids_of(self, [query], unit=unit)
                    totals[place] = [grid[part::parts].sum() for part in range(parts)]
                elif function is not None:
                    totals[place] = self.code.totals(function, query, parts=parts, unit=unit)
            if written:
                totals[list(written)] = self._expression_totals(list(written.values()), parts=parts, unit=unit)
        return totals

    def evaluate(
        self, queries: Sequence[BoundQuery], needs: Sequence[Needs], *, parts: int = 1, group_by: str | None = None,
        unit: int = UNIT,
    ) -> tuple[NDArray[np.int64], list[Any]]:  # fmt: skip
        """Return totals, and the statistics that interval procedures need, from one reading of the rows.

        If a query needs more than a total, its row values are computed without a branch that depends on them, as in
        `totals`, and then summed by `rows.sums`, which says what its time depends on. The column of the groups decides
        the order of sums by group, and is public. Functions receive sealed rows in the secret order.

        Args:
            queries: Queries to evaluate.
            needs: Statistics that the interval procedure of each query needs, see
                `everhold.guarantees.intervals.base.Procedure`.
            parts: Number of parts of the rows, as for `totals`. If it is not 1, only totals may be needed.
            group_by: Column whose equal values make a group, for statistics of groups.
            unit: Grid steps between 0 and 1.

        Returns:
            Totals as for `totals`, and for each query `Cells`, `GroupSums`, `Pairs`, or None if the total is enough.
                The total of a ratio is ``rows * unit * sum(min(a, b)) / sum(b)`` rounded down, or 0 if no row counts.

        Raises:
            QueryRejected: If these are public rows and a function fails on them.
        """
        totals = np.zeros((len(queries), parts), dtype=np.int64)
        seen: list[Any] = [None] * len(queries)
        plain = [place for place, need in enumerate(needs) if need == "total"]
        more = [place for place, need in enumerate(needs) if need != "total"]
        if parts != 1 and more:
            raise ValueError(
                f"{len(more)} queries need more than sums, and sums alone are computed for "
                f"{parts} parts. Pass queries that need only sums."
            )
        if plain:
            totals[plain] = self.totals([queries[place] for place in plain], parts=parts, unit=unit)
        if not more:
            return totals, seen
        with self.reading(), progress("reading rows", len(more)) as line:
            for start in range(0, len(more), self.at_once):
                some = more[start : start + self.at_once]
                shown = _shown(
                    self, [queries[place] for place in some], [needs[place] for place in some], group_by, unit
                )
                for place, (total, what) in zip(some, shown, strict=True):
                    totals[place, 0], seen[place] = total, what
                line(start + len(some))
        return totals, seen

    def row_values(self, query: BoundQuery, *, unit: int = UNIT) -> NDArray[np.int64]:
        """Return the value of every row in grid units, shape (rows,). Secret for sealed rows."""
        with self.reading():
            return grids_of(self, [query], unit=unit)[0]

    def summary(
        self, need: Needs, grid: NDArray[np.int64], *, group_by: str | None = None, unit: int = UNIT
    ) -> tuple[int, Any]:
        """Return the total of row values, and the further statistics that an interval procedure needs."""
        if need == "total":
            return int(grid.sum()), None
        with self.reading():
            return _summary(self, need, [grid], group_by, unit)

    def group_index(self, group_by: str) -> NDArray[np.int64]:
        """Return the group of each row, by equal values of a column, from 0, shape (rows,). Secret for sealed rows."""
        with self.reading():
            if group_by not in self._group_indices:
                self._group_indices[group_by] = self._index_of_groups(group_by)
            return self._group_indices[group_by]

    @cached_property
    def code(self) -> CodeOnRows:
        """Evaluator of Python functions and predictions on these rows, imported on first use."""
        return CodeOnRows(self, self._schema, self._sealed, self._order_key)

    def table(self, names: Sequence[str]) -> Table:
        """Return columns as arrays: float64 with nan if missing, booleans with false if missing, or objects.

        The types do not depend on whether a value is missing, because a function that fails on one type would reveal
        it.
        """
        with self.reading():
            if missing := [name for name in names if name not in self._arrays]:
                found = self._column_arrays(missing)
                self._arrays |= plain_columns({name: found[name] for name in missing}, label=self._schema.label)
        return {name: self._arrays[name].view() for name in names}  # a view cannot be made writable again

    def row_ids(self, name: str) -> list[Any]:
        """Return the public column of row ids. Numbers are exact, other values are texts."""
        if self._ids is None:
            with self.reading():
                self._ids = self._row_ids(name)
        return self._ids


def is_known(query: BoundQuery, *, sealed: bool) -> bool:
    """Return whether the row values of these rows are given with a query. Only for training rows they can be."""
    return not sealed and query.training_values is not None


def grids_of(rows: RowStore, queries: Sequence[BoundQuery], *, unit: int) -> list[NDArray[np.int64]]:
    """Return for each query its row values in grid units, in the order of the rows. Secret for sealed rows."""

    def leaves_of(query: BoundQuery) -> list[BoundQuery]:
        if query.pair is None or is_known(query, sealed=rows._sealed):
            return [query]
        return [*leaves_of(query.pair.first), *leaves_of(query.pair.second)]

    def combined(query: BoundQuery) -> NDArray[np.int64]:
        if query.pair is None or is_known(query, sealed=rows._sealed):
            return next(found)
        if query.pair.how == "ratio":
            raise ValueError("A ratio has no value for each row. Pass its numerator and its denominator.")
        first, second = combined(query.pair.first), combined(query.pair.second)
        if query.pair.how == "difference":
            return (unit + first - second) // 2
        return np.minimum(first, second if query.pair.how == "within" else unit - second)

    leaves = [leaf for query in queries for leaf in leaves_of(query)]
    known = [np.asarray(leaf.training_values) if is_known(leaf, sealed=rows._sealed) else None for leaf in leaves]
    new = [leaf for leaf, grid in zip(leaves, known, strict=True) if grid is None]
    written = [leaf.row_value for leaf in new if leaf.row_value is not None]
    columns = rows._expression_grids(written, unit=unit) if written else iter(())
    with predicted_once():  # also for a numerator and a denominator
        grids = iter([rows.code.grid(leaf, unit=unit) if leaf.row_value is None else next(columns) for leaf in new])
    found = iter([next(grids) if grid is None else grid for grid in known])
    return [combined(query) for query in queries]


def _shown(
    rows: RowStore, queries: Sequence[BoundQuery], needs: Sequence[Needs], group_by: str | None, unit: int
) -> list[tuple[int, Any]]:
    """Return each query's total, and the statistics that its interval procedure needs, from row values in memory."""
    shown = rows._counted(queries, needs, group_by, unit)
    left = [place for place in range(len(queries)) if place not in shown]
    parts = [parts_of_ratio(queries[place]) or (queries[place],) for place in left]
    grids = iter(grids_of(rows, [part for own in parts for part in own], unit=unit))
    for place, own in zip(left, parts, strict=True):
        if needs[place] == "apart":
            shown[place] = apart_of(queries[place], next(grids))
            continue
        yes_no = [part.yes_no for part in own]
        shown[place] = _summary(rows, needs[place], [next(grids) for _ in own], group_by, unit, yes_no=yes_no)
    return [shown[place] for place in range(len(queries))]


def _summary(
    rows: RowStore,
    need: Needs,
    grids: Sequence[NDArray[np.int64]],
    group_by: str | None,
    unit: int,
    *,
    yes_no: Sequence[bool] = (False,),
) -> tuple[int, Any]:
    """Return the total and the statistics of one query, from its row values or from those of a ratio's parts.

    `yes_no` says of each part whether every row value is 0 or 1.
    """
    if need == "cells":
        cells = cells_of(grids[0], unit=unit)
        return int(cells.sums.sum()), cells
    across = across_of(rows, need, yes_no, group_by, unit)
    if need == "groups":
        sizes, (sums,) = _grouped(rows, grids, group_by, unit=unit)
        return int(sums.sum()), group_sums_of(sizes, sums, unit=unit, across=across)
    if need not in ("pairs", "group_pairs"):
        raise ValueError(f"The interval procedure asks for {need!r}, which is not computed from sealed rows.")
    numerators, denominators = np.minimum(*grids), grids[1]
    part, whole = int(numerators.sum()), int(denominators.sum())
    if need == "pairs":
        pairs = row_pairs_of(numerators, denominators, unit=unit, across=across)
    else:
        sizes, sums_of_both = _grouped(rows, [numerators, denominators], group_by, unit=unit)
        pairs = pairs_of(sizes, *sums_of_both, unit=unit, across=across)
    return ratio_of_sums(rows.rows, part, whole, unit), pairs


def across_of(rows: RowStore, need: Needs, yes_no: Sequence[bool], group_by: str | None, unit: int) -> int:
    """Return the number of bins along each axis of the histogram of units, or 0 if each unit has its own bin.

    `yes_no` says of the query, or of both parts of a ratio, whether every row value is 0 or 1.
    """
    if need in ("cells", "total"):
        return 0
    if need == "pairs" and yes_no[-1] and not all(yes_no) and rows.rows > COUNTED_ACROSS and not unit % COUNTED_ACROSS:
        return COUNTED_ACROSS
    sizes, counts = np.ones(1, dtype=np.int64), np.full(1, rows.rows)
    if need != "pairs":
        sizes, counts = rows._sizes_of_groups(named(group_by))
    return cells_across(sizes, counts, axes=1 if need == "groups" else 2, unit=unit, yes_no=all(yes_no))


def _grouped(
    rows: RowStore, grids: Sequence[NDArray[np.int64]], group_by: str | None, *, unit: int
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return the sizes of the groups, and the sums of row values by group for each query."""
    index = rows.group_index(named(group_by))
    sizes = np.bincount(index).astype(np.int64)
    return sizes, [exact_sums(grid, index, len(sizes), unit=unit) for grid in grids]


def ratio_of_sums(rows: int, part: int, whole: int, unit: int) -> int:
    """Return a ratio of two sums, scaled to a sum over all rows and rounded down, or 0 if the denominator is 0.

    `part` is the numerator, and `whole` the denominator.
    """
    return part * rows * unit // whole if whole else 0


# Code and predictions on rows: a function meets sealed rows in a secret order, and its faults are not told.


@dataclass(frozen=True, slots=True)
class NotedRows:
    """Secret record of the sealed rows on which models fail.

    Attributes:
        by_model: For each model's source, the rows on which the model fails, shape (rows,), or None if it fails on no
            row.
    """

    by_model: dict[Any, NDArray[np.bool_] | None] = field(default_factory=dict, repr=False)

    def of(self, query: BoundQuery, rows: int) -> NDArray[np.bool_]:
        """Return the rows on which a model of a query fails, or any model if the query names none."""
        sources = set(_sources(query)) or self.by_model.keys()
        found = np.zeros(rows, dtype=bool)
        for source in sources:
            if (fails := self.by_model.get(source)) is not None:
                found |= fails
        return found


NOTED: ContextVar[NotedRows | None] = ContextVar("NOTED", default=None)


@contextmanager
def noting_failing_rows() -> Iterator[NotedRows]:
    """Context that collects on which sealed rows models fail."""
    token = NOTED.set(noted := NotedRows())
    try:
        yield noted
    finally:
        NOTED.reset(token)


def _sources(query: BoundQuery) -> Iterator[Any]:
    """Yield the keys that identify the models of a query."""
    if query.pair is not None:
        yield from _sources(query.pair.first)
        yield from _sources(query.pair.second)
    elif isinstance(query.sealed, EstimatedValues):
        yield query.sealed.source


@dataclass(frozen=True)
class CodeOnRows:
    """Evaluator of functions and given predictions on the rows of one store.

    Attributes:
        rows: Store of the rows.
        schema: Schema of the holdout.
        are_sealed: Whether faults of functions must go unreported.
        order_key: Key of the secret order in which functions receive sealed rows. None for the stored order.
    """

    rows: RowStore
    schema: Schema
    are_sealed: bool
    order_key: bytes | None

    def grid(self, query: BoundQuery, *, unit: int) -> NDArray[np.int64]:
        """Return row values in grid units. On sealed rows no fault is reported.

        Args:
            query: The query to evaluate.
            unit: Grid steps between 0 and 1.
        """
        function = query.sealed if self.are_sealed else query.training
        if function is None:
            raise ValueError(f"{query.shown!r} has no values for these rows. Pass an expression or a function.")
        return self._on_grid(self._of(function, query), query, unit)

    def totals(self, function: RowFunction, query: BoundQuery, *, parts: int, unit: int) -> NDArray[np.int64]:
        """Return sums of a function's row values over each part of the rows, in grid units."""
        values = self._of(function, query)
        if values.dtype == np.bool_ and parts == 1:
            return np.array([np.count_nonzero(values) * unit], dtype=np.int64)
        grid = self._on_grid(values, query, unit)
        return np.array([grid[part::parts].sum() for part in range(parts)], dtype=np.int64)

    def _of(self, function: RowFunction, query: BoundQuery) -> NDArray[Any]:
        rows, names = self.rows, tuple(self.schema.columns) if query.reads is None else query.reads
        if isinstance(function, Joined):
            raise TypeError(
                f"{query.shown!r} is computed by the engine and has no values for single rows. Ask for totals."
            )
        if isinstance(function, StoredValues):
            function = GivenValues(function.read(), function.judge)  # here, because a disk that fails is no row's fault
        if not self.are_sealed:
            return public_values(function, rows.table(names), rows.rows, of=rows)
        if query.by_position:
            return sealed_values(function, rows.table(names), rows.rows, fault=query.at_fault)
        return self.values(function, names, fault=query.at_fault)

    def _on_grid(self, values: NDArray[Any], query: BoundQuery, unit: int) -> NDArray[np.int64]:
        """Round values of code to the grid. In a yes-no query every value but 1 becomes 0."""
        sealed = self.are_sealed
        grid = clip_to_grid(values, unit=unit, fault=query.at_fault) if sealed else to_grid(values, unit=unit)
        return grid // unit * unit if query.yes_no else grid

    def values(
        self,
        function: RowFunction,
        names: Sequence[str],
        width: tuple[int, ...] = (),
        *,
        fault: float = 0.0,
    ) -> NDArray[Any]:
        """Return the values of a function for sealed rows, which the function receives in a secret order.

        So if a function uses the position of a row, which is forbidden, the position says nothing about the row.
        """
        table, order = self.table(names), slice(None) if self._order is None else self._order
        failing: dict[Any, NDArray[np.bool_]] = {}
        found = sealed_values(function, table, self.rows.rows, width, fault=fault, of=self.rows, failing=failing)
        values = np.empty_like(found)
        values[order] = found
        if (noted := NOTED.get()) is not None:
            for source, fails in failing.items():
                in_order = np.empty_like(fails)
                in_order[order] = fails
                noted.by_model[source] = in_order if fails.any() else None
        return values

    def table(self, names: Sequence[str]) -> Table:
        """Return columns as `RowStore.table` does, in the order in which code meets the rows."""
        table = self.rows.table(names)
        if self._order is None:
            return table
        met = {name: column[self._order] for name, column in table.items()}
        for column in met.values():
            column.flags.writeable = False
        return met

    @cached_property
    def _order(self) -> NDArray[np.int64] | None:
        """Permutation of the rows in which functions receive them, or None for the stored order."""
        if self.order_key is None:
            return None
        return np.random.default_rng(int.from_bytes(self.order_key)).permutation(self.rows.rows)

    def dealing_order(self) -> NDArray[np.int64]:
        """Return a permutation of the rows that is independent of their values.

        For sealed rows, it depends on a secret key.
        """
        if self.order_key is None:
            return np.random.default_rng(0).permutation(self.rows.rows)
        key = hmac.digest(self.order_key, b"everhold dealing of rows", "sha256")
        return np.random.default_rng(int.from_bytes(key)).permutation(self.rows.rows)


# Columns of rows as arrays that code may read.


def plain_columns(columns: Mapping[str, Any], *, label: str | None) -> dict[str, NDArray[Any]]:
    """Return columns as plain NumPy arrays by name. The label keeps its own type."""
    plain = {name: _plain(column) for name, column in columns.items() if name != label}
    if label is not None and label in columns:
        own: NDArray[Any] = np.array(np.ma.getdata(columns[label]))
        own = own.astype(str) if own.dtype.kind == "O" else own  # texts in fixed width, which compare fast
        own.flags.writeable = False
        plain[label] = own
    return plain


def _plain(column: Any) -> NDArray[Any]:
    """Return a column as a read-only array without a mask."""
    missing = np.ma.getmaskarray(column)
    plain: NDArray[Any] = np.array(np.ma.getdata(column))
    if plain.dtype.kind == "b":
        plain[missing] = False
    elif plain.dtype.kind in "iuf":
        plain = plain.astype(np.float64)
        plain[missing] = np.nan
    else:
        plain = plain.astype(object)
        plain[missing] = None
    plain.flags.writeable = False
    return plain
