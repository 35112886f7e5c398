"""Arrays as open rows, so that simulated training rows can be diagnosed without a file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.diagnosis.columns import ExaminedColumn, Kind, OpenRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

_KINDS_OF_ARRAYS: dict[str, Kind] = {"i": "whole", "u": "whole", "b": "number", "f": "number", "M": "time"}


def columns_of(table: Mapping[str, ArrayLike]) -> OpenRows:
    """Open rows from arrays; the kind is that of the NumPy type, nan, NaT and None are missing."""
    columns = tuple(_column_of(str(name), np.asarray(values)) for name, values in table.items())
    if not columns:
        raise ValueError("there is no column to look at; expected at least one")
    return OpenRows(len(columns[0].ranks), columns)


def _column_of(name: str, values: NDArray[Any]) -> ExaminedColumn:
    kind = _KINDS_OF_ARRAYS.get(values.dtype.kind, "text")
    missing = _missing(values, kind)
    present = values[~missing]
    different, inverse = np.unique(present.astype(str) if kind == "text" else present, return_inverse=True)
    ranks = np.full(len(values), -1, dtype=np.int64)
    ranks[~missing] = inverse
    span = float(different[-1]) - float(different[0]) if kind == "whole" and len(different) else math.inf
    made = ExaminedColumn(name, kind, ranks, dict(enumerate(different.tolist())) if kind == "text" else {}, span)
    return made.in_time(list(map(str, different.tolist()))) if kind in ("text", "whole") else made


def _missing(values: NDArray[Any], kind: Kind) -> NDArray[np.bool_]:
    if kind == "text":
        return np.array([value is None for value in values.tolist()], dtype=bool)
    if kind == "time":
        return np.asarray(np.isnat(values))
    return np.asarray(np.isnan(values)) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
