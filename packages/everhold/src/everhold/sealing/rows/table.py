"""Rows of a file as a row store: DuckDB reads the columns, and NumPy evaluates queries.

`everhold.values.expressions.arrays` evaluates expressions in a time that says nothing about the rows.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from everhold.dependence.blocks import bits_of_block, block_of_rows, sizes_of_blocks
from everhold.guarantees.intervals.base import Cells, Needs
from everhold.progress import progress
from everhold.sealing.intake.checks import lacking_columns
from everhold.sealing.intake.duckdb_files import DOUBLE, POSITION, SECONDS
from everhold.sealing.rows.embedded import Embedded, engine_errors_hidden
from everhold.sealing.rows.evaluated_rows import RowStore, grids_of, is_known
from everhold.sealing.rows.sums import cells_of, exact_sums, parts_of_ratio
from everhold.values.evaluation import UNIT
from everhold.values.expressions.arrays import BLOCK, ArrayProgram, Words
from everhold.values.expressions.tree import ColumnKind, Operation, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.base import BoundQuery, Schema
    from everhold.values.expressions import RowValue

_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|UINTEGER$|FLOAT$|DOUBLE$|DECIMAL\(")
_FIRST_ROWS = 1_000  # among which examples are found
_AT_ONCE = 64  # expressions that are evaluated together
_BEYOND_NUMPY = ("HUGEINT", "UHUGEINT")


class StoredRows(RowStore):
    """Row store of one Parquet file, with exact integer sums.

    Args:
        engine: The file, and what reads it.
        schema: Schema of the rows, as for `RowStore`.
        rows: Number of the rows.
        sealed: Whether faults of functions must go unreported, because a report would be a free answer.
        order_key: Key of the secret order in which code meets sealed rows. None for the rows' own order.
        whole: The public table from which these rows are a part. None if these are all rows.
    """

    def __init__(
        self,
        engine: Embedded,
        schema: Schema,
        *,
        rows: int,
        sealed: bool,
        order_key: bytes | None = None,
        whole: RowStore | None = None,
    ) -> None:
        super().__init__(schema, rows=rows, sealed=sealed, order_key=order_key)
        self.engine = engine
        self.whole = whole
        self._orders: dict[tuple[str, ...], NDArray[np.int64] | None] = {}

    def close(self) -> None:
        """Close the engine, and the engine that reads the rows of all arrivals. They open again when needed."""
        self.engine.close()
        self._embedded.close()
        if self.whole is not None:
            self.whole.close()

    def _check_open(self) -> None:
        if self._sealed:
            raise ValueError("Values of sealed rows cannot be read. Pass the training rows.")

    @cached_property
    def incomplete(self) -> frozenset[str]:
        """Columns of public rows with missing values.

        Raises:
            ValueError: If the rows are sealed.
        """
        self._check_open()
        with self.reading(), engine_errors_hidden:
            return lacking_columns(self.engine.rows, self._schema.columns, self.engine.source)

    def examples(self) -> dict[str, str]:
        """Return an example value of each column from the first training rows. Columns without a value are left out.

        Raises:
            ValueError: If the rows are sealed.
        """
        self._check_open()
        names, found = list(self._schema.columns), list[str | None]()
        with self.reading(), engine_errors_hidden:
            for start in range(0, len(names), _AT_ONCE):
                values = ", ".join(
                    f"min_by({quoted(name)}, {POSITION})::VARCHAR" for name in names[start : start + _AT_ONCE]
                )
                first = f"(SELECT * FROM {self.engine.source} WHERE {POSITION} < {_FIRST_ROWS})"
                found += self.engine.rows(f"SELECT {values} FROM {first}")[0]
        return {name: value for name, value in zip(names, found, strict=True) if value is not None}

    @cached_property
    def _embedded(self) -> EmbeddedRows:
        return EmbeddedRows(ColumnStore(self._arrays_of, self.engine.source, self.rows), self.rows)

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which rows are read. A change of the rows is detected, and raises IntegrityError."""
        return self.engine.reading()

    def counting(self, query: BoundQuery) -> RowStore:
        """Return the store that evaluates a query: the whole table if it can evaluate the query, else these rows."""
        return self if self.whole is None or not self.whole.counts(query) else self.whole

    def _expression_totals(self, values: Sequence[Any], *, parts: int, unit: int) -> NDArray[np.int64]:
        if len(values) > _AT_ONCE:
            totals = np.zeros((len(values), parts), dtype=np.int64)
            with progress("reading rows", len(values)) as line:
                for start in range(0, len(values), _AT_ONCE):
                    some = slice(start, start + _AT_ONCE)
                    totals[some] = self._expression_totals(values[some], parts=parts, unit=unit)
                    line(min(some.stop, len(values)))
            return totals
        if parts == 1:
            return self._embedded.totals(values, unit=unit)[:, None]
        return self._embedded.sums(values, lambda rows: np.arange(rows.start, rows.stop) % parts, parts, unit=unit)

    def _counted(
        self, queries: Sequence[BoundQuery], needs: Sequence[Needs], group_by: str | None, unit: int
    ) -> dict[int, tuple[int, Any]]:
        """Return totals and histograms computed block by block if every query is an expression, else nothing."""
        new = [query for query in queries if not is_known(query, sealed=self._sealed)]
        values = [query.row_value for query in new if query.row_value is not None]
        if len(values) < len(queries) or any(need != "cells" for need in needs):
            return {}
        found = self._embedded.cells(values, unit=unit)
        return {place: (int(cells.sums.sum()), cells) for place, cells in enumerate(found)}

    def _sizes_of_groups(self, group_by: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        sizes = np.bincount(self.group_index(group_by))
        found, counts = np.unique(sizes, return_counts=True)
        return found.astype(np.int64), counts.astype(np.int64)

    def grids(self, query: BoundQuery, *, unit: int = UNIT) -> tuple[NDArray[np.int64], ...]:
        """Return row values of public rows in grid units, each of shape (rows,): one array, or two arrays for a ratio.

        Raises:
            QueryRejected: If a function fails.
            ValueError: If the rows are sealed.
        """
        self._check_open()
        with self.reading():
            return tuple(grids_of(self, parts_of_ratio(query) or (query,), unit=unit))

    def each_grid(self, queries: Sequence[BoundQuery], *, unit: int = UNIT) -> Iterator[NDArray[np.int64]]:
        """Yield for each query the row values of public rows in grid units, shape (rows,). No query may be a ratio.

        Raises:
            QueryRejected: If a function fails.
            ValueError: If the rows are sealed.
        """
        self._check_open()
        for start in range(0, len(queries), self.at_once):
            with self.reading():
                yield from grids_of(self, queries[start : start + self.at_once], unit=unit)

    def _expression_grids(self, values: Sequence[RowValue], *, unit: int) -> Iterator[NDArray[np.int64]]:
        for start in range(0, len(values), self.at_once):
            yield from self._embedded.grids(values[start : start + self.at_once], unit=unit)

    def _index_of_groups(self, column: str) -> NDArray[np.int64]:
        group = f"dense_rank() OVER (ORDER BY {quoted(column)}) - 1"
        found = self._arrays_of(f"SELECT {POSITION} AS p, {group} AS g FROM {self.engine.source}")
        index = np.empty(self.rows, dtype=np.int64)
        index[np.ma.getdata(found["p"])] = np.ma.getdata(found["g"])
        return index

    def groups_of_rows(self, column: str) -> NDArray[np.int64]:
        """Return the group of each public row, by equal values of a column, from 0, shape (rows,).

        Raises:
            ValueError: If the rows are sealed.
        """
        self._check_open()
        return self.group_index(column)

    def blocks_of_rows(self, order_by: Sequence[str]) -> NDArray[np.int64]:
        """Return the block of each public row in an order, as in `block_totals`, shape (rows,)."""
        with self.reading():
            blocks = self._blocks(tuple(order_by)) if order_by else None
        return block_of_rows(self.rows) if blocks is None else blocks

    def block_totals(
        self, queries: Sequence[BoundQuery], *, order_by: Sequence[str] = (), unit: int = UNIT
    ) -> NDArray[np.int64]:
        """Return exact sums of row values over consecutive blocks of public rows, in one pass as for `totals`.

        Args:
            queries: Queries with an expression or with a function of training rows.
            order_by: Columns that put rows in order, the first one first; none for the order of the file.
            unit: Grid steps between 0 and 1.

        Returns:
            Shape (queries, blocks), in grid units; the blocks are those of `block_of_rows`.

        Raises:
            QueryRejected: If a function fails.
        """
        count = len(sizes_of_blocks(self.rows))
        totals = np.zeros((len(queries), count), dtype=np.int64)
        written: dict[int, Any] = {}
        with self.reading():
            blocks = self._blocks(tuple(order_by)) if order_by else None
            for place, query in enumerate(queries):
                if (value := self._value(query)) is not None:
                    written[place] = value
                elif query.trained:
                    (grid,) = grids_of(self, [query], unit=unit)
                    of_rows = block_of_rows(self.rows) if blocks is None else blocks
                    totals[place] = exact_sums(grid, of_rows, count, unit=unit)
            places, values = list(written), list(written.values())
            for start in range(0, len(values), _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                totals[places[some]] = (
                    self._embedded.block_sums(values[some], bits_of_block(self.rows), count, unit=unit)
                    if blocks is None else self._embedded.sums(values[some], blocks.__getitem__, count, unit=unit)
                )  # fmt: skip
        return totals

    def is_in_order(self, column: str) -> bool:
        """Return whether the file is in the order of a column already. For public rows only."""
        with self.reading():
            return self._blocks((column,)) is None

    def _blocks(self, order_by: tuple[str, ...]) -> NDArray[np.int64] | None:
        """Return the block of each row in the order of some columns, or None if that is the order of the file."""
        if order_by not in self._orders:
            place = f"row_number() OVER (ORDER BY {', '.join(map(quoted, (*order_by, POSITION)))}) - 1"
            found = self._arrays_of(f"SELECT {POSITION} AS p, {place} AS place FROM {self.engine.source}")
            places = np.empty(self.rows, dtype=np.int64)
            places[np.asarray(found["p"])] = found["place"]
            in_file = bool(np.all(np.diff(places) > 0))
            self._orders[order_by] = None if in_file else block_of_rows(self.rows)[places]
        return self._orders[order_by]

    def _arrays_of(self, sql: str) -> dict[str, NDArray[Any]]:
        with engine_errors_hidden:
            return self.engine.arrays(sql)

    def _column_arrays(self, names: Sequence[str]) -> Mapping[str, Any]:
        listed = ", ".join(map(quoted, names))
        return self._arrays_of(f"SELECT {listed} FROM {self.engine.source} ORDER BY {POSITION}")

    def _row_ids(self, name: str) -> list[Any]:
        column = quoted(name)
        with engine_errors_hidden:  # a second wall
            kind = self.engine.rows(f"SELECT typeof({column}) FROM {self.engine.source} LIMIT 1")[0][0]
        exact = column if _NUMBERS.match(kind) else f"CAST({column} AS VARCHAR)"
        sql = f"SELECT {exact} AS name FROM {self.engine.source} ORDER BY {POSITION}"
        if kind in _BEYOND_NUMPY or kind.startswith("DECIMAL"):
            with engine_errors_hidden:
                return [row[0] for row in self.engine.rows(sql)]
        ids: list[Any] = np.ma.getdata(self._arrays_of(sql)["name"]).tolist()
        return ids


# Sums and histograms of expressions over the rows of an embedded file, evaluated by NumPy block by block.
#
# `everhold.values.expressions.arrays` says what the time of the row values depends on. Adding up takes the same time
# whatever they are.


class EmbeddedRows:
    """Evaluator of expressions on the columns of a file.

    Args:
        store: Store of the rows.
        rows: Number of rows.
    """

    def __init__(self, store: ColumnStore, rows: int) -> None:
        self._store, self._rows = store, rows

    def close(self) -> None:
        """Release the columns."""
        self._store.close()

    def totals(self, values: Sequence[RowValue], *, unit: int) -> NDArray[np.int64]:
        """Return exact sums over all rows, shape (values,)."""
        totals = np.zeros(len(values), dtype=np.int64)
        for _, _, arrays in self._blocks(values, unit):
            for place, found in enumerate(arrays):
                totals[place] += np.count_nonzero(found) * unit if found.dtype == np.bool_ else found.sum()
        return totals

    def sums(
        self, values: Sequence[RowValue], part_of: Callable[[slice], NDArray[np.int64]], parts: int, *, unit: int
    ) -> NDArray[np.int64]:
        """Return exact sums over disjoint parts of the rows, shape (values, parts).

        Args:
            values: Row values to add up.
            part_of: Function from positions of consecutive rows to the part of each row.
            parts: Number of parts.
            unit: Grid steps between 0 and 1.
        """
        sums = np.zeros((len(values), parts), dtype=np.int64)
        for start, stop, arrays in self._blocks(values, unit):
            part = part_of(slice(start, stop))
            for place, found in enumerate(arrays):
                if found.dtype == np.bool_:
                    sums[place] += np.bincount(part, weights=found, minlength=parts).astype(np.int64) * unit
                else:
                    sums[place] += exact_sums(found, part, parts, unit=unit)
        return sums

    def block_sums(self, values: Sequence[RowValue], bits: int, blocks: int, *, unit: int) -> NDArray[np.int64]:
        """Return exact sums over blocks of ``2**bits`` rows in the order of the file, shape (values, blocks)."""
        sums = np.zeros((len(values), blocks), dtype=np.int64)
        for start, stop, arrays in self._blocks(values, unit):
            touched = slice(start >> bits, ((stop - 1) >> bits) + 1)
            begins = np.maximum((np.arange(touched.start, touched.stop) << bits) - start, 0)
            for place, found in enumerate(arrays):
                added = np.add.reduceat(found, begins, dtype=np.int64)
                sums[place, touched] += added * unit if found.dtype == np.bool_ else added
        return sums

    def cells(self, values: Sequence[RowValue], *, unit: int) -> list[Cells]:
        """Return the histogram of each row value."""
        found: list[Cells | None] = [None] * len(values)
        for _, _, arrays in self._blocks(values, unit):
            for place, array in enumerate(arrays):
                more, before = cells_of(_on_grid(array, unit), unit=unit), found[place]
                if before is not None:
                    more = Cells(before.counts + more.counts, before.sums + more.sums, unit)
                found[place] = more
        none = np.zeros(0, dtype=np.int64)
        return [cells_of(none, unit=unit) if cells is None else cells for cells in found]

    def grids(self, values: Sequence[RowValue], *, unit: int) -> list[NDArray[np.int64]]:
        """Return row values in grid units, in the order of the file, each of shape (rows,)."""
        grids = [np.empty(self._rows, dtype=np.int64) for _ in values]
        for start, stop, arrays in self._blocks(values, unit):
            for grid, found in zip(grids, arrays, strict=True):
                grid[start:stop] = _on_grid(found, unit)
        return grids

    def _blocks(self, values: Sequence[RowValue], unit: int) -> Iterator[tuple[int, int, list[NDArray[Any]]]]:
        """Yield, for blocks of consecutive rows, the first position, the end, and the row values of each expression."""
        program: ArrayProgram | None = None
        words: dict[str, Any] = {}
        nodes = [node for value in values for node in value.expression.nodes if node.operation is Operation.COLUMN]
        for span in self._store.spans({str(node.value): node.kind for node in nodes}):
            own = {name: column.words for name, column in span.columns.items() if column.words}
            if program is None or any(own[name] is not words.get(name) for name in own) or own.keys() != words.keys():
                words = own
                program = ArrayProgram(values, own, unit=unit) if own else _without_words(tuple(values), unit)
            for start in range(span.start, span.stop, BLOCK):
                stop = min(start + BLOCK, span.stop)
                some = slice(start - span.start, stop - span.start)
                columns = {name: column.values[some] for name, column in span.columns.items()}
                yield start, stop, program.run(columns, stop - start)


@lru_cache(maxsize=16)
def _without_words(values: tuple[RowValue, ...], unit: int) -> ArrayProgram:
    """Return the program of expressions that read no text. It is cached, because each block of rows uses it."""
    return ArrayProgram(values, {}, unit=unit)


def _on_grid(found: NDArray[Any], unit: int) -> NDArray[np.int64]:
    """Return row values as integers in grid units."""
    return found.astype(np.int64) * unit if found.dtype == np.bool_ else found


# Rows in several files that follow each other: those that were sealed first, and those that arrived later.
#
# Each file keeps its columns, so rows that arrive cost nothing for those that are there. A look goes through the parts
# in
# order, and no column is copied.


class _Chained:
    """Column store that reads several files one after the other."""

    def __init__(self, stores: Sequence[ColumnStore], sizes: Sequence[int]) -> None:
        self._stores, self._sizes = stores, sizes

    def spans(self, wanted: Mapping[str, ColumnKind]) -> Iterator[Span]:
        """Yield the rows of all stores with these columns, one block after the other."""
        before = 0
        for store, rows in zip(self._stores, self._sizes, strict=True):
            for span in store.spans(wanted):
                yield Span(before + span.start, before + span.stop, span.columns)
            before += rows

    def close(self) -> None:
        """Release the cached columns of all stores."""
        for store in self._stores:
            store.close()


class PartedRows(StoredRows):
    """Row store of several files, in order.

    Args:
        parts: One store for each file.
        schema: Schema of all rows together.
        sealed: Whether faults of functions must go unreported, because a report would be a free answer.
        order_key: Key of the secret order in which code meets sealed rows. None for the rows' own order.
    """

    def __init__(
        self, parts: Sequence[StoredRows], schema: Schema, *, sealed: bool, order_key: bytes | None = None
    ) -> None:
        rows = sum(part.rows for part in parts)
        super().__init__(parts[0].engine, schema, rows=rows, sealed=sealed, order_key=order_key)
        self.parts = tuple(parts)

    def close(self) -> None:
        """Close all parts, which open again when needed."""
        for part in self.parts:
            part.close()

    @cached_property
    def _embedded(self) -> EmbeddedRows:
        stores = [part._embedded._store for part in self.parts]
        return EmbeddedRows(cast("ColumnStore", _Chained(stores, [part.rows for part in self.parts])), self.rows)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Return a context in which rows are read, with a check of every file before and after."""
        with ExitStack() as stack:
            for part in self.parts:
                stack.enter_context(part.reading())
            yield

    def _column_arrays(self, names: Sequence[str]) -> Mapping[str, Any]:
        found = [part._column_arrays(names) for part in self.parts]
        concatenate: Any = np.ma.concatenate  # masked where a value is missing; numpy has no types for it
        return {name: concatenate([some[name] for some in found]) for name in names}

    def _row_ids(self, name: str) -> list[Any]:
        return [each for part in self.parts for each in part._row_ids(name)]

    def _index_of_groups(self, column: str) -> NDArray[np.int64]:
        values = self._column_arrays([column])[column]
        texts = np.where(np.ma.getmaskarray(values), "", np.ma.getdata(values).astype(str))
        _, index = np.unique(texts, return_inverse=True)
        return np.asarray(index, dtype=np.int64)

    def _blocks(self, order_by: tuple[str, ...]) -> NDArray[np.int64] | None:
        """Return None, because rows of several files have no order but that of their arrival."""
        return None


def parted(
    parts: Sequence[StoredRows], schema: Schema, *, sealed: bool, order_key: bytes | None = None
) -> StoredRows:  # fmt: skip
    """Return one row store for several files, or the store of a single file.

    Args:
        parts: One store for each file.
        schema: Schema of all rows together.
        sealed: Whether faults of functions must go unreported, because a report would be a free answer.
        order_key: Key of the secret order in which code meets sealed rows. None for the rows' own order.
    """
    if len(parts) > 1 and not isinstance(parts[0], StoredRows):
        return cast("StoredRows", parts[0].together(parts, schema))
    return parts[0] if len(parts) == 1 else PartedRows(parts, schema, sealed=sealed, order_key=order_key)


# Columns of an embedded file as NumPy arrays: read once, and kept while there is room.
#
# DuckDB reads the Parquet file, some rows at a time, and does nothing else. What is kept is limited for the whole
# process; where one query needs more than that, its columns are read again, in parts, for each query. The number
# of rows and of columns decides that, and for texts whether a column has more than `MOST_WORDS` different ones.

MOST_KEPT = 2**27
"""So many cells, rows by columns, are kept by all stores of the process: at most 1 GB."""

MOST_WORDS = 2**20
"""A column with more different texts than this is not kept."""

_SPAN = 2**20  # rows that are read at once

_READ = {
    ColumnKind.NUMBER: f"coalesce({DOUBLE}, 'nan'::DOUBLE)",
    ColumnKind.TIME: f"coalesce({SECONDS}, 'nan'::DOUBLE)",
    ColumnKind.BOOLEAN: "coalesce({0}::TINYINT, 2::TINYINT)",
    ColumnKind.STRING: "{0}::VARCHAR",
}
_TYPES = {ColumnKind.NUMBER: np.float64, ColumnKind.TIME: np.float64, ColumnKind.BOOLEAN: np.int8}


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column or a part of it, in the form that `everhold.values.expressions.arrays.ArrayProgram` reads.

    Attributes:
        values: Doubles; or truth values as 0 and 1, and 2 if missing; or for texts the number of each row's word.
        words: The different texts by number. Empty for other columns.
    """

    values: NDArray[Any]
    words: Words = ()


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive rows, with columns by name."""

    start: int
    stop: int
    columns: Mapping[str, KeptColumn]


class _Kept:
    """Cache of the columns of all stores of the process. The least recently used are dropped first."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a finalizer may run while it is held
        self._columns: OrderedDict[tuple[int, str], KeptColumn] = OrderedDict()

    def get(self, store: int, name: str) -> KeptColumn | None:
        """Return a store's column from the cache, or None if it is not cached."""
        with self.lock:
            if (found := self._columns.get((store, name))) is not None:
                self._columns.move_to_end((store, name))
            return found

    def put(self, store: int, name: str, column: KeptColumn) -> None:
        """Cache a column, and drop the least recently used columns if there are too many."""
        with self.lock:
            self._columns[store, name] = column
            while len(self._columns) > 1 and sum(map(_cells, self._columns.values())) > MOST_KEPT:
                self._columns.popitem(last=False)

    def drop(self, store: int) -> None:
        """Forget all columns of a store."""
        with self.lock:
            for key in [key for key in self._columns if key[0] == store]:
                del self._columns[key]


def _cells(column: KeptColumn) -> int:
    """Return the number of values and words that a cached column takes in memory."""
    return len(column.values) + len(column.words)


_kept = _Kept()
_stores: weakref.WeakSet[ColumnStore] = weakref.WeakSet()


class ColumnStore:
    """Reader of the columns of one file, with a cache in memory.

    Args:
        fetch: Function that runs an SQL statement on the file and returns an array for each column, by name.
        source: SQL that follows FROM for the file, with the column `POSITION`.
        rows: Number of rows.
    """

    def __init__(self, fetch: Callable[[str], Mapping[str, NDArray[Any]]], source: str, rows: int) -> None:
        self._fetch, self._source, self._rows = fetch, source, rows
        self.lock = threading.Lock()
        self._wordy: set[str] = set()
        _stores.add(self)
        weakref.finalize(self, _kept.drop, id(self))

    def close(self) -> None:
        """Release the cached columns, which are read again when needed."""
        _kept.drop(id(self))

    def spans(self, wanted: Mapping[str, ColumnKind]) -> Iterator[Span]:
        """Yield the rows with these columns in one block if the columns fit in memory, else in several blocks."""
        columns: dict[str, KeptColumn] = {}
        if self._rows * len(wanted) <= MOST_KEPT:  # not too many together: those that are kept, read now if need be
            with self.lock:
                columns = {name: column for name in wanted if (column := _kept.get(id(self), name)) is not None}
                absent = {name: of for name, of in wanted.items() if name not in columns and name not in self._wordy}
                for name, column in self._loaded(absent).items() if absent else ():
                    _kept.put(id(self), name, column)
                    columns[name] = column
        if len(columns) == len(wanted):
            yield Span(0, self._rows, columns)
            return
        left = {name: kind for name, kind in wanted.items() if name not in columns}
        for start, stop in self._starts():
            some = {name: KeptColumn(whole.values[start:stop], whole.words) for name, whole in columns.items()}
            found = self._read(left, start, stop)
            some |= {name: _texts(values) if left[name] is ColumnKind.STRING else KeptColumn(values)
                     for name, values in found.items()}  # fmt: skip
            yield Span(start, stop, some)

    def _loaded(self, missing: Mapping[str, ColumnKind]) -> dict[str, KeptColumn]:
        """Read complete columns. Text columns with too many different words are left out, and recorded."""
        arrays = {name: np.empty(self._rows, dtype=_TYPES.get(kind, np.int32)) for name, kind in missing.items()}
        numbers = {name: _no_words() for name, kind in missing.items() if kind is ColumnKind.STRING}
        for start, stop in self._starts():
            found = self._read({name: kind for name, kind in missing.items() if name in arrays}, start, stop)
            for name, values in found.items():
                arrays[name][start:stop] = _numbered(values, numbers[name]) if name in numbers else values
                if name in numbers and len(numbers[name]) > MOST_WORDS:
                    self._wordy.add(name)
                    del arrays[name]
        return {name: KeptColumn(array, _words(numbers.get(name, {}))) for name, array in arrays.items()}

    def _starts(self) -> Iterator[tuple[int, int]]:
        return ((start, min(start + _SPAN, self._rows)) for start in range(0, self._rows, _SPAN))

    def _read(self, wanted: Mapping[str, ColumnKind], start: int, stop: int) -> dict[str, NDArray[Any]]:
        """Read columns of some rows, in the order of the file."""
        if not wanted:
            return {}
        listed = ", ".join(
            f"{_READ[kind].format(_quoted(name))} AS c{place}" for place, (name, kind) in enumerate(wanted.items())
        )
        some = f" WHERE t.{POSITION} BETWEEN {start} AND {stop - 1}" if stop - start < self._rows else ""
        found = self._fetch(f"SELECT {listed} FROM {self._source} AS t{some}")
        return {name: found[f"c{place}"] for place, name in enumerate(wanted)}


def _quoted(name: str) -> str:
    """Return a column of the table ``t`` quoted for SQL."""
    return 't."' + name.replace('"', '""') + '"'


def _after_fork_in_child() -> None:
    """Replace the lock in a forked process, because a thread of the parent may hold it for ever."""
    _kept.lock = threading.RLock()
    for store in list(_stores):
        store.lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _no_words() -> dict[str | None, int]:
    """Return a new numbering of words. The number 0 is for missing values."""
    return {None: 0}


def _numbered(texts: NDArray[Any], numbers: dict[str | None, int]) -> NDArray[np.int32]:
    """Return the number of each text in a numbering of words. New texts get new numbers."""
    return np.fromiter(
        (numbers.setdefault(text, len(numbers)) for text in texts.tolist()), dtype=np.int32, count=len(texts)
    )


def _words(numbers: Mapping[str | None, int]) -> tuple[str, ...]:
    """Return the words of a numbering, without the missing value."""
    return tuple(word for word in numbers if word is not None)


def _texts(texts: NDArray[Any]) -> KeptColumn:
    numbers = _no_words()
    return KeptColumn(_numbered(texts, numbers), _words(numbers))
