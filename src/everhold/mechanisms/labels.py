"""What a surprise tells: one label, whose probability under a public prior every later question pays for (S8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from everhold.guarantees.intervals.base import Procedure

__all__ = ["CHEAPEST", "DEAREST", "ArcsineCells", "Offsets", "in_millionths"]

_LEAST_STEP = 2.0**-12
_NEAR = 8  # steps on either side of the guess that are told finely
_COARSE = 64  # steps of [0, 1] in which all others are told
_USUAL, _WIDER, _WIDEST = 1.1, 1.5, 5  # widths told, in expected ones: 1.1, 1.1 * 1.5, ..., then the whole range
_USUAL_SHARE = 0.7  # of one half of the prior of widths; each next one has the rest of what is left in the same way

DEAREST = 7.4
"""No label of `Offsets` costs more nats: a coarse middle has 1/130 of the prior, the least likely width 1/12."""

CHEAPEST = 4.3
"""No label of `Offsets` costs fewer: a fine middle has 1/34 of the prior, the usual width less than .44."""


def in_millionths(nats: float) -> int:
    """Nats as a whole number of millionths, rounded up."""
    return math.ceil(nats * 1e6)


@dataclass(frozen=True)
class ArcsineCells:
    """Cells of the sealed mean, all equally likely, and as wide as the spread of yes-or-no values there allows.

    Attributes:
        grid: Number G of cells; cell i holds the means from ``sin^2(i pi / (2 G))`` up to the next one's.
        steps: Grid steps of a sum that make a mean of 1.
    """

    grid: int
    steps: int

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        shares = np.sin(np.arange(self.grid + 1) * (math.pi / 2.0 / self.grid)) ** 2
        edges: NDArray[np.int64] = np.ceil(shares * self.steps).astype(np.int64)
        edges[0], edges[-1] = 0, self.steps + 1
        return edges

    def told(self, total: int) -> tuple[float, float]:
        """The least and the greatest mean of the cell in which a sum lies."""
        cell = int(np.searchsorted(self._edges, total, side="right")) - 1
        return float(self._edges[cell]) / self.steps, float(self._edges[cell + 1] - 1) / self.steps

    @property
    def cost(self) -> int:
        """Of one label, in millionths of a nat: ``ln G``."""
        return in_millionths(math.log(self.grid))


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where the middle of a sealed interval lies, seen from the guess, and how wide it is, seen from what was expected.

    One half of the prior of the middle is shared by the 17 places at most 8 steps from the guess, a step being the
    half-width that was expected; the other half by the 65 multiples of 1/64. The half-width is told as the first of
    ``1.1 * 1.5^t`` expected ones, t < 5, that is large enough, and else as the whole range; one half of its prior is
    uniform, the other ``.7 * .3^t``.

    Attributes:
        guess: The public guess, in units of a mean.
        half: The half-width that was expected.
    """

    guess: float
    half: float

    @classmethod
    def of(cls, procedure: Procedure, guess: float, nats: float) -> Self:
        """The labels of a question."""
        low, high = procedure.expected(guess, nats)
        return cls(guess, max((high - low) / 2.0, _LEAST_STEP))

    def told(self, low: float, high: float) -> tuple[float, tuple[float, float], int]:
        """What is known from the label of a sealed interval.

        Args:
            low: Lower end of the sealed interval.
            high: Its upper end.

        Returns:
            A value, an interval around it that contains the sealed one, and the cost in millionths of a nat.
        """
        middle, step, share = self._place((low + high) / 2.0)
        needed, width = max(middle - low, high - middle), 0  # at most half a step more than half of its length
        while width < _WIDEST and needed > self._reach(width, step):
            width += 1
        reach = self._reach(width, step)
        ends = (middle - reach, middle + reach) if width < _WIDEST else (0.0, 1.0)
        return middle, ends, in_millionths(-math.log(share * _share_of_width(width)))

    def _place(self, middle: float) -> tuple[float, float, float]:
        """The place that is told for a middle, the step of such places, and the prior probability of each."""
        steps = round((middle - self.guess) / self.half)
        if abs(steps) <= _NEAR:
            return self.guess + steps * self.half, self.half, 0.5 / (2 * _NEAR + 1)
        return round(middle * _COARSE) / _COARSE, 1.0 / _COARSE, 0.5 / (_COARSE + 1)

    def _reach(self, width: int, step: float) -> float:
        return 0.5 * step + _USUAL * _WIDER**width * self.half

    @property
    def usual(self) -> float:
        """Half-width of the interval that is told if the sealed one is as wide as expected, however far off it is."""
        return self._reach(0, max(self.half, 1.0 / _COARSE))


def _share_of_width(width: int) -> float:
    """Prior probability of a width."""
    return 0.5 * _USUAL_SHARE * (1.0 - _USUAL_SHARE) ** width + 0.5 / (_WIDEST + 1)
