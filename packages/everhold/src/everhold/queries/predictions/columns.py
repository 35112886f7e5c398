"""Files with thousands of columns of predictions: ids are matched once, and columns are read a few at a time.

If several columns of a file are asked about together, the file is read once. Each column is checked, put in the order
of the rows, and kept on the disk until its query is evaluated. So the memory that is used does not grow with the number
of columns.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.arguments import listed
from everhold.errors import QueryRejected
from everhold.queries.predictions.arrays import PredictionTable, RowSpan
from everhold.queries.query import Query
from everhold.values.base import GivenValues, LocatedPredictions, RowFunction, Schema, StoredValues, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.queries.predictions.files import SomeColumns
    from everhold.sealing.rows.evaluated_rows import RowStore

_MOST_CELLS = 2**23  # that are read at a time


class PredictionsFile(Mapping[str, "PredictionColumn"]):
    """A mapping from names to the columns of a file of predictions, each read when a query needs it.

    Args:
        path: Path of the file of predictions.
        row_id: Name of the column of row ids; None if the lines of the file are in the order of the rows.

    Raises:
        QueryRejected: If there is no such file, or the file has no column of this name. Nothing is charged.
    """

    def __init__(self, path: Path, row_id: str | None) -> None:
        from everhold.queries.predictions.files import names_in

        self.path, self.row_id = path, row_id
        every = names_in(path)
        if row_id is not None and row_id not in every:
            raise QueryRejected(
                f"row_id is {row_id!r}, and {path.name} has the columns {listed(every)}. Name the column of row ids."
            )
        self._columns = {name: PredictionColumn(self, name) for name in every if name != row_id}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path.name!r}, columns={len(self):,})"

    def __getitem__(self, name: str) -> PredictionColumn:
        if name not in self._columns:
            raise KeyError(
                f"{name!r} is no column of predictions in {self.path.name}. Name one of {listed(self._columns)}."
            )
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


@dataclass(frozen=True, slots=True, eq=False)
class PredictionColumn:
    """One column of a file of predictions, which queries take as predictions.

    Attributes:
        reading: Reader that is shared with the columns that are asked about together with this one. None if it is asked
            about alone.
    """

    file: PredictionsFile
    name: str
    reading: ColumnReading | None = field(default=None, repr=False)

    def placed(
        self, schema: Schema, ids: Sequence[Any], *, rows_are: str, span: RowSpan | None = None,
        check: Callable[..., object] | None = None,
    ) -> Placed:  # fmt: skip
        """Read the column, and return its predictions in the order of the rows.

        Args:
            schema: The public facts about the rows.
            ids: Row ids in the order of the rows, as for `PredictionTable.in_order`.
            rows_are: Words for the rows in messages, as for `PredictionTable.in_order`.
            span: Place of the rows among all sealed rows; None if the query is about all sealed rows.
            check: Check of the predictions, as for `PredictionTable.in_order`. It also takes the name of the
                predictions in messages.

        Raises:
            QueryRejected: If the file cannot be read, or its ids are not those of the rows. Nothing is charged.
        """
        what = f"The predictions in column {self.name!r} of {self.file.path.name}"
        cache = None if self.reading is None else self.reading.cache
        reading = ColumnReading(self.file, [self.name]) if self.reading is None else self.reading
        named = None if check is None else partial(check, what=what)
        return Placed(reading.values(self.name, schema, ids, rows_are=rows_are, span=span, check=named), what, cache)


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """The predictions of a file's column, in the order of the rows.

    Attributes:
        values: Predictions of the rows, shape (rows,); masked where they are missing.
        cache: File in which checked predictions are kept until they are needed. None to keep them in memory.
    """

    values: NDArray[Any]
    what: str
    cache: PredictionCache | None

    def until_asked(self, checked: NDArray[Any], judge: Callable[[NDArray[Any], Table], NDArray[Any]]) -> RowFunction:
        """Return the row function of checked predictions. If there is a cache, the predictions wait on disk."""
        return GivenValues(checked, judge) if self.cache is None else StoredValues(self.cache.keep(checked), judge)


class ColumnReading:
    """Reads several columns of one file. Row ids are matched once for all columns.

    Args:
        file: The file whose columns are read.
        names: Names of the columns, in the order in which queries need them.
    """

    def __init__(self, file: PredictionsFile, names: Sequence[str]) -> None:
        self.cache = PredictionCache()
        self._file, self._names = file, tuple(names)
        self._batch: dict[str, NDArray[Any]] = {}
        self._next = 0
        self._source: SomeColumns | None = None
        self._orders: dict[str, NDArray[np.intp] | None] = {}
        self._lines: dict[str, int] = {}

    def values(
        self, name: str, schema: Schema, ids: Sequence[Any], *, rows_are: str, span: RowSpan | None = None,
        check: Callable[[NDArray[Any]], object] | None = None,
    ) -> NDArray[Any]:  # fmt: skip
        """Return a column's predictions in the order of the rows, as `PredictionColumn.placed` does."""
        if self._source is None:
            from everhold.queries.predictions.files import SomeColumns

            every = schema if span is None else replace(schema, rows=max(span.total, schema.rows))
            self._source = SomeColumns(self._file.path, every)
            weakref.finalize(self, self._source.close)
        order = self._order(schema.row_id, ids, rows_are=rows_are, span=span)
        if name not in self._batch:
            rows = schema.rows if rows_are == "sealed" else schema.training_rows
            # A column and those that will be asked about after it
            most = _MOST_CELLS // rows
            place = self._next if name in self._names[self._next :] else 0
            place = self._names.index(name, place)
            some = dict.fromkeys([name])
            while place < len(self._names) and len(some) < most:
                some[self._names[place]] = None
                place += 1
            self._next = place
            self._batch = self._source.read(list(some))
        column = self._batch[name]
        if order is not None and len(column) == self._lines[rows_are]:
            if check is not None:
                check(column)
            return column[order]
        if order is not None:
            return column
        return column if span is None else span.cut(column, what=f"The predictions in column {name!r}")

    def _order(
        self, row_id: str | None, ids: Sequence[Any], *, rows_are: str, span: RowSpan | None
    ) -> NDArray[np.intp] | None:
        """Return the position of each row's line in the file, or None if the order is the same. Found once."""
        if rows_are not in self._orders:
            assert self._source is not None
            file = self._file
            if row_id is None:
                if file.row_id is not None:
                    raise QueryRejected(
                        f"{file.path.name} names rows by {file.row_id!r}, and this holdout was created without "
                        "row_id=. Put the lines in the order of the rows, and pass predictions_in(path) without row_id."
                    )
                self._orders[rows_are] = None
            elif row_id != file.row_id:
                named = dict.fromkeys([*([] if file.row_id is None else [file.row_id]), *file])
                raise QueryRejected(
                    f"The columns of {file.path.name} ({listed(named)}) were named without row_id={row_id!r}, which "
                    f"names this holdout's rows. Pass predictions_in(path, row_id={row_id!r})."
                )
            else:
                table = PredictionTable(self._source.read([row_id]), name=file.path.name)
                others = tuple if span is None else span.ids
                self._orders[rows_are] = table.order(row_id, ids, rows_are=rows_are, others=others)
                self._lines[rows_are] = len(table.columns[row_id])
        return self._orders[rows_are]


class PredictionCache:
    """A store of arrays in a temporary file, which is deleted with the last array."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="everhold-")  # noqa: SIM115  it is closed with the last array
        self._lock = threading.Lock()
        weakref.finalize(self, self._file.close)

    def keep(self, array: NDArray[Any]) -> Callable[[], NDArray[Any]]:
        """Write an array of numbers or texts to the cache file, and return a function that reads the array again."""
        if array.dtype.kind in "iu" and len(array):  # whole numbers take the smallest type that holds them
            small = np.result_type(*(np.min_scalar_type(int(end)) for end in (array.min(), array.max())))
            array = array.astype(small) if small.kind in "iu" else array
        array = np.ascontiguousarray(array)
        with self._lock:
            place = self._file.seek(0, os.SEEK_END)
            self._file.write(array.data)
        return partial(self._read, place, array.nbytes, array.dtype)

    def _read(self, place: int, size: int, kind: np.dtype[Any]) -> NDArray[Any]:
        with self._lock:
            self._file.seek(place)
            found = self._file.read(size)
        return np.frombuffer(found, dtype=kind)


def read_together(queries: Sequence[Any], rows: RowStore | None, schema: Schema) -> list[Any]:
    """Return the queries with shared readers, so that columns of one file are read together.

    Predictions that are in the engine with the sealed rows are replaced by checked references to their columns.

    Raises:
        QueryRejected: If predictions that were joined to the rows cannot be used. Nothing is charged.
    """
    asked: dict[tuple[int, str], list[PredictionColumn]] = {}
    located: LocatedPredictions | None = None
    for query in queries:
        for role, given in _columns_of(query):
            if isinstance(given, LocatedPredictions):
                located = given
            else:
                asked.setdefault((id(given.file), role), []).append(given)
    if located is not None:
        queries = located.located(queries, rows, schema)
    readings = {
        key: ColumnReading(columns[0].file, [column.name for column in columns])
        for key, columns in asked.items() if len(columns) > 1
    }  # fmt: skip
    return [_sharing(query, readings) for query in queries] if readings else list(queries)


def _columns_of(query: Any) -> Iterator[tuple[str, PredictionColumn | LocatedPredictions]]:
    """Yield the columns of predictions that a query or its parts read, each with the name of its argument."""
    for role, value in parts_of(query):
        if isinstance(value, PredictionColumn | LocatedPredictions):
            yield role, value
        elif isinstance(value, Query):
            yield from _columns_of(value)


def _sharing(query: Any, readings: Mapping[tuple[int, str], ColumnReading]) -> Any:
    """Return the query with a shared reader for each of its columns of predictions."""
    changes: dict[str, Any] = {}
    for role, value in parts_of(query):
        if isinstance(value, PredictionColumn):
            changes[role] = replace(value, reading=readings.get((id(value.file), role)))
        elif isinstance(value, Query):
            changes[role] = _sharing(value, readings)
    return replace(query, **changes) if changes else query


def parts_of(query: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a query with their names."""
    if isinstance(query, Query) and is_dataclass(query):
        yield from ((each.name, getattr(query, each.name)) for each in fields(query) if each.init)


def predictions_in(path: str | Path, *, row_id: str | None = None) -> PredictionsFile:
    r"""Open a CSV, TSV or Parquet file with thousands of columns of predictions, one model each, by name.

    Args:
        path: Path of the file. A column is read when it is asked about. Columns that are asked about together are read
            in one pass.
        row_id: Name of the column of row ids, the one that was named at creation; None if the rows have no ids. The
            lines of the file then have to be in the order of the rows.

    Raises:
        QueryRejected: If there is no such file, or the file has no column of this name. Nothing is charged.

    Examples:
        >>> import pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name) / "predictions.csv"
        >>> _ = path.write_text("id,tree,forest\n17,1,0\n18,0,0\n")
        >>> columns = predictions_in(path, row_id="id")
        >>> list(columns), columns["tree"].name
        (['tree', 'forest'], 'tree')
        >>> folder.cleanup()
    """
    return PredictionsFile(Path(path), row_id)
