"""The grid on which row values are summed exactly, so that every engine gives the same number.

Row values are clipped to [0, 1] and rounded down to the grid ``0, 1, ..., UNIT`` (theory, section 6), so every engine
and every order of summation gives the same number, one row moves a sum by at most ``UNIT``, and rounding moves a mean
by at most ``1 / UNIT``. Vectors are clipped to a length and put on a grid on which two rows differ by an exact bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.errors import QueryRejected

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "LARGEST_VECTOR_UNIT", "SHRINKAGE", "UNIT", "clip_to_grid", "shortened", "to_grid",
    "vectors_to_grid",
]  # fmt: skip

UNIT = 2**30
"""Steps of the grid between the row values 0 and 1."""

LARGEST_VECTOR_UNIT = 2**30
"""Largest grid on which the squares of a vector are summed exactly in 64 bits."""

SHRINKAGE = 2.0**-38
"""Relative shortening of every vector; more than floating point can err in the length of 10,000 numbers."""


def to_grid(values: ArrayLike, *, unit: int = UNIT) -> NDArray[np.int64]:
    """Row values in [0, 1] as integers in ``[0, unit]``, rounded down; for public rows, where refusing tells nothing.

    Args:
        values: Shape (rows,), boolean or real; nan, inf and anything outside [0, 1] is refused.
        unit: Steps between 0 and 1.

    Raises:
        QueryRejected: If a value is not a number in [0, 1].

    Examples:
        >>> to_grid([0.0, 0.5, 1.0], unit=4)
        array([0, 2, 4])
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise QueryRejected(
            "the query's values are not real numbers; expected one number in [0, 1] per row; "
            "return a float or boolean array; nothing was charged"
        )
    real = array.astype(np.float64)
    if not bool(np.all((real >= 0.0) & (real <= 1.0))):  # also false for nan
        raise QueryRejected(
            "the query has values that are nan or outside [0, 1]; expected one number in [0, 1] per row; "
            "clip and rescale them; nothing was charged"
        )
    return clip_to_grid(real, unit=unit)


def clip_to_grid(
    values: NDArray[np.float64] | NDArray[np.bool_], *, unit: int = UNIT, fault: float = 0.0
) -> NDArray[np.int64]:
    """Like `to_grid`, for sealed rows: nothing is refused, because a refusal would be a free answer.

    nan counts as ``fault``, everything else is clipped to [0, 1].
    """
    clipped = np.clip(np.nan_to_num(values.astype(np.float64), nan=fault), 0.0, 1.0)
    return np.floor(clipped * unit).astype(np.int64)


def shortened(vectors: NDArray[np.float64], *, clip: float) -> NDArray[np.float64]:
    """Vectors, shape (rows, dimension), in units of the length ``clip`` to which they are cut; 0 if not finite."""
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
