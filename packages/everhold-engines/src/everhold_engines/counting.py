"""Counts that an engine computes over many rows: the same histograms, groups and pairs as from row values.

Only counts leave the engine. How many there are at most follows from public facts: 256 cells for each question; of
groups and pairs as many as `everhold.sealing.sums` tells apart, or the cells of a coarse grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Pairs
from everhold.sealing.sums import group_lotteries, pair_lotteries
from everhold_engines.sql.coarse import group_cells_sql, pair_cells_sql
from everhold_engines.sql.compiler import cells_sql, group_kinds_sql, pair_kinds_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.values.expressions.tree import AnyValue
    from everhold_engines.sql.dialects import Dialect

    Fetch = Callable[[str], dict[str, NDArray[Any]]]
    """From a statement to what the engine says, as arrays."""

__all__ = ["counted_cells", "counted_groups", "counted_pairs"]


def counted_cells(
    fetch: Fetch, values: Sequence[AnyValue], source: str, *, unit: int, dialect: Dialect
) -> list[tuple[int, Cells]]:
    """The total of each row value and its histogram, as `everhold.sealing.sums.cells_of` makes it."""
    found = _whole(fetch(cells_sql(values, source, unit=unit, dialect=dialect)))
    counts, sums = np.zeros((2, len(values), CELLS), dtype=np.int64)
    where = found["place"], found["cell"]
    counts[where], sums[where] = found["count"], found["sum"]
    return [(int(own.sum()), Cells(count, own, unit)) for count, own in zip(counts, sums, strict=True)]


def counted_groups(
    fetch: Fetch, values: Sequence[AnyValue], source: str, *, group_by: str, across: int, unit: int, dialect: Dialect
) -> list[tuple[int, GroupSums]]:
    """The total of each row value and its groups, as `everhold.sealing.sums.group_sums_of` makes them.

    Args:
        fetch: Runs a statement.
        values: What to compute.
        source: What stands after FROM.
        group_by: Column whose equal values make a group.
        across: Cells in which groups are counted, from `everhold.sealing.sums.cells_across`.
        unit: Grid steps between 0 and 1.
        dialect: The engine's.
    """
    if across:
        sql = group_cells_sql(values, source, group_by=group_by, across=across, unit=unit, dialect=dialect)
        found = _ordered(_whole(fetch(sql)), "place", "size", "cell")
    else:
        sql = group_kinds_sql(values, source, group_by=group_by, unit=unit, dialect=dialect)
        found = _ordered(_whole(fetch(sql)), "place", "size", "sum")
    return [_groups(_of_place(found, place), across, unit) for place in range(len(values))]


def _groups(found: dict[str, NDArray[np.int64]], across: int, unit: int) -> tuple[int, GroupSums]:
    sizes, sums, counts = found["size"], found["sum"], found["count"]
    if across:
        return int(sums.sum()), group_lotteries(sizes, found["cell"], counts, sums, across=across, unit=unit)
    return int((sums * counts).sum()), GroupSums(sizes, sums, counts, unit)


def counted_pairs(
    fetch: Fetch, numerator: AnyValue, denominator: AnyValue, source: str, *,
    group_by: str | None, across: int, unit: int, dialect: Dialect,
) -> tuple[int, int, Pairs]:  # fmt: skip
    """The totals of numerator and denominator, and their pairs, as `everhold.sealing.sums.pairs_of` makes them.

    Args:
        fetch: Runs a statement.
        numerator: Of it counts what is within the denominator.
        denominator: The other row value.
        source: What stands after FROM.
        group_by: Column whose equal values make a group; None for rows.
        across: Cells along either axis, from `everhold.sealing.sums.cells_across`.
        unit: Grid steps between 0 and 1.
        dialect: The engine's.
    """
    both = numerator, denominator
    if not across:
        sql = pair_kinds_sql(*both, source, group_by=group_by, unit=unit, dialect=dialect)
        found = _ordered(_whole(fetch(sql)), "size", "denominator", "numerator")
        sums, counts = (found["numerator"], found["denominator"]), found["count"]
        part, whole = (int((own * counts).sum()) for own in sums)
        return part, whole, Pairs(found["size"], *sums, counts, unit)
    sql = pair_cells_sql(*both, source, group_by=group_by, across=across, unit=unit, dialect=dialect)
    found = _ordered(_whole(fetch(sql)), "size", "c0", "c1", "steep")
    sums, cells = (found["numerator"], found["denominator"]), (found["c0"], found["c1"])
    pairs = pair_lotteries(
        found["size"], cells, found["steep"] > 0, found["count"], sums, across=across, unit=unit
    )  # fmt: skip
    return int(sums[0].sum()), int(sums[1].sum()), pairs


def _whole(found: dict[str, NDArray[Any]]) -> dict[str, NDArray[np.int64]]:
    """Whole numbers of whatever type as int64; they are below 2^57."""
    return {name: np.ma.getdata(column).astype(np.int64) for name, column in found.items()}


def _ordered(found: dict[str, NDArray[np.int64]], *names: str) -> dict[str, NDArray[np.int64]]:
    """The same in the order of some columns, the first one first: engines have none."""
    order = np.lexsort([found[name] for name in reversed(names)])
    return {name: column[order] for name, column in found.items()}


def _of_place(found: dict[str, NDArray[np.int64]], place: int) -> dict[str, NDArray[np.int64]]:
    begin, end = np.searchsorted(found["place"], [place, place + 1])
    return {name: column[begin:end] for name, column in found.items()}
