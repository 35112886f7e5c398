"""Deals sealed rows into parts: by chance or by time, with whole groups in one part and strata in all."""

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
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everhold.sealing.intake.request import SealRequest


def dealt_files(
    request: SealRequest, folder: Path, shares: Sequence[float], *, groups: str | None, order: str | None = None,
    rng: np.random.Generator,
) -> tuple[list[Path], NDArray[np.intp]]:  # fmt: skip
    """Deal the rows to seal into files of their own, by their shares of all rows or groups, of each stratum within one.

    Args:
        request: The rows. Training rows in a file are read with them, so that columns are of the same kinds.
        folder: A private folder.
        shares: Of the parts; they add up to 1.
        groups: Column whose equal values stay together; None to deal rows.
        order: Column by whose order rows, or groups by their first row, come to the last part first; None for chance.
        rng: Decides which part a row comes to, where no order does; nothing else does.

    Returns:
        The files, and the part of each row, from 0.

    Raises:
        HoldoutRejected: If the rows cannot be read, or there are too few of them, or of groups, for some part.
    """
    sources = {"holdout": request.holdout}
    if isinstance(request.training, (str, Path)):
        sources["training"] = request.training
    paths = [folder / f"part-{number}.parquet" for number in range(1, len(shares) + 1)]
    columns = {"groups": groups, "order": order, "strata": request.rows.stratified}
    with spilling_into(folder) as connection:
        read_together(connection, sources, most_rows=request.rows.most_rows)
        with reading_errors_hidden("holdout"):
            connection.execute("CREATE TEMP TABLE sealed AS SELECT * FROM holdout_source")  # a stream is read once
            known = column_kinds(connection.view("sealed"))
            for what, column in columns.items():
                if column is not None and column not in known:
                    raise HoldoutRejected(f"The rows to seal have no column {column!r}. Name the column of the {what}.")
            ranks = {
                what: f"dense_rank() OVER (ORDER BY {quoted(column)})" for what, column in columns.items() if column
            }
            ranks["unit"] = ranks.get("groups") or ranks.get("order") or "rowid"
            found = connection.execute(
                f"SELECT {', '.join(f'{rank} AS {quoted(what)}' for what, rank in ranks.items())} FROM sealed "
                "ORDER BY rowid"
            ).fetchnumpy()
        of_row = np.unique(np.asarray(found["unit"]), return_inverse=True)[1]
        part = np.full(int(of_row.max(initial=-1)) + 1, -1, dtype=np.intp)
        place, stratum = np.full(len(part), len(of_row) + 1), np.zeros(len(part), dtype=np.intp)
        np.minimum.at(place, of_row, np.asarray(found.get("order", np.zeros(len(of_row))), dtype=np.intp))
        stratum[of_row] = np.asarray(found.get("strata", 0), dtype=np.intp)
        for number in np.unique(stratum).tolist():
            inside = np.flatnonzero(stratum == number)
            turn = np.argsort(np.argsort(place[inside], kind="stable"))[::-1] if order else rng.permutation(len(inside))
            part[inside] = np.searchsorted(np.round(np.cumsum(shares[:-1]) * len(inside)), turn, side="right")
        if len(np.unique(part)) < len(shares):
            whole = "rows" if groups is order is None else f"groups of {groups or order!r}"
            raise HoldoutRejected(
                f"{len(part):,} {whole} cannot be dealt into {len(shares)} parts. Seal more rows, or ask for fewer or "
                "larger parts."
            )
        connection.register("dealt", {"part": part[of_row]})
        for number, path in enumerate(paths):
            os.close(create_private(path))
            escaped = str(path).replace("'", "''")
            with reading_errors_hidden("holdout"):
                connection.execute(
                    f"COPY (SELECT sealed.* FROM sealed POSITIONAL JOIN dealt WHERE dealt.part = {number}) "
                    f"TO '{escaped}' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
                )
    return paths, part[of_row]
