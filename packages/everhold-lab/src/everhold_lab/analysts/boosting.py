"""The booster: submit random labellings, keep those that look better than chance, let them vote by majority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.analysts.base import Analyst, Board, Claim, Vote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_CHANCE = 0.5


@dataclass(frozen=True, slots=True)
class BoostingAnalyst(Analyst):
    """The boosting attack as published: a majority of all random labellings whose shown score is above 1/2.

    All rules of the board are submitted at once, so that this is the least adaptive attack of all: only the last
    submission depends on answers. On exact scores of fair labels the vote of k rules scores about
    ``1/2 + sqrt(k / (2 n)) / pi`` for k much less than the n rows.

    Where the board shows the best score so far, as a Ladder does, every submission after a lucky one seems better than
    chance. ``improving`` keeps only those with which the board went up.

    Attributes:
        improving: Keep a submission only if its shown score also beats all shown before; for boards of the best so far.

    Source: Blum and Hardt 2015 (The Ladder), section 4; a score of exactly 1/2 does not vote, a tie is a no.
    """

    improving: bool = False

    def play(self, board: Board) -> Iterator[Claim]:
        """One claim: the majority of what was kept."""
        scores = board.score_rules(0, board.rules, guess=None)
        vote = Vote(self._kept(scores).astype(np.float64), 0.0)
        yield Claim(queries=board.rules + 1, vote=vote, score=board.score_vote(vote))

    def _kept(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Rules that vote; none that was refused."""
        if not self.improving:
            return np.asarray(scores > _CHANCE)
        best = np.fmax.accumulate(np.concatenate([[np.nan], scores]))[:-1]
        return np.asarray(scores > np.where(np.isnan(best), _CHANCE, best))
