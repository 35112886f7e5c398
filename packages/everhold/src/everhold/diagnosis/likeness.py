"""Likeness of rows inside declared groups: one correlation, from the training rows, for what answers are expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everhold.dependence import DependenceModel
from everhold.diagnosis.columns import OpenFile, outcomes_of
from everhold.diagnosis.resemblance import within_groups

if TYPE_CHECKING:
    from pathlib import Path

    from everhold.diagnosis.columns import OpenRows

UNKNOWN = 1.0
"""Rows of one group are taken to be all alike where training rows do not show otherwise: the widest expectation."""

_MOST_ROWS = 100_000


def declared_likeness(path: Path, declared: DependenceModel | None, *, label: str | None) -> float | None:
    """`likeness` inside declared groups; None where sums of groups are not bet on, for want of a column or of rows."""
    groups = None if declared is None else declared.unit_column
    return likeness(path, groups=groups, label=label) if groups is not None and path.exists() else None


def likeness(path: Path, *, groups: str, label: str | None) -> float:
    """Correlation of two rows of one group in the label, on training rows, plus its standard error; in [0, 1].

    Args:
        path: A Parquet file of training rows; no other file is read.
        groups: Column whose equal values make a group.
        label: The label; without one nothing is known.

    Returns:
        The largest over the classes of the label; `UNKNOWN` where the rows do not show it.

    Raises:
        EverholdError: If the file cannot be read.
    """
    if label is None or label == groups:
        return UNKNOWN
    with OpenFile(path, label=label, also=(groups,)) as file:
        if not {groups, label} <= file.kinds.keys():
            return UNKNOWN
        return likeness_of_rows(file.whole_groups(groups, (label,), _MOST_ROWS), groups=groups, label=label)


def likeness_of_rows(rows: OpenRows, *, groups: str, label: str) -> float:
    """The same for rows that were read."""
    column = rows.column(groups)
    if column is None:
        return UNKNOWN
    found = []
    for outcome in outcomes_of(rows, label=label, most=0):
        of_row = np.unique(column.ranks[outcome.present], return_inverse=True)[1]
        if (alike := within_groups(of_row, outcome.values)) is not None:
            found.append(alike.correlation + alike.standard_error)
    return float(np.clip(max(found, default=UNKNOWN), 0.0, 1.0))
