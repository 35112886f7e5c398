"""What interval procedures are shown of row values: exact histograms, sums of groups and pairs, from arrays.

All of it is made of integers, so it is the same from every engine and for every order of summation. Adding up a
histogram passes every row once, in `_LANES` copies of the cells in turn, so that rows of one cell do not wait for each
other: its time says next to nothing about the values. Putting groups or pairs in order is a sort, which may be faster
for values that are alike or in order already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cells_of", "exact_sums", "group_sums_of", "pairs_of", "row_pairs_of"]

_LANES = 8
_MOST_UNIT = 2**54  # times 256 is less than 2^63
_MOST_KEYED = 2**31 - 2  # two of its numbers fit into 64 bits
_EXACT = 53  # bits of a whole number that a double holds


def cells_of(grid: NDArray[np.int64], *, unit: int) -> Cells:
    """The histogram of row values: value v lies in the cell ``v * 256 // unit``, 1 in the last one.

    Args:
        grid: Shape (rows,): row values in grid units, from 0 to ``unit``.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> cells = cells_of(np.array([0, 3, 4]), unit=4)
        >>> np.flatnonzero(cells.counts).tolist(), cells.sums[cells.counts > 0].tolist()
        ([0, 192, 255], [0, 3, 4])
    """
    if unit & (unit - 1) == 0 and unit >= CELLS:
        cell = grid >> (unit.bit_length() - CELLS.bit_length())
    elif unit <= _MOST_UNIT:
        cell = grid * CELLS // unit
    else:
        edges = np.array([-(-place * unit // CELLS) for place in range(1, CELLS)], dtype=np.int64)
        cell = np.searchsorted(edges, grid, side="right")
    places = np.minimum(cell, CELLS - 1) * _LANES
    for lane in range(_LANES):
        places[lane::_LANES] += lane
    size = CELLS * _LANES
    counts = np.bincount(places, minlength=size).reshape(CELLS, _LANES).sum(axis=1)
    sums = exact_sums(grid, places, size, unit=unit).reshape(CELLS, _LANES).sum(axis=1)
    return Cells(counts.astype(np.int64), sums, unit)


def exact_sums(values: NDArray[np.int64], places: NDArray[np.int64], size: int, *, unit: int) -> NDArray[np.int64]:
    """Sums of whole numbers from 0 to ``unit`` by place, shape (size,).

    Doubles add them up exactly below 2^53; larger ones are added up in two pieces.
    """
    rows = max(len(values), 1)
    if rows * unit < 2**_EXACT:
        return np.bincount(places, weights=values, minlength=size).astype(np.int64)
    bits = _EXACT - rows.bit_length()
    upper = np.bincount(places, weights=values >> bits, minlength=size).astype(np.int64)
    lower = np.bincount(places, weights=values & ((1 << bits) - 1), minlength=size).astype(np.int64)
    return np.asarray((upper << bits) + lower)


def group_sums_of(sizes: NDArray[np.int64], sums: NDArray[np.int64], *, unit: int) -> GroupSums:
    """Groups in the order of their sizes and then of their sums, equal ones counted.

    Args:
        sizes: Shape (groups,): rows of each group.
        sums: Shape (groups,): sum of its row values in grid units.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> group_sums_of(np.array([2, 1, 2]), np.array([4, 0, 4]), unit=4).counts.tolist()
        [1, 2]
    """
    (sizes, sums), counts = _counted(sizes, sums)
    return GroupSums(sizes, sums, counts, unit)


def row_pairs_of(numerators: NDArray[np.int64], denominators: NDArray[np.int64], *, unit: int) -> Pairs:
    """Rows as units, in the order of their denominators and numerators, equal ones counted; both of shape (rows,)."""
    if unit > _MOST_KEYED:
        return pairs_of(np.ones(len(numerators), dtype=np.int64), numerators, denominators, unit=unit)
    (keys,), counts = _counted(denominators * (unit + 1) + numerators)
    return Pairs(np.ones(len(keys), dtype=np.int64), keys % (unit + 1), keys // (unit + 1), counts, unit)


def pairs_of(
    sizes: NDArray[np.int64], numerators: NDArray[np.int64], denominators: NDArray[np.int64], *, unit: int
) -> Pairs:
    """Units in the order of their sizes, denominators and numerators, equal ones counted; all of shape (units,)."""
    (sizes, denominators, numerators), counts = _counted(sizes, denominators, numerators)
    return Pairs(sizes, numerators, denominators, counts, unit)


def _counted(*keys: NDArray[np.int64]) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Different tuples in order, the first key first, and how often each is there."""
    if len(keys) == 1:
        ordered = [np.sort(keys[0])]
    else:
        order = np.lexsort(keys[::-1])
        ordered = [key[order] for key in keys]
    first = np.zeros(len(ordered[0]), dtype=bool)
    first[:1] = True
    for key in ordered:
        first[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(first)))
    return [key[starts] for key in ordered], counts.astype(np.int64)
