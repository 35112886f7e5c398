"""Arrays as the open rows that diagnoses examine."""

import math

import numpy as np

from everhold.diagnosis.columns import ExaminedColumn, OpenRows

_KINDS_OF_ARRAYS = {"i": "whole", "u": "whole", "b": "number", "f": "number", "M": "time"}


def columns_of(table):
    """Return arrays as open rows, with kinds by NumPy type, where nan, NaT and None are missing."""
    columns = tuple(_column_of(str(name), np.asarray(values)) for name, values in table.items())
    if not columns:
        raise ValueError("The table has no column. Pass at least one.")
    return OpenRows(len(columns[0].ranks), columns)


def _column_of(name, values):
    kind = _KINDS_OF_ARRAYS.get(values.dtype.kind, "text")
    missing = _missing(values, kind)
    present = values[~missing]
    different, inverse = np.unique(present.astype(str) if kind == "text" else present, return_inverse=True)
    ranks = np.full(len(values), -1, dtype=np.int64)
    ranks[~missing] = inverse
    span = float(different[-1]) - float(different[0]) if kind == "whole" and len(different) else math.inf
    made = ExaminedColumn(name, kind, ranks, dict(enumerate(different.tolist())) if kind == "text" else {}, span)
    return made.in_time(list(map(str, different.tolist()))) if kind in ("text", "whole") else made


def _missing(values, kind):
    if kind == "text":
        return np.array([value is None for value in values.tolist()], dtype=bool)
    if kind == "time":
        return np.asarray(np.isnat(values))
    return np.asarray(np.isnan(values)) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
