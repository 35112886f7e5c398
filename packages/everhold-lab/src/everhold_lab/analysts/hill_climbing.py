"""The hill climber: score random rules, believe the scores, let the rules vote, repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.analysts.base import Analyst, Board, Claim, Vote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_SUREST = 0.99  # a rule that scored 1 does not outvote all others


@dataclass(frozen=True, slots=True)
class HillClimbingAnalyst(Analyst):
    """The boosting attack: every random rule votes with the log-odds of its score, round after round.

    On exact scores the vote learns the sealed labels themselves: with k rules and n rows it separates them like a
    signal of strength ``sqrt(k / n)``, although no rule knows anything about the population. Nobody has to mean harm:
    to score many, keep what scored well, combine, and report the best is what leaderboards and automatic searches do.

    Attributes:
        rules_per_round: Rules that are scored between two votes.
        log_odds: ln(P[no] / P[yes]) of the label, as known beforehand; 0 for a fair label.
        guess: Sent along with every rule; None leaves guessing to the training rows. At the edge of what a mechanism
            confirms, every confirmation tells on which side the sealed score lies.

    Source: the boosting attack of Blum and Hardt 2015 (The Ladder), with weights in place of a majority.
    """

    rules_per_round: int
    log_odds: float = 0.0
    guess: float | None = None

    def __post_init__(self) -> None:
        if self.rules_per_round < 1:
            raise ValueError(f"rules_per_round is {self.rules_per_round}; expected at least 1")

    def play(self, board: Board) -> Iterator[Claim]:
        """One claim for "always no", then one for each round's vote of all rules so far."""
        weights = np.zeros(0)
        votes = 0
        while True:
            vote = Vote(weights, self.log_odds)
            votes += 1
            yield Claim(queries=len(weights) + votes, vote=vote, score=board.score_vote(vote))
            if len(weights) >= board.rules:
                return
            last = min(len(weights) + self.rules_per_round, board.rules)
            scores = board.score_rules(len(weights), last, guess=self.guess)
            weights = np.concatenate([weights, log_odds(scores)])


def log_odds(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight of a rule with this score; 0 for a refused score."""
    known = np.clip(np.where(np.isnan(scores), 0.5, scores), 1.0 - _SUREST, _SUREST)
    return np.asarray(np.log(known / (1.0 - known)), dtype=np.float64)
