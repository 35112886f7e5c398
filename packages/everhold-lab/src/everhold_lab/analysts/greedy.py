"""The greedy selector: score all rules, then let those vote that raise the reported score most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.analysts.base import Analyst, Board, Claim, Vote, scores_of_votes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GreedySelectionAnalyst(Analyst):
    """Greedy forward selection of features by their score on the holdout.

    First every rule is scored. Then rules join the vote one at a time, with a voice as strong as their score is far
    from 1/2, and against what they say where it is below. At each step the vote is asked anew with each of the next few
    rules in order of strength, and the one with the highest reported score joins. The others are tried again at the
    next step.

    It overfits twice: rules are sorted by their luck on the sealed rows, and among them those are taken that correct
    the vote exactly where it is still wrong about these rows.

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
        """One claim for the strongest rule, then one each time another one joins the vote."""
        scores = board.score_rules(0, board.rules, guess=None)
        luck = np.where(np.isnan(scores), 0.0, scores - 0.5)
        waiting = [int(rule) for rule in np.argsort(-np.abs(luck), kind="stable") if luck[rule] != 0.0]
        if not waiting:
            return
        vote, tried = _joined(Vote(np.zeros(0), 0.0), waiting[0], luck), 0
        yield Claim(queries=board.rules, vote=vote, score=0.5 + abs(float(luck[waiting.pop(0)])))
        while waiting and tried < self.most_tries:
            ballot = waiting[: min(self.width, self.most_tries - tried)]
            votes = [_joined(vote, rule, luck) for rule in ballot]
            answers = scores_of_votes(board, votes)
            tried += len(ballot)
            if np.all(np.isnan(answers)):
                return
            best = int(np.nanargmax(answers))
            del waiting[best]
            vote = votes[best]
            yield Claim(queries=board.rules + tried, vote=vote, score=float(answers[best]))


def _joined(vote: Vote, rule: int, strengths: NDArray[np.float64]) -> Vote:
    """The vote with one more voice."""
    weights = np.zeros(max(len(vote.weights), rule + 1))
    weights[: len(vote.weights)] = vote.weights
    weights[rule] = strengths[rule]
    return Vote(weights, vote.threshold)
