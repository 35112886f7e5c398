"""A whole vector answered by one draw of Gaussian noise, paid from a `PrivacyBudget` as one query (S1, S2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from everhold.values.evaluation import SHRINKAGE
from everhold_privacy.guarantees.exceedance import gaussian_exceedance, gaussian_norm_allowance
from everhold_privacy.mechanisms.privacy_budget import PrivacyBudget, deviations, release

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.mechanisms.base import State
    from everhold.randomness import Noise


@dataclass(frozen=True, slots=True)
class NoisyVector:
    """A vector that was drawn, each coordinate as a mean over [0, 1], in which 1/2 stands for 0.

    Attributes:
        values: Released coordinates, shape (dimension,); with noise, they may lie outside [0, 1].
        lows: Lower ends of the coordinates, in [0, 1].
        highs: Upper ends, in [0, 1].
        within: Half-width of the whole in Euclidean length.
    """

    values: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    within: float
    charged: int


@dataclass(frozen=True)
class VectorNoise:
    """Means of vectors of length at most 1/2, whatever their dimension, at the price of one mean.

    One row moves the sums by at most ``unit`` in Euclidean length, so independent discrete Gaussian noise on every
    coordinate is as private as it is on one mean. In every direction the answer is a mean over [0, 1]: S1's proof,
    applied to the direction of the error, bounds its Euclidean length; applied to the coordinates it bounds each of
    them. Both are promised, and each may add half of what a query may add to the exceedance r.

    Attributes:
        dimension: Number of coordinates d.

    Source: docs/theory, vectors and low sensitivity.
    """

    budget: PrivacyBudget
    dimension: int

    @property
    def rounding(self) -> float:
        """Euclidean length that rounding and shortening the rows' vectors adds."""
        return float(np.sqrt(self.dimension)) / self.budget.unit + SHRINKAGE

    def length_allowance(self, scale: float) -> float:
        """The alpha of the Euclidean length of the noise."""
        exceedance = 0.5 * self.budget.own_exceedance
        return gaussian_norm_allowance(exceedance=exceedance, scale=scale, dimension=self.dimension)

    def coordinate_allowance(self, scale: float) -> float:
        """The alpha of every single coordinate."""
        wanted = 0.5 * self.budget.own_exceedance / (self.dimension * scale)
        return scale * deviations(lambda z: gaussian_exceedance(alpha=z, scale=1.0, answers=1) - wanted)

    def radius_at(self, scale: float) -> float:
        """Half-width in Euclidean length, with noise of this scale."""
        return _radius_of(self, self.budget.drawn_scale(scale))

    def answer(
        self, state: State, sums: NDArray[np.int64], noise: Noise, *, scale: float
    ) -> tuple[State, NoisyVector | None]:
        """One draw for the whole vector; None if the budget does not pay for it.

        Args:
            state: The state before.
            sums: Sums of the rows' vectors in grid units, of at most ``unit / 2`` for one row, shape (dimension,).
            noise: Source of randomness.
            scale: Noise scale of every coordinate, in the units of a mean.
        """
        after, drawn = release(self.budget, state, sums, noise, scale=scale)
        if drawn is None:
            return state, None
        values = 0.5 + drawn / self.budget.steps
        lows, highs = self.budget.interval(values, self.coordinate_allowance(self.budget.drawn_scale(scale)))
        lows = np.maximum(lows - self.budget.row_step - SHRINKAGE, 0.0)  # rows were rounded towards 1/2, up or down
        highs = np.minimum(highs + SHRINKAGE, 1.0)
        return after, NoisyVector(values, lows, highs, self.radius_at(scale), after.charged - state.charged)


@lru_cache(maxsize=256)
def _radius_of(vector: VectorNoise, scale: float) -> float:
    return vector.budget.reach(vector.length_allowance(scale)) + vector.rounding
