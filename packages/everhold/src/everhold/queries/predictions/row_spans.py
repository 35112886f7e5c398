"""Rows of a query among all sealed rows, where rows arrived: predictions for all of them are cut to those of the query.

The tree that answers follows from public facts and may be about the latest rows alone (S13). An analyst has predictions
for every sealed row, and need not know which tree answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from everhold.errors import QueryRejected


@dataclass(frozen=True, slots=True)
class RowSpan:
    """Place of the rows of a query among all sealed rows; public.

    Attributes:
        start: Number of sealed rows before them; negative where some of them are retired.
        rows: Number of rows of the query.
        total: Number of all sealed rows.
        ids: Reads the public ids of all rows that were ever sealed; only where rows have ids.
    """

    start: int
    rows: int
    total: int
    ids: Callable[[], Sequence[Any]]

    def cut(self, predictions: Any, *, what: str = "the predictions") -> Any:
        """The predictions of the rows of the query, from one for each sealed row in the order of their arrival.

        Args:
            predictions: An array, a list or a series; anything else, and one of the query's rows alone, stays as it is.
            what: How messages call them.

        Raises:
            QueryRejected: If there are as many as neither of the two. Nothing is charged.
        """
        if isinstance(predictions, str | type) or hasattr(predictions, "predict"):
            return predictions
        try:
            count = len(predictions)
        except TypeError:
            return predictions
        if count == self.rows or self.rows == self.total:
            return predictions
        if count != self.total or self.start < 0:
            expected = f"{self.total:,} for all sealed rows, or {self.rows:,} for those that this query is about"
            raise QueryRejected(f"{what} are {count:,}; expected {expected}, in the order of their arrival")
        given = predictions if isinstance(predictions, (list, tuple, np.ndarray)) else np.asarray(predictions)
        return given[self.start : self.start + self.rows]
