"""A condition that says which rows count: ``where="region = 'N'"``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from everhold.arguments import brief
from everhold.errors import QueryRejected
from everhold.queries.means.mean import MeanQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.sealing.rows.table import StoredRows
    from everhold.values.base import BoundQuery, Schema

_HALF = 0.5


def check_where(where: object) -> None:
    """Refuse what is no text."""
    if not isinstance(where, str):
        raise QueryRejected(f"where is {brief(where)}; expected a condition over the columns, such as \"region = 'N'\"")


def condition(where: str, schema: Schema) -> BoundQuery:
    """The condition for one holdout."""
    check_where(where)
    bound = MeanQuery(where, 0.0, 1.0).bind(schema)
    if not bound.yes_no:
        raise QueryRejected(f"where is {where!r}, which is no condition; expected one such as \"region = 'N'\"")
    return bound


def among(bound: BoundQuery, inside: BoundQuery | None, where: str | None, schema: Schema) -> BoundQuery:
    """Identity of the same query among the rows that meet a condition; the query itself without one."""
    if inside is None:
        return bound
    reads = (*(bound.reads or schema.asked), *(inside.reads or schema.asked))
    return replace(
        bound, description={**bound.description, "where": inside.description},
        shown=f"{bound.shown} among rows with {where}", reads=tuple(dict.fromkeys(reads)),
    )  # fmt: skip


def rows_that_meet(rows: StoredRows, condition: BoundQuery) -> NDArray[np.bool_]:
    """True for each row that meets the condition, shape (rows,); of sealed rows it is secret."""
    return np.asarray(rows.row_values(condition, unit=1) == 1)


def share_that_meets(training: StoredRows | None, condition: BoundQuery | None) -> float:
    """Planned share of rows that count: that of the training rows, half a row away from 0; 1 without a condition."""
    if condition is None or training is None:
        return 1.0
    counting = rows_that_meet(training, condition)
    return (int(np.count_nonzero(counting)) + _HALF) / (len(counting) + 1.0)
