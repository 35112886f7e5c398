"""Counts that an engine computes over many rows: the same histograms, groups and pairs as from row values.

Only counts leave the engine. How many there are at most follows from public facts: 256 cells for each query; of
groups and pairs as many as `everhold.sealing.rows.sums` tells apart, or the cells of a coarse grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.guarantees.intervals.base import CELLS, Cells, GroupSums, Pairs
from everhold.sealing.rows.sums import group_lotteries, pair_lotteries
from everhold_engines.sql.coarse import group_cells_sql, pair_cells_sql
from everhold_engines.sql.compiler import cells_sql, group_kinds_sql, pair_kinds_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.values.expressions.tree import AnyValue
    from everhold_engines.sql.dialects import Dialect

    Fetch = Callable[[str], dict[str, NDArray[Any]]]
    """From a statement to what the engine says, as arrays."""


@dataclass(frozen=True, slots=True)
class EngineCounts:
    """Rows that an engine counts.

    Attributes:
        source: What stands after FROM.
        unit: Grid steps between 0 and 1.
        dialect: The engine's.
    """

    fetch: Fetch
    source: str
    unit: int
    dialect: Dialect

    def cells(self, values: Sequence[AnyValue]) -> list[tuple[int, Cells]]:
        """The total of each row value and its histogram, as `everhold.sealing.rows.sums.cells_of` makes it."""
        found = self._whole(cells_sql(values, self.source, unit=self.unit, dialect=self.dialect))
        counts, sums = np.zeros((2, len(values), CELLS), dtype=np.int64)
        where = found["place"], found["cell"]
        counts[where], sums[where] = found["count"], found["sum"]
        return [(int(own.sum()), Cells(count, own, self.unit)) for count, own in zip(counts, sums, strict=True)]

    def groups(self, values: Sequence[AnyValue], *, group_by: str, across: int) -> list[tuple[int, GroupSums]]:
        """The total of each row value and its groups, as `everhold.sealing.rows.sums.group_sums_of` makes them.

        Args:
            values: What to compute.
            group_by: Column whose equal values make a group.
            across: Cells in which groups are counted, from `everhold.sealing.rows.sums.cells_across`.
        """
        how: Any = {"group_by": group_by, "unit": self.unit, "dialect": self.dialect}
        if across:
            sql = group_cells_sql(values, self.source, across=across, **how)
            found = _ordered(self._whole(sql), "place", "size", "cell")
        else:
            found = _ordered(self._whole(group_kinds_sql(values, self.source, **how)), "place", "size", "sum")
        return [self._groups(_of_place(found, place), across) for place in range(len(values))]

    def _groups(self, found: dict[str, NDArray[np.int64]], across: int) -> tuple[int, GroupSums]:
        sizes, sums, counts = found["size"], found["sum"], found["count"]
        if across:
            lotteries = group_lotteries(sizes, found["cell"], counts, sums, across=across, unit=self.unit)
            return int(sums.sum()), lotteries
        return int((sums * counts).sum()), GroupSums(sizes, sums, counts, self.unit)

    def pairs(
        self, numerator: AnyValue, denominator: AnyValue, *, group_by: str | None, across: int
    ) -> tuple[int, int, Pairs]:
        """The totals of numerator and denominator, and their pairs, as `sums.pairs_of` makes them.

        Args:
            numerator: Of it counts what is within the denominator.
            denominator: The other row value.
            group_by: Column whose equal values make a group; None for rows.
            across: Cells along either axis, from `everhold.sealing.rows.sums.cells_across`.
        """
        how: Any = {"group_by": group_by, "unit": self.unit, "dialect": self.dialect}
        if not across:
            sql = pair_kinds_sql(numerator, denominator, self.source, **how)
            found = _ordered(self._whole(sql), "size", "denominator", "numerator")
            sums, counts = (found["numerator"], found["denominator"]), found["count"]
            part, whole = (int((own * counts).sum()) for own in sums)
            return part, whole, Pairs(found["size"], *sums, counts, self.unit)
        sql = pair_cells_sql([numerator, denominator], self.source, across=across, **how)
        found = _ordered(self._whole(sql), "size", "c0", "c1", "steep")
        sums, cells = (found["numerator"], found["denominator"]), (found["c0"], found["c1"])
        pairs = pair_lotteries(found["size"], cells, found["count"], sums, across=across, unit=self.unit)
        return int(sums[0].sum()), int(sums[1].sum()), pairs

    def _whole(self, sql: str) -> dict[str, NDArray[np.int64]]:
        """The result of a statement, whole numbers of any type as int64; they are below 2^57."""
        return {name: np.ma.getdata(column).astype(np.int64) for name, column in self.fetch(sql).items()}


def _ordered(found: dict[str, NDArray[np.int64]], *names: str) -> dict[str, NDArray[np.int64]]:
    """The same in the order of some columns, the first one first: engines have none."""
    order = np.lexsort([found[name] for name in reversed(names)])
    return {name: column[order] for name, column in found.items()}


def _of_place(found: dict[str, NDArray[np.int64]], place: int) -> dict[str, NDArray[np.int64]]:
    begin, end = np.searchsorted(found["place"], [place, place + 1])
    return {name: column[begin:end] for name, column in found.items()}
