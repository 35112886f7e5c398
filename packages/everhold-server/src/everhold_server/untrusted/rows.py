"""Checks the size of a stranger's table in a worker process before an engine opens the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from everhold.errors import HoldoutRejected
from everhold.sealing.intake.duckdb_files import file_pattern
from everhold_server.untrusted.worker import ReadingLimits, read_in_worker

if TYPE_CHECKING:
    from pathlib import Path

MOST_COLUMNS = 2_000
"""Columns of a table that a stranger sends, the parts of nested ones counted too."""

MOST_CELLS = 2**31
"""Rows times columns."""

_BYTES_A_SECOND = 2**25
_CHUNK = 2**22
_ADVICE = "Keep only the columns that queries need, or a random sample of the rows."


def check_untrusted_rows(path: Path, *, name: str) -> None:
    """Check the size and readability of an uploaded Parquet or CSV file in a worker process.

    Raises:
        HoldoutRejected: If it has too many columns or cells, or cannot be looked at. Nothing was created.
    """
    size = path.stat().st_size
    limits = ReadingLimits(content=size, seconds=20 + size // _BYTES_A_SECOND)
    shape = read_in_worker(
        "everhold_server.untrusted.rows:shape", path, name=name, limits=limits, advice=_ADVICE, refusal=HoldoutRejected
    )
    rows, columns = shape["rows"], shape["columns"]
    if columns > MOST_COLUMNS:
        raise HoldoutRejected(
            f"{name} has {columns:,} columns, more than the limit of {MOST_COLUMNS:,}. "
            "Keep only the columns that queries need.",
            columns=columns, most_columns=MOST_COLUMNS,
        )  # fmt: skip
    if rows * columns > MOST_CELLS:
        raise HoldoutRejected(
            f"{name} has {rows:,} rows and {columns:,} columns, more than the limit of "
            f"{MOST_CELLS:,} values. {_ADVICE}",
            rows=rows, columns=columns,
        )  # fmt: skip


def shape(path: Path, *, name: str) -> dict[str, Any]:
    """Return at least how many rows and columns a file has. The worker process runs this."""
    if path.suffix == ".parquet":
        with duckdb.connect(":memory:", config={"temp_directory": ""}) as connection:
            pattern = file_pattern(path)
            try:
                rows, columns = (
                    connection.execute(text, [pattern]).fetchall()[0][0]
                    for text in (
                        "SELECT coalesce(sum(num_rows), 0) FROM parquet_file_metadata(?)",
                        "SELECT count(*) FROM parquet_schema(?) WHERE num_children IS NULL OR num_children = 0",
                    )
                )
            except duckdb.Error:
                raise HoldoutRejected(f"{name} cannot be read as a Parquet file. Write it again.") from None
            return {"rows": int(rows), "columns": int(columns)}
    ends, columns, first = 0, 1, True
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if first:
                names = chunk.replace(b"\r", b"\n").partition(b"\n")[0]
                columns, first = 1 + max(names.count(sign) for sign in (b",", b";", b"\t", b"|")), False
            ends += chunk.count(b"\n") or chunk.count(b"\r")
    return {"rows": ends, "columns": columns}
