"""Row values of an estimator, in two steps: it predicts from features alone, and its predictions are judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from everhold.values.base import Table

__all__ = ["EstimatedValues"]


@dataclass(frozen=True, slots=True)
class EstimatedValues:
    """Row values of an estimator: what it predicts, held against the label.

    Attributes:
        source: What tells these predictions from all others in one process: the model, and how it is asked.
        features: Columns that the model reads.
        predict: From a table to one prediction per row, of the right kind.
        judge: From predictions and their table to one value per row.
        check: Refuses predictions that cannot be meant; for public rows, where refusing tells nothing.
        fails: True for predictions that are no answer, shape (rows,).
        failing: From a table of rows on which the model fails to their values.
        everywhere: Whether predictions are of the right kind for whatever row, as classes are; numbers may be infinite
            for made-up rows.
    """

    source: tuple[Any, ...]
    features: tuple[str, ...]
    predict: Callable[[Table], NDArray[Any]]
    judge: Callable[[NDArray[Any], Table], NDArray[Any]]
    check: Callable[[NDArray[Any]], None]
    fails: Callable[[NDArray[Any]], NDArray[np.bool_]]
    failing: Callable[[Table], NDArray[Any]]
    everywhere: bool = True

    def __call__(self, table: Table) -> NDArray[Any]:
        """The row values of a table."""
        return self.judged(self.predict(table), table)

    def judged(self, predictions: NDArray[Any], table: Table) -> NDArray[Any]:
        """The row values of predictions; of what is no answer those of a failing row."""
        values = self.judge(predictions, table)
        if (fails := self.fails(predictions)).any():
            values = np.array(values, dtype=np.float64)
            values[fails] = self.failing({name: column[fails] for name, column in table.items()})
        return values
