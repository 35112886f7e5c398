"""Predicts sealed units from training units, to choose a stake."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.intervals.bets.joint import Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CLASSES = 256  # of training units by residual, and no more than so many for the choice of a stake
_FEW_CLASSES = 64
LEAST_NATS = 1e-3
_GHOSTS = 0.5  # of a typical training unit at either end: what n_t units cannot exclude


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction of the sealed units' spread from training units. Public.

    Attributes:
        sizes: Shape (kinds,): sizes of training units.
        residuals: Shape (kinds,): their values less what the training mean predicts.
        counts: Shape (kinds,).
        mean: The training mean.
        excess: What lotteries over cells add to the sum of squared residuals.
        scale: Sealed rows for each training row.
        largest: No unit is larger, sealed or of the training set.
        public: Whether the sizes of sealed units are public.
    """

    sizes: NDArray[np.float64]
    residuals: NDArray[np.float64]
    counts: NDArray[np.float64]
    mean: float
    excess: float
    scale: float
    largest: float
    public: bool = False

    @classmethod
    def of(cls, units: Units, *, scale: float, excess: float = 0.0) -> Prediction:
        """Build the prediction from training units, of which there may be none."""
        if not units.total > 0.0:
            size = np.array([units.largest, units.largest])
            units = Units(size, size * [0.0, 1.0], np.array([0.5, 0.5]), units.largest, units.public)
        mean = units.mean
        sizes, residuals, counts = units.sizes, units.values - mean * units.sizes, units.counts
        sizes, residuals, counts = _in_classes(sizes, residuals, counts, _CLASSES)
        return cls(sizes, residuals, counts, mean, excess, scale, units.largest, units.public)

    @property
    def total(self) -> float:
        """Sum of the training sizes."""
        return float(np.sum(self.counts * self.sizes))

    @property
    def typical(self) -> float:
        """Size of the unit of a row that is drawn at random."""
        return float(np.sum(self.counts * self.sizes**2)) / self.total

    @cached_property
    def _likely(self) -> Units:
        """As many units as are sealed, exactly like the training units."""
        values = np.clip(self.mean * self.sizes + self.residuals, 0.0, self.sizes)
        return Units(self.sizes, values, self.counts * self.scale, self.largest, self.public)

    def around(self, guess: float) -> Units:
        """Return sealed units like the training units, moved until their mean is the guess.

        A guess far from the training mean says that the sealed units are not like the training units, such as those
        of a model that was fitted on them, and that they spread further. Values are scaled up, and where that does not
        reach the guess, a share of the units counts as 1. Downwards it is the mirror image. Values that are 0, 1/2 or
        1 of their size are not scaled, because the sealed ones are taken to be of the same kind.
        """
        likely = self._likely
        return _raised(likely, guess) if guess >= likely.mean else _raised(likely.mirrored, 1.0 - guess).mirrored

    def cautious(self, guess: float) -> Units:
        """Return units around the guess, with half a unit at either end that training may have lacked."""
        near, typical = self.around(guess), self.typical
        residuals = near.values - near.mean * near.sizes
        sizes, residuals, counts = _in_classes(near.sizes, residuals, near.counts, _FEW_CLASSES)
        return Units(
            np.append(sizes, [typical, typical]),
            np.append(np.clip(near.mean * sizes + residuals, 0.0, sizes), [0.0, typical]),
            np.append(counts, [_GHOSTS * self.scale, _GHOSTS * self.scale]),
            self.largest,
            self.public,
        )

    def spread(self, guess: float) -> float:
        """Return the sum of squared residuals, about the guess, of as many units as there are for training."""
        units = float(np.sum(self.counts))
        squares = max(self.around(guess).spread() / self.scale - self.excess, 0.0)
        ghosts = _GHOSTS * self.typical**2 * (guess**2 + (1.0 - guess) ** 2)
        return squares * units / max(units - 1.0, 1.0) + ghosts


def _raised(units: Units, mean: float) -> Units:
    """Return the same units with a larger mean, raised as `Prediction.around` describes."""
    values, shares = units.values, units.values / np.maximum(units.sizes, 1e-300)
    if not np.all(np.isin(shares, (0.0, 0.5, 1.0))):
        values = np.minimum(values * (mean / max(units.mean, 1e-300)), units.sizes)
    reached = float(np.sum(units.counts * values)) / units.total
    share = min(max((mean - reached) / max(1.0 - reached, 1e-300), 0.0), 1.0)
    sizes, values = np.append(units.sizes, units.sizes), np.append(values, units.sizes)
    counts = np.append(units.counts * (1.0 - share), units.counts * share)
    return Units(sizes[counts > 0.0], values[counts > 0.0], counts[counts > 0.0], units.largest, units.public)


def _in_classes(
    sizes: NDArray[np.float64], residuals: NDArray[np.float64], counts: NDArray[np.float64], number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Merge units of about the same residual if there are too many kinds. Returns sizes, residuals and counts."""
    if len(sizes) <= 2 * number:
        return sizes, residuals, counts
    least, greatest = float(residuals.min()), float(residuals.max())
    classes = np.minimum((residuals - least) / max(greatest - least, 1e-300) * number, number - 1).astype(np.int64)
    weights = np.bincount(classes, counts, number)
    filled = weights > 0
    means = [np.bincount(classes, counts * x, number)[filled] / weights[filled] for x in (sizes, residuals)]
    return means[0], means[1], np.asarray(weights[filled], dtype=np.float64)
