"""Gains of one model over another in a score of outcomes, from the counts of pairs of outcomes.

Each row has an outcome for each of two models: a true negative, a false positive, a false negative or a true positive.
A row on which a model fails has the outcome of the other class (`everhold.values.failing_rows`), so both models meet
the same label. Rows are independent, so the counts of pairs are all that the bets need.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from everhold.guarantees.intervals.base import CELLS, Cells, Needs, Procedure

OUTCOMES = ("none", "true negative", "false positive", "false negative", "true positive")
"""Outcomes of a row, by their codes; no row has the code 0."""

_STEPS = 16  # of a bisection of the gain
_CELL_OF_PAIR = ((2 * np.arange(len(OUTCOMES) ** 2) + 1) * CELLS) // (2 * len(OUTCOMES) ** 2)


def outcome_codes(values: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
    """Codes of outcomes, shape (rows,).

    Args:
        values: Shape (rows,): row values ``code / 4`` in grid units.
        unit: Grid steps between 0 and 1.
    """
    return np.asarray((values * (len(OUTCOMES) - 1) + unit // 2) // unit)


def counts_of_pairs(seen: Cells) -> NDArray[np.float64]:
    """Counts of pairs of outcomes, shape (outcomes of the first model, outcomes of the second one)."""
    return np.asarray(seen.counts[_CELL_OF_PAIR], dtype=np.float64).reshape(len(OUTCOMES), len(OUTCOMES))


def cells_of_pairs(counts: NDArray[np.float64] | NDArray[np.int64]) -> Cells:
    """The inverse of `counts_of_pairs`."""
    cells = np.zeros(CELLS)
    cells[_CELL_OF_PAIR] = counts.ravel()
    return Cells(cells, np.zeros(CELLS), CELLS)


@dataclass(frozen=True)
class OutcomeGain(Procedure):
    """Bets on the gain in a score over that of another model; one-sided, so the upper end is always 1.

    Attributes:
        rows: Sealed rows, or as many as are expected to count.
    """

    score: str
    rows: int

    needs: ClassVar[Needs] = "cells"
    of_all_rows: ClassVar[bool] = False  # a difference of ratios, of however few rows

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
        kinds = len(OUTCOMES)
        return cells_of_pairs(np.bincount(kinds * challenger + champion, minlength=kinds**2).astype(np.int64))

    @abstractmethod
    def proves(self, seen: Cells, gain: float, nats: float) -> bool:
        """True if the gain is proved to be above a number; then it is for all smaller ones.

        Args:
            seen: Counts of pairs of outcomes.
            gain: In (-1, 1).
            nats: ln(1 / level), on one side.
        """

    @abstractmethod
    def gain(self, seen: Cells) -> float:
        """The gain on the sealed rows; 0 where a score has no row below."""

    def interval(self, seen: Cells, nats: float) -> tuple[float, float]:
        """See `Procedure.interval`; a mean stands for the gain, as ``(1 + gain) / 2``."""
        low, high = -1.0, 1.0
        for _ in range(_STEPS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.proves(seen, middle, nats + math.log(2.0)) else (low, middle)
        return (1.0 + low) / 2.0, 1.0

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
