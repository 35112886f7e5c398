"""Sums and histograms of expressions over the rows of an embedded file, evaluated by NumPy block by block.

`everhold.values.expressions.arrays` says what the time of the row values depends on. Adding up takes the same time
whatever they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.guarantees.intervals.base import Cells
from everhold.sealing.rows.sums import cells_of, exact_sums
from everhold.values.expressions.arrays import BLOCK, ArrayProgram
from everhold.values.expressions.tree import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from everhold.sealing.rows.columns import ColumnStore
    from everhold.values.expressions import ColumnKind, RowValue

__all__ = ["EmbeddedRows"]


class EmbeddedRows:
    """Rows whose columns are beside everhold.

    Args:
        store: Their columns.
        rows: Number of rows.
    """

    def __init__(self, store: ColumnStore, rows: int) -> None:
        self._store, self._rows = store, rows

    def close(self) -> None:
        """Let go of the columns."""
        self._store.close()

    def totals(self, values: Sequence[RowValue], *, unit: int) -> NDArray[np.int64]:
        """Exact sums over all rows, shape (values,)."""
        totals = np.zeros(len(values), dtype=np.int64)
        for _, _, arrays in self._blocks(values, unit):
            for place, found in enumerate(arrays):
                totals[place] += np.count_nonzero(found) * unit if found.dtype == np.bool_ else found.sum()
        return totals

    def sums(
        self, values: Sequence[RowValue], part_of: Callable[[int, int], NDArray[np.int64]], parts: int, *, unit: int
    ) -> NDArray[np.int64]:
        """Exact sums over disjoint parts of the rows, shape (values, parts).

        Args:
            values: What to add up.
            part_of: The part of each row from a position to before another one.
            parts: Number of parts.
            unit: Grid steps between 0 and 1.
        """
        sums = np.zeros((len(values), parts), dtype=np.int64)
        for start, stop, arrays in self._blocks(values, unit):
            part = part_of(start, stop)
            for place, found in enumerate(arrays):
                if found.dtype == np.bool_:
                    sums[place] += exact_sums(found.astype(np.int64), part, parts, unit=1) * unit
                else:
                    sums[place] += exact_sums(found, part, parts, unit=unit)
        return sums

    def cells(self, values: Sequence[RowValue], *, unit: int) -> list[Cells]:
        """The histogram of each row value."""
        found: list[Cells | None] = [None] * len(values)
        for _, _, arrays in self._blocks(values, unit):
            for place, array in enumerate(arrays):
                more, before = cells_of(_on_grid(array, unit), unit=unit), found[place]
                if before is not None:
                    more = Cells(before.counts + more.counts, before.sums + more.sums, unit)
                found[place] = more
        none = np.zeros(0, dtype=np.int64)
        return [cells_of(none, unit=unit) if cells is None else cells for cells in found]

    def grids(self, values: Sequence[RowValue], *, unit: int) -> list[NDArray[np.int64]]:
        """The row values in grid units, in the order of the file, each of shape (rows,)."""
        grids = [np.empty(self._rows, dtype=np.int64) for _ in values]
        for start, stop, arrays in self._blocks(values, unit):
            for grid, found in zip(grids, arrays, strict=True):
                grid[start:stop] = _on_grid(found, unit)
        return grids

    def _blocks(self, values: Sequence[RowValue], unit: int) -> Iterator[tuple[int, int, list[NDArray[Any]]]]:
        """Positions and row values of some rows at a time."""
        program: ArrayProgram | None = None
        words: dict[str, Any] = {}
        for span in self._store.spans(_columns(values)):
            own = {name: column.words for name, column in span.columns.items() if column.words}
            if program is None or any(own[name] is not words.get(name) for name in own) or own.keys() != words.keys():
                program, words = ArrayProgram(values, own, unit=unit), own
            for start in range(span.start, span.stop, BLOCK):
                stop = min(start + BLOCK, span.stop)
                some = slice(start - span.start, stop - span.start)
                columns = {name: column.values[some] for name, column in span.columns.items()}
                yield start, stop, program.run(columns, stop - start)


def _columns(values: Sequence[RowValue]) -> dict[str, ColumnKind]:
    return {
        str(node.value): node.kind
        for value in values
        for node in value.expression.nodes
        if node.operation is Operation.COLUMN
    }


def _on_grid(found: NDArray[Any], unit: int) -> NDArray[np.int64]:
    return found.astype(np.int64) * unit if found.dtype == np.bool_ else found
