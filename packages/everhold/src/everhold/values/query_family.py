"""Families of queries over a universe of cells, as matrices of their values."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.values.evaluation import UNIT, to_grid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["MOST_ROWS", "QueryFamily", "QueryMatrix", "checked_histogram"]

MOST_ROWS = 2**26
"""Largest number of rows of a histogram: sums in grid units stay below 2**56."""

_BLOCK = 2**19  # values turned into doubles at a time: 4 MiB
_EXACT_ROWS = 2**53 // UNIT
_HALF = 2**15


def checked_histogram(histogram: ArrayLike, *, cells: int, rows: int | None = None) -> NDArray[np.int64]:
    """A histogram as int64, shape (cells,), of at least one row; its counts are secret and never quoted.

    Raises:
        ValueError: If it is not that, or does not hold `rows` rows.
    """
    counts = np.asarray(histogram)
    if counts.shape != (cells,) or counts.dtype.kind not in "iu":
        raise ValueError(f"the histogram has the shape {counts.shape} of {counts.dtype}; expected ({cells},) integers")
    if bool(np.any(counts < 0)) or bool(np.any(counts > MOST_ROWS)) or not 1 <= int(counts.sum()) <= MOST_ROWS:
        raise ValueError(f"the histogram has a negative count, or not from 1 to {MOST_ROWS:,} rows")
    if rows is not None and int(counts.sum()) != rows:
        raise ValueError(f"the histogram does not hold the stated number of rows, {rows}; count the same rows")
    return counts.astype(np.int64)


class QueryFamily(ABC):
    """A fixed number of queries about the cells of a universe; immutable, compared by identity.

    Attributes:
        count: Number of queries |Q|.
        cells: Number of cells N.
    """

    count: int
    cells: int

    def __len__(self) -> int:
        return self.count

    @abstractmethod
    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Queries ``start .. stop - 1`` on the grid, shape (stop - start, cells): boolean, or integers up to UNIT."""

    def vector(self, index: int) -> NDArray[np.float64]:
        """Query `index` as numbers in [0, 1], shape (cells,)."""
        return np.asarray(_unscaled(self.block(index, index + 1))[0])

    def fingerprint(self) -> str:
        """SHA-256 of all values on the grid, in hex: the same for the same queries in the same order."""
        found = hashlib.sha256(f"{self.count} x {self.cells}\n".encode())
        for block in self._blocks(0, self.count):
            found.update((block.astype("<i4") * (UNIT if block.dtype.kind == "b" else 1)).tobytes())
        return found.hexdigest()

    def totals(self, histogram: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact sums over the rows of a histogram in grid units, shape (queries,)."""
        counts = histogram.astype(np.float64)
        halves = int(histogram.sum()) > _EXACT_ROWS
        blocks = self._blocks(0, self.count)
        return np.concatenate([_exact_product(block, counts, halves=halves) for block in blocks])

    def means(self, weights: NDArray[np.float64], start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Averages of queries ``start .. stop - 1`` under public weights that sum to 1, shape (stop - start,)."""
        blocks = self._blocks(start, self.count if stop is None else stop)
        means = np.concatenate([_product(_unscaled(block), weights) for block in blocks])
        return np.asarray(np.clip(means, 0.0, 1.0), dtype=np.float64)

    def _blocks(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        step = max(1, _BLOCK // self.cells)
        return (self.block(first, min(first + step, stop)) for first in range(start, stop, step))


class QueryMatrix(QueryFamily):
    """Queries as a matrix; kept as truth values where all are 0 or 1, else as 32-bit integers.

    Args:
        values: Shape (queries, cells), boolean or numbers in [0, 1].

    Raises:
        ValueError: If the shape is another one or there is no query.
        QueryRejected: If a value is not a number in [0, 1].

    Examples:
        >>> QueryMatrix([[0, 1], [0.5, 0.5]]).totals(np.array([3, 1])) / UNIT
        array([1., 2.])
    """

    def __init__(self, values: ArrayLike) -> None:
        array = np.asarray(values)
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"the queries have the shape {array.shape}; expected (queries, cells), none empty")
        self._grid = _compact(array)
        self._grid.setflags(write=False)
        self.count, self.cells = array.shape

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Rows of the matrix."""
        return self._grid[start:stop]

    def __repr__(self) -> str:
        return f"QueryMatrix(count={self.count}, cells={self.cells})"


def _compact(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "b":
        return values.copy()
    grid = to_grid(values)
    plain = bool(np.all((grid == 0) | (grid == UNIT)))
    return grid == UNIT if plain else grid.astype(np.int32)


def _unscaled(block: NDArray[Any]) -> NDArray[np.float64]:
    doubles = block.astype(np.float64)
    return doubles if block.dtype.kind == "b" else doubles / UNIT


def _product(block: NDArray[np.float64], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Not by BLAS, whose threads cost more than they save here and may add in another order each time."""
    return np.asarray(np.einsum("ij,j->i", block, numbers))


def _exact_product(block: NDArray[Any], counts: NDArray[np.float64], *, halves: bool) -> NDArray[np.int64]:
    """``block @ counts`` in grid units, by doubles that hold every partial sum exactly."""
    if block.dtype.kind == "b":
        return _product(block.astype(np.float64), counts).astype(np.int64) * UNIT
    if not halves:
        return _product(block.astype(np.float64), counts).astype(np.int64)
    high, low = np.divmod(block, _HALF)
    parts = [_product(part.astype(np.float64), counts).astype(np.int64) for part in (high, low)]
    return np.asarray(parts[0] * _HALF + parts[1])
