"""Cells of synthetic tables, which are `everhold.values.universe`."""

from everhold.values.universe import (
    MOST_CELLS,
    MOST_ROWS,
    OTHER,
    BinnedColumn,
    Column,
    ListedColumn,
    QueryFamily,
    QueryMatrix,
    Universe,
    checked_histogram,
)

__all__ = [
    "MOST_CELLS", "MOST_ROWS", "OTHER", "BinnedColumn", "Column", "ListedColumn", "QueryFamily", "QueryMatrix",
    "Universe", "checked_histogram",
]  # fmt: skip
