"""The difference of two models in a score of outcomes: bets on the gain from both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from everhold.guarantees.intervals.base import Cells, Needs
from everhold.guarantees.intervals.pairs.balanced_gain import BalancedGain
from everhold.guarantees.intervals.pairs.outcome_gain import OUTCOMES, OutcomeGain, cells_of_pairs, counts_of_pairs
from everhold.guarantees.intervals.pairs.ratio_gain import RATIOS, MacroGain, RatioGain

GAINS: dict[str, type[OutcomeGain]] = {
    **dict.fromkeys(RATIOS, RatioGain), "balanced_accuracy": BalancedGain, "f1_macro": MacroGain,
}  # fmt: skip
"""By score: bets on the gain."""

_WRONG = 0.2  # of rows on which both models say 1
_NUDGE = 1e-4  # of a share, for the influence of a pair of outcomes


def gain_of(score: str, rows: int) -> OutcomeGain:
    """Bets on the gain in one of `GAINS`."""
    return GAINS[score](score, rows)


@dataclass(frozen=True)
class GainDifference(OutcomeGain):
    """The interval of a difference in one of `GAINS`.

    Attributes:
        planned: Counts by pair of the outcomes of the training rows, or the likely ones of public predictions; None
            where nothing is known.
    """

    planned: tuple[float, ...] | None = field(default=None, repr=False)

    name: ClassVar[str] = "ratio_difference"
    title: ClassVar[str] = "betting on the difference from both sides"
    needs: ClassVar[Needs] = "statistic"
    why: ClassVar[str] = (
        "bets on the gain from either side are fair at the true difference, and gain that much with this probability "
        "at most"
    )

    @cached_property
    def _gain(self) -> OutcomeGain:
        return gain_of(self.score, self.rows)

    def proves(self, seen: Cells, gain: float, nats: float) -> bool:
        """See `OutcomeGain.proves`."""
        return self._gain.proves(seen, gain, nats)

    def gain(self, seen: Cells) -> float:
        """See `OutcomeGain.gain`."""
        return self._gain.gain(seen)

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; half of the level on either side."""
        low, _ = self._gain.interval(seen, nats)
        least, _ = self._gain.interval(cells_of_pairs(counts_of_pairs(seen).T), nats)
        return low, 1.0 - least

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`: as wide as for the training rows' outcomes, or for two models much alike."""
        below, above = _ends_around(self.score, self.rows, self.planned, nats)
        return max(guess - below, 0.0), min(guess + above, 1.0)

    def standard_error(self, guess: float) -> float:
        """See `Procedure.standard_error`: by the influence of a row on both scores."""
        trained = self.rows if self.planned is None else max(sum(self.planned), 1)
        return 0.5 * math.sqrt(self._variance * (1.0 / self.rows + 1.0 / trained))

    @property
    def worth(self) -> float:
        """See `Procedure.worth`."""
        return self.rows / max(self._variance, 1e-300)

    @cached_property
    def _variance(self) -> float:
        """Variance of the influence of a row on the difference."""
        counts = counts_of_pairs(_likely(self.rows, self.planned))
        shares = (counts / counts.sum()).ravel()
        there = np.flatnonzero(shares)

        def gain_at(nudged: NDArray[np.float64]) -> float:
            return self._gain.gain(cells_of_pairs(nudged.reshape(counts.shape)))

        influence = [(gain_at(shares + _NUDGE * (np.eye(len(shares))[at] - shares)) - gain_at(shares)) / _NUDGE
                     for at in there]  # fmt: skip
        return float(shares[there] @ np.square(influence))


def likely_pairs(first: NDArray[np.bool_], second: NDArray[np.bool_], share: float | None = None) -> tuple[float, ...]:
    """Counts of the pairs of outcomes to plan with where predictions are public and labels are not, by pair.

    Where they differ, either is right as often. Where both say 1, they are right on four rows of five.

    Args:
        first: Shape (rows,): whether the first model says 1.
        second: The same of the second model.
        share: Likely share of label 1; by default that of the predictions.
    """
    said = np.array([[np.count_nonzero((first == own) & (second == other)) for other in (0, 1)] for own in (0, 1)])
    apart = (said[0, 1] + said[1, 0]) / 2.0
    wanted = said[1, 1] + apart if share is None else share * len(first)
    ones = said / 2.0
    ones[1, 1] = min((1.0 - _WRONG) * said[1, 1], max(wanted - apart, 0.0))
    ones[0, 0] = min(max(wanted - apart - ones[1, 1], 0.0), float(said[0, 0]))
    counts = np.zeros((len(OUTCOMES), len(OUTCOMES)))
    counts[1:3, 1:3], counts[3:5, 3:5] = said - ones, ones
    return tuple(counts.ravel().tolist())


def _likely(rows: int, planned: tuple[float, ...] | None) -> Cells:
    """Counts of pairs of outcomes to plan with: those of training rows as parts of so many sealed ones."""
    if planned is None:
        counts = np.zeros((len(OUTCOMES), len(OUTCOMES)))
        counts[_LIKELY[0], _LIKELY[1]] = rows * _LIKELY_SHARES
        return cells_of_pairs(counts)
    return cells_of_pairs(np.array(planned, dtype=np.float64) * (rows / max(sum(planned), 1)))


@lru_cache(maxsize=256)
def _ends_around(score: str, rows: int, planned: tuple[float, ...] | None, nats: float) -> tuple[float, float]:
    """Distances of both ends of the interval from the difference of the planned counts."""
    likely, procedure = _likely(rows, planned), GainDifference(score, rows)
    centre = (1.0 + procedure.gain(likely)) / 2.0
    low, high = procedure.interval(likely, nats)
    return max(centre - low, 0.0), max(high - centre, 0.0)


_LIKELY = np.array([[1, 4, 3, 4, 3, 2, 1], [1, 4, 3, 3, 4, 1, 2]])
_LIKELY_SHARES = np.array([0.78, 0.13, 0.04, 0.0125, 0.0125, 0.0125, 0.0125])
"""Pairs of outcomes of two models that differ on one row in twenty, by code, and their shares."""
