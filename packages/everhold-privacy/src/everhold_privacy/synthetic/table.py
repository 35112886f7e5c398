"""A synthetic table: public weights over cells, which may be queried for ever at no further cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.values.evaluation import UNIT
from everhold.values.universe import Universe, WeightedCells
from everhold_privacy.guarantees.transfer import transferred_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticTable(WeightedCells):
    """Weights that were made once from the sealed rows, with what they promise; compared by identity.

    With probability `confidence`, the table's mean of *every* query of the family it was made for is within `radius`
    of the population's, all of them at once, in whatever order and after whatever else they are chosen. So is the mean
    of every mixture of these queries and their complements. Nothing is promised about other queries.

    Attributes:
        queries: Number of queries of the family.
        radius: Half-width, in the units of a mean in [0, 1].
        confidence: Probability with which it holds.
        assumptions: In plain words, what has to be true.
        privacy: (epsilon, delta) of differential privacy towards every sealed row; None where no noise was added.
        margin: Part of the radius that is the same for all values (S2); the rest is largest in the middle.
        tilt: The eps of S2; 0 where there is no such part.
        simulated: Whether the noise can be reproduced, so that nothing is private.
    """

    method: str
    rows: int
    queries: int
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
        """The table's mean of one query.

        Args:
            vector: Shape (cells,), boolean or numbers in [0, 1].

        Raises:
            ValueError: If the shape is another one or a value is outside [0, 1].
        """
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != self.weights.shape or not bool(np.all((values >= 0.0) & (values <= 1.0))):
            raise ValueError(
                f"the query has the shape {values.shape}; expected a number in [0, 1] for each of "
                f"{self.universe.cells} cells"
            )
        return min(float(values @ self.weights), 1.0)

    def interval(self, vector: ArrayLike) -> tuple[float, float]:
        """Population values that the table's mean does not exclude, for a query of the family (S2)."""
        low, high = transferred_interval(
            self.mean(vector), margin=self.margin, epsilon=self.tilt, rounded_down=1.0 / UNIT
        )
        return float(low), float(high)

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
