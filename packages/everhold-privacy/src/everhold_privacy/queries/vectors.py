"""Vectors of rows: clipped to a length, on a grid on which two rows differ by an exact bound, tried on public rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import QueryRejected
from everhold.sealing.rows.code_trials import called, check_rows_alone, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.base import RowFunction, Table

LARGEST_VECTOR_UNIT = 2**30
"""Largest grid on which the squares of a vector are summed exactly in 64 bits."""

SHRINKAGE = 2.0**-38
"""Relative shortening of every vector, larger than the rounding error in the length of 10,000 numbers."""


def shortened(vectors: NDArray[np.float64], *, clip: float) -> NDArray[np.float64]:
    """Return vectors shortened to the length ``clip`` and divided by it; 0 if not finite, (rows, dimension)."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)  # also false for nan
    reach = np.maximum(np.where(finite, largest, 1.0), clip)[:, None]  # so that no square overflows
    scaled = np.where(finite[:, None], vectors, 0.0) / reach
    lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return np.asarray(scaled / np.maximum(lengths, clip / reach))


def vectors_to_grid(vectors: NDArray[np.float64], *, clip: float, unit: int) -> NDArray[np.int64]:
    """Convert clipped vectors to integers whose Euclidean length is at most ``unit / 2``, exactly.

    Numbers are rounded towards 0, which makes no vector longer; any two rows therefore differ by at most ``unit``.
    The lengths are checked in integers: floating point decides nothing.

    Args:
        vectors: Shape (rows, dimension).
        clip: The clipping length, which stands for ``unit / 2``.
        unit: Grid steps, at most `LARGEST_VECTOR_UNIT`.

    Examples:
        >>> vectors_to_grid(np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 1.0]]), clip=1.0, unit=1000)
        array([[299, 399],
               [149, 199],
               [  0,   0]])
    """
    grid = np.trunc(shortened(vectors, clip=clip) * (0.5 * unit * (1.0 - SHRINKAGE))).astype(np.int64)
    too_long = 4 * np.einsum("ij,ij->i", grid, grid) > unit * unit
    grid[too_long] = 0  # never, if floating point keeps its word
    return grid


def try_vectors_on_public_rows(
    function: RowFunction, table: Table, *, dimension: int, clip: float
) -> NDArray[np.float64]:
    """Check that a function returns one finite vector for each row, independent of other rows.

    Args:
        function: The function exactly as it is later applied to the sealed rows.
        table: Training rows, or `made_up_rows`.
        dimension: Length of the vectors.
        clip: Largest length of a vector. Longer vectors are scaled down to this length before they are compared.

    Returns:
        The clipped vectors in units of the clipping length.

    Raises:
        QueryRejected: If the values have another shape or are not finite. Nothing is charged.
    """

    def vectors(rows: Table) -> NDArray[np.float64]:
        array = np.asarray(called(function, rows, f"one vector of {dimension} numbers"))
        if array.shape != (rows_of(rows), dimension) or array.dtype.kind not in "biuf":
            raise QueryRejected(
                f"The values of the function have shape {array.shape} and type {array.dtype}. Return real numbers of "
                f"shape ({rows_of(rows)}, {dimension}), one vector for each row."
            )
        if not bool(np.all(np.isfinite(array))):
            raise QueryRejected(
                "The function returns NaN or infinite values for training or made-up "
                "rows. Fill in missing values, and keep exponentials in range."
            )
        return shortened(array.astype(np.float64), clip=clip)

    whole = vectors(table)
    check_rows_alone(vectors, table, whole)
    return whole
