"""Columns of rows as arrays that code may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["plain_columns"]


def plain_columns(columns: Mapping[str, Any], *, label: str | None) -> dict[str, NDArray[Any]]:
    """Columns as arrays, by name; the label keeps its own type."""
    return {name: _as_label(column) if name == label else _plain(column) for name, column in columns.items()}


def _plain(column: Any) -> NDArray[Any]:
    """A column as a plain, read-only array without a mask."""
    missing = np.ma.getmaskarray(column)
    plain: NDArray[Any] = np.array(np.ma.getdata(column))
    if plain.dtype.kind == "b":
        plain[missing] = False
    elif plain.dtype.kind in "iuf":
        plain = plain.astype(np.float64)
        plain[missing] = np.nan
    else:
        plain = plain.astype(object)
        plain[missing] = None
    plain.flags.writeable = False
    return plain


def _as_label(column: Any) -> NDArray[Any]:
    """The label as it is, text in fixed width: it compares in one pass."""
    label: NDArray[Any] = np.array(np.ma.getdata(column))
    label = label.astype(str) if label.dtype.kind == "O" else label
    label.flags.writeable = False
    return label
