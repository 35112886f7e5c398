"""Rows as the files that a client sends: a file as it is, a table in memory as Parquet."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from everhold.sealing.intake.reading import read_rows, reading_errors_hidden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

    from everhold.sealing.intake.reading import RowSource
    from everhold_server.wire.connection import Part


@contextmanager
def row_files(**sources: RowSource | None) -> Iterator[dict[str, Part]]:
    """Files for the parts of a request, by name; tables in memory are in a private folder until the context ends.

    Args:
        **sources: Rows by the name of their part; those that are None are left out.

    Raises:
        HoldoutRejected: If rows are no table. Nothing was sent.
    """
    with tempfile.TemporaryDirectory(prefix="everhold-") as folder:
        paths = {
            what: Path(source) if isinstance(source, str | Path) else _written(source, Path(folder), what)
            for what, source in sources.items()
            if source is not None
        }
        yield {what: partial(_opened, path) for what, path in paths.items()}


def _opened(path: Path, stack: ExitStack) -> Any:
    return stack.enter_context(path.open("rb"))


def _written(source: RowSource, folder: Path, what: str) -> Path:
    path = folder / f"{what}.parquet"
    with duckdb.connect() as connection:
        read_rows(connection, source, name="source", what=what)
        with reading_errors_hidden(what):
            connection.view("source").write_parquet(str(path))
    return path
