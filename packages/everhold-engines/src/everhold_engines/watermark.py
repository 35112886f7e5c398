"""Rows that arrive in an engine by a column of times, and keyed fingerprints of rows.

Rows that arrived before the time `until` are sealed. Each append takes the rows from the latest such time (watermark)
to the next one, so windows are disjoint and follow each other. A row that is later written into an old window changes
the sealed rows, which is detected. Rows without a time are in no window.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everhold.arguments import check_time
from everhold.errors import HoldoutRejected, IntegrityError
from everhold.progress import progress
from everhold.sealing.arrivals import ArrivedFiles, check_arriving_labels, other_columns
from everhold.sealing.intake.checks import check_row_ids
from everhold.sealing.rows.row_store import ENGINE_VARIABLE
from everhold.values.expressions import ColumnKind
from everhold_engines.column_copies import TableSide, row_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everhold.sealing.storage import StewardKey
    from everhold.values.base import Schema
    from everhold_engines.base import Engine
    from everhold_engines.sql.dialects import Dialect


def keyed_fingerprint(engine: Engine, key: StewardKey) -> str:
    """Return an HMAC-SHA256 in hex that changes with any row of the table. The engine reads all rows.

    There are two keys. The engine gets the first in its statements, and may log them; it prevents crafted collisions.
    The second never leaves this process, and without it the fingerprint reveals nothing.
    """
    contents = engine.contents(key.rows_key)
    return hmac.digest(key.fingerprint_key, contents.encode(), "sha256").hex()


def check_pinned(engine: Engine, configuration: Mapping[str, Any], key: StewardKey) -> None:
    """Check that a table still has the sealed columns and rows. The engine reads all rows.

    Raises:
        IntegrityError: If columns or rows changed, or the table does not exist any more.
        Unavailable: If the engine cannot be reached.
    """
    table = configuration["engine"]["table"]
    try:
        with progress("checking the table"):
            columns = [[name, kind.value] for name, kind in engine.columns().items()]
            found = keyed_fingerprint(engine, key) if columns == configuration["columns"] else None
    except HoldoutRejected:
        raise IntegrityError(
            f"Sealed table {table!r} not found in {engine.title}. Restore it, or set {ENGINE_VARIABLE} to its current "
            "location.",
            unchanged="nothing was charged",
        ) from None
    if found is None or not hmac.compare_digest(found, configuration["fingerprint"]):
        raise IntegrityError(
            f"The table {table!r} is not the one that was sealed: its {'columns' if found is None else 'rows'} differ. "
            f"Restore them, in any order, or set {ENGINE_VARIABLE} to the engine that has them.",
            unchanged="nothing was charged",
        )


_KINDS = (ColumnKind.TIME, ColumnKind.STRING)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The window of a table that is read, between two values of the column of arrival times.

    Attributes:
        column: The column that says when a row arrived: dates, times, or texts such as 2026-12-01.
        since: First time of the window; None for all earlier ones.
        until: End of the window. Rows of exactly this time are not in the window.
    """

    column: str
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        for name, moment in (("since", self.since), ("until", self.until)):
            if moment is not None:
                check_time(name, moment)

    def source(self, stored: str, dialect: Dialect) -> str:
        """Return SQL for the rows of the window."""
        column = dialect.column(self.column)
        ends = ((">=", self.since), ("<", self.until))
        tests = [f"{column} {sign} {dialect.literal(moment)}" for sign, moment in ends if moment is not None]
        where = " AND ".join(tests) or f"{column} IS NOT NULL"
        return f"(SELECT * FROM {stored} AS {dialect.rows} WHERE {where})"

    def facts(self) -> dict[str, str | None]:
        """Return the public facts about the window that the ledger records."""
        return {"arrived": self.column, "until": self.until}

    def check(self, columns: Mapping[str, ColumnKind]) -> None:
        """Check that the rows of a window can be sealed.

        Raises:
            HoldoutRejected: If the column of times is missing or cannot be used. Nothing was created.
        """
        if columns.get(self.column) not in _KINDS:
            raise HoldoutRejected(
                f"arrived is {self.column!r}, which is not a column of dates, times or "
                "texts. Pass the column that says when a row arrived."
            )
        if self.until is None:
            raise HoldoutRejected(
                "until= is missing, and a table to which rows arrive is sealed up to a time. Pass "
                f"arrived={self.column!r} and until='2026-12-01', or another time before which no more rows will "
                "arrive."
            )


def window_numbers(windows: Sequence[Watermark], dialect: Dialect) -> list[str]:
    """Return SQL for the number of the window in which a row arrived, empty for a single window.

    Args:
        windows: Successive windows of one table.
        dialect: SQL dialect of the engine.
    """
    tests = [
        f"WHEN {dialect.column(window.column)} < {dialect.literal(str(window.until))} THEN {number}"
        for number, window in enumerate(windows[:-1])
    ]
    return [f"CASE {' '.join(tests)} ELSE {len(tests)} END"] if tests else []


def check_parts(parts: Sequence[tuple[Any, str]], key: StewardKey) -> None:
    """Check the fingerprints of several windows of a table. The engine reads all their rows.

    Args:
        parts: For each window its engine and its fingerprint.
        key: Key of the steward.

    Raises:
        IntegrityError: If a fingerprint differs. Nothing was changed or charged.
    """
    with progress("checking the table", len(parts)) as line:
        for number, (engine, fingerprint) in enumerate(parts, 1):
            if not hmac.compare_digest(keyed_fingerprint(engine, key), fingerprint):
                raise IntegrityError(
                    f"Rows of {engine.table!r} that arrived before {engine.watermark.until} are not those that were "
                    "sealed. Restore them, and give late rows a later time."
                )
            line(number)


def arriving_rows(part: Any, before: Any, schema: Schema, training_ids: set[Any], key: StewardKey) -> ArrivedFiles:
    """Check the next window of a table inside the engine, and return the facts about its rows.

    Args:
        part: The engine on the window.
        before: The engine on all earlier windows.
        schema: Schema of the holdout.
        training_ids: Row ids of training rows, as texts.
        key: Key of the steward.

    Raises:
        HoldoutRejected: If the rows do not fit. Nothing was changed.
    """
    columns = part.columns()
    if dict(columns) != dict(schema.columns):
        raise other_columns(columns, schema)
    digest = keyed_fingerprint(part, key)
    rows = row_count(part)
    if not rows:
        raise HoldoutRejected(
            f"No rows arrived from {part.watermark.since} to {part.watermark.until}. Pass a later until=."
        )
    side = TableSide(part, columns, rows)
    check_arriving_labels([side], schema)
    if schema.row_id is not None:
        check_row_ids(schema.row_id, columns, [side])
    if schema.row_id is not None and (shared := _shared(part, before, schema.row_id, training_ids)):
        raise HoldoutRejected(
            f"{shared:,} row ids of the new rows are already in the holdout or in its "
            "training rows. Leave these rows out.",
            shared=shared,
        )
    lacking = side.lacking()
    if keyed_fingerprint(part, key) != digest:
        raise HoldoutRejected(
            "The new rows were changed while they were read. Append them when they do not change any more."
        )
    return ArrivedFiles(rows, 0, digest, None, lacking=lacking)


def _shared(part: Engine, before: Engine, row_id: str, training_ids: set[Any]) -> int:
    """Return the number of row ids of a window that are in earlier windows or among the training rows."""
    dialect, column = part.dialect, part.dialect.column(row_id)
    inside = f"SELECT {column} FROM {before.source} AS {dialect.rows}"
    sql = f"SELECT count(*) FROM {part.source} AS {dialect.rows} WHERE {column} IN ({inside})"
    found = int(part.rows(sql)[0][0])
    if training_ids:
        listed = part.batches(f"SELECT {column} AS i FROM {part.source} AS {dialect.rows}")
        found += sum(str(each) in training_ids for batch in listed for each in batch["i"].tolist())
    return found
