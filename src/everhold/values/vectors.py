"""One vector per row, clipped to a length, on an integer grid on which two rows differ by an exact bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LARGEST_VECTOR_UNIT", "SHRINKAGE", "shortened", "vectors_to_grid"]

LARGEST_VECTOR_UNIT = 2**30
"""Largest grid on which the squares of a vector are summed exactly in 64 bits."""

SHRINKAGE = 2.0**-38
"""Relative shortening of every vector; more than floating point can err in the length of 10,000 numbers."""


def shortened(vectors: NDArray[np.float64], *, clip: float) -> NDArray[np.float64]:
    """Vectors in units of the clipping length, longer ones cut to length 1; one that is not finite counts as zero.

    Args:
        vectors: Shape (rows, dimension).
        clip: The clipping length, positive.
    """
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)  # also false for nan
    reach = np.maximum(np.where(finite, largest, 1.0), clip)[:, None]  # so that no square overflows
    scaled = np.where(finite[:, None], vectors, 0.0) / reach
    lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return np.asarray(scaled / np.maximum(lengths, clip / reach))


def vectors_to_grid(vectors: NDArray[np.float64], *, clip: float, unit: int) -> NDArray[np.int64]:
    """Clipped vectors as integers whose Euclidean length is at most ``unit / 2``, exactly.

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
