"""Statistics of row values for interval procedures: exact histograms, sums of groups and pairs, from arrays.

All of it is made of integers, so it is the same from every engine and for every order of summation. A histogram is
summed in one pass over the rows. The pass uses `_LANES` copies of the bins in turn, so that consecutive rows of one bin
do not slow each other down, and the time says next to nothing about the values. Groups or pairs are sorted, which may
be faster for values that are equal or in order already.

There may be as many sums of groups, or pairs of a ratio, as there are groups or rows. From `MOST_KINDS` on they are
binned: units of one size whose sums lie in one cell of a coarse grid are replaced by a mixture of the cell's corners
with the same mean, which can only widen an interval (`everhold.guarantees.intervals.joint`, *Summaries*). A mean among
some rows is binned above `COUNTED_ACROSS` rows, because the time of its interval would tell how many rows count.
Only public facts decide whether units are binned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.base import BoundQuery

MOST_KINDS = 2**20
"""So many different groups, or pairs, are told apart: some 32 MB of whole numbers."""

COUNTED_ACROSS = 2**10
"""Bins of the numerators of a ratio whose denominators are 0 or 1, and the rows up to which they are not binned."""

_LANES = 8
_MOST_UNIT = 2**54  # times 256 is less than 2^63
_MOST_KEYED = 2**31 - 2  # two of its numbers fit into 64 bits
_EXACT = 53  # bits of a whole number that a double holds
_MOST_CELLS, _FEWEST_ACROSS = 2**22, 4  # of all sizes together; along an axis, even if there are very many sizes


def cells_of(grid: NDArray[np.int64], *, unit: int) -> Cells:
    """Return the histogram of row values in 256 bins.

    Value v lies in the bin ``v * 256 // unit``, and 1 in the last bin.

    Args:
        grid: Row values in grid units, from 0 to ``unit``, shape (rows,).
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
    return Cells(*_histogram(np.minimum(cell, CELLS - 1), grid, CELLS, unit), unit)


def _histogram(
    cells: NDArray[np.int64], values: NDArray[np.int64], number: int, unit: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many values each cell has, and their exact sum, both of shape (number,)."""
    places = cells * _LANES
    for lane in range(_LANES):
        places[lane::_LANES] += lane
    counts = np.bincount(places, minlength=number * _LANES).reshape(number, _LANES).sum(axis=1)
    sums = exact_sums(values, places, number * _LANES, unit=unit).reshape(number, _LANES).sum(axis=1)
    return counts.astype(np.int64), sums


def exact_sums(values: NDArray[np.int64], places: NDArray[np.int64], size: int, *, unit: int) -> NDArray[np.int64]:
    """Return exact sums of integers from 0 to ``unit`` by index, shape (size,).

    `places` holds, for each value, the index of the sum it belongs to.

    Doubles add them up exactly below 2^53; larger ones are added up in two pieces.
    """
    rows = max(len(values), 1)
    if rows * unit < 2**_EXACT:
        return np.bincount(places, weights=values, minlength=size).astype(np.int64)
    bits = _EXACT - rows.bit_length()
    upper = np.bincount(places, weights=values >> bits, minlength=size).astype(np.int64)
    lower = np.bincount(places, weights=values & ((1 << bits) - 1), minlength=size).astype(np.int64)
    return np.asarray((upper << bits) + lower)


def group_sums_of(
    sizes: NDArray[np.int64], sums: NDArray[np.int64], *, unit: int, across: int = 0
) -> GroupSums:  # fmt: skip
    """Return the sizes and sums of groups in order, with equal groups counted.

    Args:
        sizes: Number of rows of each group, shape (groups,).
        sums: Sum of the row values of each group in grid units, shape (groups,).
        unit: Grid steps between 0 and 1.
        across: Number of bins of each size, from `cells_across`; 0 to keep each sum.

    Examples:
        >>> group_sums_of(np.array([2, 1, 2]), np.array([4, 0, 4]), unit=4).counts.tolist()
        [1, 2]
    """
    if across:
        cells = _cells(sums, sizes, across, unit)
        order, starts, counts = _runs(sizes, cells)
        some, totals = order[starts], np.add.reduceat(sums[order], starts)
        return group_lotteries(sizes[some], cells[some], counts, totals, across=across, unit=unit)
    (sizes, sums), counts = _counted(sizes, sums)
    return GroupSums(sizes, sums, counts, unit)


def row_pairs_of(
    numerators: NDArray[np.int64], denominators: NDArray[np.int64], *, unit: int, across: int = 0
) -> Pairs:  # fmt: skip
    """Return rows as pairs in the order of denominator and numerator, with equal pairs counted.

    If ``across`` is `COUNTED_ACROSS`, every denominator has to be 0 or ``unit``.
    """
    if across == COUNTED_ACROSS:
        cells = np.where(denominators > 0, np.minimum(numerators // (unit // across), across - 1) + 1, 0)
        counts, sums = _histogram(cells, numerators, across + 1, unit)
        filled = np.flatnonzero(counts)
        places = np.maximum(filled - 1, 0), (filled > 0) * (across - 1)
        both = sums[filled], counts[filled] * (filled > 0) * unit
        return pair_lotteries(np.ones_like(filled), places, counts[filled], both, across=across, unit=unit)
    if unit > _MOST_KEYED or across:
        return pairs_of(np.ones(len(numerators), dtype=np.int64), numerators, denominators, unit=unit, across=across)
    (keys,), counts = _counted(denominators * (unit + 1) + numerators)
    return Pairs(np.ones(len(keys), dtype=np.int64), keys % (unit + 1), keys // (unit + 1), counts, unit)


def pairs_of(
    sizes: NDArray[np.int64], numerators: NDArray[np.int64], denominators: NDArray[np.int64], *,
    unit: int, across: int = 0,
) -> Pairs:  # fmt: skip
    """Return units as pairs in the order of size, denominator and numerator, with equal pairs counted."""
    if across:
        sums, step = (numerators, denominators), sizes * (unit // across)
        cells = _cells(numerators, sizes, across, unit), _cells(denominators, sizes, across, unit)
        steep = numerators - cells[0] * step > denominators - cells[1] * step
        order, starts, counts = _runs(sizes, *cells, steep.astype(np.int64))
        some = order[starts]
        return pair_lotteries(
            sizes[some], (cells[0][some], cells[1][some]), counts,
            (np.add.reduceat(sums[0][order], starts), np.add.reduceat(sums[1][order], starts)),
            across=across, unit=unit,
        )  # fmt: skip
    (sizes, denominators, numerators), counts = _counted(sizes, denominators, numerators)
    return Pairs(sizes, numerators, denominators, counts, unit)


def cells_across(sizes: NDArray[np.int64], counts: NDArray[np.int64], *, axes: int, unit: int, yes_no: bool) -> int:
    """Return the number of bins along each axis of a histogram of unit sums, or 0 if units are not binned.

    It depends only on public facts: the sizes of the units, how many units have each size, and whether row values are 0
    or 1 by type.

    Args:
        sizes: Different numbers of rows of a unit, each once, shape (sizes,).
        counts: Number of units of each size, shape (sizes,).
        axes: 1 for sums, 2 for pairs of them.
        unit: Grid steps between 0 and 1.
        yes_no: Whether every row value is 0 or 1 by type.

    Examples:
        >>> rows, many = np.array([1]), np.array([100_000_000])
        >>> [cells_across(rows, many, axes=2, unit=2**30, yes_no=yes_no) for yes_no in (True, False)]
        [0, 256]
    """
    kinds = np.minimum((sizes + 1.0) ** axes, counts) if yes_no else counts
    if float(np.sum(kinds, dtype=np.float64)) <= MOST_KINDS or unit % CELLS:
        return 0
    fitting = int((_MOST_CELLS / len(sizes)) ** (1.0 / axes))
    return min(CELLS, max(_FEWEST_ACROSS, 1 << (fitting.bit_length() - 1)))


def group_lotteries(
    sizes: NDArray[np.int64], cells: NDArray[np.int64], counts: NDArray[np.int64], sums: NDArray[np.int64], *,
    across: int, unit: int,
) -> GroupSums:  # fmt: skip
    """Replace binned sums of groups by mixtures of the two ends of each bin, with the same total.

    Args:
        sizes: Number of rows of each group in a bin.
        cells: Number of the bin, among equally wide bins from 0 to ``size * unit``. The last bin includes its upper
            end.
        counts: Number of groups in the bin.
        sums: Total of the sums of these groups.
        across: Number of bins for each size, a divisor of ``unit``.
        unit: Grid steps between 0 and 1.

    Examples:
        >>> one_cell = [np.array([number]) for number in (2, 1, 10, 60)]
        >>> found = group_lotteries(*one_cell, across=4, unit=8)
        >>> found.sums.tolist(), found.counts.tolist()
        ([4, 8], [5.0, 5.0])
    """
    step = sizes * (unit // across)
    up = np.clip((sums - counts * cells * step) / step, 0.0, counts)
    (sizes, sums), weights = _weighed(
        [np.tile(sizes, 2), np.concatenate([cells * step, (cells + 1) * step])], np.concatenate([counts - up, up])
    )
    return GroupSums(sizes, sums, weights, unit)


def pair_lotteries(
    sizes: NDArray[np.int64], cells: tuple[NDArray[np.int64], NDArray[np.int64]], counts: NDArray[np.int64],
    sums: tuple[NDArray[np.int64], NDArray[np.int64]], *, across: int, unit: int,
) -> Pairs:  # fmt: skip
    """Replace binned pairs of sums by mixtures of the corners of half bins, with the same totals.

    Each square bin is cut along its diagonal. So no corner has a numerator above its denominator if no unit has, and
    the means determine the mixture. All arrays are of shape (halves,).

    Args:
        sizes: Number of rows of each unit.
        cells: Numbers of the bins of the numerators and of the denominators, as for `group_lotteries`.
        counts: Number of units in the half. In one half of a bin the numerator lies further above its bin's lower end
            than the denominator, in the other half it does not.
        sums: Totals of the numerators and of the denominators of these units.
        across: Number of bins along either axis, a divisor of ``unit``.
        unit: Grid steps between 0 and 1.
    """
    step = sizes * (unit // across)
    beyond = [total - counts * cell * step for total, cell in zip(sums, cells, strict=True)]
    steep = beyond[0] > beyond[1]
    inside = [np.clip(total / step, 0.0, counts) for total in beyond]
    least, most = np.minimum(*inside), np.maximum(*inside)
    numerators = np.concatenate([cells[0], cells[0] + steep, cells[0] + 1]) * np.tile(step, 3)
    denominators = np.concatenate([cells[1], cells[1] + ~steep, cells[1] + 1]) * np.tile(step, 3)
    keys = [np.tile(sizes, 3), denominators, numerators]
    (sizes, denominators, numerators), weights = _weighed(keys, np.concatenate([counts - most, most - least, least]))
    return Pairs(sizes, numerators, denominators, weights, unit)


def apart_of(query: BoundQuery, grid: NDArray[np.int64]) -> tuple[int, Cells]:
    """Return the total of a difference of two public arrays, and the histogram of rows where the arrays differ."""
    if query.pair is None or query.pair.apart is None:
        raise ValueError(f"{query.shown!r} is not a difference of two arrays. Pass a comparison of two arrays.")
    apart = query.pair.apart
    return int(grid.sum()), cells_of(apart.shares(grid), unit=2 * apart.reach)


def named(group_by: str | None) -> str:
    """Return the group column that an interval procedure needs.

    Raises:
        ValueError: If no group column is declared.
    """
    if group_by is None:
        raise ValueError("The interval procedure needs groups, and no group column is declared. Declare eh.Groups.")
    return group_by


def parts_of_ratio(query: BoundQuery) -> tuple[BoundQuery, ...]:
    """Return the numerator and denominator of a ratio query, empty for another query."""
    return (query.pair.first, query.pair.second) if query.pair is not None and query.pair.how == "ratio" else ()


def _cells(sums: NDArray[np.int64], sizes: NDArray[np.int64], across: int, unit: int) -> NDArray[np.int64]:
    """Return the bin of each unit's sum, of equally wide bins from 0 to the unit's size."""
    return np.asarray(np.minimum(sums // (sizes * (unit // across)), across - 1))


def _runs(*keys: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]:
    """Return the sort order of tuples, where each run of equal tuples begins in it, and the lengths of the runs."""
    order = np.lexsort(keys[::-1])
    starts = _starts([key[order] for key in keys])
    return order, starts, np.diff(np.append(starts, len(order))).astype(np.int64)


def _weighed(
    keys: list[NDArray[np.int64]], weights: NDArray[np.float64]
) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
    """Return the different tuples in order, and the total weight of each. Tuples with the total 0 are left out."""
    filled = weights > 0.0
    keys, weights = [key[filled] for key in keys], weights[filled]
    order = np.lexsort(keys[::-1])
    keys = [key[order] for key in keys]
    starts = _starts(keys)
    return [key[starts] for key in keys], np.add.reduceat(weights[order], starts) if len(starts) else weights


def _counted(*keys: NDArray[np.int64]) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the different tuples, sorted by the first key first, and how often each occurs."""
    if len(keys) == 1:
        ordered = np.sort(keys[0])
        starts = _starts([ordered])
        return [ordered[starts]], np.diff(np.append(starts, len(ordered))).astype(np.int64)
    order, starts, counts = _runs(*keys)
    return [key[order[starts]] for key in keys], counts


def _starts(ordered: list[NDArray[np.int64]]) -> NDArray[np.intp]:
    """Return the positions in sorted tuples at which a new tuple begins."""
    first = np.zeros(len(ordered[0]), dtype=bool)
    first[:1] = True
    for key in ordered:
        first[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(first)
