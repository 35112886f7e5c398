"""What checks need of a table in an engine, streamed into a private file of this machine, and gone after sealing.

A check that compares a table with training rows, such as whether a row id is on both sides, needs the columns it is
about, and nothing else. They come in batches, so the memory of this process does not grow with the table.
"""

from __future__ import annotations

import secrets
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from everhold.progress import progress
from everhold.sealing.duckdb_files import file_pattern
from everhold.sealing.files import TRAINING_FILE
from everhold.sealing.reading import read_rows, reading_errors_hidden
from everhold.values.expressions import ColumnKind
from everhold.values.expressions.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from everhold.sealing.engines.base import Engine

__all__ = ["LOOKED_AT", "Staging"]

LOOKED_AT = 2**18
"""Rows of a table among which copies of training rows are looked for; of a longer table that many at random."""

_CELLS = 2**24  # of the same
_MEMORY = "1GB"
_EVERY = 2**63 - 1
_TYPES = {ColumnKind.TIME: "TIMESTAMP", ColumnKind.STRING: "VARCHAR", ColumnKind.OTHER: "VARCHAR"}
"""How values compare across engines and files; numbers and truth values compare as they are."""


_EMPTY = {ColumnKind.NUMBER: np.nan, ColumnKind.BOOLEAN: False, ColumnKind.TIME: np.datetime64(0, "us")}
"""What stands where there is nothing, in arrays of objects."""


class Staging:
    """A DuckDB on a private file with the views ``holdout``, of what was brought of a table, and ``training``.

    Args:
        folder: The private folder of the holdout.
        engine: The table whose rows are sealed.
        columns: Kind of each of its columns.
        rows: Number of its rows.
    """

    def __init__(self, folder: Path, engine: Engine, columns: Mapping[str, ColumnKind], *, rows: int) -> None:
        self.engine, self.columns, self.rows = engine, dict(columns), rows
        self._folder, self._brought = folder, frozenset[str]()  # columns of all rows
        self._file = folder / f"staged-{secrets.token_hex(4)}.duckdb"
        spilled = str(folder / "spilled")
        self.connection = duckdb.connect(str(self._file), config={"temp_directory": spilled, "memory_limit": _MEMORY})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()
        for file in self._folder.glob(f"{self._file.name}*"):
            file.unlink(missing_ok=True)

    @property
    def most_looked_at(self) -> int:
        """How many rows are looked at whole, with all columns that compare."""
        return min(LOOKED_AT, max(_CELLS // max(len(self.columns), 1), 1))

    @property
    def is_whole(self) -> bool:
        """Whether that is the whole table."""
        return self.rows <= self.most_looked_at

    @cached_property
    def contents(self) -> str:
        """What the engine says of its rows, without a key: the same of a copy of the table."""
        return self.engine.contents()

    @property
    def comparable(self) -> dict[str, ColumnKind]:
        """The columns whose values are the same in an engine and in a file."""
        return {name: kind for name, kind in self.columns.items() if kind is not ColumnKind.OTHER}

    def show_training(self) -> None:
        """Make the view of the training rows in the folder."""
        with reading_errors_hidden("training"):
            rows = self.connection.read_parquet(file_pattern(self._folder / TRAINING_FILE), hive_partitioning=False)
            rows.create_view("training_file")
            shown = ", ".join(_alike(quoted(name), kind, name) for name, kind in self.columns.items())
            self.connection.execute(f"CREATE VIEW training AS SELECT {shown} FROM training_file")

    def bring(self, names: Collection[str]) -> None:
        """Make the view ``holdout`` of all rows in the named columns; free where they are there already."""
        if not self._brought >= set(names):
            self._stream(sorted({*names} | self._brought), f"FROM {self._rows}", rows=self.rows)
            self._brought |= set(names)

    def bring_some(self) -> None:
        """Make the view ``holdout`` of all columns that compare, and of all rows or that many at random."""
        if self.is_whole:
            self.bring(self.comparable)
            return
        some = f"{self.engine.dialect.random} < {self.most_looked_at / self.rows!r}"
        self._stream(list(self.comparable), f"FROM {self._rows} WHERE {some}", rows=self.most_looked_at)
        self._brought = frozenset()

    @property
    def _rows(self) -> str:
        """What stands after FROM."""
        return f"{self.engine.source} AS {self.engine.dialect.rows}"

    def distinct(self, name: str) -> None:
        """Make the view ``holdout`` of the different values of a column."""
        self._stream([name], f"FROM {self._rows}", rows=0, what="SELECT DISTINCT")
        self._brought = frozenset()

    def _stream(self, names: list[str], source: str, *, rows: int, what: str = "SELECT") -> None:
        dialect = self.engine.dialect
        written = {name: dialect.column(name) for name in names}
        listed = ", ".join(
            f"{dialect.as_text(cell) if self.columns[name] is ColumnKind.OTHER else cell} AS c{place}"
            for place, (name, cell) in enumerate(written.items())
        )
        there = False
        with progress("reading the engine's rows", rows) as line, reading_errors_hidden("holdout"):
            self.connection.execute("DROP VIEW IF EXISTS holdout; DROP TABLE IF EXISTS staged")
            for batch in self.engine.batches(f"{what} {listed} {source}"):
                cells = [_arrived(batch[f"c{place}"], self.columns[name]) for place, name in enumerate(names)]
                self._add({f"c{place}": cell for place, cell in enumerate(cells)}, names, there)
                there = True
                line(min(line.done + len(batch["c0"]), rows))
            shown = ", ".join(f"c{place} AS {quoted(name)}" for place, name in enumerate(names))
            self.connection.execute(f"CREATE VIEW holdout AS SELECT {shown} FROM staged")

    def _add(self, batch: dict[str, NDArray[Any]], names: list[str], there: bool) -> None:
        read_rows(self.connection, batch, name="batch", what="holdout", most_rows=_EVERY)
        cells = ", ".join(_alike(f"c{place}", self.columns[name], f"c{place}") for place, name in enumerate(names))
        into = "INSERT INTO staged" if there else "CREATE TABLE staged AS"
        self.connection.execute(f"{into} SELECT {cells} FROM batch")
        self.connection.unregister("batch")


def _alike(cell: str, kind: ColumnKind, name: str) -> str:
    return f"CAST({cell} AS {_TYPES[kind]}) AS {quoted(name)}" if kind in _TYPES else f"{cell} AS {quoted(name)}"


def _arrived(column: NDArray[Any], kind: ColumnKind) -> NDArray[Any]:
    """A column as DuckDB takes it; exact numbers beyond 64 bits become doubles, as expressions read them."""
    plain = np.ma.getdata(column)
    if plain.dtype.kind != "O":
        return column
    missing = np.ma.getmaskarray(column) | np.array([cell is None for cell in plain], dtype=bool)
    empty: Any = _EMPTY.get(kind, "")
    kept = np.where(missing, empty, plain)
    return np.ma.MaskedArray(kept.astype(np.asarray(empty).dtype if kind in _EMPTY else object), mask=missing)
