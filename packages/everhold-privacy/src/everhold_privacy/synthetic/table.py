"""A synthetic table: public weights over cells, which may be queried for ever at no further cost."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.display import Display
from everhold.values.evaluation import UNIT
from everhold.values.universe import Universe
from everhold_privacy.guarantees.transfer import transferred_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from everhold.values.query_family import QueryFamily
    from everhold.values.universe import Value

__all__ = ["SyntheticTable"]


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticTable(Display):
    """Weights that were made once from the sealed rows, with what they promise; compared by identity.

    With probability `confidence`, the table's mean of *every* question of the family it was made for is within `radius`
    of the population's, all of them at once, in whatever order and after whatever else they are chosen. So is the mean
    of every mixture of these questions and their complements. Nothing is promised about other questions.

    Attributes:
        universe: The cells.
        weights: Shape (cells,), non-negative, summing to 1; read-only.
        method: How it was made.
        rows: Number of sealed rows.
        questions: Number of questions of the family.
        radius: Half-width, in the units of a mean in [0, 1].
        confidence: Probability with which it holds.
        statement: The statement that proves it.
        assumptions: In plain words, what has to be true.
        privacy: (epsilon, delta) of differential privacy towards every sealed row; None where no noise was added.
        margin: Part of the radius that is the same for all values (S2); the rest is largest in the middle.
        tilt: The eps of S2; 0 where there is no such part.
        simulated: Whether the noise can be reproduced, so that nothing is private.
    """

    universe: Universe
    weights: NDArray[np.float64] = field(repr=False)
    method: str
    rows: int
    questions: int
    radius: float
    confidence: float
    statement: str
    assumptions: tuple[str, ...]
    privacy: tuple[float, float] | None
    margin: float
    tilt: float
    simulated: bool

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        total = float(weights.sum())
        if weights.shape != (self.universe.cells,) or not bool(np.all(weights >= 0.0)) or not abs(total - 1.0) < 1e-6:
            raise ValueError(
                f"the weights have the shape {weights.shape} and the sum {total}; expected one per cell, 1"
            )
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    def mean(self, vector: ArrayLike) -> float:
        """The table's mean of one question.

        Args:
            vector: Shape (cells,), boolean or numbers in [0, 1].

        Raises:
            ValueError: If the shape is another one or a value is outside [0, 1].
        """
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != self.weights.shape or not bool(np.all((values >= 0.0) & (values <= 1.0))):
            raise ValueError(
                f"the question has the shape {values.shape}; expected a number in [0, 1] for each of "
                f"{self.universe.cells} cells"
            )
        return min(float(values @ self.weights), 1.0)

    def means(self, queries: QueryFamily) -> NDArray[np.float64]:
        """The table's mean of every question of a family, shape (questions,)."""
        if queries.cells != self.universe.cells:
            raise ValueError(f"the questions are about {queries.cells} cells; expected {self.universe.cells}")
        return queries.means(self.weights)

    def interval(self, vector: ArrayLike) -> tuple[float, float]:
        """Population values that the table's mean does not exclude, for a question of the family (S2)."""
        low, high = transferred_interval(
            self.mean(vector), margin=self.margin, epsilon=self.tilt, rounded_down=1.0 / UNIT
        )
        return float(low), float(high)

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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SyntheticTable:
        """The inverse of `to_dict`."""
        privacy = data["privacy"]
        return cls(
            **{
                **data,
                "universe": Universe.from_dict(data["universe"]),
                "weights": np.asarray(data["weights"]),
                "assumptions": tuple(data["assumptions"]),
                "privacy": None if privacy is None else (privacy[0], privacy[1]),
            }
        )
