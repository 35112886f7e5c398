"""Finds the rows on which code fails, in few calls of it.

One row at fault makes code fail on all rows that it is called with. So it is called with fewer rows, down to one, and
with more again where it succeeds. Whether a row fails is decided by a call with this row alone, never by what it has
in common with others. Only the order of the calls follows from the rows: rows that share a value with two failing
rows, and with none that succeeded, wait until the others are done. A category that no training row has is then met by
one call for each of its rows, and all others by a few calls.

Rows are compared in what the code is told of them, so that who is called together with whom tells a model no label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everhold.values.base import Table

__all__ = ["failing_rows_of"]

_FEWER = 4  # times as few rows are in a call after one that failed


def failing_rows_of(
    succeeds: Callable[[NDArray[np.int64]], bool], table: Table, rows: int, names: Sequence[str]
) -> NDArray[np.bool_]:
    """True for rows on which code fails alone.

    Args:
        succeeds: Calls the code with the rows at these positions, and keeps its values if there are any.
        table: The rows; known to fail together.
        rows: How many there are.
        names: Columns that the code reads.

    Returns:
        Shape (rows,).
    """
    fails = np.zeros(rows, dtype=bool)
    waiting, at_once = np.arange(rows), max(1, rows // 2)
    shared = _SharedValues(table, names, rows)
    while len(waiting):
        some = waiting[:at_once]
        if succeeded := succeeds(some):
            at_once = 2 * len(some)
        elif len(some) > 1:
            at_once = max(1, len(some) // _FEWER)
            continue
        else:
            fails[some] = True
        waiting = waiting[len(some) :]
        if shared.changed_by(some, succeeded=succeeded):
            late = shared.suspect(waiting)
            waiting = np.concatenate([waiting[~late], waiting[late]])
    return fails


class _SharedValues:
    """Values that several rows have, and how code fared on rows that have them."""

    def __init__(self, table: Table, names: Sequence[str], rows: int) -> None:
        columns, self._values = [np.zeros(rows, dtype=np.int32)], 1  # one value that is never suspect
        for name in names:
            numbers, distinct = _numbered(table[name])
            if 1 < distinct <= rows // 2:
                columns.append(numbers + np.int32(self._values))
                self._values += distinct
        self._of = np.column_stack(columns)
        self._failed, self._succeeded = np.zeros(self._values, dtype=np.int64), np.zeros(self._values, dtype=bool)
        self._succeeded[0] = True

    def changed_by(self, rows: NDArray[np.int64], *, succeeded: bool) -> bool:
        """Note what happened to some rows; True if other rows are suspect now."""
        found = np.unique(self._of[rows])
        before = self._suspected(found)
        if succeeded:
            self._succeeded[found] = True
        else:
            self._failed[found] += 1
        return not np.array_equal(before, self._suspected(found))

    def suspect(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """True for rows with a value that only failing rows have so far."""
        return np.asarray(self._suspected(self._of[rows]).any(axis=1))

    def _suspected(self, values: NDArray[np.int32]) -> NDArray[np.bool_]:
        return (self._failed[values] >= 2) & ~self._succeeded[values]


def _numbered(column: NDArray[Any]) -> tuple[NDArray[np.int32], int]:
    """The number of each value of a column, and how many there are; what is missing is one value."""
    if column.dtype.kind == "O":
        known: dict[str, int] = {}
        found = np.array([known.setdefault(repr(value), len(known)) for value in column.tolist()], dtype=np.int32)
        return found, len(known)
    values, numbers = np.unique(column, return_inverse=True)
    return numbers.astype(np.int32), len(values)
