"""Interval of the gain in a ratio of two means of outcomes, such as F1, from the counts of pairs of outcomes (Lemma R).

Each row has an outcome for each of two models: a fault, a true negative, a false positive, a false negative or a true
positive. Numerator and denominator of the ratio follow from the outcome. Rows are independent, so the 25 counts of
pairs are all that the bets need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from everhold.guarantees.intervals.base import CELLS, Cells, Needs, Procedure
from everhold.guarantees.intervals.claims import GateClaim
from everhold.guarantees.intervals.ratio_claims import RatioUnits

__all__ = ["OUTCOMES", "RATIOS", "RatioDifference", "RatioGain", "outcome_codes"]

OUTCOMES = ("fault", "true negative", "false positive", "false negative", "true positive")
"""Outcomes of a row, by their codes from 0."""

RATIOS = {
    "f1": ((0.0, 0.0, 0.0, 0.0, 1.0), (1.0, 0.0, 0.5, 0.5, 1.0)),
    "precision": ((0.0, 0.0, 0.0, 0.0, 1.0), (1.0, 0.0, 1.0, 0.0, 1.0)),
    "recall": ((0.0, 0.0, 0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 1.0, 1.0)),
}
"""By score: numerator and denominator in [0, 1] by the code of the outcome; a fault counts as the worst."""

_STEPS = 16  # of a bisection of the gain


def outcome_codes(values: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
    """Codes of outcomes, shape (rows,).

    Args:
        values: Shape (rows,): row values ``code / 4`` in grid units.
        unit: Grid steps between 0 and 1.
    """
    return np.asarray((values * (len(OUTCOMES) - 1) + unit // 2) // unit)


@dataclass(frozen=True)
class RatioGain(Procedure):
    """Bets on the gain of a ratio over that of another model; one-sided, so the upper end is always 1.

    Attributes:
        score: Name of the ratio, one of `RATIOS`.
        rows: Sealed rows.

    Examples:
        >>> better = RatioGain("f1", 20_000)
        >>> outcomes = np.repeat([4, 3, 1], [3_000, 1_000, 16_000])  # F1 .857
        >>> champion = np.repeat([4, 3, 1], [2_000, 2_000, 16_000])  # F1 .667
        >>> low, high = better.interval(better.cells(outcomes, champion), 11.0)
        >>> round(2 * low - 1, 3), high
        (0.159, 1.0)
    """

    score: str
    rows: int

    name: ClassVar[str] = "ratio_gain"
    title: ClassVar[str] = "betting on the gain at each ratio that the other model may have"
    needs: ClassVar[Needs] = "cells"
    why: ClassVar[str] = (
        "at the true ratio of the other model, fair bets on it and on the paired mean gain that much with this "
        "probability at most"
    )

    @staticmethod
    def paired(challenger: NDArray[np.int64], champion: NDArray[np.int64], *, unit: int) -> NDArray[np.int64]:
        """Pairs of outcomes as row values in grid units, each in a different cell.

        Args:
            challenger: Shape (rows,): codes of outcomes as values ``code / 4`` in grid units.
            champion: The same.
            unit: Grid steps between 0 and 1.
        """
        kinds = len(OUTCOMES)
        codes = [outcome_codes(values, unit) for values in (challenger, champion)]
        return np.asarray((2 * (kinds * codes[0] + codes[1]) + 1) * unit // (2 * kinds**2))

    @staticmethod
    def cells(challenger: NDArray[np.int64], champion: NDArray[np.int64]) -> Cells:
        """Counts of pairs of outcomes, given by their codes, shape (rows,)."""
        counts = np.bincount(_CELL_OF_PAIR[len(OUTCOMES) * challenger + champion], minlength=CELLS)
        return Cells(counts.astype(np.int64), np.zeros(CELLS, dtype=np.int64), CELLS)

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; a mean stands for the gain, as ``(1 + gain) / 2``."""
        low, high = -1.0, 1.0  # a gain that is proved proves all smaller ones
        for _ in range(_STEPS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.proves(seen, middle, nats + math.log(2.0)) else (low, middle)
        return (1.0 + low) / 2.0, 1.0

    def proves(self, seen: Cells, gain: float, nats: float) -> bool:
        """True if the gain is proved to be above a number.

        Args:
            seen: Counts of pairs of outcomes.
            gain: In (-1, 1).
            nats: ln(1 / level), on one side.
        """
        top, bottom = (np.array(part) for part in RATIOS[self.score])
        own, other = np.divmod(np.arange(len(_CELL_OF_PAIR)), len(OUTCOMES))
        units = RatioUnits(
            np.stack([top[own], top[other], bottom[own], bottom[other]]), np.ones(len(own)), (0.0, 1.0), (0.0, 1.0),
            lower=False, largest=1.0, spent=np.zeros(len(own), dtype=bool), most_floor=1.0,
            counts=np.asarray(seen.counts[_CELL_OF_PAIR], dtype=np.float64),
        )  # fmt: skip
        claim = GateClaim(self.score, gain, ratio=True)
        return units.first_look(claim, planned=self.rows, nats=nats, looks=[len(own)]) == 0

    def gain(self, seen: Cells) -> float:
        """The gain on the sealed rows; 0 where a ratio has no row below."""
        top, bottom = (np.array(part) for part in RATIOS[self.score])
        counts = seen.counts[_CELL_OF_PAIR].reshape(len(OUTCOMES), len(OUTCOMES))
        ratios = [of @ top / max(of @ bottom, 1e-300) for of in (counts.sum(axis=1), counts.sum(axis=0))]
        return float(ratios[0] - ratios[1])

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`: nothing is known beforehand."""
        return 0.0, 1.0

    def standard_error(self, guess: float) -> float:
        """See `Procedure.standard_error`: no gain is guessed."""
        return 0.5

    @property
    def worth(self) -> float:
        """See `Procedure.worth`: rows are as many as there are."""
        return float(self.rows)


@dataclass(frozen=True)
class RatioDifference(RatioGain):
    """Bets on the gain from both sides: the interval of a difference in F1, precision or recall.

    Attributes:
        planned: Counts of the pairs of outcomes of the training rows by cell; None where predictions are unknown.
    """

    planned: tuple[int, ...] | None = field(default=None, repr=False)

    name: ClassVar[str] = "ratio_difference"
    title: ClassVar[str] = "betting on the difference at each ratio that either model may have"
    needs: ClassVar[Needs] = "statistic"

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; half of the level on either side."""
        low, _ = RatioGain.interval(self, seen, nats)
        least, _ = RatioGain.interval(self, _exchanged(seen), nats)
        return low, 1.0 - least

    def expected(self, guess: float, nats: float) -> tuple[float, float]:
        """See `Procedure.expected`: as wide as for the training rows' outcomes, or for two models much alike."""
        below, above = _ends_around(self.score, self.rows, self.planned, nats)
        return max(guess - below, 0.0), min(guess + above, 1.0)

    def standard_error(self, guess: float) -> float:
        """See `Procedure.standard_error`: by the influence of a row on both ratios."""
        trained = self.rows if self.planned is None else max(sum(self.planned), 1)
        return 0.5 * math.sqrt(self._variance * (1.0 / self.rows + 1.0 / trained))

    @property
    def worth(self) -> float:
        """See `Procedure.worth`."""
        return self.rows / max(self._variance, 1e-300)

    @cached_property
    def _variance(self) -> float:
        """Variance of the influence of a row on the difference."""
        counts = _likely_counts(self.rows, self.planned).counts[_CELL_OF_PAIR]
        top, bottom = (np.array(part) for part in RATIOS[self.score])
        shares = counts / counts.sum()
        influence = np.zeros(len(shares))
        for sign, outcome in zip((1.0, -1.0), np.divmod(np.arange(len(shares)), len(OUTCOMES)), strict=True):
            below = max(float(shares @ bottom[outcome]), 1e-9)
            ratio = float(shares @ top[outcome]) / below
            influence += sign * (top[outcome] - ratio * bottom[outcome]) / below
        return float(shares @ influence**2)


def _likely_counts(rows: int, planned: tuple[int, ...] | None) -> Cells:
    """Counts of pairs of outcomes to plan with: those of training rows as parts of so many sealed ones."""
    if planned is None:
        counts = np.zeros(CELLS)
        counts[_CELL_OF_PAIR[len(OUTCOMES) * _LIKELY[0] + _LIKELY[1]]] = rows * _LIKELY_SHARES
    else:
        counts = np.array(planned, dtype=np.float64) * (rows / max(sum(planned), 1))
    return Cells(counts, np.zeros(CELLS), CELLS)


@lru_cache(maxsize=256)
def _ends_around(score: str, rows: int, planned: tuple[int, ...] | None, nats: float) -> tuple[float, float]:
    """Distances of both ends of the interval from the difference of the planned counts."""
    likely, procedure = _likely_counts(rows, planned), RatioDifference(score, rows)
    centre = (1.0 + procedure.gain(likely)) / 2.0
    low, high = procedure.interval(likely, nats)
    return max(centre - low, 0.0), max(high - centre, 0.0)


def _exchanged(seen: Cells) -> Cells:
    """The same counts with the two models exchanged."""
    counts: NDArray[Any] = np.array(seen.counts)
    kinds = len(OUTCOMES)
    counts[_CELL_OF_PAIR] = seen.counts[_CELL_OF_PAIR].reshape(kinds, kinds).T.ravel()
    return Cells(counts, seen.sums, seen.unit)


_LIKELY = np.array([[1, 4, 3, 4, 3, 2, 1], [1, 4, 3, 3, 4, 1, 2]])
_LIKELY_SHARES = np.array([0.78, 0.13, 0.04, 0.0125, 0.0125, 0.0125, 0.0125])
"""Pairs of outcomes of two models that differ on one row in twenty, by code, and their shares."""

_CELL_OF_PAIR = ((2 * np.arange(len(OUTCOMES) ** 2) + 1) * CELLS) // (2 * len(OUTCOMES) ** 2)
"""Cell of each pair of outcomes."""
