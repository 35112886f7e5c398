"""Trying a Python function on public rows before it meets sealed ones, where faults must go unreported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import QueryRejected
from everhold.queries.base import same_length
from everhold.queries.evaluation import to_grid
from everhold.queries.expressions import ColumnKind
from everhold.queries.vectors import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from everhold.queries.base import RowFunction, Table

__all__ = ["made_up_rows", "public_values", "try_on_public_rows", "try_vectors_on_public_rows"]


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

    def values(rows: Table) -> NDArray[np.float64]:
        array = public_values(function, rows, _rows_of(rows))
        to_grid(array)
        return array.astype(np.float64)

    _check_rows_alone(values, table)


def try_vectors_on_public_rows(function: RowFunction, table: Table, *, dimension: int, clip: float) -> None:
    """Check that a function gives one finite vector per row, each from its own row alone.

    Args:
        function: As it will be applied to the sealed rows.
        table: Training rows, or `made_up_rows`.
        dimension: Length of the vectors.
        clip: Longer vectors count as vectors of this length; they are compared after that.

    Raises:
        QueryRejected: If it does not. Nothing is charged.
    """

    def vectors(rows: Table) -> NDArray[np.float64]:
        array = np.asarray(_called(function, rows, f"one vector of {dimension} numbers"))
        if array.shape != (_rows_of(rows), dimension) or array.dtype.kind not in "biuf":
            raise QueryRejected(
                f"the function's values have the shape {array.shape} and the type {array.dtype}; expected "
                f"({_rows_of(rows)}, {dimension}) real numbers, one vector per row; nothing was charged"
            )
        if not bool(np.all(np.isfinite(array))):
            raise QueryRejected(
                "the function has values that are nan or infinite on public rows; expected finite numbers; fill in "
                "missing values and keep exponentials in range; nothing was charged"
            )
        return shortened(array.astype(np.float64), clip=clip)

    _check_rows_alone(vectors, table)


def _check_rows_alone(values: Callable[[Table], NDArray[np.float64]], table: Table) -> None:
    rows = _rows_of(table)
    whole = values(table)
    middle = (rows + 1) // 2
    some = [slice(None, None, -1), slice(None, middle), slice(middle, None)][: 2 + (middle < rows)]
    for part in some:
        again = values({name: column[part] for name, column in table.items()})
        if not np.allclose(whole[part], again, rtol=0, atol=1e-9):
            raise QueryRejected(
                "the function's value for a row changes with the other rows; expected a value computed from the row "
                "alone, because only averages of such values are promised anything; nothing was charged"
            )


def _rows_of(table: Table) -> int:
    return len(next(iter(table.values())))


def public_values(function: RowFunction, table: Table, rows: int) -> NDArray[Any]:
    """Row values of public rows, where every fault is reported.

    Raises:
        QueryRejected: If the function fails or gives another number of values. Nothing is charged.
    """
    return same_length(_called(function, table, "one number in [0, 1]"), rows, what="the function's values")


def _called(function: RowFunction, table: Table, expected: str) -> object:
    try:
        return function(dict(table))
    except QueryRejected:
        raise
    except Exception as fault:
        raise QueryRejected(
            f"the function fails on public rows with {type(fault).__name__}: {fault}; expected {expected} "
            f"per row of a table with the columns {', '.join(table)}; nothing was charged"
        ) from fault


def try_estimator(function: RowFunction, table: Table) -> None:
    """Check that an estimator was fitted and predicts the kind of the labels, where there are no training rows.

    Made-up rows may hold values that it has never seen; that it fails on them for other reasons proves nothing.

    Raises:
        QueryRejected: If it does not. Nothing is charged.
    """
    try:
        function(dict(table))
    except QueryRejected:
        raise
    except Exception as fault:
        if type(fault).__name__ == "NotFittedError":
            raise QueryRejected("the estimator is not fitted; fit it before asking; nothing was charged") from None
