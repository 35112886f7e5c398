"""Copies columns that checks need from an engine's table into a private file, deleted after sealing.

A check that compares sealed and training rows, for example whether a row id is on both sides, needs only the columns
that it is about. They are copied in batches, so the memory of this process does not grow with the tables.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from everhold.progress import progress
from everhold.sealing.intake.duckdb_files import view_files
from everhold.sealing.intake.reading import read_rows, reading_errors_hidden
from everhold.sealing.storage import TRAINING_FILE
from everhold.values.expressions import ColumnKind, RowValue, parse
from everhold.values.expressions.tree import quoted
from everhold_engines.sql.compiler import totals_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from everhold_engines.base import Engine
    from everhold_engines.sql.dialects import Dialect

ROWS_COMPARED = 2**18
"""Rows of a table among which copies of training rows are looked for; of a longer table that many at random."""

_CELLS = 2**24  # of the same
_MEMORY = "1GB"
_AT_MOST = 4  # times as many as were meant, where rows are drawn by their values
_EVERY = 2**63 - 1
_MIDDLE, _DIGITS = 31, 8  # of the 64 hexadecimal digits of a SHA-256
_TYPES = {ColumnKind.TIME: "TIMESTAMP", ColumnKind.STRING: "VARCHAR", ColumnKind.OTHER: "VARCHAR"}
"""Types in which values compare across engines and files; numbers and truth values compare as they are."""


_EMPTY = {ColumnKind.NUMBER: np.nan, ColumnKind.BOOLEAN: False, ColumnKind.TIME: np.datetime64(0, "us")}
"""Stand-ins for missing values, in arrays of objects."""


@dataclass(frozen=True, slots=True)
class TableSide:
    """Rows of a table in an engine, sealed or training rows, with the counts that checks need."""

    engine: Engine
    columns: Mapping[str, ColumnKind]
    rows: int
    what: str = "holdout"

    def missing(self, name: str) -> int:
        """Return the number of rows without a value in a column."""
        if self.columns[name] is ColumnKind.OTHER:
            return int(self._one(f"count(*) - count({self.engine.dialect.column(name)})"))
        return self._where(f"{quoted(name)} is null")

    def lacking(self) -> frozenset[str]:
        """Return the columns that queries can read and that lack a value in some row."""
        names = [name for name, kind in self.columns.items() if kind is not ColumnKind.OTHER]
        values = [RowValue(parse(f"{quoted(name)} is null", self.columns)) for name in names]
        found, most = list[int](), self.engine.most_expressions
        for start in range(0, len(values), most):
            some = values[start : start + most]
            found += self.engine.rows(totals_sql(some, self.engine.source, unit=1, dialect=self.engine.dialect))[0]
        return frozenset(name for name, count in zip(names, found, strict=True) if count)

    def different(self, name: str) -> int:
        """Return the number of different values of a column, where nan may count as one."""
        return int(self._one(f"count(DISTINCT {self.engine.dialect.column(name)})"))

    def is_binary(self, name: str) -> bool:
        """Return whether all values of a column are 0 or 1."""
        column = quoted(name)
        return self.columns[name] is ColumnKind.BOOLEAN or self._where(f"{column} = 0 or {column} = 1") == self.rows

    def values(self, name: str) -> list[Any]:
        """Return the different values of a column, sorted."""
        dialect, text = self.engine.dialect, self.columns[name] is ColumnKind.STRING
        value = dialect.write("text" if text else "number", dialect.column(name))
        return sorted(value for (value,) in self.engine.rows(f"SELECT DISTINCT {value} AS v FROM {self._rows}"))

    def count(self, condition: str) -> int:
        """Return the number of rows that meet a condition, written in the engine's SQL."""
        return int(self.engine.rows(f"SELECT count(*) FROM {self._rows} WHERE {condition}")[0][0])

    @property
    def _rows(self) -> str:
        return f"{self.engine.source} AS {self.engine.dialect.rows}"

    def _where(self, condition: str) -> int:
        value = RowValue(parse(condition, self.columns))
        statement = totals_sql([value], self.engine.source, unit=1, dialect=self.engine.dialect)
        return int(self.engine.rows(statement)[0][0])

    def _one(self, aggregate: str) -> Any:
        return self.engine.rows(f"SELECT {aggregate} FROM {self._rows}")[0][0]


class ColumnCopies:
    """A private DuckDB with a view of copied columns for each table, and a view ``training``.

    At first ``training`` has the rows of the training file. If the training rows are also in a table of the engine,
    copied columns of this table replace it.

    Args:
        folder: The private folder of the holdout.
        columns: Kind of each column.
        sides: The sealed table, and the table of the training rows if they also stay in the engine.
    """

    def __init__(self, folder: Path, columns: Mapping[str, ColumnKind], sides: Sequence[TableSide]) -> None:
        self.columns, self.sides = dict(columns), {side.what: side for side in sides}
        self.engine, self.rows = sides[0].engine, sides[0].rows
        self._folder, self._brought = folder, dict.fromkeys(self.sides, frozenset[str]())  # columns of all rows
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
    def most_compared(self) -> int:
        """Number of rows that are copied with all compared columns."""
        return min(ROWS_COMPARED, max(_CELLS // max(len(self.columns), 1), 1))

    @property
    def is_whole(self) -> bool:
        """True if all rows of the sealed table are copied."""
        return self.rows <= self.most_compared

    @property
    def all_whole(self) -> bool:
        """True if all rows of every table are copied."""
        return all(side.rows <= self.most_compared for side in self.sides.values())

    @cached_property
    def contents(self) -> str:
        """Return the digest of the rows without a key. A copy of the table has the same digest."""
        return self.engine.contents()

    @property
    def comparable(self) -> dict[str, ColumnKind]:
        """Columns whose values are represented alike in an engine and in a file."""
        return {name: kind for name, kind in self.columns.items() if kind is not ColumnKind.OTHER}

    def show_training(self) -> None:
        """Create the view of the training rows in the folder."""
        with reading_errors_hidden("training"):
            view_files(self.connection, "training_file", self._folder / TRAINING_FILE)
            shown = ", ".join(_alike(quoted(name), kind, name) for name, kind in self.columns.items())
            self.connection.execute(f"CREATE OR REPLACE VIEW training AS SELECT {shown} FROM training_file")

    def bring(self, names: Collection[str], *, of: Collection[str] | None = None) -> None:
        """Copy all rows of the named columns into the local views. Columns that were copied before are skipped."""
        for what in of or self.sides:
            known = self._brought[what]
            if not known >= set(names):
                self.stream(what, sorted({*names} | known), rows=self.sides[what].rows)
                self._brought[what] = known | set(names)

    def bring_some(self, alike: str | None = None) -> None:
        """Copy all comparable columns into the views, of all rows or of a random part of about the largest size.

        Args:
            alike: Column by whose values rows of both tables are drawn, so that equal rows are drawn together. None to
                draw single rows at random, as for a column with one very common value.
        """
        together = None if alike is None or self.all_whole else self._by_value(alike)
        for what, side in self.sides.items():
            if together is not None or side.rows > self.most_compared:
                some = together or f"{side.engine.dialect.write('random')} < {self.most_compared / side.rows!r}"
                self.stream(what, list(self.comparable), f" WHERE {some}", rows=self.most_compared)
                self._brought[what] = frozenset()
            else:
                self.bring(self.comparable, of=[what])

    def _by_value(self, column: str) -> str | None:
        """Return a condition for rows with a random share of a column's values, None for none or too many rows."""
        share = self.most_compared / max(side.rows for side in self.sides.values())
        chosen = share_of_values(self.engine.dialect, column, self.columns[column], share)
        counts = [side.count(chosen) for side in self.sides.values()]
        return chosen if 0 < sum(counts) <= _AT_MOST * self.most_compared else None

    def distinct(self, name: str) -> None:
        """Copy the different values of a column into the views."""
        for what in self.sides:
            self.stream(what, [name], rows=0, select="SELECT DISTINCT")
            self._brought[what] = frozenset()

    def stream(
        self, view: str, names: list[str], which: str = "", *,
        rows: int, select: str = "SELECT", side: str | None = None,
    ) -> None:  # fmt: skip
        """Copy columns of a table into a view.

        Args:
            view: Name of the new view.
            names: Names of the columns to copy.
            which: SQL that follows FROM and the table, to choose rows.
            rows: Expected number of rows, for the progress line.
            select: First words of the statement.
            side: Name of the table that is copied. The default is the name of the view.
        """
        engine = self.sides[side or view].engine
        dialect = engine.dialect
        written = {name: dialect.column(name) for name in names}
        listed = ", ".join(
            f"{dialect.write('shown', cell) if self.columns[name] is ColumnKind.OTHER else cell} AS c{place}"
            for place, (name, cell) in enumerate(written.items())
        )
        source, there = f"{engine.source} AS {dialect.rows}", False
        with progress("reading the engine's rows", rows) as line, reading_errors_hidden(side or view):
            self.connection.execute(f"DROP VIEW IF EXISTS {view}; DROP TABLE IF EXISTS {view}_staged")
            for batch in engine.batches(f"{select} {listed} FROM {source}{which}"):
                cells = [_arrived(batch[f"c{place}"], self.columns[name]) for place, name in enumerate(names)]
                arrived = {f"c{place}": cell for place, cell in enumerate(cells)}
                read_rows(self.connection, arrived, name="batch", what="holdout", most_rows=_EVERY)
                kept = ", ".join(
                    _alike(cell, self.columns[name], cell) for cell, name in zip(arrived, names, strict=True)
                )
                into = f"INSERT INTO {view}_staged" if there else f"CREATE TABLE {view}_staged AS"
                self.connection.execute(f"{into} SELECT {kept} FROM batch")
                self.connection.unregister("batch")
                there = True
                line(min(line.done + len(batch["c0"]), rows))
            shown = ", ".join(f"c{place} AS {quoted(name)}" for place, name in enumerate(names))
            self.connection.execute(f"CREATE VIEW {view} AS SELECT {shown} FROM {view}_staged")


def share_of_values(dialect: Dialect, column: str, kind: ColumnKind, share: float) -> str:
    """Return a condition that selects all rows of a random share of a column's values.

    A value is drawn by digits from the middle of its SHA-256, where splits by a hash do not look.

    Args:
        dialect: Dialect of the engine.
        column: The column of the table.
        kind: Kind of the column's values.
        share: Requested share of the column's values, below 1.

    Examples:
        >>> from everhold_engines.sql.dialects import SPARK
        >>> share_of_values(SPARK, "home", ColumnKind.STRING, 0.5)
        "substr(sha2(CAST(t.`home` AS STRING), 256), 31, 8) < '80000000'"
    """
    cell = dialect.column(column)
    text = dialect.write("shown", dialect.write("number", cell) if kind is ColumnKind.NUMBER else cell)
    middle = dialect.write("piece", dialect.write("sha256", text), _MIDDLE, _DIGITS)
    return f"{middle} < '{int(share * 16**_DIGITS):08x}'"


def _alike(cell: str, kind: ColumnKind, name: str) -> str:
    return f"CAST({cell} AS {_TYPES[kind]}) AS {quoted(name)}" if kind in _TYPES else f"{cell} AS {quoted(name)}"


def _arrived(column: NDArray[Any], kind: ColumnKind) -> NDArray[Any]:
    """Return a column in a form that DuckDB accepts. Integers beyond 64 bits become doubles."""
    plain = np.ma.getdata(column)
    if plain.dtype.kind != "O":
        return column
    missing = np.ma.getmaskarray(column) | np.array([cell is None for cell in plain], dtype=bool)
    empty: Any = _EMPTY.get(kind, "")
    kept = np.where(missing, empty, plain)
    return np.ma.MaskedArray(kept.astype(np.asarray(empty).dtype if kind in _EMPTY else object), mask=missing)


def row_count(table: Engine) -> int:
    """Return the number of rows of a table, counted by its engine."""
    return int(table.rows(f"SELECT count(*) FROM {table.source} AS {table.dialect.rows}")[0][0])
