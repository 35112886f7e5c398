"""Claims about ratios of means: a version's ratio is above that of another version by more than a floor (Lemma R).

Let x be the numerator and y the denominator, neither below 0. The other version's ratio r solves ``E[x' - r y'] = 0``.
If the claim is false, the paired mean ``E[s(x - x') - s r (y - y') - floor y]`` is at most 0 there, with s = -1 where
less is better. Two bets on the equation and one on the paired mean make a fair game at the true r, which is one fixed
number. So the claim is proved if the capital reaches 1 / level at each r (docs/theory/gates.md).

A bet with a constant stake is a product of factors that are affine in r, so its logarithm is concave: between two
neighbouring points it is at least the smaller one of its values there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from everhold.guarantees.intervals.pairs.claims import ROUNDING, GateClaim, stakes_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_OCTAVES = 10  # of ratios above and below the ratio of the largest numerator to the largest denominator
_BLOCKS = 4  # in an octave; the points of a block share the scale of its bets
_POINTS = 5  # in a block, its ends included
_MOST_NUMBERS = 2**21  # computed at a time
_WEIGHTS = np.log([0.5, 0.25, 0.25])  # of the paired mean, and of the equation from both sides


@dataclass(frozen=True, slots=True)
class RatioUnits:
    """Values of a claim about a ratio, unit by unit, in the order in which they are evaluated.

    Attributes:
        sums: Shape (4, units): sums of the challenger's numerator, the other version's, and of both denominators.
        sizes: Shape (units,): number of cases in each unit; 1 where a unit is a case or a run.
        top: Range (low, high) of the numerator.
        lower: True if a lower ratio is better.
        largest: The largest size of all units of the suite.
        spent: Shape (units,): True for draws without a run left, which count as the worst.
        most_floor: Bets are scaled for floors up to this; then a floor that is proved proves all below it.
        counts: Shape (units,): how many units are alike; None for one each.
    """

    sums: NDArray[np.float64] = field(repr=False)
    sizes: NDArray[np.float64]
    top: tuple[float, float]
    bottom: tuple[float, float]
    lower: bool
    largest: float
    spent: NDArray[np.bool_]
    most_floor: float = 0.0
    counts: NDArray[np.float64] | None = field(default=None, repr=False)

    def first_look(self, claim: GateClaim, *, planned: int, nats: float, looks: Sequence[int]) -> int:
        """Index of the first look at which the claim is proved; the number of looks if never.

        Different ratios of the other version may be ruled out at different looks.

        Args:
            claim: Its floor is in units of the ratio.
            planned: Number of units if all are evaluated.
            nats: ln(1 / level).
            looks: Numbers of units after which the capital is compared, rising.
        """
        stakes = stakes_for(planned, nats + math.log(2.0))
        ends = np.asarray(looks, dtype=np.intp) - 1
        first = 0
        for points in self._blocks(len(stakes)):
            bets = self._log_capital(points, claim.floor, stakes)[..., ends]
            between = np.minimum(bets[:, :, :-1], bets[:, :, 1:])  # over the segment, by concavity
            capital = np.logaddexp.reduce(np.logaddexp.reduce(between, axis=3), axis=0) - math.log(len(stakes))
            reached = capital >= nats + ROUNDING
            at = np.where(reached.any(axis=-1), reached.argmax(axis=-1), len(looks))
            first = max(first, int(at.max()))  # all blocks are computed, so that the time tells nothing
        return first

    def _blocks(self, stakes: int) -> Iterator[NDArray[np.float64]]:
        """Points (a, b) for ratios b / a from 0 to infinity, shape (blocks, points, 2); neighbours span a segment.

        Args:
            stakes: Number of stakes, by which few or many blocks are computed at a time.
        """
        middle = self.top[1] / self.bottom[1]
        edges = middle * 2.0 ** (np.arange(-_OCTAVES * _BLOCKS, _OCTAVES * _BLOCKS + 1) / _BLOCKS)
        yield np.array([[[1.0, 0.0], [1.0, edges[0]]]])
        ratios = np.linspace(edges[:-1], edges[1:], _POINTS, axis=1)
        points = np.stack([np.ones_like(ratios), ratios], axis=-1)
        at_once = max(_MOST_NUMBERS // (len(_WEIGHTS) * _POINTS * stakes * len(self.sizes)), 1)
        yield from (points[start : start + at_once] for start in range(0, len(points), at_once))
        yield np.array([[[1.0 / edges[-1], 1.0], [0.0, 1.0]]])

    def _log_capital(
        self, points: NDArray[np.float64], floor: float, stakes: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Logarithms of weighted capital, shape (bets, blocks, points, stakes, units); bets of a block share scales."""
        own, other, below, below_other = self.sums
        sign = -1.0 if self.lower else 1.0
        a, b = points[..., :1], points[..., 1:]
        most_a, most_b = np.moveaxis(points.max(axis=1, keepdims=True)[..., None], 2, 0)
        losses = [
            most_a * (self.top[1] - self.top[0]) + most_b * (self.bottom[1] - self.bottom[0])
            + most_a * max(floor, self.most_floor) * self.bottom[1],
            most_b * self.bottom[1],
            most_a * self.top[1],
        ]  # fmt: skip
        equation = a * other - b * below_other
        gains = [sign * (a * (own - other) - b * (below - below_other)) - floor * a * below, equation, -equation]
        excess = np.stack([gain / (loss * self.largest) for gain, loss in zip(gains, losses, strict=True)])
        excess = np.where(self.spent, -self.sizes / self.largest, excess)
        steps = np.log1p(stakes[:, None] * excess[..., None, :])
        if self.counts is not None:
            steps = steps * self.counts
        return np.asarray(np.cumsum(steps, axis=-1) + _WEIGHTS[:, None, None, None, None])
