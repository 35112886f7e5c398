"""Cells of synthetic tables, which are `everhold.values.universe`."""

from everhold.values.query_family import MOST_ROWS, QueryFamily, QueryMatrix, checked_histogram
from everhold.values.universe import MOST_CELLS, OTHER, BinnedColumn, Column, ListedColumn, Universe

__all__ = [
    "MOST_CELLS", "MOST_ROWS", "OTHER", "BinnedColumn", "Column", "ListedColumn", "QueryFamily", "QueryMatrix",
    "Universe", "checked_histogram",
]  # fmt: skip
