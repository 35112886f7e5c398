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
_USUAL, _WIDER, _WIDEST = 1.1, 1.5, 9  # widths told, in expected ones: 1.1, 1.1 * 1.5, ..., then the whole range
_USUAL_SHARE = 0.7  # of the prior of widths; each next one has the rest of what is left in the same way

DEAREST = 13.0
"""No label of `Offsets` costs more nats: half of either prior is uniform, over at most 2 * 4097 + 1 and 10 labels."""

CHEAPEST = 1.9
"""No label of `Offsets` costs fewer: the middle at the guess has at most .35 of the prior, the usual width .4 of it."""


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

    The middle is told in steps of the half-width that was expected. Of its prior one half is uniform over all steps
    inside [0, 1], the other half falls with the distance: i steps off have ``1 / ((i+1) (i+2))`` of it, shared by both
    signs. The half-width is told as the first of ``1.1 * 1.5^t`` expected ones that is large enough, and as the whole
    range beyond the ninth; one half of its prior is uniform, the other ``.7 * .3^t``.

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
        steps = round(((low + high) / 2.0 - self.guess) / self.half)
        middle, width = self.guess + steps * self.half, 0
        needed = max(middle - low, high - middle)  # at most half a step more than half of its length
        while width < _WIDEST and needed > self._reach(width):
            width += 1
        ends = (middle - self._reach(width), middle + self._reach(width)) if width < _WIDEST else (0.0, 1.0)
        return middle, ends, in_millionths(-math.log(self._share_of(abs(steps)) * _share_of_width(width)))

    def _share_of(self, steps: int) -> float:
        """Prior probability of a middle so many steps off, on one side."""
        near = 1.0 / ((steps + 1) * (steps + 2)) / (1.0 if steps == 0 else 2.0)
        return 0.5 * near + 0.5 / (2 * math.ceil(1.0 / self.half) + 3)

    def _reach(self, width: int) -> float:
        return (0.5 + _USUAL * _WIDER**width) * self.half

    @property
    def usual(self) -> float:
        """Half-width of the interval that is told if the sealed one is as wide as expected."""
        return self._reach(0)


def _share_of_width(width: int) -> float:
    """Prior probability of a width."""
    return 0.5 * _USUAL_SHARE * (1.0 - _USUAL_SHARE) ** width + 0.5 / (_WIDEST + 1)
