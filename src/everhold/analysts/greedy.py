"""The greedy selector: score all rules, then let those vote that make the reported score go up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold.analysts.base import Analyst, Board, Claim, Vote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["GreedySelectionAnalyst"]


@dataclass(frozen=True, slots=True)
class GreedySelectionAnalyst(Analyst):
    """Greedy forward selection of features by their score on the holdout.

    First every rule is scored. The strongest speaks first, and then one rule at a time joins the vote, with one voice
    for what it says or against it, whichever side of 1/2 it scored on. At each step the next few rules in order of
    strength are tried: the vote with each of them is asked, and the one with the highest reported score joins if it
    does not lower the score. Losers of a step in which a rule joined are tried again; where none joins, all of them are
    put aside.

    It overfits twice: rules are sorted by their luck on the sealed rows, and each one that joins corrects the vote
    exactly where it was still wrong about them. Voices of one size make a ballot that no linear learner would choose,
    but that is what searches for features do.

    Attributes:
        most_tries: Votes that are asked at most.
        width: Rules that are tried in each step.

    Source: forward selection, with the sorted start of the feature selection experiment of Dwork et al. 2015 (Science).
    """

    most_tries: int
    width: int = 2

    def __post_init__(self) -> None:
        for name in ("most_tries", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")

    def play(self, board: Board) -> Iterator[Claim]:
        """One claim for the strongest rule, then one each time a rule joins the vote."""
        scores = board.score_rules(0, board.rules, guess=None)
        luck = np.where(np.isnan(scores), 0.0, scores - 0.5)
        waiting = [int(rule) for rule in np.argsort(-np.abs(luck), kind="stable") if luck[rule] != 0.0]
        if not waiting:
            return
        voices = luck
        vote, tried = _joined(Vote(np.zeros(0), 0.0), waiting[0], voices), 0
        reported = 0.5 + abs(float(luck[waiting.pop(0)]))
        yield Claim(questions=board.rules, vote=vote, score=reported)
        while waiting and tried < self.most_tries:
            ballot = waiting[: min(self.width, self.most_tries - tried)]
            votes = [_joined(vote, rule, voices) for rule in ballot]
            answers = np.array([board.score_vote(candidate) for candidate in votes])
            tried += len(ballot)
            if np.all(np.isnan(answers)):
                return
            best = int(np.nanargmax(answers))
            del waiting[best]
            vote, reported = votes[best], float(answers[best])
            yield Claim(questions=board.rules + tried, vote=vote, score=reported)


def _joined(vote: Vote, rule: int, voices: NDArray[np.float64]) -> Vote:
    """The vote with one more voice."""
    weights = np.zeros(max(len(vote.weights), rule + 1))
    weights[: len(vote.weights)] = vote.weights
    weights[rule] = voices[rule]
    return Vote(weights, vote.threshold)
