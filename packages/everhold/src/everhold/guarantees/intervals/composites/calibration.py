"""The expected calibration error by bins: a largest value over signs needs one level (docs/theory/composites.md).

With bins b of probabilities p and labels y, ``ECE = sum_b |E (y - p) 1_b|`` is the largest ``E X_s`` over signs s, one
for each bin, where ``X_s = s_b (y - p)`` in bin b. For fixed stakes, the capital of a bet on X_s is a product over
bins. So all signs are looked at in one pass (Statement C3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from everhold.guarantees.intervals.bets.betting import side_of
from everhold.guarantees.intervals.bets.joint import first_excluded, log_of_sum
from everhold.guarantees.intervals.composites.parts import OfScore

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HALF = 256  # cells of [0, 1]
_VALUES = np.arange(-_HALF, _HALF + 1) / _HALF
_STAKES = 0.9 * 2.0 ** (-np.arange(24) / 2.0)
_TOLERANCE, _STEPS = 1e-8, 34  # of the search for an end, which takes the same time for all rows
_DOUBT, _ROUNDING = 1e-9, 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SeenBins:
    """Numbers of rows by bin of their probability and by the distance of label and probability.

    Attributes:
        score: The calibration error of these rows.
        mass: Shape (bins + 1, values): rows as lotteries over the ends of a cell of [-1, 1], with the same mean.
    """

    score: float = field(repr=False)
    mass: NDArray[np.float64] = field(repr=False)


def seen_bins(probabilities: NDArray[np.float64], labels: NDArray[np.float64], bins: int) -> SeenBins:
    """Count rows in equal bins of their probability.

    Args:
        probabilities: Of label 1, shape (rows,); nan has the distance 1 in a further bin, where it cancels nothing.
        labels: 0 or 1, shape (rows,).
        bins: Number of bins.

    Examples:
        >>> round(seen_bins(np.array([0.1, 0.1, 0.9, 0.9]), np.array([0, 0, 1, 0]), 10).score, 3)
        0.25
    """
    faults = np.isnan(probabilities)
    told = np.where(faults, 0.0, probabilities)
    bin_of = np.where(faults, bins, np.minimum((told * bins).astype(np.int64), bins - 1))
    apart = np.where(faults, 1.0, labels - told)
    score = float(np.sum(np.abs(np.bincount(bin_of, apart, bins + 1)))) / max(len(apart), 1)
    place = (apart + 1.0) * _HALF
    cell = np.minimum(np.floor(place), 2 * _HALF - 1).astype(np.int64)
    mass = np.zeros((bins + 1, 2 * _HALF + 1))
    np.add.at(mass, (bin_of, cell), 1.0 - (place - cell))
    np.add.at(mass, (bin_of, cell + 1), place - cell)
    return SeenBins(min(score, 1.0), mass)


def calibration_ends(mass: NDArray[np.float64], nats: float) -> tuple[float, float]:
    """Return lower and upper limit of the calibration error, each at the level ``exp(-nats)`` (Statement C3).

    Above, an error is excluded if the least capital over all signs suffices: that of the true signs is fair. Below, all
    signs share the level, as the capital is averaged over them.

    Args:
        mass: As in `SeenBins`.
        nats: ln(1 / level) of one side.
    """
    turned, doubt = mass[:, ::-1], _DOUBT + 1e-14 * float(mass.sum())

    def capital(at: float, *, above: bool) -> float:
        if above:
            steps = np.log1p(_STAKES[:, None] * (at - _VALUES) / (1.0 - at))
            logs = np.minimum(steps @ mass.T, steps @ turned.T).sum(axis=1)
        else:
            steps = np.log1p(_STAKES[:, None] * (_VALUES - at) / (1.0 + at))
            logs = (np.logaddexp(steps @ mass.T, steps @ turned.T) - math.log(2.0)).sum(axis=1)
        return float(log_of_sum(logs, axis=0)) - math.log(len(_STAKES)) - doubt

    find = partial(first_excluded, nats=nats, start=0.5, tolerance=_TOLERANCE, steps=_STEPS)
    low = find(partial(capital, above=False), inside=1.0, outside=0.0) if capital(0.0, above=False) >= nats else 0.0
    high = find(partial(capital, above=True), inside=0.0, outside=1.0)
    return low, high


@dataclass(frozen=True, eq=False)
class CalibrationBets(OfScore):
    """Interval procedure of a calibration error over independent rows, whose laws may differ.

    Attributes:
        planned: What public rows say.
        training: Rows that guesses are made from.
    """

    planned: SeenBins
    rows: int
    training: int

    name: ClassVar[str] = "calibration_betting"
    title: ClassVar[str] = "betting on the calibration of all bins at once"
    why: ClassVar[str] = "the error is the largest mean over signs of bins, and one fair bet against it is enough"

    def interval(self, seen: SeenBins, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; the error of the sealed rows is always inside."""
        low, high = calibration_ends(seen.mass, side_of(nats))
        return max(min(low, seen.score) - _ROUNDING, 0.0), min(max(high, seen.score) + _ROUNDING, 1.0)

    def _planned_ends(self, nats: float) -> tuple[float, float]:
        scale = self.rows / max(float(self.planned.mass.sum()), 1.0)
        return calibration_ends(self.planned.mass * scale, side_of(nats))

    @cached_property
    def _error(self) -> float:
        """Standard error of the calibration error, from the independent means of the bins."""
        squares = self.planned.mass @ _VALUES**2 / max(float(self.planned.mass.sum()), 1.0)
        scatter = math.sqrt(float(squares.sum()) * (1.0 / self.rows + 1.0 / self.training))
        larger = abs(self.rows**-0.5 - self.training**-0.5) * float(np.sqrt(squares).sum())
        return float(min(scatter + larger, 1.0))
