"""Checks rows that arrive against the sealed rows, and writes them durably before the ledger knows them.

Files of an arrival have its number in their names. Files of an arrival that the ledger does not have are removed by the
next call that appends. One process appends at a time.
"""

from __future__ import annotations

import contextlib
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb
import numpy as np

from everhold.dependence import DependenceModel, Independent
from everhold.display import counted
from everhold.errors import DependenceError, HoldoutRejected
from everhold.private_files import create_private, keep_others_out
from everhold.progress import progress
from everhold.sealing.configuration import SealedFiles
from everhold.sealing.intake.checks import FileSide, Side, check_not_shared, check_row_ids, lacking_columns
from everhold.sealing.intake.duckdb_files import column_kinds, limit_memory, spilling_into, view_files
from everhold.sealing.intake.reading import MOST_ROWS, check_size, read_rows, reading_errors_hidden, write_rows
from everhold.sealing.intake.structure import FileStructure
from everhold.sealing.resealing import KnownRows, check_may_match
from everhold.sealing.rows.embedded import fingerprint
from everhold.sealing.sealed_files import rows_file, training_file
from everhold.sealing.splits import check_equal_rows
from everhold.values.expressions.tree import ColumnKind, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from everhold.sealing.intake.reading import RowSource
    from everhold.values.base import Schema
    from everhold.values.missing import MissingRule

_LOCK_FILE = "append.lock"
_NUMBERED = re.compile(r"(?:arrival|arrived-training|known|compared|opened)-([0-9]{6})[-.]")


@dataclass(frozen=True, slots=True)
class ArrivedFiles:
    """Public facts about the files of one arrival.

    Attributes:
        rows: Number of sealed rows; 0 for none.
        training_rows: Number of training rows; 0 for none.
        fingerprint: SHA-256 of the file of sealed rows. None if no sealed rows arrive in a file.
        training_fingerprint: SHA-256 of the file of training rows. None if no training rows arrive.
        groups: Pairs (size, number of groups of that size) of the sealed rows, if the rows are in groups.
        lacking: Columns without a value in some sealed row.
        rules: New rules for missing values, by column.
    """

    rows: int
    training_rows: int
    fingerprint: str | None
    training_fingerprint: str | None
    groups: tuple[tuple[int, int], ...] = ()
    lacking: frozenset[str] = frozenset()
    rules: Mapping[str, MissingRule] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EarlierFiles:
    """Files of a holdout's rows before an arrival.

    Attributes:
        folder: Private folder of the holdout's rows.
        schema: Schema of the holdout.
        key: Secret key of the hashes of rows.
        with_rows: Numbers of the earlier arrivals that have sealed rows. The number 0 is the creation of the holdout.
        with_training: Numbers of the earlier arrivals that have training rows. The number 0 is the creation of the
            holdout.
        dependence: Dependence of the rows.
        largest_group: Largest number of rows that a group may have. None if there is no limit.
    """

    folder: Path
    schema: Schema
    key: bytes = field(repr=False)
    with_rows: Sequence[int]
    with_training: Sequence[int]
    dependence: DependenceModel = field(default_factory=Independent)
    largest_group: int | None = None

    @property
    def sealed(self) -> list[Path]:
        """Files of sealed rows, in order."""
        return [rows_file(self.folder, number) for number in self.with_rows]

    @property
    def training(self) -> list[Path]:
        """Files of training rows, in order."""
        return [training_file(self.folder, number) for number in self.with_training]


_PATHS = {"holdout": rows_file, "training": training_file}


@contextmanager
def arriving(folder: Path) -> Iterator[None]:
    """Lock a holdout's folder, so that one process at a time appends rows. Others wait for the lock."""
    path = folder / _LOCK_FILE
    with contextlib.suppress(FileExistsError):
        os.close(create_private(path))
    descriptor = os.open(path, os.O_RDWR)
    try:
        keep_others_out(descriptor)
        yield
    finally:
        os.close(descriptor)


def remove_orphans(folder: Path, *, arrivals: int) -> None:
    """Remove files of arrivals that the ledger does not know. Call it only within `arriving`."""
    for path in folder.glob("*-[0-9][0-9][0-9][0-9][0-9][0-9][-.]*"):
        found = _NUMBERED.match(path.name)
        if found is not None and int(found[1]) > arrivals:
            path.unlink()


def known_rows(folder: Path, number: int, columns: Mapping[str, ColumnKind], *, key: bytes) -> KnownRows:
    """Return the row hashes of an arrival's sealed rows from their file. A missing file is computed and written."""
    path = _known_file(folder, number)
    found = KnownRows.load(path, key=key)
    if found is None:
        found = KnownRows.of(rows_file(folder, number), columns, key=key)
        found.save(path, key=key)
    return found


def _known_file(folder: Path, number: int) -> Path:
    return folder / f"known-{number:06}-{duckdb.__version__}"  # whose hashes of cells may change with it


def seal_arrival(
    earlier: EarlierFiles, number: int, *, rows: RowSource | None, training: RowSource | None,
    check: Callable[[Path], None] = lambda arriving: None,
) -> ArrivedFiles | None:  # fmt: skip
    """Check rows that arrive, and write them durably to the holdout's folder.

    Args:
        earlier: Files of the rows that are there already.
        number: Number of the arrival, from 1.
        rows: Rows to seal; None for none.
        training: Open rows; None for none.
        check: Raises an error if the file of the rows to seal has rows that may not be sealed.

    Returns:
        The files; None if the latest arrival has the same rows, as when a killed call is repeated. No file is left
            then.

    Raises:
        HoldoutRejected: If the rows do not fit or are there already. Nothing is left behind.
    """
    folder, schema = earlier.folder, earlier.schema
    given = {what: source for what, source in (("holdout", rows), ("training", training)) if source is not None}
    paths = {what: _PATHS[what](folder, number) for what in given}
    made, groups = dict[str, int](), tuple[tuple[int, int], ...]()
    lacking = frozenset[str]()
    try:
        with spilling_into(folder) as connection, progress("writing and checking rows", 3) as line:
            limit_memory(connection, len(schema.columns))
            for what, source in given.items():
                made[what] = _written(connection, source, what=what, schema=schema, path=paths[what])
            new = {what: KnownRows.of(path, schema.columns, key=earlier.key) for what, path in paths.items()}
            if _is_latest(earlier, number - 1, new):
                remove_orphans(folder, arrivals=number - 1)
                return None
            line(1)
            sides = [FileSide(connection, what, schema.columns) for what in given]
            check_arriving_labels(sides, schema)
            _check_ids(connection, sides, earlier)
            if (group_by := earlier.dependence.group_column) is not None:
                groups = _arriving_groups(earlier, group_by, sides, paths)
                check_no_larger(groups, earlier.largest_group)
            if "holdout" in given:
                lacking = lacking_columns(lambda sql: connection.execute(sql).fetchall(), schema.columns, "holdout")
            if len(sides) > 1:
                check_equal_rows(connection, schema.columns, row_id=schema.row_id)
            line(2)
        if earlier.dependence.one_series and "holdout" in paths:
            _check_follows(earlier, arriving=paths["holdout"], rows=made["holdout"])
        if "holdout" in paths:
            check(paths["holdout"])
        _check_new(earlier, number, new)
        for path in paths.values():
            _keep(path)
        _keep(folder)
    except BaseException:
        remove_orphans(folder, arrivals=number - 1)
        raise
    prints = {what: fingerprint(path) for what, path in paths.items()}
    return ArrivedFiles(
        made.get("holdout", 0), made.get("training", 0), prints.get("holdout"), prints.get("training"),
        groups, lacking,
    )  # fmt: skip


def _beside(earlier: EarlierFiles, arriving: Path, rows: int, files: Sequence[Path]) -> FileStructure:
    """Return a structure with arriving rows as its sealed rows, and the rows of earlier files as its training rows."""
    facts = SealedFiles(
        rows=rows, training_rows=earlier.schema.rows if files else 0, columns=dict(earlier.schema.columns),
        label_kind=None, label_classes=None, fingerprint="", training_fingerprint="",
    )  # fmt: skip
    return FileStructure(earlier.folder, facts, {"holdout": [arriving], "training": files})


def _check_follows(earlier: EarlierFiles, *, arriving: Path, rows: int) -> None:
    """Check that rows continue where the sealed rows of a single series end.

    Args:
        earlier: Files of the holdout's rows.
        arriving: File of the rows that arrive.
        rows: Number of the rows that arrive.

    Raises:
        HoldoutRejected: If the new rows do not continue the series. Nothing was appended.
    """
    try:
        for training, files in enumerate((earlier.sealed, earlier.training)):
            if files:
                with _beside(earlier, arriving, rows, files) as structure:
                    earlier.dependence.check_follows(structure, training=bool(training))
    except DependenceError as error:
        raise HoldoutRejected(f"The new rows do not continue the series. {error}") from None


def _written(connection: duckdb.DuckDBPyConnection, source: RowSource, *, what: str, schema: Schema, path: Path) -> int:
    """Read sealed or training rows from a source, write them to a file, and return their number."""
    read_rows(connection, source, name=f"{what}_source", what=what, most_rows=MOST_ROWS, kinds=schema.columns)
    columns = column_kinds(connection.view(f"{what}_source"))
    if dict(columns) != dict(schema.columns):
        if not connection.execute(f"SELECT 1 FROM {what}_source LIMIT 1").fetchall():
            raise HoldoutRejected(f"The {what} table is empty. Append at least one row.")
        raise other_columns(columns, schema)
    rows = write_rows(connection, what, dict(schema.columns), path)
    check_size(rows=rows, columns=None, most_rows=MOST_ROWS, what=what)
    return rows


def other_columns(columns: Mapping[str, ColumnKind], schema: Schema) -> HoldoutRejected:
    """Return the error for rows whose columns differ from the sealed columns."""
    expected = dict(schema.columns)
    faults = [f"no column {name!r}" for name in expected if name not in columns]
    faults += [f"a column {name!r}" for name in columns if name not in expected]
    faults += [
        f"{name!r} as {columns[name].value}, not {kind.value}"
        for name, kind in expected.items() if columns.get(name, kind) is not kind
    ]  # fmt: skip
    return HoldoutRejected(
        f"The columns of the new rows are not those that were sealed: {', '.join(faults[:5])}. Give the new rows the "
        "same columns, with the same types."
    )


def check_arriving_labels(sides: Sequence[Side], schema: Schema) -> None:
    """Check that every arriving row has a label, and that labels have the sealed type and classes.

    Raises:
        HoldoutRejected: If a label does not fit. Nothing was appended.
    """
    label = schema.label
    if label is None:
        return
    for side in sides:
        if side.missing(label):
            raise HoldoutRejected(
                f"The label column {label!r} has missing values in the new {side.what} rows. Append rows when all of "
                "them have labels, and wait equally long for each."
            )
        if schema.label_kind == "binary" and not side.is_binary(label):
            raise HoldoutRejected(
                f"The label column {label!r} of the new {side.what} rows has values other "
                "than 0 and 1. The sealed labels are 0 and 1: convert the new ones."
            )
        if schema.classes and not {*side.values(label)} <= {*schema.classes}:
            raise HoldoutRejected(
                f"Column {label!r} of the new {side.what} rows has labels that are none of the {len(schema.classes):,} "
                "classes of this holdout. Leave out those rows, or correct the labels."
            )


def _check_ids(connection: duckdb.DuckDBPyConnection, sides: Sequence[Side], earlier: EarlierFiles) -> None:
    """Raise HoldoutRejected if a row id of the new rows occurs twice, or is in the holdout's rows already."""
    schema = earlier.schema
    if schema.row_id is None:
        return
    check_row_ids(schema.row_id, schema.columns, sides)
    if len(sides) > 1:
        check_not_shared(connection, schema.row_id)
    column = quoted(schema.row_id)
    old = earlier.sealed + earlier.training
    with reading_errors_hidden("holdout"):
        view_files(connection, "old", *old)
        for what in (side.what for side in sides):
            ids = f"SELECT {column}::VARCHAR AS i FROM {what}"
            sql = f"SELECT count(*) FROM (SELECT {column}::VARCHAR AS i FROM old) SEMI JOIN ({ids}) USING (i)"
            if shared := int(connection.execute(sql).fetchall()[0][0]):
                raise HoldoutRejected(
                    f"{shared:,} row ids of the new {what} rows are already in the holdout "
                    "or in its training rows. Leave those rows out.",
                    shared=shared,
                )


def _is_latest(earlier: EarlierFiles, latest: int, new: Mapping[str, KnownRows]) -> bool:
    """Return whether the latest arrival consists of exactly these rows, so that it is being repeated."""
    folder, schema = earlier.folder, earlier.schema
    for rows in new.values():
        check_may_match(folder, len(rows.sorted_hashes))
    brought = {
        what for what, numbers in (("holdout", earlier.with_rows), ("training", earlier.with_training))
        if latest and latest in numbers
    }  # fmt: skip
    if brought != new.keys():
        return False
    for what, rows in new.items():
        if schema.row_id is None and earlier.dependence.group_column is None and not rows.mostly_different:
            return False
        path = _PATHS[what](folder, latest)
        if not np.array_equal(KnownRows.of(path, schema.columns, key=earlier.key).sorted_hashes, rows.sorted_hashes):
            return False
    return True


def _check_new(earlier: EarlierFiles, number: int, new: Mapping[str, KnownRows]) -> None:
    """Raise HoldoutRejected if most of the new rows are in the holdout's sealed or training files already."""
    folder, columns, key = earlier.folder, earlier.schema.columns, earlier.key
    old = [known_rows(folder, each, columns, key=key) for each in earlier.with_rows]
    for what, rows in new.items():
        if any(rows.repeats(before) for before in old):
            said = (
                "These rows, or most of them, are" if what == "holdout" else "The training rows, or most of them, are"
            )
            raise HoldoutRejected(f"{said} already in this holdout. Append only rows that are in none of its files.")
    if "holdout" in new:
        trained = [KnownRows.of(path, columns, key=key) for path in earlier.training[-1:]]
        if any(new["holdout"].repeats(before) for before in trained):
            raise HoldoutRejected(
                "The new rows, or most of them, are training rows of this holdout. Seal "
                "only rows that were not used for training."
            )
        new["holdout"].save(_known_file(folder, number), key=key)


def _keep(path: Path) -> None:
    """Flush a file or folder to the disk."""
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _arriving_groups(
    earlier: EarlierFiles, column: str, sides: Sequence[Side], paths: Mapping[str, Path]
) -> tuple[tuple[int, int], ...]:
    """Check the groups of rows that arrive, and return how many groups have each size.

    Each group has to be whole in one batch, and no group may be in earlier rows. Otherwise new rows would depend on old
    ones, and a tree of intervals could not be about the new rows alone (S13).

    Args:
        earlier: Files of the holdout's rows.
        column: Column whose equal values make a group.
        sides: Rows that arrive. Groups of training rows may go on as training rows.
        paths: Their files.

    Returns:
        Pairs (size, number of groups of that size) of the sealed rows that arrive.

    Raises:
        HoldoutRejected: If a group is not new, or not whole. Nothing was appended.
    """
    sizes = dict[int, int]()
    arriving = [paths["training"]] if "training" in paths else []
    for side in sides:
        what = side.what
        if side.missing(column):
            raise HoldoutRejected(
                f"The group column {column!r} has missing values in the new {what} rows. Drop those rows, or give "
                "each a group of its own."
            )
        training = earlier.training + (arriving if what == "holdout" else [])
        for said, files in (("sealed rows", earlier.sealed), ("training rows", training)):
            try:
                with _beside(earlier, paths[what], side.rows, files) as structure:
                    shared = structure.shared_groups(column)
                    sizes = structure.group_sizes(column) if what == "holdout" and not sizes else sizes
            except DependenceError as error:
                raise HoldoutRejected(f"The groups of the new {what} rows cannot be told apart. {error}") from None
            if shared and (what, said) != ("training", "training rows"):
                raise HoldoutRejected(
                    f"{counted(shared, 'group')} of column {column!r} in the new rows "
                    f"{'is' if shared == 1 else 'are'} already in the {said}. Rows of one group depend on each other, "
                    f"so leave {'it' if shared == 1 else 'these groups'} out.",
                    shared=shared,
                )
    return tuple(sizes.items())


def check_no_larger(groups: Sequence[tuple[int, int]], largest: int | None) -> None:
    """Check that no group is larger than the largest size planned for bets on groups. Sizes of groups are public.

    Args:
        groups: Pairs (size, number of groups of that size).
        largest: Largest number of rows that a group may have. None if there is no limit.

    Raises:
        HoldoutRejected: If a new group is larger. Nothing was appended.
    """
    larger = [(size, number) for size, number in groups if largest is not None and size > largest]
    if larger:
        count = sum(number for _, number in larger)
        raise HoldoutRejected(
            f"{count:,} new groups have up to {larger[-1][0]:,} rows, and largest_group of "
            f"this holdout is {largest:,}. Leave these groups out.",
            larger=count,
        )
