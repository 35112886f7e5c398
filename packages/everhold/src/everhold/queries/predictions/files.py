"""Readers of prediction files (CSV, TSV, Parquet, and Arrow with pyarrow), which check the size first.

The files are the analyst's own, so messages may tell what is wrong with them.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.predictions.arrays import MOST_CHARACTERS, PredictionTable
from everhold.sealing.intake.duckdb_files import file_pattern
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.values.base import Schema

CSV, TSV, PARQUET, ARROW = "csv", "tsv", "parquet", "arrow"

_LEAST_BYTES = 10_000_000  # no file is too large below
_MOST_COLUMNS = 1_000
_LINES_FOR_NAMES = 20  # of a file of text; its types are told from all lines
_MOST_CELLS = 2**22  # that are written to a Parquet file at once
_LEAST_GROUP = 2_048  # lines of a Parquet file that are written at once, however many columns it has
_MOST_OF_A_LINE = 10_000  # bytes of a prediction with its id, on average
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "BIT")
_DELIMITERS = {CSV: ",", TSV: "\t"}
_DIALECT: dict[str, Any] = {"quotechar": '"', "escapechar": '"', "comment": "", "skiprows": 0}
"""Signs of text files, as in `everhold.sealing.intake`. Guessed signs would change texts and leave out lines."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The public facts that decide how a file of predictions is read and how large it can be.

    Attributes:
        rows: Number of sealed rows.
        training_rows: Number of training rows.
        row_id: Name of the column of row ids; None if the rows have no ids.
        ids_are_text: True if ids are read as texts, in the way in which they are written.
        labels_are_text: True if all other columns are read as texts, in the way in which they are written.
        most_columns: Largest number of columns.
    """

    rows: int
    training_rows: int
    row_id: str | None
    ids_are_text: bool
    labels_are_text: bool
    most_columns: int = _MOST_COLUMNS

    @classmethod
    def of(cls, schema: Schema) -> Wanted:
        """Return the facts for rows of this schema."""
        row_id = schema.row_id
        ids_are_text = row_id is not None and schema.columns[row_id].value != "number"
        return cls(schema.rows, schema.training_rows, row_id, ids_are_text, schema.label_kind == "string")

    @property
    def most_lines(self) -> int:
        """Largest number of lines that a file of predictions for these rows can have."""
        return 2 * self.rows + self.training_rows

    @property
    def most_bytes(self) -> int:
        """Largest number of bytes that a file of predictions for these rows can have, also when unpacked."""
        return max(_LEAST_BYTES, _MOST_OF_A_LINE * (self.rows + self.training_rows))

    def as_text(self, names: list[str]) -> dict[str, str]:
        """Return the columns that are read as text, with the engine's type for text."""
        as_written = {name: self.ids_are_text if name == self.row_id else self.labels_are_text for name in names}
        return {name: "VARCHAR" for name, text in as_written.items() if text}


def read_predictions(path: Path, schema: Schema, *, column: str | None) -> PredictionTable:
    """Read predictions from a CSV, TSV or Parquet file, recognised by its ending.

    Args:
        path: The analyst's file. Messages may say what is wrong with it.
        schema: Public facts about the rows: whether they have ids, and whether ids and labels are texts. Texts are read
            as they are written.
        column: The column of the predictions. None if there is only one column besides the ids.

    Raises:
        QueryRejected: If there is no such file, or it cannot be read. The sealed rows were not looked at.
    """
    columns = read_columns(path, _form_of(path), Wanted.of(schema), name=path.name)
    return PredictionTable(columns, name=path.name, column=column)


def _form_of(path: Path) -> str:
    if not path.is_file():
        raise QueryRejected(f"There is no file {str(path)!r}. Check the path.")
    form = path.suffix.lower().removeprefix(".")
    if form not in (CSV, TSV, PARQUET):
        raise QueryRejected(f"{path.name} ends in {path.suffix!r}. Pass a .csv, .tsv or .parquet file.")
    return form


def names_in(path: Path) -> tuple[str, ...]:
    """Return the names of all columns of a trusted file, in order.

    Raises:
        QueryRejected: If there is no such file, or it cannot be read.
    """
    form = _form_of(path)
    reading = _Reading(path, form, Wanted(0, 0, None, ids_are_text=False, labels_are_text=False), path.name)
    with reading.connected() as connection, reading.errors_hidden():
        pattern = file_pattern(path.resolve())
        if form == PARQUET:
            return tuple(connection.read_parquet(pattern, hive_partitioning=False).columns)
        written = {"header": True, "delimiter": _DELIMITERS[form], **_DIALECT}
        return tuple(connection.read_csv(pattern, all_varchar=True, **written).columns)


class SomeColumns:
    """A reader of a trusted file with many columns, some at a time.

    Text files are first rewritten as Parquet.

    Args:
        path: Path of the file, as for `read_predictions`. The file must not change between two reads.
        schema: Public facts about the rows, as for `read_predictions`.

    Raises:
        QueryRejected: If the file cannot be read, or has far more lines than predictions for these rows need.
    """

    def __init__(self, path: Path, schema: Schema) -> None:
        self._given, wanted = path, Wanted.of(schema)
        self._reading = _Reading(path, _form_of(path), wanted, path.name)
        self._state = self._now()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if self._reading.form != PARQUET:
            self._folder = tempfile.TemporaryDirectory(prefix="everhold-")
            written = Path(self._folder.name) / "columns.parquet"
            self._reading.write_parquet(written)
            self._reading = _Reading(written, PARQUET, wanted, path.name)
        with self._reading.connected() as connection, self._reading.errors_hidden():
            self._reading.check_parquet_lines(connection)

    def read(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Read the columns ``names`` and return them by name, with the rows in the order of the file.

        Raises:
            QueryRejected: If the columns cannot be read, or the file was changed since it was opened.
        """
        with self._reading.connected() as connection, self._reading.errors_hidden():
            relation = connection.read_parquet(file_pattern(self._reading.path.resolve()), hive_partitioning=False)
            some = relation.project(", ".join(map(quoted, names)))
            self._reading.check_texts(some)
            columns: dict[str, NDArray[Any]] = some.fetchnumpy()
        if self._now() != self._state:
            raise QueryRejected(f"{self._given.name} was changed while it was read. Ask again once it is complete.")
        return dict(zip(names, columns.values(), strict=True))

    def close(self) -> None:
        """Delete the Parquet copy of the file, if there is one."""
        if self._folder is not None:
            self._folder.cleanup()

    def _now(self) -> tuple[int, ...]:
        """Return facts about the file, such as size and time, that differ after it is changed."""
        found = self._given.stat()
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def read_columns(path: Path, form: str, wanted: Wanted, *, name: str) -> dict[str, NDArray[Any]]:
    """Read the columns of a file and return them by name.

    Args:
        path: The file. Meanwhile the engine can open no other file.
        form: `CSV`, `TSV`, `PARQUET` or `ARROW`.
        wanted: The facts that decide how it is read.
        name: The name of the file in messages.

    Raises:
        QueryRejected: If the file cannot be read, or is far larger than predictions for these rows.
    """
    reading = _Reading(path, form, wanted, name)
    reading.check_size()
    with reading.connected() as connection, reading.errors_hidden():
        relation = reading.relation(connection)
        reading.check_texts(relation)
        columns: dict[str, NDArray[Any]] = relation.limit(wanted.most_lines + 1).fetchnumpy()
    if any(len(column) > wanted.most_lines for column in columns.values()):
        raise reading.too_long()
    return columns


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads one file of predictions, with checks of its size and content."""

    path: Path
    form: str
    wanted: Wanted
    name: str

    def check_size(self) -> None:
        """Check, before reading, that the file does not have far too many bytes or columns."""
        if (size := self.path.stat().st_size) > (most := self.wanted.most_bytes):
            raise QueryRejected(
                f"{self.name} has {size:,} bytes. Pass a file of at most {most:,} bytes for this number of rows."
            )
        if self.form in _DELIMITERS:
            with self.path.open("rb") as file:
                head = file.readline(_LEAST_BYTES)
            self._check_columns(head.count(_DELIMITERS[self.form].encode()) + 1)

    @contextmanager
    def errors_hidden(self) -> Iterator[None]:
        """Return a context in which an error of the engine becomes a QueryRejected that quotes nothing."""
        try:
            yield
        except duckdb.Error:
            raise QueryRejected(
                f"{self.name} cannot be read as predictions. Write a text file in UTF-8, with equal line ends and one "
                "prediction of one type in each line below the column's name."
            ) from None

    def connected(self, *others: Path) -> duckdb.DuckDBPyConnection:
        """Return a new engine that can open only this file and the others that are given."""
        connection = duckdb.connect(":memory:", config={"temp_directory": ""})
        allowed = ", ".join(("'" + str(path.resolve()).replace("'", "''") + "'") for path in (self.path, *others))
        connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        return connection

    def relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """Return the table in the file, after checking the file's size."""
        pattern = file_pattern(self.path.resolve())
        if self.form == PARQUET:
            named = "SELECT name FROM parquet_schema(?) WHERE num_children IS NULL"
            sized = "SELECT coalesce(sum(total_uncompressed_size), 0) FROM parquet_metadata(?)"
            names, [(size,)] = (connection.execute(text, [pattern]).fetchall() for text in (named, sized))
            if size > (most := self.wanted.most_bytes):
                raise QueryRejected(
                    f"{self.name} unpacks to {size:,} bytes. Pass a file of at most {most:,} bytes for this number "
                    "of rows."
                )
            self._check_columns(len(names))
            self._check_names(name for (name,) in names)
            self.check_parquet_lines(connection)
            return connection.read_parquet(pattern, hive_partitioning=False)
        if self.form == ARROW:
            return connection.from_arrow(self._arrow())
        return self._written_relation(connection, pattern)

    def _written_relation(self, connection: duckdb.DuckDBPyConnection, pattern: str) -> duckdb.DuckDBPyRelation:
        """Return the table in a text file. Ids and labels that are texts are read as they are written."""
        written: dict[str, Any] = {"delimiter": _DELIMITERS[self.form], **_DIALECT}
        few: dict[str, Any] = {"all_varchar": True, "sample_size": _LINES_FOR_NAMES, **written}
        first = connection.read_csv(pattern, header=False, **few).limit(1).fetchall()
        self._check_names(name or "" for line in first for name in line)
        written["header"] = True
        names = connection.read_csv(pattern, header=True, **few).columns
        text = self.wanted.as_text(names)
        written["sample_size"] = -1
        return connection.read_csv(pattern, dtype=text, **written) if text else connection.read_csv(pattern, **written)

    def write_parquet(self, into: Path) -> None:
        """Write the table as a Parquet file with small row groups, so that few columns take little memory."""
        with self.connected(into) as connection, self.errors_hidden():
            rows = self._written_relation(connection, file_pattern(self.path.resolve()))
            group = max(_MOST_CELLS // max(len(rows.columns), 1), _LEAST_GROUP)
            rows.write_parquet(str(into.resolve()), row_group_size=group)

    def check_parquet_lines(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Raise QueryRejected if a Parquet file has too many lines by its metadata."""
        lines = "SELECT coalesce(sum(num_rows), 0) FROM parquet_file_metadata(?)"
        self._check_lines(connection.execute(lines, [file_pattern(self.path.resolve())]).fetchall()[0][0])

    def _arrow(self) -> Any:
        """Return the table in an Arrow file, read batch by batch. Too many lines raise QueryRejected."""
        try:
            import pyarrow
        except ModuleNotFoundError:
            raise QueryRejected(
                f"{self.name} is an Arrow file, and pyarrow is not installed. Pass it as Parquet."
            ) from None
        from pyarrow import ipc

        batches, lines = [], 0
        try:
            with pyarrow.OSFile(str(self.path)) as source:
                head = source.read(6)
                source.seek(0)
                reader = ipc.open_file(source) if head == b"ARROW1" else ipc.open_stream(source)
                self._check_columns(len(reader.schema))
                every = map(reader.get_batch, range(reader.num_record_batches)) if head == b"ARROW1" else reader
                for batch in every:
                    batch.validate(full=True)
                    lines += batch.num_rows
                    self._check_lines(lines)
                    batches.append(batch)
                return pyarrow.Table.from_batches(batches, schema=reader.schema)
        except (pyarrow.ArrowException, OSError, ValueError) as fault:
            if isinstance(fault, QueryRejected):
                raise
            raise QueryRejected(
                f"{self.name} cannot be read as an Arrow file. Write it again as an Arrow IPC file or stream."
            ) from None

    def check_texts(self, relation: duckdb.DuckDBPyRelation) -> None:
        """Check, before reading, that no column is nested and no text is too long."""
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        if nested := [name for name, kind in kinds.items() if kind.endswith("]") or kind.startswith(_NESTED)]:
            raise QueryRejected(
                f"{self.name} has lists or other nested values in the column {nested[0]!r}. Pass numbers or texts."
            )
        lengths = ", ".join(f"max(length({quoted(name)}))" for name, kind in kinds.items() if kind == "VARCHAR")
        found = relation.aggregate(lengths).fetchall() if lengths else [()]
        longest = max((length for length in found[0] if length is not None), default=0)
        if longest > MOST_CHARACTERS:
            raise QueryRejected(
                f"{self.name} has a text of {longest:,} characters. Pass texts of at most {MOST_CHARACTERS:,} "
                "characters."
            )

    def _check_columns(self, count: int) -> None:
        if count > (most := self.wanted.most_columns):
            raise QueryRejected(
                f"{self.name} has more than {most:,} columns. Pass row ids and one column of predictions."
            )

    def _check_names(self, names: Iterable[str]) -> None:
        """Raise QueryRejected if two columns have one name apart from case, of which the engine renames one."""
        known: dict[str, str] = {}
        for name in names:
            if name.lower() in known:
                both = f"{brief(known[name.lower()])} and {brief(name)}"
                raise QueryRejected(f"{self.name} has the columns {both}. Rename one of them.")
            known[name.lower()] = name

    def _check_lines(self, count: int) -> None:
        if count > self.wanted.most_lines:
            raise self.too_long()

    def too_long(self) -> QueryRejected:
        """Return the error about a file with too many lines."""
        return QueryRejected(
            f"{self.name} has more than {self.wanted.most_lines:,} lines. Pass one line for each of "
            f"{self.wanted.rows:,} rows."
        )
