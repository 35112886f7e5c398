"""Columns of an embedded file as NumPy arrays: read once, and kept while there is room.

DuckDB reads the Parquet file, some rows at a time, and does nothing else. What is kept is limited for the whole
process; where one query needs more than that, its columns are read again, in parts, for each query. The number
of rows and of columns decides that, and for texts whether a column has more than `MOST_WORDS` different ones.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.sealing.intake.duckdb_files import POSITION
from everhold.values.expressions.tree import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from everhold.values.expressions.arrays import Words

MOST_KEPT = 2**27
"""So many cells, rows by columns, are kept by all stores of the process: at most 1 GB."""

MOST_WORDS = 2**20
"""A column with more different texts than this is not kept."""

_SPAN = 2**20  # rows that are read at once

_READ = {
    ColumnKind.NUMBER: "coalesce({0}::DOUBLE, 'nan'::DOUBLE)",
    ColumnKind.TIME: "coalesce(epoch({0}), 'nan'::DOUBLE)",  # an infinite time has no epoch
    ColumnKind.BOOLEAN: "coalesce({0}::TINYINT, 2::TINYINT)",
    ColumnKind.STRING: "{0}::VARCHAR",
}
_TYPES = {ColumnKind.NUMBER: np.float64, ColumnKind.TIME: np.float64, ColumnKind.BOOLEAN: np.int8}


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column, or a part of it, as `everhold.values.expressions.arrays.ArrayProgram` takes it.

    Attributes:
        values: Doubles, truth values as 0, 1 and 2 for a missing one, or numbers of words.
        words: The words of texts.
    """

    values: NDArray[Any]
    words: Words = ()


@dataclass(frozen=True, slots=True)
class Span:
    """Some rows that follow each other, with columns by name."""

    start: int
    stop: int
    columns: Mapping[str, KeptColumn]


class _Kept:
    """Columns of all stores of the process, the least recently used ones first."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a finalizer may run while it is held
        self._columns: OrderedDict[tuple[int, str], KeptColumn] = OrderedDict()

    def get(self, store: int, name: str) -> KeptColumn | None:
        with self.lock:
            if (found := self._columns.get((store, name))) is not None:
                self._columns.move_to_end((store, name))
            return found

    def put(self, store: int, name: str, column: KeptColumn) -> None:
        with self.lock:
            self._columns[store, name] = column
            while len(self._columns) > 1 and sum(map(_cells, self._columns.values())) > MOST_KEPT:
                self._columns.popitem(last=False)

    def drop(self, store: int) -> None:
        with self.lock:
            for key in [key for key in self._columns if key[0] == store]:
                del self._columns[key]


def _cells(column: KeptColumn) -> int:
    return len(column.values) + len(column.words)


_kept = _Kept()
_stores: weakref.WeakSet[ColumnStore] = weakref.WeakSet()


class ColumnStore:
    """The columns of one file.

    Args:
        fetch: Runs a statement on the file and gives an array for each column, by name.
        source: What stands after FROM for the file, with the column `POSITION`.
        rows: Number of rows.
    """

    def __init__(self, fetch: Callable[[str], Mapping[str, NDArray[Any]]], source: str, rows: int) -> None:
        self._fetch, self._source, self._rows = fetch, source, rows
        self.lock = threading.Lock()
        self._wordy: set[str] = set()
        _stores.add(self)
        weakref.finalize(self, _kept.drop, id(self))

    def close(self) -> None:
        """Let go of what is kept; it is read again when needed."""
        _kept.drop(id(self))

    def spans(self, wanted: Mapping[str, ColumnKind]) -> Iterator[Span]:
        """The rows with these columns: all at once where they are kept, else as many as are read at once."""
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
        """Columns of some rows in the order of the file, which the engine keeps."""
        if not wanted:
            return {}
        listed = ", ".join(
            f"{_READ[kind].format(_quoted(name))} AS c{place}" for place, (name, kind) in enumerate(wanted.items())
        )
        some = f" WHERE t.{POSITION} BETWEEN {start} AND {stop - 1}" if stop - start < self._rows else ""
        found = self._fetch(f"SELECT {listed} FROM {self._source} AS t{some}")
        return {name: found[f"c{place}"] for place, name in enumerate(wanted)}


def _quoted(name: str) -> str:
    return 't."' + name.replace('"', '""') + '"'


def _after_fork_in_child() -> None:
    """A lock may be held for ever by a thread that stayed with the parent."""
    _kept.lock = threading.RLock()
    for store in list(_stores):
        store.lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _no_words() -> dict[str | None, int]:
    """Words by number: what is missing has the first one."""
    return {None: 0}


def _numbered(texts: NDArray[Any], numbers: dict[str | None, int]) -> NDArray[np.int32]:
    """The number of each text; new ones get new numbers."""
    return np.fromiter(
        (numbers.setdefault(text, len(numbers)) for text in texts.tolist()), dtype=np.int32, count=len(texts)
    )


def _words(numbers: Mapping[str | None, int]) -> tuple[str, ...]:
    return tuple(word for word in numbers if word is not None)


def _texts(texts: NDArray[Any]) -> KeptColumn:
    numbers = _no_words()
    return KeptColumn(_numbered(texts, numbers), _words(numbers))
