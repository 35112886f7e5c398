"""Public weights over the cells of some columns, which may be queried for ever."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.display import Display
from everhold.values.universe import Universe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.values.query_family import QueryFamily
    from everhold.values.universe import Value

__all__ = ["WeightedCells"]


@dataclass(frozen=True, slots=True, eq=False)
class WeightedCells(Display):
    """Weights of cells, as a table of made-up rows; compared by identity.

    Attributes:
        universe: The cells.
        weights: Shape (cells,), non-negative, summing to 1; read-only.
    """

    universe: Universe
    weights: NDArray[np.float64] = field(repr=False)

    def means(self, queries: QueryFamily) -> NDArray[np.float64]:
        """The table's mean of every query of a family, shape (queries,).

        Raises:
            ValueError: If they are about another number of cells.
        """
        if queries.cells != self.universe.cells:
            raise ValueError(f"the queries are about {queries.cells} cells; expected {self.universe.cells}")
        return queries.means(self.weights)

    def sample(self, rows: int, seed: int) -> dict[str, list[Value]]:
        """Rows drawn at random by the weights, as columns; they are as public as the table.

        Args:
            rows: How many, at least 1.
            seed: A non-negative integer.
        """
        if operator.index(rows) < 1:
            raise ValueError(f"rows is {rows}; expected a whole number of at least 1")
        cells = np.random.default_rng(seed).choice(self.universe.cells, size=rows, p=self.weights / self.weights.sum())
        return self.universe.decode(cells)

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each cell that has any weight: its labels and its weight."""
        cells = np.flatnonzero(self.weights)
        columns = self.universe.decode(cells)
        return [
            {**dict(zip(columns, labels, strict=True)), "weight": weight}
            for *labels, weight in zip(*columns.values(), self.weights[cells].tolist(), strict=True)
        ]
