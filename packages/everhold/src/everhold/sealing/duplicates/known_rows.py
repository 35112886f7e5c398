"""Keyed hashes of rows, so that rows that arrive twice are found at the price of the new ones.

Beside each sealed file lie the hashes of its rows, in order of size. Looking up a row takes one search in each file,
and no old row is read again. The hashes are keyed, and as private as the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.sealing.duplicates.resealing import as_value
from everhold.sealing.intake.duckdb_files import file_pattern, limit_memory, spilling_into
from everhold.sealing.intake.reading import reading_errors_hidden
from everhold.sealing.sealed_files import sealed_note, write_note

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from everhold.values.expressions import ColumnKind

__all__ = ["KnownRows"]

_MOSTLY = 0.5  # of the rows that arrive
_DISTINCT = 0.9  # share of different rows, from which on a row that is there already is no chance


@dataclass(frozen=True, slots=True, repr=False)
class KnownRows:
    """Keyed hashes of the rows of one file.

    Attributes:
        sorted_hashes: In order of size, shape (rows,).
        hashes: In the order of the file, shape (rows,); empty where it was read from the disk.
    """

    sorted_hashes: NDArray[np.uint64]
    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, path: Path, columns: Mapping[str, ColumnKind], *, key: bytes) -> KnownRows:
        """Look at a sealed file.

        Args:
            path: The Parquet file.
            columns: Kind of each column.
            key: Secret key of the hashes.
        """
        cells = ", ".join(as_value(name, columns[name]) for name in sorted(columns, key=str.casefold))
        with spilling_into(path.parent) as connection, reading_errors_hidden("holdout"):
            limit_memory(connection, len(columns))
            connection.read_parquet(file_pattern(path), hive_partitioning=False).create_view("rows")
            sql = f"SELECT hash('{key.hex()}', hash({cells})) AS h FROM rows"
            found = np.asarray(np.ma.getdata(connection.execute(sql).fetchnumpy()["h"]), dtype=np.uint64)
        return cls(np.sort(found), found)

    @classmethod
    def load(cls, path: Path, *, key: bytes) -> KnownRows | None:
        """The hashes in a file that `save` wrote; None if there is none.

        Raises:
            IntegrityError: If it was altered.
        """
        content = sealed_note(path, key=key)
        return None if content is None else cls(np.frombuffer(content, "<u8"), np.zeros(0, dtype=np.uint64))

    def save(self, path: Path, *, key: bytes) -> None:
        """Write the hashes to a new file that only its owner can read, under a seal."""
        write_note(path, self.sorted_hashes.astype("<u8").tobytes(), key=key)

    def found_in(self, other: KnownRows) -> int:
        """Number of these rows that are among others."""
        if not len(other.sorted_hashes):
            return 0
        places = np.searchsorted(other.sorted_hashes, self.sorted_hashes).clip(max=len(other.sorted_hashes) - 1)
        return int(np.count_nonzero(other.sorted_hashes[places] == self.sorted_hashes))

    def repeats(self, other: KnownRows) -> bool:
        """True if most of these rows are among others, and not by chance."""
        if self.found_in(other) < _MOSTLY * len(self.sorted_hashes):
            return False
        return other.mostly_different and self.mostly_different

    @property
    def mostly_different(self) -> bool:
        """True if rows hardly repeat; judged by the first hundred thousand hashes, which are a random share."""
        some = self.sorted_hashes[:100_000]
        return bool(1 + np.count_nonzero(np.diff(some)) >= _DISTINCT * len(some))
