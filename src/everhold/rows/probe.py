"""Trying a Python function on public rows before it meets sealed ones, where faults must go unreported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.base import same_length
from everhold.queries.evaluation import to_grid
from everhold.queries.expressions import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from everhold.queries.base import RowFunction, Table

__all__ = ["made_up_rows", "public_values", "try_on_public_rows"]


def made_up_rows(columns: Mapping[str, ColumnKind]) -> Table:
    """Two rows of the right types: one of zeros, one of ones."""
    made_up: dict[ColumnKind, NDArray[Any]] = {
        ColumnKind.NUMBER: np.array([0.0, 1.0]),
        ColumnKind.BOOLEAN: np.array([False, True]),
        ColumnKind.STRING: np.array(["0", "1"], dtype=object),
        ColumnKind.OTHER: np.array([None, None], dtype=object),
    }
    for column in made_up.values():
        column.flags.writeable = False  # as the stored columns are
    return {name: made_up[kind] for name, kind in columns.items()}


def try_on_public_rows(function: RowFunction, table: Table) -> None:
    """Check that a function gives one number in [0, 1] per row, each from its own row alone.

    Args:
        function: As it will be applied to the sealed rows.
        table: Training rows, or `made_up_rows`.

    Raises:
        QueryRejected: If it does not. Nothing is charged.
    """
    rows = len(next(iter(table.values())))
    whole = _values(function, table, slice(None))
    middle = (rows + 1) // 2
    some = [slice(None, None, -1), slice(None, middle), slice(middle, None)][: 2 + (middle < rows)]
    if not all(np.allclose(whole[part], _values(function, table, part), rtol=0, atol=1e-9) for part in some):
        raise QueryRejected(
            "the function's value for a row changes with the other rows; expected a value computed from the row alone, "
            "because only averages of such values are promised anything; nothing was charged"
        )


def _values(function: RowFunction, table: Table, part: slice) -> NDArray[np.float64]:
    rows = {name: column[part] for name, column in table.items()}
    array = public_values(function, rows, len(next(iter(rows.values()))))
    to_grid(array)
    return array.astype(np.float64)


def public_values(function: RowFunction, table: Table, rows: int) -> NDArray[Any]:
    """Row values of public rows, where every fault is reported.

    Raises:
        QueryRejected: If the function fails or gives another number of values. Nothing is charged.
    """
    try:
        values = function(table)
    except QueryRejected:
        raise
    except Exception as fault:
        raise QueryRejected(
            f"the function fails on public rows with {type(fault).__name__}: {fault}; expected one number in [0, 1] "
            f"per row of a table with the columns {', '.join(table)}; nothing was charged"
        ) from fault
    return same_length(values, rows, what="the function's values")


def try_estimator(function: RowFunction, table: Table) -> None:
    """Check that an estimator was fitted and predicts the kind of the labels, where there are no training rows.

    Made-up rows may hold values that it has never seen; that it fails on them for other reasons proves nothing.

    Raises:
        QueryRejected: If it does not. Nothing is charged.
    """
    try:
        function(table)
    except QueryRejected:
        raise
    except Exception as fault:
        if type(fault).__name__ == "NotFittedError":
            raise QueryRejected("the estimator is not fitted; fit it before asking; nothing was charged") from None
