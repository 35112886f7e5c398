"""The honest analyst: a list of queries that is written down before the first answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.analysts.base import Analyst, Board, Claim, Vote

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class HonestAnalyst(Analyst):
    """Scores every rule once, in an order fixed in advance, and claims the best one.

    Choosing the best of many noisy scores is already a mild form of overfitting, and the only one this analyst commits.
    """

    def play(self, board: Board) -> Iterator[Claim]:
        """One claim at the end, for the rule with the highest score."""
        scores = board.score_rules(0, board.rules, guess=None)
        if bool(np.all(np.isnan(scores))):
            return
        best = int(np.nanargmax(scores))
        weights = np.zeros(best + 1)
        weights[best] = 1.0
        yield Claim(queries=board.rules, vote=Vote(weights, 0.0), score=float(scores[best]))
