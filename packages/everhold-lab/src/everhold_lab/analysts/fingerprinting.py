"""The tracer: reads off from answers to random queries what the sealed labels are, and goes where they point."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from everhold_lab.analysts.base import Analyst, Board, Claim, Vote, scores_of_votes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FingerprintingAnalyst(Analyst):
    """An interactive fingerprinting attack: every answer is correlated with what it was asked about.

    What a query predicts for a row is the row's letter in a random code word. An answer ``a`` to the query with
    letters ``q`` says how much the sealed labels agree with ``q``, so each row's label is traced by the sum of
    ``(a - 1/2) q`` over all queries so far, and the row is predicted by the sign of its sum. As ``q`` is made of
    rules, so is the sum: the trace is a vote. In each of several rounds the analyst asks

    1. the next rules, which are fresh independent code words; their weight is ``a - 1/2``;
    2. the trace of all answers so far, which is the claim;
    3. random votes that are correlated with it: the trace plus a random direction of the same length through all rules
       of the board, also through those that were not asked about. All of them share the trace, so the direction
       is weighted by ``a`` less the mean of these answers.

    The claim after the last round is asked once more, with everything.

    How this differs from the papers: they trace *which rows* are in the sample, with code words that are biased
    by a random share of ones, score each row by name, and take rows that were accused out of later queries; with that
    they prove that no efficient mechanism answers more than about n^2 queries. A board tells no row apart and its
    rows' labels are fair coins. So here the *labels* are traced, the code words are fair, the scores of the rows exist
    only as a vote, and later queries depend on earlier answers through step 3 and not through accusations.

    Attributes:
        votes_per_round: Correlated random votes in each round.

    Source: after Hardt and Ullman 2014 and Steinke and Ullman 2015 (interactive fingerprinting codes); the final vote
    is the linear reconstruction of Dinur and Nissim 2003.
    """

    rounds: int = 4
    votes_per_round: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds is {self.rounds}; expected at least 1")
        if self.votes_per_round < 0:
            raise ValueError(f"votes_per_round is {self.votes_per_round}; expected at least 0")

    @property
    def votes(self) -> int:
        """Votes that are asked, beside all rules of the board."""
        return self.rounds * (1 + self.votes_per_round) + 1

    def play(self, board: Board) -> Iterator[Claim]:
        """One claim for the trace of each round, and one at the end."""
        rng = np.random.default_rng(self.seed)
        trace, votes = np.zeros(board.rules), 0
        ends = np.linspace(0, board.rules, self.rounds + 1).astype(int).tolist()
        for first, last in pairwise(ends):
            trace[first:last] += _agreement(board.score_rules(first, last, guess=None), 0.5)
            yield self._claim(board, trace, last + votes)
            trace = trace + self._from_correlated_votes(board, trace, rng)
            votes += 1 + self.votes_per_round
        yield self._claim(board, trace, board.rules + votes)

    def _claim(self, board: Board, trace: NDArray[np.float64], asked: int) -> Claim:
        vote = Vote(trace.copy(), 0.0)
        return Claim(queries=asked + 1, vote=vote, score=board.score_vote(vote))

    def _from_correlated_votes(
        self, board: Board, trace: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Contribution of random votes around the trace, shape (rules,)."""
        directions = rng.normal(size=(self.votes_per_round, board.rules))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        length = float(np.linalg.norm(trace)) or 1.0
        answers = scores_of_votes(board, [Vote(trace + length * way, 0.0) for way in directions])
        known = answers[~np.isnan(answers)]
        shared = float(np.mean(known)) if len(known) else 0.5
        return np.asarray(_agreement(answers, shared) @ directions, dtype=np.float64)


def _agreement(answers: NDArray[np.float64], usual: float) -> NDArray[np.float64]:
    """Excess of answers over the usual; 0 where refused."""
    return np.where(np.isnan(answers), 0.0, answers - usual)
