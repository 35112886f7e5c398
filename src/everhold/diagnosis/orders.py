"""In which orders rows may follow each other: of the file, of times, of indices, and the one that is declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from everhold.dependence import DependenceModel
    from everhold.diagnosis.columns import Column, OpenRows

__all__ = ["FILE_ORDER", "Order", "is_order", "orders_of"]

FILE_ORDER = "(order of the file)"
_FEWEST_TIMES = 3
_SPARSE = 10.0  # an index that is not in order takes at most so many numbers for each row; an income takes more
_ORDERED = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Rows, one after the other.

    Attributes:
        column: The column that orders them, or `FILE_ORDER`.
        rows: Positions in the file in the order, without rows that have no place in it.
        in_file: Whether that is nearly the order of the file.
        missing: Rows without a place.
    """

    column: str
    rows: NDArray[np.int64]
    in_file: bool
    missing: int = 0


def orders_of(rows: OpenRows, *, label: str | None, declared: DependenceModel) -> Iterator[Order]:
    """All orders that could matter; that of the file only where no column says the same."""
    known = [column for name in declared.sorting_columns if (column := rows.column(name)) is not None]
    found = [_sorted(column.name, [column]) for column in rows.columns if column.name != label and is_order(column)]
    if known and (len(known) > 1 or known[-1].name not in {order.column for order in found}):
        found = [order for order in found if order.column != known[-1].name]
        found.append(_sorted(known[-1].name, known))
    if not any(len(order.rows) == rows.rows and bool(np.all(np.diff(order.rows) > 0)) for order in found):
        found.append(Order(FILE_ORDER, np.arange(rows.rows), in_file=True))
    yield from found


def _sorted(name: str, columns: list[Column]) -> Order:
    present = np.all([column.ranks >= 0 for column in columns], axis=0)
    order = np.lexsort([column.ranks for column in reversed(columns)])
    order = order[present[order]]
    in_file = len(order) > 1 and float(np.mean(np.diff(columns[-1].ranks[present]) >= 0)) >= _ORDERED
    return Order(name, order, in_file, missing=int(np.count_nonzero(~present)))


def is_order(column: Column) -> bool:
    """Times; whole numbers that increase from row to row, or that are a shuffled index: all different and dense."""
    different, present = int(column.ranks.max(initial=-1)) + 1, int(np.count_nonzero(column.ranks >= 0))
    if column.kind == "time":
        return different >= _FEWEST_TIMES
    if column.kind != "whole" or different < _FEWEST_TIMES or different < present:
        return False
    increases = present == len(column.ranks) and bool(np.all(np.diff(column.ranks) > 0))
    return increases or column.span <= _SPARSE * present
