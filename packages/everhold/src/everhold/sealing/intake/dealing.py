"""Deals sealed rows into parts for several studies: by chance, with whole groups in one part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import HoldoutRejected
from everhold.private_files import create_private
from everhold.sealing.intake.duckdb_files import column_kinds, spilling_into
from everhold.sealing.intake.reading import read_together, reading_errors_hidden
from everhold.values.expressions.tree import quoted

if TYPE_CHECKING:
    from everhold.sealing.intake.request import SealRequest


def dealt_files(
    request: SealRequest, folder: Path, parts: int, *, groups: str | None, rng: np.random.Generator
) -> list[Path]:  # fmt: skip
    """Deal the rows to seal into files of their own, as many rows or groups to each, within one.

    Args:
        request: The rows. Training rows in a file are read with them, so that columns are of the same kinds.
        folder: A private folder.
        parts: How many files.
        groups: Column whose equal values stay together; None to deal rows.
        rng: Decides which part a row comes to; nothing else does.

    Raises:
        HoldoutRejected: If the rows cannot be read, or there are fewer of them, or fewer groups, than parts.
    """
    sources = {"holdout": request.holdout}
    if isinstance(request.training, (str, Path)):
        sources["training"] = request.training
    paths = [folder / f"part-{number}.parquet" for number in range(1, parts + 1)]
    with spilling_into(folder) as connection:
        read_together(connection, sources, most_rows=request.rows.most_rows)
        with reading_errors_hidden("holdout"):
            connection.execute("CREATE TEMP TABLE sealed AS SELECT * FROM holdout_source")  # a stream is read once
            if groups is not None and groups not in column_kinds(connection.view("sealed")):
                raise HoldoutRejected(f"The rows to seal have no column {groups!r}. Name the column of the groups.")
            unit = "rowid" if groups is None else f"dense_rank() OVER (ORDER BY {quoted(groups)})"
            numbers = connection.execute(f"SELECT {unit} AS unit FROM sealed ORDER BY rowid").fetchnumpy()["unit"]
            units, unit_of_row = np.unique(np.asarray(numbers), return_inverse=True)
            if len(units) < parts:
                what = "rows" if groups is None else f"groups of {groups!r}"
                raise HoldoutRejected(
                    f"{len(units):,} {what} cannot be dealt into {parts} studies. Ask for fewer studies."
                )
            part = rng.permutation(len(units)) % parts
            connection.register("dealt", {"part": part[unit_of_row]})
            for number, path in enumerate(paths):
                os.close(create_private(path))
                escaped = str(path).replace("'", "''")
                connection.execute(
                    f"COPY (SELECT sealed.* FROM sealed POSITIONAL JOIN dealt WHERE dealt.part = {number}) "
                    f"TO '{escaped}' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
                )
    return paths
